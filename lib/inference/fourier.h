/* Random Fourier features of a kernel: sqrt(2) cos(phase), the phase a random function of the point. */
#pragma once

#include "inference/inference_parts.h"

typedef struct circe__fourier {
    int64_t n, dim;    /* features, columns of a point */
    double *frequency; /* (dim, n) */
    double *offset;    /* (n) */
    bool *category;    /* (dim): this column's phase is a hash of its value */
    uint64_t seed, stream;
    const circe__loops *loops;
} circe__fourier;

/* Draws n features of the variable's kernel, y's free widths times `multiple`. */
circe_status circe__fourier_draw(const circe__data *data, const circe__variable *variable, double multiple, int64_t n,
                                 uint64_t stream, const char *name, circe__fourier *fourier);
void circe__fourier_free(const circe_context *context, circe__fourier *fourier);

/* out (rows, ld): the features of the points (rows, dim), each row times root[i]. */
void circe__fourier_features(const circe__fourier *fourier, const double *points, const double *root, int64_t rows,
                             double *out, int64_t ld);
