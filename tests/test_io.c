/* Reading and writing files of numbers: every format, every refusal, on bytes built here. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <cmocka.h>

#include "circe/circe.h"
#include "io.h"

/* ---- a directory for the files of this run ----------------------------------------------------------------------- */

static char directory[64];

static int make_directory(void **state) {
    (void)state;
    strcpy(directory, "/tmp/circe-io-XXXXXX");
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* A path in the directory; four may be in use at a time. */
static const char *in_directory(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void put_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static size_t get_file(const char *path, char *data, size_t capacity) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(data, 1, capacity, file);
    fclose(file);
    return bytes;
}

static int count_files(void) {
    char command[128];
    int n = -1;
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", directory);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &n), 1);
    pclose(pipe);
    return n;
}

static double at(const io_table *table, int64_t i, int64_t j) {
    const circe_mat *m = &table->values;
    assert_true(i < m->rows && j < m->cols);
    return m->dtype == CIRCE_FLOAT32 ? (double)((const float *)m->data)[i * m->ld + j]
                                     : ((const double *)m->data)[i * m->ld + j];
}

static void assert_says(const io_error *error, const char *part) {
    if (strstr(error->text, part) == NULL) fail_msg("'%s' does not say '%s'", error->text, part);
}

/* ---- .npy -------------------------------------------------------------------------------------------------------- */

typedef struct bytes {
    unsigned char data[2048];
    size_t n;
} bytes;

static bytes npy(int version, const char *header, const void *data, size_t n) {
    bytes made = {.n = 0};
    size_t length = strlen(header), length_bytes = version == 1 ? 2 : 4;
    memcpy(made.data, "\x93NUMPY", 6);
    made.data[6] = (unsigned char)version;
    for (size_t i = 0; i < length_bytes; i++) made.data[8 + i] = (unsigned char)(length >> (8 * i));
    memcpy(made.data + 8 + length_bytes, header, length);
    made.n = 8 + length_bytes + length;
    if (n > 0) memcpy(made.data + made.n, data, n);
    made.n += n;
    return made;
}

static bytes simple_npy(const char *descr, const char *order, const char *shape, const void *data, size_t n) {
    char header[256];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }   \n", descr, order, shape);
    return npy(1, header, data, n);
}

static io_table parse_npy(bytes file) {
    io_table table;
    io_error error = {""};
    /* On the heap at its exact size, so that a sanitizer sees a read past the end. */
    unsigned char *exact = malloc(file.n > 0 ? file.n : 1);
    assert_non_null(exact);
    memcpy(exact, file.data, file.n);
    circe_status status = io_parse_npy(exact, file.n, "t.npy", &table, &error);
    free(exact);
    if (status != CIRCE_OK) fail_msg("%s", error.text);
    return table;
}

static void refuse_npy(bytes file, circe_status expected, const char *says) {
    io_table table;
    io_error error = {""};
    unsigned char *exact = malloc(file.n > 0 ? file.n : 1);
    assert_non_null(exact);
    memcpy(exact, file.data, file.n);
    assert_int_equal(io_parse_npy(exact, file.n, "t.npy", &table, &error), expected);
    free(exact);
    assert_says(&error, "t.npy");
    assert_says(&error, says);
    assert_null(table.values.data);
}

static void npy_element_types(void **state) {
    (void)state;
    static const struct {
        const char *descr;
        size_t size;
        unsigned char data[16]; /* two elements */
        double first, second;
        circe_dtype dtype;
    } cases[] = {
        {"<f2", 2, {0x00, 0x3e, 0x01, 0x80}, 1.5, -0x1p-24, CIRCE_FLOAT32},
        {">f2", 2, {0x7c, 0x00, 0x03, 0xff}, INFINITY, 1023 * 0x1p-24, CIRCE_FLOAT32},
        {"<f4", 4, {0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0}, 1.5, -2.0, CIRCE_FLOAT32},
        {">f4", 4, {0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0}, 1.5, -2.0, CIRCE_FLOAT32},
        {"<f8", 8, {0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0}, 1.5, -2.0, CIRCE_FLOAT64},
        {">f8", 8, {0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0}, 1.5, -2.0, CIRCE_FLOAT64},
        {"|i1", 1, {0xff, 0x7f}, -1, 127, CIRCE_FLOAT64},
        {"<i2", 2, {0xfe, 0xff, 0x01, 0x01}, -2, 257, CIRCE_FLOAT64},
        {">i2", 2, {0xff, 0xfe, 0x01, 0x02}, -2, 258, CIRCE_FLOAT64},
        {"<i4", 4, {0xfd, 0xff, 0xff, 0xff, 1, 0, 0, 1}, -3, 16777217, CIRCE_FLOAT64},
        {">i4", 4, {0xff, 0xff, 0xff, 0xfd, 1, 0, 0, 1}, -3, 16777217, CIRCE_FLOAT64},
        {"<i8", 8, {0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1}, -4, 4294967296, CIRCE_FLOAT64},
        {">i8", 8, {0, 0, 0, 0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 5, -1, CIRCE_FLOAT64},
        {"|u1", 1, {0xff, 0x01}, 255, 1, CIRCE_FLOAT64},
        {"<u2", 2, {0xff, 0xff, 0x01, 0x00}, 65535, 1, CIRCE_FLOAT64},
        {"<u4", 4, {0xff, 0xff, 0xff, 0xff, 1}, 4294967295.0, 1, CIRCE_FLOAT64},
        {"<u8", 8, {0, 0, 0, 0, 0, 0, 0, 0x80, 1}, 0x1p63, 1, CIRCE_FLOAT64},
        {"|b1", 1, {0, 1}, 0, 1, CIRCE_FLOAT64},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        io_table table = parse_npy(simple_npy(cases[k].descr, "False", "(2,)", cases[k].data, 2 * cases[k].size));
        assert_int_equal(table.values.rows, 2);
        assert_int_equal(table.values.cols, 1);
        assert_int_equal(table.values.dtype, cases[k].dtype);
        assert_true(at(&table, 0, 0) == cases[k].first);
        assert_true(at(&table, 1, 0) == cases[k].second);
        assert_string_equal(table.source, "t.npy");
        assert_null(table.names);
        io_table_free(&table);
    }
}

static void npy_orders_and_shapes(void **state) {
    (void)state;
    const unsigned char six[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    io_table table = parse_npy(simple_npy("|u1", "False", "(2, 3)", six, 6));
    assert_true(at(&table, 1, 0) == 3.0);
    io_table_free(&table);

    table = parse_npy(simple_npy("|u1", "True", "(2, 3)", six, 6));
    assert_true(at(&table, 1, 0) == 1.0 && at(&table, 0, 1) == 2.0);
    io_table_free(&table);

    table = parse_npy(simple_npy("|u1", "False", "(2, 3, 2)", six, 12));
    assert_int_equal(table.values.cols, 6);
    assert_true(at(&table, 1, 5) == 11.0);
    io_table_free(&table);

    /* Element (i, j, k) of column-major (2, 3, 2) is number i + 2j + 6k and stands in column 2j + k. */
    table = parse_npy(simple_npy("|u1", "True", "(2, 3, 2)", six, 12));
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 2; k++) assert_true(at(&table, i, 2 * j + k) == i + 2 * j + 6 * k);
    io_table_free(&table);
}

static void npy_header_forms(void **state) {
    (void)state;
    const unsigned char two[2] = {7, 9};
    static const char *const headers[] = {
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}",
        "{'shape': (2L,), 'descr': '|u1', 'fortran_order': False,}",
        "  { \"fortran_order\" :True ,\n'shape':( 2 , ) , 'descr':\"u1\" }  \n",
    };
    for (size_t k = 0; k < sizeof headers / sizeof headers[0]; k++)
        for (int version = 1; version <= 3; version++) {
            io_table table = parse_npy(npy(version, headers[k], two, 2));
            assert_true(at(&table, 1, 0) == 9.0);
            io_table_free(&table);
        }
}

static void npy_refusals(void **state) {
    (void)state;
    const unsigned char some[64] = {0};
    const circe_status damaged = CIRCE_ERR_FORMAT;
    refuse_npy(simple_npy("<f8", "False", "(0, 3)", some, 0), CIRCE_ERR_VALUE, "empty");
    refuse_npy(simple_npy("<f8", "False", "(3, 0)", some, 0), CIRCE_ERR_VALUE, "(3, 0)");
    refuse_npy(simple_npy("<f8", "False", "()", some, 8), damaged, "without dimensions");
    refuse_npy(simple_npy("<f8", "False", "(3, 2)", some, 47), damaged, "48 bytes, and the file holds 47");
    refuse_npy(simple_npy("<f8", "False", "(3, 2)", some, 49), damaged, "the file holds 49");
    refuse_npy(simple_npy("<f8", "False", "(-3, 2)", some, 48), damaged, "negative");
    refuse_npy(simple_npy("<f8", "False", "(4611686018427387904, 16)", some, 48), damaged, "impossible shape");
    refuse_npy(simple_npy("<f8", "False", "(2305843009213693952,)", some, 48), damaged, "impossible shape");
    refuse_npy(simple_npy("<f8", "False", "(99999999999999999999,)", some, 48), damaged, "2^63");
    refuse_npy(simple_npy("<f8", "False", "(1000000, 3)", some, 48), damaged, "(1000000, 3)");
    refuse_npy(simple_npy("<f8", "False", "(2)", some, 16), damaged, "tuple");
    refuse_npy(simple_npy("<f8", "False", "2", some, 16), damaged, "tuple");
    refuse_npy(simple_npy("<f8", "False", "(2 2)", some, 32), damaged, "comma");
    refuse_npy(simple_npy("<f8", "False", "(2.0,)", some, 16), damaged, "comma");
    refuse_npy(simple_npy("<f8", "Maybe", "(2,)", some, 16), damaged, "True or False");
    refuse_npy(simple_npy("|O", "False", "(2,)", some, 16), damaged, "Python objects");
    refuse_npy(simple_npy("<c16", "False", "(2,)", some, 32), damaged, "complex");
    refuse_npy(simple_npy("<U3", "False", "(2,)", some, 24), damaged, "text");
    refuse_npy(simple_npy("<M8[ns]", "False", "(2,)", some, 16), damaged, "dates");
    refuse_npy(simple_npy("<f16", "False", "(2,)", some, 32), damaged, "<f16");
    refuse_npy(npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", some, 8), damaged,
               "structured");
    refuse_npy(npy(1, "{'descr': '<f8', 'shape': (2,)}", some, 16), damaged, "missing");
    refuse_npy(npy(1, "{'descr': '<f8', 'descr': '<f8'}", some, 16), damaged, "twice");
    refuse_npy(npy(1, "{'descr': '<f8', 'other': 1}", some, 16), damaged, "keys");
    refuse_npy(npy(1, "{'descr': '<f8' 'shape': (2,)}", some, 16), damaged, "comma");
    refuse_npy(npy(1, "{'descr': 'a\\x41'}", some, 16), damaged, "escape");
    refuse_npy(npy(1, "{'descr", some, 0), damaged, "does not end");
    refuse_npy(npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)} x", some, 16), damaged, "follows");
    refuse_npy(npy(1, "", some, 0), damaged, "'{'");
    refuse_npy(npy(4, "{}", some, 0), damaged, "version 4.0");
}

static void npy_cut_anywhere(void **state) {
    (void)state;
    const double values[4] = {1, 2, 3, 4};
    bytes whole = simple_npy("<f8", "False", "(2, 2)", values, sizeof values), part = whole;
    for (part.n = 0; part.n < whole.n; part.n++) refuse_npy(part, CIRCE_ERR_FORMAT, "t.npy");
    whole.data[8] = whole.data[9] = 0xff; /* a header longer than the file */
    refuse_npy(whole, CIRCE_ERR_FORMAT, "header");
}

static void npy_large_is_mapped(void **state) {
    (void)state;
    enum { ROWS = 60000, COLS = 3 };
    io_error error = {""};
    io_table table;
    double *values = malloc(sizeof(double) * ROWS * COLS);
    bool *keep = calloc(ROWS, sizeof *keep);
    assert_true(values != NULL && keep != NULL);
    for (int i = 0; i < ROWS * COLS; i++) values[i] = i;
    const char *path = in_directory("large.npy");
    circe_mat mat = circe_mat_f64(values, ROWS, COLS);
    assert_int_equal(io_write_npy(path, &mat, &error), CIRCE_OK);
    assert_int_equal(io_read(path, NULL, &table, &error), CIRCE_OK);
    assert_non_null(table.mapping);
    assert_true((char *)table.values.data > (char *)table.mapping);
    assert_memory_equal(table.values.data, values, sizeof(double) * ROWS * COLS);

    /* The mapping survives the replacement of its file. */
    mat.rows = 1;
    assert_int_equal(io_write_npy(path, &mat, &error), CIRCE_OK);
    assert_true(at(&table, ROWS - 1, 2) == ROWS * COLS - 1);

    keep[1] = keep[ROWS - 1] = true;
    assert_int_equal(io_table_keep_rows(&table, keep, &error), CIRCE_OK);
    assert_null(table.mapping);
    assert_int_equal(table.values.rows, 2);
    assert_true(at(&table, 0, 0) == 3.0 && at(&table, 1, 2) == ROWS * COLS - 1);
    keep[0] = keep[1] = false;
    assert_int_equal(io_table_keep_rows(&table, keep, &error), CIRCE_ERR_VALUE);
    assert_says(&error, "none of its 2 rows");
    io_table_free(&table);
    free(values);
    free(keep);
}

static void npy_round_trip(void **state) {
    (void)state;
    io_error error = {""};
    io_table table;
    float values[6] = {1.5f, -2.0f, NAN, INFINITY, 1e-40f, 3.0f};
    circe_mat mat = circe_mat_f32(values, 3, 2);
    const char *path = in_directory("round.npy");
    assert_int_equal(io_write_npy(path, &mat, &error), CIRCE_OK);
    assert_int_equal(io_read(path, NULL, &table, &error), CIRCE_OK);
    assert_int_equal(table.values.dtype, CIRCE_FLOAT32);
    assert_memory_equal(table.values.data, values, sizeof values);
    assert_string_equal(table.source, path);
    io_table_free(&table);

    /* A view with a gap between its rows. */
    mat.cols = 1;
    mat.ld = 2;
    assert_int_equal(io_write_npy(path, &mat, &error), CIRCE_OK);
    assert_int_equal(io_read(path, NULL, &table, &error), CIRCE_OK);
    assert_int_equal(table.values.cols, 1);
    assert_true(at(&table, 0, 0) == 1.5 && at(&table, 2, 0) == (double)1e-40f);
    io_table_free(&table);
}

static void npy_header_is_numpys(void **state) {
    (void)state;
    io_error error = {""};
    char data[256];
    double value = 1.0;
    circe_mat mat = circe_mat_f64(&value, 1, 1);
    const char *path = in_directory("header.npy");
    assert_int_equal(io_write_npy(path, &mat, &error), CIRCE_OK);
    assert_int_equal(get_file(path, data, sizeof data), 136);
    assert_memory_equal(data, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }",
                        69);
    assert_int_equal(data[127], '\n');
}

/* ---- .npz -------------------------------------------------------------------------------------------------------- */

static void add_member(zip_t *archive, const char *name, const bytes *member, zip_int32_t method) {
    zip_source_t *source = zip_source_buffer(archive, member->data, member->n, 0);
    zip_int64_t index = zip_file_add(archive, name, source, 0);
    assert_true(index >= 0);
    assert_int_equal(zip_set_file_compression(archive, (zip_uint64_t)index, method, 0), 0);
}

/* An archive of one or two arrays, and a note that is none. */
static const char *make_npz(const char *file, const bytes *a, const bytes *b, zip_int32_t method) {
    const bytes note = {.data = "hello", .n = 5};
    const char *path = in_directory(file);
    zip_t *archive = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);
    assert_non_null(archive);
    add_member(archive, "note.txt", &note, ZIP_CM_STORE);
    if (a != NULL) add_member(archive, "alpha.npy", a, method);
    if (b != NULL) add_member(archive, "beta.npy", b, method);
    assert_int_equal(zip_close(archive), 0);
    return path;
}

static void npz_members(void **state) {
    (void)state;
    const double numbers[4] = {1, 2, 3, 4};
    const unsigned char small[4] = {5, 6, 7, 8};
    bytes a = simple_npy("<f8", "False", "(2, 2)", numbers, sizeof numbers);
    bytes b = simple_npy("|u1", "True", "(2, 2)", small, sizeof small);
    io_table table;
    io_error error = {""};
    char source[300];
    for (int deflate = 0; deflate < 2; deflate++) {
        zip_int32_t method = deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE;
        assert_int_equal(io_read(make_npz("one.npz", &a, NULL, method), NULL, &table, &error), CIRCE_OK);
        assert_true(at(&table, 1, 1) == 4.0);
        io_table_free(&table);

        const char *path = make_npz("two.npz", &a, &b, method);
        static const char *const selections[] = {"beta", "beta.npy"};
        for (int k = 0; k < 2; k++) {
            snprintf(source, sizeof source, "%s:%s", path, selections[k]);
            assert_int_equal(io_read(source, NULL, &table, &error), CIRCE_OK);
            assert_true(at(&table, 0, 1) == 7.0);
            assert_string_equal(table.source, source);
            io_table_free(&table);
        }
        assert_int_equal(io_read(path, NULL, &table, &error), CIRCE_ERR_ARGUMENT);
        assert_says(&error, "'alpha', 'beta'");
        snprintf(source, sizeof source, "%s:betta", path);
        assert_int_equal(io_read(source, NULL, &table, &error), CIRCE_ERR_ARGUMENT);
        assert_says(&error, "no array 'betta'");
        assert_says(&error, "did you mean 'beta'");
    }
}

static void npz_refusals(void **state) {
    (void)state;
    const double numbers[4] = {1, 2, 3, 4};
    bytes a = simple_npy("<f8", "False", "(2, 2)", numbers, sizeof numbers), cut = a, huge;
    io_table table;
    io_error error = {""};
    cut.n -= 8;
    assert_int_equal(io_read(make_npz("cut.npz", &cut, NULL, ZIP_CM_DEFLATE), NULL, &table, &error), CIRCE_ERR_FORMAT);
    assert_says(&error, "alpha.npy");
    assert_says(&error, "32 bytes, and the file holds 24");
    huge = simple_npy("<f8", "False", "(1000000000, 1000)", numbers, sizeof numbers);
    assert_int_equal(io_read(make_npz("huge.npz", &huge, NULL, ZIP_CM_DEFLATE), NULL, &table, &error),
                     CIRCE_ERR_FORMAT);
    assert_says(&error, "(1000000000, 1000)");
    assert_int_equal(io_read(make_npz("none.npz", NULL, NULL, ZIP_CM_STORE), NULL, &table, &error), CIRCE_ERR_FORMAT);
    assert_says(&error, "no array");
    assert_int_equal(io_parse_npz("PK no archive", 13, "t.npz", NULL, &table, &error), CIRCE_ERR_FORMAT);
    assert_says(&error, "t.npz");
    assert_int_equal(io_parse_npz("", 0, "t.npz", NULL, &table, &error), CIRCE_ERR_FORMAT);
}

/* Every prefix of an archive, and every flip of a byte of its stored data, is refused or gives the array. */
static void npz_damage(void **state) {
    (void)state;
    const double numbers[4] = {1, 2, 3, 4};
    bytes a = simple_npy("<f8", "False", "(2, 2)", numbers, sizeof numbers);
    char data[2048];
    size_t n = get_file(make_npz("damage.npz", &a, NULL, ZIP_CM_STORE), data, sizeof data);
    io_table table;
    io_error error = {""};
    for (size_t cut = 0; cut < n; cut++)
        assert_true(io_parse_npz(data, cut, "t.npz", NULL, &table, &error) != CIRCE_OK);
    int n_accepted = 0;
    for (size_t i = 0; i < n; i++) {
        data[i] = (char)(data[i] ^ 0x55);
        if (io_parse_npz(data, n, "t.npz", NULL, &table, &error) == CIRCE_OK) {
            assert_memory_equal(table.values.data, numbers, sizeof numbers);
            io_table_free(&table);
            n_accepted++;
        }
        data[i] = (char)(data[i] ^ 0x55);
    }
    assert_true(n_accepted > 0); /* dates, attributes */
}

/* Claims 2^32 - 1 bytes from the few that there are: sizes stand at 24 of the central entry and 22 of the local one. */
static void npz_bomb(void **state) {
    (void)state;
    const double numbers[4] = {1, 2, 3, 4};
    bytes a = simple_npy("<f8", "False", "(2, 2)", numbers, sizeof numbers);
    char data[2048];
    size_t n = get_file(make_npz("bomb.npz", &a, NULL, ZIP_CM_DEFLATE), data, sizeof data);
    io_table table;
    io_error error = {""};
    for (size_t i = 0; i + 46 < n; i++) {
        if (memcmp(data + i, "PK\1\2", 4) == 0) memcpy(data + i + 24, "\xfe\xff\xff\x7f", 4);
        if (memcmp(data + i, "PK\3\4", 4) == 0) memcpy(data + i + 22, "\xfe\xff\xff\x7f", 4);
    }
    assert_int_equal(io_parse_npz(data, n, "t.npz", NULL, &table, &error), CIRCE_ERR_FORMAT);
    assert_says(&error, "impossible");
}

/* ---- .csv -------------------------------------------------------------------------------------------------------- */

static io_table parse_csv(const char *text, const char *columns) {
    io_table table;
    io_error error = {""};
    char *exact = malloc(strlen(text) + (*text == '\0'));
    assert_non_null(exact);
    memcpy(exact, text, strlen(text));
    circe_status status = io_parse_csv(exact, strlen(text), "t.csv", columns, &table, &error);
    free(exact);
    if (status != CIRCE_OK) fail_msg("%s", error.text);
    return table;
}

static void refuse_csv(const char *text, const char *columns, circe_status expected, const char *says) {
    io_table table;
    io_error error = {""};
    assert_int_equal(io_parse_csv(text, strlen(text), "t.csv", columns, &table, &error), expected);
    assert_says(&error, says);
    assert_null(table.values.data);
}

static void csv_plain(void **state) {
    (void)state;
    static const char *const texts[] = {
        "a,b\n1,2.5\n-3e2,.5\n",
        "a,b\r\n1,2.5\r\n-3e2,.5\r\n",
        "a,b\r1,2.5\r-3e2,.5",
        "\xef\xbb\xbf"
        "a,b\n1,2.5\n-300,0.5",
        "\"a\",\"b\"\n\"1\",\"2.5\"\n\"-3e+2\",\"5e-1\"\n\n\n",
        " a , \"b\" \n 1 ,\t2.5 \n -300. , 0.5\n",
    };
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        io_table table = parse_csv(texts[k], NULL);
        assert_int_equal(table.values.rows, 2);
        assert_int_equal(table.values.cols, 2);
        assert_int_equal(table.values.dtype, CIRCE_FLOAT64);
        assert_string_equal(table.names[0], "a");
        assert_string_equal(table.names[1], "b");
        assert_true(at(&table, 0, 0) == 1 && at(&table, 0, 1) == 2.5 && at(&table, 1, 0) == -300);
        assert_true(at(&table, 1, 1) == 0.5);
        assert_false(table.categorical[0]);
        assert_null(table.missing_rows);
        io_table_free(&table);
    }
}

/* Every decimal must come out as the nearest double, which is what strtod gives. */
static void csv_numbers(void **state) {
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "+7",
        "1e5",
        "1E+5",
        "1e-5",
        "123456789012345678",
        "9007199254740993",
        "12345678901234567890123",
        "0.1",
        "0.12345678901234567",
        "3.141592653589793238462643383279",
        "1e22",
        "1e23",
        "1e-22",
        "1e-23",
        "5e-324",
        "2.2250738585072011e-308",
        "1.7976931348623157e308",
        "1e999",
        "1e-999",
        "1e99999999999",
        ".5",
        "5.",
        "0000000000000000000000001",
        "0.00000000000000000000000000000000001",
        "8.5e22",
    };
    char text[2048] = "x\n";
    size_t n = sizeof texts / sizeof texts[0];
    for (size_t k = 0; k < n; k++) strcat(strcat(text, texts[k]), "\n");
    io_table table = parse_csv(text, NULL);
    assert_false(table.categorical[0]);
    for (size_t k = 0; k < n; k++) {
        double value = at(&table, (int64_t)k, 0), expected = strtod(texts[k], NULL);
        if (memcmp(&value, &expected, sizeof value) != 0) fail_msg("%s became %.17g", texts[k], value);
    }
    io_table_free(&table);

    table = parse_csv("x\ninf\n-Infinity\n+INF\n", NULL);
    assert_true(at(&table, 0, 0) == INFINITY && at(&table, 1, 0) == -INFINITY && at(&table, 2, 0) == INFINITY);
    assert_int_equal(table.n_missing, 0);
    io_table_free(&table);

    /* What only C would call a number is text. */
    table = parse_csv("x\n0x10\n1e\n1.2.3\n--1\n.\n+\n1 2\nnan(1)\n", NULL);
    assert_true(table.categorical[0] && at(&table, 7, 0) == 7.0);
    io_table_free(&table);
}

static void csv_long_number(void **state) {
    (void)state;
    char text[700];
    memset(text, '7', sizeof text);
    memcpy(text, "x\n1.", 4);
    text[sizeof text - 1] = '\0';
    io_table table = parse_csv(text, NULL);
    assert_true(at(&table, 0, 0) == strtod(text + 2, NULL));
    io_table_free(&table);
}

static void csv_quotes(void **state) {
    (void)state;
    io_table table = parse_csv(
        "name,\"b \"\"x\"\", y\"\n\"say \"\"hi\"\"\",1\n\"two\nlines, and a comma\",2\n5\" pipe,3\n"
        "\" kept \",4\n dropped ,5\n",
        NULL);
    assert_int_equal(table.values.rows, 5);
    assert_string_equal(table.names[1], "b \"x\", y");
    assert_true(table.categorical[0]);
    assert_string_equal(table.categories[0][0], "say \"hi\"");
    assert_string_equal(table.categories[0][1], "two\nlines, and a comma");
    assert_string_equal(table.categories[0][2], "5\" pipe");
    assert_string_equal(table.categories[0][3], " kept ");
    assert_string_equal(table.categories[0][4], "dropped");
    assert_null(table.categories[0][5]);
    assert_null(table.categories[1]);
    io_table_free(&table);
    refuse_csv("a,b\n1,2\n\"open,3\n4,5\n", NULL, CIRCE_ERR_FORMAT, "line 3");
    refuse_csv("a,b\n\"x\ny\"z,2\n", NULL, CIRCE_ERR_FORMAT, "line 3");
}

static void csv_header_rule(void **state) {
    (void)state;
    io_table table = parse_csv("1,2\n3,4\n", "1");
    assert_null(table.names);
    assert_int_equal(table.values.rows, 2);
    assert_true(at(&table, 0, 0) == 2.0);
    io_table_free(&table);
    table = parse_csv("nan,2\n3,4\n", NULL);
    assert_null(table.names);
    assert_string_equal(table.first_missing, "row 0 (line 1), column 0");
    io_table_free(&table);
    table = parse_csv(",0,1\n0,3,4\n", "0,1"); /* the name 1 wins over the index 1 */
    assert_string_equal(table.names[0], "0");
    assert_true(at(&table, 0, 0) == 3.0 && at(&table, 0, 1) == 4.0);
    io_table_free(&table);
}

static void csv_columns(void **state) {
    (void)state;
    const char *text = "age,income,\"a,b\",2\n1,2,3,4\n5,6,7,8\n";
    static const struct {
        const char *columns;
        double first, second;
    } cases[] = {
        {"income,age", 2, 1}, {"0,income", 1, 2}, {"2,0", 4, 1}, {" age , income ", 1, 2}, {"\"a,b\",3", 3, 4},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        io_table table = parse_csv(text, cases[k].columns);
        assert_int_equal(table.values.cols, 2);
        assert_true(at(&table, 0, 0) == cases[k].first && at(&table, 0, 1) == cases[k].second);
        io_table_free(&table);
    }
    io_table table = parse_csv(text, "a,b");
    assert_true(table.values.cols == 1 && at(&table, 1, 0) == 7.0);
    assert_string_equal(table.names[0], "a,b");
    io_table_free(&table);
    refuse_csv(text, "age,incmoe", CIRCE_ERR_ARGUMENT,
               "no column 'incmoe'; it has 'age', 'income', 'a,b', '2'; did you mean 'income'?");
    refuse_csv(text, "9", CIRCE_ERR_ARGUMENT, "no column '9'");
    refuse_csv(text, "-1", CIRCE_ERR_ARGUMENT, "no column '-1'");
    refuse_csv(text, "", CIRCE_ERR_ARGUMENT, "no column ''");
    refuse_csv(text, "age,age", CIRCE_ERR_ARGUMENT, "twice");
    refuse_csv(text, "age,0", CIRCE_ERR_ARGUMENT, "twice");
    refuse_csv("1,2\n3,4\n", "x", CIRCE_ERR_ARGUMENT, "columns are 0 to 1");
    refuse_csv("a,a\n3,4\n", "a", CIRCE_ERR_ARGUMENT, "2 columns are named 'a'");
}

static void csv_long_list_of_columns(void **state) {
    (void)state;
    char text[8192] = "";
    for (int i = 0; i < 400; i++) sprintf(text + strlen(text), "%scolumn_%d", i ? "," : "", i);
    strcat(text, "\n1\n");
    refuse_csv(text, "columm_399", CIRCE_ERR_ARGUMENT, "(400 in all); did you mean 'column_399'?");
}

static void csv_missing(void **state) {
    (void)state;
    const char *text = "a,b,c\n1,2,x\n3,,y\n?,NA,N/A\nNaN,null,NULL\n4,nan,x\n5,6,-nan\n7,8,z\n";
    io_table table = parse_csv(text, NULL);
    assert_int_equal(table.n_missing, 5);
    static const bool expected[7] = {false, true, true, true, true, true, false};
    for (int i = 0; i < 7; i++) assert_int_equal(table.missing_rows[i], expected[i]);
    assert_string_equal(table.first_missing, "row 1 (line 3), column 'b'");
    assert_true(isnan(at(&table, 1, 1)) && isnan(at(&table, 2, 0)) && isnan(at(&table, 2, 2)));
    assert_false(table.categorical[0] || table.categorical[1]);
    assert_true(table.categorical[2] && at(&table, 6, 2) == 2.0);

    io_error error = {""};
    bool keep[7];
    for (int i = 0; i < 7; i++) keep[i] = !table.missing_rows[i];
    assert_int_equal(io_table_keep_rows(&table, keep, &error), CIRCE_OK);
    assert_int_equal(table.values.rows, 2);
    assert_true(at(&table, 1, 0) == 7.0);
    assert_true(table.n_missing == 0 && table.missing_rows == NULL && table.first_missing == NULL);
    io_table_free(&table);

    /* Cells of columns that were not selected do not count. */
    table = parse_csv(text, "a");
    assert_int_equal(table.n_missing, 2);
    assert_string_equal(table.first_missing, "row 2 (line 4), column 'a'");
    io_table_free(&table);

    /* A blank line is a missing cell where there is one column, so that rows keep their numbers. */
    table = parse_csv("a\n1\n\n3\n\n", NULL);
    assert_int_equal(table.values.rows, 3);
    assert_string_equal(table.first_missing, "row 1 (line 3), column 'a'");
    io_table_free(&table);
}

static void csv_categories(void **state) {
    (void)state;
    /* s is text at once, late only after numbers, n never; a missing cell has no category. */
    io_table table = parse_csv("s,late,n\nred,1,1\nblue,01,2\n,1,3\nred,x,4\nRed,,5\n", NULL);
    assert_true(table.categorical[0] && table.categorical[1] && !table.categorical[2]);
    assert_true(at(&table, 0, 0) == 0 && at(&table, 1, 0) == 1 && isnan(at(&table, 2, 0)) && at(&table, 3, 0) == 0);
    assert_true(at(&table, 4, 0) == 2);
    assert_string_equal(table.categories[1][0], "1");
    assert_string_equal(table.categories[1][1], "01");
    assert_string_equal(table.categories[1][2], "x");
    assert_null(table.categories[1][3]);
    assert_true(at(&table, 0, 1) == 0 && at(&table, 1, 1) == 1 && at(&table, 2, 1) == 0 && at(&table, 3, 1) == 2);
    assert_true(isnan(at(&table, 4, 1)));
    assert_int_equal(table.n_missing, 2);
    for (int i = 0; i < 5; i++) assert_true(at(&table, i, 2) == i + 1);
    io_table_free(&table);
}

static void csv_many_categories(void **state) {
    (void)state;
    enum { N = 5000 };
    char *text = malloc(N * 16), *end = text;
    assert_non_null(text);
    end += sprintf(end, "k\n");
    for (int i = 0; i < N; i++) end += sprintf(end, "key%d\n", i % (N / 2));
    io_table table = parse_csv(text, NULL);
    for (int i = 0; i < N; i++) assert_true(at(&table, i, 0) == i % (N / 2));
    assert_string_equal(table.categories[0][N / 2 - 1], "key2499");
    assert_null(table.categories[0][N / 2]);
    io_table_free(&table);
    free(text);
}

static void csv_refusals(void **state) {
    (void)state;
    refuse_csv("", NULL, CIRCE_ERR_VALUE, "empty");
    refuse_csv("\xef\xbb\xbf\n\n", NULL, CIRCE_ERR_VALUE, "empty");
    refuse_csv("a,b\n", NULL, CIRCE_ERR_VALUE, "header and no rows");
    refuse_csv("a,b\n1,2\n3\n", NULL, CIRCE_ERR_FORMAT, "t.csv, line 3: 1 field found and 2 expected");
    refuse_csv("a,b\n\"1\n\",2\n3,4,5\n", NULL, CIRCE_ERR_FORMAT, "line 4: 3 fields found and 2 expected");
    refuse_csv("1,2\n3,4,\n", NULL, CIRCE_ERR_FORMAT, "as in the first row");
    refuse_csv("a,b\n1,2\n\n3,4\n", NULL, CIRCE_ERR_FORMAT, "line 3");
    io_table table;
    io_error error = {""};
    assert_int_equal(io_parse_csv("a\n1\0\n", 5, "t.csv", NULL, &table, &error), CIRCE_ERR_FORMAT);
    assert_says(&error, "line 2: there is a NUL byte");
    assert_int_equal(io_parse_csv("a\033[2J,b\n1,2\n", 11, "t.csv", "c", &table, &error), CIRCE_ERR_ARGUMENT);
    assert_says(&error, "'a?[2J'"); /* nothing in a file reaches the terminal as a command */
}

/* ---- io_read ----------------------------------------------------------------------------------------------------- */

static void read_picks_the_reader(void **state) {
    (void)state;
    const double numbers[2] = {1, 2};
    bytes array = simple_npy("<f8", "False", "(2,)", numbers, sizeof numbers);
    io_table table;
    io_error error = {""};
    put_file(in_directory("array.dat"), array.data, array.n);
    assert_int_equal(io_read(in_directory("array.dat"), NULL, &table, &error), CIRCE_OK);
    io_table_free(&table);
    put_file(in_directory("UPPER.NPY"), array.data, array.n);
    assert_int_equal(io_read(in_directory("UPPER.NPY"), NULL, &table, &error), CIRCE_OK);
    io_table_free(&table);
    put_file(in_directory("t.tsv"), "a\tb c\n1\t2\n", 10);
    assert_int_equal(io_read(in_directory("t.tsv:b c"), NULL, &table, &error), CIRCE_OK);
    assert_true(at(&table, 0, 0) == 2.0);
    io_table_free(&table);
    put_file(in_directory("notes.txt"), "a,b\n1,2\n", 8);
    assert_int_equal(io_read(in_directory("notes.txt"), NULL, &table, &error), CIRCE_ERR_FORMAT);
    assert_says(&error, ".npy, .npz, .csv, .tsv and .safetensors");
    put_file(in_directory("false.npy"), "a,b\n1,2\n", 8);
    assert_int_equal(io_read(in_directory("false.npy"), NULL, &table, &error), CIRCE_ERR_FORMAT);
    put_file(in_directory("nothing.npy"), "", 0);
    assert_int_equal(io_read(in_directory("nothing.npy"), NULL, &table, &error), CIRCE_ERR_FORMAT);
    put_file(in_directory("nothing.csv"), "", 0);
    assert_int_equal(io_read(in_directory("nothing.csv"), NULL, &table, &error), CIRCE_ERR_VALUE);
    assert_int_equal(io_read(in_directory("UPPER.NPY:x"), NULL, &table, &error), CIRCE_ERR_ARGUMENT);
    assert_says(&error, "one array");
    assert_int_equal(io_read(in_directory("UPPER.NPY"), "x", &table, &error), CIRCE_ERR_ARGUMENT);
    assert_says(&error, ".csv");
}

static void read_splits_the_source(void **state) {
    (void)state;
    io_table table;
    io_error error = {""};
    put_file(in_directory("s.csv"), "a,b,c:d\n1,2,3\n", 14);
    put_file(in_directory("s.csv:a"), "x", 1);
    put_file(in_directory("t:b.csv"), "b\n5\n", 4);
    assert_int_equal(io_read(in_directory("s.csv:b"), NULL, &table, &error), CIRCE_OK);
    assert_true(table.values.cols == 1 && at(&table, 0, 0) == 2.0);
    io_table_free(&table);
    assert_int_equal(io_read(in_directory("s.csv:c:d"), NULL, &table, &error), CIRCE_OK);
    assert_true(at(&table, 0, 0) == 3.0);
    io_table_free(&table);
    assert_int_equal(io_read(in_directory("s.csv:b"), "a", &table, &error), CIRCE_OK);
    assert_true(at(&table, 0, 0) == 1.0);
    io_table_free(&table);
    assert_int_equal(io_read(in_directory("t:b.csv"), NULL, &table, &error), CIRCE_OK); /* a whole path wins */
    assert_true(at(&table, 0, 0) == 5.0);
    io_table_free(&table);
    assert_int_equal(io_read(in_directory("t:b.csv:b"), NULL, &table, &error), CIRCE_OK);
    io_table_free(&table);
    assert_int_equal(io_read(in_directory("s.csv:a"), NULL, &table, &error),
                     CIRCE_ERR_FORMAT); /* the file of that name */
}

static void read_refusals(void **state) {
    (void)state;
    io_table table;
    io_error error = {""};
    assert_int_equal(io_read(in_directory("absent.csv"), NULL, &table, &error), CIRCE_ERR_IO);
    assert_says(&error, "absent.csv: No such file or directory");
    assert_int_equal(io_read(in_directory("absent.csv:a,b"), NULL, &table, &error), CIRCE_ERR_IO);
    assert_says(&error, "absent.csv: No such file or directory");
    assert_int_equal(io_read(directory, NULL, &table, &error), CIRCE_ERR_IO);
    assert_says(&error, "Is a directory");
    assert_int_equal(io_read("", NULL, &table, &error), CIRCE_ERR_IO);
    put_file(in_directory("private.csv"), "a\n1\n", 4);
    assert_int_equal(chmod(in_directory("private.csv"), 0), 0);
    circe_status status = io_read(in_directory("private.csv"), NULL, &table, &error);
    if (geteuid() == 0) { /* root may read everything */
        assert_int_equal(status, CIRCE_OK);
        io_table_free(&table);
    } else {
        assert_int_equal(status, CIRCE_ERR_IO);
        assert_says(&error, "Permission denied");
    }
}

/* A pipe larger than its buffer, written by a child. */
static void read_pipe(void **state) {
    (void)state;
    enum { N = 100000 };
    int ends[2];
    char path[32];
    io_table table;
    io_error error = {""};
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        FILE *out = fdopen(ends[1], "w");
        close(ends[0]);
        fprintf(out, "a,b\n");
        for (int i = 0; i < N; i++) fprintf(out, "%d,%d\n", i, -i);
        fclose(out);
        _exit(0);
    }
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d:b", ends[0]);
    assert_int_equal(io_read(path, NULL, &table, &error), CIRCE_OK);
    close(ends[0]);
    assert_int_equal(table.values.rows, N);
    assert_true(at(&table, N - 1, 0) == -(N - 1));
    io_table_free(&table);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_is_whole_or_not(void **state) {
    (void)state;
    io_error error = {""};
    char data[64], *large = calloc(1, 1 << 16);
    assert_non_null(large);
    const char *path = in_directory("kept.txt");
    assert_int_equal(io_write_text(path, "old", 3, &error), CIRCE_OK);
    assert_int_equal(chmod(path, 0640), 0);
    int n_files = count_files();

    /* A limit on file sizes stands in for a full disk: the write fails in the middle. */
    struct rlimit limit, small = {4096, RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small.rlim_max = limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    circe_status status = io_write_text(path, large, 1 << 16, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(status, CIRCE_ERR_IO);
    assert_says(&error, "kept.txt: cannot be written: File too large");
    assert_int_equal(get_file(path, data, sizeof data), 3);
    assert_int_equal(count_files(), n_files);

    assert_int_equal(io_write_text(path, "newer", 5, &error), CIRCE_OK);
    assert_int_equal(get_file(path, data, sizeof data), 5);
    assert_memory_equal(data, "newer", 5);
    assert_int_equal(count_files(), n_files);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640); /* the mode of the file that was replaced */
    free(large);
}

static void write_keeps_links(void **state) {
    (void)state;
    io_error error = {""};
    struct stat info;
    char data[16];
    assert_int_equal(io_write_text(in_directory("behind.txt"), "1", 1, &error), CIRCE_OK);
    assert_int_equal(symlink("behind.txt", in_directory("link.txt")), 0);
    assert_int_equal(io_write_text(in_directory("link.txt"), "22", 2, &error), CIRCE_OK);
    assert_int_equal(lstat(in_directory("link.txt"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(get_file(in_directory("behind.txt"), data, sizeof data), 2);
}

static void write_refusals(void **state) {
    (void)state;
    io_error error = {""};
    double value = 1.0;
    circe_mat mat = circe_mat_f64(&value, 1, 1);
    assert_int_equal(io_write_npy("/dev/full", &mat, &error), CIRCE_ERR_IO);
    assert_says(&error, "/dev/full: cannot be written: No space left on device");
    assert_int_equal(io_write_text("/dev/full", "x", 1, &error), CIRCE_ERR_IO);
    assert_says(&error, "No space left on device");
    assert_int_equal(io_write_text(in_directory("no/such/dir.txt"), "x", 1, &error), CIRCE_ERR_IO);
    assert_says(&error, "No such file or directory");
    assert_int_equal(io_write_text(directory, "x", 1, &error), CIRCE_ERR_IO);
    assert_says(&error, "Is a directory");
    assert_int_equal(io_write_text("", "x", 1, &error), CIRCE_ERR_IO);
    mat.ld = 0;
    assert_int_equal(io_write_npy(in_directory("x.npy"), &mat, &error), CIRCE_ERR_ARGUMENT);
}

static void write_to_a_pipe(void **state) {
    (void)state;
    int ends[2];
    char path[32], data[256];
    io_error error = {""};
    double value = 1.0;
    circe_mat mat = circe_mat_f64(&value, 1, 1);
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    assert_int_equal(io_write_npy(path, &mat, &error), CIRCE_OK);
    close(ends[1]);
    assert_int_equal(read(ends[0], data, sizeof data), 136);
    close(ends[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_element_types),
        cmocka_unit_test(npy_orders_and_shapes),
        cmocka_unit_test(npy_header_forms),
        cmocka_unit_test(npy_refusals),
        cmocka_unit_test(npy_cut_anywhere),
        cmocka_unit_test(npy_large_is_mapped),
        cmocka_unit_test(npy_round_trip),
        cmocka_unit_test(npy_header_is_numpys),
        cmocka_unit_test(npz_members),
        cmocka_unit_test(npz_refusals),
        cmocka_unit_test(npz_damage),
        cmocka_unit_test(npz_bomb),
        cmocka_unit_test(csv_plain),
        cmocka_unit_test(csv_numbers),
        cmocka_unit_test(csv_long_number),
        cmocka_unit_test(csv_quotes),
        cmocka_unit_test(csv_header_rule),
        cmocka_unit_test(csv_columns),
        cmocka_unit_test(csv_long_list_of_columns),
        cmocka_unit_test(csv_missing),
        cmocka_unit_test(csv_categories),
        cmocka_unit_test(csv_many_categories),
        cmocka_unit_test(csv_refusals),
        cmocka_unit_test(read_picks_the_reader),
        cmocka_unit_test(read_splits_the_source),
        cmocka_unit_test(read_refusals),
        cmocka_unit_test(read_pipe),
        cmocka_unit_test(write_is_whole_or_not),
        cmocka_unit_test(write_keeps_links),
        cmocka_unit_test(write_refusals),
        cmocka_unit_test(write_to_a_pipe),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
