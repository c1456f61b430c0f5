/* What the files of the report library share. */
#ifndef REPORT_INTERNAL_H
#define REPORT_INTERNAL_H

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
bool report__save(report__text *text, const char *path);

/* Text as HTML and XML show it: markup escaped, control characters left out, bytes that are no UTF-8 replaced. */
void report__escape(FILE *out, const char *text);

/* Runs gnuplot on a script of the folder, with the variable `output` set to the name of a file, without a shell and for
 * a minute at most. true: it succeeded. */
bool report__gnuplot(const char *folder, const char *script, const char *output);

/* Pixels across a figure at its natural size. */
int report__width(const report_figure *figure);

/* Copies an SVG into a page: without its XML header and gnuplot's titles, which say nothing to people, with `label` for
 * those who cannot see it, and with `name` before every id, since ids must not repeat within a page. false: it is no
 * SVG, or one with a script in it. */
bool report__inline_svg(FILE *out, const char *svg, const char *name, const char *label);

/* The style sheet of the page. */
extern const char report__style[];

#endif
