/* What the tests of networks for images share: such networks, a batch for one of them with weights on outputs, and a
 * step forwards and backwards. */
#pragma once

#include "tests/train/network_support.h"

#define CONV(channels, size, step, edge) \
    { .kind = TRAIN_CONVOLUTION, .width = channels, .kernel = size, .stride = step, .padding = edge }

/* No parameter at a value that hides a slip: biases are not 0, weights of batch norm not 1. */
static inline train_network *make_network(train_device *device, train_shape input, const train_layer_spec *specs,
                                          int64_t n, int64_t max_batch) {
    assert_true(n_networks < MAX_OBJECTS);
    train_ok(train_network_create(device, input, specs, n, max_batch, &networks[n_networks]));
    train_network *network = networks[n_networks++];
    train_ok(train_network_initialise(network, TRAIN_START_HE, 7));
    const float *noise = normals(70, train_network_n_params(network));
    for (int64_t i = 0; i < train_network_n_params(network); i++) train_network_params(network)[i] += 0.2f * noise[i];
    return network;
}

static inline train_network *make_parsed(train_device *device, const char *text, train_layer_kind activation,
                                         train_shape input, int64_t outputs, int64_t max_batch) {
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    train_ok(train_network_parse(text, activation, outputs, &specs, &n));
    train_network *network = make_network(device, input, specs, n, max_batch);
    free(specs);
    return network;
}

/* ---- a batch of them -------------------------------------------------------------------------------------------- */

/* A batch, and weights on outputs: the objective is the sum over layers of <weights[l], output l>, the last one among
 * them. */
typedef struct problem {
    train_network *network;
    train_device *device;
    int64_t rows;
    const float *in;
    double *wide_in; /* the same */
    float **weights; /* (n_layers), NULL: none */
    bool training;
    double *buffers; /* before the forward */
} problem;

static inline int64_t numbers_of(const problem *p, int64_t l) {
    return p->rows * train_shape_count(train_network_layer(p->network, l)->out);
}

static inline problem make_problem(train_network *network, train_device *device, int64_t rows, bool training) {
    problem p = {.network = network, .device = device, .rows = rows, .training = training};
    int64_t n = train_network_n_layers(network), n_buffers = train_network_n_buffers(network);
    int64_t inputs = rows * train_shape_count(train_network_layer(network, 0)->in);
    p.in = normals(90, inputs);
    p.wide_in = doubles(p.in, inputs);
    p.weights = test_memory((size_t)n * sizeof *p.weights);
    p.weights[n - 1] = normals(91, numbers_of(&p, n - 1));
    const float *drawn = normals(92, n_buffers + 1);
    for (int64_t i = 0; i < n_buffers; i++) train_network_buffers(network)[i] = 1.0f + 0.3f * fabsf(drawn[i]);
    p.buffers = doubles(train_network_buffers(network), n_buffers);
    return p;
}

static inline void put_tap(problem *p, int64_t l) {
    float *tap = NULL;
    train_ok(train_network_tap(p->network, l, &tap));
    p->weights[l] = normals(200 + (uint64_t)l, numbers_of(p, l));
}

static inline void forward_backward(const problem *p) {
    int64_t last = train_network_n_layers(p->network) - 1;
    train_network_set_training(p->network, p->training);
    train_ok(train_network_forward(p->network, p->rows, p->in));
    memcpy(train_network_output_grad(p->network), p->weights[last], (size_t)numbers_of(p, last) * sizeof(float));
    for (int64_t l = 0; l < last; l++) {
        float *tap = NULL;
        if (p->weights[l] == NULL) continue;
        train_ok(train_network_tap(p->network, l, &tap));
        memcpy(tap, p->weights[l], (size_t)numbers_of(p, l) * sizeof *tap);
    }
    train_ok(train_network_backward(p->network, p->rows, p->in));
}
