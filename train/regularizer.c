/* A measure, ready for a training loop. */
#include "train/regularizer.h"

#include <stdlib.h>

#include "base/owned.h"

circe_status train_regularizer_weigh(circe_measure *regularizer, const float *weights, int64_t n, bool *enough) {
    enum { LEAST = 4 }; /* what the estimators need */
    int64_t positive = 0;
    *enough = true;
    if (weights == NULL || n == 0) return CIRCE_OK;
    OWNED double *wide = malloc((size_t)n * sizeof *wide);
    if (wide == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld weights", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        wide[i] = (double)weights[i];
        positive += wide[i] > 0.0;
    }
    *enough = positive >= LEAST;
    return *enough ? circe_measure_set_weights(regularizer, wide, n) : CIRCE_OK;
}

/* Rows for a fit or a data set. */
static circe_status weigh(circe_measure *regularizer, const float *weights, int64_t n, const char *of) {
    bool enough = true;
    circe_status status = train_regularizer_weigh(regularizer, weights, n, &enough);
    if (status != CIRCE_OK || enough) return status;
    return circe_fail(CIRCE_ERR_VALUE, "fewer than 4 %s rows have a weight above 0", of);
}

circe_status train_regularizer_weighted(circe_context *context, const circe_measure_options *options,
                                        const circe_mat *y, const circe_mat *z, const float *weights,
                                        const circe_mat *holdout_y, const circe_mat *holdout_z,
                                        const float *holdout_weights, circe_measure **regularizer) {
    *regularizer = NULL;
    if (options != NULL && options->kind == CIRCE_MEASURE_NONE) return CIRCE_OK;
    circe_status status = circe_measure_create(context, options, regularizer);
    if (status == CIRCE_OK) status = circe_measure_settle_z(*regularizer, z);
    if (status == CIRCE_OK && holdout_y != NULL && holdout_y->rows > 0) {
        status = weigh(*regularizer, holdout_weights, holdout_y->rows, "holdout");
        if (status == CIRCE_OK) status = circe_measure_fit(*regularizer, holdout_y, holdout_z);
    }
    if (status == CIRCE_OK) status = weigh(*regularizer, weights, z->rows, "training");
    if (status == CIRCE_OK) status = circe_measure_bind(*regularizer, y, z);
    if (status == CIRCE_OK) return CIRCE_OK;
    circe_measure_destroy(*regularizer);
    *regularizer = NULL;
    return status;
}

circe_status train_regularizer_create(circe_context *context, const circe_measure_options *options, const circe_mat *y,
                                      const circe_mat *z, const circe_mat *holdout_y, const circe_mat *holdout_z,
                                      circe_measure **regularizer) {
    return train_regularizer_weighted(context, options, y, z, NULL, holdout_y, holdout_z, NULL, regularizer);
}
