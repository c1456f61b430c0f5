/* Features as their kernel sees them: normalised, and divided by a width that follows them (docs/math.md).
 *
 *     x^ = x, or its rows over their norms, or its columns standardised over the batch
 *     s2_f = the median heuristic of the columns of factor f over pairs of the batch's rows, or a moving average of it
 *     out = x^ / s_f  in the columns of each factor f that has no width of its own
 *
 * For every measure, a kernel of width 1 on `out` is the kernel of width s2_f on x^. The gradient treats s2_f as a
 * constant, but not means, standard deviations and norms.
 *
 * Up to 64 rows, all pairs are used. With more rows, at least 1,024 pairs and at least one per row: rows i and i + o
 * modulo n, where o takes turns among 16 offsets spaced evenly from 1 to n / 2. If more than half of the pairs
 * coincide, the median is over the other pairs. */
#ifndef CIRCE_SCALING_H
#define CIRCE_SCALING_H

#include "circe/kernel.h"

CIRCE_BEGIN_DECLS

typedef enum circe_normalize {
    CIRCE_NORMALIZE_NONE = 0,
    CIRCE_NORMALIZE_ROWS = 1,  /* x_i / |x_i|, for two or more columns; a row of zeros stays, with gradient 0 */
    CIRCE_NORMALIZE_BATCH = 2, /* (x_ic - mean_c) / sd_c; a constant column becomes 0, with gradient 0 */
} circe_normalize;

typedef struct circe_scaling {
    circe_normalize normalize;
    double keep; /* the share of the previous width to keep; 0: each batch's own; CIRCE_RUNNING_KEEP: an average */
    int frozen;  /* use existing widths as they are, and leave the figures alone */
} circe_scaling;

#define CIRCE_RUNNING_KEEP 0.9

/* The sums in `figures`. Each batch adds the mean of k(x_i, x_j) over the pairs (every fourth pair with more than 64
 * rows; NaN if a factor is linear), the root mean square over columns of the standard deviation of x, and 1. */
enum { CIRCE_FIGURE_KERNEL = 0, CIRCE_FIGURE_SPREAD = 1, CIRCE_FIGURE_BATCHES = 2, CIRCE_N_FIGURES = 3 };

/* Computes out (n, d) from x (n, d), both of one dtype; out NULL: only widths and figures. `widths` has one number per
 * factor of the kernel: on entry the previous width (0: none), on return the one in use. If all points coincide, the
 * previous width stays, or becomes 1. Adds to `figures` (CIRCE_N_FIGURES) unless NULL. Factors that have a width keep
 * it. Fails if a factor without a width shares columns with another factor. */
CIRCE_API circe_status circe_scale(circe_workspace *workspace, const circe_kernel *kernel, const circe_scaling *scaling,
                                   const circe_mat *x, double *widths, double *figures, circe_mat *out);

/* grad (n, d), with respect to `out`, becomes the gradient with respect to x. */
CIRCE_API circe_status circe_scale_gradient(circe_workspace *workspace, const circe_kernel *kernel,
                                            const circe_scaling *scaling, const circe_mat *x, const double *widths,
                                            circe_mat *grad);

CIRCE_END_DECLS

#endif
