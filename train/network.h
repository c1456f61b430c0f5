/* A network: layers in an order in which each reads outputs of earlier ones, with all parameters in one flat array, so
 * that the optimiser, checkpoints and sums over machines see one vector. Buffers for a batch are created once: from the
 * second batch of a size on, a step allocates nothing. */
#pragma once

#include "train/device.h"

enum { TRAIN_FROM_INPUT = -1 }; /* for `from` and `other` */

/* What to build: width is that of dense layers and the channels of a convolution, slope that of leaky ReLU (0: 0.01).
 * Layers stand in an order in which each reads outputs of earlier ones only. */
typedef struct train_layer_spec {
    train_layer_kind kind;
    int64_t width;
    float slope;
    int64_t kernel, stride, padding; /* of convolutions and max-pools; stride 0: 1, of a max-pool its kernel */
    bool no_bias;                    /* of convolutions */
    int64_t from, other;             /* 1 + the layer that it reads; 0: the one before. other: of TRAIN_ADD */
    char name[TRAIN_NAME_BYTES];     /* "": its place, as PyTorch names the layers of a Sequential */
} train_layer_spec;

typedef struct train_network train_network;

circe_status train_network_create(train_device *device, train_shape input, const train_layer_spec *specs,
                                  int64_t n_specs, int64_t max_batch, train_network **network);
void train_network_destroy(train_network *network);

/* "9x64" (hidden layers by width), "64,32" (widths one by one), "linear" (none), with the activation between them, and
 * a dense layer of `outputs` at the end; for images "conv16s2,pool2,res32s2,average,64" before the dense layers; or the
 * name of a network that brings its own activations: "dsprites", "resnet18". docs/images.md has the language. specs
 * belongs to the caller (free). */
circe_status train_network_parse(const char *text, train_layer_kind activation, int64_t outputs,
                                 train_layer_spec **specs, int64_t *n_specs);
/* The network that such a text describes, as train_network_create makes it. */
circe_status train_network_build(train_device *device, train_shape input, const char *text, train_layer_kind activation,
                                 int64_t outputs, int64_t max_batch, train_network **network);

/* Where parameters start. fan_in: the numbers that an output is a sum over.
 *
 *     he        weights N(0, 2 / fan_in), biases 0: what goes in keeps its size behind ReLUs, however many layers
 *     uniform   weights and biases uniform in +-1 / sqrt(fan_in), as PyTorch's layers do by themselves: weights with a
 *               sixth of that variance, so that a network starts small and nearly linear */
typedef enum train_start { TRAIN_START_HE, TRAIN_START_UNIFORM } train_start;

/* Initialises all parameters, including the last dense layer. The result depends on the seed alone and is the same on
 * every device. Weights and biases of batch norm start at 1 and 0, running means at 0 and variances at 1. */
circe_status train_network_initialise(train_network *network, train_start start, uint64_t seed);
train_start train_network_start(const train_network *network);

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

/* Numbers that a layer keeps but no gradient changes (running means and variances of batch norm), in one flat array in
 * the device's memory: part of a model and of a checkpoint, not of the optimiser. */
int64_t train_network_n_buffers(const train_network *network);
float *train_network_buffers(train_network *network);

/* Whether the next forwards are of training (batch norm uses and remembers the batch's statistics; the start) or use
 * what was remembered. predict always does the latter. */
void train_network_set_training(train_network *network, bool training);

/* Named tensors of the parameters, in host memory and PyTorch's naming ("0.weight" (out, in), "0.bias" (out)); for
 * model files. `flat` holds n_params numbers that live as long as the tensors are used; the names
 * belong to the network. */
int64_t train_network_n_tensors(const train_network *network);
circe_status train_network_tensors(const train_network *network, const float *flat, circe_tensor *tensors);
/* Fills `flat` from a file; refuses missing or misshaped tensors, naming them. */
circe_status train_network_read_tensors(const train_network *network, const circe_tensor_file *file, float *flat);
/* The same for the buffers ("bn1.running_mean"); with PyTorch's "num_batches_tracked", which is written as 0 and not
 * asked for. */
int64_t train_network_n_buffer_tensors(const train_network *network);
circe_status train_network_buffer_tensors(const train_network *network, const float *flat, circe_tensor *tensors);
circe_status train_network_read_buffers(const train_network *network, const circe_tensor_file *file, float *flat);
/* Pretrained weights for everything before the first dense layer, parameters and buffers, from a .safetensors file in
 * PyTorch's naming (torchvision's for "resnet18"); the head stays as it is, and what else the file contains is passed
 * over. Refuses a file in which a tensor is missing or misshaped, naming it. */
circe_status train_network_load_body(train_network *network, const char *path);

/* in (rows, input) in the device's memory, rows <= max_batch. Keeps what backward needs. Inside of the
 * caller's OpenMP region, layers of images run on the calling thread alone. */
circe_status train_network_forward(train_network *network, int64_t rows, const float *in);
/* Output of a layer for the last forward (rows, out), in the device's memory; images in PyTorch's order (row, channel,
 * line, column), copied out of the device's by this call. NULL: no such layer, no memory, or an output that was never
 * stored, since the layer applied the activation behind it at once; train_network_tap makes it be stored. */
const float *train_network_activation(const train_network *network, int64_t layer);
/* The last layer's, and where d loss / d output is to be put before backward. */
const float *train_network_output(const train_network *network);
float *train_network_output_grad(train_network *network);
/* Where a gradient at an inner layer's output is to be put (rows, out), images in PyTorch's order: it is added on the
 * way back. Allocated at the first call, which voids the last forward and pointers to activations; zero it or fill it
 * before every backward. */
circe_status train_network_tap(train_network *network, int64_t layer, float **grad);
/* grads := d/d params of everything put into output_grad and the taps. `in` is that of forward. output_grad may be
 * overwritten: fill it again before the next one. */
circe_status train_network_backward(train_network *network, int64_t rows, const float *in);
/* Called by backward, from the thread that called it, with numbers [first, first + n) of the gradients as soon as they
 * are final: the last layers' first. NULL: nobody. */
void train_network_on_gradients(train_network *network, void (*on_gradients)(void *user, int64_t first, int64_t n),
                                void *user);

/* Any number of rows, host memory in and out. Overwrites what the last forward kept. */
circe_status train_network_predict(train_network *network, int64_t rows, const float *in, float *out);
