/* Residual features on a CUDA device: kernels against the pivots, and products with small matrices.
 *
 *     K_z (n, r_z) = k(z, pivots),  f_z = K_z L_z^-T,  m = (K_y L_y^-T) C or K_y W,  zeta = f_z - m
 *
 * Everything is float64, because float32 could not represent L^-1 accurately enough (docs/math.md, section 2). The
 * matrices are about a hundred columns wide, so each thread block computes one tile of a product and no library is
 * needed. Rows pass through scratch in blocks. Only f_z is kept whole: outside.cu needs it for the points outside the
 * holdout's span. */
#include <cuda_runtime.h>

#include "backend/cuda/values.cuh"

namespace {

using circe::kernel_value;

enum { THREADS = 256, EDGE = 32, DEPTH = 16, BLOCK_ROWS = 16384 };

/* out(i, j) = k(a_i, b_j), one thread per element. */
template <typename real>
__global__ __launch_bounds__(THREADS) void gram(const __grid_constant__ circe__cuda_kernel k, const real *a,
                                                int64_t ld_a, int64_t n, const double *b, int64_t ld_b, int64_t r,
                                                double *out) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e < n * r) out[e] = kernel_value(k, a + e / r * ld_a, b + e % r * ld_b);
}

/* out (n, m) := A (n, k) B (k, m), or base - A B where there is a base; all row-major and contiguous except for out. */
template <typename real>
__global__ __launch_bounds__(THREADS) void product(int64_t n, int64_t m, int64_t k, const double *A, const double *B,
                                                   const double *base, real *out, int64_t ld) {
    __shared__ double a[DEPTH][EDGE + 1], b[DEPTH][EDGE + 1];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    int64_t i0 = (int64_t)blockIdx.y * EDGE, j0 = (int64_t)blockIdx.x * EDGE;
    double sum[2][2] = {};
    for (int64_t c0 = 0; c0 < k; c0 += DEPTH) {
        for (int e = threadIdx.x; e < DEPTH * EDGE; e += THREADS) {
            int64_t row = i0 + e / DEPTH, col = c0 + e % DEPTH;
            a[e % DEPTH][e / DEPTH] = row < n && col < k ? A[row * k + col] : 0;
            int64_t along = c0 + e / EDGE, across = j0 + e % EDGE;
            b[e / EDGE][e % EDGE] = along < k && across < m ? B[along * m + across] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < DEPTH; c++)
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 2; j++) sum[i][j] += a[c][ty + 16 * i] * b[c][tx + 16 * j];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int64_t row = i0 + ty + 16 * i, col = j0 + tx + 16 * j;
            if (row >= n || col >= m) continue;
            out[row * ld + col] = (real)(base == nullptr ? sum[i][j] : base[row * m + col] - sum[i][j]);
        }
}

unsigned blocks(int64_t n, int64_t of) { return (unsigned)((n + of - 1) / of); }

template <typename real>
void multiply(int64_t n, int64_t m, int64_t k, const double *A, const double *B, const double *base, real *out,
              int64_t ld, cudaStream_t stream) {
    if (n > 0 && m > 0)
        product<real><<<dim3(blocks(m, EDGE), blocks(n, EDGE)), THREADS, 0, stream>>>(n, m, k, A, B, base, out, ld);
}

template <typename real>
void kernels(const circe__cuda_kernel &k, const real *a, int64_t ld, int64_t n, const circe__cuda_points &b, int64_t r,
             double *out, cudaStream_t stream) {
    if (r > 0)
        gram<real><<<blocks(n * r, THREADS), THREADS, 0, stream>>>(k, a, ld, n, static_cast<const double *>(b.data),
                                                                   b.ld, r, out);
}

int64_t block_rows(const circe__cuda_zeta &job) { return job.n < BLOCK_ROWS ? job.n : BLOCK_ROWS; }

/* Where things lie in scratch, in doubles: K (most, .), f_y (most, rank_y), f_z (n, rank_z), outside. */
struct layout {
    int64_t f_y, f_z, outside, end;
};

layout layout_of(const circe__cuda_zeta &job) {
    int64_t most = block_rows(job), ry = job.rank_y, rz = job.rank_z;
    layout l = {};
    l.f_y = most * (ry > rz ? ry : rz);
    l.f_z = l.f_y + most * ry;
    l.outside = l.f_z + job.n * rz;
    l.end = l.outside + circe__cuda_outside_doubles(job.n);
    return l;
}

cudaError_t add_outside(const circe__cuda_zeta &job, const double *f_z, double *scratch, cudaStream_t stream) {
    if (job.extra == 0 && job.left == nullptr) return cudaSuccess;
    size_t size = job.double_precision ? sizeof(double) : sizeof(float);
    circe__cuda_outside o = {};
    o.double_precision = job.double_precision;
    o.kernel = job.kernel_z;
    o.n = job.n;
    o.z = job.z;
    o.features = f_z;
    o.rank = job.rank_z;
    o.accuracy = job.accuracy;
    o.enough = job.enough;
    o.most = job.extra;
    o.out = static_cast<char *>(job.zeta) + (size_t)job.rank_z * size;
    o.ld = job.ld_zeta;
    o.left = job.left;
    return (cudaError_t)circe__cuda_outside_launch(&o, scratch, stream);
}

template <typename real>
cudaError_t run(const circe__cuda_zeta &job, double *scratch, cudaStream_t stream) {
    int64_t ry = job.rank_y, rz = job.rank_z, most = block_rows(job);
    layout l = layout_of(job);
    double *K = scratch, *f_y = K + l.f_y, *all_z = K + l.f_z;
    const real *y = static_cast<const real *>(job.y.data), *z = static_cast<const real *>(job.z.data);
    real *zeta = static_cast<real *>(job.zeta);
    for (int64_t first = 0; first < job.n; first += most) {
        int64_t n = job.n - first < most ? job.n - first : most;
        double *f_z = all_z + first * rz;
        kernels(job.kernel_z, z + first * job.z.ld, job.z.ld, n, job.pivots_z, rz, K, stream);
        multiply(n, rz, rz, K, job.inverse_z, nullptr, f_z, rz, stream);
        kernels(job.kernel_y, y + first * job.y.ld, job.y.ld, n, job.pivots_y, ry, K, stream);
        if (job.inverse_y != nullptr) multiply(n, ry, ry, K, job.inverse_y, nullptr, f_y, ry, stream);
        multiply(n, rz, ry, job.inverse_y != nullptr ? f_y : K, job.weights, f_z, zeta + first * job.ld_zeta,
                 job.ld_zeta, stream);
        cudaError_t error = cudaPeekAtLastError();
        if (error != cudaSuccess) return error;
    }
    return add_outside(job, all_z, K + l.outside, stream);
}

}  // namespace

extern "C" size_t circe__cuda_zeta_bytes(const circe__cuda_zeta *job) {
    return (size_t)layout_of(*job).end * sizeof(double);
}

extern "C" int circe__cuda_zeta_launch(const circe__cuda_zeta *job, void *scratch, void *stream) {
    double *at = static_cast<double *>(scratch);
    cudaStream_t in = static_cast<cudaStream_t>(stream);
    return (int)(job->double_precision ? run<double>(*job, at, in) : run<float>(*job, at, in));
}
