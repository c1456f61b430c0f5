/* x drawn again given y: what data like these would look like if x and z were independent given y. */
#pragma once

#include "inference/inference_parts.h"

typedef struct circe__resampler {
    const circe__data *data;
    double *fitted, *residual; /* (n, dim): x = fitted + residual; categories: fitted 0 */
    circe__variable near; /* how the regression saw y, but narrow: the chance of a neighbour; dim 0 if there is no y */
    circe_kernel_factor *factors;
} circe__resampler;

circe_status circe__resampler_make(const circe__data *data, circe__resampler *resampler);
void circe__resampler_free(const circe_context *context, circe__resampler *resampler);

/* x (n, dim) := draw number `draw`. */
void circe__resample(const circe__resampler *resampler, uint64_t draw, double *x);
