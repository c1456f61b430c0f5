/* .csv from any bytes: all columns, some columns, and the first line of the input as the selection from the rest. */
#include "fuzz.h"

static void parse(const char *data, size_t size, const char *columns) {
    io_table table;
    io_error error = {""};
    fuzz_check(io_parse_csv(data, size, "fuzz.csv", columns, &table, &error), &table, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data, *line_end = size > 0 ? memchr(text, '\n', size) : NULL;
    parse(text, size, NULL);
    parse(text, size, "1,a");
    if (line_end == NULL) return 0;
    char *columns = strndup(text, (size_t)(line_end - text));
    if (columns == NULL) return 0;
    parse(text, size, columns);
    parse(line_end + 1, size - (size_t)(line_end + 1 - text), columns);
    free(columns);
    return 0;
}
