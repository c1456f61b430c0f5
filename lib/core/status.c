/* Status names and texts, and the thread-local text of the last error. */
#include "circe/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"

static _Thread_local char last_error[1024];

const char *circe_status_text(circe_status status) {
    switch (status) {
#define TEXT(name, number, text) \
    case CIRCE_##name:           \
        return text;
        CIRCE_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "unknown status";
}

const char *circe_status_name(circe_status status) {
    switch (status) {
#define NAME(name, number, text) \
    case CIRCE_##name:           \
        return "CIRCE_" #name;
        CIRCE_STATUS_MAP(NAME)
#undef NAME
    }
    return "CIRCE_UNKNOWN";
}

const char *circe_last_error(void) { return last_error; }

/* A text may quote a file, and is shown on a terminal. */
circe_status circe__fail(circe_status status, const char *format, ...) {
    char text[sizeof last_error];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    circe__visible(text, strlen(text), false, last_error, sizeof last_error);
    return status;
}
