/* A regression of a batch on itself by a low-rank factor: pivots of the kernel matrix, and the inverse of a small
 * triangle. A batch has some dozens of pivots, and blocks wait for each other at every pivot, so only a few blocks are
 * used. Two regressions therefore run side by side in the time of one. Formulas: lib/cuda/lowrank.c. */
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cfloat>

#include "backend/cuda/batch_kernels.h"
#include "backend/cuda/launching.h"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/survey.cuh"
#include "backend/cuda/values.cuh"

namespace {

using circe::better;
using circe::kernel_value;
using circe::larger;
using circe::survey;
using circe::survey_parts;
using circe::survey_warp;

enum { RANK = CIRCE__CUDA_BATCH_RANK, WIDE = 1024, LINE = RANK + 1 };

cudaStream_t in(void *stream) { return static_cast<cudaStream_t>(stream); }

/* ---- pivots ---------------------------------------------------------------------------------------------- */

/* A team finds the pivots of one matrix: one block, or from sm_90 on a cluster of TEAM blocks, which see each other's
 * shared memory and wait for each other in less than a microsecond. A thread has the same points in every row. KEPT: F
 * of a block's points is in its shared memory as well. */
enum { TEAM = 8, MOST_KEPT = 192 };
static_assert(RANK * MOST_KEPT * sizeof(double) + 4096 <= CIRCE__CUDA_LARGE_BYTES, "what is asked for is there");

template <int BLOCKS>
__device__ int place_in_team() {
    return BLOCKS == 1 ? 0 : (int)(blockIdx.x % BLOCKS);
}

template <int BLOCKS>
__device__ void wait_for_team() {
#if __CUDA_ARCH__ >= 900
    if (BLOCKS > 1) cooperative_groups::this_cluster().sync();
#endif
}

/* The survey over all threads of the team, for each of them. `turn` alternates between 0 and 1: whatever was written
 * for one turn is read before anybody writes for that turn again. All threads of a block meet between two calls. */
template <int BLOCKS>
__device__ survey survey_team(survey s, int turn) {
    __shared__ survey parts[32];
    s = survey_warp(s);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
    __syncthreads();
    s = survey_parts(parts, (int)blockDim.x / 32);
#if __CUDA_ARCH__ >= 900
    __shared__ survey told[2][TEAM];
    if (BLOCKS > 1) {
        auto team = cooperative_groups::this_cluster();
        if (threadIdx.x < BLOCKS) *team.map_shared_rank(&told[turn][place_in_team<BLOCKS>()], threadIdx.x) = s;
        team.sync();
        s = survey_parts(told[turn], BLOCKS);
    }
#endif
    return s;
}

/* Row r of F by the pivot, and what it leaves. */
template <int BLOCKS, bool KEPT>
__device__ survey add_row(const circe__cuda_lowrank_job &job, int r, int64_t pivot, double residual, double *kept) {
    __shared__ double of_pivot[RANK];
    int64_t n = job.n, stride = KEPT ? (int64_t)blockDim.x : n, step = (int64_t)BLOCKS * blockDim.x;
    double root = sqrt(residual);
    survey s = {-1, 0, 0};
    for (int k = threadIdx.x; k < r; k += blockDim.x) of_pivot[k] = __ldcg(job.F + k * n + pivot);
    __syncthreads();
    for (int64_t i = (int64_t)place_in_team<BLOCKS>() * blockDim.x + threadIdx.x; i < n; i += step) {
        const double *own = KEPT ? kept + threadIdx.x : job.F + i;
        double sum = 0;
#pragma unroll 16
        for (int k = 0; k < r; k++) sum += own[k * stride] * of_pivot[k];
        double value =
            (kernel_value(job.kernel, job.points + i * job.cols, job.points + pivot * job.cols) - sum) / root;
        double left = i == pivot ? 0 : larger(job.left[i] - value * value, 0.0);
        if (i == pivot) value = root;
        job.F[r * n + i] = value;
        if (KEPT) kept[r * stride + threadIdx.x] = value;
        job.left[i] = left;
        s = better(s, {left, (double)i, left});
    }
    return survey_team<BLOCKS>(s, r % 2);
}

/* F (RANK, n), rows beyond the rank 0. */
template <int BLOCKS, bool KEPT>
__global__ __launch_bounds__(WIDE) void factor(const __grid_constant__ circe__cuda_lowrank_pair jobs) {
    extern __shared__ double memory[]; /* KEPT: (RANK, threads of the block) */
    const circe__cuda_lowrank_job &job = jobs.of[blockIdx.x / BLOCKS];
    int64_t n = job.n, first = (int64_t)place_in_team<BLOCKS>() * blockDim.x + threadIdx.x;
    int64_t step = (int64_t)BLOCKS * blockDim.x;
    survey now = {-1, 0, 0};
    for (int64_t i = first; i < n; i += step) {
        const double *p = job.points + i * job.cols;
        double left = kernel_value(job.kernel, p, p);
        job.left[i] = left;
        now = better(now, {left, (double)i, left});
    }
    wait_for_team<BLOCKS>(); /* all have begun: their shared memory is there */
    now = survey_team<BLOCKS>(now, 1);
    double trace = now.sum, least = 4e-16 * now.best;
    double stop = job.tolerance * trace < job.limit ? job.tolerance * trace : job.limit; /* the CPU's rule */
    int r = 0;
    bool complete = false;
    for (;; r++) {
        complete = now.sum <= stop || now.best <= least;
        if (complete || r == RANK || !(now.best > 0)) break;
        now = add_row<BLOCKS, KEPT>(job, r, (int64_t)now.at, now.best, memory);
    }
    for (int k = r; k < RANK; k++)
        for (int64_t i = first; i < n; i += step) job.F[k * n + i] = 0;
    bool sound = job.ridge >= 16.0 * DBL_EPSILON * trace; /* as lib/measures/smoother.c; no, where the trace is NaN */
    if (first == 0) *job.rank = complete && sound ? r : -1;
}

/* ---- a small triangle ------------------------------------------------------------------------------------ */

/* With l = M D M', M a unit lower triangle: x := M^-1, and D stays on the diagonal of l; false if it is not positive
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

/* X (RANK, RANK) := the inverse D^-1/2 M^-1 of the Cholesky factor of S + ridge I within the rank, 0 beyond; NaN if
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

template <bool KEPT>
static cudaError_t factor_by_teams(const circe__cuda_lowrank_pair &jobs, int threads, cudaStream_t stream) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = TEAM;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(TEAM * jobs.n));
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = KEPT ? (size_t)RANK * threads * sizeof(double) : 0;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaError_t error = cudaSuccess;
    if (KEPT)
        error = cudaFuncSetAttribute(factor<TEAM, KEPT>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     RANK * MOST_KEPT * (int)sizeof(double));
    return error == cudaSuccess ? cudaLaunchKernelEx(&config, factor<TEAM, KEPT>, jobs) : error;
}

extern "C" int circe__cuda_lowrank_factor(const circe__cuda_lowrank_pair *jobs, int clusters, void *stream) {
    int64_t most = 0;
    for (int k = 0; k < jobs->n; k++) most = jobs->of[k].n > most ? jobs->of[k].n : most;
    if (!clusters) {
        factor<1, false><<<jobs->n, WIDE, 0, in(stream)>>>(*jobs);
        return (int)cudaPeekAtLastError();
    }
    int64_t each = (most + TEAM - 1) / TEAM, threads = each < WIDE ? (each + 31) / 32 * 32 : WIDE;
    return (int)(each <= MOST_KEPT ? factor_by_teams<true>(*jobs, (int)threads, in(stream))
                                   : factor_by_teams<false>(*jobs, (int)threads, in(stream)));
}

extern "C" int circe__cuda_lowrank_invert(const circe__cuda_lowrank_pair *jobs, void *stream) {
    enum { BYTES = 2 * RANK * LINE * (int)sizeof(double) };
    static_assert(BYTES <= CIRCE__CUDA_LARGE_BYTES, "what is asked for is there");
    cudaError_t error = cudaFuncSetAttribute(invert, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (error != cudaSuccess) return (int)error;
    invert<<<jobs->n, WIDE, BYTES, in(stream)>>>(*jobs);
    return (int)cudaPeekAtLastError();
}
