#include "io/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *before;
    max_align_t data[];
};

void *arena_alloc(arena *owner, size_t bytes) {
    struct arena_block *block = calloc(1, sizeof *block + bytes);
    owner->failed |= block == NULL;
    if (block == NULL) return NULL;
    block->before = owner->last;
    owner->last = block;
    return block->data;
}

char *arena_text(arena *owner, const char *text) { return arena_format(owner, "%s", text); }

char *arena_format(arena *owner, const char *format, ...) {
    static char nothing[1];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    char *text = length >= 0 ? arena_alloc(owner, (size_t)length + 1) : NULL;
    if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    owner->failed |= text == NULL;
    return text != NULL ? text : nothing;
}

void arena_free(arena *owner) {
    while (owner->last != NULL) {
        struct arena_block *before = owner->last->before;
        free(owner->last);
        owner->last = before;
    }
}
