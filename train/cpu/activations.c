/* Elementwise functions: out = f(in), d_in = f'(in) d_out; and, for images, additions with the activation behind them,
 * and the derivative of an activation that a layer has applied to its own output. Comparisons are written so that NaN
 * passes: a network that diverges must be seen at its output. At 0 the derivative is that of the left side, as in
 * PyTorch. ReLU is leaky ReLU of slope 0, for which an infinity below 0 becomes 0, too. */
#include <math.h>

#include "train/cpu/cpu.h"
#include "train/parallel.h"

TRAIN_VECTOR_TANH float tanhf(float);

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static inline float bend(float x, float slope) { return x < 0.0f ? (slope == 0.0f ? 0.0f : slope * x) : x; }

TRAIN_LOOP static void bend_all(int64_t n, float slope, const float *restrict in, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = bend(in[i], slope);
}

/* d_out and d_in may be the same. The output has the sign of the input. */
TRAIN_LOOP static void bend_back(int64_t n, float slope, const float *out, const float *d_out, float *d_in) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float passed = d_out[i], bent = slope == 0.0f ? 0.0f : slope * passed; /* read in any case: no branch */
        d_in[i] = out[i] <= 0.0f ? bent : passed;
    }
}

TRAIN_LOOP static void hyperbolic(int64_t n, const float *restrict in, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = tanhf(in[i]);
}

TRAIN_LOOP static void hyperbolic_back(int64_t n, const float *restrict out, const float *restrict d_out,
                                       float *restrict d_in) {
    for (int64_t i = 0; i < n; i++) d_in[i] = (1.0f - out[i] * out[i]) * d_out[i];
}

static float slope_of(train_layer_kind activation, const train_layer *layer) {
    return activation == TRAIN_RELU ? 0.0f : layer->slope;
}

static void apply(const train_layer *layer, int64_t n, const float *in, float *out) {
    if (layer->kind == TRAIN_TANH)
        hyperbolic(n, in, out);
    else
        bend_all(n, slope_of(layer->kind, layer), in, out);
}

static void apply_back(const train_layer *layer, int64_t n, const float *out, const float *d_out, float *d_in) {
    if (layer->kind == TRAIN_TANH)
        hyperbolic_back(n, out, d_out, d_in);
    else
        bend_back(n, slope_of(layer->kind, layer), out, d_out, d_in);
}

/* ---- between dense layers ---------------------------------------------------------------------------------------- */

static void forward(train_device *device, const train_layer *layer, int64_t rows, const float *params, const float *in,
                    float *out) {
    (void)device, (void)params;
    apply(layer, rows * train_shape_count(layer->out), in, out);
}

static void backward(train_device *device, const train_layer *layer, int64_t rows, const float *params, const float *in,
                     const float *out, float *grad_out, float *grad_in, float *grads) {
    (void)device, (void)params, (void)in, (void)grads;
    if (grad_in != NULL) apply_back(layer, rows * train_shape_count(layer->out), out, grad_out, grad_in);
}

const train_layer_ops train_cpu_activation = {.rowwise = true, .forward = forward, .backward = backward};

/* ---- on images, whose order in memory does not matter ------------------------------------------------------------ */

#if CIRCE_ONEDNN

enum { LEAST = 32768 }; /* numbers that are worth a thread */

typedef struct batch {
    const train_layer *layer;
    float slope;
    const float *x, *y;
    float *result;
} batch;

/* Over all numbers of a batch: every one is read and written once, by all threads together. */
static void over_images(train_device *device, int64_t rows, batch *b, train_range_fn visit) {
    int64_t n = rows * device->ops->images->numbers(b->layer->form, b->layer->out);
    train_ranges(device->context, n, LEAST, visit, b);
}

static void forward_part(void *user, int64_t first, int64_t n) {
    const batch *b = user;
    apply(b->layer, n, b->x + first, b->result + first);
}

static void backward_part(void *user, int64_t first, int64_t n) {
    const batch *b = user;
    apply_back(b->layer, n, b->x + first, b->y + first, b->result + first);
}

static void images_forward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                           const float *in, float *out) {
    (void)params;
    over_images(device, rows, &(batch){.layer = layer, .x = in, .result = out}, forward_part);
}

static void images_backward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                            const float *in, const float *out, float *grad_out, float *grad_in, float *grads) {
    batch b = {.layer = layer, .x = out, .y = grad_out, .result = grad_in};
    (void)params, (void)in, (void)grads;
    if (grad_in != NULL) over_images(device, rows, &b, backward_part);
}

const train_layer_ops train_cpu_image_activation = {.forward = images_forward, .backward = images_backward};

/* ---- activations that a layer applies itself, and additions ------------------------------------------------------ */

static void merged_part(void *user, int64_t first, int64_t n) {
    const batch *b = user;
    bend_back(n, b->slope, b->x + first, b->result + first, b->result + first);
}

void train_cpu_merged_backward(train_device *device, const train_layer *layer, int64_t rows, const float *out,
                               float *grad) {
    batch b = {.layer = layer, .slope = slope_of(layer->merged, layer), .x = out, .result = grad};
    if (layer->merged != 0) over_images(device, rows, &b, merged_part);
}

bool train_cpu_merges(train_layer_kind activation) {
    return activation == TRAIN_RELU || activation == TRAIN_LEAKY_RELU;
}

TRAIN_LOOP static void sum(int64_t n, float slope, const float *restrict x, const float *restrict y,
                           float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = bend(x[i] + y[i], slope);
}

static void sum_part(void *user, int64_t first, int64_t n) {
    const batch *b = user;
    sum(n, b->slope, b->x + first, b->y + first, b->result + first);
}

static circe_status addition_forward(train_device *device, const train_layer *layer, train_layer_state *state,
                                     const train_visit *pass) {
    batch b = {.layer = layer, .x = pass->in, .y = pass->other, .result = pass->out};
    (void)state;
    b.slope = layer->merged == 0 ? 1.0f : slope_of(layer->merged, layer); /* 1: x + y as it is */
    over_images(device, pass->rows, &b, sum_part);
    return CIRCE_OK;
}

static circe_status addition_backward(train_device *device, const train_layer *layer, train_layer_state *state,
                                      const train_visit *pass) {
    (void)state;
    train_cpu_merged_backward(device, layer, pass->rows, pass->out, pass->grad_out);
    return CIRCE_OK;
}

const train_layer_ops train_cpu_addition = {
    .pass_forward = addition_forward, .pass_backward = addition_backward, .merges = train_cpu_merges};

#endif
