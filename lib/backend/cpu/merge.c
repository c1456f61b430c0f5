/* Eigenvectors of a symmetric tridiagonal matrix by divide and conquer (Cuppen; Gu and Eisenstat), as dstedc.
 *
 *     T = diag(T_1, T_2) + rho u u',   T_i = Q_i D_i Q_i'   =>   T = Q (D + rho z z') Q'
 *
 * Without rho at each tear the halves are independent; here T is torn into up to 16 pieces at once, each solved by
 * dstedc, which are merged two by two. A merge:
 *
 *  - what stays as it is (z_i = 0, or D_i = D_j after a rotation of both, to rounding: for kernel matrices nearly all
 *    of it) goes to the end of Q, and the other K vectors together into Q2, without the zeros of the halves;
 *  - dlaed4 finds each of K eigenvalues as a root of its own;
 *  - from these z is made again, such that they are its exact eigenvalues: vectors are orthogonal then, whatever the
 *    distance of their eigenvalues;
 *  - the vectors are Q times those of D + rho z z': 2 n K^2 operations and nearly all of the time.
 *
 * All go in parts, by eigenvalues or, rotations, by elements of the vectors; one thread decides what stays. Symbols are
 * those of LAPACK's dlaed1, dlaed2 and dlaed3, whose method this is. n^3 operations in the last merge, 4/3 n^3 in all,
 * where nothing stays. */
#include "backend/cpu/merge.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "backend/cpu/algebra.h"
#include "backend/cpu/lapack.h"
#include "core/core.h"

enum {
    MOST_PIECES = 16,
    PIECE_LEAST = 32,   /* rows */
    ROOTS_LEAST = 16,   /* eigenvalues to a part */
    ROWS_LEAST = 64,    /* elements of z to a part */
    COLUMNS_LEAST = 16, /* vectors to a part */
    MOVED_LEAST = 8192  /* numbers that are copied or rotated: 5 microseconds */
};

/* The kinds of vectors, in the order in which they are put together: zero in the second half, full, zero in the first
 * half, staying. */
typedef enum kind { UPPER, FULL, LOWER, STAYS, KINDS } kind;

typedef struct rotation {
    int from, to;
} rotation;

/* ---- one merge --------------------------------------------------------------------------------------------------- */

typedef struct merge {
    int64_t n, n1, ld; /* rows of both, of the first */
    double *D, *Q;     /* (n); (n, ld), a vector per row */
    int *order;        /* (n) */
    double rho;
    double *z, *lambda, *w, *old_w, *Q2, *S; /* old_w takes the place of z */
    int *columns, *kinds, *sorted, *placed;  /* (n): INDXC, COLTYP, INDX, INDXP, all from 0 */
    int64_t counts[KINDS], K, n12, n23, rotations;
    rotation *rotated; /* (n); their cosines and sines lie at the ends of lambda and w, of which K are used */
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
    for (int64_t i = 0; i < m->K; i++) q[i] = scratch[m->columns[i]] / norm;
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

/* ---- what stays -------------------------------------------------------------------------------------------------- */

/* The order of both halves' eigenvalues together. */
static void sort_halves(merge *m) {
    int n1 = (int)m->n1, n2 = (int)(m->n - m->n1), up = 1;
    for (int64_t i = m->n1; i < m->n; i++) m->order[i] += n1;
    for (int64_t i = 0; i < m->n; i++) m->lambda[i] = m->D[m->order[i] - 1];
    dlamrg_(&n1, &n2, m->lambda, &up, &up, m->columns);
    for (int64_t i = 0; i < m->n; i++) m->sorted[i] = m->order[m->columns[i] - 1] - 1;
}

static double largest_of(const double *v, int64_t n) {
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(v[i]));
    return largest;
}

/* Vector j stays: it is placed before `end`, among those that stay in descending order of their eigenvalues. */
static void place_staying(merge *m, int j, int64_t end, bool in_order) {
    int64_t at = end;
    m->kinds[j] = STAYS;
    for (; in_order && at + 1 < m->n && m->D[j] < m->D[m->placed[at + 1]]; at++) m->placed[at] = m->placed[at + 1];
    m->placed[at] = j;
}

static void place_changing(merge *m, int j) {
    m->lambda[m->K] = m->D[j];
    m->w[m->K] = m->z[j];
    m->placed[m->K++] = j;
}

/* Whether a rotation of vectors a and b leaves a with no part in z, and next to nothing beside the diagonal: then that
 * is what they and their eigenvalues become. */
static bool rotates_out(merge *m, int a, int b, double tolerance) {
    double *z = m->z, *D = m->D, length = hypot(z[a], z[b]), c = z[b] / length, s = -z[a] / length;
    if (fabs((D[b] - D[a]) * c * s) > tolerance) return false;
    double of_a = D[a] * c * c + D[b] * s * s;
    D[b] = D[a] * s * s + D[b] * c * c;
    D[a] = of_a;
    z[b] = length;
    z[a] = 0.0;
    if (m->kinds[b] != m->kinds[a]) m->kinds[b] = FULL;
    m->rotated[m->rotations] = (rotation){a, b};
    m->rotations++;
    m->lambda[m->n - m->rotations] = c;
    m->w[m->n - m->rotations] = s;
    return true;
}

/* Which vectors stay, and the rotations that must come before. Each rotation lets one stay, so that there is room for
 * its numbers behind those of the vectors that change. */
static void find_staying(merge *m, double tolerance) {
    int64_t end = m->n;
    int before = -1; /* the last one that changes, which the next may yet let stay */
    for (int64_t i = 0; i < m->n; i++) m->kinds[i] = i < m->n1 ? UPPER : LOWER;
    for (int64_t i = 0; i < m->n; i++) {
        int j = m->sorted[i];
        if (m->rho * fabs(m->z[j]) <= tolerance) {
            place_staying(m, j, --end, false);
            continue;
        }
        if (before >= 0 && rotates_out(m, before, j, tolerance))
            place_staying(m, before, --end, true);
        else if (before >= 0)
            place_changing(m, before);
        before = j;
    }
    if (before >= 0) place_changing(m, before);
}

/* Elements [first, end) of all vectors that are rotated. */
static void run_rotations(void *user, int64_t first, int64_t end) {
    const merge *m = user;
    for (int64_t r = 0; r < m->rotations; r++) {
        rotation t = m->rotated[r];
        cblas_drot((int)(end - first), vector_of(m, t.from) + first, 1, vector_of(m, t.to) + first, 1,
                   m->lambda[m->n - 1 - r], m->w[m->n - 1 - r]);
    }
}

/* By kinds: sorted := the vectors, columns := which of the eigenvalues each has. */
static void sort_kinds(merge *m) {
    int64_t at[KINDS] = {0};
    for (int64_t i = 0; i < m->n; i++) m->counts[m->kinds[i]]++;
    for (int k = 1; k < KINDS; k++) at[k] = at[k - 1] + m->counts[k - 1];
    for (int64_t i = 0; i < m->n; i++) {
        int64_t to = at[m->kinds[m->placed[i]]]++;
        m->sorted[to] = m->placed[i];
        m->columns[to] = (int)i;
    }
}

/* Vectors [first, end), by kinds, into Q2: upper halves, lower halves, then whole ones. */
static void run_gather(void *user, int64_t first, int64_t end) {
    const merge *m = user;
    int64_t n2 = m->n - m->n1, upper = m->counts[UPPER];
    double *lower = m->Q2 + m->n12 * m->n1, *whole = lower + m->n23 * n2;
    for (int64_t i = first; i < end; i++) {
        const double *q = vector_of(m, m->sorted[i]);
        if (i >= m->K) memcpy(whole + (i - m->K) * m->n, q, (size_t)m->n * sizeof *q);
        if (i < m->n12) memcpy(m->Q2 + i * m->n1, q, (size_t)m->n1 * sizeof *q);
        if (i >= upper && i < m->K) memcpy(lower + (i - upper) * n2, q + m->n1, (size_t)n2 * sizeof *q);
    }
}

static void run_return(void *user, int64_t first, int64_t end) {
    const merge *m = user;
    const double *whole = m->Q2 + m->n12 * m->n1 + m->n23 * (m->n - m->n1);
    for (int64_t i = first; i < end; i++)
        memcpy(vector_of(m, m->K + i), whole + i * m->n, (size_t)m->n * sizeof *whole);
}

/* K, lambda, w and Q2 of what changes; what stays, with its eigenvalues, from K on. */
static void deflate(merge *m) {
    int64_t least = MOVED_LEAST / m->n + 1;
    if (m->rho < 0.0)
        for (int64_t i = m->n1; i < m->n; i++) m->z[i] = -m->z[i];
    for (int64_t i = 0; i < m->n; i++) m->z[i] *= sqrt(0.5); /* of length 1 */
    m->rho = fabs(2.0 * m->rho);
    sort_halves(m);
    find_staying(m, 8.0 * (0.5 * DBL_EPSILON) * fmax(largest_of(m->D, m->n), largest_of(m->z, m->n)));
    if (m->rotations > 0) circe__run_ranges(m->threads, m->n, MOVED_LEAST / m->rotations + 8, run_rotations, m);
    sort_kinds(m);
    m->n12 = m->counts[UPPER] + m->counts[FULL];
    m->n23 = m->counts[FULL] + m->counts[LOWER];
    circe__run_ranges(m->threads, m->n, least, run_gather, m);
    for (int64_t i = m->K; i < m->n; i++) m->z[i] = m->D[m->sorted[i]];
    memcpy(m->D + m->K, m->z + m->K, (size_t)(m->n - m->K) * sizeof *m->D);
    circe__run_ranges(m->threads, m->n - m->K, least, run_return, m);
}

/* ---- all of a merge ---------------------------------------------------------------------------------------------- */

/* Lays out the scratch: z, lambda and w with n numbers each, then Q2 with n^2, then the rotations. */
static void place(merge *m, double *work, int *iwork) {
    m->z = m->old_w = work;
    m->lambda = work + m->n;
    m->w = work + 2 * m->n;
    m->Q2 = work + 3 * m->n;
    m->rotated = (void *)(m->Q2 + m->n * m->n);
    m->columns = iwork;
    m->kinds = iwork + m->n;
    m->sorted = iwork + 2 * m->n;
    m->placed = iwork + 3 * m->n;
}

static int run_merge(merge *m, double *work, int *iwork) {
    int n = (int)m->n, up = 1, down = -1;
    place(m, work, iwork);
    for (int64_t j = 0; j < m->n; j++) m->z[j] = vector_of(m, j)[j < m->n1 ? m->n1 - 1 : m->n1];
    deflate(m);
    int K = (int)m->K, rest = n - K;
    m->S = m->Q2 + m->n12 * m->n1 + m->n23 * (m->n - m->n1);
    if (K > 0) circe__run_ranges(m->threads, K, ROOTS_LEAST, run_roots, m);
    if (K > 2) circe__run_ranges(m->threads, K, ROWS_LEAST, run_weights, m);
    if (K > 0) circe__run_ranges(m->threads, K, COLUMNS_LEAST, run_vectors, m);
    dlamrg_(&K, &rest, m->D, &up, &down, m->order);
    return m->info;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

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

/* Order from 1, right except for eigenvalues that are equal to rounding, to order from 0. */
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
