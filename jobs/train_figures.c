/* The figures of a report: how training went, predictions against the target, and what is left of what must not matter.
 * At most MOST_SHOWN validation rows, which are in random order, are drawn. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "io/small.h"
#include "jobs/training.h"

enum { MOST_SHOWN = 500, MOST_PANELS = 3 };

static void show_figure(training_page *p, const report_figure *figure) {
    bool drawn = false;
    if (p->status != CIRCE_OK) return;
    if (!report_draw(figure, p->folder, &drawn)) p->status = CIRCE_ERR_WRITE;
    report_add_figure(p->page, figure, p->folder);
}

static int64_t rows_shown(const trained *t) {
    return t->set.validation.n < MOST_SHOWN ? t->set.validation.n : MOST_SHOWN;
}

static double *numbers(int64_t n) { return small_alloc((size_t)(n > 0 ? n : 1) * sizeof(double)); }

void training_show_history(training_page *p) {
    const circe_training *r = &p->t->result;
    int64_t n = r->epochs;
    enum { LOSS, CHECKED, MEASURE, CHECKED_MEASURE, FIELDS };
    double *epoch = numbers(n), *field[FIELDS], floor_value = r->floor;
    for (int f = 0; f < FIELDS; f++) field[f] = numbers(n);
    for (int64_t e = 0; e < n; e++) {
        const circe_training_epoch *h = &r->history[e];
        epoch[e] = (double)(e + 1);
        field[LOSS][e] = h->loss, field[CHECKED][e] = h->validation_loss;
        field[MEASURE][e] = h->regularizer, field[CHECKED_MEASURE][e] = h->validation_regularizer;
    }
    const report_series loss[] = {
        {.label = "training", .n = n, .x = epoch, .y = field[LOSS], .style = REPORT_LINE, .colour = 0},
        {.label = "validation", .n = n, .x = epoch, .y = field[CHECKED], .style = REPORT_LINE, .colour = 1},
        {.label = "floor (estimate)",
         .n = 1,
         .y = &floor_value,
         .style = REPORT_HORIZONTAL,
         .colour = -1,
         .dashed = true}};
    const report_series measure[] = {
        {.label = "training", .n = n, .x = epoch, .y = field[MEASURE], .style = REPORT_LINE, .colour = 0},
        {.label = "validation", .n = n, .x = epoch, .y = field[CHECKED_MEASURE], .style = REPORT_LINE, .colour = 1}};
    const report_panel panels[] = {
        {.title = r->classes == NULL ? "loss: MSE of the standardised target" : "loss: cross-entropy",
         .x_label = "epoch",
         .y_label = "loss",
         .log_y = true,
         .series = loss,
         .n_series = isfinite(floor_value) ? 3 : 2},
        {.title = "regulariser",
         .x_label = "epoch",
         .y_label = train_regularizer_name(p->t->kind),
         .series = measure,
         .n_series = 2}};
    int64_t n_panels = p->t->kind == TRAIN_REG_NONE ? 1 : 2;
    report_figure figure = {.name = "history",
                            .caption =
                                "Loss and regulariser over the epochs: means over the batches of an epoch, and "
                                "on the validation rows at its end.",
                            .panels = panels,
                            .n_panels = n_panels,
                            .columns = n_panels};
    show_figure(p, &figure);
    for (int f = 0; f < FIELDS; f++) free(field[f]);
    free(epoch);
}

void training_show_predictions(training_page *p) {
    const trained *t = p->t;
    int64_t n = rows_shown(t);
    int64_t n_panels = t->result.outputs < MOST_PANELS ? t->result.outputs : MOST_PANELS;
    report_panel panels[MOST_PANELS];
    report_series series[MOST_PANELS][2];
    double *x[MOST_PANELS], *y[MOST_PANELS], ends[MOST_PANELS][2];
    for (int64_t c = 0; c < n_panels; c++) {
        x[c] = numbers(n), y[c] = numbers(n);
        ends[c][0] = INFINITY, ends[c][1] = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            x[c][i] = training_target_in_units(t, i, c);
            y[c][i] = training_prediction_in_units(t, i, c);
            ends[c][0] = fmin(ends[c][0], fmin(x[c][i], y[c][i]));
            ends[c][1] = fmax(ends[c][1], fmax(x[c][i], y[c][i]));
        }
        series[c][0] =
            (report_series){.label = "a validation row", .n = n, .x = x[c], .y = y[c], .style = REPORT_POINTS};
        series[c][1] = (report_series){
            .label = "prediction = target", .n = 2, .x = ends[c], .y = ends[c], .style = REPORT_LINE, .colour = -1};
        panels[c] = (report_panel){.title = t->result.errors[c].name,
                                   .x_label = "target",
                                   .y_label = "prediction",
                                   .series = series[c],
                                   .n_series = 2};
    }
    report_figure figure = {.name = "predictions",
                            .caption = "Predictions against the target, in its units, on validation rows.",
                            .panels = panels,
                            .n_panels = n_panels,
                            .columns = n_panels};
    show_figure(p, &figure);
    for (int64_t c = 0; c < n_panels; c++) {
        free(x[c]);
        free(y[c]);
    }
}

/* One number a row that stands for the prediction: the first target in units of its deviation, or the probability of
 * the last class. */
static double shown_prediction(const trained *t, const float *row) {
    double sum = 0.0;
    if (t->set.loss == TRAIN_MSE) return (double)row[0];
    for (int64_t c = 0; c < t->result.outputs; c++) sum += exp((double)row[c] - (double)row[t->result.outputs - 1]);
    return 1.0 / sum;
}

static double shown_target(const trained *t, int64_t row) {
    double value = (double)((const float *)t->set.validation.data.target.data)[row * t->set.target.n];
    return t->set.loss == TRAIN_MSE ? value : (double)((int64_t)value == t->result.outputs - 1);
}

/* residual (n, 2): what is compared and the prediction, each less its mean given --given, by kernel regression. */
static circe_status residuals(const training_page *p, int64_t n, double *residual) {
    const trained *t = p->t;
    int64_t outputs = t->result.outputs;
    double *mean = numbers(2 * n);
    for (int64_t i = 0; i < n; i++) {
        residual[2 * i] = t->set.given_is_target ? shown_prediction(t, t->before + i * outputs) : shown_target(t, i);
        residual[2 * i + 1] = shown_prediction(t, t->after + i * outputs);
    }
    circe_mat y = t->set.validation.data.y, x = circe_mat_f64(residual, n, 2), out = circe_mat_f64(mean, n, 2);
    y.rows = n;
    circe_status status = training_conditional_mean(p->context, &t->set, &y, &x, &y, &out);
    for (int64_t i = 0; i < 2 * n; i++) residual[i] -= mean[i];
    free(mean);
    return status;
}

/* A column of --invariant-to in the table's units; categories, which would lie on top of each other, are spread. */
static void shown_column(const trained *t, int64_t col, int64_t n, double *out) {
    const training_set *set = &t->set;
    bool text = column_categories(&set->table, col) != NULL;
    if (text) circe_random_uniform((circe_random){.seed = 1, .stream = (uint64_t)col}, 0, n, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = column_value(&set->table, set->validation.rows[i], col) + (text ? 0.6 * (out[i] - 0.5) : 0.0);
}

static char *column_label(const trained *t, int64_t col) {
    char *const *texts = column_categories(&t->set.table, col);
    const char *name = column_name(&t->set.table, col);
    if (texts == NULL) return small_format("%s", name);
    char *label = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&label, &bytes);
    if (out == NULL) return small_format("%s", name);
    fprintf(out, "%s (", name);
    for (int i = 0; i < 6 && texts[i] != NULL; i++) fprintf(out, "%s%d: %s", i > 0 ? ", " : "", i, texts[i]);
    fputc(')', out);
    fclose(out);
    return label;
}

static void draw_residuals(training_page *p, int64_t n, const double *residual) {
    const trained *t = p->t;
    int64_t cols = t->set.invariant.n < MOST_PANELS ? t->set.invariant.n : MOST_PANELS;
    report_panel panels[MOST_PANELS];
    report_series series[MOST_PANELS][2];
    double *x[MOST_PANELS], *y[2] = {numbers(n), numbers(n)};
    char *label[MOST_PANELS];
    const char *names[2] = {t->set.given_is_target ? "before training" : "the target itself", "the trained prediction"};
    char *shown = t->set.loss == TRAIN_MSE
                      ? small_format("%s, standardised, less its mean", t->result.errors[0].name)
                      : small_format("P(%s), less its mean", t->set.classes.names[t->result.outputs - 1]);
    for (int64_t i = 0; i < 2 * n; i++) y[i % 2][i / 2] = residual[i];
    for (int64_t c = 0; c < cols; c++) {
        x[c] = numbers(n);
        shown_column(t, t->set.invariant.cols[c], n, x[c]);
        label[c] = column_label(t, t->set.invariant.cols[c]);
        for (int k = 0; k < 2; k++)
            series[c][k] = (report_series){
                .label = names[k], .n = n, .x = x[c], .y = y[k], .style = REPORT_POINTS, .colour = 1 - k};
        panels[c] = (report_panel){.title = column_name(&t->set.table, t->set.invariant.cols[c]),
                                   .x_label = label[c],
                                   .y_label = shown,
                                   .series = series[c],
                                   .n_series = 2};
    }
    char *caption = small_format(
        "What is left once %s is known (values less their mean given %s, by kernel regression) against what must not "
        "matter. An invariant prediction shows no pattern.",
        t->result.given, t->result.given);
    report_figure figure = {
        .name = "residuals", .caption = caption, .panels = panels, .n_panels = cols, .columns = cols};
    show_figure(p, &figure);
    for (int64_t c = 0; c < cols; c++) {
        free(x[c]);
        free(label[c]);
    }
    free(shown);
    free(y[0]);
    free(y[1]);
    free(caption);
}

void training_show_residuals(training_page *p) {
    int64_t n = rows_shown(p->t);
    if (!p->t->set.has_invariant) return;
    double *residual = numbers(2 * n);
    circe_status status = residuals(p, n, residual);
    if (status == CIRCE_OK)
        draw_residuals(p, n, residual);
    else
        report_note(p->page, "The figure of residuals could not be made: %s", circe_last_error());
    free(residual);
}
