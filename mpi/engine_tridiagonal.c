/* A symmetric matrix (n, n) over a grid of P by Q processes to tridiagonal form, by Householder's reflections.
 *
 * For each column j, with x the column below its diagonal, v, tau and beta such that (I - tau v v') x = beta e_1:
 *
 *     p = A v,   w = tau (p - tau/2 (p'v) v),   A := A - v w' - w v'
 *
 * The products with A are half of the 4/3 n^3 operations and pass through it once each: at the pace of memory.
 * ScaLAPACK's pdsytrd makes them of its lower triangle by two products, with the triangle and with its transpose, each
 * of which reads it. Here both are taken as the numbers go by, in one reading, as LAPACK's dsymv does in one process.
 * This is the whole reason for this file: it takes the place of pdsytrd and leaves what that would leave. The updates
 * of A wait until a panel of columns is done, and are one matrix product then:
 *
 *     X = [v_0 w_0 v_1 w_1 ...],  Y = [w_0 v_0 w_1 v_1 ...],  A := A - X Y'
 *
 * in which a process needs X of its rows and Y of its columns, and has nothing else of either.
 *
 * Vectors live as `rows` (the numbers of this process's rows, the same in every process of a row of the grid) or as
 * `cols`. A column costs six messages: in its own column of the grid the norm, along rows v and p, along columns v, the
 * transposed half of p, and w. With one row of processes there are but two. */
#include "mpi/engine_tridiagonal.h"

#include <cblas.h>
#include <math.h>
#include <mpi.h>
#include <string.h>

enum { PANEL = 32, STRIP = 256, NOTES = 3 };

typedef struct line {
    int64_t block;
    int mine, all; /* this process's number along the line, and how many there are */
} line;

typedef struct reduction {
    double *a, *tau;
    int64_t n, local_rows, local_cols, ld;
    line down, across; /* how rows and columns are dealt out */
    MPI_Comm row, col; /* the processes of this one's row and column of the grid */
    double *X, *Y;     /* (local_rows, 2 PANEL), (local_cols, 2 PANEL), column by column */
    double *v_rows;    /* (local_rows) and notes: diagonal, beta, tau */
    double *v_cols;    /* (local_cols) */
    double *p_rows;    /* (threads, local_rows) */
    double *p_cols;    /* (local_cols) and X'v (2 PANEL) */
    double smallest;   /* the square of a length that counts as none */
    const ranks_workers *workers;
} reduction;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* How many of the numbers below `end` are here; also where the first from `end` on is. */
static int64_t before(line l, int64_t end) {
    int64_t whole = end / l.block, extra = whole % l.all, count = whole / l.all * l.block;
    if (l.mine < extra) return count + l.block;
    return l.mine == extra ? count + end % l.block : count;
}

static int64_t global(line l, int64_t i) { return (i / l.block * l.all + l.mine) * l.block + i % l.block; }

static bool owns(line l, int64_t i) { return i / l.block % l.all == l.mine; }

static void sum_over(MPI_Comm processes, double *values, int64_t n) {
    int size = 0;
    MPI_Comm_size(processes, &size);
    if (size > 1 && n > 0) MPI_Allreduce(MPI_IN_PLACE, values, (int)n, MPI_DOUBLE, MPI_SUM, processes);
}

/* ---- p = A v ----------------------------------------------------------------------------------------------------- */

/* p_rows += A v_cols and p_cols += A'v_rows of four columns of A, which is read once. */
static inline __attribute__((always_inline)) void four_columns(const double *A, int64_t ld, int64_t rows,
                                                               const double *v_cols, const double *restrict v_rows,
                                                               double *restrict p_rows, double *p_cols) {
    const double *a0 = A, *a1 = A + ld, *a2 = A + 2 * ld, *a3 = A + 3 * ld;
    double v0 = v_cols[0], v1 = v_cols[1], v2 = v_cols[2], v3 = v_cols[3], s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t i = 0; i < rows; i++) {
        p_rows[i] += a0[i] * v0 + a1[i] * v1 + a2[i] * v2 + a3[i] * v3;
        s0 += a0[i] * v_rows[i];
        s1 += a1[i] * v_rows[i];
        s2 += a2[i] * v_rows[i];
        s3 += a3[i] * v_rows[i];
    }
    p_cols[0] += s0;
    p_cols[1] += s1;
    p_cols[2] += s2;
    p_cols[3] += s3;
}

static inline __attribute__((always_inline)) void both_products(const double *A, int64_t ld, int64_t rows, int64_t cols,
                                                                const double *v_cols, const double *restrict v_rows,
                                                                double *restrict p_rows, double *p_cols) {
    int64_t j = 0;
    for (; j + 4 <= cols; j += 4) four_columns(A + j * ld, ld, rows, v_cols + j, v_rows, p_rows, p_cols + j);
    for (; j < cols; j++) {
        const double *a = A + j * ld;
        double v = v_cols[j], s = 0.0;
#pragma omp simd reduction(+ : s)
        for (int64_t i = 0; i < rows; i++) {
            p_rows[i] += a[i] * v;
            s += a[i] * v_rows[i];
        }
        p_cols[j] += s;
    }
}

typedef void products_fn(const double *, int64_t, int64_t, int64_t, const double *, const double *, double *, double *);

static void products_anywhere(const double *A, int64_t ld, int64_t rows, int64_t cols, const double *v_cols,
                              const double *v_rows, double *p_rows, double *p_cols) {
    both_products(A, ld, rows, cols, v_cols, v_rows, p_rows, p_cols);
}

#if defined __x86_64__ && defined __GNUC__
__attribute__((target("avx2,fma"))) static void products_avx2(const double *A, int64_t ld, int64_t rows, int64_t cols,
                                                              const double *v_cols, const double *v_rows,
                                                              double *p_rows, double *p_cols) {
    both_products(A, ld, rows, cols, v_cols, v_rows, p_rows, p_cols);
}

static products_fn *products_here(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? products_avx2 : products_anywhere;
}
#else
static products_fn *products_here(void) { return products_anywhere; }
#endif

/* What columns [c, end) of one block, from the diagonal down, add to p: where the diagonal is here, each four columns'
 * little triangle, then what is below it. */
static void block_column(const reduction *r, products_fn *products, int64_t c, int64_t end, double *p_rows) {
    int64_t first = global(r->across, c), row = before(r->down, first);
    bool diagonal = owns(r->down, first);
    int64_t step = diagonal ? 4 : end - c;
    for (; c < end; c += step) {
        const double *A = r->a + c * r->ld;
        int64_t cols = least(step, end - c);
        if (diagonal) {
            for (int64_t k = 0; k < cols; k++) {
                p_rows[row + k] += A[k * r->ld + row + k] * r->v_rows[row + k];
                products(A + k * r->ld + row + k + 1, r->ld, cols - k - 1, 1, r->v_cols + c + k,
                         r->v_rows + row + k + 1, p_rows + row + k + 1, r->p_cols + c + k);
            }
            row += cols;
        }
        products(A + row, r->ld, r->local_rows - row, cols, r->v_cols + c, r->v_rows + row, p_rows + row,
                 r->p_cols + c);
    }
}

/* The block columns from `first` on go to `parts` parts in turn. */
typedef struct multiplication {
    const reduction *r;
    products_fn *products;
    int64_t row, col, parts;
} multiplication;

static void multiply_part(void *argument, int64_t part) {
    const multiplication *m = argument;
    const reduction *r = m->r;
    int64_t block = r->across.block;
    double *p_rows = r->p_rows + part * r->local_rows;
    memset(p_rows + m->row, 0, (size_t)(r->local_rows - m->row) * sizeof(double));
    for (int64_t b = m->col / block + part; b * block < r->local_cols; b += m->parts) {
        int64_t c = b * block > m->col ? b * block : m->col;
        block_column(r, m->products, c, least((b + 1) * block, r->local_cols), p_rows);
    }
}

/* This process's part of p, from the numbers `from` on: p_rows and p_cols, whose sum it is. */
static void multiply_here(const reduction *r, int64_t from) {
    enum { LEAST_NUMBERS = 100000 }; /* of the matrix, that are worth waking threads */
    multiplication m = {r, products_here(), before(r->down, from), before(r->across, from), 1};
    int64_t rows = r->local_rows - m.row, cols = r->local_cols - m.col;
    if (rows * cols > LEAST_NUMBERS) m.parts = r->workers->threads;
    memset(r->p_cols + m.col, 0, (size_t)cols * sizeof(double));
    r->workers->run(r->workers->user, m.parts, multiply_part, &m);
    for (int64_t t = 1; t < m.parts; t++)
        for (int64_t i = m.row; i < r->local_rows; i++) r->p_rows[i] += r->p_rows[t * r->local_rows + i];
}

/* ---- rows and columns -------------------------------------------------------------------------------------------- */

/* The numbers from `from` on of a vector that this process holds among its rows, among its columns: `cols` := them, 0
 * where another process of its column has them. */
static void rows_to_cols(const reduction *r, int64_t from, const double *rows, double *cols) {
    for (int64_t c = before(r->across, from), end; c < r->local_cols; c = end) {
        int64_t first = global(r->across, c);
        end = least((c / r->across.block + 1) * r->across.block, r->local_cols);
        if (owns(r->down, first))
            memcpy(cols + c, rows + before(r->down, first), (size_t)(end - c) * sizeof *cols);
        else
            memset(cols + c, 0, (size_t)(end - c) * sizeof *cols);
    }
}

/* The same way back: `rows` += them. */
static void cols_to_rows(const reduction *r, int64_t from, const double *cols, double *rows) {
    for (int64_t c = before(r->across, from), end; c < r->local_cols; c = end) {
        int64_t first = global(r->across, c);
        end = least((c / r->across.block + 1) * r->across.block, r->local_cols);
        if (!owns(r->down, first)) continue;
        double *to = rows + before(r->down, first) - c;
        for (int64_t k = c; k < end; k++) to[k] += cols[k];
    }
}

/* ---- a column ---------------------------------------------------------------------------------------------------- */

/* In the processes that have column j: it is brought up to date with the `done` columns of the panel before it, and
 * v_rows and the notes are made of it. */
static void reflect(const reduction *r, int64_t j, int64_t done) {
    int64_t c = before(r->across, j), row = before(r->down, j), next = before(r->down, j + 1);
    int64_t rest = before(r->down, j + 2);
    double *a = r->a + c * r->ld, *notes = r->v_rows + r->local_rows;
    if (done > 0 && row < r->local_rows)
        cblas_dgemv(CblasColMajor, CblasNoTrans, (int)(r->local_rows - row), (int)(2 * done), -1.0, r->X + row,
                    (int)r->ld, r->Y + c, (int)r->local_cols, 1.0, a + row, 1);
    double sums[] = {owns(r->down, j) ? a[row] : 0.0, 0.0, 0.0}; /* diagonal, first of x, squares of the others */
    if (j + 1 < r->n && owns(r->down, j + 1)) sums[1] = a[next];
    if (rest < r->local_rows) sums[2] = cblas_ddot((int)(r->local_rows - rest), a + rest, 1, a + rest, 1);
    sum_over(r->col, sums, 3);
    double alpha = sums[1], beta = alpha, tau = 0.0, scale = 0.0;
    if (sums[2] > r->smallest) {
        beta = -copysign(sqrt(alpha * alpha + sums[2]), alpha);
        tau = (beta - alpha) / beta;
        scale = 1.0 / (alpha - beta);
    }
    for (int64_t i = rest; i < r->local_rows; i++) r->v_rows[i] = a[i] *= scale;
    if (next < rest) {
        r->v_rows[next] = 1.0;
        a[next] = beta;
    }
    notes[0] = sums[0];
    notes[1] = beta;
    notes[2] = tau;
    r->tau[c] = tau;
}

/* v and w of column j, as columns 2 done and 2 done + 1 of X and Y. */
static void make_pair(const reduction *r, int64_t j, int64_t done, double tau) {
    int64_t row = before(r->down, j + 1), col = before(r->across, j + 1);
    int64_t rows = r->local_rows - row, cols = r->local_cols - col;
    double *t = r->p_cols + r->local_cols, *X_v = r->X + 2 * done * r->ld, *X_w = X_v + r->ld;
    double *Y_w = r->Y + 2 * done * r->local_cols, *Y_v = Y_w + r->local_cols;
    rows_to_cols(r, j + 1, r->v_rows, r->v_cols);
    sum_over(r->col, r->v_cols + col, cols);
    multiply_here(r, j + 1);
    memset(t, 0, 2 * PANEL * sizeof *t);
    if (done > 0 && rows > 0)
        cblas_dgemv(CblasColMajor, CblasTrans, (int)rows, (int)(2 * done), 1.0, r->X + row, (int)r->ld, r->v_rows + row,
                    1, 0.0, t, 1);
    sum_over(r->col, r->p_cols + col, cols + 2 * done);
    cols_to_rows(r, j + 1, r->p_cols, r->p_rows);
    sum_over(r->row, r->p_rows + row, rows);
    for (int64_t k = 0; k < done; k++) { /* X'v to Y'v */
        double v = t[2 * k];
        t[2 * k] = t[2 * k + 1];
        t[2 * k + 1] = v;
    }
    if (done > 0 && rows > 0)
        cblas_dgemv(CblasColMajor, CblasNoTrans, (int)rows, (int)(2 * done), -1.0, r->X + row, (int)r->ld, t, 1, 1.0,
                    r->p_rows + row, 1);
    rows_to_cols(r, j + 1, r->p_rows, r->p_cols);
    t[0] = rows > 0 ? cblas_ddot((int)rows, r->p_rows + row, 1, r->v_rows + row, 1) : 0.0;
    sum_over(r->col, r->p_cols + col, cols + 1);
    double share = 0.5 * tau * t[0];
    for (int64_t i = row; i < r->local_rows; i++) {
        X_v[i] = r->v_rows[i];
        X_w[i] = tau * (r->p_rows[i] - share * r->v_rows[i]);
    }
    for (int64_t i = col; i < r->local_cols; i++) {
        Y_v[i] = r->v_cols[i];
        Y_w[i] = tau * (r->p_cols[i] - share * r->v_cols[i]);
    }
}

/* A := A - X Y' from column `from` on, in strips of columns, each from its diagonal down. */
static void update(const reduction *r, int64_t from, int64_t done) {
    for (int64_t c = before(r->across, from); c < r->local_cols; c += STRIP) {
        int64_t row = before(r->down, global(r->across, c)), cols = least(STRIP, r->local_cols - c);
        if (row >= r->local_rows) return;
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, (int)(r->local_rows - row), (int)cols, (int)(2 * done),
                    -1.0, r->X + row, (int)r->ld, r->Y + c, (int)r->local_cols, 1.0, r->a + c * r->ld + row,
                    (int)r->ld);
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int64_t rows_held(const ranks_matrix *a) { return a->local_rows > 0 ? a->local_rows : 1; }
static int64_t cols_held(const ranks_matrix *a) { return a->local_cols > 0 ? a->local_cols : 1; }

int64_t tridiagonal_work(const ranks_workers *workers, const ranks_matrix *a) {
    return rows_held(a) * (2 * PANEL + 1 + workers->threads) + NOTES + cols_held(a) * (2 * PANEL + 2) + 2 * PANEL;
}

/* The largest absolute value of the lower triangle. */
static double largest(const reduction *r) {
    double most = 0.0;
    for (int64_t c = 0; c < r->local_cols; c++)
        for (int64_t i = before(r->down, global(r->across, c)); i < r->local_rows; i++)
            most = fmax(most, fabs(r->a[c * r->ld + i]));
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static void begin(const ranks_grid *grid, const ranks_workers *workers, ranks_matrix *a, double *tau, double *work,
                  reduction *r) {
    int64_t rows = rows_held(a), cols = cols_held(a);
    *r = (reduction){.a = a->data,
                     .tau = tau,
                     .n = a->rows,
                     .local_rows = a->local_rows,
                     .local_cols = a->local_cols,
                     .ld = rows,
                     .down = {a->block, grid->row, grid->rows},
                     .across = {a->block, grid->col, grid->cols},
                     .X = work,
                     .workers = workers};
    r->Y = r->X + rows * 2 * PANEL;
    r->v_rows = r->Y + cols * 2 * PANEL;
    r->v_cols = r->v_rows + rows + NOTES;
    r->p_cols = r->v_cols + cols;
    r->p_rows = r->p_cols + cols + 2 * PANEL;
    MPI_Comm_split(MPI_COMM_WORLD, grid->row, grid->col, &r->row);
    MPI_Comm_split(MPI_COMM_WORLD, grid->col, grid->row, &r->col);
    /* What is 1e-130 of the matrix is nothing of it, and squares below 1e-290 lose digits. */
    r->smallest = fmax(pow(1e-130 * largest(r), 2.0), 1e-290);
}

void tridiagonal_reduce(const ranks_grid *grid, const ranks_workers *workers, ranks_matrix *a, double *d, double *e,
                        double *tau, double *work) {
    reduction r;
    begin(grid, workers, a, tau, work, &r);
    double *notes = r.v_rows + r.local_rows;
    for (int64_t from = 0, end; from < r.n; from = end) {
        end = least(least(from + PANEL, (from / a->block + 1) * a->block), r.n);
        for (int64_t j = from; j < end; j++) {
            int64_t next = before(r.down, j + 1);
            int owner = (int)(j / a->block % grid->cols);
            if (owner == grid->col) reflect(&r, j, j - from);
            if (grid->cols > 1)
                MPI_Bcast(r.v_rows + next, (int)(r.local_rows - next + NOTES), MPI_DOUBLE, owner, r.row);
            d[j] = notes[0];
            e[j] = notes[1];
            if (j + 1 < r.n) make_pair(&r, j, j - from, notes[2]);
        }
        update(&r, end, end - from);
    }
    /* Sums may differ in their last bits from process to process; what follows decides by these. */
    MPI_Bcast(d, (int)r.n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(e, (int)r.n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Comm_free(&r.row);
    MPI_Comm_free(&r.col);
}
