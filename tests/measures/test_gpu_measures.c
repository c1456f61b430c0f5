/* HSCIC, KCI and GCM on the GPU against the CPU, and what only a GPU has: streams, graphs, memory of two kinds. Where
 * there is no GPU the tests say so and are skipped.
 *
 * The reference is the CPU on the values that the GPU was given, by its dense method, as the GPU's is. HSCIC and KCI:
 * float64 1e-10 and float32 1e-4 of the sum of the absolute terms for a value, of the largest element for gradients and
 * witnesses; a witness is a difference of matrices with elements of 1/n, so for one a million times smaller than that
 * it is 1e-10 of this millionth. GCM works in float64 on both sides whatever the dtype: 1e-9 of the value, since a
 * residual is right to cond(K + ridge I) eps = 1e5 1e-16 of itself and T divides two of its moments; its gradient in
 * float32 is rounded. */
#include "tests/support.h"

#ifndef CIRCE_TEST_CUDA

static void says_so(void **state) {
    (void)state;
    circe_cme *cme = NULL;
    double value = 0.0;
    assert_refused(circe_cuda_measure_hscic(NULL, NULL, NULL, NULL, NULL, NULL, NULL, &value, NULL),
                   CIRCE_ERR_UNSUPPORTED, "has no CUDA");
    assert_refused(circe_cuda_measure_gcm(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &value, NULL),
                   CIRCE_ERR_UNSUPPORTED, "has no CUDA");
    assert_refused(circe_cuda_cme_fit(NULL, NULL, NULL, NULL, NULL, NULL, &cme), CIRCE_ERR_UNSUPPORTED, "has no CUDA");
    assert_null(cme);
}

static void on_a_gpu(void **state) {
    (void)state;
    test_skip("built without CUDA (cmake --preset cuda)");
}

TEST_MAIN("gpu_measures", TEST(says_so), TEST(on_a_gpu))

#else

#include "cuda/cuda_parts.h"
#include "cuda/libraries.h"
#include "tests/measures/gpu_support.h"

/* ---- cases ----------------------------------------------------------------------------------------------- */

typedef struct batch_case {
    int64_t n, d_x, d_y, d_z;
    const char *kernel_x, *kernel_y, *kernel_z;
    double ridge;
} batch_case;

#define GAUSSIAN_CASE(n, d_x, d_y, d_z, ridge) \
    { n, d_x, d_y, d_z, "gaussian(5)", "gaussian(0.5)", "gaussian(1)", ridge }

static const batch_case cases[] = {
    GAUSSIAN_CASE(2, 1, 1, 1, 0.1),
    GAUSSIAN_CASE(3, 2, 2, 1, 0.01),
    GAUSSIAN_CASE(31, 64, 1, 2, 0.01),
    GAUSSIAN_CASE(33, 3, 2, 1, 0.05),
    GAUSSIAN_CASE(257, 65, 1, 1, 0.01),
    GAUSSIAN_CASE(600, 5, 20, 3, 0.1), /* more columns than a tile holds at a time */
    GAUSSIAN_CASE(1023, 8, 1, 1, 0.01),
    GAUSSIAN_CASE(1025, 8, 2, 1, 1.0),
    {67, 5, 2, 3, "laplace(4)", "laplace(0.7)", "laplace(1)", 0.1},
    {67, 5, 3, 3, "0-2:linear*3-4:gaussian(1)", "0-1:gaussian(0.5)*2:delta", "linear", 0.1},
    {130, 4, 2, 2, "gaussian(2)", "linear", "0:laplace(0.5)*1:gaussian(1)", 0.1},
};

/* A case with points (float64, of values that float32 holds) and kernels; z and x depend on y and on each other. */
typedef struct bench {
    const batch_case *c;
    circe_context *context;
    circe_workspace *workspace;
    circe_cuda *cuda;
    circe_kernels kernels;
    circe_batch_options options;
    circe_mat x, y, z;
    double *value;
} bench;

static circe_mat follow(uint64_t stream, const circe_mat *y, int64_t cols) {
    circe_mat m = test_normal(stream, y->rows, cols);
    for (int64_t i = 0; i < y->rows; i++)
        for (int64_t j = 0; j < cols; j++)
            test_set(&m, i, j, test_at(&m, i, j) + sin(2.0 * test_at(y, i, j % y->cols)));
    circe_mat rounded = test_copy(&m, CIRCE_FLOAT32);
    return test_copy(&rounded, CIRCE_FLOAT64);
}

static bench set_up(const batch_case *c) {
    bench b = {.c = c, .context = test_context(2)};
    b.workspace = test_workspace(b.context);
    b.cuda = open_on(b.context, NULL);
    b.kernels = (circe_kernels){test_kernel(b.context, c->kernel_x), test_kernel(b.context, c->kernel_y),
                                test_kernel(b.context, c->kernel_z)};
    circe_batch_options_init(&b.options);
    b.options.ridge = c->ridge;
    b.options.method = CIRCE_METHOD_DENSE;
    b.y = draw(1, c->n, c->d_y, strstr(c->kernel_y, "delta") == NULL ? 0 : 1, 0.0);
    b.z = follow(2, &b.y, c->d_z);
    b.x = follow(3, &b.z, c->d_x);
    b.value = device_block(sizeof *b.value);
    return b;
}

/* The points of a case on the device, with gaps after the rows. */
typedef struct placed {
    circe_mat x, y, z, grad;
} placed;

static placed place(const bench *b, circe_dtype dtype, int64_t gap) {
    return (placed){device_copy(&b->x, dtype, gap), device_copy(&b->y, dtype, gap + 1), device_copy(&b->z, dtype, gap),
                    device_empty(b->c->n, b->c->d_x, dtype, 2 * gap)};
}

/* ---- HSCIC and KCI --------------------------------------------------------------------------------------- */

/* The two measures that are witnesses of a batch alone. */
typedef struct measure_row {
    const char *name;
    circe_status (*cpu_witness)(circe_workspace *, const circe_kernels *, const circe_mat *, const circe_mat *,
                                const circe_batch_options *, circe_mat *);
    circe_status (*gpu)(circe_cuda *, const circe_kernels *, const circe_mat *, const circe_mat *, const circe_mat *,
                        const int64_t *, const circe_batch_options *, double *, circe_mat *);
} measure_row;

static const measure_row measures[] = {
    {"hscic", circe_witness_hscic, circe_cuda_measure_hscic},
    {"kci", circe_witness_kci, circe_cuda_measure_kci},
};

typedef struct expected {
    circe_mat witness, grad;
    double value, terms;
} expected;

static expected contract(const bench *b, circe_mat witness) {
    int64_t n = b->c->n;
    expected e = {.witness = witness, .grad = test_zeros(n, b->c->d_x, CIRCE_FLOAT64)};
    circe_mat K = test_zeros(n, n, CIRCE_FLOAT64);
    assert_ok(circe_contract(b->workspace, b->kernels.x, &b->x, &e.witness, &e.value, &e.grad));
    assert_ok(circe_gram(b->context, b->kernels.x, &b->x, &b->x, &K));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) e.terms += fabs(test_lower(&e.witness, i, j) * test_at(&K, i, j));
    e.terms = fmax(e.terms, 1e-6 * (double)n);
    return e;
}

static expected expect(const bench *b, const measure_row *m) {
    circe_mat witness = test_zeros(b->c->n, b->c->n, CIRCE_FLOAT64);
    assert_ok(m->cpu_witness(b->workspace, &b->kernels, &b->y, &b->z, &b->options, &witness));
    return contract(b, witness);
}

static void check_result(const bench *b, const expected *e, const circe_mat *grad, circe_dtype dtype) {
    assert_near(host_value(b->value), e->value, tolerance_of(dtype), e->terms);
    circe_mat got = host_copy(grad);
    double scale = fmax(test_max(&e->grad), e->terms / (double)b->c->n);
    for (int64_t i = 0; i < got.rows; i++)
        for (int64_t j = 0; j < got.cols; j++)
            assert_near(test_at(&got, i, j), test_at(&e->grad, i, j), tolerance_of(dtype), scale);
}

static void check_measure(const bench *b, const measure_row *m, const expected *e, circe_dtype dtype) {
    placed p = place(b, dtype, dtype == CIRCE_FLOAT32 ? 3 : 0);
    assert_ok(m->gpu(b->cuda, &b->kernels, &p.x, &p.y, &p.z, NULL, &b->options, b->value, &p.grad));
    check_result(b, e, &p.grad, dtype);
    double first = host_value(b->value);
    assert_ok(m->gpu(b->cuda, &b->kernels, &p.x, &p.y, &p.z, NULL, &b->options, b->value, NULL));
    assert_true(host_value(b->value) == first); /* with or without a gradient: the same bits */
}

static void run_cases(void **state, int64_t least, int64_t most) {
    for (int64_t k = 0; k < COUNT(cases); k++) {
        if (cases[k].n < least || cases[k].n > most) continue;
        bench b = set_up(&cases[k]);
        for (int64_t m = 0; m < COUNT(measures); m++) {
            expected e = expect(&b, &measures[m]);
            for (int64_t t = 0; t < COUNT(dtypes); t++) check_measure(&b, &measures[m], &e, dtypes[t]);
        }
        clean(state);
    }
}

static void small_cases(void **state) { run_cases(state, 1, 300); }

static void large_cases(void **state) { run_cases(state, 301, 9999); }

/* HSCIC of the residuals of a model, from features that were made for a data set. */
static void hscic_holdout(void **state) {
    (void)state;
    enum { N = 300, CHOSEN = 97 };
    static const batch_case c = GAUSSIAN_CASE(CHOSEN, 5, 1, 1, 0.05);
    int64_t index[CHOSEN];
    double ridge = 0.1;
    bench b = set_up(&c);
    circe_cme_options fit = test_options(CIRCE_METHOD_LOWRANK, &ridge);
    circe_mat y = draw(5, N, 1, 0, 0.0), z = follow(6, &y, 1);
    circe_cme *cme = test_fit(b.context, &y, &z, "gaussian(0.5)", "gaussian(1)", &fit);
    for (int64_t i = 0; i < CHOSEN; i++) index[i] = (i * i * 7 + 3) % N;
    b.y = test_rows(&y, index, CHOSEN);
    b.z = test_rows(&z, index, CHOSEN);
    int64_t *on_device = device_block(sizeof index);
    assert_cuda(cudaMemcpy(on_device, index, sizeof index, cudaMemcpyHostToDevice));
    circe_mat witness = test_zeros(CHOSEN, CHOSEN, CIRCE_FLOAT64);
    assert_ok(circe_witness_hscic_holdout(b.workspace, cme, &b.y, &b.z, &b.options, &witness));
    expected e = contract(&b, witness);
    for (int64_t t = 0; t < COUNT(dtypes); t++) {
        circe_features *features = test_features(b.context, cme, &y, &z, dtypes[t]);
        circe_cuda_features *copy = NULL;
        circe_mat all_y, zeta, x = device_copy(&b.x, dtypes[t], 0), grad = device_empty(CHOSEN, 5, dtypes[t], 1);
        assert_ok(circe_cuda_features_create(b.cuda, features, &copy));
        assert_ok(circe_cuda_features_get(copy, &all_y, &zeta));
        assert_ok(circe_cuda_measure_hscic_holdout(b.cuda, b.kernels.y, &all_y, &zeta, on_device, b.kernels.x, &x,
                                                   &b.options, b.value, &grad));
        check_result(&b, &e, &grad, dtypes[t]);
        circe_cuda_features_destroy(copy);
    }
}

/* ---- GCM ------------------------------------------------------------------------------------------------- */

typedef struct gcm_case {
    batch_case sizes;
    int64_t previous; /* rows of the batch before, or 0 */
    bool z_hat;
    circe_gcm_regression regression;
} gcm_case;

static const gcm_case gcm_cases[] = {
    {GAUSSIAN_CASE(1, 1, 1, 1, 0.1), 0, false, CIRCE_GCM_KERNEL},
    {GAUSSIAN_CASE(2, 3, 1, 2, 0.1), 0, false, CIRCE_GCM_LINEAR},
    {GAUSSIAN_CASE(31, 5, 2, 3, 0.05), 0, false, CIRCE_GCM_KERNEL},
    {GAUSSIAN_CASE(33, 3, 2, 1, 0.05), 29, false, CIRCE_GCM_KERNEL},
    {GAUSSIAN_CASE(33, 3, 2, 1, 0.05), 35, true, CIRCE_GCM_KERNEL},
    {GAUSSIAN_CASE(257, 64, 1, 2, 0.1), 0, true, CIRCE_GCM_KERNEL},
    {GAUSSIAN_CASE(1023, 7, 1, 1, 0.1), 1025, false, CIRCE_GCM_KERNEL},
    {GAUSSIAN_CASE(1025, 33, 3, 9, 1.0), 0, false, CIRCE_GCM_KERNEL},
    {GAUSSIAN_CASE(31, 5, 3, 2, 1.0), 0, false, CIRCE_GCM_LINEAR},
    {GAUSSIAN_CASE(300, 5, 40, 2, 1.0), 0, true, CIRCE_GCM_LINEAR},
    {GAUSSIAN_CASE(130, 6, 3, 2, 1.0), 97, false, CIRCE_GCM_LINEAR},
    {GAUSSIAN_CASE(130, 6, 3, 2, 1.0), 2, true, CIRCE_GCM_LINEAR}, /* more columns of y than points before */
    {GAUSSIAN_CASE(1025, 64, 5, 3, 1.0), 500, true, CIRCE_GCM_LINEAR},
    {{90, 4, 3, 2, "linear", "0-1:laplace(0.5)*2:delta", "linear", 0.1}, 60, false, CIRCE_GCM_KERNEL},
};

static const circe_gcm_combine combinations[] = {CIRCE_GCM_MAX, CIRCE_GCM_LOGSUMEXP, CIRCE_GCM_SUM_OF_SQUARES};

/* z_hat as the GPU takes it comes from a model with the linear kernel of z; the CPU makes it itself. */
typedef struct gcm_bench {
    bench b;
    circe_gcm_options options;
    circe_mat old_x, old_y, z_hat;
    circe_cme *cme;
} gcm_bench;

static gcm_bench set_up_gcm(const gcm_case *c) {
    gcm_bench g = {.b = set_up(&c->sizes)};
    bench *b = &g.b;
    circe_gcm_options_init(&g.options);
    g.options.regression = c->regression;
    g.options.batch = b->options;
    if (c->previous > 0) {
        g.old_y = draw(11, c->previous, c->sizes.d_y, strstr(c->sizes.kernel_y, "delta") == NULL ? 0 : 1, 0.0);
        g.old_x = follow(12, &g.old_y, c->sizes.d_x);
    }
    if (c->z_hat) {
        double ridge = 0.1;
        circe_cme_options fit = test_options(CIRCE_METHOD_DENSE, &ridge);
        circe_mat y = draw(13, 150, c->sizes.d_y, 0, 0.0), z = follow(14, &y, c->sizes.d_z);
        g.cme = test_fit(b->context, &y, &z, "gaussian(1)", "linear", &fit);
    }
    return g;
}

/* The CPU on points of this dtype. */
static expected expect_gcm(const gcm_bench *g, const circe_gcm_options *with, circe_dtype dtype) {
    const bench *b = &g->b;
    circe_gcm_options options = *with;
    circe_mat x = test_copy(&b->x, dtype), y = test_copy(&b->y, dtype), z = test_copy(&b->z, dtype), old_x, old_y;
    expected e = {.grad = test_zeros(b->c->n, b->c->d_x, dtype)};
    if (g->old_x.rows > 0) {
        old_x = test_copy(&g->old_x, dtype);
        old_y = test_copy(&g->old_y, dtype);
        options.previous_x = &old_x;
        options.previous_y = &old_y;
    }
    options.holdout = g->cme;
    assert_ok(circe_measure_gcm(b->workspace, b->kernels.y, &x, &y, &z, &options, &e.value, &e.grad));
    e.grad = test_copy(&e.grad, CIRCE_FLOAT64);
    return e;
}

static void check_gcm(const gcm_bench *g, circe_gcm_combine combine, circe_dtype dtype) {
    const bench *b = &g->b;
    circe_gcm_options options = g->options;
    options.combine = combine;
    expected e = expect_gcm(g, &options, dtype);
    placed p = place(b, dtype, dtype == CIRCE_FLOAT32 ? 1 : 0);
    circe_mat old_x, old_y, hat;
    if (g->old_x.rows > 0) {
        old_x = device_copy(&g->old_x, dtype, 2);
        old_y = device_copy(&g->old_y, dtype, 0);
        options.previous_x = &old_x;
        options.previous_y = &old_y;
    }
    if (g->cme != NULL) {
        circe_mat mean = test_zeros(b->c->n, b->c->d_z, CIRCE_FLOAT64);
        assert_ok(circe_cme_mean(b->workspace, g->cme, &b->y, &mean));
        hat = device_copy(&mean, dtype, 1);
    }
    assert_ok(circe_cuda_measure_gcm(b->cuda, b->kernels.y, &p.x, &p.y, &p.z, g->cme == NULL ? NULL : &hat, NULL,
                                     &options, b->value, &p.grad));
    /* z_hat was rounded to float32 on its way here. Low rank leaves 1e-10 of the trace of float32 points: where the two
     * devices stop a pivot apart, the regressions differ by that over the ridge, and at most by 1e-6. */
    bool loose = options.batch.method == CIRCE_METHOD_LOWRANK && dtype == CIRCE_FLOAT32;
    double left = loose ? fmin(1e-10 * (double)b->c->n / options.batch.ridge, 1e-6) : 1e-9;
    double tolerance = g->cme != NULL && dtype == CIRCE_FLOAT32 ? 1e-5 : left;
    double most = fmax(e.value, 1e-3);
    assert_near(host_value(b->value), e.value, tolerance, most);
    circe_mat got = host_copy(&p.grad);
    double scale = fmax(test_max(&e.grad), 1e-6 * most);
    for (int64_t i = 0; i < got.rows; i++)
        for (int64_t j = 0; j < got.cols; j++)
            assert_near(test_at(&got, i, j), test_at(&e.grad, i, j), dtype == CIRCE_FLOAT32 ? 2e-5 : 1e-8, scale);
    double first = host_value(b->value);
    assert_ok(circe_cuda_measure_gcm(b->cuda, b->kernels.y, &p.x, &p.y, &p.z, g->cme == NULL ? NULL : &hat, NULL,
                                     &options, b->value, NULL));
    assert_true(host_value(b->value) == first);
}

static void gcm(void **state) {
    for (int64_t k = 0; k < COUNT(gcm_cases); k++) {
        gcm_bench g = set_up_gcm(&gcm_cases[k]);
        for (int64_t s = 0; s < COUNT(combinations); s++)
            for (int64_t t = 0; t < COUNT(dtypes); t++) check_gcm(&g, combinations[s], dtypes[t]);
        clean(state);
    }
}

/* ---- low rank -------------------------------------------------------------------------------------------- */

/* Against the CPU: HSCIC dense there, and GCM of low rank there too. */
static void lowrank(void **state) {
    static const gcm_case lowrank_cases[] = {
        {GAUSSIAN_CASE(97, 3, 1, 2, 0.1), 0, false, CIRCE_GCM_KERNEL},
        {GAUSSIAN_CASE(257, 64, 1, 1, 0.1), 0, true, CIRCE_GCM_KERNEL},
        {GAUSSIAN_CASE(1023, 7, 1, 1, 0.1), 1025, false, CIRCE_GCM_KERNEL},
        {GAUSSIAN_CASE(1300, 5, 1, 2, 0.05), 0, false, CIRCE_GCM_KERNEL},
        {{200, 4, 2, 2, "linear", "linear", "gaussian(1)", 0.1}, 130, false, CIRCE_GCM_KERNEL},
    };
    for (int64_t k = 0; k < COUNT(lowrank_cases); k++) {
        gcm_bench g = set_up_gcm(&lowrank_cases[k]);
        expected e = expect(&g.b, &measures[0]);
        g.b.options.method = g.options.batch.method = CIRCE_METHOD_LOWRANK;
        for (int64_t t = 0; t < COUNT(dtypes); t++) {
            check_measure(&g.b, &measures[0], &e, dtypes[t]);
            check_gcm(&g, CIRCE_GCM_LOGSUMEXP, dtypes[t]);
        }
        clean(state);
    }
}

/* NaN where the rank is higher than there is room for; not so dense, nor with few points. */
static void lowrank_of_high_rank(void **state) {
    static const batch_case rough = {300, 3, 1, 1, "gaussian(1)", "gaussian(1e-5)", "gaussian(1)", 0.1};
    (void)state;
    bench b = set_up(&rough);
    placed p = place(&b, CIRCE_FLOAT64, 0);
    circe_gcm_options options;
    circe_gcm_options_init(&options);
    b.options.method = options.batch.method = CIRCE_METHOD_LOWRANK;
    assert_ok(circe_cuda_measure_hscic(b.cuda, &b.kernels, &p.x, &p.y, &p.z, NULL, &b.options, b.value, &p.grad));
    assert_true(isnan(host_value(b.value)));
    assert_ok(circe_cuda_measure_gcm(b.cuda, b.kernels.y, &p.x, &p.y, &p.z, NULL, NULL, &options, b.value, &p.grad));
    assert_true(isnan(host_value(b.value)));
    int64_t rank = 0;
    assert_ok(circe_cuda_batch_rank(b.cuda, b.kernels.y, &p.y, &b.options, &rank));
    assert_int_equal(rank, -1);
    assert_ok(circe_cuda_batch_rank(b.cuda, b.kernels.z, &p.y, &b.options, &rank));
    assert_in_range(rank, 8, 60);
    b.options.method = CIRCE_METHOD_AUTO;
    assert_ok(circe_cuda_measure_hscic(b.cuda, &b.kernels, &p.x, &p.y, &p.z, NULL, &b.options, b.value, &p.grad));
    assert_true(isfinite(host_value(b.value)));
    p.x.rows = p.y.rows = p.z.rows = p.grad.rows = 90;
    b.options.method = CIRCE_METHOD_LOWRANK;
    assert_ok(circe_cuda_measure_hscic(b.cuda, &b.kernels, &p.x, &p.y, &p.z, NULL, &b.options, b.value, &p.grad));
    assert_true(isfinite(host_value(b.value)));
}

/* Columns without a residual, without a spread, of any size, and equal ones: what the CPU answers. */
static void gcm_where_the_formula_has_no_answer(void **state) {
    (void)state;
    static const gcm_case c = {GAUSSIAN_CASE(60, 5, 3, 4, 0.1), 0, false, CIRCE_GCM_LINEAR};
    gcm_bench g = set_up_gcm(&c);
    bench *b = &g.b;
    for (int64_t i = 0; i < 60; i++) {
        test_set(&b->y, i, 1, 3.0 - 2.0 * test_at(&b->y, i, 0)); /* collinear */
        test_set(&b->y, i, 2, 1e6);                              /* constant */
        test_set(&b->x, i, 0, 7.0);
        test_set(&b->x, i, 1, 2.0 * test_at(&b->y, i, 0) - 1.0); /* y determines it */
        test_set(&b->x, i, 2, 1e-30 * test_at(&b->x, i, 2));
        test_set(&b->x, i, 3, test_at(&b->x, i, 4));
        test_set(&b->z, i, 0, 0.0);
        test_set(&b->z, i, 1, 1e30 * test_at(&b->z, i, 1));
        test_set(&b->z, i, 2, test_at(&b->x, i, 4));
        test_set(&b->z, i, 3, 2.0 * test_at(&b->y, i, 0) - 1.0); /* and this one */
    }
    circe_mat rounded = test_copy(&b->x, CIRCE_FLOAT32);
    b->x = test_copy(&rounded, CIRCE_FLOAT64);
    for (int64_t s = 0; s < COUNT(combinations); s++) check_gcm(&g, combinations[s], CIRCE_FLOAT64);
    clean(state);
}

/* Columns of y far from 0 beside their spread; the last of no spread, with a sum that rounds. */
static void gcm_far_from_zero(void **state) {
    static const gcm_case far[] = {{GAUSSIAN_CASE(60, 3, 3, 2, 0.1), 0, false, CIRCE_GCM_LINEAR},
                                   {GAUSSIAN_CASE(57, 3, 3, 2, 0.1), 41, false, CIRCE_GCM_LINEAR}};
    for (int64_t k = 0; k < COUNT(far); k++) {
        gcm_bench g = set_up_gcm(&far[k]);
        circe_mat *points[] = {&g.b.y, &g.old_y};
        for (int64_t p = 0; p < COUNT(points); p++)
            for (int64_t i = 0; i < points[p]->rows; i++) {
                test_set(points[p], i, 0, test_at(points[p], i, 0) + 1e8);
                test_set(points[p], i, 1, 1e-3 * test_at(points[p], i, 1) - 1e6);
                test_set(points[p], i, 2, 1e8 / 3.0);
            }
        for (int64_t s = 0; s < COUNT(combinations); s++) check_gcm(&g, combinations[s], CIRCE_FLOAT64);
        clean(state);
    }
}

/* ---- a step of training ---------------------------------------------------------------------------------- */

enum { SET = 700 };

/* Rows of a data set on the device, measured in one of several ways. */
typedef struct step {
    bench b;
    int64_t *index;
    circe_mat x, y, z, grad, old_x, old_y;
    int kind; /* 0 hscic, 1 kci, 2 gcm on the batch before, 3 gcm, linear */
} step;

enum { KINDS = 4 };

static const batch_case step_case = GAUSSIAN_CASE(200, 16, 2, 1, 0.05);

static circe_status run_step(step *s) {
    bench *b = &s->b;
    circe_gcm_options options;
    circe_gcm_options_init(&options);
    options.combine = CIRCE_GCM_LOGSUMEXP;
    options.batch = b->options;
    if (s->kind == 2) options.previous_x = &s->old_x, options.previous_y = &s->old_y;
    if (s->kind == 3) options.regression = CIRCE_GCM_LINEAR;
    if (s->kind < 2)
        return measures[s->kind].gpu(b->cuda, &b->kernels, &s->x, &s->y, &s->z, s->index, &b->options, b->value,
                                     &s->grad);
    return circe_cuda_measure_gcm(b->cuda, b->kernels.y, &s->x, &s->y, &s->z, NULL, s->index, &options, b->value,
                                  &s->grad);
}

static step make_step(circe_cuda *cuda, int kind, circe_dtype dtype) {
    int64_t n = step_case.n, index[200];
    step s = {.b = set_up(&step_case), .kind = kind};
    circe_mat y = draw(31, SET, 2, 0, 0.0), z = follow(32, &y, 1), old_y = draw(33, 150, 2, 0, 0.0),
              old_x = follow(34, &old_y, 16);
    for (int64_t i = 0; i < n; i++) index[i] = (i * i * 7 + 3 * i) % SET;
    s.b.y = test_rows(&y, index, n);
    s.b.z = test_rows(&z, index, n);
    if (cuda != NULL) s.b.cuda = cuda;
    s.index = device_block(sizeof index);
    assert_cuda(cudaMemcpy(s.index, index, sizeof index, cudaMemcpyHostToDevice));
    s.x = device_copy(&s.b.x, dtype, 0);
    s.y = device_copy(&y, dtype, 1);
    s.z = device_copy(&z, dtype, 0);
    s.old_x = device_copy(&old_x, dtype, 0);
    s.old_y = device_copy(&old_y, dtype, 0);
    s.grad = device_empty(n, step_case.d_x, dtype, 0);
    return s;
}

/* Behind an index or gathered before: the same bits. An index out of range gives NaN in value and gradient. */
static void behind_an_index(void **state) {
    for (int kind = 0; kind < KINDS; kind++)
        for (int64_t t = 0; t < COUNT(dtypes); t++) {
            step s = make_step(NULL, kind, dtypes[t]);
            assert_ok(run_step(&s));
            circe_mat want = host_copy(&s.grad);
            double value = host_value(s.b.value);
            assert_true(isfinite(value) && test_max(&want) > 0.0);
            step gathered = s;
            gathered.y = device_empty(step_case.n, 2, dtypes[t], 3);
            gathered.z = device_empty(step_case.n, 1, dtypes[t], 0);
            assert_ok(circe_cuda_gather(s.b.cuda, &s.y, s.index, &gathered.y));
            assert_ok(circe_cuda_gather(s.b.cuda, &s.z, s.index, &gathered.z));
            gathered.index = NULL;
            circe_mat got_y = host_copy(&gathered.y);
            assert_mat_equal(&got_y, &s.b.y);
            assert_ok(run_step(&gathered));
            circe_mat got = host_copy(&s.grad);
            assert_mat_equal(&got, &want);
            assert_true(host_value(s.b.value) == value);
            for (int64_t bad = -1; bad <= SET; bad += SET + 1) {
                assert_cuda(cudaMemcpy(s.index + 5, &bad, sizeof bad, cudaMemcpyHostToDevice));
                assert_ok(run_step(&s));
                assert_true(isnan(host_value(s.b.value)));
                got = host_copy(&s.grad);
                assert_true(isnan(test_at(&got, 0, 0)) && isnan(test_at(&got, 199, 15)));
            }
            clean(state);
        }
}

/* What cannot be solved gives NaN and no error, and harms nothing else. */
static void unsolvable(void **state) {
    for (int kind = 0; kind < 3; kind++) {
        step s = make_step(NULL, kind, CIRCE_FLOAT64);
        double nan = NAN;
        s.b.options.ridge = 1e-300;
        assert_ok(run_step(&s));
        assert_true(isnan(host_value(s.b.value)));
        circe_mat got = host_copy(&s.grad);
        assert_true(isnan(test_at(&got, 0, 0)));
        s.b.options.ridge = 0.05;
        assert_ok(run_step(&s));
        assert_true(isfinite(host_value(s.b.value)));
        assert_cuda(cudaMemcpy((double *)s.x.data + 3, &nan, sizeof nan, cudaMemcpyHostToDevice));
        assert_ok(run_step(&s));
        assert_true(isnan(host_value(s.b.value)));
        clean(state);
    }
}

static circe_status queue_step(void *own) { return run_step(own); }

static gpu_step as_step(step *s) { return (gpu_step){queue_step, s, s->b.cuda, s->x, s->grad, s->b.value}; }

static void same_bits(void **state) {
    for (int k = 0; k < 2 * KINDS; k++) {
        step s = make_step(NULL, k / 2, dtypes[k % 2]);
        gpu_step queued = as_step(&s);
        check_same_bits(&queued);
        clean(state);
    }
}

static void two_streams(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    cudaStream_t streams[2];
    open_on(context, NULL); /* skips here where there is no GPU */
    for (int k = 0; k < 2; k++) assert_cuda(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
    for (int kind = 0; kind < KINDS; kind++) {
        step steps[2];
        gpu_step queued[2];
        for (int k = 0; k < 2; k++) {
            steps[k] = make_step(open_on(context, streams[k]), kind, dtypes[k]);
            queued[k] = as_step(&steps[k]);
        }
        check_together(queued);
    }
    for (int k = 0; k < 2; k++) assert_cuda(cudaStreamDestroy(streams[k]));
}

/* Captured after a reservation alone, before any other call. */
static void graph(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    cudaStream_t stream;
    open_on(context, NULL);
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int k = 0; k < 2 * KINDS; k++) {
        step s = make_step(open_on(context, stream), k / 2, dtypes[k % 2]);
        gpu_step queued = as_step(&s);
        assert_ok(circe_cuda_reserve_batch(s.b.cuda, step_case.n, step_case.d_x, step_case.d_y, step_case.d_z,
                                           dtypes[k % 2]));
        check_replay(&queued, stream);
    }
    assert_cuda(cudaStreamDestroy(stream));
}

/* Neither libraries nor scratch can be had during capture. */
static void capture_unprepared(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    cudaStream_t stream;
    open_on(context, NULL);
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    step s = make_step(open_on(context, stream), 0, CIRCE_FLOAT32);
    gpu_step queued = as_step(&s);
    check_not_captured(&queued, stream, "cannot be opened during capture");
    assert_ok(circe_cuda_reserve_batch(s.b.cuda, 20, 1, 1, 1, CIRCE_FLOAT32));
    check_not_captured(&queued, stream, "of scratch are missing");
    assert_ok(run_step(&s));
    assert_true(isfinite(host_value(s.b.value)));
    assert_cuda(cudaStreamDestroy(stream));
}

/* ---- refusals -------------------------------------------------------------------------------------------- */

static void wrong_memory(void **state) {
    for (int kind = 0; kind < KINDS; kind++) {
        step s = make_step(NULL, kind, CIRCE_FLOAT64), wrong;
        int64_t index[200] = {0};
        double value;
        const bench *b = &s.b;
        wrong = s, wrong.x.data = b->x.data;
        assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "x lies in the host's memory");
        wrong = s, wrong.y.data = b->y.data;
        assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "y lies in the host's memory");
        wrong = s, wrong.z.data = b->z.data;
        assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "z lies in the host's memory");
        wrong = s, wrong.grad.data = b->x.data;
        assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "grad lies in the host's memory");
        wrong = s, wrong.b.value = &value;
        assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "value lies in the host's memory");
        wrong = s, wrong.index = index;
        assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "index lies in the host's memory");
        if (kind == 2) {
            wrong = s, wrong.old_y.data = b->y.data;
            assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "previous_y lies in the host's memory");
        }
        assert_refused(circe_cuda_gather(b->cuda, &b->y, s.index, &s.x), CIRCE_ERR_ARGUMENT,
                       "from lies in the host's memory");
        assert_ok(run_step(&s)); /* and nothing was harmed */
        clean(state);
    }
}

static void wrong_shapes(void **state) {
    for (int kind = 0; kind < KINDS; kind++) {
        step s = make_step(NULL, kind, CIRCE_FLOAT64), wrong;
        bool gcm_kind = kind >= 2;
        wrong = s, wrong.index = NULL;
        assert_refused(run_step(&wrong), CIRCE_ERR_SHAPE, "y has 700 rows and x has 200");
        wrong = s, wrong.z.dtype = CIRCE_FLOAT32;
        assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "z is float32 and x is float64");
        wrong = s, wrong.grad.cols = 7;
        assert_refused(run_step(&wrong), CIRCE_ERR_SHAPE, "grad is 200 by 7; it must be 200 by 16");
        wrong = s, wrong.b.cuda = NULL;
        assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "must not be NULL");
        if (kind != 3) {
            wrong = s, wrong.b.kernels.y = test_kernel(s.b.context, "gaussian");
            assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "has no width yet");
            wrong = s, wrong.b.options.ridge = -1.0;
            assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "the ridge must be a positive number");
            wrong = s, wrong.b.options.method = CIRCE_METHOD_RFF;
            assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "auto, lowrank and dense, not rff");
        }
        if (!gcm_kind) {
            wrong = s, wrong.b.kernels.z = NULL;
            assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "kernels of y and z must not be NULL");
            wrong = s, wrong.x.rows = wrong.grad.rows = 1;
            assert_refused(run_step(&wrong), CIRCE_ERR_SHAPE, "needs at least 2 rows");
        }
        if (kind == 2) {
            wrong = s, wrong.old_x.rows = 149;
            assert_refused(run_step(&wrong), CIRCE_ERR_SHAPE, "previous_x is 149 by 16 and previous_y 150 by 2");
        }
        assert_ok(run_step(&s));
        clean(state);
    }
}

static void wrong_options(void **state) {
    (void)state;
    step s = make_step(NULL, 3, CIRCE_FLOAT64);
    circe_cuda *cuda = s.b.cuda;
    circe_gcm_options options;
    circe_gcm_options_init(&options);
    options.sharpness = 0.0;
    options.combine = CIRCE_GCM_LOGSUMEXP;
#define GCM() circe_cuda_measure_gcm(cuda, NULL, &s.x, &s.y, &s.z, NULL, s.index, &options, s.b.value, NULL)
    assert_refused(GCM(), CIRCE_ERR_ARGUMENT, "the sharpness must be a positive number");
    options.combine = CIRCE_GCM_MAX;
    assert_refused(GCM(), CIRCE_ERR_ARGUMENT, "kernel of y must not be NULL for kernel regression");
    options.regression = CIRCE_GCM_LINEAR;
    options.previous_x = &s.old_x;
    assert_refused(GCM(), CIRCE_ERR_ARGUMENT, "previous_y is NULL");
    options.previous_x = NULL;
    options.holdout = (const circe_cme *)&s;
    assert_refused(GCM(), CIRCE_ERR_ARGUMENT, "give z_hat");
    options.holdout = NULL;
    assert_ok(GCM());
    assert_refused(circe_cuda_measure_gcm(cuda, NULL, &s.x, &s.y, &s.z, &s.y, s.index, &options, s.b.value, NULL),
                   CIRCE_ERR_SHAPE, "z_hat is 700 by 2; z is 700 by 1");
    assert_refused(circe_cuda_reserve_batch(cuda, 0, 1, 1, 1, CIRCE_FLOAT32), CIRCE_ERR_SHAPE, "0 points");
    assert_refused(circe_cuda_reserve_batch(cuda, 40000, 1, 1, 1, CIRCE_FLOAT32), CIRCE_ERR_SHAPE, "at most 32768");
#undef GCM
}

/* Memory of one GPU in a call of another: a handle that says it is of GPU 1 stands for a second GPU. */
static void another_gpu(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_cuda there = *open_on(context, NULL);
    void *here = device_block(64);
    there.device = 1;
    assert_refused(circe__cuda_check_pointer(&there, here, "x"), CIRCE_ERR_ARGUMENT,
                   "x lies on GPU 0; the handle was opened for GPU 1");
}

/* A library that is not installed, or too old: what to do about it. Needs no GPU. */
static void missing_library(void **state) {
    (void)state;
    static const circe__library absent = {"cuABSENT", "libcuabsent.so.13", "nvidia-cuabsent", {NULL}};
    static const circe__library old = {"C", "libc.so.6", "libc6", {NULL}};
    static const char *const names[] = {"malloc", "no_such_function"};
    void *table[2] = {NULL};
    assert_refused(circe__library_open(&absent, table, names, 2), CIRCE_ERR_UNSUPPORTED,
                   "needs cuABSENT, but libcuabsent.so.13 was not found");
    assert_refused(circe__library_open(&absent, table, names, 2), CIRCE_ERR_UNSUPPORTED, "pip install nvidia-cuabsent");
    assert_refused(circe__library_open(&old, table, names, 2), CIRCE_ERR_UNSUPPORTED,
                   "libc.so.6 has no function no_such_function");
    assert_ok(circe__library_open(&old, table, names, 1));
    assert_non_null(table[0]);
}

TEST_MAIN("gpu_measures", TEST(small_cases), TEST(large_cases), TEST(hscic_holdout), TEST(gcm), TEST(lowrank),
          TEST(lowrank_of_high_rank), TEST(gcm_where_the_formula_has_no_answer), TEST(gcm_far_from_zero),
          TEST(behind_an_index), TEST(unsolvable), TEST(same_bits), TEST(two_streams), TEST(graph),
          TEST(capture_unprepared), TEST(wrong_memory), TEST(wrong_shapes), TEST(wrong_options), TEST(another_gpu),
          TEST(missing_library))

#endif
