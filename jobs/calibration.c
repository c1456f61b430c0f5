/* The histogram of p-values under independence. */
#include "jobs/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/small.h"
#include "jobs/json.h"

circe_status calibration_run(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                             const circe_test_options *options, int64_t repetitions, calibration *out) {
    double start = job_clock();
    *out = (calibration){.repetitions = repetitions, .rows = x->rows};
    out->p_values = small_alloc((size_t)repetitions * sizeof *out->p_values);
    circe_status status = circe_test_calibrate(context, x, y, z, options, repetitions, out->p_values);
    if (status == CIRCE_OK)
        status = circe_calibration_summary(out->p_values, repetitions, options->alpha, CIRCE_CALIBRATION_BINS,
                                           out->counts, &out->summary);
    out->seconds = job_clock() - start;
    return status;
}

void calibration_free(calibration *c) {
    free(c->p_values);
    *c = (calibration){0};
}

void calibration_json(cJSON *out, const calibration *c, double alpha) {
    cJSON *object = cJSON_AddObjectToObject(out, "calibration");
    json_integer(object, "repetitions", c->repetitions);
    json_integer(object, "rows", c->rows);
    json_number(object, "alpha", alpha);
    json_number(object, "level", c->summary.level);
    json_number(object, "level_lower", c->summary.level_lower);
    json_number(object, "level_upper", c->summary.level_upper);
    json_number(object, "uniform_p", c->summary.uniform_p);
    cJSON_AddStringToObject(object, "trust", circe_trust_name(c->summary.trust));
    cJSON_AddStringToObject(object, "verdict", c->summary.verdict);
    cJSON *counts = cJSON_AddArrayToObject(object, "counts");
    for (int b = 0; b < CIRCE_CALIBRATION_BINS; b++)
        cJSON_AddItemToArray(counts, cJSON_CreateNumber((double)c->counts[b]));
    json_numbers(object, "p_values", c->p_values, c->repetitions);
    json_number(object, "seconds", c->seconds);
}

/* ---- the figure -------------------------------------------------------------------------------------------------- */

static void put_outline(const calibration *c, double *x, double *y) {
    int at = 0;
    x[at] = 0, y[at++] = 0;
    for (int b = 0; b < CIRCE_CALIBRATION_BINS; b++) {
        for (int end = 0; end < 2; end++) {
            x[at] = (b + end) / (double)CIRCE_CALIBRATION_BINS;
            y[at++] = (double)c->counts[b];
        }
    }
    x[at] = 1, y[at] = 0;
}

void calibration_panel_make(const calibration *list, const char *const *names, int n, const char *title,
                            calibration_panel *out) {
    double all = (double)list->repetitions, share = 1.0 / CIRCE_CALIBRATION_BINS;
    double expected = all * share, spread = 1.96 * sqrt(all * share * (1 - share));
    for (int end = 0; end < 2; end++) {
        out->ends[end] = end;
        out->level[end] = expected;
        out->low[end] = fmax(0, expected - spread);
        out->high[end] = expected + spread;
    }
    out->series[0] = (report_series){.label = "uniform, 95 % of chance",
                                     .n = 2,
                                     .x = out->ends,
                                     .y = out->level,
                                     .low = out->low,
                                     .high = out->high,
                                     .style = REPORT_LINE,
                                     .colour = -1,
                                     .dashed = true};
    for (int k = 0; k < n; k++) {
        put_outline(&list[k], out->x[k], out->y[k]);
        out->series[1 + k] = (report_series){.label = names[k],
                                             .n = CALIBRATION_OUTLINE,
                                             .x = out->x[k],
                                             .y = out->y[k],
                                             .style = REPORT_LINE,
                                             .colour = k};
    }
    out->panel = (report_panel){
        .title = title, .x_label = "p-value", .y_label = "data sets", .series = out->series, .n_series = 1 + n};
}
