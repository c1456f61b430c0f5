/* Forward and backward through the layers of a network.
 *
 * Where rows do not meet, a batch is cut by rows and each thread takes its part through all layers of the segment: a
 * layer finds its input in the cache of the core that made it, and threads meet once a pass instead of once a layer.
 *
 *     in (rows, input) -> activations[l] (rows, out_l)        forward
 *     grad (n, out_l)  -> grad (n, in_l), grads               backward of one part, from the last layer to the first
 *
 * The parts sum the gradients of the parameters in arrays of their own, which are added in the order of the parts.
 * BLAS is called from one thread of the team each, so it must not start threads itself: its number of threads is
 * OpenMP's, 1 meanwhile. Layers that are not rowwise get the whole batch and all threads. */
#include <omp.h>
#include <stdlib.h>

#include "error.h"
#include "network_internal.h"
#include "parallel.h"

enum {
    LEAST_ROWS = 8,         /* fewer leave BLAS's kernels half empty */
    LEAST_PRODUCTS = 32768, /* some 1 us of one core: what a meeting of threads costs */
    LEAST_SUMS = 4096,
};

circe_status train_segments_make(train_network *network) {
    network->segments = calloc((size_t)network->n_layers, sizeof *network->segments);
    if (network->segments == NULL) return train_fail(CIRCE_ERR_MEMORY, "no memory for a network");
    for (int64_t l = 0; l < network->n_layers; l++) {
        const train_layer *layer = &network->layers[l];
        train_segment *last = network->segments + network->n_segments - 1;
        bool rowwise = network->ops[l]->rowwise;
        if (network->n_segments == 0 || !rowwise || !last->rowwise) {
            *++last = (train_segment){.first = l, .rowwise = rowwise, .first_param = layer->first_param};
            network->n_segments++;
        }
        last->end = l + 1;
        last->n_params += layer->n_params;
    }
    network->max_parts = 1;
    for (int64_t s = 0; s < network->n_segments; s++) {
        train_segment *segment = &network->segments[s];
        int64_t least = LEAST_PRODUCTS / (segment->n_params + 1);
        segment->least_rows = least > LEAST_ROWS ? least : LEAST_ROWS;
        int64_t parts = train_parts(network->device->context, network->max_batch, segment->least_rows);
        if (segment->rowwise && parts > network->max_parts) network->max_parts = parts;
    }
    return CIRCE_OK;
}

static int64_t in_of(const train_network *network, int64_t l) { return train_shape_count(network->layers[l].in); }
static int64_t out_of(const train_network *network, int64_t l) { return train_shape_count(network->layers[l].out); }

/* One segment on its way. */
typedef struct passage {
    train_network *network;
    const train_segment *segment;
    const float *in; /* of the segment, (rows, in) */
    float *grad_out; /* (rows, out) */
    float *grad_in;  /* (rows, in); NULL: not wanted */
    int64_t parts;
} passage;

static passage begin(train_network *network, int64_t s, int64_t rows, const float *in) {
    const train_segment *segment = &network->segments[s];
    const float *own = segment->first == 0 ? in : network->activations[segment->first - 1];
    int64_t parts = segment->rowwise ? train_parts(network->device->context, rows, segment->least_rows) : 1;
    return (passage){.network = network, .segment = segment, .in = own, .parts = parts};
}

static void run(passage *p, int64_t rows, train_part_fn visit) {
    const circe_context *context = p->network->device->context;
    int before = omp_get_max_threads();
    omp_set_num_threads(p->segment->rowwise ? 1 : circe_context_threads(context));
    train_parallel(context, p->parts, rows, visit, p);
    omp_set_num_threads(before);
}

/* ---- forward ------------------------------------------------------------------------------------------------------
 */

static const float *input_of(const passage *p, int64_t l, int64_t first_row) {
    const float *in = l == p->segment->first ? p->in : p->network->activations[l - 1];
    return in + first_row * in_of(p->network, l);
}

static void forward_part(void *user, int64_t part, int64_t first, int64_t n) {
    const passage *p = user;
    const train_network *network = p->network;
    (void)part;
    for (int64_t l = p->segment->first; l < p->segment->end; l++) {
        const train_layer *layer = &network->layers[l];
        network->ops[l]->forward(network->device, layer, n, network->params + layer->first_param, input_of(p, l, first),
                                 network->activations[l] + first * out_of(network, l));
    }
}

void train_segments_forward(train_network *network, int64_t rows, const float *in) {
    for (int64_t s = 0; s < network->n_segments; s++) {
        passage p = begin(network, s, rows, in);
        run(&p, rows, forward_part);
    }
}

/* ---- backward -----------------------------------------------------------------------------------------------------
 */

static float *grads_of_part(const train_network *network, int64_t part) {
    return part == 0 ? network->grads : network->part_grads + (part - 1) * network->n_params;
}

/* Where the gradient at the input of layer l goes; rows of a part lie together, whatever the width of the layer. */
static float *grad_below(const passage *p, int64_t l, int64_t first_row) {
    const train_network *network = p->network;
    if (l > p->segment->first) return network->inside[l % 2] + first_row * network->widest;
    return p->grad_in == NULL ? NULL : p->grad_in + first_row * in_of(network, l);
}

static void backward_part(void *user, int64_t part, int64_t first, int64_t n) {
    const passage *p = user;
    const train_network *network = p->network;
    train_device *device = network->device;
    float *grads = grads_of_part(network, part);
    float *grad = p->grad_out + first * out_of(network, p->segment->end - 1);
    device->ops->zero(device, p->segment->n_params, grads + p->segment->first_param);
    for (int64_t l = p->segment->end - 1; l >= p->segment->first; l--) {
        const train_layer *layer = &network->layers[l];
        int64_t out = out_of(network, l);
        float *below = grad_below(p, l, first);
        if (network->taps[l] != NULL) device->ops->add(device, n * out, 1.0f, network->taps[l] + first * out, grad);
        network->ops[l]->backward(device, layer, n, network->params + layer->first_param, input_of(p, l, first),
                                  network->activations[l] + first * out, grad, below, grads + layer->first_param);
        grad = below;
    }
}

/* grads += those of the other parts, for parameters [first, first + n) of the segment. */
static void reduce_part(void *user, int64_t part, int64_t first, int64_t n) {
    const passage *p = user;
    train_device *device = p->network->device;
    int64_t at = p->segment->first_param + first;
    (void)part;
    for (int64_t other = 1; other < p->parts; other++)
        device->ops->add(device, n, 1.0f, grads_of_part(p->network, other) + at, p->network->grads + at);
}

void train_segments_backward(train_network *network, int64_t rows, const float *in) {
    float *grad = network->output_grad;
    for (int64_t s = network->n_segments - 1; s >= 0; s--) {
        passage p = begin(network, s, rows, in);
        p.grad_out = grad;
        p.grad_in = grad = s == 0 ? NULL : network->between[s % 2];
        run(&p, rows, backward_part);
        if (p.parts == 1) continue;
        const circe_context *context = network->device->context;
        train_parallel(context, train_parts(context, p.segment->n_params, LEAST_SUMS), p.segment->n_params, reduce_part,
                       &p);
    }
}
