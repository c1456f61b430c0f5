/* What the kernels of a job share: its arguments, the memory of a block, small helpers. Part of measure.cu. */
#pragma once

#include "backend/cuda/tiles.cuh"

namespace circe {

enum { THREADS = 256, SETTLE_THREADS = 64, SLOTS = 64, CHUNK_Q = 48 };

/* What every kernel of a job is given. */
template <typename real>
struct args {
    int64_t n;
    int tiles, per_strip, strips, sum_strips;
    const real *witness;
    int64_t ld_witness;
    circe__cuda_kernel kernel;
    points<real> y, zeta;
    const int64_t *index;
    int64_t rows;
    double scale, over_rows, over_total;
    int zero_diagonal;
    double *sums, *row_shift, *totals; /* (strips, n), (n), (blocks of settle) */
    int n_totals;
    circe__cuda_kernel kernel_x;
    points<real> x;
    real *slots;    /* (strips, n, d) or NULL */
    double *values; /* (pairs of strips) */
    double *value;
    real *grad;
    int64_t ld_grad;
};

/* Pair b of strips (P, Q <= P). */
__device__ __forceinline__ int2 pair_of(int b) {
    int p = (int)((sqrtf(8.0f * (float)b + 1.0f) - 1.0f) * 0.5f);
    while ((p + 1) * (p + 2) / 2 <= b) p++;
    while (p * (p + 1) / 2 > b) p--;
    return make_int2(p, b - p * (p + 1) / 2);
}

/* Waits for the kernel before this one in the stream, where it was launched to overlap with it. */
__device__ __forceinline__ void await_previous() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* The sum of one number a thread, to every thread. */
__device__ double block_sum(double mine) {
    __shared__ double warps[32];
    for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < (int)blockDim.x / 32; w++) sum += warps[w];
    return sum;
}

/* P takes the place of the features, which are used up by then. */
template <typename real, int TILE, int CHUNK, int BLOCK = THREADS>
struct memory {
    using S = shape<real, TILE, BLOCK>;
    static constexpr int PAIR = 2 * CHUNK_Q > TILE ? 2 * CHUNK_Q : TILE;
    real xa[CHUNK * S::LD], xb[CHUNK * S::LD];
    real q[PAIR * S::LD];
    real parts[S::WARPS * TILE];
    real rho_i[TILE], rho_j[TILE], shift_i[TILE], shift_j[TILE];
    int64_t rows_i[TILE], rows_j[TILE];
    double total;
};

}  // namespace circe
