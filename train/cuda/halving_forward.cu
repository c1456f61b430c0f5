/* Forward of convolutions that halve images, with bias and activation: halving.cuh has the notation.
 *
 * A warp has 32 quads and OUTPUTS channels of output: for a channel of input and a line of the kernel a thread reads 8
 * numbers of input and 3 OUTPUTS weights, the same for all threads of the warp, for 12 OUTPUTS multiply-adds. Warps of
 * a block share the input and have other outputs or other quads. */
#include "train/cuda/halving.cuh"

struct plan {
    cuda_window w;
    tiling t;
    lines l;
    bring_by by;
    int groups;       /* warps side by side with OUTPUTS outputs each; the others have other quads */
    int outputs;      /* of a block */
    int chunk;        /* channels in shared memory at once */
    int x_numbers;    /* of input in shared memory */
    int weights_line; /* numbers from weight to weight there; not a multiple of 32 */
    divider by_weights;
    size_t bytes;
};

static plan make_plan(cuda_window w, int outputs_each) {
    plan p = {};
    p.w = w;
    p.groups = 1;
    while (p.groups < WARPS && p.groups * outputs_each < w.outputs) p.groups *= 2;
    p.outputs = p.groups * outputs_each;
    p.t = tile_quads(w, WARPS / p.groups * LANES);
    int skew = w.out_width % 32 == 0 ? 0 : w.out_width == 16 ? 8 : 4; /* so that lines of a warp have other banks */
    p.l.line = 2 * w.out_width + skew;
    p.l.even = w.out_width;
    p.l.plane = (2 * p.t.rows + 1) * p.l.line;
    p.weights_line = p.outputs + 4;
    for (p.chunk = w.channels < 8 ? w.channels : 8; p.chunk > 0; p.chunk--) {
        p.l.image = p.chunk * p.l.plane + (p.t.images > 1 ? 4 : 0);
        p.x_numbers = p.t.images * p.l.image;
        p.bytes = (size_t)(p.x_numbers + p.chunk * TAPS * p.weights_line) * sizeof(float);
        if (p.bytes <= MOST_SHARED) break;
    }
    if (p.chunk == 0) return p;
    p.by = bring_divisions(w, p.t, p.chunk);
    p.by_weights = divide_by(p.chunk * TAPS);
    return p;
}

/* to (chunk, taps, outputs) := weights of outputs [output, ..) and channels [first, ..); zeros where there are none. */
static __device__ inline void bring_weights(const plan &p, int output, int first, const float *weights, float *to) {
    int each = p.chunk * TAPS, n = p.outputs * each, there = (p.w.channels - first) * TAPS;
    auto fetch = [&](int e) {
        int o = p.by_weights.quotient(e), k = e - o * each;
        one_number item = {0.0f, k * p.weights_line + o};
        if (output + o < p.w.outputs && k < there)
            item.v = weights[((int64_t)(output + o) * p.w.channels + first) * TAPS + k];
        return item;
    };
    bring_at_once<8>(n, fetch, [&](const one_number &item) { to[item.to] = item.v; });
}

template <int OUTPUTS>
static __device__ inline void add_tap(const float *weights, float a, float b, float c, float d,
                                      float (&sum)[OUTPUTS][QUAD]) {
#pragma unroll
    for (int o = 0; o < OUTPUTS; o += 4) {
        float4 four = *(const float4 *)(weights + o);
        const float w[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            sum[o + k][0] += w[k] * a;
            sum[o + k][1] += w[k] * b;
            sum[o + k][2] += w[k] * c;
            sum[o + k][3] += w[k] * d;
        }
    }
}

/* One line of the kernel for one channel; all lanes of the warp come here. */
template <int OUTPUTS>
static __device__ inline void add_line(const plan &p, const float *row, bool leftmost, const float *weights,
                                       float (&sum)[OUTPUTS][QUAD]) {
    float4 odd = *(const float4 *)(row + p.l.odd), even = *(const float4 *)(row + p.l.even);
    float before = __shfl_up_sync(0xffffffffu, odd.w, 1);
    if (leftmost) before = 0.0f;
    add_tap<OUTPUTS>(weights, before, odd.x, odd.y, odd.z, sum);
    add_tap<OUTPUTS>(weights + p.weights_line, even.x, even.y, even.z, even.w, sum);
    add_tap<OUTPUTS>(weights + 2 * p.weights_line, odd.x, odd.y, odd.z, odd.w, sum);
}

template <int OUTPUTS>
static __device__ inline void put(const plan &p, const corner &at, const place &here, cuda_bend f, int output,
                                  const float *bias, const float (&sum)[OUTPUTS][QUAD], float *out) {
    const cuda_window &w = p.w;
    if (!here.valid) return;
    float *to = out + (at.image + here.image) * w.outputs * w.out_height * w.out_width +
                (at.row + here.row) * w.out_width + QUAD * here.column;
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++) {
        if (output + o >= w.outputs) return;
        float b = bias != NULL ? bias[output + o] : 0.0f;
        *(float4 *)(to + (int64_t)(output + o) * w.out_height * w.out_width) = {
            bend(f, sum[o][0] + b), bend(f, sum[o][1] + b), bend(f, sum[o][2] + b), bend(f, sum[o][3] + b)};
    }
}

/* The same with a pool. Lines of a window are in_line lanes apart: the lane of the upper one puts the left of its two
 * windows, that of the lower one the right. All lanes of the warp come here. */
template <int OUTPUTS>
static __device__ inline void put_pooled(const plan &p, const corner &at, const place &here, cuda_bend f, int output,
                                         const float *bias, const float (&sum)[OUTPUTS][QUAD], uint8_t *taken,
                                         float *out) {
    const cuda_window &w = p.w;
    bool lower = here.row % 2 != 0;
    int points = w.out_height * w.out_width / 4;
    int64_t to = (at.image + here.image) * w.outputs * points + (at.row + here.row) / 2 * (w.out_width / 2) +
                 2 * here.column + (lower ? 1 : 0);
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++) {
        if (output + o >= w.outputs) return;
        float b = bias != NULL ? bias[output + o] : 0.0f, v[QUAD];
#pragma unroll
        for (int k = 0; k < QUAD; k++) v[k] = bend(f, sum[o][k] + b);
        float left = __shfl_xor_sync(0xffffffffu, lower ? v[0] : v[2], p.t.in_line);
        float right = __shfl_xor_sync(0xffffffffu, lower ? v[1] : v[3], p.t.in_line);
        largest most = lower ? largest_of(left, right, v[2], v[3]) : largest_of(v[0], v[1], left, right);
        if (!here.valid) continue;
        out[to + (int64_t)(output + o) * points] = most.value;
        taken[to + (int64_t)(output + o) * points] = (uint8_t)most.at;
    }
}

template <int OUTPUTS, bool POOLED>
static __global__ void __launch_bounds__(BLOCK, 4)
    halve(plan p, cuda_bend f, const float *in, const float *weights, const float *bias, uint8_t *taken, float *out) {
    extern __shared__ float4 memory[];
    float *x = (float *)memory, *W = x + p.x_numbers;
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, group = warp % p.groups;
    corner at = corner_of(p.w, p.t, blockIdx.x);
    place here = place_of(p.w, p.t, at, warp / p.groups * LANES + lane);
    const float *own = x + here.image * p.l.image + 2 * here.row * p.l.line + QUAD * here.column;
    int first_output = blockIdx.y * p.outputs;
    float sum[OUTPUTS][QUAD] = {};
    for (int first = 0; first < p.w.channels; first += p.chunk) {
        __syncthreads();
        bring_lines(p.w, p.t, at, p.l, p.by, first, p.chunk, in, x);
        bring_weights(p, first_output, first, weights, W);
        __syncthreads();
        int channels = p.w.channels - first < p.chunk ? p.w.channels - first : p.chunk;
        for (int c = 0; c < channels; c++)
#pragma unroll
            for (int ky = 0; ky < 3; ky++)
                add_line<OUTPUTS>(p, own + c * p.l.plane + ky * p.l.line, here.column == 0,
                                  W + (c * TAPS + 3 * ky) * p.weights_line + group * OUTPUTS, sum);
    }
    if (POOLED)
        put_pooled<OUTPUTS>(p, at, here, f, first_output + group * OUTPUTS, bias, sum, taken, out);
    else
        put<OUTPUTS>(p, at, here, f, first_output + group * OUTPUTS, bias, sum, out);
}

/* Enough blocks for every multiprocessor to have some, whatever the GPU: sums are the same in both. */
enum { FEW_BLOCKS = 264 };

template <int OUTPUTS>
static cudaError_t launch(plan p, cuda_bend f, const float *in, const float *weights, const float *bias, uint8_t *taken,
                          float *out, void *stream) {
    dim3 grid((unsigned)p.t.tiles, (unsigned)((p.w.outputs + p.outputs - 1) / p.outputs));
    auto kernel = taken != NULL ? halve<OUTPUTS, true> : halve<OUTPUTS, false>;
    cudaError_t error = allow_shared(kernel);
    if (error != cudaSuccess) return error;
    kernel<<<grid, BLOCK, p.bytes, on(stream)>>>(p, f, in, weights, bias, taken, out);
    return cudaGetLastError();
}

bool train_cuda_halves(cuda_window w) {
    int quads = w.width / 8;
    bool shape = w.kernel == 3 && w.stride == 2 && w.padding == 1 && w.width % 8 == 0 && w.height % 2 == 0;
    bool lines_fit = quads <= LANES && (quads & (quads - 1)) == 0;
    return shape && lines_fit && w.channels <= 32 && w.outputs <= 64 && make_plan(w, 16).chunk > 0;
}

/* Both lines of a window are in a warp then, whichever kernel it is. */
bool train_cuda_halves_and_pools(cuda_window w, cuda_window pool) {
    return train_cuda_halves(w) && train_cuda_pool_halves(pool) && w.out_width <= 4 * QUAD;
}

cudaError_t train_cuda_halve(cuda_window w, cuda_bend f, const float *in, const float *weights, const float *bias,
                             uint8_t *taken, float *out, void *stream) {
    plan p = make_plan(w, 16);
    bool few = w.outputs > 8 && p.t.tiles < FEW_BLOCKS;
    return few ? launch<8>(make_plan(w, 8), f, in, weights, bias, taken, out, stream)
               : launch<16>(p, f, in, weights, bias, taken, out, stream);
}
