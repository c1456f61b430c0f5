/* Delimited text (.csv, .tsv) to a table.
 *
 * The first row is a header unless all of its fields are numbers. The text passes through memory in windows. Each
 * window is cut into stretches of whole rows (csv_cut.c), which are read side by side (csv_rows.c) and joined in their
 * order. So the result does not depend on windows or threads, and only one window of the text is in memory. columns.c
 * decides what a column is. Every row is read once. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "core/core.h"
#include "core/threads.h"
#include "io/csv.h"

/* A stretch is small enough for its numbers to stay in a processor's cache until they are copied. */
enum { FIRST_WINDOW = 1 << 16, STRETCH = 1 << 20 };

typedef struct reader {
    io__text text;
    io__window window;
    io__scanner scanner; /* of the header */
    const io_reading *reading;
    uint64_t first_row; /* of data: where it begins */
    int64_t first_line;
    io__texts header; /* names, or the numbers of the first row if there is no header */
    bool has_names, counts_up;
    size_t *column_of; /* for each field its column, or IO__NOT_SELECTED */
    size_t *field_of;  /* for each column its place in the file */
    size_t n_columns;
    io__layout layout;
    io__rows rows;
} reader;

static circe_status fail(reader *r, circe_status status, const char *problem) {
    return circe_fail(status, "%s: %s", r->scanner.name, problem);
}

static circe_status no_memory(reader *r) { return io__no_memory(r->scanner.name); }

/* ---- header and selection ----------------------------------------------------------------------------------- */

/* The first window that holds a whole row. */
static circe_status load_first_row(reader *r) {
    size_t cut[2] = {0, 0};
    for (size_t length = FIRST_WINDOW; cut[1] == 0; length *= 2) {
        circe_status status = io__window_load(&r->text, r->text.start, length, &r->window);
        if (status != CIRCE_OK) return status;
        io__cut_rows(&r->window, r->scanner.delimiter, 1, cut);
    }
    r->scanner.at = r->window.data;
    r->scanner.end = r->window.data + cut[1];
    r->scanner.line = 1;
    return CIRCE_OK;
}

/* What the fields of the first row are. */
typedef struct first_row {
    size_t numbers; /* NaN among them */
    size_t missing; /* words for a missing cell count here, but not the empty field, which is the header of an index */
    size_t broken;  /* begin like numbers and are none */
    size_t names;
    char text[64]; /* the first broken one */
    double last;   /* number, and how many were the next whole number after the one before them */
    size_t steps;
} first_row;

static bool begins_like_number(const io__field *field) {
    size_t at = 0;
    while (at < field->length && at < 2 && strchr("+-.", field->text[at]) != NULL) at++;
    return at < field->length && field->text[at] >= '0' && field->text[at] <= '9';
}

static void classify(const reader *r, const io__field *field, first_row *found) {
    char point = r->reading->decimal;
    double value = NAN;
    if (io__number(field->text, field->length, point, &value) || io__is_nan(field->text, field->length)) {
        found->steps += found->numbers > 0 && value == floor(value) && value == found->last + 1.0;
        found->numbers++;
        found->last = value;
    } else if (field->length > 0 && io__is_missing(r->reading, field->text, field->length)) {
        found->missing++;
    } else if (begins_like_number(field) || io__looks_like_number(field->text, field->length, point) != IO__WORD) {
        if (found->broken++ == 0) snprintf(found->text, sizeof found->text, "%.*s", (int)field->length, field->text);
    } else {
        found->names++;
    }
}

/* A row of numbers, some of which may be missing, is data. A row with a name in it is a header. If it is neither,
 * nobody can tell which was meant. */
static circe_status judge_first_row(reader *r, const first_row *found) {
    r->has_names = found->names > 0 || found->numbers == 0;
    r->counts_up = !r->has_names && found->steps > 0 && found->steps == found->numbers - 1;
    if (r->has_names || found->broken == 0) return CIRCE_OK;
    return circe_fail(
        CIRCE_ERR_VALUE,
        "%s, line 1: '%s' is not a number, unlike other cells of its row; correct it, or add a header line",
        r->scanner.name, found->text);
}

static circe_status read_header(reader *r) {
    io__field field = {0};
    first_row found = {0};
    r->first_row = r->text.start;
    r->first_line = 1;
    while (!field.last) {
        circe_status status = io__next_field(&r->scanner, &field);
        if (status != CIRCE_OK) return status;
        classify(r, &field, &found);
        if (!io__texts_add(&r->header, field.text, field.length)) return no_memory(r);
    }
    circe_status status = judge_first_row(r, &found);
    if (status != CIRCE_OK || !r->has_names) return status;
    r->first_row = r->text.start + (uint64_t)(r->scanner.at - r->window.data);
    r->first_line = r->scanner.line;
    if (r->first_row == r->text.end) return fail(r, CIRCE_ERR_VALUE, "it has a header but no rows");
    return CIRCE_OK;
}

static circe_status add_column(reader *r, size_t field) {
    if (r->column_of[field] != IO__NOT_SELECTED)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: column %zu%s%.100s%s is selected twice", r->scanner.name, field,
                          r->has_names ? " ('" : "", r->has_names ? io__texts_get(&r->header, field) : "",
                          r->has_names ? "')" : "");
    const char *name = r->has_names ? io__texts_get(&r->header, field) : NULL;
    r->field_of[r->n_columns] = field;
    r->rows.columns[r->n_columns].named = io__is_named(r->reading, name, field);
    r->column_of[field] = r->n_columns++;
    return CIRCE_OK;
}

static circe_status unknown_column(reader *r, const char *wanted) {
    io__choices choices;
    if (!r->has_names)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "%s: there is no column '%s'; the file has no header: its columns are 0 to %zu",
                          r->scanner.name, wanted, r->header.count - 1);
    io__choices_init(&choices, wanted);
    for (size_t f = 0; f < r->header.count; f++) io__choices_add(&choices, io__texts_get(&r->header, f));
    circe_status status = circe_fail(CIRCE_ERR_ARGUMENT, "%s: there is no column '%.100s'; it has %s", r->scanner.name,
                                     wanted, io__choices_text(&choices));
    if (r->header.count > 1) return status;
    return circe_fail_hint(status,
                           "line 1 names the columns, separated by commas, semicolons or tabs; here it is one name");
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
        return circe_fail(
            CIRCE_ERR_ARGUMENT,
            "%s: %zu columns are named '%.100s'; select one by its index, counted from 0 (the first is %zu)",
            r->scanner.name, n_named, wanted, field);
    if (n_named == 0 && !is_index(r, wanted, &field)) return unknown_column(r, wanted);
    return add_column(r, field);
}

/* The selection is itself one row of delimited text: a name with a comma can be quoted. A name that matches as it
 * stands needs no quotes. */
static circe_status select_columns(reader *r, const char *columns) {
    size_t field;
    if (count_named(r, columns, &field) == 1) return add_column(r, field);
    io__scanner list = {
        .at = columns, .end = columns + strlen(columns), .delimiter = ',', .line = 1, .name = "the column selection"};
    io__field item = {0};
    circe_status status = CIRCE_OK;
    while (status == CIRCE_OK && !item.last) {
        status = io__next_field(&list, &item);
        if (status != CIRCE_OK) break;
        OWNED char *wanted = strndup(item.text, item.length);
        status = wanted == NULL ? no_memory(r) : select_one(r, wanted);
    }
    free(list.scratch);
    return status;
}

static circe_status choose_columns(reader *r, const char *columns) {
    r->column_of = malloc(r->header.count * sizeof *r->column_of);
    r->field_of = calloc(r->header.count, sizeof *r->field_of);
    r->rows.columns = calloc(r->header.count, sizeof *r->rows.columns);
    if (r->column_of == NULL || r->field_of == NULL || r->rows.columns == NULL) return no_memory(r);
    for (size_t f = 0; f < r->header.count; f++) r->column_of[f] = IO__NOT_SELECTED;
    if (columns != NULL) return select_columns(r, columns);
    for (size_t f = 0; f < r->header.count; f++) add_column(r, f);
    return CIRCE_OK;
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

/* The stretches of a window, read side by side and then copied to where they belong. */
typedef struct stretches {
    reader *r;
    int n;
    size_t *cut;    /* (n + 1) */
    io__rows *rows; /* (n) */
    size_t *place;  /* (n) first row of each among all */
    circe_status *status;
} stretches;

static void parse_stretch(void *user, int64_t k) {
    stretches *c = user;
    const char *data = c->r->window.data;
    c->status[k] =
        io__rows_parse(&c->r->layout, &c->r->rows, data + c->cut[k], c->cut[k + 1] - c->cut[k], 1, &c->rows[k]);
}

static void copy_stretch(void *user, int64_t k) {
    stretches *c = user;
    const io__rows *from = &c->rows[k];
    io__rows *to = &c->r->rows;
    size_t cols = c->r->n_columns, first = c->place[k];
    if (from->n == 0) return;
    memcpy(to->values + first * cols, from->values, from->n * cols * sizeof *to->values);
    memcpy(to->missing + first, from->missing, from->n * sizeof *to->missing);
}

/* A stretch that failed is read again with its true line numbers, for the text. */
static circe_status read_again(stretches *c, int k) {
    reader *r = c->r;
    return io__rows_parse(&r->layout, &r->rows, r->window.data + c->cut[k], c->cut[k + 1] - c->cut[k],
                          r->first_line + r->rows.lines, &c->rows[k]);
}

/* Joins what the stretches found, in their order. */
static circe_status join(stretches *c, size_t *n_rows) {
    reader *r = c->r;
    for (int k = 0; k < c->n; k++) {
        circe_status status = c->status[k] == CIRCE_OK ? CIRCE_OK : read_again(c, k);
        if (status != CIRCE_OK) return status;
        if (!io__rows_join(&r->layout, &r->rows, &c->rows[k])) return no_memory(r);
        c->place[k] = *n_rows;
        *n_rows += c->rows[k].n;
        r->rows.lines += c->rows[k].lines;
        if (!io__rows_reserve(&r->layout, &r->rows, c->rows[k].n)) return no_memory(r);
        r->rows.n = *n_rows;
    }
    return CIRCE_OK;
}

static circe_status pass_over(stretches *c) {
    reader *r = c->r;
    size_t window = STRETCH * (size_t)c->n, length = window, n_rows = 0;
    r->rows.lines = 0;
    for (uint64_t from = r->first_row; from < r->text.end;) {
        circe_status status = io__window_load(&r->text, from, length, &r->window);
        if (status != CIRCE_OK) return status;
        io__cut_rows(&r->window, r->layout.delimiter, c->n, c->cut);
        if (c->cut[c->n] == 0) { /* a row longer than the window */
            length *= 2;
            continue;
        }
        length = window;
        circe__run_on(c->n, c->n, parse_stretch, c);
        status = join(c, &n_rows);
        if (status != CIRCE_OK) return status;
        circe__run_on(c->n, c->n, copy_stretch, c);
        from += c->cut[c->n];
    }
    return CIRCE_OK;
}

static circe_status judge_columns(reader *r) {
    circe_status status = CIRCE_OK;
    for (size_t c = 0; c < r->n_columns && status == CIRCE_OK; c++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", r->field_of[c]);
        const char *name = r->has_names ? io__texts_get(&r->header, r->field_of[c]) : index;
        status = io__column_judge(&r->rows.columns[c], r->reading, r->scanner.name, name);
    }
    return status;
}

static atomic_int chosen_threads;

void io_use_threads(int threads) { atomic_store(&chosen_threads, threads > 0 ? threads : 0); }

static int count_threads(void) {
    enum { MOST = 64 };
    int threads = atomic_load(&chosen_threads);
    if (threads == 0) threads = circe__default_threads();
    return threads < MOST ? threads : MOST;
}

static int count_stretches(const reader *r) {
    uint64_t worth = (r->text.end - r->first_row) / (STRETCH / 4) + 1;
    int threads = count_threads();
    return worth < (uint64_t)threads ? (int)worth : threads;
}

static circe_status read_rows(reader *r) {
    int n = count_stretches(r);
    size_t all = (size_t)n;
    stretches c = {.r = r,
                   .n = n,
                   .cut = calloc(all + 1, sizeof *c.cut),
                   .rows = calloc(all, sizeof *c.rows),
                   .place = calloc(all, sizeof *c.place),
                   .status = calloc(all, sizeof *c.status)};
    r->layout = (io__layout){.reading = r->reading,
                             .check_utf8 = r->text.memory == NULL,
                             .first_line = r->first_line,
                             .delimiter = r->scanner.delimiter,
                             .name = r->scanner.name,
                             .has_names = r->has_names,
                             .n_fields = r->header.count,
                             .column_of = r->column_of,
                             .n_columns = r->n_columns};
    bool room = c.cut != NULL && c.rows != NULL && c.place != NULL && c.status != NULL;
    circe_status status = room ? pass_over(&c) : no_memory(r);
    for (int k = 0; c.rows != NULL && k < n; k++) io__rows_free(&r->layout, &c.rows[k]);
    free(c.cut);
    free(c.rows);
    free(c.place);
    free(c.status);
    return status;
}

/* ---- result ------------------------------------------------------------------------------------------------- */

static bool give_names(const reader *r, io_table *table) {
    io__texts selected = {0};
    bool complete = true;
    if (!r->has_names) return true;
    for (size_t c = 0; complete && c < r->n_columns; c++) {
        const char *name = io__texts_get(&r->header, r->field_of[c]);
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
        const io__column *cells = &r->rows.columns[c];
        const io__texts *texts = &cells->categories.texts;
        table->categorical[c] = texts->count > 0;
        table->columns[c] =
            (io_column){.n_missing = cells->n_missing, .n_categories = (int64_t)texts->count, .named = cells->named};
        if (texts->count > 0 && (table->categories[c] = io__texts_block(texts)) == NULL) return false;
    }
    return true;
}

/* "row 3 (line 5), column 'age'" */
static char *first_missing(const reader *r) {
    char text[256];
    const io__rows *rows = &r->rows;
    size_t field = r->field_of[rows->first_missing_column];
    int used = snprintf(text, sizeof text, "row %zu (line %lld), column ", rows->first_missing_row,
                        (long long)r->first_line + (long long)rows->first_missing_line);
    if (r->has_names)
        snprintf(text + used, sizeof text - (size_t)used, "'%.150s'", io__texts_get(&r->header, field));
    else
        snprintf(text + used, sizeof text - (size_t)used, "%zu", field);
    return strdup(text);
}

static circe_status give(reader *r, io_table *table) {
    io__rows *rows = &r->rows;
    double *exact = realloc(rows->values, rows->n * r->n_columns * sizeof *exact);
    if (exact != NULL) rows->values = exact;
    table->values = circe_mat_f64(rows->values, (int64_t)rows->n, (int64_t)r->n_columns);
    rows->values = NULL;
    table->n_missing = rows->n_missing;
    table->counts_up = r->counts_up;
    table->source = strdup(r->scanner.name);
    bool complete = table->source != NULL && give_names(r, table) && give_categories(r, table);
    if (rows->n_missing > 0) {
        table->missing_rows = rows->missing;
        rows->missing = NULL;
        table->first_missing = first_missing(r);
        complete = complete && table->first_missing != NULL;
    }
    if (complete) return CIRCE_OK;
    io_table_free(table);
    return no_memory(r);
}

static void release(reader *r) {
    r->layout.n_columns = r->n_columns;
    io__rows_free(&r->layout, &r->rows);
    io__window_free(&r->window);
    io__texts_free(&r->header);
    free(r->column_of);
    free(r->field_of);
    free(r->scanner.scratch);
}

static io_reading reading_or_usual(const io_reading *reading) {
    io_reading how = reading != NULL ? *reading : (io_reading){0};
    if (how.decimal == 0) how.decimal = '.';
    return how;
}

/* The sign that separates the names in the first line: a comma, or where it has none, or the comma is the decimal sign,
 * a semicolon or a tab. */
static char delimiter_of(const char *data, size_t bytes, const io_reading *reading) {
    const char *end = bytes > 0 ? memchr(data, '\n', bytes) : NULL;
    size_t line = end != NULL ? (size_t)(end - data) : bytes;
    bool decimal = reading != NULL && reading->decimal == ',';
    if (line == 0 || (!decimal && memchr(data, ',', line) != NULL)) return ',';
    return memchr(data, ';', line) != NULL ? ';' : memchr(data, '\t', line) != NULL ? '\t' : ',';
}

/* The delimiter of a .csv is told by its first line; 0 asks for that. */
static circe_status begin(reader *r, uint64_t bytes, const char *columns) {
    circe_status status = io__text_begin(&r->text, bytes);
    if (status == CIRCE_OK && r->scanner.delimiter == 0) {
        status = io__window_load(&r->text, r->text.start, FIRST_WINDOW, &r->window);
        if (status == CIRCE_OK) r->scanner.delimiter = delimiter_of(r->window.data, r->window.length, r->reading);
    }
    if (status == CIRCE_OK) status = load_first_row(r);
    if (status == CIRCE_OK && r->text.memory == NULL &&
        !circe__is_utf8(r->scanner.at, (size_t)(r->scanner.end - r->scanner.at)))
        status = IO__NOT_UTF8;
    if (status == CIRCE_OK) status = read_header(r);
    return status == CIRCE_OK ? choose_columns(r, columns) : status;
}

static circe_status parse(io__text text, uint64_t bytes, char delimiter, const char *columns, const io_reading *reading,
                          io_table *table) {
    io_reading how = reading_or_usual(reading);
    reader r = {.text = text, .reading = &how, .scanner = {.delimiter = delimiter, .name = text.name}};
    memset(table, 0, sizeof *table);
    circe_status status = begin(&r, bytes, columns);
    if (status == CIRCE_OK) status = read_rows(&r);
    if (status == CIRCE_OK) status = judge_columns(&r);
    if (status == CIRCE_OK) status = give(&r, table);
    release(&r);
    return status;
}

/* Rows by the mean length of those in the first window. */
static int64_t estimate_rows(const reader *r, bool *exact) {
    io__scanner rows = {.at = r->window.data + (r->first_row - r->text.start),
                        .end = r->window.data + r->window.length,
                        .delimiter = r->scanner.delimiter};
    const char *first = rows.at;
    int64_t n = 0;
    for (const char *next = rows.at; (next = io__row_end(next, rows.end, rows.delimiter)) != NULL; n++) rows.at = next;
    *exact = r->window.final;
    if (*exact) return n + (rows.at < rows.end);
    double length = n > 0 ? (double)(rows.at - first) / (double)n : (double)(rows.end - first);
    return (int64_t)((double)(r->text.end - r->first_row) / length + 0.5);
}

circe_status io__shape_delimited(int descriptor, uint64_t bytes, char delimiter, const char *name, const char *columns,
                                 const io_reading *reading, io_shape *shape) {
    io_reading how = reading_or_usual(reading);
    how.found = NULL; /* for the one who reads */
    reader r = {.text = {.descriptor = descriptor, .name = name},
                .reading = &how,
                .scanner = {.delimiter = delimiter, .name = name}};
    circe_status status = begin(&r, bytes, columns);
    if (status == CIRCE_OK) {
        shape->rows = estimate_rows(&r, &shape->exact);
        shape->cols = (int64_t)r.n_columns;
        shape->bytes = 8.0 * (double)shape->rows * (double)shape->cols;
    }
    release(&r);
    return status;
}

circe_status io__csv_layout(const char *data, size_t bytes, const char *name, const io_reading *reading,
                            char *delimiter, char ***header) {
    io_reading how = reading_or_usual(reading);
    how.found = NULL; /* for the one who reads */
    reader r = {
        .text = {.memory = data, .name = name}, .reading = &how, .scanner = {.delimiter = *delimiter, .name = name}};
    circe_status status = begin(&r, bytes, NULL);
    *delimiter = r.scanner.delimiter;
    *header = status == CIRCE_OK && r.has_names ? io__texts_block(&r.header) : NULL;
    if (status == CIRCE_OK && r.has_names && *header == NULL) status = no_memory(&r);
    release(&r);
    return status;
}

circe_status io__parse_delimited(const char *data, size_t bytes, char delimiter, const char *name, const char *columns,
                                 const io_reading *reading, io_table *table) {
    return parse((io__text){.memory = data, .name = name}, bytes, delimiter, columns, reading, table);
}

circe_status io__read_delimited(int descriptor, uint64_t bytes, char delimiter, const char *name, const char *columns,
                                const io_reading *reading, io_table *table) {
    return parse((io__text){.descriptor = descriptor, .name = name}, bytes, delimiter, columns, reading, table);
}

circe_status io_parse_csv_as(const char *data, size_t bytes, const char *name, const char *columns,
                             const io_reading *reading, io_table *table) {
    return io__parse_delimited(data, bytes, 0, name, columns, reading, table);
}
