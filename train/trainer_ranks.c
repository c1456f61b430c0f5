/* Training by several processes: the rows they hold, the rows they get, and what they add up.
 *
 * Each of N processes has a share of the training rows: those of train_ranks_slice. Batch b of an epoch is that of one
 * process alone, rows order[b B .. b B + B) of the same permutation; process k takes its slice of it, rows [B k / N, B
 * (k + 1) / N). So the rows move: once per epoch, each process sends its rows to the processes that will train on them,
 * as records (stored features, shift, weight, target), and receives its slices of all batches, in order. This takes a
 * second share of memory, and n / N records per process and epoch, in a few large messages.
 *
 *     objective        L + gamma R,  L the mean over the B rows, with their weights, R of the whole batch
 *     process k        grads_k = d mean_k + (B / rows_k) gamma dR|own rows,  weight_k = rows_k / B
 *     all              grads = sum_k weight_k grads_k
 *
 * Gradients are summed while backward still works on earlier layers: the gradients of a layer are final once backward
 * has passed it, and pieces of PIECE numbers are sent at once. All processes have the same parameters to the bit: sums
 * are the same everywhere, and in case processors round differently, process 0 distributes its parameters at the end of
 * every epoch.
 *
 * For a device with its own memory (a GPU), the host computes the sums: in every step, gradients and values come to the
 * host after backward and go back. So each process can use a GPU of its own, and the processes need only MPI between
 * them.
 *
 * If one process wants to stop or to write a checkpoint, it says so in the sums of a step, and all processes follow. */
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/checkpoint_hash.h"
#include "train/trainer_parts.h"

enum { PIECE = 8192, MOST_SENT = 1 << 28 }; /* numbers of a sum; bytes of an exchange */

/* ---- agreeing ---------------------------------------------------------------------------------------------------- */

circe_status train_loop_agree(const train_loop *loop, circe_status status) {
    char text[TRAIN_RANKS_TEXT];
    if (loop->share.ranks == NULL) return status;
    strncpy(text, status != CIRCE_OK ? circe_last_error() : "", sizeof text - 1);
    text[sizeof text - 1] = '\0';
    circe_status first = loop->share.ranks->agree(status, text);
    return first == CIRCE_OK ? CIRCE_OK : circe_fail(first, "%s", text);
}

circe_status train_loop_lost(const train_loop *loop, circe_status status) {
    if (loop->share.ranks != NULL && status != CIRCE_OK) loop->share.ranks->give_up(status, circe_last_error());
    return status;
}

/* ---- shares ------------------------------------------------------------------------------------------------------ */

/* Its statistics are of the whole batch, which the layer itself must sum. */
static bool has_batch_norm(const train_network *network) {
    for (int64_t l = 0; l < train_network_n_layers(network); l++)
        if (train_network_layer(network, l)->kind == TRAIN_BATCH_NORM) return true;
    return false;
}

static circe_status check_share(const train_loop *loop) {
    const train_share *s = &loop->share;
    int64_t due = 0, batch = loop->options->batch;
    train_ranks_slice(s->total, s->ranks->rank, s->ranks->size, &due);
    if (loop->device->ops->queues && has_batch_norm(loop->network))
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "several ranks can train networks with batch norm only on CPUs, but the device is %s",
                          loop->device->ops->name);
    if (batch < s->ranks->size)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "a batch of %lld rows cannot be divided among %d ranks: start at most %lld, or use a larger "
                          "batch",
                          (long long)batch, s->ranks->size, (long long)batch);
    if (s->own != due)
        return circe_fail(CIRCE_ERR_SHAPE, "this rank has %lld of %lld training rows, but its share is %lld",
                          (long long)s->own, (long long)s->total, (long long)due);
    return CIRCE_OK;
}

circe_status train_share_plan(train_loop *loop) {
    train_share *s = &loop->share;
    const train_ranks *ranks = loop->options->ranks;
    int64_t batch = loop->options->batch;
    *s = (train_share){
        .own = loop->data->features.n, .total = loop->data->features.n, .rows = batch, .most = batch, .weight = 1.0};
    if (ranks == NULL || ranks->size == 1) return CIRCE_OK;
    uint64_t total = (uint64_t)s->own;
    s->ranks = ranks;
    ranks->sum_integers(&total, 1);
    s->total = (int64_t)total;
    circe_status status = train_loop_agree(loop, check_share(loop));
    if (status != CIRCE_OK) return status;
    s->first = train_ranks_slice(s->total, ranks->rank, ranks->size, &s->own);
    s->from = train_ranks_slice(batch, ranks->rank, ranks->size, &s->rows);
    s->most = (batch + ranks->size - 1) / ranks->size;
    s->weight = (double)s->rows / (double)batch;
    loop->device->ranks = ranks;
    loop->device->weight = s->weight;
    return CIRCE_OK;
}

uint64_t train_share_hash(const train_loop *loop) {
    const train_share *s = &loop->share;
    uint64_t hash = train_hash_points(loop->device->context, loop->data, s->first);
    if (s->ranks != NULL) s->ranks->sum_integers(&hash, 1);
    return hash + train_hash_form(&loop->data->features, s->total);
}

/* ---- rows on their way ------------------------------------------------------------------------------------------- */

static size_t target_bytes(const train_loop *loop) { return (size_t)loop->target_cols * sizeof(float); }

static size_t count_bytes(const train_loop *loop) { return loop->data->weight != NULL ? sizeof(float) : 0; }

/* Batches whose rows travel at once. */
static int64_t batches_at_once(const train_loop *loop) {
    const train_share *s = &loop->share;
    int64_t most = (int64_t)((size_t)MOST_SENT / (s->record * (size_t)s->most * (size_t)s->ranks->size));
    return most < 1 ? 1 : most < loop->batches ? most : loop->batches;
}

static circe_status make_epoch(train_loop *loop) {
    train_share *s = &loop->share;
    const train_source *from = &loop->data->features;
    size_t row = (size_t)train_source_row_bytes(from);
    int64_t rows = loop->batches * s->rows;
    s->record = row + (from->shift != NULL ? 1 : 0) + count_bytes(loop) + target_bytes(loop);
    int64_t at_once = batches_at_once(loop), held = at_once * loop->options->batch;
    if ((double)loop->options->batch * (double)s->record > INT32_MAX)
        return circe_fail(
            CIRCE_ERR_UNSUPPORTED,
            "a batch of %lld rows of %zu bytes is too large; with several ranks, at most 2 GB are possible",
            (long long)loop->options->batch, s->record);
    s->values = malloc((size_t)rows * row);
    s->shift = from->shift != NULL ? malloc((size_t)rows) : NULL;
    s->target = malloc((size_t)rows * target_bytes(loop));
    s->count = count_bytes(loop) > 0 ? malloc((size_t)rows * count_bytes(loop)) : NULL;
    s->out = malloc((size_t)(held < s->own ? held : s->own) * s->record + 1);
    s->in = malloc((size_t)(at_once * s->most) * s->record);
    s->bytes = calloc(3 * (size_t)s->ranks->size, sizeof *s->bytes);
    s->sums = calloc(2 * (size_t)loop->n_values + 1 + TRAIN_N_WISHES, sizeof *s->sums);
    s->staging = malloc((size_t)(loop->n_params + loop->n_buffers + 1) * sizeof *s->staging);
    if (s->values == NULL || (from->shift != NULL && s->shift == NULL) || s->target == NULL ||
        (count_bytes(loop) > 0 && s->count == NULL) || s->out == NULL || s->in == NULL || s->bytes == NULL ||
        s->sums == NULL || s->staging == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the %lld training rows of an epoch", (long long)rows);
    s->source = *from;
    s->source.values = s->values;
    s->source.n = s->source.n_stored = rows;
    s->source.stride = from->element == TRAIN_FLOATS ? (int64_t)(row / sizeof(float)) : (int64_t)row;
    s->source.stored = NULL;
    s->source.shift = s->shift;
    return CIRCE_OK;
}

/* 0, 1, 2, ... and the targets, in the device's memory. */
static circe_status open_dealt(train_loop *loop) {
    train_share *s = &loop->share;
    train_device *device = loop->device;
    int64_t rows = loop->batches * s->rows, *numbers = malloc((size_t)rows * sizeof *numbers);
    s->index = device->ops->allocate(device, (size_t)rows * sizeof *s->index);
    loop->training.target = device->ops->allocate(device, (size_t)rows * target_bytes(loop));
    if (s->count != NULL) loop->training.weight = device->ops->allocate(device, (size_t)rows * count_bytes(loop));
    for (int64_t i = 0; numbers != NULL && i < rows; i++) numbers[i] = i;
    bool complete = numbers != NULL && s->index != NULL && loop->training.target != NULL &&
                    (s->count == NULL || loop->training.weight != NULL);
    if (complete) device->ops->upload(device, s->index, numbers, (size_t)rows * sizeof *numbers);
    free(numbers);
    return complete ? CIRCE_OK : circe_fail(CIRCE_ERR_MEMORY, "out of memory for the training rows of an epoch");
}

circe_status train_share_open(train_loop *loop) {
    train_share *s = &loop->share;
    if (s->ranks == NULL) return CIRCE_OK;
    circe_status status = make_epoch(loop);
    if (status == CIRCE_OK) status = loop->device->ops->source_open(loop->device, &s->source, &loop->training.features);
    return status == CIRCE_OK ? open_dealt(loop) : status;
}

void train_share_close(train_loop *loop) {
    train_share *s = &loop->share;
    loop->device->ranks = NULL;
    free(s->values);
    free(s->shift);
    free(s->target);
    free(s->count);
    free(s->staging);
    loop->device->ops->release(loop->device, s->index);
    free(s->out);
    free(s->in);
    free(s->bytes);
    free(s->sums);
}

/* Who holds training row r: the last k whose slice begins at floor(total k / size) <= r. */
static int holder(const train_share *s, int64_t r) { return (int)(((r + 1) * s->ranks->size - 1) / s->total); }

static void write_record(const train_loop *loop, int64_t row, char *to) {
    const train_source *from = &loop->data->features;
    const circe_mat *target = &loop->data->target;
    size_t bytes = (size_t)train_source_row_bytes(from);
    memcpy(to, train_source_row_start(from, train_source_row(from, row)), bytes);
    to += bytes;
    if (from->shift != NULL) *to++ = (char)from->shift[row];
    if (count_bytes(loop) > 0) memcpy(to, loop->data->weight + row, count_bytes(loop));
    to += count_bytes(loop);
    memcpy(to, (const float *)target->data + row * target->ld, target_bytes(loop));
}

static void read_record(train_loop *loop, int64_t at, const char *from) {
    train_share *s = &loop->share;
    size_t bytes = s->record - target_bytes(loop) - count_bytes(loop) - (s->shift != NULL ? 1 : 0);
    memcpy(s->values + (size_t)at * bytes, from, bytes);
    from += bytes;
    if (s->shift != NULL) s->shift[at] = (int8_t)*from++;
    if (s->count != NULL) memcpy(s->count + at, from, count_bytes(loop));
    from += count_bytes(loop);
    memcpy((char *)s->target + (size_t)at * target_bytes(loop), from, target_bytes(loop));
}

/* Packs the rows of batches [first, end) that this process has, grouped by the process that takes them, in the order of
 * the epoch. */
static void pack(train_loop *loop, int64_t first, int64_t end) {
    train_share *s = &loop->share;
    int64_t batch = loop->options->batch, n = 0;
    char *to = s->out;
    for (int k = 0; k < s->ranks->size; k++) {
        int64_t from = train_ranks_slice(batch, k, s->ranks->size, &n);
        const char *start = to;
        for (int64_t b = first; b < end; b++)
            for (int64_t p = from; p < from + n; p++) {
                int64_t row = loop->order[b * batch + p] - s->first;
                if (row < 0 || row >= s->own) continue;
                write_record(loop, row, to);
                to += s->record;
            }
        s->bytes[k] = (size_t)(to - start);
    }
}

/* How much comes from whom; then where each record goes. */
static void unpack(train_loop *loop, int64_t first, int64_t end, bool counts) {
    train_share *s = &loop->share;
    size_t *bytes = s->bytes + s->ranks->size, *at = bytes + s->ranks->size;
    int64_t batch = loop->options->batch;
    if (counts) memset(bytes, 0, (size_t)s->ranks->size * sizeof *bytes);
    for (int k = 0; !counts && k < s->ranks->size; k++) at[k] = k > 0 ? at[k - 1] + bytes[k - 1] : 0;
    for (int64_t b = first; b < end; b++)
        for (int64_t p = 0; p < s->rows; p++) {
            int from = holder(s, loop->order[b * batch + s->from + p]);
            if (counts) {
                bytes[from] += s->record;
                continue;
            }
            read_record(loop, b * s->rows + p, s->in + at[from]);
            at[from] += s->record;
        }
}

void train_share_deal(train_loop *loop) {
    train_share *s = &loop->share;
    if (s->ranks == NULL) return;
    int64_t step = batches_at_once(loop);
    for (int64_t first = 0; first < loop->batches; first += step) {
        int64_t end = first + step < loop->batches ? first + step : loop->batches;
        pack(loop, first, end);
        unpack(loop, first, end, true);
        s->ranks->exchange(s->out, s->bytes, s->in, s->bytes + s->ranks->size);
        unpack(loop, first, end, false);
    }
    const train_device_ops *ops = loop->device->ops;
    size_t dealt = (size_t)(loop->batches * s->rows);
    ops->upload(loop->device, loop->training.target, s->target, dealt * target_bytes(loop));
    if (s->count != NULL) ops->upload(loop->device, loop->training.weight, s->count, dealt * count_bytes(loop));
    if (ops->source_renew != NULL) ops->source_renew(loop->device, loop->training.features);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Off with numbers [first, end) of the gradients that wait for others. */
static void send_off(train_loop *loop) {
    train_share *s = &loop->share;
    float *grads = train_network_grads(loop->network) + s->waiting_first;
    int64_t n = s->waiting_end - s->waiting_first;
    if (n > 0) s->ranks->sum_begin(grads, n, 1, s->weight);
    s->waiting_end = s->waiting_first;
}

/* Backward has passed a layer: its gradients are final. It goes from the last layer to the first, and so do they. */
static void on_gradients(void *user, int64_t first, int64_t n) {
    train_loop *loop = user;
    train_share *s = &loop->share;
    if (s->waiting_end > s->waiting_first && first + n != s->waiting_first) send_off(loop);
    if (s->waiting_end == s->waiting_first) s->waiting_end = first + n;
    s->waiting_first = first;
    if (s->waiting_end - first >= PIECE)
        send_off(loop);
    else
        s->ranks->sum_move();
}

circe_status train_share_backward(train_loop *loop) {
    train_share *s = &loop->share;
    if (s->ranks == NULL || loop->device->ops->queues) return train_network_backward(loop->network, s->rows, loop->in);
    s->waiting_first = s->waiting_end = 0;
    train_network_on_gradients(loop->network, on_gradients, loop);
    circe_status status = train_network_backward(loop->network, s->rows, loop->in);
    train_network_on_gradients(loop->network, NULL, NULL);
    if (status == CIRCE_OK) send_off(loop);
    return status;
}

/* values := the weighted sums over the processes; and what anybody wants. Under way until sums_made. */
static void sums_of(train_share *s, double weight, int64_t n, const double *values) {
    for (int64_t v = 0; v < n; v++) s->sums[v] = weight * values[v];
    for (int w = 0; w < TRAIN_N_WISHES; w++) s->sums[n + w] = s->wishes[w] ? 1.0 : 0.0;
    s->ranks->sum_begin(s->sums, n + TRAIN_N_WISHES, 0, 1.0);
}

static void sums_made(train_share *s, int64_t n, double *values) {
    s->ranks->sum_end();
    memcpy(values, s->sums, (size_t)n * sizeof *values);
    for (int w = 0; w < TRAIN_N_WISHES; w++) {
        s->granted[w] = s->sums[n + w] > 0.0;
        s->wishes[w] = false;
    }
}

/* With those of the gradients, which are under way on the CPU and still on another device. */
void train_share_sum(train_loop *loop) {
    train_share *s = &loop->share;
    train_device *device = loop->device;
    if (s->ranks == NULL) return;
    size_t values = (size_t)loop->n_values * sizeof *loop->values, grads = (size_t)loop->n_params * sizeof(float);
    double *own = s->sums + loop->n_values + TRAIN_N_WISHES + 1;
    float *of_network = train_network_grads(loop->network);
    bool apart = device->ops->queues;
    device->ops->download(device, own, loop->values, values);
    if (apart) device->ops->download(device, s->staging, of_network, grads);
    if (apart) s->ranks->sum_begin(s->staging, loop->n_params, 1, s->weight);
    sums_of(s, s->weight, loop->n_values, own);
    sums_made(s, loop->n_values, own);
    if (apart) device->ops->upload(device, of_network, s->staging, grads);
    device->ops->upload(device, loop->values, own, values);
}

void train_share_sum_validation(train_loop *loop, double *loss, double *regularizer) {
    train_share *s = &loop->share;
    double values[] = {*loss, *regularizer};
    if (s->ranks == NULL) return;
    sums_of(s, 1.0, 2, values);
    sums_made(s, 2, values);
    *loss = values[0];
    *regularizer = values[1];
}

bool train_share_wish(train_loop *loop, train_wish wish, bool wanted) {
    train_share *s = &loop->share;
    if (s->ranks == NULL) return wanted;
    if (wish == TRAIN_WISH_SAVE && s->ranks->rank > 0) wanted = false; /* one clock decides */
    s->wishes[wish] = s->wishes[wish] || wanted;
    return s->granted[wish];
}

/* ---- the state --------------------------------------------------------------------------------------------------- */

static void share_array(const train_share *s, float *values, int64_t n) {
    if (values != NULL && n > 0) s->ranks->broadcast(values, (size_t)n * sizeof *values);
}

/* The same of an array in the device's memory. */
static void share_there(const train_loop *loop, float *values, int64_t n) {
    const train_share *s = &loop->share;
    const train_device_ops *ops = loop->device->ops;
    if (n == 0) return;
    ops->download(loop->device, s->staging, values, (size_t)n * sizeof *values);
    share_array(s, s->staging, n);
    ops->upload(loop->device, values, s->staging, (size_t)n * sizeof *values);
}

void train_share_parameters(train_loop *loop) {
    if (loop->share.ranks == NULL) return;
    share_there(loop, train_network_params(loop->network), loop->n_params);
    share_there(loop, loop->m, loop->n_params);
    share_there(loop, loop->v, loop->n_params);
    share_there(loop, train_network_buffers(loop->network), loop->n_buffers);
}

circe_status train_share_state(train_loop *loop) {
    const train_share *s = &loop->share;
    train_state *state = &loop->state;
    size_t bytes = state->regularizer_bytes;
    if (s->ranks == NULL) return CIRCE_OK;
    s->ranks->broadcast(&state->now, sizeof state->now);
    s->ranks->broadcast(state->history, (size_t)state->epochs * sizeof *state->history);
    share_array(s, state->params, state->n_params);
    share_array(s, state->m, state->n_params);
    share_array(s, state->v, state->n_params);
    share_array(s, state->buffers, state->n_buffers);
    share_array(s, state->best, state->n_params);
    share_array(s, state->best_buffers, state->n_buffers);
    s->ranks->broadcast(&bytes, sizeof bytes);
    if (bytes != state->regularizer_bytes) {
        free(state->regularizer);
        state->regularizer = malloc(bytes > 0 ? bytes : 1);
        state->regularizer_bytes = state->regularizer != NULL ? bytes : 0;
    }
    circe_status status = state->regularizer_bytes == bytes
                              ? CIRCE_OK
                              : circe_fail(CIRCE_ERR_MEMORY, "out of memory for the regulariser's state");
    status = train_loop_agree(loop, status);
    if (status == CIRCE_OK && bytes > 0) s->ranks->broadcast(state->regularizer, bytes);
    return status;
}
