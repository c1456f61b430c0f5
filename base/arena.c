#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/small.h"

struct arena_block {
    struct arena_block *before;
    max_align_t data[];
};

static void *add(arena *owner, struct arena_block *block) {
    if (block == NULL) return NULL;
    block->before = owner->last;
    owner->last = block;
    return block->data;
}

void *arena_alloc(arena *owner, size_t bytes) { return add(owner, small_alloc(sizeof(struct arena_block) + bytes)); }

void *arena_try(arena *owner, size_t bytes) { return add(owner, calloc(1, sizeof(struct arena_block) + bytes)); }

char *arena_text(arena *owner, const char *text) { return arena_format(owner, "%s", text); }

char *arena_format(arena *owner, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    char *text = arena_alloc(owner, (size_t)(length > 0 ? length : 0) + 1);
    if (length > 0) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return text;
}

void arena_free(arena *owner) {
    while (owner->last != NULL) {
        struct arena_block *before = owner->last->before;
        free(owner->last);
        owner->last = before;
    }
}
