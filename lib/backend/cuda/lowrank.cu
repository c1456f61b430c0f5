/* A regression of a batch on itself by a factor of low rank: pivots of the kernel matrix, and the inverse of a small
 * triangle. One block each, since a batch has some dozens of pivots, and blocks would wait for each other at every one.
 * Formulas: lib/cuda/lowrank.c. */
#include <cuda_runtime.h>

#include <cfloat>

#include "backend/cuda/batch_kernels.h"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/survey.cuh"
#include "backend/cuda/values.cuh"

namespace {

using circe::better;
using circe::kernel_value;
using circe::larger;
using circe::survey;
using circe::survey_block;

enum { RANK = CIRCE__CUDA_BATCH_RANK, WIDE = 1024, LINE = RANK + 1 };

cudaStream_t in(void *stream) { return static_cast<cudaStream_t>(stream); }

/* ---- pivots ---------------------------------------------------------------------------------------------- */

__device__ survey look(const double *left, int64_t n) {
    survey s = {-1, 0, 0};
    for (int64_t i = threadIdx.x; i < n; i += WIDE) s = better(s, {left[i], (double)i, left[i]});
    return survey_block<WIDE>(s);
}

/* Row r of F by the pivot, and what it leaves; a thread has the same points in every row. */
__device__ void add_row(const circe__cuda_lowrank_job &job, int r, int64_t pivot, double residual) {
    __shared__ double of_pivot[RANK];
    int64_t n = job.n;
    double root = sqrt(residual);
    if ((int)threadIdx.x < r) of_pivot[threadIdx.x] = job.F[threadIdx.x * n + pivot];
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += WIDE) {
        double sum = 0;
#pragma unroll 8
        for (int k = 0; k < r; k++) sum += job.F[k * n + i] * of_pivot[k];
        double value =
            (kernel_value(job.kernel, job.points + i * job.cols, job.points + pivot * job.cols) - sum) / root;
        job.F[r * n + i] = i == pivot ? root : value;
        job.left[i] = i == pivot ? 0 : larger(job.left[i] - value * value, 0.0);
    }
    __syncthreads();
}

/* F (RANK, n), rows beyond the rank 0. */
__global__ __launch_bounds__(WIDE) void factor(const __grid_constant__ circe__cuda_lowrank_job job) {
    int64_t n = job.n;
    for (int64_t i = threadIdx.x; i < n; i += WIDE) {
        const double *p = job.points + i * job.cols;
        job.left[i] = kernel_value(job.kernel, p, p);
    }
    survey now = look(job.left, n);
    double trace = now.sum, least = 4e-16 * now.best;
    double stop = job.tolerance * trace < job.limit ? job.tolerance * trace : job.limit; /* the CPU's rule */
    int r = 0;
    bool complete = false;
    for (;; r++) {
        complete = now.sum <= stop || now.best <= least;
        if (complete || r == RANK || !(now.best > 0)) break;
        add_row(job, r, (int64_t)now.at, now.best);
        now = look(job.left, n);
    }
    for (int64_t e = r * n + threadIdx.x; e < RANK * n; e += WIDE) job.F[e] = 0;
    bool sound = job.ridge >= 16.0 * DBL_EPSILON * trace; /* as lib/measures/smoother.c; no, where the trace is NaN */
    if (threadIdx.x == 0) *job.rank = complete && sound ? r : -1;
}

/* ---- a small triangle ------------------------------------------------------------------------------------ */

/* l (r, r) := its Cholesky factor; false where it is not positive definite. */
__device__ bool factor_small(double *l, int r) {
    bool fine = true;
    for (int k = 0; k < r; k++) {
        double pivot = l[k * LINE + k];
        fine = fine && pivot > 0;
        double root = sqrt(pivot);
        __syncthreads();
        for (int i = k + 1 + threadIdx.x; i < r; i += WIDE) l[i * LINE + k] /= root;
        if (threadIdx.x == 0) l[k * LINE + k] = root;
        __syncthreads();
        int side = r - k - 1;
        for (int e = threadIdx.x; e < side * side; e += WIDE) {
            int i = k + 1 + e / side, j = k + 1 + e % side;
            if (j <= i) l[i * LINE + j] -= l[i * LINE + k] * l[j * LINE + k];
        }
        __syncthreads();
    }
    return fine;
}

/* X (RANK, RANK) := the inverse of the Cholesky factor of S + ridge I within the rank, 0 beyond; NaN where there is
 * none. A thread has a column of the inverse. */
__global__ __launch_bounds__(WIDE) void invert(const double *S, double ridge, const int *rank, double *X) {
    extern __shared__ double memory[];
    double *l = memory, *x = memory + RANK * LINE;
    int r = *rank < 0 ? 0 : *rank, c = threadIdx.x;
    for (int e = threadIdx.x; e < r * r; e += WIDE)
        l[e / r * LINE + e % r] = S[e / r * RANK + e % r] + (e / r == e % r ? ridge : 0);
    __syncthreads();
    bool fine = factor_small(l, r) && *rank >= 0;
    if (c < r)
        for (int i = 0; i < r; i++) {
            double sum = i == c ? 1 : 0;
#pragma unroll 4
            for (int k = c; k < i; k++) sum -= l[i * LINE + k] * x[k * LINE + c];
            x[i * LINE + c] = i < c ? 0 : sum / l[i * LINE + i];
        }
    __syncthreads();
    for (int e = threadIdx.x; e < RANK * RANK; e += WIDE) {
        int i = e / RANK, j = e % RANK;
        X[e] = !fine ? nan("") : i < r && j < r ? x[i * LINE + j] : 0;
    }
}

}  // namespace

extern "C" int circe__cuda_lowrank_factor(const circe__cuda_lowrank_job *job, void *stream) {
    factor<<<1, WIDE, 0, in(stream)>>>(*job);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_lowrank_invert(const double *S, double ridge, const int *rank, double *X, void *stream) {
    enum { BYTES = 2 * RANK * LINE * (int)sizeof(double) };
    cudaError_t error = cudaFuncSetAttribute(invert, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (error != cudaSuccess) return (int)error;
    invert<<<1, WIDE, BYTES, in(stream)>>>(S, ridge, rank, X);
    return (int)cudaPeekAtLastError();
}
