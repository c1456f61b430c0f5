/* A symmetric matrix to tridiagonal form by Householder's reflections, and back, as dsytrd and dormtr do with 'U'.
 *
 * Row i of the lower triangle, from the last to the first, with v, tau and beta such that
 * (I - tau v v') a_i = beta e_(i-1):
 *
 *     p = A v,   w = tau p - tau/2 (tau p'v) v,   A := A - v w' - w v'      over the leading (i, i)
 *
 * The updates of A are delayed until a panel of PANEL rows is done, and are then one product. Until then p = A v - V'(W
 * v) - W'(V v) with the panel's V, W (k, i), and each row is brought up to date before its turn. This takes 4/3 n^3
 * operations. Half of them are in A v, which passes over the lower triangle at the speed of memory, so more threads
 * help. Each thread has a band of rows of A, with equal areas, which stays in its cache from one step to the next. It
 * makes both products of its band, with A and with A', and its own sum p; the sums are added in the order of the bands.
 * A step calls the threads twice: for the products, and for everything elementwise in p. */
#include "backend/cpu/tridiagonal.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/algebra.h"
#include "backend/cpu/lapack.h"
#include "core/core.h"

enum {
    PANEL = 32,
    SMALL = 128,        /* rows that are left to LAPACK */
    BAND_LEAST = 16384, /* numbers of A to a thread */
    SLICE_LEAST = 128,  /* elements of p to a thread */
    STRIP_ROWS = 48,    /* a strip of a band stays in the cache between its two products */
    STRIP_COLS = 512,
    UPDATE_LEAST = 64,  /* rows of a tile of the update */
    COLUMNS_LEAST = 16, /* vectors to a thread on the way back */
    COLUMNS_MANY = 64,  /* vectors to a slice, where a thread has several */
    SLICES_A_THREAD = 3
};

typedef struct reduction {
    int64_t n;
    double *a, *tau;
    double *W;     /* (PANEL, n), from the last row up; V are the rows of A below the current one */
    double *sums;  /* (bands, n): p of each band */
    double *dots;  /* (slices, 2 PANEL + 1): W v, V v; p'v */
    double *total; /* (2 PANEL) of all slices */
    int threads;
    /* this step */
    int64_t i, k; /* row, and how many rows of the panel are done */
    int64_t bands, slices;
    bool next;     /* the row above belongs to the panel, too */
    int64_t width; /* of a tile of the update */
} reduction;

static double *row_of(const reduction *r, int64_t i) { return r->a + i * r->n; }

static double *panel_W(const reduction *r) { return r->W + (PANEL - r->k) * r->n; }

/* out := beta out + alpha M x, M (rows, cols) with distance n */
static void times(const reduction *r, int64_t rows, int64_t cols, double alpha, const double *M, const double *x,
                  int64_t step, double beta, double *out) {
    cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)rows, (int)cols, alpha, M, (int)r->n, x, (int)step, beta, out, 1);
}

static void times_transposed(const reduction *r, int64_t rows, int64_t cols, double alpha, const double *M,
                             const double *x, int64_t step, double *out) {
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)rows, (int)cols, alpha, M, (int)r->n, x, (int)step, 1.0, out, 1);
}

/* ---- A v --------------------------------------------------------------------------------------------------------- */

/* Bands of equal areas of the triangle. */
static int64_t band_begin(const reduction *r, int64_t band) {
    if (band == r->bands) return r->i;
    return (int64_t)((double)r->i * sqrt((double)band / (double)r->bands)) / 8 * 8;
}

static void multiply_band(const reduction *r, int64_t band) {
    int64_t first = band_begin(r, band), end = band_begin(r, band + 1), n = r->n;
    const double *v = row_of(r, r->i);
    double *p = r->sums + band * n;
    memset(p, 0, (size_t)first * sizeof *p);
    cblas_dsymv(CblasRowMajor, CblasLower, (int)(end - first), 1.0, row_of(r, first) + first, (int)n, v + first, 1, 0.0,
                p + first, 1);
    for (int64_t i = first; i < end; i += STRIP_ROWS)
        for (int64_t j = 0; j < first; j += STRIP_COLS) {
            int64_t rows = circe__min(STRIP_ROWS, end - i), cols = circe__min(STRIP_COLS, first - j);
            times(r, rows, cols, 1.0, row_of(r, i) + j, v + j, 1, 1.0, p + i);
            times_transposed(r, rows, cols, 1.0, row_of(r, i) + j, v + i, 1, p + j);
        }
}

static void dot_slice(const reduction *r, int64_t slice) {
    int64_t first = circe__cut(r->i, r->slices, slice), cols = circe__cut(r->i, r->slices, slice + 1) - first;
    double *dots = r->dots + slice * (2 * PANEL + 1);
    const double *v = row_of(r, r->i) + first;
    times(r, r->k, cols, 1.0, panel_W(r) + first, v, 1, 0.0, dots);
    times(r, r->k, cols, 1.0, row_of(r, r->i + 1) + first, v, 1, 0.0, dots + PANEL);
}

/* A band and a slice to a part: with more parts than threads, bands would wander from cache to cache. */
static void run_products(void *user, int64_t part) {
    const reduction *r = user;
    if (part < r->bands) multiply_band(r, part);
    if (part < r->slices && r->k > 0) dot_slice(r, part);
}

static void add_dots(reduction *r) {
    for (int64_t e = 0; e < 2 * PANEL; e++) {
        r->total[e] = 0.0;
        for (int64_t s = 0; s < r->slices; s++) r->total[e] += r->dots[s * (2 * PANEL + 1) + e];
    }
}

/* ---- w, and the next row ----------------------------------------------------------------------------------------- */

/* Elements of tau p, and of the next row without what this one adds to it. */
static void run_slice(void *user, int64_t slice) {
    const reduction *r = user;
    int64_t first = circe__cut(r->i, r->slices, slice), cols = circe__cut(r->i, r->slices, slice + 1) - first;
    int64_t n = r->n, k = r->k;
    double *p = r->W + (PANEL - 1 - k) * n + first, *next = row_of(r, r->i - 1) + first;
    const double *W = panel_W(r), *V = row_of(r, r->i + 1);
    memset(p, 0, (size_t)cols * sizeof *p);
    for (int64_t band = 0; band < r->bands; band++) {
        int64_t here = circe__min(cols, band_begin(r, band + 1) - first);
        const double *sum = r->sums + band * n + first;
        for (int64_t e = 0; e < here; e++) p[e] += sum[e];
    }
    if (k > 0) {
        times_transposed(r, k, cols, -1.0, V + first, r->total, 1, p);
        times_transposed(r, k, cols, -1.0, W + first, r->total + PANEL, 1, p);
    }
    if (k > 0 && r->next) {
        times_transposed(r, k, cols, -1.0, V + first, W + r->i - 1, n, next);
        times_transposed(r, k, cols, -1.0, W + first, V + r->i - 1, n, next);
    }
    double tau = r->tau[r->i - 1];
    for (int64_t e = 0; e < cols; e++) p[e] *= tau;
    r->dots[slice * (2 * PANEL + 1) + 2 * PANEL] = cblas_ddot((int)cols, p, 1, row_of(r, r->i) + first, 1);
}

static void finish_row(reduction *r) {
    const double *v = row_of(r, r->i);
    double *w = r->W + (PANEL - 1 - r->k) * r->n, *next = row_of(r, r->i - 1), dot = 0.0;
    for (int64_t s = 0; s < r->slices; s++) dot += r->dots[s * (2 * PANEL + 1) + 2 * PANEL];
    double back = -0.5 * r->tau[r->i - 1] * dot;
    for (int64_t e = 0; e < r->i; e++) w[e] += back * v[e];
    if (!r->next) return;
    double w_next = w[r->i - 1], v_next = v[r->i - 1];
    for (int64_t e = 0; e < r->i; e++) next[e] -= w_next * v[e] + v_next * w[e];
}

static void reduce_row(reduction *r, double *e) {
    int length = (int)r->i, one = 1;
    double *v = row_of(r, r->i);
    dlarfg_(&length, v + r->i - 1, v, &one, r->tau + r->i - 1);
    e[r->i - 1] = v[r->i - 1];
    v[r->i - 1] = 1.0;
    r->bands = circe__count_parts(r->threads, r->i * r->i / 2, BAND_LEAST);
    r->slices = circe__count_parts(r->threads, r->i, SLICE_LEAST);
    circe__run_on(r->threads, circe__max(r->bands, r->slices), run_products, r);
    if (r->k > 0) add_dots(r);
    circe__run_on(r->threads, r->slices, run_slice, r);
    finish_row(r);
}

/* ---- the update of a panel --------------------------------------------------------------------------------------- */

/* A tile of the leading (i, i) := itself - V'W - W'V. */
static void run_update(void *user, int64_t part) {
    const reduction *r = user;
    int64_t m = r->i, n = r->n, row, col;
    const double *V = row_of(r, m), *W = r->W;
    circe__tile_at((m + r->width - 1) / r->width, part, &row, &col);
    int64_t i = row * r->width, j = col * r->width, rows = circe__min(r->width, m - i);
    double *c = row_of(r, i) + j;
    if (row == col) {
        cblas_dsyr2k(CblasRowMajor, CblasLower, CblasTrans, (int)rows, PANEL, -1.0, V + i, (int)n, W + i, (int)n, 1.0,
                     c, (int)n);
        return;
    }
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)rows, (int)r->width, PANEL, -1.0, V + i, (int)n, W + j,
                (int)n, 1.0, c, (int)n);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)rows, (int)r->width, PANEL, -1.0, W + i, (int)n, V + j,
                (int)n, 1.0, c, (int)n);
}

/* The PANEL rows from `top` up. */
static void reduce_panel(reduction *r, int64_t top, double *d, double *e) {
    for (r->k = 0; r->k < PANEL; r->k++) {
        r->i = top - r->k;
        r->next = r->k + 1 < PANEL;
        d[r->i] = row_of(r, r->i)[r->i];
        reduce_row(r, e);
    }
    r->width = circe__tile_width(r->threads, r->i, UPDATE_LEAST);
    circe__run_on(r->threads, circe__tiles((r->i + r->width - 1) / r->width), run_update, r);
    for (int64_t i = r->i; i <= top; i++) row_of(r, i)[i - 1] = e[i - 1];
}

int circe__tridiagonal(int64_t n, double *a, double *d, double *e, double *tau, double *scratch, int threads) {
    reduction r = {.n = n, .a = a, .tau = tau, .threads = threads, .W = scratch};
    r.sums = r.W + PANEL * n;
    r.dots = r.sums + threads * n;
    r.total = r.dots + threads * (2 * PANEL + 1);
    int64_t left = n;
    for (; left > SMALL + PANEL; left -= PANEL) {
        if (circe__stopped()) return -1;
        reduce_panel(&r, left - 1, d, e);
    }
    int order = (int)left, ld = (int)n, room = (int)(PANEL * n), info = 0;
    dsytrd_("U", &order, a, &ld, d, e, tau, scratch, &room, &info);
    return info;
}

/* ---- the way back ------------------------------------------------------------------------------------------------ */

/* Blocks of CIRCE__REFLECTORS reflections, each I - V T V': the T are made once, then every thread applies all of them
 * to vectors of its own. */
typedef struct way_back {
    int64_t n, slices;
    const double *a, *tau;
    double *z, *T, *work;
} way_back;

static int block_size(const way_back *b, int64_t first) { return (int)circe__min(CIRCE__REFLECTORS, b->n - 1 - first); }

static void run_factor(void *user, int64_t block) {
    const way_back *b = user;
    int64_t first = block * CIRCE__REFLECTORS;
    int k = block_size(b, first), rows = (int)first + k, ld = (int)b->n, ldt = CIRCE__REFLECTORS;
    dlarft_("B", "C", &rows, &k, b->a + (first + 1) * b->n, &ld, b->tau + first, b->T + first * CIRCE__REFLECTORS,
            &ldt);
}

static void run_vectors(void *user, int64_t slice) {
    const way_back *b = user;
    int64_t begin = circe__cut(b->n, b->slices, slice), end = circe__cut(b->n, b->slices, slice + 1);
    int cols = (int)(end - begin), ld = (int)b->n, ldt = CIRCE__REFLECTORS;
    for (int64_t first = 0; first < b->n - 1 && !circe__stopped(); first += CIRCE__REFLECTORS) {
        int k = block_size(b, first), rows = (int)first + k;
        dlarfb_("L", "N", "B", "C", &rows, &cols, &k, b->a + (first + 1) * b->n, &ld, b->T + first * CIRCE__REFLECTORS,
                &ldt, b->z + begin * b->n, &ld, b->work + begin * CIRCE__REFLECTORS, &cols);
    }
}

void circe__apply_reflections(int64_t n, const double *a, const double *tau, double *z, double *scratch, int threads) {
    way_back b = {.n = n, .a = a, .tau = tau, .z = z, .T = scratch, .work = scratch + n * CIRCE__REFLECTORS};
    b.slices = circe__count_parts(threads, n, COLUMNS_LEAST);
    if (b.slices * SLICES_A_THREAD * COLUMNS_MANY <= n) b.slices *= SLICES_A_THREAD;
    circe__run_on(threads, (n - 1 + CIRCE__REFLECTORS - 1) / CIRCE__REFLECTORS, run_factor, &b);
    circe__run_on(threads, b.slices, run_vectors, &b);
}
