#include "report/cells.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/small.h"

void cells_column(cells *list, const char *name, bool numeric) {
    list->columns[list->n_columns] = name;
    list->numeric[list->n_columns++] = numeric;
}

void cells_add(cells *list, const char *format, ...) {
    va_list arguments;
    if ((list->n & (list->n - 1)) == 0) /* the room doubles */
        list->text = small_grow(list->text, (size_t)(list->n > 0 ? 2 * list->n : 1) * sizeof *list->text);
    va_start(arguments, format);
    if (vasprintf(&list->text[list->n++], format, arguments) < 0) abort(); /* as all that is small */
    va_end(arguments);
}

void cells_add_number(cells *list, double value) {
    if (isfinite(value))
        cells_add(list, "%.4g", value);
    else
        cells_add(list, "%s", "–");
}

const char *cells_digits(double value, int n, char *text, size_t size) {
    double magnitude = fabs(value);
    if (isnan(value)) return "";
    if (magnitude == 0)
        snprintf(text, size, "0");
    else if (magnitude < 1e-3)
        snprintf(text, size, "%.*e", n - 1, value);
    else if (magnitude < 100)
        snprintf(text, size, "%#.*g", n, value);
    else
        snprintf(text, size, "%.0f", value);
    return text;
}

void cells_add_digits(cells *list, double value, int n) {
    char text[32];
    cells_add(list, "%s", cells_digits(value, n, text, sizeof text));
}

void cells_free(cells *list) {
    for (int64_t i = 0; i < list->n; i++) free(list->text[i]);
    free(list->text);
    *list = (cells){0};
}

report_table cells_table(const cells *list, const char *caption, const char *const *columns, int64_t n_columns) {
    static const bool all_but_first[CELLS_MOST_COLUMNS] = {false, [1 ... CELLS_MOST_COLUMNS - 1] = true};
    const bool *numeric = columns == NULL ? list->numeric : n_columns <= CELLS_MOST_COLUMNS ? all_but_first : NULL;
    if (columns == NULL) n_columns = list->n_columns;
    return (report_table){.caption = caption,
                          .columns = columns != NULL ? columns : list->columns,
                          .n_columns = n_columns,
                          .n_rows = list->n / n_columns,
                          .cells = (const char *const *)list->text,
                          .numeric = numeric,
                          .marked = -1};
}

void cells_show(cells *list, report *page, const char *caption, const char *const *columns, int64_t n_columns,
                int n_texts) {
    bool numeric[CELLS_MOST_COLUMNS];
    report_table table = cells_table(list, caption, columns, n_columns);
    for (int c = 0; c < CELLS_MOST_COLUMNS; c++) numeric[c] = c >= n_texts;
    table.numeric = numeric;
    report_add_table(page, &table);
    cells_free(list);
}
