/* Status names and texts, and the thread-local text of the last error. */
#include "circe/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"

static _Thread_local char last_error[2048];

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
CIRCE_PRINTF(2, 0)
static void add_visible(size_t at, const char *format, va_list arguments) {
    char text[sizeof last_error];
    vsnprintf(text, sizeof text, format, arguments);
    circe__visible(text, strlen(text), false, last_error + at, sizeof last_error - at);
}

circe_status circe_fail(circe_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_visible(0, format, arguments);
    va_end(arguments);
    return status;
}

circe_status circe_fail_hint(circe_status status, const char *format, ...) {
    size_t length = strlen(last_error);
    if (length + 2 >= sizeof last_error) return status;
    va_list arguments;
    va_start(arguments, format);
    last_error[length] = '\n';
    add_visible(length + 1, format, arguments);
    va_end(arguments);
    return status;
}
