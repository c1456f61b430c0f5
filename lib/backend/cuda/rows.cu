/* Passes over tables of many rows. Formulas: lib/inference/regression.c, pair.c, wild.c. */
#include "backend/cuda/rows_kernels.h"

#include <cuda_runtime.h>

#include "backend/cuda/reduce.cuh"

namespace {

using circe::warp_total;

enum { THREADS = 256, WARPS = THREADS / 32, PART_ROWS = 512 };

unsigned blocks(int64_t n, int64_t of) { return (unsigned)((n + of - 1) / of); }

cudaStream_t in(void *stream) { return static_cast<cudaStream_t>(stream); }

__device__ double rest_of(double leverage) { return leverage < 0.99 ? 1.0 - leverage : 0.01; }

__device__ int64_t element() { return (int64_t)blockIdx.x * THREADS + threadIdx.x; }

__global__ __launch_bounds__(THREADS) void cosines(const double *points, int64_t n, int dim, const double *frequency,
                                                   const double *offset, int64_t k, const double *root, double *out,
                                                   int64_t ld) {
    int64_t e = element(), i = e / k, f = e % k;
    if (i >= n) return;
    double phase = offset[f];
    for (int c = 0; c < dim; c++) phase += points[i * dim + c] * frequency[c * k + f];
    out[i * ld + f] = 1.4142135623730951 * root[i] * cos(phase);
}

__global__ __launch_bounds__(THREADS) void powers(const double *from, int64_t n, int64_t cols, int64_t ld, int power,
                                                  double *to) {
    int64_t e = element();
    if (e >= n * cols) return;
    double v = from[e / cols * ld + e % cols];
    v *= v;
    to[e] = power == 4 ? v * v : v;
}

__global__ __launch_bounds__(THREADS) void columns(const double *from, int64_t n, int64_t ld, const int64_t *index,
                                                   int64_t cols, double *to) {
    int64_t e = element();
    if (e < n * cols) to[e] = from[e / cols * ld + index[e % cols]];
}

__global__ __launch_bounds__(THREADS) void rows(const double *from, int64_t cols, const int64_t *index, int64_t m,
                                                double *to) {
    int64_t e = element();
    if (e < m * cols) to[e] = from[index[e / cols] * cols + e % cols];
}

/* A block has PART_ROWS rows and 32 columns; a warp every eighth row. */
__global__ __launch_bounds__(THREADS) void square_parts(const double *a, int64_t n, int64_t cols, int64_t ld,
                                                        const double *leverage, double *parts) {
    __shared__ double sums[WARPS][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t c = (int64_t)blockIdx.y * 32 + lane, first = (int64_t)blockIdx.x * PART_ROWS;
    int64_t end = first + PART_ROWS < n ? first + PART_ROWS : n;
    double sum = 0;
    for (int64_t i = first + warp; i < end && c < cols; i += WARPS) {
        double v = a[i * ld + c] * (leverage == nullptr ? 1.0 : rest_of(leverage[i]));
        sum += v * v;
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= cols) return;
    sum = 0;
    for (int w = 0; w < WARPS; w++) sum += sums[w][lane];
    parts[blockIdx.x * cols + c] = sum;
}

/* A block per column. */
__global__ __launch_bounds__(THREADS) void add_parts(const double *parts, int64_t count, int64_t cols, double *out) {
    double sum = 0;
    for (int64_t b = threadIdx.x; b < count; b += THREADS) sum += parts[b * cols + blockIdx.x];
    sum = circe::block_total(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

__global__ __launch_bounds__(THREADS) void scale_rows(double *table, int64_t n, int64_t cols, const double *by,
                                                      int over_rest) {
    int64_t e = element();
    if (e >= n * cols) return;
    double v = by[e / cols];
    table[e] = over_rest ? table[e] / rest_of(v) : table[e] * v;
}

/* A warp per row. */
__global__ __launch_bounds__(THREADS) void row_leverage(const double *Q, int64_t n, int64_t rank, const double *unit,
                                                        const double *inverse, double *out) {
    int64_t i = element() / 32;
    int lane = threadIdx.x % 32;
    if (i >= n) return;
    double h = 0;
    for (int64_t k = lane; k < rank; k += 32) h += Q[i * rank + k] * Q[i * rank + k] * inverse[k];
    h = warp_total(h);
    if (lane == 0) out[i] = unit[i] * unit[i] + h;
}

/* A warp per row, for all ridges and the mean. */
__global__ __launch_bounds__(THREADS) void row_loo(const double *Q, int64_t rank, const double *unit,
                                                   const double *target, int64_t ld, int64_t columns,
                                                   const double *inverse, const double *means, int64_t ridges,
                                                   int64_t n, int64_t n_all, double *error) {
    int64_t i = element() / 32;
    int lane = threadIdx.x % 32;
    if (i >= n) return;
    const double *q = Q + i * rank, *t = target + i * ld;
    double own = unit[i] * unit[i];
    for (int64_t l = 0; l <= ridges; l++) {
        const double *mean = means + (i * ridges + l) * columns, *scale = inverse + l * rank;
        double h = 0, square = 0;
        for (int64_t k = lane; l < ridges && k < rank; k += 32) h += q[k] * q[k] * scale[k];
        for (int64_t c = lane; c < columns; c += 32) {
            double left = t[c] - (l < ridges ? mean[c] : 0.0);
            square += left * left;
        }
        h = own + warp_total(h);
        square = warp_total(square);
        double rest = circe::larger(1.0 - h, 1e-9);
        if (lane == 0) error[l * n_all + i] = square / (rest * rest);
    }
}

__global__ __launch_bounds__(THREADS) void fitted(const double *target, int64_t ldt, const double *noise, int64_t ldn,
                                                  const double *leverage, int64_t n, int64_t cols, double *out) {
    int64_t e = element(), i = e / cols, c = e % cols;
    if (i < n) out[e] = target[i * ldt + c] - rest_of(leverage[i]) * noise[i * ldn + c];
}

/* A warp per row. */
__global__ __launch_bounds__(THREADS) void carried(const double *left, int64_t p, const double *noise, int64_t q,
                                                   int64_t n, double *v) {
    int64_t i = element() / 32;
    int lane = threadIdx.x % 32;
    if (i >= n) return;
    double a = 0, b = 0;
    for (int64_t k = lane; k < p; k += 32) a += left[i * p + k] * left[i * p + k];
    for (int64_t k = lane; k < q; k += 32) b += noise[i * q + k] * noise[i * q + k];
    a = warp_total(a) * warp_total(b);
    if (lane > 0) return;
    v[i] = a;
    v[n + i] = a * a;
}

__global__ __launch_bounds__(THREADS) void row_products(const double *left, int64_t p, const double *noise, int64_t q,
                                                        int64_t n, int64_t first, int64_t cols, double *C) {
    int64_t e = element(), i = e / cols, c = first + e % cols;
    if (i < n) C[e] = left[i * p + c / q] * noise[i * q + c % q];
}

__global__ __launch_bounds__(THREADS) void signs(const uint32_t *words, int64_t each, int64_t row, int64_t rows,
                                                 int64_t draws, double *out) {
    int64_t e = element(), d = e / rows, i = row + e % rows;
    if (d < draws) out[e] = words[d * each + i / 32] >> (i % 32) & 1u ? 1.0 : -1.0;
}

/* A block per draw. */
__global__ __launch_bounds__(THREADS) void gather_draws(const double *sums, int64_t cols, const double *inverse,
                                                        double *null) {
    const double *own = sums + blockIdx.x * cols;
    double v = 0;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        v = inverse == nullptr ? v + own[c] * own[c] : circe::larger(v, fabs(own[c]) * inverse[c]);
    v = inverse == nullptr ? circe::block_total(v) : circe::block_largest(v);
    if (threadIdx.x == 0) null[blockIdx.x] = inverse == nullptr ? null[blockIdx.x] + v : circe::larger(null[blockIdx.x], v);
}

}  // namespace

/* ---- launches -------------------------------------------------------------------------------------------- */

extern "C" int circe__cuda_cosines(const double *points, int64_t n, int dim, const double *frequency,
                                   const double *offset, int64_t k, const double *root, double *out, int64_t ld,
                                   void *stream) {
    cosines<<<blocks(n * k, THREADS), THREADS, 0, in(stream)>>>(points, n, dim, frequency, offset, k, root, out, ld);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_powers(const double *from, int64_t n, int64_t cols, int64_t ld, int power, double *to,
                                  void *stream) {
    powers<<<blocks(n * cols, THREADS), THREADS, 0, in(stream)>>>(from, n, cols, ld, power, to);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_columns(const double *from, int64_t n, int64_t ld, const int64_t *index, int64_t cols,
                                   double *to, void *stream) {
    columns<<<blocks(n * cols, THREADS), THREADS, 0, in(stream)>>>(from, n, ld, index, cols, to);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_some_rows(const double *from, int64_t cols, const int64_t *index, int64_t m, double *to,
                                void *stream) {
    rows<<<blocks(m * cols, THREADS), THREADS, 0, in(stream)>>>(from, cols, index, m, to);
    return (int)cudaPeekAtLastError();
}

extern "C" int64_t circe__cuda_square_parts(int64_t n) { return (n + PART_ROWS - 1) / PART_ROWS; }

extern "C" int circe__cuda_squares(const double *a, int64_t n, int64_t cols, int64_t ld, const double *leverage,
                                   double *parts, double *out, void *stream) {
    square_parts<<<dim3(blocks(n, PART_ROWS), blocks(cols, 32)), THREADS, 0, in(stream)>>>(a, n, cols, ld, leverage,
                                                                                           parts);
    add_parts<<<(unsigned)cols, THREADS, 0, in(stream)>>>(parts, circe__cuda_square_parts(n), cols, out);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_scale_rows(double *table, int64_t n, int64_t cols, const double *by, int over_rest,
                                      void *stream) {
    scale_rows<<<blocks(n * cols, THREADS), THREADS, 0, in(stream)>>>(table, n, cols, by, over_rest);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_row_leverage(const double *Q, int64_t n, int64_t rank, const double *unit,
                                        const double *inverse, double *out, void *stream) {
    row_leverage<<<blocks(n, WARPS), THREADS, 0, in(stream)>>>(Q, n, rank, unit, inverse, out);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_row_loo(const double *Q, int64_t rank, const double *unit, const double *target, int64_t ld,
                                   int64_t columns, const double *inverse, const double *means, int64_t ridges,
                                   int64_t n, int64_t n_all, double *error, void *stream) {
    row_loo<<<blocks(n, WARPS), THREADS, 0, in(stream)>>>(Q, rank, unit, target, ld, columns, inverse, means, ridges, n,
                                                          n_all, error);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_fitted(const double *target, int64_t ldt, const double *noise, int64_t ldn,
                                  const double *leverage, int64_t n, int64_t cols, double *out, void *stream) {
    fitted<<<blocks(n * cols, THREADS), THREADS, 0, in(stream)>>>(target, ldt, noise, ldn, leverage, n, cols, out);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_carried(const double *left, int64_t p, const double *noise, int64_t q, int64_t n, double *v,
                                   void *stream) {
    carried<<<blocks(n, WARPS), THREADS, 0, in(stream)>>>(left, p, noise, q, n, v);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_row_products(const double *left, int64_t p, const double *noise, int64_t q, int64_t n,
                                        int64_t first, int64_t cols, double *C, void *stream) {
    row_products<<<blocks(n * cols, THREADS), THREADS, 0, in(stream)>>>(left, p, noise, q, n, first, cols, C);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_signs(const uint32_t *words, int64_t each, int64_t row, int64_t rows, int64_t draws,
                                 double *out, void *stream) {
    signs<<<blocks(draws * rows, THREADS), THREADS, 0, in(stream)>>>(words, each, row, rows, draws, out);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gather_draws(const double *sums, int64_t draws, int64_t cols, const double *inverse,
                                        double *null, void *stream) {
    gather_draws<<<(unsigned)draws, THREADS, 0, in(stream)>>>(sums, cols, inverse, null);
    return (int)cudaPeekAtLastError();
}
