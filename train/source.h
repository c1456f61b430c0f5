/* Describes points for a network without storing them as floats. Every device can follow the description, so images
 * stay bits or bytes until their batch is needed. */
#pragma once

#include <stdint.h>

#include "circe/circe.h"

typedef enum train_element {
    TRAIN_FLOATS = 1, /* float32, `stride` numbers from row to row; no shift, repeat 1, scale and offset not used */
    TRAIN_BYTES = 2,  /* pixels of 8 bits, `stride` bytes from row to row */
    TRAIN_BITS = 3,   /* pixels of one bit, the most significant first, `stride` bytes from row to row; the lines of a
                         row follow each other without a gap */
} train_element;

/* Point i shows stored row `stored[i]`, moved down by `shift[i]` lines (up where it is negative). Where the pixel v
 * lies, the network sees scale * v + offset; lines that came into view are `background` (in the network's units). */
typedef struct train_source {
    train_element element;
    const void *values; /* borrowed, as all arrays are */
    int64_t n_stored, stride;
    int64_t n;                       /* points */
    const int32_t *stored;           /* (n); NULL: point i is row i */
    const int8_t *shift;             /* (n); NULL: 0 */
    int64_t channels, height, width; /* of a stored row; a row of a table is 1 by 1 by its columns */
    int64_t repeat;                  /* times that the channels are shown: 3 makes grey pixels red, green and blue */
    float scale, offset, background;
} train_source;

/* Numbers a point has once it is shown. */
static inline int64_t train_source_cols(const train_source *source) {
    return source->channels * source->height * source->width * source->repeat;
}

/* The stored row that point i shows. */
static inline int64_t train_source_row(const train_source *source, int64_t i) {
    return source->stored != NULL ? source->stored[i] : i;
}

/* The rows of a float32 matrix; one of another dtype gives what train_source_check refuses. */
train_source train_source_floats(const circe_mat *values);

/* Checks a source: its sizes, that indices are within the stored rows, and that numbers are finite. `what` names it in
 * texts, for example "training". */
circe_status train_source_check(const train_source *source, const char *what);

/* Bytes of a stored row that are shown, and where row `row` starts. */
int64_t train_source_row_bytes(const train_source *source);
const void *train_source_row_start(const train_source *source, int64_t row);
