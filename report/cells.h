/* Building a table, cell by cell. */
#pragma once

#include "circe/export.h"
#include "report/report.h"

enum { CELLS_MOST_COLUMNS = 32 };

typedef struct cells {
    char **text;
    int64_t n;
    const char *columns[CELLS_MOST_COLUMNS]; /* those added one by one; borrowed */
    bool numeric[CELLS_MOST_COLUMNS];
    int64_t n_columns;
} cells;

void cells_column(cells *list, const char *name, bool numeric);
void cells_add(cells *list, const char *format, ...) CIRCE_PRINTF(2, 3);
/* Four digits; a dash if there is none. */
void cells_add_number(cells *list, double value);
/* For people: so many digits, trailing zeros kept, since they are known; "" if there is no number. */
const char *cells_digits(double value, int n, char *text, size_t size);
void cells_add_digits(cells *list, double value, int n);
void cells_free(cells *list);

/* A table of them, with the columns that were added, or with these: the first of text, the others of numbers. Valid as
 * long as the cells. */
report_table cells_table(const cells *list, const char *caption, const char *const *columns, int64_t n_columns);

/* Puts such a table on the page, the first `n_texts` columns of text, and frees the cells. */
void cells_show(cells *list, report *page, const char *caption, const char *const *columns, int64_t n_columns,
                int n_texts);
