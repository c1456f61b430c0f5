/* Results of tests as JSON. */
#include "jobs/test_json.h"

#include <stdio.h>

#include "core/settings.h"
#include "jobs/calibration.h"
#include "jobs/columns.h"
#include "jobs/json.h"

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
    cJSON *object = r->used ? cJSON_AddObjectToObject(out, name) : cJSON_AddNullToObject(out, name);
    if (!r->used) return;
    cJSON_AddStringToObject(object, "basis", r->basis);
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

static void json_kernel_text(cJSON *out, const char *name, const char *text) {
    json_word(out, name, text[0] != '\0' ? text : NULL);
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
    cJSON_AddStringToObject(d, "device", r->on_device ? "cuda" : "cpu");
    json_number(d, "null_mean", r->null_mean);
    json_number(d, "null_sd", r->null_sd);
    json_integer(d, "rank_x", r->rank_x);
    json_integer(d, "rank_z", r->rank_z);
    json_number(d, "left_out_x", r->left_out_x);
    json_number(d, "left_out_z", r->left_out_z);
    json_kernel_text(d, "kernel_x", r->kernel_x);
    json_kernel_text(d, "kernel_y", r->kernel_y);
    json_kernel_text(d, "kernel_z", r->kernel_z);
    json_number(d, "effective_rows", r->effective_rows);
    json_number(d, "robust_p", r->robust_p);
    json_number(d, "mid_p", r->mid_p);
    json_number(d, "misfit", r->misfit);
    json_number(d, "within_p", r->within_p);
    json_number(d, "within_share", r->within_share);
    json_number(d, "expected_count", r->expected_count);
    json_integer(d, "blocks", r->blocks);
    json_number(d, "block_length", r->block_length);
    json_integer(d, "imputations", r->imputations);
    json_regression(d, "regression_x", &r->x);
    json_regression(d, "regression_z", &r->z);
}

static void json_effect(cJSON *out, const char *name, const circe_effect *e) {
    cJSON *object = cJSON_AddObjectToObject(out, name);
    json_interval(object, e->value, e->lower, e->upper);
    json_number(object, "chance", e->chance);
}

void test_json_effects(cJSON *out, const circe_effects *effects) {
    cJSON *object = cJSON_AddObjectToObject(out, "effects");
    json_effect(object, "kpc", &effects->kpc);
    json_effect(object, "circe", &effects->circe);
    json_integer(object, "rows", effects->rows);
    json_number(object, "seconds", effects->seconds);
}

void test_json_along(cJSON *out, const circe_effects_along *along) {
    if (along->column == NULL) return;
    cJSON *object = cJSON_AddObjectToObject(out, "along");
    cJSON_AddStringToObject(object, "column", along->column);
    json_numbers(object, "place", along->place, along->points);
    json_numbers(object, "value", along->value, along->points);
    json_numbers(object, "lower", along->lower, along->points);
    json_numbers(object, "upper", along->upper, along->points);
    json_numbers(object, "null_upper", along->null_upper, along->points);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void json_tested(cJSON *out, const circe_tested *t) {
    if (t->error == NULL) {
        test_json(out, &t->result);
        return;
    }
    cJSON_AddStringToObject(out, "method", t->method);
    cJSON_AddNullToObject(out, "p_value");
    cJSON_AddStringToObject(out, "error", t->error);
}

static void json_rows(cJSON *out, const circe_test_job_result *r) {
    json_integer(out, "dropped", r->dropped);
    if (r->rows < r->given) json_integer(out, "rows_given", r->given);
    cJSON_AddStringToObject(out, "transform", r->transform);
    json_columns(out, &r->columns);
}

static void json_level(cJSON *out, const circe_test_job_result *r) {
    json_number(out, "alpha", r->alpha);
    json_integer(out, "seed", r->seed);
}

static void json_one(cJSON *out, const circe_test_job_result *r) {
    test_json(out, &r->tests[0].result);
    json_level(out, r);
    json_rows(out, r);
    if (r->calibration != NULL) calibration_json(out, r->calibration, r->alpha);
}

static void json_all(cJSON *out, const circe_test_job_result *r) {
    cJSON_AddStringToObject(out, "method", r->method);
    json_integer(out, "n", r->rows);
    json_rows(out, r);
    json_level(out, r);
    cJSON *list = cJSON_AddArrayToObject(out, "tests");
    for (size_t i = 0; i < r->n; i++) json_tested(json_item(list), &r->tests[i]);
}

char *circe_test_json(const circe_test_job_result *result) {
    CIRCE_OWN_SETTINGS;
    cJSON *out = cJSON_CreateObject();
    if (result->n > 1)
        json_all(out, result);
    else
        json_one(out, result);
    if (result->effects != NULL) test_json_effects(out, result->effects);
    test_json_along(out, &result->along);
    json_notes(out, &result->warnings);
    return json_text(out);
}
