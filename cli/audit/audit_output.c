/* An audit as JSON and as text for the terminal. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/audit/audit.h"
#include "cli/common/output.h"
#include "cli/common/text.h"

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static const char *const decision_names[] = {
    [DECISION_DEPENDS] = "depends", [DECISION_NOT_FOUND] = "no dependence found", [DECISION_UNSURE] = "cannot be said"};

static void json_tests(cJSON *out, const audit_finding *f, double alpha) {
    cJSON *list = cJSON_AddArrayToObject(out, "tests");
    for (int i = 0; i < f->n_tests; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
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

static void json_gaps(cJSON *out, const audit_finding *f) {
    cJSON *list = cJSON_AddArrayToObject(out, "gaps");
    for (int i = 0; i < f->n_gaps; i++) {
        const audit_gap *g = &f->gaps[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "of", g->what);
        json_integer(one, "groups", g->n_groups);
        json_number(one, "gap", g->value);
        json_number(one, "chance", g->chance);
        json_number(one, "chance_upper", g->chance_upper);
        cJSON_AddItemToArray(list, one);
    }
}

static void json_profiles(cJSON *out, const audit *a, const audit_finding *f) {
    const audit_groups *groups = &a->finest[f->attribute - a->data.attributes];
    cJSON *object = cJSON_AddObjectToObject(out, "groups");
    cJSON *labels = cJSON_AddArrayToObject(object, "labels");
    for (int64_t g = 0; g < groups->n_groups; g++) cJSON_AddItemToArray(labels, cJSON_CreateString(groups->labels[g]));
    json_numbers(object, "centre", groups->centre, groups->n_groups);
    json_numbers(object, "residual", f->residual.value, groups->n_groups);
    if (!audit_has_errors(a)) return;
    json_numbers(object, "mean_error", f->error.value, groups->n_groups);
    json_numbers(object, "root_mean_square_error", f->squared.value, groups->n_groups);
}

static cJSON *json_finding(const audit *a, const audit_finding *f) {
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "prediction", f->prediction->name);
    cJSON_AddStringToObject(out, "attribute", f->attribute->name);
    cJSON_AddStringToObject(out, "decision", decision_names[f->decision]);
    cJSON_AddStringToObject(out, "verdict", f->verdict);
    json_number(out, "p_value", f->p_value);
    json_number(out, "p_adjusted", f->p_adjusted);
    cJSON_AddStringToObject(out, "trust", circe_trust_name(audit_trust(a, f)));
    json_tests(out, f, a->alpha);
    if (f->has_effects) test_json_effects(out, &f->effects);
    test_json_along(out, &f->along);
    cJSON *measures = cJSON_AddObjectToObject(out, "measures");
    for (int i = 0; i < AUDIT_MEASURES; i++) json_number(measures, audit_measure_names[i], f->measures[i]);
    json_integer(measures, "rows", f->measured_rows);
    json_gaps(out, f);
    json_profiles(out, a, f);
    return out;
}

cJSON *audit_json(const audit *a) {
    static const char *const outcomes[] = {"numbers", "binary", "classes"};
    const audit_data *d = &a->data;
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "data", a->arguments->argument);
    json_integer(out, "n", d->n);
    json_integer(out, "dropped", d->dropped);
    const input *const group[] = {&d->table.in};
    json_inputs(out, group, 1);
    cJSON_AddStringToObject(out, "target", d->target.name);
    cJSON_AddStringToObject(out, "outcome", outcomes[d->outcome]);
    if (d->outcome == OUTCOME_BINARY) {
        cJSON_AddStringToObject(out, "positive", d->positive);
        json_number(out, "threshold", d->threshold);
    }
    json_number(out, "alpha", a->alpha);
    cJSON_AddStringToObject(out, "test", args_text(a->arguments, OPT_AUDIT_TEST));
    cJSON_AddStringToObject(out, "transform", args_text(a->arguments, OPT_TRANSFORM));
    cJSON_AddStringToObject(out, "correction", "holm, across the attributes of a prediction");
    json_integer(out, "seed", args_integer(a->arguments, OPT_SEED));
    cJSON *list = cJSON_AddArrayToObject(out, "findings");
    for (int64_t i = 0; i < d->n_predictions * d->n_attributes; i++)
        cJSON_AddItemToArray(list, json_finding(a, &a->findings[i]));
    json_notes(out, &(circe_notes){a->warnings.text, a->warnings.n});
    cJSON_AddStringToObject(out, "report", a->folder);
    cJSON_AddStringToObject(out, "circe_version", circe_version());
    json_number(out, "seconds", a->seconds);
    return out;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static int widest(const audit_column *columns, int64_t n, int least) {
    int width = least;
    for (int64_t i = 0; i < n; i++) {
        int length = (int)strlen(columns[i].name);
        width = length > width ? length : width;
    }
    return width;
}

static void print_finding(const audit *a, const audit_finding *f, int prediction, int attribute) {
    char p[32], adjusted[32], kpc[64] = "-";
    const circe_effect *e = &f->effects.kpc;
    if (f->has_effects) snprintf(kpc, sizeof kpc, "%.3f [%.3f, %.3f]", e->value, e->lower, e->upper);
    printf("  %-*s  %-*s  %9s  %9s  %-9s  %-22s  %s\n", prediction, f->prediction->name, attribute, f->attribute->name,
           test_p_text(f->p_value, p, sizeof p), test_p_text(f->p_adjusted, adjusted, sizeof adjusted),
           circe_trust_name(audit_trust(a, f)), kpc, decision_names[f->decision]);
}

void audit_text(const audit *a) {
    const audit_data *d = &a->data;
    int prediction = widest(d->predictions, d->n_predictions, 10),
        attribute = widest(d->attributes, d->n_attributes, 9);
    printf("Given %s, does the prediction still depend on the attribute? %" PRId64 " rows, test %s.\n\n",
           d->target.name, d->n, args_text(a->arguments, OPT_AUDIT_TEST));
    printf("  %-*s  %-*s  %9s  %9s  %-9s  %-22s  %s\n", prediction, "prediction", attribute, "attribute", "p-value",
           "adjusted", "trust", "KPC, 95 % interval", "verdict");
    for (int64_t i = 0; i < d->n_attributes; i++) {
        for (int64_t p = 0; p < d->n_predictions; p++) print_finding(a, audit_at(a, p, i), prediction, attribute);
    }
    if (args_given(a->arguments, OPT_QUIET)) return;
    putchar('\n');
    const input *const group[] = {&d->table.in};
    text_inputs(group, 1);
    for (int64_t i = 0; i < d->n_attributes; i++) {
        for (int64_t p = 0; p < d->n_predictions; p++) {
            text_wrap(stdout, audit_at(a, p, i)->verdict, 0, 0, text_width());
            putchar('\n');
        }
    }
    printf("The report: %s/report.html\n", a->folder);
}
