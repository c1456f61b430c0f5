/* Tables in memory: read as a file of the same cells is read, as columns of x, y and z, and by their names. */
#include "base/file.h"
#include "io/column_table.h"
#include "io/inputs.h"
#include "io/memory_table.h"
#include "tests/support.h"

enum { ROWS = 5 };
static const double ages[2 * ROWS] = {30, -1, 41, -2, 999, -3, 28, -4, 33, -5}; /* every second is of another */
static const char *const sexes[ROWS] = {"f", "m", NULL, "f", "m"};
static const char *const heights[ROWS] = {"1.7", "1.8", "1.65", "NA", "1.9"};
static const double codes[ROWS] = {2, 1, 2, 3, 1};

static circe_table *make_table(void) {
    circe_table *table = NULL;
    assert_ok(circe_table_create(ROWS, &table));
    assert_ok(circe_table_add_numbers(table, "age", ages, 2));
    assert_ok(circe_table_add_texts(table, "sex", sexes));
    assert_ok(circe_table_add_texts(table, "height", heights));
    assert_ok(circe_table_add_numbers(table, "region, code", codes, 1));
    assert_int_equal(circe_table_rows(table), ROWS);
    return table;
}

static double cell(const circe_mat *m, int64_t i, int64_t j) { return ((const double *)m->data)[i * m->ld + j]; }

/* Every cell, category and count of two tables is the same. */
static void assert_same(const io_table *a, const io_table *b) {
    assert_int_equal(a->values.rows, b->values.rows);
    assert_int_equal(a->values.cols, b->values.cols);
    for (int64_t j = 0; j < a->values.cols; j++) {
        assert_string_equal(a->names[j], b->names[j]);
        assert_int_equal(a->categorical[j], b->categorical[j]);
        assert_int_equal(a->columns[j].n_missing, b->columns[j].n_missing);
        assert_int_equal(a->columns[j].n_categories, b->columns[j].n_categories);
        assert_int_equal(a->columns[j].named, b->columns[j].named);
        for (int64_t c = 0; c < a->columns[j].n_categories; c++)
            assert_string_equal(a->categories[j][c], b->categories[j][c]);
        for (int64_t i = 0; i < a->values.rows; i++) {
            double x = cell(&a->values, i, j), y = cell(&b->values, i, j);
            assert_true(x == y || (isnan(x) && isnan(y)));
        }
    }
    assert_int_equal(a->n_missing, b->n_missing);
}

static void like_a_file(void **state) {
    (void)state;
    static const char text[] =
        "age,sex,height,\"region, code\"\n30,f,1.7,2\n41,m,1.8,1\n999,,1.65,2\n28,f,NA,3\n33,m,1.9,1\n";
    const reading_options options = {.categories = "\"region, code\"", .na = "999"};
    circe_table *table = make_table();
    name_list all = {0};
    reading how;
    column_table file = {0}, memory = {0};
    assert_ok(file_write_text(test_path("people.csv"), text, sizeof text - 1));
    assert_ok(name_list_split("columns", "age,sex,height,\"region, code\"", &all));
    assert_ok(reading_open(&options, &how));
    assert_ok(column_table_read(NULL, test_path("people.csv"), &all, &how, false, &file));
    assert_ok(column_table_read(table, NULL, &all, &how, false, &memory));
    assert_same(&file.in.table, &memory.in.table);
    assert_string_equal(memory.in.table.first_missing, "row 2, column 'age'");
    assert_int_equal(memory.in.table.n_missing, 2);
    input *group[] = {&memory.in};
    int64_t dropped = 0;
    assert_ok(inputs_check_categories(&options, group, 1));
    assert_refused(inputs_check(&options, group, 1, 2, &dropped), CIRCE_ERR_VALUE, "row 2, column 'age' is missing");
    assert_ok(inputs_check(&(reading_options){.missing = "drop"}, group, 1, 2, &dropped));
    assert_int_equal(dropped, 2);
    assert_int_equal(memory.in.values.rows, 3);
    column_table_free(&file);
    column_table_free(&memory);
    reading_free(&how);
    name_list_free(&all);
    circe_table_free(table);
}

static void as_variables(void **state) {
    (void)state;
    circe_table *table = make_table();
    input y = {0}, z = {0};
    input_options options = {
        .table = table,
        .of = {[VARIABLE_Y] = {"region, code", NULL, NULL}, [VARIABLE_Z] = {"sex,age", NULL, NULL}},
        .reading = {.categories = "z:age,\"region, code\""}};
    assert_ok(input_read(&options, VARIABLE_Y, false, &y)); /* as it stands, though it has a comma */
    assert_ok(input_read(&options, VARIABLE_Z, false, &z));
    assert_int_equal(y.values.cols, 1);
    assert_int_equal(input_n_categories(&y, 0), 3);
    assert_int_equal(input_n_categories(&z, 0), 2);
    assert_int_equal(input_n_categories(&z, 1), 5);
    input *group[] = {&y, &z};
    assert_ok(inputs_check_categories(&options.reading, group, 2));
    input_free(&y);
    input_free(&z);
    options.reading.categories = "agee,sex";
    assert_ok(input_read(&options, VARIABLE_Y, false, &y));
    assert_ok(input_read(&options, VARIABLE_Z, false, &z));
    assert_refused(inputs_check_categories(&options.reading, group, 2), CIRCE_ERR_ARGUMENT, "did you mean 'age'?");
    input_free(&y);
    options.of[VARIABLE_Y].columns = "0";
    assert_refused(input_read(&options, VARIABLE_Y, false, &y), CIRCE_ERR_ARGUMENT, "leave out --columns-y");
    options.of[VARIABLE_Y].columns = NULL;
    options.of[VARIABLE_Y].source = "hight";
    assert_refused(input_read(&options, VARIABLE_Y, false, &y), CIRCE_ERR_ARGUMENT, "did you mean 'height'?");
    options.of[VARIABLE_Y].source = "4";
    assert_refused(input_read(&options, VARIABLE_Y, false, &y), CIRCE_ERR_ARGUMENT, "no column '4'");
    input_free(&z);
    circe_table_free(table);
}

/* A column may say itself that it is categories, whether it is used or not. */
static void categories_by_themselves(void **state) {
    (void)state;
    static const char *const grades[ROWS] = {"1", "2", NULL, "2", "1"};
    circe_table *table = make_table();
    assert_ok(circe_table_add_categories(table, "grade", grades));
    for (int used = 0; used < 2; used++) {
        input x = {0};
        input_options options = {.table = table, .of = {[VARIABLE_X] = {used ? "grade" : "age", NULL, NULL}}};
        assert_ok(input_read(&options, VARIABLE_X, false, &x));
        input *group[] = {&x};
        assert_ok(inputs_check_categories(&options.reading, group, 1));
        assert_int_equal(input_n_categories(&x, 0), used ? 2 : 0);
        input_free(&x);
    }
    circe_table_free(table);
}

/* 0 and 1 that stand for False and True stay numbers; only their names are others. */
static void booleans(void **state) {
    (void)state;
    static const double truths[ROWS] = {0, 1, NAN, 1, 0}, numbers[ROWS] = {0, 1, 2, 1, 0};
    circe_table *table = make_table();
    column_table read;
    name_list wanted = {0};
    reading how = {0};
    uint64_t before = memory_table_hash(table);
    assert_ok(circe_table_add_booleans(table, "member", truths, 1));
    assert_int_not_equal(memory_table_hash(table), before);
    assert_refused(circe_table_add_booleans(table, "two", numbers, 1), CIRCE_ERR_VALUE,
                   "column 'two' is boolean, but row 2 is 2");
    name_list_add(&wanted, "member");
    name_list_add(&wanted, "age");
    assert_ok(column_table_read(table, NULL, &wanted, &how, false, &read));
    assert_true(column_is_boolean(&read, 0));
    assert_false(column_is_boolean(&read, 1));
    assert_null(column_categories(&read, 0));
    assert_true(column_value(&read, 1, 0) == 1.0);
    column_table_free(&read);
    name_list_free(&wanted);
    circe_table_free(table);
}

static void refusals(void **state) {
    (void)state;
    static const char *const mixed[ROWS] = {"1", "2", "three", "4", "5"};
    circe_table *table = NULL;
    assert_refused(circe_table_create(0, &table), CIRCE_ERR_ARGUMENT, "at least one row");
    assert_null(table);
    table = make_table();
    assert_refused(circe_table_add_numbers(table, "age", ages, 1), CIRCE_ERR_ARGUMENT, "already has a column 'age'");
    assert_refused(circe_table_add_numbers(table, "", ages, 1), CIRCE_ERR_ARGUMENT, "needs a name");
    assert_ok(circe_table_add_texts(table, "mixed", mixed));
    input_options options = {.table = table, .of = {[VARIABLE_X] = {"mixed", NULL, NULL}}};
    input x = {0};
    assert_refused(input_read(&options, VARIABLE_X, false, &x), CIRCE_ERR_VALUE, "'three' (row 2)");
    circe_table_free(table);
    circe_table_free(NULL);
}

TEST_MAIN("memory_table", TEST(like_a_file), TEST(as_variables), TEST(categories_by_themselves), TEST(booleans),
          TEST(refusals))
