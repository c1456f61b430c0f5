/* What the tests of GCM share: its definition written out with elimination and long double, and one set of data that is
 * measured every way. */
#pragma once

#include "tests/support.h"

static const circe_gcm_combine combines[] = {CIRCE_GCM_MAX, CIRCE_GCM_LOGSUMEXP, CIRCE_GCM_SUM_OF_SQUARES};
static const circe_gcm_regression regressions[] = {CIRCE_GCM_KERNEL, CIRCE_GCM_LINEAR};

static inline circe_gcm_options defaults(void) {
    circe_gcm_options options;
    circe_gcm_options_init(&options);
    return options;
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

static inline circe_mat filled(int64_t rows, int64_t cols, double with, circe_dtype dtype) {
    circe_mat out = test_zeros(rows, cols, dtype);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < cols; c++) test_set(&out, i, c, with);
    return out;
}

static inline circe_mat scaled(const circe_mat *m, double by, double shift) {
    circe_mat out = test_copy(m, m->dtype);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t c = 0; c < m->cols; c++) test_set(&out, i, c, by * test_at(m, i, c) + shift);
    return out;
}

static inline circe_mat minus(const circe_mat *a, const circe_mat *b) {
    circe_mat out = test_copy(a, CIRCE_FLOAT64);
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t c = 0; c < a->cols; c++) test_set(&out, i, c, test_at(a, i, c) - test_at(b, i, c));
    return out;
}

static inline bool all_finite(const circe_mat *m) {
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t c = 0; c < m->cols; c++)
            if (!isfinite(test_at(m, i, c))) return false;
    return true;
}

/* ---- the definition ---------------------------------------------------------------------------------------------- */

/* A^-1 B by elimination with row pivots, in long double; A (n, n) and B (n, m) are copied. */
static inline circe_mat solve(const circe_mat *A, const circe_mat *B) {
    int64_t n = A->rows, m = B->cols, w = n + m;
    long double *t = test_memory((size_t)(n * w) * sizeof *t);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < w; j++) t[i * w + j] = j < n ? test_at(A, i, j) : test_at(B, i, j - n);
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabsl(t[i * w + k]) > fabsl(t[best * w + k])) best = i;
        for (int64_t j = 0; j < w; j++) {
            long double kept = t[k * w + j];
            t[k * w + j] = t[best * w + j];
            t[best * w + j] = kept;
        }
        for (int64_t i = 0; i < n; i++) {
            long double factor = t[i * w + k] / t[k * w + k];
            for (int64_t j = k; i != k && j < w; j++) t[i * w + j] -= factor * t[k * w + j];
        }
    }
    circe_mat out = test_zeros(n, m, CIRCE_FLOAT64);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) test_set(&out, i, j, (double)(t[i * w + n + j] / t[i * w + i]));
    return out;
}

static inline circe_mat times(const circe_mat *A, bool transposed, const circe_mat *B) {
    int64_t rows = transposed ? A->cols : A->rows, inner = transposed ? A->rows : A->cols;
    circe_mat out = test_zeros(rows, B->cols, CIRCE_FLOAT64);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < B->cols; j++) {
            long double sum = 0.0L;
            for (int64_t k = 0; k < inner; k++)
                sum += (long double)(transposed ? test_at(A, k, i) : test_at(A, i, k)) * test_at(B, k, j);
            test_set(&out, i, j, (double)sum);
        }
    return out;
}

/* K(a, b), or [1, a] where the kernel is NULL. */
static inline circe_mat design(const circe_kernel *kernel, const circe_mat *a, const circe_mat *b) {
    circe_mat out = test_zeros(a->rows, kernel == NULL ? a->cols + 1 : b->rows, CIRCE_FLOAT64);
    const double *p = a->data, *q = b->data;
    for (int64_t i = 0; i < out.rows; i++)
        for (int64_t j = 0; j < out.cols; j++) {
            if (kernel == NULL)
                test_set(&out, i, j, j == 0 ? 1.0 : test_at(a, i, j - 1));
            else
                test_set(&out, i, j, test_kernel_value(kernel, p + i * a->cols, q + j * b->cols, a->cols));
        }
    return out;
}

/* The regression of v on w at the points y; by least squares where the kernel is NULL. */
static inline circe_mat predict(const circe_kernel *kernel, double ridge, const circe_mat *y, const circe_mat *w,
                                const circe_mat *v) {
    circe_mat here = design(kernel, y, w), A = design(kernel, w, w), right = *v;
    if (kernel == NULL) {
        right = times(&A, true, v);
        A = times(&A, true, &A);
    } else {
        for (int64_t i = 0; i < A.rows; i++) test_set(&A, i, i, test_at(&A, i, i) + ridge);
    }
    circe_mat coefficients = solve(&A, &right);
    return times(&here, false, &coefficients);
}

/* T out of residuals, in two passes. */
static inline circe_mat table_of(const circe_mat *rx, const circe_mat *rz) {
    circe_mat T = test_zeros(rx->cols, rz->cols, CIRCE_FLOAT64);
    int64_t n = rx->rows;
    for (int64_t a = 0; a < rx->cols; a++)
        for (int64_t b = 0; b < rz->cols; b++) {
            long double mean = 0.0L, variance = 0.0L;
            for (int64_t i = 0; i < n; i++) mean += (long double)test_at(rx, i, a) * test_at(rz, i, b) / n;
            for (int64_t i = 0; i < n; i++) {
                long double off = (long double)test_at(rx, i, a) * test_at(rz, i, b) - mean;
                variance += off * off / n;
            }
            test_set(&T, a, b, (double)(sqrtl((long double)n) * mean / sqrtl(variance)));
        }
    return T;
}

static inline double combined(const circe_mat *T, circe_gcm_combine combine, double beta) {
    double largest = 0.0, squares = 0.0, sum = 0.0;
    for (int64_t a = 0; a < T->rows; a++)
        for (int64_t b = 0; b < T->cols; b++) {
            double t = test_at(T, a, b);
            largest = fmax(largest, fabs(t));
            squares += t * t;
            sum += cosh(beta * t) / (double)(T->rows * T->cols);
        }
    return combine == CIRCE_GCM_MAX ? largest : combine == CIRCE_GCM_LOGSUMEXP ? log(sum) / beta : squares;
}

/* ---- one set of data, every way ------------------------------------------------------------------------------------
 */

enum { ALONE, PREVIOUS, HOLDOUT, BOTH, WAYS };

typedef struct fixture {
    circe_context *context;
    circe_workspace *workspace;
    circe_kernel *kernel_y;
    circe_mat x, y, z, previous_x, previous_y, holdout_y, holdout_z;
    circe_cme *cme;
    circe_gcm_options options;
} fixture;

static const double holdout_ridge = 0.1;

/* x (n, 3) and z (n, 2) given y (n, 2); the first columns share what y does not explain. */
static inline void draw(uint64_t stream, int64_t n, circe_mat *x, circe_mat *y, circe_mat *z) {
    *y = test_normal(stream, n, 2), *x = test_normal(stream + 1, n, 3), *z = test_normal(stream + 2, n, 2);
    for (int64_t i = 0; i < n; i++) {
        double a = test_at(y, i, 0), b = test_at(y, i, 1), e = test_at(z, i, 0);
        for (int64_t c = 0; c < 3; c++)
            test_set(x, i, c, sin(a + (double)c) + 0.5 * test_at(x, i, c) + (c == 0 ? 0.3 * e : 0.0));
        for (int64_t c = 0; c < 2; c++) test_set(z, i, c, cos(b) + a * (double)c + 0.7 * test_at(z, i, c));
    }
}

static inline fixture make_fixture(int64_t n, circe_method method) {
    fixture f = {.context = test_context(1), .options = defaults()};
    circe_mat unused;
    f.workspace = test_workspace(f.context);
    f.kernel_y = test_kernel(f.context, "gaussian(1.5)");
    draw(10, n, &f.x, &f.y, &f.z);
    draw(20, n / 2 + 7, &f.previous_x, &f.previous_y, &unused);
    draw(30, 50, &unused, &f.holdout_y, &f.holdout_z);
    circe_cme_options fit = test_options(CIRCE_METHOD_DENSE, &holdout_ridge);
    f.cme = test_fit(f.context, &f.holdout_y, &f.holdout_z, "gaussian(2)", "linear", &fit);
    f.options.batch.ridge = 0.05;
    f.options.batch.method = method;
    return f;
}

static inline void set_way(fixture *f, int way) {
    f->options.previous_x = way == PREVIOUS || way == BOTH ? &f->previous_x : NULL;
    f->options.previous_y = way == PREVIOUS || way == BOTH ? &f->previous_y : NULL;
    f->options.holdout = way == HOLDOUT || way == BOTH ? f->cme : NULL;
}

static inline circe_status measure(const fixture *f, const circe_mat *x, double *value, circe_mat *grad) {
    const circe_kernel *kernel = f->options.regression == CIRCE_GCM_KERNEL ? f->kernel_y : NULL;
    return circe_measure_gcm(f->workspace, kernel, x, &f->y, &f->z, &f->options, value, grad);
}

/* T by the definition. */
static inline circe_mat expected_table(const fixture *f) {
    const circe_kernel *kernel = f->options.regression == CIRCE_GCM_KERNEL ? f->kernel_y : NULL;
    bool before = f->options.previous_x != NULL;
    double ridge = f->options.batch.ridge;
    circe_mat x_hat = predict(kernel, ridge, &f->y, before ? &f->previous_y : &f->y, before ? &f->previous_x : &f->x);
    circe_mat z_hat = f->options.holdout == NULL ? predict(kernel, ridge, &f->y, &f->y, &f->z)
                                                 : predict(test_kernel(f->context, "gaussian(2)"), holdout_ridge, &f->y,
                                                           &f->holdout_y, &f->holdout_z);
    circe_mat rx = minus(&f->x, &x_hat), rz = minus(&f->z, &z_hat);
    return table_of(&rx, &rz);
}
