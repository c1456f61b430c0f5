/* Decides over all findings, with Holm's correction, and words the verdicts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
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

/* Holm: the k-th smallest of m counts m - k + 1 times, and none less than the one before it. Across the attributes of
 * one notion and one prediction: a further notion is another question, and does not change the answers to the first. */
static void adjust(const circe_audit_result *r, circe_audit_finding *findings) {
    int64_t m = r->n_attributes;
    OWNED circe_audit_finding **order = small_alloc((size_t)m * sizeof *order);
    double least = 0;
    for (int64_t i = 0; i < m; i++) order[i] = &findings[i];
    qsort(order, (size_t)m, sizeof *order, by_p);
    for (int64_t i = 0; i < m; i++) {
        double p = fmin(1, (double)(m - i) * order[i]->p_value);
        least = fmax(least, p);
        order[i]->p_adjusted = least;
    }
}

/* The trust of the test that gave the p-value; if nothing was found, the worst of the deciding tests. */
static circe_trust trust_of(const circe_audit_result *r, const circe_audit_finding *f) {
    if (f->n_tests == 0) return CIRCE_TRUST_GOOD; /* x is constant */
    circe_trust trust = f->tests[f->smallest].result.trust;
    for (int i = 0; f->p_adjusted > r->alpha && i < f->n_deciding; i++) {
        if (f->tests[i].result.trust > trust) trust = f->tests[i].result.trust;
    }
    return trust;
}

/* If the test itself is off on data like these, a small p-value shows nothing; a large one is all the more credible. */
static circe_audit_decision decide(const circe_audit_result *r, const circe_audit_finding *f) {
    bool small = f->p_adjusted <= r->alpha;
    bool off = f->has_calibration && f->calibration[f->smallest].summary.trust == CIRCE_TRUST_POOR;
    if (f->trust == CIRCE_TRUST_POOR || (small && off)) return CIRCE_AUDIT_UNSURE;
    return small ? CIRCE_AUDIT_DEPENDS : CIRCE_AUDIT_NOT_FOUND;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* A share in percent with two digits: "0.42 %", "12 %"; returns `out`. */
static const char *percent_text(double share, char *out, size_t size) {
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

/* x, z and what is given, in words. */
typedef struct words {
    FILE *out;
    const circe_audit_result *r;
    const circe_audit_finding *f;
    const char *x, *z;
    const char *given; /* "": nothing */
} words;

/* "score", or what of it is to be explained. */
static void say_unexplained(const words *w) {
    if (w->given[0] == '\0')
        fprintf(w->out, "%s", w->x);
    else if (w->f->notion == CIRCE_NOTION_SEPARATION && w->r->n_given == 0)
        fputs("the prediction that the outcome leaves unexplained", w->out);
    else
        fprintf(w->out, "%s that %s %s unexplained", w->x, w->given,
                w->r->n_given > 0 && w->f->notion != CIRCE_NOTION_INDEPENDENCE ? "leave" : "leaves");
}

/* "KPC is 4.2 %, and chance alone would give 3.6 %" */
static void say_chance(const words *w) {
    const circe_effect *kpc = &w->f->effects.kpc;
    char value[32], chance[32];
    fprintf(w->out, "KPC is %s, and chance alone would give %s", percent_text(kpc->value, value, sizeof value),
            percent_text(kpc->chance, chance, sizeof chance));
}

static void say_effect(const words *w) {
    const circe_audit_estimate *e = &w->f->kpc_above_chance;
    char value[32], lower[32], upper[32];
    if (!w->f->has_effects) return;
    if (e->value > 0)
        fprintf(w->out, " The attribute explains about %s of the variation in ",
                percent_text(e->value, value, sizeof value));
    else
        fputs(" The attribute explains no more than chance would of the variation in ", w->out);
    say_unexplained(w);
    if (e->upper > 0)
        fprintf(w->out, " (KPC above chance; 95 %% interval %s to %s; ", percent_text(e->lower, lower, sizeof lower),
                percent_text(e->upper, upper, sizeof upper));
    else
        fputs(" (", w->out);
    say_chance(w);
    fputs(").", w->out);
}

static void say_largest_effect(const words *w) {
    double upper = w->f->kpc_above_chance.upper;
    char text[32];
    if (!w->f->has_effects) return;
    if (upper > 0)
        fprintf(w->out,
                " The data are compatible with an effect of at most %s (KPC above chance, the upper end of its 95 %% "
                "interval; ",
                percent_text(upper, text, sizeof text));
    else
        fputs(" The data show no effect beyond chance (", w->out);
    say_chance(w);
    fputs(").", w->out);
}

/* The words name rates of the finding's notion if there are decisions, otherwise means. */
static bool is_said(const words *w, const circe_audit_gap *g) {
    bool rates = w->r->outcome == CIRCE_OUTCOME_BINARY;
    bool mean = g->kind == CIRCE_GAP_MEAN_PREDICTION || g->kind == CIRCE_GAP_CALIBRATION;
    bool other = w->f->notion == CIRCE_NOTION_SEPARATION && g->stratum < 0;
    bool largest = g->category == NULL || g == audit_gap_of(w->f, g->kind);
    return !other && largest && (!rates || !mean);
}

/* The rate of a group that a gap is about; NaN: the gap is not the difference of two such rates. */
static double rate_in(const words *w, const circe_audit_gap *g, const char *group) {
    static const circe_audit_metric rates[CIRCE_GAP_KINDS] = {
        [CIRCE_GAP_TRUE_POSITIVE_RATE] = CIRCE_METRIC_TRUE_POSITIVE_RATE,
        [CIRCE_GAP_FALSE_POSITIVE_RATE] = CIRCE_METRIC_FALSE_POSITIVE_RATE,
        [CIRCE_GAP_SELECTION_RATE] = CIRCE_METRIC_SELECTION_RATE,
        [CIRCE_GAP_PRECISION] = CIRCE_METRIC_PRECISION,
        [CIRCE_GAP_NEGATIVE_PREDICTIVE_VALUE] = CIRCE_METRIC_NEGATIVE_PREDICTIVE_VALUE};
    const circe_audit_groups *groups = &w->r->groups[w->f->attribute];
    bool mean = g->kind == CIRCE_GAP_MEAN_PREDICTION || g->kind == CIRCE_GAP_CALIBRATION;
    if (mean || g->category != NULL || w->r->n_given > 0) return (double)NAN;
    for (int64_t k = 0; k < groups->n_groups; k++)
        if (strcmp(groups->labels[k], group) == 0) return w->f->groups[k].of[rates[g->kind]].value;
    return (double)NAN;
}

/* "is 0.45 in a and 0.15 in b, a difference of 0.30", or "differs by 0.30 between a and b". */
static void say_groups(const words *w, const circe_audit_gap *g) {
    double high = rate_in(w, g, g->high), low = rate_in(w, g, g->low);
    char gap[32], higher[32], lower[32];
    audit_digits(g->gap.value, gap, sizeof gap);
    if (isnan(high) || isnan(low))
        fprintf(w->out, " differs by %s between %s and %s", gap, g->high, g->low);
    else
        fprintf(w->out, " is %s in %s and %s in %s, a difference of %s", audit_digits(high, higher, sizeof higher),
                g->high, audit_digits(low, lower, sizeof lower), g->low, gap);
}

/* The largest of many differences is far from 0 by chance. */
static void say_interval(const words *w, const circe_audit_gap *g) {
    char lower[32], upper[32], chance[32];
    if (!isfinite(g->gap.lower)) return;
    fprintf(w->out, " (95 %% interval %s to %s", audit_digits(g->gap.lower, lower, sizeof lower),
            audit_digits(g->gap.upper, upper, sizeof upper));
    if (isfinite(g->chance_upper))
        fprintf(w->out, "; by chance up to %s", audit_digits(g->chance_upper, chance, sizeof chance));
    fputs(")", w->out);
}

/* States the gap that people ask for first: between which groups, and how certain. For numbers it depends on the bins,
 * so only the table has it. */
static void say_gaps(const words *w) {
    FILE *out = w->out;
    if (audit_attribute(w->r, w->f)->categories == NULL) return;
    for (int i = 0; i < w->f->n_gaps; i++) {
        const circe_audit_gap *g = &w->f->gaps[i];
        if (!isfinite(g->gap.value) || !is_said(w, g)) continue;
        if (g->category != NULL)
            fprintf(out, " The share of %s", g->category);
        else
            fprintf(out, " The %s", circe_audit_gap_name(g->kind));
        if (g->gap.value == 0.0) {
            fputs(" is the same in all groups.", out);
            continue;
        }
        say_groups(w, g);
        say_interval(w, g);
        fputs(".", out);
    }
}

static const char *adjusted(const words *w) { return w->r->n_attributes > 1 ? ", adjusted" : ""; }

static void say_depends(const words *w) {
    const circe_audit_finding *f = w->f;
    char p[40];
    if (w->given[0] != '\0')
        fprintf(w->out, "Given %s, %s still depends on %s", w->given, w->x, w->z);
    else
        fprintf(w->out, "%s depends on %s", w->x, w->z);
    fprintf(w->out, " (p %s%s).", test_p_equals(f->p_adjusted, p, sizeof p), adjusted(w));
    say_effect(w);
    int64_t place = strongest(&f->along);
    if (place >= 0)
        fprintf(w->out, " The dependence is strongest around %s = %.3g.", f->along.column, f->along.place[place]);
    say_gaps(w);
}

/* Names a test that does not decide but disagrees, at its share of the level. */
static void say_otherwise(const words *w) {
    const circe_audit_finding *f = w->f;
    int others = f->n_tests - f->n_deciding;
    for (int i = f->n_deciding; i < f->n_tests; i++) {
        const circe_test_result *t = &f->tests[i].result;
        char p[40];
        if (f->tests[i].failed || t->trust == CIRCE_TRUST_POOR || others * t->p_value > w->r->alpha) continue;
        fprintf(w->out, " The %s test, which was not chosen to decide, disagrees (p %s). Check this on new rows.",
                f->tests[i].name, test_p_equals(t->p_value, p, sizeof p));
        return;
    }
}

static void say_not_found(const words *w) {
    const circe_audit_finding *f = w->f;
    char p[40];
    fprintf(w->out, "No dependence of %s on %s%s%s was found (p %s%s). This is not a proof that there is none.", w->x,
            w->z, w->given[0] != '\0' ? " beyond " : "", w->given, test_p_equals(f->p_adjusted, p, sizeof p),
            adjusted(w));
    say_largest_effect(w);
    say_otherwise(w);
    say_gaps(w);
}

/* Whether a few rows outweigh all others in a deciding test, and ranks give another answer. */
static bool rows_object(const circe_audit_result *r, const circe_audit_finding *f) {
    for (int i = 0; i < f->n_deciding; i++) {
        const circe_test_result *t = &f->tests[i].result;
        if (isfinite(t->robust_p) && (t->p_value <= r->alpha) != (t->robust_p <= r->alpha)) return true;
    }
    return false;
}

static void say_unsure(const words *w) {
    fprintf(w->out, "The %s test cannot say whether %s depends on %s%s%s: ", w->f->tests[w->f->smallest].name, w->x,
            w->z, w->given[0] != '\0' ? " given " : "", w->given);
    fputs(w->f->trust != CIRCE_TRUST_POOR ? "on data like these, it finds dependence too often where there is none."
          : rows_object(w->r, w->f) ? "a few rows outweigh all others (outliers, or numbers that stand for missing "
                                      "values), and the ranks give a different answer. Use --transform normal-scores."
          : w->f->notion == CIRCE_NOTION_SEPARATION
              ? "its regressions on the outcome are not good enough for a valid p-value."
              : "its regressions on what is given are not good enough for a valid p-value.",
          w->out);
}

static void say_care(const words *w) {
    if (w->f->decision == CIRCE_AUDIT_UNSURE || w->f->trust != CIRCE_TRUST_DOUBTFUL) return;
    fputs(rows_object(w->r, w->f)
              ? " Use the p-value with care: a few rows outweigh all others. Compare with --transform normal-scores."
              : " Use the p-value with care: one of the checks of its regressions failed.",
          w->out);
}

static char *verdict_of(const circe_audit_result *r, const circe_audit_finding *f) {
    char *text = NULL;
    size_t bytes = 0;
    const audit_question *q = audit_question_of(r, f);
    words w = {
        .out = open_memstream(&text, &bytes), .r = r, .f = f, .x = q->x->name, .z = q->z->name, .given = q->given};
    if (w.out == NULL) return arena_text(audit_owner(r), "");
    if (f->n_tests == 0)
        fprintf(w.out,
                "%s is the same in every row, so it depends on nothing. See its quality before you call this good.",
                w.x);
    else if (f->decision == CIRCE_AUDIT_DEPENDS)
        say_depends(&w);
    else if (f->decision == CIRCE_AUDIT_NOT_FOUND)
        say_not_found(&w);
    else
        say_unsure(&w);
    say_care(&w);
    fclose(w.out);
    char *kept = arena_text(audit_owner(r), text);
    free(text);
    return kept;
}

void audit_conclude(circe_audit_result *r) {
    for (int64_t i = 0; i < r->n_findings; i += r->n_attributes) adjust(r, &r->findings[i]);
    for (int64_t i = 0; i < r->n_findings; i++) {
        circe_audit_finding *f = &r->findings[i];
        f->trust = trust_of(r, f);
        f->decision = decide(r, f);
        f->verdict = verdict_of(r, f);
    }
}
