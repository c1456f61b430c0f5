/* What the verdicts rest on, attribute by attribute. */
#include <inttypes.h>
#include <math.h>

#include "base/small.h"
#include "jobs/audit_page.h"

/* Lists the metrics that at least one of the rows has, and returns their number. */
static int64_t metrics_there(const circe_audit_metrics *rows, int64_t n, circe_audit_metric *list) {
    int64_t there = 0;
    for (int m = 0; m < CIRCE_METRICS; m++) {
        bool any = false;
        for (int64_t i = 0; i < n; i++) any = any || isfinite(rows[i].of[m].value);
        if (any) list[there++] = (circe_audit_metric)m;
    }
    return there;
}

static void show_tests(audit_page *w, int64_t k, int64_t attribute) {
    static const char *const columns[] = {"prediction", "test", "null", "trust", "p-value", "statistic", "rows tested"};
    const circe_audit_result *r = w->r;
    cells list = {0};
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const circe_audit_finding *f = audit_at(r, k, p, attribute);
        for (int i = 0; i < f->n_tests; i++) {
            const circe_test_result *t = &f->tests[i].result;
            audit_add_prediction(&list, r, f);
            cells_add(&list, "%s%s", f->tests[i].name, i < f->n_deciding ? " (decides)" : "");
            if (f->tests[i].failed) {
                cells_add(&list, "%s", f->tests[i].error);
                for (int c = 0; c < 4; c++) cells_add(&list, "–");
                continue;
            }
            cells_add(&list, "%s", circe_test_null_name(t->null));
            cells_add(&list, "%s", circe_trust_name(t->trust));
            audit_add_p(&list, t->p_value);
            cells_add_number(&list, t->statistic);
            cells_add(&list, "%" PRId64, t->n_tested);
        }
    }
    audit_show_by_prediction(
        w,
        "Tests. The deciding tests were named before the data were seen; the others are for comparison. "
        "`gcm` sees only correlation, but sees it well. `kci` and `circe` see any dependence. "
        "`splitkci` uses different rows for its regressions and for its test, and so finds less. x is "
        "the prediction, y is what is given, z is the attribute; for sufficiency x is the outcome.",
        columns, 7, 4, &list);
}

static void show_effects(audit_page *w, int64_t k, int64_t attribute) {
    static const char *const columns[] = {"prediction",    "KPC above chance (95 % interval)",  "KPC (95 % interval)",
                                          "KPC by chance", "CIRCE, normalised (95 % interval)", "CIRCE by chance"};
    const circe_audit_result *r = w->r;
    cells list = {0};
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const circe_audit_finding *f = audit_at(r, k, p, attribute);
        audit_add_prediction(&list, r, f);
        audit_add_effect(&list, f->has_effects, f->kpc_above_chance);
        audit_add_effect(&list, f->has_effects, audit_effect(&f->effects.kpc));
        cells_add_digits(&list, f->effects.kpc.chance, 2);
        audit_add_effect(&list, f->has_effects, audit_effect(&f->effects.circe));
        cells_add_digits(&list, f->effects.circe.chance, 2);
    }
    OWNED char *caption =
        small_format("How much, on %" PRId64
                     " rows (KPC: at most 1,000). All lie in [0, 1]: 0 is none, 1 is the largest "
                     "possible. By chance is the average without dependence. Many groups and few rows "
                     "raise KPC, so KPC above chance is what verdicts and limits use.",
                     audit_at(r, k, 0, attribute)->effects.rows);
    audit_show_by_prediction(w, caption, columns, 6, 1, &list);
}

static void show_measures(audit_page *w, int64_t k, int64_t attribute) {
    static const char *const columns[] = {"prediction", "CIRCE", "HSCIC", "GCM", "HSIC (marginal)"};
    const circe_audit_result *r = w->r;
    cells list = {0};
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const circe_audit_finding *f = audit_at(r, k, p, attribute);
        audit_add_prediction(&list, r, f);
        for (int m = 0; m < CIRCE_AUDIT_MEASURES; m++) cells_add_number(&list, f->measures[m]);
    }
    const char *given = audit_question_of(r, audit_at(r, k, 0, attribute))->given;
    long long rows = (long long)audit_at(r, k, 0, attribute)->measured_rows;
    OWNED char *caption =
        given[0] == '\0'
            ? small_format(
                  "HSIC as `circe measure` computes it, on %lld rows. The other measures need a column to condition "
                  "on.",
                  rows)
            : small_format(
                  "Measures of dependence, as `circe measure` and `circe train` compute them, on %lld rows. The first "
                  "three condition on %s. Without dependence, GCM is about a standard normal score. HSIC does not "
                  "condition, so it also counts what is shared with the attribute through the given columns.",
                  rows, given);
    audit_show_by_prediction(w, caption, columns, 5, 1, &list);
}

static void add_gap(cells *list, const circe_audit_result *r, const circe_audit_finding *f, const circe_audit_gap *g) {
    audit_add_prediction(list, r, f);
    cells_add(list, "%s%s%s", circe_audit_gap_name(g->kind), g->category != NULL ? ", " : "",
              g->category != NULL ? g->category : "");
    cells_add(list, "%s, %s", g->high, g->low);
    audit_add_estimate(list, &g->gap);
    cells_add(list, "%" PRId64, g->n_groups);
    cells_add_number(list, g->chance);
    cells_add_number(list, g->chance_upper);
}

/* Says at which equal level the groups are compared. */
static const char *compared_at(const circe_audit_result *r, const circe_audit_finding *f) {
    if (f->notion == CIRCE_NOTION_INDEPENDENCE) return "over all rows";
    if (f->notion == CIRCE_NOTION_SUFFICIENCY) return "at equal prediction";
    return r->outcome == CIRCE_OUTCOME_NUMBERS
               ? "in five groups of the outcome, after subtracting the mean prediction at each outcome"
               : "at equal outcome";
}

static const char *rates_explained(const circe_audit_result *r, const circe_audit_finding *f) {
    if (r->outcome != CIRCE_OUTCOME_BINARY)
        return f->notion == CIRCE_NOTION_SUFFICIENCY ? " Calibration is the mean outcome at equal prediction." : "";
    if (f->notion == CIRCE_NOTION_SUFFICIENCY)
        return " Precision refers to the selected rows, the negative predictive value to the others. Calibration is "
               "the mean outcome at equal prediction.";
    if (f->notion == CIRCE_NOTION_INDEPENDENCE) return " Equal selection rates are demographic parity.";
    return r->n_notions == 1 ? " Gaps in the selection rate refer to all rows (demographic parity), gaps in precision "
                               "to the selected rows (predictive parity)."
                             : "";
}

static char *gap_caption(const circe_audit_result *r, const circe_audit_finding *f) {
    static const char *const names[] = {"Equalised-odds gaps", "Gaps", "Gaps"};
    const circe_audit_column *c = audit_attribute(r, f);
    OWNED char *groups = c->categories != NULL
                             ? small_format("its categories of at least %" PRId64 " rows", r->smallest_group)
                             : small_format("its quantiles");
    char *caption = small_format(
        "%s between the two groups of %s that differ most, %s%s, with the 95 %% interval of the difference. Groups are "
        "%s. `between` names the two groups, the one with the larger value first. More groups give larger gaps by "
        "chance alone; `by chance` comes from shuffling the groups among such rows.%s",
        names[f->notion], c->name, compared_at(r, f), r->n_given > 0 ? " and at equal values of the given columns" : "",
        groups, rates_explained(r, f));
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
    OWNED char *caption = gap_caption(r, audit_at(r, k, 0, attribute));
    audit_show_by_prediction(w, caption, columns, 7, 3, &list);
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
        for (int64_t m = 0; m < n; m++) audit_add_estimate(&list, &f->groups[g].of[metrics[m]]);
    }
    OWNED char *caption = small_format("`%s`, group by group, with 95 %% intervals.%s", audit_prediction(r, f)->name,
                                       audit_groups_compared(groups) < groups->n_groups
                                           ? " Groups marked as small are not compared in the gaps."
                                           : "");
    cells_show(&list, w->page, caption, columns, 2 + n, 1);
}

static void show_groups(audit_page *w, int64_t attribute) {
    for (int64_t p = 0; p < w->r->n_predictions; p++) show_group_table(w, audit_at(w->r, 0, p, attribute));
}

/* What the deciding tests of every prediction say of themselves, or their calibrations of them. */
static void show_words(audit_page *w, int64_t k, int64_t attribute, bool calibrations) {
    const circe_audit_result *r = w->r;
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const circe_audit_finding *f = audit_at(r, k, p, attribute);
        for (int i = 0; i < (calibrations && !f->has_calibration ? 0 : f->n_deciding); i++)
            report_text(w->page, "`%s`, %s: %s", audit_prediction(r, f)->name, f->tests[i].name,
                        calibrations ? f->calibration[i].summary.verdict : f->tests[i].result.verdict);
    }
}

static void show_findings(audit_page *w, int64_t k, int64_t attribute) {
    const circe_audit_result *r = w->r;
    if (r->n_notions > 1) report_subheading(w->page, audit_notion_title(r->notions[k]));
    audit_show_residuals(w, k, attribute);
    show_effects(w, k, attribute);
    audit_show_place(w, k, attribute);
    audit_show_rates(w, k, attribute);
    show_gaps(w, k, attribute);
    show_tests(w, k, attribute);
    show_words(w, k, attribute, false);
    audit_show_calibration(w, k, attribute);
    show_words(w, k, attribute, true);
    show_measures(w, k, attribute);
}

void audit_show_attribute(audit_page *w, int64_t attribute) {
    report_heading(w->page, w->r->attributes[attribute].name);
    show_groups(w, attribute);
    audit_show_errors(w, attribute);
    for (int64_t k = 0; k < w->r->n_notions; k++) show_findings(w, k, attribute);
}
