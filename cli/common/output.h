/* Results: one JSON object for programs, aligned text for people. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "circe/circe.h"
#include "cli/common/message.h"
#include "jobs/columns.h"
#include "jobs/json.h"

/* Prints a text of JSON (NULL: it failed) and frees it. */
int output_json(char *text);

/* Prints the object and a line end on standard output, and deletes it. */
int json_print(cJSON *object);

/* "  name                value" */
void text_row(const char *name, const char *format, ...) PRINTF_LIKE(2, 3);

/* "read as" rows: what columns are that are not plain numbers. */
void text_columns(const circe_columns *columns);

/* A kernel with widths of 5 digits, as "gaussian(0.70951)". */
const char *text_kernel(const circe_kernel *kernel, char *out, size_t size);

/* The leave-one-out table with the best cell marked. */
void text_loo(const circe_loo_table *table);

/* Seconds with a unit that suits them, as "1.24 ms". */
const char *text_seconds(double seconds, char *out, size_t size);
