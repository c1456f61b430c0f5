/* Plans the memory of gradients at the outputs of segments. A gradient is needed from the backward pass of the output's
 * last reader to that of the segment that made it, so a few slots are enough for a deep network. The plan of which
 * segment writes to which slot is made once, by going through the backward pass without data.
 *
 *     value[l]      slot that holds d/d output l so far; -1: none yet
 *     holders[k]    how many outputs' gradients slot k is at the moment; 0: free
 *
 * The gradient of an output with several readers is the sum of their contributions: the last reader, which comes first,
 * sets it, and the others write to slots of their own, which are added. The gradient at an addition is also the
 * gradient at both of its inputs, so both share its slot until one of them must change: a segment that would change a
 * slot that another output still needs makes a copy. In a residual block nothing is copied: the backward pass of the
 * branch is over before anything is added to the gradient of the shortcut. */
#include <stdlib.h>

#include "base/owned.h"
#include "circe/status.h"
#include "train/network_internal.h"

typedef struct planning {
    train_network *network;
    int64_t *value, *holders;
} planning;

/* The smallest free slot that is large enough, or the largest that is not, or a new one. */
static int64_t take_slot(planning *p, int64_t numbers) {
    train_network *network = p->network;
    int64_t best = -1, *size = network->slot_numbers;
    for (int64_t k = TRAIN_OUTPUT_SLOT + 1; k < network->n_slots; k++) {
        if (p->holders[k] != 0) continue;
        bool better = best < 0 || (size[k] >= numbers ? size[best] < numbers || size[k] < size[best]
                                                      : size[best] < numbers && size[k] > size[best]);
        if (better) best = k;
    }
    if (best < 0) best = network->n_slots++;
    if (size[best] < numbers) size[best] = numbers;
    p->holders[best] = 1;
    return best;
}

static bool wanted(const planning *p, int64_t l) { return l >= 0 && p->network->learns[l]; }

/* ---- a layer that writes the gradient at its input --------------------------------------------------------------- */

static train_gradient plan_written(planning *p, int64_t l) {
    train_gradient to = {-1, -1, -1, -1, -1};
    if (!wanted(p, l)) return to;
    int64_t before = p->value[l];
    to.write = take_slot(p, train_network_numbers(p->network, l));
    if (before < 0) {
        p->value[l] = to.write;
    } else if (p->holders[before] == 1) {
        to.add_to = before;
        to.add_from = to.write;
        p->holders[to.write] = 0;
    } else { /* someone needs it unchanged: the sum lies in the new one */
        to.add_to = to.write;
        to.add_from = before;
        p->holders[before]--;
        p->value[l] = to.write;
    }
    return to;
}

/* ---- an addition, whose own gradient it is ----------------------------------------------------------------------- */

static train_gradient plan_shared(planning *p, int64_t l, int64_t own) {
    train_gradient to = {-1, -1, -1, -1, -1};
    if (!wanted(p, l)) return to;
    int64_t before = p->value[l];
    if (before < 0) {
        p->value[l] = own;
        p->holders[own]++;
    } else if (p->holders[before] == 1) {
        to.add_to = before;
        to.add_from = own;
    } else {
        to.copy_to = to.add_to = take_slot(p, train_network_numbers(p->network, l));
        to.copy_from = own;
        to.add_from = before;
        p->holders[before]--;
        p->value[l] = to.add_to;
    }
    return to;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* Whether its backward changes the gradient that it is given. */
static bool overwrites(const train_network *network, const train_segment *segment) {
    return segment->rowwise || network->layers[segment->first].merged != 0 || network->taps[segment->end - 1] != NULL;
}

static void plan_segment(planning *p, train_segment *segment) {
    const train_network *network = p->network;
    int64_t out = segment->end - 1, own = p->value[out];
    segment->grad_out = network->learns[out] ? own : -1;
    segment->copy_from = -1;
    segment->grad[0] = segment->grad[1] = (train_gradient){-1, -1, -1, -1, -1};
    if (segment->grad_out < 0) return;
    if (p->holders[own] > 1 && overwrites(network, segment)) {
        segment->copy_from = own;
        p->holders[own]--;
        segment->grad_out = own = take_slot(p, train_network_numbers(network, out));
    }
    if (network->layers[segment->first].kind == TRAIN_ADD) {
        segment->grad[0] = plan_shared(p, segment->from, own);
        segment->grad[1] = plan_shared(p, segment->other, own);
    } else {
        segment->grad[0] = plan_written(p, segment->from);
    }
    if (network->layers[segment->first].kind == TRAIN_BATCH_NORM && segment->grad[0].write < 0) {
        segment->grad[0].write = take_slot(p, train_network_numbers(network, out)); /* it is computed in any case */
        p->holders[segment->grad[0].write] = 0;
    }
    p->holders[own]--;
}

/* No more slots than gradients that are ever needed, of which there are two a segment at most, and the output's. */
circe_status train_slots_make(train_network *network) {
    int64_t last = network->n_layers - 1, most = 3 * network->n_segments + 1;
    OWNED int64_t *value = malloc((size_t)network->n_layers * sizeof *value);
    OWNED int64_t *holders = calloc((size_t)most, sizeof *holders);
    planning p = {network, value, holders};
    network->slot_numbers = calloc((size_t)most, sizeof *network->slot_numbers);
    network->slots = calloc((size_t)most, sizeof *network->slots);
    if (value == NULL || holders == NULL || network->slot_numbers == NULL || network->slots == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the gradients of a network");
    for (int64_t l = 0; l < network->n_layers; l++) p.value[l] = -1;
    network->n_slots = 1;
    network->slot_numbers[TRAIN_OUTPUT_SLOT] = train_network_numbers(network, last);
    p.value[last] = TRAIN_OUTPUT_SLOT;
    p.holders[TRAIN_OUTPUT_SLOT] = 1;
    for (int64_t s = network->n_segments - 1; s >= 0; s--) plan_segment(&p, &network->segments[s]);
    return CIRCE_OK;
}
