/* Results as JSON: numbers, lists, kernels. */
#ifndef JOBS_JSON_H
#define JOBS_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "circe/circe.h"
#include "circe/job.h"

/* Numbers are written with 17 significant digits, enough to read back the same double; what is not finite as null. */
void json_number(cJSON *object, const char *name, double value);
void json_integer(cJSON *object, const char *name, int64_t value);
void json_numbers(cJSON *object, const char *name, const double *values, int64_t n);
void json_table(cJSON *object, const char *name, const double *values, int64_t rows, int64_t cols);
void json_notes(cJSON *object, const circe_notes *warnings);

/* "kernel_x": its text, and "sigma2_x": its width; null where it has none, a list where it has several. */
void json_kernel(cJSON *object, const char *label, const circe_kernel *kernel);

/* "loo": the leave-one-out table of a fit, with its best point. */
void json_loo(cJSON *object, const circe_cme *cme);

/* As text in lines; deletes the object. NULL, with the thread's error: no memory. */
char *json_text(cJSON *object);

/* As text in UTF-8, in lines or in one, to be freed; NULL: no memory. */
char *json_utf8(const cJSON *object, bool lines);

#endif
