#pragma once

#include <stdint.h>

/* Computes what LAPACK's dsytrd with 'U' makes of a (n, n), reading its lower triangle, on this many threads: d (n), e
 * (n - 1), tau (n - 1), and the reflections in the rows of a. scratch: (32 + threads) (n + 80). */
int circe__tridiagonal(int64_t n, double *a, double *d, double *e, double *tau, double *scratch, int threads);

/* z (n, n), a vector per row := the reflections applied to each. scratch: 2 n CIRCE__REFLECTORS. */
enum { CIRCE__REFLECTORS = 64 };
void circe__apply_reflections(int64_t n, const double *a, const double *tau, double *z, double *scratch, int threads);
