/* Figures of an experiment as they grow: panels of series that own their points. */
#ifndef CLI_EXPERIMENT_CHART_H
#define CLI_EXPERIMENT_CHART_H

#include "cli/experiment/experiment_output.h"

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
/* With a band around it. */
void chart_band(chart *c, report_series *s, int64_t room, double x, const summary_number *y);

/* Writes and draws it, and adds it to the page; nothing where there are no panels. false: a file could not be written.
 */
bool chart_draw(const chart *c, const char *name, const char *caption, const char *folder, report *page);

/* The colour of a method: its regulariser's in every experiment; a second method of the same takes a free one. */
int chart_colour(const experiment_config *config, int64_t method);

/* ---- by kind of experiment ----------------------------------------------------------------------------------------
 */

bool experiment_figures_synthetic(const experiment_outcome *outcome, const char *folder, report *page);
bool experiment_figures_limits(const experiment_outcome *outcome, const char *folder, report *page);
bool experiment_figures_images(const experiment_outcome *outcome, const char *folder, report *page);

#endif
