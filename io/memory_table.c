/* Tables in memory. Numbers and texts are stored as they came. When a column is read, io/columns.c decides what it is,
 * as for a file: texts that are numbers become numbers, others categories. */
#include "io/memory_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "core/hash.h"
#include "core/settings.h"
#include "io/io_parts.h"

typedef struct column {
    double *numbers; /* (rows), or */
    char **texts;    /* (rows) */
    bool categories; /* the texts are, by themselves */
    bool boolean;    /* the numbers are 0 and 1, for False and True */
} column;

struct circe_table {
    int64_t rows;
    name_list names;
    column *columns; /* (names) */
};

static const char table_name[] = "the table";

circe_status circe_table_create(int64_t rows, circe_table **table) {
    CIRCE_OWN_SETTINGS;
    *table = NULL;
    if (rows < 1) return circe_fail(CIRCE_ERR_ARGUMENT, "a table must have at least one row, not %" PRId64, rows);
    *table = calloc(1, sizeof **table);
    if (*table == NULL) return io__no_memory(table_name);
    (*table)->rows = rows;
    return CIRCE_OK;
}

static void free_texts(char **texts, int64_t rows) {
    for (int64_t i = 0; texts != NULL && i < rows; i++) free(texts[i]);
    free(texts);
}

void circe_table_free(circe_table *table) {
    if (table == NULL) return;
    for (int64_t c = 0; c < table->names.n; c++) {
        free(table->columns[c].numbers);
        free_texts(table->columns[c].texts, table->rows);
    }
    free(table->columns);
    name_list_free(&table->names);
    free(table);
}

int64_t circe_table_rows(const circe_table *table) { return table->rows; }

uint64_t memory_table_hash(const circe_table *table) {
    uint64_t hash = circe__hash(CIRCE__HASH_START, &table->rows, sizeof table->rows);
    for (int64_t c = 0; c < table->names.n; c++) {
        const column *of = &table->columns[c];
        hash = circe__hash(hash, table->names.names[c], strlen(table->names.names[c]) + 1);
        if (of->numbers != NULL) hash = circe__hash(hash, of->numbers, (size_t)table->rows * sizeof *of->numbers);
        for (int64_t i = 0; of->texts != NULL && i < table->rows; i++) { /* a missing one is not an empty one */
            const char *text = of->texts[i] != NULL ? of->texts[i] : "\1";
            hash = circe__hash(hash, text, strlen(text) + 1);
        }
        if (of->boolean) hash = circe__hash(hash, &of->boolean, sizeof of->boolean);
        if (of->categories) hash = circe__hash(hash, &of->categories, sizeof of->categories);
    }
    return hash;
}

static circe_status add_column(circe_table *table, const char *name, column added) {
    name_list_add(&table->names, name);
    table->columns = small_grow(table->columns, (size_t)table->names.n * sizeof *table->columns);
    table->columns[table->names.n - 1] = added;
    return CIRCE_OK;
}

static circe_status check_name(const circe_table *table, const char *name) {
    if (name == NULL || name[0] == '\0') return circe_fail(CIRCE_ERR_ARGUMENT, "a column of a table needs a name");
    if (name_list_find(&table->names, name) < 0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "the table already has a column '%s'", name);
}

static circe_status add_numbers(circe_table *table, const char *name, const double *values, int64_t stride,
                                bool boolean) {
    circe_status status = check_name(table, name);
    if (status != CIRCE_OK) return status;
    double *numbers = malloc((size_t)table->rows * sizeof *numbers);
    if (numbers == NULL) return io__no_memory(table_name);
    for (int64_t i = 0; i < table->rows; i++) numbers[i] = values[i * stride];
    return add_column(table, name, (column){.numbers = numbers, .boolean = boolean});
}

circe_status circe_table_add_numbers(circe_table *table, const char *name, const double *values, int64_t stride) {
    CIRCE_OWN_SETTINGS;
    return add_numbers(table, name, values, stride, false);
}

circe_status circe_table_add_booleans(circe_table *table, const char *name, const double *values, int64_t stride) {
    CIRCE_OWN_SETTINGS;
    for (int64_t i = 0; i < table->rows; i++) {
        double value = values[i * stride];
        if (value != 0.0 && value != 1.0 && !isnan(value))
            return circe_fail(CIRCE_ERR_VALUE, "column '%s' is boolean, but row %" PRId64 " is %g", name, i, value);
    }
    return add_numbers(table, name, values, stride, true);
}

static circe_status add_texts(circe_table *table, const char *name, const char *const *texts, bool categories) {
    circe_status status = check_name(table, name);
    if (status != CIRCE_OK) return status;
    char **copies = calloc((size_t)table->rows, sizeof *copies);
    bool had = copies != NULL;
    for (int64_t i = 0; had && i < table->rows; i++) {
        if (texts[i] == NULL) continue;
        copies[i] = io_to_utf8(texts[i], strlen(texts[i]));
        had = copies[i] != NULL;
    }
    if (had) return add_column(table, name, (column){.texts = copies, .categories = categories});
    free_texts(copies, table->rows);
    return io__no_memory(table_name);
}

circe_status circe_table_add_texts(circe_table *table, const char *name, const char *const *texts) {
    CIRCE_OWN_SETTINGS;
    return add_texts(table, name, texts, false);
}

circe_status circe_table_add_categories(circe_table *table, const char *name, const char *const *texts) {
    CIRCE_OWN_SETTINGS;
    return add_texts(table, name, texts, true);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static circe_status refuse_column(const circe_table *table, const char *wanted) {
    io__choices choices;
    io__choices_init(&choices, wanted);
    for (int64_t c = 0; c < table->names.n; c++) io__choices_add(&choices, table->names.names[c]);
    return circe_fail(CIRCE_ERR_ARGUMENT, "%s: there is no column '%.100s'; it has %s", table_name, wanted,
                      io__choices_text(&choices));
}

/* By its name, or by its number. */
static circe_status find_column(const circe_table *table, const char *wanted, int64_t *found) {
    size_t length = strlen(wanted);
    *found = name_list_find(&table->names, wanted);
    if (*found < 0 && length > 0 && length < 10 && strspn(wanted, "0123456789") == length)
        *found = strtoll(wanted, NULL, 10);
    return *found >= 0 && *found < table->names.n ? CIRCE_OK : refuse_column(table, wanted);
}

static void note_missing(io_table *out, int64_t row, const char *name) {
    if (out->first_missing == NULL) out->first_missing = small_format("row %" PRId64 ", column '%s'", row, name);
    out->n_missing += !out->missing_rows[row];
    out->missing_rows[row] = true;
}

/* Takes over the texts of the categories. */
static circe_status keep_categories(io__column *taken, io_table *out, int64_t c) {
    out->columns[c] = (io_column){.n_missing = taken->n_missing};
    if (taken->texts.n == 0) return CIRCE_OK;
    out->categories[c] = io__texts_block(&taken->categories.texts);
    if (out->categories[c] == NULL) return io__no_memory(table_name);
    out->categorical[c] = true;
    out->columns[c].n_categories = (int64_t)taken->categories.texts.count;
    out->columns[c].named = taken->named;
    return CIRCE_OK;
}

static circe_status read_texts(char *const *texts, const io_reading *how, bool named, io_table *out, int64_t c) {
    const circe_mat *m = &out->values;
    io__column taken = {.named = named};
    circe_status status = CIRCE_OK;
    for (int64_t i = 0; i < m->rows && status == CIRCE_OK; i++) {
        const char *text = texts[i] != NULL ? texts[i] : "";
        double *cell = (double *)m->data + i * m->ld + c;
        if (io__column_take(&taken, how, text, strlen(text), i, 0, cell) == IO__CELL_NO_MEMORY)
            status = io__no_memory(table_name);
    }
    if (status == CIRCE_OK) status = io__column_judge(&taken, how, table_name, out->names[c]);
    if (status == CIRCE_OK) status = keep_categories(&taken, out, c);
    io__dictionary_free(&taken.categories);
    return status;
}

static circe_status read_column(const column *from, const io_reading *how, int64_t index, io_table *out, int64_t c) {
    const circe_mat *m = &out->values;
    double *cells = (double *)m->data + c;
    bool named = io__is_named(how, out->names[c], (size_t)index) || from->categories;
    for (int64_t i = 0; from->numbers != NULL && i < m->rows; i++) cells[i * m->ld] = from->numbers[i];
    circe_status status =
        from->texts != NULL ? read_texts(from->texts, how, named, out, c) : io__array_column_as(out, how, c, named);
    out->columns[c].boolean = from->boolean;
    for (int64_t i = 0; status == CIRCE_OK && i < m->rows; i++)
        if (isnan(cells[i * m->ld])) note_missing(out, i, out->names[c]);
    return status;
}

static circe_status make_table(int64_t rows, const name_list *names, io_table *out) {
    double *data = NULL;
    size_t cells;
    *out = (io_table){0};
    if (!__builtin_mul_overflow((size_t)rows, (size_t)names->n, &cells)) data = malloc(cells * sizeof *data);
    if (data == NULL) return io__no_memory(table_name);
    out->values = circe_mat_f64(data, rows, names->n);
    out->source = small_format("%s", table_name);
    out->names = name_list_block(names);
    out->missing_rows = calloc((size_t)rows, sizeof *out->missing_rows);
    return out->missing_rows != NULL && io__begin_description(out) ? CIRCE_OK : io__no_memory(table_name);
}

circe_status memory_table_read(const circe_table *table, const name_list *wanted, const io_reading *how,
                               io_table *out) {
    OWNED int64_t *from = small_alloc((size_t)wanted->n * sizeof *from);
    OWNED_BY(name_list_free) name_list names = {0};
    circe_status status = CIRCE_OK;
    *out = (io_table){0};
    for (int64_t c = 0; c < wanted->n && status == CIRCE_OK; c++) {
        status = find_column(table, wanted->names[c], &from[c]);
        if (status == CIRCE_OK) name_list_add(&names, table->names.names[from[c]]);
    }
    if (status == CIRCE_OK) status = make_table(table->rows, &names, out);
    for (int64_t c = 0; c < names.n && status == CIRCE_OK; c++)
        status = read_column(&table->columns[from[c]], how, from[c], out, c);
    if (status != CIRCE_OK) io_table_free(out);
    return status;
}

circe_status memory_table_select(const circe_table *table, const char *option, const char *columns,
                                 const io_reading *how, io_table *out) {
    OWNED_BY(name_list_free) name_list wanted = {0};
    circe_status status = CIRCE_OK;
    if (name_list_find(&table->names, columns) >= 0)
        name_list_add(&wanted, columns);
    else
        status = name_list_split(option, columns, &wanted);
    return status == CIRCE_OK ? memory_table_read(table, &wanted, how, out) : status;
}
