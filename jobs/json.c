/* JSON through cJSON, with numbers of our own formatting. */
#include "jobs/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jobs/kernel_choice.h"

void json_notes(cJSON *object, const circe_notes *warnings) {
    json_words(object, "warnings", (const char *const *)warnings->text, (int64_t)warnings->n);
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

void circe_text_free(char *text) { free(text); }

char *json_text(cJSON *object) {
    char *text = json_utf8(object, true);
    cJSON_Delete(object);
    if (text == NULL) circe_fail(CIRCE_ERR_MEMORY, "out of memory for the JSON output");
    return text;
}
