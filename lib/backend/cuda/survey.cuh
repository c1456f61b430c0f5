/* What pivoting must know of the points: the largest residual, the lowest point of those that have it, and the sum. */
#ifndef CIRCE_BACKEND_CUDA_SURVEY_CUH
#define CIRCE_BACKEND_CUDA_SURVEY_CUH

namespace circe {

struct survey {
    double best, at, sum;
};

__device__ __forceinline__ survey better(survey a, survey b) {
    bool keep = a.best > b.best || (a.best == b.best && a.at <= b.at);
    return {keep ? a.best : b.best, keep ? a.at : b.at, a.sum + b.sum};
}

/* Of a block's threads, for every one of them. */
template <int THREADS>
__device__ __forceinline__ survey survey_block(survey s) {
    __shared__ survey parts[THREADS / 32];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        survey other = {__shfl_xor_sync(0xffffffffu, s.best, step), __shfl_xor_sync(0xffffffffu, s.at, step),
                        __shfl_xor_sync(0xffffffffu, s.sum, step)};
        s = better(s, other);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
    __syncthreads();
    s = parts[0];
    for (int w = 1; w < THREADS / 32; w++) s = better(s, parts[w]);
    return s;
}

}  // namespace circe

#endif
