/* The top of the page: how good the predictions are, the verdicts, which prediction is better at what, and limits. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "jobs/audit_page.h"

/* ---- how good the predictions are -------------------------------------------------------------------------------- */

/* Says if a prediction is no better than the outcome alone would allow: then it tells nothing. */
static void show_useless(audit_page *w, int64_t prediction) {
    const circe_audit_metrics *q = &w->r->quality[prediction];
    const circe_audit_estimate *auc = &q->of[CIRCE_METRIC_AUC], *r2 = &q->of[CIRCE_METRIC_R2];
    const char *name = w->r->predictions[prediction].name;
    if (isfinite(auc->lower) && auc->lower <= 0.5)
        report_note(w->page,
                    "`%s` does not order the outcomes better than chance (AUC %.3g, 95 %% interval %.3g to %.3g). A "
                    "prediction without information depends on little; that is not an achievement.",
                    name, auc->value, auc->lower, auc->upper);
    if (isfinite(r2->lower) && r2->lower <= 0)
        report_note(w->page,
                    "`%s` does not predict better than the mean of the outcome (R² %.3g, 95 %% interval %.3g to %.3g). "
                    "A prediction without information depends on little; that is not an achievement.",
                    name, r2->value, r2->lower, r2->upper);
}

/* Shows the metrics that say most; the tables of the groups have the rest. */
void audit_show_quality(audit_page *w) {
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
            if (there[m]) audit_add_estimate(&list, &r->quality[p].of[first[m]]);
    }
    report_heading(w->page, "How good the predictions are");
    cells_show(&list, w->page,
               "For all rows, with 95 % intervals. The mean error is the mean of prediction minus outcome.", columns,
               1 + n, 1);
    for (int64_t p = 0; p < r->n_predictions; p++) show_useless(w, p);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* "the kci test", or "the kci and gcm tests together (the smaller p-value, times 2)". */
static char *deciding_rule(const circe_audit_result *r) {
    const char *plus = strchr(r->test, '+');
    if (plus == NULL) return small_format("the %s test", r->test);
    return small_format("the %.*s and %s tests together (the smaller p-value, times 2)", (int)(plus - r->test), r->test,
                        plus + 1);
}

const char *audit_notion_title(circe_audit_notion notion) {
    static const char *const titles[] = {"Separation", "Independence", "Sufficiency"};
    return titles[notion];
}

static const char *sign_of(circe_audit_decision decision) {
    return decision == CIRCE_AUDIT_DEPENDS ? "✗" : decision == CIRCE_AUDIT_NOT_FOUND ? "✓" : "?";
}

/* "once income is known, does the prediction still depend on the attribute?" */
static char *question_of(const circe_audit_result *r, const circe_audit_finding *f) {
    const char *given = audit_question_of(r, f)->given;
    bool outcome = f->notion == CIRCE_NOTION_SUFFICIENCY, plain = given[0] == '\0';
    /* several predictions are given one at a time */
    const char *known = !outcome || r->n_predictions == 1 ? given : r->n_given == 0 ? "the prediction" : NULL;
    if (plain) return small_format("does the %s depend on the attribute?", outcome ? "outcome" : "prediction");
    if (known == NULL)
        return small_format(
            "once the prediction and the given columns are known, does the outcome still depend on the attribute?");
    return small_format("once %s %s known, does the %s still depend on the attribute?", known,
                        strstr(known, " and ") != NULL && r->n_given > 0 ? "are" : "is",
                        outcome ? "outcome" : "prediction");
}

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

static void add_verdict(cells *list, const circe_audit_result *r, const circe_audit_finding *f) {
    audit_add_prediction(list, r, f);
    cells_add(list, "%s", audit_attribute(r, f)->name);
    cells_add(list, "%s %s", sign_of(f->decision), circe_audit_decision_name(f->decision));
    audit_add_effect(list, f->has_effects, f->kpc_above_chance);
    audit_add_p(list, f->p_adjusted);
    audit_add_p(list, f->p_value);
    cells_add(list, "%s", circe_trust_name(f->trust));
}

static void show_notion(audit_page *w, int64_t k) {
    static const char *const columns[] = {"prediction", "attribute", "verdict", "KPC above chance (95 % interval)",
                                          "adjusted",   "p-value",   "trust"};
    const circe_audit_result *r = w->r;
    const circe_audit_finding *f = audit_at(r, k, 0, 0);
    cells list = {0};
    if (r->n_notions > 1) report_subheading(w->page, audit_notion_title(f->notion));
    for (int64_t i = 0; i < r->n_attributes; i++) {
        for (int64_t p = 0; p < r->n_predictions; p++) add_verdict(&list, r, audit_at(r, k, p, i));
    }
    OWNED char *rule = deciding_rule(r), *question = question_of(r, f);
    const char *given = audit_question_of(r, f)->given;
    OWNED char *adjusted = r->n_attributes == 1
                               ? small_format("with one attribute, `adjusted` is the p-value itself")
                               : small_format("`adjusted` is the p-value after Holm's correction across the %" PRId64
                                              " attributes of a prediction",
                                              r->n_attributes);
    OWNED char *caption = small_format(
        "The question: %s The decision comes from %s at level %g; %s. KPC above chance is the share of the variation "
        "in %s that the attribute explains, minus what it would explain by chance alone.",
        question, rule, r->alpha, adjusted,
        given[0] == '\0'                         ? "the prediction"
        : f->notion == CIRCE_NOTION_SUFFICIENCY  ? "the outcome, unexplained by the prediction,"
        : f->notion == CIRCE_NOTION_INDEPENDENCE ? "the prediction, unexplained by the given columns,"
                                                 : "the prediction, unexplained by the outcome,");
    audit_show_by_prediction(w, caption, columns, 7, 3, &list);
    for (int64_t i = 0; i < r->n_attributes; i++) {
        for (int64_t p = 0; p < r->n_predictions; p++) show_verdict(w, audit_at(r, k, p, i)->verdict);
    }
}

void audit_show_answer(audit_page *w) {
    report_heading(w->page, "Verdict");
    for (int64_t k = 0; k < w->r->n_notions; k++) show_notion(w, k);
}

/* Every two predictions. */
void audit_show_differences(audit_page *w) {
    static const char *const columns[] = {"in", "first", "second", "better", "first minus second (95 % interval)"};
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
        audit_add_estimate(&list, &d->difference);
    }
    report_heading(w->page, "Which prediction is better at what");
    cells_show(&list, w->page,
               "Differences between predictions on the same rows. One prediction is better if the 95 % interval of the "
               "difference excludes 0. For an attribute of numbers, gaps are between four groups.",
               columns, 5, 4);
}

/* The limits of --fail-if. */
void audit_show_checks(audit_page *w) {
    static const char *const columns[] = {"limit",         "kept",  "attribute", "prediction",
                                          "95 % interval", "value", "notion"};
    const circe_audit_result *r = w->r;
    cells list = {0};
    bool notions = r->n_notions > 1;
    if (r->n_checks == 0) return;
    for (int64_t i = 0; i < r->n_checks; i++) {
        const circe_audit_check *c = &r->checks[i];
        cells_add(&list, "%s", c->condition);
        cells_add(&list, "%s", c->failed ? "✗ no" : "✓ yes");
        cells_add(&list, "%s", c->attribute >= 0 ? r->attributes[c->attribute].name : "–");
        cells_add(&list, "%s", r->predictions[c->prediction].name);
        cells_add(&list, "%s", circe_audit_within_name(c->within));
        audit_add_estimate(&list, &c->measured);
        if (notions) cells_add(&list, "%s", c->attribute >= 0 ? circe_audit_notion_name(c->notion) : "–");
    }
    report_heading(w->page, "Limits");
    cells_show(&list, w->page,
               "The limits of --fail-if. A check fails if the value itself exceeds its limit. The 95 % interval shows "
               "whether these rows can decide: it lies within the limit, outside it, or across it.",
               columns, notions ? 7 : 6, 5);
}
