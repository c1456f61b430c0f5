/* A figure as it grows: panels of series that own their points and texts. */
#pragma once

#include "base/arena.h"
#include "circe/status.h"
#include "report/report.h"

enum { CHART_SERIES = 24, CHART_PANELS = 24, CHART_GREY = -1 };

typedef struct chart {
    arena owner;
    report_series series[CHART_PANELS][CHART_SERIES], unseen;
    report_panel panels[CHART_PANELS];
    int64_t n_panels;
    int64_t columns; /* of panels; 0: two where there are several */
    bool same_y;     /* of all panels, to be compared */
    double least;    /* of the series to come: values below it are drawn there; 0: as they are */
} chart;

/* On the heap: it is large. */
chart *chart_new(void);
void chart_free(chart *c);

/* Adds a panel. A figure has room for CHART_PANELS. */
report_panel *chart_panel(chart *c, const char *title, const char *x_label, const char *y_label);

/* A series of a style of report_series with room for this many points. One that the panel has no room for is not shown.
 */
report_series *chart_series(chart *c, report_panel *panel, report_style style, int colour, const char *label,
                            int64_t room);
void chart_point(report_series *s, double x, double y);
/* With a band around it: every point of a series, or none. */
void chart_band(report_series *s, double x, double y, double low, double high);
/* A dashed grey line across the panel. */
void chart_level(chart *c, report_panel *panel, const char *label, double y);

/* Writes and draws it, and adds it to the page (NULL: there is none); nothing if there are no panels. *drawn as of
 * report_draw. Frees it. */
circe_status chart_draw(chart *c, const char *name, const char *caption, const char *folder, report *page, bool *drawn);
