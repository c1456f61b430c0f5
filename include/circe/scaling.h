/* Features as their kernel sees them: normalised, and divided by a width that follows them (docs/math.md).
 *
 *     x^ = x, or its rows over their norms, or its columns standardised over the batch
 *     s2_f = the median heuristic of the columns of factor f over pairs of the batch's rows, or a moving average of it
 *     out = x^ / s_f  in the columns of each factor f that has no width of its own
 *
 * A kernel of width 1 on `out` is the kernel of width s2_f on x^, whatever the measure. s2_f is a constant of the
 * gradient; means, standard deviations and norms are not.
 *
 * Pairs: all of up to 64 rows; of more at least 1,024, and at least one for each row: rows i and i + o modulo n, with
 * 16 offsets o evenly spaced from 1 to n / 2 that take turns. Where more than half of the pairs coincide, the median is
 * over those that do not. */
#ifndef CIRCE_SCALING_H
#define CIRCE_SCALING_H

#include "circe/kernel.h"

CIRCE_BEGIN_DECLS

typedef enum circe_normalize {
    CIRCE_NORMALIZE_NONE = 0,
    CIRCE_NORMALIZE_ROWS = 1,  /* x_i / |x_i| of two columns or more; a row of zeros stays one, its gradient is 0 */
    CIRCE_NORMALIZE_BATCH = 2, /* (x_ic - mean_c) / sd_c; so does a constant column */
} circe_normalize;

typedef struct circe_scaling {
    circe_normalize normalize;
    double keep; /* share of the width before that is kept: 0: the batch's own median; CIRCE_RUNNING_KEEP: an average */
    int frozen;  /* widths that are there are used as they are, and the figures stay */
} circe_scaling;

#define CIRCE_RUNNING_KEEP 0.9

/* What sums of figures hold: of each batch the mean of k(x_i, x_j) over the pairs (every fourth of more than 64 rows;
 * NaN where a factor is linear), the standard deviation of x, averaged over its columns as a square, and 1. */
enum { CIRCE_FIGURE_KERNEL = 0, CIRCE_FIGURE_SPREAD = 1, CIRCE_FIGURE_BATCHES = 2, CIRCE_N_FIGURES = 3 };

/* out (n, d) from x (n, d), of one dtype; NULL: only widths and figures. `widths` has one number for each factor of
 * the kernel: on entry the width before (0: none), on return the one in use; where all points coincide it stays as it
 * was, or becomes 1. `figures` (CIRCE_N_FIGURES) are added to; NULL: not wanted. Factors that have a width keep it.
 * Refused: a factor without a width whose columns are in another factor too. */
CIRCE_API circe_status circe_scale(circe_workspace *workspace, const circe_kernel *kernel, const circe_scaling *scaling,
                                   const circe_mat *x, double *widths, double *figures, circe_mat *out);

/* grad (n, d), with respect to `out`, becomes the gradient with respect to x. */
CIRCE_API circe_status circe_scale_gradient(circe_workspace *workspace, const circe_kernel *kernel,
                                            const circe_scaling *scaling, const circe_mat *x, const double *widths,
                                            circe_mat *grad);

CIRCE_END_DECLS

#endif
