/* JSON through cJSON, with numbers of our own formatting, and aligned text. */
#include "cli/common/output.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/kernels.h"

void json_notes(cJSON *object, const notes *warnings) {
    cJSON *array = cJSON_AddArrayToObject(object, "warnings");
    for (size_t i = 0; i < warnings->n; i++) cJSON_AddItemToArray(array, cJSON_CreateString(warnings->text[i]));
}

void json_kernel(cJSON *object, const char *label, const circe_kernel *kernel) {
    char name[32];
    double widths[64];
    int64_t n = kernel_widths(kernel, widths, 64);
    snprintf(name, sizeof name, "kernel_%s", label);
    cJSON_AddStringToObject(object, name, circe_kernel_text(kernel));
    snprintf(name, sizeof name, "sigma2_%s", label);
    if (n > 1)
        json_numbers(object, name, widths, n);
    else
        json_number(object, name, n == 1 ? widths[0] : NAN);
}

/* Without a free width there is no grid: the one row of the table is the kernel's own width, if it has a single one. */
static double fixed_width(const circe_cme *cme) {
    double widths[2];
    return kernel_widths(circe_cme_kernel_y(cme), widths, 2) == 1 ? widths[0] : NAN;
}

void json_loo(cJSON *object, const circe_cme *cme) {
    circe_cme_info info;
    circe_loo_table loo;
    circe_cme_get_info(cme, &info);
    circe_cme_get_loo(cme, &loo);
    cJSON *table = cJSON_AddObjectToObject(object, "loo");
    double fixed = fixed_width(cme);
    bool grid = loo.sigma2_y != NULL;
    json_numbers(table, "sigma2_y", grid ? loo.sigma2_y : &fixed, grid ? loo.n_sigma2_y : 1);
    json_numbers(table, "ridge", loo.ridge, loo.n_ridge);
    json_table(table, "error", loo.error, loo.n_sigma2_y, loo.n_ridge);
    json_table(table, "ridge_used", loo.ridge_used, loo.n_sigma2_y, loo.n_ridge);
    cJSON *best = cJSON_AddObjectToObject(table, "best");
    json_number(best, "sigma2_y", grid ? info.sigma2_y : fixed);
    json_number(best, "ridge", info.ridge);
    json_number(best, "error", info.loo_error);
}

int json_print(cJSON *object) {
    char *text = json_utf8(object, true);
    cJSON_Delete(object);
    if (text == NULL) return message_fail(EXIT_WORK, "out of memory for the JSON output");
    puts(text);
    free(text);
    return EXIT_DONE;
}

void text_row(const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("  %-18s  ", name);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

const char *text_kernel(const circe_kernel *kernel, char *out, size_t size) {
    return text_widths(circe_kernel_text(kernel), out, size);
}

const char *text_widths(const char *text, char *out, size_t size) {
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
