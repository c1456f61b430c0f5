/* GCM, the generalised covariance measure (Shah and Peters, 2020): the correlation of the residuals of x and z given y.
 *
 *     r_x = x - x_hat(y) (B, d_x),  r_z = z - z_hat(y) (B, d_z),  R_i,ab = r_x,ia r_z,ib
 *     T_ab = sqrt(B) mean_i R_i,ab / sqrt(mean_i R_i,ab^2 - (mean_i R_i,ab)^2)
 *
 * Under conditional independence, each T_ab is approximately standard normal. GCM sees only correlation of the
 * residuals: for x = y + e^2 and z = e it sees nothing, but CIRCE does. It takes O(B) memory and O(B r (d_x + d_z) + B
 * d_x d_z) time, where r is the rank of the regression, and forms no B by B matrix if y has low rank. */
#ifndef CIRCE_GCM_H
#define CIRCE_GCM_H

#include "circe/measure.h"

CIRCE_BEGIN_DECLS

typedef enum circe_gcm_regression {
    CIRCE_GCM_KERNEL = 1, /* kernel ridge, S = K_yy (K_yy + ridge I)^-1; constants are shrunk like any function */
    CIRCE_GCM_LINEAR = 2, /* least squares on [1, y]; leaves out columns of y that depend linearly on others */
} circe_gcm_regression;

/* How the table T becomes one number. */
typedef enum circe_gcm_combine {
    CIRCE_GCM_MAX = 1,            /* max |T|; the gradient is that of the first pair that attains it, a subgradient */
    CIRCE_GCM_LOGSUMEXP = 2,      /* log(mean cosh(beta T)) / beta, beta = sharpness: smooth everywhere, also at T = 0,
                                     at most max |T| and below it by log(2 d_x d_z) / beta at most; 0 where T is 0 */
    CIRCE_GCM_SUM_OF_SQUARES = 3, /* sum T^2 */
} circe_gcm_combine;

/* Its name in options and texts. */
CIRCE_API const char *circe_gcm_regression_name(circe_gcm_regression regression);
/* Its name in options and texts. */
CIRCE_API const char *circe_gcm_combine_name(circe_gcm_combine combine);

typedef struct circe_gcm_options {
    circe_gcm_regression regression;
    circe_gcm_combine combine;
    double sharpness;          /* beta of LOGSUMEXP, > 0; default 1, the width of T under independence */
    circe_batch_options batch; /* for the kernel regression: ridge, method, tolerance */
    /* The previous batch, (n, d_x) and (n, d_y) with any number of rows; both or none. x_hat is then fitted on it, and
     * is a constant for the gradient: d/dx = d/dr_x. None: the batch is regressed on itself, and d/dx = (I - S) d/dr_x.
     * Kernel regression compares all pairs of rows of the two batches, block by block. */
    const circe_mat *previous_x, *previous_y;
    const double *previous_weights; /* what each row of the previous batch counts, at least 0; NULL: the same */
    const circe_cme *holdout; /* z_hat by circe_cme_mean, with the model's kernel of y; NULL: regress z on the batch */
} circe_gcm_options;

/* The measure as published: kernel regression of the batch on itself, and the maximum. */
CIRCE_API void circe_gcm_options_init(circe_gcm_options *options);

/* value and grad (B, d_x) = d value / d x, of the dtype of x; grad may be NULL. kernel_y may be NULL for linear
 * regression; options NULL: the defaults. The work is always done in float64.
 *
 * With weights (circe_workspace_set_weights) the regressions and the means are weighted, and B is the number of rows of
 * equal weight that count as much, (sum w)^2 / sum w^2.
 *
 * What is returned if the formula is undefined:
 *   - A column whose residual is rounding noise, max |r| <= u max |x|, counts as zero: all its T are 0 and it has no
 * gradient. u is 4 eps of float32 for float32 data and (16 + sqrt(B)) eps of float64 for float64 data, and max |x| is
 * over the numbers that are subtracted. Examples: a column of zeros, a column that y determines exactly, and in linear
 * regression a constant column. (Kernel regression shrinks: a constant leaves the residual (I - S) 1, and T follows
 * from the formula.)
 *   - A pair whose products R have no spread beyond that noise has T = 0 and no gradient: one point; two points whose
 *     products are equal; residuals that are both constant; r_x,a = +-1 / r_z,b.
 *   - Equal or collinear columns of x or z need no special care. If pairs tie for the maximum (to 1e-12), the gradient
 * is that of the pair with the lowest a, then the lowest b.
 *   - Columns of any size: residuals are scaled (by powers of 2) before they are multiplied, and T does not depend on
 *     their units. An element of the gradient beyond the range of the dtype is its largest number. */
CIRCE_API circe_status circe_measure_gcm(circe_workspace *workspace, const circe_kernel *kernel_y, const circe_mat *x,
                                         const circe_mat *y, const circe_mat *z, const circe_gcm_options *options,
                                         double *value, circe_mat *grad);

/* table (d_x, d_z) = T, with its signs; float32 or float64. */
CIRCE_API circe_status circe_gcm_table(circe_workspace *workspace, const circe_kernel *kernel_y, const circe_mat *x,
                                       const circe_mat *y, const circe_mat *z, const circe_gcm_options *options,
                                       circe_mat *table);

CIRCE_END_DECLS

#endif
