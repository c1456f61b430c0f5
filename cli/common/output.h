/* Results: one JSON object for programs, aligned text for people. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "circe/circe.h"
#include "cli/common/message.h"
#include "io/json.h"

void json_notes(cJSON *object, const notes *warnings);

/* "kernel_x": its text, and "sigma2_x": its width; null where it has none, a list where it has several. */
void json_kernel(cJSON *object, const char *label, const circe_kernel *kernel);

/* "loo": the leave-one-out table of a fit, with its best point. */
void json_loo(cJSON *object, const circe_cme *cme);

/* Prints the object and a line end on standard output, and deletes it. */
int json_print(cJSON *object);

/* "  name                value" */
void text_row(const char *name, const char *format, ...) PRINTF_LIKE(2, 3);

/* A kernel with widths of 5 digits, as "gaussian(0.70951)". */
const char *text_kernel(const circe_kernel *kernel, char *out, size_t size);

/* The same for any text with numbers in parentheses. */
const char *text_widths(const char *text, char *out, size_t size);

/* The leave-one-out table with the best cell marked. */
void text_loo(const circe_loo_table *table);

/* Seconds with a unit that suits them, as "1.24 ms". */
const char *text_seconds(double seconds, char *out, size_t size);

#endif
