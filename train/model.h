/* A trained predictor as a file: the network's tensors in PyTorch's naming, and in the metadata what is needed to use
 * it again: architecture, columns, statistics, settings, versions. */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "network.h"
#include "table.h"

typedef struct train_model {
    char *net; /* as train_network_parse reads it */
    train_layer_kind activation;
    train_loss_kind loss;
    int64_t outputs;           /* columns of the target, or classes */
    char **features, **target; /* names of columns */
    int64_t n_features, n_target;
    char **classes;                           /* names of the classes of a cross-entropy target; NULL: none */
    train_scaler feature_scale, target_scale; /* the target's only for MSE: classes are not scaled */
    char *settings;                           /* JSON text: everything else that should be known of the run; NULL: {} */
    float *params;                            /* flat, host memory */
    int64_t n_params;
} train_model;

/* Whether the parts of a model agree with each other: counts, statistics, the number of parameters. */
circe_status train_model_check(const train_model *model);

circe_status train_model_save(circe_context *context, const train_model *model, const char *path);
/* Everything in *model belongs to it (malloc): train_model_free. Left empty on failure. */
circe_status train_model_load(circe_context *context, const char *path, train_model *model);
void train_model_free(train_model *model);

/* A network of the model's architecture with its parameters, for batches of max_batch rows. */
circe_status train_model_network(train_device *device, const train_model *model, int64_t max_batch,
                                 train_network **network);

/* raw (n, n_features), as in the table, to predictions in the units of the target (n, outputs; probabilities of the
 * classes for cross-entropy), float64. Any number of rows, none too. */
circe_status train_model_predict(train_network *network, const train_model *model, const circe_mat *raw,
                                 circe_mat *out);

#endif
