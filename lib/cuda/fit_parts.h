/* Inside of fits on the device: what its parts share. The parts are those of circe__fit_ops. */
#pragma once

#include "backend/cuda/batch_kernels.h"
#include "backend/cuda/fit_kernels.h"
#include "cuda/cuda_algebra.h"

/* Device memory by name. A slot keeps its block and grows when asked for more; its contents do not survive growth. */
typedef enum circe__fit_slot {
    CIRCE__FIT_Y,
    CIRCE__FIT_Z,
    CIRCE__FIT_POINTS,
    CIRCE__FIT_PIVOTS_Y,
    CIRCE__FIT_PIVOTS_Z,
    CIRCE__FIT_INVERSE_Y,
    CIRCE__FIT_INVERSE_Z,
    CIRCE__FIT_GRAM,
    CIRCE__FIT_FEATURES_Y,
    CIRCE__FIT_FEATURES_Z,
    CIRCE__FIT_RESIDUALS,
    CIRCE__FIT_FACTOR,
    CIRCE__FIT_GROWN,
    CIRCE__FIT_STATE,
    CIRCE__FIT_SUMS,
    CIRCE__FIT_CROSS,
    CIRCE__FIT_SPECTRUM,
    CIRCE__FIT_STACKED,
    CIRCE__FIT_MEANS,
    CIRCE__FIT_ERRORS,
    CIRCE__FIT_VECTORS,
    CIRCE__FIT_G,
    CIRCE__FIT_SLOTS,
} circe__fit_slot;

typedef struct circe__fitter {
    circe__fit_by by; /* first: what lib/cme hands back is this */
    circe_cuda *cuda;
    void *blocks[CIRCE__FIT_SLOTS];
    size_t bytes[CIRCE__FIT_SLOTS];
} circe__fitter;

static inline circe__fitter *circe__fitter_of(const circe__fit_by *by) { return (circe__fitter *)(uintptr_t)by; }

/* ---- fit_memory.c: memory of the device, and features ------------------------------------------------------------ */

circe_status circe__fit_take(circe__fitter *f, circe__fit_slot which, int64_t doubles, double **data);
circe_status circe__fit_upload(circe__fitter *f, double *to, const double *from, int64_t doubles);
circe_status circe__fit_place(circe__fitter *f, circe__fit_slot which, const double *from, int64_t doubles,
                              double **data);
/* Waits for what was queued. */
circe_status circe__fit_download(circe__fitter *f, void *to, const void *from, size_t bytes);
circe_status circe__fit_clear(circe__fitter *f, double *data, int64_t doubles);
circe_status circe__fit_launched(int error);

/* A basis on the device. */
typedef struct circe__fit_basis {
    circe__cuda_kernel kernel;
    int64_t rank;
    int cols;
    double *pivots, *inverse; /* (rank, cols), (rank, rank) */
} circe__fit_basis;

circe_status circe__fit_place_basis(circe__fitter *f, const circe__basis *from, bool of_y, circe__fit_basis *to);
/* K (n, rank) := the kernel of points against the pivots. */
circe_status circe__fit_gram(circe__fitter *f, const circe__fit_basis *b, const double *points, int64_t n, double *K);
/* features (n, rank) = K L^-T, by way of CIRCE__FIT_GRAM. */
circe_status circe__fit_features(circe__fitter *f, const circe__fit_basis *b, const double *points, int64_t n,
                                 double *out);
/* Rows at a time, where a row takes so many numbers. */
int64_t circe__fit_block_rows(int64_t rows, int64_t doubles);
/* error (n_ridge), in the host's memory := totals / rows. */
circe_status circe__fit_finish(circe__fitter *f, const double *totals, int64_t n_ridge, int64_t rows, double *error);

/* ---- fit_basis.c, fit_lowrank.c, fit_dense.c: as circe__fit_ops says ----------------------------------------- */

circe_status circe__fit_extend(circe__basis *b, const double *points, int64_t n, double tolerance, int64_t max_rank,
                               const char *name);
circe_status circe__fit_outliers(const circe__basis *from, const double *points, int64_t n, double relative,
                                 bool *outlying, double *trace_residual);
circe_status circe__fit_sums(circe__holdout *holdout, circe__regression *regression, double *cross);
circe_status circe__fit_decompose(const circe_context *context, circe__regression *regression);
circe_status circe__fit_lowrank_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                                    int64_t n_ridge, double *error);
double circe__fit_dense_bytes(int64_t rows, int64_t rank_z, int64_t n_ridge);
void circe__fit_dense_free(const circe_context *context, circe__parts *parts);
circe_status circe__fit_dense_prepare(circe__holdout *holdout, const circe_kernel *kernel_y,
                                      circe__regression *regression);
circe_status circe__fit_dense_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                                  int64_t n_ridge, double *error);
circe_status circe__fit_dense_weights(const circe__regression *regression, double ridge, double **weights);
