/* Figures of image experiments, as the paper's: for every method a panel of the test loss over gamma, in domain and out
 * of domain, medians with the range over seeds shaded; the encoder that was trained out of domain as a line, and the
 * one without a regulariser as a dashed one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/experiment/experiment_chart.h"
#include "cli/experiment/experiment_keys.h"
#include "cli/experiment/experiment_model.h"

enum { BLUE = 0, ORANGE = 4, RED = 1, GREY = -1 }; /* of the palette: as in the paper */

static void along_gamma(const experiment_outcome *o, chart *c, int64_t panel, int64_t group, experiment_number number,
                        const char *label, int colour) {
    int64_t room = o->summary->n_rows;
    report_series *s = chart_series(c, panel, label, room);
    if (s == NULL) return;
    s->style = REPORT_LINE_POINTS;
    s->colour = colour;
    for (int64_t i = 0; i < room; i++) {
        const summary_row *row = &o->summary->rows[i];
        if (row->group == group && row->n > 0) chart_band(c, s, room, row->choice.gamma, &row->number[number]);
    }
}

/* The first row of this model without a regulariser, trained in domain or out of it; NULL: none. */
static const summary_row *plain(const experiment_outcome *o, const run_group *group, int trained_on) {
    for (int64_t i = 0; i < o->summary->n_rows; i++) {
        const summary_row *row = &o->summary->rows[i];
        const experiment_method *method = experiment_method_at(o->plan->config, row->method);
        if (row->model == group->model && row->n > 0 && !row->regularized && method->trained_on == trained_on)
            return row;
    }
    return NULL;
}

/* A level over the gammas of the group. */
static void level(const experiment_outcome *o, chart *c, int64_t panel, int64_t group, const summary_row *row,
                  const char *label, int colour, bool dashed) {
    int64_t room = o->summary->n_rows;
    report_series *s = row != NULL ? chart_series(c, panel, label, room) : NULL;
    if (s == NULL) return;
    s->style = REPORT_LINE;
    s->colour = colour;
    s->dashed = dashed;
    for (int64_t i = 0; i < room; i++)
        if (o->summary->rows[i].group == group && o->summary->rows[i].n > 0)
            chart_band(c, s, room, o->summary->rows[i].choice.gamma, &row->number[NUMBER_OOD_MSE]);
    if (s->n == 1) s->style = REPORT_HORIZONTAL; /* a line needs two points */
}

static void add_method(const experiment_outcome *o, chart *c, int64_t group) {
    const run_group *g = &o->plan->groups[group];
    const experiment_method *method = experiment_method_at(o->plan->config, g->method);
    char model[96], title[192];
    if (method->regularizer == REGULARIZER_NONE || c->n_panels == CHART_PANELS) return;
    snprintf(title, sizeof title, "%s: %s", experiment_model_text(g->model, g->d, model, sizeof model), method->name);
    int64_t panel = chart_panel(c, title, "gamma", "test loss");
    c->panels[panel].log_x = true;
    along_gamma(o, c, panel, group, NUMBER_MSE, "in domain", BLUE);
    along_gamma(o, c, panel, group, NUMBER_OOD_MSE, "out of domain (OOD)", ORANGE);
    level(o, c, panel, group, plain(o, g, ON_OOD), "encoder trained OOD", RED, false);
    level(o, c, panel, group, plain(o, g, ON_DOMAIN), "no regulariser, OOD", GREY, true);
}

bool experiment_figures_images(const experiment_outcome *o, const char *folder, report *page) {
    chart *c = chart_new();
    c->same_y = true;
    for (int64_t group = 0; group < o->plan->n_groups; group++) add_method(o, c, group);
    bool written = chart_draw(
        c, "loss",
        "Test loss over the weight gamma: in domain, and out of domain (OOD), where the distractor no longer goes with "
        "the target. Medians over seeds, the range from the smallest to the largest shaded. The line is the OOD loss "
        "of an encoder that was trained on OOD data, which no method sees; the dashed one that of no regulariser.",
        folder, page);
    chart_free(c);
    return written;
}
