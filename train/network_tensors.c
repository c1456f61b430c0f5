/* The parameters as named tensors, in the order and the naming of a PyTorch Sequential. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "network_internal.h"

int64_t train_network_n_tensors(const train_network *network) {
    train_layer_tensor tensors[TRAIN_MAX_LAYER_TENSORS];
    int64_t n = 0;
    for (int64_t l = 0; l < network->n_layers; l++)
        n += train_layer_type_of(network->layers[l].kind)->tensors(&network->layers[l], tensors);
    return n;
}

/* ---- names --------------------------------------------------------------------------------------------------------
 */

void train_names_free(train_names *names, int64_t n_tensors) {
    while (names != NULL) {
        train_names *next = names->next;
        for (int64_t k = 0; names->names != NULL && k < n_tensors; k++) free(names->names[k]);
        free(names->names);
        free(names->prefix);
        free(names);
        names = next;
    }
}

static char *join(const char *prefix, const char *layer, const char *tensor) {
    size_t bytes = strlen(prefix) + strlen(layer) + strlen(tensor) + 2;
    char *name = malloc(bytes);
    if (name != NULL) snprintf(name, bytes, "%s%s.%s", prefix, layer, tensor);
    return name;
}

/* false: no memory. */
static bool fill_names(const train_network *network, const char *prefix, train_names *names) {
    int64_t at = 0;
    names->prefix = strdup(prefix);
    names->names = calloc((size_t)train_network_n_tensors(network) + 1, sizeof *names->names);
    bool complete = names->prefix != NULL && names->names != NULL;
    for (int64_t l = 0; complete && l < network->n_layers; l++) {
        train_layer_tensor tensors[TRAIN_MAX_LAYER_TENSORS];
        const train_layer *layer = &network->layers[l];
        int n = train_layer_type_of(layer->kind)->tensors(layer, tensors);
        for (int t = 0; complete && t < n; t++, at++) {
            names->names[at] = join(prefix, layer->name, tensors[t].name);
            complete = names->names[at] != NULL;
        }
    }
    return complete;
}

/* Those of this prefix, made at their first use: a checkpoint holds parameters and moments under one prefix each. NULL:
 * no memory. */
static char **names_of(const train_network *network, const char *prefix) {
    for (train_names *known = *network->names; known != NULL; known = known->next)
        if (strcmp(known->prefix, prefix) == 0) return known->names;
    train_names *made = calloc(1, sizeof *made);
    if (made == NULL) return NULL;
    if (!fill_names(network, prefix, made)) {
        train_names_free(made, train_network_n_tensors(network));
        return NULL;
    }
    made->next = *network->names;
    *network->names = made;
    return made->names;
}

/* ---- writing ------------------------------------------------------------------------------------------------------
 */

circe_status train_network_tensors(const train_network *network, const float *flat, const char *prefix,
                                   circe_tensor *tensors) {
    int64_t at = 0;
    if (network == NULL || flat == NULL || prefix == NULL || tensors == NULL)
        return train_fail(CIRCE_ERR_ARGUMENT, "network, flat, prefix and tensors must not be NULL");
    char **names = names_of(network, prefix);
    if (names == NULL) return train_fail(CIRCE_ERR_MEMORY, "no memory for the names of a network's tensors");
    for (int64_t l = 0; l < network->n_layers; l++) {
        train_layer_tensor parts[TRAIN_MAX_LAYER_TENSORS];
        const train_layer *layer = &network->layers[l];
        int n = train_layer_type_of(layer->kind)->tensors(layer, parts);
        for (int t = 0; t < n; t++, at++) {
            circe_tensor *made = &tensors[at];
            *made = (circe_tensor){.name = names[at],
                                   .dtype = "F32",
                                   .n_dims = parts[t].n_dims,
                                   .data = flat + layer->first_param + parts[t].first,
                                   .bytes = (size_t)parts[t].count * sizeof(float)};
            memcpy(made->shape, parts[t].shape, (size_t)parts[t].n_dims * sizeof parts[t].shape[0]);
        }
    }
    return CIRCE_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------------------
 */

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
        return train_fail(CIRCE_ERR_FORMAT, "tensor '%s' is of dtype %s; F32 or F64 can be read", wanted->name,
                          found->dtype);
    if (found->n_dims == wanted->n_dims &&
        memcmp(found->shape, wanted->shape, (size_t)wanted->n_dims * sizeof wanted->shape[0]) == 0)
        return CIRCE_OK;
    show_shape(found, has, sizeof has);
    show_shape(wanted, needs, sizeof needs);
    return train_fail(CIRCE_ERR_SHAPE, "tensor '%s' is %s in the file; this network needs %s", wanted->name, has,
                      needs);
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

/* All are checked before the first is copied: a refused file leaves `flat` as it was. */
circe_status train_network_read_tensors(const train_network *network, const circe_tensor_file *file, const char *prefix,
                                        float *flat) {
    if (network == NULL || file == NULL || prefix == NULL || flat == NULL)
        return train_fail(CIRCE_ERR_ARGUMENT, "network, file, prefix and flat must not be NULL");
    int64_t n = train_network_n_tensors(network);
    circe_tensor *wanted = calloc((size_t)n + 1, sizeof *wanted), *found = calloc((size_t)n + 1, sizeof *found);
    circe_status status = CIRCE_ERR_MEMORY;
    if (wanted == NULL || found == NULL) {
        train_fail(CIRCE_ERR_MEMORY, "no memory for the list of a network's tensors");
        goto done;
    }
    status = train_network_tensors(network, flat, prefix, wanted);
    for (int64_t k = 0; status == CIRCE_OK && k < n; k++) {
        status = train_pass(circe_tensor_file_find(file, wanted[k].name, &found[k]));
        if (status == CIRCE_OK) status = check_tensor(&found[k], &wanted[k]);
    }
    for (int64_t k = 0; status == CIRCE_OK && k < n; k++)
        copy_tensor(&found[k], flat + ((const float *)wanted[k].data - flat));

done:
    free(wanted);
    free(found);
    return status;
}
