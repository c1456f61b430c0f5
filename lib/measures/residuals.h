/* The input of GCM: the residuals of x and z given y, scaled. */
#pragma once

#include "circe/gcm.h"
#include "measures/measure_parts.h"

enum { CIRCE__ROW_BLOCKS = 32 };

/* x or z. Its columns times `unit` are at most 1, their residuals times `gain` at most 1 and at least 1/2 somewhere. */
typedef struct circe__side {
    int64_t cols;
    double *points;      /* (n, cols); scratch once the residuals are made */
    double *r;           /* (n, cols): residuals; with weights, times the roots of their rows' */
    double *unit, *gain; /* (cols) */
    double *blur, *rms;  /* (cols): the rounding noise in r, at most, and the root of mean r^2 */
    double *found;       /* (CIRCE__ROW_BLOCKS, cols): scratch */
} circe__side;

/* One call, checked, with room for its sides. */
typedef struct circe__residuals {
    circe_workspace *workspace;
    const circe_kernel *kernel_y;
    const circe_mat *mat_x, *mat_y, *mat_z;
    const circe_gcm_options *options;
    int64_t n, counted;          /* rows; those of positive weight */
    const double *weight, *root; /* (n) of the rows; NULL: they count alike */
    circe__side x, z;
    circe__smoother batch; /* S of the batch, in the slot SMOOTHER_Y, where x or z is regressed on it */
} circe__residuals;

/* Refuses options of GCM that are wrong, and kernel regression without a kernel. */
circe_status circe__gcm_check(const circe_gcm_options *options, const circe_kernel *kernel_y);

/* Uses the slots Y, ZETA, FEATURES_Y, POINTS_A and _B, GRAM_X, TILES, FACTOR, FACTORS and those of smoothers. */
circe_status circe__residuals_make(circe__residuals *g);

/* a (n, cols): each column times its number. */
void circe__scale_columns(double *a, int64_t n, int64_t cols, const double *by);
