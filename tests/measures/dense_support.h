/* What the tests of networks of dense layers share: such networks, a batch for one of them, and a step forwards and
 * backwards. */
#pragma once

#include "tests/train/network_support.h"

static inline train_network *make_network(train_device *device, int64_t inputs, const train_layer_spec *specs,
                                          int64_t n, int64_t max_batch) {
    train_shape input = {1, {inputs}};
    assert_true(n_networks < MAX_OBJECTS);
    train_ok(train_network_create(device, input, specs, n, max_batch, &networks[n_networks]));
    train_ok(train_network_initialise(networks[n_networks], TRAIN_START_HE, 7));
    return networks[n_networks++];
}

/* Parsed, initialised, and with biases that are not 0. */
static inline train_network *make_parsed(train_device *device, const char *text, train_layer_kind activation,
                                         int64_t inputs, int64_t outputs, int64_t max_batch) {
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    train_ok(train_network_parse(text, activation, outputs, &specs, &n));
    train_network *network = make_network(device, inputs, specs, n, max_batch);
    free(specs);
    float *params = train_network_params(network);
    for (int64_t l = 0; l < train_network_n_layers(network); l++) {
        const train_layer *layer = train_network_layer(network, l);
        int64_t biases = layer->n_params == 0 ? 0 : layer->out.size[0];
        for (int64_t k = 0; k < biases; k++)
            params[layer->first_param + layer->n_params - biases + k] = 0.1f * (float)((k * 7 + l * 3) % 11 - 5);
    }
    return network;
}

/* ---- a batch of them -------------------------------------------------------------------------------------------- */

/* A batch, what is asked of it, and the weights that taps put on the outputs of layers: objective = loss + sum over
 * tapped layers of <weights, output>. */
typedef struct problem {
    train_network *network;
    int64_t rows;
    const float *in, *target;
    train_loss_kind loss;
    float **taps; /* (n_layers), NULL: none; NULL for no taps at all */
} problem;

static inline const train_layer *last_layer(const train_network *network) {
    return train_network_layer(network, train_network_n_layers(network) - 1);
}

static inline float *targets(train_loss_kind loss, int64_t rows, int64_t cols) {
    if (loss == TRAIN_MSE) return normals(91, rows * cols);
    float *classes = test_memory((size_t)rows * sizeof *classes);
    for (int64_t r = 0; r < rows; r++) classes[r] = (float)((r * 5 + 1) % cols);
    return classes;
}

static inline problem make_problem(train_network *network, train_loss_kind loss, int64_t rows) {
    problem p = {.network = network, .rows = rows, .loss = loss};
    p.in = normals(90, rows * train_shape_count(train_network_layer(network, 0)->in));
    p.target = targets(loss, rows, train_shape_count(last_layer(network)->out));
    return p;
}

/* The loss and its gradients through the network; returns the loss, without what the taps add. */
static inline double forward_backward(const problem *p) {
    train_network *network = p->network;
    train_device *device = devices[0];
    double loss = 0.0;
    for (int64_t l = 0; p->taps != NULL && l < train_network_n_layers(network); l++) {
        float *tap = NULL;
        if (p->taps[l] == NULL) continue;
        train_ok(train_network_tap(network, l, &tap));
        int64_t numbers = p->rows * train_shape_count(train_network_layer(network, l)->out);
        memcpy(tap, p->taps[l], (size_t)numbers * sizeof *tap);
    }
    train_ok(train_network_forward(network, p->rows, p->in));
    device->ops->loss(device, p->loss, p->rows, train_shape_count(last_layer(network)->out),
                      train_network_output(network), p->target, NULL, &loss, train_network_output_grad(network));
    train_ok(train_network_backward(network, p->rows, p->in));
    return loss;
}
