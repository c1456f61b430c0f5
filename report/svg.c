/* An SVG within a page: ids and references get the figure's name in front, since every figure of gnuplot uses the same
 * ones. Attributes are told from text by being inside a tag.
 *
 * Every plot of gnuplot is a group whose id has its number in its panel and the panel's letter, "gnuplot_plot_2a", and
 * its points come in the order of the data. So the page knows what each of them is: the group gets the name of its
 * curve, for the script that hides and shows curves, and a point its value, which browsers show to whoever points at
 * it. */
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
    bool points = false, legend = panel == c->figure->n_panels;
    const report_series *s = report__plot(c->figure, panel, number - 1, &points);
    c->curve = NULL;
    if (s == NULL || s->label == NULL || s->label[0] == '\0') return;
    fputs(legend ? " class=\"legend\" data-curve=\"" : " data-curve=\"", c->out);
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

bool report__inline_svg(FILE *out, const char *svg, const report_figure *figure) {
    const char *start = strstr(svg, "<svg"), *end = strstr(svg, "</svg>");
    copying c = {.out = out, .figure = figure};
    if (start == NULL || end == NULL || end < start || strcasestr(svg, "<script") != NULL) return false;
    end += strlen("</svg>");
    fputs("<svg role=\"img\" aria-label=\"", out);
    report__escape(out, figure->caption != NULL ? figure->caption : "");
    fputc('"', out);
    for (const char *at = copy_tag(&c, start + strlen("<svg")); at < end;) {
        const char *after = skip_title(at);
        if (after == at && *at == '<') after = copy_point(&c, at);
        if (after != at)
            at = after;
        else if (*at == '<')
            at = copy_tag(&c, at);
        else
            fputc(*at++, out);
    }
    fputc('\n', out);
    return true;
}
