/* Inside of the measures. */
#pragma once

#include "circe/measure.h"
#include "cme/cme_parts.h"
#include "measures/smoother.h"

/* Checks that the estimator exists and that n points are enough for it. */
circe_status circe__check_estimator(circe_estimator estimator, int64_t n);

/* The same of HSIC's. */
circe_status circe__check_hsic(circe_hsic_estimator estimator, int64_t rows);

/* Of what low rank leaves out: 0, or less than 1. */
circe_status circe__check_tolerance(double tolerance);

/* Q as the loops write it: times `scale`, with its row sums where they are needed. */
bool circe__needs_sums(circe_estimator estimator);
double circe__product_scale(const circe_workspace *workspace, circe_estimator estimator, int64_t n);

/* Centered, over B^2 instead of B(B-1): HSIC's. */
#define CIRCE__CENTERED_SQUARE ((circe_estimator)5)

/* What turns that Q into the estimator's G. `sums` (n), the row sums of Q without its `diagonal` (n; NULL: it is
 * looked up), are overwritten and belong to the shift. Returns false if Q is G already (its diagonal, for debiased, was
 * set to 0). With weights of the workspace it makes Q G, and returns false. */
bool circe__estimator_shift(circe_workspace *workspace, circe_estimator estimator, double *sums, const double *diagonal,
                            circe_mat *Q, circe__shift *shift);
/* The weights' part of it, also among ranks (NULL: none), of which each has its own pairs of different rows in Q, zeros
 * elsewhere, and all of the diagonal. */
void circe__estimator_weigh(circe_workspace *workspace, circe_estimator estimator, const circe_ranks *ranks,
                            circe_mat *Q);
/* Lower triangle of the witness times the roots of both rows' weights, if there are weights. */
void circe__weigh_by_roots(const circe_workspace *workspace, circe_mat *witness);

/* A witness in the making: Q, and what turns it into G where that is still to be done. */
typedef struct circe__weights {
    circe_mat Q;
    circe__shift shift;
    bool shifted;
} circe__weights;

/* A view as the given dtype: itself, or a converted copy in the slot, as points of the kernel if one is given. */
circe_status circe__as_dtype(circe_workspace *workspace, circe__slot slot, const circe_kernel *kernel,
                             const circe_mat *mat, circe_dtype dtype, circe_mat *out);

/* Columns less their means; in and out may be the same. */
void circe__less_means(const circe_mat *mat, circe_mat *out);

/* The view, or for a linear kernel a copy in the slot whose columns have the mean 0. For measures that a function of
 * one row, added to k(x_i, x_j), does not change: there the mean only costs digits, its square being all that float32
 * holds of data 3,000 times as far from 0 as they are wide. */
circe_status circe__from_mean(circe_workspace *workspace, circe__slot slot, const circe_kernel *kernel,
                              const circe_mat *mat, circe_mat *out);

/* Lower triangle of Q := scale k(p_i, p_j) zeta_i . zeta_j in the dtype of Q; sums (n), its unscaled row sums without
 * the diagonal, or NULL. Uses the slots FACTORS, POINTS_A, POINTS_B and TILES. */
circe_status circe__product(circe_workspace *workspace, const circe_kernel *kernel, const circe_mat *points,
                            const char *name, const circe_mat *zeta, double scale, circe_mat *Q, double *sums);

/* The same minus an update, which is in the dtype of Q. */
circe_status circe__product_update(circe_workspace *workspace, const circe_kernel *kernel, const circe_mat *points,
                                   const char *name, const circe_mat *zeta, const circe__update *update, double scale,
                                   circe_mat *Q, double *sums);

/* The estimator's weights of that product, from points and features that were checked before; w->Q says where. */
circe_status circe__weights_from(circe_workspace *workspace, const circe_kernel *kernel, const circe_mat *points,
                                 const circe_mat *zeta, circe_estimator estimator, circe__weights *w);

/* The same of the rows index[0..n) of a data set with implicit features, y being that of all its rows. */
circe_status circe__weights_implicit(circe_workspace *workspace, const circe_cme *cme, const circe_mat *all_y,
                                     const circe__implicit *all, const int64_t *index, circe_estimator estimator,
                                     circe__weights *w);

static inline const circe__shift *circe__shift_of(const circe__weights *w) { return w->shifted ? &w->shift : NULL; }

/* G in place of Q. */
void circe__settle(const circe_context *context, circe__weights *w);

/* A witness or gradient the caller gave: n by cols, of the dtype. */
circe_status circe__check_output(const circe_mat *mat, int64_t rows, int64_t cols, circe_dtype dtype, const char *name);

/* Q (B, B) = K_yy o K^c, both triangles, float64. */
circe_status circe__quadratic(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y, const circe_mat *z,
                              circe_mat *Q);

/* contract without checking x for NaN again, with the witness shifted on the way if shift is not NULL. */
circe_status circe__contract(circe_workspace *workspace, const circe_kernel *kernel_x, const circe_mat *x,
                             const circe_mat *witness, const circe__shift *shift, double *value, circe_mat *grad);

/* x as float64, and room for its gradient (grad may be NULL), in the slots WIDE_X and WIDE_GRAD. */
circe_status circe__widen(circe_workspace *workspace, const circe_mat *x, const circe_mat *grad, circe_mat *wide_x,
                          circe_mat *wide_grad);

/* x checked against the rows of the other side, and room for a witness of its dtype in the workspace. */
circe_status circe__begin_measure(circe_workspace *workspace, const circe_mat *x, int64_t rows, circe_mat *witness);

/* Brackets the loops of a batch, so that the caller can stop them. Of several ranks none may stop by itself. */
static inline int circe__loops_begin(const circe_workspace *workspace) {
    return workspace->ranks.size > 1 ? 0 : circe__threads_begin(workspace->context);
}

static inline circe_status circe__loops_finish(const circe_workspace *workspace, int previous) {
    return workspace->ranks.size > 1 ? CIRCE_OK : circe__threads_finish(previous, CIRCE_OK);
}

/* What a measure of the batch alone checks first: kernels, y and z of as many rows, the options (defaults into `own`
 * where they are NULL), and the witness if there is one. */
circe_status circe__begin_batch(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                                const circe_mat *z, const circe_batch_options **options, circe_batch_options *own,
                                const circe_mat *witness);

/* A witness from checked arguments, and the two public functions that each such measure has. */
typedef circe_status circe__witness_fn(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                                       const circe_mat *z, const circe_batch_options *options, circe_mat *witness);
circe_status circe__batch_witness(circe__witness_fn *make, circe_workspace *workspace, const circe_kernels *kernels,
                                  const circe_mat *y, const circe_mat *z, const circe_batch_options *options,
                                  circe_mat *witness);
circe_status circe__batch_measure(circe__witness_fn *make, circe_workspace *workspace, const circe_kernels *kernels,
                                  const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                  const circe_batch_options *options, double *value, circe_mat *grad);
