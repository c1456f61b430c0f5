/* The folder of an audit: report.html, figures with their scripts and data, results.json, results.csv. The report
 * answers first, and then shows what the answer rests on, attribute by attribute. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/small.h"
#include "io/io.h"
#include "io/paths.h"
#include "jobs/audit_page.h"
#include "jobs/json.h"
#include "jobs/test_json.h"
#include "report/cells.h"

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* The cells are freed. `text_columns`: the first so many are words, the others numbers. */
static void show_table(audit_page *w, const char *caption, const char *const *columns, int64_t n_columns,
                       int text_columns, int64_t marked, cells *list) {
    bool numeric[CELLS_MOST_COLUMNS];
    for (int c = 0; c < CELLS_MOST_COLUMNS; c++) numeric[c] = c >= text_columns;
    report_table table = cells_table(list, caption, columns, n_columns);
    table.numeric = numeric;
    table.marked = marked;
    report_add_table(w->page, &table);
    cells_free(list);
}

/* Which prediction a row is of, where there are several: tables begin with it. */
static bool names_predictions(const circe_audit_result *r) { return r->n_predictions > 1; }

static void add_prediction(cells *list, const circe_audit_result *r, const circe_audit_finding *f) {
    if (names_predictions(r)) cells_add(list, "%s", audit_prediction(r, f)->name);
}

/* A table whose first column is that of the prediction, where there are several. */
static void show_by_prediction(audit_page *w, const char *caption, const char *const *columns, int64_t n_columns,
                               int text_columns, cells *list) {
    int left_out = names_predictions(w->r) ? 0 : 1;
    show_table(w, caption, columns + left_out, n_columns - left_out, text_columns - left_out, -1, list);
}

static void add_p(cells *list, double p) {
    char text[32];
    cells_add(list, "%s", test_p_text(p, text, sizeof text));
}

static void add_effect(cells *list, bool there, const circe_effect *e) {
    if (there)
        cells_add(list, "%.3f (%.3f to %.3f)", e->value, e->lower, e->upper);
    else
        cells_add(list, "–");
}

/* A number stays on a line with its percent sign. */
static void show_verdict(audit_page *w, const char *text) {
    char *tied = small_alloc(2 * strlen(text) + 1), *to = tied;
    for (const char *c = text; *c != '\0'; c++) {
        bool percent = *c == ' ' && c[1] == '%';
        if (percent) *to++ = '\xc2';
        *to++ = percent ? '\xa0' : *c;
    }
    report_text(w->page, "%s", tied);
    free(tied);
}

/* ---- how good the predictions are -------------------------------------------------------------------------------- */

/* Three digits, those at the end included. */
static const char *three_digits(double value, char *out, size_t size) {
    snprintf(out, size, value != 0 && fabs(value) < 100 ? "%#.3g" : "%.4g", value);
    return out;
}

static void add_estimate(cells *list, const circe_audit_estimate *e) {
    char value[32], lower[32], upper[32];
    if (!isfinite(e->value))
        cells_add(list, "–");
    else if (!isfinite(e->lower))
        cells_add(list, "%s", three_digits(e->value, value, sizeof value));
    else
        cells_add(list, "%s (%s to %s)", three_digits(e->value, value, sizeof value),
                  three_digits(e->lower, lower, sizeof lower), three_digits(e->upper, upper, sizeof upper));
}

/* The metrics that some of the rows have: their number. */
static int64_t metrics_there(const circe_audit_metrics *rows, int64_t n, circe_audit_metric *list) {
    int64_t there = 0;
    for (int m = 0; m < CIRCE_METRICS; m++) {
        bool any = false;
        for (int64_t i = 0; i < n; i++) any = any || isfinite(rows[i].of[m].value);
        if (any) list[there++] = (circe_audit_metric)m;
    }
    return there;
}

/* What the outcome alone would give: a predictor that is no better than that tells nothing. */
static void show_useless(audit_page *w, int64_t prediction) {
    const circe_audit_metrics *q = &w->r->quality[prediction];
    const circe_audit_estimate *auc = &q->of[CIRCE_METRIC_AUC], *r2 = &q->of[CIRCE_METRIC_R2];
    const char *name = w->r->predictions[prediction].name;
    if (isfinite(auc->lower) && auc->lower <= 0.5)
        report_note(w->page,
                    "`%s` does not order the outcomes better than chance (AUC %.3g, 95 %% interval %.3g to %.3g). That "
                    "such a prediction depends on little says nothing for it.",
                    name, auc->value, auc->lower, auc->upper);
    if (isfinite(r2->lower) && r2->lower <= 0)
        report_note(w->page,
                    "`%s` does not predict better than the mean of the outcome (R² %.3g, 95 %% interval %.3g to %.3g). "
                    "That such a prediction depends on little says nothing for it.",
                    name, r2->value, r2->lower, r2->upper);
}

/* What says most; the rest is in the tables of the groups. */
static void show_quality(audit_page *w) {
    static const circe_audit_metric first[] = {CIRCE_METRIC_AUC, CIRCE_METRIC_ACCURACY, CIRCE_METRIC_R2,
                                               CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR, CIRCE_METRIC_MEAN_ERROR};
    const circe_audit_result *r = w->r;
    const char *columns[1 + CIRCE_METRICS] = {"prediction"};
    cells list = {0};
    int64_t n = 0;
    bool there[CIRCE_METRICS] = {0};
    for (size_t m = 0; m < sizeof first / sizeof first[0]; m++) {
        for (int64_t p = 0; p < r->n_predictions; p++)
            there[m] = there[m] || isfinite(r->quality[p].of[first[m]].value);
        if (there[m]) columns[1 + n++] = circe_audit_metric_name(first[m]);
    }
    if (n == 0) return;
    for (int64_t p = 0; p < r->n_predictions; p++) {
        cells_add(&list, "%s", r->predictions[p].name);
        for (size_t m = 0; m < sizeof first / sizeof first[0]; m++)
            if (there[m]) add_estimate(&list, &r->quality[p].of[first[m]]);
    }
    report_heading(w->page, "How good the predictions are");
    show_table(w, "Of all rows, with 95 % intervals. The mean error is the prediction less the outcome.", columns,
               1 + n, 1, -1, &list);
    for (int64_t p = 0; p < r->n_predictions; p++) show_useless(w, p);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* "the kci test", or "the kci and gcm tests together (the smaller p-value, times 2)". */
static char *deciding_rule(const circe_audit_finding *f) {
    if (f->n_deciding == 1) return small_format("the %s test", f->tests[0].name);
    return small_format("the %s and %s tests together (the smaller p-value, times 2)", f->tests[0].name,
                        f->tests[1].name);
}

static const char *title_of(circe_audit_notion notion) {
    static const char *const titles[] = {"Separation", "Independence", "Sufficiency"};
    return titles[notion];
}

static const char *sign_of(circe_audit_decision decision) {
    return decision == CIRCE_AUDIT_DEPENDS ? "✗" : decision == CIRCE_AUDIT_NOT_FOUND ? "✓" : "?";
}

/* "once income is known, does the prediction still depend on the attribute?" */
static char *question_of(const circe_audit_result *r, const circe_audit_finding *f) {
    char *given = audit_given_text(r, f), *text;
    bool outcome = f->notion == CIRCE_NOTION_SUFFICIENCY, plain = given[0] == '\0';
    /* of several predictions each is given in its turn */
    const char *known = !outcome || r->n_predictions == 1 ? given : r->n_given == 0 ? "the prediction" : NULL;
    if (plain)
        text = small_format("does the prediction depend on the attribute?");
    else if (known != NULL)
        text = small_format("once %s %s known, does the %s still depend on the attribute?", known,
                            strstr(known, " and ") != NULL && r->n_given > 0 ? "are" : "is",
                            outcome ? "outcome" : "prediction");
    else
        text = small_format(
            "once the prediction and the given columns are known, does the outcome still depend on the "
            "attribute?");
    free(given);
    return text;
}

static void add_verdict(cells *list, const circe_audit_result *r, const circe_audit_finding *f) {
    add_prediction(list, r, f);
    cells_add(list, "%s", audit_attribute(r, f)->name);
    cells_add(list, "%s %s", sign_of(f->decision), circe_audit_decision_name(f->decision));
    add_effect(list, f->has_effects, &f->effects.kpc);
    add_p(list, f->p_adjusted);
    add_p(list, f->p_value);
    cells_add(list, "%s", circe_trust_name(f->trust));
}

static void show_notion(audit_page *w, int64_t k) {
    static const char *const columns[] = {"prediction", "attribute", "verdict", "KPC (95 % interval)",
                                          "adjusted",   "p-value",   "trust"};
    const circe_audit_result *r = w->r;
    const circe_audit_finding *f = audit_at(r, k, 0, 0);
    cells list = {0};
    if (r->n_notions > 1) report_subheading(w->page, title_of(f->notion));
    for (int64_t i = 0; i < r->n_attributes; i++) {
        for (int64_t p = 0; p < r->n_predictions; p++) add_verdict(&list, r, audit_at(r, k, p, i));
    }
    char *rule = deciding_rule(f), *question = question_of(r, f), *given = audit_given_text(r, f);
    char *caption =
        small_format("The question: %s Decided by %s at level %g; `adjusted` is corrected by Holm across the %" PRId64
                     " attribute%s of a prediction. KPC is the share of %s that the attribute explains.",
                     question, rule, r->alpha, r->n_attributes, r->n_attributes == 1 ? "" : "s",
                     given[0] == '\0'                         ? "the prediction"
                     : f->notion == CIRCE_NOTION_SUFFICIENCY  ? "what the prediction leaves of the outcome"
                     : f->notion == CIRCE_NOTION_INDEPENDENCE ? "what the given columns leave of the prediction"
                                                              : "what the outcome leaves of the prediction");
    show_by_prediction(w, caption, columns, 7, 3, &list);
    free(given);
    free(question);
    free(caption);
    free(rule);
    for (int64_t i = 0; i < r->n_attributes; i++) {
        for (int64_t p = 0; p < r->n_predictions; p++) show_verdict(w, audit_at(r, k, p, i)->verdict);
    }
}

static void show_answer(audit_page *w) {
    report_heading(w->page, "Verdict");
    for (int64_t k = 0; k < w->r->n_notions; k++) show_notion(w, k);
}

/* Every two predictions. */
static void show_differences(audit_page *w) {
    static const char *const columns[] = {"in", "first", "second", "better", "first less second (95 % interval)"};
    const circe_audit_result *r = w->r;
    cells list = {0};
    if (r->n_differences == 0) return;
    for (int64_t i = 0; i < r->n_differences; i++) {
        const circe_audit_difference *d = &r->differences[i];
        if (d->attribute < 0)
            cells_add(&list, "%s", d->name);
        else
            cells_add(&list, "gap in the %s, %s%s%s", d->name, r->attributes[d->attribute].name,
                      r->n_notions > 1 ? ", " : "", r->n_notions > 1 ? circe_audit_notion_name(d->notion) : "");
        cells_add(&list, "%s", r->predictions[d->first].name);
        cells_add(&list, "%s", r->predictions[d->second].name);
        cells_add(&list, "%s", d->better >= 0 ? r->predictions[d->better].name : "cannot tell");
        add_estimate(&list, &d->difference);
    }
    report_heading(w->page, "Which prediction is better at what");
    show_table(w,
               "Differences between predictions on the same rows. One is better where the 95 % interval of the "
               "difference excludes 0. Gaps of an attribute of numbers are between four groups of it.",
               columns, 5, 4, -1, &list);
}

/* Of --fail-if. */
static void show_checks(audit_page *w) {
    static const char *const columns[] = {"limit",         "prediction", "attribute", "kept",
                                          "95 % interval", "value",      "notion"};
    const circe_audit_result *r = w->r;
    cells list = {0};
    bool notions = r->n_notions > 1;
    if (r->n_checks == 0) return;
    for (int64_t i = 0; i < r->n_checks; i++) {
        const circe_audit_check *c = &r->checks[i];
        cells_add(&list, "%s", c->condition);
        cells_add(&list, "%s", r->predictions[c->prediction].name);
        cells_add(&list, "%s", c->attribute >= 0 ? r->attributes[c->attribute].name : "–");
        cells_add(&list, "%s", c->failed ? "✗ no" : "✓ yes");
        cells_add(&list, "%s", circe_audit_within_name(c->within));
        add_estimate(&list, &c->measured);
        if (notions) cells_add(&list, "%s", c->attribute >= 0 ? circe_audit_notion_name(c->notion) : "–");
    }
    report_heading(w->page, "Limits");
    show_table(
        w,
        "The limits of --fail-if. A check fails where the value itself is beyond its limit. The 95 % interval says "
        "whether these rows can tell: all of it is within the limit, all of it is outside, or neither.",
        columns, notions ? 7 : 6, 5, -1, &list);
}

/* ---- one attribute ----------------------------------------------------------------------------------------------- */

static void show_tests(audit_page *w, int64_t k, int64_t attribute) {
    static const char *const columns[] = {"prediction", "test", "null", "trust", "p-value", "statistic", "rows tested"};
    const circe_audit_result *r = w->r;
    cells list = {0};
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const circe_audit_finding *f = audit_at(r, k, p, attribute);
        for (int i = 0; i < f->n_tests; i++) {
            const circe_test_result *t = &f->tests[i].result;
            add_prediction(&list, r, f);
            cells_add(&list, "%s%s", f->tests[i].name, i < f->n_deciding ? " (decides)" : "");
            if (f->tests[i].failed) {
                cells_add(&list, "%s", f->tests[i].error);
                for (int c = 0; c < 4; c++) cells_add(&list, "–");
                continue;
            }
            cells_add(&list, "%s", circe_test_null_name(t->null));
            cells_add(&list, "%s", circe_trust_name(t->trust));
            add_p(&list, t->p_value);
            cells_add_number(&list, t->statistic);
            cells_add(&list, "%" PRId64, t->n_tested);
        }
    }
    show_by_prediction(
        w,
        "Tests. Those that decide were named before the data were seen; the others are here to compare. `gcm` sees "
        "correlation only, and that well; `kci` and `circe` see any dependence; `splitkci` regresses on other "
        "rows than it tests, and finds less for it. x is the prediction, y what is given, z the attribute; for "
        "sufficiency "
        "x is the outcome.",
        columns, 7, 4, &list);
}

static void show_effects(audit_page *w, int64_t k, int64_t attribute) {
    static const char *const columns[] = {"prediction", "KPC (95 % interval)", "by chance",
                                          "CIRCE, normalised (95 % interval)", "by chance"};
    const circe_audit_result *r = w->r;
    cells list = {0};
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const circe_audit_finding *f = audit_at(r, k, p, attribute);
        add_prediction(&list, r, f);
        add_effect(&list, f->has_effects, &f->effects.kpc);
        cells_add(&list, "%.3f", f->effects.kpc.chance);
        add_effect(&list, f->has_effects, &f->effects.circe);
        cells_add(&list, "%.3f", f->effects.circe.chance);
    }
    char *caption = small_format("How much, on %" PRId64
                                 " rows. Both lie in [0, 1]: 0 is none, 1 the most there could be. `by chance` is what "
                                 "they show on average where there is no dependence: compare with that.",
                                 audit_at(r, k, 0, attribute)->effects.rows);
    show_by_prediction(w, caption, columns, 5, 1, &list);
    free(caption);
}

static void show_measures(audit_page *w, int64_t k, int64_t attribute) {
    static const char *const columns[] = {"prediction", "CIRCE", "HSCIC", "GCM", "HSIC (marginal)"};
    const circe_audit_result *r = w->r;
    cells list = {0};
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const circe_audit_finding *f = audit_at(r, k, p, attribute);
        add_prediction(&list, r, f);
        for (int m = 0; m < CIRCE_AUDIT_MEASURES; m++) cells_add_number(&list, f->measures[m]);
    }
    char *given = audit_given_text(r, audit_at(r, k, 0, attribute));
    long long rows = (long long)audit_at(r, k, 0, attribute)->measured_rows;
    char *caption =
        given[0] == '\0'
            ? small_format(
                  "HSIC as `circe measure` has it, on %lld rows. The other measures need something that is given.",
                  rows)
            : small_format(
                  "Measures of dependence, as `circe measure` and `circe train` have them, on %lld rows. The first "
                  "three "
                  "are given %s; GCM is about a standard normal score where there is no dependence. HSIC counts also "
                  "what "
                  "is shared with the attribute through what is given.",
                  rows, given);
    show_by_prediction(w, caption, columns, 5, 1, &list);
    free(given);
    free(caption);
}

static void add_gap(cells *list, const circe_audit_result *r, const circe_audit_finding *f, const circe_audit_gap *g) {
    add_prediction(list, r, f);
    cells_add(list, "%s", circe_audit_gap_name(g->kind));
    cells_add(list, "%s, %s", g->high, g->low);
    add_estimate(list, &g->gap);
    cells_add(list, "%" PRId64, g->n_groups);
    cells_add_number(list, g->chance);
    cells_add_number(list, g->chance_upper);
}

/* At what the groups are compared. */
static const char *compared_at(const circe_audit_result *r, const circe_audit_finding *f) {
    if (f->notion == CIRCE_NOTION_INDEPENDENCE) return "of all rows";
    if (f->notion == CIRCE_NOTION_SUFFICIENCY) return "at equal prediction";
    return r->outcome == CIRCE_OUTCOME_NUMBERS
               ? "in five groups of the outcome, after subtracting the mean prediction at each outcome"
               : "at equal outcome";
}

static const char *rates_explained(const circe_audit_result *r, const circe_audit_finding *f) {
    if (r->outcome != CIRCE_OUTCOME_BINARY)
        return f->notion == CIRCE_NOTION_SUFFICIENCY ? " Calibration is the mean outcome at equal prediction." : "";
    if (f->notion == CIRCE_NOTION_SUFFICIENCY)
        return " Precision is of the rows that are selected, the negative predictive value of the others; calibration "
               "is "
               "the mean outcome at equal prediction.";
    if (f->notion == CIRCE_NOTION_INDEPENDENCE) return " Equal selection rates are demographic parity.";
    return r->n_notions == 1 ? " Gaps in the selection rate are of all rows (demographic parity), those in "
                               "precision of the rows that are selected (predictive parity)."
                             : "";
}

static char *gap_caption(const circe_audit_result *r, const circe_audit_finding *f) {
    static const char *const names[] = {"Equalised-odds gaps", "Gaps", "Gaps"};
    const circe_audit_column *c = audit_attribute(r, f);
    char *groups = c->categories != NULL
                       ? small_format("its categories of at least %" PRId64 " rows", r->smallest_group)
                       : small_format("quantiles of it");
    char *caption = small_format(
        "%s: between the groups of %s that differ most, %s%s, with the 95 %% interval of the difference "
        "between these. Groups are %s. `between` names them, the one with the larger value first. The more groups, the "
        "larger the gap by chance alone: that is what shuffling the groups among such rows shows.%s",
        names[f->notion], c->name, compared_at(r, f), r->n_given > 0 ? " and at equal values of the given columns" : "",
        groups, rates_explained(r, f));
    free(groups);
    return caption;
}

static void show_gaps(audit_page *w, int64_t k, int64_t attribute) {
    static const char *const columns[] = {
        "prediction", "gap in", "between", "gap (95 % interval)", "groups", "by chance", "95 % of chance below"};
    const circe_audit_result *r = w->r;
    cells list = {0};
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const circe_audit_finding *f = audit_at(r, k, p, attribute);
        for (int kind = 0; kind < CIRCE_GAP_KINDS; kind++) {
            for (int i = 0; i < f->n_gaps; i++) {
                if ((int)f->gaps[i].kind == kind) add_gap(&list, r, f, &f->gaps[i]);
            }
        }
    }
    if (list.n == 0) return;
    char *caption = gap_caption(r, audit_at(r, k, 0, attribute));
    show_by_prediction(w, caption, columns, 7, 3, &list);
    free(caption);
}

/* One prediction, group by group. */
static void show_group_table(audit_page *w, const circe_audit_finding *f) {
    const circe_audit_result *r = w->r;
    const circe_audit_groups *groups = &r->groups[f->attribute];
    circe_audit_metric metrics[CIRCE_METRICS];
    const char *columns[2 + CIRCE_METRICS] = {audit_attribute(r, f)->name, "rows"};
    int64_t n = metrics_there(f->groups, groups->n_groups, metrics);
    cells list = {0};
    for (int64_t m = 0; m < n; m++) columns[2 + m] = circe_audit_metric_name(metrics[m]);
    for (int64_t g = 0; g < groups->n_groups; g++) {
        cells_add(&list, "%s%s", groups->labels[g], groups->compared[g] ? "" : " (small)");
        cells_add(&list, "%" PRId64, groups->rows[g]);
        for (int64_t m = 0; m < n; m++) add_estimate(&list, &f->groups[g].of[metrics[m]]);
    }
    char *caption = small_format("`%s`, group by group, with 95 %% intervals.%s", audit_prediction(r, f)->name,
                                 audit_groups_compared(groups) < groups->n_groups
                                     ? " Groups marked as small are not compared in the gaps."
                                     : "");
    show_table(w, caption, columns, 2 + n, 1, -1, &list);
    free(caption);
}

static void show_groups(audit_page *w, int64_t attribute) {
    for (int64_t p = 0; p < w->r->n_predictions; p++) show_group_table(w, audit_at(w->r, 0, p, attribute));
}

static void show_trust(audit_page *w, const circe_audit_finding *f) {
    const circe_audit_result *r = w->r;
    for (int i = 0; i < f->n_deciding; i++)
        report_text(w->page, "`%s`, %s: %s", audit_prediction(r, f)->name, f->tests[i].name,
                    f->tests[i].result.verdict);
}

static void show_calibrations(audit_page *w, const circe_audit_finding *f) {
    const circe_audit_result *r = w->r;
    for (int i = 0; f->has_calibration && i < f->n_deciding; i++)
        report_text(w->page, "`%s`, %s: %s", audit_prediction(r, f)->name, f->tests[i].name,
                    f->calibration[i].summary.verdict);
}

static void show_findings(audit_page *w, int64_t k, int64_t attribute) {
    const circe_audit_result *r = w->r;
    if (r->n_notions > 1) report_subheading(w->page, title_of(r->notions[k]));
    audit_show_residuals(w, k, attribute);
    show_effects(w, k, attribute);
    audit_show_place(w, k, attribute);
    audit_show_rates(w, k, attribute);
    show_gaps(w, k, attribute);
    show_tests(w, k, attribute);
    for (int64_t p = 0; p < r->n_predictions; p++) show_trust(w, audit_at(r, k, p, attribute));
    audit_show_calibration(w, k, attribute);
    for (int64_t p = 0; p < r->n_predictions; p++) show_calibrations(w, audit_at(r, k, p, attribute));
    show_measures(w, k, attribute);
}

static void show_attribute(audit_page *w, int64_t attribute) {
    report_heading(w->page, w->r->attributes[attribute].name);
    show_groups(w, attribute);
    audit_show_errors(w, attribute);
    for (int64_t k = 0; k < w->r->n_notions; k++) show_findings(w, k, attribute);
}

/* ---- caveats and facts ------------------------------------------------------------------------------------------- */

static void show_notions(audit_page *w) {
    static const char *const texts[] = {
        "Separation (equalised odds) asks: at equal %s, is the prediction the same for all? It allows all dependence "
        "that "
        "runs through the outcome.",
        "Independence (demographic parity) asks: is the prediction the same for all, whatever %s is? It faults a "
        "prediction that follows a difference in outcomes.",
        "Sufficiency (predictive parity, calibration within groups) asks: at equal prediction, is %s the same for all? "
        "Where it holds, a prediction means the same whoever it is about."};
    for (int64_t k = 0; k < w->r->n_notions; k++) {
        char *text = small_format("%s", texts[w->r->notions[k]]), *at = strstr(text, "%s");
        *at = '\0';
        report_text(w->page, "%s%s%s", text, w->r->target.name, at + 2);
        free(text);
    }
}

static void show_caveats(audit_page *w) {
    const circe_audit_result *r = w->r;
    report_heading(w->page, "What this does and does not say");
    show_notions(w);
    report_text(
        w->page,
        "These notions of fairness can contradict each other: where the outcome itself goes with the attribute, "
        "no useful prediction satisfies all three. Dependence found here is no statement on its cause; that none "
        "was found is no proof that there is none.");
    report_text(
        w->page,
        "It takes the outcome in the table as the truth. Where that was itself recorded unequally, a prediction "
        "that follows it passes. The rows should be ones that the predictor has not been trained on, and like "
        "those it will be used on.");
    report_text(w->page,
                "A p-value says whether there is dependence, not how much: with many rows it is small for effects that "
                "do not matter, with few rows large for effects that do. Read it with the effect sizes and their "
                "intervals.");
    for (size_t i = 0; i < r->warnings.n; i++) report_note(w->page, "%s.", r->warnings.text[i]);
}

static void fact_part(audit_page *w, const char *what, int64_t rows) {
    if (rows < w->r->n) report_fact(w->page, "part of the rows", "%s: %" PRId64 " at random", what, rows);
}

static void show_facts(audit_page *w) {
    const circe_audit_result *r = w->r;
    const circe_audit_finding *f = audit_at(r, 0, 0, 0);
    report_fact(w->page, "data", "%s, %" PRId64 " rows, %" PRId64 " left out for missing cells", r->source, r->n,
                r->dropped);
    if (r->model != NULL) report_fact(w->page, "model", "%s", r->model);
    if (r->outcome == CIRCE_OUTCOME_BINARY)
        report_fact(w->page, "outcome", "%s: positive is %s; a prediction of at least %g counts as positive",
                    r->target.name, r->positive, r->threshold);
    else
        report_fact(w->page, "outcome", "%s, %s", r->target.name,
                    r->outcome == CIRCE_OUTCOME_NUMBERS ? "a number" : "classes");
    for (int64_t g = 0; g < r->n_given; g++)
        report_fact(w->page, "given", "%s, %s", r->given[g].name,
                    r->given[g].categories != NULL ? "categories" : "a number, in five groups for the gaps");
    report_fact(w->page, "decided by", "%s, level %g, Holm across the attributes of a prediction", r->test, r->alpha);
    for (int i = 0; i < f->n_tests; i++) fact_part(w, f->tests[i].name, f->tests[i].rows);
    if (f->has_effects) fact_part(w, "effect sizes", f->effects.rows);
    if (f->has_calibration) fact_part(w, "calibration", f->calibration[0].rows);
    fact_part(w, "measures", f->measured_rows);
    report_fact(w->page, "draws", "%" PRId64, r->draws);
    report_fact(w->page, "seed", "%" PRId64, r->seed);
    report_fact(w->page, "time", "%.1f s", r->seconds);
    report_fact(w->page, "circe", "%s", r->machine);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static circe_status write_json(const circe_audit_result *r, const char *folder) {
    cJSON *json = audit_json(r, folder);
    char *text = json_utf8(json, true), *path = small_format("%s/results.json", folder);
    cJSON_Delete(json);
    circe_status status = text != NULL ? file_write_text(path, text, strlen(text))
                                       : circe_fail(CIRCE_ERR_MEMORY, "out of memory for %s", path);
    free(text);
    free(path);
    return status;
}

/* "before and after" */
static char *names_of(const circe_audit_column *columns, int64_t n) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("%s", "");
    for (int64_t i = 0; i < n; i++) fprintf(out, "%s%s", i == 0 ? "" : i + 1 == n ? " and " : ", ", columns[i].name);
    fclose(out);
    return text;
}

static report *begin_page(const circe_audit_result *r) {
    char *predictions = names_of(r->predictions, r->n_predictions),
         *attributes = names_of(r->attributes, r->n_attributes);
    char *title = small_format("Audit of %s", predictions);
    char *given = audit_given_text(r, audit_at(r, 0, 0, 0));
    bool one = r->n_notions == 1 && r->notions[0] == CIRCE_NOTION_SEPARATION;
    char *subtitle =
        small_format("dependence on %s%s%s; %" PRId64 " rows of %s", attributes, one ? ", given " : ", by ",
                     one                 ? given
                     : r->n_notions == 1 ? circe_audit_notion_name(r->notions[0])
                                         : "three notions",
                     r->n, r->source);
    report *page = report_begin(title, subtitle);
    free(subtitle);
    free(given);
    free(title);
    free(attributes);
    free(predictions);
    return page;
}

static circe_status write_page(const circe_audit_result *r, const char *folder) {
    char *path = small_format("%s/report.html", folder);
    audit_page w = {.r = r, .folder = folder, .page = begin_page(r)};
    show_quality(&w);
    show_answer(&w);
    show_differences(&w);
    show_checks(&w);
    for (int64_t i = 0; i < r->n_attributes; i++) show_attribute(&w, i);
    show_caveats(&w);
    show_facts(&w);
    if (!report_end(w.page, path)) w.status = CIRCE_ERR_WRITE;
    free(path);
    return w.status;
}

circe_status circe_audit_report(const circe_audit_result *r, const char *folder) {
    circe_status status = path_make_folder(folder);
    if (status == CIRCE_OK) status = audit_write_csv(r, folder);
    if (status == CIRCE_OK) status = write_json(r, folder);
    return status == CIRCE_OK ? write_page(r, folder) : status;
}
