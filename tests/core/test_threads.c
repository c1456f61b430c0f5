/* The same bits wherever the library is called from: inside regions of OpenMP, from many threads at once, from parts of
 * its own, under settings that others have changed, and in children of fork.
 *
 * One function calls everything that divides work (measures with gradients, fits, tests, training) and writes all that
 * comes out into an array. Every case compares that array, byte by byte, with the one of a quiet main thread: what is
 * cut, and where, depends on the number of threads that was asked for alone. A call that waits for a thread which does
 * not come is ended by an alarm. */
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"
#include "train/trainer.h"

/* Sanitizers make every frame larger. */
#if defined(CIRCE_TEST_SANITIZED)
enum { STACK = 4 << 20 };
#else
enum { STACK = 256 << 10 };
#endif

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

/* ---- threads of others ------------------------------------------------------------------------------------------- */

static void alone_again(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        answers *a = room(1);
        answer(threads, a);
        compare(a, threads);
    }
}

static void single_of_a_region(void **state) {
    (void)state;
    answers *a = room(2);
    expected(2);
#pragma omp parallel num_threads(4)
#pragma omp single
    {
        answer(2, &a[0]);
        answer(3, &a[1]);
    }
    compare(&a[0], 2);
    compare(&a[1], 3);
}

static void loop_of_a_region(void **state) {
    (void)state;
    enum { CALLS = 6 };
    answers *a = room(CALLS);
    expected(2);
#pragma omp parallel for num_threads(3) schedule(dynamic)
    for (int i = 0; i < CALLS; i++) answer(1 + i % 3, &a[i]);
    for (int i = 0; i < CALLS; i++) compare(&a[i], 1 + i % 3);
}

static void nested_regions(void **state) {
    (void)state;
    enum { TEAM = 2 };
    answers *a = room(TEAM * TEAM);
    int levels = omp_get_max_active_levels();
    expected(2);
    omp_set_max_active_levels(4);
#pragma omp parallel num_threads(TEAM)
    {
        int outer = omp_get_thread_num();
#pragma omp parallel num_threads(TEAM)
        answer(2, &a[outer * TEAM + omp_get_thread_num()]);
    }
    omp_set_max_active_levels(levels);
    for (int i = 0; i < TEAM * TEAM; i++) compare(&a[i], 2);
}

static void tasks_of_a_region(void **state) {
    (void)state;
    enum { CALLS = 4 };
    answers *a = room(CALLS);
    expected(2);
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < CALLS; i++) {
#pragma omp task firstprivate(i)
        answer(2, &a[i]);
    }
    for (int i = 0; i < CALLS; i++) compare(&a[i], 2);
}

static void settings_changed(void **state) {
    (void)state;
    int before = omp_get_max_threads(), dynamic = omp_get_dynamic(), levels = omp_get_max_active_levels();
    answers *a = room(1);
    for (int k = 0; k < 4; k++) {
        omp_set_num_threads(k == 0 ? 1 : k == 1 ? 7 : before);
        omp_set_dynamic(k == 2);
        omp_set_max_active_levels(k == 3 ? 0 : levels);
        answer(3, a);
        assert_int_equal(omp_get_max_threads(), k == 0 ? 1 : k == 1 ? 7 : before); /* it stays the caller's */
        assert_int_equal(omp_get_dynamic(), k == 2);
        omp_set_max_active_levels(levels);
        compare(a, 3);
    }
    omp_set_num_threads(before);
    omp_set_dynamic(dynamic);
}

typedef struct caller {
    pthread_t thread;
    int threads;
    answers *a;
} caller;

static void *call(void *user) {
    caller *c = user;
    answer(c->threads, c->a);
    return NULL;
}

static void many_threads(void **state) {
    (void)state;
    enum { CALLERS = 8 };
    caller callers[CALLERS];
    answers *a = room(CALLERS);
    expected(2);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.threads = 1 + i % 3, .a = &a[i]};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < CALLERS; i++) compare(&a[i], 1 + i % 3);
}

/* What circe/context.h promises to be enough. */
static void small_stack(void **state) {
    (void)state;
    pthread_attr_t attributes;
    caller c = {.threads = 2, .a = room(1)};
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
    assert_int_equal(pthread_create(&c.thread, &attributes, call, &c), 0);
    pthread_join(c.thread, NULL);
    pthread_attr_destroy(&attributes);
    compare(c.a, 2);
}

static void call_in_part(void *user, int64_t part) { answer(2, (answers *)user + part); }

/* A program may divide its own work by the library's threads. */
static void inside_a_part(void **state) {
    (void)state;
    enum { PARTS = 3 };
    answers *a = room(PARTS);
    expected(2);
    circe_context_run(test_context(PARTS), PARTS, call_in_part, a);
    for (int i = 0; i < PARTS; i++) compare(&a[i], 2);
}

static atomic_int parts_done;

static void sleep_in_part(void *user, int64_t part) {
    (void)user;
    (void)part;
    usleep(20000); /* where a thread can be cancelled */
    atomic_fetch_add(&parts_done, 1);
}

static void *run_and_sleep(void *context) {
    circe_context_run(context, 8, sleep_in_part, NULL);
    return NULL;
}

/* Helpers work on what lies on the caller's stack: it is not cancelled before they are done. */
static void cancelled_caller(void **state) {
    (void)state;
    pthread_t thread;
    void *end = NULL;
    answers *a = room(1);
    atomic_store(&parts_done, 0);
    assert_int_equal(pthread_create(&thread, NULL, run_and_sleep, test_context(2)), 0);
    usleep(10000);
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &end), 0);
    assert_int_equal(atomic_load(&parts_done), 8);
    answer(2, a);
    compare(a, 2);
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

/* The status of a child, which is 0 where its answers are right and its own child's too; `generations` of them. */
static int fork_and_answer(int threads, int generations) {
    const answers *right = expected(threads);
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        static answers a; /* no memory of the test's own */
        alarm(SECONDS / 2);
        answer(threads, &a);
        bool same = a.failed == NULL && a.n == right->n && memcmp(a.of, right->of, (size_t)a.n * sizeof *a.of) == 0;
        if (same && generations > 1) same = fork_and_answer(threads, generations - 1) == 0;
        _exit(same ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static void check_child(int threads, int generations) {
    int status = fork_and_answer(threads, generations);
    if (WIFSIGNALED(status)) fail_msg("the child was ended by signal %d", WTERMSIG(status));
    assert_int_equal(status, 0);
}

static void after_fork(void **state) {
    (void)state;
    answers *a = room(1);
    check_child(2, 2);
    check_child(3, 1);
    answer(2, a); /* the parent is as before */
    compare(a, 2);
}

static atomic_bool forks_done;

static void *keep_calling(void *user) {
    answers *a = user;
    while (!atomic_load(&forks_done)) answer(3, a);
    return NULL;
}

/* Whatever the other threads of the parent held at that moment. */
static void fork_during_a_call(void **state) {
    (void)state;
    pthread_t other;
    answers *a = room(1);
    expected(2);
    expected(3);
    atomic_store(&forks_done, false);
    assert_int_equal(pthread_create(&other, NULL, keep_calling, a), 0);
    for (int i = 0; i < 6; i++) {
        usleep(20000);
        check_child(2, 1);
    }
    atomic_store(&forks_done, true);
    pthread_join(other, NULL);
    compare(a, 3);
}

/* A child of a region's thread. */
static void fork_in_a_region(void **state) {
    (void)state;
    int status = -1;
    expected(2);
#pragma omp parallel num_threads(2)
#pragma omp single
    status = fork_and_answer(2, 1);
    assert_int_equal(status, 0);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static int begin_case(void **state) {
    (void)state;
    alarm(SECONDS);
    return 0;
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin_case, test_clean)

TEST_MAIN("threads", CASE(alone_again), CASE(single_of_a_region), CASE(loop_of_a_region), CASE(nested_regions),
          CASE(tasks_of_a_region), CASE(settings_changed), CASE(many_threads), CASE(small_stack), CASE(inside_a_part),
          CASE(cancelled_caller), CASE(after_fork), CASE(fork_during_a_call), CASE(fork_in_a_region))
