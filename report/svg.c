/* An SVG within a page: ids and references get the figure's name in front, since every figure of gnuplot uses the same
 * ones. Attributes are told from text by being inside a tag. */
#include <ctype.h>
#include <string.h>

#include "report/report_parts.h"

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

/* Copies one tag from '<' to '>' with its ids renamed; returns what follows. */
static const char *copy_tag(FILE *out, const char *at, const char *name) {
    char quote = '\0';
    while (*at != '\0') {
        size_t length = quote == '\0' ? id_attribute(at) : 0;
        if (length == 0) length = reference(at);
        if (length > 0) {
            fprintf(out, "%.*s%s-", (int)length, at, name);
            if (at[length - 1] == '"' || at[length - 1] == '\'')
                quote = at[length - 1];
            else if (at[length - 2] == '"' || at[length - 2] == '\'') /* href="# */
                quote = at[length - 2];
            at += length;
            continue;
        }
        char c = *at++;
        fputc(c, out);
        if (quote != '\0')
            quote = c == quote ? '\0' : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '>')
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

bool report__inline_svg(FILE *out, const char *svg, const char *name, const char *label) {
    const char *start = strstr(svg, "<svg"), *end = strstr(svg, "</svg>");
    if (start == NULL || end == NULL || end < start || strcasestr(svg, "<script") != NULL) return false;
    end += strlen("</svg>");
    fputs("<svg role=\"img\" aria-label=\"", out);
    report__escape(out, label != NULL ? label : "");
    fputc('"', out);
    for (const char *at = copy_tag(out, start + strlen("<svg"), name); at < end;) {
        const char *after = skip_title(at);
        if (after != at)
            at = after;
        else if (*at == '<')
            at = copy_tag(out, at, name);
        else
            fputc(*at++, out);
    }
    fputc('\n', out);
    return true;
}
