/* Out of memory, everywhere: every operation is run with the k-th allocation failing, for k = 0, 1, ... until it runs
 * through. Each failure must be reported as CIRCE_ERR_MEMORY with a text, leave no block behind and give the output
 * pointer back as NULL; the objects that went in must stay usable. */
#include "tests/support.h"

static test_allocator counter;
static circe_context *context;
static circe_mat y, z, x;
static int64_t many = 9000; /* more rows than are pivoted on at once */

/* What the operations work on, made while nothing fails. */
static circe_kernel *kernel, *unbound;
static circe_workspace *workspace;
static circe_cme *models[3];
static const circe_method methods[3] = {CIRCE_METHOD_LOWRANK, CIRCE_METHOD_DENSE, CIRCE_METHOD_RFF};
static circe_features *features;
static const char *path;

static circe_cme_options options_for(circe_method method) {
    circe_cme_options options = test_options(method, NULL);
    options.rff_pool = options.rff_batch = 8;
    return options;
}

static void set_up(void) {
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = 1;
    options.allocator = test_counting(&counter);
    context = test_context_with(&options);
    y = test_normal(1, 40, 1), z = test_normal(2, 40, 1), x = test_normal(3, 40, 3);
    kernel = test_kernel(context, "gaussian(1)");
    unbound = test_kernel(context, "gaussian");
    for (int64_t m = 0; m < COUNT(models); m++) {
        circe_cme_options fit = options_for(methods[m]);
        models[m] = test_fit(context, &y, &z, "gaussian(1)", "gaussian(1)", &fit);
    }
    features = test_features(context, models[0], &y, &z, CIRCE_FLOAT64);
    path = test_path("model.safetensors");
}

/* ---- the operations: each makes something, and may destroy it ---------------------------------------------------- */

typedef struct operation {
    const char *name;
    circe_status (*run)(int64_t variant, void **made); /* *made: set to something that is not NULL before */
    void (*destroy)(void *made);
    int64_t variants;
} operation;

static circe_status make_context(int64_t variant, void **made) {
    (void)variant;
    circe_context_options options;
    test_allocator kept = counter;
    circe_context_options_init(&options);
    options.allocator = test_counting(&counter);
    counter = kept;
    return circe_context_create(&options, (circe_context **)made);
}

static circe_status make_workspace(int64_t variant, void **made) {
    (void)variant;
    return circe_workspace_create(context, (circe_workspace **)made);
}

static circe_status make_kernel(int64_t variant, void **made) {
    static const char *const texts[] = {"gaussian", "0:gaussian(2)*1-:delta*laplace(0.5)"};
    if (variant < 2) return circe_kernel_parse(context, texts[variant], (circe_kernel **)made);
    if (variant == 2) return circe_kernel_create(context, CIRCE_KERNEL_LAPLACE, 1.0, (circe_kernel **)made);
    return circe_kernel_copy(kernel, (circe_kernel **)made);
}

static circe_status make_fit(int64_t variant, void **made) {
    circe_cme_options options = options_for(methods[variant]);
    return circe_cme_fit(context, &y, &z, unbound, kernel, &options, (circe_cme **)made);
}

static circe_status make_constant_fit(int64_t variant, void **made) {
    circe_mat constant = test_zeros(40, 1, CIRCE_FLOAT64); /* so that there are warnings to keep */
    circe_cme_options options = options_for(methods[variant]);
    return circe_cme_fit(context, &constant, &constant, kernel, kernel, &options, (circe_cme **)made);
}

static circe_status make_large_fit(int64_t variant, void **made) {
    static circe_mat large_y, large_z;
    static const double ridge = 1.0;
    (void)variant;
    if (counter.calls == 0) large_y = test_normal(4, many, 1), large_z = test_normal(5, many, 1);
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &ridge);
    options.tolerance = 1e-6;
    return circe_cme_fit(context, &large_y, &large_z, kernel, kernel, &options, (circe_cme **)made);
}

static circe_status make_features(int64_t variant, void **made) {
    circe_mat far = test_copy(&z, CIRCE_FLOAT64); /* with rows outside the holdout's range */
    for (int64_t i = 0; i < far.rows; i += 3) test_set(&far, i, 0, 3.0 * test_at(&z, i, 0));
    return circe_features_create(context, models[variant % 2], &y, &far, variant < 2 ? CIRCE_FLOAT32 : CIRCE_FLOAT64,
                                 (circe_features **)made);
}

static circe_status load_model(int64_t variant, void **made) {
    (void)variant;
    return circe_cme_load(context, path, (circe_cme **)made);
}

static void destroy_context(void *made) { circe_context_destroy(made); }
static void destroy_workspace(void *made) { circe_workspace_destroy(made); }
static void destroy_kernel(void *made) { circe_kernel_destroy(made); }
static void destroy_cme(void *made) { circe_cme_destroy(made); }
static void destroy_features(void *made) { circe_features_destroy(made); }

static void check_operation(const operation *op, int64_t variant) {
    int64_t live = counter.live;
    for (int64_t k = 0;; k++) {
        int placeholder;
        void *made = &placeholder;
        counter.calls = 0;
        counter.failed = false;
        counter.fail_at = k;
        circe_status status = op->run(variant, &made);
        counter.fail_at = -1;
        if (!counter.failed) {
            assert_ok(status);
            assert_true(k > 0);
            assert_true(made != &placeholder && made != NULL);
            op->destroy(made);
            assert_int_equal(counter.live, live);
            return;
        }
        if (status != CIRCE_ERR_MEMORY || made != NULL || counter.live != live || circe_last_error()[0] == '\0')
            fail_msg("%s %lld, allocation %lld failing: %s, output %s, %lld blocks left", op->name, (long long)variant,
                     (long long)k, circe_status_name(status), made == NULL ? "NULL" : "not NULL",
                     (long long)(counter.live - live));
    }
}

static void objects(void **state) {
    static const operation operations[] = {
        {"context", make_context, destroy_context, 1},
        {"workspace", make_workspace, destroy_workspace, 1},
        {"kernel", make_kernel, destroy_kernel, 4},
        {"fit", make_fit, destroy_cme, 3},
        {"fit of constants", make_constant_fit, destroy_cme, 2},
        {"features", make_features, destroy_features, 4},
    };
    (void)state;
    set_up();
    for (int64_t o = 0; o < COUNT(operations); o++)
        for (int64_t v = 0; v < operations[o].variants; v++) check_operation(&operations[o], v);
}

static void large_fit(void **state) {
    static const operation op = {"large fit", make_large_fit, destroy_cme, 1};
    (void)state;
    set_up();
    check_operation(&op, 0);
}

/* Loading, of a file by each method. The header is parsed by cJSON, which has its own memory. */
static void loading(void **state) {
    static const operation op = {"load", load_model, destroy_cme, 1};
    (void)state;
    set_up();
    for (int64_t m = 0; m < COUNT(models); m++) {
        assert_ok(circe_cme_save(models[m], path));
        check_operation(&op, 0);
    }
}

/* A save that fails leaves the old file as it was and no temporary one; one that says OK has written a model. */
static void saving(void **state) {
    (void)state;
    set_up();
    for (int64_t m = 0; m < COUNT(models); m++) {
        circe_cme_options options = options_for(methods[m]);
        for (int64_t k = 0;; k++) {
            circe_cme *cme = NULL; /* a fresh one: its kernels' texts are not yet made */
            assert_ok(circe_cme_fit(context, &y, &z, kernel, kernel, &options, &cme));
            remove(path);
            int64_t live = counter.live;
            counter.calls = 0;
            counter.failed = false;
            counter.fail_at = k;
            circe_status status = circe_cme_save(cme, path);
            counter.fail_at = -1;
            bool failed = counter.failed;
            if (failed && status != CIRCE_ERR_MEMORY)
                fail_msg("saving %s, allocation %lld failing: %s", circe_method_name(methods[m]), (long long)k,
                         circe_status_name(status));
            /* Texts that the kernels cache belong to them, and stay. */
            assert_true(counter.live >= live && counter.live <= live + 2);
            live = counter.live;
            circe_cme *back = NULL;
            if (status == CIRCE_OK) {
                assert_ok(circe_cme_load(context, path, &back));
                circe_cme_destroy(back);
            } else {
                assert_refused(circe_cme_load(context, path, &back), CIRCE_ERR_IO, "model.safetensors");
            }
            assert_int_equal(counter.live, live);
            circe_cme_destroy(cme);
            if (!failed) {
                assert_ok(status);
                break;
            }
        }
    }
}

/* ---- measures: a workspace that could not grow stays usable ------------------------------------------------------ */

typedef circe_status (*measurement)(const circe_mat *at, double *value, circe_mat *grad);

static circe_status raw(const circe_mat *at, double *value, circe_mat *grad) {
    return circe_measure_circe(workspace, models[0], kernel, at, &y, &z, CIRCE_USTAT, value, grad);
}

static circe_status raw_dense(const circe_mat *at, double *value, circe_mat *grad) {
    return circe_measure_circe(workspace, models[1], kernel, at, &y, &z, CIRCE_CENTERED, value, grad);
}

static circe_status raw_rff(const circe_mat *at, double *value, circe_mat *grad) {
    return circe_measure_circe(workspace, models[2], kernel, at, &y, &z, CIRCE_BIASED, value, grad);
}

static circe_status raw_outside(const circe_mat *at, double *value, circe_mat *grad) {
    circe_mat far = test_copy(&z, CIRCE_FLOAT64);
    for (int64_t i = 0; i < far.rows; i += 3) test_set(&far, i, 0, 3.0 * test_at(&z, i, 0));
    return circe_measure_circe(workspace, models[0], kernel, at, &y, &far, CIRCE_DEBIASED, value, grad);
}

static circe_status cached(const circe_mat *at, double *value, circe_mat *grad) {
    int64_t index[40];
    for (int64_t i = 0; i < 40; i++) index[i] = 39 - i;
    return circe_measure_circe_cached(workspace, models[0], features, index, 40, kernel, at, CIRCE_USTAT, value, grad);
}

static circe_status spectral(const circe_mat *at, double *value, circe_mat *grad) {
    return circe_measure_circe_spectral(workspace, models[1], kernel, at, &y, &z, value, grad);
}

static circe_status rff_redraw(const circe_mat *at, double *value, circe_mat *grad) {
    (void)at, (void)grad;
    static int64_t step;
    step += 100; /* every call a redraw */
    *value = 0.0;
    return circe_cme_rff_step(models[2], step);
}

static circe_status gram_and_median(const circe_mat *at, double *value, circe_mat *grad) {
    static double out[40 * 40];
    circe_mat gram = circe_mat_f64(out, 40, 40);
    (void)grad;
    circe_status status = circe_gram(context, kernel, at, at, &gram);
    return status == CIRCE_OK ? circe_median_sigma2(context, at, 0, -1, value) : status;
}

static void measures(void **state) {
    static const struct {
        const char *name;
        measurement run;
        bool repeats; /* the same call gives the same value */
    } cases[] = {
        {"raw", raw, true},
        {"raw, dense", raw_dense, true},
        {"raw, rff", raw_rff, true},
        {"outside", raw_outside, true},
        {"cached", cached, true},
        {"spectral", spectral, true},
        {"redraw", rff_redraw, false},
        {"gram, median", gram_and_median, true},
    };
    (void)state;
    set_up();
    for (int64_t c = 0; c < COUNT(cases); c++) {
        circe_mat grad = test_zeros(40, 3, CIRCE_FLOAT64);
        double expected = NAN, value = NAN;
        assert_ok(circe_workspace_create(context, &workspace));
        assert_ok(cases[c].run(&x, &expected, &grad));
        circe_workspace_destroy(workspace);
        for (int64_t k = 0;; k++) {
            int64_t live = counter.live;
            assert_ok(circe_workspace_create(context, &workspace));
            counter.calls = 0;
            counter.failed = false;
            counter.fail_at = k;
            circe_status status = cases[c].run(&x, &value, &grad);
            counter.fail_at = -1;
            bool failed = counter.failed;
            if (failed && status != CIRCE_ERR_MEMORY)
                fail_msg("%s, allocation %lld failing: %s", cases[c].name, (long long)k, circe_status_name(status));
            assert_ok(cases[c].run(&x, &value, &grad)); /* as if nothing had happened */
            assert_true(!cases[c].repeats || value == expected);
            circe_workspace_destroy(workspace);
            assert_int_equal(counter.live, live);
            if (!failed) break;
        }
    }
}

TEST_MAIN("oom", TEST(objects), TEST(large_fit), TEST(loading), TEST(saving), TEST(measures))
