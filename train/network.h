/* A network: a sequence of layers with all parameters in one flat array, so that the optimiser, checkpoints and sums
 * over machines see one vector. Buffers for a batch are made once: a step allocates nothing. */
#ifndef TRAIN_NETWORK_H
#define TRAIN_NETWORK_H

#include "device.h"

/* What to build: width is that of dense layers, slope that of leaky ReLU (0: 0.01). */
typedef struct train_layer_spec {
    train_layer_kind kind;
    int64_t width;
    float slope;
} train_layer_spec;

typedef struct train_network train_network;

circe_status train_network_create(train_device *device, train_shape input, const train_layer_spec *specs,
                                  int64_t n_specs, int64_t max_batch, train_network **network);
void train_network_destroy(train_network *network);

/* "9x64" (hidden layers by width), "64,32" (widths one by one), "linear" (none), with the activation between them, and
 * a dense layer of `outputs` at the end. specs belongs to the caller (free). */
circe_status train_network_parse(const char *text, train_layer_kind activation, int64_t outputs,
                                 train_layer_spec **specs, int64_t *n_specs);

/* He initialisation: weights N(0, 2 / fan_in), biases 0; a function of the seed alone, the same on every device. The
 * last dense layer too. */
circe_status train_network_initialise(train_network *network, uint64_t seed);

/* Where it lives. */
train_device *train_network_device(const train_network *network);

int64_t train_network_n_layers(const train_network *network);
const train_layer *train_network_layer(const train_network *network, int64_t index);
/* By name; -1: none. "output" is the last layer. */
int64_t train_network_find(const train_network *network, const char *name);

/* The flat arrays, in the device's memory. */
int64_t train_network_n_params(const train_network *network);
float *train_network_params(train_network *network);
float *train_network_grads(train_network *network);

/* Named tensors of the parameters, in host memory and PyTorch's naming ("0.weight" (out, in), "0.bias" (out)); for
 * model files and checkpoints. `flat` holds n_params numbers that live as long as the tensors are used; the names
 * belong to the network. */
int64_t train_network_n_tensors(const train_network *network);
circe_status train_network_tensors(const train_network *network, const float *flat, const char *prefix,
                                   circe_tensor *tensors);
/* Fills `flat` from a file; refuses missing or misshaped tensors, naming them. */
circe_status train_network_read_tensors(const train_network *network, const circe_tensor_file *file, const char *prefix,
                                        float *flat);

/* in (rows, input) in the device's memory, rows <= max_batch. Keeps what backward needs. */
circe_status train_network_forward(train_network *network, int64_t rows, const float *in);
/* Output of a layer for the last forward (rows, out), in the device's memory. */
const float *train_network_activation(const train_network *network, int64_t layer);
/* The last layer's, and where d loss / d output is to be put before backward. */
const float *train_network_output(const train_network *network);
float *train_network_output_grad(train_network *network);
/* Where a gradient at an inner layer's output is to be put (rows, out): it is added on the way back. Allocated at the
 * first call; zero it or fill it before every backward. */
circe_status train_network_tap(train_network *network, int64_t layer, float **grad);
/* grads := d/d params of everything put into output_grad and the taps. `in` is that of forward. output_grad may be
 * overwritten: fill it again before the next one. */
circe_status train_network_backward(train_network *network, int64_t rows, const float *in);

/* Any number of rows, host memory in and out. Overwrites what the last forward kept. */
circe_status train_network_predict(train_network *network, int64_t rows, const float *in, float *out);

#endif
