/* Max-pools of 2 by 2 whose windows lie side by side. Memory limits their speed, so each thread handles two windows and
 * reads and writes four numbers at once. */
#include "train/cuda/common.cuh"

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

cudaError_t train_cuda_pool_back(cuda_window w, const float *in, const float *out, const float *grad_out,
                                 float *grad_in, void *stream) {
    int64_t n = pairs_of(w);
    pool_halves_back<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, on(stream)>>>(w, n, in, out, grad_out,
                                                                                          grad_in);
    return cudaGetLastError();
}
