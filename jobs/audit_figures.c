/* Figures of one attribute: what y leaves of x (for separation, what the outcome leaves of the prediction), where the
 * dependence occurs, the error, and the calibration of the deciding test. Predictions stand side by side, or as curves
 * of one panel, in fixed colours. Categories stand beside each other by name, as points with intervals: a line between
 * them would say that there is something in between. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/small.h"
#include "circe/random.h"
#include "jobs/audit_page.h"
#include "jobs/calibration.h"
#include "report/chart.h"

enum { MOST_SHOWN = 800, MOST_PREDICTIONS = 6, MOST_CLASSES = 12 };

static int64_t shown(const circe_audit_result *r) {
    return r->n_predictions < MOST_PREDICTIONS ? r->n_predictions : MOST_PREDICTIONS;
}

/* The notion and attribute of a figure. */
typedef struct place {
    int64_t k, attribute;
} place;

/* 1-residuals, 1-residuals-independence */
static char *name_of(const audit_page *w, place at, const char *kind) {
    circe_audit_notion notion = w->r->notions[at.k];
    bool first = notion == CIRCE_NOTION_SEPARATION;
    return small_format("%" PRId64 "-%s%s%s", at.attribute + 1, kind, first ? "" : "-",
                        first ? "" : circe_audit_notion_name(notion));
}

/* Takes the chart. */
static void add_figure(audit_page *w, place at, const char *kind, const char *caption, chart *c) {
    OWNED char *name = name_of(w, at, kind);
    bool drawn = false;
    c->columns = c->n_panels < 4 ? c->n_panels : 2;
    circe_status status = chart_draw(c, name, caption, w->folder, w->page, &drawn);
    if (w->status == CIRCE_OK) w->status = status;
}

/* ---- along the attribute ----------------------------------------------------------------------------------------- */

/* A panel whose x is the attribute. */
static report_panel *attribute_panel(chart *c, const circe_audit_result *r, int64_t attribute, const char *title,
                                     const char *y_label) {
    const circe_audit_column *of = &r->attributes[attribute];
    report_panel *panel = chart_panel(c, title, of->name, y_label);
    panel->x_names = (const char *const *)of->categories;
    panel->n_x_names = of->n_categories;
    return panel;
}

/* The positions of the groups' numbers: the k-th of n at the same category stands a little beside it. */
typedef struct standing {
    const circe_audit_result *r;
    int64_t attribute, k, n;
} standing;

static double place_of(const standing *at, int64_t group) {
    if (at->r->attributes[at->attribute].categories == NULL) return at->r->groups[at->attribute].centre[group];
    return (double)group + 0.12 * ((double)at->k - 0.5 * (double)(at->n - 1));
}

/* Points and intervals for one number per group. */
static report_series *add_band(chart *c, report_panel *panel, const standing *at, const char *label, int colour) {
    bool categories = at->r->attributes[at->attribute].categories != NULL;
    return chart_series(c, panel, categories ? REPORT_INTERVALS : REPORT_LINE_POINTS, colour, label,
                        at->r->groups[at->attribute].n_groups);
}

static void put_profile(report_series *s, const standing *at, const circe_audit_profile *p) {
    for (int64_t g = 0; g < s->room; g++) chart_band(s, place_of(at, g), p->value[g], p->lower[g], p->upper[g]);
}

static void put_metric(report_series *s, const standing *at, const circe_audit_metrics *groups, circe_audit_metric m) {
    for (int64_t g = 0; g < s->room; g++)
        chart_band(s, place_of(at, g), groups[g].of[m].value, groups[g].of[m].lower, groups[g].of[m].upper);
}

/* ---- residuals --------------------------------------------------------------------------------------------------- */

/* Shows random rows; spreads categories, which would otherwise lie on top of each other. */
static void add_cloud(chart *c, report_panel *panel, const circe_audit_result *r, const circe_audit_finding *f) {
    const circe_audit_column *z = audit_attribute(r, f);
    const standing at = {r, f->attribute, 0, 1};
    OWNED_BY(arena_free) arena scratch = {0};
    int64_t n = 0, *rows = audit_sample(&scratch, r->n, MOST_SHOWN, r->seed, 21, &n);
    double *spread = arena_alloc(&scratch, (size_t)n * sizeof *spread);
    double *y = audit_take(&scratch, audit_residual(r, f, 0), rows, n);
    circe_random_uniform((circe_random){.seed = 1, .stream = 22}, 0, n, spread);
    report_series *s = chart_series(c, panel, REPORT_POINTS, CHART_GREY, "rows", n);
    for (int64_t i = 0; i < n; i++)
        chart_point(s, z->code != NULL ? (double)z->code[rows[i]] + 0.5 * (spread[i] - 0.5) : z->values[rows[i]], y[i]);
    chart_level(c, panel, NULL, 0);
    put_profile(add_band(c, panel, &at, "mean of a group, 95 % interval", 1), &at, &f->residual[0]);
}

static char *residual_caption(const circe_audit_result *r, const circe_audit_finding *f) {
    const audit_question *q = audit_question_of(r, f);
    OWNED char *what = NULL;
    if (q->given[0] == '\0')
        what = small_format("The prediction minus its mean, against %s.", q->z->name);
    else
        what = small_format("What %s %s unexplained in %s (its value minus the mean at that %s), against %s.", q->given,
                            q->n_y > 1 ? "leave" : "leaves", q->x == &r->target ? "the outcome" : "the prediction",
                            f->notion == CIRCE_NOTION_SUFFICIENCY ? "prediction" : "outcome", q->z->name);
    return small_format(
        "%s Without dependence, the group means lie around 0 and the spread is the same everywhere.%s", what,
        r->n > MOST_SHOWN ? " The points are a random sample of the rows; the means use all rows." : "");
}

/* Shows shares of classes instead of a mean: one panel per class, without the rows. */
static void show_shares(audit_page *w, place at, const circe_audit_finding *f) {
    const circe_audit_result *r = w->r;
    const standing alone = {r, at.attribute, 0, 1};
    chart *c = chart_new();
    for (int64_t k = 0; k < f->n_parts && k < MOST_CLASSES; k++) {
        report_panel *panel = attribute_panel(c, r, at.attribute, audit_part_name(r, f, k), "share minus its mean");
        chart_level(c, panel, NULL, 0);
        put_profile(add_band(c, panel, &alone, audit_prediction(r, f)->name, (int)f->prediction), &alone,
                    &f->residual[k]);
    }
    OWNED char *kind = small_format("shares-%" PRId64, f->prediction + 1);
    const char *given = audit_question_of(r, f)->given;
    OWNED char *caption = small_format(
        "The share of every %s, minus %s%s, against %s, with 95 %% intervals. Without dependence, the shares of all "
        "groups lie around 0.",
        f->notion == CIRCE_NOTION_SUFFICIENCY ? "outcome" : "predicted class",
        given[0] != '\0' ? "its mean given " : "its mean", given, r->attributes[at.attribute].name);
    add_figure(w, at, kind, caption, c);
}

/* Predictions whose x is text get one figure each, the others one together. */
void audit_show_residuals(audit_page *w, int64_t k, int64_t attribute) {
    const circe_audit_result *r = w->r;
    chart *c = chart_new();
    bool outcome = r->notions[k] == CIRCE_NOTION_SUFFICIENCY;
    for (int64_t p = 0; p < shown(r); p++) {
        const circe_audit_finding *f = audit_at(r, k, p, attribute);
        if (f->n_parts > 1)
            show_shares(w, (place){k, attribute}, f);
        else
            add_cloud(c,
                      attribute_panel(c, r, attribute, r->predictions[p].name,
                                      outcome ? "outcome minus its mean" : "prediction minus its mean"),
                      r, f);
    }
    OWNED char *caption = residual_caption(r, audit_at(r, k, 0, attribute));
    add_figure(w, (place){k, attribute}, "residuals", caption, c);
}

/* ---- place ------------------------------------------------------------------------------------------------------- */

/* Along a number: the contribution to CIRCE, with what chance allows. For sufficiency, every prediction has an axis of
 * its own. */
static void show_along(audit_page *w, place at, int64_t first, int64_t end, const char *kind) {
    const circe_audit_result *r = w->r;
    const char *along = audit_at(r, at.k, first, at.attribute)->along.column;
    chart *c = chart_new();
    report_panel *panel = chart_panel(c, "", along, "normalised CIRCE of the rows around");
    for (int64_t p = first; p < end; p++) {
        const circe_effects_along *l = &audit_at(r, at.k, p, at.attribute)->along;
        const char *name = r->predictions[p].name;
        report_series *curve = chart_series(c, panel, REPORT_LINE_POINTS, (int)p, name, l->points);
        report_series *chance = chart_series(c, panel, REPORT_LINE, (int)p,
                                             arena_format(&c->owner, "%s: chance up to here", name), l->points);
        chance->dashed = true;
        for (int64_t i = 0; i < l->points; i++) {
            chart_band(curve, l->place[i], l->value[i], l->lower[i], l->upper[i]);
            chart_point(chance, l->place[i], l->null_upper[i]);
        }
    }
    OWNED char *caption = small_format(
        "Where along %s the dependence on %s occurs, with 95 %% intervals. A curve above the dashed line of its colour "
        "shows dependence: by chance, the whole curve stays below the line 95 times out of 100.",
        along, r->attributes[at.attribute].name);
    add_figure(w, at, kind, caption, c);
}

/* At every level: the mean along the attribute, one panel per level. */
static void show_levels(audit_page *w, place at, int64_t first, int64_t end, const char *kind, const char *y_label,
                        const char *caption) {
    const circe_audit_result *r = w->r;
    const circe_audit_finding *f = audit_at(r, at.k, first, at.attribute);
    const circe_audit_groups *levels = audit_levels(r, f);
    const char *name = f->notion == CIRCE_NOTION_SUFFICIENCY ? audit_prediction(r, f)->name : r->target.name;
    chart *c = chart_new();
    bool any = false;
    for (int64_t s = 0; s < levels->n_groups && s < MOST_CLASSES; s++) {
        report_panel *panel =
            attribute_panel(c, r, at.attribute, arena_format(&c->owner, "%s = %s", name, levels->labels[s]), y_label);
        for (int64_t p = first; p < end; p++) {
            const circe_audit_finding *one = audit_at(r, at.k, p, at.attribute);
            const standing its = {r, at.attribute, p - first, end - first};
            if (one->strata == NULL) continue;
            put_profile(add_band(c, panel, &its, r->predictions[p].name, (int)p), &its, &one->strata[s]);
            any = true;
        }
    }
    if (any)
        add_figure(w, at, kind, caption, c);
    else
        chart_free(c);
}

/* Calibration within groups, prediction by prediction. */
static void show_outcomes(audit_page *w, place at) {
    const circe_audit_result *r = w->r;
    for (int64_t p = 0; p < shown(r); p++) {
        const circe_audit_finding *f = audit_at(r, at.k, p, at.attribute);
        const audit_question *q = audit_question_of(r, f);
        bool numbers = q->n_numbers > 0;
        OWNED char *levels = small_format("place-%" PRId64, p + 1), *along = small_format("along-%" PRId64, p + 1);
        OWNED char *caption = small_format(
            "%s along %s, at every level of %s, with 95 %% intervals. Sufficiency asks for the same height everywhere "
            "in a panel: then the same prediction means the same for all.",
            numbers ? "Mean outcome minus the mean at that prediction," : "Mean outcome",
            r->attributes[at.attribute].name, r->predictions[p].name);
        if (f->strata != NULL)
            show_levels(w, at, p, p + 1, levels, numbers ? "outcome minus its mean" : "mean outcome", caption);
        if (f->along.points > 0) show_along(w, at, p, p + 1, along);
    }
}

void audit_show_place(audit_page *w, int64_t k, int64_t attribute) {
    const circe_audit_result *r = w->r;
    place at = {k, attribute};
    if (r->notions[k] == CIRCE_NOTION_SUFFICIENCY)
        show_outcomes(w, at);
    else if (r->notions[k] == CIRCE_NOTION_SEPARATION && r->outcome == CIRCE_OUTCOME_NUMBERS)
        show_along(w, at, 0, shown(r), "place");
    else if (r->notions[k] == CIRCE_NOTION_SEPARATION)
        show_levels(w, at, 0, shown(r), "place", "mean prediction",
                    "Mean prediction along the attribute, for every outcome, with 95 % intervals. Equalised odds asks "
                    "for the same height everywhere in a panel; the heights may differ between outcomes.");
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

/* Shows two metrics in two panels, for all predictions that have them. */
static void show_pair(audit_page *w, place at, const char *kind, const circe_audit_metric metrics[2],
                      const char *const titles[2], const char *caption) {
    const circe_audit_result *r = w->r;
    int64_t n = shown(r);
    chart *c = chart_new();
    for (int k = 0; k < 2; k++) {
        report_panel *panel = attribute_panel(c, r, at.attribute, titles[k], "");
        for (int64_t p = 0; p < n; p++) {
            const standing its = {r, at.attribute, p, n};
            put_metric(add_band(c, panel, &its, r->predictions[p].name, (int)p), &its,
                       audit_at(r, 0, p, at.attribute)->groups, metrics[k]);
        }
        if (metrics[k] == CIRCE_METRIC_MEAN_ERROR) chart_level(c, panel, NULL, 0);
    }
    add_figure(w, at, kind, caption, c);
}

void audit_show_errors(audit_page *w, int64_t attribute) {
    static const circe_audit_metric metrics[] = {CIRCE_METRIC_MEAN_ERROR, CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR};
    static const char *const titles[] = {"mean error: prediction minus outcome", "size of the error: root mean square"};
    const circe_audit_result *r = w->r;
    bool any = false;
    for (int64_t p = 0; p < r->n_predictions; p++) any = any || audit_has_errors(r, p);
    if (!any) return;
    OWNED char *caption = small_format(
        "Error along %s, with 95 %% intervals. A mean error above 0 means that predictions for the group are too high. "
        "The error can differ between groups although equalised odds holds, and vice versa.",
        r->attributes[attribute].name);
    show_pair(w, (place){0, attribute}, "errors", metrics, titles, caption);
}

char *audit_positive_rule(const circe_audit_result *r) {
    bool labels = true;
    for (int64_t p = 0; p < r->n_predictions; p++) labels = labels && r->predictions[p].is_label;
    return labels ? small_format("%s", r->positive) : small_format("at least %g", r->threshold);
}

/* What the rates of a notion are shares of. */
static char *rates_caption(const circe_audit_result *r, circe_audit_notion notion, const char *attribute,
                           const char *rule) {
    if (notion == CIRCE_NOTION_SEPARATION)
        return small_format(
            "Rates along %s, with 95 %% intervals: of the rows whose %s is %s (left) or %s (right), the share whose "
            "prediction is %s.",
            attribute, r->target.name, r->positive, r->negative, rule);
    if (notion == CIRCE_NOTION_SUFFICIENCY)
        return small_format(
            "Predictive values along %s, with 95 %% intervals: the share of the rows whose %s is %s among those whose "
            "prediction is %s (left), and of those whose %s is %s among the others (right).",
            attribute, r->target.name, r->positive, rule, r->target.name, r->negative);
    if (r->outcome == CIRCE_OUTCOME_BINARY)
        return small_format(
            "Along %s, with 95 %% intervals: the share of all rows whose prediction is %s (left), and the mean "
            "prediction (right). Demographic parity asks for the same height everywhere.",
            attribute, rule);
    return small_format(
        "Means along %s, with 95 %% intervals. Independence asks for the same mean prediction everywhere (left), "
        "regardless of the outcomes (right).",
        attribute);
}

void audit_show_rates(audit_page *w, int64_t k, int64_t attribute) {
    static const circe_audit_metric metrics[][2] = {{CIRCE_METRIC_TRUE_POSITIVE_RATE, CIRCE_METRIC_FALSE_POSITIVE_RATE},
                                                    {CIRCE_METRIC_SELECTION_RATE, CIRCE_METRIC_MEAN_PREDICTION},
                                                    {CIRCE_METRIC_PRECISION, CIRCE_METRIC_NEGATIVE_PREDICTIVE_VALUE},
                                                    {CIRCE_METRIC_MEAN_PREDICTION, CIRCE_METRIC_MEAN_OUTCOME}};
    const circe_audit_result *r = w->r;
    circe_audit_notion notion = r->notions[k];
    bool binary = r->outcome == CIRCE_OUTCOME_BINARY;
    if (!binary && (notion != CIRCE_NOTION_INDEPENDENCE || audit_at(r, k, 0, attribute)->n_parts > 1)) return;
    const circe_audit_metric *pair = metrics[binary ? (int)notion : 3];
    const char *const titles[] = {circe_audit_metric_name(pair[0]), circe_audit_metric_name(pair[1])};
    OWNED char *rule = binary ? audit_positive_rule(r) : NULL;
    OWNED char *caption = rates_caption(r, notion, r->attributes[attribute].name, rule);
    show_pair(w, (place){k, attribute}, "rates", pair, titles, caption);
}

/* ---- calibration ------------------------------------------------------------------------------------------------- */

void audit_show_calibration(audit_page *w, int64_t k, int64_t attribute) {
    const circe_audit_result *r = w->r;
    const circe_audit_finding *first = NULL;
    const char *names[CIRCE_AUDIT_DECIDING];
    chart *c = chart_new();
    for (int64_t p = 0; p < shown(r); p++) {
        const circe_audit_finding *f = audit_at(r, k, p, attribute);
        if (!f->has_calibration) continue;
        first = first != NULL ? first : f;
        for (int i = 0; i < f->n_deciding; i++) names[i] = f->tests[i].name;
        calibration_panel(c, f->calibration, names, f->n_deciding, r->predictions[p].name);
    }
    if (first == NULL) {
        chart_free(c);
        return;
    }
    const audit_question *q = audit_question_of(r, first);
    OWNED char *caption = small_format(
        "Is the test calibrated on data like these? p-values of %" PRId64 " data sets of %" PRId64
        " rows, in which %s was drawn again%s%s, independently of %s. The histogram should be flat. A peak on the left "
        "would mean that the test finds dependence where there is none.",
        first->calibration[0].repetitions, first->calibration[0].rows,
        q->x == &r->target ? "the outcome" : "the prediction", q->given[0] != '\0' ? " given " : "", q->given,
        q->z->name);
    add_figure(w, (place){k, attribute}, "calibration", caption, c);
}
