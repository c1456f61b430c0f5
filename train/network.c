/* Networks: creation and destruction, access to their contents, and the entry points of forward and backward
 * (network_segments.c runs the layers).
 */
#include "train/network.h"

#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "circe/status.h"
#include "train/network_internal.h"

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static circe_status check_arguments(train_shape input, int64_t n_specs, int64_t max_batch) {
    if (n_specs < 1 || n_specs > TRAIN_MAX_LAYERS)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a network has 1 to %d layers, not %lld", TRAIN_MAX_LAYERS,
                          (long long)n_specs);
    if (max_batch < 1 || max_batch > INT32_MAX)
        return circe_fail(CIRCE_ERR_ARGUMENT, "max_batch is %lld; it must be at least 1", (long long)max_batch);
    if (input.n_dims != 1 && input.n_dims != 3)
        return circe_fail(CIRCE_ERR_SHAPE, "the input of a network has 1 or 3 dimensions, not %d", input.n_dims);
    double count = 1.0;
    for (int d = 0; d < input.n_dims; d++) {
        if (input.size[d] < 1)
            return circe_fail(CIRCE_ERR_SHAPE, "the input of a network has size %lld; it must be at least 1",
                              (long long)input.size[d]);
        count *= (double)input.size[d];
    }
    if (count > INT32_MAX) return circe_fail(CIRCE_ERR_SHAPE, "the input of a network has %.3g numbers per row", count);
    return CIRCE_OK;
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

circe_status train_network_buffer(const train_network *network, int64_t rows, int64_t cols, float **buffer) {
    size_t bytes;
    *buffer = NULL;
    if (__builtin_mul_overflow((size_t)rows, (size_t)cols, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(float), &bytes))
        return circe_fail(CIRCE_ERR_MEMORY, "a buffer of %lld by %lld numbers is larger than this machine can address",
                          (long long)rows, (long long)cols);
    *buffer = network->device->ops->allocate(network->device, bytes > 0 ? bytes : sizeof(float));
    return *buffer == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
}

/* Everything but what the plan brings. */
static circe_status make_buffers(train_network *network) {
    int64_t batch = network->max_batch, params = network->n_params;
    int64_t outputs = train_shape_count(network->layers[network->n_layers - 1].out);
    circe_status status = train_network_buffer(network, 1, params, &network->params);
    if (status == CIRCE_OK) status = train_network_buffer(network, 1, params, &network->grads);
    if (status == CIRCE_OK) status = train_network_buffer(network, 1, network->n_buffers, &network->buffers);
    if (status == CIRCE_OK) status = train_network_buffer(network, batch, outputs, &network->output_grad);
    if (status == CIRCE_OK)
        status = train_network_buffer(network, batch, train_shape_count(network->input), &network->staging);
    return status;
}

/* ---- initialisation ---------------------------------------------------------------------------------------------- */

/* out := numbers [first, first + n) of a stream, around 0. */
static void draw_some(const train_layer_tensor *tensor, train_start start, circe_random generator, int64_t first,
                      int64_t n, double *out) {
    double scale = start == TRAIN_START_HE ? tensor->deviation : 2.0 * tensor->bound;
    if (scale == 0.0) return;
    if (start == TRAIN_START_HE)
        circe_random_normal(generator, (uint64_t)first, n, out);
    else
        circe_random_uniform(generator, (uint64_t)first, n, out);
    for (int64_t i = 0; i < n; i++) out[i] = scale * (start == TRAIN_START_HE ? out[i] : out[i] - 0.5);
}

/* Numbers [0, n) of the layer's own stream. */
static void draw(const train_layer_tensor *tensor, train_start start, circe_random generator, float *params) {
    enum { CHUNK = 512 };
    double drawn[CHUNK] = {0};
    for (int64_t done = 0; done < tensor->count; done += CHUNK) {
        int64_t first = tensor->first + done, n = tensor->count - done < CHUNK ? tensor->count - done : CHUNK;
        draw_some(tensor, start, generator, first, n, drawn);
        for (int64_t i = 0; i < n; i++) params[first + i] = (float)(tensor->mean + drawn[i]);
    }
}

static void draw_params(const train_network *network, uint64_t seed, float *params) {
    for (int64_t l = 0; l < network->n_layers; l++) {
        const train_layer *layer = &network->layers[l];
        train_layer_tensor tensors[TRAIN_MAX_LAYER_TENSORS];
        int n = train_layer_type_of(layer->kind)->tensors(layer, tensors);
        for (int t = 0; t < n; t++)
            draw(&tensors[t], network->start, (circe_random){seed, (uint64_t)l}, params + layer->first_param);
    }
}

/* What layers keep starts as each kind says, whatever the seed. */
static circe_status start_buffers(train_network *network) {
    OWNED float *start = calloc((size_t)network->n_buffers + 1, sizeof *start);
    if (start == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory; cannot initialise a network");
    for (int64_t l = 0; l < network->n_layers; l++) {
        const train_layer *layer = &network->layers[l];
        const train_layer_type *type = train_layer_type_of(layer->kind);
        train_layer_tensor tensors[TRAIN_MAX_LAYER_TENSORS];
        int n = type->buffers == NULL ? 0 : type->buffers(layer, tensors);
        for (int t = 0; t < n; t++)
            draw(&tensors[t], TRAIN_START_HE, (circe_random){0, 0}, start + layer->first_buffer);
    }
    network->device->ops->upload(network->device, network->buffers, start, (size_t)network->n_buffers * sizeof *start);
    return CIRCE_OK;
}

circe_status train_network_initialise(train_network *network, train_start start, uint64_t seed) {
    OWNED float *params = calloc((size_t)network->n_params + 1, sizeof *params);
    if (params == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory; cannot initialise a network");
    network->start = start;
    draw_params(network, seed, params);
    network->device->ops->upload(network->device, network->params, params, (size_t)network->n_params * sizeof *params);
    return start_buffers(network);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static circe_status make_lists(train_network *network) {
    size_t n = (size_t)network->n_layers;
    network->layers = calloc(n, sizeof *network->layers);
    network->ops = calloc(n, sizeof *network->ops);
    network->readers = calloc(n, sizeof *network->readers);
    network->learns = calloc(n, sizeof *network->learns);
    network->kept = calloc(n, sizeof *network->kept);
    network->taps = calloc(n, sizeof *network->taps);
    network->plain = calloc(n, sizeof *network->plain);
    network->names = calloc(1, sizeof *network->names);
    if (network->layers == NULL || network->ops == NULL || network->readers == NULL || network->learns == NULL ||
        network->kept == NULL || network->taps == NULL || network->plain == NULL || network->names == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a network of %lld layers", (long long)n);
    return CIRCE_OK;
}

static circe_status make_network(train_network *network, const train_layer_spec *specs) {
    circe_status status = make_lists(network);
    if (status == CIRCE_OK) status = train_layers_make(network, specs);
    if (status == CIRCE_OK) status = make_buffers(network);
    if (status == CIRCE_OK) status = train_plan_make(network);
    if (status == CIRCE_OK) status = start_buffers(network);
    return status;
}

circe_status train_network_create(train_device *device, train_shape input, const train_layer_spec *specs,
                                  int64_t n_specs, int64_t max_batch, train_network **network) {
    *network = NULL;
    circe_status status = check_arguments(input, n_specs, max_batch);
    if (status != CIRCE_OK) return status;
    train_network *made = calloc(1, sizeof *made);
    if (made == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a network");
    *made = (train_network){
        .device = device, .input = input, .max_batch = max_batch, .n_layers = n_specs, .training = true};
    status = make_network(made, specs);
    if (status == CIRCE_OK)
        *network = made;
    else
        train_network_destroy(made);
    return status;
}

void train_network_destroy(train_network *network) {
    if (network == NULL) return;
    train_device *device = network->device;
    train_plan_free(network);
    float *buffers[] = {network->params, network->grads, network->buffers, network->output_grad, network->staging};
    for (size_t k = 0; k < sizeof buffers / sizeof buffers[0]; k++) device->ops->release(device, buffers[k]);
    for (int64_t l = 0; l < network->n_layers; l++) {
        if (network->taps != NULL) device->ops->release(device, network->taps[l]);
        if (network->plain != NULL) device->ops->release(device, network->plain[l]);
    }
    if (network->names != NULL && *network->names != NULL)
        train_names_free(*network->names, train_network_n_tensors(network) + train_network_n_buffer_tensors(network));
    free(network->names);
    free(network->taps);
    free(network->plain);
    free(network->kept);
    free(network->learns);
    free(network->readers);
    free(network->ops);
    free(network->layers);
    free(network);
}

/* ---- what it holds ----------------------------------------------------------------------------------------------- */

train_device *train_network_device(const train_network *network) { return network->device; }
train_start train_network_start(const train_network *network) { return network->start; }

int64_t train_network_n_layers(const train_network *network) { return network->n_layers; }

const train_layer *train_network_layer(const train_network *network, int64_t index) {
    return index < 0 || index >= network->n_layers ? NULL : &network->layers[index];
}

int64_t train_network_find(const train_network *network, const char *name) {
    if (strcmp(name, "output") == 0) return network->n_layers - 1;
    for (int64_t l = 0; l < network->n_layers; l++)
        if (strcmp(network->layers[l].name, name) == 0) return l;
    return -1;
}

int64_t train_network_n_params(const train_network *network) { return network->n_params; }
float *train_network_params(train_network *network) { return network->params; }
float *train_network_grads(train_network *network) { return network->grads; }
int64_t train_network_n_buffers(const train_network *network) { return network->n_buffers; }
float *train_network_buffers(train_network *network) { return network->buffers; }
void train_network_set_training(train_network *network, bool training) { network->training = training; }

const float *train_network_activation(const train_network *network, int64_t layer) {
    if (layer < 0 || layer >= network->n_layers) return NULL;
    const float *kept = network->activations == NULL ? NULL : network->activations[layer];
    if (kept == NULL || !network->layers[layer].images) return kept;
    train_device *device = network->device;
    train_shape out = network->layers[layer].out;
    float **plain = &network->plain[layer];
    if (*plain == NULL && train_network_buffer(network, network->max_batch, train_shape_count(out), plain) != CIRCE_OK)
        return NULL;
    device->ops->images->unpack(device, network->layers[layer].form, out, network->last_rows, kept, *plain);
    return *plain;
}

const float *train_network_output(const train_network *network) {
    return train_network_activation(network, network->n_layers - 1);
}

float *train_network_output_grad(train_network *network) { return network->output_grad; }

/* The plan depends on what is tapped: an output that is merged away must be stored, and a gradient that is added to
 * must not be another output's too. If there is one segment, neither happens. */
static circe_status plan_tap(train_network *network, int64_t layer) {
    network->kept[layer] = true;
    if (network->n_segments == 1 && network->activations[layer] != NULL) return CIRCE_OK;
    train_plan_free(network);
    circe_status status = train_plan_make(network);
    if (status != CIRCE_OK) train_plan_free(network);
    return status;
}

circe_status train_network_tap(train_network *network, int64_t layer, float **grad) {
    if (layer < 0 || layer >= network->n_layers)
        return circe_fail(CIRCE_ERR_ARGUMENT, "there is no layer %lld; the network has %lld", (long long)layer,
                          (long long)network->n_layers);
    float **tap = &network->taps[layer];
    circe_status status = CIRCE_OK;
    if (*tap == NULL) {
        status = train_network_buffer(network, network->max_batch, train_shape_count(network->layers[layer].out), tap);
        if (status == CIRCE_OK) status = plan_tap(network, layer);
    }
    if (status != CIRCE_OK) { /* asked again, it tries again */
        network->device->ops->release(network->device, *tap);
        *tap = NULL;
    }
    *grad = *tap;
    return status;
}

/* ---- running it -------------------------------------------------------------------------------------------------- */

static circe_status check_batch(const train_network *network, int64_t rows) {
    if (rows < 1 || rows > network->max_batch)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a batch of %lld rows; the network was made for 1 to %lld",
                          (long long)rows, (long long)network->max_batch);
    if (network->segments == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "the network has no memory because train_network_tap failed");
    return CIRCE_OK;
}

circe_status train_network_forward(train_network *network, int64_t rows, const float *in) {
    circe_status status = check_batch(network, rows);
    if (status != CIRCE_OK) return status;
    status = train_segments_forward(network, rows, in);
    network->last_rows = status == CIRCE_OK ? rows : 0;
    return status;
}

circe_status train_network_backward(train_network *network, int64_t rows, const float *in) {
    circe_status status = check_batch(network, rows);
    if (status != CIRCE_OK) return status;
    if (rows != network->last_rows)
        return circe_fail(CIRCE_ERR_ARGUMENT, "backward of %lld rows; the last forward had %lld", (long long)rows,
                          (long long)network->last_rows);
    return train_segments_backward(network, rows, in);
}

void train_network_on_gradients(train_network *network, void (*on_gradients)(void *user, int64_t first, int64_t n),
                                void *user) {
    network->on_gradients = on_gradients;
    network->on_gradients_user = user;
}

circe_status train_network_show(train_network *network, int64_t rows, const float *in, float *out) {
    train_device *device = network->device;
    int64_t outputs = train_shape_count(network->layers[network->n_layers - 1].out);
    circe_status status = train_network_forward(network, rows, in);
    if (status != CIRCE_OK) return status;
    const float *made = train_network_output(network);
    if (made == NULL) return CIRCE_ERR_MEMORY;
    device->ops->download(device, out, made, (size_t)(rows * outputs) * sizeof *out);
    return CIRCE_OK;
}

static circe_status predict_rows(train_network *network, int64_t rows, const float *in, float *out) {
    train_device *device = network->device;
    int64_t inputs = train_shape_count(network->input);
    int64_t outputs = train_shape_count(network->layers[network->n_layers - 1].out);
    for (int64_t done = 0; done < rows; done += network->max_batch) {
        int64_t n = rows - done < network->max_batch ? rows - done : network->max_batch;
        device->ops->upload(device, network->staging, in + done * inputs, (size_t)(n * inputs) * sizeof(float));
        circe_status status = train_network_show(network, n, network->staging, out + done * outputs);
        if (status != CIRCE_OK) return status;
    }
    return device->ops->check(device);
}

circe_status train_network_predict(train_network *network, int64_t rows, const float *in, float *out) {
    if (rows < 0) return circe_fail(CIRCE_ERR_ARGUMENT, "%lld rows", (long long)rows);
    bool training = network->training;
    network->training = false;
    circe_status status = predict_rows(network, rows, in, out);
    network->training = training;
    return status;
}
