/* Measures of conditional dependence as <G, K_xx>: a witness G made from (y, z), and a contraction with the kernel
 * of x that gives value and gradient. G is symmetric; only its lower triangle (i >= j) is written and read. */
#ifndef CIRCE_MEASURE_H
#define CIRCE_MEASURE_H

#include "circe/cme.h"

CIRCE_BEGIN_DECLS

typedef enum circe_estimator {
    CIRCE_BIASED = 1,   /* the theorem, algorithm 1:     Q / (B(B-1)),  Q = K_yy o K^c */
    CIRCE_DEBIASED = 2, /* the corollary, off-diagonal:  offdiag(Q) / (B(B-1)) */
    CIRCE_CENTERED = 3, /* the corollary:                HQH / (B(B-1)) */
    CIRCE_USTAT = 4,    /* the unbiased HSIC weights of Q */
} circe_estimator;

CIRCE_API const char *circe_estimator_name(circe_estimator estimator);

/* G (B, B) of CIRCE from raw points, or from residual features (of circe_features). The dtype of G is that of the
 * batch work; y, z, zeta may be of either. */
CIRCE_API circe_status circe_witness_circe(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                           const circe_mat *z, circe_estimator estimator, circe_mat *witness);
CIRCE_API circe_status circe_witness_features(circe_workspace *workspace, const circe_kernel *kernel_y,
                                              const circe_mat *y, const circe_mat *zeta, circe_estimator estimator,
                                              circe_mat *witness);

/* value = sum_ij G_ij k(x_i, x_j), grad (B, d_x) = d value / d x; grad may be NULL. x, G and grad of one dtype. */
CIRCE_API circe_status circe_contract(circe_workspace *workspace, const circe_kernel *kernel_x, const circe_mat *x,
                                      const circe_mat *witness, double *value, circe_mat *grad);

/* Both steps. The work is done in the dtype of x. grad may be NULL. */
CIRCE_API circe_status circe_measure_circe(circe_workspace *workspace, const circe_cme *cme,
                                           const circe_kernel *kernel_x, const circe_mat *x, const circe_mat *y,
                                           const circe_mat *z, circe_estimator estimator, double *value,
                                           circe_mat *grad);

/* The same for rows index[0..n) of a data set whose residual features are cached: the training step. */
CIRCE_API circe_status circe_measure_circe_cached(circe_workspace *workspace, const circe_cme *cme,
                                                  const circe_features *features, const int64_t *index, int64_t n,
                                                  const circe_kernel *kernel_x, const circe_mat *x,
                                                  circe_estimator estimator, double *value, circe_mat *grad);

/* The largest singular value of (1/B) sum_i phi(x_i) (x) psi(y_i) (x) zeta_i, and its gradient. O(B^3), float64
 * inside. Where the largest singular value is not simple, the gradient is one of the subgradients. */
CIRCE_API circe_status circe_measure_circe_spectral(circe_workspace *workspace, const circe_cme *cme,
                                                    const circe_kernel *kernel_x, const circe_mat *x,
                                                    const circe_mat *y, const circe_mat *z, double *value,
                                                    circe_mat *grad);

CIRCE_END_DECLS

#endif
