/* The gradient at the input of convolutions that halve images: halving.cuh has the notation. With g the gradient at the
 * output before the activation, which is worked out as it is read, the points of input around (2y, 2x) have
 *
 *     (2y,   2x)      W_11 g (y, x)
 *     (2y,   2x+1)    W_12 g (y, x) + W_10 g (y, x+1)
 *     (2y+1, 2x)      W_21 g (y, x) + W_01 g (y+1, x)
 *     (2y+1, 2x+1)    W_22 g (y, x) + W_20 g (y, x+1) + W_02 g (y+1, x) + W_00 g (y+1, x+1)
 *
 * summed over the outputs: nine products for four numbers, none with zero. A thread has these four for the points of a
 * quad and four channels; a warp has 32 quads and the same channels, so that its weights are read once for all lanes.
 */
#include "train/cuda/halving.cuh"

enum { EACH = 4, CHANNELS = WARPS * EACH }; /* channels of a thread, of a block */

struct plan {
    cuda_window w;
    tiling t;
    int groups;       /* warps side by side with EACH channels each; the others have other quads */
    int chunk;        /* outputs in shared memory at once */
    int plane, image; /* numbers of an output, of an image's part of it, there */
    divider by_line, by_rows, by_images, by_weights;
    size_t bytes;
};

static plan make_plan(cuda_window w, bool pooled) {
    plan p = {};
    p.w = w;
    p.groups = 1;
    while (p.groups < WARPS && p.groups * EACH < w.channels) p.groups *= 2;
    p.t = tile_quads(w, WARPS / p.groups * LANES);
    p.image = (p.t.rows + 1) * w.out_width;
    p.plane = p.t.images * p.image;
    for (p.chunk = w.outputs < 32 ? w.outputs : 32; p.chunk > 0; p.chunk--) {
        p.bytes = (size_t)(p.chunk * (p.plane + TAPS * CHANNELS)) * sizeof(float);
        if (p.bytes <= MOST_SHARED) break;
    }
    if (p.chunk == 0) return p;
    p.by_line = divide_by(p.t.in_line);
    p.by_rows = divide_by(pooled ? p.t.rows / 2 + 1 : p.t.rows + 1);
    p.by_images = divide_by(p.t.images);
    p.by_weights = divide_by(CHANNELS * TAPS);
    return p;
}

/* to (chunk, taps, CHANNELS) := weights of outputs [first, ..) and channels [channel, ..); zeros where there are none.
 */
static __device__ inline void bring_weights(const plan &p, int channel, int first, const float *weights, float *to) {
    enum { EVERY = CHANNELS * TAPS };
    int n = p.chunk * EVERY, there = (p.w.channels - channel) * TAPS;
    auto fetch = [&](int e) {
        int o = p.by_weights.quotient(e), k = e - o * EVERY, c = k / TAPS, tap = k - c * TAPS;
        one_number item = {0.0f, (o * TAPS + tap) * CHANNELS + c};
        if (first + o < p.w.outputs && k < there)
            item.v = weights[((int64_t)(first + o) * p.w.channels + channel) * TAPS + k];
        return item;
    };
    bring_at_once<8>(n, fetch, [&](const one_number &item) { to[item.to] = item.v; });
}

/* sum (channels, quad) += weights (channels) g (quad) */
static __device__ inline void add(const float *weights, float a, float b, float c, float d, float (&sum)[EACH][QUAD]) {
    float4 four = *(const float4 *)weights;
    const float w[EACH] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        sum[k][0] += w[k] * a;
        sum[k][1] += w[k] * b;
        sum[k][2] += w[k] * c;
        sum[k][3] += w[k] * d;
    }
}

/* The four numbers around each point, of one output; all lanes of the warp come here. */
struct around {
    float n[2][2][EACH][QUAD]; /* (line, column, channel, point) */
};

static __device__ inline void add_output(const plan &p, const float *g, bool rightmost, const float *W, around &sum) {
    float4 a = *(const float4 *)g, b = *(const float4 *)(g + p.w.out_width);
    float a4 = __shfl_down_sync(0xffffffffu, a.x, 1), b4 = __shfl_down_sync(0xffffffffu, b.x, 1);
    if (rightmost) a4 = b4 = 0.0f;
    add(W + 4 * CHANNELS, a.x, a.y, a.z, a.w, sum.n[0][0]);
    add(W + 5 * CHANNELS, a.x, a.y, a.z, a.w, sum.n[0][1]);
    add(W + 3 * CHANNELS, a.y, a.z, a.w, a4, sum.n[0][1]);
    add(W + 7 * CHANNELS, a.x, a.y, a.z, a.w, sum.n[1][0]);
    add(W + 1 * CHANNELS, b.x, b.y, b.z, b.w, sum.n[1][0]);
    add(W + 8 * CHANNELS, a.x, a.y, a.z, a.w, sum.n[1][1]);
    add(W + 6 * CHANNELS, a.y, a.z, a.w, a4, sum.n[1][1]);
    add(W + 2 * CHANNELS, b.x, b.y, b.z, b.w, sum.n[1][1]);
    add(W + 0 * CHANNELS, b.y, b.z, b.w, b4, sum.n[1][1]);
}

static __device__ inline void put(const plan &p, const corner &at, const place &here, int channel, const around &sum,
                                  float *grad_in) {
    const cuda_window &w = p.w;
    if (!here.valid) return;
    float *to = grad_in + ((at.image + here.image) * w.channels * w.height + 2 * (at.row + here.row)) * w.width +
                2 * QUAD * here.column;
#pragma unroll
    for (int c = 0; c < EACH; c++) {
        if (channel + c >= w.channels) return;
#pragma unroll
        for (int line = 0; line < 2; line++) {
            float4 *row = (float4 *)(to + ((int64_t)(channel + c) * w.height + line) * w.width);
            const float(&even)[QUAD] = sum.n[line][0][c], (&odd)[QUAD] = sum.n[line][1][c];
            row[0] = {even[0], odd[0], even[1], odd[1]};
            row[1] = {even[2], odd[2], even[3], odd[3]};
        }
    }
}

template <bool POOLED>
static __global__ void __launch_bounds__(BLOCK, 4)
    data_back(plan p, cuda_shown s, const float *weights, float *grad_in) {
    extern __shared__ float4 memory[];
    float *g = (float *)memory, *W = g + p.chunk * p.plane;
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, group = warp % p.groups;
    corner at = corner_of(p.w, p.t, blockIdx.x);
    place here = place_of(p.w, p.t, at, warp / p.groups * LANES + lane);
    const float *own = g + here.image * p.image + here.row * p.w.out_width + QUAD * here.column;
    int first_channel = blockIdx.y * p.groups * EACH;
    around sum = {};
    for (int first = 0; first < p.w.outputs; first += p.chunk) {
        __syncthreads();
        bring_grad_lines<POOLED, false>(p, {p.w.out_width, p.plane, p.image}, at, s, first, g);
        bring_weights(p, first_channel, first, weights, W);
        __syncthreads();
        int outputs = p.w.outputs - first < p.chunk ? p.w.outputs - first : p.chunk;
        for (int o = 0; o < outputs; o++)
            add_output(p, own + o * p.plane, here.column == p.t.in_line - 1, W + o * TAPS * CHANNELS + group * EACH,
                       sum);
    }
    put(p, at, here, first_channel + group * EACH, sum, grad_in);
}

cudaError_t train_cuda_halve_data(cuda_window w, cuda_shown shown, const float *weights, float *grad_in, void *stream) {
    plan p = make_plan(w, shown.taken != NULL);
    int channels = p.groups * EACH;
    dim3 grid((unsigned)p.t.tiles, (unsigned)((w.channels + channels - 1) / channels));
    auto kernel = shown.taken != NULL ? data_back<true> : data_back<false>;
    cudaError_t error = p.chunk == 0 ? cudaErrorInvalidValue : allow_shared(kernel);
    if (error != cudaSuccess) return error;
    kernel<<<grid, BLOCK, p.bytes, on(stream)>>>(p, shown, weights, grad_in);
    return cudaGetLastError();
}
