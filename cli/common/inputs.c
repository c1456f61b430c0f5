/* Reading and checking of x, y and z. */
#include "cli/common/inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/reading.h"

const variable variable_x = {"x", OPT_X, OPT_COLUMNS_X, OPT_KERNEL_X, OPT_SIGMA2_X};
const variable variable_y = {"y", OPT_Y, OPT_COLUMNS_Y, OPT_KERNEL_Y, OPT_SIGMA2_Y};
const variable variable_z = {"z", OPT_Z, OPT_COLUMNS_Z, OPT_KERNEL_Z, OPT_SIGMA2_Z};

static bool ends_with(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

/* The columns or the array `selection` of one file for everything. */
static int read_selection(const args *arguments, const variable *of, const char *path, const char *selection,
                          input *out) {
    if (!ends_with(path, ".npz") && !ends_with(path, ".safetensors"))
        return input_read_from(arguments, of, path, selection, out);
    char *source = small_format("%s:%s", path, selection);
    int status = input_read_from(arguments, of, source, NULL, out);
    free(source);
    return status;
}

int input_read_from(const args *arguments, const variable *of, const char *path, const char *columns, input *out) {
    reading r;
    int status = reading_open(arguments, of, &r);
    if (status == EXIT_DONE) {
        circe_status read = io_read_as(path, columns, &r.how, &out->table);
        if (read != CIRCE_OK) status = message_read(read, path, circe_last_error());
    }
    if (status == EXIT_DONE) {
        out->values = out->table.values;
        out->met = reading_met(arguments, &r);
    }
    reading_free(&r);
    return status;
}

int input_read(const args *arguments, const variable *of, bool holdout, input *out) {
    *out = (input){.of = of, .holdout = holdout, .described = &out->table};
    const char *data = args_text(arguments, holdout ? OPT_HOLDOUT_DATA : OPT_DATA);
    const char *selection = args_text(arguments, of->option);
    const char *path = selection;
    if (holdout && data == NULL) path = args_text(arguments, of == &variable_y ? OPT_HOLDOUT_Y : OPT_HOLDOUT_Z);
    if (args_given(arguments, OPT_DATA) && args_given(arguments, of->columns))
        return message_fail(EXIT_INPUT, "with --data, --%s names the columns itself: leave out --columns-%s", of->label,
                            of->label);
    return data != NULL ? read_selection(arguments, of, data, selection, out)
                        : input_read_from(arguments, of, path, args_text(arguments, of->columns), out);
}

void input_free(input *in) {
    io_table_free(&in->table);
    free(in->owned);
    free(in->met);
    *in = (input){0};
}

const char *input_source(const input *in) {
    return in->described->source != NULL ? in->described->source : in->of->label;
}

static double element(const circe_mat *m, int64_t i, int64_t j) {
    int64_t at = i * m->ld + j;
    return m->dtype == CIRCE_FLOAT32 ? (double)((const float *)m->data)[at] : ((const double *)m->data)[at];
}

/* "row 3, column 1" or "row 3, column 'age'"; rows and columns are counted from 0, as arrays are indexed. */
static void describe_place(const input *in, int64_t row, int64_t col, char *out, size_t size) {
    if (in->described->names != NULL)
        snprintf(out, size, "row %" PRId64 ", column '%s'", row, in->described->names[col]);
    else
        snprintf(out, size, "row %" PRId64 ", column %" PRId64, row, col);
}

static int refuse_missing(const input *in, int64_t row, int64_t col) {
    char place[256];
    describe_place(in, row, col, place, sizeof place);
    const char *source = input_source(in);
    if (in->table.first_missing != NULL)
        message_note("%s: %s is missing (%" PRId64 " of %" PRId64 " rows have missing cells)", source,
                     in->table.first_missing, in->table.n_missing, in->values.rows);
    else
        message_note("%s: %s is NaN", source, place);
    message_hint(
        "--missing drop leaves such rows out of all variables together; empty cells, ?, NA, N/A, NaN and null are "
        "missing, and what --na adds");
    return EXIT_INPUT;
}

/* Clears keep[i] for rows with a missing cell. */
static int scan(const input *in, bool drop, bool *keep) {
    const circe_mat *m = &in->values;
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->cols; j++) {
            double value = element(m, i, j);
            if (isfinite(value)) continue;
            if (isinf(value)) {
                char place[256];
                describe_place(in, i, j, place, sizeof place);
                return message_fail(EXIT_INPUT, "%s: %s is infinite; every value must be a finite number",
                                    input_source(in), place);
            }
            if (!drop) return refuse_missing(in, i, j);
            keep[i] = false;
        }
    }
    return EXIT_DONE;
}

static int check_rows_agree(input *const *group, int n) {
    for (int k = 1; k < n; k++) {
        if (group[k]->values.rows == group[0]->values.rows) continue;
        message_note("%s%s (%s) has %" PRId64 " rows but %s%s (%s) has %" PRId64, group[0]->holdout ? "holdout " : "",
                     group[0]->of->label, input_source(group[0]), group[0]->values.rows,
                     group[k]->holdout ? "holdout " : "", group[k]->of->label, input_source(group[k]),
                     group[k]->values.rows);
        message_hint("row i of each file must describe the same point");
        return EXIT_INPUT;
    }
    return EXIT_DONE;
}

static int drop_rows(input *const *group, int n, const bool *keep, int64_t kept) {
    if (kept == group[0]->values.rows) return EXIT_DONE;
    for (int k = 0; k < n; k++) {
        circe_status status = io_table_keep_rows(&group[k]->table, keep);
        if (status != CIRCE_OK) return message_read(status, input_source(group[k]), circe_last_error());
        group[k]->values = group[k]->table.values;
    }
    return EXIT_DONE;
}

int inputs_check(const args *arguments, input *const *group, int n, int64_t least, int64_t *dropped) {
    bool drop = args_choice(arguments, OPT_MISSING) == spec_word_index(spec_options[OPT_MISSING].words, "drop");
    int status = check_rows_agree(group, n);
    if (status != EXIT_DONE) return status;
    int64_t rows = group[0]->values.rows, kept = 0;
    bool *keep = malloc((size_t)(rows > 0 ? rows : 1) * sizeof *keep);
    if (keep == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", rows);
    for (int64_t i = 0; i < rows; i++) keep[i] = true;
    for (int k = 0; k < n && status == EXIT_DONE; k++) status = scan(group[k], drop, keep);
    for (int64_t i = 0; i < rows; i++) kept += keep[i];
    if (status == EXIT_DONE) status = drop_rows(group, n, keep, kept);
    free(keep);
    *dropped = rows - kept;
    if (status == EXIT_DONE && kept < least) {
        message_note("%s has %" PRId64 " row%s%s; at least %" PRId64 " are needed", input_source(group[0]), kept,
                     kept == 1 ? "" : "s", kept < rows ? " without missing cells" : "", least);
        status = EXIT_INPUT;
    }
    return status;
}

/* ---- fewer rows ----------------------------------------------------------------------------------------------------
 */

int rows_wanted(const args *arguments, int64_t *rows) {
    const args_value *value = &arguments->values[OPT_ROWS];
    *rows = value->n_numbers == 0 ? ALL_ROWS : (int64_t)fmin(value->numbers[0], 9e15);
    if (!value->given) *rows = 0;
    if (!value->given || value->n_numbers == 0 || value->numbers[0] == (double)*rows) return EXIT_DONE;
    return message_fail(EXIT_INPUT, "--rows must be a whole number of rows, or all, not %s", value->text);
}

int inputs_sample(const args *arguments, input *const *group, int n, int64_t rows, int64_t least) {
    const uint64_t stream = 0x726f7773u; /* "rows" */
    int64_t all = group[0]->values.rows;
    if (rows < least)
        return message_fail(EXIT_INPUT, "--rows %" PRId64 " is too few; at least %" PRId64 " rows are needed", rows,
                            least);
    if (rows >= all) return EXIT_DONE;
    int64_t *chosen = malloc((size_t)rows * sizeof *chosen);
    bool *keep = calloc((size_t)all, sizeof *keep);
    int status = EXIT_DONE;
    if (chosen == NULL || keep == NULL) {
        status = message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", all);
    } else {
        circe_random_subset((circe_random){(uint64_t)args_integer(arguments, OPT_SEED), stream}, all, rows, chosen);
        for (int64_t i = 0; i < rows; i++) keep[chosen[i]] = true;
        status = drop_rows(group, n, keep, rows);
    }
    free(chosen);
    free(keep);
    return status;
}

void input_view(const input *from, input *to) {
    *to = (input){.of = from->of, .holdout = from->holdout, .described = from->described, .values = from->values};
}

/* ---- sizes before reading ------------------------------------------------------------------------------------------
 */

static circe_status shape_of(const args *arguments, const variable *of, io_shape *shape) {
    const char *data = args_text(arguments, OPT_DATA), *selection = args_text(arguments, of->option);
    if (data == NULL) return io_read_shape(selection, args_text(arguments, of->columns), shape);
    if (!ends_with(data, ".npz") && !ends_with(data, ".safetensors")) return io_read_shape(data, selection, shape);
    char *source = small_format("%s:%s", data, selection);
    circe_status status = io_read_shape(source, NULL, shape);
    free(source);
    return status;
}

int inputs_foresee(const args *arguments, const circe_context *context, const variable *const *variables, int n,
                   int64_t *rows) {
    double bytes = 0;
    *rows = -1;
    for (int k = 0; k < n; k++) {
        io_shape shape;
        /* What is wrong with a file is for its reader to say. */
        if (shape_of(arguments, variables[k], &shape) != CIRCE_OK) return EXIT_DONE;
        bytes += shape.bytes;
        if (k == 0 || shape.rows < *rows) *rows = shape.rows;
    }
    double available = circe_context_memory(context);
    if (bytes <= available) return EXIT_DONE;
    if (*rows >= 0)
        message_note("these tables have about %" PRId64 " rows and need %.3g GB of memory; %.3g GB are available",
                     *rows, bytes / 1e9, available / 1e9);
    else
        message_note("these tables need %.3g GB of memory; %.3g GB are available", bytes / 1e9, available / 1e9);
    message_hint("select fewer columns, or give arrays of float32");
    return EXIT_WORK;
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
    double *codes = small_alloc((size_t)n * sizeof *codes);
    int64_t next = known;
    for (int64_t c = 0; c < n; c++) {
        int64_t code = category_code(reference->categories[j], target->categories[j][c]);
        codes[c] = (double)(code < known ? code : next++);
    }
    circe_mat *m = &target->values;
    for (int64_t i = 0; i < m->rows; i++) {
        double old = element(m, i, j);
        if (!(old >= 0 && old < (double)n)) continue; /* missing */
        if (m->dtype == CIRCE_FLOAT32)
            ((float *)m->data)[i * m->ld + j] = (float)codes[(int64_t)old];
        else
            ((double *)m->data)[i * m->ld + j] = codes[(int64_t)old];
    }
    free(codes);
}

int input_align(const input *reference, input *target) {
    const io_table *a = &reference->table, *b = &target->table;
    if (reference->values.cols != target->values.cols)
        return message_fail(EXIT_INPUT, "%s has %" PRId64 " columns but %s has %" PRId64, input_source(target),
                            target->values.cols, input_source(reference), reference->values.cols);
    for (int64_t j = 0; j < target->values.cols; j++) {
        bool text_a = a->categorical != NULL && a->categorical[j], text_b = b->categorical != NULL && b->categorical[j];
        if (text_a != text_b)
            return message_fail(EXIT_INPUT,
                                "column %" PRId64
                                " is %s in %s but %s in %s; --categories names columns of numbers that "
                                "are categories",
                                j, text_a ? "categories" : "numbers", input_source(reference),
                                text_b ? "categories" : "numbers", input_source(target));
        if (text_a) align_column(a, &target->table, j);
    }
    return EXIT_DONE;
}

int input_take_rows(const input *from, const int64_t *index, int64_t n, input *to) {
    const circe_mat *m = &from->values;
    size_t row_bytes = (size_t)m->cols * circe_dtype_size(m->dtype);
    *to = (input){.of = from->of, .holdout = from->holdout, .described = from->described};
    to->owned = malloc((size_t)n * row_bytes);
    if (to->owned == NULL)
        return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows of %s", n, from->of->label);
    for (int64_t i = 0; i < n; i++) {
        const char *row = (const char *)m->data + (size_t)(index[i] * m->ld) * circe_dtype_size(m->dtype);
        memcpy((char *)to->owned + (size_t)i * row_bytes, row, row_bytes);
    }
    to->values = (circe_mat){to->owned, n, m->cols, m->cols, m->dtype};
    return EXIT_DONE;
}

int input_convert(input *in, circe_dtype dtype) {
    const circe_mat *m = &in->values;
    if (m->dtype == dtype) return EXIT_DONE;
    void *data = malloc((size_t)(m->rows * m->cols) * circe_dtype_size(dtype));
    if (data == NULL)
        return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows of %s", m->rows, in->of->label);
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->cols; j++) {
            double value = element(m, i, j);
            if (dtype == CIRCE_FLOAT32)
                ((float *)data)[i * m->cols + j] = (float)value;
            else
                ((double *)data)[i * m->cols + j] = value;
            if (dtype == CIRCE_FLOAT32 && !isfinite((double)(float)value)) {
                char place[256];
                describe_place(in, i, j, place, sizeof place);
                free(data);
                return message_fail(EXIT_INPUT, "%s: %s is %g, too large for --dtype float32", input_source(in), place,
                                    value);
            }
        }
    }
    free(in->owned);
    in->owned = data;
    in->values = (circe_mat){data, in->values.rows, in->values.cols, in->values.cols, dtype};
    return EXIT_DONE;
}

static bool is_category(const input *in, int64_t j) {
    return in->described->categorical != NULL && in->described->categorical[j];
}

int input_transform(circe_context *context, input *in, circe_transform transform) {
    const circe_mat m = in->values;
    double *data = malloc((size_t)(m.rows * m.cols) * sizeof *data);
    if (data == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows of %s", m.rows, in->of->label);
    unsigned char *keep = small_alloc((size_t)m.cols);
    for (int64_t j = 0; j < m.cols; j++) keep[j] = is_category(in, j);
    circe_mat out = circe_mat_f64(data, m.rows, m.cols);
    circe_status status = circe_transform_columns(context, &m, transform, keep, &out);
    free(keep);
    free(in->owned);
    in->owned = data;
    in->values = out;
    return status == CIRCE_OK ? EXIT_DONE : message_library(status, input_source(in));
}

static double largest_number(const input *in) {
    double largest = 0;
    for (int64_t i = 0; i < in->values.rows; i++) {
        for (int64_t j = 0; j < in->values.cols; j++) {
            if (!is_category(in, j)) largest = fmax(largest, fabs(element(&in->values, i, j)));
        }
    }
    return largest;
}

int input_scale(input *in, circe_dtype dtype, notes *warnings) {
    const double safe = dtype == CIRCE_FLOAT32 ? 1e15 : 1e140;
    const circe_mat m = in->values;
    double largest = largest_number(in);
    if (largest == 0 || (largest < safe && largest > 1 / safe)) return EXIT_DONE;
    int exponent = ilogb(largest);
    double *data = malloc((size_t)(m.rows * m.cols) * sizeof *data);
    if (data == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows of %s", m.rows, in->of->label);
    for (int64_t i = 0; i < m.rows; i++) {
        for (int64_t j = 0; j < m.cols; j++)
            data[i * m.cols + j] = ldexp(element(&m, i, j), is_category(in, j) ? 0 : -exponent);
    }
    free(in->owned);
    in->owned = data;
    in->values = circe_mat_f64(data, m.rows, m.cols);
    notes_add(warnings,
              "%s (%s) reaches %.3g, whose square is beyond %s: it was divided by 2^%d, and its width is in that unit",
              in->of->label, input_source(in), largest, dtype == CIRCE_FLOAT32 ? "float32" : "any double", exponent);
    return EXIT_DONE;
}

bool input_is_constant(const input *in) {
    const circe_mat *m = &in->values;
    for (int64_t i = 1; i < m->rows; i++) {
        for (int64_t j = 0; j < m->cols; j++) {
            if (element(m, i, j) != element(m, 0, j)) return false;
        }
    }
    return true;
}
