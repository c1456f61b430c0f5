/* p-values of data sets that were drawn again under independence: their histogram as JSON and as a figure. */
#pragma once

#include <cjson/cJSON.h>

#include "base/arena.h"
#include "circe/test_job.h"
#include "report/chart.h"

typedef circe_calibration_draws calibration;

/* Draws and sums up. */
circe_status calibration_run(arena *owner, circe_context *context, const circe_mat *x, const circe_mat *y,
                             const circe_mat *z, const circe_test_options *options, int64_t repetitions,
                             calibration *out);

void calibration_json(cJSON *out, const calibration *c, double alpha);

/* Adds a panel: the outlines of histograms of as many p-values, n calibrations with the names of their curves, and what
 * uniform ones would give, with the range of chance. */
void calibration_panel(chart *to, const calibration *list, const char *const *names, int n, const char *title);
