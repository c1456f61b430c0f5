/* Convolutions that halve images, forward and the gradient at the input, by the tensor units with TF32: halving.cuh has
 * the notation. Products are those of tensor_units.cuh, place by place of the kernel:
 *
 *     forward     out (16 outputs, 8 points)     += W_tap (outputs, 8 channels) in_tap (channels, points)
 *     gradient    grad_in (16 channels, 8 points) += W_tap' (channels, 8 outputs) g_tap (outputs, points)
 *
 * with the points two quads of output, and in the gradient four sums, one for each of the numbers around (2y, 2x) that
 * halving_data.cu lists. They are limited by memory: a block brings its weights once and has several tiles, one after
 * the other; other blocks of the multiprocessor multiply while it brings the next. Numbers from channel to channel are
 * 8 banks apart, from line to line such that two quads below each other fill what is between. */
#include "train/cuda/halving.cuh"
#include "train/cuda/tensor_units.cuh"

enum { PAIRS = 4, QUADS = 2 * PAIRS * WARPS };  /* pairs of quads of a warp; quads of a tile */
enum { BLOCKS = 660, MOST_BYTES = 110 * 1024 }; /* to aim at; bytes of shared memory of a block, of which two fit */

struct plan {
    cuda_window w;
    tiling t;
    lines l;        /* of input, or of g: there `odd` and `even` mean nothing */
    bring_by by;    /* of input */
    int chunk;      /* channels, or outputs, in shared memory at once: a multiple of TENSOR_K */
    int numbers;    /* of these */
    int weights;    /* numbers of weights there */
    int side, step; /* outputs, or channels, of a block; numbers of weights from factor to factor */
    unsigned blocks;
    divider by_line, by_rows, by_images, by_weights;
    size_t bytes;
};

static int up_to(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

/* Every block has as many tiles as any other, except for the last. */
static void set_blocks(plan *p) {
    int64_t rounds = (p->t.tiles + BLOCKS - 1) / BLOCKS;
    p->blocks = (unsigned)((p->t.tiles + rounds - 1) / rounds);
    p->bytes = (size_t)(p->numbers + p->weights) * sizeof(float);
}

/* This lane's point of pair j, as a column of b; and the first of its two points as columns of the sum. */
static __device__ inline int quad_of_factor(int j) {
    return 2 * (threadIdx.x / LANES * PAIRS + j) + threadIdx.x % LANES / 16;
}
static __device__ inline int point_of_factor() { return threadIdx.x % LANES / 4 % QUAD; }
static __device__ inline int quad_of_sum(int j) { return 2 * (threadIdx.x / LANES * PAIRS + j) + threadIdx.x % 4 / 2; }
static __device__ inline int point_of_sum() { return threadIdx.x % 2 * 2; }

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static plan plan_forward(cuda_window w) {
    plan p = {};
    p.w = w;
    p.t = tile_quads(w, QUADS);
    p.side = w.outputs > TENSOR_M ? 2 * TENSOR_M : TENSOR_M;
    p.step = p.side + 8;
    p.chunk = TENSOR_K;
    p.l.odd = 2; /* the number before is zero */
    p.l.even = 2 + w.out_width;
    p.l.line = 2 + 2 * w.out_width;
    p.l.plane = up_to_bank((2 * p.t.rows + 1) * p.l.line, 8);
    p.l.image = p.chunk * p.l.plane;
    p.numbers = p.t.images * p.l.image;
    p.weights = up_to(w.channels, TENSOR_K) * TAPS * p.step;
    p.by = bring_divisions(w, p.t, p.chunk);
    p.by_weights = divide_by(up_to(w.channels, TENSOR_K) * TAPS);
    set_blocks(&p);
    return p;
}

/* to (channels, taps, outputs); zeros where there are none. */
static __device__ inline void bring_forward(const plan &p, int output, const float *weights, float *to) {
    int each = (int)p.by_weights.d, there = p.w.channels * TAPS;
    auto fetch = [&](int e) {
        int o = p.by_weights.quotient(e), k = e - o * each;
        one_number item = {0.0f, k * p.step + o};
        if (output + o < p.w.outputs && k < there) item.v = weights[(int64_t)(output + o) * there + k];
        return item;
    };
    bring_at_once<18>(p.side * each, fetch, [&](const one_number &item) { to[item.to] = to_tf32(item.v); });
}

template <int M>
static __device__ inline void multiply_lines(const plan &p, const float *x, const float *W, const int (&at)[PAIRS],
                                             float (&sum)[M][PAIRS][4]) {
    int row = threadIdx.x % LANES / 4, k = threadIdx.x % 4;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        float a[M][4];
        const float *factors = W + (k * TAPS + tap) * p.step + row, *after = factors + 4 * TAPS * p.step;
#pragma unroll
        for (int m = 0; m < M; m++) {
            a[m][0] = factors[TENSOR_M * m];
            a[m][1] = factors[TENSOR_M * m + 8];
            a[m][2] = after[TENSOR_M * m];
            a[m][3] = after[TENSOR_M * m + 8];
        }
        const float *from =
            x + k * p.l.plane + tap / 3 * p.l.line + (tap % 3 == 1 ? p.l.even : p.l.odd - (tap % 3 == 0 ? 1 : 0));
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            const float b[2] = {from[at[j]], from[at[j] + 4 * p.l.plane]};
#pragma unroll
            for (int m = 0; m < M; m++) multiply_tf32(a[m], b, sum[m][j]);
        }
    }
}

template <int M>
static __device__ inline void put_forward(const plan &p, const corner &at, cuda_bend f, int first, const float *bias,
                                          const float (&sum)[M][PAIRS][4], float *out) {
    const cuda_window &w = p.w;
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        place here = place_of(w, p.t, at, quad_of_sum(j));
        if (!here.valid) continue;
        float *to = out + (at.image + here.image) * w.outputs * w.out_height * w.out_width +
                    (at.row + here.row) * w.out_width + QUAD * here.column + point_of_sum();
#pragma unroll
        for (int m = 0; m < 2 * M; m++) {
            int o = first + 8 * m + threadIdx.x % LANES / 4;
            if (o >= w.outputs) continue;
            float b = bias != NULL ? bias[o] : 0.0f;
            const float *two = &sum[m / 2][j][m % 2 * 2];
            *(float2 *)(to + (int64_t)o * w.out_height * w.out_width) = {bend(f, two[0] + b), bend(f, two[1] + b)};
        }
    }
}

/* The number at the other line of the same pool's window, of pair j: a pair or a lane away. */
static __device__ inline float across(int in_line, const float (&v)[PAIRS], int j) {
    if (in_line == 1) return __shfl_xor_sync(0xffffffffu, v[j], 2);
    return in_line == 2 ? v[j ^ 1] : v[j ^ 2];
}

/* The same with a pool: the thread that has the upper line of a window puts it. */
template <int M>
static __device__ inline void put_pooled(const plan &p, const corner &at, cuda_bend f, int first, const float *bias,
                                         const float (&sum)[M][PAIRS][4], uint8_t *taken, float *out) {
    const cuda_window &w = p.w;
    int points = w.out_height * w.out_width / 4, to[PAIRS];
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        place here = place_of(w, p.t, at, quad_of_sum(j));
        to[j] = (here.image * w.outputs * points) + (at.row + here.row) / 2 * (w.out_width / 2) + 2 * here.column +
                point_of_sum() / 2;
        if (!here.valid || here.row % 2 != 0) to[j] = -1;
    }
#pragma unroll
    for (int m = 0; m < 2 * M; m++) {
        int o = first + 8 * m + threadIdx.x % LANES / 4;
        float b = bias != NULL && o < w.outputs ? bias[o] : 0.0f, left[PAIRS], right[PAIRS];
        int64_t plane = (at.image * w.outputs + o) * points;
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            left[j] = bend(f, sum[m / 2][j][m % 2 * 2] + b);
            right[j] = bend(f, sum[m / 2][j][m % 2 * 2 + 1] + b);
        }
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            largest most = largest_of(left[j], right[j], across(p.t.in_line, left, j), across(p.t.in_line, right, j));
            if (to[j] < 0 || o >= w.outputs) continue;
            out[plane + to[j]] = most.value;
            taken[plane + to[j]] = (uint8_t)most.at;
        }
    }
}

/* The zeros before every line of input. */
static __device__ inline void begin_lines(const plan &p, float *x) {
    int n_lines = 2 * p.t.rows + 1;
    for (int e = threadIdx.x; e < p.t.images * p.chunk * n_lines; e += BLOCK)
        x[e / n_lines * p.l.plane + e % n_lines * p.l.line + p.l.odd - 1] = 0.0f;
}

template <int M, bool POOLED>
static __global__ void __launch_bounds__(BLOCK, 4)
    halve(plan p, cuda_bend f, const float *in, const float *weights, const float *bias, uint8_t *taken, float *out) {
    extern __shared__ float4 memory[];
    float *x = (float *)memory, *W = x + p.numbers;
    int first_output = blockIdx.y * p.side, own[PAIRS];
    bring_forward(p, first_output, weights, W);
    begin_lines(p, x);
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        place here = place_of(p.w, p.t, {}, quad_of_factor(j));
        own[j] = here.image * p.l.image + 2 * here.row * p.l.line + QUAD * here.column + point_of_factor();
    }
    for (int64_t tile = blockIdx.x; tile < p.t.tiles; tile += gridDim.x) {
        corner at = corner_of(p.w, p.t, tile);
        float sum[M][PAIRS][4] = {};
        for (int first = 0; first < p.w.channels; first += p.chunk) {
            __syncthreads();
            bring_lines<true>(p.w, p.t, at, p.l, p.by, first, p.chunk, in, x);
            __syncthreads();
            multiply_lines<M>(p, x, W + first * TAPS * p.step, own, sum);
        }
        if (POOLED)
            put_pooled<M>(p, at, f, first_output, bias, sum, taken, out);
        else
            put_forward<M>(p, at, f, first_output, bias, sum, out);
    }
}

template <int M>
static cudaError_t launch_forward(const plan &p, cuda_bend f, const float *in, const float *weights, const float *bias,
                                  uint8_t *taken, float *out, void *stream) {
    dim3 grid(p.blocks, (unsigned)((p.w.outputs + p.side - 1) / p.side));
    auto kernel = taken != NULL ? halve<M, true> : halve<M, false>;
    cudaError_t error = allow_shared(kernel);
    if (error != cudaSuccess) return error;
    kernel<<<grid, BLOCK, p.bytes, on(stream)>>>(p, f, in, weights, bias, taken, out);
    return cudaGetLastError();
}

/* ---- the gradient at the input ----------------------------------------------------------------------------------- */

static plan plan_data(cuda_window w, bool pooled) {
    plan p = {};
    p.w = w;
    p.t = tile_quads(w, QUADS);
    p.side = TENSOR_M;
    p.step = TAPS * TENSOR_M + 8;
    p.l.line = w.out_width + (w.out_width == QUAD ? 8 : 4); /* the number after a line is zero */
    p.l.image = (p.t.rows + 1) * p.l.line;
    p.l.plane = up_to_bank(p.t.images * p.l.image, 8);
    p.weights = up_to(w.outputs, TENSOR_K) * p.step;
    for (p.chunk = w.outputs > 24 ? 32 : up_to(w.outputs, TENSOR_K); p.chunk > TENSOR_K; p.chunk -= TENSOR_K)
        if ((size_t)(p.chunk * p.l.plane) * sizeof(float) <= MOST_SHARED / 2) break;
    p.numbers = p.chunk * p.l.plane;
    p.by_line = divide_by(p.t.in_line);
    p.by_rows = divide_by(pooled ? p.t.rows / 2 + 1 : p.t.rows + 1);
    p.by_images = divide_by(p.t.images);
    p.by_weights = divide_by(TENSOR_M * TAPS);
    set_blocks(&p);
    return p;
}

/* to (outputs, taps, channels); zeros where there are none. */
static __device__ inline void bring_back(const plan &p, int channel, const float *weights, float *to) {
    enum { EACH = TENSOR_M * TAPS };
    int there = (p.w.channels - channel) * TAPS;
    auto fetch = [&](int e) {
        int o = p.by_weights.quotient(e), k = e - o * EACH, c = k / TAPS;
        one_number item = {0.0f, o * p.step + (k - c * TAPS) * TENSOR_M + c};
        if (o < p.w.outputs && k < there) item.v = weights[((int64_t)o * p.w.channels + channel) * TAPS + k];
        return item;
    };
    bring_at_once<18>(p.weights / p.step * EACH, fetch, [&](const one_number &item) { to[item.to] = to_tf32(item.v); });
}

/* The zeros after every line. */
static __device__ inline void begin_grad(const plan &p, float *g) {
    int rows = p.t.images * (p.t.rows + 1);
    for (int e = threadIdx.x; e < p.chunk * rows; e += BLOCK)
        g[e / rows * p.l.plane + e % rows * p.l.line + p.w.out_width] = 0.0f;
}

/* Sums of the four numbers around each point: (line, column). */
struct around {
    float n[2][2][PAIRS][4];
};

/* Eight outputs. The places of the kernel 0, 1, 2 go to the numbers 1, 0, 1, and the first takes the next g. */
static __device__ inline void multiply_grad(const plan &p, const float *g, const float *W, const int (&at)[PAIRS],
                                            around &sum) {
    int row = threadIdx.x % LANES / 4, k = threadIdx.x % 4;
    float b[2][2][PAIRS][2];
#pragma unroll
    for (int s = 0; s < 4; s++)
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            const float *from = g + k * p.l.plane + s / 2 * p.l.line + s % 2 + at[j];
            b[s / 2][s % 2][j][0] = from[0];
            b[s / 2][s % 2][j][1] = from[4 * p.l.plane];
        }
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        const float *factors = W + k * p.step + tap * TENSOR_M + row, *after = factors + 4 * p.step;
        const float a[4] = {factors[0], factors[8], after[0], after[8]};
        const int y = tap / 3, x = tap % 3;
#pragma unroll
        for (int j = 0; j < PAIRS; j++) multiply_tf32(a, b[y == 0][x == 0][j], sum.n[y != 1][x != 1][j]);
    }
}

static __device__ inline void put_data(const plan &p, const corner &at, int first, const around &sum, float *grad_in) {
    const cuda_window &w = p.w;
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        place here = place_of(w, p.t, at, quad_of_sum(j));
        if (!here.valid) continue;
        float *to = grad_in + ((at.image + here.image) * w.channels * w.height + 2 * (at.row + here.row)) * w.width +
                    2 * (QUAD * here.column + point_of_sum());
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int c = first + 8 * half + threadIdx.x % LANES / 4;
            if (c >= w.channels) continue;
#pragma unroll
            for (int line = 0; line < 2; line++) {
                const float *even = &sum.n[line][0][j][2 * half], *odd = &sum.n[line][1][j][2 * half];
                *(float4 *)(to + ((int64_t)c * w.height + line) * w.width) = {even[0], odd[0], even[1], odd[1]};
            }
        }
    }
}

template <bool POOLED>
static __global__ void __launch_bounds__(BLOCK, 4)
    data_back(plan p, cuda_shown s, const float *weights, float *grad_in) {
    extern __shared__ float4 memory[];
    float *g = (float *)memory, *W = g + p.numbers;
    int first_channel = blockIdx.y * p.side, own[PAIRS];
    bring_back(p, first_channel, weights, W);
    begin_grad(p, g);
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        place here = place_of(p.w, p.t, {}, quad_of_factor(j));
        own[j] = here.image * p.l.image + here.row * p.l.line + QUAD * here.column + point_of_factor();
    }
    for (int64_t tile = blockIdx.x; tile < p.t.tiles; tile += gridDim.x) {
        corner at = corner_of(p.w, p.t, tile);
        around sum = {};
        for (int first = 0; first < p.w.outputs; first += p.chunk) {
            __syncthreads();
            bring_grad_lines<POOLED, true>(p, p.l, at, s, first, g);
            __syncthreads();
            int outputs = p.w.outputs - first < p.chunk ? p.w.outputs - first : p.chunk;
            for (int o = 0; o < outputs; o += TENSOR_K)
                multiply_grad(p, g + o * p.l.plane, W + (first + o) * p.step, own, sum);
        }
        put_data(p, at, first_channel, sum, grad_in);
    }
}

/* ------------------------------------------------------------------------------------------------------------------ */

bool train_cuda_halves_by_tensor_units(cuda_window w) {
    return train_cuda_halves(w) && w.channels >= TENSOR_K && w.outputs >= TENSOR_K &&
           plan_forward(w).bytes <= MOST_BYTES && plan_data(w, false).bytes <= MOST_BYTES;
}

cudaError_t train_cuda_halve_tf32(cuda_window w, cuda_bend f, const float *in, const float *weights, const float *bias,
                                  uint8_t *taken, float *out, void *stream) {
    plan p = plan_forward(w);
    auto launch = p.side == TENSOR_M ? launch_forward<1> : launch_forward<2>;
    return launch(p, f, in, weights, bias, taken, out, stream);
}

cudaError_t train_cuda_halve_data_tf32(cuda_window w, cuda_shown shown, const float *weights, float *grad_in,
                                       void *stream) {
    plan p = plan_data(w, shown.taken != NULL);
    dim3 grid(p.blocks, (unsigned)((w.channels + p.side - 1) / p.side));
    auto kernel = shown.taken != NULL ? data_back<true> : data_back<false>;
    cudaError_t error = allow_shared(kernel);
    if (error != cudaSuccess) return error;
    kernel<<<grid, BLOCK, p.bytes, on(stream)>>>(p, shown, weights, grad_in);
    return cudaGetLastError();
}
