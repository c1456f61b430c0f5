/* Replaces columns by ranks, which are robust against outliers, sentinels and heavy tails.
 *
 * An increasing function of a column does not change whether x depends on z given y. So a test of ranks or normal
 * scores tests the same hypothesis, and no single row can dominate it. Equal values share their average rank. */
#ifndef CIRCE_TRANSFORM_H
#define CIRCE_TRANSFORM_H

#include "circe/context.h"
#include "circe/matrix.h"

CIRCE_BEGIN_DECLS

typedef enum circe_transform {
    CIRCE_TRANSFORM_NONE = 0,
    CIRCE_TRANSFORM_RANKS = 1,         /* rank / (n + 1), in (0, 1) */
    CIRCE_TRANSFORM_NORMAL_SCORES = 2, /* the normal quantile of that */
} circe_transform;

/* "none", "ranks", "normal-scores". */
CIRCE_API const char *circe_transform_name(circe_transform transform);
/* Any other name gives CIRCE_ERR_ARGUMENT and an error text with the valid names. */
CIRCE_API circe_status circe_transform_parse(const char *name, circe_transform *transform);

/* Writes the transformed columns of `values` to out (rows, cols), and copies columns with a non-zero flag in `keep`
 * (cols, or NULL). `out` may be `values`. */
CIRCE_API circe_status circe_transform_columns(circe_context *context, const circe_mat *values,
                                               circe_transform transform, const unsigned char *keep, circe_mat *out);

CIRCE_END_DECLS

#endif
