/* Parameters and buffers as named tensors, in the order and under the names of PyTorch. PyTorch's batch norm also
 * counts its batches (num_batches_tracked, an integer). Nothing here depends on it, so it is written as 0, for users
 * who load strictly, and is not required on reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "circe/status.h"
#include "train/network_internal.h"

static const char COUNTER[] = "num_batches_tracked";
static const int64_t no_batches = 0;

static int params_of(const train_layer *layer, train_layer_tensor *tensors) {
    return train_layer_type_of(layer->kind)->tensors(layer, tensors);
}

static int buffers_of(const train_layer *layer, train_layer_tensor *tensors) {
    const train_layer_type *type = train_layer_type_of(layer->kind);
    return type->buffers == NULL ? 0 : type->buffers(layer, tensors);
}

int64_t train_network_n_tensors(const train_network *network) {
    train_layer_tensor tensors[TRAIN_MAX_LAYER_TENSORS];
    int64_t n = 0;
    for (int64_t l = 0; l < network->n_layers; l++) n += params_of(&network->layers[l], tensors);
    return n;
}

int64_t train_network_n_buffer_tensors(const train_network *network) {
    train_layer_tensor tensors[TRAIN_MAX_LAYER_TENSORS];
    int64_t n = 0;
    for (int64_t l = 0; l < network->n_layers; l++) {
        int own = buffers_of(&network->layers[l], tensors);
        n += own > 0 ? own + 1 : 0;
    }
    return n;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

void train_names_free(char **names, int64_t n) {
    for (int64_t k = 0; names != NULL && k < n; k++) free(names[k]);
    free(names);
}

/* false: no memory. */
static bool add_names(char **names, int64_t *at, const char *layer, const train_layer_tensor *tensors, int n) {
    for (int t = 0; t < n; t++)
        if (asprintf(&names[(*at)++], "%s.%s", layer, tensors[t].name) < 0) {
            names[*at - 1] = NULL;
            return false;
        }
    return true;
}

static bool fill_names(const train_network *network, char **names) {
    train_layer_tensor tensors[TRAIN_MAX_LAYER_TENSORS];
    const train_layer_tensor counter = {.name = COUNTER};
    int64_t at = 0;
    bool complete = true;
    for (int64_t l = 0; complete && l < network->n_layers; l++)
        complete = add_names(names, &at, network->layers[l].name, tensors, params_of(&network->layers[l], tensors));
    for (int64_t l = 0; complete && l < network->n_layers; l++) {
        int own = buffers_of(&network->layers[l], tensors);
        complete = add_names(names, &at, network->layers[l].name, tensors, own) &&
                   (own == 0 || add_names(names, &at, network->layers[l].name, &counter, 1));
    }
    return complete;
}

/* Parameters, then buffers; made at their first use. NULL: no memory. */
static char **names_of(const train_network *network) {
    int64_t n = train_network_n_tensors(network) + train_network_n_buffer_tensors(network);
    char ***names = network->names;
    if (*names != NULL) return *names;
    *names = calloc((size_t)n + 1, sizeof **names);
    if (*names == NULL || fill_names(network, *names)) return *names;
    train_names_free(*names, n);
    return *names = NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static circe_tensor make_tensor(const train_layer_tensor *part, const char *name, const float *of_layer) {
    circe_tensor made = {.name = name,
                         .dtype = "F32",
                         .n_dims = part->n_dims,
                         .data = of_layer + part->first,
                         .bytes = (size_t)part->count * sizeof(float)};
    memcpy(made.shape, part->shape, (size_t)part->n_dims * sizeof part->shape[0]);
    return made;
}

circe_status train_network_tensors(const train_network *network, const float *flat, circe_tensor *tensors) {
    train_layer_tensor parts[TRAIN_MAX_LAYER_TENSORS];
    int64_t at = 0;
    char **names = names_of(network);
    if (names == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the names of a network's tensors");
    for (int64_t l = 0; l < network->n_layers; l++) {
        const train_layer *layer = &network->layers[l];
        int n = params_of(layer, parts);
        for (int t = 0; t < n; t++, at++) tensors[at] = make_tensor(&parts[t], names[at], flat + layer->first_param);
    }
    return CIRCE_OK;
}

circe_status train_network_buffer_tensors(const train_network *network, const float *flat, circe_tensor *tensors) {
    train_layer_tensor parts[TRAIN_MAX_LAYER_TENSORS];
    char **names = names_of(network);
    if (names == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the names of a network's tensors");
    names += train_network_n_tensors(network);
    for (int64_t l = 0; l < network->n_layers; l++) {
        const train_layer *layer = &network->layers[l];
        int n = buffers_of(layer, parts);
        for (int t = 0; t < n; t++) *tensors++ = make_tensor(&parts[t], *names++, flat + layer->first_buffer);
        if (n > 0)
            *tensors++ = (circe_tensor){
                .name = *names++, .dtype = "I64", .n_dims = 0, .data = &no_batches, .bytes = sizeof no_batches};
    }
    return CIRCE_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* "(64, 3)" */
static void show_shape(const circe_tensor *tensor, char *text, size_t bytes) {
    size_t used = (size_t)snprintf(text, bytes, "(");
    for (int d = 0; d < tensor->n_dims && used < bytes; d++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", d > 0 ? ", " : "", (long long)tensor->shape[d]);
    if (used < bytes) snprintf(text + used, bytes - used, ")");
}

static circe_status check_tensor(const circe_tensor *found, const circe_tensor *wanted) {
    char has[160], needs[160];
    if (strcmp(found->dtype, "F32") != 0 && strcmp(found->dtype, "F64") != 0)
        return circe_fail(CIRCE_ERR_FORMAT, "tensor '%s' has dtype %s; only F32 and F64 can be read", wanted->name,
                          found->dtype);
    if (found->n_dims == wanted->n_dims &&
        memcmp(found->shape, wanted->shape, (size_t)wanted->n_dims * sizeof wanted->shape[0]) == 0)
        return CIRCE_OK;
    show_shape(found, has, sizeof has);
    show_shape(wanted, needs, sizeof needs);
    return circe_fail(CIRCE_ERR_SHAPE, "tensor '%s' has the shape %s in the file, but this network needs %s",
                      wanted->name, has, needs);
}

/* The file's data need not be aligned. */
static void copy_tensor(const circe_tensor *found, float *to) {
    size_t size = strcmp(found->dtype, "F32") == 0 ? sizeof(float) : sizeof(double);
    if (size == sizeof(float)) memcpy(to, found->data, found->bytes);
    for (size_t i = 0; size == sizeof(double) && i < found->bytes / size; i++) {
        double value;
        memcpy(&value, (const char *)found->data + i * size, size);
        to[i] = (float)value;
    }
}

/* The text of the first failure, and the names of all further tensors that are not as they should be. */
typedef struct failures {
    circe_status status;
    int64_t n;
    char first[512], others[400];
} failures;

static void note(failures *f, circe_status status, const char *name) {
    size_t used = strlen(f->others);
    if (f->n++ == 0) {
        f->status = status;
        snprintf(f->first, sizeof f->first, "%s", circe_last_error());
    } else {
        snprintf(f->others + used, sizeof f->others - used, "%s%s", used > 0 ? ", " : "", name);
    }
}

static circe_status report(const failures *f) {
    if (f->n == 0) return CIRCE_OK;
    if (f->n == 1) return circe_fail(f->status, "%s", f->first);
    bool all = strlen(f->others) < sizeof f->others - 1;
    return circe_fail(f->status, "%s; also missing or of a wrong shape: %lld (%s%s)", f->first, (long long)f->n - 1,
                      f->others, all ? "" : "...");
}

static bool is_counter(const circe_tensor *wanted) { return strcmp(wanted->dtype, "I64") == 0; }

/* Reads the wanted tensors to where they say that they lie. All are checked before the first is copied: a refused file
 * leaves everything as it was. */
static circe_status read_tensors(const circe_tensor_file *file, const circe_tensor *wanted, int64_t n) {
    OWNED circe_tensor *found = calloc((size_t)n + 1, sizeof *found);
    failures problems = {0};
    if (found == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the list of a network's tensors");
    for (int64_t k = 0; k < n; k++) {
        if (is_counter(&wanted[k])) continue;
        circe_status status = circe_tensor_file_find(file, wanted[k].name, &found[k]);
        if (status == CIRCE_OK) status = check_tensor(&found[k], &wanted[k]);
        if (status != CIRCE_OK) note(&problems, status, wanted[k].name);
    }
    for (int64_t k = 0; problems.n == 0 && k < n; k++)
        if (!is_counter(&wanted[k])) copy_tensor(&found[k], (float *)wanted[k].data);
    return report(&problems);
}

/* wanted (n_tensors + n_buffer_tensors) := those of params, then those of buffers; NULL: not these. *n := how many. */
static circe_status list_tensors(const train_network *network, const float *params, const float *buffers,
                                 circe_tensor **wanted, int64_t *n) {
    circe_status status = CIRCE_OK;
    int64_t of_params = train_network_n_tensors(network), of_buffers = train_network_n_buffer_tensors(network);
    *n = 0;
    *wanted = calloc((size_t)(of_params + of_buffers) + 1, sizeof **wanted);
    if (*wanted == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the list of a network's tensors");
    if (params != NULL) {
        status = train_network_tensors(network, params, *wanted);
        *n += of_params;
    }
    if (buffers != NULL && status == CIRCE_OK) {
        status = train_network_buffer_tensors(network, buffers, *wanted + *n);
        *n += of_buffers;
    }
    return status;
}

static circe_status read_flat(const train_network *network, const circe_tensor_file *file, float *params,
                              float *buffers) {
    OWNED circe_tensor *wanted = NULL;
    int64_t n = 0;
    circe_status status = list_tensors(network, params, buffers, &wanted, &n);
    return status == CIRCE_OK ? read_tensors(file, wanted, n) : status;
}

circe_status train_network_read_tensors(const train_network *network, const circe_tensor_file *file, float *flat) {
    return read_flat(network, file, flat, NULL);
}

circe_status train_network_read_buffers(const train_network *network, const circe_tensor_file *file, float *flat) {
    return read_flat(network, file, NULL, flat);
}

/* ---- weights of others ------------------------------------------------------------------------------------------- */

/* Parameters from `end` on are the head's. */
static int64_t keep_body(const train_network *network, circe_tensor *wanted, int64_t n, const float *params,
                         int64_t end) {
    int64_t kept = 0, of_params = train_network_n_tensors(network);
    for (int64_t k = 0; k < n; k++) {
        bool head = k < of_params && (const float *)wanted[k].data - params >= end;
        if (!head) wanted[kept++] = wanted[k];
    }
    return kept;
}

static circe_status read_body(const train_network *network, const circe_tensor_file *file, int64_t end, float *params,
                              float *buffers) {
    OWNED circe_tensor *wanted = NULL;
    int64_t n = 0;
    circe_status status = list_tensors(network, params, buffers, &wanted, &n);
    if (status != CIRCE_OK || wanted == NULL) return status;
    return read_tensors(file, wanted, keep_body(network, wanted, n, params, end));
}

/* Where the parameters of the first dense layer begin. */
static int64_t end_of_body(const train_network *network) {
    for (int64_t l = 0; l < network->n_layers; l++)
        if (network->layers[l].kind == TRAIN_DENSE) return network->layers[l].first_param;
    return network->n_params;
}

circe_status train_network_load_body(train_network *network, const char *path) {
    circe_tensor_file *file = NULL;
    train_device *device = network->device;
    int64_t end = end_of_body(network);
    if (end == 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "this network starts with a dense layer: it has no body to load");
    size_t param_bytes = (size_t)network->n_params * sizeof(float);
    size_t buffer_bytes = (size_t)network->n_buffers * sizeof(float);
    OWNED float *params = malloc(param_bytes), *buffers = malloc(buffer_bytes + 1);
    if (params == NULL || buffers == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the parameters of a network");
    device->ops->download(device, params, network->params, param_bytes);
    device->ops->download(device, buffers, network->buffers, buffer_bytes);
    circe_status status = circe_tensor_file_open(device->context, path, &file);
    if (status != CIRCE_OK) return status;
    status = read_body(network, file, end, params, buffers);
    circe_tensor_file_close(file);
    if (status != CIRCE_OK) return circe_fail(status, "%s: %s", path, circe_last_error());
    device->ops->upload(device, network->params, params, param_bytes);
    device->ops->upload(device, network->buffers, buffers, buffer_bytes);
    return CIRCE_OK;
}
