/* Dense algebra by OpenBLAS. LAPACK is called through its Fortran symbols, which OpenBLAS holds: LAPACKE's row-major
 * wrappers would transpose, that is copy, matrices that are symmetric anyway. */
#include "backend/cpu/algebra.h"

#include <cblas.h>
#include <omp.h>

#include "core/core.h"

void dsyevd_(const char *job, const char *uplo, const int *n, double *a, const int *lda, double *w, double *work,
             const int *lwork, int *iwork, const int *liwork, int *info);
void dtrtri_(const char *uplo, const char *diag, const int *n, double *a, const int *lda, int *info);
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dpotri_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dgeqrf_(const int *m, const int *n, double *a, const int *lda, double *tau, double *work, const int *lwork,
             int *info);
void dorgqr_(const int *m, const int *n, const int *k, double *a, const int *lda, const double *tau, double *work,
             const int *lwork, int *info);
void dpstrf_(const char *uplo, const int *n, double *a, const int *lda, int *pivots, int *rank, const double *tolerance,
             double *work, int *info);

static enum CBLAS_TRANSPOSE transposed(int yes) { return yes ? CblasTrans : CblasNoTrans; }

static void gemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                 const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    if (m == 0 || n == 0) return;
    if (k == 0) lda = ldb = circe__max(m, n); /* BLAS refuses a zero distance even where there is nothing to read */
    cblas_dgemm(CblasRowMajor, transposed(trans_a), transposed(trans_b), (int)m, (int)n, (int)k, alpha, a, (int)lda, b,
                (int)ldb, beta, c, (int)ldc);
}

static void gemm_f32(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    if (m == 0 || n == 0) return;
    if (k == 0) lda = ldb = circe__max(m, n);
    cblas_sgemm(CblasRowMajor, transposed(trans_a), transposed(trans_b), (int)m, (int)n, (int)k, alpha, a, (int)lda, b,
                (int)ldb, beta, c, (int)ldc);
}

static void gram_update(int64_t n, int64_t k, const double *a, int64_t lda, double beta, double *c, int64_t ldc) {
    if (n == 0) return;
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)n, (int)k, 1.0, a, (int)lda, beta, c, (int)ldc);
}

/* Row-major lower is Fortran's upper. */
static int invert_lower(int64_t n, double *l, int64_t ldl) {
    int order = (int)n, ld = (int)ldl, info = 0;
    if (n > 0) dtrtri_("U", "N", &order, l, &ld, &info);
    return info;
}

static void multiply_rows(int64_t m, int64_t n, const double *t, int64_t ldt, double *b, int64_t ldb) {
    if (m == 0 || n == 0) return;
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)m, (int)n, 1.0, t, (int)ldt, b,
                (int)ldb);
}

/* Small matrices are decomposed by one thread: the threads of LAPACK meet so often that on a busy machine they wait for
 * each other. Returns the number of threads to go back to. */
static int threads_for(int64_t n, int64_t one_thread) {
    int threads = omp_get_max_threads();
    if (n <= one_thread) omp_set_num_threads(1);
    return threads;
}

/* Fortran's upper triangle is the lower one here, and its eigenvectors, in columns, are rows here. */
static int eigen(int64_t n, double *a, double *w, double *work, int *iwork) {
    int order = (int)n, lwork = (int)circe__min(1 + 6 * n + 2 * n * n, INT32_MAX), liwork = 3 + 5 * order, info = 0;
    int threads = threads_for(n, 1024);
    dsyevd_("V", "U", &order, a, &order, w, work, &lwork, iwork, &liwork, &info);
    omp_set_num_threads(threads);
    return info;
}

static int invert_spd(int64_t n, double *a) {
    int order = (int)n, info = 0, threads = threads_for(n, 256);
    dpotrf_("U", &order, a, &order, &info);
    if (info == 0) dpotri_("U", &order, a, &order, &info);
    omp_set_num_threads(threads);
    enum { BLOCK = 64 }; /* copied block by block: whole columns would miss the cache at every step */
    for (int64_t i0 = 0; info == 0 && i0 < n; i0 += BLOCK)
        for (int64_t j0 = 0; j0 <= i0; j0 += BLOCK)
            for (int64_t i = i0; i < circe__min(i0 + BLOCK, n); i++)
                for (int64_t j = j0; j < circe__min(j0 + BLOCK, i); j++) a[j * n + i] = a[i * n + j];
    return info;
}

/* Row-major upper is Fortran's lower: P' A P = L L' with L in the columns there, so R = L' in the rows here. */
static int64_t pivoted_cholesky(int64_t n, double *a, double tolerance, int *pivots, double *work) {
    int order = (int)n, rank = 0, info = 0;
    dpstrf_("L", &order, a, &order, pivots, &rank, &tolerance, work, &info);
    for (int64_t i = 0; i < n; i++) pivots[i] -= 1;
    return rank;
}

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
    .gemm = gemm,
    .gemm_f32 = gemm_f32,
    .gram_update = gram_update,
    .invert_lower = invert_lower,
    .multiply_rows = multiply_rows,
    .eigen = eigen,
    .invert_spd = invert_spd,
    .orthonormal_rows = orthonormal_rows,
    .pivoted_cholesky = pivoted_cholesky,
};
