/* The .safetensors container: round trips, and every refusal on bytes built here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "circe/circe.h"
#include "io/io.h"

static char directory[64];
static circe_context *context;

static int set_up(void **state) {
    (void)state;
    strcpy(directory, "/tmp/circe-tensors-XXXXXX");
    return mkdtemp(directory) == NULL || circe_context_create(NULL, &context) != CIRCE_OK;
}

static int tear_down(void **state) {
    char command[128];
    (void)state;
    circe_context_destroy(context);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static const char *in_directory(const char *name) {
    static char paths[2][256];
    static int next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

/* A file from its header text and its data, on the heap at its exact size. */
static unsigned char *build(const char *header, const void *data, size_t n, size_t *bytes) {
    size_t length = strlen(header);
    *bytes = 8 + length + n;
    unsigned char *file = malloc(*bytes);
    assert_non_null(file);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(file + 8, header, length);
    if (n > 0) memcpy(file + 8 + length, data, n);
    return file;
}

static void assert_says(const char *part) {
    if (strstr(circe_last_error(), part) == NULL) fail_msg("'%s' does not say '%s'", circe_last_error(), part);
}

static void refuse(const char *header, size_t n, const char *says) {
    unsigned char zeros[256] = {0};
    size_t bytes;
    unsigned char *data = build(header, zeros, n, &bytes);
    circe_tensor_file *file = (circe_tensor_file *)data; /* must be overwritten */
    assert_int_equal(circe_tensor_file_parse(context, data, bytes, "t.safetensors", &file), CIRCE_ERR_FORMAT);
    assert_null(file);
    assert_says("t.safetensors");
    assert_says(says);
    free(data);
}

static circe_tensor tensor(const char *name, const char *dtype, int64_t rows, int64_t cols, const void *data,
                           size_t bytes) {
    circe_tensor made = {.name = name, .n_dims = 2, .shape = {rows, cols}, .data = data, .bytes = bytes};
    snprintf(made.dtype, sizeof made.dtype, "%s", dtype);
    return made;
}

static void round_trip(void **state) {
    (void)state;
    const double d[6] = {1, 2, 3, NAN, INFINITY, -0.0};
    const float f[3] = {1.5f, 2.5f, 3.5f};
    const unsigned char u[3] = {1, 2, 3};
    const circe_tensor tensors[] = {
        tensor("bytes", "U8", 1, 3, u, sizeof u),
        tensor("floats \"q\" \xc3\xa9", "F32", 3, 1, f, sizeof f),
        tensor("doubles", "F64", 2, 3, d, sizeof d),
        tensor("none", "I64", 0, 3, NULL, 0),
        {.name = "scalar", .dtype = "F64", .n_dims = 0, .data = d, .bytes = 8},
    };
    const circe_metadata metadata[] = {{"format", "circe"}, {"text", "line\nbreak \"quoted\" \\ \xe2\x82\xac"}};
    const char *path = in_directory("round.safetensors");
    circe_tensor_file *file = NULL;
    circe_tensor got;
    assert_int_equal(circe_tensor_file_write(context, path, tensors, 5, metadata, 2), CIRCE_OK);
    assert_int_equal(circe_tensor_file_open(context, path, &file), CIRCE_OK);
    assert_int_equal(circe_tensor_file_count(file), 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(circe_tensor_file_find(file, tensors[i].name, &got), CIRCE_OK);
        assert_string_equal(got.dtype, tensors[i].dtype);
        assert_int_equal(got.n_dims, tensors[i].n_dims);
        assert_int_equal(got.bytes, tensors[i].bytes);
        assert_memory_equal(got.shape, tensors[i].shape, sizeof got.shape);
        if (got.bytes > 0) assert_memory_equal(got.data, tensors[i].data, got.bytes);
    }
    for (int i = 0; i < 5; i++) { /* each aligned to its own element */
        assert_int_equal(circe_tensor_file_get(file, i, &got), CIRCE_OK);
        if (strcmp(got.dtype, "F64") == 0) assert_int_equal((uintptr_t)got.data % 8, 0);
        if (strcmp(got.dtype, "F32") == 0) assert_int_equal((uintptr_t)got.data % 4, 0);
    }
    assert_string_equal(circe_tensor_file_metadata(file, "text"), metadata[1].value);
    assert_null(circe_tensor_file_metadata(file, "Format"));
    assert_int_equal(circe_tensor_file_get(file, 5, &got), CIRCE_ERR_ARGUMENT);
    assert_int_equal(circe_tensor_file_find(file, "absent", &got), CIRCE_ERR_FORMAT);
    assert_says("no tensor 'absent'");
    circe_tensor_file_close(file);
}

static void nothing_in_it(void **state) {
    (void)state;
    const char *path = in_directory("empty.safetensors");
    circe_tensor_file *file = NULL;
    assert_int_equal(circe_tensor_file_write(context, path, NULL, 0, NULL, 0), CIRCE_OK);
    assert_int_equal(circe_tensor_file_open(context, path, &file), CIRCE_OK);
    assert_int_equal(circe_tensor_file_count(file), 0);
    assert_null(circe_tensor_file_metadata(file, "x"));
    circe_tensor_file_close(file);
}

#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void headers(void **state) {
    (void)state;
    refuse("", 0, "not one JSON object");
    refuse("[]", 0, "not one JSON object");
    refuse("{} x", 0, "not one JSON object");
    refuse("{\"a\":", 0, "not one JSON object");
    refuse("{\"a\": 1}", 0, "tensor 'a': its entry is not a JSON object");
    refuse("{\"a\": {}}", 0, "dtype");
    refuse("{\"__metadata__\": {\"k\": 1}}", 0, "metadata 'k' is not a text");
    refuse("{\"__metadata__\": []}", 0, "__metadata__");
    refuse("{\"__metadata__\": {}, \"__metadata__\": {}}", 0, "twice");
    refuse("{}", 8, "describes 0 bytes of tensors, and the file contains 8");
    char deep[4096] = "{\"a\":";
    for (int i = 0; i < 2000; i++) strcat(deep, "[");
    refuse(deep, 0, "not one JSON object");
}

static void entries(void **state) {
    (void)state;
    refuse("{\"a\":" ENTRY("F65", "[1]", "[0,8]") "}", 8, "tensor 'a': its dtype 'F65' is not known");
    refuse("{\"a\":" ENTRY("F64", "[-1]", "[0,8]") "}", 8, "whole numbers");
    refuse("{\"a\":" ENTRY("F64", "[1.5]", "[0,8]") "}", 8, "whole numbers");
    refuse("{\"a\":" ENTRY("F64", "[\"1\"]", "[0,8]") "}", 8, "whole numbers");
    refuse("{\"a\":" ENTRY("F64", "[1e300]", "[0,8]") "}", 8, "whole numbers");
    refuse("{\"a\":" ENTRY("F64", "8", "[0,8]") "}", 8, "shape");
    refuse("{\"a\":" ENTRY("F64", "[1,1,1,1,1,1,1,1,1]", "[0,8]") "}", 8, "8 dimensions");
    refuse("{\"a\":" ENTRY("F64", "[9007199254740992,9007199254740992]", "[0,8]") "}", 8, "too large");
    refuse("{\"a\":" ENTRY("F64", "[2]", "[0,8]") "}", 8, "needs 16 bytes of F64, but its data_offsets span 8");
    refuse("{\"a\":" ENTRY("F64", "[1]", "[8,0]") "}", 8, "8 to 0");
    refuse("{\"a\":" ENTRY("F64", "[2]", "[0,16]") "}", 8, "the file contains 8 bytes");
    refuse("{\"a\":" ENTRY("F64", "[1]", "[0]") "}", 8, "two whole numbers");
    refuse("{\"a\":" ENTRY("F64", "[1]", "[-8,0]") "}", 8, "two whole numbers");
    refuse("{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8],\"x\":1}}", 8, "unknown key");
    refuse("{\"a\":{\"dtype\":\"F64\",\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "twice");
    refuse("{\"\\u001b[2J\": 1}", 0, "'\\u001b[2J'");
}

static void entries_together(void **state) {
    (void)state;
    refuse("{\"a\":" ENTRY("F64", "[2]", "[0,16]") ",\"b\":" ENTRY("F64", "[2]", "[8,24]") "}", 24,
           "tensor 'b': its data overlap");
    refuse("{\"a\":" ENTRY("F64", "[1]", "[0,8]") ",\"b\":" ENTRY("F64", "[1]", "[16,24]") "}", 24, "unused bytes");
    refuse("{\"a\":" ENTRY("F64", "[1]", "[0,8]") "}", 24, "describes 8 bytes of tensors, and the file contains 24");
    refuse("{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",\"b\":" ENTRY("U8", "[1]", "[1,2]") ",\"a\":" ENTRY("U8", "[1]",
                                                                                                       "[2,3]") "}",
           3, "tensor 'a': it is in the header twice");
}

static void cut_anywhere(void **state) {
    (void)state;
    const double d[2] = {1, 2};
    size_t bytes;
    unsigned char *whole = build("{\"a\":" ENTRY("F64", "[2]", "[0,16]") "}", d, sizeof d, &bytes);
    circe_tensor_file *file = NULL;
    for (size_t n = 0; n < bytes; n++)
        assert_int_equal(circe_tensor_file_parse(context, whole, n, "t", &file), CIRCE_ERR_FORMAT);
    assert_int_equal(circe_tensor_file_parse(context, whole, bytes, "t", &file), CIRCE_OK);
    circe_tensor_file_close(file);
    whole[7] = 1; /* a header of 2^56 bytes */
    assert_int_equal(circe_tensor_file_parse(context, whole, bytes, "t", &file), CIRCE_ERR_FORMAT);
    assert_says("above the limit");
    whole[7] = 0;
    whole[12] = 0; /* a NUL in the header */
    assert_int_equal(circe_tensor_file_parse(context, whole, bytes, "t", &file), CIRCE_ERR_FORMAT);
    assert_says("NUL");
    free(whole);
}

static void opening(void **state) {
    (void)state;
    circe_tensor_file *file = NULL;
    assert_int_equal(circe_tensor_file_open(context, in_directory("absent"), &file), CIRCE_ERR_IO);
    assert_says("absent: No such file or directory");
    assert_int_equal(circe_tensor_file_open(context, directory, &file), CIRCE_ERR_IO);
    assert_says("Is a directory");
    assert_int_equal(circe_tensor_file_open(context, "/dev/null", &file), CIRCE_ERR_FORMAT);
    assert_int_equal(circe_tensor_file_open(NULL, "x", &file), CIRCE_ERR_ARGUMENT);
    circe_tensor_file_close(NULL);
}

static void writing_refusals(void **state) {
    (void)state;
    const double d[2] = {1, 2};
    const char *path = in_directory("refused.safetensors");
    circe_tensor good = tensor("a", "F64", 1, 2, d, sizeof d), bad = good;
    const circe_metadata nameless = {NULL, "x"};
    bad.bytes = 8;
    assert_int_equal(circe_tensor_file_write(context, path, &bad, 1, NULL, 0), CIRCE_ERR_ARGUMENT);
    assert_says("tensor 'a': shape and dtype need 16 bytes, but it has 8");
    bad = tensor("a", "F128", 1, 1, d, 16);
    assert_int_equal(circe_tensor_file_write(context, path, &bad, 1, NULL, 0), CIRCE_ERR_ARGUMENT);
    bad = tensor("a", "F64", -1, 2, d, 16);
    assert_int_equal(circe_tensor_file_write(context, path, &bad, 1, NULL, 0), CIRCE_ERR_ARGUMENT);
    const circe_tensor twice[2] = {good, good};
    assert_int_equal(circe_tensor_file_write(context, path, twice, 2, NULL, 0), CIRCE_ERR_ARGUMENT);
    assert_says("two tensors are named 'a'");
    assert_int_equal(circe_tensor_file_write(context, path, &good, 1, &nameless, 1), CIRCE_ERR_ARGUMENT);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(circe_tensor_file_write(context, "/dev/full", &good, 1, NULL, 0), CIRCE_ERR_WRITE);
    assert_says("/dev/full: cannot be written: No space left on device");
    assert_int_equal(circe_tensor_file_write(context, in_directory("no/where"), &good, 1, NULL, 0), CIRCE_ERR_WRITE);
    assert_says("No such file or directory");
}

/* ---- as tables --------------------------------------------------------------------------------------------------- */

static void tables(void **state) {
    (void)state;
    static const struct {
        const char *dtype;
        size_t size;
        unsigned char data[16];
        double first, second;
        circe_dtype made;
    } cases[] = {
        {"F64", 8, {0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0}, 1.5, -2.0, CIRCE_FLOAT64},
        {"F32", 4, {0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0}, 1.5, -2.0, CIRCE_FLOAT32},
        {"F16", 2, {0x00, 0x3e, 0x00, 0xc0}, 1.5, -2.0, CIRCE_FLOAT32},
        {"BF16", 2, {0xc0, 0x3f, 0x00, 0xc0}, 1.5, -2.0, CIRCE_FLOAT32},
        {"I8", 1, {0xff, 2}, -1, 2, CIRCE_FLOAT64},
        {"I16", 2, {0xff, 0xff, 2}, -1, 2, CIRCE_FLOAT64},
        {"I32", 4, {0xff, 0xff, 0xff, 0xff, 2}, -1, 2, CIRCE_FLOAT64},
        {"I64", 8, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}, -1, 2, CIRCE_FLOAT64},
        {"U8", 1, {0xff, 2}, 255, 2, CIRCE_FLOAT64},
        {"U16", 2, {0xff, 0xff, 2}, 65535, 2, CIRCE_FLOAT64},
        {"U32", 4, {0xff, 0xff, 0xff, 0xff, 2}, 4294967295.0, 2, CIRCE_FLOAT64},
        {"U64", 8, {0, 0, 0, 0, 0, 0, 0, 0x80, 2}, 0x1p63, 2, CIRCE_FLOAT64},
        {"BOOL", 1, {1, 0}, 1, 0, CIRCE_FLOAT64},
    };
    io_table table;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *path = in_directory("table.safetensors");
        circe_tensor one = tensor("t", cases[k].dtype, 2, 1, cases[k].data, 2 * cases[k].size);
        assert_int_equal(circe_tensor_file_write(context, path, &one, 1, NULL, 0), CIRCE_OK);
        assert_int_equal(io_read(path, NULL, &table), CIRCE_OK);
        assert_true(table.values.rows == 2 && table.values.cols == 1 && table.values.dtype == cases[k].made);
        for (int i = 0; i < 2; i++) {
            double value = table.values.dtype == CIRCE_FLOAT32 ? (double)((float *)table.values.data)[i]
                                                               : ((double *)table.values.data)[i];
            assert_true(value == (i == 0 ? cases[k].first : cases[k].second));
        }
        io_table_free(&table);
    }
}

static void assert_error(const char *part) {
    if (strstr(circe_last_error(), part) == NULL) fail_msg("'%s' does not say '%s'", circe_last_error(), part);
}

static void table_selection(void **state) {
    (void)state;
    const double d[4] = {1, 2, 3, 4};
    circe_tensor tensors[] = {
        tensor("weight", "F64", 1, 4, d, 32),
        tensor("bias", "F64", 2, 2, d, 32),
        tensor("tiny", "F8_E4M3", 1, 1, d, 1),
        {.name = "scalar", .dtype = "F64", .data = d, .bytes = 8},
        tensor("none", "F64", 0, 2, d, 0),
        {.name = "cube", .dtype = "F64", .n_dims = 3, .shape = {1, 2, 2}, .data = d, .bytes = 32},
    };
    const char *path = in_directory("many.safetensors");
    char source[300];
    static const struct {
        const char *selection;
        circe_status status;
        const char *says;
    } cases[] = {
        {":bias", CIRCE_OK, ""},
        {":cube", CIRCE_OK, ""},
        {"", CIRCE_ERR_ARGUMENT, "several tensors"},
        {":wieght", CIRCE_ERR_ARGUMENT, "did you mean 'weight'?"},
        {":tiny", CIRCE_ERR_FORMAT, "dtype F8_E4M3"},
        {":scalar", CIRCE_ERR_FORMAT, "without dimensions"},
        {":none", CIRCE_ERR_VALUE, "empty"},
    };
    assert_int_equal(circe_tensor_file_write(context, path, tensors, 6, NULL, 0), CIRCE_OK);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        io_table table;
        snprintf(source, sizeof source, "%s%s", path, cases[k].selection);
        assert_int_equal(io_read(source, NULL, &table), cases[k].status);
        assert_error(cases[k].says);
        if (cases[k].status == CIRCE_OK) assert_int_equal(table.values.rows * table.values.cols, 4);
        io_table_free(&table);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),      cmocka_unit_test(nothing_in_it),    cmocka_unit_test(headers),
        cmocka_unit_test(entries),         cmocka_unit_test(entries_together), cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(opening),         cmocka_unit_test(writing_refusals), cmocka_unit_test(tables),
        cmocka_unit_test(table_selection),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
