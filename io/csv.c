/* Delimited text (.csv, .tsv) to a table.
 *
 * The first row is a header unless every field of it is a number. What a column is, columns.c decides. Rows are read
 * once, and no cell is allocated for itself. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

typedef struct column {
    size_t field; /* its place in the file */
    io__column cells;
} column;

typedef struct reader {
    io__scanner scanner;
    const io_reading *reading;
    const char *first_row; /* of data */
    int64_t first_line;
    io__texts header; /* names, or the numbers of the first row where there is no header */
    bool has_names;
    size_t *column_of; /* for each field its column, or NOT_SELECTED */
    column *columns;
    size_t n_columns;
    double *values;
    bool *missing;
    size_t rows, value_capacity, missing_capacity;
    int64_t n_missing;
    char first_missing[256];
} reader;

static const size_t NOT_SELECTED = SIZE_MAX;

static circe_status fail(reader *r, circe_status status, const char *problem) {
    return io__fail(r->scanner.error, status, "%s: %s", r->scanner.name, problem);
}

static circe_status no_memory(reader *r) { return io__no_memory(r->scanner.error, r->scanner.name); }

/* ---- header and selection ----------------------------------------------------------------------------------- */

/* NUL bytes would cut texts short, and mean UTF-16 or no text at all. */
static circe_status begin(reader *r, const char *data, size_t bytes) {
    const char *zero = bytes > 0 ? memchr(data, '\0', bytes) : NULL;
    if (zero != NULL) {
        int64_t line = 1;
        for (const char *at = data; at < zero; at++) line += *at == '\n';
        return io__fail(r->scanner.error, CIRCE_ERR_FORMAT,
                        "%s, line %lld: there is a NUL byte; the file is no text, or not in UTF-8", r->scanner.name,
                        (long long)line);
    }
    if (bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) data += 3, bytes -= 3;
    /* Line ends at the end of the file are no rows. */
    while (bytes > 0 && (data[bytes - 1] == '\n' || data[bytes - 1] == '\r')) bytes--;
    if (bytes == 0) return fail(r, CIRCE_ERR_VALUE, "the file is empty");
    r->scanner.at = data;
    r->scanner.end = data + bytes;
    r->scanner.line = 1;
    return CIRCE_OK;
}

/* What the fields of the first row are. */
typedef struct first_row {
    size_t numbers; /* NaN among them */
    size_t missing; /* words for it, not the empty field: it is the header of an index */
    size_t broken;  /* begin like numbers and are none */
    size_t names;
    char text[64]; /* the first broken one */
} first_row;

static bool begins_like_number(const io__field *field) {
    size_t at = 0;
    while (at < field->length && at < 2 && strchr("+-.", field->text[at]) != NULL) at++;
    return at < field->length && field->text[at] >= '0' && field->text[at] <= '9';
}

static void classify(const reader *r, const io__field *field, first_row *found) {
    char point = r->reading->decimal;
    double value;
    if (io__number(field->text, field->length, point, &value) || io__is_nan(field->text, field->length)) {
        found->numbers++;
    } else if (field->length > 0 && io__is_missing(r->reading, field->text, field->length)) {
        found->missing++;
    } else if (begins_like_number(field) || io__looks_like_number(field->text, field->length, point) != IO__WORD) {
        if (found->broken++ == 0) snprintf(found->text, sizeof found->text, "%.*s", (int)field->length, field->text);
    } else {
        found->names++;
    }
}

/* A row of numbers, in which some may be missing, is data; with a name in it, it is a header. Where it is neither,
 * there is no telling which was meant. */
static circe_status judge_first_row(reader *r, const first_row *found) {
    r->has_names = found->names > 0 || found->numbers == 0;
    if (r->has_names || found->broken == 0) return CIRCE_OK;
    return io__fail(
        r->scanner.error, CIRCE_ERR_VALUE,
        "%s, line 1: '%s' is neither a number nor a name beside the numbers in its row; correct it, or give "
        "the columns a header",
        r->scanner.name, found->text);
}

static circe_status read_header(reader *r) {
    io__field field = {0};
    first_row found = {0};
    r->first_row = r->scanner.at;
    r->first_line = 1;
    while (!field.last) {
        circe_status status = io__next_field(&r->scanner, &field);
        if (status != CIRCE_OK) return status;
        classify(r, &field, &found);
        if (!io__texts_add(&r->header, field.text, field.length)) return no_memory(r);
    }
    circe_status status = judge_first_row(r, &found);
    if (status != CIRCE_OK || !r->has_names) return status;
    r->first_row = r->scanner.at;
    r->first_line = r->scanner.line;
    if (r->scanner.at == r->scanner.end) return fail(r, CIRCE_ERR_VALUE, "it has a header and no rows");
    return CIRCE_OK;
}

static circe_status add_column(reader *r, size_t field) {
    if (r->column_of[field] != NOT_SELECTED)
        return io__fail(r->scanner.error, CIRCE_ERR_ARGUMENT, "%s: column %zu%s%.100s%s is selected twice",
                        r->scanner.name, field, r->has_names ? " ('" : "",
                        r->has_names ? io__texts_get(&r->header, field) : "", r->has_names ? "')" : "");
    const char *name = r->has_names ? io__texts_get(&r->header, field) : NULL;
    r->columns[r->n_columns].field = field;
    r->columns[r->n_columns].cells.named = io__is_named(r->reading, name, field);
    r->column_of[field] = r->n_columns++;
    return CIRCE_OK;
}

static circe_status unknown_column(reader *r, const char *wanted) {
    io__choices choices;
    if (!r->has_names)
        return io__fail(r->scanner.error, CIRCE_ERR_ARGUMENT,
                        "%s: there is no column '%s'; the file has no header: its columns are 0 to %zu",
                        r->scanner.name, wanted, r->header.count - 1);
    io__choices_init(&choices, wanted);
    for (size_t f = 0; f < r->header.count; f++) io__choices_add(&choices, io__texts_get(&r->header, f));
    return io__fail(r->scanner.error, CIRCE_ERR_ARGUMENT, "%s: there is no column '%.100s'; it has %s", r->scanner.name,
                    wanted, io__choices_text(&choices));
}

/* How many columns have this name; `field` is the first of them. */
static size_t count_named(const reader *r, const char *wanted, size_t *field) {
    size_t n = 0;
    if (!r->has_names) return 0;
    for (size_t f = r->header.count; f-- > 0;) {
        if (strcmp(io__texts_get(&r->header, f), wanted) != 0) continue;
        *field = f;
        n++;
    }
    return n;
}

static bool is_index(const reader *r, const char *wanted, size_t *field) {
    size_t length = strlen(wanted);
    if (length == 0 || length > 9 || strspn(wanted, "0123456789") != length) return false;
    *field = (size_t)strtoul(wanted, NULL, 10);
    return *field < r->header.count;
}

static circe_status select_one(reader *r, const char *wanted) {
    size_t field = 0, n_named = count_named(r, wanted, &field);
    if (n_named > 1)
        return io__fail(r->scanner.error, CIRCE_ERR_ARGUMENT,
                        "%s: %zu columns are named '%.100s'; select by index, counted from 0 (the first is %zu)",
                        r->scanner.name, n_named, wanted, field);
    if (n_named == 0 && !is_index(r, wanted, &field)) return unknown_column(r, wanted);
    return add_column(r, field);
}

/* The selection is itself one row of delimited text: a name with a comma can be quoted. A name that matches as it
 * stands needs no quotes. */
static circe_status select_columns(reader *r, const char *columns) {
    size_t field;
    if (count_named(r, columns, &field) == 1) return add_column(r, field);
    io__scanner list = {.at = columns,
                        .end = columns + strlen(columns),
                        .delimiter = ',',
                        .line = 1,
                        .name = "the column selection",
                        .error = r->scanner.error};
    io__field item = {0};
    circe_status status = CIRCE_OK;
    while (status == CIRCE_OK && !item.last) {
        status = io__next_field(&list, &item);
        if (status != CIRCE_OK) break;
        char *wanted = strndup(item.text, item.length);
        status = wanted == NULL ? no_memory(r) : select_one(r, wanted);
        free(wanted);
    }
    free(list.scratch);
    return status;
}

static circe_status choose_columns(reader *r, const char *columns) {
    r->column_of = malloc(r->header.count * sizeof *r->column_of);
    r->columns = calloc(r->header.count, sizeof *r->columns);
    if (r->column_of == NULL || r->columns == NULL) return no_memory(r);
    for (size_t f = 0; f < r->header.count; f++) r->column_of[f] = NOT_SELECTED;
    if (columns != NULL) return select_columns(r, columns);
    for (size_t f = 0; f < r->header.count; f++) add_column(r, f);
    return CIRCE_OK;
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

static void note_missing(reader *r, size_t row, size_t c, int64_t line) {
    size_t field = r->columns[c].field;
    if (r->missing[row]) return;
    r->missing[row] = true;
    if (r->n_missing++ > 0) return;
    if (r->has_names)
        snprintf(r->first_missing, sizeof r->first_missing, "row %zu (line %lld), column '%.150s'", row,
                 (long long)line, io__texts_get(&r->header, field));
    else
        snprintf(r->first_missing, sizeof r->first_missing, "row %zu (line %lld), column %zu", row, (long long)line,
                 field);
}

static circe_status store(reader *r, size_t row, size_t c, const io__field *field, int64_t line) {
    double *cell = &r->values[row * r->n_columns + c];
    switch (io__column_take(&r->columns[c].cells, r->reading, field->text, field->length, (int64_t)row, line, cell)) {
        case IO__CELL_READ:
            return CIRCE_OK;
        case IO__CELL_MISSING:
            note_missing(r, row, c, line);
            return CIRCE_OK;
        case IO__CELL_NO_MEMORY:
            break;
    }
    return no_memory(r);
}

static circe_status ragged(reader *r, int64_t line, size_t found) {
    size_t expected = r->header.count;
    return io__fail(r->scanner.error, CIRCE_ERR_FORMAT,
                    "%s, line %lld: %zu field%s found and %zu expected, as in the %s", r->scanner.name, (long long)line,
                    found, found == 1 ? "" : "s", expected, r->has_names ? "header" : "first row");
}

static circe_status read_row(reader *r, size_t row) {
    int64_t line = r->scanner.line;
    io__field field = {0};
    size_t f = 0;
    for (; !field.last; f++) {
        circe_status status = io__next_field(&r->scanner, &field);
        if (status == CIRCE_OK && f < r->header.count && r->column_of[f] != NOT_SELECTED)
            status = store(r, row, r->column_of[f], &field, line);
        if (status != CIRCE_OK) return status;
    }
    return f == r->header.count ? CIRCE_OK : ragged(r, line, f);
}

static bool make_room(reader *r) {
    size_t needed;
    if (__builtin_mul_overflow(r->rows + 1, r->n_columns, &needed)) return false;
    double *values = io__grow(r->values, &r->value_capacity, needed, sizeof *values);
    if (values == NULL) return false;
    r->values = values;
    bool *missing = io__grow(r->missing, &r->missing_capacity, r->rows + 1, sizeof *missing);
    if (missing == NULL) return false;
    r->missing = missing;
    missing[r->rows] = false;
    return true;
}

static circe_status read_rows(reader *r) {
    r->scanner.at = r->first_row;
    r->scanner.line = r->first_line;
    while (r->scanner.at < r->scanner.end) {
        if (!make_room(r)) return no_memory(r);
        circe_status status = read_row(r, r->rows);
        if (status != CIRCE_OK) return status;
        r->rows++;
    }
    return CIRCE_OK;
}

static circe_status judge_columns(reader *r) {
    circe_status status = CIRCE_OK;
    for (size_t c = 0; c < r->n_columns && status == CIRCE_OK; c++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", r->columns[c].field);
        const char *name = r->has_names ? io__texts_get(&r->header, r->columns[c].field) : index;
        status = io__column_judge(&r->columns[c].cells, r->reading, r->scanner.name, name, r->scanner.error);
    }
    return status;
}

/* ---- result ------------------------------------------------------------------------------------------------- */

static bool give_names(const reader *r, io_table *table) {
    io__texts selected = {0};
    bool complete = true;
    if (!r->has_names) return true;
    for (size_t c = 0; complete && c < r->n_columns; c++) {
        const char *name = io__texts_get(&r->header, r->columns[c].field);
        complete = io__texts_add(&selected, name, strlen(name));
    }
    table->names = complete ? io__texts_block(&selected) : NULL;
    io__texts_free(&selected);
    return table->names != NULL;
}

static bool give_categories(const reader *r, io_table *table) {
    table->categorical = calloc(r->n_columns, sizeof *table->categorical);
    table->categories = calloc(r->n_columns, sizeof *table->categories);
    table->columns = calloc(r->n_columns, sizeof *table->columns);
    if (table->categorical == NULL || table->categories == NULL || table->columns == NULL) return false;
    for (size_t c = 0; c < r->n_columns; c++) {
        const io__column *cells = &r->columns[c].cells;
        const io__texts *texts = &cells->categories.texts;
        table->categorical[c] = texts->count > 0;
        table->columns[c] = (io_column){cells->n_missing, (int64_t)texts->count, cells->named};
        if (texts->count > 0 && (table->categories[c] = io__texts_block(texts)) == NULL) return false;
    }
    return true;
}

static circe_status give(reader *r, io_table *table) {
    table->values = circe_mat_f64(r->values, (int64_t)r->rows, (int64_t)r->n_columns);
    r->values = NULL;
    table->n_missing = r->n_missing;
    table->source = strdup(r->scanner.name);
    bool complete = table->source != NULL && give_names(r, table) && give_categories(r, table);
    if (r->n_missing > 0) {
        table->missing_rows = r->missing;
        r->missing = NULL;
        table->first_missing = strdup(r->first_missing);
        complete = complete && table->first_missing != NULL;
    }
    if (complete) return CIRCE_OK;
    io_table_free(table);
    return no_memory(r);
}

static void release(reader *r) {
    for (size_t c = 0; c < r->n_columns; c++) io__dictionary_free(&r->columns[c].cells.categories);
    io__texts_free(&r->header);
    free(r->column_of);
    free(r->columns);
    free(r->values);
    free(r->missing);
    free(r->scanner.scratch);
}

circe_status io__parse_delimited(const char *data, size_t bytes, char delimiter, const char *name, const char *columns,
                                 const io_reading *reading, io_table *table, io_error *error) {
    io_reading how = reading != NULL ? *reading : (io_reading){0};
    if (how.decimal == 0) how.decimal = '.';
    reader r = {.scanner = {.delimiter = delimiter, .name = name, .error = error}, .reading = &how};
    memset(table, 0, sizeof *table);
    circe_status status = begin(&r, data, bytes);
    if (status == CIRCE_OK) status = read_header(&r);
    if (status == CIRCE_OK) status = choose_columns(&r, columns);
    if (status == CIRCE_OK) status = read_rows(&r);
    if (status == CIRCE_OK) status = judge_columns(&r);
    if (status == CIRCE_OK) status = give(&r, table);
    release(&r);
    return status;
}

/* Where the comma is the decimal point, semicolons usually part the fields. A first line with semicolons and no comma
 * has them as well. */
static char delimiter_of(const char *data, size_t bytes, const io_reading *reading) {
    const char *end = bytes > 0 ? memchr(data, '\n', bytes) : NULL;
    size_t line = end != NULL ? (size_t)(end - data) : bytes;
    if (line == 0 || memchr(data, ';', line) == NULL) return ',';
    bool comma = reading != NULL && reading->decimal == ',';
    return comma || memchr(data, ',', line) == NULL ? ';' : ',';
}

circe_status io_parse_csv_as(const char *data, size_t bytes, const char *name, const char *columns,
                             const io_reading *reading, io_table *table, io_error *error) {
    return io__parse_delimited(data, bytes, delimiter_of(data, bytes, reading), name, columns, reading, table, error);
}

circe_status io_parse_csv(const char *data, size_t bytes, const char *name, const char *columns, io_table *table,
                          io_error *error) {
    return io_parse_csv_as(data, bytes, name, columns, NULL, table, error);
}
