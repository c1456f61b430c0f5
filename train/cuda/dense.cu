/* The gradients of the weights of small dense layers, in float32, of several layers in one kernel. dense.c has the
 * formulas.
 *
 * A block computes a tile of 32 by 32 numbers of d_W, the sum over rows r of g (r, i) in (r, j). It loads the factors
 * in chunks of 64 rows, and the next chunk is on its way while one is multiplied. Four slices of the block take a
 * quarter of a chunk each, because the longest chain of instructions limits a step, not the arithmetic units. The sum
 * over the rows of the batch is split: the last block to write its part of a tile adds all parts, in their order, so
 * the bits are the same whichever block it was. */
#include "train/cuda/early.cuh"

enum { SIDE = 32, CHUNK = 64, LINE = SIDE + 4, SLICE = 128, SLICES = 4, BLOCK = SLICE * SLICES };
enum { LEAST_SPLIT = 2 * CHUNK, MOST_SPLITS = 32 }; /* rows of a part, parts */
enum { PART = SIDE * SIDE + SIDE };                 /* numbers of a tile: of the weights, then of the bias */
enum { STEPS = CHUNK * SIDE / BLOCK };
static_assert((SLICES - 1) * 8 * SLICE + BLOCK <= 2 * CHUNK * LINE, "sums and biases fit where the factors were");

struct summing {
    const float *in, *g; /* (rows, inputs), (rows, outputs) */
    float *d_W, *d_b, *partial;
    unsigned *arrived; /* (tiles) 0 before and after */
    int inputs, outputs, p_tiles;
    unsigned first; /* block */
};

struct work {
    int64_t rows, split; /* split: rows of a part */
    int splits, n;
    summing of[TRAIN_CUDA_LINKS];
};

/* Each thread has two i and four j, of its slice's rows. */
struct sums {
    float n[2][4];
};

static __device__ inline int own_i() { return threadIdx.x % 16 * 2; }
static __device__ inline int own_j() { return threadIdx.x % SLICE / 16 * 4; }
static __device__ inline int own_slice() { return threadIdx.x / SLICE; }

/* A chunk of `cols` columns from `first` on; zeros beyond the ends. */
static __device__ inline void fetch(const float *from, int cols, int first, int64_t row, int64_t end,
                                    float (&items)[STEPS]) {
    int column = first + threadIdx.x % SIDE;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        int64_t r = row + threadIdx.x / SIDE + step * (BLOCK / SIDE);
        items[step] = column < cols && r < end ? from[r * cols + column] : 0.0f;
    }
}

static __device__ inline void put(const float (&items)[STEPS], float *to) {
#pragma unroll
    for (int step = 0; step < STEPS; step++)
        to[(threadIdx.x / SIDE + step * (BLOCK / SIDE)) * LINE + threadIdx.x % SIDE] = items[step];
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

/* The sums of a tile (q, p) over rows [row, end), in the first slice; and of the bias, a part in each thread. */
static __device__ inline float sum_rows(const summing &t, int q, int p, int64_t row, int64_t end, float *a, sums &s) {
    float *b = a + CHUNK * LINE, items_a[STEPS], items_b[STEPS], bias = 0.0f;
    fetch(t.g, t.outputs, q, row, end, items_a);
    fetch(t.in, t.inputs, p, row, end, items_b);
    while (row < end) {
        __syncthreads(); /* what was there has been used */
        put(items_a, a);
        put(items_b, b);
        __syncthreads();
        row += CHUNK;
        if (row < end) {
            fetch(t.g, t.outputs, q, row, end, items_a);
            fetch(t.in, t.inputs, p, row, end, items_b);
        }
        multiply(a, b, s);
#pragma unroll
        for (int k = threadIdx.x / SIDE; k < CHUNK; k += BLOCK / SIDE) bias += a[k * LINE + threadIdx.x % SIDE];
    }
    add_slices(a, s);
    return bias;
}

/* One part of a tile of d_W = g' in, and of d_b. */
static __device__ inline void put_part(const sums &s, float bias, float *a, float *to) {
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
static __device__ inline void add_tile(const summing &t, int splits, int tile) {
    int q = tile / t.p_tiles * SIDE, p = tile % t.p_tiles * SIDE;
    enum { EACH = (PART + BLOCK - 1) / BLOCK };
    double sum[EACH] = {};
    const float *from = t.partial + (int64_t)tile * splits * PART;
#pragma unroll 2
    for (int split = 0; split < splits; split++)
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
        if (o >= t.outputs || (is_bias ? p != 0 : c >= t.inputs)) continue;
        *(is_bias ? t.d_b + o : t.d_W + (int64_t)o * t.inputs + c) = (float)sum[k];
    }
}

static __global__ void __launch_bounds__(BLOCK, 2) sum_weights(const __grid_constant__ work w) {
    __shared__ __align__(16) float a[2 * CHUNK * LINE];
    __shared__ bool is_last;
    int l = 0;
    while (l + 1 < w.n && blockIdx.x >= w.of[l + 1].first) l++;
    const summing &t = w.of[l];
    int part = (int)(blockIdx.x - t.first), tile = part / w.splits, split = part % w.splits;
    int64_t row = split * w.split, end = row + w.split < w.rows ? row + w.split : w.rows;
    sums s = {};
    take_turn();
    float bias = sum_rows(t, tile / t.p_tiles * SIDE, tile % t.p_tiles * SIDE, row, end, a, s);
    put_part(s, bias, a, t.partial + (int64_t)part * PART);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicInc(t.arrived + tile, (unsigned)w.splits - 1) == (unsigned)w.splits - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    add_tile(t, w.splits, tile);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static int tiles_of(int n) { return (n + SIDE - 1) / SIDE; }

static int64_t split_of(int64_t rows) {
    int64_t share = (rows + MOST_SPLITS - 1) / MOST_SPLITS;
    share = (share + CHUNK - 1) / CHUNK * CHUNK;
    return share < LEAST_SPLIT ? LEAST_SPLIT : share;
}

static int64_t splits_of(int64_t rows) { return (rows + split_of(rows) - 1) / split_of(rows); }

int64_t train_cuda_dense_bytes(int64_t rows, int inputs, int outputs) {
    int64_t tiles = (int64_t)tiles_of(inputs) * tiles_of(outputs);
    return tiles * (splits_of(rows) * PART * (int64_t)sizeof(float) + (int64_t)sizeof(unsigned));
}

cudaError_t train_cuda_dense_weights(int64_t rows, int n, const cuda_link *links, void *stream) {
    work w = {};
    unsigned blocks = 0;
    w.rows = rows, w.n = n, w.split = split_of(rows), w.splits = (int)splits_of(rows);
    for (int l = 0; l < n; l++) {
        const cuda_link &from = links[l];
        summing &t = w.of[l];
        int tiles = tiles_of(from.inputs) * tiles_of(from.outputs);
        t.in = from.in, t.g = from.before, t.d_W = from.d_W, t.d_b = from.d_b;
        t.inputs = from.inputs, t.outputs = from.outputs, t.p_tiles = tiles_of(from.inputs);
        t.arrived = (unsigned *)from.scratch;
        t.partial = (float *)(t.arrived + tiles);
        t.first = blocks;
        blocks += (unsigned)(tiles * w.splits);
    }
    return start_early(sum_weights, blocks, BLOCK, stream, w);
}
