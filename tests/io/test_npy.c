/* The .npy and .npz formats: every element type, order and form of header, archives, every refusal, on bytes built
 * here; and what is written is read back. */
#include <zip.h>

#include "tests/io/io_support.h"

/* ---- .npy -------------------------------------------------------------------------------------------------------- */

static io_table parse_npy(bytes file) {
    io_table table;
    /* On the heap at its exact size, so that a sanitizer sees a read past the end. */
    unsigned char *exact = malloc(file.n > 0 ? file.n : 1);
    assert_non_null(exact);
    memcpy(exact, file.data, file.n);
    circe_status status = io_parse_npy(exact, file.n, "t.npy", &table);
    free(exact);
    if (status != CIRCE_OK) fail_msg("%s", circe_last_error());
    return table;
}

static void refuse_npy(bytes file, circe_status expected, const char *says) {
    io_table table;
    unsigned char *exact = malloc(file.n > 0 ? file.n : 1);
    assert_non_null(exact);
    memcpy(exact, file.data, file.n);
    assert_int_equal(io_parse_npy(exact, file.n, "t.npy", &table), expected);
    free(exact);
    assert_says("t.npy");
    assert_says(says);
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
    refuse_npy(simple_npy("<f8", "False", "(3, 2)", some, 47), damaged, "48 bytes, and the file contains 47");
    refuse_npy(simple_npy("<f8", "False", "(3, 2)", some, 49), damaged, "the file contains 49");
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
    refuse_npy(npy(4, "{}", some, 0), damaged, "version is 4.0");
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
    io_table table;
    double *values = malloc(sizeof(double) * ROWS * COLS);
    bool *keep = calloc(ROWS, sizeof *keep);
    assert_true(values != NULL && keep != NULL);
    for (int i = 0; i < ROWS * COLS; i++) values[i] = i;
    const char *path = in_directory("large.npy");
    circe_mat mat = circe_mat_f64(values, ROWS, COLS);
    assert_int_equal(io_write_npy(path, &mat), CIRCE_OK);
    assert_int_equal(io_read(path, NULL, &table), CIRCE_OK);
    assert_non_null(table.mapping);
    assert_true((char *)table.values.data > (char *)table.mapping);
    assert_memory_equal(table.values.data, values, sizeof(double) * ROWS * COLS);

    /* The mapping survives the replacement of its file. */
    mat.rows = 1;
    assert_int_equal(io_write_npy(path, &mat), CIRCE_OK);
    assert_true(at(&table, ROWS - 1, 2) == ROWS * COLS - 1);

    keep[1] = keep[ROWS - 1] = true;
    assert_int_equal(io_table_keep_rows(&table, keep), CIRCE_OK);
    assert_null(table.mapping);
    assert_int_equal(table.values.rows, 2);
    assert_true(at(&table, 0, 0) == 3.0 && at(&table, 1, 2) == ROWS * COLS - 1);
    keep[0] = keep[1] = false;
    assert_int_equal(io_table_keep_rows(&table, keep), CIRCE_ERR_VALUE);
    assert_says("no row is left of its 2");
    io_table_free(&table);
    free(values);
    free(keep);
}

static void npy_round_trip(void **state) {
    (void)state;
    io_table table;
    float values[6] = {1.5f, -2.0f, NAN, INFINITY, 1e-40f, 3.0f};
    circe_mat mat = circe_mat_f32(values, 3, 2);
    const char *path = in_directory("round.npy");
    assert_int_equal(io_write_npy(path, &mat), CIRCE_OK);
    assert_int_equal(io_read(path, NULL, &table), CIRCE_OK);
    assert_int_equal(table.values.dtype, CIRCE_FLOAT32);
    assert_memory_equal(table.values.data, values, sizeof values);
    assert_string_equal(table.source, path);
    io_table_free(&table);

    /* A view with a gap between its rows. */
    mat.cols = 1;
    mat.ld = 2;
    assert_int_equal(io_write_npy(path, &mat), CIRCE_OK);
    assert_int_equal(io_read(path, NULL, &table), CIRCE_OK);
    assert_int_equal(table.values.cols, 1);
    assert_true(at(&table, 0, 0) == 1.5 && at(&table, 2, 0) == (double)1e-40f);
    io_table_free(&table);
}

static void npy_header_is_numpys(void **state) {
    (void)state;
    char data[256];
    double value = 1.0;
    circe_mat mat = circe_mat_f64(&value, 1, 1);
    const char *path = in_directory("header.npy");
    assert_int_equal(io_write_npy(path, &mat), CIRCE_OK);
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
    char source[300];
    for (int deflate = 0; deflate < 2; deflate++) {
        zip_int32_t method = deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE;
        assert_int_equal(io_read(make_npz("one.npz", &a, NULL, method), NULL, &table), CIRCE_OK);
        assert_true(at(&table, 1, 1) == 4.0);
        io_table_free(&table);

        const char *path = make_npz("two.npz", &a, &b, method);
        static const char *const selections[] = {"beta", "beta.npy"};
        for (int k = 0; k < 2; k++) {
            snprintf(source, sizeof source, "%s:%s", path, selections[k]);
            assert_int_equal(io_read(source, NULL, &table), CIRCE_OK);
            assert_true(at(&table, 0, 1) == 7.0);
            assert_string_equal(table.source, source);
            io_table_free(&table);
        }
        assert_int_equal(io_read(path, NULL, &table), CIRCE_ERR_ARGUMENT);
        assert_says("'alpha', 'beta'");
        snprintf(source, sizeof source, "%s:betta", path);
        assert_int_equal(io_read(source, NULL, &table), CIRCE_ERR_ARGUMENT);
        assert_says("no array 'betta'");
        assert_says("did you mean 'beta'");
    }
}

static void npz_refusals(void **state) {
    (void)state;
    const double numbers[4] = {1, 2, 3, 4};
    bytes a = simple_npy("<f8", "False", "(2, 2)", numbers, sizeof numbers), cut = a, huge;
    io_table table;
    cut.n -= 8;
    assert_int_equal(io_read(make_npz("cut.npz", &cut, NULL, ZIP_CM_DEFLATE), NULL, &table), CIRCE_ERR_FORMAT);
    assert_says("alpha.npy");
    assert_says("32 bytes, and the file contains 24");
    huge = simple_npy("<f8", "False", "(1000000000, 1000)", numbers, sizeof numbers);
    assert_int_equal(io_read(make_npz("huge.npz", &huge, NULL, ZIP_CM_DEFLATE), NULL, &table), CIRCE_ERR_FORMAT);
    assert_says("(1000000000, 1000)");
    assert_int_equal(io_read(make_npz("none.npz", NULL, NULL, ZIP_CM_STORE), NULL, &table), CIRCE_ERR_FORMAT);
    assert_says("no array");
    assert_int_equal(io_parse_npz("PK no archive", 13, "t.npz", NULL, &table), CIRCE_ERR_FORMAT);
    assert_says("t.npz");
    assert_int_equal(io_parse_npz("", 0, "t.npz", NULL, &table), CIRCE_ERR_FORMAT);
}

/* Every prefix of an archive, and every flip of a byte of its stored data, is refused or gives the array. */
static void npz_damage(void **state) {
    (void)state;
    const double numbers[4] = {1, 2, 3, 4};
    bytes a = simple_npy("<f8", "False", "(2, 2)", numbers, sizeof numbers);
    char data[2048];
    size_t n = get_file(make_npz("damage.npz", &a, NULL, ZIP_CM_STORE), data, sizeof data);
    io_table table;
    for (size_t cut = 0; cut < n; cut++) assert_true(io_parse_npz(data, cut, "t.npz", NULL, &table) != CIRCE_OK);
    int n_accepted = 0;
    for (size_t i = 0; i < n; i++) {
        data[i] = (char)(data[i] ^ 0x55);
        if (io_parse_npz(data, n, "t.npz", NULL, &table) == CIRCE_OK) {
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
    for (size_t i = 0; i + 46 < n; i++) {
        if (memcmp(data + i, "PK\1\2", 4) == 0) memcpy(data + i + 24, "\xfe\xff\xff\x7f", 4);
        if (memcmp(data + i, "PK\3\4", 4) == 0) memcpy(data + i + 22, "\xfe\xff\xff\x7f", 4);
    }
    assert_int_equal(io_parse_npz(data, n, "t.npz", NULL, &table), CIRCE_ERR_FORMAT);
    assert_says("impossible");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_element_types), cmocka_unit_test(npy_orders_and_shapes),
        cmocka_unit_test(npy_header_forms),  cmocka_unit_test(npy_refusals),
        cmocka_unit_test(npy_cut_anywhere),  cmocka_unit_test(npy_large_is_mapped),
        cmocka_unit_test(npy_round_trip),    cmocka_unit_test(npy_header_is_numpys),
        cmocka_unit_test(npz_members),       cmocka_unit_test(npz_refusals),
        cmocka_unit_test(npz_damage),        cmocka_unit_test(npz_bomb),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
