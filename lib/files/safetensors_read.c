/* Reading .safetensors: eight bytes of header length (little-endian), a JSON header, then the tensors' bytes.
 *
 *     {"name": {"dtype": "F64", "shape": [2, 3], "data_offsets": [0, 48]}, ..., "__metadata__": {"key": "text"}}
 *
 * The header is checked whole before a caller sees a tensor: every span lies inside the file, is as long as shape and
 * dtype say, and the spans tile the buffer without overlap or gap, as the format demands. Names and metadata point
 * into the parsed JSON, data into the file's bytes. */
#include "circe/safetensors.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "files/checksum.h"
#include "files/mapped.h"
#include "files/tensor.h"

enum { LENGTH_BYTES = 8, SHOWN_BYTES = 64, MAX_HEADER_BYTES = 100 * 1000 * 1000 };

struct circe_tensor_file {
    const circe_context *context;
    char *name;           /* for error texts */
    circe__mapped mapped; /* empty where the bytes are the caller's */
    const unsigned char *data;
    size_t bytes;
    cJSON *header;
    const cJSON *metadata;       /* inside header; NULL: none */
    const unsigned char *buffer; /* where the tensors' bytes begin */
    size_t buffer_bytes;
    circe_tensor *tensors; /* in the order of the header */
    int64_t n_tensors;
};

typedef struct dtype_size {
    const char *name;
    size_t bytes;
} dtype_size;

static const dtype_size dtypes[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},  {"I32", 4},     {"I16", 2},     {"I8", 1},
    {"U64", 8}, {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1},
};

size_t circe__tensor_element(const char *dtype) {
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, dtype) == 0) return dtypes[i].bytes;
    return 0;
}

/* A name out of a file, fit for an error text: bounded. */
static const char *shown(const char *name, char *text) {
    size_t length = 0;
    for (; name[length] != '\0' && length + 1 < SHOWN_BYTES; length++) text[length] = name[length];
    text[length] = '\0';
    return text;
}

static circe_status fail_tensor(const circe_tensor_file *file, const char *tensor, const char *problem) {
    char text[SHOWN_BYTES];
    return circe_fail(CIRCE_ERR_FORMAT, "%s: tensor '%s': %s", file->name, shown(tensor, text), problem);
}

/* JSON numbers are doubles: beyond 2^53 they are no longer whole numbers that can be trusted. */
static bool whole_number(const cJSON *item, int64_t *value) {
    if (!cJSON_IsNumber(item)) return false;
    double number = item->valuedouble;
    if (!(number >= 0.0 && number <= 0x1p53) || number != floor(number)) return false;
    *value = (int64_t)number;
    return true;
}

static circe_status read_shape(const circe_tensor_file *file, const cJSON *shape, circe_tensor *tensor) {
    const cJSON *item;
    if (!cJSON_IsArray(shape)) return fail_tensor(file, tensor->name, "its \"shape\" is missing or not a list");
    cJSON_ArrayForEach(item, shape) {
        if (tensor->n_dims == CIRCE_TENSOR_MAX_DIMS)
            return fail_tensor(file, tensor->name, "its shape has more than 8 dimensions");
        if (!whole_number(item, &tensor->shape[tensor->n_dims]))
            return fail_tensor(file, tensor->name,
                               "its shape contains something other than whole numbers from 0 to 2^53");
        tensor->n_dims++;
    }
    return CIRCE_OK;
}

static circe_status read_dtype(const circe_tensor_file *file, const cJSON *dtype, circe_tensor *tensor) {
    if (dtype == NULL || !cJSON_IsString(dtype))
        return fail_tensor(file, tensor->name, "its \"dtype\" is missing or not a text");
    if (circe__tensor_element(dtype->valuestring) == 0) {
        char text[SHOWN_BYTES], problem[2 * SHOWN_BYTES];
        snprintf(problem, sizeof problem, "its dtype '%s' is not known", shown(dtype->valuestring, text));
        return fail_tensor(file, tensor->name, problem);
    }
    strcpy(tensor->dtype, dtype->valuestring);
    return CIRCE_OK;
}

/* Elements times size, or an overflow. A zero anywhere is an empty tensor, whatever the other dimensions. */
static bool tensor_bytes(const circe_tensor *tensor, size_t *bytes) {
    *bytes = circe__tensor_element(tensor->dtype);
    for (int k = 0; k < tensor->n_dims; k++)
        if (tensor->shape[k] == 0) *bytes = 0;
    for (int k = 0; k<tensor->n_dims && * bytes> 0; k++)
        if (__builtin_mul_overflow(*bytes, (size_t)tensor->shape[k], bytes)) return false;
    return true;
}

static circe_status read_span(const circe_tensor_file *file, const cJSON *offsets, circe_tensor *tensor) {
    char shown_name[SHOWN_BYTES];
    int64_t begin, end;
    size_t needed;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !whole_number(cJSON_GetArrayItem(offsets, 0), &begin) || !whole_number(cJSON_GetArrayItem(offsets, 1), &end))
        return fail_tensor(file, tensor->name, "its \"data_offsets\" are not two whole numbers");
    if (begin > end || (uint64_t)end > file->buffer_bytes)
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: tensor '%s': its data_offsets are %lld to %lld, but the file contains %zu bytes of data",
                          file->name, shown(tensor->name, shown_name), (long long)begin, (long long)end,
                          file->buffer_bytes);
    if (!tensor_bytes(tensor, &needed)) return fail_tensor(file, tensor->name, "its shape is too large");
    if (needed != (size_t)(end - begin))
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: tensor '%s': its shape needs %zu bytes of %s, but its data_offsets span %lld",
                          file->name, shown(tensor->name, shown_name), needed, tensor->dtype, (long long)(end - begin));
    tensor->data = file->buffer + begin;
    tensor->bytes = needed;
    return CIRCE_OK;
}

static circe_status read_tensor(const circe_tensor_file *file, const cJSON *entry, circe_tensor *tensor) {
    const cJSON *item, *dtype = NULL, *shape = NULL, *offsets = NULL;
    tensor->name = entry->string;
    if (!cJSON_IsObject(entry)) return fail_tensor(file, tensor->name, "its entry is not a JSON object");
    cJSON_ArrayForEach(item, entry) {
        const cJSON **slot = strcmp(item->string, "dtype") == 0          ? &dtype
                             : strcmp(item->string, "shape") == 0        ? &shape
                             : strcmp(item->string, "data_offsets") == 0 ? &offsets
                                                                         : NULL;
        if (slot == NULL) return fail_tensor(file, tensor->name, "its entry has an unknown key");
        if (*slot != NULL) return fail_tensor(file, tensor->name, "its entry has a key twice");
        *slot = item;
    }
    circe_status status = read_dtype(file, dtype, tensor);
    if (status == CIRCE_OK) status = read_shape(file, shape, tensor);
    if (status == CIRCE_OK) status = read_span(file, offsets, tensor);
    return status;
}

static circe_status read_metadata(circe_tensor_file *file, const cJSON *metadata) {
    const cJSON *item;
    if (file->metadata != NULL) return circe_fail(CIRCE_ERR_FORMAT, "%s: it has \"__metadata__\" twice", file->name);
    if (!cJSON_IsObject(metadata))
        return circe_fail(CIRCE_ERR_FORMAT, "%s: its \"__metadata__\" is not a JSON object", file->name);
    cJSON_ArrayForEach(item, metadata) {
        char text[SHOWN_BYTES];
        if (!cJSON_IsString(item))
            return circe_fail(CIRCE_ERR_FORMAT, "%s: the metadata '%s' is not a text", file->name,
                              shown(item->string, text));
    }
    file->metadata = metadata;
    return CIRCE_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const circe_tensor *const *)a)->name, (*(const circe_tensor *const *)b)->name);
}

/* An empty tensor stands before the one that begins where it does. */
static int by_place(const void *a, const void *b) {
    const circe_tensor *left = *(const circe_tensor *const *)a, *right = *(const circe_tensor *const *)b;
    if (left->data != right->data) return (const char *)left->data < (const char *)right->data ? -1 : 1;
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static circe_status check_names(const circe_tensor_file *file, const circe_tensor **order) {
    qsort(order, (size_t)file->n_tensors, sizeof *order, by_name);
    for (int64_t i = 1; i < file->n_tensors; i++)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0)
            return fail_tensor(file, order[i]->name, "it is in the header twice");
    return CIRCE_OK;
}

static circe_status check_tiling(const circe_tensor_file *file, const circe_tensor **order) {
    const unsigned char *reached = file->buffer;
    qsort(order, (size_t)file->n_tensors, sizeof *order, by_place);
    for (int64_t i = 0; i < file->n_tensors; i++) {
        const unsigned char *begin = order[i]->data;
        if (begin < reached) return fail_tensor(file, order[i]->name, "its data overlap those of another tensor");
        if (begin > reached) return fail_tensor(file, order[i]->name, "there are unused bytes before its data");
        reached += order[i]->bytes;
    }
    size_t used = (size_t)(reached - file->buffer);
    if (used == file->buffer_bytes) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_FORMAT, "%s: its header describes %zu bytes of tensors, and the file contains %zu",
                      file->name, used, file->buffer_bytes);
}

static circe_status check_together(const circe_tensor_file *file) {
    const circe_tensor **order = circe__alloc(file->context, file->n_tensors, sizeof *order);
    if (order == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < file->n_tensors; i++) order[i] = &file->tensors[i];
    circe_status status = check_names(file, order);
    if (status == CIRCE_OK) status = check_tiling(file, order);
    circe__free(file->context, order);
    return status;
}

static circe_status read_entries(circe_tensor_file *file) {
    const cJSON *entry;
    int64_t n_entries = 0;
    cJSON_ArrayForEach(entry, file->header) n_entries++;
    file->tensors = circe__calloc(file->context, n_entries, sizeof *file->tensors);
    if (file->tensors == NULL) return CIRCE_ERR_MEMORY;
    cJSON_ArrayForEach(entry, file->header) {
        circe_status status;
        if (strcmp(entry->string, "__metadata__") == 0)
            status = read_metadata(file, entry);
        else
            status = read_tensor(file, entry, &file->tensors[file->n_tensors++]);
        if (status != CIRCE_OK) return status;
    }
    return check_together(file);
}

/* The container has no checksum, and a flipped bit in a number would go unnoticed. Files that older versions wrote have
 * none in their metadata either. */
static circe_status check_sum(const circe_tensor_file *file) {
    const char *format = circe_tensor_file_metadata(file, "format");
    const char *found = circe_tensor_file_metadata(file, CIRCE__CHECKSUM_KEY);
    char expected[CIRCE__CHECKSUM_CHARS];
    const cJSON *item;
    uint64_t sum = 0;
    if (format == NULL || found == NULL || !circe__is_own_format(format)) return CIRCE_OK;
    for (int64_t i = 0; i < file->n_tensors; i++) sum += circe__hash_tensor(&file->tensors[i]);
    cJSON_ArrayForEach(item, file->metadata) {
        if (strcmp(item->string, CIRCE__CHECKSUM_KEY) == 0) continue;
        sum += circe__hash_metadata(item->string, item->valuestring);
    }
    circe__checksum_text(sum, expected);
    if (strcmp(expected, found) == 0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_FORMAT,
                      "%s: it is damaged, or was changed after it was written: its checksum is %.20s and should be %s",
                      file->name, found, expected);
}

/* Parsed from a copy that ends in NUL, which bounds the parser whatever the header holds. */
static circe_status parse_json(circe_tensor_file *file, const unsigned char *text, size_t length) {
    const char *end = NULL;
    if (memchr(text, '\0', length) != NULL)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: its header contains a NUL byte; it is damaged", file->name);
    char *copy = circe__alloc(file->context, (int64_t)length + 1, 1);
    if (copy == NULL) return CIRCE_ERR_MEMORY;
    memcpy(copy, text, length);
    copy[length] = '\0';
    file->header = cJSON_ParseWithOpts(copy, &end, 0);
    size_t parsed = file->header != NULL && end != NULL ? (size_t)(end - copy) : 0;
    bool complete = parsed > 0 && strspn(copy + parsed, " \t\r\n") == length - parsed;
    circe__free(file->context, copy);
    if (file->header == NULL || !complete || !cJSON_IsObject(file->header))
        return circe_fail(CIRCE_ERR_FORMAT, "%s: its header of %zu bytes is not one JSON object", file->name, length);
    return CIRCE_OK;
}

static circe_status read_header(circe_tensor_file *file) {
    uint64_t length = 0;
    if (file->bytes < LENGTH_BYTES)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: it contains %zu bytes, too few for a .safetensors", file->name,
                          file->bytes);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | file->data[i];
    size_t rest = file->bytes - LENGTH_BYTES;
    if (length > MAX_HEADER_BYTES)
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: it claims a header of %llu bytes, above the limit of %d; it is damaged or of another "
                          "format",
                          file->name, (unsigned long long)length, MAX_HEADER_BYTES);
    if (length > rest)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: it claims a header of %llu bytes, and only %zu follow", file->name,
                          (unsigned long long)length, rest);
    file->buffer = file->data + LENGTH_BYTES + length;
    file->buffer_bytes = rest - (size_t)length;
    circe_status status = parse_json(file, file->data + LENGTH_BYTES, (size_t)length);
    if (status == CIRCE_OK) status = read_entries(file);
    return status == CIRCE_OK ? check_sum(file) : status;
}

/* An object with its name and nothing else. */
static circe_status make(circe_context *context, const char *name, circe_tensor_file **file) {
    circe_tensor_file *made = circe__calloc(context, 1, sizeof *made);
    if (made == NULL) return CIRCE_ERR_MEMORY;
    made->context = context;
    made->name = circe__strdup(context, name);
    if (made->name == NULL) {
        circe_tensor_file_close(made);
        return CIRCE_ERR_MEMORY;
    }
    *file = made;
    return CIRCE_OK;
}

static circe_status finish(circe_tensor_file *made, const void *data, size_t bytes, circe_tensor_file **file) {
    made->data = data;
    made->bytes = bytes;
    circe_status status = read_header(made);
    if (status == CIRCE_OK)
        *file = made;
    else
        circe_tensor_file_close(made);
    return status;
}

circe_status circe_tensor_file_open(circe_context *context, const char *path, circe_tensor_file **file) {
    CIRCE_OWN_SETTINGS;
    circe_tensor_file *made = NULL;
    if (context == NULL || path == NULL || file == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, path and file must not be NULL");
    *file = NULL;
    circe_status status = make(context, path, &made);
    if (status != CIRCE_OK) return status;
    int problem = circe__map_file(path, &made->mapped);
    if (problem != 0) {
        circe_tensor_file_close(made);
        return circe_fail(CIRCE_ERR_IO, "%s: %s", path, circe__map_problem(problem));
    }
    return finish(made, made->mapped.data, made->mapped.bytes, file);
}

circe_status circe_tensor_file_parse(circe_context *context, const void *data, size_t bytes, const char *name,
                                     circe_tensor_file **file) {
    CIRCE_OWN_SETTINGS;
    circe_tensor_file *made = NULL;
    if (context == NULL || name == NULL || file == NULL || (data == NULL && bytes > 0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, data, name and file must not be NULL");
    *file = NULL;
    circe_status status = make(context, name, &made);
    return status == CIRCE_OK ? finish(made, data, bytes, file) : status;
}

void circe_tensor_file_close(circe_tensor_file *file) {
    if (file == NULL) return;
    cJSON_Delete(file->header);
    circe__free(file->context, file->tensors);
    circe__free(file->context, file->name);
    circe__unmap(&file->mapped);
    circe__free(file->context, file);
}

int64_t circe_tensor_file_count(const circe_tensor_file *file) { return file->n_tensors; }

circe_status circe_tensor_file_get(const circe_tensor_file *file, int64_t index, circe_tensor *tensor) {
    if (file == NULL || tensor == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "file and tensor must not be NULL");
    if (index < 0 || index >= file->n_tensors)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: there is no tensor number %lld; it contains %lld", file->name,
                          (long long)index, (long long)file->n_tensors);
    *tensor = file->tensors[index];
    return CIRCE_OK;
}

circe_status circe_tensor_file_find(const circe_tensor_file *file, const char *name, circe_tensor *tensor) {
    char text[SHOWN_BYTES];
    if (file == NULL || name == NULL || tensor == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "file, name and tensor must not be NULL");
    for (int64_t i = 0; i < file->n_tensors; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return circe_tensor_file_get(file, i, tensor);
    return circe_fail(CIRCE_ERR_FORMAT, "%s: it contains no tensor '%s'", file->name, shown(name, text));
}

const char *circe_tensor_file_metadata(const circe_tensor_file *file, const char *key) {
    return file->metadata == NULL ? NULL : cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(file->metadata, key));
}
