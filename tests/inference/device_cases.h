/* Data sets on which a device must agree with the host, for test_device.c and test_gpu_inference.c. */
#pragma once

#include "tests/inference/inference_support.h"

typedef struct device_case {
    circe_test_method method;
    circe_test_null null;
    int64_t rows, d_y, d_x; /* d_y 0: marginal */
    int kind;               /* 0: smooth; 1: y has seven values; 2: skewed y, a jump; 3: weights */
    double shared;
    const char *kernel_y; /* NULL: automatic */
} device_case;

static const device_case device_cases[] = {
    {CIRCE_TEST_KCI, CIRCE_NULL_AUTO, 8300, 1, 1, 0, 0.02, NULL},
    {CIRCE_TEST_KCI, CIRCE_NULL_AUTO, 8193, 1, 2, 2, 0.03, NULL},
    {CIRCE_TEST_KCI, CIRCE_NULL_AUTO, 8300, 2, 1, 3, 0.0, "gaussian(2)"},
    {CIRCE_TEST_KCI, CIRCE_NULL_AUTO, 8300, 1, 1, 1, 0.0, NULL},
    {CIRCE_TEST_KCI, CIRCE_NULL_AUTO, 8300, 0, 1, 0, 0.02, NULL},
    {CIRCE_TEST_CIRCE, CIRCE_NULL_AUTO, 8300, 1, 1, 0, 0.02, NULL},
    {CIRCE_TEST_CIRCE, CIRCE_NULL_GAMMA, 8300, 1, 1, 0, 0.02, "gaussian(0.5)"},
    {CIRCE_TEST_GCM, CIRCE_NULL_AUTO, 8300, 1, 1, 0, 0.01, NULL},
    {CIRCE_TEST_GCM, CIRCE_NULL_AUTO, 8300, 2, 3, 3, 0.01, NULL},
    {CIRCE_TEST_GCM, CIRCE_NULL_AUTO, 8300, 1, 1, 1, 0.01, NULL},
    {CIRCE_TEST_RCOT, CIRCE_NULL_AUTO, 8300, 1, 1, 0, 0.02, NULL},
    {CIRCE_TEST_RCOT, CIRCE_NULL_AUTO, 20500, 1, 1, 0, 0.01, NULL},
    {CIRCE_TEST_RCOT, CIRCE_NULL_GAMMA, 20500, 1, 2, 3, 0.01, NULL},
    {CIRCE_TEST_RCOT, CIRCE_NULL_AUTO, 20500, 0, 1, 0, 0.01, NULL},
};

/* x = sin(y_1) + y_2 y_3 / 2 + e; z = cos(y_1) + y_2 / 2 + e' + shared e. */
static inline sample device_sample(const device_case *c, int64_t n, uint64_t stream) {
    sample s = {test_normal(3 * stream, n, c->d_x), test_normal(3 * stream + 1, n, c->d_y > 0 ? c->d_y : 1),
                test_normal(3 * stream + 2, n, 1)};
    for (int64_t i = 0; i < n; i++) {
        double y = test_at(&s.y, i, 0), e = test_at(&s.x, i, 0), jump = 0.0;
        if (c->kind == 1) test_set(&s.y, i, 0, y = floor(fmin(fmax(2.0 * y, -3.0), 3.0)));
        if (c->kind == 2) {
            jump = y > 0.3 ? 1.0 : 0.0;
            test_set(&s.y, i, 0, exp(y));
        }
        double more = c->d_y > 1 ? 0.5 * test_at(&s.y, i, 1) * (c->d_y > 2 ? test_at(&s.y, i, 2) : 1.0) : 0.0;
        test_set(&s.x, i, 0, sin(y) + jump + more + 0.5 * e);
        test_set(&s.z, i, 0, cos(y) + jump + more + 0.5 * test_at(&s.z, i, 0) + c->shared * e);
    }
    return s;
}

/* The result on the device is that of the host, up to `relative` of p-values, statistics and what describes them. The
 * misfit adds what the target has along directions of the least eigenvalues, where rounding counts most, and it is
 * compared with .8. */
static inline void device_case_check(circe_context *context, const device_case *c, int64_t rows,
                                     circe_test_device *device, double relative) {
    sample s = device_sample(c, rows, 7);
    circe_mat weights = test_normal(99, rows, 1);
    circe_test_options options = options_of(c->method);
    options.null = c->null;
    if (c->kernel_y != NULL) options.kernel_y = test_kernel(context, c->kernel_y);
    for (int64_t i = 0; i < rows; i++) test_set(&weights, i, 0, 0.1 + fabs(test_at(&weights, i, 0)));
    if (c->kind == 3) options.weights = weights.data;
    const circe_mat *y = c->d_y == 0 ? NULL : &s.y;
    circe_test_result host = run(context, &s.x, y, &s.z, &options);
    options.device = device;
    circe_test_result there = run(context, &s.x, y, &s.z, &options);
    print_message("# %s %s n = %lld d_y = %lld kind %d: p = %.12g, on the device off by %.1e of it; %.0f and %.0f ms\n",
                  circe_test_method_name(c->method), circe_test_null_name(host.null), (long long)rows,
                  (long long)c->d_y, c->kind, host.p_value, fabs(there.p_value / host.p_value - 1.0),
                  1e3 * host.seconds, 1e3 * there.seconds);
    assert_true(there.on_device && !host.on_device);
    assert_int_equal(there.null, host.null);
    assert_string_equal(there.x.basis, host.x.basis);
    assert_string_equal(there.z.basis, host.z.basis);
    assert_string_equal(there.verdict, host.verdict);
    assert_int_equal(there.trust, host.trust);
    assert_int_equal(there.x.rank, host.x.rank);
    assert_int_equal(there.z.rank, host.z.rank);
    assert_int_equal(there.rank_x, host.rank_x);
    assert_int_equal(there.rank_z, host.rank_z);
    const double pairs[][2] = {{there.p_value, host.p_value},
                               {there.statistic, host.statistic},
                               {there.null_mean, host.null_mean},
                               {there.null_sd, host.null_sd},
                               {there.x.ridge, host.x.ridge},
                               {there.z.ridge, host.z.ridge},
                               {there.x.loo_error, host.x.loo_error},
                               {there.z.loo_error, host.z.loo_error},
                               {there.x.remaining, host.x.remaining},
                               {there.z.remaining, host.z.remaining},
                               {there.x.check_p, host.x.check_p},
                               {there.z.check_p, host.z.check_p},
                               {there.effective_rows, host.effective_rows},
                               {there.mid_p, host.mid_p}};
    /* rcot's eigenvalues reach below rounding of the largest, and its smallest ridges nearly there */
    const bool rcot = c->method == CIRCE_TEST_RCOT;
    const double loose = rcot ? 1e-3 : relative, all = rcot ? 10.0 * relative : relative;
    assert_near(there.x.degrees, host.x.degrees, loose, host.x.degrees);
    assert_near(there.z.degrees, host.z.degrees, loose, host.z.degrees);
    if (!isnan(host.misfit)) assert_near(there.misfit, host.misfit, 1e-4, fmax(host.misfit, 0.01));
    for (int64_t k = 0; k < COUNT(pairs); k++)
        if (isnan(pairs[k][1]))
            assert_true(isnan(pairs[k][0]));
        else
            assert_near(pairs[k][0], pairs[k][1], k == 0 ? relative : all, fabs(pairs[k][1]));
}
