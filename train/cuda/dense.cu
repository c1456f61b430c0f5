/* Small dense layers, in float32: one kernel forward and one backward, since a step of a small network is as long as it
 * has kernels. dense.c has the formulas.
 *
 * A block has a tile of 32 by 32 numbers of a product, sum over k of a (i, k) b (j, k), and brings the factors in
 * chunks of 64 k, the next on its way while one is multiplied. Four slices of the block take a quarter of the k of a
 * chunk each, since a step waits for the longest chain of instructions, not for the units. Backward, some blocks have
 * tiles of grad_in and others tiles of d_W, whose sum over the rows of the batch is split: the block that is last to
 * write its part of a tile adds all parts, in their order, so that the same bits come again whichever it was. The
 * gradient before the activation is worked out as it is read. */
#include "train/cuda/early.cuh"

enum { SIDE = 32, CHUNK = 64, LINE = SIDE + 4, SLICE = 128, SLICES = 4, BLOCK = SLICE * SLICES };
enum { LEAST_SPLIT = 2 * CHUNK, MOST_SPLITS = 32 }; /* rows of a part, parts */
enum { PART = SIDE * SIDE + SIDE };                 /* numbers of a tile: of the weights, then of the bias */
enum { MOST_WEIGHTS = 256 * 256 };
static_assert((SLICES - 1) * 8 * SLICE + BLOCK <= 2 * CHUNK * LINE, "sums and biases fit where the factors were");

/* Each thread has two i and four j, of its slice's k. */
struct sums {
    float n[2][4];
};

static __device__ inline int own_i() { return threadIdx.x % 16 * 2; }
static __device__ inline int own_j() { return threadIdx.x % SLICE / 16 * 4; }
static __device__ inline int own_slice() { return threadIdx.x / SLICE; }

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

static __device__ inline void multiply(const float *a, const float *b, sums &s) {
    int first = own_slice() * (CHUNK / SLICES);
#pragma unroll
    for (int k = first; k < first + CHUNK / SLICES; k++) {
        float2 x = *(const float2 *)(a + k * LINE + own_i());
        float4 y = *(const float4 *)(b + k * LINE + own_j());
        const float two[2] = {x.x, x.y}, four[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) s.n[i][j] += two[i] * four[j];
    }
}

/* The first slice's sums := those of all, in their order. `memory` has room for those of the others. */
static __device__ inline void add_slices(float *memory, sums &s) {
    int slice = own_slice(), thread = threadIdx.x % SLICE;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < 8; e++)
        if (slice > 0) memory[((slice - 1) * 8 + e) * SLICE + thread] = s.n[e / 4][e % 4];
    __syncthreads();
    for (int other = 0; slice == 0 && other < SLICES - 1; other++)
#pragma unroll
        for (int e = 0; e < 8; e++) s.n[e / 4][e % 4] += memory[(other * 8 + e) * SLICE + thread];
}

/* s += the products over all k, with the factors a (k, i) and b (k, j) of a chunk in shared memory; `visit` sees each
 * chunk of a. a and b lie one behind the other; the first slice has the sums. */
template <bool A_ALONG_K, bool B_ALONG_K, typename A, typename B, typename F>
static __device__ inline void sum_products(cuda_bend f, A from_a, range i, B from_b, range j, range k, float *a,
                                           float *b, sums &s, F visit) {
    decltype(from_a(0, 0)) items_a[STEPS];
    float items_b[STEPS];
    fetch<A_ALONG_K>(from_a, i, k, items_a);
    fetch<B_ALONG_K>(from_b, j, k, items_b);
    while (k.first < k.end) {
        __syncthreads(); /* what was there has been used */
        put<A_ALONG_K>(f, items_a, a);
        put<B_ALONG_K>(f, items_b, b);
        __syncthreads();
        k.first += CHUNK;
        if (k.first < k.end) {
            fetch<A_ALONG_K>(from_a, i, k, items_a);
            fetch<B_ALONG_K>(from_b, j, k, items_b);
        }
        multiply(a, b, s);
        visit(a);
    }
    add_slices(a, s);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(BLOCK, 2)
    forward(cuda_bend f, cuda_dense d, const float *in, const float *W, const float *b, float *out) {
    __shared__ __align__(16) float x[2 * CHUNK * LINE];
    float *w = x + CHUNK * LINE;
    int64_t row = (int64_t)blockIdx.x * SIDE;
    int q = blockIdx.y * SIDE;
    sums s = {};
    take_turn();
    sum_products<true, true>(
        f, [&](int64_t i, int64_t p) { return in[i * d.inputs + p]; }, {row, d.rows},
        [&](int64_t i, int64_t p) { return W[i * d.inputs + p]; }, {q, d.outputs}, {0, d.inputs}, x, w, s,
        [](const float *) {});
    if (own_slice() > 0) return;
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
    sum_products<true, false>(
        t.f, [&](int64_t i, int64_t q) { return before(t, i * d.outputs + q); }, {row, d.rows},
        [&](int64_t j, int64_t q) { return t.W[q * d.inputs + j]; }, {p, d.inputs}, {0, d.outputs}, a, b, s,
        [](const float *) {});
    if (own_slice() > 0) return;
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
    sum_products<false, false>(
        t.f, [&](int64_t i, int64_t r) { return before(t, r * d.outputs + i); }, {q, d.outputs},
        [&](int64_t j, int64_t r) { return t.in[r * d.inputs + j]; }, {p, d.inputs}, {split * t.split, end}, a, b, s,
        [&](const float *chunk) {
            if (p != 0) return;
#pragma unroll
            for (int k = threadIdx.x / SIDE; k < CHUNK; k += BLOCK / SIDE) bias += chunk[k * LINE + threadIdx.x % SIDE];
        });
    float *biases = a + (SLICES - 1) * 8 * SLICE; /* behind what add_slices reads */
    biases[threadIdx.x] = bias;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (own_slice() == 0) to[(own_i() + i) * SIDE + own_j() + j] = s.n[i][j];
    if (threadIdx.x >= SIDE) return;
    for (int k = 1; k < BLOCK / SIDE; k++) bias += biases[k * SIDE + threadIdx.x];
    to[SIDE * SIDE + threadIdx.x] = bias;
}

/* The sum of all parts of a tile, by the block that came last. */
static __device__ inline void add_tile(const passing &t, int tile) {
    const cuda_dense &d = t.d;
    int q = tile / t.p_tiles * SIDE, p = tile % t.p_tiles * SIDE;
    enum { EACH = (PART + BLOCK - 1) / BLOCK };
    double sum[EACH] = {};
    const float *from = t.partial + (int64_t)tile * t.splits * PART;
#pragma unroll 2
    for (int split = 0; split < t.splits; split++)
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int e = threadIdx.x + k * BLOCK;
            if (e < PART) sum[k] += __ldcg(from + (int64_t)split * PART + e);
        }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int e = threadIdx.x + k * BLOCK;
        if (e >= PART) continue;
        bool is_bias = e >= SIDE * SIDE;
        int o = q + (is_bias ? e - SIDE * SIDE : e / SIDE), c = p + e % SIDE;
        if (o >= d.outputs || (is_bias ? p != 0 : c >= d.inputs)) continue;
        *(is_bias ? t.d_b + o : t.d_W + (int64_t)o * d.inputs + c) = (float)sum[k];
    }
}

static __global__ void __launch_bounds__(BLOCK, 2) backward(passing t) {
    __shared__ __align__(16) float a[2 * CHUNK * LINE];
    float *b = a + CHUNK * LINE;
    __shared__ bool is_last;
    take_turn();
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
    return start_early(forward, grid, BLOCK, stream, f, d, in, W, b, out);
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
    return start_early(backward, (unsigned)(t.data_blocks + tiles * t.splits), BLOCK, stream, t);
}
