/* The functions of the algebra table, one subject per file. Each divides its work among circe__threads_bracketed()
 * threads: the cuts follow from that number and the sizes of the call alone, and BLAS runs on the thread that calls it.
 * A call too small to be worth it runs on the calling thread. None allocates. */
#pragma once

#include "backend/backend.h"

extern const circe__algebra circe__algebra_blas;

/* products.c */
void circe__gemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                 const double *b, int64_t ldb, double beta, double *c, int64_t ldc);
void circe__gemm_f32(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
void circe__gram_update(int64_t n, int64_t k, const double *a, int64_t lda, double beta, double *c, int64_t ldc);
void circe__multiply_rows(int64_t m, int64_t n, const double *t, int64_t ldt, double *b, int64_t ldb);

/* cholesky.c, pivoted.c */
int circe__invert_lower(int64_t n, double *l, int64_t ldl);
int circe__invert_spd(int64_t n, double *a);
int64_t circe__pivoted_cholesky(int64_t n, double *a, double tolerance, int *pivots, double *work);

/* eigen.c, tridiagonal.c, merge.c */
int circe__eigen(int64_t n, double *a, double *w, double *work, int *iwork);
int circe__eigenvalues(int64_t n, double *a, double *w, double *work, int *iwork);

/* The lower triangle of a matrix of n rows as tiles that weigh about the same for `threads` threads: bands of
 * `circe__tile_width` rows, of which the last may be narrower. */
int64_t circe__tile_width(int threads, int64_t n, int64_t least);

/* The tile with this number, those left of the diagonal first: its band and that of its columns. */
void circe__tile_at(int64_t bands, int64_t number, int64_t *row, int64_t *col);

static inline int64_t circe__tiles(int64_t bands) { return bands * (bands + 1) / 2; }
