/* The page: one HTML file that needs nothing beside it. It grows in memory and is written as a whole. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/owned.h"
#include "circe/status.h"
#include "report/report_parts.h"

enum { LEAST_LISTED = 4 }; /* fewer headings need no table of contents */

struct report {
    report__text head, contents, body, facts;
    int headings;
};

report *report_begin(const char *title, const char *subtitle) {
    report *page = calloc(1, sizeof *page);
    if (page == NULL) return NULL;
    report__open(&page->head);
    report__open(&page->contents);
    report__open(&page->body);
    report__open(&page->facts);
    FILE *out = page->head.out;
    if (out == NULL) return page; /* report_end says so */
    fputs(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
        out);
    report__escape(out, title);
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", report__style);
    report__escape(out, title);
    fputs("</h1>\n", out);
    if (subtitle != NULL) {
        fputs("<p class=\"subtitle\">", out);
        report__escape(out, subtitle);
        fputs("</p>\n", out);
    }
    return page;
}

static FILE *body(report *page) { return page != NULL ? page->body.out : NULL; }

/* Escaped, with `text in backquotes` as code. */
static void put_prose(FILE *out, const char *text) {
    while (*text != '\0') {
        const char *open = strchr(text, '`'), *close = open != NULL ? strchr(open + 1, '`') : NULL;
        OWNED char *piece = close != NULL ? strndup(text, (size_t)(open - text)) : NULL;
        OWNED char *code = close != NULL ? strndup(open + 1, (size_t)(close - open - 1)) : NULL;
        if (piece == NULL || code == NULL) {
            report__escape(out, text);
            text += strlen(text);
        } else {
            report__escape(out, piece);
            fputs("<code>", out);
            report__escape(out, code);
            fputs("</code>", out);
            text = close + 1;
        }
    }
}

void report_heading(report *page, const char *text) {
    FILE *out = body(page);
    if (out == NULL || page->contents.out == NULL) return;
    int number = ++page->headings;
    fprintf(out, "<h2 id=\"part-%d\">", number);
    report__escape(out, text);
    fputs("</h2>\n", out);
    fprintf(page->contents.out, "<li><a href=\"#part-%d\">", number);
    report__escape(page->contents.out, text);
    fputs("</a></li>\n", page->contents.out);
}

void report_subheading(report *page, const char *text) {
    FILE *out = body(page);
    if (out == NULL) return;
    fputs("<h3>", out);
    report__escape(out, text);
    fputs("</h3>\n", out);
}

__attribute__((format(printf, 3, 0))) static void paragraph(report *page, const char *opening, const char *format,
                                                            va_list arguments) {
    FILE *out = body(page);
    OWNED char *text = NULL;
    if (out == NULL || vasprintf(&text, format, arguments) < 0) return;
    fputs(opening, out);
    put_prose(out, text);
    fputs("</p>\n", out);
}

void report_text(report *page, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    paragraph(page, "<p>", format, arguments);
    va_end(arguments);
}

void report_note(report *page, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    paragraph(page, "<p class=\"note\">", format, arguments);
    va_end(arguments);
}

static bool is_number(const report_table *table, int64_t column) {
    return table->numeric != NULL && table->numeric[column];
}

/* A box that scrolls by itself, reachable by keyboard. */
static void open_box(FILE *out, const char *label) {
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", out);
    report__escape(out, label != NULL ? label : "");
    fputs("\">\n", out);
}

static void put_caption(FILE *out, const char *caption) {
    if (caption == NULL || caption[0] == '\0') return;
    fputs("<figcaption>", out);
    put_prose(out, caption);
    fputs("</figcaption>\n", out);
}

/* A cell that begins with a sign has its colour. Long names fold, so that the columns that decide stay in sight. */
static const char *class_of(bool number, const char *cell) {
    enum { LONG = 28 };
    static const char *const marks[][2] = {
        {"✓", " class=\"good\""}, {"✗", " class=\"bad\""}, {"? ", " class=\"open\""}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (strncmp(cell, marks[i][0], strlen(marks[i][0])) == 0) return marks[i][1];
    if (number) return " class=\"number\"";
    return strlen(cell) > LONG ? " class=\"long\"" : "";
}

static void put_cell(FILE *out, bool number, const char *cell) {
    fprintf(out, "<td%s>", class_of(number, cell));
    report__escape(out, cell);
    fputs("</td>", out);
}

void report_add_table(report *page, const report_table *table) {
    FILE *out = body(page);
    if (out == NULL) return;
    fputs("<figure>\n", out);
    put_caption(out, table->caption);
    open_box(out, table->caption);
    fputs("<table>\n<thead><tr>", out);
    for (int64_t c = 0; c < table->n_columns; c++) {
        fputs(is_number(table, c) ? "<th class=\"number\" scope=\"col\">" : "<th scope=\"col\">", out);
        report__escape(out, table->columns[c] != NULL ? table->columns[c] : "");
        fputs("</th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    for (int64_t r = 0; r < table->n_rows; r++) {
        fputs(r == table->marked ? "<tr class=\"marked\">" : "<tr>", out);
        for (int64_t c = 0; c < table->n_columns; c++) {
            const char *cell = table->cells[r * table->n_columns + c];
            put_cell(out, is_number(table, c), cell != NULL ? cell : "");
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n</figure>\n", out);
}

void report_add_figure(report *page, const report_figure *figure, const char *folder) {
    FILE *out = body(page);
    OWNED char *path = NULL;
    if (out == NULL || asprintf(&path, "%s/%s.svg", folder, figure->name) < 0) return;
    OWNED char *svg = file_read_text(path);
    fputs("<figure>\n", out);
    bool shown = svg != NULL && report__inline_svg(out, svg, figure);
    if (!shown)
        fprintf(out,
                "<p class=\"note\">This figure was not drawn because gnuplot is not installed or failed. <code>gnuplot "
                "%s.gp</code> draws it from its script and data.</p>\n",
                figure->name);
    put_caption(out, figure->caption);
    fputs("</figure>\n", out);
}

void report_details(report *page, const char *summary, const char *text) {
    FILE *out = body(page);
    if (out == NULL) return;
    fputs("<details>\n<summary>", out);
    report__escape(out, summary);
    fputs("</summary>\n<pre>", out);
    report__escape(out, text);
    fputs("</pre>\n</details>\n", out);
}

void report_fact(report *page, const char *key, const char *format, ...) {
    FILE *out = page != NULL ? page->facts.out : NULL;
    OWNED char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    if (out != NULL) {
        fputs("<dt>", out);
        report__escape(out, key);
        fputs("</dt><dd>", out);
        put_prose(out, text);
        fputs("</dd>\n", out);
    }
}

/* The head, a list of the headings where there are several, the body and the facts, as one text. */
static void put_together(report *page, FILE *out) {
    fputs(page->head.text, out);
    if (page->headings >= LEAST_LISTED)
        fprintf(out, "<nav aria-label=\"Contents\"><ul>\n%s</ul></nav>\n", page->contents.text);
    fputs(page->body.text, out);
    if (page->facts.bytes > 0) fprintf(out, "<h2>How this was made</h2>\n<dl>\n%s</dl>\n", page->facts.text);
    fprintf(out, "<script>\n%s</script>\n</body>\n</html>\n", report__script);
}

circe_status report_end(report *page, const char *path) {
    report__text whole;
    if (page == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory", path);
    report__text *parts[] = {&page->head, &page->contents, &page->body, &page->facts};
    bool there = true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) there = report__close(parts[i]) && there;
    report__open(&whole);
    if (there && whole.out != NULL) put_together(page, whole.out);
    if (!there && report__close(&whole)) free(whole.text);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) free(parts[i]->text);
    free(page);
    return there ? report__save(&whole, path) : circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory", path);
}
