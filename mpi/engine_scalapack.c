/* Dense algebra over processes, by ScaLAPACK: pdsyevd, pdpotrf, pdpotrs, pdpotri, pdgemm.
 *
 * ScaLAPACK counts in 32 bits: local parts and workspaces hold fewer than 2^31 numbers (mpi/dense.c checks). Its
 * Fortran functions and the C ones of BLACS have no header. */
#include "engine_scalapack.h"

enum { DESCRIPTION = 9 };

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int cols);
void Cblacs_gridinfo(int context, int *rows, int *cols, int *row, int *col);
void Cblacs_gridexit(int context);
void descinit_(int *description, const int *rows, const int *cols, const int *row_block, const int *col_block,
               const int *first_row, const int *first_col, const int *context, const int *ld, int *info);
void pdsyevd_(const char *job, const char *part, const int *n, double *a, const int *ia, const int *ja,
              const int *describe_a, double *w, double *z, const int *iz, const int *jz, const int *describe_z,
              double *work, const int *lwork, int *iwork, const int *liwork, int *info);
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

void scalapack_grid_open(int rows, int cols, cluster_grid *grid) {
    Cblacs_get(-1, 0, &grid->context);
    Cblacs_gridinit(&grid->context, "R", rows, cols);
    Cblacs_gridinfo(grid->context, &grid->rows, &grid->cols, &grid->row, &grid->col);
}

void scalapack_grid_close(cluster_grid *grid) { Cblacs_gridexit(grid->context); }

static void describe(const cluster_grid *grid, const cluster_matrix *m, int description[DESCRIPTION]) {
    int rows = (int)m->rows, cols = (int)m->cols, block = (int)m->block, info = 0;
    int ld = m->local_rows > 0 ? (int)m->local_rows : 1;
    descinit_(description, &rows, &cols, &block, &block, &zero, &zero, &grid->context, &ld, &info);
}

int scalapack_eigen_work(const cluster_grid *grid, const cluster_matrix *a, const cluster_matrix *vectors,
                         int64_t *doubles, int64_t *ints) {
    int describe_a[DESCRIPTION], describe_z[DESCRIPTION], n = (int)a->rows, ask = -1, least_ints = 0, info = 0;
    double least = 0.0, unused = 0.0;
    describe(grid, a, describe_a);
    describe(grid, vectors, describe_z);
    pdsyevd_("V", "L", &n, a->data, &one, &one, describe_a, &unused, vectors->data, &one, &one, describe_z, &least,
             &ask, &least_ints, &ask, &info);
    *doubles = (int64_t)least + 1;
    *ints = least_ints;
    return info;
}

int scalapack_eigen(const cluster_grid *grid, cluster_matrix *a, double *s, cluster_matrix *vectors, double *work,
                    int64_t doubles, int *iwork, int64_t ints) {
    int describe_a[DESCRIPTION], describe_z[DESCRIPTION], n = (int)a->rows, info = 0;
    int lwork = (int)doubles, liwork = (int)ints;
    describe(grid, a, describe_a);
    describe(grid, vectors, describe_z);
    pdsyevd_("V", "L", &n, a->data, &one, &one, describe_a, s, vectors->data, &one, &one, describe_z, work, &lwork,
             iwork, &liwork, &info);
    return info;
}

int scalapack_factor(const cluster_grid *grid, cluster_matrix *a) {
    int describe_a[DESCRIPTION], n = (int)a->rows, info = 0;
    describe(grid, a, describe_a);
    pdpotrf_("L", &n, a->data, &one, &one, describe_a, &info);
    return info;
}

int scalapack_solve(const cluster_grid *grid, const cluster_matrix *a, cluster_matrix *b) {
    int describe_a[DESCRIPTION], describe_b[DESCRIPTION], n = (int)a->rows, cols = (int)b->cols, info = 0;
    if (cols == 0) return 0;
    describe(grid, a, describe_a);
    describe(grid, b, describe_b);
    pdpotrs_("L", &n, &cols, a->data, &one, &one, describe_a, b->data, &one, &one, describe_b, &info);
    return info;
}

int scalapack_invert(const cluster_grid *grid, cluster_matrix *a) {
    int describe_a[DESCRIPTION], n = (int)a->rows, info = 0;
    describe(grid, a, describe_a);
    pdpotri_("L", &n, a->data, &one, &one, describe_a, &info);
    return info;
}

void scalapack_multiply(const cluster_grid *grid, bool transposed, const cluster_matrix *a, const cluster_matrix *b,
                        cluster_matrix *c) {
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
