/* GCM between the products of matrices: units and noise of columns, the basis of least squares, the table T, the number
 * made of it, its gradient by the residuals. Formulas: lib/measures/gcm.c and residuals.c. Columns are contiguous, a
 * each block works on one column, and each warp on one pair of columns. */
#include "backend/cuda/batch_kernels.h"

#include <cuda_runtime.h>
#include <cfloat>

#include "backend/cuda/reduce.cuh"

namespace {

using circe::block_largest;
using circe::block_total;
using circe::warp_total;
using circe::larger;

enum { THREADS = 256, WIDE = 1024, MAXIMUM = 1, LOGSUMEXP = 2 };
constexpr double CLOSE = 1e-3, TIE = 1e-12; /* as on the CPU */

unsigned blocks(int64_t n, int64_t of) { return (unsigned)((n + of - 1) / of); }

cudaStream_t in(void *stream) { return static_cast<cudaStream_t>(stream); }

/* The power of 2 that takes `largest` to [1/2, 1), as far as it and its inverse are normal numbers. */
__device__ double unit_of(double largest) {
    constexpr int RANGE = 1000;
    int exponent = 0;
    if (!(largest > 0)) return 1;
    frexp(largest, &exponent);
    return ldexp(1.0, exponent > RANGE ? -RANGE : exponent < -RANGE ? RANGE : -exponent);
}

__device__ double column_largest(const double *column, int64_t n) {
    double largest = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) largest = larger(largest, fabs(column[i]));
    return block_largest(largest);
}

__global__ __launch_bounds__(THREADS) void load_side(const __grid_constant__ circe__cuda_side s, double *others,
                                                     int64_t m, double noise) {
    int64_t c = blockIdx.x;
    double *points = s.points + c * s.n, largest = column_largest(points, s.n);
    if (others != nullptr) largest = larger(largest, column_largest(others + c * m, m));
    double unit = unit_of(largest);
    for (int64_t i = threadIdx.x; i < s.n; i += THREADS) points[i] *= unit;
    for (int64_t i = threadIdx.x; others != nullptr && i < m; i += THREADS) others[c * m + i] *= unit;
    if (threadIdx.x == 0) {
        s.unit[c] = unit;
        s.blur[c] = largest * noise * unit;
    }
}

__global__ __launch_bounds__(THREADS) void scale_checked(double *r, int64_t count, double scale, const int *info,
                                                         const int *sound) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e < count) r[e] = *info != 0 || *sound == 0 ? nan("") : scale * r[e];
}

__global__ __launch_bounds__(THREADS) void subtract(const __grid_constant__ circe__cuda_side s) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e < s.n * s.cols) s.r[e] = s.points[e] - s.r[e];
}

__global__ __launch_bounds__(THREADS) void settle_side(const __grid_constant__ circe__cuda_side s) {
    int64_t c = blockIdx.x;
    double *r = s.r + c * s.n, *squares = s.points + c * s.n, largest = column_largest(r, s.n), sum = 0;
    double gain = isfinite(largest) ? unit_of(largest) : nan("");
    for (int64_t i = threadIdx.x; i < s.n; i += THREADS) {
        double v = r[i] * gain;
        r[i] = v;
        squares[i] = v * v;
        sum += v * v;
    }
    sum = block_total(sum);
    if (threadIdx.x == 0) {
        s.gain[c] = gain;
        s.blur[c] *= gain;
        s.rms[c] = sqrt(sum / (double)s.n);
    }
}

/* ---- least squares --------------------------------------------------------------------------------------- */

/* out[k] := a_k . b over m, the rows a_k of (count, N), one warp per row. Ends with all threads in step. */
__device__ void dots(const double *a, int64_t count, int64_t N, const double *b, int64_t m, double *out) {
    int lane = threadIdx.x % 32;
    __syncthreads();
    for (int64_t k = threadIdx.x / 32; k < count; k += WIDE / 32) {
        const double *row = a + k * N, *other = b == nullptr ? row : b;
        double sum = 0;
        for (int64_t i = lane; i < m; i += 32) sum += row[i] * other[i];
        sum = warp_total(sum);
        if (lane == 0) out[k] = sum;
    }
    __syncthreads();
}

/* Columns in units and about the mean of the m points; the second pass for what rounding left of a mean far from 0. */
__device__ void centre_columns(double *C, int64_t d, int64_t m, int64_t N) {
    for (int64_t j = 0; j < d; j++) {
        double *column = C + j * N, unit = unit_of(column_largest(column, m));
        for (int64_t i = threadIdx.x; i < N; i += WIDE) column[i] *= unit;
        for (int pass = 0; pass < 2; pass++) {
            double mean = 0;
            for (int64_t i = threadIdx.x; i < m; i += WIDE) mean += column[i];
            mean = block_total(mean) / (double)m;
            for (int64_t i = threadIdx.x; i < N; i += WIDE) column[i] -= mean;
        }
    }
    __syncthreads();
}

/* The column of which the largest share is not in the span yet; -1 if all that is left is rounding. Every thread
 * finds it by itself. */
__device__ int64_t next_column(const double *left, int64_t d, double least, const double *own) {
    int64_t best = -1;
    double best_share = 0;
    for (int64_t j = 0; j < d; j++) {
        double now = own[j] > 0 || own[j] != own[j] ? sqrt(left[j]) : 0;
        if (now <= least || now <= best_share * own[j]) continue;
        best = j;
        best_share = now / own[j];
    }
    return best;
}

/* Gram-Schmidt, the largest share first, each vector orthogonalised once more when its turn comes. One block: the
 * columns of y are few. */
__global__ __launch_bounds__(WIDE) void linear_basis(double *C, int64_t d, int64_t m, int64_t N, double least,
                                                     double *Q, int64_t most, double *scratch) {
    double *own = scratch, *left = own + d, *share = left + d;
    centre_columns(C, d, m, N);
    for (int64_t e = threadIdx.x; e < most * N; e += WIDE) Q[e] = e < N ? 1.0 / sqrt((double)m) : 0;
    dots(C, d, N, nullptr, m, left);
    for (int64_t j = threadIdx.x; j < d; j += WIDE) own[j] = sqrt(left[j]);
    __syncthreads();
    for (int64_t rank = 1; rank < most; rank++) {
        int64_t next = next_column(left, d, least, own);
        if (next < 0) break;
        double *q = Q + rank * N, norm = 0;
        for (int64_t i = threadIdx.x; i < N; i += WIDE) q[i] = C[next * N + i];
        dots(Q, rank, N, q, m, share);
        if (threadIdx.x == 0) own[next] = 0;
        for (int64_t i = threadIdx.x; i < N; i += WIDE) {
            double v = q[i];
            for (int64_t k = 0; k < rank; k++) v -= share[k] * Q[k * N + i];
            q[i] = v;
            if (i < m) norm += v * v;
        }
        norm = sqrt(block_total(norm));
        for (int64_t i = threadIdx.x; i < N; i += WIDE) q[i] /= norm;
        dots(C, d, N, q, m, share);
        for (int64_t e = threadIdx.x; e < d * N; e += WIDE) C[e] -= share[e / N] * q[e % N];
        dots(C, d, N, nullptr, m, left);
    }
}

/* ---- the table ------------------------------------------------------------------------------------------- */

/* A block has a pair of columns. */
__global__ __launch_bounds__(THREADS) void pair_means(const __grid_constant__ circe__cuda_gcm g) {
    int64_t q = g.z.cols, n = g.x.n, a = blockIdx.x / q, b = blockIdx.x % q;
    const double *x = g.x.r + a * n, *z = g.z.r + b * n, *xx = g.x.points + a * n, *zz = g.z.points + b * n;
    double mean = 0, variance = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        mean += x[i] * z[i];
        variance += xx[i] * zz[i];
    }
    mean = block_total(mean);
    variance = block_total(variance);
    if (threadIdx.x > 0) return;
    g.mean[blockIdx.x] = mean / (double)n;
    g.variance[blockIdx.x] = variance / (double)n;
}

/* T of a pair, by a warp. A pair so dependent that mean R^2 - mean^2 would cancel is summed in two passes. */
__global__ __launch_bounds__(THREADS) void make_table(const __grid_constant__ circe__cuda_gcm g) {
    int64_t e = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32, q = g.z.cols, n = g.x.n;
    if (e >= g.x.cols * q) return;
    int64_t a = e / q, b = e % q;
    double m = g.mean[e], v = larger(g.variance[e] - m * m, 0.0);
    if (v < CLOSE * m * m) {
        const double *x = g.x.r + a * n, *z = g.z.r + b * n;
        double sum = 0;
        for (int64_t i = threadIdx.x % 32; i < n; i += 32) sum += x[i] * z[i];
        m = warp_total(sum) / (double)n;
        sum = 0;
        for (int64_t i = threadIdx.x % 32; i < n; i += 32) sum += (x[i] * z[i] - m) * (x[i] * z[i] - m);
        v = warp_total(sum) / (double)n;
    }
    if (threadIdx.x % 32 != 0) return;
    double spread = sqrt(v), noise = g.x.blur[a] * g.z.rms[b] + g.z.blur[b] * g.x.rms[a];
    bool flat = spread <= noise;
    g.mean[e] = m;
    g.variance[e] = flat ? 0 : v;
    g.T[e] = flat ? 0 : sqrt((double)n) * m / spread;
}

__device__ double combine_max(const circe__cuda_gcm &g, int64_t pairs, double largest) {
    double first = -DBL_MAX;
    for (int64_t e = threadIdx.x; e < pairs; e += WIDE) {
        if (!(fabs(g.T[e]) < (1.0 - TIE) * largest)) first = larger(first, -(double)e);
        g.weight[e] = 0;
    }
    int winner = (int)-block_largest(first);
    __syncthreads();
    if (threadIdx.x == 0) {
        *g.winner = largest > 0 ? winner : largest == 0 ? -1 : -2;
        if (largest > 0) g.weight[winner] = copysign(1.0, g.T[winner]);
    }
    return largest;
}

/* log(mean cosh(beta T)) / beta, relative to its largest term, and without cancellation where all terms are small. */
__device__ double combine_logsumexp(const circe__cuda_gcm &g, int64_t pairs, double largest) {
    double beta = g.sharpness, sum = 0, excess = 0;
    bool small = beta * largest < 1;
    for (int64_t e = threadIdx.x; e < pairs; e += WIDE) {
        double t = fabs(g.T[e]), top = exp(beta * (t - largest)), half = small ? sinh(0.5 * beta * t) : 0;
        g.weight[e] = copysign(-top * expm1(-2.0 * beta * t), g.T[e]);
        sum += top + exp(-beta * (t + largest));
        excess += 2.0 * half * half;
    }
    sum = block_total(sum);
    excess = block_total(excess);
    for (int64_t e = threadIdx.x; e < pairs; e += WIDE) g.weight[e] /= sum;
    if (small) return log1p(excess / (double)pairs) / beta;
    return largest + log(0.5 * sum / (double)pairs) / beta;
}

__device__ double combine_squares(const circe__cuda_gcm &g, int64_t pairs) {
    double sum = 0;
    for (int64_t e = threadIdx.x; e < pairs; e += WIDE) {
        sum += g.T[e] * g.T[e];
        g.weight[e] = 2.0 * g.T[e];
    }
    return block_total(sum);
}

__global__ __launch_bounds__(WIDE) void combine(const __grid_constant__ circe__cuda_gcm g) {
    int64_t pairs = g.x.cols * g.z.cols;
    double largest = 0, value;
    for (int64_t e = threadIdx.x; e < pairs; e += WIDE) largest = larger(largest, fabs(g.T[e]));
    largest = block_largest(largest);
    if (g.combine == MAXIMUM)
        value = combine_max(g, pairs, largest);
    else
        value = g.combine == LOGSUMEXP ? combine_logsumexp(g, pairs, largest) : combine_squares(g, pairs);
    if (threadIdx.x == 0) *g.value = value;
}

/* ---- gradient -------------------------------------------------------------------------------------------- */

__global__ __launch_bounds__(THREADS) void pair_factors(const __grid_constant__ circe__cuda_gcm g) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e >= g.x.cols * g.z.cols) return;
    double m = g.mean[e], v = g.variance[e];
    double c = g.weight[e] == 0 ? 0 : g.weight[e] / sqrt((double)g.x.n * v) / v;
    g.first[e] = c * (v + m * m);
    g.last[e] = c * m;
}

__global__ __launch_bounds__(THREADS) void residual_gradient(const __grid_constant__ circe__cuda_gcm g) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = g.x.n;
    if (e >= g.x.cols * n) return;
    int64_t c = e / n, i = e % n;
    double v;
    if (g.combine != MAXIMUM) {
        v = g.gradient[e] - g.x.r[e] * g.inner[e];
    } else {
        int winner = *g.winner;
        v = winner == -2 ? nan("") : 0;
        if (winner >= 0 && winner / g.z.cols == c) {
            double m = g.mean[winner], spread = g.variance[winner], z = g.z.r[winner % g.z.cols * n + i];
            double rate = g.weight[winner] / sqrt((double)n * spread);
            v = rate * (1.0 - m * (g.x.r[e] * z - m) / spread) * z;
        }
    }
    g.gradient[e] = v * g.x.gain[c];
}

template <typename real>
__global__ __launch_bounds__(THREADS) void write_gradient(const double *gradient, const double *unit, int64_t n,
                                                          int64_t cols, real *out, int64_t ld) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e >= n * cols) return;
    int64_t i = e / cols, c = e % cols;
    double most = sizeof(real) == 4 ? (double)FLT_MAX : DBL_MAX, v = gradient[c * n + i] * unit[c];
    out[i * ld + c] = (real)(v > most ? most : v < -most ? -most : v);
}

}  // namespace

/* ---- launches -------------------------------------------------------------------------------------------- */

extern "C" int circe__cuda_gcm_load(const circe__cuda_side *side, double *others, int64_t m, double noise,
                                    void *stream) {
    load_side<<<(unsigned)side->cols, THREADS, 0, in(stream)>>>(*side, others, m, noise);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gcm_scale(double *r, int64_t count, double scale, const int *info, const int *sound,
                                     void *stream) {
    scale_checked<<<blocks(count, THREADS), THREADS, 0, in(stream)>>>(r, count, scale, info, sound);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gcm_subtract(const circe__cuda_side *side, void *stream) {
    subtract<<<blocks(side->n * side->cols, THREADS), THREADS, 0, in(stream)>>>(*side);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gcm_settle(const circe__cuda_side *side, void *stream) {
    settle_side<<<(unsigned)side->cols, THREADS, 0, in(stream)>>>(*side);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gcm_basis(double *C, int64_t cols, int64_t m, int64_t N, double noise, double *Q,
                                     int64_t most, double *scratch, void *stream) {
    linear_basis<<<1, WIDE, 0, in(stream)>>>(C, cols, m, N, noise * sqrt((double)m), Q, most, scratch);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gcm_means(const circe__cuda_gcm *g, void *stream) {
    pair_means<<<(unsigned)(g->x.cols * g->z.cols), THREADS, 0, in(stream)>>>(*g);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gcm_table(const circe__cuda_gcm *g, void *stream) {
    make_table<<<blocks(g->x.cols * g->z.cols, THREADS / 32), THREADS, 0, in(stream)>>>(*g);
    combine<<<1, WIDE, 0, in(stream)>>>(*g);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gcm_pairs(const circe__cuda_gcm *g, void *stream) {
    pair_factors<<<blocks(g->x.cols * g->z.cols, THREADS), THREADS, 0, in(stream)>>>(*g);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gcm_residual(const circe__cuda_gcm *g, void *stream) {
    residual_gradient<<<blocks(g->x.cols * g->x.n, THREADS), THREADS, 0, in(stream)>>>(*g);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gcm_write(const circe__cuda_gcm *g, const double *gradient, int double_precision, void *out,
                                     int64_t ld, void *stream) {
    int64_t n = g->x.n, cols = g->x.cols;
    unsigned grid = blocks(n * cols, THREADS);
    if (double_precision)
        write_gradient<<<grid, THREADS, 0, in(stream)>>>(gradient, g->x.unit, n, cols, static_cast<double *>(out), ld);
    else
        write_gradient<<<grid, THREADS, 0, in(stream)>>>(gradient, g->x.unit, n, cols, static_cast<float *>(out), ld);
    return (int)cudaPeekAtLastError();
}
