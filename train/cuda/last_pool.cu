/* Pools of images with their channels last: the largest of each window, and the mean of each channel.
 *
 *     in (rows, height, width, channels), out (rows, height', width', channels)
 *
 * Forward notes which number of a window was the largest, the first of several, in a byte; backward each input looks
 * which of the windows around it took it. NaN is larger than any number. */
#include "train/cuda/last.cuh"

enum { NOWHERE = 255 }; /* a window without any number of the image */

bool train_cuda_last_pools(cuda_window w) { return w.kernel * w.kernel < NOWHERE; }

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    pool_forward(cuda_window w, int64_t n, const T *in, T *out, uint8_t *taken) {
    int vectors = w.channels / V;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t point = i / vectors;
        int channel = (int)(i - point * vectors) * V, x = (int)(point % w.out_width),
            y = (int)(point / w.out_width % w.out_height);
        const T *image = in + point / ((int64_t)w.out_width * w.out_height) * w.height * w.width * w.channels + channel;
        float top[V];
        uint8_t which[V];
#pragma unroll
        for (int v = 0; v < V; v++) top[v] = 0.0f, which[v] = NOWHERE;
        for (int k = 0; k < w.kernel * w.kernel; k++) {
            int line = y * w.stride - w.padding + k / w.kernel, column = x * w.stride - w.padding + k % w.kernel;
            if (line < 0 || line >= w.height || column < 0 || column >= w.width) continue;
            float here[V];
            load<T, V>(image + ((int64_t)line * w.width + column) * w.channels, here);
#pragma unroll
            for (int v = 0; v < V; v++)
                if (which[v] == NOWHERE || here[v] > top[v] || (isnan(here[v]) && !isnan(top[v])))
                    top[v] = here[v], which[v] = (uint8_t)k;
        }
        store<T, V>(top, out + i * V);
        bundle<uint8_t, V> notes;
#pragma unroll
        for (int v = 0; v < V; v++) notes.n[v] = which[v];
        *(bundle<uint8_t, V> *)(taken + i * V) = notes;
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    pool_backward(cuda_window w, int64_t n, const uint8_t *taken, const T *grad, T *grad_in) {
    int vectors = w.channels / V;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t point = i / vectors;
        int channel = (int)(i - point * vectors) * V, column = (int)(point % w.width) + w.padding,
            line = (int)(point / w.width % w.height) + w.padding;
        int64_t image = point / ((int64_t)w.width * w.height) * w.out_height * w.out_width;
        int first_y = line < w.kernel ? 0 : (line - w.kernel) / w.stride + 1,
            first_x = column < w.kernel ? 0 : (column - w.kernel) / w.stride + 1;
        float sum[V];
#pragma unroll
        for (int v = 0; v < V; v++) sum[v] = 0.0f;
        for (int y = first_y; y < w.out_height && y * w.stride <= line; y++)
            for (int x = first_x; x < w.out_width && x * w.stride <= column; x++) {
                int k = (line - y * w.stride) * w.kernel + column - x * w.stride;
                int64_t at = (image + (int64_t)y * w.out_width + x) * w.channels + channel;
                bundle<uint8_t, V> notes = *(const bundle<uint8_t, V> *)(taken + at);
                float g[V];
                load<T, V>(grad + at, g);
#pragma unroll
                for (int v = 0; v < V; v++) sum[v] += notes.n[v] == k ? g[v] : 0.0f;
            }
        store<T, V>(sum, grad_in + i * V);
    }
}

cudaError_t train_cuda_last_pool(cuda_window w, bool half, const void *in, void *out, uint8_t *taken, void *stream) {
    with_element(half, w.channels, [&](auto e) {
        typedef typename decltype(e)::T T;
        constexpr int V = decltype(e)::V;
        int64_t n = w.rows * w.out_height * w.out_width * (w.channels / V);
        pool_forward<T, V><<<blocks_for(n, THREADS), THREADS, 0, on(stream)>>>(w, n, (const T *)in, (T *)out, taken);
    });
    return cudaGetLastError();
}

cudaError_t train_cuda_last_pool_back(cuda_window w, bool half, const uint8_t *taken, const void *grad, void *grad_in,
                                      void *stream) {
    with_element(half, w.channels, [&](auto e) {
        typedef typename decltype(e)::T T;
        constexpr int V = decltype(e)::V;
        int64_t n = w.rows * w.height * w.width * (w.channels / V);
        pool_backward<T, V>
            <<<blocks_for(n, THREADS), THREADS, 0, on(stream)>>>(w, n, taken, (const T *)grad, (T *)grad_in);
    });
    return cudaGetLastError();
}

/* ---- the mean of each channel ------------------------------------------------------------------------------------ */

/* A block has 32 channels of a row, a thread one of them and every eighth point. */
enum { LANES = 32, LINES = 8 };

template <typename T>
static __global__ void mean_forward(int points, int channels, const T *in, T *out) {
    __shared__ float sums[LINES][LANES];
    int channel = blockIdx.y * LANES + threadIdx.x;
    const T *row = in + (int64_t)blockIdx.x * points * channels;
    float sum = 0.0f;
    if (channel < channels)
        for (int p = threadIdx.y; p < points; p += LINES) sum += wide(row[(int64_t)p * channels + channel]);
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || channel >= channels) return;
    for (int k = 1; k < LINES; k++) sum += sums[k][threadIdx.x];
    narrow(sum / (float)points, out[(int64_t)blockIdx.x * channels + channel]);
}

template <typename T>
static __global__ void mean_backward(int points, int channels, const T *grad, T *grad_in) {
    int channel = blockIdx.y * LANES + threadIdx.x;
    if (channel >= channels) return;
    float each = wide(grad[(int64_t)blockIdx.x * channels + channel]) / (float)points;
    T *row = grad_in + (int64_t)blockIdx.x * points * channels;
    for (int p = threadIdx.y; p < points; p += LINES) narrow(each, row[(int64_t)p * channels + channel]);
}

cudaError_t train_cuda_last_mean(cuda_batch b, bool half, const void *in, void *out, void *stream) {
    dim3 grid((unsigned)b.rows, (unsigned)((b.channels + LANES - 1) / LANES)), block(LANES, LINES);
    if (half)
        mean_forward<<<grid, block, 0, on(stream)>>>(b.points, b.channels, (const bf16 *)in, (bf16 *)out);
    else
        mean_forward<<<grid, block, 0, on(stream)>>>(b.points, b.channels, (const float *)in, (float *)out);
    return cudaGetLastError();
}

cudaError_t train_cuda_last_mean_back(cuda_batch b, bool half, const void *grad, void *grad_in, void *stream) {
    dim3 grid((unsigned)b.rows, (unsigned)((b.channels + LANES - 1) / LANES)), block(LANES, LINES);
    if (half)
        mean_backward<<<grid, block, 0, on(stream)>>>(b.points, b.channels, (const bf16 *)grad, (bf16 *)grad_in);
    else
        mean_backward<<<grid, block, 0, on(stream)>>>(b.points, b.channels, (const float *)grad, (float *)grad_in);
    return cudaGetLastError();
}
