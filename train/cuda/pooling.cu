/* Max-pools whose windows lie side by side: the gradient of all, one thread a window, which it reads and writes whole;
 * and windows of 2 by 2, which are limited by memory, two a thread, so that it reads and writes four numbers at once.
 */
#include "train/cuda/common.cuh"

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

/* ---- windows of 2 by 2 ------------------------------------------------------------------------------------------- */

bool train_cuda_pool_halves(cuda_window w) {
    return w.kernel == 2 && w.stride == 2 && w.padding == 0 && w.width % 4 == 0 && w.height % 2 == 0;
}

/* NaN is larger than any number. */
static __device__ inline float larger(float a, float b) { return a >= b || isnan(a) ? a : b; }

static __device__ inline float largest(float a, float b, float c, float d) {
    return larger(larger(a, b), larger(c, d));
}

/* Two windows i of n: where their upper lines begin. */
static __device__ inline int64_t upper(const cuda_window &w, int64_t i) {
    int in_line = w.width / 4;
    int64_t line = i / in_line;
    return 2 * line * w.width + (i - line * in_line) * 4;
}

static __global__ void pool_halves(cuda_window w, int64_t n, const float *in, float *out) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *from = in + upper(w, i);
    float4 a = *(const float4 *)from, b = *(const float4 *)(from + w.width);
    ((float2 *)out)[i] = {largest(a.x, a.y, b.x, b.y), largest(a.z, a.w, b.z, b.w)};
}

static __device__ inline bool is_first(float value, float top, bool &found) {
    bool is = !found && (value == top || (isnan(value) && isnan(top)));
    found = found || is;
    return is;
}

static __global__ void pool_halves_back(cuda_window w, int64_t n, const float *in, const float *out,
                                        const float *grad_out, float *grad_in) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    int64_t at = upper(w, i);
    float4 a = *(const float4 *)(in + at), b = *(const float4 *)(in + at + w.width), up, down;
    float2 top = ((const float2 *)out)[i], g = ((const float2 *)grad_out)[i];
    bool left = false, right = false;
    up.x = is_first(a.x, top.x, left) ? g.x : 0.0f;
    up.y = is_first(a.y, top.x, left) ? g.x : 0.0f;
    down.x = is_first(b.x, top.x, left) ? g.x : 0.0f;
    down.y = is_first(b.y, top.x, left) ? g.x : 0.0f;
    up.z = is_first(a.z, top.y, right) ? g.y : 0.0f;
    up.w = is_first(a.w, top.y, right) ? g.y : 0.0f;
    down.z = is_first(b.z, top.y, right) ? g.y : 0.0f;
    down.w = is_first(b.w, top.y, right) ? g.y : 0.0f;
    *(float4 *)(grad_in + at) = up;
    *(float4 *)(grad_in + at + w.width) = down;
}

static int64_t pairs_of(cuda_window w) { return w.rows * w.channels * w.out_height * (w.out_width / 2); }

cudaError_t train_cuda_pool_forward(cuda_window w, const float *in, float *out, void *stream) {
    int64_t n = pairs_of(w);
    pool_halves<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, on(stream)>>>(w, n, in, out);
    return cudaGetLastError();
}

/* ------------------------------------------------------------------------------------------------------------------ */

cudaError_t train_cuda_pool_back(cuda_window w, const float *in, const float *out, const float *grad_out,
                                 float *grad_in, void *stream) {
    int64_t n = w.rows * w.channels * w.out_height * w.out_width;
    if (train_cuda_pool_halves(w)) {
        n = pairs_of(w);
        pool_halves_back<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, on(stream)>>>(w, n, in, out, grad_out,
                                                                                              grad_in);
        return cudaGetLastError();
    }
    pool_back<<<blocks_for(n, THREADS), THREADS, 0, on(stream)>>>(w, n, in, out, grad_out, grad_in);
    return cudaGetLastError();
}
