/* A measure, ready for a training loop. */
#include "train/regularizer.h"

circe_status train_regularizer_create(circe_context *context, const circe_measure_options *options, const circe_mat *y,
                                      const circe_mat *z, const circe_mat *holdout_y, const circe_mat *holdout_z,
                                      circe_measure **regularizer) {
    if (regularizer == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "regularizer must not be NULL");
    *regularizer = NULL;
    if (options != NULL && options->kind == CIRCE_MEASURE_NONE) return CIRCE_OK;
    circe_status status = circe_measure_create(context, options, regularizer);
    if (status == CIRCE_OK) status = circe_measure_settle_z(*regularizer, z);
    if (status == CIRCE_OK && holdout_y != NULL && holdout_y->rows > 0)
        status = circe_measure_fit(*regularizer, holdout_y, holdout_z);
    if (status == CIRCE_OK) status = circe_measure_bind(*regularizer, y, z);
    if (status == CIRCE_OK) return CIRCE_OK;
    circe_measure_destroy(*regularizer);
    *regularizer = NULL;
    return status;
}
