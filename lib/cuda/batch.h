/* What HSCIC, KCI and GCM on the device share: their points, and the regression of the batch on its own y. */
#pragma once

#include "backend/cuda/batch_kernels.h"
#include "cuda/cuda_algebra.h"

/* Checks the options of a regression; defaults into `own` where they are NULL. */
circe_status circe__cuda_batch_options(const circe_batch_options **options, circe_batch_options *own);

/* n points of a variable, behind an index or not: the view checked, and the rows as the device code takes them. */
circe_status circe__cuda_rows_of(circe_cuda *cuda, const circe_mat *mat, const int64_t *index, int64_t n,
                                 circe_dtype dtype, const char *name, circe__cuda_rows *rows);

/* K + ridge I = L L' of n points: K (n, n), on entry of the functions below the kernel matrix; X = L^-1. */
typedef struct circe__cuda_regression {
    int64_t n;
    double ridge;
    double *K, *X;
    double *work; /* of circe__cuda_cholesky_size */
    int64_t doubles;
    int *info;  /* of cuSOLVER, 0: factored */
    int *sound; /* 0: the ridge is lost in rounding */
} circe__cuda_regression;

/* Its pieces; regression->n and ridge are set. With a base of NULL they are counted. */
circe_status circe__cuda_regression_take(circe_cuda *cuda, circe__cuda_pieces *pieces,
                                         circe__cuda_regression *regression);

/* Makes X. */
circe_status circe__cuda_regression_factor(circe_cuda *cuda, const circe__cuda_regression *regression);

/* One of the launches of backend/cuda/batch.h. */
static inline circe_status circe__cuda_launched(int error) {
    return circe__cuda_status((cudaError_t)error, "starting a measure");
}

/* Scratch of GCM, for circe_cuda_reserve_batch. */
circe_status circe__cuda_gcm_bytes(circe_cuda *cuda, int64_t n, int64_t cols_x, int64_t cols_y, int64_t cols_z,
                                   size_t *bytes);
