/* p-values of data sets that were drawn again under independence: their histogram as JSON and as a figure. */
#ifndef JOBS_CALIBRATION_H
#define JOBS_CALIBRATION_H

#include <cjson/cJSON.h>

#include "circe/test_job.h"
#include "report/report.h"

enum { CALIBRATION_OUTLINE = 2 * CIRCE_CALIBRATION_BINS + 2 };

typedef circe_calibration_draws calibration;

/* Draws and sums up. */
circe_status calibration_run(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                             const circe_test_options *options, int64_t repetitions, calibration *out);
void calibration_free(calibration *c);

void calibration_json(cJSON *out, const calibration *c, double alpha);

/* A panel of a figure: the outlines of histograms of as many p-values, and what uniform ones would give, with the range
 * of chance. */
enum { CALIBRATION_MOST = 2 };

typedef struct calibration_panel {
    double x[CALIBRATION_MOST][CALIBRATION_OUTLINE], y[CALIBRATION_MOST][CALIBRATION_OUTLINE];
    double ends[2], level[2], low[2], high[2];
    report_series series[1 + CALIBRATION_MOST];
    report_panel panel;
} calibration_panel;

/* n calibrations, one after another, with the names of their curves. The panel points into itself: it must not be
 * moved. */
void calibration_panel_make(const calibration *list, const char *const *names, int n, const char *title,
                            calibration_panel *out);

#endif
