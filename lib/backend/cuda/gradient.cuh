/* What a tile of weights W gives to the gradients of its rows and columns. Part of measure.cu.
 *
 *     V_i = sum_j W_ij x_j,  rho_i = sum_j W_ij,   rate (rho_i x_i - V_i) for the rows of I; for those of J with W'
 *
 * into the slots. x is taken less its mean over the rows of I, so that the difference loses nothing. */
#pragma once

#include "backend/cuda/job.cuh"

namespace circe {

/* Columns less their mean over the rows of I, both tiles. A warp takes whole columns, so it needs no one else. */
template <typename S, typename real>
__device__ __forceinline__ void centre(real *a, real *b, int cols, int rows) {
    int lane = threadIdx.x % 32;
    for (int c = threadIdx.x / 32; c < cols; c += S::WARPS) {
        real sum = 0;
#pragma unroll
        for (int r = lane; r < S::TILE; r += 32) sum += a[c * S::LD + r]; /* rows past the end are 0 */
#pragma unroll
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        real mean = sum / (real)rows;
#pragma unroll
        for (int r = lane; r < S::TILE; r += 32) {
            a[c * S::LD + r] -= mean;
            b[c * S::LD + r] -= mean;
        }
    }
}

/* V[e][u] = sum_j P(row e, j) x_j(column u): rows ty + 16 e, columns tx + 16 u. */
template <typename S, int WIDE, typename real>
__device__ __forceinline__ void spread_rows(const real *P, const real *x, real (&V)[S::MI][WIDE]) {
    using vec = vector<real, S::WIDEST>;
#pragma unroll 2
    for (int j = 0; j < S::TILE; j += S::WIDEST) {
        vec p[S::MI], v[WIDE];
#pragma unroll
        for (int e = 0; e < S::MI; e++)
            p[e] = *reinterpret_cast<const vec *>(P + (thread_y() + S::SIDE_I * e) * S::LD + j);
#pragma unroll
        for (int u = 0; u < WIDE; u++) v[u] = *reinterpret_cast<const vec *>(x + (thread_x() + SIDE * u) * S::LD + j);
#pragma unroll
        for (int k = 0; k < S::WIDEST; k++)
#pragma unroll
            for (int e = 0; e < S::MI; e++)
#pragma unroll
                for (int u = 0; u < WIDE; u++) V[e][u] += p[e].v[k] * v[u].v[k];
    }
}

/* V[e][u] = sum_i P(i, column e) x_i(column u): columns place_i(e), tx + 16 u. */
template <typename S, int WIDE, typename real>
__device__ __forceinline__ void spread_columns(const real *P, const real *x, real (&V)[S::MI][WIDE]) {
    using vec = vector<real, S::WIDEST>;
#pragma unroll 2
    for (int i = 0; i < S::TILE; i += S::WIDEST) {
        vec v[WIDE];
#pragma unroll
        for (int u = 0; u < WIDE; u++) v[u] = *reinterpret_cast<const vec *>(x + (thread_x() + SIDE * u) * S::LD + i);
#pragma unroll
        for (int k = 0; k < S::WIDEST; k++) {
            real p[S::MI];
            load_i<S>(P + (i + k) * S::LD, p);
#pragma unroll
            for (int e = 0; e < S::MI; e++)
#pragma unroll
                for (int u = 0; u < WIDE; u++) V[e][u] += p[e] * v[u].v[k];
        }
    }
}

/* What becomes of a tile's sums in the slots. */
struct target {
    int64_t i0, j0;
    int slot_i, slot_j;    /* of the rows of I and of J */
    bool first_i, first_j; /* nothing was written there before */
    int first_col, cols;   /* of x */
    double rate;
    bool linear; /* rate sum_j W_ij x_j, without the x_i */
};

template <typename S, int WIDE, bool BY_COLUMNS, typename real>
__device__ __forceinline__ void store_gradient(const args<real> &a, const target &t, const real *x, const real *rho,
                                               const real (&V)[S::MI][WIDE]) {
    int64_t first = BY_COLUMNS ? t.j0 : t.i0;
    real rate = (real)t.rate;
    bool fresh = BY_COLUMNS ? t.first_j : t.first_i;
    real *slot = a.slots + ((BY_COLUMNS ? t.slot_j : t.slot_i) * a.n + first) * a.x.cols + t.first_col;
#pragma unroll
    for (int e = 0; e < S::MI; e++) {
        int r = BY_COLUMNS ? place_i<S>(e) : thread_y() + S::SIDE_I * e;
        if (first + r >= a.n) continue;
#pragma unroll
        for (int u = 0; u < WIDE; u++) {
            int c = thread_x() + SIDE * u;
            if (c >= t.cols) continue;
            real g = t.linear ? V[e][u] : rho[r] * x[c * S::LD + r] - V[e][u];
            real *to = slot + (int64_t)r * a.x.cols + c;
            *to = fresh ? rate * g : *to + rate * g;
        }
    }
}

/* Float64, and nothing else: sums by the threads. */
template <typename S, int CHUNK, typename real>
__device__ __forceinline__ void spread_side(const args<real> &a, const target &t, bool by_columns, const real *P,
                                            const real *x, const real *own, const real *rho) {
    constexpr int WIDE = CHUNK / SIDE;
    real V[S::MI][WIDE] = {};
    if (by_columns) {
        spread_columns<S, WIDE>(P, x, V);
        store_gradient<S, WIDE, true>(a, t, own, rho, V);
    } else {
        spread_rows<S, WIDE>(P, x, V);
        store_gradient<S, WIDE, false>(a, t, own, rho, V);
    }
}

/* Float32 by tensor cores: V of the rows of I (P x) or of J (P' x), and on to the slots. */
template <typename S, int CHUNK>
__device__ __forceinline__ void spread_side(const args<float> &a, const target &t, bool by_columns, const float *P,
                                            const float *x, const float *own, const float *rho) {
    using W = pieces<S::TILE, CHUNK, S::WARPS>;
    W w = {};
    int row = threadIdx.x % 32 / 4, k = threadIdx.x % 4, r0 = W::first_row(), c0 = W::first_column();
    multiply_tiles(P, by_columns ? 1 : S::LD, by_columns ? S::LD : 1, x, S::LD, 1, S::TILE, w);
    if (W::idle()) return;
    int64_t first = by_columns ? t.j0 : t.i0;
    float *slot = a.slots + ((by_columns ? t.slot_j : t.slot_i) * a.n + first) * a.x.cols + t.first_col;
    bool fresh = by_columns ? t.first_j : t.first_i;
    float rate = (float)t.rate;
    int rows = (int)min((int64_t)S::TILE, a.n - first);
#pragma unroll
    for (int m = 0; m < W::ROWS; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int r = r0 + m * 16 + h * 8 + row;
            if (r >= rows) continue;
            float *to = slot + (int64_t)r * a.x.cols, by = t.linear ? 0 : rho[r], sign = t.linear ? 1 : -1,
                  g[W::COLUMNS][2];
#pragma unroll
            for (int n = 0; n < W::COLUMNS; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    int c = c0 + n * 8 + 2 * k + e;
                    g[n][e] = rate * (by * own[c * S::LD + r] + sign * w.v[m][n][2 * h + e]);
                    if (!fresh && c < t.cols) g[n][e] += to[c];
                }
#pragma unroll
            for (int n = 0; n < W::COLUMNS; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (c0 + n * 8 + 2 * k + e < t.cols) to[c0 + n * 8 + 2 * k + e] = g[n][e];
        }
}

/* The rows of I and, off the diagonal, of J; x of the columns in question lies in m.xa and m.xb. */
template <typename S, int CHUNK, typename real, typename M>
__device__ __forceinline__ void spread(const args<real> &a, M &m, const target &t) {
    spread_side<S, CHUNK>(a, t, false, m.q, m.xb, m.xa, m.rho_i);
    if (t.i0 != t.j0) spread_side<S, CHUNK>(a, t, true, m.q, m.xa, m.xb, m.rho_j);
}

/* Where the tile (I, J) of a pair of strips puts its sums; columns and rate are the caller's. */
template <typename real>
__device__ __forceinline__ target target_of(const args<real> &a, int2 strip, int I, int J, int tile) {
    target t = {};
    t.i0 = (int64_t)I * tile;
    t.j0 = (int64_t)J * tile;
    t.slot_i = strip.y;
    t.slot_j = strip.x;
    t.first_i = J == strip.y * a.per_strip;
    t.first_j = strip.x != strip.y && I == strip.x * a.per_strip;
    return t;
}

/* All the columns from `first` on, chunk by chunk; read again where `again`, else they lie there. */
template <typename S, int CHUNK, typename real, typename M>
__device__ __forceinline__ void spread_columns_of(const args<real> &a, M &m, target t, int first, int cols,
                                                  bool again) {
    in_order own_i = {t.i0, a.n}, own_j = {t.j0, a.n};
    for (int c = 0; c < cols; c += CHUNK) {
        t.first_col = first + c;
        t.cols = min(CHUNK, cols - c);
        if (again) {
            __syncthreads();
            fetch<S>(m.xa, a.x, own_i, t.first_col, t.cols);
            fetch<S>(m.xb, a.x, own_j, t.first_col, t.cols);
            arrived();
        }
        if (!t.linear) centre<S>(m.xa, m.xb, t.cols, (int)min((int64_t)S::TILE, a.n - t.i0));
        __syncthreads();
        spread<S, CHUNK>(a, m, t);
    }
}

/* P into shared memory, and its sums. */
template <typename S, typename real, typename M>
__device__ __forceinline__ void put_weights(M &m, const real (&W)[S::MI][S::MJ]) {
    using side = own<S::MJ, S::WIDEST>;
    using vec = vector<real, side::VEC>;
    tile_sums<S>(W, m.rho_i, m.rho_j, m.parts); /* its barriers also mean that the features are no longer needed */
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int g = 0; g < S::MJ / side::VEC; g++) {
            vec v;
#pragma unroll
            for (int e = 0; e < side::VEC; e++) v.v[e] = W[i][g * side::VEC + e];
            *reinterpret_cast<vec *>(m.q + place_i<S>(i) * S::LD + place_j<S>(g * side::VEC)) = v;
        }
    __syncthreads();
}

/* The value's share of a tile, by the threads together; pairs off the diagonal count twice. */
template <typename S, typename real, typename M>
__device__ __forceinline__ double tile_value(const M &m, bool diagonal) {
    if (threadIdx.x >= S::TILE) return 0;
    return (diagonal ? 1.0 : 2.0) * (double)m.rho_i[threadIdx.x];
}

/* The diagonal of P gives to the value and not to the gradient, where x_i rho_i - x_i P_ii would only leave rounding:
 * taken out, and returned. */
template <typename S, typename real>
__device__ __forceinline__ double take_diagonal(real (&P)[S::MI][S::MJ]) {
    double sum = 0;
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) {
            if (place_i<S>(i) != place_j<S>(j)) continue;
            sum += (double)P[i][j];
            P[i][j] = 0;
        }
    return sum;
}

}  // namespace circe
