/* A regression of a batch on itself by a factor of low rank: pivots of the kernel matrix, and the inverse of a small
 * triangle. One block each, since a batch has some dozens of pivots, and blocks would wait for each other at every one;
 * two regressions at a time, which take no longer than one. Formulas: lib/cuda/lowrank.c. */
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
__device__ survey add_row(const circe__cuda_lowrank_job &job, int r, int64_t pivot, double residual) {
    __shared__ double of_pivot[RANK];
    int64_t n = job.n;
    double root = sqrt(residual);
    survey s = {-1, 0, 0};
    if ((int)threadIdx.x < r) of_pivot[threadIdx.x] = job.F[threadIdx.x * n + pivot];
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += WIDE) {
        double sum = 0;
#pragma unroll 16
        for (int k = 0; k < r; k++) sum += job.F[k * n + i] * of_pivot[k];
        double value =
            (kernel_value(job.kernel, job.points + i * job.cols, job.points + pivot * job.cols) - sum) / root;
        double left = i == pivot ? 0 : larger(job.left[i] - value * value, 0.0);
        job.F[r * n + i] = i == pivot ? root : value;
        job.left[i] = left;
        s = better(s, {left, (double)i, left});
    }
    return survey_block<WIDE>(s);
}

/* F (RANK, n), rows beyond the rank 0. */
__global__ __launch_bounds__(WIDE) void factor(const __grid_constant__ circe__cuda_lowrank_pair jobs) {
    const circe__cuda_lowrank_job &job = jobs.of[blockIdx.x];
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
        now = add_row(job, r, (int64_t)now.at, now.best);
    }
    for (int64_t e = r * n + threadIdx.x; e < RANK * n; e += WIDE) job.F[e] = 0;
    bool sound = job.ridge >= 16.0 * DBL_EPSILON * trace; /* as lib/measures/smoother.c; no, where the trace is NaN */
    if (threadIdx.x == 0) *job.rank = complete && sound ? r : -1;
}

/* ---- a small triangle ------------------------------------------------------------------------------------ */

/* With l = M D M', M a unit lower triangle: x := M^-1, and D stays on the diagonal of l; false where it is not positive
 * definite. Eliminating column k from the rows below it does both, one barrier a column. A warp has a row, a lane the
 * columns: those up to k are x's, the others l's. */
__device__ bool eliminate(double *l, double *x, int r) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool fine = true;
    for (int k = 0; k < r; k++) {
        double pivot = l[k * LINE + k], share = 1 / pivot;
        fine = fine && pivot > 0;
        for (int i = k + 1 + warp; i < r; i += WIDE / 32) {
            double times = l[i * LINE + k] * share;
            for (int j = lane; j <= i; j += 32)
                if (j > k)
                    l[i * LINE + j] -= times * l[j * LINE + k];
                else
                    x[i * LINE + j] -= times * x[k * LINE + j];
        }
        __syncthreads();
    }
    return fine;
}

/* X (RANK, RANK) := the inverse D^-1/2 M^-1 of the Cholesky factor of S + ridge I within the rank, 0 beyond; NaN where
 * there is none. */
__global__ __launch_bounds__(WIDE) void invert(const __grid_constant__ circe__cuda_lowrank_pair jobs) {
    extern __shared__ double memory[];
    const circe__cuda_lowrank_job &job = jobs.of[blockIdx.x];
    double *l = memory, *x = memory + RANK * LINE;
    int rank = *job.rank, r = rank < 0 ? 0 : rank;
    for (int e = threadIdx.x; e < RANK * RANK; e += WIDE) {
        int i = e / RANK, j = e % RANK;
        l[i * LINE + j] = job.S[e] + (i == j ? job.ridge : 0);
        x[i * LINE + j] = i == j ? 1 : 0;
    }
    __syncthreads();
    bool fine = eliminate(l, x, r) && rank >= 0;
    for (int e = threadIdx.x; e < RANK * RANK; e += WIDE) {
        int i = e / RANK, j = e % RANK;
        job.X[e] = !fine ? nan("") : i < r && j <= i ? x[i * LINE + j] / sqrt(l[i * LINE + i]) : 0;
    }
}

}  // namespace

extern "C" int circe__cuda_lowrank_factor(const circe__cuda_lowrank_pair *jobs, void *stream) {
    factor<<<jobs->n, WIDE, 0, in(stream)>>>(*jobs);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_lowrank_invert(const circe__cuda_lowrank_pair *jobs, void *stream) {
    enum { BYTES = 2 * RANK * LINE * (int)sizeof(double) };
    cudaError_t error = cudaFuncSetAttribute(invert, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (error != cudaSuccess) return (int)error;
    invert<<<jobs->n, WIDE, BYTES, in(stream)>>>(*jobs);
    return (int)cudaPeekAtLastError();
}
