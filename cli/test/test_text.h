/* The result of `circe test` as people read it. */
#ifndef CLI_TEST_TEXT_H
#define CLI_TEST_TEXT_H

#include <stdbool.h>

#include "circe/test_job.h"

void tests_result_text(const circe_tests_result *r, bool quiet);
void test_result_text(const circe_test_job_result *result, bool quiet);

#endif
