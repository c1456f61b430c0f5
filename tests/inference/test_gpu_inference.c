/* Tests of conditional independence on the GPU against the CPU's: the same decisions, choices and words, and numbers up
 * to rounding (test_device.c has the tolerance's reason; 1e-6). Where there is no GPU this is said and skipped. */
#include "tests/support.h"

#ifndef CIRCE_TEST_CUDA

static void says_so(void **state) {
    (void)state;
    circe_test_device *device = NULL;
    assert_refused(circe_cuda_test_device(NULL, &device), CIRCE_ERR_UNSUPPORTED, "CIRCE_CUDA=ON");
    assert_null(device);
}

static void on_a_gpu(void **state) {
    (void)state;
    test_skip("built without CUDA (cmake --preset cuda)");
}

TEST_MAIN("gpu_inference", TEST(says_so), TEST(on_a_gpu))

#else

#include "tests/inference/device_cases.h"
#define draw draw_points /* each of the two has its own */
#include "tests/measures/gpu_support.h"

static const device_case more_cases[] = {
    {CIRCE_TEST_KCI, CIRCE_NULL_SPECTRAL, 9000, 1, 1, 0, 0.02, NULL},
    {CIRCE_TEST_KCI, CIRCE_NULL_AUTO, 8193, 3, 2, 0, 0.05, NULL},
    {CIRCE_TEST_KCI, CIRCE_NULL_AUTO, 30000, 1, 1, 2, 0.01, NULL},
    {CIRCE_TEST_CIRCE, CIRCE_NULL_AUTO, 20000, 2, 1, 0, 0.01, NULL},
    {CIRCE_TEST_GCM, CIRCE_NULL_AUTO, 50000, 3, 2, 0, 0.005, NULL},
    {CIRCE_TEST_RCOT, CIRCE_NULL_AUTO, 200000, 2, 1, 0, 0.005, NULL},
};

static void same_results(void **state) {
    (void)state;
    circe_context *context = test_context(8);
    circe_cuda *cuda = open_on(context, NULL);
    circe_test_device *device = NULL;
    assert_ok(circe_cuda_test_device(cuda, &device));
    for (int64_t k = 0; k < COUNT(device_cases); k++)
        device_case_check(context, &device_cases[k], device_cases[k].rows, device, 1e-6);
    for (int64_t k = 0; k < COUNT(more_cases); k++)
        device_case_check(context, &more_cases[k], more_cases[k].rows, device, 1e-6);
    circe_test_device_destroy(device);
}

/* The same bits again, also on a stream of the caller's and with another object. */
static void same_bits(void **state) {
    (void)state;
    circe_context *context = test_context(4);
    cudaStream_t stream = NULL;
    circe_cuda *plain = open_on(context, NULL);
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    circe_cuda *other = open_on(context, stream);
    circe_cuda *const both[] = {plain, plain, other};
    sample s = device_sample(&device_cases[0], 12000, 3);
    circe_test_result first = {0};
    for (int64_t k = 0; k < COUNT(both); k++) {
        circe_test_device *device = NULL;
        circe_test_options options = options_of(CIRCE_TEST_CIRCE);
        assert_ok(circe_cuda_test_device(both[k], &device));
        options.device = device;
        circe_test_result result = run(context, &s.x, &s.y, &s.z, &options);
        assert_true(result.on_device);
        if (k == 0) first = result;
        assert_true(result.p_value == first.p_value && result.statistic == first.statistic &&
                    result.null_mean == first.null_mean && result.z.check_p == first.z.check_p);
        circe_test_device_destroy(device);
    }
    assert_cuda(cudaStreamDestroy(stream));
}

TEST_MAIN("gpu_inference", TEST(same_results), TEST(same_bits))

#endif
