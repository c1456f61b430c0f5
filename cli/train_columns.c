/* Reading the columns of a table. A .csv is read once, for all that is asked of it; arrays are put side by side. */
#include "train_columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const variable variable_table = {"the table", OPT_TABLE, OPT_TABLE, OPT_TABLE, OPT_TABLE};

typedef enum table_format { FORMAT_COLUMNS, FORMAT_ARRAYS, FORMAT_ARRAY } table_format;

static bool ends_with(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcasecmp(text + n - m, ending) == 0;
}

static table_format format_of(const char *path) {
    if (ends_with(path, ".npz") || ends_with(path, ".safetensors")) return FORMAT_ARRAYS;
    return ends_with(path, ".npy") ? FORMAT_ARRAY : FORMAT_COLUMNS;
}

static double element(const circe_mat *m, int64_t i, int64_t j) {
    int64_t at = i * m->ld + j;
    return m->dtype == CIRCE_FLOAT32 ? (double)((const float *)m->data)[at] : ((const double *)m->data)[at];
}

/* Pointers and their texts in one block, as io_table_free expects. */
static char **block_of(const name_list *list) {
    size_t bytes = (size_t)(list->n + 1) * sizeof(char *);
    for (int64_t i = 0; i < list->n; i++) bytes += strlen(list->names[i]) + 1;
    char **block = small_alloc(bytes);
    char *at = (char *)(block + list->n + 1);
    for (int64_t i = 0; i < list->n; i++) {
        block[i] = strcpy(at, list->names[i]);
        at += strlen(at) + 1;
    }
    return block;
}

static void one_column_each(const name_list *wanted, column_table *out) {
    for (int64_t i = 0; i < wanted->n; i++) {
        out->first[i] = i;
        out->count[i] = 1;
    }
}

/* ---- .csv and .tsv: columns by name ------------------------------------------------------------------------------ */

static circe_status read_quietly(const char *path, const name_list *wanted, column_table *out, io_error *error) {
    char *selection = name_list_join(wanted);
    io_table *table = &out->in.table;
    circe_status status = io_read(path, selection, table, error);
    free(selection);
    if (status != CIRCE_OK) return status;
    if (table->names == NULL) table->names = block_of(wanted);
    one_column_each(wanted, out);
    return CIRCE_OK;
}

static int read_columns(const char *path, const name_list *wanted, column_table *out) {
    io_error error = {""};
    circe_status status = read_quietly(path, wanted, out, &error);
    return status == CIRCE_OK ? EXIT_DONE : message_read(status, path, error.text);
}

/* ---- arrays: a table is put together ----------------------------------------------------------------------------- */

/* An empty table of this size in float64. */
static int make_table(const char *path, int64_t rows, const name_list *names, column_table *out) {
    io_table *table = &out->in.table;
    double *data = NULL;
    size_t count;
    if (!__builtin_mul_overflow((size_t)rows, (size_t)names->n, &count)) data = calloc(count, sizeof *data);
    if (data == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows of %s", rows, path);
    table->values = circe_mat_f64(data, rows, names->n);
    table->names = block_of(names);
    table->source = small_format("%s", path);
    return EXIT_DONE;
}

static void copy_column(const circe_mat *from, int64_t col, circe_mat *to, int64_t at) {
    for (int64_t i = 0; i < to->rows; i++) ((double *)to->data)[i * to->ld + at] = element(from, i, col);
}

static int read_arrays(const char *path, const name_list *wanted, column_table *out) {
    io_table *parts = small_alloc((size_t)wanted->n * sizeof *parts);
    name_list names = {0};
    int status = EXIT_DONE;
    for (int64_t a = 0; a < wanted->n && status == EXIT_DONE; a++) {
        io_error error = {""};
        char *source = small_format("%s:%s", path, wanted->names[a]);
        circe_status read = io_read(source, NULL, &parts[a], &error);
        free(source);
        if (read != CIRCE_OK) status = message_read(read, path, error.text);
        if (status == EXIT_DONE && parts[a].values.rows != parts[0].values.rows)
            status = message_fail(EXIT_INPUT, "%s: '%s' has %" PRId64 " rows but '%s' has %" PRId64, path,
                                  wanted->names[0], parts[0].values.rows, wanted->names[a], parts[a].values.rows);
        out->first[a] = names.n;
        out->count[a] = parts[a].values.cols;
        for (int64_t c = 0; c < out->count[a]; c++) {
            char *name = out->count[a] == 1 ? small_format("%s", wanted->names[a])
                                            : small_format("%s[%" PRId64 "]", wanted->names[a], c);
            name_list_add(&names, name);
            free(name);
        }
    }
    if (status == EXIT_DONE) status = make_table(path, parts[0].values.rows, &names, out);
    for (int64_t a = 0; a < wanted->n; a++) {
        for (int64_t c = 0; status == EXIT_DONE && c < out->count[a]; c++)
            copy_column(&parts[a].values, c, &out->in.table.values, out->first[a] + c);
        io_table_free(&parts[a]);
    }
    name_list_free(&names);
    free(parts);
    return status;
}

/* ---- .npy: columns by number ------------------------------------------------------------------------------------- */

static bool is_number(const char *text) { return text[0] != '\0' && strspn(text, "0123456789") == strlen(text); }

static bool are_numbers(const name_list *names) {
    for (int64_t i = 0; i < names->n; i++) {
        if (!is_number(names->names[i])) return false;
    }
    return true;
}

static int copy_columns(const char *path, const circe_mat *from, const name_list *wanted, bool by_place,
                        column_table *out) {
    bool numbers = are_numbers(wanted);
    if (!numbers && !by_place)
        return message_fail(EXIT_INPUT,
                            "%s: the columns of an .npy have no names; count them from 0: there are %" PRId64, path,
                            from->cols);
    if (!numbers && from->cols != wanted->n) {
        char *list = name_list_join(wanted);
        message_note("%s has %" PRId64 " columns; the model needs %" PRId64 ", in this order: %s", path, from->cols,
                     wanted->n, list);
        free(list);
        return EXIT_INPUT;
    }
    int status = make_table(path, from->rows, wanted, out);
    for (int64_t i = 0; status == EXIT_DONE && i < wanted->n; i++) {
        int64_t col = numbers ? (int64_t)strtoll(wanted->names[i], NULL, 10) : i;
        if (col >= from->cols)
            status = message_fail(EXIT_INPUT, "%s: there is no column %s; it has 0 to %" PRId64, path, wanted->names[i],
                                  from->cols - 1);
        else
            copy_column(from, col, &out->in.table.values, i);
    }
    one_column_each(wanted, out);
    return status;
}

static int read_array(const char *path, const name_list *wanted, bool by_place, column_table *out) {
    io_table whole = {0};
    io_error error = {""};
    circe_status read = io_read(path, NULL, &whole, &error);
    if (read != CIRCE_OK) return message_read(read, path, error.text);
    int status = copy_columns(path, &whole.values, wanted, by_place, out);
    io_table_free(&whole);
    return status;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void begin(const name_list *wanted, column_table *table) {
    *table = (column_table){.in = {.of = &variable_table}};
    table->in.described = &table->in.table;
    table->first = small_alloc((size_t)wanted->n * sizeof *table->first);
    table->count = small_alloc((size_t)wanted->n * sizeof *table->count);
}

bool column_table_probe(const char *path, const name_list *wanted, column_table *table) {
    io_error error = {""};
    begin(wanted, table);
    if (format_of(path) != FORMAT_COLUMNS || read_quietly(path, wanted, table, &error) != CIRCE_OK) return false;
    table->in.values = table->in.table.values;
    return true;
}

int column_table_read(const char *path, const name_list *wanted, bool by_place, column_table *table) {
    begin(wanted, table);
    int status = EXIT_DONE;
    switch (format_of(path)) {
        case FORMAT_COLUMNS:
            status = read_columns(path, wanted, table);
            break;
        case FORMAT_ARRAYS:
            status = read_arrays(path, wanted, table);
            break;
        case FORMAT_ARRAY:
            status = read_array(path, wanted, by_place, table);
            break;
    }
    table->in.values = table->in.table.values;
    return status;
}

void column_table_free(column_table *table) {
    input_free(&table->in);
    free(table->first);
    free(table->count);
    *table = (column_table){0};
}

double column_value(const column_table *table, int64_t row, int64_t col) {
    return element(&table->in.values, row, col);
}

const char *column_name(const column_table *table, int64_t col) { return table->in.table.names[col]; }

char *const *column_categories(const column_table *table, int64_t col) {
    const io_table *t = &table->in.table;
    return t->categorical != NULL && t->categorical[col] ? t->categories[col] : NULL;
}

int64_t column_n_categories(const column_table *table, int64_t col) {
    char *const *texts = column_categories(table, col);
    int64_t n = 0;
    while (texts != NULL && texts[n] != NULL) n++;
    return n;
}

bool column_is_constant(const column_table *table, int64_t col) {
    for (int64_t i = 1; i < table->in.values.rows; i++) {
        if (column_value(table, i, col) != column_value(table, 0, col)) return false;
    }
    return true;
}
