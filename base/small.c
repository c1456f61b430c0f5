#include "base/small.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { RESERVE_BYTES = 1 << 20 };

static _Atomic(void *) reserve;
static atomic_uint shortages;

/* Releases the reserve. Returns whether another attempt may succeed. */
static bool give_up_reserve(void) {
    void *block = atomic_exchange(&reserve, NULL);
    atomic_fetch_add(&shortages, 1);
    free(block);
    return block != NULL;
}

void *small_alloc(size_t bytes) {
    void *block = NULL;
    while ((block = calloc(1, bytes > 0 ? bytes : 1)) == NULL)
        if (!give_up_reserve()) abort();
    return block;
}

void *small_grow(void *block, size_t bytes) {
    void *grown = NULL;
    while ((grown = realloc(block, bytes > 0 ? bytes : 1)) == NULL)
        if (!give_up_reserve()) abort();
    return grown;
}

char *small_format(const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    char *text = small_alloc((size_t)(length > 0 ? length : 0) + 1);
    if (length > 0) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return text;
}

circe_status small_begin(unsigned *mark) {
    void *none = NULL, *block = atomic_load(&reserve) == NULL ? malloc(RESERVE_BYTES) : NULL;
    *mark = atomic_load(&shortages);
    if (block != NULL && !atomic_compare_exchange_strong(&reserve, &none, block)) free(block);
    if (atomic_load(&reserve) != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory");
}

circe_status small_end(unsigned mark, circe_status status) {
    if (status != CIRCE_OK || atomic_load(&shortages) == mark) return status;
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory");
}
