/* Writing .safetensors. The format allows no gaps between tensors, so they are laid out by falling element size: every
 * tensor then begins at a multiple of its own element, and the header is padded so that the first begins at a multiple
 * of 8. Files of circe's own formats get a checksum among their metadata. */
#include "circe/safetensors.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "files/atomic.h"
#include "files/checksum.h"
#include "files/tensor.h"

enum { ALIGNMENT = 8, LENGTH_BYTES = 8 };

static circe_status check_tensor(const circe_tensor *tensor, int64_t index, size_t *element) {
    size_t bytes;
    if (tensor->name == NULL || (tensor->data == NULL && tensor->bytes > 0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "tensor number %lld has no name or no data", (long long)index);
    if (tensor->n_dims < 0 || tensor->n_dims > CIRCE_TENSOR_MAX_DIMS)
        return circe_fail(CIRCE_ERR_ARGUMENT, "tensor '%s' has %d dimensions; 0 to %d are possible", tensor->name,
                          tensor->n_dims, CIRCE_TENSOR_MAX_DIMS);
    bool ended = memchr(tensor->dtype, '\0', sizeof tensor->dtype) != NULL;
    *element = bytes = ended ? circe__tensor_element(tensor->dtype) : 0;
    if (bytes == 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "tensor '%s' has the dtype '%.8s', which .safetensors does not know",
                          tensor->name, tensor->dtype);
    for (int k = 0; k < tensor->n_dims; k++)
        if (tensor->shape[k] < 0 || __builtin_mul_overflow(bytes, (size_t)tensor->shape[k], &bytes))
            return circe_fail(CIRCE_ERR_ARGUMENT, "tensor '%s' has an impossible shape", tensor->name);
    if (bytes != tensor->bytes)
        return circe_fail(CIRCE_ERR_ARGUMENT, "tensor '%s': shape and dtype need %zu bytes, but it has %zu",
                          tensor->name, bytes, tensor->bytes);
    return CIRCE_OK;
}

/* order: the tensors by falling element size, the caller's order kept among equals. */
static circe_status lay_out(const circe_tensor *tensors, int64_t n_tensors, const circe_tensor **order) {
    int64_t placed = 0;
    for (size_t wanted = 8; wanted >= 1; wanted /= 2) {
        for (int64_t i = 0; i < n_tensors; i++) {
            size_t element = 0;
            circe_status status = check_tensor(&tensors[i], i, &element);
            if (status != CIRCE_OK) return status;
            if (element == wanted) order[placed++] = &tensors[i];
        }
    }
    for (int64_t i = 0; i < n_tensors; i++)
        for (int64_t j = 0; j < i; j++)
            if (strcmp(tensors[i].name, tensors[j].name) == 0)
                return circe_fail(CIRCE_ERR_ARGUMENT, "two tensors are named '%s'", tensors[i].name);
    return CIRCE_OK;
}

/* Numbers as text: cJSON would print a large offset with an exponent. */
static bool add_numbers(cJSON *entry, const char *key, const int64_t *numbers, int n) {
    char text[CIRCE_TENSOR_MAX_DIMS * 24 + 4], *at = text;
    *at++ = '[';
    for (int k = 0; k < n; k++) at += sprintf(at, k == 0 ? "%lld" : ",%lld", (long long)numbers[k]);
    strcpy(at, "]");
    return cJSON_AddRawToObject(entry, key, text) != NULL;
}

static bool add_tensor(cJSON *header, const circe_tensor *tensor, size_t begin) {
    int64_t offsets[2] = {(int64_t)begin, (int64_t)(begin + tensor->bytes)};
    cJSON *entry = cJSON_AddObjectToObject(header, tensor->name);
    return entry != NULL && cJSON_AddStringToObject(entry, "dtype", tensor->dtype) != NULL &&
           add_numbers(entry, "shape", tensor->shape, tensor->n_dims) && add_numbers(entry, "data_offsets", offsets, 2);
}

/* The format, if it is one of circe's own: loading verifies their checksum. NULL: another program's format, which gets
 * no checksum. */
static const char *find_format(const circe_metadata *metadata, int64_t n_metadata) {
    for (int64_t i = 0; i < n_metadata; i++)
        if (strcmp(metadata[i].key, "format") == 0 && circe__is_own_format(metadata[i].value)) return metadata[i].value;
    return NULL;
}

/* JSON is UTF-8, and names of files and columns may not be: a copy that is, to be freed; NULL: no memory. */
static char *as_utf8(const char *text) {
    size_t bytes = text == NULL ? 0 : strlen(text);
    char *copy = malloc(2 * bytes + 1);
    if (copy != NULL) copy[circe__to_utf8(text, bytes, copy)] = '\0';
    return copy;
}

static bool add_text(cJSON *object, const circe_metadata *entry, uint64_t *sum) {
    char *key = as_utf8(entry->key), *value = as_utf8(entry->value);
    bool added = key != NULL && value != NULL && cJSON_AddStringToObject(object, key, value) != NULL;
    if (added) *sum += circe__hash_metadata(key, value);
    free(key);
    free(value);
    return added;
}

static bool add_metadata(cJSON *header, const circe_metadata *metadata, int64_t n_metadata, uint64_t sum) {
    if (n_metadata == 0) return true;
    char checksum[CIRCE__CHECKSUM_CHARS];
    bool own = find_format(metadata, n_metadata) != NULL;
    cJSON *object = cJSON_AddObjectToObject(header, "__metadata__");
    for (int64_t i = 0; object != NULL && i < n_metadata; i++) {
        if (own && strcmp(metadata[i].key, CIRCE__CHECKSUM_KEY) == 0) continue; /* that of another file */
        if (!add_text(object, &metadata[i], &sum)) return false;
    }
    circe__checksum_text(sum, checksum);
    return object != NULL && (!own || cJSON_AddStringToObject(object, CIRCE__CHECKSUM_KEY, checksum) != NULL);
}

/* The header as text, from cJSON's allocator. NULL: no memory. */
static char *header_text(const circe_tensor **order, int64_t n_tensors, const circe_metadata *metadata,
                         int64_t n_metadata) {
    char *text = NULL;
    size_t offset = 0;
    uint64_t sum = 0;
    bool own = find_format(metadata, n_metadata) != NULL;
    cJSON *header = cJSON_CreateObject();
    for (int64_t i = 0; own && i < n_tensors; i++) sum += circe__hash_tensor(order[i]);
    bool built = header != NULL && add_metadata(header, metadata, n_metadata, sum);
    for (int64_t i = 0; built && i < n_tensors; i++) {
        built = add_tensor(header, order[i], offset);
        offset += order[i]->bytes;
    }
    if (built) text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

static int write_header(circe__atomic *file, const char *text) {
    static const char spaces[ALIGNMENT] = {' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '};
    unsigned char prefix[LENGTH_BYTES];
    size_t length = strlen(text), padding = (ALIGNMENT - length % ALIGNMENT) % ALIGNMENT;
    uint64_t claimed = length + padding;
    for (int i = 0; i < LENGTH_BYTES; i++) prefix[i] = (unsigned char)(claimed >> (8 * i));
    int problem = circe__atomic_write(file, prefix, sizeof prefix);
    if (problem == 0) problem = circe__atomic_write(file, text, length);
    return problem == 0 ? circe__atomic_write(file, spaces, padding) : problem;
}

static circe_status write_file(const char *path, const char *header, const circe_tensor **order, int64_t n_tensors) {
    circe__atomic file;
    int problem = circe__atomic_open(&file, path);
    if (problem == 0) {
        problem = write_header(&file, header);
        for (int64_t i = 0; i < n_tensors && problem == 0; i++)
            problem = circe__atomic_write(&file, order[i]->data, order[i]->bytes);
        if (problem == 0)
            problem = circe__atomic_commit(&file);
        else
            circe__atomic_abandon(&file);
    }
    return problem == 0 ? CIRCE_OK : circe_fail(CIRCE_ERR_WRITE, "%s: cannot be written: %s", path, strerror(problem));
}

static circe_status check_metadata(const circe_metadata *metadata, int64_t n_metadata) {
    for (int64_t i = 0; i < n_metadata; i++)
        if (metadata[i].key == NULL || metadata[i].value == NULL)
            return circe_fail(CIRCE_ERR_ARGUMENT, "metadata number %lld has no key or no value", (long long)i);
    return CIRCE_OK;
}

circe_status circe_tensor_file_write(circe_context *context, const char *path, const circe_tensor *tensors,
                                     int64_t n_tensors, const circe_metadata *metadata, int64_t n_metadata) {
    CIRCE_OWN_SETTINGS;
    char *header = NULL;
    if (context == NULL || path == NULL || n_tensors < 0 || n_metadata < 0 || (tensors == NULL && n_tensors > 0) ||
        (metadata == NULL && n_metadata > 0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, path, tensors and metadata must not be NULL");
    const circe_tensor **order = circe__alloc(context, n_tensors, sizeof *order);
    if (order == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = lay_out(tensors, n_tensors, order);
    if (status == CIRCE_OK) status = check_metadata(metadata, n_metadata);
    if (status != CIRCE_OK) goto done;
    header = header_text(order, n_tensors, metadata, n_metadata);
    if (header == NULL) {
        status = circe_fail(CIRCE_ERR_MEMORY, "%s: no memory for the header", path);
        goto done;
    }
    status = write_file(path, header, order, n_tensors);
done:
    cJSON_free(header);
    circe__free(context, order);
    return status;
}
