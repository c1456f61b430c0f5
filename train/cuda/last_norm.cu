/* Batch norm, biases and activations of images with their channels last.
 *
 *     x, out, grad (points, channels)
 *     out := f(a x + b),   a = weight / deviation, b = bias - mean a;  of a convolution a = 1, b = bias
 *     g = f'(out) grad,    d_bias = sum g,  d_weight = sum g xhat,  xhat = (x - mean) / deviation
 *     grad_in := a (g - d_bias / points - xhat d_weight / points)
 *
 * Two kernels each way: sums over the points, then the pass over them. Of the sums, blocks write their parts, and the
 * last to arrive adds all, in their order and in double: the same bits come again whichever it was. Sums of squares are
 * of x less the first point's, so that a mean far from 0 costs no digits. The output is worked out again on the way
 * back: that costs less than reading it. */
#include <type_traits>

#include "train/cuda/early.cuh"
#include "train/cuda/last.cuh"

enum { SUM_THREADS = 512, SUM_LEAST = 8, SUM_BLOCKS = 264, PASS_THREADS = 256, PASS_LEAST = 4, PASS_BLOCKS = 4224 };
enum { UNROLL = 4, SUMS = 2, WARPS = SUM_THREADS / 32, MOST_CHANNELS = 32 * 4 };

/* The activation as a constant, since it is worked out for every number: none, ReLU, or whatever f says. */
enum { NO_BEND, RELU_BEND, ANY_BEND };

template <int BEND>
static __device__ inline float bent(cuda_bend f, float x) {
    return BEND == NO_BEND ? x : BEND == RELU_BEND ? (x < 0.0f ? 0.0f : x) : bend(f, x);
}

/* The gradient before the activation of x. */
template <int BEND>
static __device__ inline float bent_back(cuda_bend f, float x, float grad) {
    return BEND == NO_BEND ? grad : BEND == RELU_BEND ? (x <= 0.0f ? 0.0f : grad) : bend_back(f, bend(f, x), grad);
}

/* ---- sums of two numbers per channel ----------------------------------------------------------------------------- */

template <int V>
struct pair_sums {
    float n[SUMS][V];
};

struct reduction {
    float *partial;    /* (parts, channels, SUMS) */
    unsigned *arrived; /* (groups) 0 before and after */
};

/* The block's sums to their place; true in the block that came last. Lanes of a warp that have the same channels come
 * first, then the warps. */
template <int V>
static __device__ inline bool put_sums(const spread &s, reduction r, const pair_sums<V> &own) {
    __shared__ float sums[WARPS][SUMS * MOST_CHANNELS];
    __shared__ bool is_last;
    int width = blockDim.x * V, thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
    for (int k = 0; k < SUMS; k++)
#pragma unroll
        for (int v = 0; v < V; v++) {
            float sum = own.n[k][v];
            for (int d = 16; d >= (int)blockDim.x; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
            if (thread % 32 < (int)blockDim.x) sums[thread / 32][k * width + threadIdx.x * V + v] = sum;
        }
    __syncthreads();
    int channel = blockIdx.y * width + thread % width;
    if (thread < SUMS * width && channel < s.channels) {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += sums[w][thread];
        r.partial[((int64_t)blockIdx.x * s.channels + channel) * SUMS + thread / width] = sum;
    }
    __threadfence();
    __syncthreads();
    if (thread == 0) is_last = atomicInc(r.arrived + blockIdx.y, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    return is_last;
}

/* The sums of all parts for channel `first + thread` of the group, by the last block: threads of line 0 have them. */
static __device__ inline bool take_sums(const spread &s, reduction r, int width, int &channel, double (&all)[SUMS]) {
    __shared__ double sums[SUMS][SUM_THREADS];
    int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    int line = thread / width, lines = threads / width;
    channel = blockIdx.y * width + thread % width;
    all[0] = all[1] = 0.0;
    __threadfence();
    enum { AT_ONCE = 16 }; /* on their way before the first is added */
    for (int first = line; channel < s.channels && first < (int)gridDim.x; first += AT_ONCE * lines) {
        float2 part[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            int p = first + u * lines;
            part[u] = {};
            if (p < (int)gridDim.x)
                part[u] = __ldcg((const float2 *)(r.partial + ((int64_t)p * s.channels + channel) * SUMS));
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            all[0] += part[u].x;
            all[1] += part[u].y;
        }
    }
    for (int k = 0; k < SUMS; k++) sums[k][thread] = all[k];
    __syncthreads();
    if (line != 0 || channel >= s.channels) return false;
    for (int l = 1; l < lines; l++)
        for (int k = 0; k < SUMS; k++) all[k] += sums[k][l * width + thread];
    return true;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

struct statistics {
    float *mean, *deviation;                /* (channels) of the batch; the latter inverse */
    float *running_mean, *running_variance; /* moved towards them */
};

static __device__ void note_statistics(const spread &s, statistics to, int channel, float shift,
                                       const double (&all)[2]) {
    const double epsilon = 1e-5, momentum = 0.1;
    double n = (double)s.points, offset = all[0] / n, mean = (double)shift + offset;
    double variance = all[1] / n - offset * offset;
    variance = variance < 0.0 ? 0.0 : variance; /* NaN passes */
    to.mean[channel] = (float)mean;
    to.deviation[channel] = (float)(1.0 / sqrt(variance + epsilon));
    to.running_mean[channel] = (float)((1.0 - momentum) * to.running_mean[channel] + momentum * mean);
    to.running_variance[channel] =
        (float)((1.0 - momentum) * to.running_variance[channel] + momentum * variance * (n / (n - 1.0)));
}

template <typename T, int V>
static __global__ void __launch_bounds__(SUM_THREADS, 2) sum_squares(spread s, const T *x, reduction r, statistics to) {
    pair_sums<V> own = {};
    take_turn();
    int first = own_channel<V>();
    int64_t end = last_point(s), step = blockDim.y;
    if (first < s.channels) {
        float shift[V];
        load<T, V>(x + first, shift);
        for (int64_t p = first_point(s); p < end; p += UNROLL * step) {
            float n[UNROLL][V];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                if (p + u * step < end)
                    load<T, V>(x + (p + u * step) * s.channels + first, n[u]);
                else
#pragma unroll
                    for (int v = 0; v < V; v++) n[u][v] = shift[v];
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
#pragma unroll
                for (int v = 0; v < V; v++) {
                    float d = n[u][v] - shift[v];
                    own.n[0][v] += d;
                    own.n[1][v] += d * d;
                }
        }
    }
    if (!put_sums<V>(s, r, own)) return;
    double all[SUMS];
    int channel;
    if (take_sums(s, r, blockDim.x * V, channel, all)) note_statistics(s, to, channel, wide(x[channel]), all);
}

/* a and b of V channels. */
template <int V>
struct slopes {
    float a[V], b[V], mean[V], deviation[V];
};

static __device__ inline float inverse(const cuda_norm &n, int channel) {
    return n.variance != NULL ? (float)(1.0 / sqrt((double)n.variance[channel] + 1e-5)) : n.deviation[channel];
}

template <int V>
static __device__ inline slopes<V> slopes_of(const cuda_norm &n, int first) {
    slopes<V> s;
#pragma unroll
    for (int v = 0; v < V; v++) {
        int c = first + v;
        s.mean[v] = n.mean != NULL ? n.mean[c] : 0.0f;
        s.deviation[v] = n.mean != NULL ? inverse(n, c) : 1.0f;
        s.a[v] = n.weight != NULL ? n.weight[c] * s.deviation[v] : 1.0f;
        s.b[v] = (n.bias != NULL ? n.bias[c] : 0.0f) - s.mean[v] * s.a[v];
    }
    return s;
}

template <typename T, int V, int BEND>
static __global__ void __launch_bounds__(PASS_THREADS, 4)
    bend_scaled(spread s, cuda_bend f, cuda_norm norm, const T *x, T *out) {
    int first = own_channel<V>();
    take_turn();
    if (first >= s.channels) return;
    slopes<V> k = slopes_of<V>(norm, first);
    int64_t end = last_point(s), step = blockDim.y;
    for (int64_t p = first_point(s); p < end; p += UNROLL * step) {
        float n[UNROLL][V];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (p + u * step < end) load<T, V>(x + (p + u * step) * s.channels + first, n[u]);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (p + u * step < end) {
#pragma unroll
                for (int v = 0; v < V; v++) n[u][v] = bent<BEND>(f, fmaf(k.a[v], n[u][v], k.b[v]));
                store<T, V>(n[u], out + (p + u * step) * s.channels + first);
            }
    }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

struct gradients {
    float *d_weight, *d_bias; /* (channels); d_weight NULL: there is no weight */
};

/* Sums of g and g xhat, of an output that is f(a x + b). */
template <typename T, int V, int BEND>
static __global__ void __launch_bounds__(SUM_THREADS, 2)
    sum_norm(spread s, cuda_bend f, cuda_norm norm, const T *x, const T *grad, reduction r, gradients to) {
    pair_sums<V> own = {};
    take_turn();
    int first = own_channel<V>();
    int64_t end = last_point(s), step = blockDim.y;
    if (first < s.channels) {
        slopes<V> k = slopes_of<V>(norm, first);
        for (int64_t p = first_point(s); p < end; p += UNROLL * step) {
            float n[UNROLL][V], g[UNROLL][V];
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                if (p + u * step < end) {
                    load<T, V>(x + (p + u * step) * s.channels + first, n[u]);
                    load<T, V>(grad + (p + u * step) * s.channels + first, g[u]);
                }
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                if (p + u * step < end)
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        float before = bent_back<BEND>(f, fmaf(k.a[v], n[u][v], k.b[v]), g[u][v]);
                        own.n[0][v] += before;
                        own.n[1][v] += before * (n[u][v] - k.mean[v]);
                    }
        }
    }
    if (!put_sums<V>(s, r, own)) return;
    double all[SUMS];
    int channel;
    if (!take_sums(s, r, blockDim.x * V, channel, all)) return;
    to.d_bias[channel] = (float)all[0];
    to.d_weight[channel] = (float)(all[1] * slopes_of<1>(norm, channel).deviation[0]);
}

/* `fixed`: mean and deviation are constants. */
template <typename T, int V, int BEND>
static __global__ void __launch_bounds__(PASS_THREADS, 4)
    pass_norm(spread s, cuda_bend f, cuda_norm norm, bool fixed, const T *x, const T *grad, gradients sums,
              T *grad_in) {
    int first = own_channel<V>();
    take_turn();
    if (first >= s.channels) return;
    slopes<V> k = slopes_of<V>(norm, first);
    float mean_g[V], mean_product[V], each = fixed ? 0.0f : 1.0f / (float)s.points;
#pragma unroll
    for (int v = 0; v < V; v++) {
        mean_g[v] = sums.d_bias[first + v] * each;
        mean_product[v] = sums.d_weight[first + v] * each;
    }
    constexpr int AHEAD = sizeof(T) == 4 ? 2 : 4; /* points on their way: as many as registers allow */
    int64_t end = last_point(s), step = blockDim.y;
    for (int64_t p = first_point(s); p < end; p += AHEAD * step) {
        float n[AHEAD][V], g[AHEAD][V];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (p + u * step < end) {
                load<T, V>(x + (p + u * step) * s.channels + first, n[u]);
                load<T, V>(grad + (p + u * step) * s.channels + first, g[u]);
            }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (p + u * step < end) {
#pragma unroll
                for (int v = 0; v < V; v++) {
                    float before = bent_back<BEND>(f, fmaf(k.a[v], n[u][v], k.b[v]), g[u][v]);
                    float hat = (n[u][v] - k.mean[v]) * k.deviation[v];
                    g[u][v] = k.a[v] * (before - mean_g[v] - hat * mean_product[v]);
                }
                store<T, V>(g[u], grad_in + (p + u * step) * s.channels + first);
            }
    }
}

/* For a bias: computes the gradient before the activation, in place, and its sums. */
template <typename T, int V>
static __global__ void __launch_bounds__(SUM_THREADS, 2)
    sum_bias(spread s, cuda_bend f, const T *out, T *grad, reduction r, gradients to) {
    pair_sums<V> own = {};
    take_turn();
    int first = own_channel<V>();
    int64_t end = last_point(s), step = blockDim.y;
    if (first < s.channels)
        for (int64_t p = first_point(s); p < end; p += step) {
            float o[V] = {}, g[V];
            int64_t at = p * s.channels + first;
            load<T, V>(grad + at, g);
            if (f.kind != 0) {
                load<T, V>(out + at, o);
#pragma unroll
                for (int v = 0; v < V; v++) g[v] = bend_back(f, o[v], g[v]);
                store<T, V>(g, grad + at);
            }
#pragma unroll
            for (int v = 0; v < V; v++) own.n[0][v] += g[v];
        }
    if (!put_sums<V>(s, r, own)) return;
    double all[SUMS];
    int channel;
    if (take_sums(s, r, blockDim.x * V, channel, all)) to.d_bias[channel] = (float)all[0];
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Four channels per thread, of either element type. More would take so many registers that too few threads could run to
 * hide the latency of memory. */
template <typename F>
static void with_four(bool half, int channels, F call) {
    with_element<4, 4>(half, channels, call);
}

/* The same with the activation as a constant. */
template <typename F>
static void with_bend(bool half, int channels, cuda_bend f, F call) {
    with_four(half, channels, [&](auto e) {
        if (f.kind == 0)
            call(e, std::integral_constant<int, NO_BEND>());
        else if (f.kind == RELU)
            call(e, std::integral_constant<int, RELU_BEND>());
        else
            call(e, std::integral_constant<int, ANY_BEND>());
    });
}

static spread sums_of(int64_t points, int channels, int v) {
    return spread_over(points, channels, v, SUM_THREADS, SUM_LEAST, SUM_BLOCKS);
}

static spread pass_of(int64_t points, int channels, int v) {
    return spread_over(points, channels, v, PASS_THREADS, PASS_LEAST, PASS_BLOCKS);
}

/* No spread has more than SUM_BLOCKS parts, nor more groups than channels. */
int64_t train_cuda_last_bytes(int channels) {
    return (int64_t)channels * (SUM_BLOCKS * SUMS * (int64_t)sizeof(float) + (int64_t)sizeof(double));
}

static reduction reduction_in(void *scratch, int channels) {
    return {(float *)((double *)scratch + channels), (unsigned *)scratch};
}

cudaError_t train_cuda_last_statistics(int64_t points, int channels, bool half, const void *x, void *scratch,
                                       float *mean, float *deviation, float *running_mean, float *running_variance,
                                       void *stream) {
    reduction r = reduction_in(scratch, channels);
    statistics to = {mean, deviation, running_mean, running_variance};
    cudaError_t error = cudaSuccess;
    with_four(half, channels, [&](auto e) {
        typedef typename decltype(e)::T T;
        constexpr int V = decltype(e)::V;
        spread s = sums_of(points, channels, V);
        error = start_early(sum_squares<T, V>, s.grid, s.block, stream, s, (const T *)x, r, to);
    });
    return error;
}

cudaError_t train_cuda_last_bend(int64_t points, int channels, bool half, cuda_bend f, cuda_norm norm, const void *x,
                                 void *out, void *stream) {
    cudaError_t error = cudaSuccess;
    with_bend(half, channels, f, [&](auto e, auto b) {
        typedef typename decltype(e)::T T;
        constexpr int V = decltype(e)::V, BEND = decltype(b)::value;
        spread s = pass_of(points, channels, V);
        error = start_early(bend_scaled<T, V, BEND>, s.grid, s.block, stream, s, f, norm, (const T *)x, (T *)out);
    });
    return error;
}

cudaError_t train_cuda_last_norm_back(int64_t points, int channels, bool half, cuda_bend f, cuda_norm norm, bool fixed,
                                      const void *x, const void *grad, void *scratch, float *d_weight, float *d_bias,
                                      void *grad_in, void *stream) {
    reduction r = reduction_in(scratch, channels);
    gradients to = {d_weight, d_bias};
    cudaError_t error = cudaSuccess;
    with_bend(half, channels, f, [&](auto e, auto b) {
        typedef typename decltype(e)::T T;
        constexpr int V = decltype(e)::V, BEND = decltype(b)::value;
        spread s = sums_of(points, channels, V), t = pass_of(points, channels, V);
        error = start_early(sum_norm<T, V, BEND>, s.grid, s.block, stream, s, f, norm, (const T *)x, (const T *)grad, r,
                            to);
        if (error == cudaSuccess)
            error = start_early(pass_norm<T, V, BEND>, t.grid, t.block, stream, t, f, norm, fixed, (const T *)x,
                                (const T *)grad, to, (T *)grad_in);
    });
    return error;
}

cudaError_t train_cuda_last_bias_back(int64_t points, int channels, bool half, cuda_bend f, const void *out, void *grad,
                                      void *scratch, float *d_bias, void *stream) {
    reduction r = reduction_in(scratch, channels);
    gradients to = {NULL, d_bias};
    cudaError_t error = cudaSuccess;
    with_four(half, channels, [&](auto e) {
        typedef typename decltype(e)::T T;
        constexpr int V = decltype(e)::V;
        spread s = sums_of(points, channels, V);
        error = start_early(sum_bias<T, V>, s.grid, s.block, stream, s, f, (const T *)out, (T *)grad, r, to);
    });
    return error;
}
