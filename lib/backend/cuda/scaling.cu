/* Features scaled to their kernel, on the device (lib/measures/scaling.c has the formulas, pairs.h the pairs).
 *
 *     normalize   x^ (n, d) in float64, with 1/norm of the rows or mean and 1/sd of the columns
 *     pairs       D_p of every factor and of x itself, one warp per pair
 *     select      one block: the median of D, the widths, the figures
 *     multiply    out = x^ / s, elementwise
 *
 * The width stays in device memory, where `multiply` reads it, so the host never waits. The median is found bit by bit:
 * non-negative numbers are ordered like their bits, so 63 counts over the block determine the k-th smallest exactly, in
 * a fixed order. */
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/scaling_kernels.h"
#include "backend/cuda/values.cuh"
#include "core/pairs.h"

namespace circe {

enum { SELECT_THREADS = 1024, ROW_THREADS = 128, COLUMNS = 32, LANES = 16, NORMALIZE_ROWS = 1, NORMALIZE_BATCH = 2 };

/* Pieces of the scratch, all float64. */
struct scaled {
    double *D;       /* (factors + 1, pairs) */
    double *mean;    /* (d) */
    double *inverse; /* (max(n, d)) */
    double *normal;  /* (n, d): x^ */
    int64_t pairs;
};

__host__ scaled lay_out(int64_t n, int64_t d, void *scratch, size_t *bytes) {
    scaled s = {};
    double *at = static_cast<double *>(scratch);
    s.pairs = circe__n_pairs(n);
    s.D = at;
    s.mean = s.D + (CIRCE__CUDA_MAX_FACTORS + 1) * s.pairs;
    s.inverse = s.mean + d;
    s.normal = s.inverse + (n > d ? n : d);
    if (bytes != nullptr) *bytes = (size_t)((s.normal + n * d) - at) * sizeof(double);
    return s;
}

__device__ __forceinline__ bool follows(const circe__cuda_factor &f) {
    return f.sigma2 == 0 && (f.kind == GAUSSIAN || f.kind == LAPLACE);
}

/* What the columns are multiplied by. */
__device__ __forceinline__ double rate_of(const circe__cuda_kernel &k, const double *widths, int c) {
    for (int f = 0; f < k.n; f++) {
        const circe__cuda_factor &factor = k.items[f];
        if (follows(factor) && c >= factor.first_col && c < factor.first_col + factor.n_cols)
            return 1.0 / sqrt(widths[f]);
    }
    return 1.0;
}

/* ---- normalisation --------------------------------------------------------------------------------------- */

template <typename real>
__global__ __launch_bounds__(ROW_THREADS) void rows_kernel(circe__cuda_scaling a, scaled s) {
    int64_t i = ((int64_t)blockIdx.x * ROW_THREADS + threadIdx.x) / 32;
    int lane = threadIdx.x % 32, d = a.x.cols;
    if (i >= a.n) return;
    const real *x = static_cast<const real *>(a.x.data) + i * a.x.ld;
    double largest = 0, square = 0;
    for (int c = lane; c < d; c += 32) largest = fmax(largest, fabs((double)x[c]));
#pragma unroll
    for (int step = 16; step > 0; step /= 2) largest = fmax(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    for (int c = lane; c < d; c += 32) square += largest > 0 ? (x[c] / largest) * (x[c] / largest) : 0;
    square = warp_total(square);
    double inverse = largest > 0 ? 1.0 / largest / sqrt(square) : 0;
    if (lane == 0) s.inverse[i] = inverse;
    for (int c = lane; c < d; c += 32) s.normal[i * d + c] = x[c] * inverse;
}

/* The sum of `v` over the block's LANES rows of threads, by column. */
__device__ __forceinline__ double column_sum(double v, double (&parts)[LANES][COLUMNS]) {
    double sum = 0;
    __syncthreads();
    parts[threadIdx.y][threadIdx.x] = v;
    __syncthreads();
    for (int r = 0; r < LANES; r++) sum += parts[r][threadIdx.x];
    return sum;
}

template <typename real>
__global__ __launch_bounds__(COLUMNS *LANES) void columns_kernel(circe__cuda_scaling a, scaled s) {
    __shared__ double parts[LANES][COLUMNS];
    int d = a.x.cols, c = blockIdx.x * COLUMNS + threadIdx.x;
    bool mine = c < d;
    const real *x = static_cast<const real *>(a.x.data) + c;
    double sum = 0, squares = 0;
    for (int64_t i = threadIdx.y; mine && i < a.n; i += LANES) sum += x[i * a.x.ld];
    double mean = column_sum(sum, parts) / (double)a.n;
    for (int64_t i = threadIdx.y; mine && i < a.n; i += LANES)
        squares += (x[i * a.x.ld] - mean) * (x[i * a.x.ld] - mean);
    double variance = column_sum(squares, parts) / (double)a.n;
    double inverse = variance > 1e-24 * mean * mean ? 1.0 / sqrt(variance) : variance == variance ? 0.0 : variance;
    if (!mine) return;
    for (int64_t i = threadIdx.y; i < a.n; i += LANES) s.normal[i * d + c] = (x[i * a.x.ld] - mean) * inverse;
    if (threadIdx.y == 0) {
        s.mean[c] = mean;
        s.inverse[c] = inverse;
    }
}

/* ---- pairs ----------------------------------------------------------------------------------------------- */

template <typename real>
__device__ double pair_distance(const real *x, int64_t ld, int64_t i, int64_t j, int first, int cols) {
    double square = 0;
    for (int c = threadIdx.x % 32; c < cols; c += 32) {
        double t = (double)x[i * ld + first + c] - (double)x[j * ld + first + c];
        square += t * t;
    }
    return warp_total(square);
}

template <typename real>
__global__ __launch_bounds__(ROW_THREADS) void pairs_kernel(circe__cuda_scaling a, scaled s) {
    int64_t p = ((int64_t)blockIdx.x * ROW_THREADS + threadIdx.x) / 32;
    if (p >= s.pairs) return;
    int64_t i = p % a.n, j = circe__pair_partner(a.n, p);
    const real *x = static_cast<const real *>(a.x.data);
    for (int f = 0; f <= a.kernel.n; f++) {
        bool raw = f == a.kernel.n;
        int first = raw ? 0 : a.kernel.items[f].first_col, cols = raw ? a.x.cols : a.kernel.items[f].n_cols;
        double square = a.normalize != 0 && !raw ? pair_distance(s.normal, a.x.cols, i, j, first, cols)
                                                 : pair_distance(x, a.x.ld, i, j, first, cols);
        if (threadIdx.x % 32 == 0) s.D[f * s.pairs + p] = square;
    }
}

/* ---- the median ------------------------------------------------------------------------------------------ */

__device__ __forceinline__ uint64_t key_of(double v) { return (uint64_t)__double_as_longlong(v) & ~(1ull << 63); }

/* How many of D are below the key: the barrier itself counts. */
__device__ int64_t count_below(const double *D, int64_t n, uint64_t key) {
    int64_t count = 0;
    for (int64_t first = 0; first < n; first += SELECT_THREADS) {
        int64_t p = first + threadIdx.x;
        count += __syncthreads_count(p < n && key_of(D[p]) < key);
    }
    return count;
}

__device__ uint64_t kth_smallest(const double *D, int64_t n, int64_t k) {
    uint64_t found = 0;
    for (int bit = 62; bit >= 0; bit--) {
        uint64_t candidate = found | (1ull << bit);
        if (count_below(D, n, candidate) <= k) found = candidate;
    }
    return found;
}

/* The mean of the (k-1)-th and the k-th, or the k-th where m, the number that counts, is odd. */
__device__ double middle(const double *D, int64_t n, int64_t k, int64_t m) {
    uint64_t upper = kth_smallest(D, n, k);
    double value = __longlong_as_double((long long)upper), below = 0;
    if (m % 2 == 1 || count_below(D, n, upper) < k) return value;
    for (int64_t p = threadIdx.x; p < n; p += SELECT_THREADS)
        if (key_of(D[p]) < upper) below = fmax(below, fabs(D[p]));
    return 0.5 * (block_largest(below) + value);
}

__device__ double median(const double *D, int64_t n) {
    double found = middle(D, n, n / 2, n);
    if (found > 0 || found != found) return found;
    int64_t zeros = count_below(D, n, 1), left = n - zeros;
    return left > 0 ? middle(D, n, zeros + left / 2, left) : 0;
}

__device__ double follow(double width, double median, double keep, int frozen) {
    if (width > 0 && (frozen || !(median > 0))) return width;
    if (!(median > 0)) return 1;
    return width > 0 ? keep * width + (1 - keep) * median : median;
}

/* Minus the logarithm of the kernel at pair p. */
__device__ double exponent(const circe__cuda_kernel &k, const double *widths, const scaled &s, int64_t p) {
    double sum = k.n == 0 ? NAN : 0;
    for (int f = 0; f < k.n; f++) {
        double square = s.D[f * s.pairs + p];
        int kind = k.items[f].kind;
        if (kind == GAUSSIAN) sum += 0.5 * square / widths[f];
        if (kind == LAPLACE) sum += sqrt(square / widths[f]);
        if (kind == LINEAR) sum = NAN;
        if (kind != GAUSSIAN && kind != LAPLACE && kind != LINEAR && square > 0) sum = INFINITY;
    }
    return sum;
}

__global__ __launch_bounds__(SELECT_THREADS) void select_kernel(circe__cuda_scaling a, scaled s) {
    __shared__ double widths[CIRCE__CUDA_MAX_FACTORS];
    for (int f = 0; f < a.kernel.n; f++) {
        const circe__cuda_factor &factor = a.kernel.items[f];
        double width = follows(factor) ? a.widths[f] : factor.sigma2;
        __syncthreads(); /* all have read it */
        if (follows(factor) && !(a.frozen && width > 0))
            width = follow(width, s.pairs > 0 ? median(s.D + f * s.pairs, s.pairs) : 0, a.keep, a.frozen);
        if (threadIdx.x == 0) a.widths[f] = widths[f] = width;
    }
    __syncthreads();
    if (a.figures == nullptr || a.frozen || s.pairs == 0) return;
    double kernel = 0, spread = 0;
    int64_t step = circe__figure_step(a.n), looked = (s.pairs + step - 1) / step;
    for (int64_t p = threadIdx.x; p < s.pairs; p += SELECT_THREADS) {
        spread += s.D[a.kernel.n * s.pairs + p];
        if (p % step == 0) kernel += exp(-exponent(a.kernel, widths, s, p));
    }
    kernel = block_total(kernel);
    spread = block_total(spread);
    if (threadIdx.x != 0) return;
    a.figures[0] += kernel / (double)looked;
    a.figures[1] += sqrt(0.5 * spread / (double)s.pairs / a.x.cols);
    a.figures[2] += 1;
}

/* ---- x and gradients ------------------------------------------------------------------------------------- */

template <typename real>
__global__ void multiply_kernel(circe__cuda_scaling a, scaled s) {
    int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, d = a.x.cols;
    if (e >= a.n * d) return;
    int64_t i = e / d, c = e % d;
    double value = a.normalize != 0 ? s.normal[e] : (double)static_cast<const real *>(a.x.data)[i * a.x.ld + c];
    static_cast<real *>(a.out)[i * a.ld_out + c] = (real)(value * rate_of(a.kernel, a.widths, (int)c));
}

template <typename real>
__global__ void back_kernel(circe__cuda_scaling a) {
    int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, d = a.x.cols;
    if (e >= a.n * d) return;
    real *grad = static_cast<real *>(a.out) + e / d * a.ld_out + e % d;
    *grad = (real)(*grad * rate_of(a.kernel, a.widths, (int)(e % d)));
}

template <typename real>
__global__ __launch_bounds__(ROW_THREADS) void back_rows_kernel(circe__cuda_scaling a, scaled s) {
    int64_t i = ((int64_t)blockIdx.x * ROW_THREADS + threadIdx.x) / 32;
    int lane = threadIdx.x % 32, d = a.x.cols;
    if (i >= a.n) return;
    real *grad = static_cast<real *>(a.out) + i * a.ld_out;
    const double *x = s.normal + i * d;
    double along = 0;
    for (int c = lane; c < d; c += 32) along += x[c] * grad[c] * rate_of(a.kernel, a.widths, c);
    along = warp_total(along);
    for (int c = lane; c < d; c += 32)
        grad[c] = (real)((grad[c] * rate_of(a.kernel, a.widths, c) - x[c] * along) * s.inverse[i]);
}

template <typename real>
__global__ __launch_bounds__(COLUMNS *LANES) void back_columns_kernel(circe__cuda_scaling a, scaled s) {
    __shared__ double parts[LANES][COLUMNS];
    int d = a.x.cols, c = blockIdx.x * COLUMNS + threadIdx.x;
    bool mine = c < d;
    double rate = mine ? rate_of(a.kernel, a.widths, c) : 0, sum = 0, along = 0;
    real *grad = static_cast<real *>(a.out) + c;
    for (int64_t i = threadIdx.y; mine && i < a.n; i += LANES) {
        sum += grad[i * a.ld_out];
        along += grad[i * a.ld_out] * s.normal[i * d + c];
    }
    sum = column_sum(sum, parts) / (double)a.n;
    along = column_sum(along, parts) / (double)a.n;
    for (int64_t i = threadIdx.y; mine && i < a.n; i += LANES)
        grad[i * a.ld_out] = (real)((grad[i * a.ld_out] - sum - s.normal[i * d + c] * along) * rate * s.inverse[c]);
}

/* ---- launches -------------------------------------------------------------------------------------------- */

enum { ELEMENT_THREADS = 256 };

unsigned blocks_for(int64_t work, int64_t each) { return (unsigned)((work + each - 1) / each); }

template <typename real>
cudaError_t scale(const circe__cuda_scaling &a, const scaled &s, cudaStream_t stream) {
    int64_t d = a.x.cols;
    if (a.normalize == NORMALIZE_ROWS)
        rows_kernel<real><<<blocks_for(a.n, ROW_THREADS / 32), ROW_THREADS, 0, stream>>>(a, s);
    if (a.normalize == NORMALIZE_BATCH)
        columns_kernel<real><<<blocks_for(d, COLUMNS), dim3(COLUMNS, LANES), 0, stream>>>(a, s);
    if (s.pairs > 0) pairs_kernel<real><<<blocks_for(s.pairs, ROW_THREADS / 32), ROW_THREADS, 0, stream>>>(a, s);
    select_kernel<<<1, SELECT_THREADS, 0, stream>>>(a, s);
    if (a.out != nullptr)
        multiply_kernel<real><<<blocks_for(a.n * d, ELEMENT_THREADS), ELEMENT_THREADS, 0, stream>>>(a, s);
    return cudaGetLastError();
}

template <typename real>
cudaError_t scale_back(const circe__cuda_scaling &a, const scaled &s, cudaStream_t stream) {
    int64_t d = a.x.cols;
    if (a.normalize == NORMALIZE_ROWS)
        back_rows_kernel<real><<<blocks_for(a.n, ROW_THREADS / 32), ROW_THREADS, 0, stream>>>(a, s);
    else if (a.normalize == NORMALIZE_BATCH)
        back_columns_kernel<real><<<blocks_for(d, COLUMNS), dim3(COLUMNS, LANES), 0, stream>>>(a, s);
    else
        back_kernel<real><<<blocks_for(a.n * d, ELEMENT_THREADS), ELEMENT_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

}  // namespace circe

extern "C" size_t circe__cuda_scaling_bytes(int64_t n, int64_t cols) {
    size_t bytes = 0;
    circe::lay_out(n, cols, nullptr, &bytes);
    return bytes;
}

extern "C" int circe__cuda_scale_launch(const circe__cuda_scaling *job, void *scratch, void *stream) {
    circe::scaled s = circe::lay_out(job->n, job->x.cols, scratch, nullptr);
    cudaStream_t in = static_cast<cudaStream_t>(stream);
    return (int)(job->double_precision ? circe::scale<double>(*job, s, in) : circe::scale<float>(*job, s, in));
}

extern "C" int circe__cuda_scale_back_launch(const circe__cuda_scaling *job, void *scratch, void *stream) {
    circe::scaled s = circe::lay_out(job->n, job->x.cols, scratch, nullptr);
    cudaStream_t in = static_cast<cudaStream_t>(stream);
    return (int)(job->double_precision ? circe::scale_back<double>(*job, s, in)
                                       : circe::scale_back<float>(*job, s, in));
}
