/* Images and weights from the order that they come in to channels last, and back; on the way from float32 to the
 * element of the images.
 *
 *     images   (rows, channels, points) <-> (rows, points, width),          channels up to width are 0
 *     weights  (outputs, channels, taps) <-> (outputs, taps, width)
 *
 * and folded, for a convolution with stride s of an input of few channels: s by s numbers of a channel become channels
 * of one point, and the convolution one with stride 1 and s s times as many channels, which the tensor units like
 * better. With the padding p rounded up to p' = s ceil(p / s), line s i + b - p' of the image is line i of channel
 * (b, ., c), and tap y = s a + b - (p' - p) of the kernel is tap a of that channel. */
#include "train/cuda/last.cuh"

enum { TILE = 32, LINES = 8 };

/* ---- images ------------------------------------------------------------------------------------------------------ */

/* Few channels: a thread has a point with all of them. */
template <typename T, int V>
static __global__ void pack_few(cuda_batch b, int64_t n, const float *plain, T *images) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t row = i / b.points;
        const float *from = plain + row * b.channels * b.points + (i - row * b.points);
        float x[V];
#pragma unroll
        for (int v = 0; v < V; v++) x[v] = v < b.channels ? from[(int64_t)v * b.points] : 0.0f;
        store<T, V>(x, images + i * V);
    }
}

/* Block (tile of points, tile of channels, row). PACKS: to channels last. */
template <typename T, bool PACKS>
static __global__ void transpose(cuda_batch b, int width, const float *plain_in, const T *images_in, float *plain,
                                 T *images) {
    __shared__ float tile[TILE][TILE + 1];
    int first_point = blockIdx.x * TILE, first_channel = blockIdx.y * TILE;
    for (int64_t row = blockIdx.z; row < b.rows; row += gridDim.z) {
        int64_t at_plain = row * b.channels * b.points, at_images = row * b.points * width;
        for (int k = threadIdx.y; k < TILE; k += LINES) {
            int point = first_point + (PACKS ? (int)threadIdx.x : k),
                channel = first_channel + (PACKS ? k : (int)threadIdx.x);
            float x = 0.0f;
            if (point < b.points && channel < b.channels)
                x = PACKS ? plain_in[at_plain + (int64_t)channel * b.points + point]
                          : wide(images_in[at_images + (int64_t)point * width + channel]);
            tile[k][threadIdx.x] = x;
        }
        __syncthreads();
        for (int k = threadIdx.y; k < TILE; k += LINES) {
            int point = first_point + (PACKS ? k : (int)threadIdx.x),
                channel = first_channel + (PACKS ? (int)threadIdx.x : k);
            if (point >= b.points || channel >= (PACKS ? width : b.channels)) continue;
            if (PACKS)
                narrow(tile[threadIdx.x][k], images[at_images + (int64_t)point * width + channel]);
            else
                plain[at_plain + (int64_t)channel * b.points + point] = tile[threadIdx.x][k];
        }
        __syncthreads();
    }
}

static dim3 tiles_of(cuda_batch b, int width) {
    return dim3((unsigned)((b.points + TILE - 1) / TILE), (unsigned)((width + TILE - 1) / TILE),
                (unsigned)(b.rows < 65535 ? b.rows : 65535));
}

template <typename T>
static void pack(cuda_batch b, int width, const float *plain, T *images, cudaStream_t stream) {
    int64_t n = b.rows * b.points;
    if (width == FULL<T>)
        pack_few<T, FULL<T>><<<blocks_for(n, THREADS), THREADS, 0, stream>>>(b, n, plain, images);
    else
        transpose<T, true><<<tiles_of(b, width), dim3(TILE, LINES), 0, stream>>>(b, width, plain, NULL, NULL, images);
}

cudaError_t train_cuda_last_pack(cuda_batch b, int width, bool half, const float *plain, void *images, void *stream) {
    if (half)
        pack(b, width, plain, (bf16 *)images, on(stream));
    else
        pack(b, width, plain, (float *)images, on(stream));
    return cudaGetLastError();
}

cudaError_t train_cuda_last_unpack(cuda_batch b, bool half, const void *images, float *plain, void *stream) {
    dim3 grid = tiles_of(b, b.channels), block(TILE, LINES);
    if (half)
        transpose<bf16, false>
            <<<grid, block, 0, on(stream)>>>(b, b.channels, NULL, (const bf16 *)images, plain, (bf16 *)NULL);
    else
        transpose<float, false>
            <<<grid, block, 0, on(stream)>>>(b, b.channels, NULL, (const float *)images, plain, (float *)NULL);
    return cudaGetLastError();
}

/* ---- folded ------------------------------------------------------------------------------------------------------ */

/* Lines, or columns, of a folded image and kernel. */
static int excess(cuda_window w) { return (w.stride - w.padding % w.stride) % w.stride; } /* p' - p */
static int taps_of(cuda_window w) { return (w.kernel + excess(w) + w.stride - 1) / w.stride; }

cuda_window train_cuda_last_folded(cuda_window w, int width) {
    cuda_window f = w;
    f.channels = width;
    f.kernel = taps_of(w);
    f.stride = 1;
    f.padding = 0;
    f.height = w.out_height + f.kernel - 1;
    f.width = w.out_width + f.kernel - 1;
    return f;
}

/* What channel k of a folded image has: (b, d, c) for lines s i + b, columns s j + d. */
struct unfolded {
    int b, d, c;
};

static __device__ inline unfolded unfold(const cuda_window &w, int k) {
    int place = k / w.channels;
    return {place / w.stride, place % w.stride, k - place * w.channels};
}

/* A thread has V channels of a point. */
template <typename T, int V>
static __global__ void fold_images(cuda_window w, cuda_window f, int64_t n, int shift, const float *plain, T *images) {
    int vectors = f.channels / V, used = w.channels * w.stride * w.stride;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t point = i / vectors, row = point / ((int64_t)f.height * f.width);
        int at = (int)(point - row * f.height * f.width), line = at / f.width, column = at - line * f.width;
        int first = (int)(i - point * vectors) * V;
        const float *image = plain + row * w.channels * w.height * w.width;
        float x[V];
#pragma unroll
        for (int v = 0; v < V; v++) {
            unfolded u = unfold(w, first + v);
            int l = line * w.stride + u.b - shift, k = column * w.stride + u.d - shift;
            bool inside = first + v < used && l >= 0 && l < w.height && k >= 0 && k < w.width;
            x[v] = inside ? image[((int64_t)u.c * w.height + l) * w.width + k] : 0.0f;
        }
        store<T, V>(x, images + i * V);
    }
}

/* A thread has a number of the folded weights (o, taps, taps, channels). BACK: it is brought from there. */
template <typename T, bool BACK>
static __global__ void fold_weights(cuda_window w, cuda_window f, int64_t n, int shift, float *plain, T *weights) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    int64_t tap = i / f.channels, output = tap / (f.kernel * f.kernel);
    unfolded u = unfold(w, (int)(i - tap * f.channels));
    int a = (int)(tap / f.kernel % f.kernel), e = (int)(tap % f.kernel);
    int y = a * w.stride + u.b - shift, x = e * w.stride + u.d - shift;
    bool there = u.b < w.stride && y >= 0 && y < w.kernel && x >= 0 && x < w.kernel;
    float *at = plain + ((output * w.channels + u.c) * w.kernel + y) * w.kernel + x;
    if (!BACK)
        narrow(there ? *at : 0.0f, weights[i]);
    else if (there)
        *at = wide(weights[i]);
}

cudaError_t train_cuda_last_fold(cuda_window w, int width, bool half, const float *plain, void *images, void *stream) {
    cuda_window f = train_cuda_last_folded(w, width);
    int shift = w.padding + excess(w);
    with_element<4, 8>(half, width, [&](auto e) {
        typedef typename decltype(e)::T T;
        constexpr int V = decltype(e)::V;
        int64_t n = f.rows * f.height * f.width * (width / V);
        fold_images<T, V><<<blocks_for(n, THREADS), THREADS, 0, on(stream)>>>(w, f, n, shift, plain, (T *)images);
    });
    return cudaGetLastError();
}

template <bool BACK>
static cudaError_t fold_either(cuda_window w, int width, bool half, float *plain, void *weights, void *stream) {
    cuda_window f = train_cuda_last_folded(w, width);
    int64_t n = (int64_t)w.outputs * f.kernel * f.kernel * width;
    unsigned blocks = blocks_for(n, THREADS);
    if (half)
        fold_weights<bf16, BACK><<<blocks, THREADS, 0, on(stream)>>>(w, f, n, excess(w), plain, (bf16 *)weights);
    else
        fold_weights<float, BACK><<<blocks, THREADS, 0, on(stream)>>>(w, f, n, excess(w), plain, (float *)weights);
    return cudaGetLastError();
}

cudaError_t train_cuda_last_fold_weights(cuda_window w, int width, bool half, const float *plain, void *weights,
                                         void *stream) {
    return fold_either<false>(w, width, half, (float *)plain, weights, stream);
}

cudaError_t train_cuda_last_unfold_weights(cuda_window w, int width, bool half, const void *weights, float *plain,
                                           void *stream) {
    return fold_either<true>(w, width, half, plain, (void *)weights, stream);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* A thread has all taps of an output and a channel: they lie side by side in `plain`, and those of its neighbours in
 * the other. */
template <typename T>
static __global__ void pack_weights(int64_t n, int channels, int taps, int width, const float *plain, T *weights) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    int64_t output = i / width;
    int channel = (int)(i - output * width);
    const float *from = plain + (output * channels + channel) * taps;
    T *to = weights + output * taps * width + channel;
    for (int t = 0; t < taps; t++) narrow(channel < channels ? from[t] : 0.0f, to[(int64_t)t * width]);
}

/* Of few taps, the numbers go through shared memory, so that they are written side by side. */
enum { MOST_TAPS = 9, WARPS = 8 };

template <typename T>
static __global__ void unpack_weights(int64_t n, int channels, int taps, int width, const T *weights, float *plain) {
    __shared__ float staged[WARPS][32 * MOST_TAPS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, lines = (channels + 31) / 32;
    int64_t i = blockIdx.x * (int64_t)WARPS + warp;
    if (i >= n) return; /* whole warps */
    int64_t output = i / lines;
    int first = (int)(i - output * lines) * 32, there = channels - first < 32 ? channels - first : 32;
    const T *from = weights + output * taps * width + first + lane;
    float *to = plain + (output * channels + first) * taps;
    if (taps > MOST_TAPS) {
        for (int t = 0; lane < there && t < taps; t++) to[lane * taps + t] = wide(from[(int64_t)t * width]);
        return;
    }
    for (int t = 0; lane < there && t < taps; t++) staged[warp][lane * taps + t] = wide(from[(int64_t)t * width]);
    __syncwarp();
    for (int k = lane; k < there * taps; k += 32) to[k] = staged[warp][k];
}

cudaError_t train_cuda_last_weights(cuda_window w, int width, bool half, const float *plain, void *weights,
                                    void *stream) {
    int64_t n = (int64_t)w.outputs * width;
    unsigned blocks = blocks_for(n, THREADS);
    if (half)
        pack_weights<<<blocks, THREADS, 0, on(stream)>>>(n, w.channels, w.kernel * w.kernel, width, plain,
                                                         (bf16 *)weights);
    else
        pack_weights<<<blocks, THREADS, 0, on(stream)>>>(n, w.channels, w.kernel * w.kernel, width, plain,
                                                         (float *)weights);
    return cudaGetLastError();
}

cudaError_t train_cuda_last_weights_back(cuda_window w, int width, bool half, const void *weights, float *plain,
                                         void *stream) {
    int64_t n = (int64_t)w.outputs * ((w.channels + 31) / 32);
    unsigned blocks = blocks_for(n, WARPS);
    if (half)
        unpack_weights<<<blocks, 32 * WARPS, 0, on(stream)>>>(n, w.channels, w.kernel * w.kernel, width,
                                                              (const bf16 *)weights, plain);
    else
        unpack_weights<<<blocks, 32 * WARPS, 0, on(stream)>>>(n, w.channels, w.kernel * w.kernel, width,
                                                              (const float *)weights, plain);
    return cudaGetLastError();
}
