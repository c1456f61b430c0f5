/* The table of dense algebra on the CPU, and what is left to LAPACK on one thread. */
#include "backend/cpu/algebra.h"

#include "backend/cpu/lapack.h"
#include "core/core.h"

/* Rows here are Fortran's columns. Of more rows than columns the first n span what all of them do, unless those are
 * dependent: then Q's rows are a basis of everything, which is as good. There is nothing that
 * could fail. */
static void orthonormal_rows(int64_t m, int64_t n, double *a, double *work) {
    int rows = (int)n, cols = (int)m, rank = (int)circe__min(m, n), lwork = (int)(64 * circe__max(m, n)), info = 0;
    double *tau = work + lwork;
    dgeqrf_(&rows, &cols, a, &rows, tau, work, &lwork, &info);
    if (info == 0) dorgqr_(&rows, &rank, &rank, a, &rows, tau, work, &lwork, &info);
}

const circe__algebra circe__algebra_blas = {
    .gemm = circe__gemm,
    .gemm_f32 = circe__gemm_f32,
    .gram_update = circe__gram_update,
    .invert_lower = circe__invert_lower,
    .multiply_rows = circe__multiply_rows,
    .eigen = circe__eigen,
    .invert_spd = circe__invert_spd,
    .orthonormal_rows = orthonormal_rows,
    .pivoted_cholesky = circe__pivoted_cholesky,
};
