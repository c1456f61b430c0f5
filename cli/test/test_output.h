/* The result of a test in aligned text. */
#ifndef CLI_TEST_OUTPUT_H
#define CLI_TEST_OUTPUT_H

#include "circe/test_job.h"

/* Rows of text: statistic, null, rows, kernels, and the table of the regressions. */
void test_text(const circe_test_result *result);

void test_text_effects(const circe_effects *effects);
void test_text_along(const circe_test_profile *along);

/* The histogram of p-values under independence. */
void calibration_text(const circe_test_calibration *c, double alpha);

#endif
