#pragma once

#include <stdint.h>

/* Eigenvalues d (n) and eigenvectors z (n, n), one per row, of the tridiagonal matrix with diagonal d and e (n - 1)
 * beside it, which is overwritten, on this many threads. `order` (n) gives their order: the i-th smallest eigenvalue
 * and its vector are at order[i]. work: 4 n + n^2 + 1; iwork: 4 n. Returns LAPACK's info. */
int circe__tridiagonal_eigen(int64_t n, double *d, double *e, double *z, double *work, int *iwork, int *order,
                             int threads);
