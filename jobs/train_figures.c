/* The figures of a report: how training went, predictions against the target, and what is left of what must not matter.
 * At most MOST_SHOWN judged rows, which are in random order, are drawn. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/small.h"
#include "jobs/training.h"

enum { MOST_SHOWN = 500, MOST_PANELS = 3, MOST_TEXTS = 6 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Panels side by side. */
static void show_figure(training_page *p, const char *name, const char *caption, const report_panel *panels,
                        int64_t n_panels) {
    bool drawn = false;
    const report_figure figure = {
        .name = name, .caption = caption, .panels = panels, .n_panels = n_panels, .columns = n_panels};
    if (p->status != CIRCE_OK) return;
    if (!report_draw(&figure, p->folder, &drawn)) p->status = CIRCE_ERR_WRITE;
    report_add_figure(p->page, &figure, p->folder);
}

/* ---- how training went ------------------------------------------------------------------------------------------- */

static report_series curve(const char *label, int64_t n, const double *x, const double *y, int colour) {
    return (report_series){.label = label, .n = n, .x = x, .y = y, .style = REPORT_LINE, .colour = colour};
}

/* A point at the epoch that was kept: what the table says of it. */
static report_series kept(const char *label, const double *epoch, const double *value, int colour) {
    return (report_series){.label = label, .n = 1, .x = epoch, .y = value, .style = REPORT_POINTS, .colour = colour};
}

void training_show_history(training_page *p) {
    const circe_training *r = &p->t->result;
    enum { EPOCH, LOSS, CHECKED, MEASURE, CHECKED_MEASURE, FIELDS };
    int64_t n = r->epochs;
    const training_set *set = &p->t->set;
    double *field[FIELDS], floor_value = r->floor, unit = training_loss_unit(set, training_judged(set));
    double last = (double)(r->best_epoch >= 0 && r->stopped_early ? r->best_epoch + 1 : n),
           judged = r->score.error.value;
    for (int f = 0; f < FIELDS; f++) field[f] = small_alloc((size_t)n * sizeof(double));
    for (int64_t e = 0; e < n; e++) {
        const circe_training_epoch *h = &r->history[e];
        field[EPOCH][e] = (double)(e + 1);
        field[LOSS][e] = h->loss / unit, field[CHECKED][e] = h->validation_loss / unit;
        field[MEASURE][e] = h->regularizer, field[CHECKED_MEASURE][e] = h->validation_regularizer;
    }
    const report_series loss[] = {curve("training", n, field[EPOCH], field[LOSS], 0),
                                  curve("validation", n, field[EPOCH], field[CHECKED], 1),
                                  kept(r->test_rows > 0 ? "test rows" : "validation rows", &last, &judged, 2),
                                  {.label = "floor (estimate)",
                                   .n = 1,
                                   .y = &floor_value,
                                   .style = REPORT_HORIZONTAL,
                                   .colour = -1,
                                   .dashed = true}};
    const report_series measure[] = {curve("training", n, field[EPOCH], field[MEASURE], 0),
                                     curve("validation", n, field[EPOCH], field[CHECKED_MEASURE], 1)};
    const report_panel panels[] = {{.title = r->classes == NULL ? "loss: MSE over the variance" : "loss: cross-entropy",
                                    .x_label = "epoch",
                                    .y_label = "loss",
                                    .log_y = true,
                                    .series = loss,
                                    .n_series = isfinite(floor_value) ? 4 : 3},
                                   {.title = "regulariser",
                                    .x_label = "epoch",
                                    .y_label = circe_measure_name(p->t->kind),
                                    .series = measure,
                                    .n_series = 2}};
    show_figure(p, "history",
                "Loss and regulariser over the epochs: means over the batches of an epoch, and on the validation rows "
                "at its end. The point is the error in the table above.",
                panels, r->regularised ? 2 : 1);
    for (int f = 0; f < FIELDS; f++) free(field[f]);
}

/* What the regulariser could see. */
void training_show_features(training_page *p) {
    const circe_training *r = &p->t->result;
    enum { EPOCH, KERNEL, SPREAD, FIELDS };
    static const double limits[] = {0.05, 0.95};
    int64_t n = r->epochs;
    double *field[FIELDS];
    if (!r->regularised || n == 0 || !isfinite(r->history[n - 1].spread)) return;
    for (int f = 0; f < FIELDS; f++) field[f] = small_alloc((size_t)n * sizeof(double));
    for (int64_t e = 0; e < n; e++) {
        field[EPOCH][e] = (double)(e + 1);
        field[KERNEL][e] = r->history[e].mean_kernel, field[SPREAD][e] = r->history[e].spread;
    }
    report_series kernel[] = {curve("mean over pairs of rows", n, field[EPOCH], field[KERNEL], 0), {0}, {0}};
    for (int k = 0; k < 2; k++)
        kernel[1 + k] = (report_series){.label = k == 0 ? "sees nothing below" : "and above",
                                        .n = 1,
                                        .y = &limits[k],
                                        .style = REPORT_HORIZONTAL,
                                        .colour = -1,
                                        .dashed = true};
    const report_series spread[] = {curve("standard deviation", n, field[EPOCH], field[SPREAD], 0)};
    const report_panel panels[] = {
        {.title = "spread of the features", .x_label = "epoch", .y_label = "spread", .series = spread, .n_series = 1},
        {.title = "kernel of the features", .x_label = "epoch", .y_label = "kernel", .series = kernel, .n_series = 3}};
    show_figure(p, "features",
                "What the regulariser sees: the standard deviation of the regularised features, and the mean of their "
                "kernel over pairs of rows. If the mean is near 0 or 1, the kernel hides dependence.",
                panels, isfinite(r->history[n - 1].mean_kernel) ? 2 : 1);
    for (int f = 0; f < FIELDS; f++) free(field[f]);
}

/* ---- the trade-off ----------------------------------------------------------------------------------------------- */

/* KPC less what it is by chance, with the error, of every gamma but those that diverged. */
static int64_t take_trials(const circe_training *r, double *const *field) {
    int64_t n = 0;
    for (int64_t i = 0; i < r->n_trials; i++) {
        const circe_training_score *s = &r->trials[i].score;
        const double values[] = {s->kpc.value - s->kpc_chance,
                                 s->error.value,
                                 s->error.lower,
                                 s->error.upper,
                                 r->trials[i].gamma,
                                 s->kpc.lower - s->kpc_chance,
                                 s->kpc.upper - s->kpc_chance};
        if (!isfinite(s->error.value)) continue;
        for (size_t f = 0; f < sizeof values / sizeof values[0]; f++) field[f][n] = values[f];
        n++;
    }
    return n;
}

/* 0 has no place on an axis of logarithms: half a decade below the smallest gamma. */
static void place_zero(double *gamma, int64_t n) {
    if (n > 1 && gamma[0] == 0.0) gamma[0] = gamma[1] / sqrt(10.0);
}

void training_show_sweep(training_page *p) {
    const circe_training *r = &p->t->result;
    enum { KPC, ERROR, LOWER, UPPER, GAMMA, KPC_LOWER, KPC_UPPER, FIELDS };
    double *field[FIELDS], chosen[3] = {NAN, NAN, NAN};
    if (r->n_trials < 2) return;
    for (int f = 0; f < FIELDS; f++) field[f] = small_alloc((size_t)r->n_trials * sizeof(double));
    int64_t n = take_trials(r, field);
    place_zero(field[GAMMA], n);
    for (int64_t i = 0; i < n; i++)
        if (field[GAMMA][i] == r->gamma) chosen[0] = r->gamma, chosen[1] = field[ERROR][i], chosen[2] = field[KPC][i];
    const report_series error[] = {{.label = "left-out rows, 95 % interval",
                                    .n = n,
                                    .x = field[GAMMA],
                                    .y = field[ERROR],
                                    .low = field[LOWER],
                                    .high = field[UPPER],
                                    .style = REPORT_LINE_POINTS},
                                   kept("taken", chosen, chosen + 1, 1)};
    const report_series left[] = {{.label = "left-out rows, 95 % interval",
                                   .n = n,
                                   .x = field[GAMMA],
                                   .y = field[KPC],
                                   .low = field[KPC_LOWER],
                                   .high = field[KPC_UPPER],
                                   .style = REPORT_LINE_POINTS},
                                  kept("taken", chosen, chosen + 2, 1)};
    const report_series trade[] = {
        {.label = "one gamma each", .n = n, .x = field[KPC], .y = field[ERROR], .style = REPORT_LINE_POINTS},
        kept("taken", chosen + 2, chosen + 1, 1)};
    int64_t marked = isfinite(chosen[0]) ? 2 : 1;
    const report_panel panels[] = {
        {.title = "error", .x_label = "gamma", .y_label = "error", .log_x = true, .series = error, .n_series = marked},
        {.title = "dependence",
         .x_label = "gamma",
         .y_label = "KPC above chance",
         .log_x = true,
         .series = left,
         .n_series = marked},
        {.title = "one against the other",
         .x_label = "KPC above chance",
         .y_label = "error",
         .series = trade,
         .n_series = marked}};
    show_figure(p, "sweep",
                "The benefit and the cost of gamma, on rows that were left out: the error, and KPC, the share of the "
                "prediction's residual, once --given is known, that the --invariant-to columns explain. The leftmost "
                "point is gamma 0.",
                panels, 3);
    for (int f = 0; f < FIELDS; f++) free(field[f]);
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

void training_show_predictions(training_page *p) {
    const trained *t = p->t;
    int64_t n = smaller(training_judged(&t->set)->n, MOST_SHOWN), n_panels = smaller(t->result.outputs, MOST_PANELS);
    report_panel panels[MOST_PANELS];
    report_series series[MOST_PANELS][2];
    double x[MOST_PANELS][MOST_SHOWN], y[MOST_PANELS][MOST_SHOWN], ends[MOST_PANELS][2];
    for (int64_t c = 0; c < n_panels; c++) {
        ends[c][0] = INFINITY, ends[c][1] = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            x[c][i] = training_target_in_units(t, i, c);
            y[c][i] = training_prediction_in_units(t, i, c);
            ends[c][0] = fmin(ends[c][0], fmin(x[c][i], y[c][i]));
            ends[c][1] = fmax(ends[c][1], fmax(x[c][i], y[c][i]));
        }
        series[c][0] = (report_series){.label = "one row", .n = n, .x = x[c], .y = y[c], .style = REPORT_POINTS};
        series[c][1] = curve("prediction = target", 2, ends[c], ends[c], -1);
        panels[c] = (report_panel){.title = t->result.errors[c].name,
                                   .x_label = "target",
                                   .y_label = "prediction",
                                   .series = series[c],
                                   .n_series = 2};
    }
    show_figure(p, "predictions", "Predictions against the target, in its units, on rows that were not trained on.",
                panels, n_panels);
}

/* ---- what is left of what must not matter ------------------------------------------------------------------------ */

/* One number a row that stands for the prediction: the first target in units of its deviation, or the probability of
 * the last class. */
static double shown_prediction(const trained *t, const float *row) {
    double sum = 0.0;
    if (t->set.loss == TRAIN_MSE) return (double)row[0];
    for (int64_t c = 0; c < t->result.outputs; c++) sum += exp((double)row[c] - (double)row[t->result.outputs - 1]);
    return 1.0 / sum;
}

static double shown_target(const trained *t, int64_t row) {
    double value = (double)((const float *)training_judged(&t->set)->data.target.data)[row * t->set.target.n];
    return t->set.loss == TRAIN_MSE ? value : (double)((int64_t)value == t->result.outputs - 1);
}

/* y[0], y[1] (n): what is compared and the prediction, each less its mean given --given, by kernel regression. */
static circe_status residuals(const training_page *p, int64_t n, double y[2][MOST_SHOWN]) {
    const trained *t = p->t;
    int64_t outputs = t->result.outputs;
    double values[2 * MOST_SHOWN] = {0}, means[2 * MOST_SHOWN] = {0};
    for (int64_t i = 0; i < n; i++) {
        values[2 * i] = t->baseline != NULL ? shown_prediction(t, t->baseline + i * outputs) : shown_target(t, i);
        values[2 * i + 1] = shown_prediction(t, t->after + i * outputs);
    }
    circe_mat given = training_judged(&t->set)->data.y, x = circe_mat_f64(values, n, 2),
              mean = circe_mat_f64(means, n, 2);
    given.rows = n;
    circe_status status = training_conditional_mean(p->context, &t->set, &given, &x, &given, &mean);
    for (int64_t i = 0; i < 2 * n; i++) y[i % 2][i / 2] = values[i] - means[i];
    return status;
}

/* A column of --invariant-to in the table's units; categories, which would lie on top of each other, are spread. */
static void shown_column(const trained *t, int64_t col, int64_t n, double *out) {
    const training_set *set = &t->set;
    bool text = column_categories(&set->table, col) != NULL;
    if (text) circe_random_uniform((circe_random){.seed = 1, .stream = (uint64_t)col}, 0, n, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = column_value(&set->table, training_judged(set)->rows[i], col) + (text ? 0.6 * (out[i] - 0.5) : 0.0);
}

/* "sex (0: female, 1: male)" */
static void label_column(const trained *t, int64_t col, char *out, size_t size) {
    char *const *texts = column_categories(&t->set.table, col);
    size_t used = (size_t)snprintf(out, size, "%s", column_name(&t->set.table, col));
    for (int i = 0; texts != NULL && i < MOST_TEXTS && texts[i] != NULL && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%d: %s", i > 0 ? ", " : " (", i, texts[i]);
    if (texts != NULL && used < size) snprintf(out + used, size - used, ")");
}

static void draw_residuals(training_page *p, int64_t n, double y[2][MOST_SHOWN]) {
    const trained *t = p->t;
    int64_t cols = smaller(t->set.invariant.n, MOST_PANELS);
    report_panel panels[MOST_PANELS];
    report_series series[MOST_PANELS][2];
    double x[MOST_PANELS][MOST_SHOWN];
    char label[MOST_PANELS][512], shown[512], caption[1024];
    const char *names[2] = {t->baseline != NULL ? "without the regulariser" : "the target itself",
                            "the trained prediction"};
    if (t->set.loss == TRAIN_MSE)
        snprintf(shown, sizeof shown, "%s, standardised, minus its mean", t->result.errors[0].name);
    else
        snprintf(shown, sizeof shown, "P(%s) minus its mean", t->result.classes[t->result.outputs - 1]);
    for (int64_t c = 0; c < cols; c++) {
        int64_t col = t->set.invariant.cols[c];
        shown_column(t, col, n, x[c]);
        label_column(t, col, label[c], sizeof label[c]);
        for (int k = 0; k < 2; k++)
            series[c][k] = (report_series){
                .label = names[k], .n = n, .x = x[c], .y = y[k], .style = REPORT_POINTS, .colour = 1 - k};
        panels[c] = (report_panel){.title = column_name(&t->set.table, col),
                                   .x_label = label[c],
                                   .y_label = shown,
                                   .series = series[c],
                                   .n_series = 2};
    }
    snprintf(caption, sizeof caption,
             "What is left once %s is known (values less their mean given %s, by kernel regression) against what must "
             "not matter. An invariant prediction shows no pattern.",
             t->result.given, t->result.given);
    show_figure(p, "residuals", caption, panels, cols);
}

void training_show_residuals(training_page *p) {
    int64_t n = smaller(training_judged(&p->t->set)->n, MOST_SHOWN);
    double y[2][MOST_SHOWN];
    if (!p->t->set.has_invariant) return;
    if (residuals(p, n, y) == CIRCE_OK)
        draw_residuals(p, n, y);
    else
        report_note(p->page, "The figure of residuals could not be made: %s", circe_last_error());
}
