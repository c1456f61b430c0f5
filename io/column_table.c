/* Reads the columns of a table. A .csv is read once for all requested columns; arrays are put side by side. */
#include "io/column_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "core/core.h"
#include "io/memory_table.h"

typedef enum table_format { FORMAT_COLUMNS, FORMAT_ARRAYS, FORMAT_ARRAY } table_format;

static table_format format_of(const char *path, const io_reading *how) {
    io_format format = io_format_of(path, how->format);
    if (format == IO_NPZ || format == IO_SAFETENSORS) return FORMAT_ARRAYS;
    return format == IO_NPY ? FORMAT_ARRAY : FORMAT_COLUMNS;
}

static void one_column_each(const name_list *wanted, column_table *out) {
    for (int64_t i = 0; i < wanted->n; i++) {
        out->first[i] = i;
        out->count[i] = 1;
    }
}

/* ---- .csv and .tsv: columns by name ------------------------------------------------------------------------------ */

static circe_status read_columns(const char *path, const name_list *wanted, const io_reading *how, column_table *out) {
    OWNED char *selection = name_list_join(wanted);
    io_table *table = &out->in.table;
    circe_status status = io_read_as(path, selection, how, table);
    if (status != CIRCE_OK) return status;
    if (table->names == NULL) table->names = name_list_block(wanted);
    return CIRCE_OK;
}

/* ---- arrays: a table is put together ----------------------------------------------------------------------------- */

/* An empty table of this size in float64. */
static circe_status make_table(const char *path, int64_t rows, const name_list *names, column_table *out) {
    io_table *table = &out->in.table;
    double *data = NULL;
    size_t count;
    if (!__builtin_mul_overflow((size_t)rows, (size_t)names->n, &count)) data = calloc(count, sizeof *data);
    if (data == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows of %s", rows, path);
    table->values = circe_mat_f64(data, rows, names->n);
    table->names = name_list_block(names);
    table->source = small_format("%s", path);
    return CIRCE_OK;
}

static void copy_column(const circe_mat *from, int64_t col, circe_mat *to, int64_t at) {
    for (int64_t i = 0; i < to->rows; i++) ((double *)to->data)[i * to->ld + at] = circe__at(from, i, col);
}

/* "x" or, of its column 2, "x:2". */
typedef struct selection {
    char *array;
    int64_t column;          /* -1: all */
    const circe_mat *values; /* of the whole array */
    io_table own;            /* empty where an earlier selection has read the array */
} selection;

static selection select_array(const char *name) {
    const char *colon = strrchr(name, ':'), *digits = colon != NULL ? colon + 1 : "";
    bool column = digits[0] != '\0' && strspn(digits, "0123456789") == strlen(digits) && strlen(digits) < 10;
    if (!column) return (selection){.array = small_format("%s", name), .column = -1};
    return (selection){.array = small_format("%.*s", (int)(colon - name), name), .column = strtoll(digits, NULL, 10)};
}

static circe_status read_selection(const char *path, const io_reading *how, selection *list, int64_t a) {
    const io_reading as_it_is = {.format = how->format};
    selection *s = &list[a];
    for (int64_t b = 0; b < a && s->values == NULL; b++)
        if (strcmp(list[b].array, s->array) == 0) s->values = list[b].values;
    if (s->values == NULL) {
        OWNED char *source = small_format("%s:%s", path, s->array);
        circe_status status = io_read_as(source, NULL, &as_it_is, &s->own);
        if (status != CIRCE_OK) return status;
        s->values = &s->own.values;
    }
    if (s->column >= s->values->cols)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: '%s' has the columns 0 to %" PRId64 "; there is no column %" PRId64,
                          path, s->array, s->values->cols - 1, s->column);
    if (s->values->rows != list[0].values->rows)
        return circe_fail(CIRCE_ERR_SHAPE, "%s: '%s' has %" PRId64 " rows but '%s' has %" PRId64, path, list[0].array,
                          list[0].values->rows, s->array, s->values->rows);
    return CIRCE_OK;
}

static void name_columns(const char *name, int64_t count, name_list *names) {
    if (count == 1) name_list_add(names, name);
    for (int64_t c = 0; count > 1 && c < count; c++) {
        OWNED char *one = small_format("%s:%" PRId64, name, c);
        name_list_add(names, one);
    }
}

static circe_status read_arrays(const char *path, const name_list *wanted, const io_reading *how, column_table *out) {
    OWNED selection *list = small_alloc((size_t)wanted->n * sizeof *list);
    OWNED_BY(name_list_free) name_list names = {0};
    circe_status status = CIRCE_OK;
    for (int64_t a = 0; a < wanted->n; a++) list[a] = select_array(wanted->names[a]);
    for (int64_t a = 0; a < wanted->n && status == CIRCE_OK; a++) {
        status = read_selection(path, how, list, a);
        if (status != CIRCE_OK) break;
        out->first[a] = names.n;
        out->count[a] = list[a].column >= 0 ? 1 : list[a].values->cols;
        name_columns(wanted->names[a], out->count[a], &names);
    }
    if (status == CIRCE_OK) status = make_table(path, list[0].values->rows, &names, out);
    for (int64_t a = 0; a < wanted->n && status == CIRCE_OK; a++) {
        for (int64_t c = 0; c < out->count[a]; c++)
            copy_column(list[a].values, list[a].column >= 0 ? list[a].column : c, &out->in.table.values,
                        out->first[a] + c);
    }
    for (int64_t a = 0; a < wanted->n; a++) {
        io_table_free(&list[a].own);
        free(list[a].array);
    }
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

static circe_status copy_columns(const char *path, const circe_mat *from, const name_list *wanted, bool by_place,
                                 column_table *out) {
    bool numbers = are_numbers(wanted);
    if (!numbers && !by_place)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "%s: the columns of an .npy have no names; use numbers from 0: there are %" PRId64, path,
                          from->cols);
    if (!numbers && from->cols != wanted->n) {
        OWNED char *list = name_list_join(wanted);
        circe_fail(CIRCE_ERR_SHAPE, "%s has %" PRId64 " columns; the model needs %" PRId64 ", in this order: %s", path,
                   from->cols, wanted->n, list);
        return CIRCE_ERR_SHAPE;
    }
    circe_status status = make_table(path, from->rows, wanted, out);
    for (int64_t i = 0; status == CIRCE_OK && i < wanted->n; i++) {
        int64_t col = numbers ? (int64_t)strtoll(wanted->names[i], NULL, 10) : i;
        if (col >= from->cols)
            status = circe_fail(CIRCE_ERR_ARGUMENT, "%s: there is no column %s; it has 0 to %" PRId64, path,
                                wanted->names[i], from->cols - 1);
        else
            copy_column(from, col, &out->in.table.values, i);
    }
    return status;
}

static circe_status read_array(const char *path, const name_list *wanted, const io_reading *how, bool by_place,
                               column_table *out) {
    const io_reading as_it_is = {.format = how->format};
    io_table whole = {0};
    circe_status status = io_read_as(path, NULL, &as_it_is, &whole);
    if (status != CIRCE_OK) return status;
    status = copy_columns(path, &whole.values, wanted, by_place, out);
    io_table_free(&whole);
    return status;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static circe_status read_file(const char *path, const name_list *wanted, const io_reading *how, bool by_place,
                              column_table *table) {
    circe_status status = CIRCE_OK;
    switch (format_of(path, how)) {
        case FORMAT_COLUMNS:
            status = read_columns(path, wanted, how, table);
            break;
        case FORMAT_ARRAYS:
            status = read_arrays(path, wanted, how, table);
            break;
        case FORMAT_ARRAY:
            status = read_array(path, wanted, how, by_place, table);
            break;
    }
    if (status == CIRCE_OK && format_of(path, how) != FORMAT_COLUMNS) status = io_table_read_as(&table->in.table, how);
    return status;
}

circe_status column_table_read(const circe_table *memory, const char *path, const name_list *wanted, const reading *how,
                               bool by_place, column_table *table) {
    *table = (column_table){0};
    table->in.described = &table->in.table;
    table->first = small_alloc((size_t)wanted->n * sizeof *table->first);
    table->count = small_alloc((size_t)wanted->n * sizeof *table->count);
    one_column_each(wanted, table);
    circe_status status = memory != NULL ? memory_table_read(memory, wanted, &how->how, &table->in.table)
                                         : read_file(path, wanted, &how->how, by_place, table);
    table->in.values = table->in.table.values;
    if (status == CIRCE_OK) table->in.met = reading_met(how);
    return status;
}

/* The texts that describe columns are one longer each. */
static void describe_one_more(io_table *t, const char *name) {
    int64_t n = t->values.cols;
    OWNED_BY(name_list_free) name_list names = {0};
    for (int64_t c = 0; c < n; c++) name_list_add(&names, t->names[c]);
    name_list_add(&names, name);
    free(t->names);
    t->names = name_list_block(&names);
    if (t->categorical == NULL) return;
    t->categorical = small_grow(t->categorical, (size_t)(n + 1) * sizeof *t->categorical);
    t->categories = small_grow(t->categories, (size_t)(n + 1) * sizeof *t->categories);
    t->categorical[n] = false;
    t->categories[n] = NULL;
    if (t->columns == NULL) return;
    t->columns = small_grow(t->columns, (size_t)(n + 1) * sizeof *t->columns);
    t->columns[n] = (io_column){0};
}

circe_status column_table_add(column_table *table, const char *name, const double *values) {
    io_table *t = &table->in.table;
    int64_t rows = t->values.rows, n = t->values.cols, asked = 0;
    double *data = malloc((size_t)(rows * (n + 1) + 1) * sizeof *data);
    if (data == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", rows);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t c = 0; c < n; c++) data[i * (n + 1) + c] = circe__at(&t->values, i, c);
        data[i * (n + 1) + n] = values[i];
    }
    describe_one_more(t, name);
    io_table_take(t, data, n + 1);
    while (asked < n && table->first[asked] + table->count[asked] < n) asked++;
    table->first = small_grow(table->first, (size_t)(asked + 2) * sizeof *table->first);
    table->count = small_grow(table->count, (size_t)(asked + 2) * sizeof *table->count);
    table->first[asked + 1] = n;
    table->count[asked + 1] = 1;
    table->in.values = t->values;
    return CIRCE_OK;
}

void column_table_free(column_table *table) {
    input_free(&table->in);
    free(table->first);
    free(table->count);
    *table = (column_table){0};
}

double column_value(const column_table *table, int64_t row, int64_t col) {
    return circe__at(&table->in.values, row, col);
}

const char *column_name(const column_table *table, int64_t col) { return table->in.table.names[col]; }

char *const *column_categories(const column_table *table, int64_t col) {
    const io_table *t = &table->in.table;
    return t->categorical != NULL && t->categorical[col] ? t->categories[col] : NULL;
}

bool column_is_boolean(const column_table *table, int64_t col) {
    const io_column *columns = table->in.table.columns;
    return columns != NULL && columns[col].boolean;
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
