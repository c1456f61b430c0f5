/* Rows of delimited text to numbers, one stretch at a time: stretches are read side by side, each into rows of its own,
 * and joined in their order.
 *
 * columns.c decides what a cell is; plain numbers, which most cells are, bypass it. Each stretch numbers its texts in
 * order of first appearance. Joining gives them the numbers that a single reader from top to bottom would have given.
 * No cell has an allocation of its own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "core/core.h"
#include "io/csv.h"

/* ---- one stretch ------------------------------------------------------------------------------------------------- */

static void note_missing(io__rows *rows, size_t row, size_t c, int64_t line) {
    if (rows->missing[row]) return;
    rows->missing[row] = true;
    if (rows->n_missing++ > 0) return;
    rows->first_missing_row = row;
    rows->first_missing_column = c;
    rows->first_missing_line = line;
}

static circe_status ragged(const io__layout *layout, int64_t line, size_t found) {
    return circe_fail(CIRCE_ERR_FORMAT, "%s, line %lld: %zu field%s found, but %zu expected, as in the %s",
                      layout->name, (long long)line, found, found == 1 ? "" : "s", layout->n_fields,
                      layout->has_names ? "header" : "first row");
}

/* Whether a plain number of this column can bypass columns.c: its first cells are recorded, and no option concerns it.
 */
static bool goes_past(const io__layout *layout, const io__column *column) {
    const io_reading *reading = layout->reading;
    return column->numbers.n >= IO__FEW && !column->named && reading->n_missing == 0 && reading->decimal == '.';
}

static circe_status parse_row(const io__layout *layout, io__scanner *scanner, int64_t first_line, io__rows *rows) {
    double *cells = rows->values + rows->n * layout->n_columns;
    int64_t line = scanner->line;
    io__field field = {0};
    size_t f = 0;
    for (; !field.last; f++) {
        size_t c = f < layout->n_fields ? layout->column_of[f] : IO__NOT_SELECTED;
        bool wanted = c != IO__NOT_SELECTED;
        if (wanted && goes_past(layout, &rows->columns[c]) && io__next_number(scanner, &field, &cells[c])) {
            rows->columns[c].numbers.n++;
            continue;
        }
        circe_status status = io__next_field(scanner, &field);
        if (status != CIRCE_OK) return status;
        io__cell cell = !wanted ? IO__CELL_READ
                                : io__column_take(&rows->columns[c], layout->reading, field.text, field.length,
                                                  (int64_t)rows->n, line - first_line, &cells[c]);
        if (cell == IO__CELL_MISSING) note_missing(rows, rows->n, c, line - first_line);
        if (cell == IO__CELL_NO_MEMORY) return io__no_memory(layout->name);
    }
    return f == layout->n_fields ? CIRCE_OK : ragged(layout, line, f);
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

/* NUL bytes would truncate texts. They mean that the file is UTF-16, or not text at all. */
static circe_status refuse_zero(const io__layout *layout, const char *data, const char *zero, int64_t line) {
    for (const char *at = data; at < zero; at++) line += *at == '\n';
    return circe_fail(CIRCE_ERR_FORMAT,
                      "%s, line %lld: the line contains a NUL byte; the file is not text, or not in UTF-8",
                      layout->name, (long long)line);
}

static bool begin(const io__layout *layout, const io__rows *before, io__rows *rows) {
    if (rows->columns == NULL) rows->columns = calloc(layout->n_columns, sizeof *rows->columns);
    if (rows->columns == NULL) return false;
    for (size_t c = 0; c < layout->n_columns; c++) {
        io__dictionary_free(&rows->columns[c].categories);
        rows->columns[c] = (io__column){.named = before->columns[c].named};
    }
    rows->n = 0;
    rows->n_missing = rows->lines = 0;
    return true;
}

circe_status io__rows_parse(const io__layout *layout, const io__rows *before, const char *data, size_t length,
                            int64_t line, io__rows *rows) {
    io__scanner scanner = {
        .at = data, .end = data + length, .delimiter = layout->delimiter, .line = line, .name = layout->name};
    if (!begin(layout, before, rows)) return io__no_memory(layout->name);
    const char *zero = length > 0 ? memchr(data, '\0', length) : NULL;
    if (zero != NULL) return refuse_zero(layout, data, zero, line);
    if (layout->check_utf8 && !circe__is_utf8(data, length)) return IO__NOT_UTF8;
    circe_status status = CIRCE_OK;
    while (status == CIRCE_OK && scanner.at < scanner.end) {
        if (!io__rows_reserve(layout, rows, 1)) {
            status = io__no_memory(layout->name);
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

/* ---- joining ----------------------------------------------------------------------------------------------------- */

/* The first few cells of one kind, counted from the top of the file. */
static void join_samples(const io__layout *layout, const io__rows *rows, io__sample *sample, const io__sample *more) {
    for (int64_t k = 0; k < more->n && k < IO__FEW; k++) {
        if (sample->n + k >= IO__FEW) break;
        sample->cell[sample->n + k] = more->cell[k];
        sample->cell[sample->n + k].row += (int64_t)rows->n;
        sample->cell[sample->n + k].line += layout->first_line + rows->lines;
    }
    sample->n += more->n;
}

/* Codes of `more` become those of the same texts in `rows`. false: no memory. */
static bool recode(const io__layout *layout, size_t c, io__rows *rows, io__rows *more) {
    const io__texts *texts = &more->columns[c].categories.texts;
    if (texts->count == 0 || more->columns[c].numbers.n > 0) return true; /* numbers and texts: it will be refused */
    OWNED size_t *codes = malloc(texts->count * sizeof *codes);
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
        const io__column *from = &more->columns[c];
        join_samples(layout, rows, &into->numbers, &from->numbers);
        join_samples(layout, rows, &into->texts, &from->texts);
        into->n_missing += from->n_missing;
        into->n_other_point += from->n_other_point;
        into->n_odd += from->n_odd;
        if (!recode(layout, c, rows, more)) return false;
    }
    join_missing(rows, more);
    return true;
}
