/* Fits on the device, low rank: F_y'F_y and F_y'F_z by blocks of rows with cuBLAS, the spectrum by cuSOLVER (LAPACK
 * where the matrix is small), leave-one-out of every ridge in one pass. lib/cme/lowrank.c has the formulas. */
#include <math.h>
#include <string.h>

#include "cuda/fit_parts.h"

enum {
    HOST_EIGEN = 256, /* up to here LAPACK is done before cuSOLVER has begun */
};

/* Both bases and a block's features, for a pass over the rows. */
typedef struct pass {
    circe__fit_basis y, z;
    int64_t rows; /* of a block */
    double *points_y, *points_z;
    double *features_y, *features_z, *residuals; /* (rows, r_y), (rows, r_z), (2, rows) */
} pass;

static circe_status begin_pass(circe__fitter *f, const circe__holdout *holdout, const circe__regression *regression,
                               int64_t more, pass *p) {
    int64_t ry = regression->y_basis.rank, rz = holdout->z_basis->rank;
    p->points_y = f->blocks[CIRCE__FIT_Y];
    p->points_z = f->blocks[CIRCE__FIT_Z];
    p->rows = circe__fit_block_rows(holdout->rows, 2 * (ry + rz) + more);
    circe_status status = circe__fit_place_basis(f, &regression->y_basis, true, &p->y);
    if (status == CIRCE_OK) status = circe__fit_place_basis(f, holdout->z_basis, false, &p->z);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_FEATURES_Y, p->rows * ry, &p->features_y);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_FEATURES_Z, p->rows * rz, &p->features_z);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_RESIDUALS, 2 * p->rows, &p->residuals);
    return status;
}

static circe_status end_pass(circe__holdout *holdout) {
    holdout->steps_done += (holdout->rows + CIRCE__BLOCK_ROWS - 1) / CIRCE__BLOCK_ROWS;
    return circe__progress(holdout->context, "fitting", circe__min(holdout->steps_done, holdout->steps_total),
                           holdout->steps_total);
}

/* S and F_y'F_z of a block of rows. */
static circe_status add_block(circe__fitter *f, const pass *p, int64_t first, int64_t n, double *S, double *cross,
                              double *totals) {
    int64_t ry = p->y.rank, rz = p->z.rank;
    const double *y = p->points_y + first * p->y.cols;
    circe_status status = circe__fit_features(f, &p->y, y, n, p->features_y);
    if (status == CIRCE_OK) status = circe__fit_features(f, &p->z, p->points_z + first * p->z.cols, n, p->features_z);
    if (status == CIRCE_OK)
        status = circe__fit_launched(circe__cuda_residuals(&p->y.kernel, y, n, p->y.cols, p->features_y, ry, 1,
                                                           p->residuals, p->residuals + p->rows, f->cuda->stream));
    if (status == CIRCE_OK)
        status = circe__fit_launched(circe__cuda_add_sums(p->residuals, n, p->rows, 2, totals, f->cuda->stream));
    if (status == CIRCE_OK) /* a general product: cuBLAS splits its long sum, which its symmetric one does not */
        status = circe__cuda_gemm(f->cuda, 1, 0, ry, ry, n, 1.0, p->features_y, ry, p->features_y, ry, 1.0, S, ry);
    if (status != CIRCE_OK) return status;
    return circe__cuda_gemm(f->cuda, 1, 0, ry, rz, n, 1.0, p->features_y, ry, p->features_z, rz, 1.0, cross, rz);
}

circe_status circe__fit_sums(circe__holdout *holdout, circe__regression *regression, double *cross) {
    circe__fitter *f = circe__fitter_of(holdout->by);
    pass p;
    int64_t ry = regression->y_basis.rank, rz = holdout->z_basis->rank;
    double *S = NULL, *own = NULL, *totals = NULL, found[2] = {0.0, 0.0};
    circe_status status = begin_pass(f, holdout, regression, 0, &p);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_SUMS, ry * ry, &S);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_CROSS, ry * rz, &own);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_STATE, 2, &totals);
    if (status == CIRCE_OK) status = circe__fit_clear(f, S, ry * ry);
    if (status == CIRCE_OK) status = circe__fit_clear(f, own, ry * rz);
    if (status == CIRCE_OK) status = circe__fit_clear(f, totals, 2);
    for (int64_t i = 0; status == CIRCE_OK && i < holdout->rows; i += p.rows)
        status = add_block(f, &p, i, circe__min(p.rows, holdout->rows - i), S, own, totals);
    if (status == CIRCE_OK) status = circe__fit_download(f, regression->vectors, S, (size_t)(ry * ry) * sizeof *S);
    if (status == CIRCE_OK) status = circe__fit_download(f, cross, own, (size_t)(ry * rz) * sizeof *own);
    if (status == CIRCE_OK) status = circe__fit_download(f, found, totals, sizeof found);
    regression->trace_residual = found[0] > 0.0 ? found[1] / found[0] : 0.0;
    return status == CIRCE_OK ? end_pass(holdout) : status;
}

circe_status circe__fit_decompose(const circe_context *context, circe__regression *regression) {
    circe__fitter *f = circe__fitter_of(regression->by);
    int64_t n = regression->n;
    double *V = NULL, *s = NULL;
    if (n <= HOST_EIGEN) {
        regression->by = NULL;
        circe_status alone = circe__regression_decompose(context, regression);
        regression->by = &f->by;
        return alone;
    }
    circe_status status = circe__fit_place(f, CIRCE__FIT_SUMS, regression->vectors, n * n, &V);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_SPECTRUM, n, &s);
    if (status == CIRCE_OK) status = circe__cuda_eigen(f->cuda, n, V, s);
    if (status == CIRCE_OK) status = circe__fit_download(f, regression->vectors, V, (size_t)(n * n) * sizeof *V);
    if (status == CIRCE_OK) status = circe__fit_download(f, regression->s, s, (size_t)n * sizeof *s);
    for (int64_t k = 0; status == CIRCE_OK && k < n; k++) regression->s[k] = fmax(regression->s[k], 0.0);
    return status;
}

/* What the errors of every block need: s and the ridges; diag(1 / (s + ridge)) G side by side; (V L^-1)'. */
typedef struct scales {
    double *s, *ridge, *stacked, *rotation, *totals;
} scales;

static circe_status place_scales(circe__fitter *f, const circe__regression *regression, const circe__fit_basis *y,
                                 int64_t rz, const double *ridge, int64_t n_ridge, scales *to) {
    int64_t ry = regression->n;
    double *G = NULL, *V = NULL;
    circe_status status = circe__fit_take(f, CIRCE__FIT_SPECTRUM, ry + n_ridge, &to->s);
    if (status != CIRCE_OK) return status;
    to->ridge = to->s + ry;
    status = circe__fit_upload(f, to->s, regression->s, ry);
    if (status == CIRCE_OK) status = circe__fit_upload(f, to->ridge, ridge, n_ridge);
    if (status == CIRCE_OK) status = circe__fit_place(f, CIRCE__FIT_CROSS, regression->G, ry * rz, &G);
    if (status == CIRCE_OK) status = circe__fit_place(f, CIRCE__FIT_VECTORS, regression->vectors, ry * ry, &V);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_STACKED, ry * rz * n_ridge, &to->stacked);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_SUMS, ry * ry, &to->rotation);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_STATE, n_ridge, &to->totals);
    if (status == CIRCE_OK) status = circe__fit_clear(f, to->totals, n_ridge);
    if (status == CIRCE_OK)
        status = circe__fit_launched(
            circe__cuda_scale_spectrum(G, to->s, to->ridge, ry, rz, n_ridge, to->stacked, f->cuda->stream));
    if (status != CIRCE_OK) return status;
    return circe__cuda_gemm(f->cuda, 1, 1, ry, ry, ry, 1.0, y->inverse, ry, V, ry, 0.0, to->rotation, ry);
}

static circe_status block_errors(circe__fitter *f, const pass *p, const scales *to, int64_t first, int64_t n,
                                 int64_t n_ridge, double *means, double *errors) {
    int64_t ry = p->y.rank, rz = p->z.rank, wide = n_ridge * rz;
    const double *z = p->points_z + first * p->z.cols;
    double *K = NULL, *q = p->features_y, *residual = p->residuals + p->rows;
    circe_status status = circe__fit_features(f, &p->z, z, n, p->features_z);
    if (status == CIRCE_OK)
        status = circe__fit_launched(circe__cuda_residuals(&p->z.kernel, z, n, p->z.cols, p->features_z, rz, 1,
                                                           p->residuals, residual, f->cuda->stream));
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_GRAM, n * ry, &K);
    if (status == CIRCE_OK) status = circe__fit_gram(f, &p->y, p->points_y + first * p->y.cols, n, K);
    if (status == CIRCE_OK)
        status = circe__cuda_gemm(f->cuda, 0, 0, n, ry, ry, 1.0, K, ry, to->rotation, ry, 0.0, q, ry);
    if (status == CIRCE_OK)
        status = circe__cuda_gemm(f->cuda, 0, 0, n, wide, ry, 1.0, q, ry, to->stacked, wide, 0.0, means, wide);
    if (status == CIRCE_OK)
        status = circe__fit_launched(circe__cuda_loo_lowrank(q, to->s, to->ridge, ry, p->features_z, residual, means,
                                                             rz, n_ridge, n, errors, f->cuda->stream));
    return status == CIRCE_OK
               ? circe__fit_launched(circe__cuda_add_sums(errors, n, n, n_ridge, to->totals, f->cuda->stream))
               : status;
}

circe_status circe__fit_lowrank_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                                    int64_t n_ridge, double *error) {
    circe__fitter *f = circe__fitter_of(holdout->by);
    pass p;
    scales to;
    int64_t rz = holdout->z_basis->rank;
    double *means = NULL, *errors = NULL;
    circe_status status = begin_pass(f, holdout, regression, n_ridge * (rz + 1), &p);
    if (status == CIRCE_OK) status = place_scales(f, regression, &p.y, rz, ridge, n_ridge, &to);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_MEANS, p.rows * n_ridge * rz, &means);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_ERRORS, p.rows * n_ridge, &errors);
    for (int64_t i = 0; status == CIRCE_OK && i < holdout->rows; i += p.rows)
        status = block_errors(f, &p, &to, i, circe__min(p.rows, holdout->rows - i), n_ridge, means, errors);
    if (status == CIRCE_OK) status = circe__fit_finish(f, to.totals, n_ridge, holdout->rows, error);
    return status == CIRCE_OK ? end_pass(holdout) : status;
}
