/* Tiles of the witness: Q = k(y_i, y_j) zeta_i.zeta_j, and G, what Q stands for once its row sums are known. Part of
 * measure.cu. */
#pragma once

#include "backend/cuda/job.cuh"

namespace circe {

/* ---- Q --------------------------------------------------------------------------------------------------- */

/* The first round of y and zeta into shared memory. Returns the columns of zeta among them. */
template <typename S, typename real, typename M>
__device__ __forceinline__ int fetch_features(const args<real> &a, M &m) {
    int y = min(a.y.cols, (int)CHUNK_Q), zeta = min(a.zeta.cols, (CHUNK_Q - (y + 7) / 8 * 8));
    real *qb = m.q + CHUNK_Q * S::LD;
    fetch<S>(m.q, a.y, m.rows_i, 0, y);
    fetch<S>(qb, a.y, m.rows_j, 0, y);
    int at = (y + 7) / 8 * 8 * S::LD;
    fetch<S>(m.q + at, a.zeta, m.rows_i, 0, zeta);
    fetch<S>(qb + at, a.zeta, m.rows_j, 0, zeta);
    return zeta;
}

template <typename S, typename real>
__device__ __forceinline__ void fill(real (&W)[S::MI][S::MJ], real value) {
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) W[i][j] = value;
}

/* Adds zeta_i.zeta_j of the columns from `first` on. */
template <typename S, typename real, typename M>
__device__ __forceinline__ void more_dots(const args<real> &a, M &m, int first, dots<S, real> &sum) {
    real *qb = m.q + CHUNK_Q * S::LD;
    for (int c = first; c < a.zeta.cols; c += CHUNK_Q) {
        int cols = min((int)CHUNK_Q, a.zeta.cols - c);
        __syncthreads();
        fetch<S>(m.q, a.zeta, m.rows_i, c, cols);
        fetch<S>(qb, a.zeta, m.rows_j, c, cols);
        arrived();
        sum.add(m.q, qb, cols);
    }
}

/* Q from the first round, which has arrived, and what follows it; a gaussian of all columns. */
template <typename S, typename real, typename M>
__device__ __forceinline__ void product_plain(const args<real> &a, M &m, int zeta, real (&Q)[S::MI][S::MJ]) {
    real *qb = m.q + CHUNK_Q * S::LD, D[S::MI][S::MJ];
    int y = min(a.y.cols, (int)CHUNK_Q), at = (y + 7) / 8 * 8 * S::LD;
    dots<S, real> sum;
    fill<S>(D, (real)0);
    pair_sums<S, true>(m.q, qb, y, D);
    sum.add(m.q + at, qb + at, zeta);
    for (int c = y; c < a.y.cols; c += CHUNK_Q) {
        int cols = min((int)CHUNK_Q, a.y.cols - c);
        __syncthreads();
        fetch<S>(m.q, a.y, m.rows_i, c, cols);
        fetch<S>(qb, a.y, m.rows_j, c, cols);
        arrived();
        pair_sums<S, true>(m.q, qb, cols, D);
    }
    more_dots<S>(a, m, zeta, sum);
    if (a.zeta.cols > 0)
        sum.hand_over(m.q, Q);
    else
        fill<S>(Q, (real)1);
    real rate = gaussian_rate<real>(a.kernel.items[0].sigma2);
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) Q[i][j] *= gaussian(rate, D[i][j]);
}

template <typename S, typename real, typename M>
__device__ void product_any(const args<real> &a, M &m, real (&Q)[S::MI][S::MJ]) {
    real *qb = m.q + CHUNK_Q * S::LD, K[S::MI][S::MJ];
    dots<S, real> sum;
    more_dots<S>(a, m, 0, sum);
    if (a.zeta.cols > 0)
        sum.hand_over(m.q, Q);
    else
        fill<S>(Q, (real)1);
    kernel_tile<S, CHUNK_Q>(a.kernel, -1, a.y, m.rows_i, m.rows_j, m.q, qb, K);
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) Q[i][j] *= K[i][j];
}

/* Zero where there are no points, and on the diagonal if requested. */
template <typename S, typename real>
__device__ __forceinline__ void mask(const args<real> &a, int64_t i0, int64_t j0, bool diagonal,
                                     real (&W)[S::MI][S::MJ]) {
    if (i0 != j0 && i0 + S::TILE <= a.n && j0 + S::TILE <= a.n) return;
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) {
            int64_t row = i0 + place_i<S>(i), col = j0 + place_j<S>(j);
            if (row >= a.n || col >= a.n || (diagonal && row == col)) W[i][j] = 0;
        }
}

/* ---- G --------------------------------------------------------------------------------------------------- */

/* Half of the constant goes with each side's shift. */
template <typename real, typename M>
__device__ __forceinline__ void load_constant(const args<real> &a, M &m) {
    if (a.over_rows == 0) return;
    double sum = 0;
    for (int b = threadIdx.x; b < a.n_totals; b += blockDim.x) sum += a.totals[b];
    sum = block_sum(sum);
    if (threadIdx.x == 0) m.total = 0.5 * sum / a.over_total;
    __syncthreads();
}

/* G from Q in place: shifted, scaled, masked. Whole block. */
template <typename S, typename real, typename M>
__device__ __forceinline__ void settle_tile(const args<real> &a, M &m, int64_t i0, int64_t j0,
                                            real (&G)[S::MI][S::MJ]) {
    if (a.over_rows != 0) {
        for (int r = threadIdx.x; r < S::TILE; r += S::THREADS) {
            m.shift_i[r] = i0 + r < a.n ? (real)(a.row_shift[i0 + r] + m.total) : 0;
            m.shift_j[r] = j0 + r < a.n ? (real)(a.row_shift[j0 + r] + m.total) : 0;
        }
        __syncthreads();
    }
    bool shifted = a.over_rows != 0;
    real scale = (real)a.scale;
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) {
            real shift = shifted ? m.shift_i[place_i<S>(i)] + m.shift_j[place_j<S>(j)] : 0;
            G[i][j] = scale * (G[i][j] + shift);
        }
    mask<S>(a, i0, j0, a.zero_diagonal, G);
}

/* A given witness: the lower triangle stands for both. */
template <typename S, typename real>
__device__ __forceinline__ void read_witness(const args<real> &a, int64_t i0, int64_t j0, real (&G)[S::MI][S::MJ]) {
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) {
            int64_t row = i0 + place_i<S>(i), col = j0 + place_j<S>(j);
            int64_t below = row > col ? row : col, left = row > col ? col : row;
            G[i][j] = below < a.n ? a.witness[below * a.ld_witness + left] : 0;
        }
}

}  // namespace circe
