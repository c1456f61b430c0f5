/* Measures of conditional dependence of the form <G, K_xx>: a witness G computed from (y, z), contracted with the
 * kernel of x to give value and gradient. G is symmetric; only its lower triangle (i >= j) is written and read.
 *
 * CIRCE takes its regression from a fitted conditional mean. HSCIC, KCI, NOCCO and KPC, as published, regress the batch
 * on itself; HSIC ignores y. GCM does not have this form and has its own header, circe/gcm.h. docs/measures.md compares
 * the measures. All of them work in the dtype of x, and grad may be NULL. */
#ifndef CIRCE_MEASURE_H
#define CIRCE_MEASURE_H

#include "circe/cme.h"

CIRCE_BEGIN_DECLS

typedef enum circe_estimator {
    CIRCE_BIASED = 1,   /* the theorem, algorithm 1:     Q / (B(B-1)),  Q = K_yy o K^c */
    CIRCE_DEBIASED = 2, /* the corollary, off-diagonal:  offdiag(Q) / (B(B-1)) */
    CIRCE_CENTERED = 3, /* the corollary:                HQH / (B(B-1)) */
    CIRCE_USTAT = 4,    /* the unbiased HSIC weights of Q; scatters around 0 without dependence */
} circe_estimator;

/* Its name in options and texts. */
CIRCE_API const char *circe_estimator_name(circe_estimator estimator);

/* G (B, B) of CIRCE from points, or from residual features (circe_features). The work is done in the dtype of G; y, z
 * and zeta may have either dtype. */
CIRCE_API circe_status circe_witness_circe(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                           const circe_mat *z, circe_estimator estimator, circe_mat *witness);
/* The witness of CIRCE from residual features. */
CIRCE_API circe_status circe_witness_features(circe_workspace *workspace, const circe_kernel *kernel_y,
                                              const circe_mat *y, const circe_mat *zeta, circe_estimator estimator,
                                              circe_mat *witness);

/* value = sum_ij G_ij k(x_i, x_j), grad (B, d_x) = d value / d x; grad may be NULL. x, G and grad have one dtype. */
CIRCE_API circe_status circe_contract(circe_workspace *workspace, const circe_kernel *kernel_x, const circe_mat *x,
                                      const circe_mat *witness, double *value, circe_mat *grad);

/* Both steps, in the dtype of x. grad may be NULL. */
CIRCE_API circe_status circe_measure_circe(circe_workspace *workspace, const circe_cme *cme,
                                           const circe_kernel *kernel_x, const circe_mat *x, const circe_mat *y,
                                           const circe_mat *z, circe_estimator estimator, double *value,
                                           circe_mat *grad);

/* The same for the rows index[0..n) of a data set with cached residual features: a training step. */
CIRCE_API circe_status circe_measure_circe_cached(circe_workspace *workspace, const circe_cme *cme,
                                                  const circe_features *features, const int64_t *index, int64_t n,
                                                  const circe_kernel *kernel_x, const circe_mat *x,
                                                  circe_estimator estimator, double *value, circe_mat *grad);

/* The largest singular value of (1/B) sum_i phi(x_i) (x) psi(y_i) (x) zeta_i, and its gradient. O(B^3), computed in
 * float64. If the largest singular value is not simple, the gradient is one of the subgradients. */
CIRCE_API circe_status circe_measure_circe_spectral(circe_workspace *workspace, const circe_cme *cme,
                                                    const circe_kernel *kernel_x, const circe_mat *x,
                                                    const circe_mat *y, const circe_mat *z, double *value,
                                                    circe_mat *grad);

/* ---- measures from the batch alone
 * -------------------------------------------------------------------------------- */

/* The kernels of the variables. Kernels that a measure does not use may be NULL. */
typedef struct circe_kernels {
    const circe_kernel *x, *y, *z;
} circe_kernels;

/* HSIC: does x depend on z at all, regardless of y? */
typedef enum circe_hsic_estimator {
    CIRCE_HSIC_BIASED = 1,   /* tr(H K_xx H K_zz) / B^2 */
    CIRCE_HSIC_USTAT = 2,    /* Song et al.: CIRCE_USTAT with K_zz for Q; needs 4 points */
    CIRCE_HSIC_UNBIASED = 2, /* an older name for it */
} circe_hsic_estimator;

/* Its name in options and texts. */
CIRCE_API const char *circe_hsic_estimator_name(circe_hsic_estimator estimator);

/* The witness of HSIC. */
CIRCE_API circe_status circe_witness_hsic(circe_workspace *workspace, const circe_kernel *kernel_z, const circe_mat *z,
                                          circe_hsic_estimator estimator, circe_mat *witness);
/* HSIC and, unless grad is NULL, its gradient with respect to x. */
CIRCE_API circe_status circe_measure_hsic(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                          const circe_mat *z, circe_hsic_estimator estimator, double *value,
                                          circe_mat *grad);

/* How the batch is regressed on its own y. */
typedef struct circe_batch_options {
    double ridge;        /* lambda in (K_yy + lambda I), > 0 */
    circe_method method; /* AUTO (low rank if y allows it), LOWRANK or DENSE */
    double tolerance;    /* the share of a kernel matrix's trace that low rank may leave out; 0: what the dtype needs */
} circe_batch_options;

/* Sets every field to its default. */
CIRCE_API void circe_batch_options_init(circe_batch_options *options);

/* HSCIC (Park and Muandet; Quinzan et al.): the HSIC of x and z given y = y_k, averaged over the batch, with weights W
 * = (K_yy + lambda I)^-1 K_yy for the conditional means on both sides. */
CIRCE_API circe_status circe_witness_hscic(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                                           const circe_mat *z, const circe_batch_options *options, circe_mat *witness);
/* HSCIC and, unless grad is NULL, its gradient with respect to x. */
CIRCE_API circe_status circe_measure_hscic(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                           const circe_mat *y, const circe_mat *z, const circe_batch_options *options,
                                           double *value, circe_mat *grad);

/* The same with z's conditional mean taken from a holdout: the HSCIC of x and the residuals of z, with K^c instead of
 * K_zz. Uses the model's kernel of y. */
CIRCE_API circe_status circe_witness_hscic_holdout(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                                   const circe_mat *z, const circe_batch_options *options,
                                                   circe_mat *witness);
/* The value and, unless grad is NULL, its gradient with respect to x. */
CIRCE_API circe_status circe_measure_hscic_holdout(circe_workspace *workspace, const circe_cme *cme,
                                                   const circe_kernel *kernel_x, const circe_mat *x, const circe_mat *y,
                                                   const circe_mat *z, const circe_batch_options *options,
                                                   double *value, circe_mat *grad);

/* KCI (Zhang et al. 2011): tr(R ~K_(x,y) R  R ~K_z R) / B, R = lambda (~K_y + lambda I)^-1. */
CIRCE_API circe_status circe_witness_kci(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                                         const circe_mat *z, const circe_batch_options *options, circe_mat *witness);
/* KCI's statistic and, unless grad is NULL, its gradient with respect to x. */
CIRCE_API circe_status circe_measure_kci(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                         const circe_mat *y, const circe_mat *z, const circe_batch_options *options,
                                         double *value, circe_mat *grad);

/* ---- normalised measures ----------------------------------------------------------------------------------------- */

typedef struct circe_normalized_options {
    double epsilon;      /* the ridge is B epsilon, > 0; 1e-3 */
    circe_method method; /* as above */
    double tolerance;    /* as above; 0: values are accurate to 1e-9 (float32: 1e-7) */
} circe_normalized_options;

/* Sets every field to its default. */
CIRCE_API void circe_normalized_options_init(circe_normalized_options *options);

/* NOCCO (Fukumizu et al. 2008): the squared Hilbert-Schmidt norm of the normalised conditional cross-covariance
 * operator, tr[R_x (I - R_y) R_z (I - R_y)], where R_x and R_z belong to the pairs (x, y) and (z, y). Needs at least 2
 * rows. Without a gradient, low rank needs no B by B matrix. */
CIRCE_API circe_status circe_measure_nocco(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                           const circe_mat *y, const circe_mat *z,
                                           const circe_normalized_options *options, double *value, circe_mat *grad);

/* KPC (Huang, Deb and Sen 2020), the kernel partial correlation: of the part of x that y does not explain, the share
 * that z explains. It is 0 if x and z are independent given y, and 1 if x is a function of (y, z). The estimate is
 * never negative, is positive by chance if the truth is 0, and can exceed 1. If y leaves nothing of x to explain (at
 * most 1e-13 of trace(K_xx), as for a constant x), value and gradient are 0. If y leaves only what the ridge prevents
 * it from explaining, as for x = y, the value compares two such remainders and means nothing. Without a gradient, low
 * rank needs no B by B matrix. */
CIRCE_API circe_status circe_measure_kpc(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                         const circe_mat *y, const circe_mat *z,
                                         const circe_normalized_options *options, double *value, circe_mat *grad);

CIRCE_END_DECLS

#endif
