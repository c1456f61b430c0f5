/* Turns columns of text into numbers, one input per category. The model keeps the categories, so that later tables get
 * the same inputs. */
#pragma once

#include <cjson/cJSON.h>

#include "io/column_table.h"

/* How the columns of a model's features become its inputs. */
typedef struct encoding {
    name_list names;       /* columns, or arrays, of a table */
    int64_t *count;        /* (names): columns of each; 1 except for arrays */
    name_list *categories; /* (names): of a column of text; none: numbers */
    int64_t n_columns;     /* in all */
    int64_t n_inputs;
} encoding;

/* From a table that was just read, whose columns cols[0..n) are those of `names`. */
void encoding_make(const column_table *table, const name_list *names, const int64_t *count, const int64_t *cols,
                   encoding *out);
void encoding_free(encoding *e);

/* "age", "sex=female", "sex=male": the inputs' names. */
void encoding_inputs(const encoding *e, const column_table *table, const int64_t *cols, name_list *inputs);

/* out (rows, n_inputs) := the columns cols[0..n_columns) of a table. A row with a missing cell becomes NaN. Refuses
 * text in a column that was numbers, and unknown categories. */
circe_status encoding_apply(const encoding *e, const column_table *table, const int64_t *cols, double *out);

/* [{"name": "sex", "categories": ["female", "male"]}, {"name": "x", "columns": 3}, {"name": "age"}] */
cJSON *encoding_json(const encoding *e);
/* false: the JSON is none of an encoding. */
bool encoding_parse(const cJSON *json, encoding *out);
