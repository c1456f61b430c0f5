/* Images with their channels last, (points, channels) with points = rows * height * width, as float32 or bfloat16: what
 * their kernels share.
 *
 * A thread has V channels side by side, or one where the channels do not go into that; threads along x have neighbours,
 * threads along y take the points in turn. A block has some of the channels (blockIdx.y) and a part of the points
 * (blockIdx.x). */
#pragma once

#include <cuda_bf16.h>

#include "train/cuda/common.cuh"

typedef __nv_bfloat16 bf16;

static __device__ inline float wide(float x) { return x; }
static __device__ inline float wide(bf16 x) { return __bfloat162float(x); }
static __device__ inline void narrow(float x, float &to) { to = x; }
static __device__ inline void narrow(float x, bf16 &to) { to = __float2bfloat16_rn(x); }

/* As many numbers as 16 bytes have. */
template <typename T>
constexpr int FULL = 16 / (int)sizeof(T);

template <typename T, int V>
struct __align__(sizeof(T) * V) bundle {
    T n[V];
};

template <typename T, int V>
static __device__ inline void load(const T *from, float (&x)[V]) {
    bundle<T, V> all = *(const bundle<T, V> *)from;
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = wide(all.n[v]);
}

template <typename T, int V>
static __device__ inline void store(const float (&x)[V], T *to) {
    bundle<T, V> all;
#pragma unroll
    for (int v = 0; v < V; v++) narrow(x[v], all.n[v]);
    *(bundle<T, V> *)to = all;
}

/* ---- who has what ------------------------------------------------------------------------------------------------ */

struct spread {
    int64_t points, each; /* points of a part */
    int channels;
    dim3 grid, block;
};

/* With at most `most` blocks, each thread `least` points or more where there are so many. */
static inline spread spread_over(int64_t points, int channels, int v, int threads, int64_t least, int64_t most) {
    spread s = {points, 0, channels, dim3(1), dim3(1)};
    int vectors = channels / v, x = 1;
    while (x < vectors && x < 32) x *= 2;
    int y = threads / x, groups = (vectors + x - 1) / x;
    int64_t parts = (points + y * least - 1) / (y * least), limit = most / groups < 1 ? 1 : most / groups;
    parts = parts < 1 ? 1 : parts > limit ? limit : parts;
    s.each = (points + parts - 1) / parts;
    parts = (points + s.each - 1) / s.each;
    s.grid = dim3((unsigned)parts, (unsigned)groups);
    s.block = dim3((unsigned)x, (unsigned)y);
    return s;
}

/* The first of this thread's channels; whether there are such. */
template <int V>
static __device__ inline int own_channel() {
    return (int)(blockIdx.y * blockDim.x + threadIdx.x) * V;
}

static __device__ inline int64_t first_point(const spread &s) { return blockIdx.x * s.each + threadIdx.y; }

static __device__ inline int64_t last_point(const spread &s) {
    int64_t end = (blockIdx.x + 1) * s.each;
    return end < s.points ? end : s.points;
}

/* T and V as constants of a call: MOST channels where the channels go into that, else one. */
template <typename T_, int V_>
struct element {
    typedef T_ T;
    static constexpr int V = V_;
};

template <int MOST_FLOATS, int MOST_HALVES, typename F>
static inline void with_element(bool half, int channels, F call) {
    if (half && channels % MOST_HALVES == 0)
        call(element<bf16, MOST_HALVES>());
    else if (half)
        call(element<bf16, 1>());
    else if (channels % MOST_FLOATS == 0)
        call(element<float, MOST_FLOATS>());
    else
        call(element<float, 1>());
}
