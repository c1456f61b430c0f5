/* Inside of HSCIC: what hscic.c asks of hscic_blocks.c, and the pieces both use. Symbols as in hscic.c. */
#pragma once

#include "measures/measure_parts.h"

/* A (n, r) and the two sides of V W' + W V' (n, 2r), in the slot FEATURES_Y. */
circe_status circe__hscic_take_sides(circe_workspace *workspace, const circe__smoother *smoother, circe_dtype dtype,
                                     circe_mat *A, circe__update *update);
void circe__hscic_sides(const circe__smoother *smoother, const double *VP, circe_mat *A, circe__update *update);

/* U P (n, r) and s (n) from the kernel matrix K (n, n) of z. */
circe_status circe__hscic_blocks(circe_workspace *workspace, const circe__smoother *smoother, const double *K,
                                 double *s, double *UP);

/* Lower triangle of G from V P and K. */
circe_status circe__hscic_assemble(circe_workspace *workspace, const circe__smoother *smoother, const double *VP,
                                   const double *K, circe_mat *witness);

/* The same from S itself, where y has no low rank. */
circe_status circe__hscic_dense(circe_workspace *workspace, const circe__smoother *smoother, const double *K,
                                circe_mat *witness);
