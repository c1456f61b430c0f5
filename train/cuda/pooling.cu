/* The gradient of max-pools whose windows lie side by side: one thread a window, which it reads and writes whole. */
#include "cuda/common.cuh"

/* What no window covers, at the right and lower ends, gets 0. */
static __device__ inline void put_window(const cuda_window &w, const float *in, float largest, float grad, int y, int x,
                                         float *grad_in) {
    bool found = false;
    int end_y = y == w.out_height - 1 ? w.height : (y + 1) * w.stride;
    int end_x = x == w.out_width - 1 ? w.width : (x + 1) * w.stride;
    for (int i = y * w.stride; i < end_y; i++)
        for (int j = x * w.stride; j < end_x; j++) {
            bool inside = i < y * w.stride + w.kernel && j < x * w.stride + w.kernel;
            float value = inside ? in[i * w.width + j] : 0.0f;
            bool is_largest = inside && !found && (value == largest || (isnan(value) && isnan(largest)));
            grad_in[i * w.width + j] = is_largest ? grad : 0.0f;
            found = found || is_largest;
        }
}

static __global__ void pool_back(cuda_window w, int64_t n, const float *in, const float *out, const float *grad_out,
                                 float *grad_in) {
    int points = w.out_height * w.out_width;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t plane = i / points;
        int at = (int)(i - plane * points);
        put_window(w, in + plane * w.height * w.width, out[i], grad_out[i], at / w.out_width, at % w.out_width,
                   grad_in + plane * w.height * w.width);
    }
}

cudaError_t train_cuda_pool_back(cuda_window w, const float *in, const float *out, const float *grad_out,
                                 float *grad_in, void *stream) {
    int64_t n = w.rows * w.channels * w.out_height * w.out_width;
    pool_back<<<blocks_for(n, THREADS), THREADS, 0, on(stream)>>>(w, n, in, out, grad_out, grad_in);
    return cudaGetLastError();
}
