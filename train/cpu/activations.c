/* Elementwise functions: out = f(in), d_in = f'(in) d_out. Comparisons are written so that NaN passes: a network that
 * diverges must be seen at its output. At 0 the derivative is that of the left side, as in PyTorch. */
#include <math.h>

#include "train/cpu/cpu.h"
#include "train/parallel.h"

TRAIN_VECTOR_TANH float tanhf(float);

static int64_t size_of(const train_layer *layer, int64_t rows) { return rows * train_shape_count(layer->out); }

/* ---- ReLU -------------------------------------------------------------------------------------------------------- */

TRAIN_LOOP static void relu(int64_t n, const float *restrict in, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = in[i] < 0.0f ? 0.0f : in[i];
}

TRAIN_LOOP static void relu_back(int64_t n, const float *restrict out, const float *restrict d_out,
                                 float *restrict d_in) {
    for (int64_t i = 0; i < n; i++) {
        float passed = d_out[i]; /* read in any case: a load under a condition would be a branch */
        d_in[i] = out[i] <= 0.0f ? 0.0f : passed;
    }
}

static void relu_forward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                         const float *in, float *out) {
    (void)device, (void)params;
    relu(size_of(layer, rows), in, out);
}

static void relu_backward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                          const float *in, const float *out, float *grad_out, float *grad_in, float *grads) {
    (void)device, (void)params, (void)in, (void)grads;
    if (grad_in != NULL) relu_back(size_of(layer, rows), out, grad_out, grad_in);
}

const train_layer_ops train_cpu_relu = {.rowwise = true, .forward = relu_forward, .backward = relu_backward};

/* ---- leaky ReLU -------------------------------------------------------------------------------------------------- */

TRAIN_LOOP static void leaky(int64_t n, float slope, const float *restrict in, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = (in[i] < 0.0f ? slope : 1.0f) * in[i];
}

TRAIN_LOOP static void leaky_back(int64_t n, float slope, const float *restrict in, const float *restrict d_out,
                                  float *restrict d_in) {
    for (int64_t i = 0; i < n; i++) d_in[i] = (in[i] <= 0.0f ? slope : 1.0f) * d_out[i];
}

static void leaky_forward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                          const float *in, float *out) {
    (void)device, (void)params;
    leaky(size_of(layer, rows), layer->slope, in, out);
}

static void leaky_backward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                           const float *in, const float *out, float *grad_out, float *grad_in, float *grads) {
    (void)device, (void)params, (void)out, (void)grads;
    if (grad_in != NULL) leaky_back(size_of(layer, rows), layer->slope, in, grad_out, grad_in);
}

const train_layer_ops train_cpu_leaky_relu = {.rowwise = true, .forward = leaky_forward, .backward = leaky_backward};

/* ---- tanh -------------------------------------------------------------------------------------------------------- */

TRAIN_LOOP static void hyperbolic(int64_t n, const float *restrict in, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = tanhf(in[i]);
}

TRAIN_LOOP static void hyperbolic_back(int64_t n, const float *restrict out, const float *restrict d_out,
                                       float *restrict d_in) {
    for (int64_t i = 0; i < n; i++) d_in[i] = (1.0f - out[i] * out[i]) * d_out[i];
}

static void tanh_forward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                         const float *in, float *out) {
    (void)device, (void)params;
    hyperbolic(size_of(layer, rows), in, out);
}

static void tanh_backward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                          const float *in, const float *out, float *grad_out, float *grad_in, float *grads) {
    (void)device, (void)params, (void)in, (void)grads;
    if (grad_in != NULL) hyperbolic_back(size_of(layer, rows), out, grad_out, grad_in);
}

const train_layer_ops train_cpu_tanh = {.rowwise = true, .forward = tanh_forward, .backward = tanh_backward};

/* ---- on images --------------------------------------------------------------------------------------------------- */

#if CIRCE_ONEDNN

enum { LEAST = 32768 }; /* numbers that are worth a thread */

/* A batch in parts that end anywhere: each part is `n` rows of one number. */
typedef struct batch {
    train_device *device;
    train_layer single; /* the layer, of one number a row */
    const train_layer_ops *ops;
    const float *in, *out;
    float *result, *grad_out;
} batch;

static void images_forward_part(void *user, int64_t part, int64_t first, int64_t n) {
    const batch *b = user;
    (void)part;
    b->ops->forward(b->device, &b->single, n, NULL, b->in + first, b->result + first);
}

static void images_backward_part(void *user, int64_t part, int64_t first, int64_t n) {
    const batch *b = user;
    (void)part;
    b->ops->backward(b->device, &b->single, n, NULL, b->in + first, b->out + first, b->grad_out + first,
                     b->result + first, NULL);
}

static void over_images(const train_layer *layer, int64_t rows, batch *b, train_part_fn visit) {
    int64_t n = rows * b->device->ops->images->numbers(layer->form, layer->out);
    b->single = *layer;
    b->single.out = (train_shape){.n_dims = 1, .size = {1}};
    b->ops = b->device->ops->layer(layer->kind);
    train_parallel(b->device->context, train_parts(b->device->context, n, LEAST), n, visit, b);
}

static void images_forward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                           const float *in, float *out) {
    batch b = {.device = device, .in = in, .result = out};
    (void)params;
    over_images(layer, rows, &b, images_forward_part);
}

static void images_backward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                            const float *in, const float *out, float *grad_out, float *grad_in, float *grads) {
    batch b = {.device = device, .in = in, .out = out, .result = grad_in, .grad_out = grad_out};
    (void)params, (void)grads;
    if (grad_in != NULL) over_images(layer, rows, &b, images_backward_part);
}

const train_layer_ops train_cpu_image_activation = {.forward = images_forward, .backward = images_backward};

#endif
