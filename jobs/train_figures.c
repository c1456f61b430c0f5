/* The figures of a report: the course of training, predictions against the target, and the remaining dependence on
 * --invariant-to. They show at most MOST_SHOWN of the judged rows, which are in random order. */
#include <math.h>

#include "jobs/training.h"
#include "report/chart.h"

enum { MOST_SHOWN = 500, MOST_PANELS = 3, MOST_NAMES = 20 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Panels side by side; takes the chart. */
static void show(training_page *p, chart *c, const char *name, const char *caption) {
    bool drawn = false;
    c->columns = c->n_panels;
    if (p->status == CIRCE_OK)
        p->status = chart_draw(c, name, caption, p->folder, p->page, &drawn);
    else
        chart_free(c);
}

/* ---- how training went ------------------------------------------------------------------------------------------- */

/* A number of every epoch, at this offset of circe_training_epoch. */
static void add_epochs(chart *c, report_panel *panel, const char *label, int colour, const circe_training *r,
                       size_t offset, double unit) {
    report_series *s = chart_series(c, panel, REPORT_LINE, colour, label, r->epochs);
    for (int64_t e = 0; e < r->epochs; e++)
        chart_point(s, (double)(e + 1), *(const double *)((const char *)&r->history[e] + offset) / unit);
}

#define EPOCHS(c, panel, label, colour, r, field, unit) \
    add_epochs(c, panel, label, colour, r, offsetof(circe_training_epoch, field), unit)

/* A single point: what the table says of it. */
static void add_point(chart *c, report_panel *panel, const char *label, int colour, double x, double y) {
    chart_point(chart_series(c, panel, REPORT_POINTS, colour, label, 1), x, y);
}

void training_show_history(training_page *p) {
    const circe_training *r = &p->t->result;
    const training_set *set = &p->t->set;
    double unit = training_loss_unit(set, training_judged(set));
    int64_t last = r->best_epoch >= 0 && r->stopped_early ? r->best_epoch + 1 : r->epochs;
    chart *c = chart_new();
    report_panel *loss =
        chart_panel(c, r->classes == NULL ? "loss: MSE over the variance" : "loss: cross-entropy", "epoch", "loss");
    loss->log_y = true;
    EPOCHS(c, loss, "training", 0, r, loss, unit);
    EPOCHS(c, loss, "validation", 1, r, validation_loss, unit);
    add_point(c, loss, r->test_rows > 0 ? "test rows" : "validation rows", 2, (double)last, r->score.error.value);
    if (isfinite(r->floor)) chart_level(c, loss, "floor (estimate)", r->floor);
    if (r->regularised) {
        report_panel *measure = chart_panel(c, "regulariser", "epoch", circe_measure_name(p->t->kind));
        EPOCHS(c, measure, "training", 0, r, regularizer, 1);
        EPOCHS(c, measure, "validation", 1, r, validation_regularizer, 1);
    }
    show(p, c, "history",
         "Loss and regulariser over the epochs: means over the batches of an epoch, and on the validation rows "
         "at its end. The point is the error in the table above.");
}

/* What the regulariser could see. */
void training_show_features(training_page *p) {
    const circe_training *r = &p->t->result;
    int64_t n = r->epochs;
    if (!r->regularised || n == 0 || !isfinite(r->history[n - 1].spread)) return;
    chart *c = chart_new();
    EPOCHS(c, chart_panel(c, "spread of the features", "epoch", "spread"), "standard deviation", 0, r, spread, 1);
    if (isfinite(r->history[n - 1].mean_kernel)) {
        report_panel *kernel = chart_panel(c, "kernel of the features", "epoch", "kernel");
        EPOCHS(c, kernel, "mean over pairs of rows", 0, r, mean_kernel, 1);
        chart_level(c, kernel, "sees nothing below", 0.05);
        chart_level(c, kernel, "and above", 0.95);
    }
    show(p, c, "features",
         "What the regulariser sees: the standard deviation of the regularised features, and the mean of their "
         "kernel over pairs of rows. If the mean is near 0 or 1, the kernel hides dependence.");
}

/* ---- the trade-off ----------------------------------------------------------------------------------------------- */

/* A logarithmic axis has no 0, so it is drawn half a decade below the smallest gamma. */
static double place_of(const circe_training *r, int64_t i) {
    double gamma = r->trials[i].gamma;
    for (int64_t k = i + 1; i == 0 && gamma == 0.0 && k < r->n_trials; k++)
        if (isfinite(r->trials[k].score.error.value)) return r->trials[k].gamma / sqrt(10.0);
    return gamma;
}

/* KPC less what it is by chance, and the error, of every gamma but those that diverged. */
void training_show_sweep(training_page *p) {
    const circe_training *r = &p->t->result;
    if (r->n_trials < 2) return;
    chart *c = chart_new();
    report_panel *error = chart_panel(c, "error", "gamma", "error"),
                 *left = chart_panel(c, "dependence", "gamma", "KPC above chance"),
                 *trade = chart_panel(c, "one against the other", "KPC above chance", "error");
    const char *label = "left-out rows, 95 % interval";
    report_series *errors = chart_series(c, error, REPORT_LINE_POINTS, 0, label, r->n_trials),
                  *lefts = chart_series(c, left, REPORT_LINE_POINTS, 0, label, r->n_trials),
                  *trades = chart_series(c, trade, REPORT_LINE_POINTS, 0, "one gamma each", r->n_trials);
    error->log_x = left->log_x = true;
    for (int64_t i = 0; i < r->n_trials; i++) {
        const circe_training_score *s = &r->trials[i].score;
        double gamma = place_of(r, i), chance = s->kpc_chance, kpc = s->kpc.value - chance;
        if (!isfinite(s->error.value)) continue;
        chart_band(errors, gamma, s->error.value, s->error.lower, s->error.upper);
        chart_band(lefts, gamma, kpc, s->kpc.lower - chance, s->kpc.upper - chance);
        chart_point(trades, kpc, s->error.value);
        if (gamma != r->gamma) continue;
        add_point(c, error, "taken", 1, gamma, s->error.value);
        add_point(c, left, "taken", 1, gamma, kpc);
        add_point(c, trade, "taken", 1, kpc, s->error.value);
    }
    show(p, c, "sweep",
         "The benefit and the cost of gamma, on rows that were left out: the error, and KPC, the share of the "
         "prediction's residual, once --given is known, that the --invariant-to columns explain. The leftmost "
         "point is gamma 0.");
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

void training_show_predictions(training_page *p) {
    const trained *t = p->t;
    int64_t n = smaller(training_judged(&t->set)->n, MOST_SHOWN), n_panels = smaller(t->result.outputs, MOST_PANELS);
    chart *c = chart_new();
    for (int64_t k = 0; k < n_panels; k++) {
        report_panel *panel = chart_panel(c, t->result.errors[k].name, "target", "prediction");
        report_series *rows = chart_series(c, panel, REPORT_POINTS, 0, "one row", n),
                      *equal = chart_series(c, panel, REPORT_LINE, CHART_GREY, "prediction = target", 2);
        double least = INFINITY, most = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            double x = training_target_in_units(t, i, k), y = training_prediction_in_units(t, i, k);
            chart_point(rows, x, y);
            least = fmin(least, fmin(x, y)), most = fmax(most, fmax(x, y));
        }
        chart_point(equal, least, least);
        chart_point(equal, most, most);
    }
    show(p, c, "predictions", "Predictions against the target, in its units, on rows that were not trained on.");
}

/* ---- what is left of what must not matter ------------------------------------------------------------------------ */

/* One number per row for the prediction: the first target in units of its deviation, or the probability of the last
 * class. */
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

/* A column of --invariant-to in the table's units. Categories are spread, because their points would lie on top of each
 * other. */
static void shown_column(const trained *t, int64_t col, int64_t n, double *out) {
    const training_set *set = &t->set;
    bool text = column_categories(&set->table, col) != NULL;
    if (text) circe_random_uniform((circe_random){.seed = 1, .stream = (uint64_t)col}, 0, n, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = column_value(&set->table, training_judged(set)->rows[i], col) + (text ? 0.6 * (out[i] - 0.5) : 0.0);
}

static void draw_residuals(training_page *p, int64_t n, double y[2][MOST_SHOWN]) {
    const trained *t = p->t;
    double x[MOST_SHOWN];
    char shown[512], caption[1024];
    const char *names[2] = {t->baseline != NULL ? t->result.baseline : "the target itself", "the trained prediction"};
    chart *c = chart_new();
    if (t->set.loss == TRAIN_MSE)
        snprintf(shown, sizeof shown, "%s, standardised, minus its mean", t->result.errors[0].name);
    else
        snprintf(shown, sizeof shown, "P(%s) minus its mean", t->result.classes[t->result.outputs - 1]);
    for (int64_t k = 0; k < smaller(t->set.invariant.n, MOST_PANELS); k++) {
        int64_t col = t->set.invariant.cols[k];
        shown_column(t, col, n, x);
        const char *name = column_name(&t->set.table, col);
        report_panel *panel = chart_panel(c, name, name, shown);
        int64_t n_names = column_n_categories(&t->set.table, col);
        if (n_names <= MOST_NAMES) {
            panel->x_names = (const char *const *)column_categories(&t->set.table, col);
            panel->n_x_names = n_names;
        }
        for (int who = 0; who < 2; who++) {
            report_series *s = chart_series(c, panel, REPORT_POINTS, 1 - who, names[who], n);
            for (int64_t i = 0; i < n; i++) chart_point(s, x[i], y[who][i]);
        }
    }
    snprintf(caption, sizeof caption,
             "What remains once %s is known (values minus their mean given %s, by kernel regression), against the "
             "columns that must not matter. An invariant prediction shows no pattern.",
             t->result.given, t->result.given);
    show(p, c, "residuals", caption);
}

void training_show_residuals(training_page *p) {
    int64_t n = smaller(training_judged(&p->t->set)->n, MOST_SHOWN);
    double y[2][MOST_SHOWN];
    if (!p->t->set.has_invariant) return;
    if (residuals(p, n, y) == CIRCE_OK)
        draw_residuals(p, n, y);
    else
        report_note(p->page, "The figure of residuals could not be drawn: %s", circe_last_error());
}
