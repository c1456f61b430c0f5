/* Features scaled to their kernel: normalisation, the width that follows the batch, and their gradients.
 *
 *     x (n, d), P pairs of rows (pairs.h)
 *     x^ (n, d)      x normalised, float64
 *     D_p            |x^_i - x^_j|^2 over the columns of a factor
 *     s2_f           median of D_p; out = x^ / s_f
 *
 * Cost: O(P d) with P about max(1024, n), where a measure is O(n^2 d). All in one thread and in float64: the same bits
 * on any number of threads, and no square of a float32 under- or overflows.
 *
 * Gradients of g = dL/d out, with h = g / s_f:
 *     rows    (h_i - x^_i (x^_i . h_i)) / |x_i|
 *     batch   (h_ic - mean_j h_jc - x^_ic mean_j(h_jc x^_jc)) / sd_c */
#include "circe/scaling.h"

#include <math.h>
#include <string.h>

#include "core/pairs.h"
#include "core/settings.h"
#include "kernels/kernels.h"
#include "measures/measure_parts.h"
#include "measures/scaling.h"

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

static bool shares_columns(const circe_kernel_factor *a, const circe_kernel_factor *b) {
    return a->first_col < b->first_col + b->n_cols && b->first_col < a->first_col + a->n_cols;
}

static circe_status check_following(const circe_kernel_factor *factors, int64_t n) {
    for (int64_t f = 0; f < n; f++)
        for (int64_t g = 0; g < n; g++)
            if (f != g && circe__has_width(factors[f].kind) && factors[f].sigma2 == 0.0 &&
                shares_columns(&factors[f], &factors[g]))
                return circe_fail(CIRCE_ERR_UNSUPPORTED,
                                  "a width that follows the features needs its own columns, but factors %lld and %lld "
                                  "share some; give sigma2 as a number",
                                  (long long)f, (long long)g);
    return CIRCE_OK;
}

circe_status circe__following_factors(circe_workspace *workspace, const circe_kernel *kernel, int64_t cols,
                                      circe__factors *factors) {
    int64_t n = kernel != NULL ? kernel->n_factors : 0;
    circe_kernel_factor *items = circe__take(workspace, CIRCE__SLOT_FACTORS, n + 1, sizeof *items);
    if (items == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t f = 0; f < n; f++) {
        items[f] = kernel->factors[f];
        if (items[f].n_cols == -1) items[f].n_cols = cols - items[f].first_col;
        if (items[f].n_cols < 1 || items[f].n_cols > cols - items[f].first_col)
            return circe_fail(CIRCE_ERR_SHAPE,
                              "the kernel of x (%s) names columns that x does not have: it has %lld, counted from 0",
                              circe_kernel_text(kernel), (long long)cols);
    }
    *factors = (circe__factors){items, n};
    return check_following(items, n);
}

circe_status circe__check_scaling(const circe_scaling *scaling, int64_t cols) {
    if (scaling == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "scaling must not be NULL");
    if (scaling->normalize < CIRCE_NORMALIZE_NONE || scaling->normalize > CIRCE_NORMALIZE_BATCH)
        return circe_fail(CIRCE_ERR_ARGUMENT, "normalize %d is not one of none, rows, batch", (int)scaling->normalize);
    if (scaling->normalize == CIRCE_NORMALIZE_ROWS && cols == 1)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "x has one column, so dividing rows by their norms leaves only signs; normalise over the "
                          "batch, or not at all");
    if (!(scaling->keep >= 0.0 && scaling->keep < 1.0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "keep is %g; it must be at least 0 and less than 1", scaling->keep);
    return CIRCE_OK;
}

/* ---- normalisation ----------------------------------------------------------------------------------------------- */

/* A column whose deviations are rounding is constant. */
static double inverse_sd(double squares, double mean, int64_t n) {
    double variance = squares / (double)n;
    return variance > 1e-24 * mean * mean ? 1.0 / sqrt(variance) : 0.0;
}

static void column_figures(const double *x, int64_t n, int64_t d, double *mean, double *inverse) {
    memset(mean, 0, (size_t)d * sizeof *mean);
    memset(inverse, 0, (size_t)d * sizeof *inverse);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++) mean[c] += x[i * d + c];
    for (int64_t c = 0; c < d; c++) mean[c] /= (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++) inverse[c] += (x[i * d + c] - mean[c]) * (x[i * d + c] - mean[c]);
    for (int64_t c = 0; c < d; c++) inverse[c] = inverse_sd(inverse[c], mean[c], n);
}

/* 0 of a row of zeros. */
static double inverse_norm(const double *row, int64_t d) {
    double largest = 0.0, square = 0.0;
    for (int64_t c = 0; c < d; c++) largest = fmax(largest, fabs(row[c]));
    if (largest == 0.0) return 0.0;
    for (int64_t c = 0; c < d; c++) square += (row[c] / largest) * (row[c] / largest);
    return 1.0 / largest / sqrt(square);
}

/* x (n, d) in place; inverse: 1/sd of every column, or 1/norm of every row; (n + 2 d) numbers in all. */
static void normalize(double *x, int64_t n, int64_t d, circe_normalize how, double *inverse, double *mean) {
    if (how == CIRCE_NORMALIZE_ROWS)
        for (int64_t i = 0; i < n; i++) {
            inverse[i] = inverse_norm(x + i * d, d);
            for (int64_t c = 0; c < d; c++) x[i * d + c] *= inverse[i];
        }
    if (how != CIRCE_NORMALIZE_BATCH) return;
    column_figures(x, n, d, mean, inverse);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++) x[i * d + c] = (x[i * d + c] - mean[c]) * inverse[c];
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static double distance_f32(const float *a, const float *b, int64_t cols) {
    double square = 0.0;
#pragma omp simd reduction(+ : square)
    for (int64_t c = 0; c < cols; c++) square += ((double)a[c] - (double)b[c]) * ((double)a[c] - (double)b[c]);
    return square;
}

static double distance_f64(const double *a, const double *b, int64_t cols) {
    double square = 0.0;
#pragma omp simd reduction(+ : square)
    for (int64_t c = 0; c < cols; c++) square += (a[c] - b[c]) * (a[c] - b[c]);
    return square;
}

/* D (pairs) over columns first .. first + cols - 1 of x. */
static void pair_distances(const circe_mat *x, int64_t first, int64_t cols, double *D) {
    int64_t pairs = circe__n_pairs(x->rows);
    const float *narrow = x->data;
    const double *wide = x->data;
    for (int64_t p = 0; p < pairs; p++) {
        int64_t i = p % x->rows * x->ld + first, j = circe__pair_partner(x->rows, p) * x->ld + first;
        D[p] = x->dtype == CIRCE_FLOAT32 ? distance_f32(narrow + i, narrow + j, cols)
                                         : distance_f64(wide + i, wide + j, cols);
    }
}

static double follow(double width, double median, const circe_scaling *scaling) {
    if (width > 0.0 && (scaling->frozen || !(median > 0.0))) return width;
    if (!(median > 0.0)) return 1.0;
    return width > 0.0 ? scaling->keep * width + (1.0 - scaling->keep) * median : median;
}

/* What the factor adds to minus the logarithm of the kernel: E (pairs); NaN of a linear one, whose values no width
 * rules. */
static void add_exponents(circe_kernel_kind kind, double sigma2, const double *D, int64_t pairs, double *E) {
    double rate = kind == CIRCE_KERNEL_GAUSSIAN  ? 0.5 / sigma2
                  : kind == CIRCE_KERNEL_LAPLACE ? 1.0 / sqrt(sigma2)
                                                 : 0.0;
    for (int64_t p = 0; p < pairs; p++) {
        if (kind == CIRCE_KERNEL_GAUSSIAN) E[p] += rate * D[p];
        if (kind == CIRCE_KERNEL_LAPLACE) E[p] += rate * sqrt(D[p]);
        if (kind == CIRCE_KERNEL_DELTA && D[p] > 0.0) E[p] = INFINITY;
        if (kind == CIRCE_KERNEL_LINEAR) E[p] = NAN;
    }
}

static double mean_of(const double *v, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += v[i];
    return sum / (double)n;
}

static void add_figures(double *figures, const double *E, double spread, int64_t n) {
    int64_t pairs = circe__n_pairs(n), step = circe__figure_step(n), looked_at = (pairs + step - 1) / step;
    double sum = 0.0;
    for (int64_t p = 0; p < pairs; p += step) sum += exp(-E[p]);
    figures[CIRCE_FIGURE_KERNEL] += sum / (double)looked_at;
    figures[CIRCE_FIGURE_SPREAD] += spread;
    figures[CIRCE_FIGURE_BATCHES] += 1.0;
}

/* Widths of the factors and the figures; raw is x as it came, scratch (3 pairs). */
static void survey(const circe_mat *normalized, const circe_mat *raw, circe__factors kernel,
                   const circe_scaling *scaling, double *widths, double *figures, double *scratch) {
    int64_t pairs = circe__n_pairs(raw->rows), d = raw->cols;
    double *D = scratch, *E = D + pairs, *few = E + pairs, spread = NAN;
    if (scaling->frozen) figures = NULL;
    memset(E, 0, (size_t)pairs * sizeof *E);
    for (int64_t f = 0; f < kernel.n; f++) {
        const circe_kernel_factor *factor = &kernel.items[f];
        bool follows = circe__has_width(factor->kind) && factor->sigma2 == 0.0;
        if (!follows) widths[f] = factor->sigma2;
        if ((!follows || (scaling->frozen && widths[f] > 0.0)) && figures == NULL) continue;
        pair_distances(normalized, factor->first_col, factor->n_cols, D);
        if (follows) {
            memcpy(few, D, (size_t)pairs * sizeof *few);
            widths[f] = follow(widths[f], circe__median_of_squares(few, pairs), scaling);
        }
        if (figures != NULL) add_exponents(factor->kind, widths[f], D, pairs, E);
        if (normalized->data == raw->data && factor->n_cols == d) spread = sqrt(0.5 * mean_of(D, pairs) / (double)d);
    }
    if (figures == NULL) return;
    if (isnan(spread)) {
        pair_distances(raw, 0, d, D);
        spread = sqrt(0.5 * mean_of(D, pairs) / (double)d);
    }
    if (kernel.n == 0) E[0] = NAN;
    add_figures(figures, E, spread, raw->rows);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static void column_rates(circe__factors kernel, const double *widths, int64_t d, double *rates) {
    for (int64_t c = 0; c < d; c++) rates[c] = 1.0;
    for (int64_t f = 0; f < kernel.n; f++) {
        const circe_kernel_factor *factor = &kernel.items[f];
        if (!circe__has_width(factor->kind) || factor->sigma2 != 0.0) continue;
        for (int64_t c = 0; c < factor->n_cols; c++) rates[factor->first_col + c] = 1.0 / sqrt(widths[f]);
    }
}

/* out := from, times a rate in each column. */
static void multiply_columns(const circe_mat *from, const double *rates, circe_mat *out) {
    for (int64_t i = 0; i < out->rows; i++) {
        const float *narrow = (const float *)from->data + i * from->ld;
        const double *wide = (const double *)from->data + i * from->ld;
        float *to_narrow = (float *)out->data + i * out->ld;
        double *to_wide = (double *)out->data + i * out->ld;
        if (from->dtype == CIRCE_FLOAT32 && out->dtype == CIRCE_FLOAT32)
            for (int64_t c = 0; c < out->cols; c++) to_narrow[c] = (float)(narrow[c] * rates[c]);
        else if (out->dtype == CIRCE_FLOAT32)
            for (int64_t c = 0; c < out->cols; c++) to_narrow[c] = (float)(wide[c] * rates[c]);
        else
            for (int64_t c = 0; c < out->cols; c++) to_wide[c] = wide[c] * rates[c];
    }
}

/* x as float64, contiguous, in the slot. */
static double *widened(circe_workspace *workspace, circe__slot slot, const circe_mat *x, circe_mat *view) {
    double *copy = circe__take(workspace, slot, x->rows * x->cols, sizeof *copy);
    *view = circe__mat(copy, x->rows, x->cols, CIRCE_FLOAT64);
    if (copy != NULL) circe__copy_mat(x, view);
    return copy;
}

static circe_status check(circe_workspace *workspace, const circe_scaling *scaling, const circe_mat *x,
                          const double *widths) {
    if (workspace == NULL || widths == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "workspace and widths must not be NULL");
    circe_status status = circe__check_data(x, "x", 1);
    return status == CIRCE_OK ? circe__check_scaling(scaling, x->cols) : status;
}

circe_status circe_scale(circe_workspace *workspace, const circe_kernel *kernel, const circe_scaling *scaling,
                         const circe_mat *x, double *widths, double *figures, circe_mat *out) {
    CIRCE_OWN_SETTINGS;
    circe__factors factors = {0};
    circe_status status = check(workspace, scaling, x, widths);
    if (status == CIRCE_OK && out != NULL) status = circe__check_output(out, x->rows, x->cols, x->dtype, "out");
    if (status == CIRCE_OK) status = circe__following_factors(workspace, kernel, x->cols, &factors);
    if (status != CIRCE_OK) return status;
    int64_t n = x->rows, d = x->cols, pairs = circe__n_pairs(n);
    circe_mat normalized = *x;
    double *scratch = circe__take(workspace, CIRCE__SLOT_SCALING, 3 * pairs + n + 3 * d + 1, sizeof *scratch);
    if (scratch == NULL) return CIRCE_ERR_MEMORY;
    double *rates = scratch + 3 * pairs, *mean = rates + d, *inverse = mean + d;
    if (scaling->normalize != CIRCE_NORMALIZE_NONE) {
        double *copy = widened(workspace, CIRCE__SLOT_SCALED, x, &normalized);
        if (copy == NULL) return CIRCE_ERR_MEMORY;
        normalize(copy, n, d, scaling->normalize, inverse, mean);
    }
    if (pairs > 0) survey(&normalized, x, factors, scaling, widths, figures, scratch);
    for (int64_t f = 0; pairs == 0 && f < factors.n; f++) widths[f] = follow(widths[f], 0.0, scaling);
    column_rates(factors, widths, d, rates);
    if (out != NULL) multiply_columns(&normalized, rates, out);
    return CIRCE_OK;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static void pull_rows(const double *x, const double *inverse, int64_t n, int64_t d, double *grad) {
    for (int64_t i = 0; i < n; i++) {
        double along = 0.0;
        for (int64_t c = 0; c < d; c++) along += x[i * d + c] * grad[i * d + c];
        for (int64_t c = 0; c < d; c++) grad[i * d + c] = (grad[i * d + c] - x[i * d + c] * along) * inverse[i];
    }
}

/* sums (2 d) is scratch. */
static void pull_batch(const double *x, const double *inverse, int64_t n, int64_t d, double *sums, double *grad) {
    double *along = sums + d;
    memset(sums, 0, 2 * (size_t)d * sizeof *sums);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++) {
            sums[c] += grad[i * d + c];
            along[c] += grad[i * d + c] * x[i * d + c];
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++)
            grad[i * d + c] = (grad[i * d + c] - (sums[c] + x[i * d + c] * along[c]) / (double)n) * inverse[c];
}

circe_status circe_scale_gradient(circe_workspace *workspace, const circe_kernel *kernel, const circe_scaling *scaling,
                                  const circe_mat *x, const double *widths, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    circe__factors factors = {0};
    circe_status status = check(workspace, scaling, x, widths);
    if (status == CIRCE_OK) status = circe__check_output(grad, x->rows, x->cols, x->dtype, "grad");
    if (status == CIRCE_OK) status = circe__following_factors(workspace, kernel, x->cols, &factors);
    if (status != CIRCE_OK) return status;
    int64_t n = x->rows, d = x->cols;
    double *scratch = circe__take(workspace, CIRCE__SLOT_SCALING, n + 5 * d, sizeof *scratch);
    if (scratch == NULL) return CIRCE_ERR_MEMORY;
    double *rates = scratch, *mean = rates + d, *sums = mean + d, *inverse = sums + 2 * d;
    column_rates(factors, widths, d, rates);
    multiply_columns(grad, rates, grad);
    if (scaling->normalize == CIRCE_NORMALIZE_NONE) return CIRCE_OK;
    circe_mat seen, pulled;
    double *normalized = widened(workspace, CIRCE__SLOT_SCALED, x, &seen);
    double *wide = widened(workspace, CIRCE__SLOT_SCALED_RAW, grad, &pulled);
    if (normalized == NULL || wide == NULL) return CIRCE_ERR_MEMORY;
    normalize(normalized, n, d, scaling->normalize, inverse, mean);
    if (scaling->normalize == CIRCE_NORMALIZE_ROWS)
        pull_rows(normalized, inverse, n, d, wide);
    else
        pull_batch(normalized, inverse, n, d, sums, wide);
    circe__copy_mat(&pulled, grad);
    return CIRCE_OK;
}
