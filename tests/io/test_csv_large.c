/* Large delimited text: windows and stretches that are read side by side give what one reader from top to bottom gives,
 * wherever quotes, line ends and categories fall; numbers are the nearest doubles; a file that shrinks is an error. */
#include "io/csv.h"
#include "io/io_parts.h"
#include "tests/io/io_support.h"

#include <fcntl.h>
#include <unistd.h>

/* ---- text that is made row by row, with its truth ---------------------------------------------------------------- */

static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * 2685821657736338717u;
}

typedef struct made {
    char *text;
    size_t length, capacity;
    int64_t rows;
} made;

__attribute__((format(printf, 2, 3))) static void add(made *m, const char *format, ...) {
    va_list arguments;
    if (m->length + 512 > m->capacity) {
        m->capacity = 2 * m->capacity + 4096;
        m->text = realloc(m->text, m->capacity);
        assert_non_null(m->text);
    }
    va_start(arguments, format);
    m->length += (size_t)vsnprintf(m->text + m->length, 512, format, arguments);
    va_end(arguments);
}

/* Row i holds i, a category that depends on i, and i / 8; a note, which is not read, may hold anything quoted. */
static const char *const words[] = {"red", "green", "a \"b\" c", "two\nlines", "x,y", "7"};
static const char *const written[] = {"red", "\"green\"", "\"a \"\"b\"\" c\"", "\"two\nlines\"", "\"x,y\"", "7"};
static const char *const notes[] = {"plain", "\"q,\"\"\n\r\n\"", "stray\"quote", " \"blank\" ", ""};

static size_t word_of(int64_t i) { return (size_t)((i / 1000) % 6 == 5 ? 5 : (uint64_t)i * 7919 % 5); }

static made make_rows(int64_t rows, const char *line_end, bool quotes) {
    made m = {.rows = rows};
    add(&m, "i,kind,eighth,note%s", line_end);
    for (int64_t i = 0; i < rows; i++)
        add(&m, "%lld,%s,%.17g,%s%s", (long long)i, quotes ? written[word_of(i)] : "red", (double)i / 8,
            quotes ? notes[draw() % 5] : "plain", line_end);
    return m;
}

static void check_rows(const io_table *table, int64_t rows, bool quotes) {
    assert_int_equal(table->values.rows, rows);
    assert_int_equal(table->values.cols, 3);
    for (int64_t i = 0; i < rows; i++) {
        size_t code = (size_t)at(table, i, 1);
        const char *word = table->categories[1][code];
        if (at(table, i, 0) != (double)i || at(table, i, 2) != (double)i / 8 ||
            strcmp(word, quotes ? words[word_of(i)] : "red") != 0)
            fail_msg("row %lld is %g, %s, %g", (long long)i, at(table, i, 0), word, at(table, i, 2));
    }
}

static void large_rows(void **state) {
    (void)state;
    static const char *const line_ends[] = {"\n", "\r\n", "\r"};
    static const int threads[] = {1, 2, 5};
    for (int k = 0; k < 3; k++) {
        for (int quotes = 0; quotes < 2; quotes++) {
            made m = make_rows(150000, line_ends[k], quotes);
            put_file(in_directory("large.csv"), m.text, m.length);
            for (int t = 0; t < 3; t++) {
                io_table table;
                char *names[] = {"kind"};
                io_reading reading = {.categories = names, .n_categories = 1};
                io_use_threads(threads[t]);
                assert_int_equal(io_parse_csv_as(m.text, m.length, "t.csv", "i,kind,eighth", &reading, &table),
                                 CIRCE_OK);
                check_rows(&table, m.rows, quotes);
                io_table_free(&table);
                assert_int_equal(io_read_as(in_directory("large.csv"), "i,kind,eighth", &reading, &table), CIRCE_OK);
                check_rows(&table, m.rows, quotes);
                /* In order of first appearance, as one reader from top to bottom numbers them. */
                if (quotes) assert_string_equal(table.categories[1][0], words[word_of(0)]);
                if (quotes) assert_string_equal(table.categories[1][5], "7");
                io_table_free(&table);
            }
            free(m.text);
        }
    }
    io_use_threads(0);
}

/* ---- what depends on all that came before ------------------------------------------------------------------------ */

/* Places are told as counted from the top of the file, however far down they are. */
static void large_places(void **state) {
    (void)state;
    io_table table;
    made m = {0};
    add(&m, "a,b\n");
    for (int i = 0; i < 600000; i++) add(&m, "%d,\"w%d\n\"\n", i, i); /* two lines each */
    size_t whole = m.length;
    add(&m, "7,?\n8,x\n");
    io_use_threads(3);
    assert_int_equal(io_parse_csv_as(m.text, m.length, "t.csv", NULL, NULL, &table), CIRCE_OK);
    assert_int_equal(table.n_missing, 1);
    assert_string_equal(table.first_missing, "row 600000 (line 1200002), column 'b'");
    io_table_free(&table);
    m.length = whole;
    add(&m, "1,b\n1,2,3\n1,2\n");
    assert_int_equal(io_parse_csv_as(m.text, m.length, "t.csv", NULL, NULL, &table), CIRCE_ERR_FORMAT);
    assert_says("line 1200003: 3 fields found, but 2 expected");
    m.length = whole;
    add(&m, "1,\"open\n1,2\n");
    assert_int_equal(io_parse_csv_as(m.text, m.length, "t.csv", NULL, NULL, &table), CIRCE_ERR_FORMAT);
    assert_says("line 1200002: a quoted field begins and does not end");
    m.length = whole;
    add(&m, "1,2");
    m.text[m.length++] = '\0';
    assert_int_equal(io_parse_csv_as(m.text, m.length, "t.csv", NULL, NULL, &table), CIRCE_ERR_FORMAT);
    assert_says("line 1200002: the line contains a NUL byte");
    io_use_threads(0);
    free(m.text);
}

/* One cell at the very end that is no number: the column is refused, with its place, unless it is named as categories.
 */
static void large_mixture(void **state) {
    (void)state;
    io_table table;
    made m = {0};
    add(&m, "a,b\n");
    for (int i = 0; i < 500000; i++) add(&m, "%d,%s\n", i % 1000, i % 2 == 0 ? "1.50" : "NA");
    add(&m, "0.7x,9\n");
    io_use_threads(4);
    assert_int_equal(io_parse_csv_as(m.text, m.length, "t.csv", NULL, NULL, &table), CIRCE_ERR_VALUE);
    assert_says("column 'a' contains 500000 numbers and 1 cell that is not a number: '0.7x' (row 500000, line 500002)");
    char *names[] = {"a"};
    io_reading reading = {.categories = names, .n_categories = 1};
    assert_int_equal(io_parse_csv_as(m.text, m.length, "t.csv", NULL, &reading, &table), CIRCE_OK);
    assert_int_equal(table.values.rows, 500001);
    assert_true(table.categorical[0] && !table.categorical[1]);
    assert_string_equal(table.categories[0][999], "999");
    assert_string_equal(table.categories[0][1000], "0.7x");
    for (int i = 0; i < 500000; i++) assert_true(at(&table, i, 0) == i % 1000);
    assert_true(at(&table, 500000, 0) == 1000 && at(&table, 500000, 1) == 9 && at(&table, 499998, 1) == 1.5);
    assert_int_equal(table.n_missing, 250000);
    assert_int_equal(table.columns[1].n_missing, 250000);
    io_table_free(&table);
    /* Numbers that stand for missing, and a decimal comma, take the slower way to the same end. */
    char *missing[] = {"999"};
    io_reading other = {.categories = names, .n_categories = 0, .missing = missing, .n_missing = 1};
    assert_int_equal(io_parse_csv_as(m.text, m.length - 7, "t.csv", "a", &other, &table), CIRCE_OK);
    assert_int_equal(table.n_missing, 500);
    io_use_threads(0);
    io_table_free(&table);
    free(m.text);
}

/* One row longer than any window. */
static void large_field(void **state) {
    (void)state;
    io_table table;
    size_t length = 9u << 20;
    char *text = malloc(length + 32);
    assert_non_null(text);
    size_t at_end = (size_t)sprintf(text, "a,b\n1,\"");
    memset(text + at_end, '\n', length);
    at_end += length;
    at_end += (size_t)sprintf(text + at_end, "\"\n2,z\n");
    put_file(in_directory("field.csv"), text, at_end);
    assert_int_equal(io_read(in_directory("field.csv"), NULL, &table), CIRCE_OK);
    assert_int_equal(table.values.rows, 2);
    assert_int_equal(strlen(table.categories[1][0]), length);
    assert_true(at(&table, 1, 0) == 2 && at(&table, 1, 1) == 1);
    io_table_free(&table);
    free(text);
}

static void large_cut_short(void **state) {
    (void)state;
    io_table table;
    made m = make_rows(100000, "\n", false);
    put_file(in_directory("short.csv"), m.text, m.length);
    int descriptor = open(in_directory("short.csv"), O_RDONLY);
    assert_true(descriptor >= 0);
    /* As many bytes as it had a moment ago. */
    circe_status status = io__read_delimited(descriptor, m.length + 100000, ',', "short.csv", NULL, NULL, &table);
    assert_int_equal(status, CIRCE_ERR_IO);
    assert_says("cut short while it was read");
    assert_null(table.values.data);
    close(descriptor);
    free(m.text);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void random_number(char *text, size_t size) {
    uint64_t bits = draw();
    double value;
    memcpy(&value, &bits, sizeof value);
    switch (draw() % 6) {
        case 0: /* any double, as it is written to be read again */
            snprintf(text, size, "%.17g", isfinite(value) ? value : 0.25);
            break;
        case 1:
            snprintf(text, size, "%.17g", (double)(int64_t)bits / 9.3e18 * (draw() % 3 == 0 ? 1e-5 : 1.0));
            break;
        case 2: /* up to 25 digits, any power */
            snprintf(text, size, "%llu.%llue%d", (unsigned long long)(draw() % 100000),
                     (unsigned long long)(bits >> draw() % 64), (int)(draw() % 140) - 70);
            break;
        case 3:
            snprintf(text, size, "%.18e", (double)(int64_t)bits * 1e-18);
            break;
        case 4: { /* halfway between two doubles, in full or nearly */
            uint64_t near = bits >> 12 | (1013 + draw() % 70) << 52;
            memcpy(&value, &near, sizeof value);
            long double half = ((long double)value + (long double)nextafter(value, INFINITY)) / 2;
            snprintf(text, size, draw() % 2 == 0 ? "%.25Lg" : "%.19Lg", half);
            break;
        }
        default:
            snprintf(text, size, "%lld.%0*llu", (long long)(draw() % 2000) - 1000, (int)(draw() % 12) + 1,
                     (unsigned long long)(draw() % 1000));
    }
}

/* To the last bit what strtod gives, and not left undecided where it matters. */
static void decimal_against_strtod(void **state) {
    (void)state;
    char text[128];
    int undecided = 0, n = 3000000;
    for (int i = 0; i < n; i++) {
        random_number(text, sizeof text);
        double expected = strtod(text, NULL), found = 0;
        const char *end = text + strlen(text), *stop = io__decimal(text, end, &found);
        undecided += stop == NULL;
        if (stop != NULL && (stop != end || memcmp(&found, &expected, sizeof found) != 0))
            fail_msg("%s is %.17g, not %.17g", text, expected, found);
    }
    assert_true(undecided < n / 3); /* powers beyond the table, and more than 19 digits */
    assert_true(undecided > 0);
}

static void decimal_ends(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int length; /* of the number; -1: none */
    } cases[] = {{"1,2", 1},  {"-1.5e3\n", 6}, {".5", 2},       {"5.", 2},  {"", -1},
                 {"-", -1},   {".", -1},       {"e5", -1},      {"1e", -1}, {"1e+", -1},
                 {"abc", -1}, {"0x1", 1},      {"1e99999", -1}, {"+7x", 2}, {"-0.0", 4}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        double value;
        const char *text = cases[k].text, *stop = io__decimal(text, text + strlen(text), &value);
        if ((stop == NULL ? -1 : (int)(stop - text)) != cases[k].length) fail_msg("'%s'", text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_rows),   cmocka_unit_test(large_places),    cmocka_unit_test(large_mixture),
        cmocka_unit_test(large_field),  cmocka_unit_test(large_cut_short), cmocka_unit_test(decimal_against_strtod),
        cmocka_unit_test(decimal_ends),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
