/* The states (primitives, workspaces) that layers create for one batch size and number of threads, for each segment
 * that takes whole batches. Those of the largest batch are created with the network, those of other sizes at their
 * first use: a validation set, for example, always ends with the same smaller chunk. A few sets are kept; the least
 * recently used one makes room. */
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/network_internal.h"

static void free_set(train_network *network, train_states *set) {
    train_device *device = network->device;
    for (int64_t s = 0; set->of != NULL && s < network->n_segments; s++) {
        const train_layer_ops *ops = network->ops[network->segments[s].first];
        train_kept *kept = &set->of[s];
        if (kept->state != NULL && ops->destroy != NULL) ops->destroy(device, kept->state);
        for (int b = 0; b < kept->memory.n; b++) device->ops->release(device, kept->memory.blocks[b]);
        free(kept->state);
    }
    free(set->of);
    *set = (train_states){0};
}

circe_status train_take(train_memory *memory, size_t bytes, void *block) {
    void *made = memory->device->ops->allocate(memory->device, bytes);
    if (made == NULL) return CIRCE_ERR_MEMORY;
    memory->blocks[memory->n++] = made;
    memcpy(block, &made, sizeof made);
    return CIRCE_OK;
}

/* That of one segment's layer. */
static circe_status make_state(train_network *network, const train_segment *segment, int64_t rows, train_kept *kept) {
    const train_layer_ops *ops = network->ops[segment->first];
    if (ops->state_bytes == 0) return CIRCE_OK;
    kept->memory.device = network->device;
    kept->state = calloc(1, ops->state_bytes);
    if (kept->state == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the states of a network");
    return ops->create(&network->layers[segment->first], rows, segment->grad[0].write >= 0, kept->state, &kept->memory);
}

void train_states_free(train_network *network) {
    for (int k = 0; k < TRAIN_MAX_STATES; k++) free_set(network, &network->states[k]);
}

static circe_status grow_scratch(train_network *network, size_t bytes) {
    train_device *device = network->device;
    if (bytes <= network->scratch_bytes) return CIRCE_OK;
    void *larger = device->ops->allocate(device, bytes);
    if (larger == NULL) return CIRCE_ERR_MEMORY;
    device->ops->release(device, network->scratch);
    network->scratch = larger;
    network->scratch_bytes = bytes;
    return CIRCE_OK;
}

static circe_status make_set(train_network *network, int64_t rows, int threads, train_states *set) {
    size_t most = 0;
    *set = (train_states){.rows = rows, .threads = threads, .of = calloc((size_t)network->n_segments, sizeof *set->of)};
    if (set->of == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the states of a network");
    circe_status status = CIRCE_OK;
    for (int64_t s = 0; status == CIRCE_OK && s < network->n_segments; s++) {
        status = make_state(network, &network->segments[s], rows, &set->of[s]);
        if (set->of[s].memory.scratch > most) most = set->of[s].memory.scratch;
    }
    return status == CIRCE_OK ? grow_scratch(network, most) : status;
}

/* An empty place, or that of the least recently used set. */
static train_states *choose(train_network *network) {
    train_states *chosen = &network->states[0];
    for (int k = 1; k < TRAIN_MAX_STATES; k++)
        if (chosen->rows != 0 && (network->states[k].rows == 0 || network->states[k].used < chosen->used))
            chosen = &network->states[k];
    return chosen;
}

static bool has_states(const train_network *network) {
    for (int64_t s = 0; s < network->n_segments; s++)
        if (network->ops[network->segments[s].first]->state_bytes > 0) return true;
    return false;
}

static circe_status find_set(train_network *network, int64_t rows, int threads, train_states **states) {
    int64_t now = network->n_forwards++;
    for (int k = 0; k < TRAIN_MAX_STATES; k++) {
        *states = &network->states[k];
        if ((*states)->rows != rows || (*states)->threads != threads) continue;
        (*states)->used = now;
        return CIRCE_OK;
    }
    *states = choose(network);
    free_set(network, *states);
    circe_status status = make_set(network, rows, threads, *states);
    (*states)->used = now;
    if (status != CIRCE_OK) free_set(network, *states);
    return status;
}

static bool counts_threads(const train_network *network) {
    return has_states(network) && network->device->ops->images->enter != NULL;
}

circe_status train_states_enter(train_network *network, int64_t rows, int most, train_threads *before,
                                train_states **states) {
    *states = NULL;
    if (!has_states(network)) return CIRCE_OK;
    int threads = counts_threads(network) ? network->device->ops->images->enter(most, before) : most;
    return find_set(network, rows, threads, states);
}

void train_states_leave(const train_network *network, const train_threads *before) {
    if (counts_threads(network)) network->device->ops->images->leave(before);
}
