/* Matrix products, cut into blocks of the result.
 *
 *     c (m, n) := alpha op(a) op(b) + beta c        2 m n k operations
 *
 * Each part is one call of BLAS, which copies the rows and columns that it needs. A block of p by q costs k (p q + COPY
 * (p + q)), so blocks are as square as possible, and a product is cut only as long as that gains more than calling
 * other threads costs. If the result is too small to give every thread a block, the sum over k is cut instead, and the
 * partial sums are added in the order of the parts. They are on the caller's stack, at most STACK_ROOM numbers, because
 * a training step allocates nothing. */
#include <cblas.h>

#include "backend/cpu/algebra.h"
#include "core/core.h"

enum {
    COPY = 12,          /* operations that the copy of a number is worth */
    MOVE = 16,          /* and its way from the cache of another processor */
    CALL = 200000,      /* that a call of other threads is worth, 5 microseconds */
    PIECE = 40000,      /* and each part of it */
    ROUND = 8,          /* blocks begin at multiples: a cache line, a register of BLAS */
    STACK_ROOM = 16384, /* numbers: 128 KB */
    LONG = 40000000,    /* operations of a part that is worth being halved, so that nobody waits long for the last */
    PARTS_A_THREAD = 4,
    STEP = 1500000000, /* and of a step, after which a caller who wants to stop is heard; for each thread */
    SYRK_LEAST = 32,   /* rows of a tile */
};

typedef struct product {
    bool single; /* precision */
    int trans_a, trans_b;
    int64_t m, n, k;
    double alpha, beta;
    const char *a, *b;
    int64_t lda, ldb, ldc;
    char *c;
} product;

typedef struct cuts {
    int64_t m, n, k; /* into how many pieces */
} cuts;

static enum CBLAS_TRANSPOSE transposed(int yes) { return yes ? CblasTrans : CblasNoTrans; }

static size_t size_of(const product *p) { return p->single ? sizeof(float) : sizeof(double); }

static void multiply(const product *p) {
    if (p->single)
        cblas_sgemm(CblasRowMajor, transposed(p->trans_a), transposed(p->trans_b), (int)p->m, (int)p->n, (int)p->k,
                    (float)p->alpha, (const float *)p->a, (int)p->lda, (const float *)p->b, (int)p->ldb, (float)p->beta,
                    (float *)p->c, (int)p->ldc);
    else
        cblas_dgemm(CblasRowMajor, transposed(p->trans_a), transposed(p->trans_b), (int)p->m, (int)p->n, (int)p->k,
                    p->alpha, (const double *)p->a, (int)p->lda, (const double *)p->b, (int)p->ldb, p->beta,
                    (double *)p->c, (int)p->ldc);
}

/* ---- where to cut ------------------------------------------------------------------------------------------------ */

static int64_t rounded_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Where piece `piece` of a side begins: pieces are multiples of ROUND. */
static int64_t cut_at(int64_t side, int64_t pieces, int64_t piece) {
    return circe__min(side, ROUND * circe__cut(rounded_up(side, ROUND), pieces, piece));
}

static double longest(int64_t side, int64_t pieces) {
    return (double)circe__min(side, ROUND * rounded_up(rounded_up(side, ROUND), pieces));
}

/* What the product takes on `threads` threads, in operations of the slowest. */
static double cost_of(const product *p, cuts c, int threads) {
    double parts = (double)(c.m * c.n * c.k), rows = longest(p->m, c.m), cols = longest(p->n, c.n);
    double rounds = (double)rounded_up(c.m * c.n * c.k, threads), k = (double)p->k / (double)c.k;
    double cost = rounds * k * 2.0 * (rows * cols + COPY * (rows + cols));
    if (parts > 1.0) cost += CALL + PIECE * (double)circe__min(c.m * c.n * c.k, threads) + MOVE * (double)(p->m * p->n);
    return c.k > 1 ? cost + MOVE * parts * (double)(p->m * p->n) : cost;
}

static void try_cuts(const product *p, cuts c, int threads, cuts *best, double *cost) {
    double here = cost_of(p, c, threads);
    if (here >= *cost) return;
    *cost = here;
    *best = c;
}

/* A large product is cut finer than there are threads, as one of them may have other work to do. */
static int64_t most_parts(const product *p, int threads) {
    double each = 2.0 * (double)p->m * (double)p->n * (double)p->k / threads;
    int64_t finer = each < 2.0 * LONG ? 1 : each < PARTS_A_THREAD * (double)LONG ? 2 : PARTS_A_THREAD;
    return finer * threads;
}

/* The best blocks for so many parts. */
static void try_blocks(const product *p, int64_t parts, int threads, cuts *best, double *cost) {
    int64_t rows = rounded_up(p->m, ROUND), cols = rounded_up(p->n, ROUND);
    for (int64_t q = 1; q <= circe__min(parts, cols); q++)
        try_cuts(p, (cuts){circe__min(rows, parts / q), q, 1}, threads, best, cost);
}

static cuts choose(const product *p, int threads) {
    cuts best = {1, 1, 1};
    double cost = cost_of(p, best, threads);
    if (threads <= 1 || cost < 2 * CALL) return best;
    for (int64_t parts = threads; parts > 1; parts /= 2) try_blocks(p, parts, threads, &best, &cost);
    int64_t most_k = circe__min(threads, STACK_ROOM / (p->m * p->n));
    for (int64_t k = most_k; k > 1; k /= 2) try_cuts(p, (cuts){1, 1, k}, threads, &best, &cost);
    for (int64_t parts = most_parts(p, threads); parts > threads; parts /= 2) {
        double within = 1.1 * cost;
        cuts finer = best;
        try_blocks(p, parts, threads, &finer, &within);
        if (finer.m * finer.n > threads) return finer;
    }
    return best;
}

/* ---- blocks of c ------------------------------------------------------------------------------------------------- */

typedef struct grid {
    const product *whole;
    cuts cuts;
    char *sums; /* (cuts.k, m, n) where the sum over k is cut */
} grid;

static const char *at(const char *data, int64_t ld, int64_t row, int64_t col, size_t size) {
    return data + (size_t)(row * ld + col) * size;
}

static void run_block(void *user, int64_t part) {
    const grid *g = user;
    const product *w = g->whole;
    product p = *w;
    size_t size = size_of(w);
    int64_t row = part / g->cuts.n, col = part % g->cuts.n;
    int64_t i0 = cut_at(w->m, g->cuts.m, row), j0 = cut_at(w->n, g->cuts.n, col);
    p.m = cut_at(w->m, g->cuts.m, row + 1) - i0;
    p.n = cut_at(w->n, g->cuts.n, col + 1) - j0;
    if (p.m == 0 || p.n == 0) return;
    p.a = w->trans_a ? at(w->a, w->lda, 0, i0, size) : at(w->a, w->lda, i0, 0, size);
    p.b = w->trans_b ? at(w->b, w->ldb, j0, 0, size) : at(w->b, w->ldb, 0, j0, size);
    p.c = w->c + (size_t)(i0 * w->ldc + j0) * size;
    multiply(&p);
}

/* ---- pieces of the sum over k ------------------------------------------------------------------------------------ */

static void run_sum(void *user, int64_t part) {
    const grid *g = user;
    const product *w = g->whole;
    product p = *w;
    size_t size = size_of(w);
    int64_t k0 = circe__cut(w->k, g->cuts.k, part);
    p.k = circe__cut(w->k, g->cuts.k, part + 1) - k0;
    p.a = w->trans_a ? at(w->a, w->lda, k0, 0, size) : at(w->a, w->lda, 0, k0, size);
    p.b = w->trans_b ? at(w->b, w->ldb, 0, k0, size) : at(w->b, w->ldb, k0, 0, size);
    p.c = g->sums + (size_t)(part * w->m * w->n) * size;
    p.ldc = w->n;
    p.beta = 0.0;
    multiply(&p);
}

/* The sums of all pieces, in their order, take the place of the first. */
static void add_pieces(double *sums, int64_t size, int64_t pieces) {
    for (int64_t piece = 1; piece < pieces; piece++)
        for (int64_t e = 0; e < size; e++) sums[e] += sums[piece * size + e];
}

static void add_pieces_f32(float *sums, int64_t size, int64_t pieces) {
    for (int64_t piece = 1; piece < pieces; piece++)
        for (int64_t e = 0; e < size; e++) sums[e] += sums[piece * size + e];
}

static void put_sums(const product *p, const double *sums) {
    for (int64_t i = 0; i < p->m; i++) {
        double *c = (double *)p->c + i * p->ldc;
        for (int64_t j = 0; j < p->n; j++)
            c[j] = p->beta == 0.0 ? sums[i * p->n + j] : p->beta * c[j] + sums[i * p->n + j];
    }
}

static void put_sums_f32(const product *p, const float *sums) {
    float beta = (float)p->beta;
    for (int64_t i = 0; i < p->m; i++) {
        float *c = (float *)p->c + i * p->ldc;
        for (int64_t j = 0; j < p->n; j++) c[j] = beta == 0.0f ? sums[i * p->n + j] : beta * c[j] + sums[i * p->n + j];
    }
}

static __attribute__((noinline)) void multiply_by_sums(grid *g, int threads) {
    double sums[STACK_ROOM];
    g->sums = (char *)sums;
    circe__run_on(threads, g->cuts.k, run_sum, g);
    int64_t size = g->whole->m * g->whole->n;
    if (g->whole->single) {
        add_pieces_f32((float *)sums, size, g->cuts.k);
        put_sums_f32(g->whole, (const float *)sums);
    } else {
        add_pieces(sums, size, g->cuts.k);
        put_sums(g->whole, sums);
    }
}

static void multiply_at_once(product *p, int threads) {
    grid g = {.whole = p, .cuts = choose(p, threads)};
    if (g.cuts.k > 1)
        multiply_by_sums(&g, threads);
    else if (g.cuts.m * g.cuts.n > 1)
        circe__run_on(threads, g.cuts.m * g.cuts.n, run_block, &g);
    else
        multiply(p);
}

/* Long work is done in steps. Each takes as many rows of the result as make about STEP operations per thread. */
static void multiply_in_parts(product *p) {
    if (p->m == 0 || p->n == 0) return;
    if (p->k == 0) p->lda = p->ldb = circe__max(p->m, p->n); /* BLAS refuses a zero distance though it reads nothing */
    int threads = circe__threads_bracketed();
    int64_t steps = (int64_t)((double)p->m * (double)p->n * (double)p->k / ((double)STEP * threads)) + 1;
    for (int64_t step = 0; step < steps && (steps == 1 || !circe__stopped()); step++) {
        int64_t first = circe__cut(p->m, steps, step);
        product part = *p;
        part.m = circe__cut(p->m, steps, step + 1) - first;
        part.a += (size_t)(first * (p->trans_a ? 1 : p->lda)) * size_of(p);
        part.c += (size_t)(first * p->ldc) * size_of(p);
        if (part.m > 0) multiply_at_once(&part, threads);
    }
}

static void gemm(bool single, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha, const void *a,
                 int64_t lda, const void *b, int64_t ldb, double beta, void *c, int64_t ldc) {
    product p = {single, trans_a, trans_b, m, n, k, alpha, beta, a, b, lda, ldb, ldc, c};
    multiply_in_parts(&p);
}

void circe__gemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                 const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    gemm(false, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void circe__gemm_f32(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    gemm(true, trans_a, trans_b, m, n, k, (double)alpha, a, lda, b, ldb, (double)beta, c, ldc);
}

/* ---- a' a -------------------------------------------------------------------------------------------------------- */

/* g bands make g^2 / 2 tiles' worth of work: two for each thread, which go round with the halves on the diagonal. */
int64_t circe__tile_width(int threads, int64_t n, int64_t least) {
    int64_t bands = 2;
    while (bands * bands < 4 * (int64_t)threads) bands += 2;
    int64_t width = ROUND * rounded_up(rounded_up(n, bands), ROUND);
    return circe__max(width, least);
}

void circe__tile_at(int64_t bands, int64_t number, int64_t *row, int64_t *col) {
    int64_t left = circe__tiles(bands) - bands;
    if (number >= left) {
        *row = *col = number - left;
        return;
    }
    for (*row = 1; number >= *row; (*row)++) number -= *row;
    *col = number;
}

typedef struct syrk {
    int64_t n, k, lda, ldc, width;
    const double *a;
    double beta, *c;
    double *sums; /* (pieces, n, n) where the sum over k is cut */
    int64_t pieces;
} syrk;

static void square(int64_t n, int64_t k, const double *a, int64_t lda, double beta, double *c, int64_t ldc) {
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)n, (int)k, 1.0, a, (int)lda, beta, c, (int)ldc);
}

static void run_tile(void *user, int64_t part) {
    const syrk *s = user;
    int64_t row, col;
    circe__tile_at(rounded_up(s->n, s->width), part, &row, &col);
    int64_t i0 = row * s->width, j0 = col * s->width, rows = circe__min(s->width, s->n - i0);
    double *c = s->c + i0 * s->ldc + j0;
    if (row == col)
        square(rows, s->k, s->a + i0, s->lda, s->beta, c, s->ldc);
    else
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)rows, (int)s->width, (int)s->k, 1.0, s->a + i0,
                    (int)s->lda, s->a + j0, (int)s->lda, s->beta, c, (int)s->ldc);
}

static void run_squares(void *user, int64_t part) {
    const syrk *s = user;
    int64_t k0 = circe__cut(s->k, s->pieces, part), k1 = circe__cut(s->k, s->pieces, part + 1);
    square(s->n, k1 - k0, s->a + k0 * s->lda, s->lda, 0.0, s->sums + part * s->n * s->n, s->n);
}

static __attribute__((noinline)) void square_by_sums(syrk *s, int threads) {
    double sums[STACK_ROOM];
    int64_t size = s->n * s->n;
    s->sums = sums;
    circe__run_on(threads, s->pieces, run_squares, s);
    for (int64_t i = 0; i < s->n; i++) { /* what is above the diagonal has not been written */
        double *row = sums + i * s->n, *c = s->c + i * s->ldc;
        for (int64_t piece = 1; piece < s->pieces; piece++)
            for (int64_t j = 0; j <= i; j++) row[j] += row[piece * size + j];
        for (int64_t j = 0; j <= i; j++) c[j] = s->beta == 0.0 ? row[j] : s->beta * c[j] + row[j];
    }
}

/* Into how many pieces the sum over k is cut: as many as are worth a call, and as there is room for. */
static int64_t square_pieces(int threads, int64_t n, int64_t k) {
    double work = (double)k * (double)n * (double)(n + 2 * COPY);
    if (work < 2 * CALL) return 1;
    int64_t pieces = circe__min(circe__min(threads, (int64_t)(work / CALL)), STACK_ROOM / (n * n));
    while (pieces > 1 && MOVE * (double)(pieces * n * n) > work / (double)pieces) pieces /= 2;
    return pieces;
}

static void square_at_once(int64_t n, int64_t k, const double *a, int64_t lda, double beta, double *c, int64_t ldc,
                           int threads) {
    syrk s = {.n = n, .k = k, .lda = lda, .ldc = ldc, .a = a, .beta = beta, .c = c};
    double work = (double)n * (double)n * (double)k;
    s.width = circe__tile_width(threads, n, SYRK_LEAST);
    s.pieces = threads > 1 ? square_pieces(threads, n, k) : 1;
    if (s.pieces > 1 && s.pieces >= circe__min(threads, circe__tiles(rounded_up(n, s.width)) / 2))
        square_by_sums(&s, threads);
    else if (threads > 1 && n > s.width && work > 4.0 * CALL)
        circe__run_on(threads, circe__tiles(rounded_up(n, s.width)), run_tile, &s);
    else
        square(n, k, a, lda, beta, c, ldc);
}

void circe__gram_update(int64_t n, int64_t k, const double *a, int64_t lda, double beta, double *c, int64_t ldc) {
    if (n == 0) return;
    int threads = circe__threads_bracketed();
    int64_t steps = (int64_t)((double)n * (double)n / 2.0 * (double)k / ((double)STEP * threads)) + 1;
    for (int64_t step = 0; step < steps && (steps == 1 || !circe__stopped()); step++) {
        int64_t first = circe__cut(k, steps, step), rows = circe__cut(k, steps, step + 1) - first;
        square_at_once(n, rows, a + first * lda, lda, step == 0 ? beta : 1.0, c, ldc, threads);
    }
}

/* ---- rows times a triangle --------------------------------------------------------------------------------------- */

typedef struct trmm {
    int64_t m, n, parts, ldt, ldb;
    const double *t;
    double *b;
} trmm;

static void run_rows(void *user, int64_t part) {
    const trmm *p = user;
    int64_t first = circe__cut(p->m, p->parts, part), end = circe__cut(p->m, p->parts, part + 1);
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)(end - first), (int)p->n, 1.0,
                p->t, (int)p->ldt, p->b + first * p->ldb, (int)p->ldb);
}

/* Each part copies the whole triangle: it has rows enough to make up for that. */
void circe__multiply_rows(int64_t m, int64_t n, const double *t, int64_t ldt, double *b, int64_t ldb) {
    if (m == 0 || n == 0) return;
    trmm p = {.m = m, .n = n, .ldt = ldt, .ldb = ldb, .t = t, .b = b};
    int64_t least = circe__max(2 * COPY, CALL / (n * n) + 1);
    p.parts = circe__count_parts(circe__threads_bracketed(), m, least);
    circe__run_on((int)p.parts, p.parts, run_rows, &p);
}
