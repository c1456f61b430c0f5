/* The table of dense algebra on the CPU, and the functions that LAPACK computes on one thread. */
#include "backend/cpu/algebra.h"

#include "backend/cpu/lapack.h"
#include "core/core.h"
#include "core/runtimes.h"

/* Rows here are Fortran's columns. If there are more rows than columns, the first n span the same space as all of them,
 * unless they are dependent. In that case Q's rows are a basis of the whole space, which serves as well, so nothing can
 * fail. */
static void orthonormal(int64_t m, int64_t n, double *a, double *work) {
    int rows = (int)n, cols = (int)m, rank = (int)circe__min(m, n), lwork = (int)(64 * circe__max(m, n)), info = 0;
    double *tau = work + lwork;
    dgeqrf_(&rows, &cols, a, &rows, tau, work, &lwork, &info);
    if (info == 0) dorgqr_(&rows, &rank, &rank, a, &rows, tau, work, &lwork, &info);
}

/* BLAS runs on one thread in each of these. If OpenMP granted fewer threads than OpenBLAS asks for, OpenBLAS would wait
 * for the others forever. */
#define ALONE(call)            \
    circe__blas_alone_begin(); \
    call;                      \
    circe__blas_alone_end()

static void gemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                 const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    ALONE(circe__gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
}

static void gemm_f32(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    ALONE(circe__gemm_f32(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
}

static void gram_update(int64_t n, int64_t k, const double *a, int64_t lda, double beta, double *c, int64_t ldc) {
    ALONE(circe__gram_update(n, k, a, lda, beta, c, ldc));
}

static int invert_lower(int64_t n, double *l, int64_t ldl) {
    ALONE(int info = circe__invert_lower(n, l, ldl));
    return info;
}

static void multiply_rows(int64_t m, int64_t n, const double *t, int64_t ldt, double *b, int64_t ldb) {
    ALONE(circe__multiply_rows(m, n, t, ldt, b, ldb));
}

static int eigen(int64_t n, double *a, double *w, double *work, int *iwork) {
    ALONE(int info = circe__eigen(n, a, w, work, iwork));
    return info;
}

static int eigenvalues(int64_t n, double *a, double *w, double *work, int *iwork) {
    ALONE(int info = circe__eigenvalues(n, a, w, work, iwork));
    return info;
}

static int invert_spd(int64_t n, double *a) {
    ALONE(int info = circe__invert_spd(n, a));
    return info;
}

static void orthonormal_rows(int64_t m, int64_t n, double *a, double *work) { ALONE(orthonormal(m, n, a, work)); }

static int64_t pivoted_cholesky(int64_t n, double *a, double tolerance, int *pivots, double *work) {
    ALONE(int64_t rank = circe__pivoted_cholesky(n, a, tolerance, pivots, work));
    return rank;
}

const circe__algebra circe__algebra_blas = {
    .gemm = gemm,
    .gemm_f32 = gemm_f32,
    .gram_update = gram_update,
    .invert_lower = invert_lower,
    .multiply_rows = multiply_rows,
    .eigen = eigen,
    .eigenvalues = eigenvalues,
    .invert_spd = invert_spd,
    .orthonormal_rows = orthonormal_rows,
    .pivoted_cholesky = pivoted_cholesky,
};
