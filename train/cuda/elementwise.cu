/* Kernels that take numbers one by one; memory decides their speed, so they read and write four at once where addresses
 * and sizes allow it. */
#include "train/cuda/common.cuh"

static bool in_fours(const void *a, const void *b, const void *c) {
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) & 15) == 0;
}

/* z[i] := f(x[i], y[i]) for i below n, by fours and then the rest one by one. */
template <typename F>
static __global__ void map_pairs(F f, int64_t n, int64_t fours, const float *x, const float *y, float *z) {
    int64_t step = (int64_t)gridDim.x * blockDim.x, start = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    for (int64_t i = start; i < fours; i += step) {
        float4 a = ((const float4 *)x)[i], b = ((const float4 *)y)[i];
        ((float4 *)z)[i] = {f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)};
    }
    for (int64_t i = 4 * fours + start; i < n; i += step) z[i] = f(x[i], y[i]);
}

template <typename F>
static cudaError_t map(F f, int64_t n, const float *x, const float *y, float *z, void *stream) {
    if (n == 0) return cudaSuccess;
    int64_t fours = in_fours(x, y, z) ? n / 4 : 0, items = fours > 0 ? fours : n;
    map_pairs<<<blocks_for(items, THREADS), THREADS, 0, on(stream)>>>(f, n, fours, x, y, z);
    return cudaGetLastError();
}

struct add_one {
    float a;
    __device__ float operator()(float x, float y) const { return y + a * x; }
};

struct add_from_memory {
    const double *a;
    __device__ float operator()(float x, float y) const { return y + (float)*a * x; }
};

struct bend_one {
    cuda_bend f;
    __device__ float operator()(float x, float) const { return bend(f, x); }
};

struct bend_two {
    cuda_bend f;
    __device__ float operator()(float x, float y) const { return bend(f, x + y); }
};

struct unbend {
    cuda_bend f;
    __device__ float operator()(float out, float grad) const { return bend_back(f, out, grad); }
};

cudaError_t train_cuda_add(int64_t n, float a, const float *x, float *y, void *stream) {
    return map(add_one{a}, n, x, y, y, stream);
}

cudaError_t train_cuda_add_times(int64_t n, const double *a, const float *x, float *y, void *stream) {
    return map(add_from_memory{a}, n, x, y, y, stream);
}

cudaError_t train_cuda_bend(cuda_bend f, int64_t n, const float *in, float *out, void *stream) {
    return map(bend_one{f}, n, in, in, out, stream);
}

cudaError_t train_cuda_bend_sum(cuda_bend f, int64_t n, const float *x, const float *y, float *out, void *stream) {
    return map(bend_two{f}, n, x, y, out, stream);
}

cudaError_t train_cuda_bend_back(cuda_bend f, int64_t n, const float *out, const float *grad_out, float *grad_in,
                                 void *stream) {
    return map(unbend{f}, n, out, grad_out, grad_in, stream);
}

/* ---- bias and activation ----------------------------------------------------------------------------------------- */

static __global__ void bias_four(cuda_bend f, int64_t fours, int points, int channels, const float *bias, float *x) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < fours; i += (int64_t)gridDim.x * blockDim.x) {
        float b = bias[(unsigned)(4 * i / points) % channels];
        float4 a = ((const float4 *)x)[i];
        ((float4 *)x)[i] = {bend(f, a.x + b), bend(f, a.y + b), bend(f, a.z + b), bend(f, a.w + b)};
    }
}

static __global__ void bias_one(cuda_bend f, int64_t n, int points, int channels, const float *bias, float *x) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        x[i] = bend(f, x[i] + bias[i / points % channels]);
}

cudaError_t train_cuda_bias(cuda_bend f, cuda_batch batch, const float *bias, float *x, void *stream) {
    int64_t n = batch.rows * batch.channels * batch.points;
    if (batch.points % 4 == 0 && in_fours(x, x, x) && n / batch.points < INT32_MAX)
        bias_four<<<blocks_for(n / 4, THREADS), THREADS, 0, on(stream)>>>(f, n / 4, batch.points, batch.channels, bias,
                                                                          x);
    else
        bias_one<<<blocks_for(n, THREADS), THREADS, 0, on(stream)>>>(f, n, batch.points, batch.channels, bias, x);
    return cudaGetLastError();
}
