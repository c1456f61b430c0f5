/* Figures of an experiment: error against VCF, a panel a model, and limits over the dimension. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment_output.h"
#include "message.h"

enum { MOST_SERIES = 24, MOST_PANELS = 24 };

typedef double (*quantity)(const summary_row *row);
typedef double (*number_of)(const experiment_result *result);

/* Series that own their points. */
typedef struct chart {
    arena owner;
    report_series series[MOST_PANELS][MOST_SERIES];
    report_panel panels[MOST_PANELS];
    int64_t n_panels;
} chart;

static report_series *add_series(chart *c, int64_t panel, const char *label, int64_t room) {
    report_panel *p = &c->panels[panel];
    if (p->n_series == MOST_SERIES) return NULL;
    report_series *s = &c->series[panel][p->n_series++];
    *s = (report_series){.label = arena_text(&c->owner, label),
                         .x = arena_alloc(&c->owner, (size_t)room * sizeof(double)),
                         .y = arena_alloc(&c->owner, (size_t)room * sizeof(double)),
                         .style = REPORT_POINTS};
    return s;
}

/* Below this the axis ends: a prediction that collapsed would stretch it to 1e-20. */
static const double least_shown = 1e-6;

static void add_point(report_series *s, double x, double y) {
    ((double *)s->x)[s->n] = x; /* made by add_series */
    ((double *)s->y)[s->n++] = y < least_shown ? least_shown : y;
}

static int64_t add_panel(chart *c, const char *title, const char *x_label, const char *y_label) {
    int64_t panel = c->n_panels++;
    c->panels[panel] = (report_panel){.title = arena_text(&c->owner, title),
                                      .x_label = x_label,
                                      .y_label = y_label,
                                      .log_y = true,
                                      .series = c->series[panel]};
    return panel;
}

/* The colour of a method: its regulariser's in every experiment; a second method of the same takes a free one. */
static int colour_of(const experiment_config *config, int64_t method) {
    static const int usual[] = {3, 0, 1, 2, 4}; /* none, circe, hscic, gcm, hsic */
    static const int spare[] = {5, 4, 6, 3, 2, 1};
    int second = 0;
    for (int64_t m = 0; m < method; m++)
        second += experiment_method_at(config, m)->regularizer == experiment_method_at(config, method)->regularizer;
    if (second == 0) return usual[experiment_method_at(config, method)->regularizer];
    int before = 0; /* spare colours that earlier methods took */
    for (int64_t m = 0; m < method; m++)
        for (int64_t k = 0; k < m; k++)
            if (experiment_method_at(config, m)->regularizer == experiment_method_at(config, k)->regularizer) {
                before++;
                break;
            }
    return spare[before % 6];
}

/* ---- error against VCF ------------------------------------------------------------------------------------------- */

/* Medians over seeds, along gamma. */
static void add_front(const experiment_outcome *o, chart *c, int64_t panel, int64_t group, quantity y) {
    const run_group *g = &o->plan->groups[group];
    const experiment_method *method = experiment_method_at(o->plan->config, g->method);
    report_series *s = add_series(c, panel, method->name, o->summary->n_rows);
    if (s == NULL) return;
    s->colour = colour_of(o->plan->config, g->method);
    for (int64_t i = 0; i < o->summary->n_rows; i++) {
        const summary_row *row = &o->summary->rows[i];
        if (row->group == group && row->n > 0) add_point(s, row->mse.median, y(row));
    }
    s->style = s->n > 1 ? REPORT_LINE_POINTS : REPORT_POINTS;
}

/* A point a seed. */
static void add_seeds(const experiment_outcome *o, chart *c, int64_t panel, int64_t group, number_of y) {
    const run_group *g = &o->plan->groups[group];
    report_series *s = add_series(c, panel, experiment_method_at(o->plan->config, g->method)->name, o->plan->n_runs);
    if (s == NULL) return;
    s->colour = colour_of(o->plan->config, g->method);
    for (int64_t i = 0; i < o->plan->n_runs; i++) {
        const planned_run *run = &o->plan->runs[i];
        if (run->group == group && run->role == ROLE_FINAL && run->state == RUN_DONE)
            add_point(s, run->result.mse, y(&run->result));
    }
}

/* The floor as a line from the lowest to the highest point of the panel. */
static void add_floor(const experiment_outcome *o, chart *c, int64_t panel, const synthetic_model *model) {
    double floor = NAN, low = DBL_MAX, high = 0;
    for (int64_t i = 0; i < o->summary->n_rows; i++) {
        const summary_row *row = &o->summary->rows[i];
        if (row->model.kind == model->kind && row->model.d == model->d && row->n > 0) floor = row->floor.median;
    }
    const report_panel *p = &c->panels[panel];
    for (int64_t k = 0; k < p->n_series; k++)
        for (int64_t i = 0; i < p->series[k].n; i++) {
            double y = p->series[k].y[i];
            if (y > 0 && y < low) low = y;
            if (y > high) high = y;
        }
    report_series *s = low < high ? add_series(c, panel, "floor", 2) : NULL;
    if (s == NULL) return;
    add_point(s, floor, low);
    add_point(s, floor, high);
    s->style = REPORT_LINE;
    s->dashed = true;
    s->colour = -1;
}

static double median_vcf(const summary_row *row) { return row->vcf.median; }
static double median_support(const summary_row *row) { return row->vcf_support.median; }
static double result_vcf(const experiment_result *r) { return r->vcf; }
static double result_support(const experiment_result *r) { return r->vcf_support; }

static bool same_model(const run_group *a, const run_group *b) {
    return a->model.kind == b->model.kind && a->model.d == b->model.d;
}

static void fill_trade_off(const experiment_outcome *o, bool support, chart *c) {
    const experiment_plan *plan = o->plan;
    const char *label = support ? "VCF on the support" : "VCF";
    for (int64_t first = 0; first < plan->n_groups && c->n_panels < MOST_PANELS;) {
        char title[64];
        int64_t panel = add_panel(c, experiment_model_text(&plan->groups[first].model, title, sizeof title),
                                  "mean squared error", label);
        int64_t g = first;
        for (; g < plan->n_groups && same_model(&plan->groups[g], &plan->groups[first]); g++) {
            if (plan->config->pareto)
                add_front(o, c, panel, g, support ? median_support : median_vcf);
            else
                add_seeds(o, c, panel, g, support ? result_support : result_vcf);
        }
        add_floor(o, c, panel, &plan->groups[first].model);
        first = g;
    }
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void add_limit(const experiment_outcome *o, chart *c, int64_t panel, synthetic_kind kind, const char *label,
                      int colour, number_of y) {
    report_series *s = add_series(c, panel, label, o->summary->n_rows);
    if (s == NULL) return;
    s->style = REPORT_LINE_POINTS;
    s->colour = colour;
    for (int64_t i = 0; i < o->summary->n_rows; i++) {
        const summary_row *row = &o->summary->rows[i];
        if (row->model.kind == kind && row->first != NULL) add_point(s, (double)row->model.d, y(row->first));
    }
}

static double result_floor(const experiment_result *r) { return r->floor; }

static void fill_limits(const experiment_outcome *o, chart *c) {
    for (synthetic_kind kind = SYNTHETIC_MULTIVARIATE_1; kind <= SYNTHETIC_MULTIVARIATE_2; kind++) {
        int64_t n = 0;
        for (int64_t i = 0; i < o->summary->n_rows; i++) n += o->summary->rows[i].model.kind == kind;
        if (n < 2) continue;
        int64_t panel = add_panel(c, synthetic_name(kind), "dimension d", "in units of Var(B)");
        c->panels[panel].log_x = true;
        add_limit(o, c, panel, kind, "vcf of the best predictor", 0, result_vcf);
        add_limit(o, c, panel, kind, "floor, and vcf_support of the best predictor", 1, result_floor);
    }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static bool draw(const chart *c, const char *name, const char *caption, const char *folder, report *page,
                 report_error *error) {
    if (c->n_panels == 0) return true;
    bool drawn = false;
    report_figure figure = {.name = name,
                            .caption = caption,
                            .panels = c->panels,
                            .n_panels = c->n_panels,
                            .columns = c->n_panels > 1 ? 2 : 1};
    if (!report_draw(&figure, folder, &drawn, error)) return false;
    if (!drawn) message_note("gnuplot is not here or failed, so %s/%s.svg was not drawn", folder, name);
    report_add_figure(page, &figure, folder);
    return true;
}

static bool draw_trade_off(const experiment_outcome *o, bool support, const char *folder, report *page,
                           report_error *error) {
    chart *c = small_alloc(sizeof *c);
    fill_trade_off(o, support, c);
    char *caption = small_format(
        "%s. Further down is more invariant, further left more accurate; the dashed line is the floor, which no "
        "invariant "
        "predictor can be left of; what is below 1e-6 is drawn there. %s",
        o->plan->config->pareto ? "Medians over seeds, along the weight gamma of each method" : "A point a seed",
        support ? "Here z' is drawn from P(Z | Y), as it occurs beside the point's y."
                : "z' is drawn from P(Z), as in the paper: most of it does not occur beside the point's y, so that "
                  "this VCF partly measures extrapolation.");
    bool written = draw(c, support ? "vcf_support" : "vcf", caption, folder, page, error);
    free(caption);
    arena_free(&c->owner);
    free(c);
    return written;
}

static bool draw_limits(const experiment_outcome *o, const char *folder, report *page, report_error *error) {
    chart *c = small_alloc(sizeof *c);
    fill_limits(o, c);
    bool written = draw(c, "limits",
                        "The floor of any invariant predictor's error, and how far the best unregularised "
                        "predictor is from invariance, over the dimension.",
                        folder, page, error);
    arena_free(&c->owner);
    free(c);
    return written;
}

bool experiment_figures(const experiment_outcome *outcome, const char *folder, report *page, report_error *error) {
    if (outcome->plan->config->limits.samples > 0) return draw_limits(outcome, folder, page, error);
    return draw_trade_off(outcome, false, folder, page, error) && draw_trade_off(outcome, true, folder, page, error);
}
