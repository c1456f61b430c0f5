/* JSON through cJSON, with numbers of our own formatting, and aligned text. */
#include "cli/common/output.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/common/terminal.h"
#include "jobs/kernel_choice.h"

int output_json(char *text) {
    if (text == NULL) return message_refused(CIRCE_ERR_MEMORY);
    terminal_unfolded();
    puts(text);
    circe_text_free(text);
    return EXIT_DONE;
}

int json_print(cJSON *object) { return output_json(json_text(object)); }

void text_row(const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("  %-18s  ", name);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

static void text_column(const circe_column *c) {
    char missing[64] = "";
    const char *of = c->variable != NULL ? c->variable : "", *column = c->variable != NULL ? ", column " : "column ";
    if (c->missing > 0)
        snprintf(missing, sizeof missing, "%s%" PRId64 " missing", c->categories > 0 ? "; " : ", ", c->missing);
    if (c->categories > 0)
        text_row("read as", "%s%s%s: %" PRId64 " categories, since %s%s", of, column, c->name, c->categories,
                 columns_because(c), missing);
    else
        text_row("read as", "%s%s%s: numbers%s", of, column, c->name, missing);
}

void text_columns(const circe_columns *columns) {
    for (size_t i = 0; i < columns->n; i++) text_column(&columns->column[i]);
}

const char *text_kernel(const circe_kernel *kernel, char *out, size_t size) {
    return kernel_short_text(circe_kernel_text(kernel), out, size);
}

void text_loo(const circe_loo_table *table) {
    printf("  %14s", "sigma2_y\\ridge");
    for (int64_t j = 0; j < table->n_ridge; j++) printf("  %10.4g ", table->ridge[j]);
    putchar('\n');
    int64_t best = 0, cells = table->n_sigma2_y * table->n_ridge;
    for (int64_t c = 1; c < cells; c++) {
        if (table->error[c] < table->error[best]) best = c;
    }
    for (int64_t i = 0; i < table->n_sigma2_y; i++) {
        if (table->sigma2_y != NULL)
            printf("  %14.4g", table->sigma2_y[i]);
        else
            printf("  %14s", "fixed");
        for (int64_t j = 0; j < table->n_ridge; j++) {
            int64_t cell = i * table->n_ridge + j;
            printf("  %10.6g%c", table->error[cell], cell == best ? '*' : ' ');
        }
        putchar('\n');
    }
}

const char *text_seconds(double seconds, char *out, size_t size) {
    if (seconds < 1e-3)
        snprintf(out, size, "%.3g us", 1e6 * seconds);
    else if (seconds < 1)
        snprintf(out, size, "%.3g ms", 1e3 * seconds);
    else
        snprintf(out, size, "%.3g s", seconds);
    return out;
}
