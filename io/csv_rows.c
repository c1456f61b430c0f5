/* Rows of delimited text to numbers, one stretch at a time: stretches are read side by side, each into rows of its own,
 * and joined in their order.
 *
 * A column is of numbers until a cell is neither a number nor missing; then it is categorical, and its cells become
 * codes in order of first appearance. A stretch numbers the texts that it meets for itself; joining gives them the
 * numbers that one reader from top to bottom would have given. Where a text comes after numbers, the numbers are texts
 * too: the column is late, and a second pass codes it. No cell is allocated for itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "csv.h"

/* ---- one stretch ---------------------------------------------------------------------------------------------------
 */

static void note_missing(io__rows *rows, size_t row, size_t c, int64_t line) {
    if (rows->missing[row]) return;
    rows->missing[row] = true;
    if (rows->n_missing++ > 0) return;
    rows->first_missing_row = row;
    rows->first_missing_column = c;
    rows->first_missing_line = line;
}

/* A cell that is not plainly a number. false: no memory. */
static bool store(io__rows *rows, size_t row, size_t c, const io__field *field, int64_t line, double *cell) {
    io__column *into = &rows->columns[c];
    *cell = 0.0;
    if (into->kind == IO__SETTLED) return true;
    if (into->kind == IO__NUMERIC && io__number(field->text, field->length, cell)) {
        into->numbers = true;
        return true;
    }
    if (io__is_missing(field->text, field->length)) {
        *cell = (double)NAN;
        note_missing(rows, row, c, line);
        return true;
    }
    if (into->kind == IO__NUMERIC) into->kind = into->numbers ? IO__LATE : IO__CATEGORICAL;
    if (into->kind != IO__CATEGORICAL) return true;
    size_t code;
    if (!io__dictionary_code(&into->categories, field->text, field->length, &code)) return false;
    *cell = (double)code;
    return true;
}

static circe_status ragged(const io__layout *layout, io__scanner *scanner, int64_t line, size_t found) {
    return io__fail(scanner->error, CIRCE_ERR_FORMAT, "%s, line %lld: %zu field%s found and %zu expected, as in the %s",
                    layout->name, (long long)line, found, found == 1 ? "" : "s", layout->n_fields,
                    layout->has_names ? "header" : "first row");
}

static circe_status parse_row(const io__layout *layout, io__scanner *scanner, int64_t first_line, io__rows *rows) {
    double *cells = rows->values + rows->n * layout->n_columns;
    int64_t line = scanner->line;
    io__field field = {0};
    size_t f = 0;
    for (; !field.last; f++) {
        size_t c = f < layout->n_fields ? layout->column_of[f] : IO__NOT_SELECTED;
        bool wanted = c != IO__NOT_SELECTED;
        if (wanted && rows->columns[c].kind == IO__NUMERIC && io__next_number(scanner, &field, &cells[c])) {
            rows->columns[c].numbers = true;
            continue;
        }
        circe_status status = io__next_field(scanner, &field);
        if (status != CIRCE_OK) return status;
        if (wanted && !store(rows, rows->n, c, &field, line - first_line, &cells[c]))
            return io__no_memory(scanner->error, layout->name);
    }
    return f == layout->n_fields ? CIRCE_OK : ragged(layout, scanner, line, f);
}

bool io__rows_reserve(const io__layout *layout, io__rows *rows, size_t n) {
    size_t all, needed;
    if (__builtin_add_overflow(rows->n, n, &all) || __builtin_mul_overflow(all, layout->n_columns, &needed))
        return false;
    double *values = io__grow(rows->values, &rows->value_capacity, needed, sizeof *values);
    if (values == NULL) return false;
    rows->values = values;
    bool *missing = io__grow(rows->missing, &rows->missing_capacity, all, sizeof *missing);
    if (missing == NULL) return false;
    rows->missing = missing;
    return true;
}

/* NUL bytes would cut texts short, and mean UTF-16 or no text at all. */
static circe_status refuse_zero(const io__layout *layout, const char *data, const char *zero, int64_t line,
                                io_error *error) {
    for (const char *at = data; at < zero; at++) line += *at == '\n';
    return io__fail(error, CIRCE_ERR_FORMAT, "%s, line %lld: there is a NUL byte; the file is no text, or not in UTF-8",
                    layout->name, (long long)line);
}

static bool begin(const io__layout *layout, const io__rows *before, io__rows *rows) {
    if (rows->columns == NULL) rows->columns = calloc(layout->n_columns, sizeof *rows->columns);
    if (rows->columns == NULL) return false;
    for (size_t c = 0; c < layout->n_columns; c++) {
        io__dictionary_free(&rows->columns[c].categories);
        rows->columns[c] = (io__column){.kind = before->columns[c].kind, .numbers = before->columns[c].numbers};
    }
    rows->n = 0;
    rows->n_missing = rows->lines = 0;
    return true;
}

circe_status io__rows_parse(const io__layout *layout, const io__rows *before, const char *data, size_t length,
                            int64_t line, io__rows *rows, io_error *error) {
    io__scanner scanner = {.at = data,
                           .end = data + length,
                           .delimiter = layout->delimiter,
                           .line = line,
                           .name = layout->name,
                           .error = error};
    if (!begin(layout, before, rows)) return io__no_memory(error, layout->name);
    const char *zero = length > 0 ? memchr(data, '\0', length) : NULL;
    if (zero != NULL) return refuse_zero(layout, data, zero, line, error);
    circe_status status = CIRCE_OK;
    while (status == CIRCE_OK && scanner.at < scanner.end) {
        if (!io__rows_reserve(layout, rows, 1)) {
            status = io__no_memory(error, layout->name);
            break;
        }
        rows->missing[rows->n] = false;
        status = parse_row(layout, &scanner, line, rows);
        rows->n++;
    }
    rows->lines = scanner.line - line;
    free(scanner.scratch);
    return status;
}

void io__rows_free(const io__layout *layout, io__rows *rows) {
    for (size_t c = 0; rows->columns != NULL && c < layout->n_columns; c++)
        io__dictionary_free(&rows->columns[c].categories);
    free(rows->columns);
    free(rows->values);
    free(rows->missing);
    *rows = (io__rows){0};
}

/* ---- joining -------------------------------------------------------------------------------------------------------
 */

/* What a column is, where `more` follows. Both began as the same kind, but `rows` may have moved on since. */
static io__column_kind join_kinds(const io__column *rows, const io__column *more) {
    if (rows->kind == IO__LATE || more->kind == IO__LATE) return IO__LATE;
    if (rows->kind == more->kind) return rows->kind;
    const io__column *numeric = rows->kind == IO__NUMERIC ? rows : more;
    return numeric->numbers ? IO__LATE : IO__CATEGORICAL;
}

/* Codes of `more` become those of the same texts in `rows`. false: no memory. */
static bool recode(const io__layout *layout, size_t c, io__rows *rows, io__rows *more) {
    const io__texts *texts = &more->columns[c].categories.texts;
    if (texts->count == 0) return true;
    size_t *codes = malloc(texts->count * sizeof *codes);
    bool complete = codes != NULL, same = true;
    for (size_t k = 0; complete && k < texts->count; k++) {
        const char *text = io__texts_get(texts, k);
        complete = io__dictionary_code(&rows->columns[c].categories, text, strlen(text), &codes[k]);
        same = same && complete && codes[k] == k;
    }
    for (size_t i = 0; complete && !same && i < more->n; i++) {
        double *cell = &more->values[i * layout->n_columns + c];
        if (!isnan(*cell)) *cell = (double)codes[(size_t)*cell];
    }
    free(codes);
    return complete;
}

static void join_missing(io__rows *rows, const io__rows *more) {
    if (more->n_missing > 0 && rows->n_missing == 0) {
        rows->first_missing_row = rows->n + more->first_missing_row;
        rows->first_missing_column = more->first_missing_column;
        rows->first_missing_line = rows->lines + more->first_missing_line;
    }
    rows->n_missing += more->n_missing;
}

bool io__rows_join(const io__layout *layout, io__rows *rows, io__rows *more) {
    for (size_t c = 0; c < layout->n_columns; c++) {
        io__column *into = &rows->columns[c];
        into->kind = join_kinds(into, &more->columns[c]);
        into->numbers = into->numbers || more->columns[c].numbers;
        if (into->kind == IO__CATEGORICAL && !recode(layout, c, rows, more)) return false;
    }
    join_missing(rows, more);
    return true;
}
