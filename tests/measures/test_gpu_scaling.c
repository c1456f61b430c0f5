/* circe_cuda_scale against circe_scale: widths, what the kernel sees, figures and gradients. Where there is no GPU the
 * tests say so and are skipped.
 *
 * Tolerances: both work in float64 from the same numbers, in another order: 1e-12; what is written as float32 is
 * rounded once, 2e-7 of the largest. */
#include "tests/support.h"

#ifndef CIRCE_TEST_CUDA

static void says_so(void **state) {
    (void)state;
    assert_refused(circe_cuda_scale(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), CIRCE_ERR_UNSUPPORTED,
                   "has no CUDA");
    assert_int_equal(circe_cuda_scale_bytes(8, 2), 0);
}

TEST_MAIN("gpu_scaling", TEST(says_so))

#else

#include "tests/measures/gpu_support.h"

enum { D = 5, FACTORS = 3 };

typedef struct sides {
    circe_context *context;
    circe_workspace *workspace;
    circe_cuda *cuda;
} sides;

static sides open_sides(void) {
    sides s = {.context = test_context(1)};
    s.workspace = test_workspace(s.context);
    s.cuda = open_on(s.context, NULL);
    return s;
}

static double *device_numbers(const double *from, int64_t n) {
    double *to = device_block((size_t)n * sizeof *to);
    assert_cuda(cudaMemcpy(to, from, (size_t)n * sizeof *to, cudaMemcpyHostToDevice));
    return to;
}

static void host_numbers(const double *from, int64_t n, double *to) {
    assert_cuda(cudaDeviceSynchronize());
    assert_cuda(cudaMemcpy(to, from, (size_t)n * sizeof *to, cudaMemcpyDeviceToHost));
}

static void check_numbers(const double *got, const double *wanted, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isnan(wanted[i]) || !isnan(got[i])) assert_near(got[i], wanted[i], 1e-12, fmax(fabs(wanted[i]), 1.0));
}

static void check(const sides *s, const char *text, const circe_scaling *how, const circe_mat *x) {
    circe_kernel *kernel = test_kernel(s->context, text);
    int64_t n = circe_kernel_n_factors(kernel), rows = x->rows;
    double tolerance = x->dtype == CIRCE_FLOAT32 ? 2e-7 : 1e-12;
    double widths[FACTORS] = {3.0}, figures[CIRCE_N_FIGURES] = {0.25, 0.5, 1.0}, got[FACTORS], got_figures[3];
    double *device_widths = device_numbers(widths, FACTORS), *device_figures = device_numbers(figures, 3);
    circe_mat out = test_zeros(rows, D, x->dtype), random = test_normal(77, rows, D);
    circe_mat grad = test_copy(&random, x->dtype);
    circe_mat device_x = device_copy(x, x->dtype, 2), device_out = device_empty(rows, D, x->dtype, 1);
    circe_mat device_grad = device_copy(&grad, x->dtype, 3);
    void *scratch = device_block(circe_cuda_scale_bytes(rows, D));
    assert_ok(circe_scale(s->workspace, kernel, how, x, widths, figures, &out));
    assert_ok(circe_cuda_scale(s->cuda, kernel, how, &device_x, device_widths, device_figures, scratch, &device_out));
    host_numbers(device_widths, n, got);
    host_numbers(device_figures, 3, got_figures);
    check_numbers(got, widths, n);
    check_numbers(got_figures, figures, 3);
    circe_mat seen = host_copy(&device_out), wanted = test_copy(&out, CIRCE_FLOAT64);
    assert_mat_near(&seen, &wanted, tolerance);
    assert_ok(circe_scale_gradient(s->workspace, kernel, how, x, widths, &grad));
    assert_ok(circe_cuda_scale_gradient(s->cuda, kernel, how, &device_x, device_widths, scratch, &device_grad));
    seen = host_copy(&device_grad);
    wanted = test_copy(&grad, CIRCE_FLOAT64);
    assert_mat_near(&seen, &wanted, 4.0 * tolerance);
}

static void like_the_host(void **state) {
    (void)state;
    static const char *const texts[] = {"gaussian", "0-1:gaussian*2:laplace*3-4:delta", "laplace(2)", "linear"};
    static const int64_t sizes[] = {3, 64, 65, 300, 1500}; /* of two rows standardised columns have no gradient */
    sides s = open_sides();
    for (int64_t k = 0; k < COUNT(sizes); k++) {
        circe_mat wide = test_normal(5, sizes[k], D);
        for (int64_t i = 0; i < sizes[k]; i++) test_set(&wide, i, 3, 0.0); /* a column that says nothing */
        for (int t = 0; t < COUNT(texts); t++)
            for (int normalize = CIRCE_NORMALIZE_NONE; normalize <= CIRCE_NORMALIZE_BATCH; normalize++)
                for (int d = 0; d < COUNT(dtypes); d++) {
                    circe_scaling how = {.normalize = (circe_normalize)normalize, .keep = t == 0 ? 0.9 : 0.0};
                    circe_mat x = test_copy(&wide, dtypes[d]);
                    check(&s, texts[t], &how, &x);
                    how.frozen = 1;
                    check(&s, texts[t], &how, &x);
                }
    }
}

/* All points coincide, most do, and half do. */
static void few_values(void **state) {
    (void)state;
    static const int64_t others[] = {0, 20, 100};
    sides s = open_sides();
    circe_scaling how = {0};
    for (int64_t k = 0; k < COUNT(others); k++) {
        circe_mat x = test_zeros(200, D, CIRCE_FLOAT32);
        for (int64_t i = 0; i < others[k]; i++) test_set(&x, i, 1, 1.0 + (double)(i % 3));
        check(&s, "gaussian", &how, &x);
    }
}

static void refused(void **state) {
    (void)state;
    sides s = open_sides();
    circe_mat x = test_normal(1, 8, 1), there = device_copy(&x, CIRCE_FLOAT64, 0);
    circe_scaling rows = {.normalize = CIRCE_NORMALIZE_ROWS}, none = {0};
    double width[1] = {0.0}, *device_width = device_numbers(width, 1);
    void *scratch = device_block(circe_cuda_scale_bytes(8, 1));
    assert_refused(circe_cuda_scale(s.cuda, NULL, &rows, &there, device_width, NULL, scratch, NULL), CIRCE_ERR_ARGUMENT,
                   "x has one column");
    assert_refused(circe_cuda_scale(s.cuda, NULL, &none, &there, width, NULL, scratch, NULL), CIRCE_ERR_ARGUMENT,
                   "widths");
}

TEST_MAIN("gpu_scaling", TEST(like_the_host), TEST(few_values), TEST(refused))

#endif
