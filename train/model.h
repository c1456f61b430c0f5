/* A trained predictor of tables or images, and its file. The file has the network's tensors under PyTorch's names and,
 * in the metadata, what is needed to use them: architecture, columns, statistics, settings, versions. */
#pragma once

#include "train/network.h"
#include "train/source.h"
#include "train/table.h"

typedef struct train_model {
    char *net; /* as train_network_parse reads it */
    train_layer_kind activation;
    train_loss_kind loss;
    int64_t outputs;           /* columns of the target, or classes */
    char **features, **target; /* names of columns; images have no features: NULL and 0 */
    int64_t n_features, n_target;
    train_shape image;                /* channels by lines by columns; n_dims 0: a table's */
    double pixel_scale, pixel_offset; /* of images: the network sees scale * v + offset of a pixel v from 0 to 1 */
    char **classes;                   /* names of the classes of a cross-entropy target; NULL: none */
    train_scaler feature_scale, target_scale; /* the features' only of tables, the target's only for MSE */
    char *settings;                           /* JSON text: everything else worth knowing about the run; NULL: {} */
    float *params, *buffers;                  /* flat, host memory */
    int64_t n_params, n_buffers;
    bool has_checksum; /* the file it was loaded from; those of older versions have none */
} train_model;

/* Whether it is a predictor of images. */
static inline bool train_model_has_images(const train_model *model) { return model->image.n_dims == 3; }

/* Whether the parts of a model agree with each other: counts, statistics, the number of parameters. */
circe_status train_model_check(const train_model *model);

circe_status train_model_save(circe_context *context, const train_model *model, const char *path);
/* Everything in *model belongs to it (malloc): train_model_free. Left empty on failure. */
circe_status train_model_load(circe_context *context, const char *path, train_model *model);
void train_model_free(train_model *model);

/* The network's parameters and buffers, copied into a model that has none yet. */
circe_status train_model_take(train_network *network, train_model *model);

/* A network of the model's architecture with its parameters and buffers, for batches of max_batch rows. */
circe_status train_model_network(train_device *device, const train_model *model, int64_t max_batch,
                                 train_network **network);

/* raw (n, n_features), as in the table, to predictions in the units of the target (n, outputs; probabilities of the
 * classes for cross-entropy), float64. Any number of rows, none too. */
circe_status train_model_predict(train_network *network, const train_model *model, const circe_mat *raw,
                                 circe_mat *out);

/* The same for a model of images. Pixels become numbers as they did in training, so the source's own scale and offset
 * are not used (floats are what the network sees). */
circe_status train_model_predict_source(train_network *network, const train_model *model, const train_source *source,
                                        circe_mat *out);
