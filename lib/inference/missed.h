/* Parts of missed.c that have files of their own. */
#pragma once

#include "inference/faces.h"

enum { CIRCE__NEAREST = 4, CIRCE__MOST_LEAVES = 64, CIRCE__GROWN_COLUMNS = 4 };

/* near.c: nearest (m, CIRCE__NEAREST), nearest first: places among the rows index[0..m), by the face's coordinates. */
circe_status circe__nearest_rows(const circe__data *data, const circe__variable *face, const int64_t *index, int64_t m,
                                 int64_t *nearest);

/* leaves.c: a tree, whose leaves have rows that it was grown on and rows that it looks at. */
typedef struct circe__leaf {
    int64_t from;         /* the leaf that it was a part of */
    int64_t first, n;     /* its rows: rows[first, first + n) grew the tree */
    int64_t seen, n_seen; /* rows[seen, seen + n_seen) did not */
    double gain;          /* of its best split: bin <= place goes left */
    int64_t along, place;
} circe__leaf;

typedef struct circe__leaves {
    int64_t m, dim, n; /* rows, directions, leaves */
    const circe__table *target;
    unsigned char *bins; /* (m, dim) */
    int64_t *rows;       /* (m) */
    int64_t *tried;      /* (dim): directions, those that the tree tries first */
    circe__leaf leaves[CIRCE__MOST_LEAVES];
} circe__leaves;

/* For the rows index[0..m) of y, and what the trees are to predict there: (m, up to CIRCE__GROWN_COLUMNS), which stays
 * the caller's. */
circe_status circe__leaves_make(const circe__data *data, const int64_t *index, const circe__table *target,
                                circe__leaves *t);
void circe__leaves_free(const circe_context *context, circe__leaves *t);
/* A new tree of up to `most` leaves, grown on the rows order[0..grown). */
void circe__leaves_grow(circe__leaves *t, circe_random random, const int64_t *order, int64_t grown, int64_t most);
