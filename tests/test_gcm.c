/* GCM and the conditional mean it may use: golden values and gradients, every option against the definition written
 * out with elimination and long double, finite differences, invariances, every case where the formula divides by zero,
 * and what the measure can and cannot see.
 *
 * Tolerances, relative to the value or to the largest element:
 *   against definitions in float64: 1e-9. Systems of condition |K| / ridge ~ 1e4 on both sides, and T divides by a
 *     standard deviation that has lost two digits at most.
 *   low rank: 1e-9 as well. It leaves out 1e-14 of the trace, which a residual feels as n 1e-14 / ridge.
 *   float32: 1e-4. Inputs are rounded to 6e-8, and residuals are a tenth of them.
 *   finite differences, step 1e-6 of numbers about 1: 1e-6, from step^2 T'''  and eps T / step. */
#include "golden_case.h"

static const circe_gcm_combine combines[] = {CIRCE_GCM_MAX, CIRCE_GCM_LOGSUMEXP, CIRCE_GCM_SUM_OF_SQUARES};
static const circe_gcm_regression regressions[] = {CIRCE_GCM_KERNEL, CIRCE_GCM_LINEAR};

static circe_gcm_options defaults(void) {
    circe_gcm_options options;
    circe_gcm_options_init(&options);
    return options;
}

static circe_mat columns(const circe_mat *m, int64_t first, int64_t n) {
    circe_mat out = test_zeros(m->rows, n, m->dtype);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t c = 0; c < n; c++) test_set(&out, i, c, test_at(m, i, first + c));
    return out;
}

static circe_mat scaled(const circe_mat *m, double by, double shift) {
    circe_mat out = test_copy(m, m->dtype);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t c = 0; c < m->cols; c++) test_set(&out, i, c, by * test_at(m, i, c) + shift);
    return out;
}

static bool all_finite(const circe_mat *m) {
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t c = 0; c < m->cols; c++)
            if (!isfinite(test_at(m, i, c))) return false;
    return true;
}

/* ---- golden ------------------------------------------------------------------------------------------------------ */

static void check_golden(const golden_case *c, circe_method method, circe_dtype dtype, double tolerance) {
    circe_gcm_options options = defaults();
    options.batch.ridge = c->ridge;
    options.batch.method = method;
    circe_mat x = test_copy(&c->x, dtype), y = test_copy(&c->y, dtype), z = test_copy(&c->z, dtype);
    circe_mat grad = test_zeros(x.rows, x.cols, dtype), expected = test_golden_matrix(c->folder, "grad_gcm.npy");
    double value = NAN, alone = NAN, gcm = golden_number(c->expected, "gcm");
    circe_kernel *kernel_y = test_kernel(c->context, c->kernel_y);
    assert_ok(circe_measure_gcm(c->workspace, kernel_y, &x, &y, &z, &options, &value, &grad));
    assert_near(value, gcm, tolerance, gcm);
    assert_mat_near(&grad, &expected, tolerance);
    assert_ok(circe_measure_gcm(c->workspace, kernel_y, &x, &y, &z, &options, &alone, NULL));
    assert_true(alone == value);
}

static void golden(void **state) {
    (void)state;
    static const circe_method methods[] = {CIRCE_METHOD_AUTO, CIRCE_METHOD_DENSE, CIRCE_METHOD_LOWRANK};
    for (int64_t f = 0; f < GOLDEN_CASES; f++) {
        golden_case c = golden_load(golden_folders[f]);
        for (int64_t m = 0; m < COUNT(methods); m++) {
            check_golden(&c, methods[m], CIRCE_FLOAT64, 1e-9);
            check_golden(&c, methods[m], CIRCE_FLOAT32, 1e-4);
        }
        cJSON_Delete(c.expected);
    }
}

/* ---- the definition ---------------------------------------------------------------------------------------------- */

/* A^-1 B by elimination with row pivots, in long double; A (n, n) and B (n, m) are copied. */
static circe_mat solve(const circe_mat *A, const circe_mat *B) {
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

static circe_mat times(const circe_mat *A, bool transposed, const circe_mat *B) {
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
static circe_mat design(const circe_kernel *kernel, const circe_mat *a, const circe_mat *b) {
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
static circe_mat predict(const circe_kernel *kernel, double ridge, const circe_mat *y, const circe_mat *w,
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
static circe_mat table_of(const circe_mat *rx, const circe_mat *rz) {
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

static double combined(const circe_mat *T, circe_gcm_combine combine, double beta) {
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
static void draw(uint64_t stream, int64_t n, circe_mat *x, circe_mat *y, circe_mat *z) {
    *y = test_normal(stream, n, 2), *x = test_normal(stream + 1, n, 3), *z = test_normal(stream + 2, n, 2);
    for (int64_t i = 0; i < n; i++) {
        double a = test_at(y, i, 0), b = test_at(y, i, 1), e = test_at(z, i, 0);
        for (int64_t c = 0; c < 3; c++)
            test_set(x, i, c, sin(a + (double)c) + 0.5 * test_at(x, i, c) + (c == 0 ? 0.3 * e : 0.0));
        for (int64_t c = 0; c < 2; c++) test_set(z, i, c, cos(b) + a * (double)c + 0.7 * test_at(z, i, c));
    }
}

static fixture make_fixture(int64_t n, circe_method method) {
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

static void set_way(fixture *f, int way) {
    f->options.previous_x = way == PREVIOUS || way == BOTH ? &f->previous_x : NULL;
    f->options.previous_y = way == PREVIOUS || way == BOTH ? &f->previous_y : NULL;
    f->options.holdout = way == HOLDOUT || way == BOTH ? f->cme : NULL;
}

static circe_status measure(const fixture *f, const circe_mat *x, double *value, circe_mat *grad) {
    const circe_kernel *kernel = f->options.regression == CIRCE_GCM_KERNEL ? f->kernel_y : NULL;
    return circe_measure_gcm(f->workspace, kernel, x, &f->y, &f->z, &f->options, value, grad);
}

static circe_mat minus(const circe_mat *a, const circe_mat *b) {
    circe_mat out = test_copy(a, CIRCE_FLOAT64);
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t c = 0; c < a->cols; c++) test_set(&out, i, c, test_at(a, i, c) - test_at(b, i, c));
    return out;
}

/* T by the definition. */
static circe_mat expected_table(const fixture *f) {
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

static void check_definition(fixture *f) {
    circe_mat T = test_zeros(3, 2, CIRCE_FLOAT64), T32 = test_zeros(3, 2, CIRCE_FLOAT32), expected = expected_table(f);
    assert_ok(circe_gcm_table(f->workspace, f->kernel_y, &f->x, &f->y, &f->z, &f->options, &T));
    assert_mat_near(&T, &expected, 1e-9);
    assert_ok(circe_gcm_table(f->workspace, f->kernel_y, &f->x, &f->y, &f->z, &f->options, &T32));
    assert_mat_near(&T32, &expected, 1e-6); /* rounded at the end only */
    for (int64_t c = 0; c < COUNT(combines); c++) {
        double value = NAN, want = combined(&expected, combines[c], 1.7);
        f->options.combine = combines[c];
        f->options.sharpness = 1.7;
        assert_ok(measure(f, &f->x, &value, NULL));
        assert_near(value, want, 1e-9, want);
    }
}

static void definitions(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO), large = make_fixture(270, CIRCE_METHOD_AUTO);
    for (int64_t r = 0; r < COUNT(regressions); r++) {
        f.options.regression = large.options.regression = regressions[r];
        for (int way = 0; way < WAYS; way++) {
            set_way(&f, way);
            check_definition(&f);
        }
        set_way(&large, BOTH); /* more than a block of rows */
        check_definition(&large);
    }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static void check_differences(const fixture *f) {
    const double step = 1e-6;
    circe_mat x = test_copy(&f->x, CIRCE_FLOAT64), grad = test_zeros(x.rows, x.cols, CIRCE_FLOAT64);
    double value = NAN, up = NAN, down = NAN;
    assert_ok(measure(f, &x, &value, &grad));
    double largest = test_max(&grad);
    assert_true(largest > 1e-3);
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t c = 0; c < x.cols; c++) {
            double kept = test_at(&x, i, c);
            test_set(&x, i, c, kept + step);
            assert_ok(measure(f, &x, &up, NULL));
            test_set(&x, i, c, kept - step);
            assert_ok(measure(f, &x, &down, NULL));
            test_set(&x, i, c, kept);
            assert_near(test_at(&grad, i, c), (up - down) / (2.0 * step), 1e-6, largest);
        }
}

static void finite_differences(void **state) {
    (void)state;
    static const circe_method methods[] = {CIRCE_METHOD_DENSE, CIRCE_METHOD_LOWRANK};
    for (int64_t m = 0; m < COUNT(methods); m++) {
        fixture f = make_fixture(24, methods[m]);
        for (int64_t r = 0; r < COUNT(regressions); r++)
            for (int64_t c = 0; c < COUNT(combines); c++)
                for (int way = 0; way < WAYS; way++) {
                    set_way(&f, way);
                    f.options.regression = regressions[r];
                    f.options.combine = combines[c];
                    f.options.sharpness = way % 2 == 0 ? 1.0 : 0.1; /* both forms of the sum */
                    check_differences(&f);
                }
    }
}

/* The batch before being the batch itself, the residuals are the same, and the gradient is not: (I - S) of it would be
 * the one through the regression. */
static void previous_is_constant(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    circe_mat through = test_zeros(40, 3, CIRCE_FLOAT64), direct = test_zeros(40, 3, CIRCE_FLOAT64);
    for (int64_t r = 0; r < COUNT(regressions); r++)
        for (int64_t c = 0; c < COUNT(combines); c++) {
            double value = NAN, again = NAN;
            f.options.regression = regressions[r];
            f.options.combine = combines[c];
            f.options.previous_x = f.options.previous_y = NULL;
            assert_ok(measure(&f, &f.x, &value, &through));
            f.options.previous_x = &f.x;
            f.options.previous_y = &f.y;
            assert_ok(measure(&f, &f.x, &again, &direct));
            assert_near(again, value, 1e-9, value);
            circe_mat hat = predict(regressions[r] == CIRCE_GCM_KERNEL ? f.kernel_y : NULL, 0.05, &f.y, &f.y, &direct);
            circe_mat expected = minus(&direct, &hat);
            assert_mat_near(&through, &expected, 1e-9);
            assert_true(test_difference(&direct, &through) > 0.01);
        }
}

/* ---- low rank -----------------------------------------------------------------------------------------------------
 */

static void low_rank(void **state) {
    (void)state;
    fixture f = make_fixture(300, CIRCE_METHOD_DENSE);
    circe_mat dense = test_zeros(300, 3, CIRCE_FLOAT64), low = test_zeros(300, 3, CIRCE_FLOAT64);
    for (int way = 0; way < WAYS; way++)
        for (int64_t c = 0; c < COUNT(combines); c++) {
            double value = NAN, other = NAN;
            set_way(&f, way);
            f.options.combine = combines[c];
            f.options.batch.method = CIRCE_METHOD_DENSE;
            assert_ok(measure(&f, &f.x, &value, &dense));
            for (int m = CIRCE_METHOD_AUTO; m <= CIRCE_METHOD_LOWRANK; m++) {
                f.options.batch.method = (circe_method)m;
                assert_ok(measure(&f, &f.x, &other, &low));
                assert_near(other, value, 1e-9, value);
                assert_mat_near(&low, &dense, 1e-9);
            }
        }
}

/* ---- invariances --------------------------------------------------------------------------------------------------
 */

static void permutations(void **state) {
    (void)state;
    enum { N = 60 };
    int64_t order[N];
    fixture f = make_fixture(N, CIRCE_METHOD_AUTO);
    circe_random_permutation((circe_random){5, 0}, N, order);
    circe_mat x = test_rows(&f.x, order, N), y = test_rows(&f.y, order, N), z = test_rows(&f.z, order, N);
    circe_mat grad = test_zeros(N, 3, CIRCE_FLOAT64), moved = test_zeros(N, 3, CIRCE_FLOAT64);
    for (int64_t r = 0; r < COUNT(regressions); r++)
        for (int way = 0; way < WAYS; way++) {
            double value = NAN, other = NAN;
            set_way(&f, way);
            f.options.regression = regressions[r];
            assert_ok(measure(&f, &f.x, &value, &grad));
            assert_ok(circe_measure_gcm(f.workspace, f.kernel_y, &x, &y, &z, &f.options, &other, &moved));
            circe_mat expected = test_rows(&grad, order, N);
            assert_near(other, value, 1e-11, value);
            assert_mat_near(&moved, &expected, 1e-11);
        }
}

/* Column c of x times by[c]; the gradient is then divided by it. */
static void check_units(const fixture *f, const double by[3], double by_z, double tolerance) {
    circe_mat x = test_copy(&f->x, CIRCE_FLOAT64), z = scaled(&f->z, by_z, 0.0);
    circe_mat grad = test_zeros(x.rows, 3, CIRCE_FLOAT64), other = test_zeros(x.rows, 3, CIRCE_FLOAT64);
    double value = NAN, again = NAN;
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t c = 0; c < 3; c++) test_set(&x, i, c, by[c] * test_at(&x, i, c));
    assert_ok(measure(f, &f->x, &value, &grad));
    assert_ok(circe_measure_gcm(f->workspace, f->kernel_y, &x, &f->y, &z, &f->options, &again, &other));
    assert_near(again, value, tolerance, value);
    assert_true(all_finite(&other));
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t c = 0; c < 3; c++) test_set(&other, i, c, by[c] * test_at(&other, i, c));
    assert_mat_near(&other, &grad, tolerance);
}

static void units(void **state) {
    (void)state;
    static const double powers[3] = {4.0, 0x1p-300, 0x1p300}, plain[3] = {3.7, -1e-3, 1e5};
    static const double huge[3] = {1e150, -1e-150, 1e150}, extreme[3] = {1e290, 1e-290, 1.0};
    fixture f = make_fixture(60, CIRCE_METHOD_AUTO);
    for (int64_t r = 0; r < COUNT(regressions); r++)
        for (int64_t c = 0; c < COUNT(combines); c++) {
            f.options.regression = regressions[r];
            f.options.combine = combines[c];
            check_units(&f, powers, 0x1p-400, 0.0); /* the same bits */
            check_units(&f, plain, -12.0, 1e-11);
            check_units(&f, huge, 1e150, 1e-11);
            check_units(&f, huge, -1e-150, 1e-11);
            check_units(&f, extreme, 1e-290, 1e-11);
        }
}

/* Linear regression knows constants: shifts of x and z, and any units of y, change nothing. */
static void shifts(void **state) {
    (void)state;
    fixture f = make_fixture(60, CIRCE_METHOD_AUTO);
    circe_mat x = scaled(&f.x, 1.0, 50.0), z = scaled(&f.z, 1.0, -70.0), y = scaled(&f.y, 1e150, 0.0);
    circe_mat far = scaled(&f.y, 1e-3, 1e4), grad = test_zeros(60, 3, CIRCE_FLOAT64);
    circe_mat other = test_zeros(60, 3, CIRCE_FLOAT64);
    double value = NAN, again = NAN;
    f.options.regression = CIRCE_GCM_LINEAR;
    assert_ok(measure(&f, &f.x, &value, &grad));
    assert_ok(circe_measure_gcm(f.workspace, NULL, &x, &f.y, &z, &f.options, &again, &other));
    assert_near(again, value, 1e-11, value);
    assert_mat_near(&other, &grad, 1e-11);
    assert_ok(circe_measure_gcm(f.workspace, NULL, &f.x, &y, &f.z, &f.options, &again, &other));
    assert_near(again, value, 1e-11, value);
    assert_mat_near(&other, &grad, 1e-11);
    assert_ok(circe_measure_gcm(f.workspace, NULL, &f.x, &far, &f.z, &f.options, &again, &other));
    assert_near(again, value, 1e-7, value); /* y itself is rounded to 1e-12 of its spread, 1e-3 of 1e4 */
    assert_mat_near(&other, &grad, 1e-7);
}

static void logsumexp_limits(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    circe_mat grad = test_zeros(40, 3, CIRCE_FLOAT64), hard = test_zeros(40, 3, CIRCE_FLOAT64);
    double largest = NAN, squares = NAN, value = NAN;
    assert_ok(measure(&f, &f.x, &largest, &hard));
    f.options.combine = CIRCE_GCM_SUM_OF_SQUARES;
    assert_ok(measure(&f, &f.x, &squares, NULL));
    f.options.combine = CIRCE_GCM_LOGSUMEXP;
    static const double sharpness[] = {1e-300, 1e-8, 0.3, 1.0, 7.0, 1e3, 1e8, 1e300};
    for (int64_t s = 0; s < COUNT(sharpness); s++) {
        f.options.sharpness = sharpness[s];
        assert_ok(measure(&f, &f.x, &value, &grad));
        assert_true(isfinite(value) && all_finite(&grad));
        assert_true(value <= largest && value >= largest - log(12.0) / sharpness[s]);
        if (sharpness[s] == 1e-8) assert_near(value, 0.5 * 1e-8 * squares / 6.0, 1e-7, value); /* beta mean T^2 / 2 */
    }
    assert_mat_near(&grad, &hard, 1e-12); /* of the last, where only the largest counts */
}

/* ---- where the formula divides by zero ------------------------------------------------------------------------------
 */

/* Every combination gives exactly 0, and no gradient. */
static void assert_nothing(const fixture *f, const circe_mat *x, const circe_mat *y, const circe_mat *z) {
    circe_gcm_options options = f->options;
    for (int64_t c = 0; c < COUNT(combines); c++) {
        circe_mat grad = scaled(x, 0.0, 1.0);
        double value = NAN;
        options.combine = combines[c];
        assert_ok(circe_measure_gcm(f->workspace, f->kernel_y, x, y, z, &options, &value, &grad));
        if (value != 0.0 || !all_finite(&grad) || test_max(&grad) != 0.0)
            fail_msg("value %g, gradient %g; both must be 0", value, test_max(&grad));
    }
}

static circe_mat filled(int64_t rows, int64_t cols, double with, circe_dtype dtype) {
    circe_mat out = test_zeros(rows, cols, dtype);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < cols; c++) test_set(&out, i, c, with);
    return out;
}

static void few_points(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    for (int64_t r = 0; r < COUNT(regressions); r++) {
        int64_t one[] = {3}, two[] = {3, 5};
        f.options.regression = regressions[r];
        circe_mat x = test_rows(&f.x, one, 1), y = test_rows(&f.y, one, 1), z = test_rows(&f.z, one, 1);
        assert_nothing(&f, &x, &y, &z);
        x = test_rows(&f.x, two, 2), y = test_rows(&f.y, two, 2), z = test_rows(&f.z, two, 2);
        if (regressions[r] == CIRCE_GCM_LINEAR) {
            assert_nothing(&f, &x, &y, &z); /* two points lie on a line */
            continue;
        }
        fixture pair = f;
        double value = NAN;
        pair.x = x, pair.y = y, pair.z = z;
        circe_mat expected = expected_table(&pair);
        assert_ok(measure(&pair, &x, &value, NULL));
        assert_near(value, combined(&expected, CIRCE_GCM_MAX, 1.0), 1e-9, value);
        double opposite[] = {1.0, -1.0}, apart[] = {0.0, 0.0, 1e3, 1e3};
        circe_mat v = circe_mat_f64(opposite, 2, 1), w = circe_mat_f64(apart, 2, 2);
        assert_nothing(&f, &v, &w, &v); /* equal products */
    }
}

/* In linear regression a constant, and what y determines, leave rounding only; x and z share it, which would be a
 * perfect dependence. */
static void no_residual(void **state) {
    (void)state;
    static const circe_dtype dtypes[] = {CIRCE_FLOAT64, CIRCE_FLOAT32};
    fixture f = make_fixture(1000, CIRCE_METHOD_AUTO);
    f.options.regression = CIRCE_GCM_LINEAR;
    for (int64_t t = 0; t < COUNT(dtypes); t++) {
        circe_mat y = test_copy(&f.y, dtypes[t]), z = test_copy(&f.z, dtypes[t]), x = test_copy(&f.x, dtypes[t]);
        static const double constants[] = {0.0, 0.1, -1e30, 1e-30, 3e7};
        for (int64_t k = 0; k < COUNT(constants); k++) {
            circe_mat constant = filled(1000, 3, constants[k], dtypes[t]);
            assert_nothing(&f, &constant, &y, &z);
            assert_nothing(&f, &x, &y, &constant);
            assert_nothing(&f, &constant, &y, &constant);
        }
        circe_mat line = test_zeros(1000, 2, dtypes[t]), far = test_zeros(1000, 2, dtypes[t]);
        for (int64_t i = 0; i < 1000; i++)
            for (int64_t c = 0; c < 2; c++) {
                test_set(&line, i, c, 2.0 * test_at(&y, i, c) - 0.3 * test_at(&y, i, 0) + 0.7);
                test_set(&far, i, c, 0.1 * test_at(&y, i, 1) + 33.3);
            }
        assert_nothing(&f, &line, &y, &z);
        assert_nothing(&f, &x, &y, &line);
        assert_nothing(&f, &line, &y, &line);
        assert_nothing(&f, &far, &y, &line);
    }
    static const double sizes[] = {1e150, 1e-150, 1e300, 1e-300};
    for (int64_t s = 0; s < COUNT(sizes); s++) {
        circe_mat constant = filled(1000, 1, sizes[s] / 3.0, CIRCE_FLOAT64), line = scaled(&f.y, sizes[s], 0.0);
        assert_nothing(&f, &constant, &f.y, &f.z);
        assert_nothing(&f, &line, &f.y, &line);
    }
}

/* Kernel regression shrinks a constant, which leaves a residual that is no rounding: T is what the definition says. */
static void constants_and_kernels(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    circe_mat zero = test_zeros(40, 2, CIRCE_FLOAT64), constant = filled(40, 2, 0.1, CIRCE_FLOAT64);
    circe_mat x = f.x, grad = test_zeros(40, 2, CIRCE_FLOAT64);
    double value = NAN;
    assert_nothing(&f, &zero, &f.y, &f.z);
    assert_nothing(&f, &x, &f.y, &zero);
    assert_nothing(&f, &constant, &constant, &constant); /* constant residuals: no spread */
    fixture shrunk = f;
    shrunk.x = constant;
    circe_mat expected = expected_table(&shrunk);
    assert_ok(measure(&shrunk, &constant, &value, &grad));
    assert_near(value, combined(&expected, CIRCE_GCM_MAX, 1.0), 1e-9, value);
    assert_true(all_finite(&grad));
}

/* One bad column of x does not touch the others. */
static void mixed_columns(void **state) {
    (void)state;
    fixture f = make_fixture(60, CIRCE_METHOD_AUTO);
    circe_mat x = test_copy(&f.x, CIRCE_FLOAT64), rest = columns(&f.x, 0, 2);
    circe_mat grad = test_zeros(60, 3, CIRCE_FLOAT64), expected = test_zeros(60, 2, CIRCE_FLOAT64);
    circe_mat T = test_zeros(3, 2, CIRCE_FLOAT64);
    for (int64_t i = 0; i < 60; i++) test_set(&x, i, 2, 1e8 * test_at(&f.y, i, 0) + 1e8);
    f.options.regression = CIRCE_GCM_LINEAR;
    for (int64_t c = 0; c < COUNT(combines); c++) {
        double value = NAN, without = NAN;
        f.options.combine = combines[c];
        assert_ok(measure(&f, &x, &value, &grad));
        assert_ok(measure(&f, &rest, &without, &expected));
        if (combines[c] != CIRCE_GCM_LOGSUMEXP) { /* which takes the mean over pairs */
            circe_mat two = columns(&grad, 0, 2);
            assert_near(value, without, 1e-12, value);
            assert_mat_near(&two, &expected, 1e-12);
        }
        for (int64_t i = 0; i < 60; i++) assert_true(test_at(&grad, i, 2) == 0.0);
    }
    assert_ok(circe_gcm_table(f.workspace, NULL, &x, &f.y, &f.z, &f.options, &T));
    for (int64_t b = 0; b < 2; b++) assert_true(test_at(&T, 2, b) == 0.0 && test_at(&T, 0, b) != 0.0);
}

/* Ties go to the lowest column; the others are pairs like any. */
static void equal_columns(void **state) {
    (void)state;
    fixture f = make_fixture(60, CIRCE_METHOD_AUTO);
    circe_mat one = columns(&f.x, 0, 1), many = test_zeros(60, 9, CIRCE_FLOAT64);
    circe_mat grad = test_zeros(60, 9, CIRCE_FLOAT64), expected = test_zeros(60, 1, CIRCE_FLOAT64);
    for (int64_t i = 0; i < 60; i++)
        for (int64_t c = 0; c < 9; c++) test_set(&many, i, c, (c % 2 == 0 ? 3.0 : -0.7) * test_at(&one, i, 0));
    for (int64_t r = 0; r < COUNT(regressions); r++) {
        double value = NAN, same = NAN;
        f.options.regression = regressions[r];
        f.options.combine = CIRCE_GCM_MAX;
        assert_ok(measure(&f, &one, &value, &expected));
        assert_ok(measure(&f, &many, &same, &grad));
        assert_near(same, value, 1e-12, value);
        circe_mat first = columns(&grad, 0, 1);
        expected = scaled(&expected, 1.0 / 3.0, 0.0);
        assert_mat_near(&first, &expected, 1e-10);
        for (int64_t i = 0; i < 60; i++)
            for (int64_t c = 1; c < 9; c++) assert_true(test_at(&grad, i, c) == 0.0);
        f.options.combine = CIRCE_GCM_SUM_OF_SQUARES;
        assert_ok(measure(&f, &one, &value, NULL));
        assert_ok(measure(&f, &many, &same, NULL));
        assert_near(same, 9.0 * value, 1e-12, same);
        f.options.combine = CIRCE_GCM_LOGSUMEXP;
        assert_ok(measure(&f, &one, &value, NULL));
        assert_ok(measure(&f, &many, &same, NULL));
        assert_near(same, value, 1e-12, same);
    }
}

/* Columns of y that are constant or combinations of others add nothing to least squares; more of them than points leave
 * nothing. */
static void collinear_y(void **state) {
    (void)state;
    static const circe_dtype dtypes[] = {CIRCE_FLOAT64, CIRCE_FLOAT32};
    fixture f = make_fixture(60, CIRCE_METHOD_AUTO);
    f.options.regression = CIRCE_GCM_LINEAR;
    circe_mat grad = test_zeros(60, 3, CIRCE_FLOAT64), other = test_zeros(60, 3, CIRCE_FLOAT64);
    for (int64_t t = 0; t < COUNT(dtypes); t++) {
        circe_mat y = test_copy(&f.y, dtypes[t]), more = test_zeros(60, 7, dtypes[t]);
        double tolerance = dtypes[t] == CIRCE_FLOAT32 ? 1e-5 : 1e-10, value = NAN, same = NAN;
        for (int64_t i = 0; i < 60; i++) {
            double a = test_at(&y, i, 0), b = test_at(&y, i, 1);
            double row[] = {1e-3 * a, 0.1, a, b, 3.0 * a - 2.0 * b + 5.0, 1e5 * b + 7e4, a};
            for (int64_t c = 0; c < 7; c++) test_set(&more, i, c, row[c]);
        }
        assert_ok(circe_measure_gcm(f.workspace, NULL, &f.x, &y, &f.z, &f.options, &value, &grad));
        assert_ok(circe_measure_gcm(f.workspace, NULL, &f.x, &more, &f.z, &f.options, &same, &other));
        assert_near(same, value, tolerance, value);
        assert_mat_near(&other, &grad, tolerance);
        circe_mat wide = test_normal(40, 60, 80);
        assert_nothing(&f, &f.x, &wide, &f.z);
    }
    circe_mat constant = filled(60, 2, 0.3, CIRCE_FLOAT64), nothing = test_zeros(60, 1, CIRCE_FLOAT64);
    double value = NAN, same = NAN;
    assert_ok(circe_measure_gcm(f.workspace, NULL, &f.x, &constant, &f.z, &f.options, &value, &grad));
    assert_ok(circe_measure_gcm(f.workspace, NULL, &f.x, &nothing, &f.z, &f.options, &same, &other));
    assert_true(value > 0.0); /* the mean alone */
    assert_near(same, value, 1e-11, value);
    /* A previous batch of one point, and one whose y says nothing, predict their mean. */
    int64_t one[] = {4};
    circe_mat x1 = test_rows(&f.previous_x, one, 1), y1 = test_rows(&f.previous_y, one, 1);
    f.options.previous_x = &x1, f.options.previous_y = &y1;
    assert_ok(circe_measure_gcm(f.workspace, NULL, &f.x, &f.y, &f.z, &f.options, &value, &grad));
    circe_mat x2 = test_zeros(5, 3, CIRCE_FLOAT64), y2 = filled(5, 2, 9.0, CIRCE_FLOAT64);
    for (int64_t i = 0; i < 5; i++)
        for (int64_t c = 0; c < 3; c++) test_set(&x2, i, c, test_at(&x1, 0, c) + (double)(i - 2));
    f.options.previous_x = &x2, f.options.previous_y = &y2;
    assert_ok(circe_measure_gcm(f.workspace, NULL, &f.x, &f.y, &f.z, &f.options, &same, &other));
    assert_near(same, value, 1e-10, value);
    assert_mat_near(&other, &grad, 1e-10);
}

/* r_x r_z = 1 + small: T = sqrt(n) / small, of which the difference of means would know nothing. With a kernel that
 * sees no two points alike, S is a number, so that residuals are known to rounding. */
static void strong_dependence(void **state) {
    (void)state;
    enum { N = 50 };
    static const double spreads[] = {1e-2, 1e-4, 1e-7, 1e-9};
    fixture f = make_fixture(N, CIRCE_METHOD_DENSE);
    f.kernel_y = test_kernel(f.context, "delta");
    circe_mat e = test_normal(50, N, 1), u = test_uniform(51, N, 1), x = test_zeros(N, 1, CIRCE_FLOAT64);
    circe_mat z = test_zeros(N, 1, CIRCE_FLOAT64), grad = test_zeros(N, 1, CIRCE_FLOAT64);
    double share = 0.05 / 1.05;
    for (int64_t s = 0; s < COUNT(spreads); s++) {
        for (int64_t i = 0; i < N; i++) {
            test_set(&x, i, 0, 1.0 + test_at(&u, i, 0));
            test_set(&z, i, 0, (1.0 + spreads[s] * test_at(&e, i, 0)) / test_at(&x, i, 0));
        }
        double tolerance = 1e-14 / spreads[s] + 1e-12; /* x z is 1 to a few eps, in units of the spread */
        long double mean = 0.0L, variance = 0.0L;
        for (int64_t i = 0; i < N; i++) mean += (long double)test_at(&x, i, 0) * test_at(&z, i, 0) / N;
        for (int64_t i = 0; i < N; i++)
            variance += powl((long double)test_at(&x, i, 0) * test_at(&z, i, 0) - mean, 2.0L) / N;
        for (int64_t c = 0; c < COUNT(combines); c++) {
            double value = NAN, t = (double)(sqrtl(N) * mean / sqrtl(variance));
            double factor = combines[c] == CIRCE_GCM_SUM_OF_SQUARES ? 2.0 * t : 1.0;
            f.options.combine = combines[c];
            circe_mat expected = test_zeros(N, 1, CIRCE_FLOAT64);
            for (int64_t i = 0; i < N; i++) {
                long double R = (long double)test_at(&x, i, 0) * test_at(&z, i, 0);
                long double slope = (1.0L - mean * (R - mean) / variance) / sqrtl(N * variance);
                test_set(&expected, i, 0, (double)(factor * slope * test_at(&z, i, 0)));
            }
            assert_ok(circe_measure_gcm(f.workspace, f.kernel_y, &x, &f.y, &z, &f.options, &value, &grad));
            double want = combines[c] == CIRCE_GCM_MAX              ? t
                          : combines[c] == CIRCE_GCM_SUM_OF_SQUARES ? t * t
                                                                    : t - log(2.0);
            assert_near(value, want, 2.0 * tolerance, want);
            assert_mat_near(&grad, &expected, 10.0 * tolerance);
        }
    }
    for (int64_t i = 0; i < N; i++) test_set(&z, i, 0, share / test_at(&x, i, 0));
    assert_nothing(&f, &x, &f.y, &z); /* 1 to rounding */
    for (int64_t i = 0; i < N; i++) test_set(&z, i, 0, (i % 2 == 0 ? -1.0 : 1.0) / test_at(&x, i, 0));
    double value = NAN;
    assert_ok(circe_measure_gcm(f.workspace, f.kernel_y, &x, &f.y, &z, &f.options, &value, &grad));
    assert_true(value < 1e-10 && all_finite(&grad)); /* a spread without a mean */
}

/* An element of the gradient that its dtype cannot hold is its largest number. */
static void tiny_features(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    static const double sizes[] = {1e-308, 1e-312};
    for (int64_t s = 0; s < COUNT(sizes); s++) {
        circe_mat x = scaled(&f.x, sizes[s], 0.0), grad = test_zeros(40, 3, CIRCE_FLOAT64);
        double value = NAN, plain = NAN;
        assert_ok(measure(&f, &x, &value, &grad));
        assert_ok(measure(&f, &f.x, &plain, NULL));
        assert_true(all_finite(&grad) && test_max(&grad) > 1e306);
        assert_near(value, plain, s == 0 ? 1e-11 : 1e-8, plain); /* denormal numbers have fewer digits */
    }
    circe_mat narrow = scaled(&f.x, 1e-38, 0.0), x32 = test_copy(&narrow, CIRCE_FLOAT32);
    circe_mat grad = test_zeros(40, 3, CIRCE_FLOAT32);
    double value = NAN;
    assert_ok(measure(&f, &x32, &value, &grad));
    assert_true(all_finite(&grad) && test_max(&grad) > 1e36);
}

/* A line that leads far from the batch before is the residual, whatever its length; beyond all numbers it is refused.
 */
static void far_from_previous(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    circe_mat y = scaled(&f.previous_y, 1e-200, 0.0), near = scaled(&f.previous_y, 1e-50, 0.0);
    circe_mat far = scaled(&f.y, 1e200, 0.0), grad = test_zeros(40, 3, CIRCE_FLOAT64);
    double value = NAN, same = NAN;
    f.options.regression = CIRCE_GCM_LINEAR;
    f.options.holdout = f.cme; /* residuals of the batch itself would be orthogonal to the line */
    f.options.previous_x = &f.previous_x, f.options.previous_y = &near;
    assert_ok(measure(&f, &f.x, &value, NULL));
    f.options.previous_y = &y;
    assert_ok(measure(&f, &f.x, &same, &grad));
    assert_near(same, value, 1e-11, value);
    assert_true(value > 0.0 && all_finite(&grad));
    assert_refused(circe_measure_gcm(f.workspace, NULL, &f.x, &far, &f.z, &f.options, &value, &grad), CIRCE_ERR_NUMERIC,
                   "far outside");
}

/* ---- what it sees -------------------------------------------------------------------------------------------------
 */

typedef struct scores {
    double gcm, circe;
} scores;

/* Both measures of n points, CIRCE with a holdout of its own. */
static scores score(fixture *f, const circe_mat *x, const circe_mat *y, const circe_mat *z, const circe_cme *cme) {
    scores s = {NAN, NAN};
    assert_ok(circe_measure_gcm(f->workspace, f->kernel_y, x, y, z, &f->options, &s.gcm, NULL));
    assert_ok(circe_measure_circe(f->workspace, cme, test_kernel(f->context, "gaussian(1)"), x, y, z, CIRCE_USTAT,
                                  &s.circe, NULL));
    return s;
}

/* x = y + e^2 and z = e depend on each other given y, and their residuals do not correlate. */
static void blindness(void **state) {
    (void)state;
    enum { N = 2000, M = 1000 };
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    circe_mat y = test_normal(60, N, 1), e = test_normal(61, N, 1), other = test_normal(62, N, 1);
    circe_mat holdout_y = test_normal(63, M, 1), holdout_z = test_normal(64, M, 1);
    circe_mat blind = test_zeros(N, 1, CIRCE_FLOAT64), linear = test_zeros(N, 1, CIRCE_FLOAT64);
    circe_mat apart = test_zeros(N, 1, CIRCE_FLOAT64);
    for (int64_t i = 0; i < N; i++) {
        double v = test_at(&y, i, 0), w = test_at(&e, i, 0), o = test_at(&other, i, 0);
        test_set(&blind, i, 0, v + w * w);
        test_set(&apart, i, 0, v + o * o);
        test_set(&linear, i, 0, v + 0.5 * w + o);
    }
    circe_cme_options fit = test_options(CIRCE_METHOD_AUTO, &holdout_ridge);
    circe_cme *cme = test_fit(f.context, &holdout_y, &holdout_z, "gaussian(1)", "gaussian(1)", &fit);
    for (int64_t r = 0; r < COUNT(regressions); r++) {
        f.options.regression = regressions[r];
        scores unseen = score(&f, &blind, &y, &e, cme), none = score(&f, &apart, &y, &e, cme);
        scores seen = score(&f, &linear, &y, &e, cme);
        assert_true(none.gcm < 3.0 && unseen.gcm < 3.0 && seen.gcm > 10.0);
        assert_true(unseen.circe > 30.0 * fabs(none.circe) && unseen.circe > 1e-3);
    }
}

/* ---- the conditional mean ------------------------------------------------------------------------------------------
 */

static void check_mean(const fixture *f, const circe_cme *cme, const circe_mat *holdout_y, const circe_mat *holdout_z,
                       double tolerance) {
    int64_t n = f->y.rows, d = holdout_z->cols;
    circe_mat out = test_zeros(n, d, CIRCE_FLOAT64), wide = filled(n, d + 2, 7.0, CIRCE_FLOAT32);
    circe_mat expected = predict(circe_cme_kernel_y(cme), holdout_ridge, &f->y, holdout_y, holdout_z);
    assert_ok(circe_cme_mean(f->workspace, cme, &f->y, &out));
    assert_mat_near(&out, &expected, tolerance);
    wide.cols = d;
    assert_ok(circe_cme_mean(f->workspace, cme, &f->y, &wide));
    assert_mat_near(&wide, &expected, 1e-6);
    wide.cols = d + 2;
    for (int64_t i = 0; i < n; i++) assert_true(test_at(&wide, i, d) == 7.0 && test_at(&wide, i, d + 1) == 7.0);
}

/* The fit by low rank leaves out 1e-12 of the trace, of which a point in the tails feels the root: 5e-6, as in the
 * golden tests. Collinear columns of z go through L^-1. */
static void conditional_mean(void **state) {
    (void)state;
    static const circe_method methods[] = {CIRCE_METHOD_AUTO, CIRCE_METHOD_DENSE, CIRCE_METHOD_LOWRANK};
    static const int64_t rows[] = {50, 180};
    fixture f = make_fixture(300, CIRCE_METHOD_AUTO);
    for (int64_t k = 0; k < COUNT(rows); k++) {
        circe_mat unused, y, z, more = test_zeros(rows[k], 5, CIRCE_FLOAT64);
        draw(70, rows[k], &unused, &y, &z);
        for (int64_t i = 0; i < rows[k]; i++) {
            double a = test_at(&z, i, 0), b = test_at(&z, i, 1), row[] = {a, b, a + b, 100.0 * a - b, 3.0};
            for (int64_t c = 0; c < 5; c++) test_set(&more, i, c, row[c]);
        }
        for (int64_t m = 0; m < COUNT(methods); m++) {
            circe_cme_options fit = test_options(methods[m], &holdout_ridge);
            double tolerance = methods[m] == CIRCE_METHOD_LOWRANK ? 5e-6 : 1e-11;
            check_mean(&f, test_fit(f.context, &y, &z, "gaussian(2)", "linear", &fit), &y, &z, tolerance);
            check_mean(&f, test_fit(f.context, &y, &z, "gaussian(2)", "0-1:linear", &fit), &y, &z, tolerance);
            check_mean(&f, test_fit(f.context, &y, &more, "gaussian(2)", "linear", &fit), &y, &more, tolerance);
        }
    }
}

static void mean_refusals(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    circe_mat out = test_zeros(40, 2, CIRCE_FLOAT64), narrow = test_zeros(40, 1, CIRCE_FLOAT64);
    circe_cme_options fit = test_options(CIRCE_METHOD_DENSE, &holdout_ridge);
    static const char *const kernels[] = {"gaussian(1)", "0:linear", "linear*linear", "0:linear*1:linear"};
    for (int64_t k = 0; k < COUNT(kernels); k++) {
        circe_cme *cme = test_fit(f.context, &f.holdout_y, &f.holdout_z, "gaussian(2)", kernels[k], &fit);
        assert_refused(circe_cme_mean(f.workspace, cme, &f.y, &out), CIRCE_ERR_ARGUMENT, "fit with kernel_z linear");
        assert_refused(circe_cme_mean(f.workspace, cme, &f.y, &out), CIRCE_ERR_ARGUMENT, kernels[k]);
    }
    assert_refused(circe_cme_mean(NULL, f.cme, &f.y, &out), CIRCE_ERR_ARGUMENT, "NULL");
    assert_refused(circe_cme_mean(f.workspace, NULL, &f.y, &out), CIRCE_ERR_ARGUMENT, "NULL");
    assert_refused(circe_cme_mean(f.workspace, f.cme, NULL, &out), CIRCE_ERR_ARGUMENT, "y must not be NULL");
    assert_refused(circe_cme_mean(f.workspace, f.cme, &f.y, NULL), CIRCE_ERR_ARGUMENT, "out must not be NULL");
    assert_refused(circe_cme_mean(f.workspace, f.cme, &f.x, &out), CIRCE_ERR_SHAPE, "3 columns");
    assert_refused(circe_cme_mean(f.workspace, f.cme, &f.y, &narrow), CIRCE_ERR_SHAPE, "40 by 2");
    fit = test_options(CIRCE_METHOD_RFF, &holdout_ridge);
    fit.rff_pool = fit.rff_batch = 16;
    circe_cme *rff = test_fit(f.context, &f.holdout_y, &f.holdout_z, "gaussian(2)", "gaussian(1)", &fit);
    assert_refused(circe_cme_mean(f.workspace, rff, &f.y, &out), CIRCE_ERR_ARGUMENT, "rff");
}

/* ---- input, memory ------------------------------------------------------------------------------------------------
 */

static void refusals(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    circe_mat grad = test_zeros(40, 3, CIRCE_FLOAT64), short_y = test_zeros(39, 2, CIRCE_FLOAT64);
    circe_mat short_z = test_zeros(41, 2, CIRCE_FLOAT64), one = test_zeros(40, 1, CIRCE_FLOAT64);
    circe_mat grad32 = test_zeros(40, 3, CIRCE_FLOAT32), bad = test_copy(&f.x, CIRCE_FLOAT64);
    double value = NAN;
    circe_workspace *w = f.workspace;
    const circe_gcm_options *o = &f.options;
    test_set(&bad, 7, 1, NAN);
#define GCM(ws, kernel, a, b, c) circe_measure_gcm(ws, kernel, a, b, c, o, &value, &grad)
    assert_refused(GCM(NULL, f.kernel_y, &f.x, &f.y, &f.z), CIRCE_ERR_ARGUMENT, "workspace");
    assert_refused(GCM(w, NULL, &f.x, &f.y, &f.z), CIRCE_ERR_ARGUMENT, "linear regression needs none");
    assert_refused(GCM(w, test_kernel(f.context, "gaussian"), &f.x, &f.y, &f.z), CIRCE_ERR_ARGUMENT, "no width");
    assert_refused(GCM(w, f.kernel_y, NULL, &f.y, &f.z), CIRCE_ERR_ARGUMENT, "x must not be NULL");
    assert_refused(GCM(w, f.kernel_y, &f.x, NULL, &f.z), CIRCE_ERR_ARGUMENT, "y must not be NULL");
    assert_refused(GCM(w, f.kernel_y, &f.x, &f.y, NULL), CIRCE_ERR_ARGUMENT, "z must not be NULL");
    assert_refused(GCM(w, f.kernel_y, &bad, &f.y, &f.z), CIRCE_ERR_VALUE, "x holds a NaN at row 7, column 1");
    assert_refused(GCM(w, f.kernel_y, &f.x, &short_y, &f.z), CIRCE_ERR_SHAPE, "y has 39");
    assert_refused(GCM(w, f.kernel_y, &f.x, &f.y, &short_z), CIRCE_ERR_SHAPE, "z has 41");
#undef GCM
    assert_refused(circe_measure_gcm(w, f.kernel_y, &f.x, &f.y, &f.z, o, NULL, NULL), CIRCE_ERR_ARGUMENT, "value");
    assert_refused(circe_measure_gcm(w, f.kernel_y, &f.x, &f.y, &f.z, o, &value, &grad32), CIRCE_ERR_ARGUMENT, "dtype");
    assert_refused(circe_measure_gcm(w, f.kernel_y, &f.x, &f.y, &f.z, o, &value, &one), CIRCE_ERR_SHAPE, "40 by 3");
    assert_refused(circe_gcm_table(w, f.kernel_y, &f.x, &f.y, &f.z, o, &one), CIRCE_ERR_SHAPE, "3 by 2");
    assert_refused(circe_gcm_table(w, f.kernel_y, &f.x, &f.y, &f.z, o, NULL), CIRCE_ERR_ARGUMENT, "table");
    assert_true(isnan(value));
}

static void refused_options(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    circe_mat one = test_zeros(40, 1, CIRCE_FLOAT64), bad = test_copy(&f.previous_x, CIRCE_FLOAT64);
    const fixture good = f;
    double value = NAN;
    test_set(&bad, 0, 0, INFINITY);
#define REFUSED(change, status, part) f = good, change, assert_refused(measure(&f, &f.x, &value, NULL), status, part)
    REFUSED(f.options.regression = (circe_gcm_regression)7, CIRCE_ERR_ARGUMENT, "neither kernel nor linear");
    REFUSED(f.options.combine = (circe_gcm_combine)0, CIRCE_ERR_ARGUMENT, "max, logsumexp, squares");
    REFUSED((f.options.combine = CIRCE_GCM_LOGSUMEXP, f.options.sharpness = 0.0), CIRCE_ERR_ARGUMENT, "sharpness");
    REFUSED((f.options.combine = CIRCE_GCM_LOGSUMEXP, f.options.sharpness = NAN), CIRCE_ERR_ARGUMENT, "sharpness");
    REFUSED(f.options.batch.ridge = 0.0, CIRCE_ERR_ARGUMENT, "ridge");
    REFUSED(f.options.batch.ridge = 1e-18, CIRCE_ERR_NUMERIC, "too small");
    REFUSED(f.options.batch.tolerance = -1.0, CIRCE_ERR_ARGUMENT, "tolerance");
    REFUSED(f.options.batch.method = CIRCE_METHOD_RFF, CIRCE_ERR_ARGUMENT, "rff");
    REFUSED(f.options.previous_x = &good.previous_x, CIRCE_ERR_ARGUMENT, "previous_y is NULL");
    REFUSED(f.options.previous_y = &good.previous_y, CIRCE_ERR_ARGUMENT, "previous_x is NULL");
    REFUSED((f.options.previous_x = &good.x, f.options.previous_y = &good.previous_y), CIRCE_ERR_SHAPE,
            "previous_y has 27");
    REFUSED((f.options.previous_x = &one, f.options.previous_y = &good.y), CIRCE_ERR_SHAPE, "1 and 2 columns");
    REFUSED((f.options.previous_x = &good.x, f.options.previous_y = &one), CIRCE_ERR_SHAPE, "3 and 1 columns");
    REFUSED((f.options.previous_x = &bad, f.options.previous_y = &good.previous_y), CIRCE_ERR_VALUE,
            "previous_x holds an infinity");
    circe_cme_options fit = test_options(CIRCE_METHOD_DENSE, &holdout_ridge);
    circe_cme *gaussian = test_fit(f.context, &f.holdout_y, &f.holdout_z, "gaussian(2)", "gaussian(1)", &fit);
    circe_cme *wider = test_fit(f.context, &f.x, &f.z, "gaussian(2)", "linear", &fit);
    circe_cme *narrow = test_fit(f.context, &f.y, &one, "gaussian(2)", "linear", &fit);
    REFUSED(f.options.holdout = gaussian, CIRCE_ERR_ARGUMENT, "fit with kernel_z linear");
    REFUSED(f.options.holdout = wider, CIRCE_ERR_SHAPE, "fitted on 3");
    REFUSED(f.options.holdout = narrow, CIRCE_ERR_SHAPE, "the holdout's has 1");
#undef REFUSED
    f = good;
    f.options.regression = CIRCE_GCM_LINEAR; /* which has no ridge to refuse */
    f.options.batch.ridge = 0.0;
    assert_ok(measure(&f, &f.x, &value, NULL));
    circe_gcm_options plain = defaults();
    double other = NAN;
    assert_ok(circe_measure_gcm(f.workspace, f.kernel_y, &f.x, &f.y, &f.z, NULL, &value, NULL));
    assert_ok(circe_measure_gcm(f.workspace, f.kernel_y, &f.x, &f.y, &f.z, &plain, &other, NULL));
    assert_true(value == other);
    assert_string_equal(circe_gcm_regression_name(CIRCE_GCM_LINEAR), "linear");
    assert_string_equal(circe_gcm_regression_name(CIRCE_GCM_KERNEL), "kernel");
    assert_string_equal(circe_gcm_combine_name(CIRCE_GCM_LOGSUMEXP), "logsumexp");
    assert_string_equal(circe_gcm_combine_name((circe_gcm_combine)9), "unknown");
    circe_gcm_options_init(NULL);
}

/* Views with a row distance, and nothing written between the rows. */
static void strided_views(void **state) {
    (void)state;
    fixture f = make_fixture(40, CIRCE_METHOD_AUTO);
    circe_mat wide_x = test_normal(80, 40, 5), wide_grad = filled(40, 6, 7.0, CIRCE_FLOAT64);
    circe_mat grad = test_zeros(40, 3, CIRCE_FLOAT64);
    double value = NAN, other = NAN;
    for (int64_t i = 0; i < 40; i++)
        for (int64_t c = 0; c < 3; c++) test_set(&wide_x, i, c, test_at(&f.x, i, c));
    wide_x.cols = wide_grad.cols = 3;
    assert_ok(measure(&f, &f.x, &value, &grad));
    assert_ok(measure(&f, &wide_x, &other, &wide_grad));
    assert_true(other == value);
    for (int64_t i = 0; i < 40; i++)
        for (int64_t c = 0; c < 6; c++)
            assert_true(((double *)wide_grad.data)[i * 6 + c] == (c < 3 ? test_at(&grad, i, c) : 7.0));
}

/* A context whose allocations are counted, and the fixture in it. */
static fixture counted(test_allocator *counter, int64_t n) {
    fixture f = make_fixture(n, CIRCE_METHOD_AUTO);
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = 2;
    options.allocator = test_counting(counter);
    f.context = test_context_with(&options);
    f.workspace = test_workspace(f.context);
    f.kernel_y = test_kernel(f.context, "gaussian(1.5)");
    circe_cme_options fit = test_options(CIRCE_METHOD_LOWRANK, &holdout_ridge);
    f.cme = test_fit(f.context, &f.holdout_y, &f.holdout_z, "gaussian(2)", "linear", &fit);
    return f;
}

static void steps_allocate_nothing(void **state) {
    (void)state;
    enum { STEPS = 4 };
    static const int64_t sizes[] = {70, 300};
    static test_allocator counter; /* teardown still releases through it */
    for (int64_t s = 0; s < COUNT(sizes); s++)
        for (int64_t r = 0; r < COUNT(regressions); r++)
            for (int way = 0; way < WAYS; way++) {
                fixture f = counted(&counter, sizes[s]);
                circe_mat grad = test_zeros(sizes[s], 3, CIRCE_FLOAT64);
                double value = NAN;
                set_way(&f, way);
                f.options.regression = regressions[r];
                for (int step = 0; step < STEPS; step++) {
                    if (step == 1) counter.calls = 0;
                    f.options.combine = combines[step % COUNT(combines)];
                    assert_ok(measure(&f, &f.x, &value, &grad));
                    f.y = test_normal((uint64_t)(90 + step), sizes[s], 2);
                }
                assert_int_equal(counter.calls, 0);
            }
}

static void out_of_memory(void **state) {
    (void)state;
    static test_allocator counter;
    for (int64_t r = 0; r < COUNT(regressions); r++)
        for (int way = 0; way < WAYS; way++) {
            fixture f = counted(&counter, 40);
            circe_mat grad = test_zeros(40, 3, CIRCE_FLOAT64);
            double value = NAN, expected = NAN;
            set_way(&f, way);
            f.options.regression = regressions[r];
            assert_ok(measure(&f, &f.x, &expected, NULL));
            int64_t k = 0;
            for (;; k++) {
                circe_workspace *workspace = NULL;
                assert_ok(circe_workspace_create(f.context, &workspace));
                counter.calls = 0, counter.failed = false, counter.fail_at = k;
                fixture attempt = f;
                attempt.workspace = workspace;
                circe_status status = measure(&attempt, &f.x, &value, &grad);
                counter.fail_at = -1;
                if (counter.failed) {
                    assert_int_equal(status, CIRCE_ERR_MEMORY);
                    assert_true(circe_last_error()[0] != '\0');
                    status = measure(&attempt, &f.x, &value, &grad); /* the workspace stays usable */
                }
                circe_workspace_destroy(workspace);
                assert_ok(status);
                assert_true(value == expected);
                if (!counter.failed) break;
            }
            assert_true(k > 3);
        }
}

TEST_MAIN("gcm", TEST(golden), TEST(definitions), TEST(finite_differences), TEST(previous_is_constant), TEST(low_rank),
          TEST(permutations), TEST(units), TEST(shifts), TEST(logsumexp_limits), TEST(few_points), TEST(no_residual),
          TEST(constants_and_kernels), TEST(mixed_columns), TEST(equal_columns), TEST(collinear_y),
          TEST(strong_dependence), TEST(tiny_features), TEST(far_from_previous), TEST(blindness),
          TEST(conditional_mean), TEST(mean_refusals), TEST(refusals), TEST(refused_options), TEST(strided_views),
          TEST(steps_allocate_nothing), TEST(out_of_memory))
