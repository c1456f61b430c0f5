/* The result of `circe measure` as people read it. */
#ifndef CLI_MEASURE_TEXT_H
#define CLI_MEASURE_TEXT_H

#include <stdbool.h>

#include "circe/measure_job.h"

void measure_result_text(const circe_measure_job_result *result, bool quiet);

#endif
