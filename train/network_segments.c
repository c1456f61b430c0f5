/* Forward and backward through the segments of a network.
 *
 * If the rows are independent, a batch is cut by rows, and each thread takes its part through all layers of the
 * segment. A layer then finds its input in the cache of the core that made it, and threads meet once per pass instead
 * of once per layer.
 *
 *     in (rows, input) -> activations[l] (rows, out_l)        forward
 *     grad (n, out_l)  -> grad (n, in_l), grads               backward of one part, from the last layer to the first
 *
 * The parts sum the gradients of the parameters in arrays of their own, which are added in the order of the parts.
 * Layers that are not rowwise get the whole batch and divide it themselves. */
#include <math.h>

#include "circe/status.h"
#include "train/network_internal.h"
#include "train/parallel.h"

enum { LEAST_SUMS = 8192 };

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
    train_layer_state *state; /* NULL: the layer has none */
    train_visit pass;         /* of a layer that takes one */
} passage;

/* What layer l showed, or the network's input, in the form that the reader wants. */
static const float *source(const train_network *network, int64_t l, bool images, const float *in) {
    if (l >= 0) return network->activations[l];
    return images ? network->packed_in : in;
}

static passage begin(train_network *network, int64_t s, int64_t rows, const float *in, const train_states *states) {
    const train_segment *segment = &network->segments[s];
    const train_layer *layer = &network->layers[segment->first];
    passage p = {.network = network, .segment = segment, .parts = 1};
    p.in = source(network, segment->from, layer->reads_images, in);
    if (segment->rowwise) p.parts = circe_context_parts(network->device->context, rows, segment->least_rows);
    if (segment->rowwise) return p;
    if (states != NULL) p.state = states->of[s].state;
    p.pass = (train_visit){.rows = rows,
                           .training = network->training,
                           .params = network->params + layer->first_param,
                           .buffers = network->buffers + layer->first_buffer,
                           .in = p.in,
                           .out = network->activations[segment->end - 1],
                           .grads = network->grads + layer->first_param,
                           .scratch = network->scratch};
    if (layer->kind == TRAIN_ADD) p.pass.other = source(network, segment->other, layer->reads_images, in);
    return p;
}

static void run(passage *p, int64_t rows, train_part_fn visit) {
    train_parallel(p->network->device->context, p->parts, rows, visit, p);
}

typedef circe_status (*pass_fn)(train_device *device, const train_layer *layer, train_layer_state *state,
                                const train_visit *pass);

static circe_status run_pass(passage *p, pass_fn visit) {
    return visit(p->network->device, &p->network->layers[p->segment->first], p->state, &p->pass);
}

static const train_layer_ops *ops_of(const train_network *network, int64_t s) {
    return network->ops[network->segments[s].first];
}

static train_link link_of(const passage *p) {
    return (train_link){&p->network->layers[p->segment->first], p->state, p->pass};
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

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

/* Divergence must be visible at the network's output. Dense layers pass NaN on, but the kernels for images may not:
 * oneDNN's ReLU turns it into 0, and its max-pool skips it. So this looks for NaN where it is still present. */
static void show_divergence(train_network *network, int64_t rows) {
    static const float nothing = NAN;
    train_device *device = network->device;
    int64_t last = network->n_layers - 1, numbers = train_network_numbers(network, last);
    if (!network->has_images || device->ops->images->finite == NULL ||
        device->ops->images->finite(device, network->n_params, network->params))
        return;
    for (int64_t r = 0; r < rows; r++)
        device->ops->upload(device, network->activations[last] + r * numbers, &nothing, sizeof nothing);
}

/* The segments from s on that the device takes at once: where they end. */
static int64_t chain_end(const train_network *network, int64_t s) {
    int64_t end = s + 1;
    if (ops_of(network, s)->chain_forward == NULL) return end;
    while (end < network->n_segments && end - s < TRAIN_MOST_LINKS && ops_of(network, end) == ops_of(network, s) &&
           network->segments[end].from == network->segments[end - 1].end - 1)
        end++;
    return end;
}

/* Segments s .. end - 1. */
static circe_status forward_chain(train_network *network, int64_t s, int64_t end, int64_t rows, const float *in,
                                  const train_states *states) {
    train_link links[TRAIN_MOST_LINKS];
    for (int64_t k = s; k < end; k++) {
        passage p = begin(network, k, rows, in, states);
        links[k - s] = link_of(&p);
    }
    return ops_of(network, s)->chain_forward(network->device, end - s, links);
}

static circe_status forward_segments(train_network *network, int64_t s, int64_t end, int64_t rows, const float *in,
                                     const train_states *states) {
    const train_layer_ops *ops = ops_of(network, s);
    if (ops->chain_forward != NULL) return forward_chain(network, s, end, rows, in, states);
    passage p = begin(network, s, rows, in, states);
    if (ops->pass_forward != NULL) return run_pass(&p, ops->pass_forward);
    run(&p, rows, forward_part);
    return CIRCE_OK;
}

static circe_status forward(train_network *network, int64_t rows, const float *in, const train_states *states) {
    train_device *device = network->device;
    circe_status status = CIRCE_OK;
    if (network->packed_in != NULL)
        device->ops->images->pack(device, network->layers[0].form, network->input, rows, in, network->packed_in);
    for (int64_t s = 0, end; status == CIRCE_OK && s < network->n_segments; s = end) {
        end = chain_end(network, s);
        status = forward_segments(network, s, end, rows, in, states);
    }
    if (status == CIRCE_OK) show_divergence(network, rows);
    return status;
}

circe_status train_segments_forward(train_network *network, int64_t rows, const float *in) {
    train_states *states = NULL;
    train_threads before;
    int threads = circe_context_threads(network->device->context);
    circe_status status = train_states_enter(network, rows, threads, &before, &states);
    if (status == CIRCE_OK) status = forward(network, rows, in, states);
    train_states_leave(network, &before);
    network->last_threads = states != NULL ? states->threads : threads;
    return status;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static float *grads_of_part(const train_network *network, int64_t part) {
    return part == 0 ? network->grads : network->part_grads + (part - 1) * network->n_params;
}

/* Where the gradient at the input of layer l goes; rows of a part lie together, whatever the width of the layer. */
static float *grad_below(const passage *p, int64_t l, int64_t first_row) {
    const train_network *network = p->network;
    if (l > p->segment->first) return network->inside[l % 2] + first_row * network->widest;
    return p->grad_in == NULL ? NULL : p->grad_in + first_row * in_of(network, l);
}

/* Gradients [first, first + n) are final. */
static void tell(const train_network *network, int64_t first, int64_t n) {
    if (network->on_gradients != NULL && n > 0) network->on_gradients(network->on_gradients_user, first, n);
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
        if (network->taps[l] != NULL && p->segment->rowwise)
            device->ops->add(device, n * out, 1.0f, network->taps[l] + first * out, grad);
        network->ops[l]->backward(device, layer, n, network->params + layer->first_param, input_of(p, l, first),
                                  network->activations[l] + first * out, grad, below, grads + layer->first_param);
        if (p->parts == 1) tell(network, layer->first_param, layer->n_params);
        grad = below;
    }
}

/* grads += those of the other parts, for parameters [first, first + n) of the segment. */
static void reduce_part(void *user, int64_t first, int64_t n) {
    const passage *p = user;
    train_device *device = p->network->device;
    int64_t at = p->segment->first_param + first;
    for (int64_t other = 1; other < p->parts; other++)
        device->ops->add(device, n, 1.0f, grads_of_part(p->network, other) + at, p->network->grads + at);
}

static void backward_rows(passage *p, int64_t rows) {
    run(p, rows, backward_part);
    if (p->parts == 1) return;
    train_ranges(p->network->device->context, p->segment->n_params, LEAST_SUMS, reduce_part, p);
    tell(p->network, p->segment->first_param, p->segment->n_params);
}

/* y += x, each with the numbers of layer l's output. */
static void add_output(const train_network *network, int64_t l, int64_t rows, const float *x, float *y) {
    train_device *device = network->device;
    const train_layer *layer = &network->layers[l];
    if (layer->images && device->ops->images->add != NULL)
        device->ops->images->add(device, layer->form, layer->out, rows, x, y);
    else
        device->ops->add(device, rows * train_network_numbers(network, l), 1.0f, x, y);
}

static void copy_slot(const train_network *network, int64_t l, int64_t rows, int64_t to, int64_t from) {
    train_device *device = network->device;
    device->ops->zero(device, rows * train_network_numbers(network, l), network->slots[to]);
    add_output(network, l, rows, network->slots[from], network->slots[to]);
}

/* What was put in from outside at the output of a segment that takes whole batches. */
static void add_tap(const train_network *network, int64_t l, int64_t rows, float *grad) {
    train_device *device = network->device;
    const float *tap = network->taps[l];
    if (tap == NULL) return;
    if (network->layers[l].images) {
        device->ops->images->pack(device, network->layers[l].form, network->layers[l].out, rows, tap,
                                  network->packed_tap);
        tap = network->packed_tap;
    }
    add_output(network, l, rows, tap, grad);
}

/* The gradient goes on to output l. */
static void hand_on(const train_network *network, const train_gradient *to, int64_t l, int64_t rows) {
    if (l < 0) return;
    if (to->copy_to >= 0) copy_slot(network, l, rows, to->copy_to, to->copy_from);
    if (to->add_to >= 0) add_output(network, l, rows, network->slots[to->add_from], network->slots[to->add_to]);
}

static passage begin_back(train_network *network, int64_t s, int64_t rows, const float *in,
                          const train_states *states) {
    passage p = begin(network, s, rows, in, states);
    const train_segment *segment = p.segment;
    int64_t out = segment->end - 1;
    p.grad_out = p.pass.grad_out = network->slots[segment->grad_out];
    p.grad_in = p.pass.grad_in = segment->grad[0].write < 0 ? NULL : network->slots[segment->grad[0].write];
    if (segment->copy_from >= 0) copy_slot(network, out, rows, segment->grad_out, segment->copy_from);
    if (!segment->rowwise) add_tap(network, out, rows, p.grad_out);
    return p;
}

static void end_back(train_network *network, int64_t s, int64_t rows) {
    const train_segment *segment = &network->segments[s];
    if (!segment->rowwise) tell(network, segment->first_param, segment->n_params);
    hand_on(network, &segment->grad[0], segment->from, rows);
    hand_on(network, &segment->grad[1], segment->other, rows);
}

/* Segment s hands its gradient to the one before and to nobody else, and nothing is added to it. */
static bool hands_down(const train_network *network, int64_t s) {
    const train_segment *segment = &network->segments[s], *below = segment - 1;
    const train_gradient *grad = &segment->grad[0];
    return ops_of(network, s) == ops_of(network, s - 1) && segment->from == below->end - 1 && grad->write >= 0 &&
           grad->write == below->grad_out && grad->copy_to < 0 && grad->add_to < 0 && below->copy_from < 0 &&
           network->taps[below->end - 1] == NULL;
}

/* The segments up to s, that one included, that the device takes at once: where they begin. */
static int64_t chain_begin(const train_network *network, int64_t s) {
    int64_t first = s;
    if (ops_of(network, s)->chain_backward == NULL) return first;
    while (first > 0 && s - first + 1 < TRAIN_MOST_LINKS && hands_down(network, first)) first--;
    return first;
}

/* Segments s down to first. */
static circe_status backward_chain(train_network *network, int64_t first, int64_t s, int64_t rows, const float *in,
                                   const train_states *states) {
    train_link links[TRAIN_MOST_LINKS];
    for (int64_t k = s; k >= first; k--) {
        passage p = begin_back(network, k, rows, in, states);
        links[k - first] = link_of(&p);
    }
    return ops_of(network, s)->chain_backward(network->device, s - first + 1, links);
}

static circe_status backward_one(train_network *network, int64_t s, int64_t rows, const float *in,
                                 const train_states *states) {
    const train_layer_ops *ops = ops_of(network, s);
    passage p = begin_back(network, s, rows, in, states);
    if (ops->pass_backward != NULL) return run_pass(&p, ops->pass_backward);
    backward_rows(&p, rows);
    return CIRCE_OK;
}

static circe_status backward_segments(train_network *network, int64_t first, int64_t s, int64_t rows, const float *in,
                                      const train_states *states) {
    circe_status status = ops_of(network, s)->chain_backward != NULL
                              ? backward_chain(network, first, s, rows, in, states)
                              : backward_one(network, s, rows, in, states);
    for (int64_t k = s; status == CIRCE_OK && k >= first; k--) end_back(network, k, rows);
    return status;
}

static circe_status backward(train_network *network, int64_t rows, const float *in, const train_states *states) {
    train_device *device = network->device;
    const train_layer *last = &network->layers[network->n_layers - 1];
    circe_status status = CIRCE_OK;
    if (last->images)
        device->ops->images->pack(device, last->form, last->out, rows, network->output_grad,
                                  network->slots[TRAIN_OUTPUT_SLOT]);
    for (int64_t s = network->n_segments - 1, first; status == CIRCE_OK && s >= 0; s = first - 1) {
        first = s;
        if (network->segments[s].grad_out < 0) continue;
        first = chain_begin(network, s);
        status = backward_segments(network, first, s, rows, in, states);
    }
    return status;
}

/* What the forward pass left in its states is for its number of threads. */
static circe_status check_threads(const train_network *network, const train_states *states) {
    if (states == NULL || states->threads == network->last_threads) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_UNSUPPORTED,
                      "the backward pass has %d of the %d threads of its forward pass: run both inside the same OpenMP "
                      "region, or both outside",
                      states->threads, network->last_threads);
}

circe_status train_segments_backward(train_network *network, int64_t rows, const float *in) {
    train_states *states = NULL;
    train_threads before;
    circe_status status = train_states_enter(network, rows, network->last_threads, &before, &states);
    if (status == CIRCE_OK) status = check_threads(network, states);
    if (status == CIRCE_OK) status = backward(network, rows, in, states);
    train_states_leave(network, &before);
    return status;
}
