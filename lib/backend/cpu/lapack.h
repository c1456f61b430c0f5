/* LAPACK through its Fortran symbols: LAPACKE's row-major wrappers would transpose, that is copy, matrices that are
 * symmetric anyway. Row-major lower is Fortran's upper. */
#pragma once

void dsyevd_(const char *job, const char *uplo, const int *n, double *a, const int *lda, double *w, double *work,
             const int *lwork, int *iwork, const int *liwork, int *info);
void dsytrd_(const char *uplo, const int *n, double *a, const int *lda, double *d, double *e, double *tau, double *work,
             const int *lwork, int *info);
void dlarfg_(const int *n, double *alpha, double *x, const int *incx, double *tau);
void dstedc_(const char *compz, const int *n, double *d, double *e, double *z, const int *ldz, double *work,
             const int *lwork, int *iwork, const int *liwork, int *info);
void dlaed4_(const int *n, const int *i, const double *d, const double *z, double *delta, const double *rho,
             double *dlam, int *info);
void dlamrg_(const int *n1, const int *n2, const double *a, const int *dtrd1, const int *dtrd2, int *index);
void dlarft_(const char *direct, const char *storev, const int *n, const int *k, const double *v, const int *ldv,
             const double *tau, double *t, const int *ldt);
void dlarfb_(const char *side, const char *trans, const char *direct, const char *storev, const int *m, const int *n,
             const int *k, const double *v, const int *ldv, const double *t, const int *ldt, double *c, const int *ldc,
             double *work, const int *ldwork);
void dtrtri_(const char *uplo, const char *diag, const int *n, double *a, const int *lda, int *info);
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dpotri_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dgeqrf_(const int *m, const int *n, double *a, const int *lda, double *tau, double *work, const int *lwork,
             int *info);
void dorgqr_(const int *m, const int *n, const int *k, double *a, const int *lda, const double *tau, double *work,
             const int *lwork, int *info);
void dpstrf_(const char *uplo, const int *n, double *a, const int *lda, int *pivots, int *rank, const double *tolerance,
             double *work, int *info);
