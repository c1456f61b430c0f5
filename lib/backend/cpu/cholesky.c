/* Inverses of triangular and of positive definite matrices, by blocks of BLOCK rows, in place.
 *
 *     A = L L',   X = L^-1,   A^-1 = X' X,   Y = X' (upper triangular)        n^3 operations, a third for each
 *
 *  - L, right-looking: first the blocks below a diagonal block, then the tiles of the remaining matrix. The thread that
 *    updates the next diagonal block factorises it at once, so that nobody waits for it. Only the inverses of L's
 *    diagonal blocks are needed, so these are stored instead, and substitution becomes a product, three times as fast.
 *  - X by columns: column block j of X is a forward substitution of its own, whatever the others do. It reads L, so X
 *    cannot take L's place at the same time; it is kept as Y, above the diagonal, where nothing of use is.
 *  - A^-1 = Y Y' by tiles below the diagonal, where L was; then its diagonal blocks; then the upper triangle.
 *
 * LAPACK handles small matrices and, on one thread, those of up to SERIAL_ALONE rows. It cannot be interrupted. */
#include <cblas.h>
#include <string.h>

#include "backend/cpu/algebra.h"
#include "backend/cpu/lapack.h"
#include "core/core.h"

enum {
    BLOCK = 64,
    SERIAL_SPD = 256, /* rows up to which one thread is as fast */
    SERIAL_LOWER = 256,
    SERIAL_ALONE = 1536,
    LEAST_ROWS = 32,   /* of a panel to a part */
    LEAST_COLUMNS = 16 /* of X to a part */
};

typedef struct inversion {
    int64_t n, ld;
    double *a;
    int threads;
    int64_t at;    /* the first row of the diagonal block of this step */
    int64_t parts; /* of this step */
    int64_t width; /* of a tile, of a column block */
    int info;      /* of the diagonal block that has been factorised last */
} inversion;

static int64_t rounded_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t block_rows(const inversion *v, int64_t first) { return circe__min(BLOCK, v->n - first); }

static double *at(const inversion *v, int64_t i, int64_t j) { return v->a + i * v->ld + j; }

/* c (m, n) := alpha a b' + beta c */
static void times_transposed(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                             const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    if (m == 0 || n == 0 || k == 0) return;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta,
                c, (int)ldc);
}

/* ---- L ----------------------------------------------------------------------------------------------------------- */

/* A diagonal block of L := its inverse, zeros above its diagonal. */
static void invert_block(const inversion *v, int64_t first) {
    int rows = (int)block_rows(v, first), ld = (int)v->ld, info = 0;
    double *block = at(v, first, first);
    dtrtri_("U", "N", &rows, block, &ld, &info);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = i + 1; j < rows; j++) block[i * v->ld + j] = 0.0;
}

/* The diagonal block at `first`, brought up to date, := the inverse of its factor. */
static void factorise_block(inversion *v, int64_t first) {
    int rows = (int)block_rows(v, first), ld = (int)v->ld;
    dpotrf_("U", &rows, at(v, first, first), &ld, &v->info);
    if (v->info == 0) invert_block(v, first);
}

/* Rows of the panel below the diagonal block := rows L_kk'^-1. */
static void run_panel(void *user, int64_t part) {
    const inversion *v = user;
    int64_t below = v->n - v->at - BLOCK, first = circe__cut(below, v->parts, part);
    int64_t rows = circe__cut(below, v->parts, part + 1) - first;
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)rows, BLOCK, 1.0,
                at(v, v->at, v->at), (int)v->ld, at(v, v->at + BLOCK + first, v->at), (int)v->ld);
}

/* Rows [first, first + rows) of the block at the diagonal of what is left, minus the panel's product. */
static void update_diagonal(const inversion *v, int64_t first, int64_t rows) {
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)rows, BLOCK, -1.0, at(v, first, v->at), (int)v->ld, 1.0,
                at(v, first, first), (int)v->ld);
}

/* Rows [i, i + rows) and columns [j, j + cols) of what is left. */
static void update_block(const inversion *v, int64_t i, int64_t rows, int64_t j, int64_t cols) {
    times_transposed(rows, cols, BLOCK, -1.0, at(v, i, v->at), v->ld, at(v, j, v->at), v->ld, 1.0, at(v, i, j), v->ld);
}

/* Part 0 is the next diagonal block; then come the rest of its columns, and the tiles right of them. */
static void run_update(void *user, int64_t part) {
    inversion *v = user;
    int64_t next = v->at + BLOCK, rows = block_rows(v, next), rest = next + rows, left = v->n - rest, row, col;
    int64_t bands = rounded_up(left, v->width);
    if (part == 0) {
        update_diagonal(v, next, rows);
        factorise_block(v, next);
    } else if (part <= bands) {
        int64_t i = rest + (part - 1) * v->width;
        update_block(v, i, circe__min(v->width, v->n - i), next, rows);
    } else {
        circe__tile_at(bands, part - 1 - bands, &row, &col);
        int64_t i = rest + row * v->width, here = circe__min(v->width, v->n - i);
        if (row == col)
            update_diagonal(v, i, here);
        else
            update_block(v, i, here, rest + col * v->width, v->width);
    }
}

/* Returns LAPACK's info: the order of the first minor that is not positive. */
static int factorise(inversion *v) {
    v->at = 0;
    factorise_block(v, 0);
    for (; v->info == 0 && v->at + BLOCK < v->n; v->at += BLOCK) {
        if (circe__stopped()) return -1;
        int64_t below = v->n - v->at - BLOCK, left = below - block_rows(v, v->at + BLOCK);
        v->parts = circe__count_parts(v->threads, below, LEAST_ROWS);
        circe__run_on(v->threads, v->parts, run_panel, v);
        v->width = circe__tile_width(v->threads, left, BLOCK);
        int64_t bands = rounded_up(left, v->width);
        circe__run_on(v->threads, 1 + bands + circe__tiles(bands), run_update, v);
    }
    return v->info == 0 ? 0 : v->info + (int)v->at;
}

/* ---- X ----------------------------------------------------------------------------------------------------------- */

static void run_diagonal(void *user, int64_t part) { invert_block(user, part * BLOCK); }

/* Columns [c, c + cols) of X, which lie in the diagonal block at `first`, into the rows c.. of Y. */
static void substitute(const inversion *v, int64_t first, int64_t c, int64_t cols) {
    double diagonal[BLOCK * BLOCK], sum[BLOCK * BLOCK]; /* (cols, rows) each */
    int64_t own = block_rows(v, first), after = first + own;
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < own; i++) diagonal[j * own + i] = *at(v, first + i, c + j);
    for (int64_t i = after; i < v->n; i += BLOCK) {
        int64_t rows = block_rows(v, i);
        times_transposed(cols, rows, own, -1.0, diagonal, own, at(v, i, first), v->ld, 0.0, sum, rows);
        times_transposed(cols, rows, i - after, -1.0, at(v, c, after), v->ld, at(v, i, after), v->ld, 1.0, sum, rows);
        times_transposed(cols, rows, rows, 1.0, sum, rows, at(v, i, i), v->ld, 0.0, at(v, c, i), v->ld);
    }
}

/* The work shrinks from the first block to the last. Taking blocks from both ends in turn gives neighbours about the
 * same amount. */
static int64_t from_both_ends(int64_t part, int64_t parts) { return part % 2 == 0 ? part / 2 : parts - 1 - part / 2; }

static void run_columns(void *user, int64_t part) {
    const inversion *v = user;
    int64_t pieces = rounded_up(BLOCK, v->width);
    part = from_both_ends(part, rounded_up(v->n, BLOCK) * pieces);
    int64_t first = part / pieces * BLOCK, own = block_rows(v, first);
    int64_t c = part % pieces * v->width;
    if (c < own && !circe__stopped()) substitute(v, first, first + c, circe__min(v->width, own - c));
}

/* The first columns take n^2 operations each, and all of them n^3 / 3. Narrow blocks give every thread a share of the
 * first ones. */
static void invert_factor(inversion *v) {
    v->width = BLOCK;
    while (v->width > LEAST_COLUMNS && 6 * v->width * v->threads > v->n) v->width /= 2;
    circe__run_on(v->threads, rounded_up(v->n, BLOCK) * (BLOCK / v->width), run_columns, v);
}

/* ---- X' X -------------------------------------------------------------------------------------------------------- */

/* The block of rows i and columns j, left of the diagonal. */
static void multiply_block(const inversion *v, int64_t i, int64_t j) {
    int64_t rows = block_rows(v, i), after = i + rows;
    double *out = at(v, i, j);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasTrans, (int)rows, BLOCK, (int)rows, 1.0, at(v, i, i), (int)v->ld,
                at(v, j, i), (int)v->ld, 0.0, out, (int)v->ld);
    times_transposed(rows, BLOCK, v->n - after, 1.0, at(v, i, after), v->ld, at(v, j, after), v->ld, 1.0, out, v->ld);
}

static void run_product(void *user, int64_t part) {
    int64_t row, col, blocks = rounded_up(((inversion *)user)->n, BLOCK);
    if (circe__stopped()) return;
    circe__tile_at(blocks, from_both_ends(part, circe__tiles(blocks) - blocks), &row, &col);
    multiply_block(user, row * BLOCK, col * BLOCK);
}

static void run_diagonal_product(void *user, int64_t part) {
    const inversion *v = user;
    int64_t i = part * BLOCK, rows = block_rows(v, i), after = i + rows;
    double X[BLOCK * BLOCK];
    for (int64_t k = 0; k < rows; k++) memcpy(X + k * rows, at(v, i, i) + k * v->ld, (size_t)rows * sizeof *X);
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)rows, (int)rows, 1.0, X, (int)rows, 0.0, at(v, i, i),
                (int)v->ld);
    if (after < v->n)
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)rows, (int)(v->n - after), 1.0, at(v, i, after),
                    (int)v->ld, 1.0, at(v, i, i), (int)v->ld);
}

/* ---- the other triangle ------------------------------------------------------------------------------------------ */

/* b (cols, rows) := a', SQUARE lines of each at a time: longer columns would miss the cache at every step. Above the
 * diagonal of a block that has one, b keeps what it holds. */
static void transpose_block(const double *a, double *b, int64_t rows, int64_t cols, int64_t ld, bool diagonal) {
    enum { SQUARE = 8 };
    for (int64_t j0 = 0; j0 < cols; j0 += SQUARE)
        for (int64_t i0 = diagonal ? j0 : 0; i0 < rows; i0 += SQUARE)
            for (int64_t j = j0; j < circe__min(j0 + SQUARE, cols); j++)
                for (int64_t i = diagonal ? circe__max(i0, j + 1) : i0; i < circe__min(i0 + SQUARE, rows); i++)
                    b[j * ld + i] = a[i * ld + j];
}

/* The upper triangle from rows [i0, i0 + BLOCK) of the lower. */
static void mirror_rows(double *a, int64_t n, int64_t ld, int64_t i0) {
    int64_t rows = circe__min(BLOCK, n - i0);
    for (int64_t j0 = 0; j0 <= i0; j0 += BLOCK)
        transpose_block(a + i0 * ld + j0, a + j0 * ld + i0, rows, circe__min(BLOCK, n - j0), ld, i0 == j0);
}

static void run_mirror(void *user, int64_t part) {
    const inversion *v = user;
    mirror_rows(v->a, v->n, v->ld, part * BLOCK);
}

/* Rows of X out of Y, which becomes zero. */
static void run_unfold(void *user, int64_t part) {
    const inversion *v = user;
    int64_t i0 = part * BLOCK, rows = block_rows(v, i0);
    for (int64_t j0 = 0; j0 < i0; j0 += BLOCK) {
        transpose_block(at(v, j0, i0), at(v, i0, j0), BLOCK, rows, v->ld, false);
        for (int64_t j = j0; j < j0 + BLOCK; j++) memset(at(v, j, i0), 0, (size_t)rows * sizeof(double));
    }
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static int invert_spd_alone(int64_t n, double *a) {
    int order = (int)n, info = 0;
    dpotrf_("U", &order, a, &order, &info);
    if (info == 0) dpotri_("U", &order, a, &order, &info);
    for (int64_t i0 = 0; info == 0 && i0 < n; i0 += BLOCK) mirror_rows(a, n, n, i0);
    return info;
}

int circe__invert_spd(int64_t n, double *a) {
    inversion v = {.n = n, .ld = n, .a = a, .threads = circe__threads_bracketed()};
    int64_t blocks = rounded_up(n, BLOCK);
    if (n <= SERIAL_SPD || (v.threads == 1 && n <= SERIAL_ALONE)) return invert_spd_alone(n, a);
    int info = factorise(&v);
    if (info != 0) return info;
    invert_factor(&v);
    circe__run_on(v.threads, circe__tiles(blocks) - blocks, run_product, &v);
    circe__run_on(v.threads, blocks, run_diagonal_product, &v);
    circe__run_on(v.threads, blocks, run_mirror, &v);
    return 0;
}

int circe__invert_lower(int64_t n, double *l, int64_t ldl) {
    inversion v = {.n = n, .ld = ldl, .a = l, .threads = circe__threads_bracketed()};
    int order = (int)n, ld = (int)ldl, info = 0;
    if (n <= SERIAL_LOWER || (v.threads == 1 && n <= SERIAL_ALONE)) {
        if (n > 0) dtrtri_("U", "N", &order, l, &ld, &info);
        return info;
    }
    for (int64_t i = 0; i < n; i++)
        if (l[i * ldl + i] == 0.0) return (int)i + 1;
    circe__run_on(v.threads, rounded_up(n, BLOCK), run_diagonal, &v);
    invert_factor(&v);
    circe__run_on(v.threads, rounded_up(n, BLOCK), run_unfold, &v);
    return 0;
}
