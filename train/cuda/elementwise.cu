/* Elementwise kernels. Memory limits their speed, so they read and write four numbers at once if addresses and sizes
 * allow it. */
#include "train/cuda/last.cuh"

static bool in_fours(const void *a, const void *b, const void *c) {
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) & 15) == 0;
}

/* z[i] := f(x[i], y[i]) for i below n, 16 bytes at once and then the rest one by one. */
template <typename F, typename T>
static __global__ void map_pairs(F f, int64_t n, int64_t full, const T *x, const T *y, T *z) {
    constexpr int V = FULL<T>;
    int64_t step = (int64_t)gridDim.x * blockDim.x, start = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    for (int64_t i = start; i < full; i += step) {
        float a[V], b[V];
        load<T, V>(x + i * V, a);
        load<T, V>(y + i * V, b);
#pragma unroll
        for (int v = 0; v < V; v++) a[v] = f(a[v], b[v]);
        store<T, V>(a, z + i * V);
    }
    for (int64_t i = V * full + start; i < n; i += step) narrow(f(wide(x[i]), wide(y[i])), z[i]);
}

template <typename F, typename T>
static cudaError_t map(F f, int64_t n, const T *x, const T *y, T *z, void *stream) {
    if (n == 0) return cudaSuccess;
    int64_t full = in_fours(x, y, z) ? n / FULL<T> : 0, items = full > 0 ? full : n;
    map_pairs<<<blocks_for(items, THREADS), THREADS, 0, on(stream)>>>(f, n, full, x, y, z);
    return cudaGetLastError();
}

/* Of float32 or bfloat16. */
template <typename F>
static cudaError_t map_either(F f, int64_t n, bool half, const void *x, const void *y, void *z, void *stream) {
    return half ? map(f, n, (const bf16 *)x, (const bf16 *)y, (bf16 *)z, stream)
                : map(f, n, (const float *)x, (const float *)y, (float *)z, stream);
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

cudaError_t train_cuda_bend(cuda_bend f, int64_t n, bool half, const void *in, void *out, void *stream) {
    return map_either(bend_one{f}, n, half, in, in, out, stream);
}

cudaError_t train_cuda_bend_sum(cuda_bend f, int64_t n, bool half, const void *x, const void *y, void *out,
                                void *stream) {
    return map_either(bend_two{f}, n, half, x, y, out, stream);
}

cudaError_t train_cuda_bend_back(cuda_bend f, int64_t n, bool half, const void *out, const void *grad_out,
                                 void *grad_in, void *stream) {
    return map_either(unbend{f}, n, half, out, grad_out, grad_in, stream);
}

/* ---- bias and activation ----------------------------------------------------------------------------------------- */

static __global__ void add_bias(cuda_bend f, int64_t n, int channels, const float *bias, float *x) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        x[i] = bend(f, x[i] + bias[i % channels]);
}

cudaError_t train_cuda_bias(cuda_bend f, cuda_dense layer, const float *bias, float *x, void *stream) {
    int64_t n = layer.rows * layer.outputs;
    add_bias<<<blocks_for(n, THREADS), THREADS, 0, on(stream)>>>(f, n, layer.outputs, bias, x);
    return cudaGetLastError();
}
