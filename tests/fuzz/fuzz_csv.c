/* .csv from any bytes: all columns, some columns, read in other ways, and the first line of the input as the selection
 * from the rest. */
#include "tests/fuzz/fuzz.h"

static void parse(const char *data, size_t size, const char *columns) {
    io_table table;
    fuzz_check(io_parse_csv_as(data, size, "fuzz.csv", columns, NULL, &table), &table);
}

static void parse_as(const char *data, size_t size) {
    char *names[] = {"a", "1"}, *words[] = {"-", "-999", "x"};
    bool found[2] = {false, false};
    const io_reading readings[] = {
        {.categories = names, .n_categories = 2, .found = found, .missing = words, .n_missing = 3},
        {.all = true, .only_empty = true},
        {.decimal = ','},
    };
    for (size_t k = 0; k < sizeof readings / sizeof readings[0]; k++) {
        io_table table;
        fuzz_check(io_parse_csv_as(data, size, "fuzz.csv", NULL, &readings[k], &table), &table);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data, *line_end = size > 0 ? memchr(text, '\n', size) : NULL;
    parse(text, size, NULL);
    parse(text, size, "1,a");
    parse_as(text, size);
    if (line_end == NULL) return 0;
    char *columns = strndup(text, (size_t)(line_end - text));
    if (columns == NULL) return 0;
    parse(text, size, columns);
    parse(line_end + 1, size - (size_t)(line_end + 1 - text), columns);
    free(columns);
    return 0;
}
