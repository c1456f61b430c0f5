/* What the kernels share. */
#pragma once

#include "train/cuda/cuda_kernels.h"

enum { THREADS = 256 };

/* As train_layer_kind and train_element have them; device.h checks nothing here, kernels.c does. */
enum { RELU = 2, LEAKY_RELU = 3, TANH = 4 };
enum { FLOATS = 1, BYTES = 2, BITS = 3 };

/* Blocks for n items; loops stride over what is left, so that no grid is too large. */
static inline unsigned blocks_for(int64_t n, int64_t each) {
    int64_t blocks = (n + each - 1) / each;
    return (unsigned)(blocks < 1 ? 1 : blocks > 65535 * 32 ? 65535 * 32 : blocks);
}

static inline cudaStream_t on(void *stream) { return (cudaStream_t)stream; }

/* Division of small numbers by a constant, as a multiplication: exact for n and d below 2^16. */
struct divider {
    unsigned d, m;
    __device__ int quotient(int n) const { return d == 1 ? n : (int)__umulhi((unsigned)n, m); }
};

static inline divider divide_by(int d) { return {(unsigned)d, d == 1 ? 0u : (unsigned)(((1ull << 32) + d - 1) / d)}; }

/* NaN passes, as on the CPU; the derivative at 0 is that of the left side. */
static __device__ inline float bend(cuda_bend f, float x) {
    switch (f.kind) {
        case RELU:
            return x < 0.0f ? 0.0f : x;
        case LEAKY_RELU:
            return x < 0.0f ? f.slope * x : x;
        case TANH:
            return tanhf(x);
        default:
            return x;
    }
}

/* By the output, which has the sign of what was bent. */
static __device__ inline float bend_back(cuda_bend f, float out, float grad) {
    switch (f.kind) {
        case RELU:
            return out <= 0.0f ? 0.0f : grad;
        case LEAKY_RELU:
            return out <= 0.0f ? f.slope * grad : grad;
        case TANH:
            return (1.0f - out * out) * grad;
        default:
            return grad;
    }
}

/* The sum over a block of up to 1024 threads, in thread 0; always in the same order. */
static __device__ inline double block_sum(double x) {
    __shared__ double warps[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = (blockDim.x + 31) / 32;
    for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
    __syncthreads(); /* the sum before this one has been read */
    if (lane == 0) warps[warp] = x;
    __syncthreads();
    x = threadIdx.x < n_warps ? warps[threadIdx.x] : 0.0;
    if (warp == 0)
        for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
    return x;
}

/* All the shared memory that a block may have, whatever this launch needs. The permission is the kernel's and not the
 * launch's: one that followed the size would be lowered by the next, smaller layer, under the launches of other threads
 * and under a recorded step. These kernels have no other shared memory. */
template <typename K>
static cudaError_t allow_shared(K kernel) {
    int device = 0, most = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess) return error;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
}
