/* What mpi/fit.c puts together into a fit by ranks (circe__fit_ops): pivots over ranks, a dense matrix over ranks. */
#ifndef CLUSTER_MPI_PARTS_H
#define CLUSTER_MPI_PARTS_H

#include "cme/cme_parts.h"
#include "mpi/cluster.h"

/* Rows [first, first + n) of `rows` belong to this process. */
static inline int64_t cluster_slice(int64_t rows, int64_t *n) {
    int64_t first = rows * cluster_rank() / cluster_size();
    *n = rows * (cluster_rank() + 1) / cluster_size() - first;
    return first;
}

/* pivots.c */
circe_status cluster_extend(circe__basis *basis, const double *points, int64_t n, double tolerance, int64_t max_rank,
                            const char *name);

/* dense.c */
double cluster_dense_bytes(int64_t rows, int64_t rank_z, int64_t n_ridge);
circe_status cluster_dense_prepare(circe__holdout *holdout, const circe_kernel *kernel_y,
                                   circe__regression *regression);
circe_status cluster_dense_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                               int64_t n_ridge, double *error);
circe_status cluster_dense_weights(const circe__regression *regression, double ridge, double **weights);
void cluster_dense_free(const circe_context *context, circe__parts *parts);

#endif
