/* What `circe test` knows about rows beside x, y and z: their weights, groups and times. */
#ifndef JOBS_TEST_ROWS_H
#define JOBS_TEST_ROWS_H

#include "circe/test_job.h"
#include "io/inputs.h"

enum { ROW_WEIGHTS, ROW_GROUPS, ROW_TIME, N_ROW_COLUMNS };

typedef struct row_column {
    const char *source; /* of the option; NULL: not given */
    input in;
    double *values; /* (rows), owned */
} row_column;

void row_columns_of(const circe_test_job_options *options, row_column columns[N_ROW_COLUMNS]);
void row_columns_free(row_column columns[N_ROW_COLUMNS]);
/* Adds those that are given to the inputs that belong together; returns how many there are then. */
int row_columns_join(row_column columns[N_ROW_COLUMNS], variable *variables, input **group, int n);
/* The values of what was read, checked. */
circe_status row_columns_take(row_column columns[N_ROW_COLUMNS]);
/* The same for values that have been read already, from `columns` columns. Dates become their order. texts: those of
 * the codes, NULL-terminated; NULL: the values are numbers. NaN stays. */
circe_status row_values_settle(int kind, const char *source, int64_t columns, char *const *texts, double *values,
                               int64_t rows);

#endif
