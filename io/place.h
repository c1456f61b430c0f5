/* Finds the bytes of a source.
 *
 * A plain file is read where it is. A pipe can be read only once, and a gzip file cannot be read in pieces, so both are
 * first copied into an in-memory file and are plain files from then on. */
#pragma once

#include <stdbool.h>

#include "circe/status.h"

typedef struct io__place {
    char path[64];    /* of the file of memory; "": the source's own */
    const char *file; /* what to open */
    int descriptor;   /* of the file of memory, where it goes with the place; -1: none */
    bool plain;       /* the source's own file, as it is */
} io__place;

/* `path` "-" is standard input. If a file cannot be opened, its reader reports that. */
circe_status io__place_open(const char *path, io__place *place);
void io__place_close(io__place *place);

/* "-", or "-:SELECTION". */
bool io_is_standard_input(const char *source);

/* From now on, keeps the contents of pipes for later readers, in a program that reads its input only once. */
void io_keep_pipes(void);
