/* Dense algebra over processes, by ScaLAPACK: pdstedc, pdlarfb, pdpotrf, pdpotrs, pdpotri, pdgemm.
 *
 * The eigendecomposition A = U diag(s) U' is what pdsyevd does, in its three steps, except for the first:
 *
 *     A = H T H', T tridiagonal    engine_tridiagonal.c, since pdsytrd reads A twice
 *     T = V diag(s) V'             pdstedc, divide and conquer
 *     U = H V                      pdlarfb, block by block
 *
 * ScaLAPACK counts in 32 bits: local parts and workspaces hold fewer than 2^31 numbers (mpi/dense.c checks). Its
 * Fortran functions and the C ones of BLACS have no header. */
#include "mpi/engine_scalapack.h"

#include <math.h>

#include "mpi/engine_tridiagonal.h"

enum { DESCRIPTION = 9 };

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int cols);
void Cblacs_gridinfo(int context, int *rows, int *cols, int *row, int *col);
void Cblacs_gridexit(int context);
void descinit_(int *description, const int *rows, const int *cols, const int *row_block, const int *col_block,
               const int *first_row, const int *first_col, const int *context, const int *ld, int *info);
void pdlaset_(const char *part, const int *m, const int *n, const double *off, const double *diagonal, double *a,
              const int *ia, const int *ja, const int *describe_a);
void pdstedc_(const char *job, const int *n, double *d, double *e, double *q, const int *iq, const int *jq,
              const int *describe_q, double *work, const int *lwork, int *iwork, const int *liwork, int *info);
void pdlarft_(const char *direction, const char *stored, const int *n, const int *k, double *v, const int *iv,
              const int *jv, const int *describe_v, const double *tau, double *t, double *work);
void pdlarfb_(const char *side, const char *trans, const char *direction, const char *stored, const int *m,
              const int *n, const int *k, double *v, const int *iv, const int *jv, const int *describe_v, double *t,
              double *c, const int *ic, const int *jc, const int *describe_c, double *work);
void pdpotrf_(const char *part, const int *n, double *a, const int *ia, const int *ja, const int *describe_a,
              int *info);
void pdpotri_(const char *part, const int *n, double *a, const int *ia, const int *ja, const int *describe_a,
              int *info);
void pdpotrs_(const char *part, const int *n, const int *nrhs, const double *a, const int *ia, const int *ja,
              const int *describe_a, double *b, const int *ib, const int *jb, const int *describe_b, int *info);
void pdgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n, const int *k, const double *alpha,
             const double *a, const int *ia, const int *ja, const int *describe_a, const double *b, const int *ib,
             const int *jb, const int *describe_b, const double *beta, double *c, const int *ic, const int *jc,
             const int *describe_c);

static const int one = 1, zero = 0;

void scalapack_grid_open(int rows, int cols, ranks_grid *grid) {
    Cblacs_get(-1, 0, &grid->context);
    Cblacs_gridinit(&grid->context, "R", rows, cols);
    Cblacs_gridinfo(grid->context, &grid->rows, &grid->cols, &grid->row, &grid->col);
}

void scalapack_grid_close(ranks_grid *grid) { Cblacs_gridexit(grid->context); }

static void describe(const ranks_grid *grid, const ranks_matrix *m, int description[DESCRIPTION]) {
    int rows = (int)m->rows, cols = (int)m->cols, block = (int)m->block, info = 0;
    int ld = m->local_rows > 0 ? (int)m->local_rows : 1;
    descinit_(description, &rows, &cols, &block, &block, &zero, &zero, &grid->context, &ld, &info);
}

/* Beside the numbers of the steps: e (n) and tau (local_cols). */
static int64_t kept(const ranks_matrix *a) { return a->rows + a->local_cols; }

/* t (block, block), and what pdlarft and pdlarfb need. */
static int64_t turn_work(const ranks_matrix *a) {
    return a->block * (2 * a->block + a->local_rows + a->local_cols + 2 * a->block);
}

/* vectors := H vectors, a block of reflections at a time, the last first. pdormtr does this too, but takes those of the
 * first block one by one, each of which reads all vectors twice. */
static void turn(ranks_matrix *a, int *describe_a, const double *tau, ranks_matrix *vectors, int *describe_z,
                 double *work) {
    int n = (int)a->rows, block = (int)a->block;
    double *t = work, *rest = work + a->block * a->block;
    for (int j = (n - 2) / block * block; n > 1 && j >= 0; j -= block) {
        int rows = n - 1 - j, cols = rows < block ? rows : block, row = j + 2, col = j + 1;
        pdlarft_("F", "C", &rows, &cols, a->data, &row, &col, describe_a, tau, t, rest);
        pdlarfb_("L", "N", "F", "C", &rows, &n, &cols, a->data, &row, &col, describe_a, t, vectors->data, &row, &one,
                 describe_z, rest);
    }
}

int scalapack_eigen_work(const ranks_grid *grid, const ranks_workers *workers, const ranks_matrix *a,
                         const ranks_matrix *vectors, int64_t *doubles, int64_t *ints) {
    int describe_z[DESCRIPTION], n = (int)a->rows, ask = -1, least_ints = 0, info = 0;
    double conquer = 0.0, unused = 0.0;
    int64_t most = tridiagonal_work(workers, a);
    describe(grid, vectors, describe_z);
    pdstedc_("I", &n, &unused, &unused, vectors->data, &one, &one, describe_z, &conquer, &ask, &least_ints, &ask,
             &info);
    if (most < (int64_t)conquer) most = (int64_t)conquer;
    if (most < turn_work(a)) most = turn_work(a);
    *doubles = most + kept(a);
    *ints = least_ints;
    return info;
}

int scalapack_eigen(const ranks_grid *grid, const ranks_workers *workers, ranks_matrix *a, double *s,
                    ranks_matrix *vectors, double *work, int64_t doubles, int *iwork, int64_t ints) {
    const double off = 0.0, diagonal = 1.0;
    int describe_a[DESCRIPTION], describe_z[DESCRIPTION], n = (int)a->rows, info = 0;
    int lwork = (int)(doubles - kept(a)), liwork = (int)ints;
    double *e = work, *tau = e + a->rows, *rest = work + kept(a);
    describe(grid, a, describe_a);
    describe(grid, vectors, describe_z);
    tridiagonal_reduce(grid, workers, a, s, e, tau, rest);
    for (int64_t k = 0; k < a->rows; k++)
        if (!isfinite(s[k]) || !isfinite(e[k])) return -4; /* as pdsyevd says of its fourth argument */
    pdlaset_("F", &n, &n, &off, &diagonal, vectors->data, &one, &one, describe_z);
    pdstedc_("I", &n, s, e, vectors->data, &one, &one, describe_z, rest, &lwork, iwork, &liwork, &info);
    if (info == 0) turn(a, describe_a, tau, vectors, describe_z, rest);
    return info;
}

int scalapack_factor(const ranks_grid *grid, ranks_matrix *a) {
    int describe_a[DESCRIPTION], n = (int)a->rows, info = 0;
    describe(grid, a, describe_a);
    pdpotrf_("L", &n, a->data, &one, &one, describe_a, &info);
    return info;
}

int scalapack_solve(const ranks_grid *grid, const ranks_matrix *a, ranks_matrix *b) {
    int describe_a[DESCRIPTION], describe_b[DESCRIPTION], n = (int)a->rows, cols = (int)b->cols, info = 0;
    if (cols == 0) return 0;
    describe(grid, a, describe_a);
    describe(grid, b, describe_b);
    pdpotrs_("L", &n, &cols, a->data, &one, &one, describe_a, b->data, &one, &one, describe_b, &info);
    return info;
}

int scalapack_invert(const ranks_grid *grid, ranks_matrix *a) {
    int describe_a[DESCRIPTION], n = (int)a->rows, info = 0;
    describe(grid, a, describe_a);
    pdpotri_("L", &n, a->data, &one, &one, describe_a, &info);
    return info;
}

void scalapack_multiply(const ranks_grid *grid, bool transposed, const ranks_matrix *a, const ranks_matrix *b,
                        ranks_matrix *c) {
    int describe_a[DESCRIPTION], describe_b[DESCRIPTION], describe_c[DESCRIPTION];
    int m = (int)c->rows, n = (int)c->cols, k = (int)b->rows;
    const double unit = 1.0, nothing = 0.0;
    if (n == 0) return;
    describe(grid, a, describe_a);
    describe(grid, b, describe_b);
    describe(grid, c, describe_c);
    pdgemm_(transposed ? "T" : "N", "N", &m, &n, &k, &unit, a->data, &one, &one, describe_a, b->data, &one, &one,
            describe_b, &nothing, c->data, &one, &one, describe_c);
}
