/* Columns that determine each other, as copies under another name do. */
#pragma once

#include "io/column_table.h"

/* Columns, each alone and then all together, of which rows are less often alike; sorted. */
typedef struct relations {
    struct joined *of;
    int64_t n;
} relations;

/* Of n columns without missing cells. False: there are too few rows to tell, or there is no memory; it must be freed
 * in any case. */
bool relations_make(const column_table *table, const int64_t *cols, int64_t n, relations *out);
void relations_free(relations *all);

/* Whether one of them, or all together, determine the column in every row. */
bool relations_determine(const column_table *table, const relations *from, int64_t col);
