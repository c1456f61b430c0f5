/* Results as people read them, on standard output. */
#pragma once

#include <stdbool.h>

#include "circe/audit.h"
#include "circe/measure_job.h"
#include "circe/test_job.h"

void measure_result_text(const circe_measure_job_result *result, bool quiet);
void test_result_text(const circe_test_job_result *result, bool quiet);
void tests_result_text(const circe_tests_result *r, bool quiet);

/* `folder` has the report. */
void audit_text(const circe_audit_result *result, const char *folder, bool quiet);
