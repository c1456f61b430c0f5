/* The layers of a network from their specifications: what each reads, shapes, places in the flat arrays, and whether
 * its output lies plain or as the device keeps images.
 *
 * The network's input is plain. Convolutions, pools and batch norm produce images, dense layers and flatten produce
 * plain features, and additions and elementwise functions produce what they read. If a layer for images reads the
 * network's input itself, it gets a packed copy, unless the device prefers the plain one. */
#include <stdio.h>
#include <string.h>

#include "circe/status.h"
#include "train/network_internal.h"

static circe_status resolve(const train_network *network, int64_t l, int64_t spec, int64_t *from) {
    *from = spec == 0 ? l - 1 : spec == TRAIN_FROM_INPUT ? -1 : spec - 1;
    if (*from >= -1 && *from < l) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "layer %s reads layer %lld; it can read layers 0 to %lld and the input",
                      network->layers[l].name, (long long)*from, (long long)l - 1);
}

static train_shape shape_of(const train_network *network, int64_t from) {
    return from < 0 ? network->input : network->layers[from].out;
}

static bool are_images(const train_network *network, int64_t from) { return from >= 0 && network->layers[from].images; }

static bool same_shape(train_shape a, train_shape b) {
    return a.n_dims == b.n_dims && memcmp(a.size, b.size, (size_t)a.n_dims * sizeof a.size[0]) == 0;
}

/* ---- what it reads ----------------------------------------------------------------------------------------------- */

static circe_status read_name(train_network *network, int64_t l, const train_layer_spec *spec) {
    train_layer *layer = &network->layers[l];
    if (spec->name[0] == '\0')
        snprintf(layer->name, sizeof layer->name, "%lld", (long long)l);
    else
        snprintf(layer->name, sizeof layer->name, "%.*s", TRAIN_NAME_BYTES - 1, spec->name);
    for (int64_t other = 0; other < l; other++)
        if (strcmp(network->layers[other].name, layer->name) == 0)
            return circe_fail(CIRCE_ERR_ARGUMENT, "layers %lld and %lld are both named '%s'", (long long)other,
                              (long long)l, layer->name);
    return CIRCE_OK;
}

static circe_status read_sources(train_network *network, int64_t l, const train_layer_spec *spec) {
    train_layer *layer = &network->layers[l];
    circe_status status = resolve(network, l, spec->from, &layer->from);
    layer->other = -1;
    if (status == CIRCE_OK && spec->kind == TRAIN_ADD) status = resolve(network, l, spec->other, &layer->other);
    if (status != CIRCE_OK) return status;
    layer->in = shape_of(network, layer->from);
    if (spec->kind == TRAIN_ADD && !same_shape(layer->in, shape_of(network, layer->other)))
        return circe_fail(CIRCE_ERR_SHAPE, "layer %s: it adds %lld and %lld numbers, or different shapes", layer->name,
                          (long long)train_shape_count(layer->in),
                          (long long)train_shape_count(shape_of(network, layer->other)));
    if (spec->kind == TRAIN_ADD && layer->from == layer->other)
        return circe_fail(CIRCE_ERR_ARGUMENT, "layer %s adds an output to itself", layer->name);
    if (layer->from >= 0) network->readers[layer->from]++;
    if (spec->kind == TRAIN_ADD && layer->other >= 0) network->readers[layer->other]++;
    return CIRCE_OK;
}

/* ---- plain or images --------------------------------------------------------------------------------------------- */

static circe_status refuse_plain(const train_layer *layer, const train_layer_type *type) {
    return circe_fail(CIRCE_ERR_UNSUPPORTED,
                      "layer %s: %s of an activation of the network's input; put a convolution before it", layer->name,
                      type->name);
}

/* Whether a layer that makes images finds them at `from`: the network's input is packed for it. */
static bool can_read_images(const train_network *network, int64_t from) {
    return from < 0 || are_images(network, from);
}

static circe_status place_images(train_network *network, train_layer *layer, const train_layer_type *type) {
    bool features = layer->in.n_dims == 1;
    layer->reads_images = are_images(network, layer->from);
    switch (layer->kind) {
        case TRAIN_DENSE:
            if (!layer->reads_images) return CIRCE_OK;
            return circe_fail(CIRCE_ERR_SHAPE, "layer %s: a dense layer reads features; flatten the images first",
                              layer->name);
        case TRAIN_RELU:
        case TRAIN_LEAKY_RELU:
        case TRAIN_TANH:
            layer->images = layer->reads_images;
            return CIRCE_OK;
        case TRAIN_FLATTEN:
            return CIRCE_OK;
        case TRAIN_CONVOLUTION:
            layer->images = true;
            return CIRCE_OK;
        case TRAIN_ADD:
            if (features) return CIRCE_OK;
            if (!can_read_images(network, layer->other)) return refuse_plain(layer, type);
            break;
        case TRAIN_MAX_POOL:
        case TRAIN_BATCH_NORM:
        case TRAIN_AVERAGE_POOL:
            break;
    }
    if (!can_read_images(network, layer->from)) return refuse_plain(layer, type);
    layer->images = layer->reads_images = true;
    return CIRCE_OK;
}

static circe_status find_ops(train_network *network, int64_t l, const train_layer_type *type) {
    const train_device_ops *ops = network->device->ops;
    const train_layer *layer = &network->layers[l];
    bool plain = type->kind == TRAIN_DENSE || (type->elementwise && !layer->reads_images);
    network->ops[l] = plain ? ops->layer(type->kind) : ops->images == NULL ? NULL : ops->images->layer(type->kind);
    if (network->ops[l] != NULL) return CIRCE_OK;
    if (!plain && ops->images == NULL)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "layer %s: %s has no %s layers: networks for images need a build with oneDNN "
                          "(-DCIRCE_ONEDNN=ON)",
                          layer->name, ops->name, type->name);
    return circe_fail(CIRCE_ERR_UNSUPPORTED, "layer %s: %s has no %s layers", layer->name, ops->name, type->name);
}

/* ---- layer by layer ---------------------------------------------------------------------------------------------- */

static circe_status plan_layer(train_network *network, int64_t l, const train_layer_spec *spec) {
    const train_layer_type *type = train_layer_type_of(spec->kind);
    train_layer *layer = &network->layers[l];
    circe_status status = read_name(network, l, spec);
    if (status != CIRCE_OK) return status;
    if (type == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "layer %s: there is no kind %d of layers", layer->name, (int)spec->kind);
    layer->kind = spec->kind;
    layer->first_param = network->n_params;
    layer->first_buffer = network->n_buffers;
    status = read_sources(network, l, spec);
    if (status == CIRCE_OK) status = type->plan(spec, layer);
    if (status == CIRCE_OK && spec->kind != TRAIN_DENSE && !type->elementwise && network->device->ops->images == NULL)
        return find_ops(network, l, type);
    if (status == CIRCE_OK) status = place_images(network, layer, type);
    if (status == CIRCE_OK) status = find_ops(network, l, type);
    if (status != CIRCE_OK) return status;
    if ((double)layer->out.size[0] * (double)(layer->out.n_dims == 3 ? layer->out.size[1] * layer->out.size[2] : 1) >
        INT32_MAX)
        return circe_fail(CIRCE_ERR_SHAPE, "layer %s: its output has more than %d numbers per row", layer->name,
                          INT32_MAX);
    network->has_images = network->has_images || layer->images;
    network->n_params += layer->n_params;
    network->n_buffers += layer->n_buffers;
    network->learns[l] = layer->n_params > 0 || (layer->from >= 0 && network->learns[layer->from]) ||
                         (layer->other >= 0 && network->learns[layer->other]);
    return CIRCE_OK;
}

/* In the form that suits all layers; convolutions of the network's input read it as they like. */
static void choose_form(train_network *network) {
    const train_image_ops *images = network->device->ops->images;
    if (!network->has_images) return;
    int form = images->form == NULL
                   ? 0
                   : images->form(network->device, network->layers, network->n_layers, network->max_batch);
    for (int64_t l = 0; l < network->n_layers; l++) {
        train_layer *layer = &network->layers[l];
        layer->form = form;
        if (layer->kind == TRAIN_CONVOLUTION && layer->from < 0) layer->reads_images = !images->takes_plain(layer);
    }
}

circe_status train_layers_make(train_network *network, const train_layer_spec *specs) {
    circe_status status = CIRCE_OK;
    for (int64_t l = 0; status == CIRCE_OK && l < network->n_layers; l++) status = plan_layer(network, l, &specs[l]);
    for (int64_t l = 0; status == CIRCE_OK && l + 1 < network->n_layers; l++)
        if (network->readers[l] == 0)
            status = circe_fail(CIRCE_ERR_ARGUMENT, "no layer reads layer %s", network->layers[l].name);
    if (status == CIRCE_OK) choose_form(network);
    return status;
}
