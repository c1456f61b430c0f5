/* Fits on the GPU against the CPU: the same choices, the same leave-one-out table, the same model.
 *
 * Tolerances: errors of leave-one-out 1e-10 of themselves where the ridge is what it should be (the features' own
 * rounding, cond(L) eps, is below that); K^c of other points 1e-9 of its largest element. */
#include "tests/support.h"

#ifndef CIRCE_TEST_CUDA

static void says_so(void **state) {
    (void)state;
    circe_cme *cme = NULL;
    assert_refused(circe_cuda_cme_fit(NULL, NULL, NULL, NULL, NULL, NULL, &cme), CIRCE_ERR_UNSUPPORTED, "has no CUDA");
    assert_null(cme);
}

static void on_a_gpu(void **state) {
    (void)state;
    test_skip("built without CUDA (cmake --preset cuda)");
}

TEST_MAIN("gpu_fit", TEST(says_so), TEST(on_a_gpu))

#else

#include "tests/measures/gpu_support.h"

typedef struct fit_case {
    int64_t rows, d_y, d_z;
    const char *kernel_y, *kernel_z;
    circe_method method;
    circe_method solver; /* what is expected to solve it */
} fit_case;

static const fit_case cases[] = {
    {2, 1, 1, "gaussian", "gaussian(1)", CIRCE_METHOD_AUTO, CIRCE_METHOD_DENSE},
    {31, 1, 1, "gaussian", "gaussian(1)", CIRCE_METHOD_LOWRANK, CIRCE_METHOD_LOWRANK},
    {33, 2, 2, "laplace(1)", "linear", CIRCE_METHOD_DENSE, CIRCE_METHOD_DENSE},
    {511, 2, 1, "0:gaussian*1:delta", "gaussian(0.5)", CIRCE_METHOD_AUTO, CIRCE_METHOD_DENSE},
    {600, 1, 1, "gaussian", "gaussian(0.5)", CIRCE_METHOD_AUTO, CIRCE_METHOD_LOWRANK},
    {600, 3, 2, "gaussian", "gaussian(1)", CIRCE_METHOD_DENSE, CIRCE_METHOD_DENSE},
    {1023, 6, 1, "gaussian(1)", "gaussian(1)", CIRCE_METHOD_AUTO, CIRCE_METHOD_DENSE},
    {1025, 2, 3, "0:gaussian*1:gaussian(2)", "linear", CIRCE_METHOD_LOWRANK, CIRCE_METHOD_LOWRANK},
    {1100, 1, 5, "gaussian", "gaussian(1)", CIRCE_METHOD_LOWRANK, CIRCE_METHOD_LOWRANK}, /* z of full rank */
    {9001, 1, 1, "gaussian", "gaussian(0.05)", CIRCE_METHOD_AUTO, CIRCE_METHOD_LOWRANK}, /* pivots among candidates */
};

static circe_mat follow(uint64_t stream, const circe_mat *y, int64_t cols) {
    circe_mat m = test_normal(stream, y->rows, cols);
    for (int64_t i = 0; i < y->rows; i++)
        for (int64_t j = 0; j < cols; j++)
            test_set(&m, i, j, 0.3 * test_at(&m, i, j) + sin(2.0 * test_at(y, i, j % y->cols)));
    circe_mat rounded = test_copy(&m, CIRCE_FLOAT32);
    return test_copy(&rounded, CIRCE_FLOAT64);
}

typedef struct pair {
    circe_context *context;
    circe_cuda *cuda;
    circe_mat y, z;
    circe_kernel *kernel_y, *kernel_z;
    circe_cme_options options;
    circe_cme *cpu, *gpu; /* the second is the caller's to destroy */
} pair;

static pair set_up(const fit_case *c) {
    pair p = {.context = test_context(2)};
    p.cuda = open_on(p.context, NULL);
    p.y = draw(1, c->rows, c->d_y, strstr(c->kernel_y, "delta") == NULL ? 0 : 1, 0.0);
    p.z = follow(2, &p.y, c->d_z);
    p.kernel_y = test_kernel(p.context, c->kernel_y);
    p.kernel_z = test_kernel(p.context, c->kernel_z);
    circe_cme_options_init(&p.options);
    p.options.method = c->method;
    return p;
}

static circe_status fit_gpu(pair *p, circe_dtype dtype) {
    circe_mat y = device_copy(&p->y, dtype, 2), z = device_copy(&p->z, dtype, 0);
    return circe_cuda_cme_fit(p->cuda, &y, &z, p->kernel_y, p->kernel_z, &p->options, &p->gpu);
}

/* What both tell about themselves. */
static void compare_info(const pair *p) {
    circe_cme_info cpu, gpu;
    circe_loo_table want, got;
    assert_ok(circe_cme_get_info(p->cpu, &cpu));
    assert_ok(circe_cme_get_info(p->gpu, &gpu));
    assert_ok(circe_cme_get_loo(p->cpu, &want));
    assert_ok(circe_cme_get_loo(p->gpu, &got));
    assert_int_equal(gpu.solver, cpu.solver);
    assert_int_equal(gpu.method, cpu.method);
    assert_int_equal(gpu.rank_y, cpu.rank_y);
    assert_int_equal(gpu.rank_z, cpu.rank_z);
    assert_true(gpu.sigma2_y == cpu.sigma2_y);
    assert_near(gpu.ridge, cpu.ridge, 1e-10, cpu.ridge);
    assert_near(gpu.trace_residual_y, cpu.trace_residual_y, 1e-3, cpu.trace_residual_y + 1e-12);
    assert_near(gpu.trace_residual_z, cpu.trace_residual_z, 1e-3, cpu.trace_residual_z + 1e-12);
    assert_int_equal(circe_cme_n_warnings(p->gpu), circe_cme_n_warnings(p->cpu));
    assert_int_equal(got.n_sigma2_y, want.n_sigma2_y);
    assert_int_equal(got.n_ridge, want.n_ridge);
    for (int64_t e = 0; e < got.n_sigma2_y * got.n_ridge; e++)
        assert_near(got.error[e], want.error[e], 1e-10, want.error[e]);
}

/* K^c of points that took no part. */
static void compare_models(const pair *p, const circe_cme *gpu) {
    enum { B = 60 };
    circe_mat y = draw(21, B, p->y.cols, 0, 0.0), z = follow(22, &y, p->z.cols);
    circe_mat want = test_zeros(B, B, CIRCE_FLOAT64), got = test_zeros(B, B, CIRCE_FLOAT64);
    circe_workspace *workspace = test_workspace(p->context);
    assert_ok(circe_residual_gram(workspace, p->cpu, &y, &z, &want));
    assert_ok(circe_residual_gram(workspace, gpu, &y, &z, &got));
    assert_mat_near(&got, &want, 1e-9);
}

static void check_case(const fit_case *c, circe_dtype dtype) {
    pair p = set_up(c);
    circe_cme_info info;
    assert_ok(circe_cme_fit(p.context, &p.y, &p.z, p.kernel_y, p.kernel_z, &p.options, &p.cpu));
    assert_ok(fit_gpu(&p, dtype));
    assert_ok(circe_cme_get_info(p.cpu, &info));
    assert_int_equal(info.solver, c->solver);
    compare_info(&p);
    compare_models(&p, p.gpu);
    circe_cme_destroy(p.cpu);
    circe_cme_destroy(p.gpu);
}

static void fits(void **state) {
    for (int64_t k = 0; k < COUNT(cases); k++) {
        check_case(&cases[k], dtypes[k % 2]);
        clean(state);
    }
}

/* An ordinary model: saved and loaded, and the same bits when it is made again. */
static void ordinary_models(void **state) {
    (void)state;
    for (int64_t k = 4; k <= 5; k++) {
        pair p = set_up(&cases[k]);
        circe_loo_table first, second;
        circe_cme *again = NULL;
        assert_ok(circe_cme_fit(p.context, &p.y, &p.z, p.kernel_y, p.kernel_z, &p.options, &p.cpu));
        assert_ok(fit_gpu(&p, CIRCE_FLOAT64));
        assert_ok(circe_cme_save(p.gpu, test_path("model.safetensors")));
        compare_models(&p, test_load(p.context, test_path("model.safetensors")));
        again = p.gpu;
        assert_ok(fit_gpu(&p, CIRCE_FLOAT64));
        assert_ok(circe_cme_get_loo(again, &first));
        assert_ok(circe_cme_get_loo(p.gpu, &second));
        assert_memory_equal(first.error, second.error, sizeof(double) * (size_t)(first.n_ridge * first.n_sigma2_y));
        circe_cme_destroy(again);
        circe_cme_destroy(p.cpu);
        circe_cme_destroy(p.gpu);
        clean(state);
    }
}

/* Random features are drawn on the host, from the grid that the GPU searched. */
static void random_features(void **state) {
    (void)state;
    fit_case c = cases[4];
    c.method = CIRCE_METHOD_RFF;
    pair p = set_up(&c);
    p.options.seed = 5;
    assert_ok(circe_cme_fit(p.context, &p.y, &p.z, p.kernel_y, p.kernel_z, &p.options, &p.cpu));
    assert_ok(fit_gpu(&p, CIRCE_FLOAT64));
    compare_info(&p);
    compare_models(&p, p.gpu);
    circe_cme_destroy(p.cpu);
    circe_cme_destroy(p.gpu);
}

/* A ridge that must be raised, many ridges, ranks that are not allowed. */
static void options(void **state) {
    (void)state;
    double ridge[40], sigma2[] = {0.3};
    for (int64_t l = 0; l < 40; l++) ridge[l] = pow(10.0, -18.0 + 0.5 * (double)l);
    for (int64_t k = 5; k <= 6; k++) {
        pair p = set_up(&cases[k]);
        p.options.ridge = ridge + (k == 6 ? 20 : 0);
        p.options.n_ridge = k == 6 ? 20 : 40;
        p.options.sigma2_y = sigma2;
        p.options.n_sigma2_y = 1;
        assert_ok(circe_cme_fit(p.context, &p.y, &p.z, p.kernel_y, p.kernel_z, &p.options, &p.cpu));
        assert_ok(fit_gpu(&p, CIRCE_FLOAT64));
        circe_cme_info cpu, gpu;
        assert_ok(circe_cme_get_info(p.cpu, &cpu));
        assert_ok(circe_cme_get_info(p.gpu, &gpu));
        assert_near(gpu.ridge, cpu.ridge, 1e-6, cpu.ridge); /* raised to eps times the largest eigenvalue */
        assert_near(gpu.loo_error, cpu.loo_error, 1e-6, cpu.loo_error);
        circe_cme_destroy(p.cpu);
        circe_cme_destroy(p.gpu);
        clean(state);
    }
    pair p = set_up(&cases[7]);
    p.options.max_rank = 10;
    assert_refused(fit_gpu(&p, CIRCE_FLOAT64), CIRCE_ERR_RANK,
                   "the kernel matrix of y does not have low rank: after 10 pivots");
    assert_null(p.gpu);
    p.options.max_rank = 0;
    assert_ok(fit_gpu(&p, CIRCE_FLOAT64)); /* and nothing was harmed */
    circe_cme_destroy(p.gpu);
}

static void refusals(void **state) {
    (void)state;
    pair p = set_up(&cases[4]);
    circe_mat y = device_copy(&p.y, CIRCE_FLOAT64, 0), z = device_copy(&p.z, CIRCE_FLOAT64, 0), wrong;
    circe_cme *cme = NULL;
    double nan = NAN;
#define FIT(y, z, cuda) circe_cuda_cme_fit(cuda, y, z, p.kernel_y, p.kernel_z, NULL, &cme)
    assert_refused(FIT(&p.y, &z, p.cuda), CIRCE_ERR_ARGUMENT, "y lies in the host's memory");
    assert_refused(FIT(&y, &p.z, p.cuda), CIRCE_ERR_ARGUMENT, "z lies in the host's memory");
    assert_refused(FIT(&y, &z, NULL), CIRCE_ERR_ARGUMENT, "cuda and cme must not be NULL");
    wrong = z, wrong.rows = 599;
    assert_refused(FIT(&y, &wrong, p.cuda), CIRCE_ERR_SHAPE, "y has 600 rows and z has 599");
    cudaStream_t stream;
    cudaGraph_t captured;
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_ok(circe_cuda_set_stream(p.cuda, stream));
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_refused(FIT(&y, &z, p.cuda), CIRCE_ERR_ARGUMENT, "cannot be captured");
    assert_cuda(cudaStreamEndCapture(stream, &captured));
    assert_cuda(cudaGraphDestroy(captured));
    assert_ok(FIT(&y, &z, p.cuda)); /* on this stream */
    circe_cme_destroy(cme);
    assert_cuda(cudaMemcpy((double *)z.data + 7, &nan, sizeof nan, cudaMemcpyHostToDevice));
    assert_refused(FIT(&y, &z, p.cuda), CIRCE_ERR_VALUE, "z contains a NaN");
    assert_null(cme);
    assert_ok(circe_cuda_set_stream(p.cuda, NULL));
    assert_cuda(cudaStreamDestroy(stream));
#undef FIT
}

TEST_MAIN("gpu_fit", TEST(fits), TEST(ordinary_models), TEST(random_features), TEST(options), TEST(refusals))

#endif
