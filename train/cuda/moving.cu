/* Kernels that move numbers: batches from what is stored, blocks by a number that lies in the GPU's memory.
 *
 *     out (n, repeat, channels, height, width) := scale * v + offset, lines moved by the shift, else background
 *
 * A block takes a part of one point, so that what the point shows is looked up once. The cost is that of writing `out`,
 * four pixels per thread if the width allows it. Multiplication and addition are rounded one by one, as on the CPU. */
#include "train/cuda/common.cuh"

/* ---- points ------------------------------------------------------------------------------------------------------ */

/* Pixel `at` of a stored row as the network sees it. */
static __device__ inline float pixel(const cuda_points &p, const uint8_t *row, int at) {
    int value = p.element == BITS ? row[at / 8] >> (7 - at % 8) & 1 : row[at];
    return __fadd_rn(__fmul_rn(p.scale, (float)value), p.offset);
}

static __device__ inline float shown(const cuda_points &p, const uint8_t *row, int shift, int o) {
    int at = o % p.once, line = at % p.plane / p.width - shift;
    return line < 0 || line >= p.height ? p.background : pixel(p, row, at - shift * p.width);
}

static __global__ void gather_pixels(cuda_points p, const int64_t *index, int64_t first, float *out) {
    int64_t point = index != NULL ? index[blockIdx.x] : first + blockIdx.x;
    int64_t stored = p.stored != NULL ? p.stored[point] : point;
    int shift = p.shift != NULL ? p.shift[point] : 0;
    const uint8_t *row = (const uint8_t *)p.values + stored * p.stride;
    float *to = out + (int64_t)blockIdx.x * p.cols;
    for (int o = blockIdx.y * blockDim.x + threadIdx.x; o < p.cols; o += gridDim.y * blockDim.x)
        to[o] = shown(p, row, shift, o);
}

/* Four pixels of a line at once: they are in one byte of bits, and in view together. */
static __global__ void gather_four(cuda_points p, const int64_t *index, int64_t first, float *out) {
    int64_t point = index != NULL ? index[blockIdx.x] : first + blockIdx.x;
    int64_t stored = p.stored != NULL ? p.stored[point] : point;
    int shift = p.shift != NULL ? p.shift[point] : 0;
    const uint8_t *row = (const uint8_t *)p.values + stored * p.stride;
    float4 *to = (float4 *)(out + (int64_t)blockIdx.x * p.cols);
    for (int o = 4 * (blockIdx.y * blockDim.x + threadIdx.x); o < p.cols; o += 4 * gridDim.y * blockDim.x) {
        int at = o % p.once, line = at % p.plane / p.width - shift;
        float4 four = {p.background, p.background, p.background, p.background};
        if (line >= 0 && line < p.height) {
            at -= shift * p.width;
            four = {pixel(p, row, at), pixel(p, row, at + 1), pixel(p, row, at + 2), pixel(p, row, at + 3)};
        }
        to[o / 4] = four;
    }
}

static __global__ void gather_floats(cuda_points p, const int64_t *index, int64_t first, float *out) {
    int64_t point = index != NULL ? index[blockIdx.x] : first + blockIdx.x;
    int64_t stored = p.stored != NULL ? p.stored[point] : point;
    const float *row = (const float *)p.values + stored * p.stride;
    float *to = out + (int64_t)blockIdx.x * p.cols;
    for (int o = blockIdx.y * blockDim.x + threadIdx.x; o < p.cols; o += gridDim.y * blockDim.x) to[o] = row[o];
}

cudaError_t train_cuda_gather_points(const cuda_points *from, const int64_t *index, int64_t first, int64_t n,
                                     float *out, void *stream) {
    if (n == 0) return cudaSuccess;
    bool floats = from->element == FLOATS, fours = !floats && from->width % 4 == 0;
    int64_t parts = (from->cols / (fours ? 4 : 1) + THREADS - 1) / THREADS;
    dim3 grid((unsigned)n, (unsigned)(parts > 65535 ? 65535 : parts < 1 ? 1 : parts));
    if (floats)
        gather_floats<<<grid, THREADS, 0, on(stream)>>>(*from, index, first, out);
    else if (fours)
        gather_four<<<grid, THREADS, 0, on(stream)>>>(*from, index, first, out);
    else
        gather_pixels<<<grid, THREADS, 0, on(stream)>>>(*from, index, first, out);
    return cudaGetLastError();
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static __global__ void gather_rows(const float *from, int64_t cols, const int64_t *index, int64_t n, float *out) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n * cols; i += (int64_t)gridDim.x * blockDim.x)
        out[i] = from[index[i / cols] * cols + i % cols];
}

cudaError_t train_cuda_gather(const float *from, int64_t cols, const int64_t *index, int64_t n, float *out,
                              void *stream) {
    if (n * cols == 0) return cudaSuccess;
    gather_rows<<<blocks_for(n * cols, THREADS), THREADS, 0, on(stream)>>>(from, cols, index, n, out);
    return cudaGetLastError();
}

/* ---- blocks by number -------------------------------------------------------------------------------------------- */

static __global__ void pick(const int64_t *blocks, int64_t words, const int64_t *which, int64_t *to) {
    const int64_t *from = blocks + *which * words;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < words; i += (int64_t)gridDim.x * blockDim.x)
        to[i] = from[i];
}

cudaError_t train_cuda_pick(const void *blocks, int64_t words, const int64_t *which, void *to, void *stream) {
    pick<<<blocks_for(words, THREADS), THREADS, 0, on(stream)>>>((const int64_t *)blocks, words, which, (int64_t *)to);
    return cudaGetLastError();
}

static __global__ void append(double *blocks, int64_t n, int64_t *which, const double *from) {
    double *to = blocks + *which * n;
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        finite = finite && isfinite(from[i]);
        to[i] = from[i];
    }
    if (finite) ++*which;
}

cudaError_t train_cuda_append(double *blocks, int64_t n, int64_t *which, const double *from, void *stream) {
    append<<<1, 1, 0, on(stream)>>>(blocks, n, which, from);
    return cudaGetLastError();
}
