/* The result of a measure as JSON. */
#include <math.h>

#include "circe/measure_job.h"
#include "core/settings.h"
#include "jobs/columns.h"
#include "jobs/json.h"

static void json_source(cJSON *out, const circe_measure_job_result *r) {
    static const char *const names[] = {"batch", "model", "holdout", "split"};
    json_word(out, "mean_of_z", r->uses & CIRCE_USES_Y ? names[r->source] : NULL);
    if (r->source == CIRCE_MEAN_FROM_SPLIT) {
        cJSON *split = cJSON_AddObjectToObject(out, "split");
        json_integer(split, "seed", r->seed);
        json_integer(split, "holdout", r->holdout);
        json_integer(split, "batch", r->rows);
    }
    if (r->model != NULL) cJSON_AddStringToObject(out, "model", r->model);
    if (r->source == CIRCE_MEAN_FROM_HOLDOUT) json_integer(out, "dropped_holdout", r->dropped_holdout);
    if (r->uses & CIRCE_MAY_USE_MEAN) cJSON_AddStringToObject(out, "regress_z", r->hold_out ? "holdout" : "batch");
}

static void json_method(cJSON *out, const circe_measure_job_result *r) {
    circe_cme_info info;
    bool batch = (r->uses & CIRCE_USES_BATCH) && (r->uses & CIRCE_USES_REGRESSION);
    if (batch) cJSON_AddStringToObject(out, r->mean != NULL ? "batch_method" : "method", r->method);
    if (r->mean != NULL) {
        circe_cme_get_info(r->mean, &info);
        cJSON_AddStringToObject(out, "method", circe_method_name(info.method));
        json_integer(out, "rank_y", info.rank_y);
        json_integer(out, "rank_z", info.rank_z);
    }
    if (r->choice != NULL) json_loo(out, r->choice);
}

/* n, where the mean of z comes from, kernels, ridge or epsilon, method. */
static void json_run(cJSON *out, const circe_measure_job_result *r) {
    json_integer(out, "n", r->rows);
    json_integer(out, "dropped", r->dropped);
    if (r->weights != NULL) cJSON_AddStringToObject(out, "weights", r->weights);
    cJSON_AddStringToObject(out, "transform", r->transform);
    json_columns(out, &r->columns);
    json_source(out, r);
    cJSON_AddStringToObject(out, "dtype", r->dtype == CIRCE_FLOAT32 ? "float32" : "float64");
    if (r->kernels.x != NULL) json_kernel(out, "x", r->kernels.x);
    if (r->kernels.y != NULL) json_kernel(out, "y", r->kernels.y);
    if (r->kernels.z != NULL) json_kernel(out, "z", r->kernels.z);
    if (r->uses & CIRCE_USES_RIDGE) json_number(out, "ridge", r->ridge);
    if (r->uses & CIRCE_USES_EPSILON) json_number(out, "epsilon", r->epsilon);
    if (r->uses & CIRCE_USES_GCM) {
        cJSON_AddStringToObject(out, "regression", r->regression);
        cJSON_AddStringToObject(out, "combine", r->combine);
    }
    json_method(out, r);
}

static void json_blocks(cJSON *out, const circe_block_result *b) {
    if (b->blocks == 0) return;
    json_number(out, "standard_error", b->standard_error);
    json_integer(out, "blocks", b->blocks);
    json_integer(out, "block_rows", b->block_rows);
}

static void json_given(cJSON *out, const circe_measure_job_result *r) {
    if (r->in_blocks || r->read < r->given) json_integer(out, "rows_given", r->given);
}

static void json_name(cJSON *out, const circe_measured *v) {
    cJSON_AddStringToObject(out, "measure", v->measure);
    json_word(out, "estimator", v->estimator);
}

static void json_value(cJSON *out, const circe_measured *v) {
    bool valid = v->error == NULL && !v->skipped;
    json_name(out, v);
    json_number(out, "value", valid ? v->value : NAN);
    if (valid) json_blocks(out, &v->blocks);
    json_number(out, "seconds", v->seconds);
    if (v->skipped) cJSON_AddBoolToObject(out, "skipped", true);
    if (v->error != NULL) cJSON_AddStringToObject(out, "error", v->error);
}

static void json_one(cJSON *out, const circe_measure_job_result *r) {
    json_name(out, &r->values[0]);
    json_number(out, "value", r->values[0].value);
    json_blocks(out, &r->values[0].blocks);
    json_given(out, r);
    json_run(out, r);
    if (r->gradient == NULL) return;
    cJSON_AddStringToObject(out, "grad", r->gradient);
    json_integer(out, "rows", r->grad.rows);
}

static void json_all(cJSON *out, const circe_measure_job_result *r) {
    cJSON_AddStringToObject(out, "measure", r->name);
    json_given(out, r);
    json_run(out, r);
    cJSON *list = cJSON_AddArrayToObject(out, "measures");
    for (size_t i = 0; i < r->n; i++) json_value(json_item(list), &r->values[i]);
}

char *circe_measure_json(const circe_measure_job_result *result) {
    CIRCE_OWN_SETTINGS;
    const circe_cme *fitted = result->source == CIRCE_MEAN_OF_BATCH ? result->choice : result->mean;
    circe_cme_info info;
    cJSON *out = cJSON_CreateObject();
    if (result->meaning != NULL)
        json_one(out, result);
    else
        json_all(out, result);
    json_notes(out, &result->warnings);
    if (fitted != NULL && result->source != CIRCE_MEAN_FROM_MODEL) {
        circe_cme_get_info(fitted, &info);
        json_number(out, "fit_seconds", info.seconds);
    }
    json_number(out, "seconds", result->seconds);
    return json_text(out);
}
