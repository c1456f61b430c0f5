/* The parts that mpi/fit.c combines into a fit by ranks (circe__fit_ops): pivots over ranks, and a dense matrix over
 * ranks. */
#pragma once

#include "cme/cme_parts.h"
#include "mpi/ranks.h"

/* Rows [first, first + n) of `rows` belong to this process. */
static inline int64_t ranks_slice(int64_t rows, int64_t *n) {
    int64_t first = rows * ranks_rank() / ranks_size();
    *n = rows * (ranks_rank() + 1) / ranks_size() - first;
    return first;
}

/* pivots.c */
circe_status ranks_extend(circe__basis *basis, const double *points, int64_t n, double tolerance, int64_t max_rank,
                          const char *name);

/* dense.c */
double ranks_dense_bytes(int64_t rows, int64_t rank_z, int64_t n_ridge);
circe_status ranks_dense_prepare(circe__holdout *holdout, const circe_kernel *kernel_y, circe__regression *regression);
circe_status ranks_dense_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                             int64_t n_ridge, double *error);
circe_status ranks_dense_weights(const circe__regression *regression, double ridge, double **weights);
void ranks_dense_free(const circe_context *context, circe__parts *parts);
