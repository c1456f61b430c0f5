/* Figures as they grow. */
#include "cli/experiment/experiment_chart.h"

#include <stdlib.h>

#include "cli/common/message.h"

/* Below this the axis ends: a prediction that collapsed would stretch it to 1e-20. */
static const double least_shown = 1e-6;

chart *chart_new(void) { return small_alloc(sizeof(chart)); }

void chart_free(chart *c) {
    arena_free(&c->owner);
    free(c);
}

int64_t chart_panel(chart *c, const char *title, const char *x_label, const char *y_label) {
    int64_t panel = c->n_panels++;
    c->panels[panel] = (report_panel){.title = arena_text(&c->owner, title),
                                      .x_label = x_label,
                                      .y_label = y_label,
                                      .log_y = true,
                                      .series = c->series[panel]};
    return panel;
}

report_series *chart_series(chart *c, int64_t panel, const char *label, int64_t room) {
    report_panel *p = &c->panels[panel];
    if (p->n_series == CHART_SERIES) return NULL;
    report_series *s = &c->series[panel][p->n_series++];
    *s = (report_series){.label = arena_text(&c->owner, label),
                         .x = arena_alloc(&c->owner, (size_t)room * sizeof(double)),
                         .y = arena_alloc(&c->owner, (size_t)room * sizeof(double)),
                         .style = REPORT_POINTS};
    return s;
}

static double shown(double y) { return y < least_shown ? least_shown : y; }

void chart_point(report_series *s, double x, double y) {
    ((double *)s->x)[s->n] = x; /* made by chart_series */
    ((double *)s->y)[s->n++] = shown(y);
}

void chart_band(chart *c, report_series *s, int64_t room, double x, const summary_number *y) {
    if (s->low == NULL) {
        s->low = arena_alloc(&c->owner, (size_t)room * sizeof(double));
        s->high = arena_alloc(&c->owner, (size_t)room * sizeof(double));
    }
    ((double *)s->low)[s->n] = shown(y->low);
    ((double *)s->high)[s->n] = shown(y->high);
    chart_point(s, x, y->median);
}

bool chart_draw(const chart *c, const char *name, const char *caption, const char *folder, report *page) {
    if (c->n_panels == 0) return true;
    bool drawn = false;
    report_figure figure = {.name = name,
                            .caption = caption,
                            .panels = c->panels,
                            .n_panels = c->n_panels,
                            .columns = c->n_panels > 1 ? 2 : 1,
                            .same_y = c->same_y};
    if (!report_draw(&figure, folder, &drawn)) return false;
    if (!drawn) message_note("gnuplot is not here or failed, so %s/%s.svg was not drawn", folder, name);
    report_add_figure(page, &figure, folder);
    return true;
}

int chart_colour(const experiment_config *config, int64_t method) {
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
