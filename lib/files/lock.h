/* Ensures that one process at a time writes to a file or folder. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "core/rooms.h"

typedef struct circe__lock {
    int descriptor; /* -1: nothing is held */
    char path[PATH_MAX];
} circe__lock;

/* 0; EBUSY if another process holds it, with its number in *holder (0: not known); or another errno. 0 as well for
 * anything that is not a plain file or folder, or is on a file system without locks. */
CIRCE_ROOMS int circe__lock_take(circe__lock *lock, const char *path, pid_t *holder);
CIRCE_ROOMS void circe__lock_release(circe__lock *lock); /* takes one that holds nothing */
