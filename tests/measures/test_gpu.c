/* The GPU against the CPU: every operation of circe/cuda.h on the same points, and what only a GPU has: streams,
 * graphs, memory of two kinds. Where there is no GPU the tests say so and are skipped; a build without CUDA refuses
 * politely.
 *
 * The reference is the CPU's float64 on the values that the GPU was given. Tolerances: float64 1e-10 and float32 1e-4
 * of the sum of the absolute terms for a value, and of the largest element for gradients. The order of
 * summation differs, and nothing else: rounding leaves about 1e-15 and 1e-6. */
#include "tests/support.h"

#ifndef CIRCE_TEST_CUDA

static void says_so(void **state) {
    (void)state;
    circe_cuda *cuda = NULL;
    assert_refused(circe_cuda_open(test_context(1), 0, NULL, &cuda), CIRCE_ERR_UNSUPPORTED, "CIRCE_CUDA=ON");
    assert_null(cuda);
    assert_refused(circe_cuda_reserve(NULL, 4, 4, CIRCE_FLOAT32), CIRCE_ERR_UNSUPPORTED, "has no CUDA");
    circe_cuda_close(NULL);
}

static void on_a_gpu(void **state) {
    (void)state;
    test_skip("built without CUDA (cmake --preset cuda)");
}

TEST_MAIN("gpu", TEST(says_so), TEST(on_a_gpu))

#else

#include "tests/measures/gpu_support.h"

/* ---- cases ----------------------------------------------------------------------------------------------- */

typedef struct gpu_case {
    int64_t n, d_y, d_x, q;
    const char *kernel_y, *kernel_x;
    int64_t categories; /* columns of y and x that hold whole numbers, from the last one back */
    double offset;      /* of x: what cancels must not be felt */
} gpu_case;

#define GAUSSIAN_CASE(n, d_y, d_x, q) \
    { n, d_y, d_x, q, "gaussian(0.5)", "gaussian(20)", 0, 0.0 }

static const gpu_case cases[] = {
    GAUSSIAN_CASE(2, 1, 1, 1),
    GAUSSIAN_CASE(4, 1, 3, 2),
    GAUSSIAN_CASE(31, 1, 64, 39),
    GAUSSIAN_CASE(32, 2, 16, 40),
    GAUSSIAN_CASE(33, 1, 17, 41),
    GAUSSIAN_CASE(255, 3, 65, 47),
    GAUSSIAN_CASE(257, 1, 130, 100),
    {600, 50, 9, 5, "gaussian(25)", "gaussian(20)", 0, 0.0},
    GAUSSIAN_CASE(1023, 1, 64, 39),
    GAUSSIAN_CASE(1025, 1, 8, 39),
    GAUSSIAN_CASE(2080, 2, 20, 10), /* the largest tiles */
    GAUSSIAN_CASE(2100, 1, 3, 7),   /* and strips of several, in float64 */
    {65, 1, 64, 39, "gaussian(0.5)", "gaussian(20)", 0, 30000.0},
    {67, 2, 5, 6, "laplace(0.7)", "laplace(4)", 0, 0.0},
    {67, 2, 5, 6, "gaussian(0.7)", "linear", 0, 0.0},
    {67, 2, 70, 6, "linear", "laplace(9)", 0, 0.0},
    {70, 3, 4, 6, "0-1:gaussian(0.5)*2:delta", "0-1:gaussian(2)*2:laplace(1)*3:delta", 1, 0.0},
    {130, 2, 6, 6, "0:laplace(0.5)*1:gaussian(1)", "0-2:linear*3-4:gaussian(1)*5:linear", 0, 0.0},
    {130, 1, 6, 6, "gaussian(1)", "1-2:gaussian(1)", 0, 0.0}, /* columns that the kernel does not see */
    {130, 1, 6, 6, "gaussian(1)", "delta", 6, 0.0},
};

static const circe_estimator estimators[] = {CIRCE_BIASED, CIRCE_DEBIASED, CIRCE_CENTERED, CIRCE_USTAT};

/* A case with its points (float64, of values that float32 holds), kernels and places on the device. */
typedef struct bench {
    const gpu_case *c;
    circe_context *context;
    circe_workspace *workspace;
    circe_cuda *cuda;
    circe_kernel *kernel_y, *kernel_x;
    circe_mat x, y, zeta;
    double *value;
} bench;

static bench set_up(const gpu_case *c) {
    bench b = {.c = c, .context = test_context(2)};
    b.workspace = test_workspace(b.context);
    b.cuda = open_on(b.context, NULL);
    b.kernel_y = test_kernel(b.context, c->kernel_y);
    b.kernel_x = test_kernel(b.context, c->kernel_x);
    int64_t categories_y = c->categories < c->d_y ? c->categories : c->d_y;
    b.x = draw(1, c->n, c->d_x, c->categories, c->offset);
    b.y = draw(2, c->n, c->d_y, strstr(c->kernel_y, "delta") == NULL ? 0 : categories_y, 0.0);
    b.zeta = draw(3, c->n, c->q, 0, 0.0);
    b.value = device_block(sizeof *b.value);
    return b;
}

/* sum |G_ij k(x_i, x_j)|, G of which the lower triangle is there. */
static double sum_of_terms(const bench *b, const circe_mat *witness) {
    circe_mat K = test_zeros(b->c->n, b->c->n, CIRCE_FLOAT64);
    double sum = 0.0;
    assert_ok(circe_gram(b->context, b->kernel_x, &b->x, &b->x, &K));
    for (int64_t i = 0; i < b->c->n; i++)
        for (int64_t j = 0; j < b->c->n; j++) sum += fabs(test_lower(witness, i, j) * test_at(&K, i, j));
    return sum;
}

typedef struct expected {
    circe_mat witness, grad;
    double value, terms;
} expected;

static expected expect(const bench *b, circe_estimator estimator) {
    int64_t n = b->c->n;
    expected e = {.witness = test_zeros(n, n, CIRCE_FLOAT64), .grad = test_zeros(n, b->c->d_x, CIRCE_FLOAT64)};
    assert_ok(circe_witness_features(b->workspace, b->kernel_y, &b->y, &b->zeta, estimator, &e.witness));
    assert_ok(circe_contract(b->workspace, b->kernel_x, &b->x, &e.witness, &e.value, &e.grad));
    e.terms = sum_of_terms(b, &e.witness);
    return e;
}

/* Against the largest element, or for a gradient that all but vanishes, against the terms of one point. */
static void check_gradient(const bench *b, const expected *e, const circe_mat *grad, circe_dtype dtype) {
    circe_mat got = host_copy(grad);
    double scale = fmax(test_max(&e->grad), e->terms / (double)b->c->n);
    for (int64_t i = 0; i < got.rows; i++)
        for (int64_t j = 0; j < got.cols; j++)
            assert_near(test_at(&got, i, j), test_at(&e->grad, i, j), tolerance_of(dtype), scale);
}

/* ---- CPU against GPU ------------------------------------------------------------------------------------- */

static void check_circe(const bench *b, circe_estimator estimator, const expected *e, circe_dtype dtype) {
    int64_t n = b->c->n, gap = dtype == CIRCE_FLOAT32 ? 3 : 0;
    circe_mat x = device_copy(&b->x, dtype, gap), y = device_copy(&b->y, dtype, gap + 1);
    circe_mat zeta = device_copy(&b->zeta, dtype, gap), grad = device_empty(n, b->c->d_x, dtype, gap + 2);
    assert_ok(circe_cuda_measure_circe(b->cuda, b->kernel_y, &y, &zeta, NULL, n, b->kernel_x, &x, estimator, b->value,
                                       &grad));
    assert_near(host_value(b->value), e->value, tolerance_of(dtype), e->terms);
    check_gradient(b, e, &grad, dtype);
    double first = host_value(b->value);
    assert_cuda(cudaMemset(b->value, 0xff, sizeof(double)));
    assert_ok(
        circe_cuda_measure_circe(b->cuda, b->kernel_y, &y, &zeta, NULL, n, b->kernel_x, &x, estimator, b->value, NULL));
    assert_true(host_value(b->value) == first); /* with or without a gradient: the same bits */
}

static void run_cases(void **state, int64_t least, int64_t most) {
    for (int64_t k = 0; k < COUNT(cases); k++) {
        if (cases[k].n < least || cases[k].n > most) continue;
        bench b = set_up(&cases[k]);
        for (int64_t s = 0; s < COUNT(estimators); s++) {
            if (estimators[s] == CIRCE_USTAT && cases[k].n < 4) continue;
            if (cases[k].n > 1000 && estimators[s] != CIRCE_CENTERED && estimators[s] != CIRCE_USTAT) continue;
            expected e = expect(&b, estimators[s]);
            for (int64_t t = 0; t < COUNT(dtypes); t++) check_circe(&b, estimators[s], &e, dtypes[t]);
        }
        clean(state);
    }
}

static void small_cases(void **state) { run_cases(state, 1, 999); }

static void large_cases(void **state) { run_cases(state, 1000, 9999); }

/* The tensor cores multiply 11 bits of each number; split in two, nothing of float32 is lost. 5e-6 of the largest
 * element: ten times what was measured, a fiftieth of what they lose unsplit. */
static void tensor_cores_lose_nothing(void **state) {
    (void)state;
    static const gpu_case sizes[] = {GAUSSIAN_CASE(257, 1, 64, 39), GAUSSIAN_CASE(900, 1, 64, 39),
                                     GAUSSIAN_CASE(2100, 1, 64, 39)};
    for (int64_t k = 0; k < COUNT(sizes); k++) {
        bench b = set_up(&sizes[k]);
        expected e = expect(&b, CIRCE_CENTERED);
        circe_mat x = device_copy(&b.x, CIRCE_FLOAT32, 0), y = device_copy(&b.y, CIRCE_FLOAT32, 0);
        circe_mat zeta = device_copy(&b.zeta, CIRCE_FLOAT32, 0), grad = device_empty(b.c->n, 64, CIRCE_FLOAT32, 0);
        assert_ok(circe_cuda_measure_circe(b.cuda, b.kernel_y, &y, &zeta, NULL, b.c->n, b.kernel_x, &x, CIRCE_CENTERED,
                                           b.value, &grad));
        circe_mat got = host_copy(&grad);
        assert_mat_near(&got, &e.grad, 5e-6);
        assert_near(host_value(b.value), e.value, 1e-6, e.terms);
        clean(state);
    }
}

/* Rows of a data set, in any order, some twice. */
static void behind_an_index(void **state) {
    (void)state;
    enum { N = 300, CHOSEN = 77 };
    static const gpu_case all = GAUSSIAN_CASE(N, 1, 8, 39), some = GAUSSIAN_CASE(CHOSEN, 1, 8, 39);
    int64_t index[CHOSEN];
    bench set = set_up(&all), b = set_up(&some);
    for (int64_t i = 0; i < CHOSEN; i++) index[i] = (i * i * 7 + 3) % N;
    b.y = test_rows(&set.y, index, CHOSEN);
    b.zeta = test_rows(&set.zeta, index, CHOSEN);
    int64_t *on_device = device_block(sizeof index);
    assert_cuda(cudaMemcpy(on_device, index, sizeof index, cudaMemcpyHostToDevice));
    for (int64_t s = 0; s < COUNT(estimators); s++) {
        expected e = expect(&b, estimators[s]);
        for (int64_t t = 0; t < COUNT(dtypes); t++) {
            circe_mat x = device_copy(&b.x, dtypes[t], 0), grad = device_empty(CHOSEN, 8, dtypes[t], 0);
            circe_mat y = device_copy(&set.y, dtypes[t], 0), zeta = device_copy(&set.zeta, dtypes[t], 1);
            assert_ok(circe_cuda_measure_circe(b.cuda, b.kernel_y, &y, &zeta, on_device, CHOSEN, b.kernel_x, &x,
                                               estimators[s], b.value, &grad));
            assert_near(host_value(b.value), e.value, tolerance_of(dtypes[t]), e.terms);
            check_gradient(&b, &e, &grad, dtypes[t]);
        }
    }
    /* One index that does not exist spoils the value, and harms nothing else. */
    circe_mat x = device_copy(&b.x, CIRCE_FLOAT32, 0), y = device_copy(&set.y, CIRCE_FLOAT32, 0);
    circe_mat zeta = device_copy(&set.zeta, CIRCE_FLOAT32, 0);
    for (int64_t bad = -1; bad <= N; bad += N + 1) {
        index[5] = bad;
        assert_cuda(cudaMemcpy(on_device, index, sizeof index, cudaMemcpyHostToDevice));
        assert_ok(circe_cuda_measure_circe(b.cuda, b.kernel_y, &y, &zeta, on_device, CHOSEN, b.kernel_x, &x,
                                           CIRCE_CENTERED, b.value, NULL));
        assert_true(isnan(host_value(b.value)));
    }
}

static void hsic(void **state) {
    (void)state;
    static const gpu_case sizes[] = {GAUSSIAN_CASE(4, 2, 3, 1),
                                     GAUSSIAN_CASE(33, 1, 64, 1),
                                     GAUSSIAN_CASE(257, 2, 5, 1),
                                     {257, 2, 5, 1, "laplace(1)", "laplace(3)", 0, 0.0}};
    for (int64_t k = 0; k < COUNT(sizes); k++)
        for (int64_t t = 0; t < COUNT(dtypes); t++)
            for (int s = CIRCE_HSIC_BIASED; s <= CIRCE_HSIC_UNBIASED; s++) {
                bench b = set_up(&sizes[k]);
                circe_hsic_estimator estimator = (circe_hsic_estimator)s;
                circe_kernels kernels = {b.kernel_x, NULL, b.kernel_y};
                int64_t n = sizes[k].n;
                expected e = {.witness = test_zeros(n, n, CIRCE_FLOAT64),
                              .grad = test_zeros(n, b.c->d_x, CIRCE_FLOAT64)};
                assert_ok(circe_witness_hsic(b.workspace, b.kernel_y, &b.y, estimator, &e.witness));
                assert_ok(circe_measure_hsic(b.workspace, &kernels, &b.x, &b.y, estimator, &e.value, &e.grad));
                e.terms = sum_of_terms(&b, &e.witness);
                circe_mat x = device_copy(&b.x, dtypes[t], 0), z = device_copy(&b.y, dtypes[t], 2);
                circe_mat grad = device_empty(n, b.c->d_x, dtypes[t], 0);
                assert_ok(circe_cuda_measure_hsic(b.cuda, &kernels, &x, &z, estimator, b.value, &grad));
                assert_near(host_value(b.value), e.value, tolerance_of(dtypes[t]), e.terms);
                check_gradient(&b, &e, &grad, dtypes[t]);
                clean(state);
            }
}

static circe_mat on_a_grid(const circe_mat *m, double shift) {
    circe_mat moved = test_copy(m, CIRCE_FLOAT64);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t c = 0; c < m->cols; c++) test_set(&moved, i, c, shift + rint(1024.0 * test_at(m, i, c)) / 1024.0);
    return moved;
}

/* What centring takes out is not in the sums: far from 0 the errors are those of columns around 0. float32 holds the
 * points in both places. */
static void linear_far_from_zero(void **state) {
    static const gpu_case c = {257, 2, 5, 3, "linear", "linear", 0, 0.0};
    for (int64_t t = 0; t < COUNT(dtypes); t++) {
        bench b = set_up(&c);
        circe_kernels kernels = {b.kernel_x, NULL, b.kernel_y};
        circe_mat far_x = on_a_grid(&b.x, 4096.0), far_z = on_a_grid(&b.y, 4096.0);
        b.x = on_a_grid(&b.x, 0.0);
        b.y = on_a_grid(&b.y, 0.0);
        circe_mat x = device_copy(&far_x, dtypes[t], 1), z = device_copy(&far_z, dtypes[t], 2);
        circe_mat y = device_copy(&b.y, dtypes[t], 0), zeta = device_copy(&b.zeta, dtypes[t], 0);
        circe_mat grad = device_empty(c.n, c.d_x, dtypes[t], 0);
        for (int k = 0; k < 2; k++) {
            expected e = expect(&b, k == 0 ? CIRCE_CENTERED : CIRCE_USTAT);
            assert_ok(circe_cuda_measure_circe(b.cuda, b.kernel_y, &y, &zeta, NULL, c.n, b.kernel_x, &x,
                                               k == 0 ? CIRCE_CENTERED : CIRCE_USTAT, b.value, &grad));
            assert_near(host_value(b.value), e.value, tolerance_of(dtypes[t]), e.terms);
            check_gradient(&b, &e, &grad, dtypes[t]);
        }
        for (int s = CIRCE_HSIC_BIASED; s <= CIRCE_HSIC_UNBIASED; s++) {
            circe_hsic_estimator estimator = (circe_hsic_estimator)s;
            expected e = {.witness = test_zeros(c.n, c.n, CIRCE_FLOAT64),
                          .grad = test_zeros(c.n, c.d_x, CIRCE_FLOAT64)};
            assert_ok(circe_witness_hsic(b.workspace, b.kernel_y, &b.y, estimator, &e.witness));
            assert_ok(circe_measure_hsic(b.workspace, &kernels, &b.x, &b.y, estimator, &e.value, &e.grad));
            e.terms = sum_of_terms(&b, &e.witness);
            assert_ok(circe_cuda_measure_hsic(b.cuda, &kernels, &x, &z, estimator, b.value, &grad));
            assert_near(host_value(b.value), e.value, tolerance_of(dtypes[t]), e.terms);
            check_gradient(&b, &e, &grad, dtypes[t]);
        }
        clean(state);
    }
}

/* One point has no estimator. */
static void one_point(void **state) {
    (void)state;
    static const gpu_case one = GAUSSIAN_CASE(1, 1, 3, 2);
    bench b = set_up(&one);
    circe_mat x = device_copy(&b.x, CIRCE_FLOAT32, 0), y = device_copy(&b.y, CIRCE_FLOAT32, 0);
    circe_mat zeta = device_copy(&b.zeta, CIRCE_FLOAT32, 0);
    assert_refused(
        circe_cuda_measure_circe(b.cuda, b.kernel_y, &y, &zeta, NULL, 1, b.kernel_x, &x, CIRCE_BIASED, b.value, NULL),
        CIRCE_ERR_SHAPE, "needs at least 2 rows");
}

/* ---- residual features ----------------------------------------------------------------------------------- */

/* K^c from the features is the CPU's. Float32 rounds features of size 1: 1e-5 of k(z, z) = 1. */
static void check_model(circe_method method, const char *kernel_z, circe_dtype dtype) {
    enum { M = 600, B = 75, FAR = 12 };
    circe_context *context = test_context(2);
    circe_cuda *cuda = open_on(context, NULL);
    double ridge = 0.1;
    circe_cme_options options = test_options(method, &ridge);
    circe_mat y = draw(11, M, 1, 0, 0.0), z = draw(12, M, 1, 0, 0.0);
    circe_cme *cme = test_fit(context, &y, &z, "gaussian(0.5)", kernel_z, &options);
    circe_cuda_model *model = NULL;
    assert_ok(circe_cuda_model_create(cuda, cme, &model));
    int64_t columns = circe_cuda_model_columns(model);
    circe_mat batch_y = y, batch_z = z, want = test_zeros(B, B, CIRCE_FLOAT64);
    batch_y.rows = batch_z.rows = B;
    circe_mat own_y = device_copy(&batch_y, dtype, 1), own_z = device_copy(&batch_z, dtype, 0);
    circe_mat zeta = device_empty(B, columns, dtype, 2);
    double *left = device_block(sizeof *left);
    assert_ok(circe_cuda_residual_features(cuda, model, &own_y, &own_z, &zeta, left));
    assert_true(host_value(left) < 1e-8); /* the holdout's own points lie in its span */
    assert_ok(circe_residual_gram(test_workspace(context), cme, &batch_y, &batch_z, &want));
    circe_mat got = host_copy(&zeta);
    double scale = test_max(&want);
    for (int64_t i = 0; i < B; i++)
        for (int64_t j = 0; j < B; j++) {
            double dot = 0.0;
            for (int64_t c = 0; c < columns; c++) dot += test_at(&got, i, c) * test_at(&got, j, c);
            assert_near(dot, test_at(&want, i, j), dtype == CIRCE_FLOAT32 ? 1e-5 : 1e-9, scale);
        }
    for (int64_t i = 0; i < FAR; i++) test_set(&batch_z, 5 * i, 0, 10.0 * (double)(i + 1)); /* and too many far away */
    own_z = device_copy(&batch_z, dtype, 0);
    assert_ok(circe_cuda_residual_features(cuda, model, &own_y, &own_z, &zeta, left));
    assert_true(strcmp(kernel_z, "linear") == 0 || host_value(left) > 0.5);
    circe_cuda_model_destroy(model);
}

static void residual_features(void **state) {
    for (int64_t t = 0; t < COUNT(dtypes); t++) {
        check_model(CIRCE_METHOD_LOWRANK, "gaussian(0.5)", dtypes[t]);
        clean(state);
        check_model(CIRCE_METHOD_DENSE, "gaussian(0.5)", dtypes[t]);
        clean(state);
        check_model(CIRCE_METHOD_LOWRANK, "linear", dtypes[t]);
        clean(state);
    }
}

/* Points of z outside the holdout's span: the CPU extends the basis until it holds them, the GPU has a few columns for
 * them. */
typedef struct outside_case {
    circe_method method;
    const char *kernel_z;
    int64_t n, d_z, extra;
    double far[8]; /* the first coordinate of rows 3, 8, 13, ...; up to the first 0 */
} outside_case;

enum { OUTSIDE_HOLDOUT = 600 };

static const outside_case outside_cases[] = {
    {CIRCE_METHOD_LOWRANK, "gaussian(0.5)", 75, 1, 8, {0}},
    {CIRCE_METHOD_LOWRANK, "gaussian(0.5)", 75, 1, 8, {4, 5, 6, 9, -5, -7}},
    {CIRCE_METHOD_LOWRANK, "gaussian(2)", 1100, 1, 8, {5, 9, -6}}, /* more points than threads */
    {CIRCE_METHOD_LOWRANK, "gaussian(4)", 33, 2, 8, {5, 7}},
    {CIRCE_METHOD_LOWRANK, "0:gaussian(2)*1:delta", 70, 2, 8, {6}},
    {CIRCE_METHOD_LOWRANK, "linear", 40, 3, 0, {50}},
    {CIRCE_METHOD_DENSE, "gaussian(0.5)", 75, 1, 8, {4, 9, -5}},
    {CIRCE_METHOD_LOWRANK, "gaussian(0.5)", 1, 1, 8, {0}},
};

typedef struct outside {
    circe_context *context;
    circe_cuda *cuda;
    circe_cme *cme;
    circe_cuda_model *model; /* the caller's to destroy */
    circe_mat batch_y, batch_z, y, z, zeta;
    double *left;
} outside;

static outside set_up_outside(const outside_case *c, circe_dtype dtype, void *stream, int64_t gap) {
    outside o = {.context = test_context(2)};
    double ridge = 0.1;
    circe_cme_options options = test_options(c->method, &ridge);
    int64_t categories = strstr(c->kernel_z, "delta") != NULL;
    circe_mat y = draw(11, OUTSIDE_HOLDOUT, 1, 0, 0.0), z = draw(12, OUTSIDE_HOLDOUT, c->d_z, categories, 0.0);
    o.cuda = open_on(o.context, stream);
    o.cme = test_fit(o.context, &y, &z, "gaussian(0.5)", c->kernel_z, &options);
    assert_ok(circe_cuda_model_create(o.cuda, o.cme, &o.model));
    o.batch_y = draw(13, c->n, 1, 0, 0.0);
    o.batch_z = draw(14, c->n, c->d_z, categories, 0.0);
    for (int64_t k = 0; k < COUNT(c->far) && c->far[k] != 0; k++) test_set(&o.batch_z, 3 + 5 * k, 0, c->far[k]);
    o.y = device_copy(&o.batch_y, dtype, gap);
    o.z = device_copy(&o.batch_z, dtype, gap);
    o.zeta = device_empty(c->n, circe_cuda_model_columns(o.model), dtype, gap);
    o.left = device_block(sizeof *o.left);
    return o;
}

static double dot_rows(const circe_mat *m, int64_t i, int64_t j) {
    double sum = 0.0;
    for (int64_t c = 0; c < m->cols; c++) sum += test_at(m, i, c) * test_at(m, j, c);
    return sum;
}

static void check_outside(const outside_case *c, circe_dtype dtype) {
    outside o = set_up_outside(c, dtype, NULL, 2);
    circe_cme_info info;
    circe_mat wanted;
    assert_ok(circe_cme_get_info(o.cme, &info));
    assert_int_equal(o.zeta.cols, info.rank_z + c->extra);
    assert_ok(circe_cuda_residual_features(o.cuda, o.model, &o.y, &o.z, &o.zeta, o.left));
    circe_features *features = test_features(o.context, o.cme, &o.batch_y, &o.batch_z, CIRCE_FLOAT64);
    assert_ok(circe_features_get(features, NULL, &wanted));
    circe_mat got = host_copy(&o.zeta);
    double scale = 0.0;
    for (int64_t i = 0; i < c->n; i++) scale = fmax(scale, dot_rows(&wanted, i, i));
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t j = 0; j <= i; j++)
            assert_near(dot_rows(&got, i, j), dot_rows(&wanted, i, j), dtype == CIRCE_FLOAT32 ? 1e-5 : 1e-10, scale);
    double left = host_value(o.left);
    assert_true(left >= 0.0 && left <= (dtype == CIRCE_FLOAT32 ? 1e-8 : 1e-10));
    circe_cuda_model_destroy(o.model);
}

static void outside_the_span(void **state) {
    for (int64_t k = 0; k < COUNT(outside_cases); k++)
        for (int64_t t = 0; t < COUNT(dtypes); t++) {
            check_outside(&outside_cases[k], dtypes[t]);
            clean(state);
        }
}

/* Inside the holdout's range there is nothing to add: the columns are 0, whatever was there before. */
static void inside_the_span(void **state) {
    (void)state;
    const outside_case *c = &outside_cases[1];
    outside o = set_up_outside(c, CIRCE_FLOAT32, NULL, 0);
    circe_mat inside = test_zeros(c->n, 1, CIRCE_FLOAT64), z, got;
    for (int64_t i = 0; i < c->n; i++) test_set(&inside, i, 0, (double)(i % 33 - 16) / 16.0);
    z = device_copy(&inside, CIRCE_FLOAT32, 0);
    for (int again = 0; again < 2; again++) {
        bool nothing = true;
        assert_ok(circe_cuda_residual_features(o.cuda, o.model, &o.y, again ? &z : &o.z, &o.zeta, o.left));
        got = host_copy(&o.zeta);
        for (int64_t i = 0; i < c->n; i++)
            for (int64_t k = got.cols - c->extra; k < got.cols; k++) nothing = nothing && test_at(&got, i, k) == 0.0;
        assert_int_equal(nothing, again == 1);
    }
    circe_cuda_model_destroy(o.model);
}

static circe_status queue_outside(void *own) {
    outside *o = own;
    return circe_cuda_residual_features(o->cuda, o->model, &o->y, &o->z, &o->zeta, o->left);
}

/* The same bits again, and in a graph that meets other points. */
static void outside_repeats(void **state) {
    cudaStream_t stream;
    open_on(test_context(1), NULL);
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int64_t k = 0; k < COUNT(outside_cases); k++)
        for (int64_t t = 0; t < COUNT(dtypes); t++) {
            outside o = set_up_outside(&outside_cases[k], dtypes[t], stream, 0);
            gpu_step queued = {queue_outside, &o, o.cuda, o.z, o.zeta, o.left};
            check_same_bits(&queued);
            check_replay(&queued, stream);
            circe_cuda_model_destroy(o.model);
            clean(state);
        }
    assert_cuda(cudaStreamDestroy(stream));
}

static void features_of_a_data_set(void **state) {
    (void)state;
    enum { M = 600 };
    circe_context *context = test_context(2);
    circe_cuda *cuda = open_on(context, NULL);
    double ridge = 0.1;
    circe_cme_options options = test_options(CIRCE_METHOD_LOWRANK, &ridge);
    circe_mat y = draw(11, M, 2, 0, 0.0), z = draw(12, M, 1, 0, 0.0), own_y, own_zeta, there_y, there_zeta;
    circe_cme *cme = test_fit(context, &y, &z, "gaussian(0.5)", "gaussian(0.5)", &options);
    circe_features *features = test_features(context, cme, &y, &z, CIRCE_FLOAT32);
    circe_cuda_features *copy = NULL;
    assert_ok(circe_cuda_features_create(cuda, features, &copy));
    assert_ok(circe_features_get(features, &own_y, &own_zeta));
    assert_ok(circe_cuda_features_get(copy, &there_y, &there_zeta));
    circe_mat got_y = host_copy(&there_y), got_zeta = host_copy(&there_zeta);
    circe_mat want_y = test_copy(&own_y, CIRCE_FLOAT64), want_zeta = test_copy(&own_zeta, CIRCE_FLOAT64);
    assert_mat_equal(&got_y, &want_y);
    assert_mat_equal(&got_zeta, &want_zeta);
    circe_cuda_features_destroy(copy);
}

/* ---- streams, graphs, repetition ------------------------------------------------------------------------- */

/* A step of training on a stream of its own. */
typedef struct step {
    bench b;
    circe_mat x, y, zeta, grad;
} step;

static step make_step(circe_cuda *cuda, const gpu_case *c, circe_dtype dtype) {
    step s = {.b = set_up(c)};
    s.x = device_copy(&s.b.x, dtype, 0);
    s.y = device_copy(&s.b.y, dtype, 0);
    s.zeta = device_copy(&s.b.zeta, dtype, 0);
    s.grad = device_empty(c->n, c->d_x, dtype, 0);
    if (cuda != NULL) s.b.cuda = cuda;
    return s;
}

static circe_status run_step(step *s) {
    return circe_cuda_measure_circe(s->b.cuda, s->b.kernel_y, &s->y, &s->zeta, NULL, s->b.c->n, s->b.kernel_x, &s->x,
                                    CIRCE_CENTERED, s->b.value, &s->grad);
}

static circe_status queue_step(void *own) { return run_step(own); }

static gpu_step as_step(step *s) { return (gpu_step){queue_step, s, s->b.cuda, s->x, s->grad, s->b.value}; }

static void same_bits(void **state) {
    static const gpu_case sizes[] = {GAUSSIAN_CASE(257, 1, 64, 39), GAUSSIAN_CASE(1500, 1, 64, 39),
                                     GAUSSIAN_CASE(3000, 1, 64, 39)};
    for (int64_t k = 0; k < COUNT(sizes); k++)
        for (int64_t t = 0; t < COUNT(dtypes); t++) {
            step s = make_step(NULL, &sizes[k], dtypes[t]);
            gpu_step queued = as_step(&s);
            check_same_bits(&queued);
            clean(state);
        }
}

static void two_streams(void **state) {
    (void)state;
    static const gpu_case c = GAUSSIAN_CASE(700, 1, 64, 39);
    circe_context *context = test_context(1);
    cudaStream_t streams[2];
    step steps[2];
    gpu_step queued[2];
    open_on(context, NULL); /* skips here where there is no GPU */
    for (int k = 0; k < 2; k++) {
        assert_cuda(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
        steps[k] = make_step(open_on(context, streams[k]), &c, dtypes[k]);
        queued[k] = as_step(&steps[k]);
    }
    check_together(queued);
    for (int k = 0; k < 2; k++) assert_cuda(cudaStreamDestroy(streams[k]));
}

static void graph(void **state) {
    (void)state;
    static const gpu_case graphs[] = {GAUSSIAN_CASE(500, 1, 64, 39), {500, 1, 64, 39, "gaussian(1)", "linear", 0, 0.0}};
    circe_context *context = test_context(1);
    cudaStream_t stream;
    open_on(context, NULL);
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int64_t k = 0; k < COUNT(graphs); k++)
        for (int64_t t = 0; t < COUNT(dtypes); t++) {
            step s = make_step(open_on(context, stream), &graphs[k], dtypes[t]);
            gpu_step queued = as_step(&s);
            assert_ok(circe_cuda_reserve(s.b.cuda, graphs[k].n, graphs[k].d_x, dtypes[t]));
            check_replay(&queued, stream);
        }
    assert_cuda(cudaStreamDestroy(stream));
}

static void capture_without_scratch(void **state) {
    (void)state;
    static const gpu_case c = GAUSSIAN_CASE(500, 1, 64, 39);
    circe_context *context = test_context(1);
    cudaStream_t stream;
    open_on(context, NULL);
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    step s = make_step(open_on(context, stream), &c, CIRCE_FLOAT32);
    gpu_step queued = as_step(&s);
    check_not_captured(&queued, stream, "circe_cuda_reserve");
    assert_cuda(cudaStreamDestroy(stream));
}

/* ---- refusals -------------------------------------------------------------------------------------------- */

static void wrong_memory(void **state) {
    (void)state;
    static const gpu_case c = GAUSSIAN_CASE(40, 1, 8, 5);
    step s = make_step(NULL, &c, CIRCE_FLOAT64), wrong;
    int64_t index[40] = {0};
    double value;
    const bench *b = &s.b;
    circe_cuda *cuda = b->cuda;
    wrong = s, wrong.x.data = b->x.data;
    assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "x lies in the host's memory");
    wrong = s, wrong.y.data = b->y.data;
    assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "y lies in the host's memory");
    wrong = s, wrong.zeta.data = b->zeta.data;
    assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "zeta lies in the host's memory");
    wrong = s, wrong.grad.data = b->x.data;
    assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "grad lies in the host's memory");
    wrong = s, wrong.b.value = &value;
    assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "value lies in the host's memory");
    assert_refused(circe_cuda_measure_circe(cuda, b->kernel_y, &s.y, &s.zeta, index, 40, b->kernel_x, &s.x,
                                            CIRCE_BIASED, b->value, NULL),
                   CIRCE_ERR_ARGUMENT, "index lies in the host's memory");
    int count = 0;
    assert_cuda(cudaGetDeviceCount(&count));
    if (count > 1) {
        void *elsewhere = NULL;
        assert_cuda(cudaSetDevice(1));
        assert_cuda(cudaMalloc(&elsewhere, 40 * 8 * 8));
        assert_cuda(cudaSetDevice(0));
        wrong = s, wrong.x.data = elsewhere;
        assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "x lies on GPU 1");
        assert_cuda(cudaFree(elsewhere));
    }
    assert_ok(run_step(&s)); /* and nothing was harmed */
}

static void wrong_shapes(void **state) {
    (void)state;
    static const gpu_case c = GAUSSIAN_CASE(40, 1, 8, 5);
    step s = make_step(NULL, &c, CIRCE_FLOAT64), wrong;
    const bench *b = &s.b;
    circe_cuda *cuda = NULL;
    wrong = s, wrong.y.rows = 39;
    assert_refused(run_step(&wrong), CIRCE_ERR_SHAPE, "y has 39 rows and zeta has 40");
    wrong = s, wrong.y.rows = wrong.zeta.rows = 39;
    assert_refused(run_step(&wrong), CIRCE_ERR_SHAPE, "y has 39 rows and x has 40");
    wrong = s, wrong.y.dtype = CIRCE_FLOAT32;
    assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "y is float32 and x is float64");
    wrong = s, wrong.grad.cols = 7;
    assert_refused(run_step(&wrong), CIRCE_ERR_SHAPE, "grad is 40 by 7; it must be 40 by 8");
    wrong = s, wrong.x.data = NULL;
    assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "x must not be NULL");
    wrong = s, wrong.b.cuda = NULL;
    assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "cuda must not be NULL");
    wrong = s, wrong.b.kernel_x = test_kernel(b->context, "gaussian");
    assert_refused(run_step(&wrong), CIRCE_ERR_ARGUMENT, "has no width yet");
    wrong = s, wrong.b.kernel_x =
                   test_kernel(b->context, "0:delta*1:delta*2:delta*3:delta*4:delta*5:delta*6:delta*7:delta*0:delta");
    assert_refused(run_step(&wrong), CIRCE_ERR_UNSUPPORTED, "a GPU supports at most 8");
    assert_refused(circe_cuda_open(b->context, 99, NULL, &cuda), CIRCE_ERR_ARGUMENT, "there is no GPU 99");
    assert_refused(circe_cuda_open(b->context, -1, NULL, &cuda), CIRCE_ERR_ARGUMENT, "there is no GPU -1");
    assert_refused(circe_cuda_reserve(b->cuda, 0, 1, CIRCE_FLOAT32), CIRCE_ERR_SHAPE, "0 points");
    assert_ok(run_step(&s));
}

TEST_MAIN("gpu", TEST(small_cases), TEST(large_cases), TEST(tensor_cores_lose_nothing), TEST(behind_an_index),
          TEST(hsic), TEST(linear_far_from_zero), TEST(one_point), TEST(residual_features), TEST(outside_the_span),
          TEST(inside_the_span), TEST(outside_repeats), TEST(features_of_a_data_set), TEST(same_bits),
          TEST(two_streams), TEST(graph), TEST(capture_without_scratch), TEST(wrong_memory), TEST(wrong_shapes))

#endif
