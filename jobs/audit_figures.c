/* Figures of one attribute: what y leaves of x (for separation, the outcome of the prediction), where the dependence
 * sits, the error, and the calibration of the deciding test. Predictions stand side by side, or as curves of one panel,
 * in colours that stay. Categories stand beside each other by name, as points with intervals: a line between them would
 * say that there is something in between. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/small.h"
#include "circe/random.h"
#include "jobs/audit_page.h"
#include "jobs/calibration.h"

enum { MOST_SHOWN = 800, MOST_PANELS = 6, MOST_CURVES = 2 * MOST_PANELS + 2, MOST_CLASSES = 12 };

static int64_t shown(const circe_audit_result *r) {
    return r->n_predictions < MOST_PANELS ? r->n_predictions : MOST_PANELS;
}

/* Which notion and attribute a figure is of. */
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

static void add_figure(audit_page *w, place at, const char *kind, const char *caption, const report_panel *panels,
                       int64_t n_panels) {
    char *name = name_of(w, at, kind);
    report_figure figure = {.name = name,
                            .caption = caption,
                            .panels = panels,
                            .n_panels = n_panels,
                            .columns = n_panels < 4 ? n_panels : 2};
    bool drawn = false;
    if (w->status == CIRCE_OK && !report_draw(&figure, w->folder, &drawn)) w->status = CIRCE_ERR_WRITE;
    report_add_figure(w->page, &figure, w->folder);
    free(name);
}

/* ---- along the attribute ----------------------------------------------------------------------------------------- */

/* A panel whose x is the attribute. */
static report_panel attribute_panel(const circe_audit_result *r, int64_t attribute, const char *title,
                                    const char *y_label, const report_series *series, int64_t n_series) {
    const circe_audit_column *c = &r->attributes[attribute];
    return (report_panel){.title = title,
                          .x_label = c->name,
                          .y_label = y_label,
                          .x_names = (const char *const *)c->categories,
                          .n_x_names = c->n_categories,
                          .series = series,
                          .n_series = n_series};
}

/* A number for every group with its interval, and the memory of that. */
typedef struct band {
    double *x, *y, *low, *high;
    report_series series;
} band;

/* The k-th of n at the same category stands a little beside it. */
static band band_make(const circe_audit_result *r, int64_t attribute, const char *label, int colour, int64_t k,
                      int64_t n) {
    const circe_audit_groups *groups = &r->groups[attribute];
    bool categories = r->attributes[attribute].categories != NULL;
    size_t bytes = (size_t)groups->n_groups * sizeof(double);
    band b = {small_alloc(bytes), small_alloc(bytes), small_alloc(bytes), small_alloc(bytes), {0}};
    double beside = 0.12 * ((double)k - 0.5 * (double)(n - 1));
    for (int64_t g = 0; g < groups->n_groups; g++) b.x[g] = categories ? (double)g + beside : groups->centre[g];
    b.series = (report_series){.label = label,
                               .n = groups->n_groups,
                               .x = b.x,
                               .y = b.y,
                               .low = b.low,
                               .high = b.high,
                               .style = categories ? REPORT_INTERVALS : REPORT_LINE_POINTS,
                               .colour = colour};
    return b;
}

static void put_profile(band *b, const circe_audit_profile *p) {
    for (int64_t g = 0; g < b->series.n; g++) {
        b->y[g] = p->value[g];
        b->low[g] = p->value[g] - p->half[g];
        b->high[g] = p->value[g] + p->half[g];
    }
}

static void put_metric(band *b, const circe_audit_metrics *groups, circe_audit_metric m) {
    for (int64_t g = 0; g < b->series.n; g++) {
        b->y[g] = groups[g].of[m].value;
        b->low[g] = groups[g].of[m].lower;
        b->high[g] = groups[g].of[m].upper;
    }
}

static void band_free(band *b) {
    free(b->x);
    free(b->y);
    free(b->low);
    free(b->high);
}

/* ---- residuals --------------------------------------------------------------------------------------------------- */

typedef struct cloud {
    double *x, *y, zero;
    band mean;
    report_series series[3];
} cloud;

/* Rows at random; categories, which would lie on top of each other, are spread. */
static void make_cloud(const circe_audit_result *r, const circe_audit_finding *f, cloud *c) {
    const circe_audit_column *z = audit_attribute(r, f);
    int64_t n = 0, *rows = audit_sample(r->n, MOST_SHOWN, r->seed, 21, &n);
    double *spread = small_alloc((size_t)n * sizeof *spread);
    circe_random_uniform((circe_random){.seed = 1, .stream = 22}, 0, n, spread);
    c->x = audit_take(z->values, rows, n);
    c->y = audit_take(audit_residual(r, f), rows, n);
    for (int64_t i = 0; z->code != NULL && i < n; i++) c->x[i] = (double)z->code[rows[i]] + 0.5 * (spread[i] - 0.5);
    c->mean = band_make(r, f->attribute, "mean of a group, 95 % interval", 1, 0, 1);
    put_profile(&c->mean, &f->residual);
    c->series[0] = (report_series){.label = "rows", .n = n, .x = c->x, .y = c->y, .style = REPORT_POINTS, .colour = -1};
    c->series[1] = (report_series){.n = 1, .y = &c->zero, .style = REPORT_HORIZONTAL, .colour = -1, .dashed = true};
    c->series[2] = c->mean.series;
    free(spread);
    free(rows);
}

static char *residual_caption(const circe_audit_result *r, const circe_audit_finding *f) {
    audit_question q = audit_question_of(r, f);
    char *given = audit_given_text(r, f), *what;
    if (given[0] == '\0')
        what = small_format("The prediction minus its mean, against %s.", q.z->name);
    else
        what = small_format("What %s %s unexplained in %s (its value minus the mean at that %s), against %s.", given,
                            q.n_y > 1 ? "leave" : "leaves", q.x_is_classes ? "the outcome" : "the prediction",
                            f->notion == CIRCE_NOTION_SUFFICIENCY ? "prediction" : "outcome", q.z->name);
    char *caption = small_format(
        "%s Without dependence, the group means lie around 0 and the spread is the same everywhere.%s", what,
        r->n > MOST_SHOWN ? " The points are a random sample of the rows; the means use all rows." : "");
    free(given);
    free(what);
    audit_question_free(&q);
    return caption;
}

void audit_show_residuals(audit_page *w, int64_t k, int64_t attribute) {
    const circe_audit_result *r = w->r;
    int64_t n = shown(r);
    cloud clouds[MOST_PANELS] = {0};
    report_panel panels[MOST_PANELS];
    bool outcome = r->notions[k] == CIRCE_NOTION_SUFFICIENCY;
    if (audit_residual(r, audit_at(r, k, 0, attribute)) == NULL) return;
    for (int64_t p = 0; p < n; p++) {
        make_cloud(r, audit_at(r, k, p, attribute), &clouds[p]);
        panels[p] =
            attribute_panel(r, attribute, r->predictions[p].name,
                            outcome ? "outcome minus its mean" : "prediction minus its mean", clouds[p].series, 3);
    }
    char *caption = residual_caption(r, audit_at(r, k, 0, attribute));
    add_figure(w, (place){k, attribute}, "residuals", caption, panels, n);
    for (int64_t p = 0; p < n; p++) {
        free(clouds[p].x);
        free(clouds[p].y);
        band_free(&clouds[p].mean);
    }
    free(caption);
}

/* ---- place ------------------------------------------------------------------------------------------------------- */

/* Along a number: the contribution to CIRCE, with what chance allows. For sufficiency, every prediction has an axis of
 * its own. */
static void show_along(audit_page *w, place at, int64_t first, int64_t end, const char *kind) {
    const circe_audit_result *r = w->r;
    report_series series[MOST_CURVES];
    char *labels[MOST_PANELS];
    const char *along = audit_at(r, at.k, first, at.attribute)->along.column;
    for (int64_t p = first; p < end; p++) {
        const circe_effects_along *l = &audit_at(r, at.k, p, at.attribute)->along;
        int64_t i = p - first;
        labels[i] = small_format("%s: chance up to here", r->predictions[p].name);
        series[2 * i] = (report_series){.label = r->predictions[p].name,
                                        .n = l->points,
                                        .x = l->place,
                                        .y = l->value,
                                        .low = l->lower,
                                        .high = l->upper,
                                        .style = REPORT_LINE_POINTS,
                                        .colour = (int)p};
        series[2 * i + 1] = (report_series){.label = labels[i],
                                            .n = l->points,
                                            .x = l->place,
                                            .y = l->null_upper,
                                            .style = REPORT_LINE,
                                            .colour = (int)p,
                                            .dashed = true};
    }
    report_panel panel = {.title = "",
                          .x_label = along,
                          .y_label = "normalised CIRCE of the rows around",
                          .series = series,
                          .n_series = 2 * (end - first)};
    char *caption = small_format(
        "Where along %s the dependence on %s occurs, with 95 %% intervals. A curve above the dashed line of its colour "
        "shows dependence: by chance, the whole curve stays below the line 95 times out of 100.",
        along, r->attributes[at.attribute].name);
    add_figure(w, at, kind, caption, &panel, 1);
    for (int64_t p = first; p < end; p++) free(labels[p - first]);
    free(caption);
}

/* At every level: the mean along the attribute, one panel per level. */
static void show_levels(audit_page *w, place at, int64_t first, int64_t end, const char *kind, const char *y_label,
                        const char *caption) {
    const circe_audit_result *r = w->r;
    const circe_audit_finding *f = audit_at(r, at.k, first, at.attribute);
    const circe_audit_groups *levels = audit_levels(r, f);
    const char *name = f->notion == CIRCE_NOTION_SUFFICIENCY ? audit_prediction(r, f)->name : r->target.name;
    int64_t n = levels->n_groups < MOST_CLASSES ? levels->n_groups : MOST_CLASSES;
    report_panel panels[MOST_CLASSES] = {0};
    report_series series[MOST_CLASSES][MOST_PANELS];
    band bands[MOST_CLASSES][MOST_PANELS];
    char *titles[MOST_CLASSES];
    for (int64_t s = 0; s < n; s++) {
        titles[s] = small_format("%s = %s", name, levels->labels[s]);
        for (int64_t p = first; p < end; p++) {
            int64_t i = p - first;
            bands[s][i] = band_make(r, at.attribute, r->predictions[p].name, (int)p, i, end - first);
            put_profile(&bands[s][i], &audit_at(r, at.k, p, at.attribute)->strata[s]);
            series[s][i] = bands[s][i].series;
        }
        panels[s] = attribute_panel(r, at.attribute, titles[s], y_label, series[s], end - first);
    }
    add_figure(w, at, kind, caption, panels, n);
    for (int64_t s = 0; s < n; s++) {
        for (int64_t i = 0; i < end - first; i++) band_free(&bands[s][i]);
        free(titles[s]);
    }
}

/* Calibration within groups, prediction by prediction. */
static void show_outcomes(audit_page *w, place at) {
    const circe_audit_result *r = w->r;
    for (int64_t p = 0; p < shown(r); p++) {
        const circe_audit_finding *f = audit_at(r, at.k, p, at.attribute);
        audit_question q = audit_question_of(r, f);
        bool numbers = q.n_numbers > 0;
        audit_question_free(&q);
        char *levels = small_format("place-%" PRId64, p + 1), *along = small_format("along-%" PRId64, p + 1);
        char *caption = small_format(
            "%s along %s, at every level of %s, with 95 %% intervals. Sufficiency asks for the same height everywhere "
            "in a panel: then the same prediction means the same for all.",
            numbers ? "Mean outcome minus the mean at that prediction," : "Mean outcome",
            r->attributes[at.attribute].name, r->predictions[p].name);
        if (f->strata != NULL)
            show_levels(w, at, p, p + 1, levels, numbers ? "outcome minus its mean" : "mean outcome", caption);
        if (f->along.points > 0) show_along(w, at, p, p + 1, along);
        free(caption);
        free(levels);
        free(along);
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

/* Two metrics in two panels, of all predictions that have them. */
static void show_pair(audit_page *w, place at, const char *kind, const circe_audit_metric metrics[2],
                      const char *const titles[2], const char *caption) {
    const circe_audit_result *r = w->r;
    int64_t n = shown(r), attribute = at.attribute;
    band bands[2][MOST_PANELS];
    report_series series[2][MOST_PANELS + 1];
    report_panel panels[2];
    double zero = 0;
    for (int k = 0; k < 2; k++) {
        bool level = metrics[k] == CIRCE_METRIC_MEAN_ERROR;
        for (int64_t p = 0; p < n; p++) {
            bands[k][p] = band_make(r, attribute, r->predictions[p].name, (int)p, p, n);
            put_metric(&bands[k][p], audit_at(r, 0, p, attribute)->groups, metrics[k]);
            series[k][p] = bands[k][p].series;
        }
        series[k][n] = (report_series){.n = 1, .y = &zero, .style = REPORT_HORIZONTAL, .colour = -1, .dashed = true};
        panels[k] = attribute_panel(r, attribute, titles[k], "", series[k], level ? n + 1 : n);
    }
    add_figure(w, at, kind, caption, panels, 2);
    for (int k = 0; k < 2; k++) {
        for (int64_t p = 0; p < n; p++) band_free(&bands[k][p]);
    }
}

void audit_show_errors(audit_page *w, int64_t attribute) {
    static const circe_audit_metric metrics[] = {CIRCE_METRIC_MEAN_ERROR, CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR};
    static const char *const titles[] = {"mean error: prediction minus outcome", "size of the error: root mean square"};
    const circe_audit_result *r = w->r;
    bool any = false;
    for (int64_t p = 0; p < r->n_predictions; p++) any = any || audit_has_errors(r, p);
    if (!any) return;
    char *caption = small_format(
        "Error along %s, with 95 %% intervals. A mean error above 0 means that predictions for the group are too high. "
        "The error can differ between groups although equalised odds holds, and vice versa.",
        r->attributes[attribute].name);
    show_pair(w, (place){0, attribute}, "errors", metrics, titles, caption);
    free(caption);
}

/* What the rates of a notion are shares of. */
static char *rates_caption(const circe_audit_result *r, circe_audit_notion notion, const char *attribute) {
    if (notion == CIRCE_NOTION_SEPARATION)
        return small_format(
            "Rates along %s, with 95 %% intervals: of the rows whose %s is %s (left) or %s (right), the share whose "
            "prediction is at least %g.",
            attribute, r->target.name, r->positive, r->negative, r->threshold);
    if (notion == CIRCE_NOTION_SUFFICIENCY)
        return small_format(
            "Predictive values along %s, with 95 %% intervals: the share of the rows whose %s is %s among those whose "
            "prediction is at least %g (left), and of those whose %s is %s among the others (right).",
            attribute, r->target.name, r->positive, r->threshold, r->target.name, r->negative);
    if (r->outcome == CIRCE_OUTCOME_BINARY)
        return small_format(
            "Along %s, with 95 %% intervals: the share of all rows whose prediction is at least %g (left), and the "
            "mean "
            "prediction (right). Demographic parity asks for the same height everywhere.",
            attribute, r->threshold);
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
    if (!binary && notion != CIRCE_NOTION_INDEPENDENCE) return;
    const circe_audit_metric *pair = metrics[binary ? (int)notion : 3];
    const char *const titles[] = {circe_audit_metric_name(pair[0]), circe_audit_metric_name(pair[1])};
    char *caption = rates_caption(r, notion, r->attributes[attribute].name);
    show_pair(w, (place){k, attribute}, "rates", pair, titles, caption);
    free(caption);
}

/* ---- calibration ------------------------------------------------------------------------------------------------- */

void audit_show_calibration(audit_page *w, int64_t k, int64_t attribute) {
    const circe_audit_result *r = w->r;
    const circe_audit_finding *first = audit_at(r, k, 0, attribute);
    int64_t n = shown(r);
    const char *names[CIRCE_AUDIT_DECIDING];
    report_panel list[MOST_PANELS];
    if (!first->has_calibration) return;
    calibration_panel *panels = small_alloc((size_t)n * sizeof *panels);
    for (int i = 0; i < first->n_deciding; i++) names[i] = first->tests[i].name;
    for (int64_t p = 0; p < n; p++) {
        calibration_panel_make(audit_at(r, k, p, attribute)->calibration, names, first->n_deciding,
                               r->predictions[p].name, &panels[p]);
        list[p] = panels[p].panel;
    }
    audit_question q = audit_question_of(r, first);
    char *given = audit_given_text(r, first);
    char *caption = small_format(
        "Is the test calibrated on data like these? p-values of %" PRId64 " data sets of %" PRId64
        " rows, in which %s was drawn again%s%s, independently of %s. The histogram should be flat. A peak on the left "
        "would mean that the test finds dependence where there is none.",
        first->calibration[0].repetitions, first->calibration[0].rows,
        q.x == &r->target ? "the outcome" : "the prediction", given[0] != '\0' ? " given " : "", given, q.z->name);
    add_figure(w, (place){k, attribute}, "calibration", caption, list, n);
    audit_question_free(&q);
    free(given);
    free(caption);
    free(panels);
}
