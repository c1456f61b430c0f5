/* The half of the table that is ScaLAPACK's, within circe_mpi.so. */
#ifndef CLUSTER_ENGINE_SCALAPACK_H
#define CLUSTER_ENGINE_SCALAPACK_H

#include "mpi/engine.h"

void scalapack_grid_open(int rows, int cols, cluster_grid *grid);
void scalapack_grid_close(cluster_grid *grid);
int scalapack_eigen_work(const cluster_grid *grid, const cluster_workers *workers, const cluster_matrix *a,
                         const cluster_matrix *vectors, int64_t *doubles, int64_t *ints);
int scalapack_eigen(const cluster_grid *grid, const cluster_workers *workers, cluster_matrix *a, double *s,
                    cluster_matrix *vectors, double *work, int64_t doubles, int *iwork, int64_t ints);
int scalapack_factor(const cluster_grid *grid, cluster_matrix *a);
int scalapack_solve(const cluster_grid *grid, const cluster_matrix *a, cluster_matrix *b);
int scalapack_invert(const cluster_grid *grid, cluster_matrix *a);
void scalapack_multiply(const cluster_grid *grid, bool transposed, const cluster_matrix *a, const cluster_matrix *b,
                        cluster_matrix *c);

#endif
