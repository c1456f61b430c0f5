/* The gradient of the weights of a convolution with a kernel of 3 by 3:
 *
 *     d_W (o, c, 3, 3) = sum over images and points (y, x) of grad (o, y, x) in (c, s y + . - p, s x + . - p)
 *
 * cuDNN's algorithms for it that give the same bits every time take 0.6 to 2.1 ms for the layers of the dSprites
 * network at batch 1024 (H200), most of a step; this one takes a few hundredths.
 *
 * A block has up to 32 outputs and 16 channels, and a share of the images. It brings a part of some images to shared
 * memory, input with its border of zeros and grad with the outputs side by side, and each thread sums 8 outputs by the
 * 9 places of the kernel for one channel: 72 sums for 8 + 9 numbers read. Threads of the same outputs and channel take
 * other points (slices); their sums are added in a fixed order, and so are the blocks'. */
#include "train/cuda/common.cuh"

enum {
    TAPS = 9,
    EACH = 8,                /* outputs of a thread */
    MOST_SHARED = 40 * 1024, /* bytes: two blocks and more on a multiprocessor */
    MOST_POINTS = 256,       /* of a part */
    BLOCKS = 528,            /* to aim at, whatever the GPU: the order of the sums is the same on all */
    REDUCE_COLUMNS = 32,
    REDUCE_LINES = 32,
};

/* How a block works; worked out from the shape alone. */
struct plan {
    cuda_window w;
    int outputs, channels; /* threads side by side: 8 outputs each, one channel each */
    int slices;
    int rows, images;     /* of a part: lines of output, whole images if all of them */
    int lines, columns;   /* of the input that they need */
    int plane;            /* numbers from channel to channel in shared memory; odd, so that banks differ */
    int stride_grad;      /* numbers from point to point of grad there */
    int points;           /* of an image in a part */
    int strips;           /* parts of an image */
    int64_t parts, share; /* all, and of a block */
    int splits;
    divider by_columns, by_lines, by_channels, by_points;
};

static int power_up_to(int n, int most) {
    int power = 1;
    while (power < n && power < most) power *= 2;
    return power;
}

static size_t shared_bytes(const plan *p) {
    size_t numbers = (size_t)p->images * p->points * (p->stride_grad + 1) + (size_t)p->images * p->channels * p->plane;
    size_t sums = (size_t)THREADS * TAPS;
    return (numbers > sums ? numbers : sums) * sizeof(float);
}

static void set_part(plan *p, int rows, int images) {
    p->rows = rows;
    p->images = images;
    p->points = rows * p->w.out_width;
    p->lines = (rows - 1) * p->w.stride + 3;
    p->columns = (p->w.out_width - 1) * p->w.stride + 3;
    p->plane = p->lines * p->columns | 1;
}

static bool make_plan(cuda_window w, plan *p) {
    *p = plan{};
    p->w = w;
    p->outputs = power_up_to((w.outputs + EACH - 1) / EACH, 4);
    p->channels = power_up_to(w.channels, 16);
    p->slices = THREADS / (p->outputs * p->channels);
    p->stride_grad = p->outputs * EACH + 4;
    int rows = w.out_height;
    set_part(p, rows, 1);
    while (rows > 1 && (shared_bytes(p) > MOST_SHARED || p->points > MOST_POINTS)) set_part(p, --rows, 1);
    if (shared_bytes(p) > MOST_SHARED) return false;
    for (int images = 2; rows == w.out_height && images <= w.rows && images * p->points <= MOST_POINTS; images++) {
        set_part(p, rows, images);
        if (shared_bytes(p) <= MOST_SHARED) continue;
        set_part(p, rows, images - 1);
        break;
    }
    p->strips = (w.out_height + rows - 1) / rows;
    p->parts = p->images > 1 ? (w.rows + p->images - 1) / p->images : w.rows * p->strips;
    int tiles =
        ((w.outputs + p->outputs * EACH - 1) / (p->outputs * EACH)) * ((w.channels + p->channels - 1) / p->channels);
    if ((int64_t)p->images * p->channels * p->lines * p->columns >= 1 << 16) return false; /* of `divider` */
    int64_t splits = BLOCKS / tiles < 1 ? 1 : BLOCKS / tiles;
    p->share = (p->parts + splits - 1) / splits;
    p->splits = (int)((p->parts + p->share - 1) / p->share);
    p->by_columns = divide_by(p->columns);
    p->by_lines = divide_by(p->lines);
    p->by_channels = divide_by(p->channels);
    p->by_points = divide_by(p->points);
    return true;
}

/* ---- bringing a part --------------------------------------------------------------------------------------------- */

static __device__ inline void bring_input(const plan &p, int64_t image, int first_row, int first_channel,
                                          const float *in, float *to) {
    const cuda_window &w = p.w;
    int top = first_row * w.stride - w.padding, n = p.images * p.channels * p.lines * p.columns;
    const float *from = in + (image * w.channels + first_channel) * w.height * w.width;
    int images = (int)(w.rows - image < p.images ? w.rows - image : p.images), channels = w.channels - first_channel;
#pragma unroll 4
    for (int e = threadIdx.x; e < n; e += THREADS) {
        int line = p.by_columns.quotient(e), column = e - line * p.columns;
        int part = p.by_lines.quotient(line), y = line - part * p.lines;
        int k = p.by_channels.quotient(part), channel = part - k * p.channels;
        int from_y = top + y, from_x = column - w.padding;
        bool there = k < images && channel < channels && (unsigned)from_y < (unsigned)w.height &&
                     (unsigned)from_x < (unsigned)w.width;
        float value = 0.0f;
        if (there) value = from[((int64_t)(k * w.channels + channel) * w.height + from_y) * w.width + from_x];
        to[part * p.plane + y * p.columns + column] = value;
    }
}

static __device__ inline void bring_grad(const plan &p, int64_t image, int first_row, int first_output,
                                         const float *grad, float *to) {
    const cuda_window &w = p.w;
    int all = w.out_height * w.out_width, first = first_row * w.out_width, side = p.outputs * EACH;
    int n = p.images * side * p.points, outputs = w.outputs - first_output, points = all - first;
    int images = (int)(w.rows - image < p.images ? w.rows - image : p.images);
    const float *from = grad + (image * w.outputs + first_output) * all + first;
#pragma unroll 4
    for (int e = threadIdx.x; e < n; e += THREADS) {
        int line = p.by_points.quotient(e), point = e - line * p.points;
        int k = line / EACH / p.outputs, output = line - k * side;
        float value = 0.0f;
        if (k < images && output < outputs && point < points)
            value = from[(int64_t)(k * w.outputs + output) * all + point];
        to[(k * p.points + point) * p.stride_grad + output] = value;
    }
}

/* ---- summing ------------------------------------------------------------------------------------------------------
 */

static __device__ inline void add_point(const float *window, int columns, const float *grad, float (&sum)[EACH][TAPS]) {
    float x[TAPS];
    float4 low = ((const float4 *)grad)[0], high = ((const float4 *)grad)[1];
    const float g[EACH] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int k = 0; k < TAPS; k++) x[k] = window[k / 3 * columns + k % 3];
#pragma unroll
    for (int o = 0; o < EACH; o++)
#pragma unroll
        for (int k = 0; k < TAPS; k++) sum[o][k] += g[o] * x[k];
}

/* Over the slices within a warp, then over the warps; `room` has THREADS * TAPS numbers. Only where a slice is no more
 * than a warp; wider slices have several warps each, and are added by the second part alone. */
static __device__ inline void put_sums(const plan &p, int first_output, int first_channel, float (&sum)[EACH][TAPS],
                                       float *room, float *partial) {
    const cuda_window &w = p.w;
    int side = p.outputs * p.channels, place = threadIdx.x % side;
    int lanes = side < 32 ? 32 : side, slices = THREADS / lanes, slice = threadIdx.x / lanes;
#pragma unroll
    for (int o = 0; o < EACH; o++) {
#pragma unroll
        for (int k = 0; k < TAPS; k++)
            for (int d = 16; d >= side; d /= 2) sum[o][k] += __shfl_down_sync(0xffffffffu, sum[o][k], d);
        __syncthreads();
        if ((int)threadIdx.x % lanes < side)
#pragma unroll
            for (int k = 0; k < TAPS; k++) room[(slice * side + place) * TAPS + k] = sum[o][k];
        __syncthreads();
        for (int e = threadIdx.x; e < side * TAPS; e += THREADS) {
            float all = 0.0f;
            for (int s = 0; s < slices; s++) all += room[s * side * TAPS + e];
            int at = e / TAPS, output = first_output + at % p.outputs * EACH + o,
                channel = first_channel + at / p.outputs;
            if (output < w.outputs && channel < w.channels)
                partial[(((int64_t)blockIdx.z * w.outputs + output) * w.channels + channel) * TAPS + e % TAPS] = all;
        }
    }
}

static __global__ void __launch_bounds__(THREADS, 2)
    sum_weights(plan p, const float *in, const float *grad, float *partial) {
    extern __shared__ float4 memory[];
    float *grads = (float *)memory, *input = grads + p.images * p.points * p.stride_grad;
    int *offsets = (int *)(input + p.images * p.channels * p.plane);
    int output = threadIdx.x % p.outputs, channel = threadIdx.x / p.outputs % p.channels;
    int slice = threadIdx.x / (p.outputs * p.channels), points = p.images * p.points;
    int first_output = blockIdx.x * p.outputs * EACH, first_channel = blockIdx.y * p.channels;
    float sum[EACH][TAPS] = {};
    for (int q = threadIdx.x; q < points; q += THREADS)
        offsets[q] = q / p.points * p.channels * p.plane + q % p.points / p.w.out_width * p.w.stride * p.columns +
                     q % p.w.out_width * p.w.stride;
    int64_t end = (blockIdx.z + 1) * p.share < p.parts ? (blockIdx.z + 1) * p.share : p.parts;
    for (int64_t part = blockIdx.z * p.share; part < end; part++) {
        int64_t image = p.images > 1 ? part * p.images : part / p.strips;
        int row = p.images > 1 ? 0 : (int)(part % p.strips) * p.rows;
        __syncthreads();
        bring_input(p, image, row, first_channel, in, input);
        bring_grad(p, image, row, first_output, grad, grads);
        __syncthreads();
        for (int q = slice; q < points; q += p.slices)
            add_point(input + offsets[q] + channel * p.plane, p.columns, grads + q * p.stride_grad + output * EACH,
                      sum);
    }
    put_sums(p, first_output, first_channel, sum, grads, partial);
}

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

cudaError_t train_cuda_add_splits(int splits, int64_t n, const float *partial, float *sums, void *stream) {
    dim3 block(REDUCE_COLUMNS, REDUCE_LINES);
    add_splits<<<blocks_for(n, REDUCE_COLUMNS), block, 0, on(stream)>>>(splits, n, partial, sums);
    return cudaGetLastError();
}

/* ---- the call -----------------------------------------------------------------------------------------------------
 */

static int64_t weights_of(cuda_window w) { return (int64_t)w.outputs * w.channels * TAPS; }

/* Where images are large for their channels; else cuDNN is as fast. */
static bool suits(cuda_window w) { return w.kernel == 3 && (w.stride > 1 || w.channels <= 16); }

int64_t train_cuda_weights_bytes(cuda_window w) {
    plan p;
    return suits(w) && make_plan(w, &p) ? p.splits * weights_of(w) * (int64_t)sizeof(float) : 0;
}

cudaError_t train_cuda_weights_back(cuda_window w, const float *in, const float *grad, void *scratch, float *d_weights,
                                    void *stream) {
    plan p;
    if (!make_plan(w, &p)) return cudaErrorInvalidValue;
    int side = p.outputs * EACH;
    dim3 grid((w.outputs + side - 1) / side, (w.channels + p.channels - 1) / p.channels, p.splits);
    sum_weights<<<grid, THREADS, shared_bytes(&p), on(stream)>>>(p, in, grad, (float *)scratch);
    return train_cuda_add_splits(p.splits, weights_of(w), (const float *)scratch, d_weights, stream);
}
