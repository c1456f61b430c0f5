/* Dense algebra by OpenBLAS. LAPACK is called through its Fortran symbols, which OpenBLAS holds: LAPACKE's row-major
 * wrappers would transpose, that is copy, matrices that are symmetric anyway. */
#include "backend/cpu/algebra.h"

#include <cblas.h>
#include <omp.h>

#include "core/core.h"

void dsyevd_(const char *job, const char *uplo, const int *n, double *a, const int *lda, double *w, double *work,
             const int *lwork, int *iwork, const int *liwork, int *info);
void dtrtri_(const char *uplo, const char *diag, const int *n, double *a, const int *lda, int *info);
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

/* Fortran's upper triangle is the lower one here, and its eigenvectors, in columns, are rows here. Small matrices are
 * decomposed by one thread: the threads of LAPACK meet so often that on a busy machine they wait for each other. */
static int eigen(int64_t n, double *a, double *w, double *work, int *iwork) {
    enum { ONE_THREAD = 1024 };
    int order = (int)n, lwork = (int)circe__min(1 + 6 * n + 2 * n * n, INT32_MAX), liwork = 3 + 5 * order, info = 0;
    int threads = omp_get_max_threads();
    if (n <= ONE_THREAD) omp_set_num_threads(1);
    dsyevd_("V", "U", &order, a, &order, w, work, &lwork, iwork, &liwork, &info);
    omp_set_num_threads(threads);
    return info;
}

/* Row-major upper is Fortran's lower: P' A P = L L' with L in the columns there, so R = L' in the rows here. */
static int64_t pivoted_cholesky(int64_t n, double *a, double tolerance, int *pivots, double *work) {
    int order = (int)n, rank = 0, info = 0;
    dpstrf_("L", &order, a, &order, pivots, &rank, &tolerance, work, &info);
    for (int64_t i = 0; i < n; i++) pivots[i] -= 1;
    return rank;
}

const circe__algebra circe__algebra_blas = {gemm, gram_update, invert_lower, multiply_rows, eigen, pivoted_cholesky};
