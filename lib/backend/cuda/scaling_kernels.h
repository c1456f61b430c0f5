/* Launches of circe_cuda_scale: as launching.h says, they allocate nothing, never wait and may be captured. */
#pragma once

#include "backend/cuda/launching.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What lib/measures/scaling.c computes. A factor of sigma2 0 that has a width follows x. */
typedef struct circe__cuda_scaling {
    int double_precision;
    int64_t n;
    circe__cuda_points x;
    circe__cuda_kernel kernel;
    int normalize, frozen; /* normalize as in circe_normalize */
    double keep;
    double *widths, *figures; /* figures may be NULL */
    void *out;                /* x as the kernel sees it, or NULL; of the gradient, in and out */
    int64_t ld_out;
} circe__cuda_scaling;

size_t circe__cuda_scaling_bytes(int64_t n, int64_t cols);

/* 0, or a cudaError_t. The gradient's launch reads what the other left in the scratch. */
int circe__cuda_scale_launch(const circe__cuda_scaling *job, void *scratch, void *stream);
int circe__cuda_scale_back_launch(const circe__cuda_scaling *job, void *scratch, void *stream);

#ifdef __cplusplus
}
#endif
