/* Writing a file whole or not at all: beside, synced, renamed. */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>

#include "core/rooms.h"

/* The functions return 0 or an errno, because only the caller knows what an error message should say. They allocate
 * nothing, so that there is one way less to fail. */
typedef struct circe__atomic {
    int descriptor;
    char target[PATH_MAX];    /* symbolic links resolved: a link stays, the file behind it is replaced */
    char temporary[PATH_MAX]; /* empty if the target is not a plain file and is written directly */
} circe__atomic;

/* After a failed open the object holds nothing. After a successful one, exactly one of commit and abandon follows. */
CIRCE_ROOMS int circe__atomic_open(circe__atomic *file, const char *path);
CIRCE_ROOMS int circe__atomic_write(circe__atomic *file, const void *data, size_t bytes);

/* Syncs and moves the file into place. On failure the target is as it was and the temporary file is gone. */
CIRCE_ROOMS int circe__atomic_commit(circe__atomic *file);
CIRCE_ROOMS void circe__atomic_abandon(circe__atomic *file);

/* Removes from a directory the files that killed processes were writing there. Every open does this in its own
 * directory. */
CIRCE_ROOMS void circe__sweep(const char *directory);
