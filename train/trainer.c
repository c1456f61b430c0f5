/* The loop around steps and epochs: progress, checkpoints, resuming, the end.
 *
 * Between any two steps, the state (checkpoint.h) describes the run completely. It can be written at that point, and a
 * run that reads it continues as if nothing had happened. The same holds after the last step of an epoch, before the
 * epoch is closed. */
#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "circe/status.h"
#include "train/trainer_parts.h"

void train_options_init(train_options *options) {
    *options = (train_options){.loss = TRAIN_MSE,
                               .epochs = 100,
                               .batch = 256,
                               .rate = 1e-3,
                               .decay = 1e-2,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .epsilon = 1e-8,
                               .cosine = 1,
                               .validate_every = 1};
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------ */

static bool all_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static bool is_finite(const train_state *s) {
    return all_finite(s->params, s->n_params) && all_finite(s->m, s->n_params) && all_finite(s->v, s->n_params) &&
           all_finite(s->buffers, s->n_buffers);
}

/* Copies the device's arrays and the regulariser's state to the host. If parameters are NaN or infinite (a gradient
 * overflowed in the last step, and no loss has shown it yet), the run ends: they must not replace a good checkpoint. */
static circe_status collect(train_loop *loop) {
    train_state *s = &loop->state;
    const train_device_ops *ops = loop->device->ops;
    size_t bytes = (size_t)loop->n_params * sizeof(float);
    ops->download(loop->device, s->params, train_network_params(loop->network), bytes);
    ops->download(loop->device, s->m, loop->m, bytes);
    ops->download(loop->device, s->v, loop->v, bytes);
    ops->download(loop->device, s->buffers, train_network_buffers(loop->network),
                  (size_t)loop->n_buffers * sizeof(float));
    circe_status status = ops->check(loop->device);
    size_t carried = 0;
    if (status == CIRCE_OK) status = circe_measure_state_bytes(loop->regularizer, &carried);
    if (status != CIRCE_OK) return status;
    if (!is_finite(s)) return train_loop_stop(loop, "the parameters are no longer finite", false);
    if (carried != s->regularizer_bytes) {
        free(s->regularizer);
        s->regularizer = malloc(carried > 0 ? carried : 1);
        s->regularizer_bytes = s->regularizer != NULL ? carried : 0;
        if (s->regularizer == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the regulariser's state");
    }
    return circe_measure_get_state(loop->regularizer, s->regularizer);
}

static circe_status save(train_loop *loop) {
    const train_state *s = &loop->state;
    const train_ranks *ranks = loop->share.ranks;
    circe_status status = collect(loop);
    if (status == CIRCE_OK && (ranks == NULL || ranks->rank == 0))
        status = train_checkpoint_write(loop->device->context, loop->options->checkpoint, &loop->identity, s);
    status = train_loop_agree(loop, status);
    if (status != CIRCE_OK) return status;
    loop->saved = s->now.steps;
    loop->saved_end = s->now.epochs;
    loop->saved_clock = job_clock();
    return CIRCE_OK;
}

static bool is_due(const train_loop *loop, bool epoch_ended) {
    const train_options *o = loop->options;
    if (o->checkpoint == NULL) return false;
    return epoch_ended && o->checkpoint_epochs > 0 && loop->state.now.epochs % o->checkpoint_epochs == 0;
}

/* By the clock, which differs between processes. */
static bool is_late(const train_loop *loop) {
    const train_options *o = loop->options;
    if (o->checkpoint == NULL || o->checkpoint_minutes <= 0.0) return false;
    return job_clock() - loop->saved_clock >= 60.0 * o->checkpoint_minutes;
}

static circe_status adopt(train_loop *loop) {
    const train_state *s = &loop->state;
    const train_device_ops *ops = loop->device->ops;
    size_t bytes = (size_t)loop->n_params * sizeof(float);
    int64_t steps = s->now.epochs * loop->batches + s->now.batches;
    if (s->now.batches > loop->batches || s->now.steps != (steps < loop->steps ? steps : loop->steps))
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: its counters are inconsistent: %lld epochs and %lld batches of %lld, %lld steps",
                          loop->options->checkpoint, (long long)s->now.epochs, (long long)s->now.batches,
                          (long long)loop->batches, (long long)s->now.steps);
    circe_status status = circe_measure_set_state(loop->regularizer, s->regularizer, s->regularizer_bytes);
    if (status != CIRCE_OK) return status;
    ops->upload(loop->device, train_network_params(loop->network), s->params, bytes);
    ops->upload(loop->device, loop->m, s->m, bytes);
    ops->upload(loop->device, loop->v, s->v, bytes);
    ops->upload(loop->device, train_network_buffers(loop->network), s->buffers,
                (size_t)loop->n_buffers * sizeof(float));
    loop->saved = s->now.steps;
    loop->saved_end = s->now.epochs;
    return CIRCE_OK;
}

/* Starts from the checkpoint if there is one, otherwise from the beginning. If a checkpoint is refused, the file stays
 * as it is and the run ends. */
static circe_status begin(train_loop *loop, bool *resumed) {
    const train_options *o = loop->options;
    const train_ranks *ranks = loop->share.ranks;
    struct stat info;
    circe_status status = circe_measure_set_state(loop->regularizer, NULL, 0); /* of another run */
    if (status != CIRCE_OK) return status;
    if (!o->resume || o->checkpoint == NULL) return CIRCE_OK;
    bool reads = ranks == NULL || ranks->rank == 0;
    int there = reads && (stat(o->checkpoint, &info) == 0 || errno != ENOENT);
    if (ranks != NULL) ranks->broadcast(&there, sizeof there);
    if (!there) return CIRCE_OK;
    status =
        reads ? train_checkpoint_read(loop->device->context, o->checkpoint, &loop->identity, &loop->state) : CIRCE_OK;
    status = train_loop_agree(loop, status);
    if (status == CIRCE_OK) status = train_share_state(loop);
    if (status == CIRCE_OK) status = train_loop_agree(loop, adopt(loop));
    *resumed = status == CIRCE_OK;
    return status;
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static bool is_finished(const train_loop *loop) {
    return loop->state.now.stopped_early || loop->state.now.epochs == loop->epochs;
}

static void count_seconds(train_loop *loop) {
    double clock = job_clock();
    loop->state.now.seconds += clock - loop->clock;
    loop->state.now.sums.seconds += clock - loop->clock;
    loop->clock = clock;
}

/* NULL: none yet. */
static const train_epoch *last_validated(const train_loop *loop) {
    int64_t e = loop->validation != NULL ? loop->state.now.epochs - 1 : -1;
    while (e >= 0 && isnan(loop->state.history[e].validation_loss)) e--;
    return e >= 0 ? &loop->state.history[e] : NULL;
}

static bool report(const train_loop *loop, bool epoch_ended) {
    const train_options *o = loop->options;
    const train_standing *now = &loop->state.now;
    const train_epoch *last = last_validated(loop);
    if (o->progress == NULL) return false;
    int64_t step = now->steps - 1; /* the one that was taken */
    train_progress progress = {
        .epoch = now->epochs,
        .epochs = loop->epochs,
        .step = now->steps,
        .steps = loop->steps,
        .batch = epoch_ended ? loop->ended : now->batches,
        .batches = epoch_ended ? loop->ended : train_loop_batches(loop),
        .loss = now->loss,
        .regularizer = now->regularizer,
        .validation_loss = last != NULL ? last->validation_loss : NAN,
        .validation_regularizer = last != NULL ? last->validation_regularizer : NAN,
        .rate = o->rate * train_schedule_at(&loop->rate, step),
        .gamma = loop->n_places > 0 ? o->gamma * train_schedule_at(&loop->gamma, step) : 0.0,
        .seconds = now->seconds,
        .history = loop->state.history,
        .epoch_ended = epoch_ended,
    };
    return o->progress(o->user, &progress) != 0;
}

static circe_status run_to_end(train_loop *loop, bool *interrupted) {
    while (!is_finished(loop)) {
        bool ending = loop->state.now.batches == train_loop_batches(loop);
        circe_status status = ending ? train_loop_end_epoch(loop) : train_loop_steps(loop);
        if (status != CIRCE_OK) return status;
        count_seconds(loop);
        bool stop = train_share_wish(loop, TRAIN_WISH_STOP, report(loop, ending));
        if (is_finished(loop)) break;
        bool due = is_due(loop, ending) || train_share_wish(loop, TRAIN_WISH_SAVE, is_late(loop));
        if (due || (stop && loop->options->checkpoint != NULL)) status = save(loop);
        if (status != CIRCE_OK) return status;
        if (stop) {
            *interrupted = true;
            return CIRCE_OK;
        }
    }
    if (loop->saved == loop->state.now.steps && loop->saved_end == loop->state.now.epochs) return CIRCE_OK;
    return loop->options->checkpoint != NULL ? save(loop) : collect(loop);
}

/* The network ends with what was best, where that was kept. */
static void restore_best(const train_loop *loop) {
    const train_state *s = &loop->state;
    const train_device_ops *ops = loop->device->ops;
    if (s->best == NULL || s->now.best_epoch < 0) return;
    ops->upload(loop->device, train_network_params(loop->network), s->best, (size_t)loop->n_params * sizeof *s->best);
    ops->upload(loop->device, train_network_buffers(loop->network), s->best_buffers,
                (size_t)loop->n_buffers * sizeof *s->best_buffers);
}

static void fill_result(train_loop *loop, train_result *result) {
    const train_standing *now = &loop->state.now;
    result->history = loop->state.history;
    loop->state.history = NULL;
    result->epochs_done = now->epochs;
    result->steps_done = now->steps;
    result->best_epoch = now->best_epoch;
    result->stopped_early = now->stopped_early != 0;
    result->seconds = now->seconds;
    result->regularizer_seconds = now->regularizer_seconds;
}

circe_status train_run(train_network *network, circe_measure *regularizer, const train_data *data,
                       const train_data *validation, const train_options *options, train_result *result) {
    *result = (train_result){.best_epoch = -1};
    train_loop loop = {
        .network = network, .regularizer = regularizer, .data = data, .validation = validation, .options = options};
    circe_status status = train_loop_open(&loop);
    if (status == CIRCE_OK) status = begin(&loop, &result->resumed);
    if (status == CIRCE_OK) {
        loop.clock = loop.saved_clock = job_clock();
        train_network_set_training(network, true);
        status = run_to_end(&loop, &result->interrupted);
        if (status == CIRCE_OK && !result->interrupted) restore_best(&loop);
        fill_result(&loop, result);
    }
    train_loop_close(&loop);
    return status;
}

void train_result_free(train_result *result) {
    if (result == NULL) return;
    free(result->history);
    *result = (train_result){0};
}
