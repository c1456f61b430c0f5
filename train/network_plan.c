/* How a network is run: its layers cut into segments, and the memory for them.
 *
 * Rowwise layers, each reading the one before and read by the next alone, make one segment, which is cut by rows. A
 * layer that takes whole batches is a segment of its own, together with the activation, and the max-pool, behind it
 * where the device can apply them to the layer's output as it writes it: what comes before them is then never stored.
 */
#include <stdlib.h>

#include "circe/status.h"
#include "train/network_internal.h"
#include "train/parallel.h"

enum {
    LEAST_ROWS = 32,        /* fewer rows leave BLAS's kernels half empty, and every part has gradients to add up */
    LEAST_PRODUCTS = 32768, /* some 1 us of one core: what a meeting of threads costs */
};

int64_t train_network_numbers(const train_network *network, int64_t l) {
    const train_layer *layer = &network->layers[l];
    return layer->images ? network->device->ops->images->numbers(layer->form, layer->out)
                         : train_shape_count(layer->out);
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

static bool continues(const train_network *network, const train_segment *last, int64_t l) {
    return network->ops[l]->rowwise && last->rowwise && last->end == l && network->layers[l].from == l - 1 &&
           network->readers[l - 1] == 1;
}

/* Layer l + 1 alone reads l, and nobody asks for that. */
static bool leads_on(const train_network *network, int64_t l) {
    return l + 1 < network->n_layers && !network->kept[l] && network->layers[l + 1].from == l &&
           network->readers[l] == 1;
}

/* Layer l + 1 is an activation that l applies itself. */
static bool merges(const train_network *network, int64_t l) {
    if (!leads_on(network, l) || network->ops[l]->merges == NULL) return false;
    const train_layer *next = &network->layers[l + 1];
    return train_layer_type_of(next->kind)->elementwise && network->ops[l]->merges(next->kind);
}

/* Layer `last` + 1 is a max-pool that l applies itself, behind its activation `last`, or behind itself. */
static bool pools(const train_network *network, int64_t l, int64_t last) {
    if (!leads_on(network, last) || network->ops[l]->pools == NULL) return false;
    const train_layer *next = &network->layers[last + 1];
    return next->kind == TRAIN_MAX_POOL && network->ops[l]->pools(&network->layers[l], next);
}

static void add_layer(train_network *network, int64_t *l) {
    int64_t own = *l;
    train_layer *layer = &network->layers[own];
    train_segment *last = network->segments + network->n_segments - 1;
    if (network->n_segments == 0 || !continues(network, last, *l)) {
        *++last = (train_segment){.first = *l,
                                  .rowwise = network->ops[*l]->rowwise,
                                  .first_param = layer->first_param,
                                  .from = layer->from,
                                  .other = layer->other};
        network->n_segments++;
    }
    last->n_params += layer->n_params;
    layer->merged = merges(network, *l) ? layer[1].kind : (train_layer_kind)0;
    if (layer->merged != 0) {
        layer->slope = layer[1].slope;
        (*l)++;
    }
    layer->pooled = pools(network, own, *l);
    if (layer->pooled) (*l)++;
    last->end = *l + 1;
}

static void make_segments(train_network *network) {
    network->max_parts = 1;
    network->widest = 1;
    for (int64_t l = 0; l < network->n_layers; l++) add_layer(network, &l);
    for (int64_t s = 0; s < network->n_segments; s++) {
        train_segment *segment = &network->segments[s];
        int64_t least = LEAST_PRODUCTS / (segment->n_params + 1);
        segment->least_rows = least > LEAST_ROWS ? least : LEAST_ROWS;
        if (!segment->rowwise) continue;
        int64_t parts = circe_context_parts(network->device->context, network->max_batch, segment->least_rows);
        if (parts > network->max_parts) network->max_parts = parts;
        for (int64_t l = segment->first; l < segment->end; l++)
            if (train_network_numbers(network, l) > network->widest)
                network->widest = train_network_numbers(network, l);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Some layer of images reads the network's input. */
static bool reads_packed_input(const train_network *network) {
    for (int64_t l = 0; l < network->n_layers; l++) {
        const train_layer *layer = &network->layers[l];
        if (layer->reads_images && (layer->from < 0 || (layer->kind == TRAIN_ADD && layer->other < 0))) return true;
    }
    return false;
}

/* Numbers a row of the largest output that is kept as images and whose gradient is put in from outside; 0: none. */
static int64_t widest_packed_tap(const train_network *network) {
    int64_t widest = 0;
    for (int64_t l = 0; l < network->n_layers; l++)
        if (network->taps[l] != NULL && network->layers[l].images && train_network_numbers(network, l) > widest)
            widest = train_network_numbers(network, l);
    return widest;
}

static circe_status make_images(train_network *network) {
    circe_status status = CIRCE_OK;
    int64_t tap = widest_packed_tap(network);
    if (reads_packed_input(network))
        status = train_network_buffer(network, network->max_batch,
                                      network->device->ops->images->numbers(network->layers[0].form, network->input),
                                      &network->packed_in);
    if (status == CIRCE_OK && tap > 0)
        status = train_network_buffer(network, network->max_batch, tap, &network->packed_tap);
    return status;
}

static circe_status make_memory(train_network *network) {
    int64_t batch = network->max_batch;
    circe_status status =
        train_network_buffer(network, network->max_parts - 1, network->n_params, &network->part_grads);
    for (int64_t s = 0; status == CIRCE_OK && s < network->n_segments; s++) {
        const train_segment *segment = &network->segments[s];
        int64_t l = segment->rowwise ? segment->first : segment->end - 1;
        for (; status == CIRCE_OK && l < segment->end; l++)
            status = train_network_buffer(network, batch, train_network_numbers(network, l), &network->activations[l]);
    }
    for (int k = 0; status == CIRCE_OK && k < 2; k++)
        status = train_network_buffer(network, batch, network->widest, &network->inside[k]);
    for (int64_t k = 0; status == CIRCE_OK && k < network->n_slots; k++)
        if (k != TRAIN_OUTPUT_SLOT || network->layers[network->n_layers - 1].images)
            status = train_network_buffer(network, batch, network->slot_numbers[k], &network->slots[k]);
        else
            network->slots[k] = network->output_grad;
    return status == CIRCE_OK ? make_images(network) : status;
}

void train_plan_free(train_network *network) {
    train_device *device = network->device;
    train_states_free(network);
    float *buffers[] = {network->part_grads, network->inside[0],  network->inside[1],
                        network->packed_in,  network->packed_tap, network->scratch};
    for (size_t k = 0; k < sizeof buffers / sizeof buffers[0]; k++) device->ops->release(device, buffers[k]);
    for (int64_t l = 0; network->activations != NULL && l < network->n_layers; l++)
        device->ops->release(device, network->activations[l]);
    for (int64_t k = 0; network->slots != NULL && k < network->n_slots; k++)
        if (network->slots[k] != network->output_grad) device->ops->release(device, network->slots[k]);
    free(network->segments);
    free(network->activations);
    free(network->slots);
    free(network->slot_numbers);
    network->segments = NULL;
    network->activations = NULL;
    network->slots = NULL;
    network->slot_numbers = NULL;
    network->part_grads = network->inside[0] = network->inside[1] = network->packed_in = network->packed_tap = NULL;
    network->scratch = NULL;
    network->scratch_bytes = 0;
    network->n_segments = network->n_slots = network->last_rows = 0;
}

/* States for the largest batch. */
static circe_status make_states(train_network *network) {
    train_states *states = NULL;
    train_threads before;
    int threads = circe_context_threads(network->device->context);
    circe_status status = train_states_enter(network, network->max_batch, threads, &before, &states);
    train_states_leave(network, &before);
    return status;
}

circe_status train_plan_make(train_network *network) {
    network->segments = calloc((size_t)network->n_layers, sizeof *network->segments);
    network->activations = calloc((size_t)network->n_layers, sizeof *network->activations);
    if (network->segments == NULL || network->activations == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a network of %lld layers", (long long)network->n_layers);
    make_segments(network);
    circe_status status = train_slots_make(network);
    if (status == CIRCE_OK) status = make_memory(network);
    return status == CIRCE_OK ? make_states(network) : status;
}
