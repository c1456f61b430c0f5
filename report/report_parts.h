/* What the files of the report library share. */
#pragma once

#include <stdio.h>

#include "report/report.h"

/* Text that grows in memory until it is saved. */
typedef struct report__text {
    FILE *out; /* NULL: there was no memory for it */
    char *text;
    size_t bytes;
} report__text;

void report__open(report__text *text);
/* Ends the text without writing it anywhere; it belongs to the caller (free). false: memory ran out on the way. */
bool report__close(report__text *text);
/* Ends the text, writes it to a file, beside and renamed, and frees it. */
circe_status report__save(report__text *text, const char *path);

/* Text as HTML and XML show it: markup escaped, control characters left out, bytes that are no UTF-8 replaced. */
void report__escape(FILE *out, const char *text);

/* Runs gnuplot on a script of the folder, with the variable `output` set to the name of a file, without a shell and for
 * a minute at most. true: it succeeded. */
bool report__gnuplot(const char *folder, const char *script, const char *output);

/* A panel's place in its figure, in pixels. */
typedef struct report__box {
    int x, y, width, height;
} report__box;

report__box report__panel_box(const report_figure *figure, int64_t panel);

/* The curves that have names, each once: their number. */
enum { REPORT__CURVES = 64 };
int report__curves(const report_figure *figure, const report_series **curves);

/* How a curve is told from the others. */
typedef struct report__mark {
    const char *rgb;
    int point;         /* gnuplot's number of its shape */
    const char *shape; /* the same as a path in a box of 30 by 12 */
    bool open;
} report__mark;

const report__mark *report__mark_of(const report_series *series);

/* Copies the SVG of a figure into a page, panel by panel with a legend below: without its XML header and gnuplot's
 * titles, which say nothing to people, with the caption for those who cannot see it, with the figure's name before
 * every id, since ids must not repeat within a page, and with the names of curves and the values of points. false: it
 * is no SVG of gnuplot, or one with a script in it. */
bool report__inline_svg(FILE *out, const char *svg, const report_figure *figure);

/* What gnuplot's plot `number` of a panel draws, as the script of the figure has them. *points: its points are those of
 * the curve. NULL: nothing with a name. */
const report_series *report__plot(const report_figure *figure, int64_t panel, int64_t number, bool *points);

/* The style sheet of the page. */
extern const char report__style[];
/* Tables that can be sorted, curves that can be hidden, values at a touch: the page is whole without it. */
extern const char report__script[];
