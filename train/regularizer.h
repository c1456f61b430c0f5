/* gamma times this is added to the loss: a measure of how much a layer's output x depends on z given y, on the batch.
 * It is a circe_measure that is bound to the training rows. */
#pragma once

#include <stdbool.h>

#include "circe/circe.h"

/* y and z of the training rows and of the holdout, from which the mean of z given y, the width of y and the ridge are
 * learned. The holdout may be NULL or empty if nothing is learned: for hsic, and for hscic and gcm with one sigma2_y
 * and one ridge. A median width is that of the training rows. Kind none gives NULL and CIRCE_OK. */
circe_status train_regularizer_create(circe_context *context, const circe_measure_options *options, const circe_mat *y,
                                      const circe_mat *z, const circe_mat *holdout_y, const circe_mat *holdout_z,
                                      circe_measure **regularizer);

/* The same with weights of the training rows and of the holdout; NULL: rows count alike. */
circe_status train_regularizer_weighted(circe_context *context, const circe_measure_options *options,
                                        const circe_mat *y, const circe_mat *z, const float *weights,
                                        const circe_mat *holdout_y, const circe_mat *holdout_z,
                                        const float *holdout_weights, circe_measure **regularizer);

/* The weights of the next n rows of a measure; false in *enough: too few of them are positive to be measured. */
circe_status train_regularizer_weigh(circe_measure *regularizer, const float *weights, int64_t n, bool *enough);
