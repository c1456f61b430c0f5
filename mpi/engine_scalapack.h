/* The half of the table that is ScaLAPACK's, within circe_mpi.so. */
#pragma once

#include "mpi/engine.h"

void scalapack_grid_open(int rows, int cols, ranks_grid *grid);
void scalapack_grid_close(ranks_grid *grid);
int scalapack_eigen_work(const ranks_grid *grid, const ranks_workers *workers, const ranks_matrix *a,
                         const ranks_matrix *vectors, int64_t *doubles, int64_t *ints);
int scalapack_eigen(const ranks_grid *grid, const ranks_workers *workers, ranks_matrix *a, double *s,
                    ranks_matrix *vectors, double *work, int64_t doubles, int *iwork, int64_t ints);
int scalapack_factor(const ranks_grid *grid, ranks_matrix *a);
int scalapack_solve(const ranks_grid *grid, const ranks_matrix *a, ranks_matrix *b);
int scalapack_invert(const ranks_grid *grid, ranks_matrix *a);
void scalapack_multiply(const ranks_grid *grid, bool transposed, const ranks_matrix *a, const ranks_matrix *b,
                        ranks_matrix *c);
