/* A result for programs and for people. */
#include "cli/test/test_output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/common/output.h"
#include "cli/common/text.h"
#include "cli/test/tests.h"

static const double least_p = 1e-12; /* of formulas */

const char *test_p_text(double p, char *out, size_t size) {
    if (p >= 0.001)
        snprintf(out, size, "%.3g", p);
    else if (p > 1.001 * least_p)
        snprintf(out, size, "%.1e", p);
    else
        snprintf(out, size, "<1e-12");
    return out;
}

const char *test_p_equals(double p, char *out, size_t size) {
    char text[32];
    test_p_text(p, text, sizeof text);
    snprintf(out, size, "%s %s", text[0] == '<' ? "<" : "=", text[0] == '<' ? text + 1 : text);
    return out;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_regression(cJSON *out, const char *name, const circe_test_regression *r) {
    if (!r->used) {
        cJSON_AddNullToObject(out, name);
        return;
    }
    cJSON *object = cJSON_AddObjectToObject(out, name);
    json_number(object, "sigma2_multiple", r->sigma2_multiple);
    json_number(object, "ridge_chosen", r->ridge_chosen);
    json_number(object, "ridge", r->ridge);
    json_number(object, "loo_error", r->loo_error);
    json_number(object, "degrees", r->degrees);
    json_integer(object, "rows", r->rows);
    json_integer(object, "rank", r->rank);
    json_number(object, "left_out", r->left_out);
    json_number(object, "remaining", r->remaining);
    json_number(object, "check_p", r->check_p);
}

static void json_text(cJSON *out, const char *name, const char *text) {
    if (text[0] != '\0')
        cJSON_AddStringToObject(out, name, text);
    else
        cJSON_AddNullToObject(out, name);
}

void test_json(cJSON *out, const circe_test_result *r) {
    cJSON_AddStringToObject(out, "method", circe_test_method_name(r->method));
    cJSON_AddStringToObject(out, "null", circe_test_null_name(r->null));
    json_number(out, "statistic", r->statistic);
    json_number(out, "p_value", r->p_value);
    json_integer(out, "n", r->n);
    json_number(out, "seconds", r->seconds);
    cJSON_AddStringToObject(out, "trust", circe_trust_name(r->trust));
    cJSON_AddStringToObject(out, "verdict", r->verdict);
    cJSON *d = cJSON_AddObjectToObject(out, "diagnostics");
    json_integer(d, "n_used", r->n_used);
    json_integer(d, "n_tested", r->n_tested);
    json_integer(d, "n_train", r->n_train);
    json_integer(d, "draws", r->draws);
    json_number(d, "null_mean", r->null_mean);
    json_number(d, "null_sd", r->null_sd);
    json_integer(d, "rank_x", r->rank_x);
    json_integer(d, "rank_z", r->rank_z);
    json_number(d, "left_out_x", r->left_out_x);
    json_number(d, "left_out_z", r->left_out_z);
    json_text(d, "kernel_x", r->kernel_x);
    json_text(d, "kernel_y", r->kernel_y);
    json_text(d, "kernel_z", r->kernel_z);
    json_number(d, "effective_rows", r->effective_rows);
    json_number(d, "robust_p", r->robust_p);
    json_number(d, "mid_p", r->mid_p);
    json_regression(d, "regression_x", &r->x);
    json_regression(d, "regression_z", &r->z);
}

static void json_effect(cJSON *out, const char *name, const circe_effect *e) {
    cJSON *object = cJSON_AddObjectToObject(out, name);
    json_number(object, "value", e->value);
    json_number(object, "lower", e->lower);
    json_number(object, "upper", e->upper);
    json_number(object, "chance", e->chance);
}

void test_json_effects(cJSON *out, const circe_effects *effects) {
    cJSON *object = cJSON_AddObjectToObject(out, "effects");
    json_effect(object, "kpc", &effects->kpc);
    json_effect(object, "circe", &effects->circe);
    json_integer(object, "rows", effects->rows);
    json_number(object, "seconds", effects->seconds);
}

void test_json_along(cJSON *out, const test_along *along) {
    if (along->column == NULL) return;
    cJSON *object = cJSON_AddObjectToObject(out, "along");
    cJSON_AddStringToObject(object, "column", along->column);
    json_numbers(object, "place", along->place, along->points);
    json_numbers(object, "value", along->value, along->points);
    json_numbers(object, "lower", along->lower, along->points);
    json_numbers(object, "upper", along->upper, along->points);
    json_numbers(object, "null_upper", along->null_upper, along->points);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void text_cell(int used, const char *format, double value) {
    char cell[32] = "-";
    if (used && isfinite(value)) snprintf(cell, sizeof cell, format, value);
    printf("  %12s", cell);
}

static void text_line(const circe_test_result *r, const char *name, const char *format, double x, double z,
                      const char *meaning) {
    printf("  %-18s", name);
    text_cell(r->x.used, format, x);
    text_cell(r->z.used, format, z);
    printf("   %s\n", meaning);
}

static void text_regressions(const circe_test_result *r) {
    bool there = (r->x.used && r->x.rank > 0) || (r->z.used && r->z.rank > 0);
    if (!there) return; /* without y, a constant is all they have */
    printf("\n  %-18s  %12s  %12s\n", "regression on y", "of x", "of z");
    text_line(r, "left over", "%.3f", r->x.remaining, r->z.remaining, "share of the variance that y does not explain");
    text_line(r, "leave-one-out", "%.3f", r->x.loo_error, r->z.loo_error,
              "error on rows that were left out, over that of the mean");
    text_line(r, "degrees of freedom", "%.1f", r->x.degrees, r->z.degrees, "effective, the constant included");
    text_line(r, "ridge", "%.3g", r->x.ridge, r->z.ridge, "used; a part of what leave-one-out chose, to undersmooth");
    text_line(r, "rows", "%.0f", (double)r->x.rows, (double)r->z.rows, "regressed on");
    text_line(r, "rank", "%.0f", (double)r->x.rank, (double)r->z.rank, "features of y");
    text_line(r, "free of y", "%.3g", r->x.check_p, r->z.check_p,
              "are the residuals? p-value; small: something was missed");
}

static void text_kernel_row(const char *name, const char *kernel) {
    char text[CIRCE_TEST_KERNEL_TEXT];
    if (kernel[0] != '\0') text_row(name, "%s", text_widths(kernel, text, sizeof text));
}

void test_text(const circe_test_result *r) {
    char time[32];
    text_row("statistic", "%.6g; independence would give about %.4g, give or take %.3g", r->statistic, r->null_mean,
             r->null_sd);
    if (r->draws > 0)
        text_row("null", "%s: %s, %" PRId64 " draws", circe_test_null_name(r->null), test_null_words(r->null),
                 r->draws);
    else
        text_row("null", "%s: %s", circe_test_null_name(r->null), test_null_words(r->null));
    if (r->n_train > 0)
        text_row("rows", "%" PRId64 ": %" PRId64 " tested, %" PRId64 " only regressed on; in %s", r->n, r->n_tested,
                 r->n_train, text_seconds(r->seconds, time, sizeof time));
    else
        text_row("rows", "%" PRId64 ", in %s", r->n_tested, text_seconds(r->seconds, time, sizeof time));
    if (isfinite(r->effective_rows))
        text_row("effective rows", "%.0f: as many carry the statistic, or the column that the fewest carry",
                 fmax(1.0, r->effective_rows));
    if (isfinite(r->robust_p)) {
        char p[48];
        text_row("on normal scores", "p %s, since few rows carry much", test_p_equals(r->robust_p, p, sizeof p));
    }
    text_kernel_row("kernel of x", r->kernel_x);
    text_kernel_row("kernel of y", r->kernel_y);
    text_kernel_row("kernel of z", r->kernel_z);
    text_regressions(r);
}

static void text_effect(const char *name, const circe_effect *e, const char *meaning) {
    printf("  %-18s  %6.3f   [%.3f, %.3f]   %6.3f by chance   %s\n", name, e->value, e->lower, e->upper, e->chance,
           meaning);
}

void test_text_effects(const circe_effects *effects) {
    char time[32];
    printf("\n  effect size          value   95 %% interval\n");
    text_effect("KPC", &effects->kpc, "share of what y leaves of x that z explains");
    text_effect("CIRCE, normalised", &effects->circe, "0 none, 1 the most there could be");
    text_row("rows", "%" PRId64 ", in %s", effects->rows, text_seconds(effects->seconds, time, sizeof time));
}

void test_text_along(const test_along *along) {
    if (along->column == NULL) return;
    printf("\n  along %-12s  %10s  %22s  %12s\n", along->column, "CIRCE", "95 % interval", "chance up to");
    for (int64_t i = 0; i < along->points; i++) {
        char interval[48];
        snprintf(interval, sizeof interval, "[%.4f, %.4f]", along->lower[i], along->upper[i]);
        printf("  %18.5g  %10.4f  %22s  %12.4f%s\n", along->place[i], along->value[i], interval, along->null_upper[i],
               along->value[i] > along->null_upper[i] ? "  *" : "");
    }
}

/* ---- along y ----------------------------------------------------------------------------------------------------- */

test_along test_along_make(const char *column, int64_t points) {
    double *block = small_alloc((size_t)(TEST_ALONG_ARRAYS * points) * sizeof *block);
    return (test_along){.column = column,
                        .points = points,
                        .place = block,
                        .value = block + points,
                        .lower = block + 2 * points,
                        .upper = block + 3 * points,
                        .null_upper = block + 4 * points};
}

void test_along_free(test_along *along) {
    free(along->place);
    *along = (test_along){0};
}
