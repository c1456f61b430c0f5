/* Memory of texts and lists that live together and are freed all at once. A request that cannot be met is noted:
 * whoever fills an arena asks at the end whether all of it is there. */
#ifndef IO_ARENA_H
#define IO_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "circe/export.h"

typedef struct arena {
    struct arena_block *last;
    bool failed; /* some request */
} arena;

void *arena_alloc(arena *owner, size_t bytes); /* zeroed; NULL where there is no memory */

/* Texts are "" where there is no memory. */
char *arena_text(arena *owner, const char *text);
char *arena_format(arena *owner, const char *format, ...) CIRCE_PRINTF(2, 3);

void arena_free(arena *owner);

#endif
