/* Additions with the activation that follows them, and the derivative of an activation that a layer has applied to its
 * own output. The order in memory does not matter. Every number is read and written once, by all threads together. */
#include "train/cpu/cpu.h"
#include "train/parallel.h"

enum { LEAST = 32768 }; /* numbers that are worth a thread */

typedef struct operands {
    train_layer_kind kind; /* of the activation; 0: none */
    float slope;
    const float *x, *y;
    float *out;
} operands;

static int64_t count_of(train_device *device, const train_layer *layer, int64_t rows) {
    return rows * device->ops->images->numbers(layer->form, layer->out);
}

static void share(train_device *device, int64_t n, train_part_fn visit, operands *o) {
    train_parallel(device->context, train_parts(device->context, n, LEAST), n, visit, o);
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

/* Leaky ReLU, or ReLU for a slope of 0. Written so that NaN passes, and that an infinity becomes 0 where it should. */
static inline float bend(float x, float slope) { return x < 0.0f ? (slope == 0.0f ? 0.0f : slope * x) : x; }

/* The output has the sign of the input. */
TRAIN_LOOP static void bend_back(int64_t n, float slope, const float *restrict out, float *restrict grad) {
    for (int64_t i = 0; i < n; i++) {
        float passed = grad[i], bent = slope == 0.0f ? 0.0f : slope * passed;
        grad[i] = out[i] <= 0.0f ? bent : passed;
    }
}

static void bend_back_part(void *user, int64_t part, int64_t first, int64_t n) {
    const operands *o = user;
    (void)part;
    bend_back(n, o->slope, o->x + first, o->out + first);
}

static float slope_of(const train_layer *layer) { return layer->merged == TRAIN_RELU ? 0.0f : layer->slope; }

void train_cpu_merged_backward(train_device *device, const train_layer *layer, int64_t rows, const float *out,
                               float *grad) {
    operands o = {.slope = slope_of(layer), .x = out, .out = grad};
    if (layer->merged != 0) share(device, count_of(device, layer, rows), bend_back_part, &o);
}

bool train_cpu_merges(train_layer_kind activation) {
    return activation == TRAIN_RELU || activation == TRAIN_LEAKY_RELU;
}

/* ---- addition ---------------------------------------------------------------------------------------------------- */

TRAIN_LOOP static void sum(int64_t n, const float *restrict x, const float *restrict y, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = x[i] + y[i];
}

TRAIN_LOOP static void sum_bent(int64_t n, float slope, const float *restrict x, const float *restrict y,
                                float *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        out[i] = bend(x[i] + y[i], slope);
    }
}

static void sum_part(void *user, int64_t part, int64_t first, int64_t n) {
    const operands *o = user;
    (void)part;
    if (o->kind == 0)
        sum(n, o->x + first, o->y + first, o->out + first);
    else
        sum_bent(n, o->slope, o->x + first, o->y + first, o->out + first);
}

static circe_status addition_forward(train_device *device, const train_layer *layer, train_layer_state *state,
                                     const train_visit *pass) {
    operands o = {.kind = layer->merged, .slope = slope_of(layer), .x = pass->in, .y = pass->other, .out = pass->out};
    (void)state;
    share(device, count_of(device, layer, pass->rows), sum_part, &o);
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
