/* Limits for pipelines: --fail-if 'kpc>0.02,tpr_gap>0.1,auc<0.7', or for one notion 'sufficiency.kpc>0.02'.
 *
 * A check fails if the estimate itself is beyond its limit. It also reports the 95 % interval: all of it within the
 * limit, all of it outside, or neither, which is the honest answer if there are few rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "core/settings.h"
#include "io/io.h"
#include "io/list.h"
#include "io/suggest.h"
#include "jobs/audit_parts.h"

typedef enum quantity { OF_KPC, OF_RAW_KPC, OF_CIRCE, OF_P, OF_GAP, OF_METRIC } quantity;

static const struct {
    const char *name;
    quantity what;
    int which; /* the kind of gap, or the metric */
} quantities[] = {{"kpc", OF_KPC, 0},
                  {"raw_kpc", OF_RAW_KPC, 0},
                  {"circe", OF_CIRCE, 0},
                  {"p", OF_P, 0},
                  {"mean_gap", OF_GAP, CIRCE_GAP_MEAN_PREDICTION},
                  {"tpr_gap", OF_GAP, CIRCE_GAP_TRUE_POSITIVE_RATE},
                  {"fpr_gap", OF_GAP, CIRCE_GAP_FALSE_POSITIVE_RATE},
                  {"selection_gap", OF_GAP, CIRCE_GAP_SELECTION_RATE},
                  {"precision_gap", OF_GAP, CIRCE_GAP_PRECISION},
                  {"npv_gap", OF_GAP, CIRCE_GAP_NEGATIVE_PREDICTIVE_VALUE},
                  {"calibration_gap", OF_GAP, CIRCE_GAP_CALIBRATION},
                  {"auc", OF_METRIC, CIRCE_METRIC_AUC},
                  {"accuracy", OF_METRIC, CIRCE_METRIC_ACCURACY},
                  {"mean_error", OF_METRIC, CIRCE_METRIC_MEAN_ERROR},
                  {"rms_error", OF_METRIC, CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR},
                  {"r2", OF_METRIC, CIRCE_METRIC_R2}};

enum { N_QUANTITIES = sizeof quantities / sizeof quantities[0], LONGEST_NAME = 48 };

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

typedef struct condition {
    int of;     /* index of quantities */
    int notion; /* -1: all */
    bool above;
    double limit;
} condition;

static circe_status refuse_name(const char *text, const char *name) {
    const char *names[N_QUANTITIES];
    for (int i = 0; i < N_QUANTITIES; i++) names[i] = quantities[i].name;
    const char *nearest = suggest_nearest(name, names, N_QUANTITIES);
    circe_fail(CIRCE_ERR_ARGUMENT, "--fail-if '%s': there is no metric '%s'", text, name);
    if (nearest != NULL) return circe_fail_hint(CIRCE_ERR_ARGUMENT, "did you mean %s?", nearest);
    return circe_fail_hint(
        CIRCE_ERR_ARGUMENT, "%s",
        "choose kpc (above chance), raw_kpc, circe, p, mean_gap, tpr_gap, fpr_gap, selection_gap, precision_gap, "
        "npv_gap, calibration_gap, auc, accuracy, mean_error, rms_error, r2");
}

/* What follows "sufficiency." */
static const char *split_notion(const char *name, int *notion) {
    for (*notion = 0; *notion < CIRCE_NOTIONS; ++*notion) {
        const char *word = circe_audit_notion_name((circe_audit_notion)*notion);
        size_t length = strlen(word);
        if (strncmp(name, word, length) == 0 && name[length] == '.') return name + length + 1;
    }
    *notion = -1;
    return name;
}

/* "kpc>0.02" */
static circe_status parse_condition(const char *text, condition *out) {
    char name[LONGEST_NAME];
    size_t length = strcspn(text, "<>"), blanks = length;
    while (blanks > 0 && text[blanks - 1] == ' ') blanks--;
    const char *number = text[length] != '\0' ? text + length + 1 : "";
    number += strspn(number, " ");
    if (length == 0 || length >= sizeof name || !io_number(number, &out->limit))
        return circe_fail(CIRCE_ERR_ARGUMENT, "--fail-if takes limits such as kpc>0.02 or auc<0.7, not '%s'", text);
    memcpy(name, text, blanks);
    name[blanks] = '\0';
    out->above = text[length] == '>';
    const char *quantity_name = split_notion(name, &out->notion);
    for (out->of = 0; out->of < N_QUANTITIES; out->of++)
        if (strcmp(quantities[out->of].name, quantity_name) == 0) return CIRCE_OK;
    return refuse_name(text, quantity_name);
}

/* ---- what is measured -------------------------------------------------------------------------------------------- */

static circe_audit_estimate gap_of(const circe_audit_finding *f, circe_audit_gap_kind kind) {
    const circe_audit_gap *gap = audit_gap_of(f, kind);
    return gap != NULL ? gap->gap : (circe_audit_estimate){(double)NAN, (double)NAN, (double)NAN};
}

static circe_audit_estimate measured(const circe_audit_result *r, const condition *c, const circe_audit_finding *f) {
    switch (quantities[c->of].what) {
        case OF_KPC:
            return f->kpc_above_chance;
        case OF_RAW_KPC:
            return audit_effect(&f->effects.kpc);
        case OF_CIRCE:
            return audit_effect(&f->effects.circe);
        case OF_P:
            return (circe_audit_estimate){f->p_adjusted, (double)NAN, (double)NAN};
        case OF_GAP:
            return gap_of(f, (circe_audit_gap_kind)quantities[c->of].which);
        case OF_METRIC:
            break;
    }
    return r->quality[f->prediction].of[quantities[c->of].which];
}

const char *circe_audit_within_name(circe_audit_within within) {
    static const char *const names[] = {"cannot tell", "within", "outside"};
    return names[within];
}

static circe_audit_within judge(const condition *c, const circe_audit_estimate *e) {
    double sign = c->above ? 1 : -1;
    if (isnan(e->lower) || isnan(e->upper)) return CIRCE_AUDIT_CANNOT_TELL;
    if (sign * e->lower > sign * c->limit && sign * e->upper > sign * c->limit) return CIRCE_AUDIT_OUTSIDE;
    if (sign * e->lower <= sign * c->limit && sign * e->upper <= sign * c->limit) return CIRCE_AUDIT_WITHIN;
    return CIRCE_AUDIT_CANNOT_TELL;
}

/* "score, race", and of several notions which */
static char *of_what(const circe_audit_result *r, const circe_audit_check *k) {
    arena *owner = audit_owner(r);
    const char *prediction = r->predictions[k->prediction].name;
    if (k->attribute < 0) return arena_text(owner, prediction);
    bool several = r->n_notions > 1;
    return arena_format(owner, "%s, %s%s%s", prediction, r->attributes[k->attribute].name, several ? ", " : "",
                        several ? circe_audit_notion_name(k->notion) : "");
}

/* Whether the rows can tell that the true value keeps the limit. */
static const char *tolerance_of(const circe_audit_check *k) {
    static const char *const texts[] = {": these rows cannot tell whether it is within the tolerance (95 %)",
                                        ": within the tolerance (95 %)", ": outside the tolerance (95 %)"};
    return isfinite(k->measured.lower) ? texts[k->within] : "";
}

/* "; KPC is 0.063, and chance alone would give 0.0050"; "": it is not an effect. */
static const char *chance_of(arena *owner, quantity what, const circe_effects *e) {
    char value[32], chance[32];
    if (what != OF_KPC && what != OF_RAW_KPC && what != OF_CIRCE) return "";
    audit_digits(what == OF_CIRCE ? e->circe.chance : e->kpc.chance, chance, sizeof chance);
    if (what != OF_KPC) return arena_format(owner, "; chance alone would give %s", chance);
    return arena_format(owner, "; KPC is %s, and chance alone would give %s",
                        audit_digits(e->kpc.value, value, sizeof value), chance);
}

/* "score, race: kpc above chance is 0.058 (95 % interval 0.038 to 0.086; KPC is 0.063, and chance alone would give
 * 0.0050), above the limit of 0.02: outside the tolerance (95 %)" */
static char *say(const circe_audit_result *r, const condition *c, const circe_audit_check *k,
                 const circe_audit_finding *f) {
    char value[32], lower[32], upper[32];
    const circe_audit_estimate *e = &k->measured;
    quantity what = quantities[c->of].what;
    const char *name = what == OF_KPC ? "kpc above chance" : quantities[c->of].name;
    arena *owner = audit_owner(r);
    const char *of = of_what(r, k), *chance = chance_of(owner, what, &f->effects), *interval = "";
    if (isfinite(e->lower))
        interval = arena_format(owner, " (95 %% interval %s to %s%s)", audit_digits(e->lower, lower, sizeof lower),
                                audit_digits(e->upper, upper, sizeof upper), chance);
    if (isnan(e->value)) return arena_format(owner, "%s: %s does not exist here, so the check fails", of, name);
    return arena_format(owner, "%s: %s is %s%s, %s the limit of %g%s", of, name,
                        audit_digits(e->value, value, sizeof value), interval,
                        !k->failed ? "within"
                        : c->above ? "above"
                                   : "below",
                        c->limit, tolerance_of(k));
}

/* A value that does not exist cannot be within its limit. */
static void add_check(circe_audit_result *r, const char *text, const condition *c, const circe_audit_finding *f) {
    bool of_metric = quantities[c->of].what == OF_METRIC;
    circe_audit_check *k = &r->checks[r->n_checks++];
    *k = (circe_audit_check){.condition = arena_text(audit_owner(r), text),
                             .prediction = f->prediction,
                             .attribute = of_metric ? -1 : f->attribute,
                             .notion = f->notion,
                             .measured = measured(r, c, f),
                             .limit = c->limit};
    double value = k->measured.value;
    k->failed = isnan(value) || (c->above ? value > c->limit : value < c->limit);
    k->within = judge(c, &k->measured);
    k->text = say(r, c, k, f);
}

static bool has_gap(const circe_audit_finding *f, const condition *c) {
    return audit_gap_of(f, (circe_audit_gap_kind)quantities[c->of].which) != NULL;
}

/* A limit on the quality applies once; one on a gap to the notions that have it, or to the first if none has it. */
static bool applies(const circe_audit_result *r, const condition *c, int64_t notion, const circe_audit_finding *f) {
    quantity what = quantities[c->of].what;
    if (c->notion >= 0 && c->notion != (int)f->notion) return false;
    if (what == OF_METRIC) return notion == 0 && f->attribute == 0;
    if (what != OF_GAP || has_gap(f, c) || c->notion >= 0) return true;
    bool nowhere = notion == 0;
    for (int64_t k = 0; k < r->n_notions; k++)
        nowhere = nowhere && !has_gap(audit_at(r, k, f->prediction, f->attribute), c);
    return nowhere;
}

static void check_condition(circe_audit_result *r, const char *text, const condition *c) {
    for (int64_t p = 0; p < r->n_predictions; p++) {
        for (int64_t a = 0; a < r->n_attributes; a++) {
            for (int64_t k = 0; k < r->n_notions; k++)
                if (applies(r, c, k, audit_at(r, k, p, a))) add_check(r, text, c, audit_at(r, k, p, a));
        }
    }
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* Refuses a limit on a notion that is not computed, because it could never fail. */
static circe_status check_notion(const circe_audit_options *o, const char *text, const condition *c) {
    if (c->notion < 0 || strcmp(o->notion, "all") == 0) return CIRCE_OK;
    const char *name = circe_audit_notion_name((circe_audit_notion)c->notion);
    if (strcmp(o->notion, name) == 0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "--fail-if '%s' concerns %s, but the audit concerns %s; add --notion %s or all", text, name,
                      o->notion, name);
}

circe_status audit_checks_parse(const circe_audit_options *o) {
    OWNED_BY(name_list_free) name_list list = {0};
    condition c = {0};
    if (o->fail_if == NULL) return CIRCE_OK;
    circe_status status = name_list_split("fail-if", o->fail_if, &list);
    for (int64_t i = 0; i < list.n && status == CIRCE_OK; i++) {
        status = parse_condition(list.names[i], &c);
        if (status == CIRCE_OK) status = check_notion(o, list.names[i], &c);
    }
    return status;
}

void audit_checks_make(const circe_audit_options *o, circe_audit_result *r) {
    OWNED_BY(name_list_free) name_list list = {0};
    condition c = {0};
    if (o->fail_if == NULL || name_list_split("fail-if", o->fail_if, &list) != CIRCE_OK) return;
    r->checks = arena_alloc(audit_owner(r), (size_t)(list.n * r->n_findings) * sizeof *r->checks);
    for (int64_t i = 0; i < list.n; i++)
        if (parse_condition(list.names[i], &c) == CIRCE_OK) check_condition(r, list.names[i], &c);
}

int64_t circe_audit_failed(const circe_audit_result *r) {
    CIRCE_OWN_SETTINGS;
    int64_t n = 0;
    for (int64_t i = 0; i < r->n_checks; i++) n += r->checks[i].failed != 0;
    return n;
}
