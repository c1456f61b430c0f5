/* Wrapping of plain text. */
#include "cli/common/text.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int text_width(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col < 60 ? 60 : size.ws_col > 100 ? 100 : size.ws_col;
}

/* The length of the next word; "10 %" is one. */
static size_t next_word(const char *text, const char *end) {
    size_t word = strcspn(text, " \n"), rest = (size_t)(end - text);
    if (word < rest && strncmp(text + word, " %", 2) == 0) word += 1 + strcspn(text + word + 1, " \n");
    return word < rest ? word : rest;
}

static void wrap(FILE *out, const char *text, size_t length, int at, int indent, int width) {
    const char *end = text + length;
    int column = at;
    while (text < end) {
        size_t word = next_word(text, end);
        if (column > indent && column + 1 + (int)word > width) {
            fputc('\n', out);
            column = 0;
        }
        if (column < indent)
            column += fprintf(out, "%*s", indent - column, "");
        else if (column > indent)
            column += fprintf(out, " ");
        column += fprintf(out, "%.*s", (int)word, text);
        text += word;
        while (text < end && (*text == ' ' || *text == '\n')) text++;
    }
    fputc('\n', out);
}

void text_wrap(FILE *out, const char *text, int at, int indent, int width) {
    wrap(out, text, strlen(text), at, indent, width);
}

void text_paragraph(FILE *out, const char *text, size_t length, bool verbatim) {
    if (verbatim)
        fprintf(out, "%.*s\n", (int)length, text);
    else
        wrap(out, text, length, 0, 0, text_width());
    fputc('\n', out);
}

void text_paragraphs(FILE *out, const char *text, text_paragraph_fn *put) {
    while (*text != '\0') {
        const char *end = strstr(text, "\n\n");
        size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
        put(out, text, length, strncmp(text, "  ", 2) == 0);
        text = end != NULL ? end + 2 : text + length;
    }
}
