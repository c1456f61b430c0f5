/* Cholesky factorisation with diagonal pivoting of a whole matrix: P' A P = R'R, R (rank, n) in the rows of A's upper
 * triangle, as LAPACK's dpstrf.
 *
 * The work goes in panels of PANEL rows. A row of R needs the earlier rows of its panel: (n - j) (j - k) operations on
 * data in the cache. The rest of the matrix is updated by tiles when the panel is done: nearly all of the n^2 rank
 * operations. The pivot is the largest remaining diagonal element; each part finds the largest among its columns while
 * it makes the row. Column swaps are applied to the rows of the panel at once, and to the rows above it once per
 * panel. */
#include <cblas.h>
#include <math.h>

#include "backend/cpu/algebra.h"
#include "backend/cpu/lapack.h"
#include "core/core.h"

enum {
    PANEL = 32,
    SERIAL = 256,       /* rows that are left to LAPACK */
    ROW_LEAST = 16384,  /* products of a row to a part */
    TILE_LEAST = 64,    /* rows of a tile */
    SWAPPED_LEAST = 256 /* rows whose swaps are a part */
};

typedef struct pivoting {
    int64_t n;
    double *a;
    double *left;  /* (n): what is left of the diagonal */
    double *found; /* (parts): where each part found the largest, as a number */
    int *pivots;
    int threads;
    int64_t k, j;           /* first row of the panel, this row */
    int64_t swapped[PANEL]; /* with which column row k + i's was swapped */
    int64_t parts, width;
} pivoting;

static double *row_of(const pivoting *p, int64_t i) { return p->a + i * p->n; }

static void swap(double *a, double *b) {
    double kept = *a;
    *a = *b;
    *b = kept;
}

static int64_t largest_in(const double *v, int64_t first, int64_t end) {
    int64_t at = first;
    for (int64_t i = first; i < end; i++)
        if (v[i] > v[at]) at = i;
    return at;
}

/* Rows and columns j and q change places, as far as they are in the upper triangle and below row k. */
static void exchange(pivoting *p, int64_t j, int64_t q) {
    int held = p->pivots[j];
    p->swapped[j - p->k] = q;
    if (q == j) return;
    p->pivots[j] = p->pivots[q];
    p->pivots[q] = held;
    swap(&p->left[j], &p->left[q]);
    row_of(p, q)[q] = row_of(p, j)[j];
    for (int64_t r = p->k; r < j; r++) swap(&row_of(p, r)[j], &row_of(p, r)[q]);
    for (int64_t i = j + 1; i < q; i++) swap(&row_of(p, j)[i], &row_of(p, i)[q]);
    for (int64_t i = q + 1; i < p->n; i++) swap(&row_of(p, j)[i], &row_of(p, q)[i]);
}

/* Columns of row j of R, and the largest that is left in them. */
static void run_row(void *user, int64_t part) {
    const pivoting *p = user;
    int64_t n = p->n, j = p->j, count = n - j - 1, done = j - p->k;
    int64_t first = j + 1 + circe__cut(count, p->parts, part), end = j + 1 + circe__cut(count, p->parts, part + 1);
    double *row = row_of(p, j), root = row[j];
    if (done > 0 && end > first)
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)done, (int)(end - first), -1.0, row_of(p, p->k) + first, (int)n,
                    row_of(p, p->k) + j, (int)n, 1.0, row + first, 1);
    for (int64_t i = first; i < end; i++) {
        row[i] /= root;
        p->left[i] -= row[i] * row[i];
    }
    p->found[part] = (double)largest_in(p->left, first, end);
}

/* Where the next pivot is. */
static int64_t make_row(pivoting *p) {
    int64_t count = p->n - p->j - 1;
    p->parts = circe__count_parts(p->threads, count * (p->j - p->k + 4), ROW_LEAST);
    circe__run_on(p->threads, p->parts, run_row, p);
    int64_t best = p->j + 1;
    for (int64_t part = 0; count > 0 && part < p->parts; part++)
        if (p->left[(int64_t)p->found[part]] > p->left[best]) best = (int64_t)p->found[part];
    return best;
}

/* A tile of what is below the panel, minus the panel's product. */
static void run_tile(void *user, int64_t part) {
    const pivoting *p = user;
    int64_t first = p->k + PANEL, m = p->n - first, row, col;
    circe__tile_at((m + p->width - 1) / p->width, part, &col, &row);
    int64_t i = first + row * p->width, l = first + col * p->width, cols = circe__min(p->width, p->n - l);
    const double *R = row_of(p, p->k);
    if (row == col)
        cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, (int)cols, PANEL, -1.0, R + i, (int)p->n, 1.0,
                    row_of(p, i) + i, (int)p->n);
    else
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)p->width, (int)cols, PANEL, -1.0, R + i, (int)p->n,
                    R + l, (int)p->n, 1.0, row_of(p, i) + l, (int)p->n);
}

static void run_swaps(void *user, int64_t first, int64_t end) {
    const pivoting *p = user;
    for (int64_t r = first; r < end; r++)
        for (int64_t i = 0; i < p->j - p->k; i++) swap(&row_of(p, r)[p->k + i], &row_of(p, r)[p->swapped[i]]);
}

/* Rows k to k + PANEL. Returns whether there are more. */
static bool make_panel(pivoting *p, double tolerance) {
    for (int64_t i = p->k; i < p->n; i++) p->left[i] = row_of(p, i)[i];
    int64_t next = largest_in(p->left, p->k, p->n);
    for (p->j = p->k; p->j < circe__min(p->k + PANEL, p->n); p->j++) {
        double pivot = p->left[next];
        if (!(pivot > (p->j == 0 ? 0.0 : tolerance))) return false;
        exchange(p, p->j, next);
        row_of(p, p->j)[p->j] = sqrt(pivot);
        next = make_row(p);
    }
    return p->j < p->n;
}

static void update_rest(pivoting *p) {
    int64_t m = p->n - p->j;
    p->width = circe__tile_width(p->threads, m, TILE_LEAST);
    circe__run_on(p->threads, circe__tiles((m + p->width - 1) / p->width), run_tile, p);
}

/* Row-major upper is Fortran's lower: P' A P = L L' with L in the columns there, so R = L' in the rows here. */
static int64_t factorise_alone(int64_t n, double *a, double tolerance, int *pivots, double *work) {
    int order = (int)n, rank = 0, info = 0;
    dpstrf_("L", &order, a, &order, pivots, &rank, &tolerance, work, &info);
    for (int64_t i = 0; i < n; i++) pivots[i] -= 1;
    return rank;
}

int64_t circe__pivoted_cholesky(int64_t n, double *a, double tolerance, int *pivots, double *work) {
    pivoting p = {.n = n, .a = a, .left = work, .found = work + n, .pivots = pivots};
    p.threads = (int)circe__min(circe__threads_bracketed(), n);
    if (n <= SERIAL || p.threads == 1 || tolerance < 0.0) return factorise_alone(n, a, tolerance, pivots, work);
    for (int64_t i = 0; i < n; i++) pivots[i] = (int)i;
    for (bool more = true; more; p.k += PANEL) {
        more = make_panel(&p, tolerance);
        circe__run_ranges(p.threads, p.k, SWAPPED_LEAST, run_swaps, &p);
        if (more) update_rest(&p);
    }
    return p.j;
}
