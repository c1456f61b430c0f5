/* The .csv format: numbers, quotes, headers, selected columns, missing cells, categories, every refusal. */
#include "tests/io/io_support.h"

static io_table parse_csv(const char *text, const char *columns) {
    io_table table;
    char *exact = malloc(strlen(text) + (*text == '\0'));
    assert_non_null(exact);
    memcpy(exact, text, strlen(text));
    circe_status status = io_parse_csv_as(exact, strlen(text), "t.csv", columns, NULL, &table);
    free(exact);
    if (status != CIRCE_OK) fail_msg("%s", circe_last_error());
    return table;
}

static void refuse_csv(const char *text, const char *columns, circe_status expected, const char *says) {
    io_table table;
    assert_int_equal(io_parse_csv_as(text, strlen(text), "t.csv", columns, NULL, &table), expected);
    assert_says(says);
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
        "a;b\n1;2.5\n-300;0.5\n",
        "a\tb\n1\t2.5\n-300\t0.5\n",
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
        "1e-999",
        "1e-99999999999",
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

    bool keep[7];
    for (int i = 0; i < 7; i++) keep[i] = !table.missing_rows[i];
    assert_int_equal(io_table_keep_rows(&table, keep), CIRCE_OK);
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

static io_table parse_as(const char *text, const io_reading *reading) {
    io_table table;
    if (io_parse_csv_as(text, strlen(text), "t.csv", NULL, reading, &table) != CIRCE_OK)
        fail_msg("%s", circe_last_error());
    return table;
}

static void csv_categories(void **state) {
    (void)state;
    /* s holds no number, n nothing else; a missing cell has no category. `named` is categories since the caller says
     * so, and a category is the text of its cells. */
    char *names[] = {"named", "absent"};
    bool found[2] = {false, false};
    const io_reading reading = {.categories = names, .n_categories = 2, .found = found};
    io_table table = parse_as("s,named,n\nred,1,1\nblue,01,2\n,1,3\nred,x,4\nRed,,5\n", &reading);
    assert_true(table.categorical[0] && table.categorical[1] && !table.categorical[2]);
    assert_true(found[0] && !found[1]);
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
    assert_true(!table.columns[0].named && table.columns[0].n_categories == 3 && table.columns[0].n_missing == 1);
    assert_true(table.columns[1].named && table.columns[1].n_categories == 3);
    assert_int_equal(table.columns[2].n_categories, 0);
    io_table_free(&table);
}

/* One cell that is no number does not make categories of the others. */
static void csv_mixtures(void **state) {
    (void)state;
    static const char *const cells[] = {"0.7x",
                                        "1d3",
                                        "5%",
                                        "\"1,5\"",
                                        "1_000",
                                        "\xe2\x88\x92"
                                        "3",
                                        "0x1F",
                                        "inf",
                                        "-Inf",
                                        "infinity",
                                        "1e999",
                                        "-",
                                        "abc",
                                        "1.5e"};
    for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) {
        char text[128];
        for (int place = 0; place < 3; place++) { /* first, in the middle, last */
            snprintf(text, sizeof text, "x,y\n%s,1\n%s,2\n%s,3\n", place == 0 ? cells[k] : "1",
                     place == 1 ? cells[k] : "2.5", place == 2 ? cells[k] : "-3e2");
            refuse_csv(text, NULL, CIRCE_ERR_VALUE,
                       "t.csv: column 'x' contains 2 numbers and 1 cell that is not a number");
        }
    }
    refuse_csv(
        "x\n1\n2\n3\nbad\n4\n5\n?\nodd\n6\n-\n7\n8\n.\n", NULL, CIRCE_ERR_VALUE,
        "column 'x' contains 8 numbers and 4 cells that are not numbers: 'bad' (row 3, line 5), 'odd' (row 7, line "
        "9), '-' (row 9, line 11), .... Correct them, or give --na 'bad' --missing drop");
    refuse_csv("x\n1\n2\n\"1,5\"\n", NULL, CIRCE_ERR_VALUE, "--decimal ,");
    refuse_csv("c\nred\nblue\n7\n", NULL, CIRCE_ERR_VALUE,
               "column 'c' contains 2 texts and 1 cell that is a number: '7' (row 2, line 4)");
    refuse_csv("c\nred\nblue\n7\n", NULL, CIRCE_ERR_VALUE, "--na '7' --missing drop if such cells are missing");
    refuse_csv("c\nred\nblue\n7\n", NULL, CIRCE_ERR_VALUE, "--categories 'c'");
    refuse_csv("1,2\n3,x\n", NULL, CIRCE_ERR_VALUE, "column '1' contains 1 number and 1 cell");
    refuse_csv("a,b\n1,2\n3,4\n5,6x\n", "b", CIRCE_ERR_VALUE, "column 'b'");
    io_table table = parse_csv("a,b\n1,2\n3,4\n5,6x\n", "a"); /* what is not selected does not count */
    io_table_free(&table);
}

/* Numbers that are all written in another way are no categories either. */
static void csv_other_numbers(void **state) {
    (void)state;
    refuse_csv("x\n\"1,5\"\n\"2,5\"\n", NULL, CIRCE_ERR_VALUE, "all its 2 cells look like numbers");
    refuse_csv("x\n5%\n6%\n", NULL, CIRCE_ERR_VALUE, "look like numbers: '5%' (row 0, line 2)");
    refuse_csv("x\n0x1\n0x2\n", NULL, CIRCE_ERR_VALUE, "look like numbers");
    refuse_csv("x\n$5\n$1200.50\n", NULL, CIRCE_ERR_VALUE, "look like numbers: '$5' (row 0, line 2)");
    refuse_csv(
        "x\n5 \xe2\x82\xac\n\xc2\xa3"
        "6\n",
        NULL, CIRCE_ERR_VALUE, "look like numbers");
    refuse_csv(
        "x\n1 234\n12\xc2\xa0"
        "345 678\n",
        NULL, CIRCE_ERR_VALUE, "look like numbers");
    io_table table = parse_csv("x\n18-25\n26-35\n", NULL);
    assert_true(table.categorical[0]);
    io_table_free(&table);
    table = parse_csv("x\n123 45\n$\n5 5555\n1 234", NULL); /* postal codes are categories, and so is a mixture */
    assert_true(table.categorical[0]);
    io_table_free(&table);
    table = parse_csv("x\na\n1e+", NULL); /* the last cell ends where the memory does */
    assert_true(table.categorical[0]);
    io_table_free(&table);

    const io_reading comma = {.decimal = ','};
    table = parse_as("x;y\n1,5;2\n-0,25;3e1\n", &comma);
    assert_true(at(&table, 0, 0) == 1.5 && at(&table, 1, 0) == -0.25 && at(&table, 1, 1) == 30);
    io_table_free(&table);
    table = parse_as("\"1,5\",2\n\"0,1\",3\n", &comma);
    assert_true(table.names == NULL && at(&table, 0, 0) == 1.5 && at(&table, 1, 0) == 0.1);
    io_table_free(&table);
    assert_int_equal(io_parse_csv_as("x\n1.5\n2\n", 8, "t.csv", NULL, &comma, &table), CIRCE_ERR_VALUE);
    assert_says("leave out --decimal ,");
}

static void csv_words_for_missing(void **state) {
    (void)state;
    char *words[] = {"-", "-999", "unknown"};
    const io_reading reading = {.missing = words, .n_missing = 3}, empty = {.only_empty = true};
    io_table table = parse_as("x,c\n1,a\n-,b\n-999,Unknown\n-999.0,a\n5,NA\n", &reading);
    assert_true(isnan(at(&table, 1, 0)) && isnan(at(&table, 2, 0)) && isnan(at(&table, 3, 0)) && at(&table, 4, 0) == 5);
    assert_true(isnan(at(&table, 2, 1)) && isnan(at(&table, 4, 1)));
    assert_int_equal(table.n_missing, 4);
    assert_true(table.columns[0].n_missing == 3 && table.columns[1].n_missing == 2);
    io_table_free(&table);
    table = parse_as("c,d\nNA,x\n,y\n?,z\n", &empty);
    assert_true(table.columns[0].n_categories == 2 && table.n_missing == 1);
    io_table_free(&table);
}

static void csv_first_row(void **state) {
    (void)state;
    io_table table = parse_csv("?,2\n3,4\n", NULL); /* a missing cell among numbers is no name */
    assert_true(table.names == NULL && isnan(at(&table, 0, 0)) && table.values.rows == 2);
    io_table_free(&table);
    table = parse_csv("id,2019,2020\n1,2,3\n", NULL);
    assert_string_equal(table.names[1], "2019");
    io_table_free(&table);
    refuse_csv("0.7x,1,2\n3,4,5\n", NULL, CIRCE_ERR_VALUE, "line 1: '0.7x' is not a number, unlike other cells");
    refuse_csv("inf,1,2\n3,4,5\n", NULL, CIRCE_ERR_VALUE, "line 1: 'inf' is not a number");
}

/* Arrays hold numbers only: named columns become categories, numbers for missing NaN. */
static void array_readings(void **state) {
    (void)state;
    double data[] = {3, 0.5, 7, -999, 3, 2.5};
    char *names[] = {"0"}, *words[] = {"-999"};
    const io_reading reading = {.categories = names, .n_categories = 1, .missing = words, .n_missing = 1};
    const char *path = in_directory("reading.npy");
    circe_mat mat = circe_mat_f64(data, 3, 2);
    io_table table;
    assert_int_equal(io_write_npy(path, &mat), CIRCE_OK);
    assert_int_equal(io_read_as(path, NULL, &reading, &table), CIRCE_OK);
    assert_true(table.categorical[0] && !table.categorical[1]);
    assert_string_equal(table.categories[0][1], "7");
    assert_true(at(&table, 0, 0) == 0 && at(&table, 1, 0) == 1 && at(&table, 2, 0) == 0);
    assert_true(isnan(at(&table, 1, 1)) && table.columns[1].n_missing == 1);
    io_table_free(&table);
    names[0] = "1";
    assert_int_equal(io_read_as(path, NULL, &reading, &table), CIRCE_ERR_VALUE);
    assert_says("column '1' is 0.5 in row 0; categories in an array must be whole numbers");
    assert_null(table.values.data);
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
    refuse_csv("a,b\n", NULL, CIRCE_ERR_VALUE, "header but no rows");
    refuse_csv("a,b\n1,2\n3\n", NULL, CIRCE_ERR_FORMAT, "t.csv, line 3: 1 field found, but 2 expected");
    refuse_csv("a,b\n\"1\n\",2\n3,4,5\n", NULL, CIRCE_ERR_FORMAT, "line 4: 3 fields found, but 2 expected");
    refuse_csv("1,2\n3,4,\n", NULL, CIRCE_ERR_FORMAT, "as in the first row");
    refuse_csv("a,b\n1,2\n\n3,4\n", NULL, CIRCE_ERR_FORMAT, "line 3");
    io_table table;
    assert_int_equal(io_parse_csv_as("a\n1\0\n", 5, "t.csv", NULL, NULL, &table), CIRCE_ERR_FORMAT);
    assert_says("line 2: the line contains a NUL byte");
    assert_int_equal(io_parse_csv_as("a\033[2J,b\n1,2\n", 11, "t.csv", "c", NULL, &table), CIRCE_ERR_ARGUMENT);
    assert_says("'a\\u001b[2J'"); /* nothing in a file reaches the terminal as a command */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_plain),
        cmocka_unit_test(csv_numbers),
        cmocka_unit_test(csv_long_number),
        cmocka_unit_test(csv_quotes),
        cmocka_unit_test(csv_header_rule),
        cmocka_unit_test(csv_columns),
        cmocka_unit_test(csv_long_list_of_columns),
        cmocka_unit_test(csv_missing),
        cmocka_unit_test(csv_categories),
        cmocka_unit_test(csv_mixtures),
        cmocka_unit_test(csv_other_numbers),
        cmocka_unit_test(csv_words_for_missing),
        cmocka_unit_test(csv_first_row),
        cmocka_unit_test(array_readings),
        cmocka_unit_test(csv_many_categories),
        cmocka_unit_test(csv_refusals),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
