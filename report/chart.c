#include "report/chart.h"

#include <stdlib.h>

#include "base/small.h"

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

/* x, y, and the ends of a band, in one block. */
report_series *chart_series(chart *c, int64_t panel, const char *label, int64_t room) {
    report_panel *p = &c->panels[panel];
    if (p->n_series == CHART_SERIES) return NULL;
    double *points = arena_alloc(&c->owner, (size_t)(4 * room) * sizeof *points);
    report_series *s = &c->series[panel][p->n_series++];
    *s = (report_series){
        .label = arena_text(&c->owner, label), .x = points, .y = points + room, .room = room, .style = REPORT_POINTS};
    return s;
}

static double shown(double y) { return y < least_shown ? least_shown : y; }

void chart_point(report_series *s, double x, double y) {
    ((double *)s->x)[s->n] = x; /* made by chart_series */
    ((double *)s->y)[s->n++] = shown(y);
}

void chart_band(report_series *s, double x, double y, double low, double high) {
    s->low = s->y + s->room;
    s->high = s->low + s->room;
    ((double *)s->low)[s->n] = shown(low);
    ((double *)s->high)[s->n] = shown(high);
    chart_point(s, x, y);
}

bool chart_draw(const chart *c, const char *name, const char *caption, const char *folder, report *page, bool *drawn) {
    *drawn = true;
    if (c->n_panels == 0) return true;
    report_figure figure = {.name = name,
                            .caption = caption,
                            .panels = c->panels,
                            .n_panels = c->n_panels,
                            .columns = c->n_panels > 1 ? 2 : 1,
                            .same_y = c->same_y};
    if (!report_draw(&figure, folder, drawn)) return false;
    report_add_figure(page, &figure, folder);
    return true;
}
