/* The tests of conditional independence as they are called: threads, decisions, nulls, degenerate data, weights,
 * categories, refusals, memory; trust, calibration, effect sizes and place. What they are made of is in
 * test_inference_definitions.c, levels and power are in test_inference_levels.c. */
#include "tests/inference/inference_support.h"

static const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_CIRCE, CIRCE_TEST_SPLITKCI,
                                            CIRCE_TEST_GCM, CIRCE_TEST_RCOT,  CIRCE_TEST_HSIC};

/* ---- properties of every method -----------------------------------------------------------------------------------
 */

/* The same seed, the same p-value on 1, 2 and 3 threads; another seed draws others. */
static void threads_and_seeds(void **state) {
    (void)state;
    sample s = draw(4, 600, 0.05);
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]);
        circe_test_result one = run(test_context(1), &s.x, &s.y, &s.z, &options);
        for (int threads = 2; threads <= 3; threads++) {
            circe_test_result more = run(test_context(threads), &s.x, &s.y, &s.z, &options);
            if (one.draws > 0)
                assert_true(more.p_value == one.p_value);
            else
                assert_near(more.p_value, one.p_value, 1e-9, 1.0);
            assert_near(more.statistic, one.statistic, 1e-9, fabs(one.statistic) + one.null_sd);
        }
        options.seed = 6;
        circe_test_result other = run(test_context(1), &s.x, &s.y, &s.z, &options);
        if (one.draws > 0) assert_true(other.null_mean != one.null_mean || one.null_mean == 0.0);
    }
}

/* Both sides of a test run beside each other, except with a caller's allocator, which may know one thread only: the
 * same bits. */
static void sides_beside_each_other(void **state) {
    (void)state;
    const circe_test_method some[] = {CIRCE_TEST_KCI, CIRCE_TEST_CIRCE, CIRCE_TEST_GCM, CIRCE_TEST_RCOT};
    test_allocator counter;
    circe_context_options one_by_one;
    circe_context_options_init(&one_by_one);
    one_by_one.threads = 4;
    one_by_one.allocator = test_counting(&counter);
    for (int64_t m = 0; m < COUNT(some); m++)
        for (int64_t dim = 1; dim <= 4; dim += 3) {
            circe_test_options options = options_of(some[m]);
            circe_mat y = test_normal(50, 700, dim), x = test_normal(51, 700, 1), z = test_normal(52, 700, 1);
            for (int64_t i = 0; i < 700; i++) {
                test_set(&x, i, 0, test_at(&x, i, 0) + (test_at(&y, i, dim - 1) > 0.3 ? 2.0 : 0.0));
                test_set(&z, i, 0, test_at(&z, i, 0) + 2.0 * test_at(&y, i, 0) * test_at(&y, i, dim - 1));
            }
            circe_test_result together = run(test_context(4), &x, &y, &z, &options);
            circe_test_result apart = run(test_context_with(&one_by_one), &x, &y, &z, &options);
            assert_memory_equal(&together.p_value, &apart.p_value, sizeof(double));
            assert_memory_equal(&together.statistic, &apart.statistic, sizeof(double));
            assert_memory_equal(&together.misfit, &apart.misfit, sizeof(double));
            assert_memory_equal(&together.x.check_p, &apart.x.check_p, sizeof(double));
            assert_memory_equal(&together.z.check_p, &apart.z.check_p, sizeof(double));
            assert_string_equal(together.x.basis, apart.x.basis);
            assert_string_equal(together.z.basis, apart.z.basis);
        }
}

/* Many blocks of rows in rcot, pivots from candidates in kci: still the same. */
static void threads_on_many_rows(void **state) {
    (void)state;
    sample s = draw(40, 9000, 0.01);
    const circe_test_method some[] = {CIRCE_TEST_KCI, CIRCE_TEST_RCOT};
    for (int64_t m = 0; m < COUNT(some); m++) {
        circe_test_options options = options_of(some[m]);
        circe_test_result one = run(test_context(1), &s.x, &s.y, &s.z, &options);
        circe_test_result more = run(test_context(3), &s.x, &s.y, &s.z, &options);
        assert_near(more.p_value, one.p_value, 1e-8, 1.0);
        assert_near(more.statistic, one.statistic, 1e-9, one.statistic);
    }
}

/* Dependence and none, both seen by every method; the verdict says which. */
static void decisions(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample none = draw(5, 400, 0.0), some = draw(6, 400, 0.5);
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]);
        circe_test_result yes = run(context, &some.x, &some.y, &some.z, &options);
        assert_true(yes.p_value < 0.01);
        assert_non_null(strstr(yes.verdict, "depend on each other"));
        assert_true(yes.seconds > 0.0 && yes.n == 400 && yes.n_tested + yes.n_train <= 400);
        if (methods[m] == CIRCE_TEST_HSIC) continue; /* marginally they depend */
        circe_test_result no = run(context, &none.x, &none.y, &none.z, &options);
        assert_true(no.p_value > 0.05);
        assert_non_null(strstr(no.verdict, "No dependence"));
        assert_true(no.z.used && no.z.degrees > 1.0 && no.z.remaining > 0.1 && no.z.remaining < 0.9);
        assert_true(no.z.loo_error > 0.1 && no.z.loo_error < 1.0);
        if (methods[m] != CIRCE_TEST_RCOT) assert_true(no.z.check_p > 0.01);
    }
}

/* Every null of a method comes to about the same. */
static void nulls_agree(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(7, 300, 0.12);
    const struct {
        circe_test_method method;
        circe_test_null nulls[3];
    } cases[] = {{CIRCE_TEST_KCI, {CIRCE_NULL_GAMMA, CIRCE_NULL_SPECTRAL, CIRCE_NULL_WILD}},
                 {CIRCE_TEST_CIRCE, {CIRCE_NULL_GAMMA, CIRCE_NULL_SPECTRAL, CIRCE_NULL_WILD}},
                 {CIRCE_TEST_HSIC, {CIRCE_NULL_GAMMA, CIRCE_NULL_PERMUTATION, CIRCE_NULL_WILD}},
                 {CIRCE_TEST_GCM, {CIRCE_NULL_NORMAL, CIRCE_NULL_MULTIPLIER, CIRCE_NULL_NORMAL}},
                 {CIRCE_TEST_RCOT, {CIRCE_NULL_SPECTRAL, CIRCE_NULL_GAMMA, CIRCE_NULL_AUTO}}};
    for (int64_t c = 0; c < COUNT(cases); c++) {
        double p[3];
        const circe_mat *z = cases[c].method == CIRCE_TEST_HSIC ? &s.y : &s.z;
        circe_mat far = test_normal(900, 300, 1); /* hsic: no dependence, a p-value in the middle */
        for (int k = 0; k < 3; k++) {
            circe_test_options options = options_of(cases[c].method);
            options.null = cases[c].nulls[k];
            options.draws = 2000;
            circe_test_result result =
                run(context, cases[c].method == CIRCE_TEST_HSIC ? &far : &s.x, &s.y, z, &options);
            assert_true(options.null == CIRCE_NULL_AUTO || result.null == options.null);
            p[k] = result.p_value;
        }
        assert_near(p[1], p[0], 0.07, 1.0);
        assert_near(p[2], p[0], 0.07, 1.0);
    }
}

static void check_degenerate(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                             bool nothing) {
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]);
        options.draws = 50;
        circe_test_result result = run(context, x, y, z, &options);
        if (!nothing) continue;
        assert_true(result.p_value == 1.0 && result.statistic == 0.0);
        assert_non_null(strstr(result.verdict, "nothing to test"));
    }
}

/* Constants: p = 1. Equal rows, ties, x = y, z = y, a constant y, more columns than rows, few rows: an answer. */
static void degenerate_data(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(8, 60, 0.3);
    circe_mat constant = test_zeros(60, 1, CIRCE_FLOAT64), ties = test_categories(4, 60, 1, 3),
              copies = test_normal(9, 60, 1);
    circe_mat wide = test_normal(10, 60, 80), narrow = test_zeros(60, 1, CIRCE_FLOAT64);
    for (int64_t i = 0; i < 60; i++) {
        test_set(&constant, i, 0, 1e6);
        test_set(&copies, i, 0, test_at(&copies, i % 5, 0));
        test_set(&narrow, i, 0, i == 17 ? 1.0 : 0.0);
    }
    check_degenerate(context, &constant, &s.y, &s.z, true);
    check_degenerate(context, &s.x, &s.y, &constant, true);
    check_degenerate(context, &constant, &constant, &constant, true);
    check_degenerate(context, &s.x, &constant, &s.z, false);
    check_degenerate(context, &ties, &ties, &ties, false);
    check_degenerate(context, &copies, &copies, &copies, false);
    check_degenerate(context, &s.y, &s.y, &s.z, false);
    check_degenerate(context, &s.x, &s.y, &s.y, false);
    check_degenerate(context, &s.y, &s.y, &s.y, false);
    check_degenerate(context, &narrow, &s.y, &s.z, false);
    check_degenerate(context, &s.x, &wide, &s.z, false);
    check_degenerate(context, &wide, &s.y, &wide, false);
    circe_mat x8 = test_normal(1, 12, 1), y8 = test_normal(2, 12, 1), z8 = test_normal(3, 12, 1);
    check_degenerate(context, &x8, &y8, &z8, false);
}

/* No y is y of 0 columns is a constant y: the marginal test. */
static void empty_y(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(11, 200, 0.0);
    circe_mat none = test_zeros(200, 1, CIRCE_FLOAT64), constant = none, other = test_normal(99, 200, 1);
    none.cols = 0;
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]);
        circe_test_result a = run(context, &s.x, NULL, &s.z, &options), b = run(context, &s.x, &none, &s.z, &options);
        circe_test_result c = run(context, &s.x, &constant, &s.z, &options);
        assert_true(a.p_value == b.p_value && a.statistic == b.statistic);
        assert_true(a.p_value < 0.01); /* x and z share y */
        if (methods[m] != CIRCE_TEST_RCOT) assert_near(a.statistic, c.statistic, 1e-6, a.statistic);
        assert_null(strstr(a.verdict, "given y"));
        assert_true(run(context, &s.x, NULL, &other, &options).p_value > 0.01);
    }
}

/* Equal weights are none; a row of weight 0 is not there; a weight of 2 is about the row twice. */
static void weights(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(12, 160, 0.15);
    double equal[160], half[160];
    int64_t kept[120];
    for (int64_t i = 0; i < 160; i++) {
        equal[i] = 7.0;
        half[i] = i < 120 ? 1.0 : 0.0;
        if (i < 120) kept[i] = i;
    }
    circe_mat x = test_rows(&s.x, kept, 120), y = test_rows(&s.y, kept, 120), z = test_rows(&s.z, kept, 120);
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]), with = options;
        circe_test_result refused;
        if (methods[m] == CIRCE_TEST_SPLITKCI) {
            with.weights = equal;
            assert_refused(circe_test(context, &s.x, &s.y, &s.z, &with, &refused), CIRCE_ERR_UNSUPPORTED, "weights");
            continue;
        }
        if (methods[m] == CIRCE_TEST_HSIC) options.null = with.null = CIRCE_NULL_WILD;
        with.weights = equal;
        assert_near(run(context, &s.x, &s.y, &s.z, &with).p_value, run(context, &s.x, &s.y, &s.z, &options).p_value,
                    1e-9, 1.0);
        with.weights = half;
        circe_test_result part = run(context, &s.x, &s.y, &s.z, &with), alone = run(context, &x, &y, &z, &options);
        assert_near(part.p_value, alone.p_value, 1e-9, 1.0);
        assert_near(part.statistic, alone.statistic, 1e-9, fabs(alone.statistic));
        assert_true(part.n == 160 && part.n_used == 120);
    }
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    options.regressor = CIRCE_REGRESSOR_LINEAR;
    for (int64_t i = 0; i < 160; i++) half[i] = i < 40 ? 2.0 : 1.0;
    circe_mat both[3];
    const circe_mat *single[3] = {&s.x, &s.y, &s.z};
    for (int k = 0; k < 3; k++) {
        both[k] = test_zeros(200, 1, CIRCE_FLOAT64);
        for (int64_t i = 0; i < 200; i++) test_set(&both[k], i, 0, test_at(single[k], i < 160 ? i : i - 160, 0));
    }
    circe_test_result twice = run(context, &both[0], &both[1], &both[2], &options);
    options.weights = half;
    circe_test_result weighted = run(context, &s.x, &s.y, &s.z, &options);
    assert_near(weighted.statistic, twice.statistic, 0.15, fabs(twice.statistic)); /* fewer independent rows */
}

/* Categories under a delta kernel: names do not matter, dependence through them is seen. */
static void categories(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(13, 300, 0.0);
    circe_mat z = test_categories(5, 300, 1, 3), renamed = test_copy(&z, CIRCE_FLOAT64), mixed = test_normal(6, 300, 2);
    const double names[] = {11.0, -4.0, 0.5};
    for (int64_t i = 0; i < 300; i++) {
        double category = test_at(&z, i, 0);
        test_set(&renamed, i, 0, names[(int)category]);
        if (category == 1.0) test_set(&s.x, i, 0, test_at(&s.x, i, 0) + 0.5);
        test_set(&mixed, i, 1, category);
    }
    const circe_test_method some[] = {CIRCE_TEST_KCI, CIRCE_TEST_CIRCE, CIRCE_TEST_GCM, CIRCE_TEST_SPLITKCI};
    for (int64_t m = 0; m < COUNT(some); m++) {
        circe_test_options options = options_of(some[m]);
        options.kernel_z = test_kernel(context, "delta");
        circe_test_result a = run(context, &s.x, &s.y, &z, &options), b = run(context, &s.x, &s.y, &renamed, &options);
        assert_true(a.p_value == b.p_value && a.p_value < 0.01);
        options.kernel_z = test_kernel(context, "0:gaussian*1:delta");
        assert_true(run(context, &s.x, &s.y, &mixed, &options).p_value < 0.05);
        options.kernel_y = test_kernel(context, "0:gaussian*1:delta");
        options.kernel_z = NULL;
        assert_true(run(context, &s.x, &mixed, &s.z, &options).p_value <= 1.0);
    }
}

/* y of four values in no order: means of every value, no smoothness, no bias. x and z jump with y and are independent
 * given it; a regression that takes y for a line would see dependence. */
static void few_values(void **state) {
    (void)state;
    enum { N = 240 };
    circe_context *context = test_context(1);
    circe_mat x = test_normal(41, N, 1), y = test_categories(42, N, 1, 4), z = test_normal(43, N, 1);
    const double jump[] = {3.0, -2.0, 4.0, 0.0};
    for (int64_t i = 0; i < N; i++) {
        double at = jump[(int)test_at(&y, i, 0)];
        test_set(&x, i, 0, test_at(&x, i, 0) + at);
        test_set(&z, i, 0, test_at(&z, i, 0) - at);
    }
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]);
        if (methods[m] == CIRCE_TEST_HSIC || methods[m] == CIRCE_TEST_RCOT) continue;
        circe_test_result result = run(context, &x, &y, &z, &options);
        assert_true(result.p_value > 0.05 && result.z.sigma2_multiple == 0.0);
        assert_near(result.z.degrees, 4.0, 1e-6, 1.0);
        if (methods[m] != CIRCE_TEST_SPLITKCI) assert_true(result.z.check_p == 1.0);
    }
}

/* circe's mean: from the rows, from a split, with auxiliary rows; sizes are reported. */
static void circe_means(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(14, 200, 0.5), more = draw(15, 300, 0.5), none = draw(16, 200, 0.0);
    circe_test_options options = options_of(CIRCE_TEST_CIRCE);
    options.mean = CIRCE_MEAN_SPLIT;
    options.test_share = 0.4;
    circe_test_result split = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(split.n_tested == 80 && split.n_train == 120 && split.p_value < 0.05);
    assert_true(run(context, &none.x, &none.y, &none.z, &options).p_value > 0.01);
    options.auxiliary_y = &more.y;
    options.auxiliary_z = &more.z;
    split = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(split.n_tested == 80 && split.n_train == 420 && split.p_value < 0.05);
    options.mean = CIRCE_MEAN_AUTO;
    circe_test_result all = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(all.n_tested == 200 && all.n_train == 300 && all.z.rows == 500 && all.p_value < 0.01);
}

static void refusals(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(17, 30, 0.0);
    circe_mat few = test_normal(1, 7, 1), other = test_normal(2, 29, 1), bad = test_copy(&s.x, CIRCE_FLOAT64);
    circe_test_result result;
    double weight[30] = {0}, negative[30], grid[] = {-1.0};
    for (int64_t i = 0; i < 30; i++) negative[i] = i == 3 ? -1.0 : 1.0;
    test_set(&bad, 4, 0, NAN);
    assert_refused(circe_test(NULL, &s.x, &s.y, &s.z, NULL, &result), CIRCE_ERR_ARGUMENT, "context");
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, NULL, NULL), CIRCE_ERR_ARGUMENT, "result");
    assert_refused(circe_test(context, &few, &few, &few, NULL, &result), CIRCE_ERR_SHAPE, "at least 8 rows");
    assert_refused(circe_test(context, &s.x, &s.y, &other, NULL, &result), CIRCE_ERR_SHAPE, "same points");
    assert_refused(circe_test(context, &bad, &s.y, &s.z, NULL, &result), CIRCE_ERR_VALUE, "row 4");
    circe_test_options o = options_of(CIRCE_TEST_KCI);
    const circe_test_options fine = o;
    o.weights = weight;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_SHAPE, "positive weight");
    o.weights = negative;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_VALUE, "row 3");
    o = fine;
    o.null = CIRCE_NULL_PERMUTATION;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_UNSUPPORTED, "permutation");
    o = fine;
    o.draws = 0;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_ARGUMENT, "draws");
    o = fine;
    o.undersmoothing = 0.0;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_ARGUMENT, "undersmoothing");
    o = fine;
    o.alpha = 1.0;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_ARGUMENT, "alpha");
    o = fine;
    o.ridge = grid;
    o.n_ridge = 1;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_ARGUMENT, "ridge");
    o = fine;
    o.auxiliary_y = &s.y;
    o.auxiliary_z = &s.z;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_UNSUPPORTED, "circe");
    o.method = CIRCE_TEST_CIRCE;
    o.auxiliary_z = &other;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_SHAPE, "auxiliary");
    o = options_of(CIRCE_TEST_HSIC);
    o.weights = negative;
    negative[3] = 1.0;
    o.null = CIRCE_NULL_PERMUTATION;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_UNSUPPORTED, "gamma");
    o = options_of(CIRCE_TEST_GCM);
    o.null = CIRCE_NULL_NORMAL;
    circe_mat two = test_normal(8, 30, 2);
    assert_refused(circe_test(context, &two, &s.y, &s.z, &o, &result), CIRCE_ERR_UNSUPPORTED, "multiplier");
    o = options_of(CIRCE_TEST_RCOT);
    o.kernel_x = test_kernel(context, "linear");
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_UNSUPPORTED, "linear");
    o = fine;
    o.kernel_y = test_kernel(context, "3:gaussian");
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_SHAPE, "y");
    o = fine;
    o.method = (circe_test_method)12;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_ARGUMENT, "method");
    circe_test_method method;
    circe_test_null null;
    assert_refused(circe_test_method_parse("kcii", &method), CIRCE_ERR_ARGUMENT, "splitkci");
    assert_refused(circe_test_null_parse("beta", &null), CIRCE_ERR_ARGUMENT, "gamma");
    for (int64_t m = 0; m < COUNT(methods); m++) {
        assert_ok(circe_test_method_parse(circe_test_method_name(methods[m]), &method));
        assert_int_equal(method, methods[m]);
    }
    assert_ok(circe_test_null_parse("wild", &null));
    assert_int_equal(null, CIRCE_NULL_WILD);
}

/* ---- trust --------------------------------------------------------------------------------------------------------
 */

/* A regression that cannot follow: a linear kernel of y where x and z are waves of it. The p-value is wrong, and the
 * verdict says so. */
static void mistrust(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(18, 400, 0.0);
    for (int64_t i = 0; i < 400; i++) {
        double y = test_at(&s.y, i, 0);
        test_set(&s.x, i, 0, sin(3.0 * y) + 0.2 * test_at(&s.x, i, 0));
        test_set(&s.z, i, 0, sin(3.0 * y) + 0.2 * test_at(&s.z, i, 0));
    }
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    options.regressor = CIRCE_REGRESSOR_LINEAR;
    circe_test_result bad = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(bad.p_value < 0.01 && bad.trust == CIRCE_TRUST_POOR && bad.z.check_p < 1e-4);
    assert_non_null(strstr(bad.verdict, "Do not trust this p-value"));
    options.regressor = CIRCE_REGRESSOR_KERNEL;
    circe_test_result good = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(good.trust == CIRCE_TRUST_GOOD && good.z.check_p > 0.01);
    assert_string_equal(circe_trust_name(good.trust), "good");
}

/* Forests, and predictions that others made: of squares, which least squares cannot follow. With the true means as
 * predictions the statistic is that of the noises, by hand. */
static void regressors(void **state) {
    (void)state;
    enum { N = 400 };
    circe_context *context = test_context(1);
    sample s = {test_normal(57, N, 1), test_normal(58, N, 1), test_normal(59, N, 1)};
    sample noise = {test_normal(57, N, 1), test_normal(58, N, 1), test_normal(59, N, 1)};
    circe_mat mean = test_zeros(N, 1, CIRCE_FLOAT64), short_mean = test_zeros(N - 1, 1, CIRCE_FLOAT64);
    double products = 0.0, squares = 0.0, middle[2] = {0.0, 0.0};
    for (int64_t i = 0; i < N; i++) {
        double y = test_at(&s.y, i, 0);
        test_set(&mean, i, 0, y * y);
        test_set(&s.x, i, 0, y * y + 0.3 * test_at(&s.x, i, 0));
        test_set(&s.z, i, 0, y * y + 0.3 * test_at(&s.z, i, 0));
        middle[0] += 0.3 * test_at(&noise.x, i, 0) / N;
        middle[1] += 0.3 * test_at(&noise.z, i, 0) / N;
    }
    for (int64_t i = 0; i < N; i++) {
        double product = (0.3 * test_at(&noise.x, i, 0) - middle[0]) * (0.3 * test_at(&noise.z, i, 0) - middle[1]);
        products += product;
        squares += product * product;
    }
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    options.regressor = CIRCE_REGRESSOR_FOREST;
    circe_test_result forest = run(context, &s.x, &s.y, &s.z, &options);
    assert_string_equal(forest.x.basis, "forest");
    assert_true(forest.p_value > 0.01 && forest.x.remaining < 0.3 && forest.x.remaining > 0.02);
    assert_true(run(context, &s.x, &s.y, &noise.x, &options).p_value < 1e-3);
    options.regressor = CIRCE_REGRESSOR_LINEAR;
    assert_true(run(context, &s.x, &s.y, &s.z, &options).p_value < 0.01);
    options.fitted_x = options.fitted_z = &mean;
    circe_test_result given = run(context, &s.x, &s.y, &s.z, &options);
    assert_string_equal(given.z.basis, "given");
    assert_near(given.statistic, products / sqrt(squares), 0.01, 1.0); /* leave-one-out of the mean: 1 / n */
    assert_true(given.trust == CIRCE_TRUST_GOOD && given.x.remaining < 0.1);
    options.fitted_z = &short_mean;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &options, &given), CIRCE_ERR_SHAPE, "predictions of z");
    options.fitted_z = NULL;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &options, &given), CIRCE_ERR_ARGUMENT, "both x and z");
    options.method = CIRCE_TEST_KCI;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &options, &given), CIRCE_ERR_UNSUPPORTED, "gcm and wgcm");
}

static int stop_at_trees(void *user, const char *stage, int64_t done, int64_t total) {
    assert_true(done <= total);
    int64_t *calls = user;
    return strcmp(stage, "trees") == 0 && ++*calls == 2;
}

/* A forest can be stopped between its trees. */
static void forest_stopped(void **state) {
    (void)state;
    circe_context_options how;
    circe_context *context = NULL;
    int64_t calls = 0;
    circe_context_options_init(&how);
    how.progress = stop_at_trees;
    how.progress_user = &calls;
    assert_ok(circe_context_create(&how, &context));
    sample s = draw(62, 60, 0.0);
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    circe_test_result found;
    options.regressor = CIRCE_REGRESSOR_FOREST;
    assert_int_equal(circe_test(context, &s.x, &s.y, &s.z, &options, &found), CIRCE_ERR_CANCELLED);
    assert_int_equal(calls, 2);
    circe_context_destroy(context);
}

static int stop_at_features(void *user, const char *stage, int64_t done, int64_t total) {
    assert_true(done <= total);
    int64_t *left = user;
    return strcmp(stage, "features") == 0 && (*left)-- == 0;
}

/* A test of many rows, stopped before and after the features of each variable, leaves nothing behind. */
static void features_stopped(void **state) {
    (void)state;
    test_allocator counter;
    int64_t left = 0;
    circe_context_options how;
    circe_context_options_init(&how);
    how.allocator = test_counting(&counter);
    how.progress = stop_at_features;
    how.progress_user = &left;
    circe_context *context = test_context_with(&how);
    sample s = draw(63, 8300, 0.0);
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    for (int64_t at = 0; at < 8; at++) {
        circe_test_result found;
        int64_t before = counter.live;
        left = at;
        assert_int_equal(circe_test(context, &s.x, &s.y, &s.z, &options, &found), CIRCE_ERR_CANCELLED);
        assert_int_equal(counter.live, before);
    }
}

/* Values of y with no number between them, such as 0.3 and 0.1 + 0.2: a split still parts them. */
static void forest_of_neighbours(void **state) {
    (void)state;
    enum { N = 200 };
    circe_context *context = test_context(1);
    sample s = {test_normal(60, N, 1), test_zeros(N, 1, CIRCE_FLOAT64), test_normal(61, N, 1)};
    volatile double tenth = 0.1;
    const double values[] = {0.3, tenth + 0.2, 0.7, nextafter(0.7, 1.0), 1.1};
    for (int64_t i = 0; i < N; i++) {
        test_set(&s.y, i, 0, values[i % 5]);
        test_set(&s.x, i, 0, test_at(&s.x, i, 0) + 3.0 * (double)(i % 5 == 0));
    }
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    circe_kernel *kernel = NULL; /* given, so that y is taken as it is */
    assert_ok(circe_kernel_parse(context, "gaussian", &kernel));
    options.regressor = CIRCE_REGRESSOR_FOREST;
    options.kernel_y = kernel;
    circe_test_result found = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(found.p_value > 0.0 && found.p_value <= 1.0);
    assert_true(found.x.remaining < 0.6); /* the noise is 0.41 of x; unparted neighbours would leave 0.7 */
    circe_kernel_destroy(kernel);
}

/* ---- calibration --------------------------------------------------------------------------------------------------
 */

/* p-values of a dependent data set drawn again without dependence: not small. The summary of known lists. */
static void calibration(void **state) {
    (void)state;
    enum { R = 40 };
    circe_context *context = test_context(1);
    sample s = draw(19, 150, 0.6);
    double p[R], again[R], even[100], low[100];
    int64_t counts[10];
    circe_calibration summary;
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    assert_true(run(context, &s.x, &s.y, &s.z, &options).p_value < 0.01);
    assert_ok(circe_test_calibrate(context, &s.x, &s.y, &s.z, &options, R, p));
    assert_ok(circe_test_calibrate(test_context(2), &s.x, &s.y, &s.z, &options, R, again));
    for (int64_t r = 0; r < R; r++) assert_near(p[r], again[r], 1e-9, 1.0);
    assert_ok(circe_calibration_summary(p, R, 0.05, 10, counts, &summary));
    assert_true(summary.trust == CIRCE_TRUST_GOOD && summary.uniform_p > 0.001);
    for (int64_t i = 0; i < 100; i++) {
        even[i] = ((double)i + 0.5) / 100.0;
        low[i] = even[i] * even[i] * even[i];
    }
    assert_ok(circe_calibration_summary(even, 100, 0.05, 10, counts, &summary));
    assert_true(summary.level == 0.05 && summary.level_lower < 0.05 && summary.level_upper > 0.05);
    for (int k = 0; k < 10; k++) assert_int_equal(counts[k], 10);
    assert_true(summary.uniform_p > 0.99);
    assert_ok(circe_calibration_summary(low, 100, 0.05, 0, NULL, &summary));
    assert_true(summary.trust == CIRCE_TRUST_POOR && summary.uniform_p < 1e-4);
    assert_refused(circe_calibration_summary(even, 0, 0.05, 0, NULL, &summary), CIRCE_ERR_ARGUMENT, "at least 1");
    assert_refused(circe_test_calibrate(context, &s.x, &s.y, &s.z, &options, 0, p), CIRCE_ERR_ARGUMENT, "repetition");
}

/* ---- effects ------------------------------------------------------------------------------------------------------
 */

static void effects(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample none = draw(20, 300, 0.0), some = draw(21, 300, 0.3), much = draw(22, 300, 2.0);
    circe_effects e[3];
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    assert_ok(circe_test_effects(context, &none.x, &none.y, &none.z, &options, 60, &e[0]));
    assert_ok(circe_test_effects(context, &some.x, &some.y, &some.z, &options, 60, &e[1]));
    assert_ok(circe_test_effects(context, &much.x, &much.y, &much.z, &options, 60, &e[2]));
    for (int k = 0; k < 3; k++) {
        const circe_effect *both[] = {&e[k].kpc, &e[k].circe};
        for (int b = 0; b < 2; b++)
            assert_true(both[b]->lower >= 0.0 && both[b]->lower <= both[b]->value && both[b]->value <= both[b]->upper &&
                        both[b]->upper <= 1.0 && both[b]->chance < 0.1);
    }
    assert_true(e[0].circe.value < 0.02 && e[0].circe.lower == 0.0);
    assert_true(e[1].circe.lower > 0.0 && e[2].circe.value > 0.4 && e[2].kpc.value > 0.7);
    assert_true(e[0].kpc.value < e[1].kpc.value && e[1].kpc.value < e[2].kpc.value);
    assert_ok(circe_test_effects(context, &much.x, NULL, &much.z, &options, 20, &e[0]));
    assert_refused(circe_test_effects(context, &much.x, NULL, &much.z, &options, 5, &e[0]), CIRCE_ERR_ARGUMENT, "20");
}

/* Dependence where y > 0 alone: above the bound there, not elsewhere; the mean over places is near the effect. */
static void along_y(void **state) {
    (void)state;
    enum { N = 600, PLACES = 8 };
    circe_context *context = test_context(1);
    sample s = draw(23, N, 0.0);
    for (int64_t i = 0; i < N; i++) {
        double y = test_at(&s.y, i, 0), z = test_at(&s.z, i, 0);
        if (y > 0.0) test_set(&s.x, i, 0, y + z - sin(y));
    }
    double place[PLACES], value[PLACES], lower[PLACES], upper[PLACES], bound[PLACES];
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    assert_ok(circe_test_along(context, &s.x, &s.y, &s.z, &options, 0, PLACES, place, value, lower, upper, bound));
    for (int g = 0; g < PLACES; g++) {
        assert_true(lower[g] <= value[g] && value[g] <= upper[g]);
        assert_true(g == 0 || place[g] > place[g - 1]);
        if (place[g] > 0.5) assert_true(value[g] > bound[g] && lower[g] > 0.0);
        if (place[g] < -0.5) assert_true(value[g] <= bound[g] + 1e-3);
    }
    assert_refused(circe_test_along(context, &s.x, &s.y, &s.z, &options, 1, PLACES, place, value, lower, upper, bound),
                   CIRCE_ERR_SHAPE, "column 1");
}

/* ---- memory -------------------------------------------------------------------------------------------------------
 */

/* Every allocation fails once: reported as such, nothing left behind. */
static void out_of_memory(void **state) {
    (void)state;
    static test_allocator counter;
    circe_context_options context_options;
    circe_context_options_init(&context_options);
    context_options.threads = 1;
    context_options.allocator = test_counting(&counter);
    circe_context *context = test_context_with(&context_options);
    circe_mat x = test_normal(1, 24, 1), y = test_normal(2, 24, 1), z = test_normal(3, 24, 1);
    const double one[] = {1.0};
    for (int64_t m = 0; m < COUNT(methods) + 4; m++) {
        circe_test_options options = options_of(m < COUNT(methods) ? methods[m] : CIRCE_TEST_CIRCE);
        options.draws = 20;
        options.width = options.ridge = one;
        options.n_width = options.n_ridge = 1;
        options.features_y = 5;
        if (m == COUNT(methods)) options.mean = CIRCE_MEAN_SPLIT;
        int64_t before = counter.live;
        for (int64_t k = 0;; k++) {
            circe_test_result result;
            circe_effects made;
            double p[2], a[2], b[2], c[2], d[2];
            counter.calls = 0;
            counter.failed = false;
            counter.fail_at = k;
            circe_status status;
            if (m == COUNT(methods) + 1)
                status = circe_test_calibrate(context, &x, &y, &z, &options, 1, p);
            else if (m == COUNT(methods) + 2)
                status = circe_test_effects(context, &x, &y, &z, &options, 20, &made);
            else if (m == COUNT(methods) + 3)
                status = circe_test_along(context, &x, &y, &z, &options, 0, 2, a, b, c, d, p);
            else
                status = circe_test(context, &x, &y, &z, &options, &result);
            counter.fail_at = -1;
            assert_int_equal(counter.live, before);
            if (!counter.failed) {
                assert_int_equal(status, CIRCE_OK);
                break;
            }
            assert_int_equal(status, CIRCE_ERR_MEMORY);
            if (k > 60) k += k / 8; /* the tail in strides: its calls repeat */
        }
    }
}

/* ---- ranks and outliers ------------------------------------------------------------------------------------------ */

/* Equal values share their average rank; the normal scores of all have the normal distribution function of the ranks.
 */
static void ranks(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    const double column[] = {3, 1, 2, 2, -1e300, 1e300}, expected[] = {5, 2, 3.5, 3.5, 1, 6};
    const unsigned char keep[] = {0, 1};
    circe_mat values = test_zeros(6, 2, CIRCE_FLOAT64), out = test_zeros(6, 2, CIRCE_FLOAT64);
    for (int64_t i = 0; i < 6; i++) {
        test_set(&values, i, 0, column[i]);
        test_set(&values, i, 1, (double)i);
    }
    assert_ok(circe_transform_columns(context, &values, CIRCE_TRANSFORM_RANKS, keep, &out));
    for (int64_t i = 0; i < 6; i++) {
        assert_true(test_at(&out, i, 0) == expected[i] / 7.0);
        assert_true(test_at(&out, i, 1) == (double)i);
    }
    circe_mat many = test_normal(4, 20001, 1), share = test_zeros(20001, 1, CIRCE_FLOAT64);
    assert_ok(circe_transform_columns(context, &many, CIRCE_TRANSFORM_RANKS, NULL, &share));
    assert_ok(circe_transform_columns(context, &many, CIRCE_TRANSFORM_NORMAL_SCORES, NULL, &many)); /* in place */
    for (int64_t i = 0; i < many.rows; i++) {
        double score = test_at(&many, i, 0);
        assert_near(0.5 * erfc(-score / sqrt(2.0)), test_at(&share, i, 0), 1e-14, 1.0); /* rounding of both */
    }
    circe_transform transform;
    assert_ok(circe_transform_parse("normal-scores", &transform));
    assert_int_equal(transform, CIRCE_TRANSFORM_NORMAL_SCORES);
    assert_string_equal(circe_transform_name(CIRCE_TRANSFORM_RANKS), "ranks");
    assert_refused(circe_transform_parse("rank", &transform), CIRCE_ERR_ARGUMENT, "none, ranks or normal-scores");
    assert_refused(circe_transform_columns(context, &many, (circe_transform)7, NULL, &share), CIRCE_ERR_ARGUMENT, "7");
    assert_refused(circe_transform_columns(context, &many, CIRCE_TRANSFORM_RANKS, NULL, &out), CIRCE_ERR_SHAPE,
                   "6 by 2");
}

/* A test of ranks is the same after any increasing function of the columns. */
static void ranks_know_no_units(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(71, 150, 0.2), bent = draw(71, 150, 0.2);
    for (int64_t i = 0; i < 150; i++) {
        test_set(&bent.x, i, 0, exp(test_at(&s.x, i, 0)));
        test_set(&bent.y, i, 0, 1e100 * pow(test_at(&s.y, i, 0), 3.0));
    }
    for (int method = CIRCE_TEST_KCI; method <= CIRCE_TEST_HSIC; method++) {
        circe_test_options options = options_of((circe_test_method)method);
        options.transform = CIRCE_TRANSFORM_NORMAL_SCORES;
        double plain = run(context, &s.x, &s.y, &s.z, &options).p_value;
        assert_true(run(context, &bent.x, &bent.y, &bent.z, &options).p_value == plain);
    }
    circe_test_options wrong = options_of(CIRCE_TEST_KCI);
    circe_test_result result;
    wrong.transform = (circe_transform)9;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &wrong, &result), CIRCE_ERR_ARGUMENT, "transform 9");
}

/* Three rows of 1e6 hide what the others show, wherever they are: the test on normal scores finds it, and the verdict
 * names it. Without them nothing is said. */
static void outliers(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    const circe_test_options options = options_of(CIRCE_TEST_GCM);
    sample clean = draw(72, 400, 0.5);
    assert_int_equal(run(context, &clean.x, &clean.y, &clean.z, &options).trust, CIRCE_TRUST_GOOD);
    for (int where = 1; where < 4; where++) {
        for (double size = 1e6; size < 1e290; size *= 1e140) {
            sample s = draw(72, 400, 0.5);
            for (int64_t i = 0; i < 3; i++) {
                if (where & 1) test_set(&s.x, 100 * i, 0, i == 1 ? -size : size);
                if (where & 2) test_set(&s.z, 100 * i, 0, size);
            }
            circe_test_result found = run(context, &s.x, &s.y, &s.z, &options);
            assert_true(found.p_value > 0.05 && found.robust_p < 1e-6 && found.effective_rows < 4.0);
            assert_int_equal(found.trust, CIRCE_TRUST_POOR);
            assert_non_null(strstr(found.verdict, "use the transform normal-scores"));
            circe_test_options robust = options, unchecked = options;
            robust.transform = CIRCE_TRANSFORM_NORMAL_SCORES;
            circe_test_result scores = run(context, &s.x, &s.y, &s.z, &robust);
            assert_true(scores.p_value == found.robust_p && scores.trust == CIRCE_TRUST_GOOD);
            unchecked.skip_checks = 1;
            found = run(context, &s.x, &s.y, &s.z, &unchecked);
            assert_true(isnan(found.robust_p) && isnan(found.effective_rows));
        }
    }
}

/* Kernels that are wide in the units of the outliers, or have no bound, let these carry every test; a kernel of the
 * width of the other rows does not. */
static void outliers_of_kernels(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    const circe_test_method asked[] = {CIRCE_TEST_KCI, CIRCE_TEST_RCOT, CIRCE_TEST_SPLITKCI};
    const char *const texts[] = {"gaussian(1e10)", "linear", NULL};
    for (int m = 0; m < 3; m++)
        for (int k = 0; k < 3; k++) {
            circe_test_options options = options_of(asked[m]);
            sample s = draw(72, 600, 0.7);
            for (int64_t i = 0; i < 3; i++) test_set(&s.x, 100 * i, 0, i == 1 ? -1e6 : 1e6);
            circe_kernel *kernel = NULL;
            if (asked[m] == CIRCE_TEST_RCOT && k == 1) continue; /* it has no features of a linear kernel */
            if (texts[k] != NULL) assert_ok(circe_kernel_parse(context, texts[k], &kernel));
            options.kernel_x = kernel;
            circe_test_result found = run(context, &s.x, &s.y, &s.z, &options);
            if (kernel == NULL) {
                assert_true(found.p_value < 0.01 && found.effective_rows > 20.0 && isnan(found.robust_p));
            } else {
                assert_true(found.p_value > 0.05 && found.robust_p < 0.01 && found.effective_rows < 10.0);
                assert_true(found.trust == CIRCE_TRUST_POOR && strstr(found.verdict, "normal-scores") != NULL);
            }
            circe_kernel_destroy(kernel);
        }
}

/* Sorted in runs that are merged: the ranks of 1 thread, with values that many rows share, and a table that no number
 * of runs divides. */
static void ranks_on_any_threads(void **state) {
    (void)state;
    enum { N = 20011 };
    circe_mat values = test_normal(8, N, 2), ranks[2];
    for (int64_t i = 0; i < N; i++) test_set(&values, i, 1, floor(3.0 * test_at(&values, i, 1)));
    for (int k = 0; k < 2; k++) {
        ranks[k] = test_zeros(N, 2, CIRCE_FLOAT64);
        assert_ok(circe_transform_columns(test_context(k == 0 ? 1 : 16), &values, CIRCE_TRANSFORM_NORMAL_SCORES, NULL,
                                          &ranks[k]));
    }
    assert_memory_equal(ranks[0].data, ranks[1].data, 2 * N * sizeof(double));
}

/* Clean data of heavy tails, of one tail, of few values: the objection is raised in less than 1 of 20, with and without
 * dependence. */
static void no_false_alarms(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    const circe_test_options options = options_of(CIRCE_TEST_GCM);
    enum { KINDS = 4, N = 200 };
    const int sets = (int)test_few(80, 10); /* of each kind */
    int alarms = 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (int r = 0; r < sets; r++) {
            sample s = draw((uint64_t)(100 + kind * 80 + r), N, r % 2 == 0 ? 0.0 : 0.3);
            circe_mat *const bent[] = {&s.x, &s.z};
            for (int k = 0; k < 2; k++)
                for (int64_t i = 0; i < N; i++) {
                    double v = test_at(bent[k], i, 0);
                    test_set(bent[k], i, 0,
                             kind == 0   ? v
                             : kind == 1 ? sinh(1.3 * v)
                             : kind == 2 ? exp(v)
                                         : floor(2.0 * v));
                }
            circe_test_result found = run(context, &s.x, &s.y, &s.z, &options);
            alarms += strstr(found.verdict, "outweigh") != NULL;
        }
    assert_true(alarms <= KINDS * sets / 20);
}

/* Tests that share a memory, in which each finds what those before left there of its x, y or z, have the bits of tests
 * that have none. */
static void memory_changes_nothing(void **state) {
    enum { ROWS = 260, VARIABLES = 4 };
    static const circe_test_method some[] = {CIRCE_TEST_KCI, CIRCE_TEST_CIRCE, CIRCE_TEST_GCM, CIRCE_TEST_RCOT};
    (void)state;
    circe_context *context = test_context(2);
    circe_mat v[VARIABLES];
    circe_test_memory *memory = NULL;
    double weights[ROWS];
    assert_ok(circe_test_memory_create(context, 1e8, &memory));
    for (int64_t i = 0; i < ROWS; i++) weights[i] = 0.5 + (double)(i % 3);
    for (int64_t dim = 1; dim <= 2; dim++) {
        circe_mat y = test_normal(90, ROWS, dim);
        for (int64_t k = 0; k < VARIABLES; k++) {
            v[k] = test_normal(91 + (uint64_t)k, ROWS, 1);
            for (int64_t i = 0; i < ROWS; i++)
                test_set(&v[k], i, 0, sin((double)(k + 1) * test_at(&y, i, dim - 1)) + test_at(&v[k], i, 0));
        }
        for (int64_t m = 0; m < COUNT(some); m++)
            for (int64_t k = 0; k < VARIABLES * (VARIABLES - 1); k++) {
                circe_test_options options = options_of(some[m]);
                int64_t x = k / (VARIABLES - 1), z = (x + 1 + k % (VARIABLES - 1)) % VARIABLES;
                options.weights = k % 4 == 3 ? weights : NULL;
                circe_test_result alone = run(context, &v[x], &y, &v[z], &options);
                options.memory = memory;
                circe_test_result shared = run(context, &v[x], &y, &v[z], &options);
                assert_memory_equal(&alone.p_value, &shared.p_value, sizeof(double));
                assert_memory_equal(&alone.statistic, &shared.statistic, sizeof(double));
                assert_memory_equal(&alone.null_sd, &shared.null_sd, sizeof(double));
                assert_memory_equal(&alone.x.remaining, &shared.x.remaining, sizeof(double));
                assert_memory_equal(&alone.z.remaining, &shared.z.remaining, sizeof(double));
                assert_memory_equal(&alone.left_out_x, &shared.left_out_x, sizeof(double));
            }
    }
    circe_test_memory_destroy(memory);
}

/* What tests share belongs to their context: a memory of another one, which may end before, is refused. */
static void memory_of_tests(void **state) {
    (void)state;
    sample s = draw(17, 150, 0.0);
    circe_context *context = test_context(1), *other = test_context(1);
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    circe_test_result alone = run(context, &s.x, &s.y, &s.z, &options), refused;
    assert_ok(circe_test_memory_create(context, 1e6, &options.memory));
    for (int again = 0; again < 2; again++)
        assert_true(run(context, &s.x, &s.y, &s.z, &options).p_value == alone.p_value);
    assert_refused(circe_test(other, &s.x, &s.y, &s.z, &options, &refused), CIRCE_ERR_ARGUMENT, "another context");
    circe_test_memory_destroy(options.memory);
}

/* Leave-one-out chooses the same ridge in whatever order the caller lists them. */
static void ridges_in_any_order(void **state) {
    (void)state;
    enum { RIDGES = 41 };
    double ordered[RIDGES], mixed[RIDGES];
    for (int64_t l = 0; l < RIDGES; l++) ordered[l] = 1e-3 * pow(1.3, (double)l);
    for (int64_t l = 0; l < RIDGES; l++) mixed[l] = ordered[l * 7 % RIDGES];
    circe_context *context = test_context(1);
    for (uint64_t set = 0; set < 4; set++) {
        sample s = draw(40 + set, 160, 0.15);
        circe_test_options options = options_of(CIRCE_TEST_KCI);
        options.ridge = ordered;
        options.n_ridge = RIDGES;
        circe_test_result expected = run(context, &s.x, &s.y, &s.z, &options);
        options.ridge = mixed;
        circe_test_result found = run(context, &s.x, &s.y, &s.z, &options);
        assert_near(found.p_value, expected.p_value, 1e-12, 1.0);
        assert_near(found.x.ridge_chosen, expected.x.ridge_chosen, 0.0, 1.0);
        assert_near(found.z.ridge_chosen, expected.z.ridge_chosen, 0.0, 1.0);
    }
}

TEST_MAIN("inference", TEST(threads_and_seeds), TEST(threads_on_many_rows), TEST(sides_beside_each_other),
          TEST(decisions), TEST(nulls_agree), TEST(degenerate_data), TEST(empty_y), TEST(weights),
          TEST(ridges_in_any_order), TEST(categories), TEST(few_values), TEST(circe_means), TEST(refusals),
          TEST(mistrust), TEST(regressors), TEST(forest_stopped), TEST(features_stopped), TEST(forest_of_neighbours),
          TEST(calibration), TEST(effects), TEST(along_y), TEST(ranks), TEST(ranks_on_any_threads),
          TEST(ranks_know_no_units), TEST(outliers), TEST(outliers_of_kernels), TEST(no_false_alarms),
          TEST(memory_of_tests), TEST(memory_changes_nothing), TEST(out_of_memory))
