/* A circe_measure on a GPU: what it has there. */
#pragma once

#include "cuda/cuda_parts.h"
#include "measures/measuring_parts.h"

/* The batch before at one place. */
typedef struct circe__cuda_previous {
    int64_t n, cols; /* n = 0: there was none */
    float *x, *y;    /* (most, widest), (most, d_y) */
    int64_t *rows;   /* (most) */
} circe__cuda_previous;

typedef struct circe__on_cuda {
    circe_cuda *cuda;
    int64_t most, widest, n_places;
    circe_cuda_features *features; /* NULL: none */
    circe_cuda_model *model;       /* of z's mean, where points are handed over; NULL: none is needed */
    circe_mat y, z;                /* (N, .), views of the features or of what follows, or of the points at hand */
    circe_mat z_hat;               /* no rows: none */
    float *batch_z;                /* (most, d_z) of hsic */
    circe_method method;           /* of a batch's regressions */
    void *scaled;                  /* (most, widest): x as its kernel sees it; NULL: x itself */
    void *scaling;                 /* scratch of circe_cuda_scale; NULL: there is no kernel of x */
    int64_t n_widths;              /* factors of x's kernel */
    double *widths, *figures;      /* (places, n_widths + 1), (places, CIRCE_N_FIGURES) */
    circe__cuda_previous *places;  /* NULL: nothing is carried */
    void **blocks;                 /* owned device memory */
    int n_blocks;
} circe__on_cuda;

static inline circe__on_cuda *circe__on_cuda_of(const circe_measure *m) { return m->on_device; }

/* A copy of residual features. Those in another form than columns stay with the host. */
circe_status circe__on_cuda_features(circe_measure *m, const circe_features *features);
/* Of rows of what it has there, NULL all of them. p: the batch before, NULL where nothing is carried. */
circe_status circe__on_cuda_measure(circe_measure *m, int64_t place, const int64_t *rows, const circe_mat *x,
                                    const circe__cuda_previous *p, double *value, circe_mat *grad);

/* ---- handed.c: a measure that is handed points ------------------------------------------------------------------- */

circe_status circe__on_cuda_open(circe_measure *m);
circe_status circe__on_cuda_rows(circe_measure *m, int64_t place, const int64_t *rows, int64_t n, const circe_mat *x,
                                 double *value, circe_mat *grad);
circe_status circe__on_cuda_points(circe_measure *m, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                   double *value, circe_mat *grad);
