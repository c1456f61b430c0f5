/* CIRCE measured by several processes together. Threads stand for processes: each with a context, a workspace and
 * arrays of its own, and a sum in which all of them meet. */
#include <pthread.h>

#include "tests/support.h"

enum { MOST = 5 };

typedef struct meeting {
    int size;
    pthread_barrier_t barrier;
    void *arrays[MOST];
    void *room; /* where one of them adds up */
    int64_t calls;
} meeting;

typedef struct member {
    meeting *at;
    circe_ranks ranks;
    circe_workspace *workspace;
    const circe_cme *cme;
    const circe_features *features;
    const circe_kernel *kernel_x;
    const int64_t *index;
    circe_mat x, grad;
    circe_estimator estimator;
    double value;
    circe_status status;
} member;

static void add(void *values, const void *other, int64_t n, int floats) {
    for (int64_t i = 0; i < n; i++) {
        if (floats)
            ((float *)values)[i] += ((const float *)other)[i];
        else
            ((double *)values)[i] += ((const double *)other)[i];
    }
}

static void sum(void *user, void *values, int64_t n, int floats) {
    member *m = user;
    meeting *at = m->at;
    size_t bytes = (size_t)n * (floats ? sizeof(float) : sizeof(double));
    at->arrays[m->ranks.rank] = values;
    if (pthread_barrier_wait(&at->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        memset(at->room, 0, bytes);
        for (int k = 0; k < at->size; k++) add(at->room, at->arrays[k], n, floats);
        at->calls++;
    }
    pthread_barrier_wait(&at->barrier);
    memcpy(values, at->room, bytes);
    pthread_barrier_wait(&at->barrier);
}

static void *take_part(void *user) {
    member *m = user;
    m->status = circe_measure_circe_cached(m->workspace, m->cme, m->features, m->index, m->x.rows, m->kernel_x, &m->x,
                                           m->estimator, &m->value, m->grad.data != NULL ? &m->grad : NULL);
    return NULL;
}

typedef struct problem {
    circe_context *context;
    circe_cme *cme;
    circe_features *features;
    circe_kernel *kernel_x;
    circe_mat x;
    int64_t *index;
    circe_dtype dtype;
    double *weights; /* NULL: none */
} problem;

static problem make_problem(int64_t n, int64_t cols, circe_dtype dtype) {
    enum { ROWS = 400 };
    circe_context *context = test_context(1);
    circe_mat y = test_normal(1, ROWS, 2), z = test_normal(2, ROWS, 1), x = test_normal(3, n, cols);
    problem p = {.context = context, .dtype = dtype, .x = test_copy(&x, dtype)};
    p.cme = test_fit(context, &y, &z, "gaussian(1)", "gaussian(1)", NULL);
    p.features = test_features(context, p.cme, &y, &z, dtype);
    p.kernel_x = test_kernel(context, "gaussian(0.7)");
    p.index = test_memory((size_t)n * sizeof *p.index);
    for (int64_t i = 0; i < n; i++) p.index[i] = (7 * i + 3) % ROWS;
    return p;
}

static member join(const problem *p, meeting *at, int rank, int threads, circe_estimator estimator, bool with_grad) {
    member m = {.at = at,
                .ranks = {.rank = rank, .size = at != NULL ? at->size : 1, .sum = sum},
                .workspace = test_workspace(test_context(threads)),
                .cme = p->cme,
                .features = p->features,
                .kernel_x = p->kernel_x,
                .index = p->index,
                .x = p->x,
                .estimator = estimator};
    if (with_grad) m.grad = test_zeros(p->x.rows, p->x.cols, p->dtype);
    if (p->weights != NULL) assert_ok(circe_workspace_set_weights(m.workspace, p->weights, p->x.rows));
    return m;
}

/* Each process with another number of threads. */
static void measure_together(const problem *p, int size, circe_estimator estimator, bool with_grad) {
    meeting at = {.size = size, .room = test_memory((size_t)(p->x.rows * (p->x.cols + 2)) * sizeof(double))};
    member alone = join(p, NULL, 0, 1, estimator, with_grad), members[MOST];
    pthread_t threads[MOST];
    take_part(&alone);
    assert_ok(alone.status);
    assert_int_equal(pthread_barrier_init(&at.barrier, NULL, (unsigned)size), 0);
    for (int k = 0; k < size; k++) {
        members[k] = join(p, &at, k, 1 + k % 2, estimator, with_grad);
        members[k].ranks.user = &members[k];
        circe_workspace_set_ranks(members[k].workspace, &members[k].ranks);
    }
    for (int k = 0; k < size; k++) assert_int_equal(pthread_create(&threads[k], NULL, take_part, &members[k]), 0);
    for (int k = 0; k < size; k++) assert_int_equal(pthread_join(threads[k], NULL), 0);
    pthread_barrier_destroy(&at.barrier);
    assert_true(at.calls > 0);
    double tolerance = p->dtype == CIRCE_FLOAT64 ? 1e-12 : 2e-5, scale = fabs(alone.value) + 1e-3;
    for (int k = 0; k < size; k++) {
        assert_ok(members[k].status);
        assert_true(fabs(members[k].value - alone.value) <= tolerance * scale);
        if (!with_grad) continue;
        double largest = test_max(&alone.grad);
        for (int64_t i = 0; i < p->x.rows; i++)
            for (int64_t j = 0; j < p->x.cols; j++)
                assert_true(fabs(test_at(&members[k].grad, i, j) - test_at(&alone.grad, i, j)) <= tolerance * largest);
    }
}

static void test_every_estimator(void **state) {
    (void)state;
    for (int dtype = 0; dtype < 2; dtype++) {
        problem p = make_problem(130, 3, dtype == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64);
        for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++)
            for (int size = 2; size <= 3; size++) measure_together(&p, size, e, true);
    }
}

/* Against one process, which tests/measures/test_weights.c compares with repeated rows. */
static void test_weights(void **state) {
    (void)state;
    for (int dtype = 0; dtype < 2; dtype++) {
        problem p = make_problem(130, 3, dtype == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64);
        p.weights = test_memory(130 * sizeof *p.weights);
        for (int64_t i = 0; i < 130; i++) p.weights[i] = i % 9 == 4 ? 0.0 : 0.2 + (double)(i * i % 11);
        for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++)
            for (int size = 2; size <= MOST; size += 3) measure_together(&p, size, e, true);
    }
}

/* Fewer tiles than processes, tiles that are not full, x of many columns. */
static void test_sizes(void **state) {
    static const int64_t rows[] = {4, 5, 31, 33, 64, 65, 257};
    (void)state;
    for (int64_t r = 0; r < COUNT(rows); r++) {
        problem p = make_problem(rows[r], r % 2 == 0 ? 1 : 40, CIRCE_FLOAT64);
        for (int size = 2; size <= MOST; size += 3) {
            measure_together(&p, size, CIRCE_USTAT, true);
            measure_together(&p, size, CIRCE_DEBIASED, false);
        }
    }
}

static void test_alone_again(void **state) {
    (void)state;
    problem p = make_problem(70, 2, CIRCE_FLOAT64);
    meeting at = {.size = 2};
    member m = join(&p, &at, 1, 1, CIRCE_CENTERED, true), alone = join(&p, NULL, 0, 1, CIRCE_CENTERED, true);
    circe_workspace_set_ranks(m.workspace, &m.ranks);
    circe_workspace_set_ranks(m.workspace, NULL);
    take_part(&m);
    take_part(&alone);
    assert_ok(m.status);
    assert_true(m.value == alone.value);
    assert_int_equal(at.calls, 0);
}

TEST_MAIN("ranks", TEST(test_every_estimator), TEST(test_weights), TEST(test_sizes), TEST(test_alone_again))
