/* Kernel matrices of a batch, and the elementwise steps of HSCIC and KCI (formulas: lib/measures/hscic.c and kci.c).
 * Every step reads and writes n by n numbers once; the products between them cost far more. */
#include "backend/cuda/batch_kernels.h"

#include <cuda_runtime.h>
#include <cfloat>

#include "backend/cuda/reduce.cuh"

namespace {

using circe::block_total;

enum { EDGE = 32, STEP = 8, THREADS = EDGE * STEP, CHUNK = 16, GAUSSIAN = 1, LAPLACE = 2, LINEAR = 3 };

unsigned blocks(int64_t n, int64_t of) { return (unsigned)((n + of - 1) / of); }

cudaStream_t in(void *stream) { return static_cast<cudaStream_t>(stream); }

/* ---- points ---------------------------------------------------------------------------------------------- */

template <typename from, typename to>
__global__ __launch_bounds__(THREADS) void copy_rows(const from *data, int64_t ld, int cols, const int64_t *index,
                                                     int64_t rows, int64_t n, to *out, int64_t down, int64_t along) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e >= n * cols) return;
    int64_t i = e / cols, c = e % cols, row = index == nullptr ? i : index[i];
    out[i * down + c * along] = row >= 0 && row < rows ? (to)data[row * ld + c] : (to)nan("");
}

/* ---- kernel matrices ------------------------------------------------------------------------------------- */

/* Rows first .. first + EDGE of points (n, cols), columns c .. c + CHUNK, zero beyond. */
__device__ void fetch(double (*tile)[CHUNK + 1], const double *points, int64_t n, int cols, int64_t first, int c,
                      int last) {
    for (int e = threadIdx.x; e < EDGE * CHUNK; e += THREADS) {
        int64_t row = first + e / CHUNK;
        int col = c + e % CHUNK;
        tile[e / CHUNK][e % CHUNK] = row < n && col < last ? points[row * cols + col] : 0;
    }
}

/* k(a_i, b_j) for this thread's elements of a tile: columns threadIdx.x % EDGE, rows threadIdx.x / EDGE + STEP u. */
__device__ void kernel_tile(const circe__cuda_kernel &k, const double *a, int64_t n, int64_t i0, const double *b,
                            int64_t m, int64_t j0, int cols, double (&K)[EDGE / STEP]) {
    __shared__ double left[EDGE][CHUNK + 1], right[EDGE][CHUNK + 1];
    int j = threadIdx.x % EDGE, i = threadIdx.x / EDGE;
    double exponent[EDGE / STEP] = {};
    for (int u = 0; u < EDGE / STEP; u++) K[u] = 1;
    for (int f = 0; f < k.n; f++) {
        const circe__cuda_factor &factor = k.items[f];
        double sum[EDGE / STEP] = {};
        int last = factor.first_col + factor.n_cols;
        for (int c = factor.first_col; c < last; c += CHUNK) {
            __syncthreads();
            fetch(left, a, n, cols, i0, c, last);
            fetch(right, b, m, cols, j0, c, last);
            __syncthreads();
            for (int t = 0; t < CHUNK; t++)
                for (int u = 0; u < EDGE / STEP; u++) {
                    double p = left[i + STEP * u][t], q = right[j][t];
                    sum[u] += factor.kind == LINEAR ? p * q : (p - q) * (p - q);
                }
        }
        for (int u = 0; u < EDGE / STEP; u++) {
            if (factor.kind == GAUSSIAN)
                exponent[u] -= 0.5 * sum[u] / factor.sigma2;
            else if (factor.kind == LAPLACE)
                exponent[u] -= sqrt(sum[u] / factor.sigma2);
            else if (factor.kind == LINEAR)
                K[u] *= sum[u];
            else if (!(sum[u] == 0))
                K[u] = sum[u] > 0 ? 0 : sum[u]; /* NaN stays */
        }
    }
    for (int u = 0; u < EDGE / STEP; u++) K[u] *= exp(exponent[u]);
}

__global__ __launch_bounds__(THREADS) void gram(const __grid_constant__ circe__cuda_kernel k, const double *a,
                                                int64_t n, const double *b, int64_t m, int cols, double *out) {
    int64_t i0 = (int64_t)blockIdx.y * EDGE, j0 = (int64_t)blockIdx.x * EDGE;
    double K[EDGE / STEP];
    kernel_tile(k, a, n, i0, b, m, j0, cols, K);
    int64_t j = j0 + threadIdx.x % EDGE;
    for (int u = 0; u < EDGE / STEP; u++) {
        int64_t i = i0 + threadIdx.x / EDGE + STEP * u;
        if (i < n && j < m) out[i * m + j] = K[u];
    }
}

/* ---- centring -------------------------------------------------------------------------------------------- */

__global__ __launch_bounds__(THREADS) void row_means(const double *K, int64_t n, double *means) {
    double sum = 0;
    for (int64_t j = threadIdx.x; j < n; j += THREADS) sum += K[(int64_t)blockIdx.x * n + j];
    sum = block_total(sum);
    if (threadIdx.x == 0) means[blockIdx.x] = sum / (double)n;
}

__global__ __launch_bounds__(1024) void mean_of_means(double *means, int64_t n) {
    double sum = 0;
    for (int64_t j = threadIdx.x; j < n; j += 1024) sum += means[j];
    sum = block_total(sum);
    if (threadIdx.x == 0) means[n] = sum / (double)n;
}

__global__ __launch_bounds__(THREADS) void subtract_means(double *K, int64_t n, const double *means) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e < n * n) K[e] += means[n] - means[e / n] - means[e % n];
}

/* ---- the regression -------------------------------------------------------------------------------------- */

/* 1000 eps trace, as on the CPU (lib/measures/smoother.c). */
__global__ __launch_bounds__(1024) void add_ridge(double *K, int64_t n, double ridge, int *sound) {
    double trace = 0;
    for (int64_t i = threadIdx.x; i < n; i += 1024) {
        trace += K[i * n + i];
        K[i * n + i] += ridge;
    }
    trace = block_total(trace);
    if (threadIdx.x == 0) *sound = ridge >= 1000.0 * DBL_EPSILON * trace;
}

/* One warp per block, one lane per column of its inverse, row by row. */
__global__ __launch_bounds__(EDGE) void invert_blocks(const double *L, int64_t n, double *out) {
    __shared__ double l[EDGE][EDGE + 1], x[EDGE][EDGE + 1];
    int64_t first = (int64_t)blockIdx.x * EDGE;
    int c = threadIdx.x, rows = n - first < EDGE ? (int)(n - first) : EDGE;
    for (int i = 0; i < rows; i++) l[i][c] = c <= i ? L[(first + i) * n + first + c] : 0;
    __syncwarp();
    for (int i = 0; i < rows; i++) {
        double sum = i == c ? 1 : 0;
        for (int k = 0; k < i; k++) sum -= l[i][k] * x[k][c];
        x[i][c] = c <= i ? sum / l[i][i] : 0;
    }
    __syncwarp();
    for (int i = 0; i < rows; i++)
        if (c < rows) out[(first + i) * n + first + c] = x[i][c];
}

__global__ __launch_bounds__(THREADS) void clear_upper(double *K, int64_t n) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e < n * n && e % n > e / n) K[e] = 0;
}

/* A tile below the diagonal and its mirror image, by way of shared memory so that both are written in rows. */
__global__ __launch_bounds__(THREADS) void mirror(double *K, int64_t n, double scale, double on_diagonal,
                                                  const int *info, const int *sound) {
    __shared__ double tile[EDGE][EDGE + 1];
    int64_t i0 = (int64_t)blockIdx.y * EDGE, j0 = (int64_t)blockIdx.x * EDGE;
    if (j0 > i0) return;
    bool failed = *info != 0 || *sound == 0;
    int x = threadIdx.x % EDGE;
    for (int y = threadIdx.x / EDGE; y < EDGE; y += STEP) {
        int64_t i = i0 + y, j = j0 + x;
        if (i >= n || j > i) continue;
        double v = failed ? nan("") : scale * K[i * n + j] + (i == j ? on_diagonal : 0);
        tile[y][x] = v;
        if (i0 == j0) tile[x][y] = v;
    }
    __syncthreads();
    for (int y = threadIdx.x / EDGE; y < EDGE; y += STEP) {
        if (i0 + y < n && j0 + x < n) K[(i0 + y) * n + j0 + x] = tile[y][x];
        if (i0 != j0 && i0 + x < n && j0 + y < n) K[(j0 + y) * n + i0 + x] = tile[x][y];
    }
}

/* ---- HSCIC ----------------------------------------------------------------------------------------------- */

/* A block has EDGE columns for itself: their sums, and then what becomes of them. */
__global__ __launch_bounds__(1024) void hscic_shift(const double *W, double *V, int64_t n) {
    __shared__ double parts[EDGE][EDGE + 1];
    int x = threadIdx.x % EDGE, y = threadIdx.x / EDGE;
    int64_t j = (int64_t)blockIdx.x * EDGE + x;
    double sum = 0;
    for (int64_t i = y; i < n && j < n; i += EDGE) sum += W[i * n + j] * V[i * n + j];
    parts[y][x] = sum;
    __syncthreads();
    sum = 0;
    for (int k = 0; k < EDGE; k++) sum += parts[k][x];
    for (int64_t i = y; i < n && j < n; i += EDGE) V[i * n + j] = W[i * n + j] * (V[i * n + j] - 0.5 * sum);
}

template <typename real>
__global__ __launch_bounds__(THREADS) void hscic_witness(const double *A, const double *Z, const double *T, int64_t n,
                                                         real *out, int64_t ld) {
    __shared__ double turned[EDGE][EDGE + 1];
    int64_t i0 = (int64_t)blockIdx.y * EDGE, j0 = (int64_t)blockIdx.x * EDGE;
    if (j0 > i0) return;
    int x = threadIdx.x % EDGE;
    for (int y = threadIdx.x / EDGE; y < EDGE; y += STEP)
        turned[y][x] = j0 + y < n && i0 + x < n ? T[(j0 + y) * n + i0 + x] : 0;
    __syncthreads();
    for (int y = threadIdx.x / EDGE; y < EDGE; y += STEP) {
        int64_t i = i0 + y, j = j0 + x;
        if (i < n && j <= i)
            out[i * ld + j] = (real)((A[i * n + j] * Z[i * n + j] - T[i * n + j] - turned[x][y]) / (double)n);
    }
}

/* ---- KCI ------------------------------------------------------------------------------------------------- */

template <typename real>
__global__ __launch_bounds__(THREADS) void kci_witness(const __grid_constant__ circe__cuda_kernel k, const double *y,
                                                       int cols, const double *M, int64_t n, real *out, int64_t ld) {
    int64_t i0 = (int64_t)blockIdx.y * EDGE, j0 = (int64_t)blockIdx.x * EDGE;
    if (j0 > i0) return;
    double K[EDGE / STEP];
    kernel_tile(k, y, n, i0, y, n, j0, cols, K);
    int64_t j = j0 + threadIdx.x % EDGE;
    for (int u = 0; u < EDGE / STEP; u++) {
        int64_t i = i0 + threadIdx.x / EDGE + STEP * u;
        if (i < n && j <= i) out[i * ld + j] = (real)(K[u] * M[i * n + j] / (double)n);
    }
}

dim3 square(int64_t n) { return dim3(blocks(n, EDGE), blocks(n, EDGE)); }

}  // namespace

/* ---- launches -------------------------------------------------------------------------------------------- */

extern "C" int circe__cuda_load(const circe__cuda_rows *from, int64_t down, int64_t along, double *out, void *stream) {
    const circe__cuda_points &p = from->points;
    unsigned grid = blocks(from->n * p.cols, THREADS);
    if (from->double_precision)
        copy_rows<<<grid, THREADS, 0, in(stream)>>>(static_cast<const double *>(p.data), p.ld, p.cols, from->index,
                                                    from->rows, from->n, out, down, along);
    else
        copy_rows<<<grid, THREADS, 0, in(stream)>>>(static_cast<const float *>(p.data), p.ld, p.cols, from->index,
                                                    from->rows, from->n, out, down, along);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gather_rows(const circe__cuda_rows *from, void *out, int64_t ld, void *stream) {
    const circe__cuda_points &p = from->points;
    unsigned grid = blocks(from->n * p.cols, THREADS);
    if (from->double_precision)
        copy_rows<<<grid, THREADS, 0, in(stream)>>>(static_cast<const double *>(p.data), p.ld, p.cols, from->index,
                                                    from->rows, from->n, static_cast<double *>(out), ld, (int64_t)1);
    else
        copy_rows<<<grid, THREADS, 0, in(stream)>>>(static_cast<const float *>(p.data), p.ld, p.cols, from->index,
                                                    from->rows, from->n, static_cast<float *>(out), ld, (int64_t)1);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_gram(const circe__cuda_kernel *kernel, const double *a, int64_t n, const double *b,
                                int64_t m, int cols, double *out, void *stream) {
    if (n > 0 && m > 0)
        gram<<<dim3(blocks(m, EDGE), blocks(n, EDGE)), THREADS, 0, in(stream)>>>(*kernel, a, n, b, m, cols, out);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_center(double *K, int64_t n, double *means, void *stream) {
    row_means<<<(unsigned)n, THREADS, 0, in(stream)>>>(K, n, means);
    mean_of_means<<<1, 1024, 0, in(stream)>>>(means, n);
    subtract_means<<<blocks(n * n, THREADS), THREADS, 0, in(stream)>>>(K, n, means);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_add_ridge(double *K, int64_t n, double ridge, int *sound, void *stream) {
    add_ridge<<<1, 1024, 0, in(stream)>>>(K, n, ridge, sound);
    return (int)cudaPeekAtLastError();
}

static_assert((int)EDGE == (int)CIRCE__CUDA_BLOCK, "a warp inverts a block");

extern "C" int circe__cuda_invert_blocks(const double *L, int64_t n, double *out, void *stream) {
    invert_blocks<<<blocks(n, EDGE), EDGE, 0, in(stream)>>>(L, n, out);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_clear_upper(double *K, int64_t n, void *stream) {
    clear_upper<<<blocks(n * n, THREADS), THREADS, 0, in(stream)>>>(K, n);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_mirror(double *K, int64_t n, double scale, int complement, const int *info, const int *sound,
                                  void *stream) {
    mirror<<<square(n), THREADS, 0, in(stream)>>>(K, n, complement ? -scale : scale, complement ? 1.0 : 0.0, info,
                                                  sound);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_hscic_shift(const double *W, double *V, int64_t n, void *stream) {
    hscic_shift<<<blocks(n, EDGE), 1024, 0, in(stream)>>>(W, V, n);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_hscic_witness(const double *A, const double *Z, const double *T, int64_t n,
                                         int double_precision, void *out, int64_t ld, void *stream) {
    if (double_precision)
        hscic_witness<<<square(n), THREADS, 0, in(stream)>>>(A, Z, T, n, static_cast<double *>(out), ld);
    else
        hscic_witness<<<square(n), THREADS, 0, in(stream)>>>(A, Z, T, n, static_cast<float *>(out), ld);
    return (int)cudaPeekAtLastError();
}

extern "C" int circe__cuda_kci_witness(const circe__cuda_kernel *kernel, const double *y, int cols, const double *M,
                                       int64_t n, int double_precision, void *out, int64_t ld, void *stream) {
    if (double_precision)
        kci_witness<<<square(n), THREADS, 0, in(stream)>>>(*kernel, y, cols, M, n, static_cast<double *>(out), ld);
    else
        kci_witness<<<square(n), THREADS, 0, in(stream)>>>(*kernel, y, cols, M, n, static_cast<float *>(out), ld);
    return (int)cudaPeekAtLastError();
}
