/* A trained predictor in memory: its parts checked against each other, its network, its predictions.
 *
 *     x (n, n_features) raw -> (x - mean) / deviation, float32 -> network -> t (n, outputs), float32
 *     MSE: prediction = t * deviation + mean of the target;  cross-entropy: softmax(t) */
#include "model.h"

#include <math.h>
#include <stdlib.h>

#include "error.h"
#include "model_parts.h"

enum { ROWS_AT_ONCE = 4096 };

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static circe_status check_scale(const train_scaler *scale, int64_t cols, const char *of) {
    if (scale->cols != cols || scale->mean == NULL || scale->deviation == NULL)
        return train_fail(CIRCE_ERR_SHAPE, "the statistics are of %lld %s columns, and there are %lld",
                          (long long)scale->cols, of, (long long)cols);
    for (int64_t c = 0; c < cols; c++)
        if (!isfinite(scale->mean[c]) || !isfinite(scale->deviation[c]) || !(scale->deviation[c] > 0.0))
            return train_fail(CIRCE_ERR_VALUE,
                              "%s column %lld has mean %g and deviation %g: they must be finite, the "
                              "deviation above 0",
                              of, (long long)c, scale->mean[c], scale->deviation[c]);
    return CIRCE_OK;
}

static circe_status check_outputs(const train_model *model) {
    if (model->loss == TRAIN_CROSS_ENTROPY) {
        if (model->n_target == 1 && model->outputs >= 2) return CIRCE_OK;
        return train_fail(CIRCE_ERR_SHAPE,
                          "a cross-entropy model has one target column and two classes or more, not %lld and %lld",
                          (long long)model->n_target, (long long)model->outputs);
    }
    if (model->classes != NULL) return train_fail(CIRCE_ERR_ARGUMENT, "only a cross-entropy model has classes");
    if (model->outputs != model->n_target)
        return train_fail(CIRCE_ERR_SHAPE, "the model has %lld outputs and %lld target columns",
                          (long long)model->outputs, (long long)model->n_target);
    return check_scale(&model->target_scale, model->outputs, "target");
}

circe_status train_model_check_parts(const train_model *model) {
    if (model->net == NULL || model->features == NULL || model->target == NULL)
        return train_fail(CIRCE_ERR_ARGUMENT, "a model needs a net and the names of its features and target");
    if (model->activation != TRAIN_RELU && model->activation != TRAIN_LEAKY_RELU && model->activation != TRAIN_TANH)
        return train_fail(CIRCE_ERR_ARGUMENT, "layer kind %d is no activation", (int)model->activation);
    if (model->loss != TRAIN_MSE && model->loss != TRAIN_CROSS_ENTROPY)
        return train_fail(CIRCE_ERR_ARGUMENT, "there is no loss number %d", (int)model->loss);
    if (model->n_features < 1 || model->n_target < 1)
        return train_fail(CIRCE_ERR_SHAPE, "a model has features and a target, not %lld and %lld columns of them",
                          (long long)model->n_features, (long long)model->n_target);
    circe_status status = check_outputs(model);
    return status == CIRCE_OK ? check_scale(&model->feature_scale, model->n_features, "feature") : status;
}

/* Dense layers hold all numbers: out * (in + 1) each. */
circe_status train_model_count(const train_model *model, int64_t *n_params) {
    train_layer_spec *specs = NULL;
    int64_t n_specs = 0, in = model->n_features, total = 0;
    bool overflow = false;
    circe_status status = train_network_parse(model->net, model->activation, model->outputs, &specs, &n_specs);
    for (int64_t i = 0; status == CIRCE_OK && i < n_specs; i++) {
        int64_t own;
        if (specs[i].kind != TRAIN_DENSE) continue;
        overflow = overflow || __builtin_mul_overflow(specs[i].width, in + 1, &own) ||
                   __builtin_add_overflow(total, own, &total);
        in = specs[i].width;
    }
    free(specs);
    *n_params = total;
    if (overflow)
        status = train_fail(CIRCE_ERR_SHAPE, "a network of %lld inputs and this size has too many weights",
                            (long long)model->n_features);
    return status;
}

circe_status train_model_check(const train_model *model) {
    int64_t expected = 0;
    if (model == NULL) return train_fail(CIRCE_ERR_ARGUMENT, "model must not be NULL");
    circe_status status = train_model_check_parts(model);
    if (status == CIRCE_OK) status = train_model_count(model, &expected);
    if (status != CIRCE_OK) return status;
    if (model->params == NULL || model->n_params != expected)
        return train_fail(CIRCE_ERR_SHAPE, "the model holds %lld parameters; a network %s from %lld to %lld has %lld",
                          (long long)(model->params == NULL ? 0 : model->n_params), model->net,
                          (long long)model->n_features, (long long)model->outputs, (long long)expected);
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
    *model = (train_model){0};
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

circe_status train_model_skeleton(train_device *device, const train_model *model, int64_t max_batch,
                                  train_network **network) {
    train_layer_spec *specs = NULL;
    int64_t n_specs = 0;
    train_shape input = {.n_dims = 1, .size = {model->n_features}};
    circe_status status = train_network_parse(model->net, model->activation, model->outputs, &specs, &n_specs);
    if (status == CIRCE_OK) status = train_network_create(device, input, specs, n_specs, max_batch, network);
    free(specs);
    return status;
}

circe_status train_model_network(train_device *device, const train_model *model, int64_t max_batch,
                                 train_network **network) {
    if (device == NULL || network == NULL) return train_fail(CIRCE_ERR_ARGUMENT, "device and network must not be NULL");
    *network = NULL;
    circe_status status = train_model_check(model);
    if (status == CIRCE_OK) status = train_model_skeleton(device, model, max_batch, network);
    if (status != CIRCE_OK) return status;
    if (train_network_n_params(*network) != model->n_params) {
        status = train_fail(CIRCE_ERR_SHAPE, "the model holds %lld parameters and its network has %lld",
                            (long long)model->n_params, (long long)train_network_n_params(*network));
        train_network_destroy(*network);
        *network = NULL;
        return status;
    }
    device->ops->upload(device, train_network_params(*network), model->params,
                        (size_t)model->n_params * sizeof *model->params);
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

static circe_status check_predict(train_network *network, const train_model *model, const circe_mat *raw,
                                  const circe_mat *out) {
    if (network == NULL || model == NULL || raw == NULL || out == NULL)
        return train_fail(CIRCE_ERR_ARGUMENT, "network, model, raw and out must not be NULL");
    const train_layer *first = train_network_layer(network, 0);
    const train_layer *last = train_network_layer(network, train_network_n_layers(network) - 1);
    if (train_shape_count(first->in) != model->n_features || train_shape_count(last->out) != model->outputs)
        return train_fail(CIRCE_ERR_SHAPE,
                          "the network is not the model's: %lld to %lld, and the model is %lld to %lld",
                          (long long)train_shape_count(first->in), (long long)train_shape_count(last->out),
                          (long long)model->n_features, (long long)model->outputs);
    if (raw->cols != model->n_features)
        return train_fail(CIRCE_ERR_SHAPE, "the data have %lld columns; the model was trained on %lld, from %s to %s",
                          (long long)raw->cols, (long long)model->n_features, model->features[0],
                          model->features[model->n_features - 1]);
    if (out->dtype != CIRCE_FLOAT64 || out->rows != raw->rows || out->cols != model->outputs || out->ld < out->cols)
        return train_fail(CIRCE_ERR_SHAPE, "the predictions need a float64 matrix of %lld by %lld",
                          (long long)raw->rows, (long long)model->outputs);
    return CIRCE_OK;
}

/* Rows first .. first + n - 1, named by their place in the whole where they are refused. */
static circe_status predict_part(train_network *network, const train_model *model, const circe_mat *raw, int64_t first,
                                 int64_t n, int64_t *index, float *in, float *t, circe_mat *out) {
    circe_mat to = circe_mat_f32(in, n, model->n_features);
    for (int64_t i = 0; i < n; i++) index[i] = first + i;
    circe_status status = train_scaler_apply(&model->feature_scale, raw, index, n, &to);
    if (status == CIRCE_OK) status = train_network_predict(network, n, in, t);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++) {
        double *row = row_of(out, index[i]);
        to_units(model, t + i * model->outputs, row);
        for (int64_t c = 0; c < model->outputs; c++)
            if (!isfinite(row[c]))
                return train_fail(CIRCE_ERR_NUMERIC,
                                  "the prediction of row %lld (counted from 0) is not a finite number: its features "
                                  "are too far from what the model was trained on",
                                  (long long)index[i]);
    }
    return CIRCE_OK;
}

circe_status train_model_predict(train_network *network, const train_model *model, const circe_mat *raw,
                                 circe_mat *out) {
    circe_status status = check_predict(network, model, raw, out);
    if (status != CIRCE_OK) return status;
    int64_t at_once = raw->rows < ROWS_AT_ONCE ? raw->rows + 1 : ROWS_AT_ONCE; /* never none */
    int64_t *index = malloc((size_t)at_once * sizeof *index);
    float *in = malloc((size_t)(at_once * model->n_features) * sizeof *in);
    float *t = malloc((size_t)(at_once * model->outputs) * sizeof *t);
    if (index == NULL || in == NULL || t == NULL) {
        status = train_fail(CIRCE_ERR_MEMORY, "no memory for %lld rows at once", (long long)at_once);
        goto done;
    }
    for (int64_t first = 0; status == CIRCE_OK && first < raw->rows; first += at_once) {
        int64_t n = raw->rows - first < at_once ? raw->rows - first : at_once;
        status = predict_part(network, model, raw, first, n, index, in, t, out);
    }

done:
    free(index);
    free(in);
    free(t);
    return status;
}
