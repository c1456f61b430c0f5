/* Pools of images with their channels last: the largest of each window, and the mean of each channel.
 *
 *     in (rows, height, width, channels), out (rows, height', width', channels)
 *
 * Forward notes which number of a window was the largest, the first of several, in a byte; backward each input looks
 * which of the windows around it took it. NaN is larger than any number. */
#include "train/cuda/last.cuh"

enum { NOWHERE = 255 }; /* a window without any number of the image */

bool train_cuda_last_pools(cuda_window w) { return w.kernel * w.kernel < NOWHERE; }

/* One image of the batch per blockIdx.y, and 32-bit arithmetic for its numbers. KERNEL: the window's side as a
 * constant; 0: that of w. */
template <typename T, int V, int KERNEL>
static __global__ void __launch_bounds__(THREADS)
    pool_forward(cuda_window w, int64_t row_in, int64_t row_out, const T *in, T *out, uint8_t *taken) {
    const int kernel = KERNEL > 0 ? KERNEL : w.kernel, vectors = w.channels / V, n = (int)(row_out / V);
    for (int64_t row = blockIdx.y; row < w.rows; row += gridDim.y)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
            int point = i / vectors, line = point / w.out_width;
            int y = line * w.stride - w.padding, x = (point - line * w.out_width) * w.stride - w.padding;
            const T *image = in + row * row_in + (i - point * vectors) * V;
            float top[V];
            int which[V];
#pragma unroll
            for (int v = 0; v < V; v++) top[v] = 0.0f, which[v] = NOWHERE;
#pragma unroll(KERNEL > 0 ? KERNEL : 1)
            for (int a = 0; a < kernel; a++)
#pragma unroll(KERNEL > 0 ? KERNEL : 1)
                for (int b = 0; b < kernel; b++) {
                    if (y + a < 0 || y + a >= w.height || x + b < 0 || x + b >= w.width) continue;
                    float here[V];
                    load<T, V>(image + ((y + a) * w.width + x + b) * (int64_t)w.channels, here);
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        bool larger = which[v] == NOWHERE || !(here[v] <= top[v] || isnan(top[v]));
                        top[v] = larger ? here[v] : top[v];
                        which[v] = larger ? a * kernel + b : which[v];
                    }
                }
            store<T, V>(top, out + row * row_out + (int64_t)i * V);
            bundle<uint8_t, V> notes;
#pragma unroll
            for (int v = 0; v < V; v++) notes.n[v] = (uint8_t)which[v];
            *(bundle<uint8_t, V> *)(taken + row * row_out + (int64_t)i * V) = notes;
        }
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    pool_backward(cuda_window w, int64_t row_in, int64_t row_out, const uint8_t *taken, const T *grad, T *grad_in) {
    const int vectors = w.channels / V, n = (int)(row_in / V);
    for (int64_t row = blockIdx.y; row < w.rows; row += gridDim.y)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
            int point = i / vectors, line = point / w.width, column = point - line * w.width + w.padding;
            int64_t channel = row * row_out + (i - point * vectors) * V;
            line += w.padding;
            int first_y = line < w.kernel ? 0 : (line - w.kernel) / w.stride + 1;
            int first_x = column < w.kernel ? 0 : (column - w.kernel) / w.stride + 1;
            float sum[V];
#pragma unroll
            for (int v = 0; v < V; v++) sum[v] = 0.0f;
            for (int y = first_y; y < w.out_height && y * w.stride <= line; y++)
                for (int x = first_x; x < w.out_width && x * w.stride <= column; x++) {
                    int k = (line - y * w.stride) * w.kernel + column - x * w.stride;
                    int64_t at = channel + (y * w.out_width + x) * (int64_t)w.channels;
                    bundle<uint8_t, V> notes = *(const bundle<uint8_t, V> *)(taken + at);
                    float g[V];
                    load<T, V>(grad + at, g);
#pragma unroll
                    for (int v = 0; v < V; v++) sum[v] += notes.n[v] == k ? g[v] : 0.0f;
                }
            store<T, V>(sum, grad_in + row * row_in + (int64_t)i * V);
        }
}

/* Blocks for n numbers of each image. */
static dim3 images_of(int64_t rows, int64_t n) {
    return dim3(blocks_for(n, THREADS), (unsigned)(rows < 65535 ? rows : 65535));
}

static int64_t in_of(cuda_window w) { return (int64_t)w.channels * w.height * w.width; }
static int64_t out_of(cuda_window w) { return (int64_t)w.channels * w.out_height * w.out_width; }

cudaError_t train_cuda_last_pool(cuda_window w, bool half, const void *in, void *out, uint8_t *taken, void *stream) {
    with_element<4, 8>(half, w.channels, [&](auto e) {
        typedef typename decltype(e)::T T;
        constexpr int V = decltype(e)::V;
        auto kernel = w.kernel == 3   ? pool_forward<T, V, 3>
                      : w.kernel == 2 ? pool_forward<T, V, 2>
                                      : pool_forward<T, V, 0>;
        kernel<<<images_of(w.rows, out_of(w) / V), THREADS, 0, on(stream)>>>(w, in_of(w), out_of(w), (const T *)in,
                                                                             (T *)out, taken);
    });
    return cudaGetLastError();
}

cudaError_t train_cuda_last_pool_back(cuda_window w, bool half, const uint8_t *taken, const void *grad, void *grad_in,
                                      void *stream) {
    with_element<4, 8>(half, w.channels, [&](auto e) {
        typedef typename decltype(e)::T T;
        constexpr int V = decltype(e)::V;
        pool_backward<T, V><<<images_of(w.rows, in_of(w) / V), THREADS, 0, on(stream)>>>(w, in_of(w), out_of(w), taken,
                                                                                         (const T *)grad, (T *)grad_in);
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
