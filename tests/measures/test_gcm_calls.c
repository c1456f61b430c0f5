/* How GCM and the conditional mean are called: every refusal with its text, views with a row distance, and memory:
 * steps that allocate nothing, allocations that fail. Values are compared with the same bits. */
#include "tests/measures/gcm_support.h"

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

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
    assert_refused(GCM(w, f.kernel_y, &bad, &f.y, &f.z), CIRCE_ERR_VALUE, "x contains a NaN at row 7, column 1");
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
            "previous_x contains an infinity");
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

/* ---- views, memory ----------------------------------------------------------------------------------------------- */

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

TEST_MAIN("gcm_calls", TEST(mean_refusals), TEST(refusals), TEST(refused_options), TEST(strided_views),
          TEST(steps_allocate_nothing), TEST(out_of_memory))
