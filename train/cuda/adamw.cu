/* AdamW as train/cpu/adamw.c has it. What a step is told lies in the GPU's memory; each block works the few numbers out
 * of it once, in double. */
#include "train/cuda/common.cuh"
#include "train/device.h"

struct factors {
    float keep, pull, beta2, square, size, scale, epsilon;
    bool taken;
};

static __device__ factors work_out(const train_adamw *how) {
    double step = (double)how->step;
    factors f = {(float)(1.0 - how->rate * how->decay),
                 (float)(1.0 - how->beta1),
                 (float)how->beta2,
                 (float)(1.0 - how->beta2),
                 (float)(how->rate / (1.0 - pow(how->beta1, step))),
                 (float)(1.0 / sqrt(1.0 - pow(how->beta2, step))),
                 (float)how->epsilon,
                 true};
    for (int64_t i = 0; i < how->n_values; i++) f.taken = f.taken && isfinite(how->values[i]);
    return f;
}

static __global__ void advance(const train_adamw *how, int64_t n, const float *grads, float *params, float *m,
                               float *v) {
    __shared__ factors f;
    if (threadIdx.x == 0) f = work_out(how);
    __syncthreads();
    if (!f.taken) return;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        float g = grads[i], mean = m[i] + f.pull * (g - m[i]), power = f.beta2 * v[i] + f.square * g * g;
        m[i] = mean;
        v[i] = power;
        params[i] = f.keep * params[i] - f.size * mean / (sqrtf(power) * f.scale + f.epsilon);
    }
}

cudaError_t train_cuda_adamw_step(const void *how, int64_t n, const float *grads, float *params, float *m, float *v,
                                  void *stream) {
    enum { MOST = 2048 };
    unsigned wanted = blocks_for(n, THREADS), blocks = wanted < MOST ? wanted : MOST;
    if (n == 0) return cudaSuccess;
    advance<<<blocks, THREADS, 0, on(stream)>>>((const train_adamw *)how, n, grads, params, m, v);
    return cudaGetLastError();
}
