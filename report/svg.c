/* An SVG within a page: one SVG per panel, which the page puts side by side or, on a phone, below each other; and the
 * legend as text, where readers click to hide a curve. Ids and references get the figure's name in front, since every
 * figure of gnuplot uses the same ones. Attributes are told from text by being inside a tag.
 *
 * Every plot of gnuplot is a group whose id has its number in its panel and the panel's letter, "gnuplot_plot_2a", and
 * its points come in the order of the data. So the page knows what each of them is: the group gets the name of its
 * curve, for the script that hides and shows curves, and a point its value, which browsers show to whoever points at
 * it. What is not a plot (axes, numbers, titles) belongs to the panel in which its first point lies. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/report_parts.h"

enum { MOST_TOLD = 100 }; /* points of a curve whose values are told; of a cloud none */

static const char plot_id[] = "gnuplot_plot_";

/* Where the copy is. */
typedef struct copying {
    FILE *out;
    const report_figure *figure;
    const report_panel *panel;
    const report_series *curve; /* whose points are being drawn; NULL: none, or too many */
    int64_t point;              /* the next of them */
} copying;

/* Whether text starts with id=" or id=' after a blank: an attribute, not the end of another one's name. */
static size_t id_attribute(const char *text) {
    return isspace((unsigned char)text[0]) && strncmp(text + 1, "id=", 3) == 0 && (text[4] == '"' || text[4] == '\'')
               ? 5
               : 0;
}

static size_t reference(const char *text) {
    if (strncmp(text, "href=\"#", 7) == 0 || strncmp(text, "href='#", 7) == 0) return 7;
    return strncmp(text, "url(#", 5) == 0 ? 5 : 0;
}

/* "race: African-American, 0.59 (0.57 to 0.60)" */
static void put_value(const copying *c, int64_t i) {
    const report_series *s = c->curve;
    int64_t name = (int64_t)llround(s->x[i]);
    fputs("<title>", c->out);
    if (s->label != NULL && s->label[0] != '\0') {
        report__escape(c->out, s->label);
        fputs(": ", c->out);
    }
    if (c->panel->n_x_names > 0 && name >= 0 && name < c->panel->n_x_names)
        report__escape(c->out, c->panel->x_names[name]);
    else
        fprintf(c->out, "%.4g", s->x[i]);
    fprintf(c->out, ", %.4g", s->y[i]);
    if (s->low != NULL && s->high != NULL && isfinite(s->low[i]) && isfinite(s->high[i]))
        fprintf(c->out, " (%.4g to %.4g)", s->low[i], s->high[i]);
    fputs("</title></use>", c->out);
}

static bool is_drawn(const copying *c, int64_t i) {
    const report_series *s = c->curve;
    return isfinite(s->x[i]) && isfinite(s->y[i]) && (!c->panel->log_y || s->y[i] > 0) &&
           (!c->panel->log_x || s->x[i] > 0);
}

/* A point, <use .../>: the next one of the curve that is drawn. */
static const char *copy_point(copying *c, const char *at) {
    const char *end = strstr(at, "/>");
    if (c->curve == NULL || end == NULL || strncmp(at, "<use ", 5) != 0) return at;
    while (c->point < c->curve->n && !is_drawn(c, c->point)) c->point++;
    if (c->point >= c->curve->n) return at;
    const char *reference_at = strchr(at, '#');
    if (reference_at == NULL || reference_at > end) return at;
    fprintf(c->out, "%.*s%s-%.*s>", (int)(reference_at + 1 - at), at, c->figure->name, (int)(end - reference_at - 1),
            reference_at + 1);
    put_value(c, c->point++);
    return end + 2;
}

/* The group of a plot begins: "gnuplot_plot_2a" is the second of the first panel. */
static void begin_plot(copying *c, const char *id) {
    char *rest = NULL;
    long number = strtol(id + strlen(plot_id), &rest, 10);
    int64_t panel = *rest - 'a';
    bool points = false;
    const report_series *s = report__plot(c->figure, panel, number - 1, &points);
    c->curve = NULL;
    if (s == NULL || s->label == NULL || s->label[0] == '\0') return;
    fputs(" data-curve=\"", c->out);
    report__escape(c->out, s->label);
    fputc('"', c->out);
    if (!points || s->n > MOST_TOLD) return;
    c->panel = &c->figure->panels[panel];
    c->curve = s;
    c->point = 0;
}

/* Copies one tag from '<' to '>' with its ids renamed; returns what follows. */
static const char *copy_tag(copying *c, const char *at) {
    const char *name = c->figure->name;
    char quote = '\0';
    while (*at != '\0') {
        size_t length = quote == '\0' ? id_attribute(at) : 0;
        if (length > 0 && strncmp(at + length, plot_id, strlen(plot_id)) == 0) {
            begin_plot(c, at + length);
            const char *end = strpbrk(at + length, "\"'");
            at = end != NULL ? end + 1 : at + length;
            continue;
        }
        if (length == 0) length = reference(at);
        if (length > 0) {
            fprintf(c->out, "%.*s%s-", (int)length, at, name);
            if (at[length - 1] == '"' || at[length - 1] == '\'')
                quote = at[length - 1];
            else if (at[length - 2] == '"' || at[length - 2] == '\'') /* href="# */
                quote = at[length - 2];
            at += length;
            continue;
        }
        char letter = *at++;
        fputc(letter, c->out);
        if (quote != '\0')
            quote = letter == quote ? '\0' : quote;
        else if (letter == '"' || letter == '\'')
            quote = letter;
        else if (letter == '>')
            break;
    }
    return at;
}

/* What follows <title> or <desc> where `at` is one; else `at`. */
static const char *skip_title(const char *at) {
    static const char *const elements[][2] = {{"<title>", "</title>"}, {"<desc>", "</desc>"}};
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
        if (strncmp(at, elements[i][0], strlen(elements[i][0])) != 0) continue;
        const char *end = strstr(at, elements[i][1]);
        if (end != NULL) return end + strlen(elements[i][1]);
    }
    return at;
}

/* Copies what stands between two places of the file. */
static void copy_part(copying *c, const char *at, const char *end) {
    while (at < end) {
        const char *after = skip_title(at);
        if (after == at && *at == '<') after = copy_point(c, at);
        if (after != at)
            at = after;
        else if (*at == '<')
            at = copy_tag(c, at);
        else
            fputc(*at++, c->out);
    }
}

/* ---- panels ------------------------------------------------------------------------------------------------------ */

/* What follows the group, the definitions or the single tag that begin at `at`; NULL: the file ends within it. */
static const char *end_of_element(const char *at) {
    const char *end;
    int depth = 0;
    if (strncmp(at, "<defs", 5) == 0) return (end = strstr(at, "</defs>")) != NULL ? end + strlen("</defs>") : NULL;
    if (strncmp(at, "<g", 2) != 0 || isalpha((unsigned char)at[2])) {
        end = strchr(at, '>');
        return end != NULL ? end + 1 : NULL;
    }
    for (; (at = strchr(at, '<')) != NULL; at++) {
        if (strncmp(at, "<g", 2) == 0 && !isalpha((unsigned char)at[2])) depth++;
        if (strncmp(at, "</g>", 4) == 0 && --depth == 0) return at + 4;
    }
    return NULL;
}

/* The position of `text` before `end`; NULL: it does not occur. */
static const char *find_before(const char *at, const char *end, const char *text) {
    return memmem(at, (size_t)(end - at), text, strlen(text));
}

/* The panel that an element belongs to; -1: none. */
static int64_t panel_of(const report_figure *figure, const char *at, const char *end) {
    static const char group[] = "<g id=\"gnuplot_plot_"; /* no text holds a < */
    const char *plot = find_before(at, end, group), *path = find_before(at, end, " d='M"),
               *moved = find_before(at, end, "translate(");
    double x, y;
    if (plot != NULL) return plot[strlen(group) + strspn(plot + strlen(group), "0123456789")] - 'a';
    const char *first = path == NULL || (moved != NULL && moved < path) ? moved : path;
    if (first == NULL || sscanf(first + (first == path ? 5 : 10), "%lf,%lf", &x, &y) != 2) return -1;
    for (int64_t p = 0; p < figure->n_panels; p++) {
        report__box b = report__panel_box(figure, p);
        if (x >= b.x && x <= b.x + b.width && y >= b.y && y <= b.y + b.height) return p;
    }
    return -1;
}

/* `canvas`: behind the tag of the group that holds everything. The shapes of points are defined once per figure. */
static bool put_panel(FILE *out, const char *canvas, const report_figure *figure, int64_t p) {
    copying c = {.out = out, .figure = figure};
    report__box b = report__panel_box(figure, p);
    const char *title = figure->panels[p].title, *label = figure->caption;
    if (figure->n_panels > 1 && title != NULL && title[0] != '\0') label = title;
    fputs("<svg role=\"img\" aria-label=\"", out);
    report__escape(out, label != NULL ? label : "");
    fprintf(out,
            "\" viewBox=\"%d %d %d %d\" xmlns=\"http://www.w3.org/2000/svg\" "
            "xmlns:xlink=\"http://www.w3.org/1999/xlink\">\n",
            b.x, b.y, b.width, b.height);
    for (const char *at = strchr(canvas, '<'), *end; at != NULL && strncmp(at, "</", 2) != 0; at = strchr(end, '<')) {
        end = end_of_element(at);
        if (end == NULL) return false;
        bool shapes = strncmp(at, "<defs", 5) == 0;
        if (shapes ? p == 0 : panel_of(figure, at, end) == p) copy_part(&c, at, end);
    }
    fputs("</svg>\n", out);
    return true;
}

/* A sample of the curve, and its name. */
static void put_key(FILE *out, const report_series *s) {
    const report__mark *mark = report__mark_of(s);
    fputs("<span class=\"legend\" data-curve=\"", out);
    report__escape(out, s->label);
    fputs("\"><svg viewBox=\"0 0 30 12\" aria-hidden=\"true\">", out);
    if (s->style != REPORT_POINTS && s->style != REPORT_INTERVALS)
        fprintf(out, "<path d=\"M0 6h30\" stroke=\"%s\" stroke-width=\"2\"%s/>", mark->rgb,
                s->dashed ? " stroke-dasharray=\"5 4\"" : "");
    if (s->style != REPORT_LINE && s->style != REPORT_HORIZONTAL)
        fprintf(out, "<path d=\"%s\" fill=\"%s\" stroke=\"%s\"/>", mark->shape, mark->open ? "none" : mark->rgb,
                mark->rgb);
    fputs("</svg>", out);
    report__escape(out, s->label);
    fputs("</span>\n", out);
}

bool report__inline_svg(FILE *out, const char *svg, const report_figure *figure) {
    static const char opening[] = "<g id=\"gnuplot_canvas\">";
    const char *canvas = strstr(svg, opening);
    const report_series *curves[REPORT__CURVES];
    if (canvas == NULL || strstr(canvas, "</svg>") == NULL || strcasestr(svg, "<script") != NULL) return false;
    fputs("<div class=\"panels\">\n", out);
    bool whole = true;
    for (int64_t p = 0; p < figure->n_panels && whole; p++) whole = put_panel(out, canvas + strlen(opening), figure, p);
    int n = report__curves(figure, curves);
    if (n > 0) fputs("</div>\n<div class=\"keys\">\n", out);
    for (int i = 0; i < n; i++) put_key(out, curves[i]);
    fputs("</div>\n", out);
    return whole;
}
