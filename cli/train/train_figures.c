/* The figures of a report: how training went, predictions against the target, and what is left of what must not matter.
 * At most MOST_SHOWN validation rows, which are in random order, are drawn. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "circe/status.h"
#include "cli/train/train_report.h"

enum { MOST_SHOWN = 500, MOST_PANELS = 3 };

static void show_figure(report_writer *w, const report_figure *figure) {
    bool drawn = false;
    if (w->status != EXIT_DONE) return;
    if (!report_draw(figure, w->folder, &drawn)) report_writer_fail(w, w->folder, circe_last_error());
    report_add_figure(w->page, figure, w->folder);
}

static double *numbers(int64_t n) { return small_alloc((size_t)(n > 0 ? n : 1) * sizeof(double)); }

void training_show_history(report_writer *w) {
    const train_result *r = &w->job->result;
    int64_t n = r->epochs_done;
    enum { LOSS, CHECKED, MEASURE, CHECKED_MEASURE, FIELDS };
    double *epoch = numbers(n), *field[FIELDS], floor_value = w->job->scores.floor;
    for (int f = 0; f < FIELDS; f++) field[f] = numbers(n);
    for (int64_t e = 0; e < n; e++) {
        const train_epoch *h = &r->history[e];
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
        {.title = w->job->set.loss == TRAIN_MSE ? "loss: MSE of the standardised target" : "loss: cross-entropy",
         .x_label = "epoch",
         .y_label = "loss",
         .log_y = true,
         .series = loss,
         .n_series = isfinite(floor_value) ? 3 : 2},
        {.title = "regulariser",
         .x_label = "epoch",
         .y_label = circe_measure_name(w->job->kind),
         .series = measure,
         .n_series = 2}};
    int64_t n_panels = w->job->kind == CIRCE_MEASURE_NONE ? 1 : 2;
    report_figure figure = {.name = "history",
                            .caption =
                                "Loss and regulariser over the epochs: means over the batches of an epoch, and "
                                "on the validation rows at its end.",
                            .panels = panels,
                            .n_panels = n_panels,
                            .columns = n_panels};
    show_figure(w, &figure);
    for (int f = 0; f < FIELDS; f++) free(field[f]);
    free(epoch);
}

void training_show_predictions(report_writer *w) {
    const training_job *job = w->job;
    int64_t n = job->set.validation.n < MOST_SHOWN ? job->set.validation.n : MOST_SHOWN;
    int64_t n_panels = job->outputs < MOST_PANELS ? job->outputs : MOST_PANELS;
    report_panel panels[MOST_PANELS];
    report_series series[MOST_PANELS][2];
    double *x[MOST_PANELS], *y[MOST_PANELS], ends[MOST_PANELS][2];
    for (int64_t c = 0; c < n_panels; c++) {
        x[c] = numbers(n), y[c] = numbers(n);
        ends[c][0] = INFINITY, ends[c][1] = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            x[c][i] = training_target_in_units(job, i, c);
            y[c][i] = training_prediction_in_units(job, i, c);
            ends[c][0] = fmin(ends[c][0], fmin(x[c][i], y[c][i]));
            ends[c][1] = fmax(ends[c][1], fmax(x[c][i], y[c][i]));
        }
        series[c][0] =
            (report_series){.label = "a validation row", .n = n, .x = x[c], .y = y[c], .style = REPORT_POINTS};
        series[c][1] = (report_series){
            .label = "prediction = target", .n = 2, .x = ends[c], .y = ends[c], .style = REPORT_LINE, .colour = -1};
        panels[c] = (report_panel){.title = training_column(&job->set, &job->set.target, c),
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
    show_figure(w, &figure);
    for (int64_t c = 0; c < n_panels; c++) {
        free(x[c]);
        free(y[c]);
    }
}

/* One number a row that stands for the prediction: the first target in units of its deviation, or the probability of
 * the last class. */
static double shown_prediction(const training_job *job, const float *row) {
    double sum = 0.0;
    if (job->set.loss == TRAIN_MSE) return (double)row[0];
    for (int64_t c = 0; c < job->outputs; c++) sum += exp((double)row[c] - (double)row[job->outputs - 1]);
    return 1.0 / sum;
}

static double shown_target(const training_job *job, int64_t row) {
    double value = (double)((const float *)job->set.validation.data.target.data)[row * job->set.target.n];
    return job->set.loss == TRAIN_MSE ? value : (double)((int64_t)value == job->outputs - 1);
}

/* residual (n, 2): what is compared and the prediction, each less its mean given --given, by kernel regression. */
static circe_status residuals(const training_job *job, int64_t n, double *residual) {
    double *mean = numbers(2 * n);
    for (int64_t i = 0; i < n; i++) {
        residual[2 * i] =
            job->set.given_is_target ? shown_prediction(job, job->before + i * job->outputs) : shown_target(job, i);
        residual[2 * i + 1] = shown_prediction(job, job->after + i * job->outputs);
    }
    circe_mat y = job->set.validation.data.y, x = circe_mat_f64(residual, n, 2), out = circe_mat_f64(mean, n, 2);
    y.rows = n;
    circe_status status = training_conditional_mean(job, &y, &x, &y, &out);
    for (int64_t i = 0; i < 2 * n; i++) residual[i] -= mean[i];
    free(mean);
    return status;
}

/* A column of --invariant-to in the table's units; categories, which would lie on top of each other, are spread. */
static void shown_column(const training_job *job, int64_t col, int64_t n, double *out) {
    const training_set *set = &job->set;
    bool text = column_categories(&set->table, col) != NULL;
    if (text) circe_random_uniform((circe_random){.seed = 1, .stream = (uint64_t)col}, 0, n, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = column_value(&set->table, set->validation.rows[i], col) + (text ? 0.6 * (out[i] - 0.5) : 0.0);
}

static char *column_label(const training_job *job, int64_t col) {
    char *const *texts = column_categories(&job->set.table, col);
    const char *name = column_name(&job->set.table, col);
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

static void draw_residuals(report_writer *w, int64_t n, const double *residual) {
    const training_job *job = w->job;
    int64_t cols = job->set.invariant.n < MOST_PANELS ? job->set.invariant.n : MOST_PANELS;
    report_panel panels[MOST_PANELS];
    report_series series[MOST_PANELS][2];
    double *x[MOST_PANELS], *y[2] = {numbers(n), numbers(n)};
    char *label[MOST_PANELS];
    const char *names[2] = {job->set.given_is_target ? "before training" : "the target itself",
                            "the trained prediction"};
    char *shown = job->set.loss == TRAIN_MSE
                      ? small_format("%s, standardised, less its mean", training_column(&job->set, &job->set.target, 0))
                      : small_format("P(%s), less its mean", job->set.classes.names[job->outputs - 1]);
    for (int64_t i = 0; i < 2 * n; i++) y[i % 2][i / 2] = residual[i];
    for (int64_t c = 0; c < cols; c++) {
        x[c] = numbers(n);
        shown_column(job, job->set.invariant.cols[c], n, x[c]);
        label[c] = column_label(job, job->set.invariant.cols[c]);
        for (int k = 0; k < 2; k++)
            series[c][k] = (report_series){
                .label = names[k], .n = n, .x = x[c], .y = y[k], .style = REPORT_POINTS, .colour = 1 - k};
        panels[c] = (report_panel){.title = column_name(&job->set.table, job->set.invariant.cols[c]),
                                   .x_label = label[c],
                                   .y_label = shown,
                                   .series = series[c],
                                   .n_series = 2};
    }
    char *given = training_role_text(&job->set, &job->set.given);
    char *caption = small_format(
        "What is left once %s is known (values less their mean given %s, by kernel regression) against what must not "
        "matter. An invariant prediction shows no pattern.",
        given, given);
    report_figure figure = {
        .name = "residuals", .caption = caption, .panels = panels, .n_panels = cols, .columns = cols};
    show_figure(w, &figure);
    for (int64_t c = 0; c < cols; c++) {
        free(x[c]);
        free(label[c]);
    }
    free(shown);
    free(y[0]);
    free(y[1]);
    free(given);
    free(caption);
}

void training_show_residuals(report_writer *w) {
    int64_t n = w->job->set.validation.n < MOST_SHOWN ? w->job->set.validation.n : MOST_SHOWN;
    if (!w->job->set.has_invariant) return;
    double *residual = numbers(2 * n);
    circe_status status = residuals(w->job, n, residual);
    if (status == CIRCE_OK)
        draw_residuals(w, n, residual);
    else
        report_note(w->page, "The figure of residuals could not be made: %s", circe_last_error());
    free(residual);
}
