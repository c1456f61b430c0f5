/* The hot loops of the CPU, compiled once for every instruction set and precision (see lib/CMakeLists.txt).
 *
 * All three operations walk square tiles of TILE points by TILE points, so that the tile buffers stay in the first
 * cache, symmetric matrices are visited once (J <= I), and no matrix other than the caller's is ever written.
 *
 *     a, b, x, y      points (n, d), row-major          bt, xt, yt   the same transposed, (d, n_pad)
 *     K, W, D         tiles (TILE, TILE)
 *
 * Distances are sums of squared differences, not |a|^2 + |b|^2 - 2ab: two instructions instead of one, and no
 * cancellation, so that float32 keeps its 1e-7 for any offset of the data. Sums over points are taken in REAL inside a
 * tile and in double across tiles. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/loops.h"
#include "core/core.h"

#ifdef CIRCE_REAL_f32
#define REAL float
#define EXP expf
#define SQRT sqrtf
#define SUFFIX f32
#define EXP_LOWEST (-87.0f) /* exp of less is denormal, and libmvec leaves its fast path */
#else
#define REAL double
#define EXP exp
#define SQRT sqrt
#define SUFFIX f64
#define EXP_LOWEST (-708.0)
#endif
#define PASTE_(a, b, c) a##_##b##_##c
#define PASTE(a, b, c) PASTE_(a, b, c)
#define FN(name) PASTE(circe__##name, CIRCE_ISA, SUFFIX)

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(REAL)))

/* The vector forms of exp in libmvec; where the C library has none, the loops call the scalar one. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((simd("notinbranch"))) float expf(float);
__attribute__((simd("notinbranch"))) double exp(double);
#endif

enum {
    TILE = 256 / sizeof(REAL), /* 64 or 32: a tile is 16 or 8 kB */
    AREA = TILE * TILE,
    NARROW = 4, /* up to this many columns the gradient runs over points, beyond over columns */
};

typedef REAL vec __attribute__((vector_size(VECTOR_BYTES)));
typedef REAL vec_any __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const REAL *p) { return *(const vec_any *)p; }
INLINE void store(REAL *p, vec v) { *(vec_any *)p = v; }
INLINE vec splat(REAL a) { return a - (vec){0}; }

INLINE double sum_lanes(vec v) {
    double sum = 0.0;
    for (int64_t l = 0; l < LANES; l++) sum += (double)v[l];
    return sum;
}

INLINE int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Points of one side of a tile. */
typedef struct side {
    const REAL *rows; /* (n, ld) row-major */
    int64_t n, ld;
    const REAL *columns; /* (d, n_pad) transposed */
    int64_t n_pad;
} side;

/* at := a', columns padded with zeros to n_pad. */
static void transpose(const circe_mat *a, REAL *at, int64_t n_pad) {
    const REAL *from = a->data;
    for (int64_t c = 0; c < a->cols; c++) {
        REAL *to = at + c * n_pad;
        for (int64_t i = 0; i < a->rows; i++) to[i] = from[i * a->ld + c];
        memset(to + a->rows, 0, (size_t)(n_pad - a->rows) * sizeof(REAL));
    }
}

/* ---- tiles --------------------------------------------------------------------------------------------------- */

enum { ROWS_AT_ONCE = 4 };

/* D(i, j) := sum over columns c of (a_ic - b_jc)^2, or of a_ic b_jc. Rows past the end repeat the last one. */
INLINE void pair_tile(int dot, const REAL *a, int64_t n, int64_t lda, int64_t i0, const REAL *bt, int64_t n_pad,
                      int64_t j0, int64_t first_col, int64_t n_cols, REAL *D) {
    for (int64_t i = 0; i < TILE; i += ROWS_AT_ONCE) {
        const REAL *row[ROWS_AT_ONCE];
        for (int r = 0; r < ROWS_AT_ONCE; r++) row[r] = a + circe__min(i0 + i + r, n - 1) * lda + first_col;
        for (int64_t j = 0; j < TILE; j += 2 * LANES) {
            vec sum[ROWS_AT_ONCE][2];
            for (int r = 0; r < ROWS_AT_ONCE; r++) sum[r][0] = sum[r][1] = (vec){0};
            const REAL *b = bt + first_col * n_pad + j0 + j;
            for (int64_t c = 0; c < n_cols; c++, b += n_pad) {
                vec b0 = load(b), b1 = load(b + LANES);
                for (int r = 0; r < ROWS_AT_ONCE; r++) {
                    vec t0 = b0, t1 = b1, s = splat(row[r][c]);
                    if (dot) {
                        sum[r][0] += t0 * s;
                        sum[r][1] += t1 * s;
                    } else {
                        t0 -= s;
                        t1 -= s;
                        sum[r][0] += t0 * t0;
                        sum[r][1] += t1 * t1;
                    }
                }
            }
            for (int r = 0; r < ROWS_AT_ONCE; r++) {
                store(D + (i + r) * TILE + j, sum[r][0]);
                store(D + (i + r) * TILE + j + LANES, sum[r][1]);
            }
        }
    }
}

static void distance_tile(const side *a, int64_t i0, const side *b, int64_t j0, const circe_kernel_factor *factor,
                          REAL *D) {
    pair_tile(0, a->rows, a->n, a->ld, i0, b->columns, b->n_pad, j0, factor->first_col, factor->n_cols, D);
}

static void dot_tile(const side *a, int64_t i0, const side *b, int64_t j0, int64_t first_col, int64_t n_cols, REAL *D) {
    pair_tile(1, a->rows, a->n, a->ld, i0, b->columns, b->n_pad, j0, first_col, n_cols, D);
}

static void exp_tile(const REAL *E, REAL *K) {
#pragma omp simd
    for (int64_t t = 0; t < AREA; t++) {
        REAL e = E[t] > EXP_LOWEST ? E[t] : EXP_LOWEST;
        K[t] = EXP(e);
    }
}

/* K := the product of all factors but `skip` (-1: all). The exponents of gaussian and laplace factors are summed and
 * exponentiated once. D is scratch. */
static void kernel_tile(circe__factors kernel, int64_t skip, const side *a, int64_t i0, const side *b, int64_t j0,
                        REAL *K, REAL *D) {
    int exponents = 0;
    for (int64_t f = 0; f < kernel.n; f++) {
        const circe_kernel_factor *factor = &kernel.items[f];
        if (f == skip || (factor->kind != CIRCE_KERNEL_GAUSSIAN && factor->kind != CIRCE_KERNEL_LAPLACE)) continue;
        REAL *E = exponents++ == 0 ? K : D;
        distance_tile(a, i0, b, j0, factor, E);
        if (factor->kind == CIRCE_KERNEL_GAUSSIAN) {
            REAL rate = (REAL)(-0.5 / factor->sigma2);
            for (int64_t t = 0; t < AREA; t++) E[t] *= rate;
        } else {
            REAL rate = (REAL)(-1.0 / sqrt(factor->sigma2));
            for (int64_t t = 0; t < AREA; t++) E[t] = rate * SQRT(E[t]);
        }
        if (E == D)
            for (int64_t t = 0; t < AREA; t++) K[t] += D[t];
    }
    if (exponents > 0)
        exp_tile(K, K);
    else
        for (int64_t t = 0; t < AREA; t++) K[t] = 1;
    for (int64_t f = 0; f < kernel.n; f++) {
        const circe_kernel_factor *factor = &kernel.items[f];
        if (f == skip) continue;
        if (factor->kind == CIRCE_KERNEL_LINEAR) {
            dot_tile(a, i0, b, j0, factor->first_col, factor->n_cols, D);
            for (int64_t t = 0; t < AREA; t++) K[t] *= D[t];
        } else if (factor->kind == CIRCE_KERNEL_DELTA) {
            distance_tile(a, i0, b, j0, factor, D);
            for (int64_t t = 0; t < AREA; t++) K[t] = D[t] == 0 ? K[t] : 0;
        }
    }
}

/* Makes a tile of a symmetric matrix count every pair once: on the diagonal keeps j < i and half of j = i; rows past
 * the end become zero. Sums of rows plus sums of columns, or twice the sum of all, are then those of the whole. */
static void keep_lower(REAL *W, int64_t i0, int64_t j0, int64_t n) {
    if (i0 == j0)
        for (int64_t i = 0; i < TILE; i++) {
            W[i * TILE + i] *= (REAL)0.5;
            for (int64_t j = i + 1; j < TILE; j++) W[i * TILE + j] = 0;
        }
    for (int64_t i = circe__max(0, n - i0); i < TILE; i++) memset(W + i * TILE, 0, TILE * sizeof(REAL));
}

/* Which tile pairs (I, J <= I), counted row by row, belong to a thread. */
typedef struct span {
    int64_t first, last, I, J;
} span;

static span thread_span(int64_t tiles, int thread, int threads) {
    int64_t total = tiles * (tiles + 1) / 2;
    span s = {total * thread / threads, total * (thread + 1) / threads, 0, 0};
    while ((s.I + 1) * (s.I + 2) / 2 <= s.first) s.I++;
    s.J = s.first - s.I * (s.I + 1) / 2;
    return s;
}

static int useful_threads(int64_t tile_pairs, int threads) {
    return (int)circe__max(1, circe__min(threads, tile_pairs));
}

/* ---- Gram blocks --------------------------------------------------------------------------------------------- */

static size_t gram_bytes(int64_t rows_b, int64_t cols, int threads) {
    return ((size_t)(padded(rows_b, TILE) * cols) + (size_t)threads * 2 * AREA) * sizeof(REAL);
}

static void gram(circe__factors kernel, const circe_mat *a, const circe_mat *b, circe_mat *out, int threads,
                 void *scratch) {
    int64_t n_pad = padded(b->rows, TILE), panels = (a->rows + TILE - 1) / TILE;
    REAL *tiles = scratch, *bt = tiles + (int64_t)threads * 2 * AREA;
    transpose(b, bt, n_pad);
    side left = {a->data, a->rows, a->ld, NULL, 0}, right = {b->data, b->rows, b->ld, bt, n_pad};
    int team = useful_threads(panels, threads);
#pragma omp parallel num_threads(team)
    {
        REAL *K = tiles + (int64_t)omp_get_thread_num() * 2 * AREA, *D = K + AREA;
#pragma omp for schedule(static)
        for (int64_t panel = 0; panel < panels; panel++) {
            int64_t i0 = panel * TILE, rows = circe__min(TILE, a->rows - i0);
            for (int64_t j0 = 0; j0 < b->rows; j0 += TILE) {
                kernel_tile(kernel, -1, &left, i0, &right, j0, K, D);
                int64_t cols = circe__min(TILE, b->rows - j0);
                for (int64_t i = 0; i < rows; i++)
                    memcpy((REAL *)out->data + (i0 + i) * out->ld + j0, K + i * TILE, (size_t)cols * sizeof(REAL));
            }
        }
    }
}

/* ---- Q = K_yy o (zeta zeta') ---------------------------------------------------------------------------------- */

/* Row sums of W into one vector a row, column sums into doubles. */
INLINE void add_sums(const REAL *W, vec *row_sums, double *column_sums) {
    vec columns[TILE / LANES];
    for (int64_t j = 0; j < TILE / LANES; j++) columns[j] = (vec){0};
    for (int64_t i = 0; i < TILE; i++)
        for (int64_t j = 0; j < TILE / LANES; j++) {
            vec w = load(W + i * TILE + j * LANES);
            row_sums[i] += w;
            columns[j] += w;
        }
    for (int64_t j = 0; j < TILE; j++) column_sums[j] += (double)columns[j / LANES][j % LANES];
}

static void flush_rows(vec *row_sums, double *sums) {
    for (int64_t i = 0; i < TILE; i++) {
        sums[i] += sum_lanes(row_sums[i]);
        row_sums[i] = (vec){0};
    }
}

static size_t product_bytes(int64_t rows, int64_t cols_y, int64_t cols_zeta, int threads) {
    int64_t n_pad = padded(rows, TILE);
    return (size_t)(n_pad * (cols_y + cols_zeta) + (int64_t)threads * 2 * AREA) * sizeof(REAL) +
           (size_t)(n_pad * threads) * sizeof(double);
}

static void write_lower(const REAL *Q, int64_t i0, int64_t j0, REAL scale, circe_mat *out) {
    int64_t rows = circe__min(TILE, out->rows - i0);
    for (int64_t i = 0; i < rows; i++) {
        REAL *to = (REAL *)out->data + (i0 + i) * out->ld + j0;
        int64_t cols = i0 == j0 ? i + 1 : TILE;
        for (int64_t j = 0; j < cols; j++) to[j] = scale * Q[i * TILE + j];
    }
}

static void product(circe__factors kernel, const circe_mat *y, const circe_mat *zeta, double scale, circe_mat *out,
                    double *row_sums, int threads, void *scratch) {
    int64_t n = y->rows, n_pad = padded(n, TILE), tiles = n_pad / TILE;
    int team = useful_threads(tiles * (tiles + 1) / 2, threads);
    double *sums = scratch; /* (team, n_pad) */
    REAL *buffers = (REAL *)(sums + (int64_t)threads * n_pad), *yt = buffers + (int64_t)threads * 2 * AREA;
    REAL *zt = yt + n_pad * y->cols;
    transpose(y, yt, n_pad);
    transpose(zeta, zt, n_pad);
    memset(sums, 0, (size_t)(team * n_pad) * sizeof(double));
    side sy = {y->data, n, y->ld, yt, n_pad}, sz = {zeta->data, n, zeta->ld, zt, n_pad};
#pragma omp parallel num_threads(team)
    {
        int thread = omp_get_thread_num();
        REAL *Q = buffers + (int64_t)thread * 2 * AREA, *D = Q + AREA;
        double *own = sums + thread * n_pad;
        vec panel[TILE];
        memset(panel, 0, sizeof panel);
        span s = thread_span(tiles, thread, team);
        for (int64_t t = s.first; t < s.last; t++) {
            int64_t i0 = s.I * TILE, j0 = s.J * TILE;
            kernel_tile(kernel, -1, &sy, i0, &sy, j0, Q, D);
            dot_tile(&sz, i0, &sz, j0, 0, zeta->cols, D);
            for (int64_t e = 0; e < AREA; e++) Q[e] *= D[e];
            write_lower(Q, i0, j0, (REAL)scale, out);
            if (row_sums != NULL) {
                keep_lower(Q, i0, j0, n);
                add_sums(Q, panel, own + j0);
            }
            if (++s.J > s.I || t + 1 == s.last) {
                flush_rows(panel, own + i0);
                if (s.J > s.I) s.J = 0, s.I++;
            }
        }
    }
    if (row_sums == NULL) return;
    for (int64_t i = 0; i < n; i++) {
        row_sums[i] = 0.0;
        for (int thread = 0; thread < team; thread++) row_sums[i] += sums[thread * n_pad + i];
    }
}

static void shift_rows(circe_mat *witness, const double *shift, double constant, double scale, int zero_diagonal,
                       int threads) {
    int64_t n = witness->rows;
    /* Row i has i + 1 elements: pairing row i with row n - 1 - i gives every thread the same share. */
#pragma omp parallel for schedule(static) num_threads(threads) if (n > 128)
    for (int64_t half = 0; half < (n + 1) / 2; half++)
        for (int side_of = 0; side_of < (half == n - 1 - half ? 1 : 2); side_of++) {
            int64_t i = side_of == 0 ? half : n - 1 - half;
            REAL *row = (REAL *)witness->data + i * witness->ld;
            double own = shift[i] + constant;
            for (int64_t j = 0; j <= i; j++) row[j] = (REAL)(scale * ((double)row[j] + own + shift[j]));
            if (zero_diagonal) row[i] = 0;
        }
}

/* ---- contraction ---------------------------------------------------------------------------------------------- */

/* Gradient of one factor over a few columns: T = W o (a_i - b_j), its row sums to i, its column sums subtracted from
 * j. Lanes run over j; `panel` (n_cols, TILE) holds the row sums of the panel as vectors until it ends. */
static void spread_narrow(const REAL *W, const side *x, int64_t i0, int64_t j0, const circe_kernel_factor *factor,
                          vec *panel, REAL rate, REAL *grad, int64_t ld_grad) {
    for (int64_t c = 0; c < factor->n_cols; c++) {
        const REAL *xt = x->columns + (factor->first_col + c) * x->n_pad;
        vec b[TILE / LANES], columns[TILE / LANES];
        for (int64_t j = 0; j < TILE / LANES; j++) {
            b[j] = load(xt + j0 + j * LANES);
            columns[j] = (vec){0};
        }
        for (int64_t i = 0; i < TILE; i++) {
            vec a = splat(xt[i0 + i]), row = panel[c * TILE + i];
            for (int64_t j = 0; j < TILE / LANES; j++) {
                vec t = load(W + i * TILE + j * LANES) * (a - b[j]);
                row += t;
                columns[j] += t;
            }
            panel[c * TILE + i] = row;
        }
        for (int64_t j = 0; j < TILE; j++) grad[(j0 + j) * ld_grad + c] -= rate * columns[j / LANES][j % LANES];
    }
}

static void flush_narrow(const circe_kernel_factor *factor, vec *panel, int64_t i0, REAL rate, REAL *grad,
                         int64_t ld_grad) {
    for (int64_t c = 0; c < factor->n_cols; c++)
        for (int64_t i = 0; i < TILE; i++) {
            grad[(i0 + i) * ld_grad + c] += rate * (REAL)sum_lanes(panel[c * TILE + i]);
            panel[c * TILE + i] = (vec){0};
        }
}

/* out(i, :) += rate * sum_j w(i, j) x(j, :) for TILE rows i and TILE points j; w(i, j) = W[i * step_i + j * step_j];
 * `vectors` vectors of columns. Lanes run over columns. */
INLINE void spread_block(int64_t vectors, const REAL *W, int64_t step_i, int64_t step_j, const REAL *x, int64_t ld,
                         REAL rate, REAL *out, int64_t ld_out) {
    for (int64_t i = 0; i < TILE; i += ROWS_AT_ONCE) {
        vec sum[ROWS_AT_ONCE][4];
        for (int r = 0; r < ROWS_AT_ONCE; r++)
            for (int64_t v = 0; v < vectors; v++) sum[r][v] = (vec){0};
        const REAL *w = W + i * step_i;
        for (int64_t j = 0; j < TILE; j++) {
            vec b[4];
            for (int64_t v = 0; v < vectors; v++) b[v] = load(x + j * ld + v * LANES);
            for (int r = 0; r < ROWS_AT_ONCE; r++) {
                vec s = splat(w[r * step_i + j * step_j]);
                for (int64_t v = 0; v < vectors; v++) sum[r][v] += s * b[v];
            }
        }
        for (int r = 0; r < ROWS_AT_ONCE; r++)
            for (int64_t v = 0; v < vectors; v++) {
                REAL *to = out + (i + r) * ld_out + v * LANES;
                store(to, load(to) + splat(rate) * sum[r][v]);
            }
    }
}

static void spread_wide(const REAL *W, int64_t step_i, int64_t step_j, const REAL *x, int64_t ld, int64_t cols,
                        REAL rate, REAL *out, int64_t ld_out) {
    int64_t c = 0;
    for (; c + 4 * LANES <= cols; c += 4 * LANES) spread_block(4, W, step_i, step_j, x + c, ld, rate, out + c, ld_out);
    for (; c + 2 * LANES <= cols; c += 2 * LANES) spread_block(2, W, step_i, step_j, x + c, ld, rate, out + c, ld_out);
    for (; c < cols; c += LANES) spread_block(1, W, step_i, step_j, x + c, ld, rate, out + c, ld_out);
}

/* What a contraction works on, shared by the threads. */
typedef struct contraction {
    circe__factors kernel;
    side x;
    const circe_mat *witness;
    REAL *centred; /* (n_pad, d_pad): x less its mean, the columns of each factor in a block of their own */
    double *mean;  /* (d_pad) */
    int64_t d_pad; /* sum over factors of their columns, each padded to whole vectors */
    int with_grad;
} contraction;

/* A thread's own part. Gradients over many columns are kept as V_i = sum_j w_ij x_j and rho_i = sum_j w_ij, and
 * become x_i rho_i - V_i at the end; x is centred there, so that the difference loses nothing. */
typedef struct share {
    REAL *K, *D, *W;
    REAL *grad;  /* (n_pad, d_pad) */
    double *rho; /* (n_factors, n_pad) */
    vec *panel;  /* (n_factors, NARROW, TILE) */
    double value;
} share;

/* Where the block of factor f begins among the d_pad columns; f = n: d_pad itself. */
static int64_t block_start(circe__factors kernel, int64_t f) {
    int64_t start = 0;
    for (int64_t g = 0; g < f; g++) start += padded(kernel.items[g].n_cols, LANES);
    return start;
}

static int is_narrow(const circe_kernel_factor *factor) {
    return factor->n_cols <= NARROW && factor->kind != CIRCE_KERNEL_LINEAR;
}

/* d value / d x = rate * sum_j w_ij (x_i - x_j), or for the linear kernel rate * sum_j w_ij x_j; see docs/math.md. */
static REAL gradient_rate(const circe_kernel_factor *factor) {
    switch (factor->kind) {
        case CIRCE_KERNEL_GAUSSIAN:
            return (REAL)(-2.0 / factor->sigma2);
        case CIRCE_KERNEL_LAPLACE:
            return (REAL)(-2.0 / sqrt(factor->sigma2));
        default:
            return 2;
    }
}

/* P := G o K on the tile, each pair once. */
static void load_witness(const circe_mat *witness, int64_t i0, int64_t j0, REAL *G) {
    int64_t rows = circe__min(TILE, witness->rows - i0), cols = circe__min(TILE, witness->rows - j0);
    for (int64_t i = 0; i < rows; i++) {
        const REAL *from = (const REAL *)witness->data + (i0 + i) * witness->ld + j0;
        int64_t here = i0 == j0 ? i + 1 : cols;
        memcpy(G + i * TILE, from, (size_t)here * sizeof(REAL));
        memset(G + i * TILE + here, 0, (size_t)(TILE - here) * sizeof(REAL));
    }
    keep_lower(G, i0, j0, witness->rows);
}

/* The weights of a factor's gradient: P = G o K for the gaussian, P / |x_i - x_j| for the laplace (0 where the points
 * coincide), G o (the other factors) for the linear kernel. Returns where they are: K (as P), or D. */
static const REAL *factor_weights(const contraction *job, share *own, int64_t f, int64_t i0, int64_t j0) {
    const circe_kernel_factor *factor = &job->kernel.items[f];
    if (factor->kind == CIRCE_KERNEL_GAUSSIAN) return own->K;
    if (factor->kind == CIRCE_KERNEL_LAPLACE) {
        distance_tile(&job->x, i0, &job->x, j0, factor, own->D);
        for (int64_t t = 0; t < AREA; t++) own->D[t] = own->D[t] > 0 ? own->K[t] / SQRT(own->D[t]) : 0;
        return own->D;
    }
    if (job->kernel.n == 1) return own->W;
    REAL *rest = own->D + AREA;
    kernel_tile(job->kernel, f, &job->x, i0, &job->x, j0, rest, own->D);
    for (int64_t t = 0; t < AREA; t++) own->D[t] = rest[t] * own->W[t];
    return own->D;
}

static void contract_tile(const contraction *job, share *own, int64_t i0, int64_t j0) {
    int64_t n_pad = job->x.n_pad;
    kernel_tile(job->kernel, -1, &job->x, i0, &job->x, j0, own->K, own->D);
    load_witness(job->witness, i0, j0, own->W);
    vec sum = {0};
    for (int64_t t = 0; t < AREA; t += LANES) {
        vec p = load(own->K + t) * load(own->W + t);
        store(own->K + t, p);
        sum += p;
    }
    own->value += 2.0 * sum_lanes(sum);
    if (!job->with_grad) return;
    for (int64_t f = 0; f < job->kernel.n; f++) {
        const circe_kernel_factor *factor = &job->kernel.items[f];
        if (factor->kind == CIRCE_KERNEL_DELTA) continue;
        const REAL *weights = factor_weights(job, own, f, i0, j0);
        vec *panel = own->panel + f * NARROW * TILE;
        REAL rate = gradient_rate(factor);
        int64_t start = block_start(job->kernel, f), ld = job->d_pad;
        REAL *grad = own->grad + start;
        if (is_narrow(factor)) {
            spread_narrow(weights, &job->x, i0, j0, factor, panel, rate, grad, ld);
            continue;
        }
        REAL sign = factor->kind == CIRCE_KERNEL_LINEAR ? rate : -rate;
        const REAL *x = job->centred + start;
        add_sums(weights, panel, own->rho + f * n_pad + j0);
        spread_wide(weights, TILE, 1, x + j0 * ld, ld, factor->n_cols, sign, grad + i0 * ld, ld);
        spread_wide(weights, 1, TILE, x + i0 * ld, ld, factor->n_cols, sign, grad + j0 * ld, ld);
    }
}

static void flush_panels(const contraction *job, share *own, int64_t i0) {
    for (int64_t f = 0; job->with_grad && f < job->kernel.n; f++) {
        const circe_kernel_factor *factor = &job->kernel.items[f];
        vec *panel = own->panel + f * NARROW * TILE;
        if (factor->kind == CIRCE_KERNEL_DELTA) continue;
        if (is_narrow(factor))
            flush_narrow(factor, panel, i0, gradient_rate(factor), own->grad + block_start(job->kernel, f), job->d_pad);
        else
            flush_rows(panel, own->rho + f * job->x.n_pad + i0);
    }
}

static void contract_span(const contraction *job, share *own, span s) {
    for (int64_t t = s.first; t < s.last; t++) {
        contract_tile(job, own, s.I * TILE, s.J * TILE);
        if (++s.J > s.I || t + 1 == s.last) {
            flush_panels(job, own, s.I * TILE);
            if (s.J > s.I) s.J = 0, s.I++;
        }
    }
}

/* Adds the threads' parts in their order, so that a thread count gives the same bits every time. */
static void collect_gradient(const contraction *job, const share *shares, int team, circe_mat *grad) {
    for (int64_t i = 0; i < grad->rows; i++) {
        REAL *to = (REAL *)grad->data + i * grad->ld;
        memset(to, 0, (size_t)grad->cols * sizeof(REAL));
        for (int64_t f = 0; f < job->kernel.n; f++) {
            const circe_kernel_factor *factor = &job->kernel.items[f];
            int64_t start = block_start(job->kernel, f);
            double rho = 0.0, rate = (double)gradient_rate(factor);
            if (factor->kind == CIRCE_KERNEL_DELTA) continue;
            for (int thread = 0; thread < team; thread++) rho += shares[thread].rho[f * job->x.n_pad + i];
            for (int64_t c = 0; c < factor->n_cols; c++) {
                REAL sum = 0;
                for (int thread = 0; thread < team; thread++) sum += shares[thread].grad[i * job->d_pad + start + c];
                double by = factor->kind == CIRCE_KERNEL_LINEAR ? job->mean[start + c]
                                                                : (double)job->centred[i * job->d_pad + start + c];
                to[factor->first_col + c] += sum + (REAL)(rate * rho * by); /* rho is 0 where narrow */
            }
        }
    }
}

static void centre(contraction *job, const circe_mat *x) {
    memset(job->centred, 0, (size_t)(job->x.n_pad * job->d_pad) * sizeof(REAL));
    memset(job->mean, 0, (size_t)job->d_pad * sizeof(double));
    for (int64_t f = 0; f < job->kernel.n; f++) {
        const circe_kernel_factor *factor = &job->kernel.items[f];
        int64_t start = block_start(job->kernel, f);
        const REAL *from = (const REAL *)x->data + factor->first_col;
        double *mean = job->mean + start;
        for (int64_t i = 0; i < x->rows; i++)
            for (int64_t c = 0; c < factor->n_cols; c++) mean[c] += (double)from[i * x->ld + c];
        for (int64_t c = 0; c < factor->n_cols; c++) mean[c] /= (double)x->rows;
        for (int64_t i = 0; i < x->rows; i++)
            for (int64_t c = 0; c < factor->n_cols; c++)
                job->centred[i * job->d_pad + start + c] = (REAL)((double)from[i * x->ld + c] - mean[c]);
    }
}

static size_t contract_bytes(circe__factors kernel, int64_t rows, int64_t cols, int with_grad, int threads) {
    int64_t n_pad = padded(rows, TILE), d_pad = block_start(kernel, kernel.n);
    size_t pieces = 4 + 4 * (size_t)threads; /* each rounded up to 64 bytes */
    size_t own = sizeof(share) + 4 * AREA * sizeof(REAL);
    size_t all = (size_t)(n_pad * cols) * sizeof(REAL);
    if (with_grad) {
        own += (size_t)(n_pad * d_pad) * sizeof(REAL) +
               (size_t)kernel.n * ((size_t)n_pad * sizeof(double) + NARROW * TILE * sizeof(vec));
        all += (size_t)(n_pad * d_pad) * sizeof(REAL) + (size_t)d_pad * sizeof(double);
    }
    return all + (size_t)threads * own + 64 * pieces;
}

/* Cuts aligned pieces from a block. */
static void *cut(char **at, size_t bytes) {
    char *piece = *at;
    *at += (bytes + 63) & ~(size_t)63;
    return piece;
}

static void contract(circe__factors kernel, const circe_mat *x, const circe_mat *witness, double *value,
                     circe_mat *grad, int threads, void *scratch) {
    int64_t n_pad = padded(x->rows, TILE), d_pad = block_start(kernel, kernel.n), tiles = n_pad / TILE;
    int team = useful_threads(tiles * (tiles + 1) / 2, threads);
    char *at = scratch;
    share *shares = cut(&at, (size_t)team * sizeof(share));
    REAL *xt = cut(&at, (size_t)(n_pad * x->cols) * sizeof(REAL));
    contraction job = {.kernel = kernel,
                       .x = {x->data, x->rows, x->ld, xt, n_pad},
                       .witness = witness,
                       .d_pad = d_pad,
                       .with_grad = grad != NULL};
    transpose(x, xt, n_pad);
    if (grad != NULL) {
        job.mean = cut(&at, (size_t)d_pad * sizeof(double));
        job.centred = cut(&at, (size_t)(n_pad * d_pad) * sizeof(REAL));
        centre(&job, x);
    }
    for (int thread = 0; thread < team; thread++) {
        share *own = &shares[thread];
        *own = (share){.K = cut(&at, 4 * AREA * sizeof(REAL))};
        own->W = own->K + AREA;
        own->D = own->W + AREA;
        if (grad == NULL) continue;
        own->grad = cut(&at, (size_t)(n_pad * d_pad) * sizeof(REAL));
        own->rho = cut(&at, (size_t)(kernel.n * n_pad) * sizeof(double));
        own->panel = cut(&at, (size_t)kernel.n * NARROW * TILE * sizeof(vec));
    }
#pragma omp parallel num_threads(team)
    {
        int thread = omp_get_thread_num();
        share *own = &shares[thread];
        if (grad != NULL) {
            memset(own->grad, 0, (size_t)(n_pad * d_pad) * sizeof(REAL));
            memset(own->rho, 0, (size_t)(kernel.n * n_pad) * sizeof(double));
            memset(own->panel, 0, (size_t)kernel.n * NARROW * TILE * sizeof(vec));
        }
        contract_span(&job, own, thread_span(tiles, thread, team));
    }
    *value = 0.0;
    for (int thread = 0; thread < team; thread++) *value += shares[thread].value;
    if (grad != NULL) collect_gradient(&job, shares, team, grad);
}

const circe__loops FN(loops) = {
    .gram_bytes = gram_bytes,
    .gram = gram,
    .product_bytes = product_bytes,
    .product = product,
    .shift = shift_rows,
    .contract_bytes = contract_bytes,
    .contract = contract,
};
