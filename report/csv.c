/* Writes tables as CSV by RFC 4180: lines end in CR LF, and cells with a comma, a quote or a line end are quoted. */
#include <string.h>

#include "report/report_parts.h"

void report_put_cell(FILE *out, char delimiter, const char *before, const char *text) {
    bool quoted = strpbrk(text, "\"\r\n") != NULL || strchr(text, delimiter) != NULL;
    fprintf(out, "%s%s", quoted ? "\"" : "", before);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"') fputc('"', out);
        fputc(*c, out);
    }
    if (quoted) fputc('"', out);
}

static void put_cell(FILE *out, const char *cell, bool last) {
    report_put_cell(out, ',', "", cell != NULL ? cell : "");
    fputs(last ? "\r\n" : ",", out);
}

circe_status report_write_csv(const char *path, const report_table *table) {
    report__text text;
    int64_t columns = table->n_columns;
    report__open(&text);
    if (text.out == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory", path);
    for (int64_t c = 0; c < columns; c++) put_cell(text.out, table->columns[c], c + 1 == columns);
    for (int64_t r = 0; r < table->n_rows; r++)
        for (int64_t c = 0; c < columns; c++) put_cell(text.out, table->cells[r * columns + c], c + 1 == columns);
    return report__save(&text, path);
}
