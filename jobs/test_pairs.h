/* The questions of many tests, from a file: a table of text with the columns x, z and y. */
#ifndef JOBS_TEST_PAIRS_H
#define JOBS_TEST_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "circe/test_job.h"

/* Questions with texts of their own, one per line. Errors name line and column. Frees nothing on failure. */
circe_status pairs_read(const char *path, circe_question **questions, int64_t **lines, int64_t *n);
void pairs_free(circe_question *questions, int64_t n);

#endif
