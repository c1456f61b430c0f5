/* The batch regressed on itself by a factor of low rank, on the device. */
#pragma once

#include "cuda/batch.h"

/* K (K + ridge I)^-1 ~ P'P of n points: P (CIRCE__CUDA_BATCH_RANK, n), NaN if that rank is not enough. */
typedef struct circe__cuda_lowrank {
    int64_t n;
    double ridge, tolerance; /* what may be left out of the trace */
    double *P;
    double *F, *S; /* (rank, n), (rank, rank): scratch, free after circe__cuda_lowrank_make */
    double *X, *left;
    int *rank;
} circe__cuda_lowrank;

/* Whether low rank is asked for, saves anything, and the device has the shared memory for it: else dense. */
bool circe__cuda_lowrank_wanted(const circe_cuda *cuda, const circe_batch_options *options, int64_t n);

/* Its pieces; n is set. */
void circe__cuda_lowrank_take(circe__cuda_pieces *pieces, circe__cuda_lowrank *lowrank);

/* Makes P of points (n, cols); of two sets of points, one or both of which may be wanted (NULL: not), at a time. */
circe_status circe__cuda_lowrank_make(circe_cuda *cuda, const circe__cuda_kernel *kernel, int cols,
                                      const double *points, const circe__cuda_lowrank *lowrank, const double *others,
                                      const circe__cuda_lowrank *of_others);

/* r (cols, n) := r - r P'P; inner (cols, CIRCE__CUDA_BATCH_RANK) is scratch. */
circe_status circe__cuda_lowrank_subtract(circe_cuda *cuda, const circe__cuda_lowrank *lowrank, double *r, int64_t cols,
                                          double *inner);
