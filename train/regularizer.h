/* gamma times this is added to the loss: a measure of how much a layer's output x depends on z given y, on the batch.
 * It is a circe_measure that is bound to the training rows. */
#ifndef TRAIN_REGULARIZER_H
#define TRAIN_REGULARIZER_H

#include "circe/circe.h"

/* y and z of the training rows and of the holdout, from which the mean of z given y, the width of y and the ridge are
 * learned. The holdout may be NULL or empty if nothing is learned: for hsic, and for hscic and gcm with one sigma2_y
 * and one ridge. A median width is that of the training rows. Kind none gives NULL and CIRCE_OK. */
circe_status train_regularizer_create(circe_context *context, const circe_measure_options *options, const circe_mat *y,
                                      const circe_mat *z, const circe_mat *holdout_y, const circe_mat *holdout_z,
                                      circe_measure **regularizer);

#endif
