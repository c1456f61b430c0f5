/* Inside of the measures. */
#ifndef CIRCE_MEASURES_INTERNAL_H
#define CIRCE_MEASURES_INTERNAL_H

#include "circe/measure.h"
#include "cme/internal.h"

/* Checks that the estimator exists and that n points are enough for it. */
circe_status circe__check_estimator(circe_estimator estimator, int64_t n);

/* Q as the loops write it: times `scale`, with its row sums where they are needed. */
bool circe__needs_sums(circe_estimator estimator);
double circe__product_scale(circe_estimator estimator, int64_t n);

/* What turns that Q into the estimator's G. `sums` (n), the row sums of Q with its diagonal, are overwritten and belong
 * to the shift. Returns false where Q is G already (its diagonal, for debiased, was set to 0). */
bool circe__estimator_shift(circe_estimator estimator, double *sums, circe_mat *Q, circe__shift *shift);

/* A witness or gradient the caller gave: n by cols, of the dtype. */
circe_status circe__check_output(const circe_mat *mat, int64_t rows, int64_t cols, circe_dtype dtype, const char *name);

/* Q (B, B) = K_yy o K^c, both triangles, float64. */
circe_status circe__quadratic(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y, const circe_mat *z,
                              circe_mat *Q);

/* contract without checking x for NaN again, with the witness shifted on the way where shift is not NULL. */
circe_status circe__contract(circe_workspace *workspace, const circe_kernel *kernel_x, const circe_mat *x,
                             const circe_mat *witness, const circe__shift *shift, double *value, circe_mat *grad);

#endif
