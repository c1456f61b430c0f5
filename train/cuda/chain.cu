/* Small dense layers that follow one another, in float32. One kernel takes the batch through all of them, forward or
 * back, because the time of a step of a small network grows with the number of its kernels. dense.c has the formulas;
 * dense.cu sums the gradients of the weights.
 *
 *     forward    to (r, n) = f(b_n + sum over k of from (r, k) W (n, k))        n: outputs, k: inputs
 *     back       to (r, n) = f'(.) sum over k of from (r, k) W (k, n)           n: inputs, k: outputs
 *
 * Rows do not meet, so a block has a few rows and keeps them in shared memory from layer to layer. The weights come in
 * pieces of 64 by 64. Each thread copies those that it needs itself, some pieces ahead and across the ends of layers,
 * so that nobody waits for memory or for another thread's copy: it has one n of the piece and a quarter of the k, and
 * four neighbours add up theirs. */
#include "train/cuda/early.cuh"
#include "train/cuda/stages.cuh"

enum { SIDE = 64, SLICES = 4, EACH = SIDE / SLICES, BLOCK = SIDE * SLICES };
enum { STAGES = 4, STAGE = SIDE * SIDE }; /* pieces in shared memory; numbers of one */
enum { FEW_ROWS = 512, MOST_WIDTH = 1024, MOST_WEIGHTS = 256 * 256 };

struct link {
    const float *W, *b; /* b: forward */
    const float *out;   /* back: (rows, n), what the activation f below made; NULL: none is to be undone */
    float *to;          /* (rows, n) */
    int k, n;
    cuda_bend f;
    bool wide; /* the weights can be copied by fours */
};

struct chain {
    int64_t rows;
    int n_links, width; /* width: numbers of a row in shared memory */
    int first;          /* numbers of a row of in */
    const float *in;
    const float *out; /* back: of the last layer, by which its activation is undone */
    cuda_bend f;
    float *before; /* back: in, undone */
    link links[TRAIN_CUDA_LINKS];
};

static __host__ __device__ inline int up_to_side(int n) { return (n + SIDE - 1) / SIDE * SIDE; }

/* ---- pieces of weights ------------------------------------------------------------------------------------------- */

struct piece {
    int link, n, k; /* n and k: where it begins */
};

/* To the next piece; whether that is of the next layer. */
static __device__ inline bool advance(const link &l, piece &p) {
    p.k += SIDE;
    if (p.k < l.k) return false;
    p.k = 0;
    p.n += SIDE;
    if (p.n < l.n) return false;
    p.n = 0;
    p.link++;
    return true;
}

/* This thread's weights (n, k + 16 i + 4 slice + j) of the piece, zeros where there are none. They lie by fours, or
 * one by one, such that each thread has places of its own, whatever was there before. */
template <bool BACK>
static __device__ inline void copy_piece(const link &l, const piece &p, float *stage) {
    int n = p.n + threadIdx.x / SLICES, first = p.k + threadIdx.x % SLICES * 4;
#pragma unroll
    for (int i = 0; i < EACH / 4; i++) {
        int k = first + 16 * i;
        float *four = stage + 4 * (i * BLOCK + threadIdx.x);
        if (!BACK && l.wide) {
            bool inside = n < l.n && k < l.k;
            bring(four, l.W + (inside ? n * l.k + k : 0), inside);
            continue;
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            bool inside = n < l.n && k + j < l.k;
            int at = BACK ? (k + j) * l.n + n : n * l.k + k + j;
            bring_one(BACK ? stage + (4 * i + j) * BLOCK + threadIdx.x : four + j, l.W + (inside ? at : 0), inside);
        }
    }
}

template <bool BACK>
static __device__ inline void read_piece(const float *stage, float (&w)[EACH]) {
#pragma unroll
    for (int i = 0; i < EACH / 4; i++) {
        if (BACK) {
#pragma unroll
            for (int j = 0; j < 4; j++) w[4 * i + j] = stage[(4 * i + j) * BLOCK + threadIdx.x];
            continue;
        }
        float4 four = ((const float4 *)stage)[i * BLOCK + threadIdx.x];
        w[4 * i] = four.x, w[4 * i + 1] = four.y, w[4 * i + 2] = four.z, w[4 * i + 3] = four.w;
    }
}

/* Pieces on their way: the next to be copied, with its layer, and the number of those that were used. */
struct supply {
    float *ring;
    piece next;
    link of;
    unsigned used;
};

/* Every call ends a group of copies, also where nothing is left, so that groups can be counted. */
template <bool BACK>
static __device__ inline void order_piece(const chain &c, supply &s, unsigned number) {
    if (s.next.link < c.n_links) {
        copy_piece<BACK>(s.of, s.next, s.ring + number % STAGES * STAGE);
        if (advance(s.of, s.next) && s.next.link < c.n_links) s.of = c.links[s.next.link];
    }
    end_stage();
}

template <bool BACK>
static __device__ inline void take_piece(const chain &c, supply &s, float (&w)[EACH]) {
    wait_stage<STAGES - 2>();
    read_piece<BACK>(s.ring + s.used % STAGES * STAGE, w);
    order_piece<BACK>(c, s, s.used + STAGES - 1);
    s.used++;
}

/* ---- a layer ----------------------------------------------------------------------------------------------------- */

template <int ROWS>
static __device__ inline void add_products(const float *from, int width, const float (&w)[EACH], float (&sum)[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < EACH / 4; i++) {
            float4 x = *(const float4 *)(from + r * width + 16 * i + threadIdx.x % SLICES * 4);
            sum[r] += w[4 * i] * x.x;
            sum[r] += w[4 * i + 1] * x.y;
            sum[r] += w[4 * i + 2] * x.z;
            sum[r] += w[4 * i + 3] * x.w;
        }
}

/* What goes with the sums of this thread's rows, every fourth of the block's, and of its n: the bias, or what the
 * activation made. It is read before the sums are. */
template <int ROWS>
struct besides {
    float b, out[ROWS / SLICES];
};

static __device__ inline int64_t own_row(int64_t row, int m) { return row + SLICES * m + threadIdx.x % SLICES; }

template <int ROWS, bool BACK>
static __device__ inline besides<ROWS> read_besides(const chain &c, const link &l, int64_t row, int n) {
    besides<ROWS> o = {};
    if (n >= l.n) return o;
    if (!BACK) o.b = l.b[n];
#pragma unroll
    for (int m = 0; m < ROWS / SLICES; m++)
        if (BACK && l.out != NULL && own_row(row, m) < c.rows) o.out[m] = l.out[own_row(row, m) * l.n + n];
    return o;
}

/* Beyond n there are zeros, which the next layer reads. */
template <int ROWS, bool BACK>
static __device__ inline void put_sums(const chain &c, const link &l, int64_t row, int n, const besides<ROWS> &o,
                                       const float (&sum)[ROWS], float *to) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float s = sum[r];
        s += __shfl_xor_sync(0xffffffffu, s, 1);
        s += __shfl_xor_sync(0xffffffffu, s, 2);
        if (r % SLICES != threadIdx.x % SLICES) continue;
        bool inside = n < l.n && row + r < c.rows;
        float value = 0.0f;
        if (inside) value = !BACK ? bend(l.f, s + o.b) : l.out != NULL ? bend_back(l.f, o.out[r / SLICES], s) : s;
        to[r * c.width + n] = value;
        if (inside) l.to[(row + r) * l.n + n] = value;
    }
}

template <int ROWS, bool BACK>
static __device__ inline void pass_link(const chain &c, const link &l, supply &s, int64_t row, const float *from,
                                        float *to) {
    for (int n = 0; n < l.n; n += SIDE) {
        int own = n + threadIdx.x / SLICES;
        besides<ROWS> o = read_besides<ROWS, BACK>(c, l, row, own);
        float sum[ROWS] = {};
        for (int k = 0; k < l.k; k += SIDE) {
            float w[EACH];
            take_piece<BACK>(c, s, w);
            add_products<ROWS>(from + k, c.width, w, sum);
        }
        put_sums<ROWS, BACK>(c, l, row, own, o, sum, to);
    }
}

/* ---- the chain --------------------------------------------------------------------------------------------------- */

/* A warp takes a row, by columns of its lanes. */
template <int ROWS, bool BACK>
static __device__ inline void bring_rows(const chain &c, int64_t first, float *to) {
    for (int r = threadIdx.x / 32; r < ROWS; r += BLOCK / 32) {
        int64_t row = first + r;
#pragma unroll 4
        for (int k = threadIdx.x % 32; k < up_to_side(c.first); k += 32) {
            int64_t at = row * c.first + k;
            bool inside = k < c.first && row < c.rows;
            float value = inside ? c.in[at] : 0.0f;
            if (BACK && inside) c.before[at] = value = bend_back(c.f, c.out[at], value);
            to[r * c.width + k] = value;
        }
    }
}

template <int ROWS, bool BACK>
static __global__ void __launch_bounds__(BLOCK) pass_chain(const __grid_constant__ chain c) {
    extern __shared__ float4 memory[];
    supply s = {(float *)memory, {0, 0, 0}, c.links[0], 0};
    float *from = s.ring + STAGES * STAGE, *to = from + ROWS * c.width;
    int64_t row = (int64_t)blockIdx.x * ROWS;
    take_turn();
    for (unsigned k = 0; k < STAGES - 1; k++) order_piece<BACK>(c, s, k);
    bring_rows<ROWS, BACK>(c, row, from);
    __syncthreads();
    for (int l = 0; l < c.n_links; l++) {
        const link own = c.links[l]; /* a copy, which stays in registers */
        pass_link<ROWS, BACK>(c, own, s, row, from, to);
        __syncthreads();
        float *other = from;
        from = to;
        to = other;
    }
    wait_stage<0>();
}

template <int ROWS, bool BACK>
static cudaError_t launch(const chain &c, void *stream) {
    size_t bytes = (size_t)(STAGES * STAGE + 2 * ROWS * c.width) * sizeof(float);
    unsigned blocks = (unsigned)((c.rows + ROWS - 1) / ROWS);
    cudaError_t error = allow_shared(pass_chain<ROWS, BACK>);
    if (error != cudaSuccess) return error;
    return start_early_with(bytes, pass_chain<ROWS, BACK>, blocks, BLOCK, stream, c);
}

/* Few rows go to more blocks; a row's sums are the same in both. */
template <bool BACK>
static cudaError_t start(chain &c, void *stream) {
    c.width = up_to_side(c.first);
    for (int l = 0; l < c.n_links; l++)
        if (up_to_side(c.links[l].n) > c.width) c.width = up_to_side(c.links[l].n);
    return c.rows <= FEW_ROWS || c.width > MOST_WIDTH / 2 ? launch<4, BACK>(c, stream) : launch<8, BACK>(c, stream);
}

/* ------------------------------------------------------------------------------------------------------------------ */

bool train_cuda_is_link(int inputs, int outputs) {
    return inputs <= MOST_WIDTH && outputs <= MOST_WIDTH && inputs * outputs <= MOST_WEIGHTS;
}

cudaError_t train_cuda_chain_forward(int64_t rows, int n, const cuda_link *links, void *stream) {
    chain c = {};
    c.rows = rows, c.n_links = n, c.first = links[0].inputs, c.in = links[0].in;
    for (int l = 0; l < n; l++) {
        const cuda_link &from = links[l];
        link &to = c.links[l];
        to.W = from.W, to.b = from.b, to.to = from.out, to.k = from.inputs, to.n = from.outputs, to.f = from.f;
        to.wide = from.inputs % 4 == 0 && (uintptr_t)from.W % sizeof(float4) == 0;
    }
    return start<false>(c, stream);
}

cudaError_t train_cuda_chain_back(int64_t rows, int n, const cuda_link *links, const float *grad_out, float *grad_in,
                                  void *stream) {
    const cuda_link &last = links[n - 1];
    chain c = {};
    c.rows = rows, c.first = last.outputs, c.in = grad_out, c.out = last.out, c.f = last.f, c.before = last.before;
    c.n_links = grad_in != NULL ? n : n - 1;
    for (int l = 0; l < c.n_links; l++) {
        const cuda_link &from = links[n - 1 - l];
        link &to = c.links[l];
        to.W = from.W, to.k = from.outputs, to.n = from.inputs, to.to = grad_in;
        if (l == n - 1) break;
        const cuda_link &below = links[n - 2 - l];
        to.to = below.before, to.out = below.out, to.f = below.f;
    }
    return start<true>(c, stream);
}
