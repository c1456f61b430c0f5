#include "report/chart.h"

#include <stdlib.h>

#include "base/small.h"

chart *chart_new(void) { return small_alloc(sizeof(chart)); }

void chart_free(chart *c) {
    arena_free(&c->owner);
    free(c);
}

report_panel *chart_panel(chart *c, const char *title, const char *x_label, const char *y_label) {
    report_panel *panel = &c->panels[c->n_panels];
    *panel = (report_panel){.title = arena_text(&c->owner, title),
                            .x_label = arena_text(&c->owner, x_label),
                            .y_label = arena_text(&c->owner, y_label),
                            .series = c->series[c->n_panels++]};
    return panel;
}

/* x, y, and the ends of a band, in one block. */
report_series *chart_series(chart *c, report_panel *panel, report_style style, int colour, const char *label,
                            int64_t room) {
    double *points = arena_alloc(&c->owner, (size_t)(4 * room) * sizeof *points);
    bool full = panel->n_series == CHART_SERIES;
    report_series *s = full ? &c->unseen : &c->series[panel - c->panels][panel->n_series++];
    *s = (report_series){.label = label != NULL ? arena_text(&c->owner, label) : NULL,
                         .x = points,
                         .y = points + room,
                         .room = room,
                         .least = c->least,
                         .style = style,
                         .colour = colour};
    return s;
}

static double shown(const report_series *s, double y) { return s->least > 0 && y < s->least ? s->least : y; }

void chart_point(report_series *s, double x, double y) {
    ((double *)s->x)[s->n] = x; /* made by chart_series */
    ((double *)s->y)[s->n++] = shown(s, y);
}

void chart_band(report_series *s, double x, double y, double low, double high) {
    s->low = s->y + s->room;
    s->high = s->low + s->room;
    ((double *)s->low)[s->n] = shown(s, low);
    ((double *)s->high)[s->n] = shown(s, high);
    chart_point(s, x, y);
}

void chart_level(chart *c, report_panel *panel, const char *label, double y) {
    report_series *s = chart_series(c, panel, REPORT_HORIZONTAL, CHART_GREY, label, 1);
    chart_point(s, 0, y);
    s->dashed = true;
}

circe_status chart_draw(chart *c, const char *name, const char *caption, const char *folder, report *page,
                        bool *drawn) {
    circe_status status = CIRCE_OK;
    *drawn = true;
    if (c->n_panels > 0) {
        report_figure figure = {.name = name,
                                .caption = caption,
                                .panels = c->panels,
                                .n_panels = c->n_panels,
                                .columns = c->columns > 0    ? c->columns
                                           : c->n_panels > 1 ? 2
                                                             : 1,
                                .same_y = c->same_y};
        status = report_draw(&figure, folder, drawn);
        if (page != NULL) report_add_figure(page, &figure, folder);
    }
    chart_free(c);
    return status;
}
