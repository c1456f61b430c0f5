/* The result of a test in JSON and in aligned text. */
#ifndef CLI_TEST_OUTPUT_H
#define CLI_TEST_OUTPUT_H

#include <cjson/cJSON.h>

#include "circe/test.h"

/* method, null, statistic, p_value, n, seconds, trust, verdict, diagnostics. */
void test_json(cJSON *out, const circe_test_result *result);

/* Rows of text: statistic, null, rows, kernels, and the table of the regressions. */
void test_text(const circe_test_result *result);

/* "effects": kpc and circe with their intervals. */
void test_json_effects(cJSON *out, const circe_effects *effects);
void test_text_effects(const circe_effects *effects);

/* A p-value as people read it: "0.012", "2.1e-07", "<1e-12", where formulas say no more; or "= 0.012", "< 1e-12". */
const char *test_p_text(double p, char *out, size_t size);
const char *test_p_equals(double p, char *out, size_t size);

/* Where the dependence sits along one column of y: arrays of `points`. */
typedef struct test_along {
    const char *column; /* its name; NULL: there is none */
    int64_t points;
    double *place, *value, *lower, *upper, *null_upper;
} test_along;

enum { TEST_ALONG_ARRAYS = 5 };

/* Memory for `points` places, in one block that begins at `place`. */
test_along test_along_make(const char *column, int64_t points);
void test_along_free(test_along *along);

void test_json_along(cJSON *out, const test_along *along);
void test_text_along(const test_along *along);

#endif
