/* The result of a test as JSON, and p-values as people read them. */
#pragma once

#include <cjson/cJSON.h>

#include "circe/test_job.h"

/* method, null, statistic, p_value, n, seconds, trust, verdict, diagnostics. */
void test_json(cJSON *out, const circe_test_result *result);

/* "effects": kpc and circe with their intervals. */
void test_json_effects(cJSON *out, const circe_effects *effects);

/* A p-value as people read it: "0.012", "2.1e-07", "<1e-12", where formulas say no more; or "= 0.012", "< 1e-12". */
const char *test_p_text(double p, char *out, size_t size);
const char *test_p_equals(double p, char *out, size_t size);

void test_json_along(cJSON *out, const circe_effects_along *along);
