/* The parts of `circe test`. */
#pragma once

#include "base/arena.h"
#include "circe/test_job.h"
#include "io/column_table.h"
#include "io/inputs.h"

enum { TEST_LEAST_ROWS = 8 };

/* ---- test_rows.c: weights, groups and times of the rows ---------------------------------------------------------- */

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
/* values[0..rows) := those of columns [first, first + columns) of what was read, which must be one, checked. Dates
 * become their order; NaN stays. */
circe_status row_values_take(int kind, const char *source, const input *from, int64_t first, int64_t columns,
                             double *values);

/* ---- test_pairs.c: the questions of many tests, from a file with the columns x, z and y -------------------------- */

/* Questions with their texts in the arena, one per line; the lists are to be freed, whatever happens. Errors name line
 * and column. */
circe_status pairs_read(arena *owner, const char *path, circe_question **questions, int64_t **lines, int64_t *n);

/* ---- test_cache.c: results on disk, by the content of what was tested -------------------------------------------- */

typedef struct test_key {
    uint64_t word[2];
} test_key;

/* The key covers the data, the kernels, all options that matter, and the version. */
test_key test_key_of(const circe_mat *x, const circe_mat *y, const circe_mat *z, const circe_test_options *options);

/* The result in the folder; false: there is none, or none that can be used. */
bool test_cache_read(const char *folder, test_key key, circe_test_result *result);
circe_status test_cache_write(const char *folder, test_key key, const circe_test_result *result);

/* ---- test_questions.c: what many tests ask, by the columns of their table ---------------------------------------- */

/* Columns of the table, and a question by them. */
typedef struct column_set {
    int64_t *at, n;
} column_set;

enum { OF_X, OF_Y, OF_Z, QUESTION_ROLES };
typedef struct question_columns {
    column_set of[QUESTION_ROLES];
} question_columns;

typedef struct question_set {
    const circe_test_job_options *options;
    const circe_question *list; /* NULL: those of --pairs */
    int64_t n;
    circe_question *read;           /* the list, from a file */
    int64_t *lines;                 /* of the file; NULL: none */
    column_table table;             /* with every column that is named */
    double *of_rows[N_ROW_COLUMNS]; /* (rows): weights, groups, times; NULL: none */
    question_columns *columns;      /* (n) */
    arena owner;                    /* of texts and columns */
} question_set;

/* options, list and n are set. conditions: whether the test looks at y. */
circe_status questions_read(const circe_table *table, bool conditions, question_set *qs);
void questions_free(question_set *qs);
