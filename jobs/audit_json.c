/* An audit for programs. */

#include "base/small.h"
#include "circe/circe.h"
#include "core/settings.h"
#include "jobs/audit_parts.h"
#include "jobs/calibration.h"
#include "jobs/columns.h"
#include "jobs/json.h"
#include "jobs/test_json.h"

/* "auc": {"value": 0.7, "lower": 0.68, "upper": 0.72} */
static void json_estimate(cJSON *out, const char *name, const circe_audit_estimate *e) {
    json_interval(cJSON_AddObjectToObject(out, name), e->value, e->lower, e->upper);
}

/* ---- one finding ------------------------------------------------------------------------------------------------- */

static void json_tests(cJSON *out, const circe_audit_finding *f, double alpha) {
    cJSON *list = cJSON_AddArrayToObject(out, "tests");
    for (int i = 0; i < f->n_tests; i++) {
        cJSON *one = json_item(list);
        if (f->tests[i].failed) {
            cJSON_AddStringToObject(one, "method", f->tests[i].name);
            cJSON_AddStringToObject(one, "error", f->tests[i].error);
        } else {
            test_json(one, &f->tests[i].result);
        }
        cJSON_AddBoolToObject(one, "decides", i < f->n_deciding);
        if (i < f->n_deciding && f->has_calibration) calibration_json(one, &f->calibration[i], alpha);
    }
}

static void json_gap(cJSON *list, const circe_audit_result *r, const circe_audit_finding *f, const circe_audit_gap *g) {
    cJSON *one = json_item(list);
    cJSON_AddStringToObject(one, "of", circe_audit_gap_name(g->kind));
    if (g->category != NULL) cJSON_AddStringToObject(one, "class", g->category);
    json_integer(one, "groups", g->n_groups);
    json_number(one, "gap", g->gap.value);
    json_number(one, "lower", g->gap.lower);
    json_number(one, "upper", g->gap.upper);
    cJSON_AddStringToObject(one, "high", g->high);
    cJSON_AddStringToObject(one, "low", g->low);
    if (g->stratum >= 0)
        cJSON_AddStringToObject(one, f->notion == CIRCE_NOTION_SUFFICIENCY ? "at_prediction" : "at_outcome",
                                audit_levels(r, f)->labels[g->stratum]);
    json_number(one, "chance", g->chance);
    json_number(one, "chance_upper", g->chance_upper);
}

/* {"value": [...], "lower": [...], "upper": [...]}, one entry per group; nothing if the metric does not exist. */
static void json_metric(cJSON *out, const circe_audit_metrics *groups, int64_t n, circe_audit_metric m) {
    OWNED double *block = small_alloc((size_t)(3 * n) * sizeof *block);
    bool there = false;
    for (int64_t g = 0; g < n; g++) {
        const circe_audit_estimate *e = &groups[g].of[m];
        block[g] = e->value, block[n + g] = e->lower, block[2 * n + g] = e->upper;
        there = there || e->value == e->value;
    }
    if (there) {
        cJSON *one = cJSON_AddObjectToObject(out, circe_audit_metric_key(m));
        json_numbers(one, "value", block, n);
        json_numbers(one, "lower", block + n, n);
        json_numbers(one, "upper", block + 2 * n, n);
    }
}

static void json_values(cJSON *out, const circe_audit_metrics *groups, int64_t n, circe_audit_metric m) {
    OWNED double *values = small_alloc((size_t)n * sizeof *values);
    for (int64_t g = 0; g < n; g++) values[g] = groups[g].of[m].value;
    json_numbers(out, circe_audit_metric_key(m), values, n);
}

/* "residual": [...], or for several classes {"low": [...], ...}. */
static void json_residuals(cJSON *out, const circe_audit_result *r, const circe_audit_finding *f, int64_t n) {
    if (f->n_parts == 1) {
        json_numbers(out, "residual", f->residual[0].value, n);
        return;
    }
    cJSON *object = cJSON_AddObjectToObject(out, "residual");
    for (int64_t k = 0; k < f->n_parts; k++) json_numbers(object, audit_part_name(r, f, k), f->residual[k].value, n);
}

static void json_groups(cJSON *out, const circe_audit_result *r, const circe_audit_finding *f) {
    const circe_audit_groups *groups = &r->groups[f->attribute];
    int64_t n = groups->n_groups;
    cJSON *object = cJSON_AddObjectToObject(out, "groups");
    json_words(object, "labels", (const char *const *)groups->labels, n);
    cJSON *rows = cJSON_AddArrayToObject(object, "rows"), *compared = cJSON_AddArrayToObject(object, "compared");
    for (int64_t g = 0; g < n; g++) {
        cJSON_AddItemToArray(rows, cJSON_CreateNumber((double)groups->rows[g]));
        cJSON_AddItemToArray(compared, cJSON_CreateBool(groups->compared[g]));
    }
    json_numbers(object, "centre", groups->centre, n);
    json_residuals(object, r, f, n);
    if (audit_has_errors(r, f->prediction)) {
        json_values(object, f->groups, n, CIRCE_METRIC_MEAN_ERROR);
        json_values(object, f->groups, n, CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR);
    }
    cJSON *metrics = cJSON_AddObjectToObject(object, "metrics");
    for (int m = 0; m < CIRCE_METRICS; m++) json_metric(metrics, f->groups, n, (circe_audit_metric)m);
}

static void json_finding(cJSON *out, const circe_audit_result *r, const circe_audit_finding *f) {
    cJSON_AddStringToObject(out, "notion", circe_audit_notion_name(f->notion));
    cJSON_AddStringToObject(out, "prediction", audit_prediction(r, f)->name);
    cJSON_AddStringToObject(out, "attribute", audit_attribute(r, f)->name);
    cJSON_AddStringToObject(out, "decision", circe_audit_decision_name(f->decision));
    cJSON_AddStringToObject(out, "verdict", f->verdict);
    json_number(out, "p_value", f->p_value);
    json_number(out, "p_adjusted", f->p_adjusted);
    cJSON_AddStringToObject(out, "trust", circe_trust_name(f->trust));
    json_tests(out, f, r->alpha);
    if (f->has_effects) test_json_effects(out, &f->effects);
    if (f->has_effects) json_estimate(out, "kpc_above_chance", &f->kpc_above_chance);
    test_json_along(out, &f->along);
    cJSON *measures = cJSON_AddObjectToObject(out, "measures");
    for (int i = 0; i < CIRCE_AUDIT_MEASURES; i++) json_number(measures, circe_audit_measure_name(i), f->measures[i]);
    json_integer(measures, "rows", f->measured_rows);
    cJSON *gaps = cJSON_AddArrayToObject(out, "gaps");
    for (int i = 0; i < f->n_gaps; i++) json_gap(gaps, r, f, &f->gaps[i]);
    json_groups(out, r, f);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void json_outcome(cJSON *out, const circe_audit_result *r) {
    static const char *const outcomes[] = {"numbers", "binary", "classes"};
    cJSON_AddStringToObject(out, "target", r->target.name);
    cJSON_AddStringToObject(out, "outcome", outcomes[r->outcome]);
    if (r->outcome != CIRCE_OUTCOME_BINARY) return;
    cJSON_AddStringToObject(out, "positive", r->positive);
    json_number(out, "threshold", r->threshold);
}

/* "notions": ["separation"], "given": [] */
static void json_asked(cJSON *out, const circe_audit_result *r) {
    cJSON *notions = cJSON_AddArrayToObject(out, "notions"), *given = cJSON_AddArrayToObject(out, "given");
    for (int64_t k = 0; k < r->n_notions; k++)
        cJSON_AddItemToArray(notions, cJSON_CreateString(circe_audit_notion_name(r->notions[k])));
    for (int64_t g = 0; g < r->n_given; g++) cJSON_AddItemToArray(given, cJSON_CreateString(r->given[g].name));
}

/* "quality": [{"prediction": "score", "auc": {"value": 0.7, "lower": 0.68, "upper": 0.72}, ...}] */
static void json_quality(cJSON *out, const circe_audit_result *r) {
    cJSON *list = cJSON_AddArrayToObject(out, "quality");
    for (int64_t p = 0; p < r->n_predictions; p++) {
        cJSON *one = json_item(list);
        cJSON_AddStringToObject(one, "prediction", r->predictions[p].name);
        for (int m = 0; m < CIRCE_METRICS; m++) {
            const circe_audit_estimate *e = &r->quality[p].of[m];
            if (e->value != e->value) continue;
            json_estimate(one, circe_audit_metric_key((circe_audit_metric)m), e);
        }
    }
}

/* "differences": one or more per pair of predictions, if there are several. */
static void json_differences(cJSON *out, const circe_audit_result *r) {
    if (r->n_predictions < 2) return;
    cJSON *list = cJSON_AddArrayToObject(out, "differences");
    for (int64_t i = 0; i < r->n_differences; i++) {
        const circe_audit_difference *d = &r->differences[i];
        cJSON *one = json_item(list);
        cJSON_AddStringToObject(one, "first", r->predictions[d->first].name);
        cJSON_AddStringToObject(one, "second", r->predictions[d->second].name);
        cJSON_AddStringToObject(one, "of", d->name);
        if (d->attribute >= 0) {
            cJSON_AddStringToObject(one, "gap_between_groups_of", r->attributes[d->attribute].name);
            cJSON_AddStringToObject(one, "notion", circe_audit_notion_name(d->notion));
        }
        json_number(one, "difference", d->difference.value);
        json_number(one, "lower", d->difference.lower);
        json_number(one, "upper", d->difference.upper);
        json_word(one, "better", d->better >= 0 ? r->predictions[d->better].name : NULL);
    }
}

/* "checks": the limits of --fail-if, if there are any. */
static void json_checks(cJSON *out, const circe_audit_result *r) {
    if (r->n_checks == 0) return;
    cJSON *list = cJSON_AddArrayToObject(out, "checks");
    for (int64_t i = 0; i < r->n_checks; i++) {
        const circe_audit_check *c = &r->checks[i];
        cJSON *one = json_item(list);
        cJSON_AddStringToObject(one, "condition", c->condition);
        cJSON_AddStringToObject(one, "prediction", r->predictions[c->prediction].name);
        if (c->attribute >= 0) {
            cJSON_AddStringToObject(one, "attribute", r->attributes[c->attribute].name);
            cJSON_AddStringToObject(one, "notion", circe_audit_notion_name(c->notion));
        }
        json_interval(one, c->measured.value, c->measured.lower, c->measured.upper);
        json_number(one, "limit", c->limit);
        cJSON_AddBoolToObject(one, "failed", c->failed);
        cJSON_AddStringToObject(one, "interval", circe_audit_within_name(c->within));
    }
}

cJSON *audit_json(const circe_audit_result *r, const char *folder) {
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "data", r->source);
    if (r->model != NULL) cJSON_AddStringToObject(out, "model", r->model);
    json_integer(out, "n", r->n);
    json_integer(out, "dropped", r->dropped);
    if (r->weights_name != NULL) {
        cJSON *weights = cJSON_AddObjectToObject(out, "weights");
        cJSON_AddStringToObject(weights, "column", r->weights_name);
        json_number(weights, "sum", r->weights_sum);
        json_integer(weights, "rows_of_weight_0", r->weightless);
    }
    json_columns(out, &r->columns);
    json_outcome(out, r);
    json_asked(out, r);
    json_number(out, "alpha", r->alpha);
    cJSON_AddStringToObject(out, "test", r->test);
    cJSON_AddStringToObject(out, "transform", r->transform);
    cJSON_AddStringToObject(out, "correction", "holm, across the attributes of a prediction and a notion");
    json_integer(out, "smallest_group", r->smallest_group);
    json_integer(out, "seed", r->seed);
    json_quality(out, r);
    cJSON *list = cJSON_AddArrayToObject(out, "findings");
    for (int64_t i = 0; i < r->n_findings; i++) json_finding(json_item(list), r, &r->findings[i]);
    json_differences(out, r);
    json_checks(out, r);
    json_notes(out, &r->warnings);
    if (folder != NULL) cJSON_AddStringToObject(out, "report", folder);
    cJSON_AddStringToObject(out, "circe_version", circe_version());
    json_number(out, "seconds", r->seconds);
    return out;
}

char *circe_audit_json(const circe_audit_result *r) {
    CIRCE_OWN_SETTINGS;
    return json_text(audit_json(r, NULL));
}
