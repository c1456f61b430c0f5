/* What a result says about columns that are not plain numbers. */
#pragma once

#include <cjson/cJSON.h>

#include "io/inputs.h"

/* Those of n inputs. */
circe_columns columns_described(const input *const *group, int n);
/* The job has turned a column with few different numbers into categories. */
void columns_add_few(circe_columns *columns, const char *name, int64_t categories);
void columns_clear(circe_columns *columns);

/* "columns": a list of objects. */
void json_columns(cJSON *object, const circe_columns *columns);

/* Why it is categories: "no cell is a number". */
const char *columns_because(const circe_column *column);
