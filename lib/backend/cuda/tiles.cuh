/* Tiles of pairs of points on a CUDA device, the building blocks of measure.cu.
 *
 * A block of threads, 16 in a row (tx) and THREADS / 16 rows (ty), works on a tile of TILE by TILE pairs (i of the rows
 * I, j of the rows J); each thread owns MI by MJ of them in registers. Points lie in shared memory transposed,
 * columns[c][row], each row of LD elements, so that a thread reads its rows as vectors of 16 bytes; LD is chosen so
 * that neither those reads nor the transposing writes meet in a bank. */
#pragma once

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include "backend/cuda/launching.h"

namespace circe {

enum { SIDE = 16, GAUSSIAN = 1, LAPLACE = 2, LINEAR = 3, DELTA = 4 };

/* ---- vectors of a thread's neighbouring rows ------------------------------------------------------------- */

template <typename real, int N>
struct alignas(sizeof(real) * N) vector {
    real v[N];
};

template <typename real, int TILE_, int THREADS_ = 256>
struct shape {
    static constexpr int TILE = TILE_, THREADS = THREADS_, WARPS = THREADS / 32;
    static constexpr int SIDE_I = THREADS / SIDE, MI = TILE / SIDE_I, MJ = TILE / SIDE;
    static constexpr int WIDEST = 16 / (int)sizeof(real);
    static constexpr int LD = TILE + WIDEST;
};

/* Where element e of thread t of a side of `side` threads lies in the tile: in vectors of up to 16 bytes. */
template <int M, int WIDEST>
struct own {
    static constexpr int VEC = M < WIDEST ? M : WIDEST;
    __device__ __forceinline__ static int place(int side, int t, int e) {
        return e / VEC * (side * VEC) + t * VEC + e % VEC;
    }
    template <typename real>
    __device__ __forceinline__ static void load(const real *row, int side, int t, real (&out)[M]) {
#pragma unroll
        for (int g = 0; g < M / VEC; g++) {
            using vec = vector<real, VEC>;
            vec v = *reinterpret_cast<const vec *>(row + (g * side + t) * VEC);
#pragma unroll
            for (int e = 0; e < VEC; e++) out[g * VEC + e] = v.v[e];
        }
    }
};

__device__ __forceinline__ int thread_x() { return threadIdx.x % SIDE; }
__device__ __forceinline__ int thread_y() { return threadIdx.x / SIDE; }

template <typename S>
__device__ __forceinline__ int place_i(int e) {
    return own<S::MI, S::WIDEST>::place(S::SIDE_I, thread_y(), e);
}
template <typename S>
__device__ __forceinline__ int place_j(int e) {
    return own<S::MJ, S::WIDEST>::place(SIDE, thread_x(), e);
}
template <typename S, typename real>
__device__ __forceinline__ void load_i(const real *row, real (&out)[S::MI]) {
    own<S::MI, S::WIDEST>::load(row, S::SIDE_I, thread_y(), out);
}
template <typename S, typename real>
__device__ __forceinline__ void load_j(const real *row, real (&out)[S::MJ]) {
    own<S::MJ, S::WIDEST>::load(row, SIDE, thread_x(), out);
}

/* ---- points into shared memory --------------------------------------------------------------------------- */

/* Points as the kernels see them. */
template <typename real>
struct points {
    const real *data;
    int64_t ld;
    int cols;
};

/* The rows of a tile in order: a row past the end reads as 0. */
struct in_order {
    int64_t first, n;
    __device__ __forceinline__ int64_t operator[](int r) const { return first + r < n ? first + r : -1; }
};

/* The rows of two tiles in the data set: -1 past the end (reads as 0), -2 for an index that does not exist (NaN). */
template <int TILE>
__device__ __forceinline__ void set_rows(int64_t *rows_i, int64_t *rows_j, int64_t i0, int64_t j0, int64_t n,
                                         const int64_t *index, int64_t all) {
    int r = threadIdx.x % TILE;
    if (threadIdx.x >= 2 * TILE) return;
    in_order order = {threadIdx.x < TILE ? i0 : j0, n};
    int64_t row = order[r];
    if (row >= 0 && index != nullptr) {
        row = index[row];
        if (row < 0 || row >= all) row = -2;
    }
    (threadIdx.x < TILE ? rows_i : rows_j)[r] = row;
}

/* columns[c][r] := p(rows[r], first_col + c), c < cols, by asynchronous copies: the caller commits and waits. Eight
 * columns by four rows a warp: whole sectors of global memory, and every bank once. Columns up to a multiple of 8
 * become 0. */
template <typename S, typename real, typename Rows>
__device__ __forceinline__ void fetch(real *columns, const points<real> &p, const Rows &rows, int first_col, int cols) {
    int lane = threadIdx.x % 8;
    for (int r = threadIdx.x / 8; r < S::TILE; r += S::THREADS / 8) {
        int64_t row = rows[r];
        real *to = columns + lane * S::LD + r;
        if (lane >= cols % 8 && cols % 8 != 0) to[cols / 8 * 8 * S::LD] = 0;
        if (row >= 0) {
            const real *from = p.data + row * p.ld + first_col + lane;
#pragma unroll 4
            for (int c = lane; c < cols; c += 8, from += 8, to += 8 * S::LD)
                __pipeline_memcpy_async(to, from, sizeof(real));
        } else {
            for (int c = lane; c < cols; c += 8, to += 8 * S::LD) *to = row == -1 ? (real)0 : (real)NAN;
        }
    }
}

__device__ __forceinline__ void arrived() {
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
}

/* ---- sums over the columns of two tiles of points -------------------------------------------------------- */

/* D += sum_c a_ic b_jc, or sum_c (a_ic - b_jc)^2. */
template <typename S, bool SQUARES, typename real>
__device__ __forceinline__ void pair_sums(const real *a, const real *b, int cols, real (&D)[S::MI][S::MJ]) {
#pragma unroll 4
    for (int c = 0; c < cols; c++) {
        real u[S::MI], w[S::MJ];
        load_i<S>(a + c * S::LD, u);
        load_j<S>(b + c * S::LD, w);
#pragma unroll
        for (int i = 0; i < S::MI; i++)
#pragma unroll
            for (int j = 0; j < S::MJ; j++) {
                real t = SQUARES ? u[i] - w[j] : u[i];
                D[i][j] += t * (SQUARES ? t : w[j]);
            }
    }
}

/* ---- the same by tensor cores, for float32 --------------------------------------------------------------- */

/* Without their loss: v = big + small with 11 bits each, and big big + big small + small big is the product to 2^-21.
 */
__device__ __forceinline__ void split(float v, uint32_t &big, uint32_t &small) {
    big = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
    small = __float_as_uint(v - __uint_as_float(big));
}

__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* How the warps share (DOWN_ALL, ACROSS_ALL) results in pieces of 16 by 8: a warp has ROWS by COLUMNS of them. A lane
 * of a piece holds rows lane / 4 and that + 8, columns 2 (lane % 4) and the next. */
template <int DOWN_ALL, int ACROSS_ALL, int WARPS>
struct pieces {
    static constexpr int ACROSS = ACROSS_ALL / 8 < 4 ? ACROSS_ALL / 8 : 4;
    static constexpr int DOWN = DOWN_ALL / 16 < WARPS / ACROSS ? DOWN_ALL / 16 : WARPS / ACROSS;
    static constexpr int ROWS = DOWN_ALL / 16 / DOWN, COLUMNS = ACROSS_ALL / 8 / ACROSS;
    float v[ROWS][COLUMNS][4];
    __device__ __forceinline__ static bool idle() { return threadIdx.x / 32 >= ACROSS * DOWN; }
    __device__ __forceinline__ static int first_row() { return threadIdx.x / 32 / ACROSS * ROWS * 16; }
    __device__ __forceinline__ static int first_column() { return threadIdx.x / 32 % ACROSS * COLUMNS * 8; }
};

/* v(r, c) += sum_k a(r, k) b(k, c), k < sum, a multiple of 8; a(r, k) = a[r down_a + k along_a], b(k, c) = b[c down_b +
 * k along_b]. */
template <typename W>
__device__ __forceinline__ void multiply_tiles(const float *a, int down_a, int along_a, const float *b, int down_b,
                                               int along_b, int sum, W &w) {
    int row = threadIdx.x % 32 / 4, k = threadIdx.x % 4;
    if (W::idle()) return;
    a += (W::first_row() + row) * down_a + k * along_a;
    b += (W::first_column() + row) * down_b + k * along_b;
#pragma unroll 2
    for (int j = 0; j < sum; j += 8, a += 8 * along_a, b += 8 * along_b) {
        uint32_t big_a[W::ROWS][4], small_a[W::ROWS][4], big_b[W::COLUMNS][2], small_b[W::COLUMNS][2];
#pragma unroll
        for (int m = 0; m < W::ROWS; m++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                split(a[(m * 16 + e % 2 * 8) * down_a + e / 2 * 4 * along_a], big_a[m][e], small_a[m][e]);
#pragma unroll
        for (int n = 0; n < W::COLUMNS; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) split(b[n * 8 * down_b + e * 4 * along_b], big_b[n][e], small_b[n][e]);
#pragma unroll
        for (int m = 0; m < W::ROWS; m++)
#pragma unroll
            for (int n = 0; n < W::COLUMNS; n++) {
                multiply(w.v[m][n], small_a[m], big_b[n]);
                multiply(w.v[m][n], big_a[m], small_b[n]);
                multiply(w.v[m][n], big_a[m], big_b[n]);
            }
    }
}

/* Dot products of two tiles of points: summed where they are fast, handed over where the threads want them. */
template <typename S, typename real>
struct dots {
    real v[S::MI][S::MJ] = {};
    __device__ __forceinline__ void add(const real *a, const real *b, int cols) { pair_sums<S, false>(a, b, cols, v); }
    __device__ __forceinline__ void hand_over(real *, real (&out)[S::MI][S::MJ]) {
#pragma unroll
        for (int i = 0; i < S::MI; i++)
#pragma unroll
            for (int j = 0; j < S::MJ; j++) out[i][j] = v[i][j];
    }
};

template <typename S>
struct dots<S, float> {
    using W = pieces<S::TILE, S::TILE, S::WARPS>;
    W w = {};
    __device__ __forceinline__ void add(const float *a, const float *b, int cols) {
        multiply_tiles(a, 1, S::LD, b, 1, S::LD, (cols + 7) / 8 * 8, w);
    }
    /* By way of `buffer` (TILE rows of LD), which nobody reads any more once all have arrived here. */
    __device__ __forceinline__ void hand_over(float *buffer, float (&out)[S::MI][S::MJ]) {
        int row = threadIdx.x % 32 / 4, k = threadIdx.x % 4;
        float *to = buffer + (W::first_row() + row) * S::LD + W::first_column() + 2 * k;
        __syncthreads();
#pragma unroll
        for (int m = 0; m < W::ROWS && !W::idle(); m++)
#pragma unroll
            for (int n = 0; n < W::COLUMNS; n++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    vector<float, 2> pair = {w.v[m][n][2 * h], w.v[m][n][2 * h + 1]};
                    *reinterpret_cast<vector<float, 2> *>(to + (m * 16 + h * 8) * S::LD + n * 8) = pair;
                }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < S::MI; i++) load_j<S>(buffer + place_i<S>(i) * S::LD, out[i]);
    }
};

/* exp(-d / (2 sigma2)): `rate` comes from gaussian_rate. */
__device__ __forceinline__ float gaussian(float rate, float d) { return exp2f(rate * d); }
__device__ __forceinline__ double gaussian(double rate, double d) { return exp(rate * d); }
template <typename real>
__host__ __device__ __forceinline__ real gaussian_rate(double sigma2) {
    return (real)(sizeof(real) == 4 ? -0.5 * 1.4426950408889634 / sigma2 : -0.5 / sigma2);
}

/* ---- any kernel ------------------------------------------------------------------------------------------ */

/* D := the sums of one factor over its columns, read through the two buffers in chunks. */
template <typename S, int CHUNK, typename real, typename Rows>
__device__ void factor_sums(const circe__cuda_factor &f, const points<real> &p, const Rows &rows_i, const Rows &rows_j,
                            real *a, real *b, real (&D)[S::MI][S::MJ]) {
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) D[i][j] = 0;
    for (int c = 0; c < f.n_cols; c += CHUNK) {
        int cols = min(CHUNK, f.n_cols - c);
        __syncthreads();
        fetch<S>(a, p, rows_i, f.first_col + c, cols);
        fetch<S>(b, p, rows_j, f.first_col + c, cols);
        arrived();
        if (f.kind == LINEAR)
            pair_sums<S, false>(a, b, cols, D);
        else
            pair_sums<S, true>(a, b, cols, D);
    }
}

/* K := the product of the factors but `skip`. */
template <typename S, int CHUNK, typename real, typename Rows>
__device__ void kernel_tile(const circe__cuda_kernel &k, int skip, const points<real> &p, const Rows &rows_i,
                            const Rows &rows_j, real *a, real *b, real (&K)[S::MI][S::MJ]) {
    real E[S::MI][S::MJ] = {}, D[S::MI][S::MJ];
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) K[i][j] = 1;
    for (int f = 0; f < k.n; f++) {
        if (f == skip) continue;
        const circe__cuda_factor &factor = k.items[f];
        real width = factor.sigma2 > 0 ? (real)(-1.0 / sqrt(factor.sigma2)) : 0, half = (real)-0.5 * width * width;
        factor_sums<S, CHUNK>(factor, p, rows_i, rows_j, a, b, D);
#pragma unroll
        for (int i = 0; i < S::MI; i++)
#pragma unroll
            for (int j = 0; j < S::MJ; j++) {
                if (factor.kind == GAUSSIAN) E[i][j] += half * D[i][j];
                if (factor.kind == LAPLACE) E[i][j] += width * sqrt(D[i][j]);
                if (factor.kind == LINEAR) K[i][j] *= D[i][j];
                if (factor.kind == DELTA && D[i][j] != 0) K[i][j] = 0;
            }
    }
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) K[i][j] *= exp(E[i][j]);
}

/* ---- sums over a tile ------------------------------------------------------------------------------------ */

/* rows[i] := sum_j W_ij, columns[j] := sum_i W_ij of the tile; `parts` holds WARPS TILE elements. Ends in step. */
template <typename S, typename real>
__device__ __forceinline__ void tile_sums(const real (&W)[S::MI][S::MJ], real *rows, real *columns, real *parts) {
    int warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < S::MI; i++) {
        real sum = 0;
#pragma unroll
        for (int j = 0; j < S::MJ; j++) sum += W[i][j];
#pragma unroll
        for (int step = SIDE / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (thread_x() == 0) rows[place_i<S>(i)] = sum;
    }
#pragma unroll
    for (int j = 0; j < S::MJ; j++) {
        real sum = 0;
#pragma unroll
        for (int i = 0; i < S::MI; i++) sum += W[i][j];
        sum += __shfl_xor_sync(0xffffffffu, sum, SIDE);
        if (thread_y() % 2 == 0) parts[warp * S::TILE + place_j<S>(j)] = sum;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < S::TILE; j += S::THREADS) {
        real sum = 0;
#pragma unroll
        for (int w = 0; w < S::WARPS; w++) sum += parts[w * S::TILE + j];
        columns[j] = sum;
    }
    __syncthreads();
}

}  // namespace circe
