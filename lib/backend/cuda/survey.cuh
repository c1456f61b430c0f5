/* What pivoting needs to know about the points: the largest residual, the lowest point that has it, and the sum. */
#pragma once

namespace circe {

struct survey {
    double best, at, sum;
};

__device__ __forceinline__ survey better(survey a, survey b) {
    bool keep = a.best > b.best || (a.best == b.best && a.at <= b.at);
    return {keep ? a.best : b.best, keep ? a.at : b.at, a.sum + b.sum};
}

/* Of a warp's threads, for every one of them. */
__device__ __forceinline__ survey survey_warp(survey s) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        survey other = {__shfl_xor_sync(0xffffffffu, s.best, step), __shfl_xor_sync(0xffffffffu, s.at, step),
                        __shfl_xor_sync(0xffffffffu, s.sum, step)};
        s = better(s, other);
    }
    return s;
}

/* All lanes take the first lane's result, because lanes may disagree if there are NaNs. */
__device__ __forceinline__ survey survey_agreed(survey s) {
    return {__shfl_sync(0xffffffffu, s.best, 0), __shfl_sync(0xffffffffu, s.at, 0), __shfl_sync(0xffffffffu, s.sum, 0)};
}

/* Combines the first n surveys, at most 32, for every thread. */
__device__ __forceinline__ survey survey_parts(const survey *parts, int n) {
    int lane = threadIdx.x % 32;
    return survey_agreed(survey_warp(lane < n ? parts[lane] : survey{-1, 0, 0}));
}

/* Of a block's threads, for every one of them. */
template <int THREADS>
__device__ __forceinline__ survey survey_block(survey s) {
    __shared__ survey parts[THREADS / 32];
    s = survey_warp(s);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
    __syncthreads();
    return survey_parts(parts, THREADS / 32);
}

}  // namespace circe
