/* Residual features on a CUDA device: kernels against the pivots, and products with small matrices.
 *
 *     K_z (n, r_z) = k(z, pivots),  f_z = K_z L_z^-T,  m = (K_y L_y^-T) C or K_y W,  zeta = f_z - m
 *
 * Float64 throughout (docs/math.md, section 2: float32 could not carry L^-1). The matrices are a hundred wide, so the
 * products are a block's tile each, without a library. Rows go through scratch in blocks. */
#include "backend/cuda/device.h"

#include <cuda_runtime.h>

namespace {

enum { THREADS = 256, EDGE = 32, DEPTH = 16, BLOCK_ROWS = 16384, GAUSSIAN = 1, LAPLACE = 2, LINEAR = 3 };

/* out(i, j) = k(a_i, b_j); a thread an element. */
template <typename real>
__global__ __launch_bounds__(THREADS) void gram(const __grid_constant__ circe__cuda_kernel k, const real *a,
                                                int64_t ld_a, int64_t n, const double *b, int64_t ld_b, int64_t r,
                                                double *out) {
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e >= n * r) return;
    const real *p = a + e / r * ld_a;
    const double *q = b + e % r * ld_b;
    double exponent = 0, value = 1;
    for (int f = 0; f < k.n; f++) {
        const circe__cuda_factor &factor = k.items[f];
        double sum = 0;
        for (int c = factor.first_col; c < factor.first_col + factor.n_cols; c++) {
            double u = (double)p[c], v = q[c];
            sum += factor.kind == LINEAR ? u * v : (u - v) * (u - v);
        }
        if (factor.kind == GAUSSIAN)
            exponent -= 0.5 * sum / factor.sigma2;
        else if (factor.kind == LAPLACE)
            exponent -= sqrt(sum / factor.sigma2);
        else if (factor.kind == LINEAR)
            value *= sum;
        else if (sum != 0)
            value = 0;
    }
    out[e] = value * exp(exponent);
}

/* out (n, m) := A (n, k) B (k, m), or base - A B where there is a base; all row-major and contiguous but for out. */
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

/* The largest share left out. Of doubles that are not negative the bits are in the order of the numbers. */
template <typename real>
__global__ __launch_bounds__(THREADS) void left_out(const __grid_constant__ circe__cuda_kernel k, const real *z,
                                                    int64_t ld, int64_t n, const double *f, int64_t r, double *left) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    double diagonal = 1, square = 0;
    for (int g = 0; g < k.n; g++) {
        if (k.items[g].kind != LINEAR) continue;
        double sum = 0;
        for (int c = 0; c < k.items[g].n_cols; c++) {
            double v = (double)z[i * ld + k.items[g].first_col + c];
            sum += v * v;
        }
        diagonal *= sum;
    }
    for (int64_t c = 0; c < r; c++) square += f[i * r + c] * f[i * r + c];
    double share = diagonal > 0 ? fmax(diagonal - square, 0.0) / diagonal : 0;
    if (share > 0)
        atomicMax(reinterpret_cast<unsigned long long *>(left), (unsigned long long)__double_as_longlong(share));
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

template <typename real>
cudaError_t run(const circe__cuda_zeta &job, double *scratch, cudaStream_t stream) {
    int64_t ry = job.rank_y, rz = job.rank_z, most = job.n < BLOCK_ROWS ? job.n : BLOCK_ROWS;
    double *K = scratch, *f_z = K + most * (ry > rz ? ry : rz), *f_y = f_z + most * rz;
    const real *y = static_cast<const real *>(job.y.data), *z = static_cast<const real *>(job.z.data);
    real *zeta = static_cast<real *>(job.zeta);
    if (job.left != nullptr) {
        cudaError_t error = cudaMemsetAsync(job.left, 0, sizeof(double), stream);
        if (error != cudaSuccess) return error;
    }
    for (int64_t first = 0; first < job.n; first += most) {
        int64_t n = job.n - first < most ? job.n - first : most;
        const real *own_z = z + first * job.z.ld, *own_y = y + first * job.y.ld;
        kernels(job.kernel_z, own_z, job.z.ld, n, job.pivots_z, rz, K, stream);
        multiply(n, rz, rz, K, job.inverse_z, nullptr, f_z, rz, stream);
        if (job.left != nullptr)
            left_out<real>
                <<<blocks(n, THREADS), THREADS, 0, stream>>>(job.kernel_z, own_z, job.z.ld, n, f_z, rz, job.left);
        kernels(job.kernel_y, own_y, job.y.ld, n, job.pivots_y, ry, K, stream);
        if (job.inverse_y != nullptr) multiply(n, ry, ry, K, job.inverse_y, nullptr, f_y, ry, stream);
        multiply(n, rz, ry, job.inverse_y != nullptr ? f_y : K, job.weights, f_z, zeta + first * job.ld_zeta,
                 job.ld_zeta, stream);
        cudaError_t error = cudaPeekAtLastError();
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

}  // namespace

extern "C" size_t circe__cuda_zeta_bytes(const circe__cuda_zeta *job) {
    int64_t most = job->n < BLOCK_ROWS ? job->n : BLOCK_ROWS,
            wide = job->rank_y > job->rank_z ? job->rank_y : job->rank_z;
    return (size_t)(most * (wide + job->rank_z + job->rank_y)) * sizeof(double);
}

extern "C" int circe__cuda_zeta_launch(const circe__cuda_zeta *job, void *scratch, void *stream) {
    double *at = static_cast<double *>(scratch);
    cudaStream_t in = static_cast<cudaStream_t>(stream);
    return (int)(job->double_precision ? run<double>(*job, at, in) : run<float>(*job, at, in));
}
