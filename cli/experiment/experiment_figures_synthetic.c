/* Figures of synthetic experiments: error against VCF, a panel a model; and limits over the dimension. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "cli/common/message.h"
#include "cli/experiment/experiment_chart.h"
#include "cli/experiment/experiment_model.h"

/* ---- error against VCF ------------------------------------------------------------------------------------------- */

/* Medians over seeds, along gamma. */
static void add_front(const experiment_outcome *o, chart *c, int64_t panel, int64_t group, experiment_number y) {
    const run_group *g = &o->plan->groups[group];
    const experiment_method *method = experiment_method_at(o->plan->config, g->method);
    report_series *s = chart_series(c, panel, method->name, o->summary->n_rows);
    if (s == NULL) return;
    s->colour = chart_colour(o->plan->config, g->method);
    for (int64_t i = 0; i < o->summary->n_rows; i++) {
        const summary_row *row = &o->summary->rows[i];
        if (row->group == group && row->n > 0) chart_point(s, row->number[NUMBER_MSE].median, row->number[y].median);
    }
    s->style = s->n > 1 ? REPORT_LINE_POINTS : REPORT_POINTS;
}

/* A point a seed. */
static void add_seeds(const experiment_outcome *o, chart *c, int64_t panel, int64_t group, experiment_number y) {
    const run_group *g = &o->plan->groups[group];
    report_series *s = chart_series(c, panel, experiment_method_at(o->plan->config, g->method)->name, o->plan->n_runs);
    if (s == NULL) return;
    s->colour = chart_colour(o->plan->config, g->method);
    for (int64_t i = 0; i < o->plan->n_runs; i++) {
        const planned_run *run = &o->plan->runs[i];
        if (run->group == group && run->role == ROLE_FINAL && run->state == RUN_DONE)
            chart_point(s, run->result.number[NUMBER_MSE], run->result.number[y]);
    }
}

/* The floor as a line from the lowest to the highest point of the panel. */
static void add_floor(const experiment_outcome *o, chart *c, int64_t panel, const run_group *group) {
    double floor = NAN, low = DBL_MAX, high = 0;
    for (int64_t i = 0; i < o->summary->n_rows; i++) {
        const summary_row *row = &o->summary->rows[i];
        if (row->model == group->model && row->d == group->d && row->n > 0) floor = row->number[NUMBER_FLOOR].median;
    }
    const report_panel *p = &c->panels[panel];
    for (int64_t k = 0; k < p->n_series; k++)
        for (int64_t i = 0; i < p->series[k].n; i++) {
            double y = p->series[k].y[i];
            if (y > 0 && y < low) low = y;
            if (y > high) high = y;
        }
    report_series *s = low < high ? chart_series(c, panel, "floor", 2) : NULL;
    if (s == NULL) return;
    chart_point(s, floor, low);
    chart_point(s, floor, high);
    s->style = REPORT_LINE;
    s->dashed = true;
    s->colour = -1;
}

static bool same_model(const run_group *a, const run_group *b) { return a->model == b->model && a->d == b->d; }

static void fill_trade_off(const experiment_outcome *o, bool support, chart *c) {
    const experiment_plan *plan = o->plan;
    const char *label = support ? "VCF on the support" : "VCF";
    experiment_number y = support ? NUMBER_VCF_SUPPORT : NUMBER_VCF;
    for (int64_t first = 0; first < plan->n_groups && c->n_panels < CHART_PANELS;) {
        char title[96];
        int64_t panel =
            chart_panel(c, experiment_model_text(plan->groups[first].model, plan->groups[first].d, title, sizeof title),
                        "mean squared error", label);
        int64_t g = first;
        for (; g < plan->n_groups && same_model(&plan->groups[g], &plan->groups[first]); g++) {
            if (plan->config->sweep)
                add_front(o, c, panel, g, y);
            else
                add_seeds(o, c, panel, g, y);
        }
        add_floor(o, c, panel, &plan->groups[first]);
        first = g;
    }
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void add_limit(const experiment_outcome *o, chart *c, int64_t panel, int word, const char *label, int colour,
                      experiment_number y) {
    report_series *s = chart_series(c, panel, label, o->summary->n_rows);
    if (s == NULL) return;
    s->style = REPORT_LINE_POINTS;
    s->colour = colour;
    for (int64_t i = 0; i < o->summary->n_rows; i++) {
        const summary_row *row = &o->summary->rows[i];
        if (row->model->word == word && row->first != NULL) chart_point(s, (double)row->d, row->first->number[y]);
    }
}

static void fill_limits(const experiment_outcome *o, chart *c) {
    for (int word = MODEL_MULTIVARIATE1; word <= MODEL_MULTIVARIATE2; word++) {
        int64_t n = 0;
        for (int64_t i = 0; i < o->summary->n_rows; i++) n += o->summary->rows[i].model->word == word;
        if (n < 2) continue;
        int64_t panel = chart_panel(c, experiment_model_name(word), "dimension d", "in units of Var(B)");
        c->panels[panel].log_x = true;
        add_limit(o, c, panel, word, "vcf of the best predictor", 0, NUMBER_VCF);
        add_limit(o, c, panel, word, "floor, and vcf_support of the best predictor", 1, NUMBER_FLOOR);
    }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static bool draw_trade_off(const experiment_outcome *o, bool support, const char *folder, report *page) {
    chart *c = chart_new();
    fill_trade_off(o, support, c);
    char *caption = small_format(
        "%s. Further down is more invariant, further left more accurate; the dashed line is the floor, which no "
        "invariant "
        "predictor can be left of; what is below 1e-6 is drawn there. %s",
        o->plan->config->sweep ? "Medians over seeds, along the weight gamma of each method" : "A point a seed",
        support ? "Here z' is drawn from P(Z | Y), as it occurs beside the point's y."
                : "z' is drawn from P(Z), as in the paper: most of it does not occur beside the point's y, so that "
                  "this VCF partly measures extrapolation.");
    bool written = chart_draw(c, support ? "vcf_support" : "vcf", caption, folder, page);
    free(caption);
    chart_free(c);
    return written;
}

bool experiment_figures_limits(const experiment_outcome *o, const char *folder, report *page) {
    chart *c = chart_new();
    fill_limits(o, c);
    bool written = chart_draw(c, "limits",
                              "The floor of any invariant predictor's error, and how far the best unregularised "
                              "predictor is from invariance, over the dimension.",
                              folder, page);
    chart_free(c);
    return written;
}

bool experiment_figures_synthetic(const experiment_outcome *o, const char *folder, report *page) {
    return draw_trade_off(o, false, folder, page) && draw_trade_off(o, true, folder, page);
}
