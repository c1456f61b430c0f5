/* The histogram of p-values under independence. */
#include "jobs/calibration.h"

#include <math.h>

#include "base/clock.h"
#include "jobs/json.h"

circe_status calibration_run(arena *owner, circe_context *context, const circe_mat *x, const circe_mat *y,
                             const circe_mat *z, const circe_test_options *options, int64_t repetitions,
                             calibration *out) {
    double start = job_clock();
    *out = (calibration){.repetitions = repetitions, .rows = x->rows};
    out->p_values = arena_alloc(owner, (size_t)repetitions * sizeof *out->p_values);
    circe_status status = circe_test_calibrate(context, x, y, z, options, repetitions, out->p_values);
    if (status == CIRCE_OK)
        status = circe_calibration_summary(out->p_values, repetitions, options->alpha, CIRCE_CALIBRATION_BINS,
                                           out->counts, &out->summary);
    out->seconds = job_clock() - start;
    return status;
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

static void put_outline(const calibration *c, report_series *s) {
    chart_point(s, 0, 0);
    for (int b = 0; b < CIRCE_CALIBRATION_BINS; b++)
        for (int end = 0; end < 2; end++)
            chart_point(s, (b + end) / (double)CIRCE_CALIBRATION_BINS, (double)c->counts[b]);
    chart_point(s, 1, 0);
}

void calibration_panel(chart *to, const calibration *list, const char *const *names, int n, const char *title) {
    double all = (double)list->repetitions, share = 1.0 / CIRCE_CALIBRATION_BINS;
    double expected = all * share, spread = 1.96 * sqrt(all * share * (1 - share));
    report_panel *panel = chart_panel(to, title, "p-value", "data sets");
    report_series *uniform = chart_series(to, panel, REPORT_LINE, CHART_GREY, "uniform, 95 % of chance", 2);
    uniform->dashed = true;
    for (int end = 0; end < 2; end++) chart_band(uniform, end, expected, fmax(0, expected - spread), expected + spread);
    for (int k = 0; k < n; k++)
        put_outline(&list[k], chart_series(to, panel, REPORT_LINE, k, names[k], 2 * CIRCE_CALIBRATION_BINS + 2));
}
