/* A test of data with missing cells: they are filled in several times, each data set is tested, and the p-values are
 * pooled.
 *
 * A row with missing cells takes them from a donor (hot deck): a random one of the DONORS rows that are nearest in the
 * columns that it does have. A donor has all the cells that the row lacks. A distance is the mean over the columns that
 * both have, each divided by its standard deviation; different categories are at a distance of 1. Cells of one row come
 * from one donor, so that they belong together. Donors are near in y and in z alike, so filling in neither creates nor
 * removes dependence, up to the distance of neighbours.
 *
 * p-values are pooled as normal scores by Rubin's rules (Licht 2010): z_k = -q(p_k), q the quantile of the normal
 * distribution, pooled z = mean / sqrt(1 + (1 + 1/m) B), B the variance between the data sets: what the missing cells
 * leave open widens the null. O(n) for a row that misses something. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "inference/inference_parts.h"

#include "core/settings.h"

enum { DONORS = 5, MOST_CANDIDATES = 4000 };

/* All columns side by side. */
typedef struct sheet {
    int64_t n, cols;
    double *cells;  /* (n, cols), columns of numbers over their standard deviations */
    bool *category; /* (cols) */
    const circe_mat *part[3];
    int64_t first[4]; /* of x, y and z, and the end */
} sheet;

static circe_status scale_column(sheet *s, int64_t c, const char *name, int64_t column) {
    double mean = 0.0, square = 0.0, count = 0.0;
    for (int64_t i = 0; i < s->n; i++) {
        double v = s->cells[i * s->cols + c];
        if (isinf(v))
            return circe_fail(CIRCE_ERR_VALUE, "%s contains an infinite number at row %lld, column %lld", name,
                              (long long)i, (long long)column);
        if (isnan(v)) continue;
        count += 1.0;
        square += (v - mean) * (v - mean) * (count - 1.0) / count;
        mean += (v - mean) / count;
    }
    if (count < 2.0)
        return circe_fail(CIRCE_ERR_VALUE,
                          "column %lld of %s has a value in only %lld of %lld rows, too few to fill in the others",
                          (long long)column, name, (long long)count, (long long)s->n);
    double sd = sqrt(square / count);
    for (int64_t i = 0; sd > 0.0 && !s->category[c] && i < s->n; i++) s->cells[i * s->cols + c] /= sd;
    return CIRCE_OK;
}

static circe_status sheet_make(const circe_context *context, const circe_mat *const mats[3],
                               const circe_kernel *const kernels[3], sheet *s) {
    static const char *const names[] = {"x", "y", "z"};
    *s = (sheet){.n = mats[0]->rows};
    for (int k = 0; k < 3; k++) {
        s->part[k] = mats[k];
        s->cols += mats[k] != NULL ? mats[k]->cols : 0;
        s->first[k + 1] = s->cols;
    }
    for (int k = 1; k < 3; k++)
        if (mats[k] != NULL && mats[k]->rows != s->n)
            return circe_fail(CIRCE_ERR_SHAPE, "x has %lld rows and %s %lld; they must be the same points",
                              (long long)s->n, names[k], (long long)mats[k]->rows);
    s->cells = circe__alloc(context, s->n * s->cols, sizeof *s->cells);
    s->category = circe__calloc(context, s->cols, sizeof *s->category);
    circe_status status = s->cells == NULL || s->category == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int k = 0; k < 3 && status == CIRCE_OK; k++)
        for (int64_t c = s->first[k]; mats[k] != NULL && c < s->first[k + 1] && status == CIRCE_OK; c++) {
            s->category[c] = circe__is_category(kernels[k], mats[k]->cols, c - s->first[k]);
            for (int64_t i = 0; i < s->n; i++) s->cells[i * s->cols + c] = circe__at(mats[k], i, c - s->first[k]);
            status = scale_column(s, c, names[k], c - s->first[k]);
        }
    return status;
}

/* The mean distance over columns that both rows have; infinite if j lacks a cell that i needs. */
static double distance(const sheet *s, int64_t i, int64_t j) {
    const double *a = s->cells + i * s->cols, *b = s->cells + j * s->cols;
    double sum = 0.0, count = 0.0;
    for (int64_t c = 0; c < s->cols; c++) {
        if (isnan(a[c]) && isnan(b[c])) return HUGE_VAL;
        if (isnan(a[c]) || isnan(b[c])) continue;
        double d = a[c] - b[c];
        sum += s->category[c] ? (d != 0.0) : d * d;
        count += 1.0;
    }
    return count > 0.0 ? sum / count : 1e300; /* nothing to go by: any row may lend */
}

/* donors[0..*n): the nearest rows, among all or, if there are very many, among random ones. */
static void find_donors(const sheet *s, int64_t i, uint64_t seed, int64_t donors[DONORS], int *n) {
    double at[DONORS];
    int64_t step = s->n > MOST_CANDIDATES ? s->n / MOST_CANDIDATES : 1;
    int64_t from = (int64_t)(circe__min(step, (int64_t)(seed % (uint64_t)step) + 1) - 1);
    *n = 0;
    for (int64_t j = from; j < s->n; j += step) {
        double d = j == i ? HUGE_VAL : distance(s, i, j);
        if (d == HUGE_VAL || (*n == DONORS && d >= at[DONORS - 1])) continue;
        int k = *n < DONORS ? (*n)++ : DONORS - 1;
        for (; k > 0 && at[k - 1] > d; k--) {
            at[k] = at[k - 1];
            donors[k] = donors[k - 1];
        }
        at[k] = d;
        donors[k] = j;
    }
}

static bool misses(const sheet *s, int64_t i) {
    for (int64_t c = 0; c < s->cols; c++)
        if (isnan(s->cells[i * s->cols + c])) return true;
    return false;
}

/* The donors of every row that misses a cell; those that miss none have -1. */
static circe_status all_donors(const circe_context *context, const sheet *s, uint64_t seed, int64_t *donors,
                               int *counts) {
    for (int64_t i = 0; i < s->n; i++) {
        counts[i] = 0;
        if (!misses(s, i)) continue;
        find_donors(s, i, seed + (uint64_t)i, donors + i * DONORS, &counts[i]);
        if (counts[i] == 0)
            return circe_fail(
                CIRCE_ERR_VALUE,
                "no other row has all the cells that are missing in row %lld; leave such rows out (missing: drop)",
                (long long)i);
        /* Reports progress at every such row, because each looks at all rows. */
        circe_status status = circe__progress(context, "missing cells", i + 1, s->n);
        if (status != CIRCE_OK) return status;
    }
    return CIRCE_OK;
}

/* out: the tables of x, y and z with the cells of draw k filled in. */
static void fill(const sheet *s, uint64_t seed, int64_t k, const int64_t *donors, const int *counts,
                 double *const out[3]) {
    for (int64_t i = 0; i < s->n; i++) {
        double uniform = 0.0;
        circe_random_uniform((circe_random){seed, CIRCE__STREAM_HALVES + (uint64_t)k}, (uint64_t)i, 1, &uniform);
        int64_t from = counts[i] == 0 ? i : donors[i * DONORS + (int64_t)(uniform * counts[i])];
        for (int p = 0; p < 3; p++)
            for (int64_t c = s->first[p]; c < s->first[p + 1]; c++) {
                int64_t col = c - s->first[p], width = s->first[p + 1] - s->first[p];
                double own = circe__at(s->part[p], i, col);
                out[p][i * width + col] = isnan(own) ? circe__at(s->part[p], from, col) : own;
            }
    }
}

/* Rubin's rules on normal scores. */
static double pooled(const double *p, int64_t m) {
    double mean = 0.0, between = 0.0;
    for (int64_t k = 0; k < m; k++) mean += circe__normal_quantile(p[k]) / (double)m;
    for (int64_t k = 0; k < m; k++) {
        double d = circe__normal_quantile(p[k]) - mean;
        between += d * d / (double)(m - 1);
    }
    return circe__clip_p(circe__normal_tail(mean / sqrt(1.0 + (1.0 + 1.0 / (double)m) * between)));
}

/* Tests every data set. The result is that of the one whose p-value is nearest to the pooled one. */
static circe_status test_all(circe_context *context, const sheet *s, const circe_test_options *options, int64_t m,
                             const int64_t *donors, const int *counts, double *const cells[3], double *p,
                             circe_test_result *result) {
    circe_status status = CIRCE_OK;
    circe_mat mats[3];
    double nearest = HUGE_VAL;
    for (int k = 0; k < 3; k++) mats[k] = circe_mat_f64(cells[k], s->n, s->first[k + 1] - s->first[k]);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = 0; k < m && status == CIRCE_OK; k++) {
            circe_test_result one;
            double goal = pass == 0 ? 0.0 : pooled(p, m);
            if (pass == 1 && !(fabs(p[k] - goal) < nearest))
                continue; /* the one that is shown: nearest to the pooled */
            fill(s, options->seed, k, donors, counts, cells);
            status = circe_test(context, &mats[0], mats[1].cols > 0 ? &mats[1] : NULL, &mats[2], options, &one);
            if (status != CIRCE_OK) break;
            if (pass == 0) {
                p[k] = one.p_value;
            } else {
                nearest = fabs(p[k] - goal);
                *result = one;
            }
        }
    return status;
}

/* The pooled p-value, and the words for it. */
static void report(const circe_test_options *options, const sheet *s, double p, int64_t m, circe_test_result *result) {
    circe__data words = {.options = *options, .y = {.dim = s->first[2] - s->first[1]}};
    result->p_value = p;
    result->imputations = m;
    result->mid_p = result->robust_p = NAN; /* of one data set */
    circe__verdict(&words, result);
    size_t used = strlen(result->verdict);
    snprintf(result->verdict + used, sizeof result->verdict - used,
             " Missing cells were filled in %lld times, and the p-values pooled.", (long long)m);
}

circe_status circe_test_impute(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                               const circe_test_options *given, int64_t imputations, circe_test_result *result) {
    CIRCE_OWN_SETTINGS;
    circe_test_options options;
    sheet s = {0};
    CIRCE__OWNED double *p = NULL;
    double *cells[3] = {NULL, NULL, NULL}, start = circe__seconds();
    CIRCE__OWNED int64_t *donors = NULL;
    CIRCE__OWNED int *counts = NULL;
    if (context == NULL || x == NULL || z == NULL || result == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, x, z and result must not be NULL");
    if (imputations < 2 || imputations > 1000)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the number of imputations is %lld; it must be 2 to 1000",
                          (long long)imputations);
    circe_status status = circe__test_fill(given, &options);
    if (status == CIRCE_OK && options.auxiliary_y != NULL)
        status = circe_fail(CIRCE_ERR_UNSUPPORTED, "imputation cannot be combined with auxiliary rows");
    if (status != CIRCE_OK) return status;
    const circe_mat *mats[3] = {x, y != NULL && y->cols > 0 ? y : NULL, z};
    const circe_kernel *kernels[3] = {options.kernel_x, options.kernel_y, options.kernel_z};
    status = sheet_make(context, mats, kernels, &s);
    donors = circe__alloc(context, x->rows * DONORS, sizeof *donors);
    counts = circe__alloc(context, x->rows, sizeof *counts);
    p = circe__alloc(context, imputations, sizeof *p);
    bool memory = s.cells != NULL && donors != NULL && counts != NULL && p != NULL;
    for (int k = 0; k < 3; k++) {
        cells[k] = circe__alloc(context, s.n * (s.first[k + 1] - s.first[k]) + 1, sizeof *cells[k]);
        memory = memory && cells[k] != NULL;
    }
    if (status == CIRCE_OK && !memory) status = CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK) status = all_donors(context, &s, options.seed, donors, counts);
    if (status == CIRCE_OK) status = test_all(context, &s, &options, imputations, donors, counts, cells, p, result);
    if (status == CIRCE_OK) {
        report(&options, &s, pooled(p, imputations), imputations, result);
        result->seconds = circe__seconds() - start;
    }
    for (int k = 0; k < 3; k++) circe__free(context, cells[k]);
    circe__free(context, s.cells);
    circe__free(context, s.category);
    return status;
}
