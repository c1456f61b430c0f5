/* Over all pairs: Holm's correction, what is decided, and how to say it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/small.h"
#include "jobs/audit_parts.h"
#include "jobs/test_json.h"

const char *circe_audit_decision_name(circe_audit_decision decision) {
    static const char *const names[] = {"depends", "no dependence found", "cannot be said"};
    return names[decision];
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

static int by_p(const void *one, const void *other) {
    double p = (*(circe_audit_finding *const *)one)->p_value, q = (*(circe_audit_finding *const *)other)->p_value;
    return (p > q) - (p < q);
}

/* Holm: the k-th smallest of m counts m - k + 1 times, and none less than the one before it. */
static void adjust(circe_audit_result *r, int64_t prediction) {
    int64_t m = r->n_attributes;
    circe_audit_finding **order = small_alloc((size_t)m * sizeof *order);
    double least = 0;
    for (int64_t i = 0; i < m; i++) order[i] = audit_at(r, prediction, i);
    qsort(order, (size_t)m, sizeof *order, by_p);
    for (int64_t i = 0; i < m; i++) {
        double p = fmin(1, (double)(m - i) * order[i]->p_value);
        least = fmax(least, p);
        order[i]->p_adjusted = least;
    }
    free(order);
}

/* That of the test the p-value is from; where it says nothing, the worst of those that decide. */
static circe_trust trust_of(const circe_audit_result *r, const circe_audit_finding *f) {
    circe_trust trust = f->tests[f->smallest].result.trust;
    for (int i = 0; f->p_adjusted > r->alpha && i < f->n_deciding; i++) {
        if (f->tests[i].result.trust > trust) trust = f->tests[i].result.trust;
    }
    return trust;
}

/* Where the test itself is off on data like these, a small p-value shows nothing; a large one then is all the more
 * credible. */
static circe_audit_decision decide(const circe_audit_result *r, const circe_audit_finding *f) {
    bool small = f->p_adjusted <= r->alpha;
    bool off = f->has_calibration && f->calibration[f->smallest].summary.trust == CIRCE_TRUST_POOR;
    if (f->trust == CIRCE_TRUST_POOR || (small && off)) return CIRCE_AUDIT_UNSURE;
    return small ? CIRCE_AUDIT_DEPENDS : CIRCE_AUDIT_NOT_FOUND;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

const char *audit_percent(double share, char *out, size_t size) {
    double percent = 100 * share;
    int digits = percent >= 10 || percent == 0 ? 0 : 1 - (int)floor(log10(fabs(percent)));
    if (percent > 0 && percent < 0.01)
        snprintf(out, size, "less than 0.01 %%");
    else
        snprintf(out, size, "%.*f %%", digits, percent);
    return out;
}

const char *audit_digits(double value, char *out, size_t size) {
    snprintf(out, size, value != 0 && fabs(value) < 10 ? "%#.2g" : "%.4g", value);
    return out;
}

/* The place where the dependence is strongest, among those above what chance allows. */
static int64_t strongest(const circe_effects_along *along) {
    int64_t best = -1;
    for (int64_t i = 0; i < along->points; i++) {
        if (along->value[i] > along->null_upper[i] && (best < 0 || along->value[i] > along->value[best])) best = i;
    }
    return best;
}

static void say_effect(FILE *out, const circe_audit_finding *f) {
    const circe_effect *e = &f->effects.kpc;
    char value[32], lower[32], upper[32], chance[32];
    if (!f->has_effects) return;
    fprintf(out,
            " It explains about %s of what the outcome leaves of the prediction (KPC; 95 %% interval %s to %s; chance "
            "alone would show %s).",
            audit_percent(e->value, value, sizeof value), audit_percent(e->lower, lower, sizeof lower),
            audit_percent(e->upper, upper, sizeof upper), audit_percent(e->chance, chance, sizeof chance));
}

/* The gap that people ask for first: between which groups, and how sure. Of numbers it depends on the bins, and the
 * table has it. */
static void say_gaps(FILE *out, const circe_audit_result *r, const circe_audit_finding *f) {
    if (audit_attribute(r, f)->categories == NULL) return;
    for (int i = 0; i < f->n_gaps; i++) {
        const circe_audit_gap *g = &f->gaps[i];
        bool rates = r->outcome == CIRCE_OUTCOME_BINARY;
        if (!isfinite(g->gap.value) || g->stratum < 0 || (rates && g->kind == CIRCE_GAP_MEAN_PREDICTION)) continue;
        char value[32], lower[32], upper[32];
        if (g->gap.value == 0.0) {
            fprintf(out, " The %s is the same in all groups.", circe_audit_gap_name(g->kind));
            continue;
        }
        fprintf(out, " The %s differs by %s ", circe_audit_gap_name(g->kind),
                audit_digits(g->gap.value, value, sizeof value));
        if (isfinite(g->gap.lower))
            fprintf(out, "(95 %% interval %s to %s) ", audit_digits(g->gap.lower, lower, sizeof lower),
                    audit_digits(g->gap.upper, upper, sizeof upper));
        fprintf(out, "between %s and %s.", g->high, g->low);
    }
}

static void say_depends(FILE *out, const circe_audit_result *r, const circe_audit_finding *f) {
    char p[40];
    fprintf(out, "Given %s, %s still depends on %s (p %s%s).", r->target.name, audit_prediction(r, f)->name,
            audit_attribute(r, f)->name, test_p_equals(f->p_adjusted, p, sizeof p),
            r->n_attributes > 1 ? ", adjusted" : "");
    say_effect(out, f);
    int64_t place = strongest(&f->along);
    if (place >= 0) fprintf(out, " It is strongest around %s = %.3g.", r->target.name, f->along.place[place]);
    say_gaps(out, r, f);
}

/* Tests that do not decide, but say otherwise, each held to its share of the level. */
static void say_otherwise(FILE *out, const circe_audit_result *r, const circe_audit_finding *f) {
    int others = f->n_tests - f->n_deciding;
    for (int i = f->n_deciding; i < f->n_tests; i++) {
        const circe_test_result *t = &f->tests[i].result;
        char p[40];
        if (f->tests[i].failed || t->trust == CIRCE_TRUST_POOR || others * t->p_value > r->alpha) continue;
        fprintf(out, " The %s test, which was not to decide, says otherwise (p %s): look again, on other rows.",
                f->tests[i].name, test_p_equals(t->p_value, p, sizeof p));
        return;
    }
}

static void say_not_found(FILE *out, const circe_audit_result *r, const circe_audit_finding *f) {
    char p[40], upper[32], chance[32];
    fprintf(out, "No dependence of %s on %s beyond %s was found (p %s%s). That is not a proof that there is none.",
            audit_prediction(r, f)->name, audit_attribute(r, f)->name, r->target.name,
            test_p_equals(f->p_adjusted, p, sizeof p), r->n_attributes > 1 ? ", adjusted" : "");
    if (f->has_effects)
        fprintf(out,
                " The data are compatible with an effect of at most %s (KPC, the upper end of its 95 %% interval; "
                "chance alone would show %s).",
                audit_percent(f->effects.kpc.upper, upper, sizeof upper),
                audit_percent(f->effects.kpc.chance, chance, sizeof chance));
    say_otherwise(out, r, f);
    say_gaps(out, r, f);
}

/* Of a deciding test: a few rows outweigh all others, and by ranks the answer is another. */
static bool rows_object(const circe_audit_result *r, const circe_audit_finding *f) {
    for (int i = 0; i < f->n_deciding; i++) {
        const circe_test_result *t = &f->tests[i].result;
        if (isfinite(t->robust_p) && (t->p_value <= r->alpha) != (t->robust_p <= r->alpha)) return true;
    }
    return false;
}

static void say_unsure(FILE *out, const circe_audit_result *r, const circe_audit_finding *f) {
    fprintf(out, "Whether %s depends on %s given %s cannot be said from the %s test: ", audit_prediction(r, f)->name,
            audit_attribute(r, f)->name, r->target.name, f->tests[f->smallest].name);
    fputs(f->trust != CIRCE_TRUST_POOR ? "on data like these, where nothing depends, it finds dependence too often."
          : rows_object(r, f)
              ? "a few rows outweigh all others (outliers, or numbers that stand for missing), and by ranks the answer "
                "is another; --transform normal-scores gives it."
              : "its regressions on the outcome are not good enough for its p-value to be used.",
          out);
}

static void say_care(FILE *out, const circe_audit_result *r, const circe_audit_finding *f) {
    if (f->decision == CIRCE_AUDIT_UNSURE || f->trust != CIRCE_TRUST_DOUBTFUL) return;
    fputs(rows_object(r, f) ? " The p-value is to be taken with care: a few rows outweigh all others; compare with "
                              "--transform normal-scores."
                            : " The p-value is to be taken with care: one of the checks of its regressions failed.",
          out);
}

static char *verdict_of(const circe_audit_result *r, const circe_audit_finding *f) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("%s", "");
    if (f->decision == CIRCE_AUDIT_DEPENDS)
        say_depends(out, r, f);
    else if (f->decision == CIRCE_AUDIT_NOT_FOUND)
        say_not_found(out, r, f);
    else
        say_unsure(out, r, f);
    say_care(out, r, f);
    fclose(out);
    return text;
}

void audit_conclude(circe_audit_result *r) {
    for (int64_t p = 0; p < r->n_predictions; p++) {
        adjust(r, p);
        for (int64_t i = 0; i < r->n_attributes; i++) {
            circe_audit_finding *f = audit_at(r, p, i);
            f->trust = trust_of(r, f);
            f->decision = decide(r, f);
            f->verdict = verdict_of(r, f);
        }
    }
}
