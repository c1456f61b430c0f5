/* GCM and the conditional mean it may use: golden values and gradients, every option against the definition, finite
 * differences, invariances, and what the measure can and cannot see. Where the formula divides by zero is in
 * test_gcm_degenerate.c, how the functions are called in test_gcm_calls.c.
 *
 * Tolerances, relative to the value or to the largest element:
 *   against definitions in float64: 1e-9. Systems of condition |K| / ridge ~ 1e4 on both sides, and T divides by a
 *     standard deviation that has lost two digits at most.
 *   low rank: 1e-9 as well. It leaves out 1e-14 of the trace, which a residual feels as n 1e-14 / ridge.
 *   float32: 1e-4. Inputs are rounded to 6e-8, and residuals are a tenth of them.
 *   finite differences, step 1e-6 of numbers about 1: 1e-6, from step^2 T'''  and eps T / step. */
#include "tests/golden_case.h"
#include "tests/measures/gcm_support.h"

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
    assert_mat_near(&wide, &expected, fmax(tolerance, 1e-6));
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

TEST_MAIN("gcm", TEST(golden), TEST(definitions), TEST(finite_differences), TEST(previous_is_constant), TEST(low_rank),
          TEST(permutations), TEST(units), TEST(shifts), TEST(logsumexp_limits), TEST(blindness),
          TEST(conditional_mean))
