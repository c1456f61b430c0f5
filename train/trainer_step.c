/* A step and the end of an epoch.
 *
 * A step: batch b of epoch e is rows order[b B .. b B + B) of a permutation of the training rows by (seed, e); rows
 * that fill no batch are left out of this epoch; images are gathered from bits or bytes into floats. Then the
 * objective, loss + gamma_t sum_layers R(x_layer), its gradient, and AdamW at rate_t. The device is told all of an
 * epoch at once, so that every step is the same work: it is recorded where the device records, and queued again.
 *
 * The end of an epoch: the validation loss is taken over all rows, with the network as it is used for predictions. R is
 * the mean over whole chunks of B rows, in their order (one chunk of all rows if there are fewer than B), because its
 * size and noise depend on the number of points. With patience, the best epoch is the one with the least loss + gamma R
 * after gamma's warm-up. Before that, every epoch has another objective. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "circe/status.h"
#include "train/trainer_parts.h"

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
    return circe_fail(CIRCE_ERR_NUMERIC, "%s %s: training stopped; %s", what, where, saved);
}

/* The first row of the batch whose target is NaN or infinite; -1: none. */
static int64_t bad_target(const train_loop *loop, const int64_t *index) {
    const circe_mat *target = &loop->data->target;
    if (loop->share.ranks != NULL) return -1; /* it may be another's */
    for (int64_t i = 0; i < loop->options->batch; i++)
        for (int64_t c = 0; c < target->cols; c++)
            if (!isfinite(((const float *)target->data)[index[i] * target->ld + c])) return index[i];
    return -1;
}

static circe_status stop_at_loss(const train_loop *loop, double loss, const int64_t *index) {
    char what[160];
    int64_t row = bad_target(loop, index);
    if (row >= 0)
        snprintf(what, sizeof what,
                 "the loss is %g, because the target of training row %lld (counted from 0) is not a number,", loss,
                 (long long)row);
    else
        snprintf(what, sizeof what, "the loss is %g", loss);
    return train_loop_stop(loop, what, true);
}

/* ---- what a step is told ---------------------------------------------------------------------------------------- */

/* Batch b of the epoch under way, in host memory. */
static train_batch *batch_of(const train_loop *loop, int64_t b) {
    return (train_batch *)(void *)(loop->telling[loop->state.now.epochs % 2] + (size_t)b * loop->batch_bytes);
}

static void write_batch(const train_loop *loop, int64_t epoch, int64_t b, train_batch *batch) {
    const train_options *o = loop->options;
    int64_t step = epoch * loop->batches + b;
    batch->adamw = (train_adamw){.rate = o->rate * train_schedule_at(&loop->rate, step),
                                 .beta1 = o->beta1,
                                 .beta2 = o->beta2,
                                 .epsilon = o->epsilon,
                                 .decay = o->decay,
                                 .step = step + 1,
                                 .values = loop->values,
                                 .n_values = loop->n_values};
    batch->gamma = o->gamma * train_schedule_at(&loop->gamma, step);
    batch->pull = batch->gamma / loop->share.weight;
    memcpy(batch->index, loop->order + b * o->batch, (size_t)o->batch * sizeof *loop->order);
}

/* All batches of an epoch, in host memory. */
static void write_epoch(train_loop *loop, int64_t epoch) {
    enum { FIRST_STREAM = 1000 };
    char *to = loop->telling[epoch % 2];
    circe_random generator = {.seed = loop->options->seed, .stream = (uint64_t)(FIRST_STREAM + epoch)};
    if (epoch >= loop->epochs || loop->tells[epoch % 2] == epoch) return;
    circe_random_permutation(generator, loop->share.total, loop->order);
    for (int64_t b = 0; b < loop->batches; b++)
        write_batch(loop, epoch, b, (train_batch *)(void *)(to + (size_t)b * loop->batch_bytes));
    loop->tells[epoch % 2] = epoch;
}

/* Those of the epoch under way to the device. */
static void tell_epoch(train_loop *loop) {
    const train_device_ops *ops = loop->device->ops;
    const train_standing *now = &loop->state.now;
    if (loop->told_of == now->epochs) return;
    write_epoch(loop, now->epochs);
    train_share_deal(loop);
    ops->upload(loop->device, loop->told, batch_of(loop, 0), (size_t)loop->batches * loop->batch_bytes);
    ops->upload(loop->device, loop->turn, &now->batches, sizeof now->batches);
    loop->told_of = now->epochs;
}

/* ---- the regulariser -------------------------------------------------------------------------------------------- */

static circe_status find_features(const train_loop *loop, const train_place *place, const float **x) {
    *x = train_network_activation(loop->network, place->layer);
    if (*x != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the output of layer %lld", (long long)place->layer);
}

/* gamma times the gradient to where backward looks for it. */
static void send(const train_loop *loop, const train_place *place) {
    const train_device_ops *ops = loop->device->ops;
    int64_t n = loop->share.rows * place->cols;
    float *to = place->tap != NULL ? place->tap : train_network_output_grad(loop->network);
    if (place->tap != NULL) ops->zero(loop->device, n, to);
    ops->add_times(loop->device, n, &loop->now->pull, loop->staging, to);
}

/* NaN or an infinity in x is a failure of the run, not an error of the caller. */
static circe_status stop_at_regularizer(const train_loop *loop, circe_status status, bool in_step) {
    char cause[400], what[480];
    if (status != CIRCE_ERR_VALUE && status != CIRCE_ERR_NUMERIC) return status;
    snprintf(cause, sizeof cause, "%s", circe_last_error());
    snprintf(what, sizeof what, "the regulariser has no value (%s)", cause);
    return train_loop_stop(loop, what, in_step);
}

/* At each of the layers; with gamma = 0 it is only measured. */
static circe_status regularize(train_loop *loop) {
    const train_standing *now = &loop->state.now;
    bool counts = loop->options->gamma > 0.0;
    if (loop->measures == NULL) return CIRCE_OK;
    for (int64_t p = 0; p < loop->n_places; p++) {
        const train_place *place = &loop->places[p];
        train_measured points = {.place = p,
                                 .step = now->steps,
                                 .n = loop->options->batch,
                                 .cols = place->cols,
                                 .index = loop->now->index,
                                 .host_index = batch_of(loop, now->batches)->index,
                                 .loss = loop->values,
                                 .value = loop->values + 1 + p,
                                 .grad = counts ? loop->staging : NULL};
        circe_status status = find_features(loop, place, &points.x);
        if (status != CIRCE_OK) return status;
        status = train_measures_batch(loop->device, loop->measures, &points);
        if (status != CIRCE_OK) return stop_at_regularizer(loop, status, true);
        if (counts) send(loop, place);
    }
    return CIRCE_OK;
}

/* ---- a step ----------------------------------------------------------------------------------------------------- */

/* Output and loss of the batch, with its gradient in place. */
static circe_status forward(train_loop *loop) {
    const train_device_ops *ops = loop->device->ops;
    const train_share *share = &loop->share;
    bool dealt = share->ranks != NULL;
    int64_t rows = share->rows;
    const int64_t *index = dealt ? share->index + loop->state.now.batches * rows : loop->now->index;
    ops->source_gather(loop->device, loop->training.features, index, 0, rows, loop->in);
    ops->gather(loop->device, loop->training.target, loop->target_cols, index, rows, loop->want);
    if (loop->count != NULL) ops->gather(loop->device, loop->training.weight, 1, index, rows, loop->count);
    circe_status status = train_network_forward(loop->network, rows, loop->in);
    if (status != CIRCE_OK) return status;
    ops->loss(loop->device, loop->options->loss, rows, loop->outputs, train_network_output(loop->network), loop->want,
              loop->count, loop->values, train_network_output_grad(loop->network));
    return CIRCE_OK;
}

/* Does the current batch, from taking it to noting its values. If a value is not finite, nothing is changed, and the
 * batch stays the current one. */
static circe_status queue_step(train_loop *loop) {
    const train_device_ops *ops = loop->device->ops;
    train_device *device = loop->device;
    ops->pick(device, loop->told, loop->batch_bytes, loop->turn, loop->now);
    circe_status status = forward(loop);
    ops->mark(device, 0);
    if (status == CIRCE_OK) status = regularize(loop);
    ops->mark(device, 1);
    if (status == CIRCE_OK) status = train_share_backward(loop);
    if (status != CIRCE_OK) return train_loop_lost(loop, status);
    train_share_sum(loop);
    ops->adamw(device, &loop->now->adamw, loop->n_params, train_network_grads(loop->network),
               train_network_params(loop->network), loop->m, loop->v);
    ops->append(device, loop->noted, loop->n_values, loop->turn, loop->values);
    return CIRCE_OK;
}

/* Whether the host has nothing to do in a step: no regulariser, and no sums over several processes. */
static bool steps_queue(const train_loop *loop) {
    return loop->device->ops->queues && loop->share.ranks == NULL && train_measures_queue(loop->measures);
}

/* The first step makes what is still missing, the second is recorded. */
static circe_status run_step(train_loop *loop) {
    const train_device_ops *ops = loop->device->ops;
    bool records = ops->record != NULL && !loop->options->unrecorded && steps_queue(loop);
    if (!records || !loop->warm) {
        loop->warm = true;
        return queue_step(loop);
    }
    if (loop->recording == NULL) {
        circe_status status = ops->record(loop->device);
        if (status == CIRCE_OK) status = queue_step(loop);
        circe_status ended = ops->record_end(loop->device, &loop->recording);
        if (status != CIRCE_OK || ended != CIRCE_OK) return status != CIRCE_OK ? status : ended;
    }
    return ops->replay(loop->device, loop->recording);
}

/* ---- what became of steps --------------------------------------------------------------------------------------- */

/* The next of those that were taken into the sums, or the end of the run. */
static circe_status count_step(train_loop *loop, const double *values) {
    train_standing *now = &loop->state.now;
    const train_batch *batch = batch_of(loop, now->batches);
    double regularizer = 0.0;
    if (!isfinite(values[0])) return stop_at_loss(loop, values[0], batch->index);
    for (int64_t p = 0; p < loop->n_places; p++) regularizer += values[1 + p];
    if (!isfinite(regularizer)) {
        char what[64];
        snprintf(what, sizeof what, "the regulariser is %g", regularizer);
        return train_loop_stop(loop, what, true);
    }
    now->loss = values[0];
    now->regularizer = regularizer;
    now->sums.loss += now->loss;
    now->sums.regularizer += regularizer;
    now->sums.rate += batch->adamw.rate;
    now->sums.gamma += loop->n_places > 0 ? batch->gamma : 0.0;
    now->steps++;
    now->batches++;
    return CIRCE_OK;
}

/* What the features of the last steps were like, where the layer is that shows the kernel furthest from 1/2. */
static circe_status look_at_features(train_loop *loop) {
    train_sums *sums = &loop->state.now.sums;
    circe_x_figures shown = {.mean_kernel = NAN, .spread = NAN};
    for (int64_t p = 0; p < loop->n_places; p++) {
        circe_x_figures figures;
        circe_status status = circe_measure_figures(loop->regularizer, p, &figures);
        if (status != CIRCE_OK) return status;
        bool further = !(fabs(figures.mean_kernel - 0.5) <= fabs(shown.mean_kernel - 0.5));
        if (p == 0 || further) shown = figures;
    }
    sums->kernel += (double)shown.batches * shown.mean_kernel;
    sums->spread += (double)shown.batches * shown.spread;
    sums->looked += (double)shown.batches;
    return CIRCE_OK;
}

static circe_status count_steps(train_loop *loop, int64_t n) {
    train_standing *now = &loop->state.now;
    const train_device_ops *ops = loop->device->ops;
    ops->download(loop->device, loop->seen, loop->noted + now->batches * loop->n_values,
                  (size_t)(n * loop->n_values) * sizeof *loop->seen);
    circe_status status = ops->check(loop->device);
    if (status == CIRCE_OK && loop->n_places > 0) now->regularizer_seconds += (double)n * ops->elapsed(loop->device);
    for (int64_t k = 0; k < n && status == CIRCE_OK; k++) status = count_step(loop, loop->seen + k * loop->n_values);
    return status == CIRCE_OK && loop->measures != NULL ? look_at_features(loop) : status;
}

circe_status train_loop_steps(train_loop *loop) {
    bool queues = steps_queue(loop);
    int64_t left = train_loop_batches(loop) - loop->state.now.batches, most = queues ? TRAIN_MOST_QUEUED : 1;
    int64_t n = left < most ? left : most;
    tell_epoch(loop);
    for (int64_t k = 0; k < n; k++) {
        circe_status status = run_step(loop);
        if (status != CIRCE_OK) return status;
    }
    if (queues && n == left) write_epoch(loop, loop->state.now.epochs + 1); /* while the device is at work */
    return count_steps(loop, n);
}

/* ---- the end of an epoch ---------------------------------------------------------------------------------------- */

/* The sum over the layers on validation rows that the network has just seen. */
static circe_status measure_chunk(train_loop *loop, int64_t first, int64_t n, double *sum) {
    *sum = 0.0;
    for (int64_t p = 0; p < loop->n_places; p++) {
        const float *x = NULL;
        double value = NAN;
        circe_status status = find_features(loop, &loop->places[p], &x);
        if (status != CIRCE_OK) return status;
        status = train_measures_rows(loop->device, loop->measures, p, first, n, loop->places[p].cols, x, &value);
        if (status != CIRCE_OK) return stop_at_regularizer(loop, status, false);
        *sum += value;
    }
    return CIRCE_OK;
}

/* The network's output and its loss on validation rows first .. first + rows - 1, of which there may be none here. */
static circe_status forward_chunk(train_loop *loop, int64_t first, int64_t rows, double *loss) {
    const train_device_ops *ops = loop->device->ops;
    *loss = 0.0;
    if (rows == 0) return CIRCE_OK;
    ops->source_gather(loop->device, loop->checking.features, NULL, first, rows, loop->in);
    circe_status status = train_network_forward(loop->network, rows, loop->in);
    if (status != CIRCE_OK) return status;
    const float *weight = loop->checking.weight == NULL ? NULL : loop->checking.weight + first;
    ops->loss(loop->device, loop->options->loss, rows, loop->outputs, train_network_output(loop->network),
              loop->checking.target + first * loop->target_cols, weight, loop->values, NULL);
    ops->download(loop->device, loss, loop->values, sizeof *loss);
    return ops->check(loop->device);
}

/* With several ranks, each takes its slice of every chunk. */
static circe_status validate_chunks(train_loop *loop, double *loss, double *regularizer) {
    int64_t n = loop->checking.n, batch = loop->options->batch, chunks = 0;
    const train_ranks *ranks = loop->share.ranks;
    *loss = *regularizer = 0.0;
    for (int64_t first = 0; first < n; first += batch) {
        int64_t rows = n - first < batch ? n - first : batch, own = rows, from = 0;
        double part = NAN;
        if (ranks != NULL) from = train_ranks_slice(rows, ranks->rank, ranks->size, &own);
        circe_status status = forward_chunk(loop, first + from, own, &part);
        if (status != CIRCE_OK) return train_loop_lost(loop, status);
        *loss += part * (double)own / (double)n;
        if (ranks == NULL && !isfinite(*loss)) break;
        if (loop->n_places == 0 || (rows < batch && n >= batch)) continue;
        status = measure_chunk(loop, first, rows, &part);
        if (status != CIRCE_OK) return train_loop_lost(loop, status);
        *regularizer += part;
        chunks++;
    }
    if (chunks > 0) *regularizer /= (double)chunks;
    train_share_sum_validation(loop, loss, regularizer);
    if (!isfinite(*loss)) return train_loop_stop(loop, "the validation loss is no longer finite", false);
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
                           .mean_kernel = now->sums.looked > 0.0 ? now->sums.kernel / now->sums.looked : NAN,
                           .spread = now->sums.looked > 0.0 ? now->sums.spread / now->sums.looked : NAN,
                           .validation_loss = NAN,
                           .validation_regularizer = NAN};
    if (validates(loop)) {
        circe_status status = validate(loop, &epoch->validation_loss, &epoch->validation_regularizer);
        if (status != CIRCE_OK) return status;
        judge(loop, epoch);
    }
    train_share_parameters(loop);
    double clock = job_clock();
    epoch->seconds = now->sums.seconds + clock - loop->clock;
    now->seconds += clock - loop->clock;
    loop->clock = clock;
    now->sums = (train_sums){0};
    loop->ended = now->batches;
    now->batches = 0;
    now->epochs++;
    return CIRCE_OK;
}
