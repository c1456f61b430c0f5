/* Dense algebra on the device by cuBLAS and cuSOLVER: float64, row-major, queued on the handle's stream.
 *
 * Nothing here allocates, except circe__cuda_algebra_begin the first time. cuBLAS works in a workspace of the handle's
 * and without atomic additions, cuSOLVER in the caller's scratch: the same inputs give the same bits, and all but the
 * eigendecomposition can be captured in a graph. */
#pragma once

#include "cuda/cuda_parts.h"

/* Opens the libraries if they are not open yet, and sets them to the handle's stream. Call it before the others, with
 * the handle's device current. */
circe_status circe__cuda_algebra_begin(circe_cuda *cuda);
void circe__cuda_algebra_free(circe_cuda *cuda);

/* c (m, n) := alpha op(a) op(b) + beta c */
circe_status circe__cuda_gemm(circe_cuda *cuda, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha,
                              const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c,
                              int64_t ldc);

/* Scratch (in doubles) of a Cholesky factorisation of n by n. */
circe_status circe__cuda_cholesky_size(circe_cuda *cuda, int64_t n, int64_t *doubles);

/* a (n, n), of which the lower triangle is read := its Cholesky factor there. `info`, in device memory, becomes other
 * than 0 if a is not positive definite. */
circe_status circe__cuda_cholesky(circe_cuda *cuda, int64_t n, double *a, double *work, int64_t doubles, int *info);

/* out (n, n) := the inverse of a, a lower triangle; the upper one 0. */
circe_status circe__cuda_triangle_invert(circe_cuda *cuda, int64_t n, const double *a, double *out);

/* a (n, n), of which the lower triangle is read := its eigenvectors, one per row; w (n) ascending. Allocates, and
 * waits.
 */
circe_status circe__cuda_eigen(circe_cuda *cuda, int64_t n, double *a, double *w);
