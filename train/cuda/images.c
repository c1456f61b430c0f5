/* Images between the layers of the GPU, and the layers that take numbers one by one.
 *
 *     plain    (rows, channels, points), float32             as they come, and where all layers have kernels for that
 *     last     (rows, points, channels), float32 or bfloat16 what cuDNN's engines on the tensor units want
 */
#include "circe/status.h"
#include "train/cuda/cuda_device.h"

static circe_status copy_numbers(train_device *device, int64_t n, const float *from, float *to) {
    return train_cuda_status(
        cudaMemcpyAsync(to, from, (size_t)n * sizeof *to, cudaMemcpyDeviceToDevice, train_cuda_of(device)->stream),
        "copying images");
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

/* Whether kernels of ours do this layer on images as they come. */
static bool is_plain(const train_layer *layer, int64_t rows) {
    cuda_window window = train_cuda_window(layer, rows);
    switch (layer->kind) {
        case TRAIN_CONVOLUTION:
            return train_cuda_halves(window) && train_cuda_halve_bytes(window) <= TRAIN_CUDA_WORKSPACE;
        case TRAIN_MAX_POOL:
            return train_cuda_pool_halves(window);
        case TRAIN_BATCH_NORM:
        case TRAIN_AVERAGE_POOL:
            return false;
        default:
            return true;
    }
}

static int form_of(train_device *device, const train_layer *layers, int64_t n_layers, int64_t rows) {
    bool plain = true;
    for (int64_t l = 0; l < n_layers; l++) plain = plain && is_plain(&layers[l], rows);
    return plain                                            ? TRAIN_CUDA_PLAIN
           : train_cuda_of(device)->precision == TRAIN_BF16 ? TRAIN_CUDA_LAST_HALF
                                                            : TRAIN_CUDA_LAST;
}

static int64_t numbers(int form, train_shape shape) {
    int64_t count = train_shape_count(shape);
    return form == TRAIN_CUDA_LAST_HALF ? (count + 1) / 2 : count;
}

static void pack(train_device *device, int form, train_shape shape, int64_t rows, const float *plain, float *images) {
    train_cuda_device *cuda = train_cuda_of(device);
    cuda_batch batch = train_cuda_batch_of(shape, rows);
    if (form == TRAIN_CUDA_PLAIN)
        (void)copy_numbers(device, rows * train_shape_count(shape), plain, images);
    else
        train_cuda_note(
            cuda,
            train_cuda_last_pack(batch, batch.channels, form == TRAIN_CUDA_LAST_HALF, plain, images, cuda->stream),
            "packing images");
}

static void unpack(train_device *device, int form, train_shape shape, int64_t rows, const float *images, float *plain) {
    train_cuda_device *cuda = train_cuda_of(device);
    cuda_batch batch = train_cuda_batch_of(shape, rows);
    if (form == TRAIN_CUDA_PLAIN)
        (void)copy_numbers(device, rows * train_shape_count(shape), images, plain);
    else
        train_cuda_note(cuda, train_cuda_last_unpack(batch, form == TRAIN_CUDA_LAST_HALF, images, plain, cuda->stream),
                        "unpacking images");
}

static void add(train_device *device, int form, train_shape shape, int64_t rows, const float *x, float *y) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_note(cuda,
                    train_cuda_bend_sum((cuda_bend){.kind = 0}, rows * train_shape_count(shape),
                                        form == TRAIN_CUDA_LAST_HALF, x, y, y, cuda->stream),
                    "adding images");
}

/* It puts the input in the order that it wants. */
static bool takes_plain(const train_layer *layer) {
    (void)layer;
    return true;
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static cuda_bend bend_of(const train_layer *layer) {
    return (cuda_bend){.kind = (int)layer->kind, .slope = layer->slope};
}

static int64_t count_of(const train_layer *layer, int64_t rows) { return rows * train_shape_count(layer->out); }

static circe_status activation_forward(train_device *device, const train_layer *layer, train_layer_state *state,
                                       const train_visit *pass) {
    (void)state;
    return train_cuda_status(train_cuda_bend(bend_of(layer), count_of(layer, pass->rows), train_cuda_is_half(layer),
                                             pass->in, pass->out, train_cuda_of(device)->stream),
                             "an activation");
}

static circe_status activation_backward(train_device *device, const train_layer *layer, train_layer_state *state,
                                        const train_visit *pass) {
    (void)state;
    if (pass->grad_in == NULL) return CIRCE_OK;
    return train_cuda_status(
        train_cuda_bend_back(bend_of(layer), count_of(layer, pass->rows), train_cuda_is_half(layer), pass->out,
                             pass->grad_out, pass->grad_in, train_cuda_of(device)->stream),
        "an activation");
}

const train_layer_ops train_cuda_activation = {.pass_forward = activation_forward,
                                               .pass_backward = activation_backward};

/* ---- addition ---------------------------------------------------------------------------------------------------- */

static circe_status addition_forward(train_device *device, const train_layer *layer, train_layer_state *state,
                                     const train_visit *pass) {
    (void)state;
    return train_cuda_status(
        train_cuda_bend_sum(train_cuda_merged(layer), count_of(layer, pass->rows), train_cuda_is_half(layer), pass->in,
                            pass->other, pass->out, train_cuda_of(device)->stream),
        "an addition");
}

static circe_status addition_backward(train_device *device, const train_layer *layer, train_layer_state *state,
                                      const train_visit *pass) {
    (void)state;
    if (layer->merged == 0) return CIRCE_OK;
    return train_cuda_status(
        train_cuda_bend_back(train_cuda_merged(layer), count_of(layer, pass->rows), train_cuda_is_half(layer),
                             pass->out, pass->grad_out, pass->grad_out, train_cuda_of(device)->stream),
        "an addition");
}

const train_layer_ops train_cuda_addition = {
    .pass_forward = addition_forward, .pass_backward = addition_backward, .merges = train_cuda_merges};

/* ---- flatten: images to features --------------------------------------------------------------------------------- */

static circe_status flatten_forward(train_device *device, const train_layer *layer, train_layer_state *state,
                                    const train_visit *pass) {
    (void)state;
    if (!layer->reads_images) return copy_numbers(device, count_of(layer, pass->rows), pass->in, pass->out);
    unpack(device, layer->form, layer->in, pass->rows, pass->in, pass->out);
    return CIRCE_OK;
}

static circe_status flatten_backward(train_device *device, const train_layer *layer, train_layer_state *state,
                                     const train_visit *pass) {
    (void)state;
    if (pass->grad_in == NULL) return CIRCE_OK;
    if (!layer->reads_images) return copy_numbers(device, count_of(layer, pass->rows), pass->grad_out, pass->grad_in);
    pack(device, layer->form, layer->in, pass->rows, pass->grad_out, pass->grad_in);
    return CIRCE_OK;
}

const train_layer_ops train_cuda_flatten = {.pass_forward = flatten_forward, .pass_backward = flatten_backward};

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const train_layer_ops *layer_of(train_layer_kind kind) {
    static const train_layer_ops *const layers[TRAIN_LAYER_KINDS] = {
        [TRAIN_RELU] = &train_cuda_activation,   [TRAIN_LEAKY_RELU] = &train_cuda_activation,
        [TRAIN_TANH] = &train_cuda_activation,   [TRAIN_CONVOLUTION] = &train_cuda_convolution,
        [TRAIN_MAX_POOL] = &train_cuda_max_pool, [TRAIN_BATCH_NORM] = &train_cuda_batch_norm,
        [TRAIN_ADD] = &train_cuda_addition,      [TRAIN_AVERAGE_POOL] = &train_cuda_average_pool,
        [TRAIN_FLATTEN] = &train_cuda_flatten,
    };
    return layers[kind];
}

const train_image_ops train_cuda_images = {.layer = layer_of,
                                           .form = form_of,
                                           .takes_plain = takes_plain,
                                           .numbers = numbers,
                                           .pack = pack,
                                           .unpack = unpack,
                                           .add = add};
