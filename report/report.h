/* The reports of runs: one self-contained report.html (tables, figures as inline SVG, settings), figures as SVG with
 * their gnuplot script and data beside them, and tables as CSV. A report loads nothing from the network. Files are
 * written under another name and then renamed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "circe/status.h"

/* ---- figures ----------------------------------------------------------------------------------------------------- */

typedef enum report_style {
    REPORT_LINE = 1,
    REPORT_POINTS = 2,
    REPORT_LINE_POINTS = 3,
    REPORT_HORIZONTAL = 4,
    REPORT_INTERVALS = 5
} report_style;

/* One curve or cloud: n points, NaN leaves a gap. low and high, if not NULL, are drawn as a shaded band; of
 * REPORT_INTERVALS, which are points that no line joins, as bars. */
typedef struct report_series {
    const char *label;
    int64_t n;
    const double *x, *y, *low, *high;
    report_style style;
    int colour; /* index into the palette, which is safe for colour-blind readers; the same method, the same colour */
    bool dashed;
    int64_t room; /* of a growing series (chart.h): points it can have, */
    double least; /* and below which values are drawn at it */
} report_series;

typedef struct report_panel {
    const char *title, *x_label, *y_label;
    const char *const *x_names; /* (n_x_names): labels at x = 0, 1, ... instead of numbers; NULL: numbers */
    int64_t n_x_names;
    bool log_x, log_y;
    const report_series *series;
    int64_t n_series;
} report_panel;

typedef struct report_figure {
    const char *name; /* of the files: NAME.svg, NAME.gp, NAME.dat */
    const char *caption;
    const report_panel *panels; /* side by side, in `columns` columns */
    int64_t n_panels, columns;
    bool same_y; /* one range of y for all panels, which can then be compared */
} report_figure;

/* Writes script and data into the folder and runs gnuplot; *drawn tells whether it could (a missing gnuplot is no
 * error: script and data are there). */
circe_status report_draw(const report_figure *figure, const char *folder, bool *drawn);

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* cells row by row as texts; a number column is aligned right. NULL cells are empty. A line end breaks the line. */
typedef struct report_table {
    const char *caption;
    const char *const *columns;
    int64_t n_columns, n_rows;
    const char *const *cells;
    const bool *numeric; /* (n_columns), or NULL: none */
    int64_t marked;      /* the row that is emphasised; -1: none */
} report_table;

/* RFC 4180. */
circe_status report_write_csv(const char *path, const report_table *table);

/* One cell of a .csv or the like, quoted where it must be; `before` is put before the text and needs no quotes
 * itself. */
void report_put_cell(FILE *out, char delimiter, const char *before, const char *text);

/* ---- the page ---------------------------------------------------------------------------------------------------- */

typedef struct report report;

/* Opens a page in memory. */
report *report_begin(const char *title, const char *subtitle);
void report_heading(report *page, const char *text);
void report_subheading(report *page, const char *text); /* not in the table of contents */
void report_text(report *page, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* a paragraph, escaped */
void report_note(report *page, const char *format, ...) __attribute__((format(printf, 2, 3))); /* set apart: caveats */
void report_add_table(report *page, const report_table *table);
/* Inlines FOLDER/NAME.svg with its caption; where it was not drawn, says so and names the script. */
void report_add_figure(report *page, const report_figure *figure, const char *folder);
/* A folded block of preformatted text: configurations, JSON. */
void report_details(report *page, const char *summary, const char *text);
/* "key: value" pairs: versions, seeds, machine. */
void report_fact(report *page, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Writes the page (facts last) and frees it. */
circe_status report_end(report *page, const char *path);
