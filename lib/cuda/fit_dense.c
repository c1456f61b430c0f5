/* Fits on the device, dense: the spectrum of the whole kernel matrix by cuSOLVER, and leave-one-out from it.
 * lib/cme/dense.c has the formulas. */
#include <math.h>
#include <string.h>

#include "cuda/fit_parts.h"

enum {
    SMALL_ROWS = 512,    /* as lib/cme/fit.c: smaller dense models keep the inverse, which the host makes */
    RIDGES_AT_ONCE = 16, /* of a dense fit */
};

/* The spectrum of a dense fit, on the device in CIRCE__FIT_SPECTRUM, CIRCE__FIT_VECTORS and CIRCE__FIT_G. */
struct circe__parts {
    circe__fitter *f;
    int64_t n, rank_z;
};

/* In the host's memory: the weights, and little else. */
double circe__fit_dense_bytes(int64_t rows, int64_t rank_z, int64_t n_ridge) {
    (void)n_ridge;
    return 16.0 * (double)rows * (double)(rank_z + 2);
}

void circe__fit_dense_free(const circe_context *context, circe__parts *parts) { circe__free(context, parts); }

/* K_YY of the holdout, decomposed; its spectrum, at least 0, in both memories. */
static circe_status dense_spectrum(circe__fitter *f, const circe__holdout *holdout, const circe_kernel *kernel_y,
                                   double *s, double **V, double **own_s) {
    int64_t M = holdout->rows;
    const double *y = f->blocks[CIRCE__FIT_Y];
    circe__cuda_kernel kernel;
    circe_kernel_factor *factors = NULL;
    circe_status status = circe__resolve(holdout->context, kernel_y, holdout->dim_y, "y", &factors);
    if (status == CIRCE_OK)
        status = circe__cuda_kernel_of((circe__factors){factors, circe_kernel_n_factors(kernel_y)}, "y", &kernel);
    circe__free(holdout->context, factors);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_VECTORS, M * M, V);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_SPECTRUM, M, own_s);
    if (status == CIRCE_OK)
        status = circe__fit_launched(circe__cuda_gram(&kernel, y, M, y, M, (int)holdout->dim_y, *V, f->cuda->stream));
    if (status == CIRCE_OK) status = circe__cuda_eigen(f->cuda, M, *V, *own_s);
    if (status == CIRCE_OK) status = circe__fit_download(f, s, *own_s, (size_t)M * sizeof *s);
    for (int64_t k = 0; status == CIRCE_OK && k < M; k++) s[k] = fmax(s[k], 0.0);
    return status == CIRCE_OK ? circe__fit_upload(f, *own_s, s, M) : status;
}

/* Small fits go on in the host's memory: their models keep an inverse, which is made there. */
static circe_status bring_home(circe__fitter *f, const double *V, const double *G, int64_t rz,
                               circe__regression *regression) {
    const circe_context *context = f->cuda->context;
    int64_t M = regression->n;
    regression->vectors = circe__alloc(context, M * M, sizeof(double));
    regression->G = circe__alloc(context, M * rz, sizeof(double));
    if (regression->vectors == NULL || regression->G == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__fit_download(f, regression->vectors, V, (size_t)(M * M) * sizeof *V);
    return status == CIRCE_OK ? circe__fit_download(f, regression->G, G, (size_t)(M * rz) * sizeof *G) : status;
}

circe_status circe__fit_dense_prepare(circe__holdout *holdout, const circe_kernel *kernel_y,
                                      circe__regression *regression) {
    circe__fitter *f = circe__fitter_of(holdout->by);
    const circe_context *context = holdout->context;
    int64_t M = holdout->rows, rz = holdout->z_basis->rank;
    circe__fit_basis z;
    double *V = NULL, *s = NULL, *F = NULL, *G = NULL;
    *regression = (circe__regression){.solver = CIRCE_METHOD_DENSE, .n = M, .by = holdout->by};
    regression->s = circe__alloc(context, M, sizeof(double));
    circe_status status = regression->s == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) status = dense_spectrum(f, holdout, kernel_y, regression->s, &V, &s);
    if (status == CIRCE_OK) status = circe__fit_place_basis(f, holdout->z_basis, false, &z);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_FEATURES_Z, M * rz, &F);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_G, M * rz, &G);
    if (status == CIRCE_OK) status = circe__fit_features(f, &z, f->blocks[CIRCE__FIT_Z], M, F);
    if (status == CIRCE_OK) status = circe__cuda_gemm(f->cuda, 0, 0, M, rz, M, 1.0, V, M, F, rz, 0.0, G, rz);
    if (status == CIRCE_OK && M <= SMALL_ROWS) {
        status = bring_home(f, V, G, rz, regression);
    } else if (status == CIRCE_OK) {
        regression->parts = circe__calloc(context, 1, sizeof *regression->parts);
        if (regression->parts == NULL) status = CIRCE_ERR_MEMORY;
        if (status == CIRCE_OK) *regression->parts = (circe__parts){f, M, rz};
    }
    if (status == CIRCE_OK) status = circe__progress(context, "fitting", ++holdout->steps_done, holdout->steps_total);
    if (status != CIRCE_OK) circe__regression_free(context, regression);
    return status;
}

/* W (M, n_ridge r_z), each ridge's weights side by side, in CIRCE__FIT_MEANS. */
static circe_status dense_weights_of(const circe__parts *parts, const double *ridge, int64_t n_ridge,
                                     double **own_ridge, double **W) {
    circe__fitter *f = parts->f;
    int64_t M = parts->n, wide = n_ridge * parts->rank_z;
    double *stacked = NULL, *V = f->blocks[CIRCE__FIT_VECTORS];
    circe_status status = circe__fit_place(f, CIRCE__FIT_CROSS, ridge, n_ridge, own_ridge);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_STACKED, M * wide, &stacked);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_MEANS, M * wide, W);
    if (status == CIRCE_OK)
        status = circe__fit_launched(circe__cuda_scale_spectrum(f->blocks[CIRCE__FIT_G], f->blocks[CIRCE__FIT_SPECTRUM],
                                                                *own_ridge, M, parts->rank_z, n_ridge, stacked,
                                                                f->cuda->stream));
    if (status != CIRCE_OK) return status;
    return circe__cuda_gemm(f->cuda, 1, 0, M, wide, M, 1.0, V, M, stacked, wide, 0.0, *W, wide);
}

/* A few ridges at a time. */
static circe_status some_errors(const circe__parts *parts, const double *ridge, int64_t n_ridge, double *error) {
    circe__fitter *f = parts->f;
    int64_t M = parts->n;
    double *own_ridge = NULL, *W = NULL, *levers = NULL, *errors = NULL, *totals = NULL;
    circe_status status = dense_weights_of(parts, ridge, n_ridge, &own_ridge, &W);
    if (status == CIRCE_OK)
        status = circe__fit_take(f, CIRCE__FIT_GRAM, n_ridge * M * (CIRCE__CUDA_LEVERAGE_PARTS + 1), &levers);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_ERRORS, n_ridge * M, &errors);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_STATE, n_ridge, &totals);
    if (status == CIRCE_OK) status = circe__fit_clear(f, totals, n_ridge);
    if (status == CIRCE_OK)
        status = circe__fit_launched(circe__cuda_leverage(f->blocks[CIRCE__FIT_VECTORS], f->blocks[CIRCE__FIT_SPECTRUM],
                                                          own_ridge, n_ridge, M, levers + n_ridge * M, levers,
                                                          f->cuda->stream));
    if (status == CIRCE_OK)
        status =
            circe__fit_launched(circe__cuda_loo_dense(W, levers, parts->rank_z, n_ridge, M, errors, f->cuda->stream));
    if (status == CIRCE_OK)
        status = circe__fit_launched(circe__cuda_add_sums(errors, M, M, n_ridge, totals, f->cuda->stream));
    return status == CIRCE_OK ? circe__fit_finish(f, totals, n_ridge, M, error) : status;
}

circe_status circe__fit_dense_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                                  int64_t n_ridge, double *error) {
    circe_status status = CIRCE_OK;
    if (regression->parts == NULL) return circe__dense_loo(holdout, regression, ridge, n_ridge, error);
    for (int64_t l = 0; status == CIRCE_OK && l < n_ridge; l += RIDGES_AT_ONCE)
        status = some_errors(regression->parts, ridge + l, circe__min(RIDGES_AT_ONCE, n_ridge - l), error + l);
    if (status != CIRCE_OK) return status;
    return circe__progress(holdout->context, "fitting", ++holdout->steps_done, holdout->steps_total);
}

circe_status circe__fit_dense_weights(const circe__regression *regression, double ridge, double **weights) {
    const circe__parts *parts = regression->parts;
    const circe_context *context = parts->f->cuda->context;
    int64_t count = parts->n * parts->rank_z;
    double *own_ridge = NULL, *W = NULL;
    *weights = circe__alloc(context, count, sizeof **weights);
    if (*weights == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = dense_weights_of(parts, &ridge, 1, &own_ridge, &W);
    if (status == CIRCE_OK) status = circe__fit_download(parts->f, *weights, W, (size_t)count * sizeof **weights);
    if (status == CIRCE_OK) return CIRCE_OK;
    circe__free(context, *weights);
    *weights = NULL;
    return status;
}
