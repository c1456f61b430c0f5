/* What both forms of `circe measure` say of a run beside the values: its rows, regression and kernels. */
#ifndef CLI_MEASURE_OUTPUT_H
#define CLI_MEASURE_OUTPUT_H

#include <cjson/cJSON.h>

#include "cli/measure/measure_job.h"

/* n (`rows`), where the mean of z comes from, kernels, ridge or epsilon, method. */
void measure_json(cJSON *out, const measure_job *job, int64_t rows);

/* The notes and the seconds of the fit, which end an object. */
void measure_json_end(cJSON *out, const measure_job *job);

/* The same as rows of text, after the number of rows. */
void measure_text(const measure_job *job);

#endif
