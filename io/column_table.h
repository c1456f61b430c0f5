/* Columns of one table, by their names: of a file, or in memory. */
#pragma once

#include "io/inputs.h"

/* What was asked for, each name once. A column of a .csv is one column; an array of an .npz or .safetensors may have
 * several, "x:0", "x:1", ..., of which one can be asked for by that name; the columns of an .npy are called "0", "1",
 * ... */
typedef struct column_table {
    input in;               /* values in float64, codes where there was text; in.table has names and categories */
    int64_t *first, *count; /* (names asked for): where each lies */
} column_table;

/* Reads a table in memory or, if `memory` is NULL, the file at `path`. With `by_place`, an .npy that has exactly as
 * many columns as there are names is taken as these columns in their order, unless the names are numbers.
 * inputs_check_categories checks afterwards that every item of --categories was found. */
circe_status column_table_read(const circe_table *memory, const char *path, const name_list *wanted, const reading *how,
                               bool by_place, column_table *table);
/* Adds a column of numbers, as if it had been requested last; NaN: missing. Call it before rows are left out. */
circe_status column_table_add(column_table *table, const char *name, const double *values);
void column_table_free(column_table *table);

double column_value(const column_table *table, int64_t row, int64_t col);
const char *column_name(const column_table *table, int64_t col);

/* The texts of a column, NULL-terminated; NULL if it holds numbers. */
char *const *column_categories(const column_table *table, int64_t col);
int64_t column_n_categories(const column_table *table, int64_t col);

/* Its numbers 0 and 1 stand for False and True. */
bool column_is_boolean(const column_table *table, int64_t col);

/* All rows have the same value. */
bool column_is_constant(const column_table *table, int64_t col);
