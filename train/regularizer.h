/* gamma times this is added to the loss: a measure of how much a layer's output x depends on z given y, on the batch.
 * It is a circe_measure that is bound to the training rows. */
#ifndef TRAIN_REGULARIZER_H
#define TRAIN_REGULARIZER_H

#include "circe/circe.h"

/* y, z of the training rows and of the holdout, which the mean of z given y, width of y and ridge are learned from. The
 * holdout may be NULL or have no rows where nothing is: hsic, and hscic and gcm with one sigma2_y and one ridge. A
 * median width is that of the training rows. Kind none gives NULL, which is no failure. */
circe_status train_regularizer_create(circe_context *context, const circe_measure_options *options, const circe_mat *y,
                                      const circe_mat *z, const circe_mat *holdout_y, const circe_mat *holdout_z,
                                      circe_measure **regularizer);

#endif
