/* Memory for texts and lists that live together and are freed at once. They are small, as in base/small.h. */
#pragma once

#include <stddef.h>

#include "circe/export.h"

typedef struct arena {
    struct arena_block *last;
} arena;

void *arena_alloc(arena *owner, size_t bytes); /* zeroed */
/* The same for an array of data; NULL: there is no memory for it. */
void *arena_try(arena *owner, size_t bytes);
char *arena_text(arena *owner, const char *text);
char *arena_format(arena *owner, const char *format, ...) CIRCE_PRINTF(2, 3);
void arena_free(arena *owner);
