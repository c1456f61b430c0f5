/* The gradient of weights and bias of convolutions that halve images: halving.cuh has the notation.
 *
 *     d_W (o, c, ky, kx) = sum over images and points of g (o, y, x) in (c, 2y + ky - 1, 2x + kx - 1)
 *     d_b (o)            = sum over images and points of g (o, y, x)
 *
 * with g the gradient before the activation, which is worked out as it is read. A thread sums eight outputs by nine
 * places of the kernel for one channel, a quad at a time: 288 multiply-adds for 17 reads. Threads of the same outputs
 * and channel have other quads (slices), and blocks have other tiles; all are added in a fixed order.
 *
 * With TF32 a block of 32 outputs and 16 channels has the same tile, and its four warps 16 outputs by 8 channels each:
 * for two quads a warp multiplies g (16, 8 points) by in (8 points, 8 channels), place by place of the kernel. */
#include "train/cuda/halving.cuh"
#include "train/cuda/tensor_units.cuh"

enum {
    EACH = 8,
    BLOCKS = 528
}; /* outputs of a thread; blocks to aim at, whatever the GPU, so that sums are the same */

struct plan {
    cuda_window w;
    tiling t;
    lines l;
    bring_by by;
    int groups, channels; /* threads side by side: EACH outputs each, every groups-th; one channel each */
    int slices, quads;
    int outputs; /* of a block */
    int g_line;  /* numbers from output to output of g in shared memory */
    int x_numbers;
    divider by_items, by_image; /* of the gradient: quads, or pairs of them below each other */
    int64_t share;              /* tiles of a block */
    int splits;
    size_t bytes;
};

static int power_up_to(int n, int most) {
    int power = 1;
    while (power < n && power < most) power *= 2;
    return power;
}

/* Neighbours in a warp differ in outputs and channels, whose first numbers lie four banks apart. */
static void set_tile(plan *p, int quads) {
    const cuda_window &w = p->w;
    p->t = tile_quads(w, quads);
    p->quads = p->t.images * p->t.in_image;
    p->l.odd = 4; /* the number before is zero */
    p->l.even = 4 + w.out_width;
    p->l.line = 4 + 2 * w.out_width;
    p->l.plane = up_to_bank((2 * p->t.rows + 1) * p->l.line, 4);
    p->l.image = p->channels * p->l.plane;
    p->x_numbers = p->t.images * p->l.image;
    p->g_line = up_to_bank(QUAD * p->quads, 4);
    p->bytes = (size_t)(p->x_numbers + p->outputs * p->g_line + p->quads) * sizeof(float);
    size_t sums = (size_t)BLOCK * (TAPS + 1) * sizeof(float);
    if (p->bytes < sums) p->bytes = sums;
}

static bool make_plan(cuda_window w, bool pooled, plan *p) {
    *p = {};
    p->w = w;
    p->groups = power_up_to((w.outputs + EACH - 1) / EACH, 4);
    p->channels = power_up_to(w.channels, 16);
    p->slices = BLOCK / (p->groups * p->channels);
    p->outputs = p->groups * EACH;
    int quads = 4 * LANES;
    set_tile(p, quads);
    while (p->bytes > MOST_SHARED && quads / 2 >= p->t.in_line) set_tile(p, quads /= 2);
    if (p->bytes > MOST_SHARED) return false;
    int side = ((w.outputs + p->outputs - 1) / p->outputs) * ((w.channels + p->channels - 1) / p->channels);
    int64_t splits = BLOCKS / side < 1 ? 1 : BLOCKS / side;
    p->share = (p->t.tiles + splits - 1) / splits;
    p->splits = (int)((p->t.tiles + p->share - 1) / p->share);
    p->by = bring_divisions(w, p->t, p->channels);
    p->by_items = divide_by(pooled ? p->quads / 2 : p->quads);
    p->by_image = divide_by(pooled ? p->t.in_image / 2 : p->t.in_image);
    return true;
}

/* ---- bringing a tile --------------------------------------------------------------------------------------------- */

/* to (outputs, g_line) := g of outputs [first, ..); zeros where there are none. */
template <bool POOLED>
static __device__ inline void bring_grad(const plan &p, const corner &at, const cuda_shown &s, int first, float *to) {
    const cuda_window &w = p.w;
    int items = POOLED ? p.quads / 2 : p.quads, of_image = POOLED ? p.t.in_image / 2 : p.t.in_image;
    auto fetch = [&](int e) {
        int output = p.by_items.quotient(e), item = e - output * items;
        int image = p.t.strips > 1 ? 0 : p.by_image.quotient(item), within = item - image * of_image;
        int line = p.t.by_line.quotient(within), k = within - line * p.t.in_line, row = POOLED ? 2 * line : line;
        bool there = image < at.images && first + output < w.outputs && at.row + row < w.out_height;
        int64_t plane = (at.image + image) * w.outputs + first + output;
        int place = output * p.g_line + QUAD * (image * p.t.in_image + row * p.t.in_line + k);
        if constexpr (POOLED)
            return windows_at(w, s, there, plane, at.row / 2 + line, k, place);
        else
            return pairs_at(w, s, there, plane, at.row + row, k, place);
    };
    bring_at_once<4>(p.outputs * items, fetch, [&](const auto &item) {
        if constexpr (POOLED) {
            float4 upper, lower;
            unpool(s.f, item, upper, lower);
            *(float4 *)(to + item.to) = upper;
            *(float4 *)(to + item.to + QUAD * p.t.in_line) = lower;
        } else {
            *(float4 *)(to + item.to) = unbent(s.f, item);
        }
    });
}

/* Where a quad's window begins, and the zeros before every line: the same in all tiles. */
static __device__ inline void begin(const plan &p, float *x, int *offsets) {
    int all = p.t.images * p.channels * (2 * p.t.rows + 1);
    for (int q = threadIdx.x; q < p.quads; q += BLOCK)
        offsets[q] =
            q / p.t.in_image * p.l.image + 2 * (q % p.t.in_image / p.t.in_line) * p.l.line + QUAD * (q % p.t.in_line);
    for (int e = threadIdx.x; e < all; e += BLOCK) {
        int plane = e / (2 * p.t.rows + 1), line = e - plane * (2 * p.t.rows + 1);
        x[plane * p.l.plane + line * p.l.line + p.l.odd - 1] = 0.0f;
    }
}

/* ---- summing ----------------------------------------------------------------------------------------------------- */

static __device__ inline float dot(float4 g, float a, float b, float c, float d, float sum) {
    return g.x * a + (g.y * b + (g.z * c + (g.w * d + sum)));
}

static __device__ inline void add_quad(const plan &p, const float *window, const float *g, float (&sum)[EACH][TAPS]) {
    float before[3];
    float4 odd[3], even[3];
#pragma unroll
    for (int ky = 0; ky < 3; ky++) {
        const float *row = window + ky * p.l.line;
        before[ky] = row[p.l.odd - 1];
        odd[ky] = *(const float4 *)(row + p.l.odd);
        even[ky] = *(const float4 *)(row + p.l.even);
    }
#pragma unroll
    for (int o = 0; o < EACH; o++) {
        float4 four = *(const float4 *)(g + o * p.groups * p.g_line);
#pragma unroll
        for (int ky = 0; ky < 3; ky++) {
            float *to = &sum[o][3 * ky];
            to[0] = dot(four, before[ky], odd[ky].x, odd[ky].y, odd[ky].z, to[0]);
            to[1] = dot(four, even[ky].x, even[ky].y, even[ky].z, even[ky].w, to[1]);
            to[2] = dot(four, odd[ky].x, odd[ky].y, odd[ky].z, odd[ky].w, to[2]);
        }
    }
}

/* Every BLOCK / outputs threads have one output. */
static __device__ inline float add_bias(const plan &p, const float *g) {
    int output = threadIdx.x % p.outputs, parts = BLOCK / p.outputs;
    float sum = 0.0f;
    for (int q = threadIdx.x / p.outputs; q < p.quads; q += parts) {
        float4 four = *(const float4 *)(g + output * p.g_line + QUAD * q);
        sum += (four.x + four.y) + (four.z + four.w);
    }
    return sum;
}

/* ---- the block's sums -------------------------------------------------------------------------------------------- */

/* Over the slices, an output of each thread at a time; `room` has BLOCK * TAPS numbers. */
static __device__ inline void put_sums(const plan &p, int first_output, int first_channel,
                                       const float (&sum)[EACH][TAPS], float *room, float *partial) {
    const cuda_window &w = p.w;
    int side = p.groups * p.channels;
#pragma unroll
    for (int o = 0; o < EACH; o++) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TAPS; k++) room[threadIdx.x * TAPS + k] = sum[o][k];
        __syncthreads();
        for (int e = threadIdx.x; e < side * TAPS; e += BLOCK) {
            float all = 0.0f;
            for (int s = 0; s < p.slices; s++) all += room[s * side * TAPS + e];
            int output = first_output + o * p.groups + e / TAPS % p.groups,
                channel = first_channel + e / TAPS / p.groups;
            if (output < w.outputs && channel < w.channels)
                partial[((int64_t)output * w.channels + channel) * TAPS + e % TAPS] = all;
        }
    }
}

static __device__ inline void put_bias(const plan &p, int first_output, float sum, float *room, float *partial) {
    __syncthreads();
    room[threadIdx.x] = sum;
    __syncthreads();
    int output = threadIdx.x;
    if (output >= p.outputs || first_output + output >= p.w.outputs) return;
    float all = 0.0f;
    for (int k = output; k < BLOCK; k += p.outputs) all += room[k];
    partial[(int64_t)p.w.outputs * p.w.channels * TAPS + first_output + output] = all;
}

/* partial (splits, n): weights, then the bias where n has room for it. */
template <bool POOLED>
static __global__ void __launch_bounds__(BLOCK, 4)
    sum_weights(plan p, cuda_shown s, bool bias, int64_t n, const float *in, float *partial) {
    extern __shared__ float4 memory[];
    float *x = (float *)memory, *g = x + p.x_numbers;
    int *offsets = (int *)(g + p.outputs * p.g_line);
    int group = threadIdx.x % p.groups, channel = threadIdx.x / p.groups % p.channels;
    int slice = threadIdx.x / (p.groups * p.channels);
    int first_output = blockIdx.x * p.outputs, first_channel = blockIdx.y * p.channels;
    float sum[EACH][TAPS] = {}, bias_sum = 0.0f;
    bias = bias && blockIdx.y == 0;
    begin(p, x, offsets);
    int64_t end = (blockIdx.z + 1) * p.share < p.t.tiles ? (blockIdx.z + 1) * p.share : p.t.tiles;
    for (int64_t tile = blockIdx.z * p.share; tile < end; tile++) {
        corner at = corner_of(p.w, p.t, tile);
        __syncthreads();
        bring_lines(p.w, p.t, at, p.l, p.by, first_channel, p.channels, in, x);
        bring_grad<POOLED>(p, at, s, first_output, g);
        __syncthreads();
        for (int q = slice; q < p.quads; q += p.slices)
            add_quad(p, x + offsets[q] + channel * p.l.plane, g + group * p.g_line + QUAD * q, sum);
        if (bias) bias_sum += add_bias(p, g);
    }
    put_sums(p, first_output, first_channel, sum, x, partial + blockIdx.z * n);
    if (bias) put_bias(p, first_output, bias_sum, x, partial + blockIdx.z * n);
}

/* ---- by the tensor units ----------------------------------------------------------------------------------------- */

static bool suits_tensor_units(const plan &p) { return p.outputs == 2 * TENSOR_M && p.channels == 2 * TENSOR_N; }

/* Two quads of the tile; of the second there may be none. */
static __device__ inline void multiply_quads(const plan &p, const float *x, const int *offsets, const float *g, int q,
                                             float (&sum)[TAPS][4]) {
    int column = threadIdx.x % 4;
    bool second = q + 1 < p.quads;
    const float *from = g + QUAD * q + column, *below = from + 8 * p.g_line;
    const float a[4] = {to_tf32(from[0]), to_tf32(below[0]), second ? to_tf32(from[QUAD]) : 0.0f,
                        second ? to_tf32(below[QUAD]) : 0.0f};
    const float *here = x + offsets[q] + column, *there = x + offsets[second ? q + 1 : q] + column;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        int at = tap / 3 * p.l.line + (tap % 3 == 1 ? p.l.even : p.l.odd - (tap % 3 == 0 ? 1 : 0));
        const float b[2] = {here[at], there[at]};
        multiply_tf32(a, b, sum[tap]);
    }
}

static __device__ inline void put_products(const plan &p, int output, int channel, const float (&sum)[TAPS][4],
                                           float *partial) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int o = output + k / 2 * 8, c = channel + k % 2;
        if (o >= p.w.outputs || c >= p.w.channels) continue;
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) partial[((int64_t)o * p.w.channels + c) * TAPS + tap] = sum[tap][k];
    }
}

/* As sum_weights. */
template <bool POOLED>
static __global__ void __launch_bounds__(BLOCK, 4)
    multiply_weights(plan p, cuda_shown s, bool bias, int64_t n, const float *in, float *partial) {
    extern __shared__ float4 memory[];
    float *x = (float *)memory, *g = x + p.x_numbers;
    int *offsets = (int *)(g + p.outputs * p.g_line);
    int warp = threadIdx.x / LANES, row = threadIdx.x % LANES / 4, column = threadIdx.x % 4;
    int own_output = warp % 2 * TENSOR_M + row, own_channel = warp / 2 * TENSOR_N;
    int first_output = blockIdx.x * p.outputs, first_channel = blockIdx.y * p.channels;
    float sum[TAPS][4] = {}, bias_sum = 0.0f;
    bias = bias && blockIdx.y == 0;
    begin(p, x, offsets);
    int64_t end = (blockIdx.z + 1) * p.share < p.t.tiles ? (blockIdx.z + 1) * p.share : p.t.tiles;
    for (int64_t tile = blockIdx.z * p.share; tile < end; tile++) {
        corner at = corner_of(p.w, p.t, tile);
        __syncthreads();
        bring_lines<true>(p.w, p.t, at, p.l, p.by, first_channel, p.channels, in, x);
        bring_grad<POOLED>(p, at, s, first_output, g);
        __syncthreads();
        for (int q = 0; q < p.quads; q += 2)
            multiply_quads(p, x + (own_channel + row) * p.l.plane, offsets, g + own_output * p.g_line, q, sum);
        if (bias) bias_sum += add_bias(p, g);
    }
    put_products(p, first_output + own_output, first_channel + own_channel + 2 * column, sum, partial + blockIdx.z * n);
    if (bias) put_bias(p, first_output, bias_sum, x, partial + blockIdx.z * n);
}

enum { REDUCE_COLUMNS = 32, REDUCE_LINES = 32 };

/* The sum over the splits. */
static __global__ void add_splits(int splits, int64_t n, const float *partial, float *weights) {
    __shared__ double sums[REDUCE_LINES][REDUCE_COLUMNS];
    int64_t at = (int64_t)blockIdx.x * REDUCE_COLUMNS + threadIdx.x;
    double sum = 0.0;
    if (at < n)
#pragma unroll 4
        for (int s = threadIdx.y; s < splits; s += REDUCE_LINES) sum += partial[s * n + at];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || at >= n) return;
    for (int k = 1; k < REDUCE_LINES; k++) sum += sums[k][threadIdx.x];
    weights[at] = (float)sum;
}

static cudaError_t add_all(int splits, int64_t n, const float *partial, float *sums, void *stream) {
    dim3 block(REDUCE_COLUMNS, REDUCE_LINES);
    add_splits<<<blocks_for(n, REDUCE_COLUMNS), block, 0, on(stream)>>>(splits, n, partial, sums);
    return cudaGetLastError();
}

/* ------------------------------------------------------------------------------------------------------------------ */

static int64_t numbers_of(cuda_window w, bool bias) {
    return (int64_t)w.outputs * w.channels * TAPS + (bias ? w.outputs : 0);
}

int64_t train_cuda_halve_bytes(cuda_window w) {
    plan p;
    return make_plan(w, false, &p) ? p.splits * numbers_of(w, true) * (int64_t)sizeof(float) : 0;
}

template <bool POOLED>
static cudaError_t sum_splits(const plan &p, const cuda_shown &s, bool tensor_units, bool bias, int64_t n,
                              const float *in, float *partial, void *stream) {
    const cuda_window &w = p.w;
    dim3 grid((w.outputs + p.outputs - 1) / p.outputs, (w.channels + p.channels - 1) / p.channels, p.splits);
    auto kernel = tensor_units ? multiply_weights<POOLED> : sum_weights<POOLED>;
    cudaError_t error = allow_shared(kernel);
    if (error != cudaSuccess) return error;
    kernel<<<grid, BLOCK, p.bytes, on(stream)>>>(p, s, bias, n, in, partial);
    return cudaGetLastError();
}

cudaError_t train_cuda_halve_weights(cuda_window w, cuda_shown shown, bool tf32, bool bias, const float *in,
                                     void *scratch, float *d_params, void *stream) {
    plan p;
    if (!make_plan(w, shown.taken != NULL, &p)) return cudaErrorInvalidValue;
    int64_t n = numbers_of(w, bias);
    float *partial = (float *)scratch;
    auto sum = shown.taken != NULL ? sum_splits<true> : sum_splits<false>;
    cudaError_t error = sum(p, shown, tf32 && suits_tensor_units(p), bias, n, in, partial, stream);
    return error == cudaSuccess ? add_all(p.splits, n, partial, d_params, stream) : error;
}
