/* Standardised columns and the split of rows.
 *
 *     x (n, c) values of rows index[0..n)          mean_c = sum_i x_ic / n
 *     standardised (x_ic - mean_c) / deviation_c   deviation_c = sqrt(sum_i (x_ic - mean_c)^2 / n)
 *
 * Two passes: the one-pass formula loses all digits of a column whose mean is large beside its deviation. A column is
 * constant where its smallest and largest value are equal, which no rounding of the mean can hide. */
#include "train/table.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "core/core.h"

enum { SPLIT_STREAM = 0x73706c69 };

/* ---- views ------------------------------------------------------------------------------------------------------- */

static circe_status check_view(const circe_mat *m, const char *name) {
    if (m->data == NULL && m->rows > 0) return circe_fail(CIRCE_ERR_ARGUMENT, "%s must not be NULL", name);
    if ((m->dtype != CIRCE_FLOAT32 && m->dtype != CIRCE_FLOAT64) || m->rows < 0 || m->cols < 1 || m->ld < m->cols)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "%s is %lld by %lld with rows %lld apart, which is not a matrix of float32 or float64", name,
                          (long long)m->rows, (long long)m->cols, (long long)m->ld);
    return CIRCE_OK;
}

static circe_status check_index(const circe_mat *values, const int64_t *index, int64_t n) {
    for (int64_t i = 0; index != NULL && i < n; i++)
        if (index[i] < 0 || index[i] >= values->rows)
            return circe_fail(CIRCE_ERR_ARGUMENT, "there is no row %lld; there are %lld rows, counted from 0",
                              (long long)index[i], (long long)values->rows);
    return CIRCE_OK;
}

static circe_status fail_value(double value, int64_t row, int64_t col) {
    return circe_fail(CIRCE_ERR_VALUE, "the data contain %s at row %lld, column %lld (counted from 0)",
                      isnan(value) ? "a NaN" : "an infinity", (long long)row, (long long)col);
}

static int64_t source(const int64_t *index, int64_t i) { return index == NULL ? i : index[i]; }

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

static circe_status fit_column(const circe_mat *values, const int64_t *index, int64_t n, int64_t col, double *mean,
                               double *deviation) {
    double sum = 0.0, squares = 0.0, least = INFINITY, most = -INFINITY,
           origin = circe__at(values, source(index, 0), col);
    for (int64_t i = 0; i < n; i++) {
        double x = circe__at(values, source(index, i), col);
        if (!isfinite(x)) return fail_value(x, source(index, i), col);
        sum += x - origin; /* sums of differences keep the digits that a large mean would take */
        least = fmin(least, x);
        most = fmax(most, x);
    }
    double range = most - least;
    *mean = range == 0.0 ? least : origin + sum / (double)n;
    for (int64_t i = 0; range > 0.0 && i < n; i++) {
        /* In units of the range, so that the square neither over- nor underflows. */
        double part = (circe__at(values, source(index, i), col) - *mean) / range;
        squares += part * part;
    }
    *deviation = range == 0.0 ? 1.0 : range * sqrt(squares / (double)n);
    if (!isfinite(*mean) || !isfinite(*deviation) || !(*deviation > 0.0))
        return circe_fail(CIRCE_ERR_VALUE, "column %lld (counted from 0) has numbers from %g to %g: too %s for a mean",
                          (long long)col, least, most, *deviation == 0.0 ? "small" : "large");
    return CIRCE_OK;
}

circe_status train_scaler_fit(const circe_mat *values, const int64_t *index, int64_t n, train_scaler *scaler) {
    *scaler = (train_scaler){0};
    circe_status status = check_view(values, "values");
    if (status != CIRCE_OK) return status;
    if (index == NULL) n = values->rows;
    if (n < 1) return circe_fail(CIRCE_ERR_SHAPE, "statistics need at least one row");
    status = check_index(values, index, n);
    if (status != CIRCE_OK) return status;
    scaler->cols = values->cols;
    scaler->mean = calloc((size_t)values->cols, sizeof *scaler->mean);
    scaler->deviation = calloc((size_t)values->cols, sizeof *scaler->deviation);
    if (scaler->mean == NULL || scaler->deviation == NULL) {
        train_scaler_free(scaler);
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the statistics of %lld columns",
                          (long long)values->cols);
    }
    for (int64_t c = 0; status == CIRCE_OK && c < values->cols; c++)
        status = fit_column(values, index, n, c, &scaler->mean[c], &scaler->deviation[c]);
    if (status != CIRCE_OK) train_scaler_free(scaler);
    return status;
}

void train_scaler_free(train_scaler *scaler) {
    if (scaler == NULL) return;
    free(scaler->mean);
    free(scaler->deviation);
    *scaler = (train_scaler){0};
}

static circe_status check_pair(const train_scaler *scaler, const circe_mat *values, int64_t n, const circe_mat *out) {
    circe_status status = check_view(values, "values");
    if (status == CIRCE_OK) status = check_view(out, "out");
    if (status != CIRCE_OK) return status;
    if (values->cols != scaler->cols)
        return circe_fail(CIRCE_ERR_SHAPE, "the data have %lld columns, but there are statistics for %lld",
                          (long long)values->cols, (long long)scaler->cols);
    if (out->rows != n || out->cols != scaler->cols)
        return circe_fail(CIRCE_ERR_SHAPE, "out is %lld by %lld; it must be %lld by %lld", (long long)out->rows,
                          (long long)out->cols, (long long)n, (long long)scaler->cols);
    return CIRCE_OK;
}

circe_status train_scaler_apply(const train_scaler *scaler, const circe_mat *values, const int64_t *index, int64_t n,
                                circe_mat *out) {
    if (index == NULL) n = values->rows;
    circe_status status = check_pair(scaler, values, n, out);
    if (status == CIRCE_OK) status = check_index(values, index, n);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < scaler->cols; c++) {
            double x = circe__at(values, source(index, i), c), scaled = (x - scaler->mean[c]) / scaler->deviation[c];
            if (!isfinite(x)) return fail_value(x, source(index, i), c);
            circe__set(out, i, c, scaled);
            if (!isfinite(circe__at(out, i, c)))
                return circe_fail(
                    CIRCE_ERR_VALUE,
                    "%g at row %lld, column %lld (counted from 0) is too far from the training rows: their "
                    "mean is %g, their deviation %g",
                    x, (long long)source(index, i), (long long)c, scaler->mean[c], scaler->deviation[c]);
        }
    return CIRCE_OK;
}

/* ---- splitting --------------------------------------------------------------------------------------------------- */

static int64_t share_of(int64_t n, double share) {
    int64_t rows = (int64_t)llround((double)n * share);
    return share > 0.0 && rows < 1 ? 1 : rows;
}

static int64_t *copy_part(const int64_t *order, int64_t n) {
    int64_t *part = malloc((size_t)(n > 0 ? n : 1) * sizeof *part);
    if (part != NULL) memcpy(part, order, (size_t)n * sizeof *part);
    return part;
}

static bool is_share(double share) { return share >= 0.0 && share < 1.0; }

static circe_status check_shares(int64_t n, double validation, double holdout, double test) {
    if (n < 1 || n > (INT64_C(1) << 48))
        return circe_fail(CIRCE_ERR_ARGUMENT, "%lld rows cannot be split; the number must be 1 to 2^48", (long long)n);
    if (!is_share(validation) || !is_share(holdout) || !is_share(test))
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "shares of %g for validation, %g for the holdout and %g for the test: each is from 0 to "
                          "below 1",
                          validation, holdout, test);
    int64_t of_validation = share_of(n, validation), of_holdout = share_of(n, holdout), of_test = share_of(n, test);
    if (of_validation + of_holdout + of_test < n) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "of %lld rows, %lld for validation (a share of %g), %lld for the holdout (%g) and %lld for the "
                      "test (%g) leave none for training",
                      (long long)n, (long long)of_validation, validation, (long long)of_holdout, holdout,
                      (long long)of_test, test);
}

circe_status train_split_make(int64_t n, double validation, double holdout, double test, uint64_t seed,
                              train_split *split) {
    *split = (train_split){0};
    circe_status status = check_shares(n, validation, holdout, test);
    if (status != CIRCE_OK) return status;
    int64_t *order = malloc((size_t)n * sizeof *order), *at = order;
    if (order != NULL) {
        circe_random_permutation((circe_random){.seed = seed, .stream = SPLIT_STREAM}, n, order);
        split->n_holdout = share_of(n, holdout);
        split->n_validation = share_of(n, validation);
        split->n_test = share_of(n, test);
        split->n_training = n - split->n_holdout - split->n_validation - split->n_test;
        split->holdout = copy_part(at, split->n_holdout), at += split->n_holdout;
        split->validation = copy_part(at, split->n_validation), at += split->n_validation;
        split->test = copy_part(at, split->n_test), at += split->n_test;
        split->training = copy_part(at, split->n_training);
    }
    free(order);
    if (split->holdout != NULL && split->validation != NULL && split->test != NULL && split->training != NULL)
        return CIRCE_OK;
    train_split_free(split);
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory; cannot split %lld rows", (long long)n);
}

void train_split_free(train_split *split) {
    if (split == NULL) return;
    free(split->training);
    free(split->validation);
    free(split->holdout);
    free(split->test);
    *split = (train_split){0};
}
