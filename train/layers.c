#include "train/layers.h"

#include <math.h>

#include "circe/status.h"

/* ---- where training starts --------------------------------------------------------------------------------------- */

/* Weights and biases of a layer whose outputs are sums of fan_in products. */
static void draw_by_fan_in(int64_t fan_in, train_layer_tensor tensors[2]) {
    tensors[0].deviation = sqrt(2.0 / (double)fan_in);
    tensors[0].bound = tensors[1].bound = 1.0 / sqrt((double)fan_in);
}

/* ---- dense: weight (out, in), bias (out) ------------------------------------------------------------------------- */

static circe_status plan_dense(const train_layer_spec *spec, train_layer *layer) {
    int64_t in = train_shape_count(layer->in), weights;
    if (spec->width < 1 || spec->width > TRAIN_MAX_WIDTH)
        return circe_fail(CIRCE_ERR_ARGUMENT, "layer %s: its width is %lld; it must be 1 to %d", layer->name,
                          (long long)spec->width, TRAIN_MAX_WIDTH);
    if (__builtin_mul_overflow(in, spec->width, &weights) || weights > INT32_MAX)
        return circe_fail(CIRCE_ERR_ARGUMENT, "layer %s: %lld inputs by %lld outputs are too many weights", layer->name,
                          (long long)in, (long long)spec->width);
    layer->out = (train_shape){.n_dims = 1, .size = {spec->width}};
    layer->n_params = weights + spec->width;
    layer->fan_in = in;
    return CIRCE_OK;
}

static int tensors_dense(const train_layer *layer, train_layer_tensor *tensors) {
    int64_t out = layer->out.size[0], in = layer->fan_in;
    tensors[0] = (train_layer_tensor){.name = "weight", .n_dims = 2, .shape = {out, in}, .count = out * in};
    tensors[1] = (train_layer_tensor){.name = "bias", .n_dims = 1, .shape = {out}, .first = out * in, .count = out};
    draw_by_fan_in(in, tensors);
    return 2;
}

/* ---- layers of images -------------------------------------------------------------------------------------------- */

static circe_status need_images(const train_layer *layer, const char *what) {
    if (layer->in.n_dims == 3) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE,
                      "layer %s: %s needs images (channels, height, width), but its input has %lld features",
                      layer->name, what, (long long)train_shape_count(layer->in));
}

/* Sizes of a window that moves over an image, and of what it leaves. */
static circe_status plan_window(const train_layer_spec *spec, int64_t default_stride, int64_t channels,
                                train_layer *layer) {
    int64_t k = spec->kernel, s = spec->stride == 0 ? default_stride : spec->stride, p = spec->padding;
    if (k < 1 || k > TRAIN_MAX_KERNEL || s < 1 || s > TRAIN_MAX_KERNEL || p < 0 || p >= k)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "layer %s: kernel %lld, stride %lld, padding %lld; kernel and stride must be 1 to %d, the "
                          "padding less than the kernel",
                          layer->name, (long long)k, (long long)s, (long long)p, TRAIN_MAX_KERNEL);
    layer->out = (train_shape){.n_dims = 3, .size = {channels}};
    for (int d = 1; d < 3; d++) {
        int64_t room = layer->in.size[d] + 2 * p - k;
        if (room < 0)
            return circe_fail(CIRCE_ERR_SHAPE, "layer %s: its kernel of %lld does not fit into images of %lld by %lld",
                              layer->name, (long long)k, (long long)layer->in.size[1], (long long)layer->in.size[2]);
        layer->out.size[d] = room / s + 1;
    }
    layer->kernel = k;
    layer->stride = s;
    layer->padding = p;
    return CIRCE_OK;
}

/* ---- convolution: weight (out, in, kernel, kernel), bias (out) --------------------------------------------------- */

static circe_status plan_convolution(const train_layer_spec *spec, train_layer *layer) {
    circe_status status = need_images(layer, "convolution");
    if (status != CIRCE_OK) return status;
    if (spec->width < 1 || spec->width > TRAIN_MAX_WIDTH)
        return circe_fail(CIRCE_ERR_ARGUMENT, "layer %s: it has %lld channels; there must be 1 to %d", layer->name,
                          (long long)spec->width, TRAIN_MAX_WIDTH);
    status = plan_window(spec, 1, spec->width, layer);
    if (status != CIRCE_OK) return status;
    int64_t weights;
    layer->fan_in = layer->in.size[0] * layer->kernel * layer->kernel; /* below 2^43 */
    if (__builtin_mul_overflow(layer->fan_in, spec->width, &weights) || weights > INT32_MAX)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "layer %s: a kernel of %lld from %lld to %lld channels has too many weights", layer->name,
                          (long long)layer->kernel, (long long)layer->in.size[0], (long long)spec->width);
    layer->bias = !spec->no_bias;
    layer->n_params = weights + (layer->bias ? spec->width : 0);
    return CIRCE_OK;
}

static int tensors_convolution(const train_layer *layer, train_layer_tensor *tensors) {
    int64_t out = layer->out.size[0], in = layer->in.size[0], k = layer->kernel, weights = out * layer->fan_in;
    tensors[0] = (train_layer_tensor){.name = "weight", .n_dims = 4, .shape = {out, in, k, k}, .count = weights};
    tensors[1] = (train_layer_tensor){.name = "bias", .n_dims = 1, .shape = {out}, .first = weights, .count = out};
    draw_by_fan_in(layer->fan_in, tensors);
    return layer->bias ? 2 : 1;
}

/* ---- batch norm: weight, bias, running_mean, running_var (channels) ---------------------------------------------- */

static circe_status plan_batch_norm(const train_layer_spec *spec, train_layer *layer) {
    (void)spec;
    layer->out = layer->in;
    layer->n_params = layer->n_buffers = 2 * layer->in.size[0];
    return need_images(layer, "batch norm");
}

static int pair_of_channels(const train_layer *layer, const char *first, double mean, const char *second,
                            double other_mean, train_layer_tensor *tensors) {
    int64_t n = layer->in.size[0];
    tensors[0] = (train_layer_tensor){.name = first, .n_dims = 1, .shape = {n}, .count = n, .mean = mean};
    tensors[1] =
        (train_layer_tensor){.name = second, .n_dims = 1, .shape = {n}, .first = n, .count = n, .mean = other_mean};
    return 2;
}

static int tensors_batch_norm(const train_layer *layer, train_layer_tensor *tensors) {
    return pair_of_channels(layer, "weight", 1.0, "bias", 0.0, tensors);
}

static int buffers_batch_norm(const train_layer *layer, train_layer_tensor *tensors) {
    return pair_of_channels(layer, "running_mean", 0.0, "running_var", 1.0, tensors);
}

/* ---- layers without parameters ----------------------------------------------------------------------------------- */

static circe_status plan_max_pool(const train_layer_spec *spec, train_layer *layer) {
    circe_status status = need_images(layer, "max-pool");
    if (status != CIRCE_OK) return status;
    status = plan_window(spec, spec->kernel, layer->in.size[0], layer);
    if (status != CIRCE_OK || 2 * layer->padding <= layer->kernel) return status;
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "layer %s: the padding of a max-pool must be at most half its kernel, %lld, not %lld",
                      layer->name, (long long)layer->kernel, (long long)layer->padding);
}

static circe_status plan_average_pool(const train_layer_spec *spec, train_layer *layer) {
    (void)spec;
    layer->out = (train_shape){.n_dims = 3, .size = {layer->in.size[0], 1, 1}};
    return need_images(layer, "average pool");
}

static circe_status plan_flatten(const train_layer_spec *spec, train_layer *layer) {
    (void)spec;
    layer->out = (train_shape){.n_dims = 1, .size = {train_shape_count(layer->in)}};
    return need_images(layer, "flatten");
}

static circe_status plan_elementwise(const train_layer_spec *spec, train_layer *layer) {
    (void)spec;
    layer->out = layer->in;
    return CIRCE_OK;
}

static circe_status plan_leaky(const train_layer_spec *spec, train_layer *layer) {
    layer->slope = spec->slope == 0.0f ? 0.01f : spec->slope;
    if (!(layer->slope > 0.0f && layer->slope < 1.0f))
        return circe_fail(CIRCE_ERR_ARGUMENT, "layer %s: the slope of leaky ReLU is %g; it must be between 0 and 1",
                          layer->name, (double)spec->slope);
    return plan_elementwise(spec, layer);
}

static int tensors_none(const train_layer *layer, train_layer_tensor *tensors) {
    (void)layer, (void)tensors;
    return 0;
}

/* -------------------------------------------------------------------------------------------------------------------
 */

static const train_layer_type types[] = {
    {TRAIN_DENSE, "dense", false, plan_dense, tensors_dense, NULL},
    {TRAIN_RELU, "ReLU", true, plan_elementwise, tensors_none, NULL},
    {TRAIN_LEAKY_RELU, "leaky ReLU", true, plan_leaky, tensors_none, NULL},
    {TRAIN_TANH, "tanh", true, plan_elementwise, tensors_none, NULL},
    {TRAIN_CONVOLUTION, "convolution", false, plan_convolution, tensors_convolution, NULL},
    {TRAIN_MAX_POOL, "max-pool", false, plan_max_pool, tensors_none, NULL},
    {TRAIN_BATCH_NORM, "batch norm", false, plan_batch_norm, tensors_batch_norm, buffers_batch_norm},
    {TRAIN_ADD, "addition", false, plan_elementwise, tensors_none, NULL},
    {TRAIN_AVERAGE_POOL, "average pool", false, plan_average_pool, tensors_none, NULL},
    {TRAIN_FLATTEN, "flatten", false, plan_flatten, tensors_none, NULL},
};

const train_layer_type *train_layer_type_of(train_layer_kind kind) {
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
        if (types[k].kind == kind) return &types[k];
    return NULL;
}
