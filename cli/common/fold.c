#include "cli/common/terminal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_ROOM = 20, USUAL_INDENT = 4 };

static bool is_continuation(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* Columns that bytes take on a terminal, one per character. */
static int columns_of(const char *text, size_t bytes) {
    int columns = 0;
    for (size_t i = 0; i < bytes; i++) columns += !is_continuation(text[i]);
    return columns;
}

/* The bytes of a line before its last break between words within `width`; all of it if there is none. `least` bytes,
 * its indent, stay. */
static size_t break_before(const char *line, size_t bytes, size_t least, int width) {
    size_t last = bytes;
    int column = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (line[i] == ' ' && i > least && (last == bytes || column <= width)) last = i;
        if (!is_continuation(line[i])) column++;
        if (column > width && last < bytes) break;
    }
    return last;
}

/* Where the text of the last column within `bytes` begins, if there is room for words below it. */
static int column_to_continue(const char *line, size_t bytes, int width) {
    int found = -1;
    for (size_t i = 2; i < bytes; i++) {
        int column = columns_of(line, i);
        if (line[i] != ' ' && line[i - 1] == ' ' && line[i - 2] == ' ' && column + LEAST_ROOM <= width) found = column;
    }
    size_t indent = strspn(line, " ");
    if (found >= 0 && (size_t)found > indent) return found;
    return indent > 0 ? (int)indent + USUAL_INDENT : 0; /* a sentence goes on at the margin */
}

static size_t without_spaces(const char *line, size_t bytes) {
    while (bytes > 0 && line[bytes - 1] == ' ') bytes--;
    return bytes;
}

/* Whether the line is a command to copy: indented, its first word ends in circe, and the next follows at once, unlike
 * the columns of a table. */
static bool is_command(const char *line, size_t bytes) {
    size_t indent = strspn(line, " "), end = indent + strcspn(line + indent, " \n");
    return indent >= 2 && end + 1 < bytes && line[end + 1] != ' ' && end - indent >= 5 &&
           strncmp(line + end - 5, "circe", 5) == 0;
}

static void fold(FILE *out, const char *line, size_t bytes, int width) {
    bytes = without_spaces(line, bytes);
    if (columns_of(line, bytes) <= width) {
        fwrite(line, 1, bytes, out);
        return;
    }
    const char *more = is_command(line, bytes) ? " \\" : ""; /* so that a shell reads on */
    width -= (int)strlen(more);
    size_t n = break_before(line, bytes, strspn(line, " "), width);
    int indent = column_to_continue(line, n, width);
    fwrite(line, 1, without_spaces(line, n), out);
    while (n < bytes) {
        n += strspn(line + n, " ");
        size_t part = break_before(line + n, bytes - n, 0, width - indent);
        if (columns_of(line + n, bytes - n) <= width - indent) part = bytes - n;
        fprintf(out, "%s\n%*s%.*s", more, indent, "", (int)part, line + n);
        n += part;
    }
}

char *fold_lines(const char *text, size_t bytes, int width) {
    char *folded = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&folded, &size);
    if (out == NULL) return NULL;
    while (bytes > 0) {
        const char *end = memchr(text, '\n', bytes);
        size_t length = end != NULL ? (size_t)(end - text) : bytes;
        fold(out, text, length, width);
        if (end != NULL) fputc('\n', out);
        length += end != NULL;
        text += length;
        bytes -= length;
    }
    if (fclose(out) == 0) return folded;
    free(folded);
    return NULL;
}
