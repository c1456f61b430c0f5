/* A symmetric matrix over a grid of processes to tridiagonal form, within circe_mpi.so. */
#pragma once

#include "mpi/engine.h"

/* Numbers that tridiagonal_reduce needs as work. */
int64_t tridiagonal_work(const ranks_workers *workers, const ranks_matrix *a);

/* All. a, of which the lower triangle is read, = H_0 ... H_(n-2) T H_(n-2) ... H_0 with T of diagonal d (n) and
 * subdiagonal e (n; the last is unused), the same bits in every process. What is left of H_j = I - tau v v' is as
 * pdsytrd leaves it, for pdlarft: v below the subdiagonal of column j, and tau (local_cols) with the columns. */
void tridiagonal_reduce(const ranks_grid *grid, const ranks_workers *workers, ranks_matrix *a, double *d, double *e,
                        double *tau, double *work);
