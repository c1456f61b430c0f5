#include "cli/common/table.h"

#include <stdio.h>

/* Columns that a text takes: characters, without combining marks (the circumflex of B̂). */
static int width_of(const char *text) {
    int width = 0;
    for (const unsigned char *c = (const unsigned char *)(text != NULL ? text : ""); *c != '\0'; c++) {
        if ((*c & 0xc0) == 0x80) continue;
        bool combining = (c[0] == 0xcc && c[1] >= 0x80) || (c[0] == 0xcd && c[1] < 0xb0);
        width += !combining;
    }
    return width;
}

static int width_of_column(const report_table *table, int64_t c) {
    int widest = width_of(table->columns[c]);
    for (int64_t r = 0; r < table->n_rows; r++) {
        int width = width_of(table->cells[r * table->n_columns + c]);
        if (width > widest) widest = width;
    }
    return widest;
}

static void print_line(const report_table *table, const char *const *texts, int indent) {
    printf("%*s", indent, "");
    for (int64_t c = 0; c < table->n_columns; c++) {
        const char *text = texts[c] != NULL ? texts[c] : "";
        int room = width_of_column(table, c) - width_of(text);
        bool last = c + 1 == table->n_columns;
        if (table->numeric[c]) printf("%*s", room, "");
        for (const char *t = text; *t != '\0'; t++) putchar(*t == '\n' ? ' ' : *t);
        if (!table->numeric[c] && !last) printf("%*s", room, "");
        fputs(last ? "\n" : "  ", stdout);
    }
}

void text_table(const report_table *table, int indent) {
    print_line(table, table->columns, indent);
    for (int64_t r = 0; r < table->n_rows; r++) print_line(table, table->cells + r * table->n_columns, indent);
}
