/* Extended Yale-B (Georghiades, Belhumeur and Kriegman, 2001; Lee, Ho and Kriegman, 2005): photographs of 28 people in
 * 9 poses under 64 lamps, as files named for all of that. Read from the published folder, or rendered (faces.h). */
#pragma once

#include "circe/circe.h"
#include "images/faces.h"
#include "train/source.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* yaleB11_P00A+000E+00.pgm */
typedef struct yaleb_name {
    int identity, pose;     /* 0 to 99, 0 to 8 */
    int azimuth, elevation; /* of the lamp, degrees: -180 to 180, -90 to 90 */
} yaleb_name;

typedef enum yaleb_kind {
    YALEB_OTHER,   /* not of the set, as a list or a note beside it */
    YALEB_PICTURE, /* under one lamp */
    YALEB_AMBIENT, /* yaleB11_P00_Ambient.pgm: under the light of the room */
    YALEB_BAD,     /* yaleB11_P00A+000E+00.pgm.bad: damaged when it was taken */
    YALEB_WRONG,   /* begins and ends as a picture, and has no such name */
} yaleb_kind;

enum { YALEB_NAME_BYTES = 32 };

/* What a file is, by its name without the folder; *name is set for pictures. */
yaleb_kind yaleb_parse_name(const char *file, yaleb_name *name);
/* The name of a rendered head, from faces_numbers and faces_lights. */
yaleb_name yaleb_name_of(int64_t identity, int pose, int light);
void yaleb_format_name(const yaleb_name *name, char file[YALEB_NAME_BYTES]);
/* Compares by identity, pose, azimuth and elevation: below, at or above 0. */
int yaleb_compare(const yaleb_name *a, const yaleb_name *b);
/* Its position among names (n), which ascend; -1: it is not there. */
int64_t yaleb_find(const yaleb_name *names, int64_t n, const yaleb_name *wanted);

/* ---- folders ----------------------------------------------------------------------------------------------------- */

typedef struct yaleb_list {
    int64_t n;
    yaleb_name *names;    /* (n), ascending: the same for every file system */
    char **paths;         /* (n) */
    int64_t bad, ambient; /* skipped */
    int64_t n_identities;
} yaleb_list;

/* The pictures in the folder and all folders below, hidden ones left out. A name that is wrong, a picture that is there
 * twice and a folder without any are refused. */
circe_status yaleb_list_make(const char *folder, yaleb_list *list);
void yaleb_list_free(yaleb_list *list);

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

typedef struct yaleb_store {
    int64_t n, size;
    uint8_t *pixels;      /* (n, size, size) grey */
    yaleb_name *names;    /* (n), ascending */
    int64_t bad, ambient; /* files that were skipped */
} yaleb_store;

/* Reads every picture of a folder and makes it size by size pixels. progress may be NULL. */
circe_status yaleb_read(const circe_context *context, const char *folder, int64_t size, circe_progress_fn progress,
                        void *user, yaleb_store *store);
/* The same of rendered heads, without files; options->height is how high they are rendered before they are resized. */
circe_status yaleb_render(const circe_context *context, const faces_options *options, int64_t size,
                          circe_progress_fn progress, void *user, yaleb_store *store);
void yaleb_store_free(yaleb_store *store);

/* The pictures as a network is fed them: red, green and blue alike, from -1 to 1. No points yet (part.h). Borrows. */
train_source yaleb_pictures(const yaleb_store *store);
