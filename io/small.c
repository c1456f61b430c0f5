#include "io/small.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void *had(void *block) {
    if (block == NULL) abort();
    return block;
}

void *small_alloc(size_t bytes) { return had(calloc(1, bytes > 0 ? bytes : 1)); }

void *small_grow(void *block, size_t bytes) { return had(realloc(block, bytes)); }

char *small_format(const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    return had(length >= 0 ? text : NULL);
}
