/* Images between the layers of the CPU, and the layers that only move numbers.
 *
 *     plain    (rows, channels, points)                    points = height * width
 *     images   (rows, ceil(channels / b), points, b)       b = 16 or 8: blocks of oneDNN's kernels; 1: as plain
 *
 * Channels beyond the last are kept at 0, which every elementwise function here maps to 0, so that elementwise work
 * need not know where they are. */
#include <stdatomic.h>

#include "train/cpu/cpu.h"
#include "train/cpu/onednn.h"
#include "train/cpu/onednn_threads.h"
#include "train/parallel.h"

enum { LEAST = 32768 }; /* numbers that are worth a thread */

static int64_t points_of(train_shape shape) { return shape.size[1] * shape.size[2]; }

static int64_t numbers_of(train_shape shape) {
    int64_t b = onednn_image_block();
    if (shape.n_dims == 1) return shape.size[0];
    return (shape.size[0] + b - 1) / b * b * points_of(shape);
}

/* ---- from one order to the other --------------------------------------------------------------------------------- */

typedef struct moving {
    train_shape shape;
    const float *from;
    float *to;
    atomic_bool spoiled;
} moving;

/* One block of `b` channels, of which `n` are there. */
TRAIN_LOOP static void pack_block(int64_t points, int64_t b, int64_t n, const float *restrict plain,
                                  float *restrict images) {
    for (int64_t k = 0; k < points; k++) {
        for (int64_t c = 0; c < n; c++) images[k * b + c] = plain[c * points + k];
        for (int64_t c = n; c < b; c++) images[k * b + c] = 0.0f;
    }
}

TRAIN_LOOP static void unpack_block(int64_t points, int64_t b, int64_t n, const float *restrict images,
                                    float *restrict plain) {
    for (int64_t c = 0; c < n; c++)
        for (int64_t k = 0; k < points; k++) plain[c * points + k] = images[k * b + c];
}

static void move_rows(const moving *m, int64_t first, int64_t n, bool packs) {
    int64_t points = points_of(m->shape), channels = m->shape.size[0], b = onednn_image_block();
    int64_t plain_row = channels * points, row = numbers_of(m->shape);
    for (int64_t r = first; r < first + n; r++)
        for (int64_t c = 0; c < channels; c += b) {
            int64_t there = channels - c < b ? channels - c : b, plain = r * plain_row + c * points;
            if (packs)
                pack_block(points, b, there, m->from + plain, m->to + r * row + c * points);
            else
                unpack_block(points, b, there, m->from + r * row + c * points, m->to + plain);
        }
}

static void pack_part(void *user, int64_t first, int64_t n) { move_rows(user, first, n, true); }

static void unpack_part(void *user, int64_t first, int64_t n) { move_rows(user, first, n, false); }

static void move(train_device *device, train_shape shape, int64_t rows, const float *from, float *to,
                 train_range_fn visit) {
    moving m = {.shape = shape, .from = from, .to = to};
    train_ranges(device->context, rows, LEAST / numbers_of(shape) + 1, visit, &m);
}

/* There is one form. */
static int64_t numbers(int form, train_shape shape) {
    (void)form;
    return numbers_of(shape);
}

static void pack(train_device *device, int form, train_shape shape, int64_t rows, const float *plain, float *images) {
    (void)form;
    move(device, shape, rows, plain, images, pack_part);
}

static void unpack(train_device *device, int form, train_shape shape, int64_t rows, const float *images, float *plain) {
    (void)form;
    move(device, shape, rows, images, plain, unpack_part);
}

/* ---- NaN --------------------------------------------------------------------------------------------------------- */

/* x - x is 0 for numbers alone. */
TRAIN_LOOP static float differences(int64_t n, const float *x) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i] - x[i];
    return sum;
}

static void finite_part(void *user, int64_t first, int64_t n) {
    moving *m = user;
    float sum = differences(n, m->from + first);
    if (sum != 0.0f) m->spoiled = true; /* NaN, too */
}

static bool all_finite(train_device *device, int64_t n, const float *x) {
    moving m = {.from = x};
    train_ranges(device->context, n, LEAST, finite_part, &m);
    return !m.spoiled;
}

/* ---- flatten: images to features --------------------------------------------------------------------------------- */

static void flatten_forward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                            const float *in, float *out) {
    (void)params;
    if (layer->reads_images)
        unpack(device, layer->form, layer->in, rows, in, out);
    else
        device->ops->upload(device, out, in, (size_t)(rows * train_shape_count(layer->in)) * sizeof *out);
}

static void flatten_backward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                             const float *in, const float *out, float *grad_out, float *grad_in, float *grads) {
    (void)params, (void)in, (void)out, (void)grads;
    if (grad_in == NULL) return;
    if (layer->reads_images)
        pack(device, layer->form, layer->in, rows, grad_out, grad_in);
    else
        device->ops->upload(device, grad_in, grad_out, (size_t)(rows * train_shape_count(layer->in)) * sizeof *grad_in);
}

static const train_layer_ops flatten = {.forward = flatten_forward, .backward = flatten_backward};

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const train_layer_ops *layer_of(train_layer_kind kind) {
    static const train_layer_ops *const layers[TRAIN_LAYER_KINDS] = {
        [TRAIN_RELU] = &train_cpu_image_activation,
        [TRAIN_LEAKY_RELU] = &train_cpu_image_activation,
        [TRAIN_TANH] = &train_cpu_image_activation,
        [TRAIN_CONVOLUTION] = &train_cpu_convolution,
        [TRAIN_MAX_POOL] = &train_cpu_pool,
        [TRAIN_BATCH_NORM] = &train_cpu_batch_norm,
        [TRAIN_ADD] = &train_cpu_addition,
        [TRAIN_AVERAGE_POOL] = &train_cpu_pool,
        [TRAIN_FLATTEN] = &flatten,
    };
    return layers[kind];
}

/* oneDNN has kernels that read up to three channels as they come; packed, one channel would be sixteen. */
static bool takes_plain(const train_layer *layer) { return layer->in.size[0] <= 3; }

const train_image_ops train_cpu_images = {.layer = layer_of,
                                          .takes_plain = takes_plain,
                                          .numbers = numbers,
                                          .pack = pack,
                                          .unpack = unpack,
                                          .finite = all_finite,
                                          .enter = onednn_threads_enter,
                                          .leave = onednn_threads_leave};
