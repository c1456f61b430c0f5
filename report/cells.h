/* Cells of a report's table, written one after another. */
#ifndef REPORT_CELLS_H
#define REPORT_CELLS_H

#include "circe/export.h"
#include "report/report.h"

typedef struct cells {
    char **text;
    int64_t n;
} cells;

void cells_add(cells *list, const char *format, ...) CIRCE_PRINTF(2, 3);
/* Four digits; a dash where there is none. */
void cells_add_number(cells *list, double value);
void cells_free(cells *list);

/* A table of them: the first column is text, the others numbers. Valid as long as the cells. */
enum { CELLS_MOST_COLUMNS = 32 };
report_table cells_table(const cells *list, const char *caption, const char *const *columns, int64_t n_columns);

#endif
