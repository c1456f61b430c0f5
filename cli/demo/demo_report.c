/* The report of the demonstration.
 *
 * Its figure answers one question: at a given y, does the prediction still move with z? All test points are grey; those
 * whose y lies in one of a few narrow windows are coloured, each window with its least-squares line. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/small.h"
#include "cli/demo/demo.h"
#include "jobs/machine.h"
#include "report/cells.h"

enum { WINDOWS = 3, MOST_IN_WINDOW = 80, SERIES = 2 * WINDOWS + 1 };

static const double window_centre[WINDOWS] = {0, 0.9, 1.5};
static const char *const window_name[WINDOWS] = {"y near 0", "y near 0.9", "y near 1.5"};
static const double window_half_width = 0.1;
static const double largest_y = 2; /* of what is shown: a few points further out would leave the others no room */

/* One panel's curves, with the memory they point to. */
typedef struct cloud {
    double *x, *y; /* (test points): all */
    double *window_x[WINDOWS], *window_y[WINDOWS];
    double line_x[WINDOWS][2], line_y[WINDOWS][2];
    report_series series[SERIES];
} cloud;

/* The ends of the least-squares line through n points; false: too few of them. */
static bool fit_line(const double *x, const double *y, int64_t n, double *line_x, double *line_y) {
    double sx = 0, sy = 0, sxx = 0, sxy = 0, low = INFINITY, high = -INFINITY, m = (double)n;
    for (int64_t i = 0; i < n; i++) {
        sx += x[i], sy += y[i], sxx += x[i] * x[i], sxy += x[i] * y[i];
        low = fmin(low, x[i]), high = fmax(high, x[i]);
    }
    double spread = m * sxx - sx * sx;
    if (n < 3 || !(spread > 0)) return false;
    double slope = (m * sxy - sx * sy) / spread, offset = (sy - slope * sx) / m;
    line_x[0] = low, line_x[1] = high;
    line_y[0] = offset + slope * low, line_y[1] = offset + slope * high;
    return true;
}

static void fill_window(const demo *d, const demo_line *line, int w, cloud *c) {
    int64_t n = 0;
    c->window_x[w] = small_alloc((size_t)d->test.n * sizeof(double));
    c->window_y[w] = small_alloc((size_t)d->test.n * sizeof(double));
    for (int64_t i = 0; i < d->test.n; i++) {
        if (n == MOST_IN_WINDOW || fabs(demo_at(&d->test.y, i) - window_centre[w]) > window_half_width) continue;
        c->window_x[w][n] = demo_at(&d->test.z, i);
        c->window_y[w][n++] = line->prediction[i];
    }
    bool fitted = fit_line(c->window_x[w], c->window_y[w], n, c->line_x[w], c->line_y[w]);
    c->series[1 + w] = (report_series){
        .label = window_name[w], .n = n, .x = c->window_x[w], .y = c->window_y[w], .style = REPORT_POINTS, .colour = w};
    c->series[1 + WINDOWS + w] =
        (report_series){.n = fitted ? 2 : 0, .x = c->line_x[w], .y = c->line_y[w], .style = REPORT_LINE, .colour = w};
}

static report_panel fill_cloud(const demo *d, const demo_line *line, cloud *c) {
    int64_t n = 0;
    c->x = small_alloc((size_t)d->test.n * sizeof *c->x);
    c->y = small_alloc((size_t)d->test.n * sizeof *c->y);
    for (int64_t i = 0; i < d->test.n; i++) {
        if (fabs(demo_at(&d->test.y, i)) > largest_y) continue;
        c->x[n] = demo_at(&d->test.z, i);
        c->y[n++] = line->prediction[i];
    }
    c->series[0] =
        (report_series){.label = "|y| up to 2", .n = n / 3, .x = c->x, .y = c->y, .style = REPORT_POINTS, .colour = -1};
    for (int w = 0; w < WINDOWS; w++) fill_window(d, line, w, c);
    return (report_panel){
        .title = line->title, .x_label = "z", .y_label = "prediction of b", .series = c->series, .n_series = SERIES};
}

static circe_status show_figure(report *page, const report_figure *figure, const char *folder) {
    bool drawn = false;
    circe_status status = report_draw(figure, folder, &drawn) ? CIRCE_OK : CIRCE_ERR_WRITE;
    report_add_figure(page, figure, folder);
    return status;
}

static circe_status show_clouds(const demo *d, report *page) {
    cloud clouds[DEMO_LINES] = {0};
    report_panel panels[DEMO_LINES];
    for (int k = 0; k < DEMO_LINES; k++) panels[k] = fill_cloud(d, &d->lines[k], &clouds[k]);
    report_figure figure = {.name = "predictions",
                            .caption =
                                "At a given y (one colour), does the prediction still move with z? The dots are test "
                                "points; each line is a least-squares fit to one colour.",
                            .panels = panels,
                            .n_panels = DEMO_LINES,
                            .columns = DEMO_LINES};
    circe_status status = show_figure(page, &figure, d->folder);
    for (int k = 0; k < DEMO_LINES; k++) {
        free(clouds[k].x);
        free(clouds[k].y);
        for (int w = 0; w < WINDOWS; w++) {
            free(clouds[k].window_x[w]);
            free(clouds[k].window_y[w]);
        }
    }
    return status;
}

static circe_status show_history(const demo *d, report *page) {
    int64_t n = d->lines[DEMO_FREE].training->epochs;
    double *epoch = small_alloc((size_t)n * sizeof *epoch), *loss[DEMO_LINES], floor_value = d->floor;
    report_series series[DEMO_LINES + 1];
    for (int64_t e = 0; e < n; e++) epoch[e] = (double)(e + 1);
    for (int k = 0; k < DEMO_LINES; k++) {
        loss[k] = small_alloc((size_t)n * sizeof *loss[k]);
        for (int64_t e = 0; e < n; e++) loss[k][e] = d->lines[k].training->history[e].validation_loss;
        series[k] = (report_series){
            .label = d->lines[k].title, .n = n, .x = epoch, .y = loss[k], .style = REPORT_LINE, .colour = 1 - k};
    }
    series[DEMO_LINES] = (report_series){
        .label = "floor", .n = 1, .y = &floor_value, .style = REPORT_HORIZONTAL, .colour = -1, .dashed = true};
    report_panel panel = {.title = "MSE on the validation rows",
                          .x_label = "epoch",
                          .y_label = "MSE / Var(b)",
                          .log_y = true,
                          .series = series,
                          .n_series = DEMO_LINES + 1};
    report_figure figure = {.name = "history",
                            .caption = "Error over the epochs. The floor belongs to the test points.",
                            .panels = &panel,
                            .n_panels = 1,
                            .columns = 1};
    circe_status status = show_figure(page, &figure, d->folder);
    for (int k = 0; k < DEMO_LINES; k++) free(loss[k]);
    free(epoch);
    return status;
}

static void show_table(const demo *d, report *page) {
    static const char *const columns[] = {"", "MSE", "vcf", "vcf_support", "CIRCE"};
    cells list = {0};
    for (int k = 0; k < DEMO_LINES; k++) {
        const demo_line *line = &d->lines[k];
        const double values[] = {line->mse, line->vcf, line->vcf_support, demo_circe(line)};
        cells_add(&list, "%s", line->title);
        for (int v = 0; v < 4; v++) cells_add(&list, "%.3g", values[v]);
    }
    cells_add(&list, "%s", "floor of an invariant predictor");
    cells_add(&list, "%.3g", d->floor);
    for (int v = 0; v < 3; v++) cells_add(&list, "0");
    report_table table =
        cells_table(&list, "On the 2000 test points, in units of Var(b); CIRCE on 1000 validation rows.", columns, 5);
    table.marked = DEMO_INVARIANT;
    report_add_table(page, &table);
    cells_free(&list);
}

static void show_facts(const demo *d, report *page) {
    char text[192];
    for (int k = 0; k < DEMO_LINES; k++)
        report_details(page, k == DEMO_FREE ? "The command that trained it without CIRCE" : "The command with CIRCE",
                       d->lines[k].command);
    report_fact(page, "data", "univariate case 1 of the paper: %" PRId64 " rows in train.csv, %" PRId64 " in test.csv",
                d->training.n, d->test.n);
    report_fact(page, "seed", "%" PRId64, d->seed);
    report_fact(page, "time", "%.1f s in total", d->seconds);
    report_fact(page, "circe", "%s", machine_text(d->s.context, text, sizeof text));
}

circe_status demo_report_write(const demo *d) {
    char *path = small_format("%s/report.html", d->folder);
    report *page = report_begin("Predict b without relying on z", "an invariant predictor, and its cost");
    report_text(page,
                "y is drawn from N(0, 1), z = y² + noise, a = 2y + z · noise, b = 5z + a wiggle of a and y + noise. A "
                "network predicts b from a, y and z: once as exactly as it can, and once so that the prediction does "
                "not depend on z when y is known: loss + 1000 · CIRCE(prediction, z given y).");
    report_heading(page, "Result");
    show_table(d, page);
    report_text(
        page,
        "`vcf` is the variance of the prediction when z is set to the z of another point and a follows, with "
        "everything else fixed. `vcf_support` uses only values of z that are plausible for y. Without CIRCE the "
        "prediction is nearly exact because it uses z. With CIRCE its error is that of predicting from y. This is the "
        "cost: no invariant predictor can have an error below the floor, E[Var(b | y)] / Var(b). (An error slightly "
        "below the floor arises because the test points are a sample and a little of z remains.)");
    circe_status status = show_clouds(d, page);
    report_heading(page, "Training");
    if (status == CIRCE_OK) status = show_history(d, page);
    report_heading(page, "Settings");
    show_facts(d, page);
    if (!report_end(page, path) && status == CIRCE_OK) status = CIRCE_ERR_WRITE;
    free(path);
    return status;
}
