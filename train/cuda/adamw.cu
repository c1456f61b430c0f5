/* AdamW, as in train/cpu/adamw.c. The parameters of a step are in the GPU's memory; each block computes the few factors
 * from them once, in double. */
#include "train/cuda/early.cuh"
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

static __device__ inline void one(const factors &f, float g, float &p, float &m, float &v) {
    m = m + f.pull * (g - m);
    v = f.beta2 * v + f.square * g * g;
    p = f.keep * p - f.size * m / (sqrtf(v) * f.scale + f.epsilon);
}

/* By fours, and then the rest. */
static __global__ void advance(const train_adamw *how, int64_t n, int64_t fours, const float *grads, float *params,
                               float *m, float *v) {
    __shared__ factors f;
    take_turn();
    if (threadIdx.x == 0) f = work_out(how);
    __syncthreads();
    if (!f.taken) return;
    int64_t start = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = start; i < fours; i += step) {
        float4 g = ((const float4 *)grads)[i], p = ((float4 *)params)[i], a = ((float4 *)m)[i], b = ((float4 *)v)[i];
        one(f, g.x, p.x, a.x, b.x);
        one(f, g.y, p.y, a.y, b.y);
        one(f, g.z, p.z, a.z, b.z);
        one(f, g.w, p.w, a.w, b.w);
        ((float4 *)params)[i] = p;
        ((float4 *)m)[i] = a;
        ((float4 *)v)[i] = b;
    }
    for (int64_t i = 4 * fours + start; i < n; i += step) one(f, grads[i], params[i], m[i], v[i]);
}

cudaError_t train_cuda_adamw_step(const void *how, int64_t n, const float *grads, float *params, float *m, float *v,
                                  void *stream) {
    bool aligned = (((uintptr_t)grads | (uintptr_t)params | (uintptr_t)m | (uintptr_t)v) & 15) == 0;
    int64_t fours = aligned ? n / 4 : 0;
    if (n == 0) return cudaSuccess;
    enum { MOST = 2112 }; /* what a large GPU runs at once: each block works the factors out */
    unsigned wanted = blocks_for(fours > 0 ? fours : n, THREADS), blocks = wanted < MOST ? wanted : MOST;
    return start_early(advance, blocks, THREADS, stream, (const train_adamw *)how, n, fours, grads, params, m, v);
}
