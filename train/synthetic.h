/* The paper's four structural causal models (appendix "Synthetic data"), their interventions, and the least error of
 * any predictor that is invariant to Z. All draws are functions of (seed, row): row i is the same whatever n, and
 * whatever the number of threads. */
#pragma once

#include <stdbool.h>

#include "circe/circe.h"
#include "train/table.h"

typedef enum synthetic_kind {
    SYNTHETIC_UNIVARIATE_1 = 1,
    SYNTHETIC_UNIVARIATE_2 = 2,
    SYNTHETIC_MULTIVARIATE_1 = 3, /* z of d dimensions */
    SYNTHETIC_MULTIVARIATE_2 = 4, /* y of d dimensions */
} synthetic_kind;

typedef struct synthetic_model {
    synthetic_kind kind;
    int64_t d; /* of the multivariate ones; 1 otherwise */
} synthetic_model;

/* "univariate1", "multivariate2", ... */
const char *synthetic_name(synthetic_kind kind);
/* One of the four, with a d it can have (multivariate 1 needs two dimensions at least). */
circe_status synthetic_check(const synthetic_model *model);
int64_t synthetic_dim_y(const synthetic_model *model);
int64_t synthetic_dim_z(const synthetic_model *model);

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* A sample as drawn, not standardised; float64, owned. noise_a keeps epsilon_A for interventions. */
typedef struct synthetic_sample {
    int64_t n;
    circe_mat a, y, z, b, noise_a;
} synthetic_sample;

/* Rows first .. first + n - 1 of an endless sample: training, test and holdout rows under one seed. */
circe_status synthetic_draw_rows(const circe_context *context, const synthetic_model *model, uint64_t seed,
                                 int64_t first, int64_t n, synthetic_sample *sample);
void synthetic_free(synthetic_sample *sample);

/* A*(z', y, epsilon_A): A recomputed after setting z to z', with the row's own noise. One row. */
double synthetic_intervene(const synthetic_model *model, const double *z, const double *y, double noise_a);

/* E[B | A, Y, Z], the best unregularised predictor, in the units of B. One row. */
double synthetic_mean_b(const synthetic_model *model, double a, const double *y, const double *z);

/* Z' given y: a fresh draw of Z for this row's y; `draw` tells the draws of a row apart. */
void synthetic_draw_z(const synthetic_model *model, const double *y, uint64_t seed, int64_t row, int64_t draw,
                      double *z);

/* ---- as a network sees them -------------------------------------------------------------------------------------- */

/* Zero mean and unit variance by the statistics of a training sample: of the features (a, y..., z...) and of b. */
typedef struct synthetic_scales {
    train_scaler features, target;
} synthetic_scales;

circe_status synthetic_scales_fit(const synthetic_sample *training, synthetic_scales *scales);
void synthetic_scales_free(synthetic_scales *scales);

/* features (rows, 1 + dim_y + dim_z) := raw columns as `synthetic_predict` gets them, standardised: the body of such a
 * callback is this, the network, and nothing else. */
circe_status synthetic_standardise(const circe_context *context, const synthetic_model *model,
                                   const synthetic_scales *scales, int64_t rows, const double *a, const double *y,
                                   const double *z, float *features);

/* A whole sample, standardised, in the fields and precisions of train_data: features and target (n, 1) float32, y and z
 * float64. Owned. */
typedef struct synthetic_points {
    circe_mat features, target, y, z;
} synthetic_points;

circe_status synthetic_points_make(const synthetic_scales *scales, const synthetic_sample *sample,
                                   synthetic_points *points);
void synthetic_points_free(synthetic_points *points);

/* ---- invariance -------------------------------------------------------------------------------------------------- */

/* VCF = E_x Var_{z'} f(A*(z'), y, z'): for each of the first `points` rows of a test sample, `draws` interventions.
 * support = false: z' are whole rows of the sample (P(Z)), drawn with replacement; true: z' ~ P(Z | y). predict sees
 * raw, unscaled columns (a, y..., z...), tens of thousands of rows at a time, and returns one number a row; VCF is of
 * these numbers, so a callback that returns predictions of the standardised b gives it in units of Var(B). Variances
 * are unbiased. */
typedef circe_status (*synthetic_predict)(void *user, int64_t rows, const double *a, const double *y, const double *z,
                                          double *prediction);
circe_status synthetic_vcf(const circe_context *context, const synthetic_model *model, const synthetic_sample *sample,
                           int64_t points, int64_t draws, bool support, uint64_t seed, synthetic_predict predict,
                           void *user, double *vcf);

/* Without training, from `n` draws of y (1,024 at least, rounded up to whole blocks): the floor E[Var(B|Y)] / Var(B) of
 * the error of any predictor that is invariant to Z, and VCF, both kinds, of the best unregularised predictor
 * E[B | A, Y, Z] (in units of Var(B)). */
typedef struct synthetic_limits {
    double floor, vcf, vcf_support;
    /* Standard errors; for multivariate 1, whose B^2 grows with Y^6, too small below some 10^5 draws. */
    double floor_error, vcf_error, vcf_support_error;
} synthetic_limits;

circe_status synthetic_compute_limits(const circe_context *context, const synthetic_model *model, uint64_t seed,
                                      int64_t n, synthetic_limits *limits);

/* Mean over the rows of a sample of Var(B | y_i), in the units of B. Divided by the square of the deviation that B was
 * standardised with, it is the floor of the error on that sample. */
circe_status synthetic_conditional_variance(const circe_context *context, const synthetic_model *model,
                                            const synthetic_sample *sample, uint64_t seed, double *variance);
