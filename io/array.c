/* Arrays of any element type, byte order and index order, converted to a table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/io_parts.h"

size_t io_element_size(io_element element) {
    switch (element) {
        case IO_I1:
        case IO_U1:
        case IO_BOOL:
            return 1;
        case IO_F2:
        case IO_BF16:
        case IO_I2:
        case IO_U2:
            return 2;
        case IO_F4:
        case IO_I4:
        case IO_U4:
            return 4;
        case IO_F8:
        case IO_I8:
        case IO_U8:
            return 8;
    }
    return 0;
}

circe_dtype io_element_dtype(io_element element) {
    return element == IO_F2 || element == IO_BF16 || element == IO_F4 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
}

const char *io_shape_text(const io_array *array, char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "(");
    for (int k = 0; k < array->n_dims && used < capacity; k++)
        used += (size_t)snprintf(text + used, capacity - used, k == 0 ? "%lld" : ", %lld", (long long)array->shape[k]);
    if (used < capacity) snprintf(text + used, capacity - used, array->n_dims == 1 ? ",)" : ")");
    return text;
}

circe_status io_array_measure(io_array *array, const char *name) {
    char shape[256];
    int64_t elements;
    if (array->n_dims == 0)
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: it contains a single number without dimensions; an array of one or more rows is needed",
                          name);
    for (int k = 0; k < array->n_dims; k++)
        if (array->shape[k] == 0)
            return circe_fail(CIRCE_ERR_VALUE, "%s: the array is empty: its shape is %s", name,
                              io_shape_text(array, shape, sizeof shape));
    array->rows = array->shape[0];
    array->cols = 1;
    bool overflow = false;
    for (int k = 1; k < array->n_dims; k++)
        overflow = overflow || __builtin_mul_overflow(array->cols, array->shape[k], &array->cols);
    /* 16 bytes an element: room for the table, and for arithmetic on sizes after it. */
    if (overflow || __builtin_mul_overflow(array->rows, array->cols, &elements) || elements > INT64_MAX / 16)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: the header claims the impossible shape %s", name,
                          io_shape_text(array, shape, sizeof shape));
    array->bytes = (size_t)elements * io_element_size(array->element);
    return CIRCE_OK;
}

bool io_array_is_native(const io_array *array) {
    bool row_major = !array->fortran || array->n_dims == 1;
    return row_major && !array->big_endian && (array->element == IO_F4 || array->element == IO_F8);
}

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16. A subnormal is its mantissa times 2^-24, exact in float32. */
static float float_of_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 31u, mantissa = half & 0x3ffu;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0) return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float value = (float)mantissa * 0x1p-24f;
    return sign != 0 ? -value : value;
}

/* The bits of an element as an unsigned number, byte order resolved. */
static uint64_t load_bits(const unsigned char *at, size_t size, bool big_endian) {
    uint64_t bits = 0;
    memcpy(&bits, at, size);
    return big_endian ? __builtin_bswap64(bits) >> (64 - 8 * size) : bits;
}

static double value_of_bits(uint64_t bits, io_element element) {
    switch (element) {
        case IO_F2:
            return (double)float_of_half((uint16_t)bits);
        case IO_BF16:
            return (double)float_of_bits((uint32_t)bits << 16);
        case IO_F4:
            return (double)float_of_bits((uint32_t)bits);
        case IO_F8:
            return double_of_bits(bits);
        case IO_I1:
            return (double)(int8_t)bits;
        case IO_I2:
            return (double)(int16_t)bits;
        case IO_I4:
            return (double)(int32_t)bits;
        case IO_I8:
            return (double)(int64_t)bits;
        case IO_U1:
        case IO_U2:
        case IO_U4:
        case IO_U8:
            return (double)bits;
        case IO_BOOL:
            return bits != 0 ? 1.0 : 0.0;
    }
    return 0.0;
}

/* Where a column of the table begins in column-major data: the table counts the trailing dimensions with the last
 * running fastest, the file with the first. */
static size_t fortran_column(const io_array *array, int64_t column) {
    int64_t place = 0, stride = array->cols;
    for (int k = array->n_dims - 1; k >= 1; k--) {
        stride /= array->shape[k];
        place += column % array->shape[k] * stride;
        column /= array->shape[k];
    }
    return (size_t)place * (size_t)array->rows;
}

/* Elements first, first + step, ... (n of them, in the file) to out[0], out[out_step], ... */
static void convert_run(const io_array *array, const unsigned char *data, size_t first, int64_t n, void *out,
                        size_t out_first, size_t out_step) {
    size_t size = io_element_size(array->element);
    const unsigned char *at = data + first * size;
    if (io_element_dtype(array->element) == CIRCE_FLOAT32) {
        float *to = (float *)out + out_first;
        for (int64_t i = 0; i < n; i++, at += size, to += out_step)
            *to = (float)value_of_bits(load_bits(at, size, array->big_endian), array->element);
    } else {
        double *to = (double *)out + out_first;
        for (int64_t i = 0; i < n; i++, at += size, to += out_step)
            *to = value_of_bits(load_bits(at, size, array->big_endian), array->element);
    }
}

/* In strips of rows, so that the strided writes of one strip stay in cache from column to column. */
static void convert_fortran(const io_array *array, const unsigned char *data, void *out) {
    const int64_t strip = 256;
    for (int64_t i = 0; i < array->rows; i += strip) {
        int64_t n = array->rows - i < strip ? array->rows - i : strip;
        for (int64_t j = 0; j < array->cols; j++)
            convert_run(array, data, fortran_column(array, j) + (size_t)i, n, out,
                        (size_t)i * (size_t)array->cols + (size_t)j, (size_t)array->cols);
    }
}

circe_status io_array_convert(const io_array *array, const void *data, const char *name, io_table *table) {
    circe_dtype dtype = io_element_dtype(array->element);
    int64_t elements = array->rows * array->cols;
    void *out = malloc((size_t)elements * circe_dtype_size(dtype));
    char *source = strdup(name);
    if (out == NULL || source == NULL) {
        free(out);
        free(source);
        return io__no_memory(name);
    }
    if (io_array_is_native(array))
        memcpy(out, data, array->bytes);
    else if (array->fortran)
        convert_fortran(array, data, out);
    else
        convert_run(array, data, 0, elements, out, 0, 1);
    memset(table, 0, sizeof *table);
    table->values = (circe_mat){out, array->rows, array->cols, array->cols, dtype};
    table->source = source;
    return CIRCE_OK;
}

circe_status io_array_adopt(const io_array *array, void **data, const char *name, io_table *table) {
    if (!io_array_is_native(array)) return io_array_convert(array, *data, name, table);
    memset(table, 0, sizeof *table);
    table->source = strdup(name);
    if (table->source == NULL) return io__no_memory(name);
    table->values = (circe_mat){*data, array->rows, array->cols, array->cols, io_element_dtype(array->element)};
    *data = NULL;
    return CIRCE_OK;
}
