/* Small dense layers, in float32: one kernel forward and one backward, since a step of a small network is as long as it
 * has kernels. dense.c has the formulas.
 *
 * A block has a tile of 32 by 32 numbers of a product, sum over k of a (i, k) b (j, k), and brings the factors in
 * chunks of 64 k. Backward, some blocks have tiles of grad_in and others tiles of d_W, whose sum over the rows of the
 * batch is split: the block that is last to write its part of a tile adds all parts, in their order, so that the same
 * bits come again whichever it was. The gradient before the activation is worked out as it is read. */
#include "train/cuda/common.cuh"

enum { SIDE = 32, CHUNK = 64, LINE = SIDE + 4, BLOCK = 128 };
enum { LEAST_SPLIT = 2 * CHUNK, MOST_SPLITS = 32 }; /* rows of a part, parts */
enum { PART = SIDE * SIDE + SIDE };                 /* numbers of a tile: of the weights, then of the bias */
enum { MOST_WEIGHTS = 256 * 256 };

/* Each thread has two i and four j. */
struct sums {
    float n[2][4];
};

static __device__ inline int own_i() { return threadIdx.x % 16 * 2; }
static __device__ inline int own_j() { return threadIdx.x / 16 * 4; }

enum { STEPS = CHUNK * SIDE / BLOCK };

/* A part of i, or of k, and where they end. */
struct range {
    int64_t first, end;
};

/* A number of the gradient before the activation, and what it is worked out from. */
struct bent {
    float grad, out;
};

static __device__ inline float value_of(cuda_bend, float x) { return x; }
static __device__ inline float value_of(cuda_bend f, bent x) { return bend_back(f, x.out, x.grad); }

/* Where this thread's number of a step goes, as (i, k). ALONG_K: neighbours in memory differ in k. */
template <bool ALONG_K>
static __device__ inline int2 place(int step) {
    int e = threadIdx.x + step * BLOCK, rest = e / 32;
    return ALONG_K ? int2{rest / 8 * 4 + e / 8 % 4, rest % 8 * 8 + e % 8} : int2{e % 32, rest};
}

/* items := from(i, k), zeros beyond the ends. */
template <bool ALONG_K, typename T, typename F>
static __device__ inline void fetch(F from, range i, range k, T (&items)[STEPS]) {
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        int2 at = place<ALONG_K>(step);
        items[step] = {};
        if (i.first + at.x < i.end && k.first + at.y < k.end) items[step] = from(i.first + at.x, k.first + at.y);
    }
}

template <bool ALONG_K, typename T>
static __device__ inline void put(cuda_bend f, const T (&items)[STEPS], float *to) {
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        int2 at = place<ALONG_K>(step);
        to[at.y * LINE + at.x] = value_of(f, items[step]);
    }
}

/* a (k, i) and b (k, j) := the factors. All of them are on their way from memory before the first is put. */
template <bool A_ALONG_K, bool B_ALONG_K, typename A, typename B>
static __device__ inline void bring(cuda_bend f, A from_a, range i, B from_b, range j, range k, float *a, float *b) {
    decltype(from_a(0, 0)) items_a[STEPS];
    float items_b[STEPS];
    fetch<A_ALONG_K>(from_a, i, k, items_a);
    fetch<B_ALONG_K>(from_b, j, k, items_b);
    __syncthreads(); /* what was there has been used */
    put<A_ALONG_K>(f, items_a, a);
    put<B_ALONG_K>(f, items_b, b);
    __syncthreads();
}

static __device__ inline void multiply(const float *a, const float *b, sums &s) {
#pragma unroll 8
    for (int k = 0; k < CHUNK; k++) {
        float2 x = *(const float2 *)(a + k * LINE + own_i());
        float4 y = *(const float4 *)(b + k * LINE + own_j());
        const float two[2] = {x.x, x.y}, four[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) s.n[i][j] += two[i] * four[j];
    }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(BLOCK, 3)
    forward(cuda_bend f, cuda_dense d, const float *in, const float *W, const float *b, float *out) {
    __shared__ __align__(16) float x[CHUNK * LINE], w[CHUNK * LINE];
    int64_t row = (int64_t)blockIdx.x * SIDE;
    int q = blockIdx.y * SIDE;
    sums s = {};
    for (int k = 0; k < d.inputs; k += CHUNK) {
        bring<true, true>(
            f, [&](int64_t i, int64_t p) { return in[i * d.inputs + p]; }, {row, d.rows},
            [&](int64_t i, int64_t p) { return W[i * d.inputs + p]; }, {q, d.outputs}, {k, d.inputs}, x, w);
        multiply(x, w, s);
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int64_t r = row + own_i() + i;
            int o = q + own_j() + j;
            if (r < d.rows && o < d.outputs) out[r * d.outputs + o] = bend(f, s.n[i][j] + b[o]);
        }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

struct passing {
    cuda_bend f;
    cuda_dense d;
    const float *in, *W, *out, *grad;
    float *grad_in, *d_W, *d_b, *partial;
    unsigned *arrived; /* (tiles of d_W) 0 before and after */
    int p_tiles, splits;
    int64_t data_blocks, split; /* rows of a part */
};

static __device__ inline bent before(const passing &p, int64_t at) { return {p.grad[at], p.out[at]}; }

/* A tile of grad_in = g W. */
static __device__ inline void data_tile(const passing &t, int64_t tile, float *a, float *b) {
    const cuda_dense &d = t.d;
    int64_t row = tile / t.p_tiles * SIDE, p = tile % t.p_tiles * SIDE;
    sums s = {};
    for (int k = 0; k < d.outputs; k += CHUNK) {
        bring<true, false>(
            t.f, [&](int64_t i, int64_t q) { return before(t, i * d.outputs + q); }, {row, d.rows},
            [&](int64_t j, int64_t q) { return t.W[q * d.inputs + j]; }, {p, d.inputs}, {k, d.outputs}, a, b);
        multiply(a, b, s);
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int64_t r = row + own_i() + i, column = p + own_j() + j;
            if (r < d.rows && column < d.inputs) t.grad_in[r * d.inputs + column] = s.n[i][j];
        }
}

/* One part of a tile of d_W = g' in, and of d_b. */
static __device__ inline void weights_part(const passing &t, int tile, int split, float *a, float *b, float *to) {
    const cuda_dense &d = t.d;
    int q = tile / t.p_tiles * SIDE, p = tile % t.p_tiles * SIDE;
    int64_t end = (split + 1) * t.split < d.rows ? (split + 1) * t.split : d.rows;
    float bias = 0.0f;
    sums s = {};
    for (int64_t row = split * t.split; row < end; row += CHUNK) {
        bring<false, false>(
            t.f, [&](int64_t i, int64_t r) { return before(t, r * d.outputs + i); }, {q, d.outputs},
            [&](int64_t j, int64_t r) { return t.in[r * d.inputs + j]; }, {p, d.inputs}, {row, end}, a, b);
        multiply(a, b, s);
        if (p == 0 && threadIdx.x < SIDE)
#pragma unroll 8
            for (int k = 0; k < CHUNK; k++) bias += a[k * LINE + threadIdx.x];
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) to[(own_i() + i) * SIDE + own_j() + j] = s.n[i][j];
    if (threadIdx.x < SIDE) to[SIDE * SIDE + threadIdx.x] = bias;
}

/* The sum of all parts of a tile, by the block that came last. */
static __device__ inline void add_tile(const passing &t, int tile) {
    const cuda_dense &d = t.d;
    int q = tile / t.p_tiles * SIDE, p = tile % t.p_tiles * SIDE;
    for (int e = threadIdx.x; e < PART; e += BLOCK) {
        double sum = 0.0;
        for (int split = 0; split < t.splits; split++)
            sum += __ldcg(t.partial + ((int64_t)tile * t.splits + split) * PART + e);
        bool is_bias = e >= SIDE * SIDE;
        int o = q + (is_bias ? e - SIDE * SIDE : e / SIDE), c = p + e % SIDE;
        if (o >= d.outputs || (is_bias ? p != 0 : c >= d.inputs)) continue;
        *(is_bias ? t.d_b + o : t.d_W + (int64_t)o * d.inputs + c) = (float)sum;
    }
}

static __global__ void __launch_bounds__(BLOCK, 2) backward(passing t) {
    __shared__ __align__(16) float a[CHUNK * LINE], b[CHUNK * LINE];
    __shared__ bool is_last;
    if (blockIdx.x < t.data_blocks) {
        data_tile(t, blockIdx.x, a, b);
        return;
    }
    int part = (int)(blockIdx.x - t.data_blocks), tile = part / t.splits, split = part % t.splits;
    weights_part(t, tile, split, a, b, t.partial + (int64_t)part * PART);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicInc(t.arrived + tile, (unsigned)t.splits - 1) == (unsigned)t.splits - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    add_tile(t, tile);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static int64_t tiles_of(int64_t n) { return (n + SIDE - 1) / SIDE; }

static int64_t split_of(int64_t rows) {
    int64_t share = (rows + MOST_SPLITS - 1) / MOST_SPLITS;
    share = (share + CHUNK - 1) / CHUNK * CHUNK;
    return share < LEAST_SPLIT ? LEAST_SPLIT : share;
}

static int64_t weight_tiles(cuda_dense d) { return tiles_of(d.inputs) * tiles_of(d.outputs); }

int64_t train_cuda_dense_bytes(cuda_dense d) {
    if ((int64_t)d.inputs * d.outputs > MOST_WEIGHTS) return 0;
    int64_t splits = (d.rows + split_of(d.rows) - 1) / split_of(d.rows);
    return weight_tiles(d) * (splits * PART * (int64_t)sizeof(float) + (int64_t)sizeof(unsigned));
}

cudaError_t train_cuda_dense_forward(cuda_dense d, cuda_bend f, const float *in, const float *W, const float *b,
                                     float *out, void *stream) {
    dim3 grid((unsigned)tiles_of(d.rows), (unsigned)tiles_of(d.outputs));
    forward<<<grid, BLOCK, 0, on(stream)>>>(f, d, in, W, b, out);
    return cudaGetLastError();
}

cudaError_t train_cuda_dense_backward(cuda_dense d, cuda_bend f, const float *in, const float *W, const float *out,
                                      const float *grad_out, void *scratch, float *grad_in, float *d_W, float *d_b,
                                      void *stream) {
    passing t = {};
    int64_t tiles = weight_tiles(d);
    t.f = f, t.d = d, t.in = in, t.W = W, t.out = out, t.grad = grad_out;
    t.grad_in = grad_in, t.d_W = d_W, t.d_b = d_b;
    t.split = split_of(d.rows);
    t.splits = (int)((d.rows + t.split - 1) / t.split);
    t.p_tiles = (int)tiles_of(d.inputs);
    t.data_blocks = grad_in == NULL ? 0 : tiles_of(d.rows) * t.p_tiles;
    t.arrived = (unsigned *)scratch;
    t.partial = (float *)(t.arrived + tiles);
    backward<<<(unsigned)(t.data_blocks + tiles * t.splits), BLOCK, 0, on(stream)>>>(t);
    return cudaGetLastError();
}
