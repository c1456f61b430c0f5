/* What the passes of rcot over many rows share: on the host (rcot_rows.c) and on a device (rcot_there.c). */
#ifndef CIRCE_INFERENCE_RCOT_PARTS_H
#define CIRCE_INFERENCE_RCOT_PARTS_H

#include "inference/fourier.h"

/* Features of all three variables: columns y, x, z. */
typedef struct circe__rcot_layout {
    const circe__data *data;
    circe__fourier y, x, z;
    int64_t fy, fx, fz, all;
    double *mean;  /* (all), weighted: centred features are Phi_i - root_i mean */
    double *V, *s; /* (fy, fy) rows are eigenvectors; (fy) */
    double *P;     /* (fy, fx + fz): P_x beside P_z */
    double ridge[2];
} circe__rcot_layout;

/* What rows are multiplied with: left = x - q A, residual of x = x - q C_x, of z = z - q C_z. */
typedef struct circe__rcot_maps {
    double *coefficients; /* (fy, 2 fx + fz): A, C_x, C_z */
    double *inverse;      /* (fy): 1 / (s + ridge_z) */
    int64_t wide;
} circe__rcot_maps;

enum { CIRCE__RCOT_NORMS = 6 }; /* square norms of x, z and their residuals; sums of v and of v^2 */

/* out (rows, all) := the features of rows from `first` on, times root. */
void circe__rcot_features(const circe__rcot_layout *l, int64_t first, int64_t rows, double *out);

/* The sums of either pass, by the device of the data. */
circe_status circe__rcot_gram_there(const circe__rcot_layout *l, double *sums);
circe_status circe__rcot_products_there(const circe__rcot_layout *l, const circe__rcot_maps *m, double *sums);

/* Compares a rejection with orders of z within equal y, where many rows share theirs: rcot_within.c. */
circe_status circe__rcot_within(const circe__rcot_layout *l, circe_test_result *result);

#endif
