/* A whole file in memory. */
#ifndef CIRCE_FILES_MAPPED_H
#define CIRCE_FILES_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct circe__mapped {
    void *data; /* read only; NULL where the file is empty */
    size_t bytes;
    size_t mapped_bytes; /* of the mapping, which may be longer */
    bool plain;          /* the path is a plain file, not a pipe or a device */
} circe__mapped;

/* 0 or an errno. A directory is EISDIR. */
int circe__map_file(const char *path, circe__mapped *file);
void circe__unmap(circe__mapped *file);

#endif
