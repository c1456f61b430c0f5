/* A trained predictor in memory: its parts checked against each other, its network, its predictions.
 *
 *     x (n, n_features) raw -> (x - mean) / deviation, float32 -> network -> t (n, outputs), float32
 *     images v from 0 to 1 -> scale * v + offset, float32 -> network -> t
 *     MSE: prediction = t * deviation + mean of the target;  cross-entropy: softmax(t) */
#include "train/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/owned.h"
#include "circe/status.h"
#include "train/layers.h"
#include "train/model_parts.h"
#include "train/network_predict.h"

enum { ROWS_AT_ONCE = 4096, MOST_PIXELS = 1 << 24 };

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static circe_status check_scale(const train_scaler *scale, int64_t cols, const char *of) {
    if (scale->cols != cols || scale->mean == NULL || scale->deviation == NULL)
        return circe_fail(CIRCE_ERR_SHAPE, "there are statistics for %lld %s columns, but there are %lld columns",
                          (long long)scale->cols, of, (long long)cols);
    for (int64_t c = 0; c < cols; c++)
        if (!isfinite(scale->mean[c]) || !isfinite(scale->deviation[c]) || !(scale->deviation[c] > 0.0))
            return circe_fail(
                CIRCE_ERR_VALUE,
                "%s column %lld has mean %g and deviation %g: both must be finite, and the deviation above 0", of,
                (long long)c, scale->mean[c], scale->deviation[c]);
    return CIRCE_OK;
}

static circe_status check_outputs(const train_model *model) {
    if (model->loss == TRAIN_CROSS_ENTROPY) {
        if (model->n_target == 1 && model->outputs >= 2) return CIRCE_OK;
        return circe_fail(CIRCE_ERR_SHAPE,
                          "a cross-entropy model has one target column and two classes or more, not %lld and %lld",
                          (long long)model->n_target, (long long)model->outputs);
    }
    if (model->classes != NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "only a cross-entropy model has classes");
    if (model->outputs != model->n_target)
        return circe_fail(CIRCE_ERR_SHAPE, "the model has %lld outputs and %lld target columns",
                          (long long)model->outputs, (long long)model->n_target);
    return check_scale(&model->target_scale, model->outputs, "target");
}

static circe_status check_image(const train_model *model) {
    double count = 1.0;
    for (int d = 0; d < 3; d++) {
        if (model->image.size[d] < 1)
            return circe_fail(CIRCE_ERR_SHAPE, "the images of a model are %lld by %lld by %lld; all must be at least 1",
                              (long long)model->image.size[0], (long long)model->image.size[1],
                              (long long)model->image.size[2]);
        count *= (double)model->image.size[d];
    }
    if (count > MOST_PIXELS)
        return circe_fail(CIRCE_ERR_SHAPE, "each image of a model has %.3g numbers; at most 2^24 are possible", count);
    if (model->n_features != 0 || model->features != NULL || model->feature_scale.cols != 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a model of images has no columns of features");
    if (isfinite(model->pixel_scale) && model->pixel_scale != 0.0 && isfinite(model->pixel_offset)) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_VALUE,
                      "the pixels of a model have scale %g and offset %g: they must be finite, the "
                      "scale not 0",
                      model->pixel_scale, model->pixel_offset);
}

static circe_status check_features(const train_model *model) {
    if (model->features == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "a model needs the names of its features");
    if (model->n_features < 1)
        return circe_fail(CIRCE_ERR_SHAPE, "a model needs at least one feature column, not %lld",
                          (long long)model->n_features);
    return check_scale(&model->feature_scale, model->n_features, "feature");
}

circe_status train_model_check_parts(const train_model *model) {
    if (model->net == NULL || model->target == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a model needs a net and the names of its target");
    if (model->image.n_dims != 0 && model->image.n_dims != 3)
        return circe_fail(CIRCE_ERR_SHAPE, "the images of a model have 3 dimensions, not %d", model->image.n_dims);
    if (model->activation != TRAIN_RELU && model->activation != TRAIN_LEAKY_RELU && model->activation != TRAIN_TANH)
        return circe_fail(CIRCE_ERR_ARGUMENT, "layer kind %d is not an activation", (int)model->activation);
    if (model->loss != TRAIN_MSE && model->loss != TRAIN_CROSS_ENTROPY)
        return circe_fail(CIRCE_ERR_ARGUMENT, "there is no loss number %d", (int)model->loss);
    if (model->n_target < 1)
        return circe_fail(CIRCE_ERR_SHAPE, "a model needs at least one target column, not %lld",
                          (long long)model->n_target);
    circe_status status = check_outputs(model);
    if (status != CIRCE_OK) return status;
    return train_model_has_images(model) ? check_image(model) : check_features(model);
}

/* What the layers hold, without making them. */
static circe_status count_layers(const train_layer_spec *specs, int64_t n, train_shape input, int64_t *n_params,
                                 int64_t *n_buffers) {
    OWNED train_layer *layers = calloc((size_t)n, sizeof *layers);
    if (layers == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld layers", (long long)n);
    circe_status status = CIRCE_OK;
    for (int64_t l = 0; status == CIRCE_OK && l < n; l++) {
        int64_t from = specs[l].from == 0 ? l - 1 : specs[l].from == TRAIN_FROM_INPUT ? -1 : specs[l].from - 1;
        train_layer *layer = &layers[l];
        snprintf(layer->name, sizeof layer->name, "%lld", (long long)l);
        layer->kind = specs[l].kind;
        layer->in = from < 0 ? input : layers[from].out;
        status = train_layer_type_of(layer->kind)->plan(&specs[l], layer);
        *n_params += layer->n_params;
        *n_buffers += layer->n_buffers;
    }
    return status;
}

static train_shape input_of(const train_model *model) {
    return train_model_has_images(model) ? model->image : (train_shape){.n_dims = 1, .size = {model->n_features}};
}

circe_status train_model_count(const train_model *model, int64_t *n_params, int64_t *n_buffers) {
    OWNED train_layer_spec *specs = NULL;
    int64_t n_specs = 0;
    *n_params = *n_buffers = 0;
    circe_status status = train_network_parse(model->net, model->activation, model->outputs, &specs, &n_specs);
    return status == CIRCE_OK ? count_layers(specs, n_specs, input_of(model), n_params, n_buffers) : status;
}

circe_status train_model_check(const train_model *model) {
    int64_t n_params = 0, n_buffers = 0;
    circe_status status = train_model_check_parts(model);
    if (status == CIRCE_OK) status = train_model_count(model, &n_params, &n_buffers);
    if (status != CIRCE_OK) return status;
    if (model->params == NULL || model->n_params != n_params)
        return circe_fail(CIRCE_ERR_SHAPE, "the model has %lld parameters, but a network %s from %lld to %lld has %lld",
                          (long long)(model->params == NULL ? 0 : model->n_params), model->net,
                          (long long)train_shape_count(input_of(model)), (long long)model->outputs,
                          (long long)n_params);
    if (model->n_buffers != n_buffers || (model->buffers == NULL && n_buffers > 0))
        return circe_fail(CIRCE_ERR_SHAPE, "the model has %lld running means and variances, but a network %s has %lld",
                          (long long)(model->buffers == NULL ? 0 : model->n_buffers), model->net, (long long)n_buffers);
    return CIRCE_OK;
}

static void free_names(char **names, int64_t n) {
    for (int64_t i = 0; names != NULL && i < n; i++) free(names[i]);
    free(names);
}

void train_model_free(train_model *model) {
    if (model == NULL) return;
    free(model->net);
    free_names(model->features, model->n_features);
    free_names(model->target, model->n_target);
    free_names(model->classes, model->outputs);
    train_scaler_free(&model->feature_scale);
    train_scaler_free(&model->target_scale);
    free(model->settings);
    free(model->params);
    free(model->buffers);
    *model = (train_model){0};
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

circe_status train_model_skeleton(train_device *device, const train_model *model, int64_t max_batch,
                                  train_network **network) {
    return train_network_build(device, input_of(model), model->net, model->activation, model->outputs, max_batch,
                               network);
}

circe_status train_model_network(train_device *device, const train_model *model, int64_t max_batch,
                                 train_network **network) {
    *network = NULL;
    circe_status status = train_model_check(model);
    if (status == CIRCE_OK) status = train_model_skeleton(device, model, max_batch, network);
    if (status != CIRCE_OK) return status;
    device->ops->upload(device, train_network_params(*network), model->params,
                        (size_t)model->n_params * sizeof *model->params);
    device->ops->upload(device, train_network_buffers(*network), model->buffers,
                        (size_t)model->n_buffers * sizeof *model->buffers);
    return CIRCE_OK;
}

circe_status train_model_take(train_network *network, train_model *model) {
    train_device *device = train_network_device(network);
    int64_t n_params = train_network_n_params(network), n_buffers = train_network_n_buffers(network);
    float *params = malloc((size_t)(n_params + 1) * sizeof *params);
    float *buffers = n_buffers > 0 ? malloc((size_t)n_buffers * sizeof *buffers) : NULL;
    if (params == NULL || (buffers == NULL && n_buffers > 0)) {
        free(params);
        free(buffers);
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a model of %lld parameters", (long long)n_params);
    }
    device->ops->download(device, params, train_network_params(network), (size_t)n_params * sizeof *params);
    device->ops->download(device, buffers, train_network_buffers(network), (size_t)n_buffers * sizeof *buffers);
    model->params = params;
    model->n_params = n_params;
    model->buffers = buffers;
    model->n_buffers = n_buffers;
    return CIRCE_OK;
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

static double *row_of(const circe_mat *m, int64_t i) { return (double *)m->data + i * m->ld; }

/* Row by row: in place of t, what it says in the units of the target. */
static void to_units(const train_model *model, const float *t, double *out) {
    double most = -INFINITY, sum = 0.0;
    if (model->loss == TRAIN_MSE) {
        const train_scaler *scale = &model->target_scale;
        for (int64_t c = 0; c < model->outputs; c++) out[c] = (double)t[c] * scale->deviation[c] + scale->mean[c];
        return;
    }
    for (int64_t c = 0; c < model->outputs; c++) most = fmax(most, (double)t[c]);
    for (int64_t c = 0; c < model->outputs; c++) sum += out[c] = exp((double)t[c] - most);
    for (int64_t c = 0; c < model->outputs; c++) out[c] /= sum;
}

/* Whether the network is the model's, and whether the predictions of n rows have a place. */
static circe_status check_ends(const train_network *network, const train_model *model, int64_t n,
                               const circe_mat *out) {
    const train_layer *first = train_network_layer(network, 0);
    const train_layer *last = train_network_layer(network, train_network_n_layers(network) - 1);
    int64_t inputs = train_shape_count(input_of(model));
    if (train_shape_count(first->in) != inputs || train_shape_count(last->out) != model->outputs)
        return circe_fail(
            CIRCE_ERR_SHAPE,
            "the network does not fit the model: it maps %lld to %lld numbers, but the model %lld to %lld",
            (long long)train_shape_count(first->in), (long long)train_shape_count(last->out), (long long)inputs,
            (long long)model->outputs);
    if (out->dtype != CIRCE_FLOAT64 || out->rows != n || out->cols != model->outputs || out->ld < out->cols)
        return circe_fail(CIRCE_ERR_SHAPE, "the predictions need a float64 matrix of %lld by %lld", (long long)n,
                          (long long)model->outputs);
    return CIRCE_OK;
}

static circe_status check_predict(train_network *network, const train_model *model, const circe_mat *raw,
                                  const circe_mat *out) {
    if (train_model_has_images(model))
        return circe_fail(CIRCE_ERR_ARGUMENT, "the model was trained on images of %lld by %lld, not on a table",
                          (long long)model->image.size[1], (long long)model->image.size[2]);
    circe_status status = check_ends(network, model, raw->rows, out);
    if (status != CIRCE_OK) return status;
    if (raw->cols != model->n_features)
        return circe_fail(CIRCE_ERR_SHAPE, "the data have %lld columns; the model was trained on %lld, from %s to %s",
                          (long long)raw->cols, (long long)model->n_features, model->features[0],
                          model->features[model->n_features - 1]);
    return CIRCE_OK;
}

/* Row i of the predictions from the network's t. */
static circe_status put_row(const train_model *model, const float *t, int64_t i, circe_mat *out) {
    double *row = row_of(out, i);
    to_units(model, t, row);
    for (int64_t c = 0; c < model->outputs; c++)
        if (!isfinite(row[c]))
            return circe_fail(CIRCE_ERR_NUMERIC,
                              "the prediction of row %lld (counted from 0) is not a finite number: its features are "
                              "too far from the training rows",
                              (long long)i);
    return CIRCE_OK;
}

/* Rows first .. first + n - 1, named by their place in the whole where they are refused. */
static circe_status predict_part(train_network *network, const train_model *model, const circe_mat *raw, int64_t first,
                                 int64_t n, int64_t *index, float *in, float *t, circe_mat *out) {
    circe_mat to = circe_mat_f32(in, n, model->n_features);
    for (int64_t i = 0; i < n; i++) index[i] = first + i;
    circe_status status = train_scaler_apply(&model->feature_scale, raw, index, n, &to);
    if (status == CIRCE_OK) status = train_network_predict(network, n, in, t);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++)
        status = put_row(model, t + i * model->outputs, index[i], out);
    return status;
}

circe_status train_model_predict(train_network *network, const train_model *model, const circe_mat *raw,
                                 circe_mat *out) {
    circe_status status = check_predict(network, model, raw, out);
    if (status != CIRCE_OK) return status;
    int64_t at_once = raw->rows < ROWS_AT_ONCE ? raw->rows + 1 : ROWS_AT_ONCE; /* never none */
    OWNED int64_t *index = malloc((size_t)at_once * sizeof *index);
    OWNED float *in = malloc((size_t)(at_once * model->n_features) * sizeof *in);
    OWNED float *t = malloc((size_t)(at_once * model->outputs) * sizeof *t);
    if (index == NULL || in == NULL || t == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld rows at once", (long long)at_once);
    for (int64_t first = 0; status == CIRCE_OK && first < raw->rows; first += at_once) {
        int64_t n = raw->rows - first < at_once ? raw->rows - first : at_once;
        status = predict_part(network, model, raw, first, n, index, in, t, out);
    }
    return status;
}

/* ---- of images --------------------------------------------------------------------------------------------------- */

/* Bits are 0 or 1, and bytes 0 to 255, of a pixel from 0 to 1. */
static void scale_source(const train_model *model, train_source *source) {
    double white = source->element == TRAIN_BYTES ? 255.0 : 1.0;
    source->scale = (float)(model->pixel_scale / white);
    source->offset = (float)model->pixel_offset;
}

circe_status train_model_predict_source(train_network *network, const train_model *model, const train_source *source,
                                        circe_mat *out) {
    if (!train_model_has_images(model))
        return circe_fail(CIRCE_ERR_ARGUMENT, "the model was trained on a table of %lld columns, not on images",
                          (long long)model->n_features);
    circe_status status = check_ends(network, model, source->n, out);
    if (status != CIRCE_OK) return status;
    train_source scaled = *source;
    scale_source(model, &scaled);
    OWNED float *t = malloc((size_t)(source->n * model->outputs + 1) * sizeof *t);
    if (t == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld predictions", (long long)source->n);
    status = train_predict(network, &scaled, t);
    for (int64_t i = 0; status == CIRCE_OK && i < source->n; i++)
        status = put_row(model, t + i * model->outputs, i, out);
    return status;
}
