/* A whole file in memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/rooms.h"

typedef struct circe__mapped {
    void *data; /* this process's own copy */
    size_t bytes;
    size_t mapped_bytes; /* of the mapping, which may be longer */
    bool plain;          /* the path is a plain file, not a pipe or a device */
} circe__mapped;

enum { CIRCE__CUT_SHORT = -1 }; /* the file became shorter on the way */

/* 0, an errno, or CIRCE__CUT_SHORT; circe__map_problem says it in words. A directory is EISDIR. */
CIRCE_ROOMS int circe__map_file(const char *path, circe__mapped *file);
CIRCE_ROOMS const char *circe__map_problem(int problem);
CIRCE_ROOMS void circe__unmap(circe__mapped *file);
