/* Decides whether a column is numbers or categories. No other file does.
 *
 * Cells arrive one after another. A text gets its code as if the column were categories, a number its value. This works
 * unless both occur. In that case the column is refused, and the error shows the first few cells of the rarer kind: one
 * unreadable cell must not turn numbers into categories, whose kernel has no distances. A column without a number is
 * categories, unless all of its cells look like numbers in another notation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "core/core.h"
#include "io/io_parts.h"

enum { MOST_CODES = 1000 };

bool io__is_named(const io_reading *reading, const char *name, size_t index) {
    bool named = reading->all;
    char number[24];
    snprintf(number, sizeof number, "%zu", index);
    for (int64_t i = 0; i < reading->n_categories; i++) {
        if (strcmp(reading->categories[i], name != NULL ? name : number) != 0) continue;
        if (reading->found != NULL) reading->found[i] = true;
        named = true;
    }
    return named;
}

/* ---- cells ---------------------------------------------------------------------------------------------------- */

static void note(io__sample *sample, const char *text, size_t length, int64_t row, int64_t line) {
    int64_t at = sample->n++;
    if (at >= IO__FEW) return;
    sample->cell[at].row = row;
    sample->cell[at].line = line;
    int shown = length < IO__CELL_TEXT ? (int)length : IO__CELL_TEXT - 4;
    snprintf(sample->cell[at].text, IO__CELL_TEXT, "%.*s%s", shown, text, length < IO__CELL_TEXT ? "" : "...");
}

static io__cell take_text(io__column *column, const io_reading *reading, const char *text, size_t length, int64_t row,
                          int64_t line, double *cell) {
    size_t code;
    io__likeness likeness = column->named ? IO__WORD : io__looks_like_number(text, length, reading->decimal);
    column->n_other_point += likeness == IO__OTHER_POINT;
    column->n_odd += likeness == IO__ODD_NUMBER;
    note(&column->texts, text, length, row, line);
    *cell = (double)NAN;
    if (column->numbers.n > 0) return IO__CELL_READ; /* the column will be refused */
    if (!io__dictionary_code(&column->categories, text, length, &code)) return IO__CELL_NO_MEMORY;
    *cell = (double)code;
    return IO__CELL_READ;
}

io__cell io__column_take(io__column *column, const io_reading *reading, const char *text, size_t length, int64_t row,
                         int64_t line, double *cell) {
    bool number = io__number(text, length, reading->decimal, cell);
    bool missing = number ? reading->n_missing > 0 && io__is_missing_number(reading, *cell)
                          : io__is_missing(reading, text, length);
    if (missing) {
        column->n_missing++;
        *cell = (double)NAN;
        return IO__CELL_MISSING;
    }
    if (!number || column->named) return take_text(column, reading, text, length, row, line, cell);
    if (column->numbers.n < IO__FEW)
        note(&column->numbers, text, length, row, line);
    else
        column->numbers.n++;
    return IO__CELL_READ;
}

/* ---- the judgement -------------------------------------------------------------------------------------------- */

/* "'0.7x' (row 1000, line 1002), '5%' (row 7, line 9), ..." */
static const char *cells_text(const io__sample *sample, char *out, size_t size) {
    size_t used = 0;
    int64_t shown = sample->n < IO__FEW ? sample->n : IO__FEW;
    out[0] = '\0';
    for (int64_t i = 0; i < shown && used < size; i++) {
        char line[40] = ""; /* of a table in memory there are none */
        if (sample->cell[i].line > 0) snprintf(line, sizeof line, ", line %lld", (long long)sample->cell[i].line);
        used += (size_t)snprintf(out + used, size - used, "%s'%s' (row %lld%s)", i > 0 ? ", " : "",
                                 sample->cell[i].text, (long long)sample->cell[i].row, line);
    }
    if (shown < sample->n && used < size) snprintf(out + used, size - used, ", ...");
    return out;
}

/* A word that the shell and a list both leave whole. */
static bool is_plain_word(const char *text) {
    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || strchr(",\"'\\", *c) != NULL) return false;
    return text[0] != '\0';
}

static const char *na_hint(const io__sample *texts, char *out, size_t size) {
    snprintf(out, size, "--na '%s' --missing drop", is_plain_word(texts->cell[0].text) ? texts->cell[0].text : "WORD");
    return out;
}

static const char *point_hint(const io__column *column, const io_reading *reading) {
    if (column->n_other_point == 0) return "give ";
    return reading->decimal == ',' ? "leave out --decimal , if the point is the decimal sign; give "
                                   : "give --decimal , if the comma is the decimal sign; ";
}

static circe_status refuse_mixture(const io__column *column, const io_reading *reading, const char *file,
                                   const char *name) {
    char cells[320], na[96];
    bool numbers = column->numbers.n >= column->texts.n;
    const io__sample *rare = numbers ? &column->texts : &column->numbers,
                     *rest = numbers ? &column->numbers : &column->texts;
    const char *one = numbers ? "that is not a number" : "that is a number";
    const char *more = numbers ? "that are not numbers" : "that are numbers";
    return circe_fail(CIRCE_ERR_VALUE,
                      "%s: column '%.100s' contains %lld %s%s and %lld cell%s %s: %s. Correct %s, or %s%s if such "
                      "cells are missing; --categories '%.100s' if the column is categories",
                      file, name, (long long)rest->n, numbers ? "number" : "text", rest->n == 1 ? "" : "s",
                      (long long)rare->n, rare->n == 1 ? "" : "s", rare->n == 1 ? one : more,
                      cells_text(rare, cells, sizeof cells), rare->n == 1 ? "it" : "them", point_hint(column, reading),
                      na_hint(rare, na, sizeof na), name);
}

static circe_status refuse_likeness(const io__column *column, const io_reading *reading, const char *file,
                                    const char *name) {
    char cells[320];
    return circe_fail(
        CIRCE_ERR_VALUE,
        "%s: column '%.100s' contains no plain number, but all its %lld cells look like numbers: %s. Write "
        "them as 1234.5, or %s--categories '%.100s' if the column is categories",
        file, name, (long long)column->texts.n, cells_text(&column->texts, cells, sizeof cells),
        point_hint(column, reading), name);
}

circe_status io__column_judge(const io__column *column, const io_reading *reading, const char *file, const char *name) {
    if (column->named || column->texts.n == 0) return CIRCE_OK;
    if (column->numbers.n > 0) return refuse_mixture(column, reading, file, name);
    if (column->n_other_point + column->n_odd == column->texts.n) return refuse_likeness(column, reading, file, name);
    return CIRCE_OK;
}

/* ---- arrays: numbers as they are ------------------------------------------------------------------------------ */

static const char *column_name(const io_table *table, int64_t c, char index[24]) {
    snprintf(index, 24, "%lld", (long long)c);
    return table->names != NULL ? table->names[c] : index;
}

bool io__begin_description(io_table *table) {
    size_t n = (size_t)table->values.cols;
    if (table->categorical == NULL) table->categorical = calloc(n, sizeof *table->categorical);
    if (table->categories == NULL) table->categories = calloc(n, sizeof *table->categories);
    if (table->columns == NULL) table->columns = calloc(n, sizeof *table->columns);
    return table->categorical != NULL && table->categories != NULL && table->columns != NULL;
}

static void mark_missing(io_table *table, const io_reading *reading, int64_t c) {
    circe_mat *m = &table->values;
    for (int64_t i = 0; i < m->rows; i++) {
        double value = circe__at(m, i, c);
        if (!isnan(value) && io__is_missing_number(reading, value)) circe__set(m, i, c, (double)NAN);
        table->columns[c].n_missing += isnan(circe__at(m, i, c)) != 0;
    }
}

static circe_status code_column(io_table *table, int64_t c, io__dictionary *codes) {
    circe_mat *m = &table->values;
    char index[24];
    for (int64_t i = 0; i < m->rows; i++) {
        char text[32];
        double value = circe__at(m, i, c);
        size_t code;
        if (isnan(value)) continue;
        if (value != floor(value) || fabs(value) > 9007199254740992.0)
            return circe_fail(CIRCE_ERR_VALUE,
                              "%s: column '%.100s' is %g in row %lld; categories in an array must be whole numbers",
                              table->source, column_name(table, c, index), value, (long long)i);
        int length = snprintf(text, sizeof text, "%.17g", value);
        if (!io__dictionary_code(codes, text, (size_t)length, &code)) return io__no_memory(table->source);
        if (code >= MOST_CODES)
            return circe_fail(CIRCE_ERR_VALUE,
                              "%s: column '%.100s' has more than %d different numbers: too many for categories",
                              table->source, column_name(table, c, index), MOST_CODES);
        circe__set(m, i, c, (double)code);
    }
    return CIRCE_OK;
}

static circe_status make_categories(io_table *table, int64_t c) {
    io__dictionary codes = {0};
    circe_status status = code_column(table, c, &codes);
    if (status == CIRCE_OK && codes.texts.count > 0) {
        table->categories[c] = io__texts_block(&codes.texts);
        if (table->categories[c] == NULL) status = io__no_memory(table->source);
        table->categorical[c] = status == CIRCE_OK;
        table->columns[c].n_categories = (int64_t)codes.texts.count;
        table->columns[c].named = true;
    }
    io__dictionary_free(&codes);
    return status;
}

circe_status io__array_column_as(io_table *table, const io_reading *reading, int64_t c, bool named) {
    mark_missing(table, reading, c);
    return named ? make_categories(table, c) : CIRCE_OK;
}

circe_status io_table_read_as(io_table *table, const io_reading *reading) {
    circe_status status = CIRCE_OK;
    bool any = reading->n_missing > 0;
    int64_t cols = table->values.cols;
    OWNED bool *named = calloc((size_t)cols + 1, sizeof *named);
    if (named == NULL) return io__no_memory(table->source);
    for (int64_t c = 0; c < cols; c++) {
        named[c] = io__is_named(reading, table->names != NULL ? table->names[c] : NULL, (size_t)c);
        any = any || named[c];
    }
    if (any) status = io__table_own(table);
    if (status == CIRCE_OK && any && !io__begin_description(table)) status = io__no_memory(table->source);
    for (int64_t c = 0; any && c < cols && status == CIRCE_OK; c++)
        status = io__array_column_as(table, reading, c, named[c]);
    return status;
}
