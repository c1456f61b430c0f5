/* A measure in words: kernels, widths, ridge and fit in one sentence. */
#include "measures/measuring_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *circe_measure_text(const circe_measure *m) { return m == NULL ? "none" : m->text; }

static void say(circe_measure *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(circe_measure *m, const char *format, ...) {
    size_t used = strlen(m->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(m->text + used, sizeof m->text - used, format, arguments);
    va_end(arguments);
}

static void say_kernel_x(circe_measure *m) {
    const circe_measure_options *o = &m->options;
    circe_kernel_factor factor = {0};
    if (m->asked_x == NULL) return;
    bool plain = circe_kernel_n_factors(m->asked_x) == 1 &&
                 circe_kernel_get_factor(m->asked_x, 0, &factor) == CIRCE_OK && factor.kind == CIRCE_KERNEL_GAUSSIAN;
    if (!plain || circe_kernel_n_free(m->asked_x) == 0)
        say(m, "; kernel of x %s", circe_kernel_text(m->asked_x));
    else if (o->sigma2_x > 0.0)
        say(m, "; kernel of x gaussian(%g)%s", o->sigma2_x, o->per_dimension ? " times its columns" : "");
    else
        say(m, "; kernel of x gaussian(%s)",
            circe__measure_runs(m)      ? "running median of the batches"
            : circe__measure_follows(m) ? "median of the batch"
                                        : "median");
    if (o->normalize_x != CIRCE_NORMALIZE_NONE)
        say(m, ", x normalised by %s", o->normalize_x == CIRCE_NORMALIZE_ROWS ? "rows" : "batch");
}

static void say_fit(circe_measure *m) {
    circe_cme_info info;
    if (m->mean == NULL || circe_cme_get_info(m->mean, &info) != CIRCE_OK) return;
    say(m, "; leave-one-out error %.4g on %lld holdout rows, method %s", info.loo_error, (long long)info.rows,
        circe_method_name(info.method));
    if (m->own_mean != NULL && m->options.method == CIRCE_METHOD_RFF)
        say(m, " with %lld features", (long long)m->options.rff_features);
}

void circe__measure_describe(circe_measure *m) {
    const circe_measure_options *o = &m->options;
    m->text[0] = '\0';
    say(m, "%s", m->row->name);
    if (circe__uses(m, CIRCE_USES_ESTIMATOR)) say(m, ", %s", circe_estimator_name(o->estimator));
    if (circe__uses(m, CIRCE_USES_GCM)) {
        say(m, ", %s of T, %s regression", circe_gcm_combine_name(o->gcm_combine),
            circe_gcm_regression_name(o->gcm_regression));
        if (o->gcm_previous_batch) say(m, " on the previous batch");
    }
    if (o->dtype == CIRCE_FLOAT64) say(m, ", in float64");
    say_kernel_x(m);
    if (m->kernel_y != NULL) say(m, "; kernel of y %s", circe_kernel_text(m->kernel_y));
    if (m->kernel_z != NULL) say(m, "; kernel of z %s", circe_kernel_text(m->kernel_z));
    if (m->ridge > 0.0) say(m, "; ridge %g", m->ridge);
    if (circe__uses(m, CIRCE_USES_EPSILON)) say(m, "; epsilon %g", o->epsilon);
    if (circe__measure_holds_out(m)) say(m, "; z regressed on the holdout");
    say_fit(m);
}
