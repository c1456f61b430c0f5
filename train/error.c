#include "train/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"

static _Thread_local char text[1024];

circe_status train_fail(circe_status status, const char *format, ...) {
    char raw[sizeof text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(raw, sizeof raw, format, arguments);
    va_end(arguments);
    circe__visible(raw, strlen(raw), false, text, sizeof text);
    return status;
}

circe_status train_pass(circe_status status) {
    return status == CIRCE_OK ? CIRCE_OK : train_fail(status, "%s", circe_last_error());
}

const char *train_last_error(void) { return text; }
