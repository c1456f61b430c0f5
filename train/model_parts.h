/* What model.c and model_file.c share. */
#pragma once

#include "train/model.h"

/* Parameters and buffers of a network of this architecture, which is not made; refuses one that cannot be. Those of the
 * model are not looked at. */
circe_status train_model_count(const train_model *model, int64_t *n_params, int64_t *n_buffers);

/* The network without the model's parameters. */
circe_status train_model_skeleton(train_device *device, const train_model *model, int64_t max_batch,
                                  train_network **network);

/* As train_model_check, without the parameters. */
circe_status train_model_check_parts(const train_model *model);
