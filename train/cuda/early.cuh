/* From sm_90 on, these kernels start while the previous one in the stream still runs. A step of small kernels takes as
 * long as starting them does. */
#pragma once

#include "train/cuda/common.cuh"

/* Such a kernel calls this first: it lets the next kernel start, and waits for the previous one. */
static __device__ inline void take_turn() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
    cudaGridDependencySynchronize();
#endif
}

static inline bool starts_early() {
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}

/* With so many bytes of dynamic shared memory. */
template <typename... P, typename... A>
static inline cudaError_t start_early_with(size_t bytes, void (*kernel)(P...), dim3 grid, dim3 block, void *stream,
                                           A... arguments) {
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = bytes;
    config.stream = on(stream);
    config.attrs = &attribute;
    config.numAttrs = starts_early() ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, (P)arguments...);
}

template <typename... P, typename... A>
static inline cudaError_t start_early(void (*kernel)(P...), dim3 grid, dim3 block, void *stream, A... arguments) {
    return start_early_with(0, kernel, grid, block, stream, arguments...);
}
