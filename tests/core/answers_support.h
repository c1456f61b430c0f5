/* What tests of the library's surroundings share: one function that calls everything that divides work (measures with
 * gradients, fits, tests, training) and writes all that comes out into an array. It is compared, byte by byte, with the
 * one of a quiet main thread. */
#pragma once

#include <unistd.h>

#include "core/settings.h"
#include "tests/support.h"
#include "train/trainer.h"

enum {
    BATCH = 320,
    HOLDOUT = 400,
    DENSE = 180,
    TESTED = 220,
    COLUMNS = 3,
    MOST = 60000,
    SECONDS = 240, /* of one case; under sanitizers, beside other tests, too */
};

typedef struct answers {
    int64_t n;
    const char *failed; /* the call that did not succeed; NULL: all did */
    double of[MOST];
} answers;

/* ---- everything that divides work -------------------------------------------------------------------------------- */

static void put(answers *a, int64_t n, const double *values) {
    if (a->n + n > MOST) {
        a->failed = "room for the answers";
        return;
    }
    memcpy(a->of + a->n, values, (size_t)n * sizeof *values);
    a->n += n;
}

static void put_floats(answers *a, int64_t n, const float *values) {
    for (int64_t i = 0; i < n; i++) put(a, 1, &(double){(double)values[i]});
}

#define TRY(call) \
    if (a->failed == NULL && (call) != CIRCE_OK) a->failed = #call

typedef struct points {
    double y[HOLDOUT], z[HOLDOUT], x[HOLDOUT * COLUMNS], grad[HOLDOUT * COLUMNS];
} points;

/* z follows y, and x follows both. */
static void draw(uint64_t seed, points *p) {
    CIRCE_OWN_SETTINGS; /* the same points everywhere */
    circe_random_normal((circe_random){seed, 1}, 0, HOLDOUT, p->y);
    circe_random_normal((circe_random){seed, 2}, 0, HOLDOUT, p->z);
    circe_random_normal((circe_random){seed, 3}, 0, (int64_t)HOLDOUT * COLUMNS, p->x);
    for (int i = 0; i < HOLDOUT; i++) {
        p->z[i] += p->y[i] * p->y[i];
        p->x[COLUMNS * i] += p->y[i] + 0.3 * p->z[i];
    }
}

typedef struct tools {
    circe_context *context;
    circe_workspace *workspace;
    circe_kernel *free_kernel, *kernel;
    points *holdout, *batch;
} tools;

static void close_tools(tools *t) {
    circe_kernel_destroy(t->free_kernel);
    circe_kernel_destroy(t->kernel);
    circe_workspace_destroy(t->workspace);
    circe_context_destroy(t->context);
    free(t->holdout);
    free(t->batch);
}

static tools open_tools(int threads, answers *a) {
    tools t = {.holdout = calloc(1, sizeof *t.holdout), .batch = calloc(1, sizeof *t.batch)};
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = threads;
    if (t.holdout == NULL || t.batch == NULL) a->failed = "memory";
    TRY(circe_context_create(&options, &t.context));
    TRY(circe_workspace_create(t.context, &t.workspace));
    TRY(circe_kernel_parse(t.context, "gaussian", &t.free_kernel));
    TRY(circe_kernel_parse(t.context, "gaussian(1)", &t.kernel));
    if (a->failed == NULL) {
        draw(1, t.holdout);
        draw(2, t.batch);
    }
    return t;
}

static circe_mat column(double *values, int64_t n) { return circe_mat_f64(values, n, 1); }

/* Fits, CIRCE from raw points and from cached features. */
static void fit_and_measure(tools *t, circe_method method, int64_t rows, answers *a) {
    circe_mat Y = column(t->holdout->y, rows), Z = column(t->holdout->z, rows);
    circe_mat y = column(t->batch->y, BATCH), z = column(t->batch->z, BATCH);
    circe_mat x = circe_mat_f64(t->batch->x, BATCH, COLUMNS), grad = circe_mat_f64(t->batch->grad, BATCH, COLUMNS);
    int64_t index[BATCH];
    circe_cme_options options;
    circe_cme_info info = {0};
    circe_loo_table loo = {0};
    circe_cme *model = NULL;
    circe_features *features = NULL;
    double value = 0.0;
    circe_cme_options_init(&options);
    options.method = method;
    for (int64_t i = 0; i < BATCH; i++) index[i] = (i * 7) % BATCH;
    TRY(circe_cme_fit(t->context, &Y, &Z, t->free_kernel, t->kernel, &options, &model));
    TRY(circe_cme_get_info(model, &info));
    TRY(circe_cme_get_loo(model, &loo));
    put(a, 3, (double[]){info.sigma2_y, info.ridge, info.loo_error});
    if (a->failed == NULL) put(a, loo.n_sigma2_y * loo.n_ridge, loo.error);
    TRY(circe_measure_circe(t->workspace, model, t->kernel, &x, &y, &z, CIRCE_USTAT, &value, &grad));
    put(a, 1, &value);
    put(a, (int64_t)BATCH * COLUMNS, t->batch->grad);
    TRY(circe_features_create(t->context, model, &y, &z, CIRCE_FLOAT64, &features));
    TRY(circe_measure_circe_cached(t->workspace, model, features, index, BATCH, t->kernel, &x, CIRCE_CENTERED, &value,
                                   &grad));
    put(a, 1, &value);
    put(a, (int64_t)BATCH * COLUMNS, t->batch->grad);
    circe_features_destroy(features);
    circe_cme_destroy(model);
}

static void measure_batch(tools *t, answers *a) {
    circe_kernels kernels = {t->kernel, t->kernel, t->kernel};
    circe_mat y = column(t->batch->y, BATCH), z = column(t->batch->z, BATCH);
    circe_mat x = circe_mat_f64(t->batch->x, BATCH, COLUMNS), grad = circe_mat_f64(t->batch->grad, BATCH, COLUMNS);
    double v[6] = {0};
    TRY(circe_measure_hsic(t->workspace, &kernels, &x, &z, CIRCE_HSIC_UNBIASED, &v[0], &grad));
    put(a, (int64_t)BATCH * COLUMNS, t->batch->grad);
    TRY(circe_measure_hscic(t->workspace, &kernels, &x, &y, &z, NULL, &v[1], &grad));
    put(a, (int64_t)BATCH * COLUMNS, t->batch->grad);
    TRY(circe_measure_kci(t->workspace, &kernels, &x, &y, &z, NULL, &v[2], &grad));
    put(a, (int64_t)BATCH * COLUMNS, t->batch->grad);
    TRY(circe_measure_gcm(t->workspace, t->kernel, &x, &y, &z, NULL, &v[3], &grad));
    put(a, (int64_t)BATCH * COLUMNS, t->batch->grad);
    TRY(circe_measure_nocco(t->workspace, &kernels, &x, &y, &z, NULL, &v[4], NULL));
    TRY(circe_measure_kpc(t->workspace, &kernels, &x, &y, &z, NULL, &v[5], NULL));
    put(a, 6, v);
}

static void test_all(tools *t, answers *a) {
    static const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_CIRCE, CIRCE_TEST_SPLITKCI,
                                                CIRCE_TEST_GCM, CIRCE_TEST_RCOT,  CIRCE_TEST_HSIC};
    circe_mat y = column(t->batch->y, TESTED), z = column(t->batch->z, TESTED);
    circe_mat x = circe_mat_f64(t->batch->x, TESTED, COLUMNS);
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options;
        circe_test_result result = {0};
        circe_test_options_init(&options);
        options.method = methods[m];
        options.draws = 200;
        TRY(circe_test(t->context, &x, &y, &z, &options, &result));
        put(a, 2, (double[]){result.statistic, result.p_value});
    }
}

/* A few steps of a network of several layers. */
static void train(tools *t, circe_measure_kind kind, answers *a) {
    CIRCE_OWN_SETTINGS; /* as the jobs that train */
    enum { STEPS = 6, TRAIN_BATCH = 160 };
    static _Thread_local float features[HOLDOUT * COLUMNS], target[HOLDOUT];
    circe_mat Y = column(t->holdout->y, HOLDOUT), Z = column(t->holdout->z, HOLDOUT);
    circe_mat in = circe_mat_f32(features, HOLDOUT, COLUMNS), out = circe_mat_f32(target, HOLDOUT, 1);
    train_shape input = {.n_dims = 1, .size = {COLUMNS}};
    train_data data = {.features = train_source_floats(&in), .target = out, .y = Y, .z = Z};
    circe_measure_options with;
    train_options options;
    train_result result = {0};
    train_layer_spec *specs = NULL;
    train_device *device = NULL;
    train_network *network = NULL;
    circe_measure *regularizer = NULL;
    int64_t n_specs = 0;
    circe_measure_options_init(&with, CIRCE_MEASURE_NONE);
    with.kind = kind;
    with.sigma2_x = 1.0;
    train_options_init(&options);
    options.loss = TRAIN_MSE;
    options.batch = TRAIN_BATCH;
    options.steps = STEPS;
    options.gamma = 1.0;
    options.rate = 0.01;
    for (int64_t i = 0; i < (int64_t)HOLDOUT * COLUMNS; i++) features[i] = (float)t->holdout->x[i];
    for (int64_t i = 0; i < HOLDOUT; i++) target[i] = (float)t->holdout->y[i];
    TRY(train_device_cpu(t->context, &device));
    TRY(train_network_parse("3x48", TRAIN_RELU, 1, &specs, &n_specs));
    TRY(train_network_create(device, input, specs, n_specs, TRAIN_BATCH, &network));
    TRY(train_network_initialise(network, TRAIN_START_HE, 5));
    TRY(train_regularizer_create(t->context, &with, &Y, &Z, &Y, &Z, &regularizer));
    TRY(train_run(network, regularizer, &data, NULL, &options, &result));
    if (a->failed == NULL) put_floats(a, train_network_n_params(network), train_network_params(network));
    train_result_free(&result);
    circe_measure_destroy(regularizer);
    train_network_destroy(network);
    train_device_destroy(device);
    free(specs);
}

/* All of it, with a context of its own. May be called from any thread. */
static void answer(int threads, answers *a) {
    *a = (answers){0};
    tools t = open_tools(threads, a);
    if (a->failed == NULL) {
        fit_and_measure(&t, CIRCE_METHOD_LOWRANK, HOLDOUT, a);
        fit_and_measure(&t, CIRCE_METHOD_DENSE, DENSE, a);
        measure_batch(&t, a);
        test_all(&t, a);
        train(&t, CIRCE_MEASURE_CIRCE, a);
        train(&t, CIRCE_MEASURE_HSCIC, a);
    }
    close_tools(&t);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* Of a quiet main thread. */
static const answers *expected(int threads) {
    static answers *alone[8];
    if (alone[threads] == NULL) {
        alone[threads] = calloc(1, sizeof **alone);
        assert_non_null(alone[threads]);
        answer(threads, alone[threads]);
        if (alone[threads]->failed != NULL) fail_msg("%s: %s", alone[threads]->failed, circe_last_error());
    }
    return alone[threads];
}

static void compare(const answers *a, int threads) {
    const answers *right = expected(threads);
    if (a->failed != NULL) fail_msg("failed: %s", a->failed);
    assert_int_equal(a->n, right->n);
    for (int64_t i = 0; i < a->n; i++)
        if (memcmp(&a->of[i], &right->of[i], sizeof(double)) != 0)
            fail_msg("number %lld of %lld is %.17g, and alone it is %.17g", (long long)i, (long long)a->n, a->of[i],
                     right->of[i]);
}

static answers *room(int64_t n) { return test_memory((size_t)n * sizeof(answers)); }

/* Ends a case that waits for ever. */
static int begin_case(void **state) {
    (void)state;
    alarm(SECONDS);
    return 0;
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin_case, test_clean)
