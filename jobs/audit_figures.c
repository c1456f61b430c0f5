/* Figures of one attribute: what the outcome leaves of the prediction, where the dependence sits, the error, and the
 * calibration of the deciding test. Predictions stand side by side, or as curves of one panel, in colours that stay.
 * Categories stand beside each other by name, as points with intervals: a line between them would say that there is
 * something in between. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "circe/random.h"
#include "io/small.h"
#include "jobs/audit_page.h"
#include "jobs/calibration.h"

enum { MOST_SHOWN = 800, MOST_PANELS = 6, MOST_CURVES = 2 * MOST_PANELS + 2, MOST_CLASSES = 12 };

static int64_t shown(const circe_audit_result *r) {
    return r->n_predictions < MOST_PANELS ? r->n_predictions : MOST_PANELS;
}

static void add_figure(audit_page *w, int64_t attribute, const char *kind, const char *caption,
                       const report_panel *panels, int64_t n_panels) {
    char *name = small_format("%" PRId64 "-%s", attribute + 1, kind);
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
static void make_cloud(const circe_audit_result *r, int64_t prediction, int64_t attribute, cloud *c) {
    const circe_audit_column *z = &r->attributes[attribute];
    int64_t n = 0, *rows = audit_sample(r->n, MOST_SHOWN, r->seed, 21, &n);
    double *spread = small_alloc((size_t)n * sizeof *spread);
    circe_random_uniform((circe_random){.seed = 1, .stream = 22}, 0, n, spread);
    c->x = audit_take(z->values, rows, n);
    c->y = audit_take(r->residuals[prediction], rows, n);
    for (int64_t i = 0; z->code != NULL && i < n; i++) c->x[i] = (double)z->code[rows[i]] + 0.5 * (spread[i] - 0.5);
    c->mean = band_make(r, attribute, "mean of a group, 95 % interval", 1, 0, 1);
    put_profile(&c->mean, &audit_at(r, prediction, attribute)->residual);
    c->series[0] = (report_series){.label = "rows", .n = n, .x = c->x, .y = c->y, .style = REPORT_POINTS, .colour = -1};
    c->series[1] = (report_series){.n = 1, .y = &c->zero, .style = REPORT_HORIZONTAL, .colour = -1, .dashed = true};
    c->series[2] = c->mean.series;
    free(spread);
    free(rows);
}

void audit_show_residuals(audit_page *w, int64_t attribute) {
    const circe_audit_result *r = w->r;
    int64_t n = shown(r);
    cloud clouds[MOST_PANELS] = {0};
    report_panel panels[MOST_PANELS];
    for (int64_t p = 0; p < n; p++) {
        make_cloud(r, p, attribute, &clouds[p]);
        panels[p] =
            attribute_panel(r, attribute, r->predictions[p].name, "prediction, less its mean", clouds[p].series, 3);
    }
    char *caption = small_format(
        "What %s leaves of the prediction (its value, less the mean at that outcome), against %s. A prediction that "
        "does not depend on it any more has group "
        "means around 0, and the same spread everywhere.%s",
        r->target.name, r->attributes[attribute].name,
        r->n > MOST_SHOWN ? " The points are a random part of the rows, the means are of all." : "");
    add_figure(w, attribute, "residuals", caption, panels, n);
    for (int64_t p = 0; p < n; p++) {
        free(clouds[p].x);
        free(clouds[p].y);
        band_free(&clouds[p].mean);
    }
    free(caption);
}

/* ---- place ------------------------------------------------------------------------------------------------------- */

/* Along a number: the contribution to CIRCE, with what chance allows. */
static void show_along(audit_page *w, int64_t attribute) {
    const circe_audit_result *r = w->r;
    report_series series[MOST_CURVES];
    char *labels[MOST_PANELS];
    int64_t predictions = shown(r);
    for (int64_t p = 0; p < predictions; p++) {
        const circe_effects_along *l = &audit_at(r, p, attribute)->along;
        labels[p] = small_format("%s: chance up to here", r->predictions[p].name);
        series[2 * p] = (report_series){.label = r->predictions[p].name,
                                        .n = l->points,
                                        .x = l->place,
                                        .y = l->value,
                                        .low = l->lower,
                                        .high = l->upper,
                                        .style = REPORT_LINE_POINTS,
                                        .colour = (int)p};
        series[2 * p + 1] = (report_series){.label = labels[p],
                                            .n = l->points,
                                            .x = l->place,
                                            .y = l->null_upper,
                                            .style = REPORT_LINE,
                                            .colour = (int)p,
                                            .dashed = true};
    }
    report_panel panel = {.title = "",
                          .x_label = r->target.name,
                          .y_label = "normalised CIRCE of the rows around",
                          .series = series,
                          .n_series = 2 * predictions};
    char *caption = small_format(
        "Where along %s the dependence on %s sits, with 95 %% intervals. Above the dashed line of its colour there is "
        "dependence; chance stays below it everywhere at once, 95 times of 100.",
        r->target.name, r->attributes[attribute].name);
    add_figure(w, attribute, "place", caption, &panel, 1);
    for (int64_t p = 0; p < predictions; p++) free(labels[p]);
    free(caption);
}

/* For classes: the mean prediction along the attribute, one panel per class. */
static void show_classes(audit_page *w, int64_t attribute) {
    const circe_audit_result *r = w->r;
    int64_t n = shown(r), classes = r->strata.n_groups < MOST_CLASSES ? r->strata.n_groups : MOST_CLASSES;
    report_panel panels[MOST_CLASSES] = {0};
    report_series series[MOST_CLASSES][MOST_PANELS];
    band bands[MOST_CLASSES][MOST_PANELS];
    char *titles[MOST_CLASSES];
    for (int64_t s = 0; s < classes; s++) {
        titles[s] = small_format("%s = %s", r->target.name, r->strata.labels[s]);
        for (int64_t p = 0; p < n; p++) {
            bands[s][p] = band_make(r, attribute, r->predictions[p].name, (int)p, p, n);
            put_profile(&bands[s][p], &audit_at(r, p, attribute)->strata[s]);
            series[s][p] = bands[s][p].series;
        }
        panels[s] = attribute_panel(r, attribute, titles[s], "mean prediction", series[s], n);
    }
    add_figure(w, attribute, "place",
               "Mean prediction along the attribute, for every outcome, with 95 % intervals. Equalised odds asks for "
               "the same height everywhere in a panel; the heights may differ between outcomes.",
               panels, classes);
    for (int64_t s = 0; s < classes; s++) {
        for (int64_t p = 0; p < n; p++) band_free(&bands[s][p]);
        free(titles[s]);
    }
}

void audit_show_place(audit_page *w, int64_t attribute) {
    if (w->r->outcome == CIRCE_OUTCOME_NUMBERS)
        show_along(w, attribute);
    else
        show_classes(w, attribute);
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

/* Two metrics in two panels, of all predictions that have them. */
static void show_pair(audit_page *w, int64_t attribute, const char *kind, const circe_audit_metric metrics[2],
                      const char *const titles[2], const char *caption) {
    const circe_audit_result *r = w->r;
    int64_t n = shown(r);
    band bands[2][MOST_PANELS];
    report_series series[2][MOST_PANELS + 1];
    report_panel panels[2];
    double zero = 0;
    for (int k = 0; k < 2; k++) {
        bool level = metrics[k] == CIRCE_METRIC_MEAN_ERROR;
        for (int64_t p = 0; p < n; p++) {
            bands[k][p] = band_make(r, attribute, r->predictions[p].name, (int)p, p, n);
            put_metric(&bands[k][p], audit_at(r, p, attribute)->groups, metrics[k]);
            series[k][p] = bands[k][p].series;
        }
        series[k][n] = (report_series){.n = 1, .y = &zero, .style = REPORT_HORIZONTAL, .colour = -1, .dashed = true};
        panels[k] = attribute_panel(r, attribute, titles[k], "", series[k], level ? n + 1 : n);
    }
    add_figure(w, attribute, kind, caption, panels, 2);
    for (int k = 0; k < 2; k++) {
        for (int64_t p = 0; p < n; p++) band_free(&bands[k][p]);
    }
}

void audit_show_errors(audit_page *w, int64_t attribute) {
    static const circe_audit_metric metrics[] = {CIRCE_METRIC_MEAN_ERROR, CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR};
    static const char *const titles[] = {"mean error: prediction less outcome", "size of the error: root mean square"};
    const circe_audit_result *r = w->r;
    bool any = false;
    for (int64_t p = 0; p < r->n_predictions; p++) any = any || audit_has_errors(r, p);
    if (!any) return;
    char *caption = small_format(
        "Error along %s, with 95 %% intervals. A mean error above 0 is a group that is predicted too "
        "high. This can differ between groups although equalised odds holds, and the other way round.",
        r->attributes[attribute].name);
    show_pair(w, attribute, "errors", metrics, titles, caption);
    free(caption);
}

void audit_show_rates(audit_page *w, int64_t attribute) {
    static const circe_audit_metric metrics[] = {CIRCE_METRIC_TRUE_POSITIVE_RATE, CIRCE_METRIC_FALSE_POSITIVE_RATE};
    static const char *const titles[] = {"true positive rate", "false positive rate"};
    const circe_audit_result *r = w->r;
    if (r->outcome != CIRCE_OUTCOME_BINARY) return;
    char *caption = small_format(
        "Rates along %s, with 95 %% intervals: of the rows whose %s is %s (left) or %s (right), the share whose "
        "prediction is at least %g.",
        r->attributes[attribute].name, r->target.name, r->positive, r->negative, r->threshold);
    show_pair(w, attribute, "rates", metrics, titles, caption);
    free(caption);
}

/* ---- calibration ------------------------------------------------------------------------------------------------- */

void audit_show_calibration(audit_page *w, int64_t attribute) {
    const circe_audit_result *r = w->r;
    const circe_audit_finding *first = audit_at(r, 0, attribute);
    int64_t n = shown(r);
    const char *names[CIRCE_AUDIT_DECIDING];
    report_panel list[MOST_PANELS];
    if (!first->has_calibration) return;
    calibration_panel *panels = small_alloc((size_t)n * sizeof *panels);
    for (int i = 0; i < first->n_deciding; i++) names[i] = first->tests[i].name;
    for (int64_t p = 0; p < n; p++) {
        calibration_panel_make(audit_at(r, p, attribute)->calibration, names, first->n_deciding, r->predictions[p].name,
                               &panels[p]);
        list[p] = panels[p].panel;
    }
    char *caption = small_format(
        "Is the test right for data like these? p-values of %" PRId64 " data sets of %" PRId64
        " rows, in which the prediction was drawn again given %s, independently of %s. Level is right; a peak at "
        "the left would mean that the test finds dependence where there is none.",
        first->calibration[0].repetitions, first->calibration[0].rows, r->target.name, r->attributes[attribute].name);
    add_figure(w, attribute, "calibration", caption, list, n);
    free(caption);
    free(panels);
}
