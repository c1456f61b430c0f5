/* Inside of a network. */
#ifndef TRAIN_NETWORK_INTERNAL_H
#define TRAIN_NETWORK_INTERNAL_H

#include "layers.h"

/* Layers [first, end) that are run together: either all of them rowwise, or one layer that is not. */
typedef struct train_segment {
    int64_t first, end;
    bool rowwise;
    int64_t first_param, n_params;
    int64_t least_rows; /* for which a thread is worth its while */
} train_segment;

/* Names of the tensors under one prefix. */
typedef struct train_names {
    char *prefix;
    char **names; /* (n_tensors) */
    struct train_names *next;
} train_names;

struct train_network {
    train_device *device;
    train_shape input;
    int64_t max_batch, n_layers, n_segments, n_params, max_parts;
    int64_t widest; /* numbers a row, over the outputs of all layers */
    train_layer *layers;
    const train_layer_ops **ops; /* (n_layers) */
    train_segment *segments;
    train_names **names; /* behind a pointer: they are made when they are asked for, of a network that is const */

    /* In the device's memory. */
    float *params, *grads; /* (n_params) */
    float *part_grads;     /* (max_parts - 1, n_params): of all parts of a batch but the first */
    float **activations;   /* (n_layers), each (max_batch, out) */
    float **taps;          /* (n_layers), NULL: none */
    float *output_grad;    /* (max_batch, out) */
    float *inside[2];      /* (max_batch, widest): gradients between the layers of a segment */
    float *between[2];     /* the same between segments; NULL where there is one */
    float *staging;        /* (max_batch, input), of predict */
    int64_t last_rows;     /* of the last forward; 0: none yet */
};

/* Zeroed numbers in the device's memory; NULL with the error text set. */
float *train_network_buffer(const train_network *network, int64_t rows, int64_t cols);

/* Cuts the layers into segments. */
circe_status train_segments_make(train_network *network);
void train_segments_forward(train_network *network, int64_t rows, const float *in);
void train_segments_backward(train_network *network, int64_t rows, const float *in);

void train_names_free(train_names *names, int64_t n_tensors);

#endif
