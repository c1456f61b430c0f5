/* A fit between the products of matrices: pivots, residuals, leave-one-out errors. Formulas: lib/cme/basis.c, lowrank.c
 * and dense.c. */
#include "backend/cuda/fit_kernels.h"

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "backend/cuda/reduce.cuh"
#include "backend/cuda/survey.cuh"
#include "backend/cuda/values.cuh"

namespace {

using circe::better;
using circe::block_total;
using circe::kernel_value;
using circe::larger;
using circe::survey;
using circe::survey_block;

enum { THREADS = 256, WIDE = 1024 };

unsigned blocks(int64_t n, int64_t of) { return (unsigned)((n + of - 1) / of); }

cudaStream_t in(void *stream) { return static_cast<cudaStream_t>(stream); }

/* ---- pivots ---------------------------------------------------------------------------------------------- */

/* A block has POINTS points for itself, or several times as many; GROUPS threads share the sum over the rows of F. */
enum { POINTS = 128, GROUPS = 4, PIVOT_THREADS = POINTS * GROUPS, CHUNK = 512, MOST_BLOCKS = 1024 };

__device__ survey survey_own(const circe__cuda_pivoting &p) {
    survey s = {-1, 0, 0};
    int64_t first = threadIdx.x < POINTS ? (int64_t)blockIdx.x * POINTS + threadIdx.x : p.n;
    for (int64_t i = first; i < p.n; i += (int64_t)gridDim.x * POINTS) s = better(s, {p.left[i], (double)i, p.left[i]});
    return survey_block<PIVOT_THREADS>(s);
}

__device__ survey survey_all(const survey *parts) {
    survey s = {-1, 0, 0};
    for (int b = threadIdx.x; b < (int)gridDim.x; b += PIVOT_THREADS) s = better(s, parts[b]);
    return survey_block<PIVOT_THREADS>(s);
}

/* sum_k F(k, i) F(k, pivot) over the first r rows, for thread 0 .. POINTS of the block. All threads take part. */
__device__ double row_product(const circe__cuda_pivoting &p, int64_t r, int64_t pivot, int64_t i) {
    __shared__ double row[CHUNK], sums[GROUPS][POINTS];
    int group = threadIdx.x / POINTS, own = threadIdx.x % POINTS;
    double sum = 0;
    for (int64_t k0 = 0; k0 < r; k0 += CHUNK) {
        int64_t rows = r - k0 < CHUNK ? r - k0 : CHUNK;
        __syncthreads();
        for (int64_t k = threadIdx.x; k < rows; k += PIVOT_THREADS) row[k] = p.F[(k0 + k) * p.n + pivot];
        __syncthreads();
#pragma unroll 4
        for (int64_t k = group; k < rows && i < p.n; k += GROUPS) sum += p.F[(k0 + k) * p.n + i] * row[k];
    }
    sums[group][own] = sum;
    __syncthreads();
    sum = 0;
    for (int g = 0; g < GROUPS; g++) sum += sums[g][own];
    __syncthreads();
    return sum;
}

/* Row r of F, and what it leaves of the block's points. */
__device__ void add_pivot(const circe__cuda_pivoting &p, int64_t r, int64_t pivot, double residual) {
    double root = sqrt(residual);
    for (int64_t i0 = (int64_t)blockIdx.x * POINTS; i0 < p.n; i0 += (int64_t)gridDim.x * POINTS) {
        int64_t i = i0 + threadIdx.x % POINTS;
        double product = row_product(p, r, pivot, i);
        if (threadIdx.x >= POINTS || i >= p.n) continue;
        double value = (kernel_value(p.kernel, p.points + i * p.cols, p.points + pivot * p.cols) - product) / root;
        p.F[r * p.n + i] = i == pivot ? root : value;
        p.left[i] = i == pivot ? 0 : larger(p.left[i] - value * value, 0.0);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) p.pivots[r] = pivot;
    __syncthreads();
}

/* Surveys alternate between two places: a block may be a step ahead of one that still reads. */
__global__ __launch_bounds__(PIVOT_THREADS) void pivot(const __grid_constant__ circe__cuda_pivoting p) {
    cooperative_groups::grid_group all = cooperative_groups::this_grid();
    survey *parts = reinterpret_cast<survey *>(p.parts), now;
    double at_switch = 0;
    int complete = 0;
    int64_t r = p.first;
    for (;; r++) {
        survey own = survey_own(p);
        if (threadIdx.x == 0) parts[r % 2 * MOST_BLOCKS + blockIdx.x] = own;
        all.sync();
        now = survey_all(parts + r % 2 * MOST_BLOCKS);
        bool switched = p.switch_rank >= 0 && r >= p.switch_rank;
        if (r == p.switch_rank) at_switch = now.sum;
        complete = now.sum <= p.enough || now.best <= p.least || (switched && now.best <= p.switch_least);
        if (switched && r > p.switch_rank) complete = now.best <= p.switch_least || r == p.n;
        if (complete || r >= p.capacity) break;
        add_pivot(p, r, (int64_t)now.at, now.best);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *p.to = {r, complete, now.sum, at_switch};
}

__global__ __launch_bounds__(THREADS) void pivot_rows(const double *F, int64_t n, const int64_t *pivots, int64_t first,
                                                      int64_t rank, double *L, int64_t ld) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e >= (rank - first) * rank) return;
    int64_t k = first + e / rank, c = e % rank;
    L[k * ld + c] = c <= k ? F[c * n + pivots[k]] : 0;
}

/* ---- residuals ------------------------------------------------------------------------------------------- */

__global__ __launch_bounds__(THREADS) void residuals(const __grid_constant__ circe__cuda_kernel k, const double *points,
                                                     int64_t n, int cols, const double *features, int64_t rank,
                                                     int64_t down, int64_t along, double *diagonal, double *residual) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    double own = kernel_value(k, points + i * cols, points + i * cols), square = 0;
    for (int64_t c = 0; c < rank; c++) square += features[i * down + c * along] * features[i * down + c * along];
    diagonal[i] = own;
    residual[i] = larger(own - square, 0.0);
}

__global__ __launch_bounds__(WIDE) void add_sums(const double *values, int64_t n, int64_t stride, double *totals) {
    const double *own = values + blockIdx.x * stride;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += WIDE) sum += own[i];
    sum = block_total(sum);
    if (threadIdx.x == 0) totals[blockIdx.x] += sum;
}

/* ---- leave-one-out --------------------------------------------------------------------------------------- */

__global__ __launch_bounds__(THREADS) void scale_spectrum(const double *G, const double *s, const double *ridge,
                                                          int64_t n, int64_t cols, int64_t n_ridge, double *out) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e >= n * n_ridge * cols) return;
    int64_t k = e / (n_ridge * cols), l = e / cols % n_ridge;
    out[e] = G[k * cols + e % cols] / (s[k] + ridge[l]);
}

__device__ double warp_total(double v) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

/* A warp a row and a ridge. */
__global__ __launch_bounds__(THREADS) void loo_lowrank(const double *q, const double *s, const double *ridge,
                                                       int64_t ry, const double *features_z, const double *residual,
                                                       const double *means, int64_t rz, int64_t n_ridge, int64_t n,
                                                       double *error) {
    int64_t e = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32, i = e / n_ridge, l = e % n_ridge;
    int lane = threadIdx.x % 32;
    if (i >= n) return;
    const double *mean = means + (i * n_ridge + l) * rz, *f = features_z + i * rz, *own = q + i * ry;
    double leverage = 0, square = 0;
    for (int64_t k = lane; k < ry; k += 32) leverage += own[k] * own[k] / (s[k] + ridge[l]);
    for (int64_t c = lane; c < rz; c += 32) square += (f[c] - mean[c]) * (f[c] - mean[c]);
    leverage = warp_total(leverage);
    square = warp_total(square);
    if (lane == 0) error[l * n + i] = square / ((1.0 - leverage) * (1.0 - leverage)) + residual[i];
}

__global__ __launch_bounds__(THREADS) void loo_dense(const double *means, const double *leverage, int64_t rz,
                                                     int64_t n_ridge, int64_t n, double *error) {
    int64_t e = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32, i = e / n_ridge, l = e % n_ridge;
    int lane = threadIdx.x % 32;
    if (i >= n) return;
    const double *mean = means + (i * n_ridge + l) * rz;
    double square = 0, h = leverage[l * n + i];
    for (int64_t c = lane; c < rz; c += 32) square += mean[c] * mean[c];
    square = warp_total(square);
    if (lane == 0) error[l * n + i] = square / (h * h);
}

__global__ __launch_bounds__(THREADS) void leverage_parts(const double *V, const double *s, const double *ridge,
                                                          int64_t n, double *parts) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, l = blockIdx.z;
    if (i >= n) return;
    double sum = 0;
    for (int64_t k = blockIdx.y; k < n; k += CIRCE__CUDA_LEVERAGE_PARTS)
        sum += V[k * n + i] * V[k * n + i] / (s[k] + ridge[l]);
    parts[(l * CIRCE__CUDA_LEVERAGE_PARTS + blockIdx.y) * n + i] = sum;
}

__global__ __launch_bounds__(THREADS) void leverage_sums(const double *parts, int64_t n_ridge, int64_t n,
                                                         double *leverage) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e >= n_ridge * n) return;
    double sum = 0;
    for (int k = 0; k < CIRCE__CUDA_LEVERAGE_PARTS; k++)
        sum += parts[(e / n * CIRCE__CUDA_LEVERAGE_PARTS + k) * n + e % n];
    leverage[e] = sum;
}

static_assert(sizeof(survey) * 2 * MOST_BLOCKS <= CIRCE__CUDA_PIVOT_PARTS * sizeof(double), "surveys need more room");

}  // namespace

/* ---- launches -------------------------------------------------------------------------------------------- */

/* As many blocks as can run at once: they wait for each other. */
extern "C" int circe__cuda_pivot(const circe__cuda_pivoting *p, void *stream) {
    int device = 0, processors = 0, each = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess) error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, pivot, PIVOT_THREADS, 0);
    if (error != cudaSuccess) return (int)error;
    int64_t most = (int64_t)processors * each < MOST_BLOCKS ? (int64_t)processors * each : MOST_BLOCKS;
    unsigned count = blocks(p->n, POINTS);
    circe__cuda_pivoting copy = *p;
    void *arguments[] = {&copy};
    return (int)cudaLaunchCooperativeKernel(reinterpret_cast<void *>(pivot),
                                            dim3(count < most ? count : (unsigned)most), dim3(PIVOT_THREADS), arguments,
                                            0, in(stream));
}

extern "C" int circe__cuda_pivot_rows(const double *F, int64_t n, const int64_t *pivots, int64_t first, int64_t rank,
                                      double *L, int64_t ld, void *stream) {
    if (rank > first)
        pivot_rows<<<blocks((rank - first) * rank, THREADS), THREADS, 0, in(stream)>>>(F, n, pivots, first, rank, L,
                                                                                       ld);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_residuals(const circe__cuda_kernel *kernel, const double *points, int64_t n, int cols,
                                     const double *features, int64_t rank, int by_rows, double *diagonal,
                                     double *residual, void *stream) {
    residuals<<<blocks(n, THREADS), THREADS, 0, in(stream)>>>(*kernel, points, n, cols, features, rank,
                                                              by_rows ? rank : 1, by_rows ? 1 : n, diagonal, residual);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_add_sums(const double *values, int64_t n, int64_t stride, int64_t count, double *totals,
                                    void *stream) {
    add_sums<<<(unsigned)count, WIDE, 0, in(stream)>>>(values, n, stride, totals);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_scale_spectrum(const double *G, const double *s, const double *ridge, int64_t n,
                                          int64_t cols, int64_t n_ridge, double *out, void *stream) {
    if (n * cols > 0)
        scale_spectrum<<<blocks(n * n_ridge * cols, THREADS), THREADS, 0, in(stream)>>>(G, s, ridge, n, cols, n_ridge,
                                                                                        out);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_loo_lowrank(const double *q, const double *s, const double *ridge, int64_t ry,
                                       const double *features_z, const double *residual, const double *means,
                                       int64_t rz, int64_t n_ridge, int64_t n, double *error, void *stream) {
    loo_lowrank<<<blocks(n * n_ridge, THREADS / 32), THREADS, 0, in(stream)>>>(q, s, ridge, ry, features_z, residual,
                                                                               means, rz, n_ridge, n, error);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_loo_dense(const double *means, const double *leverage, int64_t rz, int64_t n_ridge,
                                     int64_t n, double *error, void *stream) {
    loo_dense<<<blocks(n * n_ridge, THREADS / 32), THREADS, 0, in(stream)>>>(means, leverage, rz, n_ridge, n, error);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_leverage(const double *V, const double *s, const double *ridge, int64_t n_ridge, int64_t n,
                                    double *parts, double *leverage, void *stream) {
    leverage_parts<<<dim3(blocks(n, THREADS), CIRCE__CUDA_LEVERAGE_PARTS, (unsigned)n_ridge), THREADS, 0, in(stream)>>>(
        V, s, ridge, n, parts);
    leverage_sums<<<blocks(n_ridge * n, THREADS), THREADS, 0, in(stream)>>>(parts, n_ridge, n, leverage);
    return (int)cudaPeekAtLastError();
}
