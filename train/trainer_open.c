/* Prepares a run for its first step: checks options and data, puts the points where the device can gather them, and
 * creates buffers.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "circe/status.h"
#include "train/checkpoint_hash.h"
#include "train/trainer_parts.h"

/* ---- options ---------------------------------------------------------------------------------------------------- */

static circe_status check_number(const char *name, double value, double least, bool or_least) {
    if (isfinite(value) && (value > least || (or_least && value == least))) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "%s is %g; it must be %s %g", name, value, or_least ? "at least" : "above",
                      least);
}

static circe_status check_options(const train_options *o) {
    if (o->loss != TRAIN_MSE && o->loss != TRAIN_CROSS_ENTROPY)
        return circe_fail(CIRCE_ERR_ARGUMENT, "loss %d is neither mse nor cross-entropy", (int)o->loss);
    circe_status status = o->steps != 0 ? check_number("the number of steps", (double)o->steps, 1.0, true)
                                        : check_number("the number of epochs", (double)o->epochs, 1.0, true);
    if (status == CIRCE_OK) status = check_number("the batch", (double)o->batch, 1.0, true);
    if (status == CIRCE_OK) status = check_number("the learning rate", o->rate, 0.0, false);
    if (status == CIRCE_OK) status = check_number("the weight decay", o->decay, 0.0, true);
    if (status == CIRCE_OK) status = check_number("epsilon", o->epsilon, 0.0, false);
    if (status == CIRCE_OK) status = check_number("the epochs of warm-up", o->warmup_epochs, 0.0, true);
    if (status == CIRCE_OK) status = check_number("gamma", o->gamma, 0.0, true);
    if (status == CIRCE_OK) status = check_number("gamma's epochs of warm-up", o->gamma_warmup_epochs, 0.0, true);
    if (status == CIRCE_OK)
        status = check_number("the epochs from validation to validation", (double)o->validate_every, 1.0, true);
    if (status == CIRCE_OK) status = check_number("the patience", (double)o->patience, 0.0, true);
    if (status == CIRCE_OK) status = check_number("the minutes between checkpoints", o->checkpoint_minutes, 0.0, true);
    if (status != CIRCE_OK) return status;
    if (o->beta1 >= 0.0 && o->beta1 < 1.0 && o->beta2 >= 0.0 && o->beta2 < 1.0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "beta1 and beta2 are %g and %g; they must be at least 0 and below 1",
                      o->beta1, o->beta2);
}

/* Checks that the folder exists now, before hours of work are lost. */
static circe_status check_checkpoint(const char *path) {
    if (path == NULL) return CIRCE_OK;
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
    if (folder == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a path");
    int problem = access(folder, W_OK | X_OK) == 0 ? 0 : errno;
    free(folder);
    if (problem == 0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_WRITE, "checkpoints cannot be written to %s: its folder: %s", path, strerror(problem));
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

static circe_status check_target(const circe_mat *m, const char *of, int64_t cols) {
    if (m->dtype != CIRCE_FLOAT32) return circe_fail(CIRCE_ERR_ARGUMENT, "the %s target must be float32", of);
    if (m->cols == cols) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "the %s target has %lld columns; the network needs %lld", of, (long long)m->cols,
                      (long long)cols);
}

static circe_status check_rows(const circe_mat *m, const char *of, const char *name, int64_t rows) {
    if (m->rows == rows) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "the %s features have %lld rows and %s has %lld; they must be the same points",
                      of, (long long)rows, name, (long long)m->rows);
}

/* Classes are places in the network's output. */
static circe_status check_classes(const circe_mat *m, const char *of, int64_t classes) {
    for (int64_t i = 0; i < m->rows; i++) {
        float value = ((const float *)m->data)[i * m->ld];
        if (!(value >= 0.0F && value < (float)classes && value == floorf(value)))
            return circe_fail(CIRCE_ERR_VALUE, "the %s target is %g in row %lld; classes are 0 to %lld", of,
                              (double)value, (long long)i, (long long)classes - 1);
    }
    return CIRCE_OK;
}

static circe_status check_data(const train_loop *loop, const train_data *data, const char *of) {
    circe_status status = train_check_features(loop->network, &data->features, of);
    if (status == CIRCE_OK) status = check_target(&data->target, of, loop->target_cols);
    if (status == CIRCE_OK) status = check_rows(&data->target, of, "the target", data->features.n);
    if (status == CIRCE_OK && loop->options->loss == TRAIN_CROSS_ENTROPY)
        status = check_classes(&data->target, of, loop->outputs);
    return status;
}

static circe_status check_validation(const train_loop *loop) {
    enum { LEAST = 4 }; /* points for the unbiased estimators */
    const train_data *v = loop->validation;
    int64_t n = v == NULL ? 0 : v->features.n;
    if (n == 0 && loop->options->patience > 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "stopping early needs validation rows, but there are none");
    if (n == 0) return CIRCE_OK;
    circe_status status = check_data(loop, v, "validation");
    if (status != CIRCE_OK || loop->regularizer == NULL) return status;
    if (n < LEAST)
        return circe_fail(CIRCE_ERR_SHAPE, "there are %lld validation rows, but the regulariser needs at least %d",
                          (long long)n, LEAST);
    status = check_rows(&v->z, "validation", "z", n);
    return status == CIRCE_OK && v->y.cols > 0 ? check_rows(&v->y, "validation", "y", n) : status;
}

static circe_status check_training(const train_loop *loop) {
    const train_data *data = loop->data;
    int64_t n = loop->share.total;
    circe_status status = check_data(loop, data, "training");
    if (status != CIRCE_OK || n >= loop->options->batch) return status;
    return circe_fail(CIRCE_ERR_SHAPE, "there are %lld training rows, fewer than a batch of %lld", (long long)n,
                      (long long)loop->options->batch);
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

static circe_status on_device(const train_loop *loop, int64_t rows, int64_t cols, float **block) {
    size_t bytes = (size_t)(rows * cols > 0 ? rows * cols : 1) * sizeof **block;
    *block = loop->device->ops->allocate(loop->device, bytes);
    if (*block != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory on the device for %lld by %lld numbers", (long long)rows,
                      (long long)cols);
}

static circe_status upload(const train_loop *loop, const circe_mat *m, float **block) {
    circe_status status = on_device(loop, m->rows, m->cols, block);
    const float *from = m->data;
    size_t row = (size_t)m->cols * sizeof *from;
    if (status != CIRCE_OK) return status;
    if (m->ld == m->cols) {
        loop->device->ops->upload(loop->device, *block, from, (size_t)m->rows * row);
        return CIRCE_OK;
    }
    for (int64_t i = 0; i < m->rows; i++)
        loop->device->ops->upload(loop->device, *block + i * m->cols, from + i * m->ld, row);
    return CIRCE_OK;
}

static circe_status open_rows(const train_loop *loop, const train_data *data, train_rows *rows) {
    rows->n = data->features.n;
    circe_status status = loop->device->ops->source_open(loop->device, &data->features, &rows->features);
    if (status == CIRCE_OK) status = upload(loop, &data->target, &rows->target);
    if (status != CIRCE_OK || data->weight == NULL) return status;
    const circe_mat weight = {(void *)(uintptr_t)data->weight, rows->n, 1, 1, CIRCE_FLOAT32};
    return upload(loop, &weight, &rows->weight);
}

/* Alone, batches are gathered from the data; by several ranks, from what is dealt. */
static circe_status open_training(train_loop *loop) {
    train_rows *rows = &loop->training;
    rows->n = loop->share.total;
    if (loop->share.ranks == NULL) return open_rows(loop, loop->data, rows);
    return train_share_open(loop);
}

/* Those of an epoch, on both sides. */
static circe_status make_batches(train_loop *loop) {
    int64_t batch = loop->options->batch, batches = loop->batches;
    float *blocks[4] = {NULL};
    loop->n_values = 1 + loop->n_places;
    loop->batch_bytes = sizeof(train_batch) + (size_t)batch * sizeof(int64_t);
    const size_t bytes[] = {(size_t)batches * loop->batch_bytes, loop->batch_bytes, sizeof *loop->turn,
                            (size_t)((batches + 1) * loop->n_values) * sizeof(double)};
    circe_status status = CIRCE_OK;
    for (int k = 0; k < 4 && status == CIRCE_OK; k++)
        status = on_device(loop, 1, (int64_t)(bytes[k] / sizeof(float)), &blocks[k]);
    loop->told = blocks[0];
    loop->now = (train_batch *)(void *)blocks[1];
    loop->turn = (int64_t *)(void *)blocks[2];
    loop->values = (double *)(void *)blocks[3];
    if (status != CIRCE_OK) return status;
    loop->noted = loop->values + loop->n_values;
    loop->order = calloc((size_t)loop->share.total, sizeof *loop->order);
    for (int k = 0; k < 2; k++) loop->telling[k] = calloc((size_t)batches, loop->batch_bytes);
    loop->seen = calloc((size_t)(batches * loop->n_values), sizeof *loop->seen);
    if (loop->order != NULL && loop->telling[0] != NULL && loop->telling[1] != NULL && loop->seen != NULL)
        return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for batches of %lld rows", (long long)batch);
}

static circe_status open_measures(train_loop *loop) {
    const train_data *v = loop->validation;
    const train_measure_plan plan = {.batch = loop->options->batch,
                                     .ranks = loop->share.ranks,
                                     .places = loop->n_places,
                                     .widest = loop->widest,
                                     .y = v == NULL ? NULL : &v->y,
                                     .z = v == NULL ? NULL : &v->z,
                                     .weight = v == NULL ? NULL : v->weight};
    if (loop->regularizer == NULL) return CIRCE_OK;
    return train_measures_open(loop->device, loop->regularizer, &plan, &loop->measures);
}

static circe_status make_buffers(train_loop *loop) {
    int64_t rows = loop->share.most;
    circe_status status = make_batches(loop);
    if (status == CIRCE_OK) status = open_training(loop);
    if (status == CIRCE_OK && loop->validation != NULL) status = open_rows(loop, loop->validation, &loop->checking);
    if (status == CIRCE_OK) status = on_device(loop, rows, loop->inputs, &loop->in);
    if (status == CIRCE_OK) status = on_device(loop, rows, loop->target_cols, &loop->want);
    if (status == CIRCE_OK && loop->data->weight != NULL) status = on_device(loop, rows, 1, &loop->count);
    if (status == CIRCE_OK) status = on_device(loop, rows, loop->widest, &loop->staging);
    if (status == CIRCE_OK) status = on_device(loop, 1, loop->n_params, &loop->m);
    if (status == CIRCE_OK) status = on_device(loop, 1, loop->n_params, &loop->v);
    if (status == CIRCE_OK) status = open_measures(loop);
    if (status != CIRCE_OK) return status;
    return train_state_create(loop->epochs, loop->n_params, loop->n_buffers, loop->options->patience > 0, &loop->state);
}

/* ---- layers ----------------------------------------------------------------------------------------------------- */

static circe_status make_place(train_loop *loop, int64_t layer) {
    int64_t last = train_network_n_layers(loop->network) - 1;
    if (layer < 0 || layer > last)
        return circe_fail(CIRCE_ERR_ARGUMENT, "there is no layer %lld to regularise; the network has 0 to %lld",
                          (long long)layer, (long long)last);
    for (int64_t p = 0; p < loop->n_places; p++)
        if (loop->places[p].layer == layer)
            return circe_fail(CIRCE_ERR_ARGUMENT, "layer %lld is named twice among those to regularise",
                              (long long)layer);
    train_place *place = &loop->places[loop->n_places++];
    place->layer = layer;
    place->cols = train_shape_count(train_network_layer(loop->network, layer)->out);
    if (place->cols > loop->widest) loop->widest = place->cols;
    /* A tap also makes the network store what it otherwise would not. */
    if (layer == last || (loop->options->gamma == 0.0 && train_network_activation(loop->network, layer) != NULL))
        return CIRCE_OK;
    return train_network_tap(loop->network, layer, &place->tap);
}

static circe_status make_places(train_loop *loop) {
    const train_options *o = loop->options;
    if (loop->regularizer == NULL) return CIRCE_OK;
    int64_t n = o->n_layers > 0 ? o->n_layers : 1;
    loop->places = calloc((size_t)n, sizeof *loop->places);
    if (loop->places == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld layers", (long long)n);
    circe_status status = CIRCE_OK;
    for (int64_t k = 0; k < n && status == CIRCE_OK; k++)
        status = make_place(loop, o->n_layers > 0 ? o->layers[k] : train_network_n_layers(loop->network) - 1);
    return status;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static void measure_up(train_loop *loop) {
    int64_t last = train_network_n_layers(loop->network) - 1;
    loop->device = train_network_device(loop->network);
    loop->n_params = train_network_n_params(loop->network);
    loop->n_buffers = train_network_n_buffers(loop->network);
    loop->inputs = train_shape_count(train_network_layer(loop->network, 0)->in);
    loop->outputs = train_shape_count(train_network_layer(loop->network, last)->out);
    loop->target_cols = loop->options->loss == TRAIN_CROSS_ENTROPY ? 1 : loop->outputs;
    if (loop->validation != NULL && loop->validation->features.n == 0) loop->validation = NULL;
}

static void plan(train_loop *loop) {
    const train_options *o = loop->options;
    loop->batches = loop->share.total / o->batch;
    loop->epochs = o->steps > 0 ? (o->steps - 1) / loop->batches + 1 : o->epochs;
    loop->steps = o->steps > 0 ? o->steps : o->epochs * loop->batches;
    loop->rate = (train_schedule){
        .warmup = llround(o->warmup_epochs * (double)loop->batches), .total = loop->steps, .cosine = o->cosine};
    loop->gamma =
        (train_schedule){.warmup = llround(o->gamma_warmup_epochs * (double)loop->batches), .total = loop->steps};
}

static circe_status check_given(const train_loop *loop) {
    circe_status status = check_training(loop);
    if (status == CIRCE_OK) status = check_validation(loop);
    bool writes = loop->share.ranks == NULL || loop->share.ranks->rank == 0;
    return status == CIRCE_OK && writes ? check_checkpoint(loop->options->checkpoint) : status;
}

static circe_status make_identity(train_loop *loop) {
    const train_data *v = loop->validation;
    bool compared = loop->options->checkpoint != NULL;
    train_known training = {loop->share.total, compared ? train_share_hash(loop) : 0}, validation = {0};
    if (v != NULL) validation.n = v->features.n;
    if (v != NULL && compared)
        validation.hash = train_hash_points(loop->device->context, v, 0) + train_hash_form(&v->features, v->features.n);
    return train_identity_make(loop->network, loop->regularizer, training, validation, loop->options, &loop->identity);
}

circe_status train_loop_open(train_loop *loop) {
    loop->told_of = loop->tells[0] = loop->tells[1] = loop->saved = loop->saved_end = -1;
    measure_up(loop);
    circe_status status = check_options(loop->options);
    if (status == CIRCE_OK) status = train_share_plan(loop);
    if (status == CIRCE_OK) status = train_loop_agree(loop, check_given(loop));
    if (status != CIRCE_OK) return status;
    plan(loop);
    status = make_places(loop);
    if (status == CIRCE_OK) status = make_buffers(loop);
    status = train_loop_agree(loop, status);
    return status == CIRCE_OK ? train_loop_agree(loop, make_identity(loop)) : status;
}

/* Taps stay with the network, and are added in every backward to come. */
static void clear_taps(const train_loop *loop) {
    for (int64_t p = 0; p < loop->n_places; p++)
        if (loop->places[p].tap != NULL)
            loop->device->ops->zero(loop->device, loop->share.rows * loop->places[p].cols, loop->places[p].tap);
}

void train_loop_close(train_loop *loop) {
    const train_device_ops *ops = loop->device->ops;
    void *blocks[] = {loop->training.target,
                      loop->checking.target,
                      loop->training.weight,
                      loop->checking.weight,
                      loop->count,
                      loop->in,
                      loop->want,
                      loop->staging,
                      loop->m,
                      loop->v,
                      loop->told,
                      loop->now,
                      loop->turn,
                      loop->values};
    if (ops->forget != NULL) ops->forget(loop->device, loop->recording);
    train_measures_close(loop->device, loop->measures);
    ops->source_close(loop->device, loop->training.features);
    ops->source_close(loop->device, loop->checking.features);
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
        if (blocks[b] != NULL) ops->release(loop->device, blocks[b]);
    clear_taps(loop);
    free(loop->places);
    free(loop->order);
    free(loop->telling[0]);
    free(loop->telling[1]);
    free(loop->seen);
    train_share_close(loop);
    train_state_free(&loop->state);
    train_identity_free(&loop->identity);
}
