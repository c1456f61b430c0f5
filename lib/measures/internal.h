/* Inside of the measures. */
#ifndef CIRCE_MEASURES_INTERNAL_H
#define CIRCE_MEASURES_INTERNAL_H

#include "circe/measure.h"
#include "cme/internal.h"

/* Checks that the estimator exists and that n points are enough for it. */
circe_status circe__check_estimator(circe_estimator estimator, int64_t n);

/* How an estimator turns Q into G: G = scale (Q_ij + shift_i + shift_j + constant), with or without the diagonal.
 * needs_sums: shift and constant come from the row sums of Q (diagonal included) and its diagonal. */
bool circe__needs_sums(circe_estimator estimator);
double circe__estimator_scale(circe_estimator estimator, int64_t n);

/* Finishes the lower triangle of Q in `witness` (unscaled where the sums are needed, else scaled already). `sums` (n)
 * are overwritten. */
void circe__finish_witness(const circe_context *context, circe_estimator estimator, double *sums, circe_mat *witness);

/* A witness or gradient the caller gave: n by cols, of the dtype. */
circe_status circe__check_output(const circe_mat *mat, int64_t rows, int64_t cols, circe_dtype dtype, const char *name);

/* Q (B, B) = K_yy o K^c, both triangles, float64. */
circe_status circe__quadratic(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y, const circe_mat *z,
                              circe_mat *Q);

/* contract without checking x for NaN again. */
circe_status circe__contract(circe_workspace *workspace, const circe_kernel *kernel_x, const circe_mat *x,
                             const circe_mat *witness, double *value, circe_mat *grad);

#endif
