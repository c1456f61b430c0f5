/* A step and the end of an epoch.
 *
 *     step    batch b of epoch e is rows order[b B .. b B + B) of a permutation of the training rows by (seed, e); rows
 *             that fill no batch are left out of this epoch; gathered from bits or bytes into floats where they are
 * images objective = loss + gamma_t sum_layers R(x_layer), gradient, AdamW at rate_t epoch   validation loss over all
 * rows, the network in its state of use; R as the mean over whole chunks of B rows, in their order (fewer rows than B:
 * one chunk of all), since its size and noise depend on the number of points. With patience, the epoch of the least
 * loss + gamma R is the best, from the end of gamma's warm-up on: before, it is another objective in every epoch. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "trainer_parts.h"

double train_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- stopping --------------------------------------------------------------------------------------------------- */

circe_status train_loop_stop(const train_loop *loop, const char *what, bool in_step) {
    const train_standing *now = &loop->state.now;
    char where[128], saved[320] = "there is no checkpoint";
    if (in_step)
        snprintf(where, sizeof where, "in step %lld (batch %lld of epoch %lld), which was not taken",
                 (long long)now->steps + 1, (long long)now->batches + 1, (long long)now->epochs + 1);
    else if (now->batches == 0)
        snprintf(where, sizeof where, "after step %lld (the end of epoch %lld)", (long long)now->steps,
                 (long long)now->epochs);
    else
        snprintf(where, sizeof where, "after step %lld (batch %lld of epoch %lld)", (long long)now->steps,
                 (long long)now->batches, (long long)now->epochs + 1);
    if (loop->saved >= 0)
        snprintf(saved, sizeof saved, "the last good checkpoint is %.240s, after step %lld", loop->options->checkpoint,
                 (long long)loop->saved);
    return train_fail(CIRCE_ERR_NUMERIC, "%s %s: training stopped; %s", what, where, saved);
}

/* The first row of the batch whose target is no number; -1: none. */
static int64_t bad_target(const train_loop *loop, const int64_t *index) {
    const circe_mat *target = &loop->data->target;
    for (int64_t i = 0; i < loop->options->batch; i++)
        for (int64_t c = 0; c < target->cols; c++)
            if (!isfinite(((const float *)target->data)[index[i] * target->ld + c])) return index[i];
    return -1;
}

static circe_status stop_at_loss(const train_loop *loop, double loss, const int64_t *index) {
    char what[160];
    int64_t row = bad_target(loop, index);
    if (row >= 0)
        snprintf(what, sizeof what, "the loss is %g, since the target of training row %lld (from 0) is no number,",
                 loss, (long long)row);
    else
        snprintf(what, sizeof what, "the loss is %g", loss);
    return train_loop_stop(loop, what, true);
}

/* ---- the regulariser -------------------------------------------------------------------------------------------- */

static circe_status fetch(const train_loop *loop, const train_place *place, int64_t rows) {
    const float *from = train_network_activation(loop->network, place->layer);
    if (from == NULL)
        return train_fail(CIRCE_ERR_MEMORY, "no memory for the output of layer %lld", (long long)place->layer);
    loop->device->ops->download(loop->device, loop->x, from, (size_t)(rows * place->cols) * sizeof *loop->x);
    return CIRCE_OK;
}

/* gamma times the gradient to where backward looks for it. */
static void send(const train_loop *loop, const train_place *place, double gamma) {
    const train_device_ops *ops = loop->device->ops;
    int64_t n = loop->options->batch * place->cols;
    float *to = place->tap != NULL ? place->tap : train_network_output_grad(loop->network);
    ops->upload(loop->device, loop->staging, loop->grad_x, (size_t)n * sizeof *loop->grad_x);
    if (place->tap != NULL) ops->zero(loop->device, n, to);
    ops->add(loop->device, n, (float)gamma, loop->staging, to);
}

/* An x that is no number is the run's failure, not the caller's. */
static circe_status stop_at_regularizer(const train_loop *loop, circe_status status, bool in_step) {
    char cause[400], what[480];
    if (status != CIRCE_ERR_VALUE && status != CIRCE_ERR_NUMERIC) return status;
    snprintf(cause, sizeof cause, "%s", train_last_error());
    snprintf(what, sizeof what, "the regulariser has no value (%s)", cause);
    return train_loop_stop(loop, what, in_step);
}

/* The sum over the layers; with gamma = 0 it is only measured. */
static circe_status regularize(train_loop *loop, const int64_t *index, double gamma, double *sum) {
    int64_t batch = loop->options->batch;
    *sum = 0.0;
    for (int64_t p = 0; p < loop->n_places; p++) {
        const train_place *place = &loop->places[p];
        double value = NAN;
        circe_mat x = circe_mat_f32(loop->x, batch, place->cols);
        circe_mat grad = circe_mat_f32(loop->grad_x, batch, place->cols);
        circe_status status = fetch(loop, place, batch);
        if (status != CIRCE_OK) return status;
        status = train_regularizer_batch_at(loop->regularizer, p, loop->state.now.steps, index, batch, &x, &value,
                                            gamma > 0.0 ? &grad : NULL);
        if (status != CIRCE_OK) return stop_at_regularizer(loop, status, true);
        if (gamma > 0.0) send(loop, place, gamma);
        *sum += value;
    }
    if (isfinite(*sum)) return CIRCE_OK;
    char what[64];
    snprintf(what, sizeof what, "the regulariser is %g", *sum);
    return train_loop_stop(loop, what, true);
}

/* ---- a step ----------------------------------------------------------------------------------------------------- */

static const int64_t *batch_index(train_loop *loop) {
    const train_standing *now = &loop->state.now;
    enum { FIRST_STREAM = 1000 };
    if (loop->order_of != now->epochs) {
        circe_random generator = {.seed = loop->options->seed, .stream = (uint64_t)(FIRST_STREAM + now->epochs)};
        circe_random_permutation(generator, loop->training.n, loop->order);
        loop->order_of = now->epochs;
    }
    return loop->order + now->batches * loop->options->batch;
}

/* Output and loss of the batch, with its gradient in place. */
static circe_status forward(train_loop *loop, const int64_t *index, double *loss) {
    const train_device_ops *ops = loop->device->ops;
    int64_t batch = loop->options->batch;
    ops->source_gather(loop->device, loop->training.features, index, 0, batch, loop->in);
    ops->gather(loop->device, loop->training.target, loop->target_cols, index, batch, loop->want);
    circe_status status = train_network_forward(loop->network, batch, loop->in);
    if (status != CIRCE_OK) return status;
    ops->loss(loop->device, loop->options->loss, batch, loop->outputs, train_network_output(loop->network), loop->want,
              loss, train_network_output_grad(loop->network));
    return isfinite(*loss) ? CIRCE_OK : stop_at_loss(loop, *loss, index);
}

static circe_status descend(train_loop *loop, double rate) {
    const train_options *o = loop->options;
    circe_status status = train_network_backward(loop->network, o->batch, loop->in);
    if (status != CIRCE_OK) return status;
    train_adamw how = {.rate = rate,
                       .beta1 = o->beta1,
                       .beta2 = o->beta2,
                       .epsilon = o->epsilon,
                       .decay = o->decay,
                       .step = loop->state.now.steps + 1};
    loop->device->ops->adamw(loop->device, &how, loop->n_params, train_network_grads(loop->network),
                             train_network_params(loop->network), loop->m, loop->v);
    return CIRCE_OK;
}

circe_status train_loop_step(train_loop *loop) {
    train_standing *now = &loop->state.now;
    double rate = loop->options->rate * train_schedule_at(&loop->rate, now->steps);
    double gamma = loop->options->gamma * train_schedule_at(&loop->gamma, now->steps);
    double loss = NAN, regularizer = 0.0;
    const int64_t *index = batch_index(loop);
    circe_status status = forward(loop, index, &loss);
    if (status != CIRCE_OK) return status;
    double began = train_seconds();
    status = regularize(loop, index, gamma, &regularizer);
    now->regularizer_seconds += loop->n_places > 0 ? train_seconds() - began : 0.0;
    if (status == CIRCE_OK) status = descend(loop, rate);
    if (status != CIRCE_OK) return status;
    now->loss = loss;
    now->regularizer = regularizer;
    now->sums.loss += loss;
    now->sums.regularizer += regularizer;
    now->sums.rate += rate;
    now->sums.gamma += loop->n_places > 0 ? gamma : 0.0;
    now->steps++;
    now->batches++;
    return CIRCE_OK;
}

/* ---- the end of an epoch ---------------------------------------------------------------------------------------- */

static circe_mat rows_of(const circe_mat *m, int64_t first, int64_t n) {
    circe_mat part = *m;
    part.data = (char *)m->data + (size_t)(first * m->ld) * circe_dtype_size(m->dtype);
    part.rows = n;
    return part;
}

/* The sum over the layers on validation rows that the network has just seen. */
static circe_status measure_chunk(train_loop *loop, int64_t first, int64_t n, double *sum) {
    const train_data *data = loop->validation;
    circe_mat y = data->y.cols > 0 ? rows_of(&data->y, first, n) : data->y, z = rows_of(&data->z, first, n);
    *sum = 0.0;
    for (int64_t p = 0; p < loop->n_places; p++) {
        double value = NAN;
        circe_mat x = circe_mat_f32(loop->x, n, loop->places[p].cols);
        circe_status status = fetch(loop, &loop->places[p], n);
        if (status != CIRCE_OK) return status;
        status = train_regularizer_value(loop->regularizer, &x, &y, &z, &value);
        if (status != CIRCE_OK) return stop_at_regularizer(loop, status, false);
        *sum += value;
    }
    return CIRCE_OK;
}

/* The network's output and its loss on validation rows first .. first + rows - 1. */
static circe_status forward_chunk(train_loop *loop, int64_t first, int64_t rows, double *loss) {
    const train_device_ops *ops = loop->device->ops;
    ops->source_gather(loop->device, loop->checking.features, NULL, first, rows, loop->in);
    circe_status status = train_network_forward(loop->network, rows, loop->in);
    if (status != CIRCE_OK) return status;
    ops->loss(loop->device, loop->options->loss, rows, loop->outputs, train_network_output(loop->network),
              loop->checking.target + first * loop->target_cols, loss, NULL);
    return CIRCE_OK;
}

static circe_status validate_chunks(train_loop *loop, double *loss, double *regularizer) {
    int64_t n = loop->checking.n, batch = loop->options->batch, chunks = 0;
    *loss = *regularizer = 0.0;
    for (int64_t first = 0; first < n; first += batch) {
        int64_t rows = n - first < batch ? n - first : batch;
        double part = NAN;
        circe_status status = forward_chunk(loop, first, rows, &part);
        if (status != CIRCE_OK) return status;
        *loss += part * (double)rows / (double)n;
        if (!isfinite(*loss)) return train_loop_stop(loop, "the validation loss is no longer finite", false);
        if (loop->n_places == 0 || (rows < batch && n >= batch)) continue;
        status = measure_chunk(loop, first, rows, &part);
        if (status != CIRCE_OK) return status;
        *regularizer += part;
        chunks++;
    }
    if (chunks > 0) *regularizer /= (double)chunks;
    if (!isfinite(*regularizer)) return train_loop_stop(loop, "the validation regulariser is no longer finite", false);
    return CIRCE_OK;
}

static circe_status validate(train_loop *loop, double *loss, double *regularizer) {
    train_network_set_training(loop->network, false);
    circe_status status = validate_chunks(loop, loss, regularizer);
    train_network_set_training(loop->network, true);
    return status;
}

static bool validates(const train_loop *loop) {
    int64_t ended = loop->state.now.epochs + 1;
    return loop->validation != NULL && (ended % loop->options->validate_every == 0 || ended == loop->epochs);
}

/* Parameters and what goes with them, of the best epoch yet. */
static void keep_best(train_loop *loop) {
    const train_device_ops *ops = loop->device->ops;
    train_state *s = &loop->state;
    if (s->best == NULL) return;
    ops->download(loop->device, s->best, train_network_params(loop->network), (size_t)loop->n_params * sizeof *s->best);
    ops->download(loop->device, s->best_buffers, train_network_buffers(loop->network),
                  (size_t)loop->n_buffers * sizeof *s->best_buffers);
}

/* Whether this epoch is the best yet, and whether the last good one is too long ago. */
static void judge(train_loop *loop, const train_epoch *epoch) {
    train_standing *now = &loop->state.now;
    double gamma = loop->n_places > 0 ? loop->options->gamma : 0.0;
    double objective = epoch->validation_loss + gamma * epoch->validation_regularizer;
    if (loop->n_places > 0 && now->steps < loop->gamma.warmup) return;
    if (now->best_epoch < 0 || objective < now->best) {
        now->best = objective;
        now->best_epoch = now->epochs;
        keep_best(loop);
    }
    bool is_last = now->epochs + 1 == loop->epochs;
    if (loop->options->patience > 0 && now->epochs - now->best_epoch >= loop->options->patience && !is_last)
        now->stopped_early = 1;
}

circe_status train_loop_end_epoch(train_loop *loop) {
    train_standing *now = &loop->state.now;
    train_epoch *epoch = &loop->state.history[now->epochs];
    double each = 1.0 / (double)now->batches;
    *epoch = (train_epoch){.loss = now->sums.loss * each,
                           .regularizer = now->sums.regularizer * each,
                           .rate = now->sums.rate * each,
                           .gamma = now->sums.gamma * each,
                           .validation_loss = NAN,
                           .validation_regularizer = NAN};
    if (validates(loop)) {
        circe_status status = validate(loop, &epoch->validation_loss, &epoch->validation_regularizer);
        if (status != CIRCE_OK) return status;
        judge(loop, epoch);
    }
    double clock = train_seconds();
    epoch->seconds = now->sums.seconds + clock - loop->clock;
    now->seconds += clock - loop->clock;
    loop->clock = clock;
    now->sums = (train_sums){0};
    loop->ended = now->batches;
    now->batches = 0;
    now->epochs++;
    return CIRCE_OK;
}
