#include "layers.h"

#include <math.h>

#include "error.h"

/* ---- dense: weight (out, in), bias (out) --------------------------------------------------------------------------
 */

static circe_status plan_dense(const train_layer_spec *spec, train_layer *layer) {
    int64_t in = train_shape_count(layer->in), weights;
    if (spec->width < 1 || spec->width > TRAIN_MAX_WIDTH)
        return train_fail(CIRCE_ERR_ARGUMENT, "layer %s: its width is %lld; it must be 1 to %d", layer->name,
                          (long long)spec->width, TRAIN_MAX_WIDTH);
    if (__builtin_mul_overflow(in, spec->width, &weights) || weights > INT32_MAX)
        return train_fail(CIRCE_ERR_ARGUMENT, "layer %s: %lld inputs by %lld outputs are too many weights", layer->name,
                          (long long)in, (long long)spec->width);
    layer->out = (train_shape){.n_dims = 1, .size = {spec->width}};
    layer->n_params = weights + spec->width;
    layer->fan_in = in;
    return CIRCE_OK;
}

static int tensors_dense(const train_layer *layer, train_layer_tensor *tensors) {
    int64_t out = layer->out.size[0], in = layer->fan_in;
    tensors[0] = (train_layer_tensor){
        .name = "weight", .n_dims = 2, .shape = {out, in}, .count = out * in, .deviation = sqrt(2.0 / (double)in)};
    tensors[1] = (train_layer_tensor){.name = "bias", .n_dims = 1, .shape = {out}, .first = out * in, .count = out};
    return 2;
}

/* ---- elementwise functions ----------------------------------------------------------------------------------------
 */

static circe_status plan_elementwise(const train_layer_spec *spec, train_layer *layer) {
    (void)spec;
    layer->out = layer->in;
    return CIRCE_OK;
}

static circe_status plan_leaky(const train_layer_spec *spec, train_layer *layer) {
    layer->slope = spec->slope == 0.0f ? 0.01f : spec->slope;
    if (!(layer->slope > 0.0f && layer->slope < 1.0f))
        return train_fail(CIRCE_ERR_ARGUMENT, "layer %s: the slope of leaky ReLU is %g; it must be between 0 and 1",
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
    {TRAIN_DENSE, "dense", false, plan_dense, tensors_dense},
    {TRAIN_RELU, "ReLU", true, plan_elementwise, tensors_none},
    {TRAIN_LEAKY_RELU, "leaky ReLU", true, plan_leaky, tensors_none},
    {TRAIN_TANH, "tanh", true, plan_elementwise, tensors_none},
};

const train_layer_type *train_layer_type_of(train_layer_kind kind) {
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
        if (types[k].kind == kind) return &types[k];
    return NULL;
}
