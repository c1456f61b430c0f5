/* GCM where its formula divides by zero, or nearly: few points, constants, what y determines, equal and collinear
 * columns, a dependence without noise, features at the end of the range, a batch far from the one before. Exactly 0
 * where nothing is left, else what the definition says: to 1e-9, or to the digits that the data keep, stated there. */
#include "tests/measures/gcm_support.h"

static circe_mat columns(const circe_mat *m, int64_t first, int64_t n) {
    circe_mat out = test_zeros(m->rows, n, m->dtype);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t c = 0; c < n; c++) test_set(&out, i, c, test_at(m, i, first + c));
    return out;
}

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

TEST_MAIN("gcm_degenerate", TEST(few_points), TEST(no_residual), TEST(constants_and_kernels), TEST(mixed_columns),
          TEST(equal_columns), TEST(collinear_y), TEST(strong_dependence), TEST(tiny_features), TEST(far_from_previous))
