/* Kernel options: names of columns become indices, text columns get delta kernels, widths are bound. */
#include "cli/common/kernels.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/nearest.h"

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

static int refuse_column(const input *in, const char *columns, size_t length) {
    const io_table *table = in->described;
    char *text = small_format("%.*s", (int)length, columns);
    const char *nearest = NULL;
    if (table->names != NULL) nearest = io_nearest(text, (const char *const *)table->names, (size_t)table->values.cols);
    message_note("--kernel-%s: %s has no column '%s'%s", in->of->label, input_source(in), text,
                 table->names == NULL ? "; its columns have no names, count them from 0" : "");
    if (nearest != NULL) message_hint("did you mean '%s'?", nearest);
    free(text);
    return EXIT_INPUT;
}

/* "age:gaussian*sex:delta" becomes "0:gaussian*2:delta". */
static int resolve_names(const input *in, const char *text, char **resolved) {
    size_t bytes = 0;
    FILE *out = open_memstream(resolved, &bytes);
    if (out == NULL) return message_fail(EXIT_WORK, "out of memory");
    int status = EXIT_DONE;
    for (const char *factor = text; factor != NULL && status == EXIT_DONE;) {
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

/* One gaussian over each run of numeric columns, delta over each run of text columns. */
static char *default_kernel(const input *in) {
    if (!input_has_text(in)) return small_format("gaussian");
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("delta");
    const bool *categorical = in->described->categorical;
    for (int64_t first = 0, end; first < in->values.cols; first = end) {
        for (end = first + 1; end < in->values.cols && categorical[end] == categorical[first];) end++;
        fprintf(out, "%s%" PRId64 "-%" PRId64 ":%s", first > 0 ? "*" : "", first, end - 1,
                categorical[first] ? "delta" : "gaussian");
    }
    fclose(out);
    return text;
}

static int parse_kernel(circe_context *context, const args *arguments, const input *in, circe_kernel **kernel) {
    const char *asked = args_text(arguments, in->of->kernel);
    char *text = NULL;
    int status = EXIT_DONE;
    if (asked != NULL)
        status = resolve_names(in, asked, &text);
    else
        text = default_kernel(in);
    if (status == EXIT_DONE) {
        circe_status parsed = circe_kernel_parse(context, text, kernel);
        if (parsed != CIRCE_OK) {
            char *subject = small_format("--kernel-%s %s", in->of->label, asked != NULL ? asked : text);
            status = message_library(parsed, subject);
            free(subject);
        }
    }
    free(text);
    return status;
}

static int refuse_constant(const input *in) {
    message_note("%s: %s is constant (all %" PRId64 " rows are equal), so the median heuristic has no width to offer",
                 input_source(in), in->of->label, in->values.rows);
    message_hint("give a width with --sigma2-%s; or is it the wrong file or column?", in->of->label);
    return EXIT_INPUT;
}

static int bind_median(const input *in, circe_kernel *kernel) {
    if (input_is_constant(in)) return refuse_constant(in);
    circe_status status = circe_kernel_bind_median(kernel, &in->values);
    if (status == CIRCE_OK) return EXIT_DONE;
    int failed = message_library(status, input_source(in));
    if (status == CIRCE_ERR_VALUE && strstr(circe_last_error(), "equal") != NULL)
        message_hint("give a width with --sigma2-%s, or leave out the constant columns", in->of->label);
    return failed;
}

/* A width that is given is used; where no two rows are near under it, or all are, that is said. */
static void note_width(circe_context *context, const input *in, double sigma2, notes *warnings) {
    const double far = 1e6;
    double median = 0;
    if (input_is_constant(in)) return;
    circe_status status = circe_median_sigma2(context, &in->values, 0, -1, &median);
    if (status == CIRCE_OK && median < far * sigma2 && median > sigma2 / far) return;
    if (status == CIRCE_OK)
        notes_add(
            warnings,
            "--sigma2-%s %g is far from the squared distances in %s, whose median is %g: the kernel sees every two "
            "rows as %s",
            in->of->label, sigma2, input_source(in), median, median > sigma2 ? "strangers" : "equal");
    else
        notes_add(warnings, "--sigma2-%s %g is far from the squared distances in %s: %s", in->of->label, sigma2,
                  input_source(in), circe_last_error());
}

static int bind_widths(circe_context *context, const args *arguments, const input *in, width_rule rule, notes *warnings,
                       circe_kernel *kernel) {
    const args_value *sigma2 = &arguments->values[in->of->sigma2];
    if (rule == WIDTH_FREE) return EXIT_DONE;
    if (circe_kernel_n_free(kernel) == 0) {
        if (sigma2->given)
            notes_add(warnings, "--sigma2-%s was ignored: the kernel of %s, %s, has no width left to set",
                      in->of->label, in->of->label, circe_kernel_text(kernel));
        return EXIT_DONE;
    }
    if (rule == WIDTH_GRID && sigma2->n_numbers > 0) return EXIT_DONE;
    if (sigma2->n_numbers != 1) return bind_median(in, kernel);
    circe_status status = circe_kernel_bind(kernel, sigma2->numbers[0]);
    if (status == CIRCE_OK) note_width(context, in, sigma2->numbers[0], warnings);
    return status == CIRCE_OK ? EXIT_DONE : message_library(status, NULL);
}

int kernel_from_options(circe_context *context, const args *arguments, const input *in, width_rule rule,
                        notes *warnings, circe_kernel **kernel) {
    *kernel = NULL;
    int status = parse_kernel(context, arguments, in, kernel);
    if (status == EXIT_DONE) status = bind_widths(context, arguments, in, rule, warnings, *kernel);
    if (status != EXIT_DONE) {
        circe_kernel_destroy(*kernel);
        *kernel = NULL;
    }
    return status;
}

int kernel_linear(circe_context *context, circe_kernel **kernel) {
    circe_status status = circe_kernel_create(context, CIRCE_KERNEL_LINEAR, 0, kernel);
    return status == CIRCE_OK ? EXIT_DONE : message_library(status, NULL);
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
