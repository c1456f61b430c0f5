/* Convolutions in float32 on the tensor units: every factor is split into two of 11 bits, x = high + low, and three of
 * the four products are taken, which is right to 2^-21 (3xTF32). The units' own sums are not rounded to nearest, so a
 * sum on them has 12 terms of 8 products at most; it is then added to one in float32.
 *
 *     forward    out (points, outputs)   = sum over taps and channels of in (point + tap, channel) W (output, tap,
 * channel) data       grad_in                 = the same of grad with the weights turned; a stride leaves gaps in grad
 *     weights    d_W (output, tap, channel) = sum over points of grad (point, output) in (point + tap, channel)
 *
 * as products of matrices whose factors are found in the images as they are needed. A block has a tile of 128 (or 64)
 * points by 64 outputs, a warp 32 by 32 of it; factors come in chunks of 32, three on their way at a time. The sum over
 * the points of d_W is split over blocks, whose parts are added in their order. */
#include "train/cuda/common.cuh"
#include "train/cuda/exact.h"
#include "train/cuda/stages.cuh"
#include "train/cuda/tensor_units.cuh"

enum { CHUNK = 32, WIDE = 64, LINE = CHUNK + 4, COLUMN = WIDE + 8, STAGES = 3, WARP_TILE = 32 };
enum { SPLIT_BLOCKS = 528, LEAST_CHUNKS = 8 };

/* Division by a constant of numbers below 2^31, as a multiplication. */
struct long_divider {
    unsigned m;
    int shift; /* negative: by 1 */
    __device__ int quotient(int n) const { return shift < 0 ? n : (int)(__umulhi((unsigned)n, m) >> shift); }
};

static long_divider long_divide_by(int d) {
    int bits = 0;
    while ((1ll << bits) < d) bits++;
    return {(unsigned)((1ull << (31 + bits)) / (unsigned)d + 1), bits - 1};
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* A factor in two parts of 11 bits. */
struct parts {
    float high, low;
};

/* By integers: conversions are slower. What is beyond the 11 bits of `low` the units ignore. */
static __device__ inline parts split(float x) {
    float high = __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
    return {high, x - high};
}

/* Sums of a warp: 2 tiles of 16 by 4 tiles of 8. */
struct tile_sums {
    float n[2][4][4];
};

/* all += a b over a chunk, with a (i, k) and b (j, k) as `at_a` and `at_b` find them in shared memory; i, j from the
 * warp's corner on. */
template <typename A, typename B>
static __device__ inline void multiply_chunk(A at_a, B at_b, tile_sums &all) {
    int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4;
    tile_sums sum = {};
#pragma unroll
    for (int k = 0; k < CHUNK; k += 8) {
        float a_high[2][4], a_low[2][4], b_high[4][2], b_low[4][2];
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                parts p = split(at_a(i * 16 + row + e % 2 * 8, k + column + e / 2 * 4));
                a_high[i][e] = p.high, a_low[i][e] = p.low;
            }
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                parts p = split(at_b(j * 8 + row, k + column + e * 4));
                b_high[j][e] = p.high, b_low[j][e] = p.low;
            }
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                multiply_tf32(a_low[i], b_high[j], sum.n[i][j]);
                multiply_tf32(a_high[i], b_low[j], sum.n[i][j]);
                multiply_tf32(a_high[i], b_high[j], sum.n[i][j]);
            }
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) all.n[i][j][e] += sum.n[i][j][e];
}

/* to (i, j) := the sums, two of a line at once; lines of `width` numbers, those from `end` on are left out. */
static __device__ inline void put_tile(const tile_sums &all, float *to, int64_t width, int64_t end) {
    int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int64_t line = i * 16 + h * 8 + row;
            if (line >= end) continue;
#pragma unroll
            for (int j = 0; j < 4; j++)
                *(float2 *)(to + line * width + j * 8 + column) = {all.n[i][j][2 * h], all.n[i][j][2 * h + 1]};
        }
}

/* ---- forward and data -------------------------------------------------------------------------------------------- */

/* gap: lines of the input that is convolved have gap - 1 lines of zeros between them. */
struct convolving {
    cuda_window w;
    int gap;
    int64_t points;
};

/* Where the window of a point begins. */
struct place {
    int image; /* number of the first point of its image; -1: there is no such point */
    int y, x;
};

static __device__ inline place place_of(const convolving &c, int64_t point) {
    if (point >= c.points) return {-1, 0, 0};
    int plane = c.w.out_height * c.w.out_width;
    int64_t row = point / plane;
    int at = (int)(point - row * plane), y = at / c.w.out_width, x = at - y * c.w.out_width;
    return {(int)(row * c.w.height * c.w.width), y * c.w.stride - c.w.padding, x * c.w.stride - c.w.padding};
}

template <int TALL>
static __global__ void __launch_bounds__(2 * TALL, TALL == 64 ? 4 : 2)
    convolve(convolving c, const float *in, const float *weights, float *out) {
    extern __shared__ float4 memory[];
    constexpr int LOADS = 4, APART = 2 * TALL / 8, A_NUMBERS = TALL * LINE, STAGE = A_NUMBERS + WIDE * LINE,
                  B_LOADS = WIDE * 8 / (2 * TALL);
    float *shared = (float *)memory;
    const cuda_window &w = c.w;
    int taps = w.kernel * w.kernel, chunks = taps * (w.channels / CHUNK);
    int line = threadIdx.x / 8, part = threadIdx.x % 8 * 4;
    int64_t first = (int64_t)blockIdx.x * TALL, depth = (int64_t)taps * w.channels;
    int output = blockIdx.y * WIDE;
    place at[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++) at[i] = place_of(c, first + line + i * APART);
    int chunk_there = 0, channel = part, dy = 0, dx = 0; /* of the next to be fetched */
    const float *from_b = weights + (output + line) * depth + part;
    auto fetch = [&]() {
        if (chunk_there < chunks) {
            float *a = shared + chunk_there % STAGES * STAGE, *b = a + A_NUMBERS;
#pragma unroll
            for (int i = 0; i < LOADS; i++) {
                int y = at[i].y + dy, x = at[i].x + dx;
                bool there = at[i].image >= 0 && y >= 0 && x >= 0;
                if (c.gap > 1) {
                    there = there && y % c.gap == 0 && x % c.gap == 0;
                    y /= c.gap, x /= c.gap;
                }
                there = there && y < w.height && x < w.width;
                const float *from = there ? in + (int64_t)(at[i].image + y * w.width + x) * w.channels + channel : in;
                bring(a + (line + i * APART) * LINE + part, from, there);
            }
#pragma unroll
            for (int i = 0; i < B_LOADS; i++)
                bring(b + (line + i * APART) * LINE + part, from_b + i * APART * depth, true);
            from_b += CHUNK;
            channel += CHUNK;
            if (channel >= w.channels) {
                channel = part;
                if (++dx == w.kernel) dx = 0, dy++;
            }
        }
        chunk_there++;
        end_stage();
    };
    int warp = threadIdx.x / 32, own_i = warp / 2 * WARP_TILE, own_j = warp % 2 * WARP_TILE;
    tile_sums all = {};
    for (int s = 0; s < STAGES - 1; s++) fetch();
    for (int chunk = 0; chunk < chunks; chunk++) {
        wait_stage<STAGES - 2>();
        __syncthreads(); /* this chunk is there for all, and the one before has been used */
        fetch();
        const float *a = shared + chunk % STAGES * STAGE + own_i * LINE,
                    *b = shared + chunk % STAGES * STAGE + A_NUMBERS + own_j * LINE;
        multiply_chunk([&](int i, int k) { return a[i * LINE + k]; }, [&](int j, int k) { return b[j * LINE + k]; },
                       all);
    }
    put_tile(all, out + (first + own_i) * w.outputs + output + own_j, w.outputs, c.points - first - own_i);
}

template <int TALL>
static cudaError_t start(const convolving &c, const float *in, const float *weights, float *out, void *stream) {
    int bytes = STAGES * (TALL + WIDE) * LINE * (int)sizeof(float);
    cudaError_t error = cudaFuncSetAttribute(convolve<TALL>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    dim3 grid((unsigned)((c.points + TALL - 1) / TALL), (unsigned)(c.w.outputs / WIDE));
    convolve<TALL><<<grid, 2 * TALL, bytes, on(stream)>>>(c, in, weights, out);
    return cudaGetLastError();
}

/* Small tiles where large ones would leave multiprocessors without work. */
static cudaError_t convolve_points(cuda_window w, int gap, const float *in, const float *weights, float *out,
                                   void *stream) {
    convolving c = {w, gap, w.rows * w.out_height * w.out_width};
    bool few = (c.points + 127) / 128 * (w.outputs / WIDE) < SPLIT_BLOCKS;
    return few ? start<64>(c, in, weights, out, stream) : start<128>(c, in, weights, out, stream);
}

cudaError_t train_cuda_exact_forward(cuda_window w, const float *in, const float *weights, float *out, void *stream) {
    return convolve_points(w, 1, in, weights, out, stream);
}

cudaError_t train_cuda_exact_data(cuda_window w, const float *grad, const float *turned, float *grad_in, void *stream) {
    cuda_window back = w;
    back.channels = w.outputs, back.height = w.out_height, back.width = w.out_width;
    back.outputs = w.channels, back.out_height = w.height, back.out_width = w.width;
    back.stride = 1, back.padding = w.kernel - 1 - w.padding;
    return convolve_points(back, w.stride, grad, turned, grad_in, stream);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

struct weighing {
    cuda_window w;
    int64_t points, share; /* chunks of points of a block */
    int splits;
    long_divider by_plane, by_line;
};

static weighing plan_of(cuda_window w) {
    weighing p = {w, w.rows * w.out_height * w.out_width,        0,
                  1, long_divide_by(w.out_height * w.out_width), long_divide_by(w.out_width)};
    int64_t tiles = (int64_t)(w.outputs / WIDE) * (w.channels / WIDE) * w.kernel * w.kernel;
    int64_t chunks = (p.points + CHUNK - 1) / CHUNK, splits = (SPLIT_BLOCKS + tiles - 1) / tiles;
    if (splits > chunks / LEAST_CHUNKS) splits = chunks / LEAST_CHUNKS;
    if (splits < 1) splits = 1;
    p.share = (chunks + splits - 1) / splits;
    p.splits = (int)((chunks + p.share - 1) / p.share);
    return p;
}

/* Block (output tile and channel tile, tap, split) of 4 warps. */
static __global__ void __launch_bounds__(128, 4) weigh(weighing p, const float *in, const float *grad, float *partial) {
    extern __shared__ float4 memory[];
    constexpr int STAGE = 2 * CHUNK * COLUMN, LOADS = CHUNK * WIDE / 4 / 128;
    float *shared = (float *)memory;
    const cuda_window &w = p.w;
    int across = w.channels / WIDE, output = blockIdx.x / across * WIDE, channel = blockIdx.x % across * WIDE;
    int tap = blockIdx.y, dy = tap / w.kernel - w.padding, dx = tap % w.kernel - w.padding;
    int line = threadIdx.x / 16, part = threadIdx.x % 16 * 4, plane = w.out_height * w.out_width;
    int64_t begin = blockIdx.z * p.share, end = begin + p.share, most = (p.points + CHUNK - 1) / CHUNK;
    end = end < most ? end : most;
    auto fetch = [&](int64_t chunk) {
        if (chunk < end) {
            float *a = shared + chunk % STAGES * STAGE, *b = a + CHUNK * COLUMN;
#pragma unroll
            for (int i = 0; i < LOADS; i++) {
                int k = line + i * 8;
                int64_t point = chunk * CHUNK + k;
                int row = p.by_plane.quotient((int)point), at = (int)point - row * plane, y = p.by_line.quotient(at),
                    x = at - y * w.out_width;
                bool there = point < p.points;
                bring(a + k * COLUMN + part, there ? grad + point * w.outputs + output + part : grad, there);
                y = y * w.stride + dy, x = x * w.stride + dx;
                there = there && y >= 0 && y < w.height && x >= 0 && x < w.width;
                bring(b + k * COLUMN + part,
                      there ? in + (int64_t)((row * w.height + y) * w.width + x) * w.channels + channel + part : in,
                      there);
            }
        }
        end_stage();
    };
    int warp = threadIdx.x / 32, own_i = warp / 2 * WARP_TILE, own_j = warp % 2 * WARP_TILE;
    tile_sums all = {};
    for (int s = 0; s < STAGES - 1; s++) fetch(begin + s);
    for (int64_t chunk = begin; chunk < end; chunk++) {
        wait_stage<STAGES - 2>();
        __syncthreads();
        fetch(chunk + STAGES - 1);
        const float *a = shared + chunk % STAGES * STAGE + own_i,
                    *b = shared + chunk % STAGES * STAGE + CHUNK * COLUMN + own_j;
        multiply_chunk([&](int i, int k) { return a[k * COLUMN + i]; }, [&](int j, int k) { return b[k * COLUMN + j]; },
                       all);
    }
    int taps = w.kernel * w.kernel;
    float *to =
        partial + (((int64_t)blockIdx.z * w.outputs + output + own_i) * taps + tap) * w.channels + channel + own_j;
    put_tile(all, to, (int64_t)taps * w.channels, WARP_TILE);
}

static __global__ void add_parts(int splits, int64_t n, const float *partial, float *sums) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    double sum = 0.0;
    if (i >= n) return;
#pragma unroll 8
    for (int s = 0; s < splits; s++) sum += partial[s * n + i];
    sums[i] = (float)sum;
}

static int64_t weights_of(cuda_window w) { return (int64_t)w.outputs * w.channels * w.kernel * w.kernel; }

int64_t train_cuda_exact_bytes(cuda_window w) { return plan_of(w).splits * weights_of(w) * (int64_t)sizeof(float); }

cudaError_t train_cuda_exact_weights(cuda_window w, const float *in, const float *grad, void *scratch, float *d_weights,
                                     void *stream) {
    weighing p = plan_of(w);
    int bytes = STAGES * 2 * CHUNK * COLUMN * (int)sizeof(float);
    float *partial = p.splits > 1 ? (float *)scratch : d_weights;
    cudaError_t error = cudaFuncSetAttribute(weigh, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    dim3 grid((unsigned)(w.outputs / WIDE * (w.channels / WIDE)), (unsigned)(w.kernel * w.kernel), (unsigned)p.splits);
    weigh<<<grid, 128, bytes, on(stream)>>>(p, in, grad, partial);
    int64_t n = weights_of(w);
    if (p.splits > 1) add_parts<<<blocks_for(n, THREADS), THREADS, 0, on(stream)>>>(p.splits, n, partial, d_weights);
    return cudaGetLastError();
}

/* ---- weights turned ---------------------------------------------------------------------------------------------- */

enum { SIDE = 32, LINES = 8 };

static __global__ void turn(int outputs, int channels, int taps, const float *weights, float *turned) {
    __shared__ float tile[SIDE][SIDE + 1];
    int channel = blockIdx.x * SIDE, output = blockIdx.y * SIDE, tap = blockIdx.z;
    for (int k = threadIdx.y; k < SIDE; k += LINES)
        tile[k][threadIdx.x] = weights[((int64_t)(output + k) * taps + tap) * channels + channel + threadIdx.x];
    __syncthreads();
    for (int k = threadIdx.y; k < SIDE; k += LINES)
        turned[((int64_t)(channel + k) * taps + taps - 1 - tap) * outputs + output + threadIdx.x] =
            tile[threadIdx.x][k];
}

cudaError_t train_cuda_exact_turn(cuda_window w, const float *weights, float *turned, void *stream) {
    int taps = w.kernel * w.kernel;
    turn<<<dim3(w.channels / SIDE, w.outputs / SIDE, taps), dim3(SIDE, LINES), 0, on(stream)>>>(w.outputs, w.channels,
                                                                                                taps, weights, turned);
    return cudaGetLastError();
}

bool train_cuda_exact_suits(cuda_window w) {
    int64_t points = w.rows * w.height * w.width, made = w.rows * w.out_height * w.out_width;
    return w.channels % WIDE == 0 && w.outputs % WIDE == 0 && w.padding < w.kernel && points < INT32_MAX - CHUNK &&
           made < INT32_MAX - CHUNK;
}
