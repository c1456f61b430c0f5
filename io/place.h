/* Where the bytes of a source are.
 *
 * A plain file is read where it is. What comes through a pipe can be read once only, and what gzip packed cannot be
 * read in pieces: both are brought into a file of memory first, and from there on are plain files too. */
#ifndef IO_PLACE_H
#define IO_PLACE_H

#include <stdbool.h>

#include "circe/status.h"

typedef struct io__place {
    char path[64];    /* of the file of memory; "": the source's own */
    const char *file; /* what to open */
    int descriptor;   /* of the file of memory, where it goes with the place; -1: none */
    bool plain;       /* the source's own file, as it is */
} io__place;

/* `path` "-" is standard input. What cannot be opened is left for its reader to explain. */
circe_status io__place_open(const char *path, io__place *place);
void io__place_close(io__place *place);

/* "-", or "-:SELECTION". */
bool io_is_standard_input(const char *source);

/* From now on, what came through a pipe is kept for whoever reads it again: for a program that reads its input once. */
void io_keep_pipes(void);

#endif
