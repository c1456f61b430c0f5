/* A figure as it grows: panels of series that own their points. */
#ifndef REPORT_CHART_H
#define REPORT_CHART_H

#include "base/arena.h"
#include "report/report.h"

enum { CHART_SERIES = 24, CHART_PANELS = 24 };

typedef struct chart {
    arena owner;
    report_series series[CHART_PANELS][CHART_SERIES];
    report_panel panels[CHART_PANELS];
    int64_t n_panels;
    bool same_y; /* of all panels, to be compared */
} chart;

/* On the heap: it is large. */
chart *chart_new(void);
void chart_free(chart *c);

/* A panel with a logarithmic axis of y; its number. */
int64_t chart_panel(chart *c, const char *title, const char *x_label, const char *y_label);

/* A series with room for so many points; NULL: the panel is full. */
report_series *chart_series(chart *c, int64_t panel, const char *label, int64_t room);

/* Values below 1e-6 are drawn there. */
void chart_point(report_series *s, double x, double y);
/* With a band around it: every point of a series, or none. */
void chart_band(report_series *s, double x, double y, double low, double high);

/* Writes and draws it, and adds it to the page; nothing where there are no panels. *drawn as of report_draw. false: a
 * file could not be written. */
bool chart_draw(const chart *c, const char *name, const char *caption, const char *folder, report *page, bool *drawn);

#endif
