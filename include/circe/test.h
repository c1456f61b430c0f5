/* Tests of x independent of z given y, with p-values that say how far they can be trusted.
 *
 *     method     statistic, from residuals given y                         null
 *     kci        all of x (and y) against all of z, both sides regressed   gamma, spectral, wild, permutation
 *     circe      the same, z alone regressed: CIRCE's operator             wild, permutation
 *     splitkci   as kci, out of sample, two regressions on halves          wild
 *     gcm        covariances of the columns themselves                     normal, multiplier, permutation
 *     rcot       as kci with a few random Fourier features; a million rows spectral, permutation
 *     hsic       x against z, whatever y                                   permutation, gamma, wild
 *     wgcm       as gcm, and weighted by signs along y                     multiplier, permutation
 *     pcm        does z help to predict x beyond y?                        normal
 *
 * docs/testing.md says which to use when and what was measured; docs/math.md, section Tests, has the derivations.
 *
 * Everything random is a function of `seed`: the same data, options and seed give the same p-value on any number of
 * threads. p-values by draws are (1 + number of draws at least as large) / (1 + draws), never 0; those by formula are
 * at least 1e-12.
 *
 * y may be NULL or have 0 columns: then every method is its own marginal test. Where x or z is constant, or y
 * determines one of them to rounding, nothing is left to depend: the statistic is 0 and the p-value 1. Equal rows and
 * tied values are data like others. */
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

/* How the distribution under independence is had. */
typedef enum circe_test_null {
    CIRCE_NULL_AUTO = 0,        /* the method's first in the table above; hsic beyond 20,000 rows: gamma; gcm of one
                                   pair of columns: normal; kci, circe, gcm and rcot with a y of few values:
                                   permutation, where that takes little time */
    CIRCE_NULL_GAMMA = 1,       /* a gamma distribution of the same mean and variance */
    CIRCE_NULL_SPECTRAL = 2,    /* a weighted sum of chi-squares, the weights being eigenvalues */
    CIRCE_NULL_WILD = 3,        /* random signs on the residuals, regressed again */
    CIRCE_NULL_PERMUTATION = 4, /* rows of z in random order, among rows of equal y where there is a y */
    CIRCE_NULL_NORMAL = 5,      /* the standard normal distribution */
    CIRCE_NULL_MULTIPLIER = 6,  /* random signs, of the maximum */
} circe_test_null;

/* Where circe's mean of z given y comes from. */
typedef enum circe_test_mean {
    CIRCE_MEAN_AUTO = 0,  /* with auxiliary data both, otherwise all rows */
    CIRCE_MEAN_ROWS = 1,  /* the tested rows (and auxiliary ones); their own part is accounted for */
    CIRCE_MEAN_SPLIT = 2, /* a part of the rows that is not tested (and auxiliary ones) */
} circe_test_mean;

CIRCE_API const char *circe_test_method_name(circe_test_method method);
CIRCE_API const char *circe_test_null_name(circe_test_null null);
CIRCE_API const char *circe_test_mean_name(circe_test_mean mean);
/* From a name as above; CIRCE_ERR_ARGUMENT, with the names there are, for others. */
CIRCE_API circe_status circe_test_method_parse(const char *name, circe_test_method *method);
CIRCE_API circe_status circe_test_null_parse(const char *name, circe_test_null *null);

typedef struct circe_test_options {
    circe_test_method method;
    circe_test_null null;
    int64_t draws; /* of wild, permutation, multiplier, and of the weighted sum: 1,000 */
    uint64_t seed;
    double alpha;    /* the level the words of the verdict speak of: 0.05 */
    int skip_checks; /* non-zero: no residual checks, for whoever runs thousands of tests; trust is then of sizes alone
                      */
    /* NULL: gaussian over the columns, each divided by its standard deviation, with the median heuristic. Free factors
     * of a kernel that is given get the median of their columns; of y, where regressions are chosen, multiples of it
     * by leave-one-out. Delta for categories: "0:gaussian*1:delta". */
    const circe_kernel *kernel_x, *kernel_y, *kernel_z;
    const double *weights; /* (n) of the rows, at least 0, not all 0; NULL: equal. Not for permutation and splitkci. */

    /* The regressions on y. */
    const double *width; /* grid of multiples of the median width of y; n_width = 0: {.01, .03, .1, .3, 1, 3} */
    int64_t n_width;
    const double *ridge; /* grid of lambda; n_ridge = 0: 1e-4 .. 1e2, two a decade */
    int64_t n_ridge;
    double
        undersmoothing; /* times the ridge that leave-one-out chose: 0.1; less of it beyond n / 3 degrees of freedom */
    circe_gcm_regression regression; /* gcm, wgcm: kernel or linear */
    int64_t max_rank;                /* of the features of y; 0: n / 4, between 256 and 760 */

    /* circe: more pairs (y, z), whose x is not known; both or none. */
    const circe_mat *auxiliary_y, *auxiliary_z;
    circe_test_mean mean;
    /* circe with CIRCE_MEAN_SPLIT, and splitkci: the share of rows that is tested, in (0, 1); 0: a half, and for
     * splitkci the largest of 0.5, 0.4 .. 0.1 whose regressions pass their check on the training rows. */
    double test_share;

    int64_t features_x, features_y,
        features_z; /* rcot: random features; 10, 0 and 10. y's 0: 100 a column, at most 500 and n / 2 */

    /* Of the columns of x, y and z, except those under a delta kernel, before anything else. */
    circe_transform transform;
} circe_test_options;

/* kci, automatic null. */
CIRCE_API void circe_test_options_init(circe_test_options *options);

typedef enum circe_trust {
    CIRCE_TRUST_GOOD = 1,     /* nothing speaks against the p-value */
    CIRCE_TRUST_DOUBTFUL = 2, /* a check failed that the method can partly stand */
    CIRCE_TRUST_POOR = 3,     /* do not use the p-value */
} circe_trust;

CIRCE_API const char *circe_trust_name(circe_trust trust);

enum { CIRCE_TEST_TEXT = 640, CIRCE_TEST_KERNEL_TEXT = 192, CIRCE_TEST_BASIS_TEXT = 48 };

/* One regression on y. `used` is 0 where the method has none on this side. */
typedef struct circe_test_regression {
    int used;
    double sigma2_multiple; /* of the median width, chosen; 0: linear, or value by value: y has few values */
    double ridge_chosen;    /* by leave-one-out */
    double ridge;           /* used: undersmoothed */
    double loo_error;       /* at the chosen ridge: mean squared leave-one-out residual over that of the mean alone */
    double degrees;         /* effective degrees of freedom, the constant included */
    int64_t rows;           /* regressed on */
    int64_t rank;           /* features of y */
    double left_out;        /* share of the trace of y's kernel that these leave out */
    double remaining;       /* share of the variance that the regression leaves: 1, y tells nothing; 0, everything */
    double check_p;         /* are the residuals free of y? The p-value of a test of that; NaN where not checked */
    /* How it saw y, parts joined by +: kernel (y's own), scores (gaussian of normal scores), rough (laplace of these),
     * additive (column by column), products (of columns), metric (gaussian of few learned directions), leaves (of a
     * regression tree); values (a mean for each of few values), linear. Chosen by cross-validation where y's kernel is
     * not given. */
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
    int64_t n_train;  /* rows that only the regressions saw, auxiliary ones included */
    int64_t draws;    /* 0 where none were needed */
    double seconds;
    double null_mean, null_sd; /* of the statistic, under independence */
    circe_test_regression x, z;
    int64_t rank_x, rank_z; /* features that the statistic is made of */
    double left_out_x, left_out_z;
    char kernel_x[CIRCE_TEST_KERNEL_TEXT], kernel_y[CIRCE_TEST_KERNEL_TEXT], kernel_z[CIRCE_TEST_KERNEL_TEXT];
    circe_trust trust;
    char verdict[CIRCE_TEST_TEXT]; /* the p-value and the trust in words */
    /* How many rows carry the statistic, or the column of x, y or z that the fewest carry: n over the kurtosis. A few
     * outliers make it a few. NaN: not checked. */
    double effective_rows;
    /* The p-value of the same test on normal scores, where few rows carry the variance; NaN: not needed, or not
     * checked. */
    double robust_p;
    /* Of the null permutation within y: the p-value with ties counted as halves, less cautious than p_value. NaN:
     * another null. */
    double mid_p;
    /* How far what the two regressions miss could move the statistic, about, in its standard deviations: from their
     * degrees of freedom and from how much alike the two fits are. NaN: not checked. */
    double misfit;
    /* Of an x and a z of one column and few values each: in how many rows the rarest of both are expected together.
     * Below 5 little can be seen of them. NaN: other columns. */
    double expected_count;
} circe_test_result;

/* x (n, d_x), y (n, d_y) or NULL, z (n, d_z); at least 8 rows of positive weight. options NULL: the defaults. */
CIRCE_API circe_status circe_test(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                  const circe_test_options *options, circe_test_result *result);

/* What a test of all rows would take, from a test of 10,000 random ones. Up to 50,000 rows nothing is probed. */
typedef struct circe_test_plan {
    int64_t rows;   /* all, where they can be tested in the time and in half of the memory; else about as many as can */
    double seconds; /* that all rows take, about; NaN: not probed */
    double bytes;   /* that all rows take, about */
} circe_test_plan;

CIRCE_API circe_status circe_test_foresee(circe_context *context, const circe_mat *x, const circe_mat *y,
                                          const circe_mat *z, const circe_test_options *options, double seconds,
                                          circe_test_plan *plan);

/* ---- calibration --------------------------------------------------------------------------------------------------
 */

/* p_values[0..repetitions): of data sets whose x was drawn again given y, independently of z, from what was fitted: the
 * conditional mean at y plus the residual of a neighbour in y (another row, at random by the kernel of y); columns
 * under a delta kernel are taken from the neighbour. If the test is right for data like these, they are uniform.
 * Repetition r has the seed (seed, r). */
CIRCE_API circe_status circe_test_calibrate(circe_context *context, const circe_mat *x, const circe_mat *y,
                                            const circe_mat *z, const circe_test_options *options, int64_t repetitions,
                                            double *p_values);

/* What a list of p-values under the null says: counts[0..bins), the share at most alpha with its 95 % interval
 * (Wilson), and the Kolmogorov-Smirnov p-value against uniform. */
typedef struct circe_calibration {
    double level, level_lower, level_upper;
    double uniform_p;
    circe_trust
        trust; /* good: the interval holds alpha or lies below; doubtful: above by up to alpha / 2; poor: more */
    char verdict[CIRCE_TEST_TEXT];
} circe_calibration;

CIRCE_API circe_status circe_calibration_summary(const double *p_values, int64_t n, double alpha, int64_t bins,
                                                 int64_t *counts, circe_calibration *summary);

/* ---- effect sizes -------------------------------------------------------------------------------------------------
 */

typedef struct circe_effect {
    double value;
    double lower, upper; /* 95 % by half-samples, within [0, 1] */
    double chance;       /* the mean of `value` where x is drawn again given y, as for calibration */
} circe_effect;

typedef struct circe_effects {
    circe_effect kpc;   /* the share of what y leaves of x that z explains */
    circe_effect circe; /* CIRCE over its largest possible value for these residuals, without the part that is chance */
    int64_t rows;       /* used: at most 4,000, at random */
    double seconds;
} circe_effects;

/* Kernels, grids, weights and seed of the options; `draws` half-samples (at least 20; 200 are enough). */
CIRCE_API circe_status circe_test_effects(circe_context *context, const circe_mat *x, const circe_mat *y,
                                          const circe_mat *z, const circe_test_options *options, int64_t draws,
                                          circe_effects *effects);

/* Where along column `column` of y the dependence sits: at each of `points` places, quantiles of that column, the mean
 * contribution of the rows around it to the normalised CIRCE (whose value is the mean over all rows), a 95 % interval,
 * and the 95 % quantile under independence of the largest over all places: above it, there is dependence here.
 * Arrays of `points` each. */
CIRCE_API circe_status circe_test_along(circe_context *context, const circe_mat *x, const circe_mat *y,
                                        const circe_mat *z, const circe_test_options *options, int64_t column,
                                        int64_t points, double *place, double *value, double *lower, double *upper,
                                        double *null_upper);

CIRCE_END_DECLS

#endif
