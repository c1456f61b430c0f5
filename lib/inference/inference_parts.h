/* The internals of the tests.
 *
 * Data flow of a test:   data.c         x, y, z, weights, kernels: checked, copied, their widths bound
 *                        features.c     features of kernels, (n, r), by pivoted Cholesky with a largest rank
 *                        spectrum.c     features of y, decomposed: one spectrum serves every ridge
 *                        regression.c   regressions on y: leave-one-out, the choice, residuals
 *                        pair.c         left (n, p) and right (n, q): what is tested against what
 *                        wild.c, moments.c, distribution.c   the null
 *                        checks.c       are the regressions good enough
 *                        missed.c       are residuals of rows alike that are alike in y
 *                        strata.c       permutations within equal y
 *                        verdict.c      the trust and the verdict, in words
 *                        rows.c         operations on tables, in the host's memory or a device's
 * One file per method puts these together. Rows are multiplied by the root of their weight before anything else, so
 * that no later formula needs weights: the constant function is the vector `unit` of length 1. */
#ifndef CIRCE_INFERENCE_INTERNAL_H
#define CIRCE_INFERENCE_INTERNAL_H

#include <math.h>

#include "circe/test.h"
#include "cme/cme_parts.h"
#include "cme/rows.h"

enum {
    CIRCE__STREAM_SIGNS = 0x7369676e73,
    CIRCE__STREAM_ROWS = 0x726f7773,
    CIRCE__STREAM_SPLIT = 0x73706c6974,
    CIRCE__STREAM_PERMUTE = 0x7065726d,
    CIRCE__STREAM_FOURIER = 0x666f7572,
    CIRCE__STREAM_RESAMPLE = 0x72657361,
    CIRCE__STREAM_HALVES = 0x68616c76,
    CIRCE__STREAM_FOREST = 0x666f726573,
    CIRCE__STREAM_MISSED = 0x6d6973736564,
};

typedef struct circe__table {
    int64_t rows, cols;
    double *data;              /* (rows, cols), owned */
    circe_test_device *device; /* in whose memory data is; NULL: the host's */
} circe__table;

/* ---- data.c ----------------------------------------------------------------------------------------------------- */

typedef struct circe__variable {
    int64_t dim;
    double *points;       /* (rows, dim): n of x, total of y and z */
    circe_kernel *kernel; /* bound; NULL if dim = 0 */
    bool *free;           /* per factor: its width was not given */
    bool constant;
    double left; /* the share of its squares that given predictions leave */
} circe__variable;

typedef struct circe__faces circe__faces;           /* faces.h */
typedef struct circe__dependence circe__dependence; /* dependence.h */

/* How a regression sees y. */
enum {
    CIRCE__KERNEL = 1,
    CIRCE__SCORES = 2,
    CIRCE__ROUGH = 4,
    CIRCE__ADDITIVE = 8,
    CIRCE__METRIC = 16,
    CIRCE__LEAVES = 32,
    CIRCE__VALUES = 64,
    CIRCE__LINEAR = 128,
    CIRCE__PRODUCTS = 256,
    CIRCE__FOREST = 512,
    CIRCE__GIVEN = 1024,
};
typedef struct circe__sight {
    unsigned parts;  /* of the above (faces.h) */
    int side;        /* whose target metric and leaves were fitted to: 0, x; 1, z */
    double multiple; /* of the median width */
    int64_t rank;    /* the most features of y; 0: as many as the options allow */
    double left_out; /* the share of the kernel's trace that they may leave out; 0: next to nothing */
} circe__sight;

typedef struct circe__data {
    circe_context *context;
    circe_test_options options; /* complete */
    int64_t given;              /* rows the caller gave */
    int64_t n;                  /* of positive weight */
    int64_t total;              /* with auxiliary rows of (y, z), which come last */
    circe__variable x, y, z;
    circe__variable coded; /* y's columns as numbers if some are classes (code.c); otherwise dim 0 */
    double *root;          /* (total): roots of the weights, whose mean is 1; auxiliary rows weigh 1 */
    double *unit;          /* (total): root over its length */
    int64_t *row;          /* (n): which of the given rows */
    bool quick;            /* regressions are first looked for among few candidates (screen.c) */
    bool by_value;       /* y has few values with many rows each: regressions on it go value by value (regression.c) */
    circe__faces *faces; /* owned; NULL: y's kernel is the only one */
    circe__dependence *dependence; /* owned; NULL: rows are independent */
    /* Where tables of all rows are made; NULL: in the host's memory. The same root and unit there. (rows.c) */
    circe_test_device *device;
    circe__table device_root, device_unit;
} circe__data;

circe_status circe__data_begin(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                               const circe_test_options *options, circe__data *data);
void circe__data_free(circe__data *data);

/* data->coded of a y that has classes by its kernel (code.c). */
circe_status circe__code_classes(circe__data *data);

/* y's columns for whatever takes them as numbers: lines, products, splits, signs. */
static inline const circe__variable *circe__columns(const circe__data *data) {
    return data->coded.dim > 0 ? &data->coded : &data->y;
}

/* A copy of y's kernel with its free widths multiplied. The caller frees it. */
circe_status circe__scaled_kernel(const circe__data *data, const circe__variable *variable, double multiple,
                                  circe_kernel **kernel);

/* Columns about their means and over their standard deviations, both of the first n rows. */
void circe__standardize(double *points, int64_t n, int64_t rows, int64_t dim);

/* v->kernel, with free widths bound to the median of its points. */
circe_status circe__bind_kernel(const circe__data *data, circe__variable *v, const circe_kernel *given);
void circe__variable_free(const circe_context *context, circe__variable *v);
circe_status circe__variable_subset(const circe__data *data, const circe__variable *from, const int64_t *index,
                                    int64_t n, circe__variable *to);
/* Makes a face of points, which it takes over, under one kernel of median width (faces.c). */
circe_status circe__face_set(const circe__data *data, double *points, int64_t dim, circe_kernel_kind kind,
                             circe__variable *face);

/* y alone of the rows index[0..n), auxiliary ones among them. */
circe_status circe__data_rows_of_y(const circe__data *data, const int64_t *index, int64_t n, circe__data *subset);

/* The rows index[0..n) of a data set without auxiliary rows, as one of its own. */
circe_status circe__data_subset(const circe__data *data, const int64_t *index, int64_t n, circe__data *subset);

circe_status circe__test_fill(const circe_test_options *given, circe_test_options *options);

/* Runs parts that do not depend on each other, such as both sides of a test, beside each other if nothing that they
 * share is for one thread alone: a caller's allocator, a memory of regressions. The result is the same either way. The
 * first failure counts. */
typedef circe_status circe__part_fn(void *user, int64_t part);
circe_status circe__beside(const circe__data *data, int64_t parts, circe__part_fn *run, void *user);

/* ---- features.c ------------------------------------------------------------------------------------------------- */

void circe__table_free(const circe_context *context, circe__table *table);
void circe__table_drop(circe__table *table); /* the same, of a local (CIRCE__OWNED_BY) */
circe_status circe__table_new(const circe_context *context, int64_t rows, int64_t cols, circe__table *table);
circe_status circe__table_copy(const circe_context *context, const circe__table *from, circe__table *to);

/* Features of a kernel, its trace matched to `tolerance` or with `most` columns, whichever comes first; `left` is the
 * share of the trace left out. Neither weighted nor centred. */
circe_status circe__features_of(const circe__data *data, const circe_kernel *kernel, const double *points, int64_t n,
                                int64_t dim, double tolerance, int64_t most, const char *name, circe__table *features,
                                double *left);

/* The same of the pairs (x, y) under the product of their kernels, y's at its median width. */
circe_status circe__joint_features(const circe__data *data, double tolerance, int64_t most, circe__table *features,
                                   double *left);

/* Times root, minus the part along the constant. */
circe_status circe__weigh(const circe__data *data, circe__table *table);

/* In place: the leading `most` principal directions; returns the share of the square norm that is lost. */
circe_status circe__compress(const circe__data *data, circe__table *table, circe__table *along, int64_t most,
                             double *lost);

/* Sum of squares. */
double circe__square_norm(const double *a, int64_t n);

/* ---- spectrum.c ------------------------------------------------------------------------------------------------- */

/* K_yy ~ Q Q' after centring, Q'Q = diag(s): S = Q diag(1/(s + ridge)) Q' + unit unit'. */
typedef struct circe__spectrum {
    int64_t n, rank;
    circe__sight sight;
    double *Q; /* (n, rank) */
    double *s; /* (rank) */
    double left_out;
    circe_test_device *device; /* of Q, as for a table */
} circe__spectrum;

circe_status circe__spectrum_make(const circe__data *data, const circe__sight *sight, circe__spectrum *spectrum);
circe_status circe__spectrum_linear(const circe__data *data, circe__spectrum *spectrum);
/* From centred, weighted features F (n, r), which are consumed. */
circe_status circe__decompose(const circe__data *data, circe__table *F, circe__table *also, circe__spectrum *spectrum);
/* The same without directions that are not needed: all but the last of the rank, whose s are the largest. The function
 * sees F, the directions V (rank, r) and s, and sets *needed. */
typedef circe_status circe__needed_fn(void *user, const circe__table *F, const double *V, double *s, int64_t rank,
                                      int64_t *needed);
circe_status circe__decompose_needed(const circe__data *data, circe__table *F, circe__table *also,
                                     circe__needed_fn *count, void *user, circe__spectrum *spectrum);
void circe__spectrum_free(const circe_context *context, circe__spectrum *spectrum);
/* Q as a table, still the spectrum's. */
static inline circe__table circe__spectrum_rows(const circe__spectrum *spectrum) {
    return (circe__table){spectrum->n, spectrum->rank, spectrum->Q, spectrum->device};
}

/* ---- regression.c ----------------------------------------------------------------------------------------------- */

/* For regressions value by value, which penalise nothing. */
#define CIRCE__NO_RIDGE 1e-8

typedef struct circe__regressor {
    const circe__data *data;
    const circe__spectrum *spectrum;
    double ridge;
    bool quick;                /* found by the short search */
    double *leverage;          /* (n): the diagonal of S */
    circe_test_device *device; /* of leverage, as for a table */
    circe_test_regression info;
    uint64_t key[2]; /* of what it was computed from, where there is a memory of tests (memory.h) */
} circe__regressor;

/* The regressions of up to two targets on y, each with its own width and ridge. */
typedef struct circe__regressions {
    circe__spectrum spectra[2];
    circe__regressor side[2];
    int64_t n_spectra;
    bool borrowed; /* sides of a memory (memory.h), which owns what they point to */
} circe__regressions;

/* Targets (total rows), weighed; NULL: none on that side. */
circe_status circe__regress(const circe__data *data, const circe__table *const targets[2], circe__regressions *made);
void circe__regressions_free(const circe_context *context, circe__regressions *made);

/* errors[0..n_ridge): mean squared leave-one-out residuals of the target at each ridge; *alone: of the mean alone. */
circe_status circe__loo(const circe__data *data, const circe__spectrum *spectrum, const circe__table *target,
                        const double *ridge, int64_t n_ridge, double *errors, double *alone);

/* `factor` times the ridge that was chosen, but large enough to use at most a third of the rows as degrees of
 * freedom. */
double circe__undersmoothed(const circe__spectrum *spectrum, double chosen, double factor);

circe_status circe__regressor_set(const circe__data *data, const circe__spectrum *spectrum, double ridge,
                                  circe__regressor *regressor);

/* 1 - leverage of a row, kept away from 0. */
static inline double circe__rest(const circe__regressor *regressor, int64_t i) {
    return circe__rest_of(regressor->leverage[i]);
}

/* Whether the regressions on y use a kernel, and not least squares, a forest or the caller's predictions. */
static inline bool circe__by_kernel(const circe__data *data) {
    return data->options.regressor == CIRCE_REGRESSOR_KERNEL && data->options.fitted_x == NULL;
}

/* table := (I - S) table. */
circe_status circe__residual(const circe__regressor *regressor, circe__table *table);

/* ---- outside.c -------------------------------------------------------------------------------------------------- */

/* Rows that a regression is fitted on, and rows it is used for. */
typedef struct circe__fold {
    const int64_t *train, *test;
    int64_t n_train, n_test;
} circe__fold;

/* The regression of one target fitted on the training rows: residual of a test row = t - unit part - Q_test
 * diag(1/(s + ridge)) Q_train' t_train. */
typedef struct circe__outside {
    circe__data part;         /* of the training rows: root and unit alone */
    circe__spectrum spectrum; /* Q_train */
    circe__table Q_test;      /* (n_test, rank) */
    circe__regressor regressor;
} circe__outside;

/* `features` of y (all rows, rank), unweighted; the ridge by leave-one-out on the training rows, then undersmoothed. */
circe_status circe__outside_fit(const circe__data *data, const circe__table *features, const circe__table *target,
                                const circe__fold *fold, circe__outside *fit);
void circe__outside_free(const circe_context *context, circe__outside *fit);

/* residual (n_test, q) of the target on the test rows. */
circe_status circe__outside_residual(const circe__data *data, const circe__outside *fit, const circe__table *target,
                                     const circe__fold *fold, circe__table *residual);

/* The rows index[0..n) of a table, in the host's memory. */
circe_status circe__table_rows(const circe_context *context, const circe__table *from, const int64_t *index, int64_t n,
                               circe__table *to);

/* A regression on some rows alone, with a width and ridge that were chosen before, for centring by functions of y. The
 * regressor points into the object. */
typedef struct circe__local {
    circe__data part;
    circe__spectrum spectrum;
    circe__regressor regressor;
} circe__local;

circe_status circe__local_make(const circe__data *data, const int64_t *index, int64_t n, const circe__sight *sight,
                               double ridge, circe__local *local);
void circe__local_free(const circe_context *context, circe__local *local);

/* Features of y as a regression sees it, all rows. */
circe_status circe__features_y(const circe__data *data, const circe__sight *sight, circe__table *features,
                               double *left);

/* ---- rows.c: tables where they lie ------------------------------------------------------------------------------ */

/* Refuses what a device of the options cannot do. */
circe_status circe__rows_check(const circe_test_options *options);
/* From here on, tables of the data's rows are made on the device of its options, if there are enough rows; until the
 * end, before which they must be freed. */
circe_status circe__rows_begin(circe__data *data);
void circe__rows_end(circe__data *data);
/* The same data set, whose tables are made on the host. Nothing of it is to be freed. */
circe__data circe__on_host(const circe__data *data);

circe_status circe__table_at(const circe_context *context, circe_test_device *device, int64_t rows, int64_t cols,
                             circe__table *table);
/* Moves a table to where the data's are made. */
circe_status circe__to_device(const circe__data *data, circe__table *table);
/* to := a copy in the host's memory. */
circe_status circe__to_host(const circe_context *context, const circe__table *from, circe__table *to);
circe_status circe__pick_columns(const circe_context *context, const circe__table *from, const int64_t *index,
                                 int64_t cols, circe__table *to);
/* Columns first, first + step, ... */
circe_status circe__some_columns(const circe_context *context, const circe__table *from, int64_t first, int64_t step,
                                 int64_t cols, circe__table *to);
/* to (n, cols), the host's := the rows index[0..n). */
circe_status circe__rows_of(const circe__table *from, const int64_t *index, int64_t n, double *to);

/* out (p, q) := a'b of the first p and q columns; G (r, r), the lower triangle at least := F'F; to (n, cols) := from
 * V', V (cols, columns of from). Small matrices are the host's. */
circe_status circe__cross(const circe_context *context, const circe__table *a, int64_t p, const circe__table *b,
                          int64_t q, double *out);
circe_status circe__squared(const circe_context *context, const circe__table *F, double *G);
circe_status circe__turned(const circe_context *context, const circe__table *from, const double *V, int64_t cols,
                           circe__table *to);

/* The sum of squares of all elements. */
circe_status circe__size_of(const circe__data *data, const circe__table *table, double *size);

/* For tables on a device only; the host has these passes where they are needed. */
circe_status circe__rows_features(const circe__data *data, const circe__basis *basis, const double *points, int64_t n,
                                  circe__table *features, double *left);
circe_status circe__rows_weigh(const circe__data *data, circe__table *table);
/* table -= a b, b (columns of a, columns of the table) the host's. */
circe_status circe__rows_subtract(const circe__table *a, const double *b, circe__table *table);
/* both := [a, b scale]; a without columns may lie anywhere. */
circe_status circe__rows_beside(const circe__data *data, const circe__table *a, const circe__table *b, double scale,
                                circe__table *both);
/* The sum of squares of each of the first columns, and of all of them; rows times circe__rest if there is a regressor.
 */
circe_status circe__rows_squares(const circe__table *table, int64_t columns, const circe__regressor *regressor,
                                 double *squares);
circe_status circe__rows_square(const circe__data *data, const circe__table *table, int64_t columns,
                                const circe__regressor *regressor, double *sum);
circe_status circe__rows_leverage(const circe__data *data, const circe__spectrum *spectrum, double ridge,
                                  circe__regressor *regressor, double *degrees);
/* Rows over circe__rest. */
circe_status circe__rows_divide(const circe__regressor *regressor, circe__table *table);

/* ---- pair.c ----------------------------------------------------------------------------------------------------- */

/* statistic = |left' right|^2, right being residuals up to what left is blind to; under the null it is distributed as
 * |left' diag(signs) noise|^2. */
typedef struct circe__pair {
    int64_t n, p, q;
    circe__table left, right, noise;
    circe__table noise_x; /* the same of what the left side's regression was chosen by; empty: none, or not checked */
    double scale;         /* the statistic as reported is |.|^2 times this */
} circe__pair;

typedef struct circe__pair_plan {
    bool regress_x; /* the left side as well */
    bool center_y;  /* the left side is centred, function of y by function of y, with the right side's smoother */
    bool columns;   /* the columns themselves, not kernel features (gcm) */
    bool weighted;  /* each also times signs along y (wgcm) */
} circe__pair_plan;

/* rows.c, on a device: sums of v_i = |left_i|^2 |noise_i|^2 and of their squares; the same of every pair of columns (p,
 * q), squares NULL: not needed; circe__wild; a copy of both sides in the host's memory. */
circe__rows_pair circe__rows_pair_of(const circe__pair *pair);
circe_status circe__rows_carried(const circe__pair *pair, double sums[2]);
circe_status circe__rows_pair_squares(const circe__pair *pair, double *sums, double *squares);
circe_status circe__rows_wild(const circe__data *data, const circe__pair *pair, const double *inverse, int64_t draws,
                              uint64_t stream, double *null);
circe_status circe__pair_to_host(const circe__data *data, const circe__pair *pair, circe__pair *host);

circe_status circe__pair_make(const circe__data *data, const circe__pair_plan *plan, circe__pair *pair,
                              circe__regressions *regressions, circe_test_result *result);
/* A misfit makes p-values too small. One so large stays, whatever the regressions miss. */
static inline bool circe__may_be_misfit(const circe__data *data, const circe_test_result *result) {
    return result->p_value <= fmax(2.0 * data->options.alpha, 0.2);
}
/* Are the residuals free of y, and how far could the errors of both fits move the statistic? target: of the left side;
 * NULL: it is not regressed. noise: of the target. */
circe_status circe__check_sides(const circe__data *data, const circe__table *target, const circe__table *noise,
                                circe__regressions *regressions, const circe__pair *pair, circe_test_result *result);
void circe__pair_free(const circe_context *context, circe__pair *pair);
/* |left' right|^2 */
circe_status circe__pair_statistic(const circe__data *data, const circe__pair *pair, double *value);

/* The share of the right side's squares that its regression leaves: residual = noise (1 - leverage). */
circe_status circe__remaining(const circe__data *data, const circe__regressor *side, const circe__table *right,
                              const circe__table *noise, double *share);

/* noise (n, q) := residuals of the right side over 1 - leverage. */
circe_status circe__noise(const circe__data *data, const circe__regressor *regressor, const circe__table *right,
                          circe__table *noise);
/* The same from the residual, in place. */
circe_status circe__noise_of(const circe__data *data, const circe__regressor *regressor, circe__table *residual);

/* ---- wild.c ----------------------------------------------------------------------------------------------------- */

/* out (draws, ld): signs of rows [first, first + n), first a multiple of 32, of draws [draw, draw + draws). */
void circe__signs(uint64_t seed, uint64_t stream, int64_t total_rows, int64_t draw, int64_t draws, int64_t first,
                  int64_t n, double *out, int64_t ld);

/* The same signs as bits: words (draws, circe__sign_words(n)), bit i % 32 of word i / 32 is set where row i has 1. */
int64_t circe__sign_words(int64_t n);
void circe__draw_words(const circe__data *data, uint64_t stream, int64_t n, int64_t draw, int64_t draws,
                       uint32_t *words);

/* null[0..draws) = |left' diag(signs) noise|^2; if `inverse` (p q) is not NULL, the largest of |left_a' diag(signs)
 * noise_b| inverse_ab instead. */
circe_status circe__wild(const circe__data *data, const circe__pair *pair, const double *inverse, int64_t draws,
                         uint64_t stream, double *null);

/* (1 + #{null >= value}) / (1 + draws), equal up to rounding counting as equal. */
double circe__rank_p(double value, const double *null, int64_t draws);

/* Writes statistic, p-value, mean and deviation of the null to the result, each draw and the value times `scale`. */
void circe__report_draws(double value, const double *null, int64_t draws, double scale, circe_test_result *result);

/* ---- strata.c --------------------------------------------------------------------------------------------------- */

/* Whether y has few values, so that rows may be permuted within each; and whether that is the automatic null of this
 * pair, because it is exact and takes little work. */
bool circe__may_permute(const circe__data *data);
bool circe__should_permute(const circe__data *data, const circe__pair *pair);

/* p-value and mid-p of |left' right|^2 or, if `largest`, of the largest correlation of a column of left with one of
 * right: among draws with the rows of the right side in random order within each value of y. */
circe_status circe__permute_within_y(const circe__data *data, const circe__pair *pair, bool largest,
                                     circe_test_result *result);

/* Sets result->expected_count. If that is small, the p-value becomes the larger of itself and that of residuals in
 * random order within the classes among y's columns. */
void circe__count_classes(const circe__data *data, circe_test_result *result);
circe_status circe__permute_residuals(const circe__data *data, const circe__pair *pair, bool largest,
                                      circe_test_result *result);

/* The tested rows, value of y by value: rows[start[v]..start[v + 1]) have the v-th of k. */
typedef struct circe__strata {
    int64_t k, *rows, *start;
} circe__strata;
void circe__strata_free(const circe_context *context, circe__strata *s);

/* Rows of equal y; k = 0 if less than three tenths of the rows' degrees of freedom lie within. */
circe_status circe__equal_rows(const circe__data *data, circe__strata *s);
static inline double circe__share_within(const circe__strata *s, int64_t n) { return 1.0 - (double)s->k / (double)n; }

/* Whether a rejection is to be compared with what rows of equal y show: result->within_p. And that, by the pair's left
 * side and its noise. */
bool circe__looks_within(const circe__data *data, const circe_test_result *result);
circe_status circe__compare_within(const circe__data *data, const circe__pair *pair, bool largest,
                                   circe_test_result *result);

/* Whether all columns have a delta kernel, or column c of `dim` has (checks.c). */
bool circe__only_categories(const circe__variable *v);
bool circe__is_category(const circe_kernel *kernel, int64_t dim, int64_t c);

/* Whether x and z have values so rare that the null in use does not hold (strata.c). */
bool circe__too_rare(const circe__data *data, const circe_test_result *result);

/* ---- moments.c -------------------------------------------------------------------------------------------------- */

/* Mean and variance of that null: W_ij = (left_i . left_j) (noise_i . noise_j), trace and 2 |W|^2. Beyond `most` rows,
 * that many random rows give the variance. */
circe_status circe__moments(const circe__data *data, const circe__pair *pair, int64_t most, double *mean,
                            double *variance);

/* The eigenvalues of W, descending: exact if p q or n is at most 1,024, otherwise from 1,024 random rows. The caller
 * frees *weights. */
circe_status circe__null_weights(const circe__data *data, const circe__pair *pair, double **weights, int64_t *n);

/* ---- distribution.c --------------------------------------------------------------------------------------------- */

double circe__gamma_tail(double shape, double x);                        /* Gamma(shape, x) / Gamma(shape) */
double circe__normal_tail(double x);                                     /* P(N > x) */
double circe__normal_quantile(double p);                                 /* z with P(N > z) = p, by bisection */
double circe__weighted_tail(const double *weights, int64_t n, double x); /* P(sum w chi2_1 > x) */
double circe__moment_tail(double mean, double variance, double x);       /* of the gamma with these moments */
double circe__clip_p(double p);

/* ---- checks.c --------------------------------------------------------------------------------------------------- */

/* Weighted functions of y that check the residuals of both sides; made when they are first needed. */
typedef struct circe__views {
    circe__table of[2];
    int64_t *index;    /* the rows they are of; NULL: all */
    int64_t null_rows; /* the most that the null is from */
    circe__data part;
} circe__views;
/* A frugal test's are of at most so many rows, and its nulls from at most a quarter of them. */
circe_status circe__views_make(const circe__data *data, int64_t most, circe__views *views);
void circe__views_free(const circe_context *context, circe__views *views);

/* info.check_p: the residuals of `right` against y under a narrower kernel. */
circe_status circe__check_residual(const circe__data *data, circe__regressor *regressor, const circe__table *target,
                                   const circe__table *noise, circe__views *views);

/* Sets result->misfit from what the two regressions leave of their targets: residual = noise (1 - leverage). */
circe_status circe__check_misfit(const circe__data *data, const circe__regressor sides[2],
                                 const circe__table *const targets[2], const circe__table *const noise[2],
                                 circe_test_result *result);

/* missed.c: raises result->misfit of a rejection to what residuals of rows that are alike in y show, by the noise of
 * each side; [0] NULL: only z is regressed. *doubtful (NULL: the search is over): whether near rows alone raise it
 * above CIRCE__MOVES, for which a short search of a regression is given up; then nothing more is looked at. */
#define CIRCE__MOVES 0.4
circe_status circe__check_missed(const circe__data *data, const circe__regressor sides[2],
                                 const circe__table *const noises[2], bool *doubtful, circe_test_result *result);
circe_status circe__check_missed_pair(const circe__data *data, const circe__regressions *made, const circe__pair *pair,
                                      circe_test_result *result);

/* result->effective_rows; `columns`: the sides are columns themselves, not features of kernels. */
circe_status circe__check_rows(const circe__data *data, const circe__pair *pair, bool columns,
                               circe_test_result *result);
/* The same if the rows that carry the statistic are already counted, by circe__carried_by of their v_i. */
void circe__note_rows(const circe__data *data, double carried, bool columns, circe_test_result *result);
double circe__carried_by(double sum, double squares); /* sum(v)^2 / sum(v^2) */
/* Whether they are so few that the same test should also run on ranks. */
bool circe__few_rows_carry(const circe_test_result *result);

/* verdict.c: result->trust and result->verdict. */
void circe__verdict(const circe__data *data, circe_test_result *result);

/* Writes the p-value by the requested null (gamma, spectral or wild) to the result. */
circe_status circe__pair_test(const circe__data *data, const circe__pair *pair, circe_test_null null,
                              circe_test_result *result);

/* ---- one function per method ------------------------------------------------------------------------------------- */

/* What a test is and what it uses: a row of the table in test.c. */
typedef struct circe__kind {
    const char *name;
    circe_status (*run)(const circe__data *data, circe_test_result *result);
    circe_test_null nulls[5]; /* those it has, the first is automatic; 0 ends the list */
    bool marginal;            /* does not use y */
    bool columns;             /* tests columns, not features of kernels, and has a choice of regressor */
    bool signs;               /* each column also times signs along y */
    bool one_sided;           /* only a positive product of columns is evidence */
    bool splits;              /* the rows: no weights, groups or time */
    bool auxiliary;           /* takes further rows of (y, z) */
    bool on_device;
    bool frugal; /* for many rows: few features of y, chosen among few rows; checks look at some rows */
} circe__kind;
const circe__kind *circe__kind_of(const circe_test_options *options);

circe_status circe__test_kci(const circe__data *data, circe_test_result *result);
circe_status circe__test_circe(const circe__data *data, circe_test_result *result);
/* A random order of the rows, of which the first share is tested. The caller frees *order. */
circe_status circe__split_rows(const circe__data *data, uint64_t number, int64_t **order);

circe_status circe__test_splitkci(const circe__data *data, circe_test_result *result);
circe_status circe__test_gcm(const circe__data *data, circe_test_result *result);
circe_status circe__test_rcot(const circe__data *data, circe_test_result *result);
circe_status circe__rcot_rows(const circe__data *data, circe_test_result *result); /* in two passes over the rows */
circe_status circe__test_hsic(const circe__data *data, circe_test_result *result);
circe_status circe__test_pcm(const circe__data *data, circe_test_result *result);

/* Runs the whole of circe_test on prepared data. */
circe_status circe__test_run(const circe__data *data, circe_test_result *result);

#endif
