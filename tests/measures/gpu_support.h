/* What the tests of the GPU share: objects on the device that clean up after themselves, copies there and back. Each
 * test is registered with TEST, which is this header's own; where there is no GPU, open_on says so and skips. */
#pragma once

#include <fenv.h>

#include <cuda_runtime_api.h>

#include "tests/support.h"

#define assert_cuda(call) assert_string_equal(cudaGetErrorName(call), "cudaSuccess")

/* ---- what a test owns on the device ---------------------------------------------------------------------- */

enum { DEVICE_BLOCKS = 4096 };
static void *device_memory[DEVICE_BLOCKS];
static circe_cuda *handles[64];
static int n_memory, n_handles;

static inline int clean(void **state) {
    while (n_handles > 0) circe_cuda_close(handles[--n_handles]);
    while (n_memory > 0) cudaFree(device_memory[--n_memory]);
    return test_clean(state);
}
#undef TEST
#define TEST(function) cmocka_unit_test_teardown(function, clean)

static inline circe_cuda *open_on(circe_context *context, void *stream) {
    circe_cuda *cuda = NULL;
    circe_status status = circe_cuda_open(context, 0, stream, &cuda);
    if (status == CIRCE_ERR_UNSUPPORTED) test_skip("no NVIDIA GPU (%s)", circe_last_error());
    assert_ok(status);
    assert_true(n_handles < COUNT(handles));
    return handles[n_handles++] = cuda;
}

static inline void *device_block(size_t bytes) {
    assert_true(n_memory < DEVICE_BLOCKS);
    assert_cuda(cudaMalloc(&device_memory[n_memory], bytes));
    assert_cuda(cudaMemset(device_memory[n_memory], 0xff, bytes)); /* NaN: what is not written is seen */
    assert_cuda(cudaDeviceSynchronize()); /* here and below: a stream of the test's does not wait for the default one */
    return device_memory[n_memory++];
}

/* A view on the device with `gap` unused elements after each row. */
static inline circe_mat device_empty(int64_t rows, int64_t cols, circe_dtype dtype, int64_t gap) {
    size_t size = circe_dtype_size(dtype);
    void *data = device_block((size_t)(rows * (cols + gap)) * size);
    return (circe_mat){data, rows, cols, cols + gap, dtype};
}

static inline circe_mat device_copy(const circe_mat *from, circe_dtype dtype, int64_t gap) {
    circe_mat own = test_copy(from, dtype), to = device_empty(from->rows, from->cols, dtype, gap);
    size_t size = circe_dtype_size(dtype);
    assert_cuda(cudaMemcpy2D(to.data, (size_t)to.ld * size, own.data, (size_t)own.ld * size, (size_t)own.cols * size,
                             (size_t)own.rows, cudaMemcpyHostToDevice));
    assert_cuda(cudaDeviceSynchronize());
    return to;
}

/* As float64. */
static inline circe_mat host_copy(const circe_mat *from) {
    circe_mat own = test_zeros(from->rows, from->cols, from->dtype);
    size_t size = circe_dtype_size(from->dtype);
    assert_cuda(cudaDeviceSynchronize());
    assert_cuda(cudaMemcpy2D(own.data, (size_t)own.ld * size, from->data, (size_t)from->ld * size,
                             (size_t)own.cols * size, (size_t)own.rows, cudaMemcpyDeviceToHost));
    return test_copy(&own, CIRCE_FLOAT64);
}

static inline double host_value(const double *value) {
    double copy = NAN;
    assert_cuda(cudaDeviceSynchronize());
    assert_cuda(cudaMemcpy(&copy, value, sizeof copy, cudaMemcpyDeviceToHost));
    return copy;
}

/* ---- points ---------------------------------------------------------------------------------------------- */

static const circe_dtype dtypes[] = {CIRCE_FLOAT32, CIRCE_FLOAT64};

/* Of the sum of the absolute terms for a value, of the largest element for gradients and witnesses. */
static inline double tolerance_of(circe_dtype dtype) { return dtype == CIRCE_FLOAT32 ? 1e-4 : 1e-10; }

/* Normal numbers that float32 holds, the last columns whole; float64. */
static inline circe_mat draw(uint64_t stream, int64_t rows, int64_t cols, int64_t categories, double offset) {
    circe_mat m = test_normal(stream, rows, cols), whole = test_categories(stream + 50, rows, cols, 3);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            test_set(&m, i, j, j >= cols - categories ? test_at(&whole, i, j) : test_at(&m, i, j) + offset);
    circe_mat rounded = test_copy(&m, CIRCE_FLOAT32);
    return test_copy(&rounded, CIRCE_FLOAT64);
}

/* ---- a step of training ---------------------------------------------------------------------------------- */

/* What can be queued again and again: a measure of points x that gives value and grad, or features of
 * them in its place, all on the device. */
typedef struct gpu_step {
    circe_status (*run)(void *own);
    void *own;
    circe_cuda *cuda;
    circe_mat x, grad; /* without gaps */
    const double *value;
} gpu_step;

/* Also where the program rounds in its own way, which is as it was afterwards. */
static inline void check_same_bits(const gpu_step *s) {
    assert_ok(s->run(s->own));
    circe_mat first = host_copy(&s->grad);
    double value = host_value(s->value);
    for (int again = 0; again < 5; again++) {
        fesetround(again < 3 ? FE_TONEAREST : FE_UPWARD);
        circe_status status = s->run(s->own);
        int rounding = fegetround();
        fesetround(FE_TONEAREST);
        assert_ok(status);
        assert_int_equal(rounding, again < 3 ? FE_TONEAREST : FE_UPWARD);
        circe_mat second = host_copy(&s->grad);
        assert_mat_equal(&first, &second);
        assert_true(host_value(s->value) == value);
    }
}

/* Two steps on streams of their own, queued in turn, give what each gives alone. */
static inline void check_together(const gpu_step steps[2]) {
    circe_mat alone[2];
    for (int k = 0; k < 2; k++) {
        assert_ok(steps[k].run(steps[k].own));
        alone[k] = host_copy(&steps[k].grad);
    }
    for (int again = 0; again < 20; again++)
        for (int k = 0; k < 2; k++) assert_ok(steps[k].run(steps[k].own));
    for (int k = 0; k < 2; k++) {
        circe_mat together = host_copy(&steps[k].grad);
        assert_mat_equal(&together, &alone[k]);
    }
}

/* Captured once and replayed on other points; nothing is allocated. The scratch was reserved. */
static inline void check_replay(const gpu_step *s, cudaStream_t stream) {
    cudaGraph_t captured;
    cudaGraphExec_t ready;
    size_t size = (size_t)(s->x.rows * s->x.cols) * circe_dtype_size(s->x.dtype), bytes = circe_cuda_bytes(s->cuda);
    size_t all = (size_t)(s->grad.rows * s->grad.cols) * circe_dtype_size(s->grad.dtype);
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_ok(s->run(s->own));
    assert_cuda(cudaStreamEndCapture(stream, &captured));
    assert_cuda(cudaGraphInstantiate(&ready, captured, 0));
    for (uint64_t other = 0; other < 3; other++) {
        circe_mat points = draw(20 + other, s->x.rows, s->x.cols, 0, 0.0), own = test_copy(&points, s->x.dtype);
        assert_cuda(cudaMemcpy(s->x.data, own.data, size, cudaMemcpyHostToDevice));
        assert_cuda(cudaDeviceSynchronize());
        assert_ok(s->run(s->own));
        circe_mat direct = host_copy(&s->grad);
        assert_cuda(cudaMemset(s->grad.data, 0xff, all));
        assert_cuda(cudaDeviceSynchronize());
        assert_cuda(cudaGraphLaunch(ready, stream));
        circe_mat replayed = host_copy(&s->grad);
        assert_true(isfinite(test_max(&direct)) && test_max(&direct) > 0.0);
        assert_mat_equal(&direct, &replayed);
    }
    assert_int_equal(circe_cuda_bytes(s->cuda), bytes);
    assert_cuda(cudaGraphExecDestroy(ready));
    assert_cuda(cudaGraphDestroy(captured));
}

/* A step that cannot be captured as things are: refused, and the capture stays whole. */
static inline void check_not_captured(const gpu_step *s, cudaStream_t stream, const char *part) {
    cudaGraph_t captured;
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_refused(s->run(s->own), CIRCE_ERR_ARGUMENT, part);
    assert_cuda(cudaStreamEndCapture(stream, &captured));
    assert_cuda(cudaGraphDestroy(captured));
}
