/* The report of the demonstration.
 *
 * Its figure answers one question: at a given y, does the prediction still move with z? All test points are grey; those
 * whose y lies in one of a few narrow windows are coloured, each window with its least-squares line. */
#include <inttypes.h>
#include <math.h>

#include "base/small.h"
#include "cli/demo/demo.h"
#include "jobs/machine.h"
#include "report/cells.h"
#include "report/chart.h"

enum { WINDOWS = 3, MOST_IN_WINDOW = 80 };

static const double window_centre[WINDOWS] = {0, 0.9, 1.5};
static const char *const window_name[WINDOWS] = {"y near 0", "y near 0.9", "y near 1.5"};
static const double window_half_width = 0.1;
static const double largest_y = 2; /* of what is shown: a few points further out would leave the others no room */

/* The least-squares line through the points of a series. */
static void add_line(chart *c, report_panel *panel, const report_series *s) {
    double sx = 0, sy = 0, sxx = 0, sxy = 0, low = INFINITY, high = -INFINITY, m = (double)s->n;
    report_series *line = chart_series(c, panel, REPORT_LINE, s->colour, NULL, 2);
    for (int64_t i = 0; i < s->n; i++) {
        sx += s->x[i], sy += s->y[i], sxx += s->x[i] * s->x[i], sxy += s->x[i] * s->y[i];
        low = fmin(low, s->x[i]), high = fmax(high, s->x[i]);
    }
    double spread = m * sxx - sx * sx;
    if (s->n < 3 || !(spread > 0)) return;
    double slope = (m * sxy - sx * sy) / spread, offset = (sy - slope * sx) / m;
    chart_point(line, low, offset + slope * low);
    chart_point(line, high, offset + slope * high);
}

static void add_cloud(const demo *d, const demo_line *line, chart *c) {
    report_panel *panel = chart_panel(c, line->title, "z", "prediction of b");
    int64_t n = d->test.n;
    report_series *all = chart_series(c, panel, REPORT_POINTS, CHART_GREY, "|y| up to 2", n), *windows[WINDOWS];
    for (int w = 0; w < WINDOWS; w++) windows[w] = chart_series(c, panel, REPORT_POINTS, w, window_name[w], n);
    for (int64_t i = 0; i < n; i++) {
        double y = demo_at(&d->test.y, i), z = demo_at(&d->test.z, i);
        if (fabs(y) <= largest_y) chart_point(all, z, line->prediction[i]);
        for (int w = 0; w < WINDOWS; w++)
            if (windows[w]->n < MOST_IN_WINDOW && fabs(y - window_centre[w]) <= window_half_width)
                chart_point(windows[w], z, line->prediction[i]);
    }
    all->n /= 3;
    for (int w = 0; w < WINDOWS; w++) add_line(c, panel, windows[w]);
}

static circe_status show_clouds(const demo *d, report *page) {
    chart *c = chart_new();
    bool drawn;
    for (int k = 0; k < DEMO_LINES; k++) add_cloud(d, &d->lines[k], c);
    return chart_draw(c, "predictions",
                      "At a given y (one colour), does the prediction still move with z? The dots are test points; "
                      "each line is a least-squares fit to one colour.",
                      d->folder, page, &drawn);
}

static circe_status show_history(const demo *d, report *page) {
    int64_t n = d->lines[DEMO_FREE].training->epochs;
    chart *c = chart_new();
    bool drawn;
    report_panel *panel = chart_panel(c, "MSE on the validation rows", "epoch", "MSE / Var(b)");
    panel->log_y = true;
    for (int k = 0; k < DEMO_LINES; k++) {
        report_series *s = chart_series(c, panel, REPORT_LINE, 1 - k, d->lines[k].title, n);
        for (int64_t e = 0; e < n; e++)
            chart_point(s, (double)(e + 1), d->lines[k].training->history[e].validation_loss);
    }
    chart_level(c, panel, "floor", d->floor);
    return chart_draw(c, "history", "Error over the epochs. The floor belongs to the test points.", d->folder, page,
                      &drawn);
}

static void show_table(const demo *d, report *page) {
    static const char *const columns[] = {"", "MSE", "vcf", "vcf_support", "CIRCE"};
    OWNED_BY(cells_free) cells list = {0};
    for (int k = 0; k < DEMO_LINES; k++) {
        const demo_line *line = &d->lines[k];
        const double values[] = {line->mse, line->vcf, line->vcf_support, demo_circe(line)};
        cells_add(&list, "%s", line->title);
        for (int v = 0; v < 4; v++) cells_add(&list, "%.3g", values[v]);
    }
    cells_add(&list, "%s", "floor of an invariant predictor");
    cells_add(&list, "%.3g", d->floor);
    for (int v = 0; v < 3; v++) cells_add(&list, "0");
    OWNED char *title = small_format("On the %" PRId64 " test points, in units of Var(b); CIRCE on the %" PRId64
                                     " test rows of the training.",
                                     d->test.n, d->lines[DEMO_INVARIANT].training->measured_rows);
    report_table table = cells_table(&list, title, columns, 5);
    table.marked = DEMO_INVARIANT;
    report_add_table(page, &table);
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
    OWNED char *path = small_format("%s/report.html", d->folder);
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
    circe_status ended = report_end(page, path);
    if (status == CIRCE_OK) status = ended;
    return status;
}
