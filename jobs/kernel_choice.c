/* Kernel options: names of columns become indices, text columns get delta kernels, widths are bound. */
#include "jobs/kernel_choice.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "io/suggest.h"

/* The index of the column called name[0..length), or -1. */
static int64_t find_column(const io_table *table, const char *name, size_t length) {
    for (int64_t j = 0; table->names != NULL && j < table->values.cols; j++) {
        if (strlen(table->names[j]) == length && memcmp(table->names[j], name, length) == 0) return j;
    }
    return -1;
}

static bool is_index_or_range(const char *text, size_t length) {
    bool digits = length > 0;
    for (size_t i = 0; i < length; i++) digits = digits && (isdigit((unsigned char)text[i]) || text[i] == '-');
    return digits;
}

/* Writes columns[0..length) as the library reads them: an index, or a range of indices. */
static bool resolve_columns(FILE *out, const io_table *table, const char *columns, size_t length) {
    int64_t single = find_column(table, columns, length);
    if (single >= 0) return fprintf(out, "%" PRId64 ":", single) > 0;
    for (size_t i = 1; i + 1 < length; i++) {
        if (columns[i] != '-') continue;
        int64_t first = find_column(table, columns, i), last = find_column(table, columns + i + 1, length - i - 1);
        if (first >= 0 && last >= first) return fprintf(out, "%" PRId64 "-%" PRId64 ":", first, last) > 0;
    }
    if (is_index_or_range(columns, length)) return fprintf(out, "%.*s:", (int)length, columns) > 0;
    return false;
}

static circe_status refuse_column(const input *in, const char *columns, size_t length) {
    const io_table *table = in->described;
    OWNED char *text = small_format("%.*s", (int)length, columns);
    const char *nearest = NULL;
    if (table->names != NULL)
        nearest = suggest_nearest(text, (const char *const *)table->names, (size_t)table->values.cols);
    circe_fail(CIRCE_ERR_ARGUMENT, "--kernel-%s: %s has no column '%s'%s", variable_label(in->of), input_source(in),
               text, table->names == NULL ? "; its columns have no names: use numbers from 0" : "");
    if (nearest != NULL) circe_fail_hint(CIRCE_ERR_ARGUMENT, "did you mean '%s'?", nearest);
    return CIRCE_ERR_ARGUMENT;
}

/* "age:gaussian*sex:delta" becomes "0:gaussian*2:delta". */
static circe_status resolve_names(const input *in, const char *text, char **resolved) {
    size_t bytes = 0;
    FILE *out = open_memstream(resolved, &bytes);
    if (out == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory");
    circe_status status = CIRCE_OK;
    for (const char *factor = text; factor != NULL && status == CIRCE_OK;) {
        size_t length = strcspn(factor, "*");
        const char *colon = memrchr(factor, ':', length);
        const char *name = colon != NULL ? colon + 1 : factor;
        if (colon != NULL && !resolve_columns(out, in->described, factor, (size_t)(colon - factor)))
            status = refuse_column(in, factor, (size_t)(colon - factor));
        fprintf(out, "%.*s", (int)(factor + length - name), name);
        factor = factor[length] == '*' ? factor + length + 1 : NULL;
        if (factor != NULL) fputc('*', out);
    }
    fclose(out);
    return status;
}

char *kernel_of_columns(const bool *categories, int64_t n, bool runs) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) abort(); /* as for every small allocation */
    for (int64_t first = 0, end; first < n; first = end) {
        for (end = first + 1; runs && end < n && categories[end] == categories[first];) end++;
        fprintf(out, "%s%" PRId64, first > 0 ? "*" : "", first);
        if (runs) fprintf(out, "-%" PRId64, end - 1);
        fprintf(out, ":%s", categories[first] ? "delta" : "gaussian");
    }
    fclose(out);
    return text;
}

static char *default_kernel(const input *in) {
    return input_has_text(in) ? kernel_of_columns(in->described->categorical, in->values.cols, true)
                              : small_format("gaussian");
}

static circe_status parse_kernel(circe_context *context, const char *asked, const input *in, circe_kernel **kernel) {
    OWNED char *text = NULL;
    circe_status status = CIRCE_OK;
    if (asked != NULL)
        status = resolve_names(in, asked, &text);
    else
        text = default_kernel(in);
    if (status == CIRCE_OK) {
        status = circe_kernel_parse(context, text, kernel);
        if (status != CIRCE_OK)
            circe_fail(status, "--kernel-%s %s: %s", variable_label(in->of), asked != NULL ? asked : text,
                       circe_last_error());
    }
    return status;
}

static circe_status refuse_constant(const input *in) {
    const char *label = variable_label(in->of);
    circe_fail(CIRCE_ERR_VALUE,
               "%s: %s is constant (all %" PRId64 " rows are equal), so the median heuristic finds no width",
               input_source(in), label, in->values.rows);
    return circe_fail_hint(CIRCE_ERR_VALUE, "give a width with --sigma2-%s; or is it the wrong file or column?", label);
}

static circe_status bind_median(const input *in, circe_kernel *kernel) {
    if (input_is_constant(in)) return refuse_constant(in);
    circe_status status = circe_kernel_bind_median(kernel, &in->values);
    if (status == CIRCE_OK) return CIRCE_OK;
    circe_fail(status, "%s: %s", input_source(in), circe_last_error());
    /* The only error about the data is a factor whose columns are all constant. */
    return status != CIRCE_ERR_VALUE
               ? status
               : circe_fail_hint(status, "give a width with --sigma2-%s, or leave out the constant columns",
                                 variable_label(in->of));
}

/* Of every so many rows; the median of all pairs of thousands takes longer than many a fit. */
static circe_status median_of(circe_context *context, const circe_mat *values, int64_t most, double *median) {
    int64_t step = (values->rows + most - 1) / most;
    circe_mat some = {values->data, (values->rows + step - 1) / step, values->cols, values->ld * step, values->dtype};
    return circe_median_sigma2(context, &some, 0, -1, median);
}

static bool is_near(double median, double sigma2) {
    const double far = 1e6;
    return median < far * sigma2 && median > sigma2 / far;
}

/* A width that is given is used; where no two rows are near under it, or all are, that is said. */
static void note_width(circe_context *context, const input *in, double sigma2, notes *warnings) {
    enum { ENOUGH = 256 }; /* rows, for an order of magnitude; all of them only where that is suspicious */
    double median = 0;
    if (input_is_constant(in)) return;
    circe_status status = median_of(context, &in->values, ENOUGH, &median);
    if (status == CIRCE_OK && is_near(median, sigma2)) return;
    status = circe_median_sigma2(context, &in->values, 0, -1, &median);
    if (status == CIRCE_OK && is_near(median, sigma2)) return;
    if (status == CIRCE_OK)
        notes_add(warnings,
                  "--sigma2-%s %g is far from the squared distances in %s, whose median is %g: to the kernel, all rows "
                  "are %s",
                  variable_label(in->of), sigma2, input_source(in), median, median > sigma2 ? "unrelated" : "equal");
    else
        notes_add(warnings, "--sigma2-%s %g is far from the squared distances in %s: %s", variable_label(in->of),
                  sigma2, input_source(in), circe_last_error());
}

static circe_status bind_widths(circe_context *context, const kernel_choice *choice, const input *in, width_rule rule,
                                notes *warnings, circe_kernel *kernel) {
    const char *label = variable_label(in->of);
    if (rule == WIDTH_FREE) return CIRCE_OK;
    if (circe_kernel_n_free(kernel) == 0) {
        if (choice->given)
            notes_add(warnings, "--sigma2-%s was ignored: the kernel of %s, %s, has no free width", label, label,
                      circe_kernel_text(kernel));
        return CIRCE_OK;
    }
    if (rule == WIDTH_GRID && (choice->n_sigma2 > 0 || choice->automatic)) return CIRCE_OK;
    if (choice->n_sigma2 != 1) return bind_median(in, kernel);
    circe_status status = circe_kernel_bind(kernel, choice->sigma2[0]);
    if (status == CIRCE_OK) note_width(context, in, choice->sigma2[0], warnings);
    return status;
}

/* Every kernel but delta reads the codes of categories, whose order means nothing. */
static void note_codes(const circe_kernel *kernel, const input *in, notes *warnings) {
    circe_kernel_factor factor;
    for (int64_t f = 0; f < circe_kernel_n_factors(kernel); f++) {
        if (circe_kernel_get_factor(kernel, f, &factor) != CIRCE_OK) return;
        int64_t end = factor.n_cols < 0 ? in->values.cols : factor.first_col + factor.n_cols;
        for (int64_t c = factor.first_col; factor.kind != CIRCE_KERNEL_DELTA && c < end; c++) {
            int64_t n = input_n_categories(in, c);
            if (n > 2)
                notes_add(warnings,
                          "--kernel-%s %s takes the %" PRId64 " categories of column %" PRId64
                          " of %s as the numbers 0, 1, 2, ..., in an order that means nothing; use delta there",
                          variable_label(in->of), circe_kernel_text(kernel), n, c, input_source(in));
        }
    }
}

circe_status kernel_make(circe_context *context, const kernel_choice *choice, const input *in, width_rule rule,
                         notes *warnings, circe_kernel **kernel) {
    *kernel = NULL;
    circe_status status = parse_kernel(context, choice->kernel, in, kernel);
    if (status == CIRCE_OK) note_codes(*kernel, in, warnings);
    if (status == CIRCE_OK) status = bind_widths(context, choice, in, rule, warnings, *kernel);
    if (status != CIRCE_OK) {
        circe_kernel_destroy(*kernel);
        *kernel = NULL;
    }
    return status;
}

bool kernel_is_linear(const circe_kernel *kernel, int64_t cols) {
    circe_kernel_factor factor;
    return circe_kernel_n_factors(kernel) == 1 && circe_kernel_get_factor(kernel, 0, &factor) == CIRCE_OK &&
           factor.kind == CIRCE_KERNEL_LINEAR && factor.first_col == 0 && (factor.n_cols < 0 || factor.n_cols == cols);
}

int64_t kernel_widths(const circe_kernel *kernel, double *widths, int64_t limit) {
    int64_t n = 0;
    for (int64_t i = 0; i < circe_kernel_n_factors(kernel) && n < limit; i++) {
        circe_kernel_factor factor;
        if (circe_kernel_get_factor(kernel, i, &factor) == CIRCE_OK && factor.sigma2 > 0) widths[n++] = factor.sigma2;
    }
    return n;
}

const char *kernel_short_text(const char *text, char *out, size_t size) {
    size_t at = 0;
    while (*text != '\0' && at + 32 < size) {
        char *end = NULL;
        double width = *text == '(' ? strtod(text + 1, &end) : 0;
        if (end != NULL && *end == ')') {
            at += (size_t)snprintf(out + at, size - at, "(%.5g", width);
            text = end;
        } else {
            out[at++] = *text++;
        }
    }
    out[at] = '\0';
    return out;
}
