/* Sums and maxima over a block, in an order that the number of threads alone decides. */
#pragma once

namespace circe {

/* The larger one; NaN if either is. */
__device__ __forceinline__ double larger(double a, double b) { return a > b || a != a ? a : b; }

/* For every lane of a warp. */
__device__ __forceinline__ double warp_total(double v) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

template <bool LARGEST>
__device__ __forceinline__ double block_reduce(double v) {
    __shared__ double parts[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        double other = __shfl_xor_sync(0xffffffffu, v, step);
        v = LARGEST ? larger(v, other) : v + other;
    }
    __syncthreads(); /* parts may still be read by a call before */
    if (lane == 0) parts[warp] = v;
    __syncthreads();
    v = parts[0];
    for (int w = 1; w < warps; w++) v = LARGEST ? larger(v, parts[w]) : v + parts[w];
    return v;
}

/* For every thread of the block, whose size is a multiple of 32. */
__device__ __forceinline__ double block_total(double v) { return block_reduce<false>(v); }
__device__ __forceinline__ double block_largest(double v) { return block_reduce<true>(v); }

}  // namespace circe
