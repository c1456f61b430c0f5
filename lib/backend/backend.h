/* The table of operations that a processor must provide. The layers above reach lib/backend/cpu only through it; each
 * instruction set fills it once. A GPU does not fill this table: lib/cuda, on lib/backend/cuda, queues whole measures
 * on a stream and never forms the matrices that these operations pass to each other. Callers reach a GPU through the
 * same circe_measure, and through circe__fit_ops for fits.
 *
 * Loops work in the dtype of their views, which all views of one call share. They take scratch of the size that the
 * matching *_bytes function returns, so a training step allocates nothing. Factors arrive resolved: n_cols >= 1, and
 * sigma2 > 0 if the kind has a width. */
#pragma once

#include "circe/context.h"
#include "circe/kernel.h"
#include "circe/matrix.h"
#include "core/threads.h"

typedef struct circe__factors {
    const circe_kernel_factor *items;
    int64_t n;
} circe__factors;

/* How to read a stored witness: it stands for scale (G_ij + rows[i] + rows[j] + constant), with a diagonal of 0 if
 * zero_diagonal. */
typedef struct circe__shift {
    const double *rows;
    double constant, scale;
    int zero_diagonal;
} circe__shift;

/* left right', a symmetric matrix of few columns u: both (n, u). */
typedef struct circe__update {
    circe_mat left, right;
} circe__update;

/* How far a factorisation came: trace(K), what is left of it, and whether that is within the requested tolerance. */
typedef struct circe__factored {
    int64_t rank;
    double trace, left;
    int complete;
} circe__factored;

/* A function of one number as polynomials on pieces of equal length 1 / per, from `first` on: on each, `terms` holds
 * the coefficients (CIRCE__CURVE_TERMS, outputs), highest power first, of t in [-1, 1]. outputs is a multiple of 8. */
enum { CIRCE__CURVE_TERMS = 8 };

typedef struct circe__curve {
    double first, per;
    int64_t pieces, outputs;
    const double *terms;
} circe__curve;

/* zeta(y, z) = features(z) - mean(y). */
typedef struct circe__from_curves {
    const circe__curve *mean, *features;
    const double *y, *z; /* (n) */
} circe__from_curves;

/* A measure from its features to its gradient: G = the settled Q = K_yy o (zeta zeta'), value = <G, K_xx>. */
typedef struct circe__measured {
    circe__factors kernel_y, kernel_x;
    const circe_mat *y, *zeta; /* of a whole data set where there is an index */
    const int64_t *index;      /* (n) the rows meant; NULL: all */
    const circe__from_curves
        *curves; /* what zeta is to be made from first, with outputs for its ld; NULL: it is made */
    int64_t n;
    const circe_mat *x; /* (n, d) */
    double scale;       /* of Q as it is written */
    circe_mat *Q;       /* (n, n) */
    double *row_sums;   /* (2 n): sums, and the diagonal of Q */
    double *value;
    circe_mat *grad; /* or NULL */
    /* NULL: this process computes everything. Otherwise it computes its own tiles of Q. The ranks add up their row sums
     * and diagonals before settling them; value and grad are this process's part of the sums. */
    const circe_ranks *ranks;
} circe__measured;

/* What Q with these row sums, and its diagonal after them, stands for; NULL: itself. */
typedef const circe__shift *circe__settle_fn(void *user, double *row_sums, circe_mat *Q);

typedef struct circe__loops {
    /* out(i, j) = k(a_i, b_j). */
    size_t (*gram_bytes)(int64_t rows_b, int64_t cols, int threads);
    void (*gram)(circe__factors kernel, const circe_mat *a, const circe_mat *b, circe_mat *out, int threads,
                 void *scratch);

    /* Lower triangle of Q = K_yy o (zeta zeta'), minus the update if not NULL, into `out`, times `scale`;
     * row_sums[i] = sum_j Q_ij over j != i (unscaled, both triangles) if not NULL. */
    size_t (*product_bytes)(int64_t rows, int64_t cols_y, int64_t cols_zeta, int64_t cols_update, int threads);
    void (*product)(circe__factors kernel, const circe_mat *y, const circe_mat *zeta, const circe__update *update,
                    double scale, circe_mat *out, double *row_sums, int threads, void *scratch);

    /* Lower triangle in place: what the shift says it stands for. */
    void (*shift)(circe_mat *witness, const circe__shift *shift, int threads);

    /* value = sum_ij G_ij k(x_i, x_j) and, if grad is not NULL, its gradient; reads the lower triangle of G, shifted
     * on the way if shift is not NULL. */
    size_t (*contract_bytes)(circe__factors kernel, int64_t rows, int64_t cols, int with_grad, int threads);
    void (*contract)(circe__factors kernel, const circe_mat *x, const circe_mat *witness, const circe__shift *shift,
                     double *value, circe_mat *grad, int threads, void *scratch);

    /* product and contract in one go. */
    size_t (*measure_bytes)(const circe__measured *measured, int threads);
    void (*measure)(const circe__measured *measured, circe__settle_fn *settle, void *user, int threads, void *scratch);

    /* F (capacity, n): K ~ F'F of the points by pivoted Cholesky, until trace(K - F'F) <= min(tolerance * trace(K),
     * limit), rounding forbids more, or the rows of F are full; sooner where may_give_up and the decay is too slow.
     * pivots (capacity), or NULL: the point that each row belongs to. */
    size_t (*factor_bytes)(int64_t rows, int64_t cols, int threads);
    circe__factored (*factor)(circe__factors kernel, const circe_mat *points, double tolerance, double limit,
                              int may_give_up, circe_mat *F, int64_t *pivots, int threads, void *scratch);

    /* Of this precision: G (r, r), symmetric with both triangles, = H T H', T tridiagonal: its diagonal (r), and what
     * is beside it (r). G becomes what reflect takes, C (r, q) := H'C. On the calling thread, for some tens of rows.
     * scratch: 4 r; q. */
    void (*reduce)(int64_t r, void *G, void *diagonal, void *beside, void *scratch);
    void (*reflect)(int64_t r, int64_t q, const void *G, void *C, void *scratch);

    /* v[0..n) := their cosines, to 3e-16, in either precision's table. On the calling thread. */
    void (*cosines)(int64_t n, double *v);
} circe__loops;

/* Dense algebra in float64, row-major, divided among the threads of circe__threads_begin. */
typedef struct circe__algebra {
    /* c (m, n) := alpha op(a) op(b) + beta c */
    void (*gemm)(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                 const double *b, int64_t ldb, double beta, double *c, int64_t ldc);
    void (*gemm_f32)(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
    /* lower triangle of c (n, n) := a' a + beta c, a (k, n) */
    void (*gram_update)(int64_t n, int64_t k, const double *a, int64_t lda, double beta, double *c, int64_t ldc);
    /* l (n, n) lower triangular, with zeros above, := its inverse. Returns LAPACK's info. */
    int (*invert_lower)(int64_t n, double *l, int64_t ldl);
    /* b (m, n) := b T', T (n, n) lower triangular: each row of b becomes T times it */
    void (*multiply_rows)(int64_t m, int64_t n, const double *t, int64_t ldt, double *b, int64_t ldb);
    /* a (n, n), of which the lower triangle is read := its eigenvectors, one per row; w ascending. Returns LAPACK's
     * info. work: 1 + 6n + 2n^2. */
    int (*eigen)(int64_t n, double *a, double *w, double *work, int *iwork);
    /* Only w, in half the time; a is overwritten. The same scratch. */
    int (*eigenvalues)(int64_t n, double *a, double *w, double *work, int *iwork);
    /* a (n, n) symmetric positive definite, of which the lower triangle is read := its inverse, both triangles. Returns
     * LAPACK's info: not 0 if it is not positive definite. */
    int (*invert_spd)(int64_t n, double *a);
    /* The first min(m, n) rows of a (m, n) := orthonormal ones that span what its rows do. work: 65 max(m, n). */
    void (*orthonormal_rows)(int64_t m, int64_t n, double *a, double *work);
    /* a (n, n) symmetric := R with a = P R' R P' (R in the rows 0..rank, pivots from 0). Returns the rank. */
    int64_t (*pivoted_cholesky)(int64_t n, double *a, double tolerance, int *pivots, double *work);
} circe__algebra;

typedef struct circe__backend {
    const char *isa;
    const circe__loops *f32;
    const circe__loops *f64;
    const circe__algebra *algebra;
} circe__backend;

static inline const circe__loops *circe__loops_for(const circe__backend *backend, circe_dtype dtype) {
    return dtype == CIRCE_FLOAT32 ? backend->f32 : backend->f64;
}

/* The best loops that this processor can run, or those that CIRCE_ISA in the environment names. */
circe_status circe__backend_cpu(const circe__backend **backend);

/* Brackets work on many small kernel values. Their products are denormal numbers, which cost x86 a hundred cycles each,
 * so the calling thread and the threads that run its parts flush them to zero. The end restores the caller's mode. */
unsigned circe__flush_begin(void);
void circe__flush_end(unsigned previous);

/* If the address space of the process is limited, claims now what BLAS will need on this many threads. CIRCE_ERR_MEMORY
 * if there is not enough. */
circe_status circe__claim_buffers(int threads);
