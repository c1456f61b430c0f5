/* Shows where along y the dependence occurs.
 *
 * The normalised CIRCE (effect.c) is a mean over rows of n t_i / norm, t_i = l_i' M r_i - |l_i|^2 |r_i|^2: what row i
 * has in common with all others. The value at a place g of a column of y is the mean of these over the rows around it,
 * with gaussian weights of Silverman's width. Half-samples give the interval, and random signs the bound under
 * independence: with e_i on row i, t*_i = e_i l_i' M* r_i - |l_i|^2 |r_i|^2. The bound lies the same number of standard
 * deviations above the null's mean at every place, so that the largest excess stays below it 95 % of the time. */
#include <math.h>
#include <string.h>

#include "core/settings.h"
#include "core/sort.h"
#include "inference/dependence.h"
#include "inference/effect.h"

enum { MOST_ROWS = 4000, HALVES = 100, SIGN_DRAWS = 400 };

typedef struct walk {
    const circe__data *part;
    circe__sides sides;
    double *M;      /* (p, q) */
    double *t;      /* (n) */
    double *weight; /* (n, points) */
    int64_t points;
} walk;

/* out[g] := the smoothed mean of t over rows index[0..n) (NULL: all), times scale. */
static void smooth(const walk *w, const int64_t *index, int64_t n, double scale, double *out) {
    for (int64_t g = 0; g < w->points; g++) {
        double sum = 0.0, weights = 0.0;
        for (int64_t k = 0; k < n; k++) {
            double weight = w->weight[(index == NULL ? k : index[k]) * w->points + g];
            sum += weight * w->t[k];
            weights += weight;
        }
        out[g] = weights > 0.0 ? scale * sum / weights : 0.0;
    }
}

/* Computes t of rows index[0..n), with signs if given. */
static circe_status contributions(walk *w, const int64_t *index, int64_t n, const double *signs) {
    const circe__sides *s = &w->sides;
    int64_t p = s->left.cols, q = s->right.cols;
    CIRCE__OWNED double *row = circe__alloc(w->part->context, q + 1, sizeof *row);
    if (row == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = index == NULL ? k : index[k];
        const double *l = s->left.data + i * p, *r = s->right.data + i * q;
        double dot = 0.0;
        memset(row, 0, (size_t)q * sizeof *row);
        for (int64_t a = 0; a < p; a++)
#pragma omp simd
            for (int64_t b = 0; b < q; b++) row[b] += l[a] * w->M[a * q + b];
        for (int64_t b = 0; b < q; b++) dot += row[b] * r[b];
        w->t[k] = (signs == NULL ? 1.0 : signs[i]) * dot - circe__square_norm(l, p) * circe__square_norm(r, q);
    }
    return CIRCE_OK;
}

static circe_status values_of(walk *w, const int64_t *index, int64_t n, double *out) {
    double value, norm;
    circe_status status = circe__sides_sums(w->part, &w->sides, index, n, w->M, &value, &norm);
    if (status == CIRCE_OK) status = contributions(w, index, n, NULL);
    if (status == CIRCE_OK) smooth(w, index, n, norm > 0.0 ? (double)n / norm : 0.0, out);
    return status;
}

static circe_status interval(walk *w, const double *value, double *lower, double *upper) {
    const circe_context *context = w->part->context;
    int64_t n = w->part->n, half = n / 2, points = w->points;
    CIRCE__OWNED int64_t *index = circe__alloc(context, n, sizeof *index);
    CIRCE__OWNED double *all = circe__alloc(context, HALVES * points, sizeof *all),
                        *own = circe__alloc(context, HALVES, sizeof *own);
    circe_status status = index == NULL || all == NULL || own == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t h = 0; status == CIRCE_OK && h < HALVES; h++) {
        circe_random_subset((circe_random){w->part->options.seed, CIRCE__STREAM_HALVES + (uint64_t)h}, n, half, index);
        status = values_of(w, index, half, all + h * points);
        if (status == CIRCE_OK) status = circe__progress(context, "along y", h + 1, HALVES + SIGN_DRAWS);
    }
    for (int64_t g = 0; status == CIRCE_OK && g < points; g++) {
        double mean = 0.0;
        for (int64_t h = 0; h < HALVES; h++) {
            own[h] = all[h * points + g];
            mean += own[h] / HALVES;
        }
        circe__sort(own, HALVES);
        lower[g] = value[g] + circe__quantile(own, HALVES, 0.025) - mean;
        upper[g] = value[g] + circe__quantile(own, HALVES, 0.975) - mean;
    }
    return status;
}

/* draws (SIGN_DRAWS, points): the curve under random signs. */
static circe_status null_curves(walk *w, double *draws) {
    const circe_context *context = w->part->context;
    const circe__sides *s = &w->sides;
    int64_t n = w->part->n, p = s->left.cols, q = s->right.cols;
    double value, norm, *signs = circe__alloc(context, n, sizeof *signs);
    CIRCE__OWNED double *signed_left = circe__alloc(context, n * p + 1, sizeof *signed_left);
    circe_status status = signs == NULL || signed_left == NULL
                              ? CIRCE_ERR_MEMORY
                              : circe__sides_sums(w->part, s, NULL, n, w->M, &value, &norm);
    for (int64_t d = 0; status == CIRCE_OK && d < SIGN_DRAWS; d++) {
        circe__signs(w->part->options.seed, CIRCE__STREAM_SIGNS, n, d, 1, 0, n, signs, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t a = 0; a < p; a++) signed_left[i * p + a] = signs[i] * s->left.data[i * p + a];
        if (p > 0 && q > 0)
            context->backend->algebra->gemm(1, 0, p, q, n, 1.0, signed_left, p, s->right.data, q, 0.0, w->M, q);
        status = contributions(w, NULL, n, signs);
        smooth(w, NULL, n, norm > 0.0 ? (double)n / norm : 0.0, draws + d * w->points);
        if (status == CIRCE_OK) status = circe__progress(context, "along y", HALVES + d + 1, HALVES + SIGN_DRAWS);
    }
    circe__free(context, signs);
    return status;
}

static circe_status null_bound(walk *w, double *null_upper) {
    const circe_context *context = w->part->context;
    int64_t points = w->points;
    CIRCE__OWNED double *draws = circe__alloc(context, SIGN_DRAWS * points, sizeof *draws);
    CIRCE__OWNED double *largest = circe__alloc(context, SIGN_DRAWS + 2 * points, sizeof *largest);
    circe_status status = draws == NULL || largest == NULL ? CIRCE_ERR_MEMORY : null_curves(w, draws);
    if (status == CIRCE_OK) {
        double *mean = largest + SIGN_DRAWS, *sd = mean + points;
        for (int64_t g = 0; g < points; g++) {
            double square = 0.0;
            mean[g] = 0.0;
            for (int64_t d = 0; d < SIGN_DRAWS; d++) mean[g] += draws[d * points + g] / SIGN_DRAWS;
            for (int64_t d = 0; d < SIGN_DRAWS; d++)
                square += (draws[d * points + g] - mean[g]) * (draws[d * points + g] - mean[g]) / SIGN_DRAWS;
            sd[g] = sqrt(square);
        }
        for (int64_t d = 0; d < SIGN_DRAWS; d++) {
            largest[d] = 0.0;
            for (int64_t g = 0; g < points; g++)
                if (sd[g] > 0.0) largest[d] = fmax(largest[d], (draws[d * points + g] - mean[g]) / sd[g]);
        }
        circe__sort(largest, SIGN_DRAWS);
        double times = circe__quantile(largest, SIGN_DRAWS, 0.95);
        for (int64_t g = 0; g < points; g++) null_upper[g] = mean[g] + times * sd[g];
    }
    return status;
}

/* The places are quantiles of the column; every row has a weight at every place. */
static circe_status place_weights(walk *w, const circe_mat *y, const int64_t *row, int64_t column, double *place) {
    const circe_context *context = w->part->context;
    int64_t n = w->part->n;
    double mean = 0.0, square = 0.0, *sorted = circe__alloc(context, n, sizeof *sorted);
    w->weight = circe__alloc(context, n * w->points, sizeof *w->weight);
    if (sorted == NULL || w->weight == NULL) {
        circe__free(context, sorted);
        return CIRCE_ERR_MEMORY;
    }
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = circe__at(y, row[i], column);
        mean += sorted[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) square += (sorted[i] - mean) * (sorted[i] - mean) / (double)n;
    double width = fmax(1.06 * sqrt(square) * pow((double)n, -0.2), 1e-300);
    circe__sort(sorted, n);
    for (int64_t g = 0; g < w->points; g++) {
        place[g] = circe__quantile(sorted, n, ((double)g + 0.5) / (double)w->points);
        for (int64_t i = 0; i < n; i++) {
            double d = (circe__at(y, row[i], column) - place[g]) / width;
            w->weight[i * w->points + g] = w->part->root[i] * w->part->root[i] * exp(-0.5 * d * d);
        }
    }
    circe__free(context, sorted);
    return CIRCE_OK;
}

circe_status circe_test_along(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                              const circe_test_options *options, int64_t column, int64_t points, double *place,
                              double *value, double *lower, double *upper, double *null_upper) {
    CIRCE_OWN_SETTINGS;
    circe__data data = {0}, part = {0};
    CIRCE__OWNED int64_t *index = NULL;
    if (place == NULL || value == NULL || lower == NULL || upper == NULL || null_upper == NULL || points < 1)
        return circe_fail(CIRCE_ERR_ARGUMENT, "at least 1 place is needed, and an array for every output");
    if (y == NULL || column < 0 || column >= y->cols)
        return circe_fail(CIRCE_ERR_SHAPE, "y has no column %lld; it has %lld, counted from 0", (long long)column,
                          (long long)(y == NULL ? 0 : y->cols));
    circe_status status = circe__refuse_dependent(options, "an effect size");
    if (status == CIRCE_OK) status = circe__data_begin(context, x, y, z, options, &data);
    if (status != CIRCE_OK) return status;
    int threads = circe__threads_begin(context);
    unsigned rounding = circe__flush_begin();
    status = circe__some_rows(&data, MOST_ROWS, &index, &part);
    walk w = {.part = &part, .points = points};
    if (status == CIRCE_OK) {
        for (int64_t i = 0; i < part.n; i++) index[i] = data.row[index[i]];
        status = place_weights(&w, y, index, column, place);
    }
    if (status == CIRCE_OK) status = circe__sides_make(&part, &w.sides);
    if (status == CIRCE_OK) {
        w.M = circe__calloc(context, w.sides.left.cols * w.sides.right.cols + 1, sizeof *w.M);
        w.t = circe__calloc(context, part.n, sizeof *w.t);
        if (w.M == NULL || w.t == NULL) status = CIRCE_ERR_MEMORY;
    }
    if (status == CIRCE_OK) status = values_of(&w, NULL, part.n, value);
    if (status == CIRCE_OK) status = interval(&w, value, lower, upper);
    if (status == CIRCE_OK) status = null_bound(&w, null_upper);
    circe__flush_end(rounding);
    status = circe__threads_finish(threads, status);
    circe__sides_free(context, &w.sides);
    circe__free(context, w.M);
    circe__free(context, w.t);
    circe__free(context, w.weight);
    circe__data_free(&part);
    circe__data_free(&data);
    return status;
}
