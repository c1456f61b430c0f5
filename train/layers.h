/* The kinds of layers, independent of the device: shapes, parameters, their names and initial distribution. A new kind
 * needs a row in the table of layers.c and, on each device that supports it, its train_layer_ops. */
#pragma once

#include "train/network.h"

enum { TRAIN_MAX_LAYER_TENSORS = 2 };

/* One tensor of a layer's parameters. */
typedef struct train_layer_tensor {
    const char *name; /* PyTorch's: "weight", "bias" */
    int n_dims;
    int64_t shape[4];
    int64_t first, count;   /* where it lies within the layer's parameters */
    double mean, deviation; /* He: drawn from N(mean, deviation^2) */
    double bound;           /* uniform: from mean +- bound */
} train_layer_tensor;

typedef struct train_layer_type {
    train_layer_kind kind;
    const char *name;
    bool elementwise; /* may stand between the dense layers of train_network_parse */
    /* layer->in and slope are set: fills in out, n_params and fan_in, or refuses. */
    circe_status (*plan)(const train_layer_spec *spec, train_layer *layer);
    /* Describes the tensors, in the order of the flat array; returns how many. */
    int (*tensors)(const train_layer *layer, train_layer_tensor *tensors);
    /* The same for the numbers that it keeps; NULL: none. */
    int (*buffers)(const train_layer *layer, train_layer_tensor *tensors);
} train_layer_type;

/* NULL: there is no such kind. */
const train_layer_type *train_layer_type_of(train_layer_kind kind);

/* Larger widths are taken for typing errors. */
enum { TRAIN_MAX_WIDTH = 16384, TRAIN_MAX_LAYERS = 2001, TRAIN_MAX_KERNEL = 64 };
