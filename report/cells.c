/* Cells of tables. */
#include "report/cells.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void cells_add(cells *list, const char *format, ...) {
    va_list arguments;
    char **grown = realloc(list->text, (size_t)(list->n + 1) * sizeof *grown);
    va_start(arguments, format);
    if (grown == NULL || vasprintf(&grown[list->n], format, arguments) < 0) abort(); /* a few bytes: no way on */
    va_end(arguments);
    list->text = grown;
    list->n++;
}

void cells_add_number(cells *list, double value) {
    if (isfinite(value))
        cells_add(list, "%.4g", value);
    else
        cells_add(list, "%s", "–");
}

void cells_free(cells *list) {
    for (int64_t i = 0; i < list->n; i++) free(list->text[i]);
    free(list->text);
    *list = (cells){0};
}

report_table cells_table(const cells *list, const char *caption, const char *const *columns, int64_t n_columns) {
    static bool numeric[CELLS_MOST_COLUMNS];
    for (int c = 1; c < CELLS_MOST_COLUMNS; c++) numeric[c] = true;
    return (report_table){.caption = caption,
                          .columns = columns,
                          .n_columns = n_columns,
                          .n_rows = list->n / n_columns,
                          .cells = (const char *const *)list->text,
                          .numeric = numeric,
                          .marked = -1};
}
