/* What NOCCO and KPC share: the checks, the regressions of the batch on itself, scratch. */
#pragma once

#include "measures/measure_parts.h"

/* One call, checked. */
typedef struct circe__normalized {
    circe_workspace *workspace;
    const circe_kernels *kernels;
    const circe_mat *x, *y, *z;
    int64_t n;
    circe__smoother_options how; /* every regression: ridge n epsilon, centred */
    double asked;                /* the caller's tolerance; 0: none */
    double *value;
    circe_mat *grad; /* or NULL */
} circe__normalized;

circe_status circe__normalized_begin(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                     const circe_mat *y, const circe_mat *z, const circe_normalized_options *options,
                                     double *value, circe_mat *grad, circe__normalized *m);

/* The regression on y in the slot SMOOTHER_Y; on the pair (x, y) in SMOOTHER_X, or on (z, y) in SMOOTHER_Z. */
circe_status circe__normalized_y(const circe__normalized *m, circe__smoother *smoother);
circe_status circe__normalized_pair(const circe__normalized *m, bool of_x, circe__smoother *smoother);

/* value 0, and a gradient of zeros if one is requested. */
circe_status circe__normalized_nothing(const circe__normalized *m);

/* Room in a slot for n by n matrices; refused where the machine has not that much. */
circe_status circe__take_matrices(circe_workspace *workspace, circe__slot slot, int64_t n, int64_t count,
                                  double **matrices);

double circe__dot(const double *a, const double *b, int64_t n);

/* Row i of a witness up to its diagonal, from float64. */
void circe__write_lower(const double *row, int64_t i, circe_mat *witness);
