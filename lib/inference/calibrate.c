/* Calibration runs the test on data whose x was drawn again given y (resample.c), and summarises the p-values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/settings.h"
#include "core/sort.h"
#include "inference/dependence.h"
#include "inference/resample.h"

/* Keeps only the p-value of the nested test. */
static circe_status run_null(const circe__resampler *resampler, int64_t repetition, double *x, double *p_value) {
    circe__data null = *resampler->data; /* borrows everything but x */
    circe_test_result result;
    circe__resample(resampler, (uint64_t)repetition, x);
    null.x.points = x;
    null.options.seed += 0x9e3779b97f4a7c15u * (uint64_t)(repetition + 1);
    null.options.skip_checks = 1;
    circe_status status = circe__test_run(&null, &result);
    *p_value = result.p_value;
    return status;
}

circe_status circe_test_calibrate(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                  const circe_test_options *options, int64_t repetitions, double *p_values) {
    CIRCE_OWN_SETTINGS;
    circe__data data;
    circe__resampler resampler = {0};
    if (p_values == NULL || repetitions < 1)
        return circe_fail(CIRCE_ERR_ARGUMENT, "calibration needs at least 1 repetition and an array for its p-values");
    circe_status status = circe__refuse_dependent(options, "calibration");
    if (status == CIRCE_OK) status = circe__data_begin(context, x, y, z, options, &data);
    if (status != CIRCE_OK) return status;
    int threads = circe__threads_begin(context);
    CIRCE__OWNED double *again = circe__alloc(context, data.n * data.x.dim, sizeof *again);
    status = again == NULL ? CIRCE_ERR_MEMORY : circe__resampler_make(&data, &resampler);
    for (int64_t r = 0; status == CIRCE_OK && r < repetitions; r++) {
        status = run_null(&resampler, r, again, &p_values[r]);
        if (status == CIRCE_OK) status = circe__progress(context, "calibration", r + 1, repetitions);
    }
    circe__resampler_free(context, &resampler);
    circe__data_free(&data);
    return circe__threads_finish(threads, status);
}

/* ---- the summary ------------------------------------------------------------------------------------------------- */

/* Wilson's 95 % interval of a share. */
static void wilson(double share, double n, double *lower, double *upper) {
    const double z = 1.959963984540054;
    double middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    double half = z / (1.0 + z * z / n) * sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n));
    *lower = fmax(middle - half, 0.0);
    *upper = fmin(middle + half, 1.0);
}

/* Kolmogorov's limit, with Stephens' correction for small n. */
static double kolmogorov_p(const double *sorted, int64_t n) {
    double largest = 0.0, sum = 0.0, root = sqrt((double)n);
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)(i + 1) / (double)n - sorted[i]));
        largest = fmax(largest, fabs(sorted[i] - (double)i / (double)n));
    }
    double t = (root + 0.12 + 0.11 / root) * largest;
    if (t < 0.2) return 1.0;
    for (int k = 1; k <= 100; k++) sum += (k % 2 == 1 ? 2.0 : -2.0) * exp(-2.0 * (double)(k * k) * t * t);
    return fmin(fmax(sum, 0.0), 1.0);
}

/* What the share of rejections says about the level. */
static const char *level_words(double alpha, const circe_calibration *s) {
    if (s->trust == CIRCE_TRUST_POOR) return "Its p-values are too small on data like these. Do not use them.";
    if (s->trust == CIRCE_TRUST_DOUBTFUL) return "Its p-values are too small on data like these. Use them with care.";
    if (s->level_upper < alpha) return "The test is conservative: it rejects less often than its level allows.";
    return NULL;
}

static void say(double alpha, int64_t n, circe_calibration *s) {
    s->trust = s->level_lower <= alpha         ? CIRCE_TRUST_GOOD
               : s->level_lower <= 1.5 * alpha ? CIRCE_TRUST_DOUBTFUL
                                               : CIRCE_TRUST_POOR;
    int used = snprintf(s->verdict, sizeof s->verdict,
                        "On %lld data sets like this one, but without dependence, the test rejects %.3g %% of the time "
                        "at level %g (95 %% interval %.3g to %.3g %%). ",
                        (long long)n, 100.0 * s->level, alpha, 100.0 * s->level_lower, 100.0 * s->level_upper);
    const char *words = level_words(alpha, s);
    if (words != NULL)
        snprintf(s->verdict + used, sizeof s->verdict - (size_t)used, "%s", words);
    else
        snprintf(s->verdict + used, sizeof s->verdict - (size_t)used, "This is consistent with the nominal %g %%.%s",
                 100.0 * alpha,
                 s->level_upper < 2.0 * alpha ? "" : " Use a larger --calibrate for a tighter estimate.");
}

circe_status circe_calibration_summary(const double *p_values, int64_t n, double alpha, int64_t bins, int64_t *counts,
                                       circe_calibration *summary) {
    CIRCE_OWN_SETTINGS;
    if (p_values == NULL || summary == NULL || n < 1)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a summary needs at least 1 p-value");
    if (!(alpha > 0.0 && alpha < 1.0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "alpha is %g; it must lie between 0 and 1", alpha);
    if (counts == NULL ? bins != 0 : bins < 1)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a histogram needs at least 1 bin and an array for its counts");
    for (int64_t i = 0; i < n; i++)
        if (!(p_values[i] >= 0.0 && p_values[i] <= 1.0))
            return circe_fail(CIRCE_ERR_VALUE, "p-value %lld is %g", (long long)i, p_values[i]);
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (sorted == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for %lld p-values", (long long)n);
    memcpy(sorted, p_values, (size_t)n * sizeof *sorted);
    circe__sort(sorted, n);
    *summary = (circe_calibration){0};
    if (counts != NULL) memset(counts, 0, (size_t)bins * sizeof *counts);
    for (int64_t i = 0; i < n; i++) {
        summary->level += (p_values[i] <= alpha) / (double)n;
        if (counts != NULL) counts[circe__min((int64_t)(p_values[i] * (double)bins), bins - 1)]++;
    }
    wilson(summary->level, (double)n, &summary->level_lower, &summary->level_upper);
    summary->uniform_p = kolmogorov_p(sorted, n);
    say(alpha, n, summary);
    free(sorted);
    return CIRCE_OK;
}
