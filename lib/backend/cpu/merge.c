/* Eigenvectors of a symmetric tridiagonal matrix by divide and conquer (Cuppen; Gu and Eisenstat), as dstedc.
 *
 *     T = diag(T_1, T_2) + rho u u',   T_i = Q_i D_i Q_i'   =>   T = Q (D + rho z z') Q'
 *
 * Without rho at each tear the halves are independent; here T is torn into up to 16 pieces at once, each solved by
 * dstedc, which are merged two by two. A merge:
 *
 *  - dlaed2 finds what stays as it is (z_i = 0 or D_i = D_j, to rounding: for kernel matrices nearly all of it) and
 *    puts the other K columns of Q together, without the zeros of the halves;
 *  - dlaed4 finds each of K eigenvalues as a root of its own;
 *  - from these z is made again, such that they are its exact eigenvalues: vectors are orthogonal then, whatever the
 *    distance of their eigenvalues;
 *  - the vectors are Q times those of D + rho z z': 2 n K^2 operations and nearly all of the time.
 *
 * All but the first go by eigenvalues, in parts. Symbols are those of LAPACK's dlaed1, dlaed2 and dlaed3, whose method
 * this is. n^3 operations in the last merge, 4/3 n^3 in all, where nothing stays. */
#include "backend/cpu/merge.h"

#include <cblas.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "backend/cpu/algebra.h"
#include "backend/cpu/lapack.h"
#include "core/core.h"

enum {
    MOST_PIECES = 16,
    PIECE_LEAST = 32,  /* rows */
    ROOTS_LEAST = 16,  /* eigenvalues to a part */
    ROWS_LEAST = 64,   /* elements of z to a part */
    COLUMNS_LEAST = 16 /* vectors to a part */
};

/* ---- one merge ------------------------------------------------------------------------------------------------------
 */

typedef struct merge {
    int64_t n, n1, ld; /* rows of both, of the first */
    double *D, *Q;     /* (n); (n, ld), a vector per row */
    int *order;        /* (n) */
    double rho;
    double *z, *lambda, *w, *old_w, *Q2, *S; /* old_w takes the place of z */
    int *columns, *counts;                   /* INDXC; how many columns of each type */
    int64_t K, n12, n23;
    int threads;
    atomic_int info;
} merge;

static double *vector_of(const merge *m, int64_t j) { return m->Q + j * m->ld; }

/* Roots j, with the distances lambda_i - root in the place of vector j. */
static void run_roots(void *user, int64_t first, int64_t end) {
    merge *m = user;
    int K = (int)m->K;
    for (int64_t j = first; j < end; j++) {
        int number = (int)j + 1, info = 0;
        dlaed4_(&K, &number, m->lambda, m->w, vector_of(m, j), &m->rho, m->D + j, &info);
        if (info != 0) atomic_store(&m->info, info);
    }
}

/* Elements i of the z of which the roots are the exact eigenvalues. */
static void run_weights(void *user, int64_t first, int64_t end) {
    const merge *m = user;
    const double *lambda = m->lambda;
    double *w = m->w;
    for (int64_t i = first; i < end; i++) {
        m->old_w[i] = w[i];
        w[i] = vector_of(m, i)[i];
    }
    for (int64_t j = 0; j < m->K; j++) {
        const double *q = vector_of(m, j);
        for (int64_t i = first; i < end; i++)
            if (i != j) w[i] *= q[i] / (lambda[i] - lambda[j]);
    }
    for (int64_t i = first; i < end; i++) w[i] = copysign(sqrt(-w[i]), m->old_w[i]);
}

/* Vector j of D + rho z z', in the order of the columns of Q2; scratch: K. */
static void inner_vector(const merge *m, int64_t j, double *scratch) {
    double *q = vector_of(m, j), norm = 1.0;
    if (m->K == 1) return;
    for (int64_t i = 0; i < m->K; i++) scratch[i] = m->K == 2 ? q[i] : m->w[i] / q[i];
    if (m->K > 2) norm = cblas_dnrm2((int)m->K, scratch, 1);
    for (int64_t i = 0; i < m->K; i++) q[i] = scratch[m->columns[i] - 1] / norm;
}

/* rows of the vectors := Q2 S, S (inner, cols) being copied from their elements `from` on. */
static void multiply_half(const merge *m, const double *Q2, int64_t rows, int64_t inner, int64_t first, int64_t cols,
                          int64_t from, int64_t to) {
    double *S = m->S + first * circe__max(m->n12, m->n23), *out = vector_of(m, first) + to;
    for (int64_t j = 0; j < cols; j++) memcpy(S + j * inner, vector_of(m, first + j) + from, (size_t)inner * sizeof *S);
    if (inner > 0)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)cols, (int)inner, 1.0, Q2, (int)rows, S,
                    (int)inner, 0.0, out, (int)m->ld);
    for (int64_t j = 0; inner == 0 && j < cols; j++) memset(out + j * m->ld, 0, (size_t)rows * sizeof *out);
}

/* S has room for the scratch of an inner vector: its half has at least K / 2 rows for each of two or more vectors. */
static void run_vectors(void *user, int64_t first, int64_t end) {
    const merge *m = user;
    double *scratch = m->S + first * circe__max(m->n12, m->n23);
    if (circe__stopped()) return;
    for (int64_t j = first; j < end; j++) inner_vector(m, j, scratch);
    multiply_half(m, m->Q2 + m->n1 * m->n12, m->n - m->n1, m->n23, first, end - first, m->counts[0], m->n1);
    multiply_half(m, m->Q2, m->n1, m->n12, first, end - first, 0, 0);
}

/* Symbols of dlaed2 in its order: z, lambda, w of n each, then Q2; of integers INDXC, COLTYP, INDX, INDXP. */
static void place(merge *m, double *work, int *iwork) {
    m->z = m->old_w = work;
    m->lambda = work + m->n;
    m->w = work + 2 * m->n;
    m->Q2 = work + 3 * m->n;
    m->columns = iwork;
    m->counts = iwork + m->n;
}

static int run_merge(merge *m, double *work, int *iwork) {
    int n = (int)m->n, n1 = (int)m->n1, ld = (int)m->ld, K = 0, info = 0, up = 1, down = -1;
    place(m, work, iwork);
    for (int64_t j = 0; j < m->n; j++) m->z[j] = vector_of(m, j)[j < m->n1 ? m->n1 - 1 : m->n1];
    dlaed2_(&K, &n, &n1, m->D, m->Q, &ld, m->order, &m->rho, m->z, m->lambda, m->w, m->Q2, iwork + 2 * n, m->columns,
            iwork + 3 * n, m->counts, &info);
    m->K = K;
    if (info != 0) return info;
    for (int64_t j = 0; K == 0 && j < m->n; j++) m->order[j] = (int)j + 1;
    if (K == 0) return 0;
    m->n12 = m->counts[0] + m->counts[1];
    m->n23 = m->counts[1] + m->counts[2];
    m->S = m->Q2 + m->n12 * m->n1 + m->n23 * (m->n - m->n1);
    circe__run_ranges(m->threads, K, ROOTS_LEAST, run_roots, m);
    if (K > 2) circe__run_ranges(m->threads, K, ROWS_LEAST, run_weights, m);
    circe__run_ranges(m->threads, K, COLUMNS_LEAST, run_vectors, m);
    int rest = n - K;
    dlamrg_(&K, &rest, m->D, &up, &down, m->order);
    return m->info;
}

/* ---- all of them ----------------------------------------------------------------------------------------------------
 */

typedef struct tree {
    int64_t n, pieces, step; /* step: pieces to a merge at this level */
    int64_t bounds[MOST_PIECES + 1];
    double *d, *e, *z, *work;
    int *iwork, *order;
    int threads; /* inside a merge */
    atomic_int info;
} tree;

static void halve(tree *t) {
    t->bounds[0] = 0;
    t->bounds[t->pieces] = t->n;
    for (int64_t step = t->pieces; step > 1; step /= 2)
        for (int64_t p = 0; p < t->pieces; p += step)
            t->bounds[p + step / 2] = t->bounds[p] + (t->bounds[p + step] - t->bounds[p]) / 2;
}

/* A piece by dstedc; beside it, its rows of z are zero. The integers that it needs lie behind its numbers. */
static void run_piece(void *user, int64_t piece) {
    tree *t = user;
    int64_t first = t->bounds[piece], rows = t->bounds[piece + 1] - first, most = t->n / t->pieces + 1;
    int n = (int)rows, ld = (int)t->n, lwork = 1 + 4 * n + n * n, liwork = 3 + 5 * n, info = 0;
    double *work = t->work + piece * (most * most + 7 * most + 5);
    memset(t->z + first * t->n, 0, (size_t)(rows * t->n) * sizeof *t->z);
    dstedc_("I", &n, t->d + first, t->e + first, t->z + first * t->n + first, &ld, work, &lwork, (int *)(work + lwork),
            &liwork, &info);
    for (int64_t i = 0; i < rows; i++) t->order[first + i] = (int)i + 1;
    if (info != 0) atomic_store(&t->info, info);
}

static void run_pair(void *user, int64_t pair) {
    tree *t = user;
    int64_t first = t->bounds[pair * t->step], middle = t->bounds[pair * t->step + t->step / 2];
    int64_t most = t->n / (t->pieces / t->step) + 1;
    merge m = {.n = t->bounds[(pair + 1) * t->step] - first,
               .n1 = middle - first,
               .ld = t->n,
               .D = t->d + first,
               .Q = t->z + first * t->n + first,
               .order = t->order + first,
               .rho = t->e[middle - 1],
               .threads = t->threads};
    int info = run_merge(&m, t->work + pair * (most * most + 4 * most), t->iwork + 4 * first);
    if (info != 0) atomic_store(&t->info, info);
}

/* As many merges as threads or more: each in a part. Fewer: each in parts. */
static void merge_level(tree *t, int threads) {
    int64_t pairs = t->pieces / t->step;
    bool alone = pairs >= threads;
    t->threads = alone ? 1 : threads;
    if (alone)
        circe__run_on(threads, pairs, run_pair, t);
    else
        for (int64_t pair = 0; pair < pairs; pair++) run_pair(t, pair);
}

static void scale(double *v, int64_t n, double by) {
    for (int64_t i = 0; i < n; i++) v[i] *= by;
}

static double largest_of(const double *v, int64_t n) {
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(v[i]));
    return largest;
}

/* Order from 1, right but for eigenvalues that are equal to rounding, to order from 0. */
static void sort(const double *d, int64_t n, int *order) {
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i;
        int moved = order[i] - 1;
        for (; at > 0 && d[order[at - 1]] > d[moved]; at--) order[at] = order[at - 1];
        order[at] = moved;
    }
}

int circe__tridiagonal_eigen(int64_t n, double *d, double *e, double *z, double *work, int *iwork, int *order,
                             int threads) {
    tree t = {.n = n, .pieces = MOST_PIECES, .d = d, .e = e, .z = z, .work = work, .iwork = iwork, .order = order};
    while (t.pieces > 2 && n / t.pieces < PIECE_LEAST) t.pieces /= 2;
    double size = fmax(largest_of(d, n), largest_of(e, n - 1)); /* dlaed2 compares with the size of z, which is 1 */
    if (size > 0.0) scale(d, n, 1.0 / size);
    if (size > 0.0) scale(e, n - 1, 1.0 / size);
    halve(&t);
    for (int64_t p = 1; p < t.pieces; p++) {
        int64_t at = t.bounds[p];
        d[at - 1] -= fabs(e[at - 1]);
        d[at] -= fabs(e[at - 1]);
    }
    circe__run_on(threads, t.pieces, run_piece, &t);
    for (t.step = 2; t.info == 0 && t.step <= t.pieces; t.step *= 2) {
        if (circe__stopped()) return -1;
        merge_level(&t, threads);
    }
    if (circe__stopped()) return -1;
    scale(d, n, size);
    sort(d, n, order);
    return t.info;
}
