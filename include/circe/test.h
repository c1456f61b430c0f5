/* Tests whether x is independent of z given y. Every result says how far its p-value can be trusted.
 *
 *     method     statistic, from residuals given y                         null
 *     kci        all of x (and y) against all of z, both sides regressed   gamma, spectral, wild, permutation
 *     circe      the same, z alone regressed: CIRCE's operator             wild, permutation
 *     splitkci   as kci, out of sample, two regressions on halves          wild
 *     gcm        covariances of the columns themselves                     normal, multiplier, permutation
 *     rcot       as kci with a few random Fourier features; a million rows spectral, permutation
 *     hsic       x against z, regardless of y                              permutation, gamma, wild
 *     wgcm       as gcm, and weighted by signs along y                     multiplier, permutation
 *     pcm        does z help to predict x beyond y?                        normal
 *
 * docs/testing.md says which test to use when, and how well each works. docs/math.md derives them, in section 8.
 *
 * Everything random is a function of `seed`: the same data, options and seed give the same p-value on any number of
 * threads. p-values from draws are (1 + number of draws at least as large) / (1 + draws), never 0; p-values from
 * formulas are at least 1e-12.
 *
 * y may be NULL or have 0 columns: then every method tests marginal independence. If x or z is constant, or y
 * determines one of them up to rounding, no dependence is possible: the statistic is 0 and the p-value 1. Equal rows
 * and tied values need no special care. */
#ifndef CIRCE_TEST_H
#define CIRCE_TEST_H

#include "circe/gcm.h"
#include "circe/measure.h"
#include "circe/transform.h"

CIRCE_BEGIN_DECLS

typedef enum circe_test_method {
    CIRCE_TEST_KCI = 1,
    CIRCE_TEST_CIRCE = 2,
    CIRCE_TEST_SPLITKCI = 3,
    CIRCE_TEST_GCM = 4,
    CIRCE_TEST_RCOT = 5,
    CIRCE_TEST_HSIC = 6,
    CIRCE_TEST_WGCM = 7,
    CIRCE_TEST_PCM = 8,
} circe_test_method;

/* How to find the distribution of the statistic under independence. */
typedef enum circe_test_null {
    CIRCE_NULL_AUTO =
        0, /* the first in the table above, but gamma for hsic with more than 20,000 rows, normal for gcm with one pair
              of columns, and permutation for kci, circe, gcm and rcot if y has few values and it takes little time */
    CIRCE_NULL_GAMMA = 1,       /* a gamma distribution of the same mean and variance */
    CIRCE_NULL_SPECTRAL = 2,    /* a weighted sum of chi-squares, the weights being eigenvalues */
    CIRCE_NULL_WILD = 3,        /* random signs on the residuals, regressed again */
    CIRCE_NULL_PERMUTATION = 4, /* rows of z in random order; with a y, among rows of equal y */
    CIRCE_NULL_NORMAL = 5,      /* the standard normal distribution */
    CIRCE_NULL_MULTIPLIER = 6,  /* random signs, for the maximum */
} circe_test_null;

/* Where circe learns the mean of z given y. */
typedef enum circe_test_mean {
    CIRCE_MEAN_AUTO = 0,  /* the same as ROWS */
    CIRCE_MEAN_ROWS = 1,  /* the tested rows and any auxiliary rows; the null accounts for their double use */
    CIRCE_MEAN_SPLIT = 2, /* rows that are not tested, and any auxiliary rows */
} circe_test_mean;

CIRCE_API const char *circe_test_method_name(circe_test_method method);
CIRCE_API const char *circe_test_null_name(circe_test_null null);
CIRCE_API const char *circe_test_mean_name(circe_test_mean mean);
/* Parses a name from the table above. Any other gives CIRCE_ERR_ARGUMENT and an error text with the valid names. */
CIRCE_API circe_status circe_test_method_parse(const char *name, circe_test_method *method);
CIRCE_API circe_status circe_test_null_parse(const char *name, circe_test_null *null);

/* How gcm and wgcm regress x and z on y. */
typedef enum circe_test_regressor {
    CIRCE_REGRESSOR_KERNEL = 1, /* kernel ridge regression */
    CIRCE_REGRESSOR_LINEAR = 2, /* least squares */
    CIRCE_REGRESSOR_FOREST = 3, /* a random forest, out of bag */
} circe_test_regressor;

/* A cache of what tests of one table have in common: regressions of the same column on the same y, features, widths.
 * Entries are found by their content. Only one test at a time may use it, and only tests of its own context. It takes
 * about `bytes`, and must be destroyed before its context. */
typedef struct circe_test_memory circe_test_memory;
CIRCE_API circe_status circe_test_memory_create(const circe_context *context, double bytes, circe_test_memory **memory);
CIRCE_API void circe_test_memory_destroy(circe_test_memory *memory);

/* A device that computes a test's passes over the rows: a GPU (circe_cuda_test_device in circe/cuda.h). Only one test
 * at a time may use it. */
typedef struct circe_test_device circe_test_device;
CIRCE_API void circe_test_device_destroy(circe_test_device *device);

typedef struct circe_test_options {
    circe_test_method method;
    circe_test_null null;
    int64_t draws; /* for wild, permutation, multiplier and spectral; default 1,000 */
    uint64_t seed;
    double alpha;    /* the level that the verdict refers to; default 0.05 */
    int skip_checks; /* skip the checks of residuals, to save time; trust then depends on sample sizes alone */
    /* NULL: gaussian with the median heuristic, on columns divided by their standard deviations. Free factors get the
     * median width of their columns; for y, leave-one-out chooses among multiples of it. Use delta for categories:
     * "0:gaussian*1:delta". */
    const circe_kernel *kernel_x, *kernel_y, *kernel_z;
    const double *weights; /* (n), at least 0, not all 0; NULL: equal. Not for permutation, splitkci and pcm. */

    /* The regressions on y. */
    const double *width; /* grid of multiples of the median width of y; n_width = 0: {.01, .03, .1, .3, 1, 3} */
    int64_t n_width;
    const double *ridge; /* grid of lambda; n_ridge = 0: 1e-4 to 1e2, two per decade */
    int64_t n_ridge;
    double undersmoothing; /* factor on the chosen ridge; default 0.1, nearer to 1 above n / 3 degrees of freedom */
    circe_test_regressor regressor; /* gcm, wgcm */
    int64_t max_rank;               /* of the features of y; 0: n / 4, at least 128 and at most 760 */

    /* For circe: more pairs (y, z) without x; both or none. */
    const circe_mat *auxiliary_y, *auxiliary_z;
    circe_test_mean mean;
    /* For splitkci, and for circe with CIRCE_MEAN_SPLIT: the share of rows to test, in (0, 1). 0: one half; for
     * splitkci, the largest of 0.5, 0.4, ..., 0.1 whose regressions pass their check on the training rows. */
    double test_share;

    int64_t features_x, features_y,
        features_z; /* rcot: defaults 10, 0 and 10; y 0: 100 per column, at most 500 and n / 2 */

    /* Applied first, to all columns of x, y and z except those with a delta kernel. */
    circe_transform transform;

    /* Rows that depend on each other; not for splitkci and pcm, auxiliary rows or a split. groups (n): rows with equal
     * numbers may depend on each other in any way (a patient, a school). time (n): rows that are near in time may
     * depend on each other; rows of one time count as one. Both: every group is a separate series. NULL: rows are
     * independent of each other. */
    const double *groups, *time;
    /* Reuses what earlier tests of the same table computed. The results are the same. NULL: no reuse. */
    circe_test_memory *memory;
    double block; /* with time: the number of consecutive times in an independent block; 0: from the data */
    /* For gcm and wgcm: your own predictions of x and z from y, with the same shapes, for rows that their fit did not
     * see. They replace the regressions; both or none. */
    const circe_mat *fitted_x, *fitted_z;
    /* For kci, circe, gcm and rcot of independent rows, without auxiliary rows, a split or a forest; others are
     * refused. Tests of more than 8,192 rows then make their passes over the rows there, and nothing is shared through
     * `memory`. Smaller tests, and the choice of views, widths and ridges, which looks at some rows, stay on the host.
     * The results differ by rounding. NULL: everything on the host. */
    circe_test_device *device;
} circe_test_options;

/* The defaults: kci with the automatic null. */
CIRCE_API void circe_test_options_init(circe_test_options *options);

typedef enum circe_trust {
    CIRCE_TRUST_GOOD = 1,     /* all checks passed */
    CIRCE_TRUST_DOUBTFUL = 2, /* a check failed, and the method partly tolerates that */
    CIRCE_TRUST_POOR = 3,     /* do not use the p-value */
} circe_trust;

CIRCE_API const char *circe_trust_name(circe_trust trust);

enum { CIRCE_TEST_TEXT = 640, CIRCE_TEST_KERNEL_TEXT = 192, CIRCE_TEST_BASIS_TEXT = 48 };

/* One regression on y. `used` is 0 if the method has no regression on this side. */
typedef struct circe_test_regression {
    int used;
    double sigma2_multiple; /* the chosen multiple of the median width; 0: linear, or a mean per value of y */
    double ridge_chosen;    /* by leave-one-out */
    double ridge;           /* the one used, after undersmoothing */
    double loo_error; /* at the chosen ridge: the mean squared leave-one-out residual, relative to that of the mean */
    double degrees;   /* effective degrees of freedom, including the constant */
    int64_t rows;     /* of the regression */
    int64_t rank;     /* features of y */
    double left_out;  /* the share of the trace of y's kernel that these features leave out */
    double remaining; /* the share of the variance that is left: 1 if y explains nothing, 0 if y explains all */
    double check_p;   /* the p-value of a test that the residuals do not depend on y; NaN: not checked */
    /* The view of y, as parts joined by +: kernel (y's own), scores (gaussian of normal scores), rough (laplace of
     * these), additive (column by column), products (of columns), metric (gaussian of a few learned directions), leaves
     * (of a regression tree), values (one mean per value of y), linear, forest, given (your own predictions).
     * Cross-validation chooses it unless y's kernel is given. */
    char basis[CIRCE_TEST_BASIS_TEXT];
} circe_test_regression;

typedef struct circe_test_result {
    circe_test_method method;
    circe_test_null null;
    double statistic;
    double p_value;
    int64_t n;        /* rows given */
    int64_t n_used;   /* of positive weight */
    int64_t n_tested; /* in the statistic */
    int64_t n_train;  /* rows that only the regressions used, including auxiliary rows */
    int64_t draws;    /* 0: none were needed */
    double seconds;
    double null_mean, null_sd; /* of the statistic, under independence */
    circe_test_regression x, z;
    int64_t rank_x, rank_z; /* features in the statistic */
    double left_out_x, left_out_z;
    char kernel_x[CIRCE_TEST_KERNEL_TEXT], kernel_y[CIRCE_TEST_KERNEL_TEXT], kernel_z[CIRCE_TEST_KERNEL_TEXT];
    circe_trust trust;
    char verdict[CIRCE_TEST_TEXT]; /* a sentence on the p-value and the trust */
    /* The number of rows that carry the statistic, or that carry the column of x, y or z with the heaviest tails: n
     * over the kurtosis. It is small if a few outliers dominate. NaN: not checked. */
    double effective_rows;
    /* The p-value of the same test on normal scores, computed if few rows carry the variance. NaN: not needed, or not
     * checked. */
    double robust_p;
    /* For permutation within values of y: the p-value that counts each tie as one half, less conservative than p_value.
     * NaN for other nulls. */
    double mid_p;
    /* About how many standard deviations the errors of the two regressions could move the statistic. Estimated from
     * their degrees of freedom, from the similarity of the two fits (not for pcm) and, if the test rejects, from how
     * alike the residuals are of rows that are alike in y. NaN: not checked. */
    double misfit;
    /* If the test rejects, and many rows have the same y as others: the p-value with rows permuted within equal y,
     * which is right whatever the regressions miss, and the share of the rows' degrees of freedom that it sees. NaN and
     * 0: not computed. */
    double within_p, within_share;
    /* If x and z have columns with few values, or with one that most rows share: the number of rows in which their
     * rarest values are expected to meet. Below 5, the test says little about them. NaN for other columns. */
    double expected_count;
    /* With groups or time: the number of groups or blocks of time that count as independent, and the length of a block
     * in times (0 for groups). */
    int64_t blocks;
    double block_length;
    int64_t imputations; /* the number of imputed data sets whose p-values were pooled; 0: none */
    int on_device;       /* whether the device of the options made the passes over the rows */
} circe_test_result;

/* x (n, d_x), y (n, d_y) or NULL, z (n, d_z), with at least 8 rows of positive weight. options NULL: the defaults. */
CIRCE_API circe_status circe_test(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                  const circe_test_options *options, circe_test_result *result);

/* The same with missing cells (NaN) in x, y and z. Fills them in `imputations` times (20 are enough) from similar rows,
 * tests each data set, and pools the p-values by Rubin's rules. The rest of the result comes from the data set whose
 * p-value is nearest to the pooled one. */
CIRCE_API circe_status circe_test_impute(circe_context *context, const circe_mat *x, const circe_mat *y,
                                         const circe_mat *z, const circe_test_options *options, int64_t imputations,
                                         circe_test_result *result);

/* An estimate of what a test of all rows would cost, from a test of 10,000 random rows. Up to 50,000 rows, nothing is
 * tried. */
typedef struct circe_test_plan {
    int64_t rows;   /* all, or about as many as the time and half of the memory allow */
    double seconds; /* for all rows, about; NaN: not tried */
    double bytes;   /* for all rows, about */
} circe_test_plan;

CIRCE_API circe_status circe_test_foresee(circe_context *context, const circe_mat *x, const circe_mat *y,
                                          const circe_mat *z, const circe_test_options *options, double seconds,
                                          circe_test_plan *plan);

/* ---- calibration ------------------------------------------------------------------------------------------------- */

/* Writes p_values[0..repetitions), each from a data set whose x was drawn again given y, independently of z: the fitted
 * conditional mean at y plus the residual of a neighbour (another row, chosen at random by the kernel of y). Columns
 * with a delta kernel are taken from the neighbour. If the test is right for such data, the p-values are uniform.
 * Repetition r has the seed (seed, r). */
CIRCE_API circe_status circe_test_calibrate(circe_context *context, const circe_mat *x, const circe_mat *y,
                                            const circe_mat *z, const circe_test_options *options, int64_t repetitions,
                                            double *p_values);

/* Summarises p-values under the null: counts[0..bins), the share of p-values up to alpha with its 95 % interval
 * (Wilson), and the p-value of a Kolmogorov-Smirnov test of uniformity. */
typedef struct circe_calibration {
    double level, level_lower, level_upper;
    double uniform_p;
    circe_trust trust; /* good: the interval reaches down to alpha; doubtful: to 1.5 alpha; poor: neither */
    char verdict[CIRCE_TEST_TEXT];
} circe_calibration;

CIRCE_API circe_status circe_calibration_summary(const double *p_values, int64_t n, double alpha, int64_t bins,
                                                 int64_t *counts, circe_calibration *summary);

/* ---- effect sizes ------------------------------------------------------------------------------------------------ */

typedef struct circe_effect {
    double value;
    double lower, upper; /* 95 % interval from half-samples, within [0, 1] */
    double chance;       /* the mean of `value` if x is drawn again given y, as for calibration */
} circe_effect;

typedef struct circe_effects {
    circe_effect kpc;   /* of the part of x that y does not explain, the share that z explains */
    circe_effect circe; /* CIRCE divided by its largest possible value for these residuals, corrected for chance */
    int64_t rows;       /* at most 4,000, chosen at random */
    double seconds;
} circe_effects;

/* Uses the kernels, grids, weights and seed of the options, and `draws` half-samples (at least 20; 200 are enough). */
CIRCE_API circe_status circe_test_effects(circe_context *context, const circe_mat *x, const circe_mat *y,
                                          const circe_mat *z, const circe_test_options *options, int64_t draws,
                                          circe_effects *effects);

/* Shows where along column `column` of y the dependence occurs. For each of `points` places (quantiles of the column),
 * writes the mean contribution of the rows around it to the normalised CIRCE (the mean over all rows), a 95 % interval,
 * and the 95 % quantile, under independence, of the largest contribution over all places. A value above that quantile
 * shows dependence at this place. All arrays have `points` elements. */
CIRCE_API circe_status circe_test_along(circe_context *context, const circe_mat *x, const circe_mat *y,
                                        const circe_mat *z, const circe_test_options *options, int64_t column,
                                        int64_t points, double *place, double *value, double *lower, double *upper,
                                        double *null_upper);

CIRCE_END_DECLS

#endif
