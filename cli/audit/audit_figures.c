/* Figures of one attribute: what the outcome leaves of the prediction, where the dependence sits, the error, and the
 * calibration of the deciding test. Predictions stand side by side, or as curves of one panel, in colours that stay. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/audit/audit.h"

enum { MOST_SHOWN = 800, MOST_PANELS = 6, MOST_CURVES = 2 * MOST_PANELS + 2, MOST_NAMED = 8 };

static int64_t shown(const audit *a) {
    return a->data.n_predictions < MOST_PANELS ? a->data.n_predictions : MOST_PANELS;
}

static void add_figure(audit_writer *w, int64_t attribute, const char *kind, const char *caption,
                       const report_panel *panels, int64_t n_panels) {
    char *name = small_format("%" PRId64 "-%s", attribute + 1, kind);
    report_figure figure = {.name = name,
                            .caption = caption,
                            .panels = panels,
                            .n_panels = n_panels,
                            .columns = n_panels < 4 ? n_panels : 2};
    bool drawn = false;
    if (w->status == EXIT_DONE && !report_draw(&figure, w->a->folder, &drawn))
        w->status = message_write(w->a->folder, circe_last_error());
    report_add_figure(w->page, &figure, w->a->folder);
    free(name);
}

/* "sex (0: female, 1: male)" */
static char *axis_label(const audit_column *c) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = c->categories != NULL ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL) return small_format("%s", c->name);
    fprintf(out, "%s (", c->name);
    for (int64_t k = 0; k < c->n_categories && k < MOST_NAMED; k++)
        fprintf(out, "%s%" PRId64 ": %s", k > 0 ? ", " : "", k, c->categories[k]);
    fprintf(out, "%s)", c->n_categories > MOST_NAMED ? ", ..." : "");
    fclose(out);
    return text;
}

/* ---- curves along the attribute ---------------------------------------------------------------------------------- */

/* A curve with its band, and the memory of that. */
typedef struct band {
    double *low, *high;
    report_series series;
} band;

static band band_of(const char *label, const audit_groups *groups, const audit_profile *p, int colour) {
    int64_t n = groups->n_groups;
    band b = {small_alloc((size_t)n * sizeof(double)), small_alloc((size_t)n * sizeof(double)), {0}};
    for (int64_t g = 0; g < n; g++) {
        b.low[g] = p->value[g] - p->half[g];
        b.high[g] = p->value[g] + p->half[g];
    }
    b.series = (report_series){.label = label,
                               .n = n,
                               .x = groups->centre,
                               .y = p->value,
                               .low = b.low,
                               .high = b.high,
                               .style = REPORT_LINE_POINTS,
                               .colour = colour};
    return b;
}

static void band_free(band *b) {
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
static cloud make_cloud(const audit *a, int64_t prediction, int64_t attribute) {
    const audit_column *z = &a->data.attributes[attribute];
    int64_t n = 0, *rows = audit_sample(a, MOST_SHOWN, 21, &n);
    cloud c = {.x = audit_take(z, rows, n), .y = small_alloc((size_t)n * sizeof *c.y)};
    for (int64_t i = 0; i < n; i++) c.y[i] = a->residuals[prediction][rows[i]];
    if (z->categories != NULL) {
        double *jitter = small_alloc((size_t)n * sizeof *jitter);
        circe_random_uniform((circe_random){.seed = 1, .stream = 22}, 0, n, jitter);
        for (int64_t i = 0; i < n; i++) c.x[i] += 0.5 * (jitter[i] - 0.5);
        free(jitter);
    }
    c.mean = band_of("mean of a group, 95 % interval", &a->finest[attribute],
                     &audit_at(a, prediction, attribute)->residual, 1);
    c.series[0] = (report_series){.label = "rows", .n = n, .x = c.x, .y = c.y, .style = REPORT_POINTS, .colour = -1};
    c.series[2] = c.mean.series;
    free(rows);
    return c;
}

void audit_show_residuals(audit_writer *w, int64_t attribute) {
    const audit *a = w->a;
    int64_t n = shown(a);
    cloud clouds[MOST_PANELS];
    report_panel panels[MOST_PANELS];
    char *label = axis_label(&a->data.attributes[attribute]);
    for (int64_t p = 0; p < n; p++) {
        clouds[p] = make_cloud(a, p, attribute);
        clouds[p].series[1] =
            (report_series){.n = 1, .y = &clouds[p].zero, .style = REPORT_HORIZONTAL, .colour = -1, .dashed = true};
        panels[p] = (report_panel){.title = a->data.predictions[p].name,
                                   .x_label = label,
                                   .y_label = "prediction, less its mean",
                                   .series = clouds[p].series,
                                   .n_series = 3};
    }
    char *caption = small_format(
        "What %s leaves of the prediction (its value, less the mean at that outcome), against %s. A prediction that "
        "does not depend on it any more has group "
        "means around 0, and the same spread everywhere.%s",
        a->data.target.name, a->data.attributes[attribute].name,
        a->data.n > MOST_SHOWN ? " The points are a random part of the rows, the means are of all." : "");
    add_figure(w, attribute, "residuals", caption, panels, n);
    for (int64_t p = 0; p < n; p++) {
        free(clouds[p].x);
        free(clouds[p].y);
        band_free(&clouds[p].mean);
    }
    free(caption);
    free(label);
}

/* ---- place ------------------------------------------------------------------------------------------------------- */

/* Along a number: the contribution to CIRCE, with what chance allows. */
static void show_along(audit_writer *w, int64_t attribute) {
    const audit *a = w->a;
    report_series series[MOST_CURVES];
    char *labels[MOST_PANELS];
    int64_t predictions = shown(a);
    for (int64_t p = 0; p < predictions; p++) {
        const test_along *l = &audit_at(a, p, attribute)->along;
        labels[p] = small_format("%s: chance up to here", a->data.predictions[p].name);
        series[2 * p] = (report_series){.label = a->data.predictions[p].name,
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
                          .x_label = a->data.target.name,
                          .y_label = "normalised CIRCE of the rows around",
                          .series = series,
                          .n_series = 2 * predictions};
    char *caption = small_format(
        "Where along %s the dependence on %s sits, with 95 %% intervals. Above the dashed line of its colour there is "
        "dependence; chance stays below it everywhere at once, 95 times of 100.",
        a->data.target.name, a->data.attributes[attribute].name);
    add_figure(w, attribute, "place", caption, &panel, 1);
    for (int64_t p = 0; p < predictions; p++) free(labels[p]);
    free(caption);
}

static char *class_title(const audit *a, int64_t class) {
    const audit_data *d = &a->data;
    if (d->outcome == OUTCOME_BINARY)
        return small_format("%s = %s", d->target.name, class == 1 ? d->positive : d->negative);
    return small_format("%s = %s", d->target.name, d->target.categories[class]);
}

/* For classes: the mean prediction along the attribute, a panel a class. */
static void show_classes(audit_writer *w, int64_t attribute) {
    const audit *a = w->a;
    int64_t predictions = shown(a), classes = a->outcome.n_groups;
    report_panel panels[AUDIT_MOST_STRATA];
    report_series series[AUDIT_MOST_STRATA][MOST_PANELS];
    band bands[AUDIT_MOST_STRATA][MOST_PANELS];
    char *titles[AUDIT_MOST_STRATA], *label = axis_label(&a->data.attributes[attribute]);
    for (int64_t s = 0; s < classes; s++) {
        titles[s] = class_title(a, s);
        for (int64_t p = 0; p < predictions; p++) {
            bands[s][p] = band_of(a->data.predictions[p].name, &a->finest[attribute],
                                  &audit_at(a, p, attribute)->strata[s], (int)p);
            series[s][p] = bands[s][p].series;
        }
        panels[s] = (report_panel){.title = titles[s],
                                   .x_label = label,
                                   .y_label = "mean prediction",
                                   .series = series[s],
                                   .n_series = predictions};
    }
    add_figure(w, attribute, "place",
               "Mean prediction along the attribute, for every outcome, with 95 % intervals. Equalised odds asks for "
               "level curves; the heights may differ between outcomes.",
               panels, classes);
    for (int64_t s = 0; s < classes; s++) {
        for (int64_t p = 0; p < predictions; p++) band_free(&bands[s][p]);
        free(titles[s]);
    }
    free(label);
}

void audit_show_place(audit_writer *w, int64_t attribute) {
    if (w->a->data.outcome == OUTCOME_NUMBERS)
        show_along(w, attribute);
    else
        show_classes(w, attribute);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

void audit_show_errors(audit_writer *w, int64_t attribute) {
    static const char *const titles[2] = {"mean error: prediction less outcome", "size of the error: root mean square"};
    const audit *a = w->a;
    int64_t n = shown(a);
    band bands[2][MOST_PANELS];
    report_series series[2][MOST_PANELS + 1];
    report_panel panels[2];
    double zero = 0;
    if (!audit_has_errors(a)) return;
    char *label = axis_label(&a->data.attributes[attribute]);
    for (int k = 0; k < 2; k++) {
        for (int64_t p = 0; p < n; p++) {
            const audit_finding *f = audit_at(a, p, attribute);
            bands[k][p] =
                band_of(a->data.predictions[p].name, &a->finest[attribute], k == 0 ? &f->error : &f->squared, (int)p);
            series[k][p] = bands[k][p].series;
        }
        series[k][n] = (report_series){.n = 1, .y = &zero, .style = REPORT_HORIZONTAL, .colour = -1, .dashed = true};
        panels[k] = (report_panel){
            .title = titles[k], .x_label = label, .y_label = "", .series = series[k], .n_series = k == 0 ? n + 1 : n};
    }
    char *caption = small_format(
        "Error along %s, with 95 %% intervals of the means. A mean error above 0 is a group that is predicted too "
        "high. This can differ between groups although equalised odds holds, and the other way round.",
        a->data.attributes[attribute].name);
    add_figure(w, attribute, "errors", caption, panels, 2);
    for (int k = 0; k < 2; k++) {
        for (int64_t p = 0; p < n; p++) band_free(&bands[k][p]);
    }
    free(caption);
    free(label);
}

/* ---- calibration ------------------------------------------------------------------------------------------------- */

void audit_show_calibration(audit_writer *w, int64_t attribute) {
    const audit *a = w->a;
    const audit_finding *first = audit_at(a, 0, attribute);
    int64_t n = shown(a);
    const char *names[AUDIT_DECIDING];
    report_panel list[MOST_PANELS];
    if (!first->has_calibration) return;
    calibration_panel *panels = small_alloc((size_t)n * sizeof *panels);
    for (int i = 0; i < first->n_deciding; i++) names[i] = first->tests[i].name;
    for (int64_t p = 0; p < n; p++) {
        calibration_panel_make(audit_at(a, p, attribute)->calibration, names, first->n_deciding,
                               a->data.predictions[p].name, &panels[p]);
        list[p] = panels[p].panel;
    }
    char *caption = small_format(
        "Is the test right for data like these? p-values of %" PRId64 " data sets of %" PRId64
        " rows, in which the prediction was drawn again given %s, independently of %s. Level is right; a peak at "
        "the left would mean that the test finds dependence where there is none.",
        first->calibration[0].repetitions, first->calibration[0].rows, a->data.target.name,
        a->data.attributes[attribute].name);
    add_figure(w, attribute, "calibration", caption, list, n);
    free(caption);
    free(panels);
}
