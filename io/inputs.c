/* Reading and checking of x, y and z. */
#include "io/inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "core/core.h"
#include "io/memory_table.h"
#include "io/suggest.h"

const char *variable_label(variable of) {
    static const char *const labels[N_VARIABLES] = {"the table",   "x",          "y",       "z",
                                                    "the weights", "the groups", "the time"};
    return labels[of];
}

static bool has_arrays(const input_options *options, const char *path) {
    io_format format = io_format_of(path, options->reading.format);
    return format == IO_NPZ || format == IO_SAFETENSORS;
}

/* How the variable's cells are read. */
static circe_status open_reading(const input_options *options, variable of, reading *out) {
    const char *data = options->data;
    bool own = options->table == NULL &&
               (data == NULL || has_arrays(options, data) || io_format_of(data, options->reading.format) == IO_NPY);
    return reading_open_for(&options->reading, variable_label(of), data != NULL ? options->of[of].source : NULL, own,
                            out);
}

/* Columns of the table in memory, or a file's where there is a path. */
static circe_status read_as(const input_options *options, variable of, const char *path, const char *columns,
                            input *out) {
    reading r;
    circe_status status = open_reading(options, of, &r);
    if (status == CIRCE_OK)
        status = path != NULL ? io_read_as(path, columns, &r.how, &out->table)
                              : memory_table_select(options->table, variable_label(of), columns, &r.how, &out->table);
    if (status == CIRCE_OK) {
        out->values = out->table.values;
        out->met = reading_met(&r);
    }
    reading_free(&r);
    return status;
}

circe_status input_read_from(const input_options *options, variable of, const char *path, const char *columns,
                             input *out) {
    *out = (input){.of = of, .described = &out->table};
    return read_as(options, of, path, columns, out);
}

/* The columns or the array `selection` of one file for everything. */
static circe_status read_selection(const input_options *options, variable of, const char *path, const char *selection,
                                   input *out) {
    if (!has_arrays(options, path)) return read_as(options, of, path, selection, out);
    OWNED char *source = small_format("%s:%s", path, selection);
    return read_as(options, of, source, NULL, out);
}

circe_status input_read(const input_options *options, variable of, bool holdout, input *out) {
    *out = (input){.of = of, .holdout = holdout, .described = &out->table};
    const char *data = holdout ? options->holdout_data : options->data, *label = variable_label(of);
    const char *source = options->of[of].source, *columns = options->of[of].columns;
    bool together = options->data != NULL || options->table != NULL;
    if (together && columns != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "with %s, --%s names the columns itself: leave out --columns-%s",
                          options->data != NULL ? "--data" : "a table", label, label);
    if (options->table != NULL && !holdout) return read_as(options, of, NULL, source, out);
    if (data != NULL) return read_selection(options, of, data, source, out);
    return read_as(options, of, holdout ? options->of[of].holdout : source, columns, out);
}

void input_free(input *in) {
    io_table_free(&in->table);
    free(in->owned);
    free(in->met);
    *in = (input){0};
}

const char *input_source(const input *in) {
    return in->described->source != NULL ? in->described->source : variable_label(in->of);
}

/* "row 3, column 1" or "row 3, column 'age'"; rows and columns are counted from 0, as arrays are indexed. */
static void describe_place(const input *in, int64_t row, int64_t col, char *out, size_t size) {
    if (in->described->names != NULL)
        snprintf(out, size, "row %" PRId64 ", column '%s'", row, in->described->names[col]);
    else
        snprintf(out, size, "row %" PRId64 ", column %" PRId64, row, col);
}

static circe_status refuse_missing(const input *in, int64_t row, int64_t col) {
    char place[256];
    describe_place(in, row, col, place, sizeof place);
    const char *source = input_source(in);
    if (in->table.first_missing != NULL)
        circe_fail(CIRCE_ERR_VALUE, "%s: %s is missing (%" PRId64 " of %" PRId64 " rows have missing cells)", source,
                   in->table.first_missing, in->table.n_missing, in->values.rows);
    else
        circe_fail(CIRCE_ERR_VALUE, "%s: %s is NaN", source, place);
    return circe_fail_hint(CIRCE_ERR_VALUE,
                           "--missing drop leaves such rows out of all variables; empty cells, ?, NA, N/A, NaN, null "
                           "and the words of --na are missing");
}

/* Clears keep[i] for rows with a missing cell. */
static circe_status scan(const input *in, bool drop, bool *keep) {
    const circe_mat *m = &in->values;
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->cols; j++) {
            double value = circe__at(m, i, j);
            if (isfinite(value)) continue;
            if (isinf(value)) {
                char place[256];
                describe_place(in, i, j, place, sizeof place);
                return circe_fail(CIRCE_ERR_VALUE, "%s: %s is infinite; every value must be a finite number",
                                  input_source(in), place);
            }
            if (!drop) return refuse_missing(in, i, j);
            keep[i] = false;
        }
    }
    return CIRCE_OK;
}

static circe_status check_rows_agree(input *const *group, int n) {
    for (int k = 1; k < n; k++) {
        if (group[k]->values.rows == group[0]->values.rows) continue;
        circe_fail(CIRCE_ERR_SHAPE, "%s%s (%s) has %" PRId64 " rows but %s%s (%s) has %" PRId64,
                   group[0]->holdout ? "holdout " : "", variable_label(group[0]->of), input_source(group[0]),
                   group[0]->values.rows, group[k]->holdout ? "holdout " : "", variable_label(group[k]->of),
                   input_source(group[k]), group[k]->values.rows);
        return circe_fail_hint(CIRCE_ERR_SHAPE, "row i of each file must describe the same point");
    }
    return CIRCE_OK;
}

circe_status inputs_keep(input *const *group, int n, const bool *keep, int64_t kept) {
    if (kept == group[0]->values.rows) return CIRCE_OK;
    for (int k = 0; k < n; k++) {
        circe_status status = io_table_keep_rows(&group[k]->table, keep);
        if (status != CIRCE_OK) return status;
        group[k]->values = group[k]->table.values;
    }
    return CIRCE_OK;
}

static circe_status refuse_few(const input *in, int64_t kept, int64_t rows, int64_t least) {
    return circe_fail(CIRCE_ERR_VALUE, "%s has %" PRId64 " row%s%s; at least %" PRId64 " are needed", input_source(in),
                      kept, kept == 1 ? "" : "s", kept < rows ? " without missing cells" : "", least);
}

circe_status inputs_check(const reading_options *options, input *const *group, int n, int64_t least, int64_t *dropped) {
    bool impute = options->missing != NULL && strcmp(options->missing, "impute") == 0; /* missing cells stay */
    bool drop = impute || (options->missing != NULL && strcmp(options->missing, "drop") == 0);
    circe_status status = check_rows_agree(group, n);
    if (status != CIRCE_OK) return status;
    int64_t rows = group[0]->values.rows, kept = 0;
    bool *keep = malloc((size_t)(rows > 0 ? rows : 1) * sizeof *keep);
    if (keep == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", rows);
    for (int64_t i = 0; i < rows; i++) keep[i] = true;
    for (int k = 0; k < n && status == CIRCE_OK; k++) status = scan(group[k], drop, keep);
    for (int64_t i = 0; i < rows; i++) kept += keep[i] = keep[i] || impute;
    if (status == CIRCE_OK) status = inputs_keep(group, n, keep, kept);
    free(keep);
    *dropped = rows - kept;
    return status == CIRCE_OK && kept < least ? refuse_few(group[0], kept, rows, least) : status;
}

/* ---- names that were not met ------------------------------------------------------------------------------------- */

static circe_status refuse_item(const char *item, input *const *group, int n) {
    enum { MOST = 64 };
    const char *names[MOST] = {NULL};
    size_t count = 0;
    for (int k = 0; k < n; k++) {
        const io_table *table = group[k]->described;
        for (int64_t c = 0; table->names != NULL && c < group[k]->values.cols && count < MOST; c++)
            names[count++] = table->names[c];
    }
    const char *nearest = suggest_nearest(item, names, count);
    circe_status status = circe_fail(CIRCE_ERR_ARGUMENT, "--categories: '%s' is not one of the columns in use", item);
    if (nearest != NULL) return circe_fail_hint(status, "did you mean '%s'?", nearest);
    if (count == 0)
        return circe_fail_hint(status, "the columns have no names: use z for all of z, z:0 for its first column");
    return circe_fail_hint(status, "they are '%s'%s%s%s%s", names[0], count > 1 ? ", '" : "", count > 1 ? names[1] : "",
                           count > 1 ? "'" : "", count > 2 ? ", ..." : "");
}

circe_status inputs_check_categories(const reading_options *options, input *const *group, int n) {
    OWNED_BY(name_list_free) name_list items = {0};
    if (options->categories == NULL) return CIRCE_OK;
    circe_status status = name_list_split("categories", options->categories, &items);
    for (int64_t i = 0; i < items.n && status == CIRCE_OK; i++) {
        bool met = false;
        for (int k = 0; k < n; k++) met = met || (group[k]->met != NULL && group[k]->met[i]);
        if (!met) status = refuse_item(items.names[i], group, n);
    }
    return status;
}

/* ---- fewer rows -------------------------------------------------------------------------------------------------- */

circe_status rows_wanted(double option, int64_t *rows) {
    *rows = isnan(option) ? 0 : option == CIRCE_AUTO ? ALL_ROWS : (int64_t)fmin(option, 9e15);
    if (isnan(option) || option == CIRCE_AUTO || option == (double)*rows) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "--rows must be a whole number of rows, or all, not %.10g", option);
}

circe_status inputs_sample(int64_t seed, input *const *group, int n, int64_t rows, int64_t least) {
    const uint64_t stream = 0x726f7773u; /* "rows" */
    int64_t all = group[0]->values.rows;
    if (rows < least)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--rows %" PRId64 " is too few; at least %" PRId64 " rows are needed",
                          rows, least);
    if (rows >= all) return CIRCE_OK;
    OWNED int64_t *chosen = malloc((size_t)rows * sizeof *chosen);
    OWNED bool *keep = calloc((size_t)all, sizeof *keep);
    circe_status status = CIRCE_OK;
    if (chosen == NULL || keep == NULL) {
        status = circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", all);
    } else {
        circe_random_subset((circe_random){(uint64_t)seed, stream}, all, rows, chosen);
        for (int64_t i = 0; i < rows; i++) keep[chosen[i]] = true;
        status = inputs_keep(group, n, keep, rows);
    }
    return status;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* keep[row] := whether it has a weight. */
static circe_status check_weights(const char *source, const input *weights, bool *keep, int64_t *kept) {
    double sum = 0;
    for (int64_t i = 0; i < weights->values.rows; i++) {
        double weight = circe__at(&weights->values, i, 0);
        if (!(weight >= 0))
            return circe_fail(CIRCE_ERR_VALUE, "--weights %s: row %" PRId64 " is %g; a weight must be at least 0",
                              source, io_table_row(&weights->table, i), weight);
        sum += weight;
        *kept += keep[i] = weight > 0;
    }
    if (*kept == 0) return circe_fail(CIRCE_ERR_VALUE, "--weights: all weights are 0, so no rows are left");
    if (isfinite(sum)) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_VALUE, "--weights %s: the sum of the weights overflows; scale the column", source);
}

circe_status inputs_weigh(const input *weights, const char *source, input *const *group, int n, int64_t least) {
    int64_t rows = weights->values.rows, kept = 0;
    if (weights->values.cols != 1 || input_has_text(weights))
        return circe_fail(CIRCE_ERR_VALUE, "--weights must be one column of numbers, not %s", source);
    OWNED bool *keep = calloc((size_t)(rows > 0 ? rows : 1), sizeof *keep);
    if (keep == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", rows);
    circe_status status = check_weights(source, weights, keep, &kept);
    if (status == CIRCE_OK && kept < least)
        status = circe_fail(CIRCE_ERR_VALUE,
                            "--weights %s: %" PRId64 " row%s a weight above 0; at least %" PRId64 " are needed", source,
                            kept, kept == 1 ? " has" : "s have", least);
    return status == CIRCE_OK ? inputs_keep(group, n, keep, kept) : status;
}

const double *input_weights(const input *in) { return in->values.rows > 0 ? in->values.data : NULL; }

void input_view(const input *from, input *to) {
    *to = (input){.of = from->of, .holdout = from->holdout, .described = from->described, .values = from->values};
}

/* ---- sizes before reading ---------------------------------------------------------------------------------------- */

static circe_status shape_of(const input_options *options, variable of, io_shape *shape) {
    const char *data = options->data, *source = options->of[of].source;
    if (data == NULL) return io_read_shape(source, options->of[of].columns, options->reading.format, shape);
    if (!has_arrays(options, data)) return io_read_shape(data, source, options->reading.format, shape);
    OWNED char *array = small_format("%s:%s", data, source);
    return io_read_shape(array, NULL, options->reading.format, shape);
}

circe_status inputs_foresee(const input_options *options, const circe_context *context, const variable *variables,
                            int n, int64_t *rows) {
    double bytes = 0;
    *rows = options->table != NULL ? circe_table_rows(options->table) : -1;
    for (int k = 0; k < n && options->table == NULL; k++) {
        io_shape shape;
        /* The reader of the file reports what is wrong with it. */
        if (shape_of(options, variables[k], &shape) != CIRCE_OK) return CIRCE_OK;
        bytes += shape.bytes;
        if (k == 0 || shape.rows < *rows) *rows = shape.rows;
    }
    double available = circe_context_memory(context);
    if (bytes <= available) return CIRCE_OK;
    if (*rows >= 0)
        circe_fail(CIRCE_ERR_MEMORY,
                   "these tables have about %" PRId64 " rows and need %.3g GB of memory; %.3g GB are available", *rows,
                   bytes / 1e9, available / 1e9);
    else
        circe_fail(CIRCE_ERR_MEMORY, "these tables need %.3g GB of memory; %.3g GB are available", bytes / 1e9,
                   available / 1e9);
    return circe_fail_hint(CIRCE_ERR_MEMORY, "select fewer columns, or give arrays of float32");
}

bool input_has_text(const input *in) {
    for (int64_t j = 0; in->described->categorical != NULL && j < in->values.cols; j++) {
        if (in->described->categorical[j]) return true;
    }
    return false;
}

static int64_t category_code(char *const *categories, const char *text) {
    int64_t code = 0;
    while (categories[code] != NULL && strcmp(categories[code], text) != 0) code++;
    return code;
}

static int64_t count_categories(char *const *categories) {
    int64_t n = 0;
    while (categories[n] != NULL) n++;
    return n;
}

int64_t input_n_categories(const input *in, int64_t column) {
    const io_table *table = in->described;
    bool text = table->categorical != NULL && table->categorical[column];
    return text ? count_categories(table->categories[column]) : 0;
}

/* Column j of the target: texts of the reference keep its codes, others get codes after them. */
static void align_column(const io_table *reference, io_table *target, int64_t j) {
    int64_t known = count_categories(reference->categories[j]), n = count_categories(target->categories[j]);
    OWNED double *codes = small_alloc((size_t)n * sizeof *codes);
    int64_t next = known;
    for (int64_t c = 0; c < n; c++) {
        int64_t code = category_code(reference->categories[j], target->categories[j][c]);
        codes[c] = (double)(code < known ? code : next++);
    }
    circe_mat *m = &target->values;
    for (int64_t i = 0; i < m->rows; i++) {
        double old = circe__at(m, i, j);
        if (!(old >= 0 && old < (double)n)) continue; /* missing */
        circe__set(m, i, j, codes[(int64_t)old]);
    }
}

circe_status input_align(const input *reference, input *target) {
    const io_table *a = &reference->table, *b = &target->table;
    if (reference->values.cols != target->values.cols)
        return circe_fail(CIRCE_ERR_VALUE, "%s has %" PRId64 " columns but %s has %" PRId64, input_source(target),
                          target->values.cols, input_source(reference), reference->values.cols);
    for (int64_t j = 0; j < target->values.cols; j++) {
        bool text_a = a->categorical != NULL && a->categorical[j], text_b = b->categorical != NULL && b->categorical[j];
        if (text_a != text_b)
            return circe_fail(CIRCE_ERR_VALUE,
                              "column %" PRId64
                              " is %s in %s but %s in %s; use --categories for columns of numbers that are categories",
                              j, text_a ? "categories" : "numbers", input_source(reference),
                              text_b ? "categories" : "numbers", input_source(target));
        if (text_a) align_column(a, &target->table, j);
    }
    return CIRCE_OK;
}

/* Refuses a category of the target, which is aligned, that the reference lacks. */
static circe_status refuse_new(const input *reference, const input *target, int64_t j) {
    char *const *known = reference->table.categories[j];
    int64_t n = count_categories(known);
    for (int64_t i = 0; i < target->values.rows; i++) {
        double value = circe__at(&target->values, i, j);
        if (!(value >= (double)n)) continue;
        int64_t place = (int64_t)value - n;
        char **text = target->table.categories[j];
        for (; category_code(known, *text) < n || place-- > 0;) text++;
        circe_fail(CIRCE_ERR_VALUE, "%s: column '%s' contains '%s', which the fit on %s has not seen",
                   input_source(target),
                   target->table.names != NULL ? target->table.names[j] : variable_label(target->of), *text,
                   input_source(reference));
        return circe_fail_hint(CIRCE_ERR_VALUE, "fit on rows that contain it, or leave such rows out");
    }
    return CIRCE_OK;
}

circe_status input_align_to_fit(const input *reference, input *target) {
    const bool *categorical = reference->table.categorical;
    circe_status status = input_align(reference, target);
    for (int64_t j = 0; status == CIRCE_OK && categorical != NULL && j < target->values.cols; j++)
        if (categorical[j]) status = refuse_new(reference, target, j);
    return status;
}

circe_status input_take_rows(const input *from, const int64_t *index, int64_t n, input *to) {
    const circe_mat *m = &from->values;
    size_t row_bytes = (size_t)m->cols * circe_dtype_size(m->dtype);
    *to = (input){.of = from->of, .holdout = from->holdout, .described = from->described};
    to->owned = malloc((size_t)n * row_bytes);
    if (to->owned == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows of %s", n, variable_label(from->of));
    for (int64_t i = 0; i < n; i++) {
        const char *row = (const char *)m->data + (size_t)(index[i] * m->ld) * circe_dtype_size(m->dtype);
        memcpy((char *)to->owned + (size_t)i * row_bytes, row, row_bytes);
    }
    to->values = (circe_mat){to->owned, n, m->cols, m->cols, m->dtype};
    return CIRCE_OK;
}

/* Room for other values of as many rows and columns. */
static circe_status make_room(const input *in, circe_dtype dtype, circe_mat *out) {
    const circe_mat *m = &in->values;
    *out = (circe_mat){malloc((size_t)(m->rows * m->cols) * circe_dtype_size(dtype)), m->rows, m->cols, m->cols, dtype};
    if (out->data != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows of %s", m->rows, variable_label(in->of));
}

static void take_values(input *in, const circe_mat *values) {
    free(in->owned);
    in->owned = values->data;
    in->values = *values;
}

circe_status input_convert(input *in, circe_dtype dtype) {
    circe_mat out;
    if (in->values.dtype == dtype) return CIRCE_OK;
    circe_status status = make_room(in, dtype, &out);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < out.rows; i++) {
        for (int64_t j = 0; j < out.cols; j++) {
            double value = circe__at(&in->values, i, j);
            circe__set(&out, i, j, value);
            if (isfinite(circe__at(&out, i, j)) || dtype != CIRCE_FLOAT32) continue;
            char place[256];
            describe_place(in, i, j, place, sizeof place);
            free(out.data);
            return circe_fail(CIRCE_ERR_VALUE, "%s: %s is %g, too large for --dtype float32", input_source(in), place,
                              value);
        }
    }
    take_values(in, &out);
    return CIRCE_OK;
}

static bool is_category(const input *in, int64_t j) {
    return in->described->categorical != NULL && in->described->categorical[j];
}

circe_status input_transform(circe_context *context, input *in, circe_transform transform) {
    circe_mat out;
    circe_status status = make_room(in, CIRCE_FLOAT64, &out);
    if (status != CIRCE_OK) return status;
    OWNED unsigned char *keep = small_alloc((size_t)out.cols);
    for (int64_t j = 0; j < out.cols; j++) keep[j] = is_category(in, j);
    status = circe_transform_columns(context, &in->values, transform, keep, &out);
    take_values(in, &out);
    return status;
}

static double largest_number(const input *in) {
    double largest = 0;
    for (int64_t i = 0; i < in->values.rows; i++) {
        for (int64_t j = 0; j < in->values.cols; j++) {
            if (!is_category(in, j)) largest = fmax(largest, fabs(circe__at(&in->values, i, j)));
        }
    }
    return largest;
}

circe_status input_scale(input *in, circe_dtype dtype, double *largest, int *exponent) {
    const double safe = dtype == CIRCE_FLOAT32 ? 1e15 : 1e140;
    circe_mat out;
    *largest = largest_number(in);
    *exponent = 0;
    if (*largest == 0 || (*largest<safe && * largest> 1 / safe)) return CIRCE_OK;
    circe_status status = make_room(in, CIRCE_FLOAT64, &out);
    if (status != CIRCE_OK) return status;
    *exponent = ilogb(*largest);
    for (int64_t i = 0; i < out.rows; i++)
        for (int64_t j = 0; j < out.cols; j++)
            circe__set(&out, i, j, ldexp(circe__at(&in->values, i, j), is_category(in, j) ? 0 : -*exponent));
    take_values(in, &out);
    return CIRCE_OK;
}

bool input_is_constant(const input *in) {
    const circe_mat *m = &in->values;
    for (int64_t i = 1; i < m->rows; i++) {
        for (int64_t j = 0; j < m->cols; j++) {
            if (circe__at(m, i, j) != circe__at(m, 0, j)) return false;
        }
    }
    return true;
}
