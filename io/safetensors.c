/* One tensor of a .safetensors as a table: libcirce reads the container, the array code converts the elements. */
#include <string.h>

#include "circe/context.h"
#include "circe/safetensors.h"
#include "io/io_parts.h"

typedef struct dtype {
    const char *name;
    io_element element;
} dtype;

static const dtype dtypes[] = {
    {"F64", IO_F8}, {"F32", IO_F4}, {"F16", IO_F2},    {"BF16", IO_BF16}, {"I64", IO_I8},
    {"I32", IO_I4}, {"I16", IO_I2}, {"I8", IO_I1},     {"U64", IO_U8},    {"U32", IO_U4},
    {"U16", IO_U2}, {"U8", IO_U1},  {"BOOL", IO_BOOL},
};

static circe_status refuse_selection(const circe_tensor_file *file, const char *name, const char *selection) {
    io__choices choices;
    circe_tensor tensor = {0};
    io__choices_init(&choices, selection);
    for (int64_t i = 0; i < circe_tensor_file_count(file); i++)
        if (circe_tensor_file_get(file, i, &tensor) == CIRCE_OK) io__choices_add(&choices, tensor.name);
    if (choices.count == 0) return circe_fail(CIRCE_ERR_FORMAT, "%s: it contains no tensor", name);
    if (selection == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: it contains several tensors; choose with %s:NAME, one of %s", name,
                          name, io__choices_text(&choices));
    return circe_fail(CIRCE_ERR_ARGUMENT, "%s: it contains no tensor '%.100s'; it has %s", name, selection,
                      io__choices_text(&choices));
}

static circe_status find_tensor(const circe_tensor_file *file, const char *name, const char *selection,
                                circe_tensor *tensor) {
    bool found = false;
    if (selection != NULL)
        found = circe_tensor_file_find(file, selection, tensor) == CIRCE_OK;
    else if (circe_tensor_file_count(file) == 1)
        found = circe_tensor_file_get(file, 0, tensor) == CIRCE_OK;
    return found ? CIRCE_OK : refuse_selection(file, name, selection);
}

static circe_status describe(const circe_tensor *tensor, const char *name, io_array *array) {
    *array = (io_array){.n_dims = tensor->n_dims};
    memcpy(array->shape, tensor->shape, sizeof tensor->shape);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, tensor->dtype) != 0) continue;
        array->element = dtypes[i].element;
        return io_array_measure(array, name);
    }
    return circe_fail(CIRCE_ERR_FORMAT, "%s: tensor '%.100s' is of dtype %s, which cannot be read as a table", name,
                      tensor->name, tensor->dtype);
}

/* The tensor's array; into `table` too, unless that is NULL. */
static circe_status parse(const void *data, size_t bytes, const char *name, const char *selection, io_array *array,
                          io_table *table) {
    circe_context *context = NULL;
    circe_tensor_file *file = NULL;
    circe_tensor tensor = {0};
    circe_status status = circe_context_create(NULL, &context);
    if (status == CIRCE_OK) status = circe_tensor_file_parse(context, data, bytes, name, &file);
    if (status != CIRCE_OK) {
        circe_fail(status, "%s", circe_last_error());
        goto done;
    }
    status = find_tensor(file, name, selection, &tensor);
    if (status == CIRCE_OK) status = describe(&tensor, name, array);
    if (status == CIRCE_OK && table != NULL) status = io_array_convert(array, tensor.data, name, table);
done:
    circe_tensor_file_close(file);
    circe_context_destroy(context);
    return status;
}

circe_status io_parse_safetensors(const void *data, size_t bytes, const char *name, const char *selection,
                                  io_table *table) {
    io_array array;
    memset(table, 0, sizeof *table);
    return parse(data, bytes, name, selection, &array, table);
}

circe_status io__safetensors_shape(const void *data, size_t bytes, const char *name, const char *selection,
                                   io_array *array) {
    return parse(data, bytes, name, selection, array, NULL);
}
