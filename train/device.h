/* What a device must do to train a network. The layers above see this table only; train/cpu fills it, and another
 * device is another folder. Arrays are float32, row-major, in the device's own memory; a batch has one row a point. */
#ifndef TRAIN_DEVICE_H
#define TRAIN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "circe/circe.h"

typedef enum train_layer_kind {
    TRAIN_DENSE = 1, /* out = in W' + b, W (out, in) */
    TRAIN_RELU = 2,
    TRAIN_LEAKY_RELU = 3, /* with the layer's slope below 0 */
    TRAIN_TANH = 4,
} train_layer_kind;

typedef enum train_loss_kind {
    TRAIN_MSE = 1,           /* mean over rows and columns of (prediction - target)^2 */
    TRAIN_CROSS_ENTROPY = 2, /* mean over rows of -log softmax(prediction)[class]; target (n, 1) holds the class */
} train_loss_kind;

/* The shape of one point: features, or channels by height by width. */
typedef struct train_shape {
    int n_dims; /* 1 or 3 */
    int64_t size[3];
} train_shape;

static inline int64_t train_shape_count(train_shape shape) {
    int64_t count = 1;
    for (int d = 0; d < shape.n_dims; d++) count *= shape.size[d];
    return count;
}

typedef struct train_layer {
    train_layer_kind kind;
    char name[24]; /* "0", "1", ...: its place, as PyTorch names the layers of a Sequential */
    train_shape in, out;
    float slope;
    int64_t first_param, n_params; /* in the network's flat array of parameters */
    int64_t fan_in;                /* of He initialisation; 0: no weights */
} train_layer;

typedef struct train_device train_device;

/* The work of one kind of layer. `params` and `grads` are the layer's own parts of the flat arrays. */
typedef struct train_layer_ops {
    /* Rows of a batch do not meet in this layer: the network may run it on parts of a batch, from several threads at
     * once, each with gradients of its own. */
    bool rowwise;
    void (*forward)(train_device *device, const train_layer *layer, int64_t rows, const float *params, const float *in,
                    float *out);
    /* grad_in := d/d in (NULL: not wanted); grads += d/d params. grad_out may be overwritten. */
    void (*backward)(train_device *device, const train_layer *layer, int64_t rows, const float *params, const float *in,
                     const float *out, float *grad_out, float *grad_in, float *grads);
} train_layer_ops;

/* AdamW (Loshchilov and Hutter): decoupled weight decay, bias-corrected moments; `step` counts from 1. As
 * torch.optim.AdamW: p -= lr * decay * p first, then the step of Adam. */
typedef struct train_adamw {
    double rate, beta1, beta2, epsilon, decay; /* in float32, 1 - 0.999 would be wrong in its fifth digit */
    int64_t step;
} train_adamw;

typedef struct train_device_ops {
    const char *name;
    /* Zeroed, 64-byte aligned; NULL with the error text set. release takes NULL. */
    void *(*allocate)(train_device *device, size_t bytes);
    void (*release)(train_device *device, void *block);
    void (*upload)(train_device *device, void *to, const void *from, size_t bytes);
    void (*download)(train_device *device, void *to, const void *from, size_t bytes);

    /* NULL: this device has no such layer. */
    const train_layer_ops *(*layer)(train_layer_kind kind);

    /* out (n, cols) := rows index[0..n) of from; the index lies in host memory. */
    void (*gather)(train_device *device, const float *from, int64_t cols, const int64_t *index, int64_t n, float *out);
    /* The loss of n rows and, where grad is not NULL, d loss / d prediction. A class that is none of 0..cols-1 makes
     * the loss NaN. */
    void (*loss)(train_device *device, train_loss_kind kind, int64_t n, int64_t cols, const float *prediction,
                 const float *target, double *value, float *grad);
    /* y += a x. This and zero are called from several threads at once where layers are rowwise. */
    void (*add)(train_device *device, int64_t n, float a, const float *x, float *y);
    void (*adamw)(train_device *device, const train_adamw *how, int64_t n, const float *grads, float *params, float *m,
                  float *v);
    void (*zero)(train_device *device, int64_t n, float *x);
} train_device_ops;

struct train_device {
    const train_device_ops *ops;
    circe_context *context; /* threads, allocator; borrowed */
};

/* The CPU, with the context's threads. */
circe_status train_device_cpu(circe_context *context, train_device **device);
void train_device_destroy(train_device *device);

#endif
