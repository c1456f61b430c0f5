/* The result of `circe measure` as people read it. */
#include "cli/results.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/common/output.h"
#include "cli/common/text.h"

static void text_mean(const circe_measure_job_result *r) {
    circe_cme_info info;
    char time[32];
    circe_cme_get_info(r->mean, &info);
    text_seconds(info.seconds, time, sizeof time);
    if (r->source == CIRCE_MEAN_FROM_MODEL)
        text_row("mean of z given y", "from %s (%" PRId64 " rows)", r->model, info.rows);
    else if (r->source == CIRCE_MEAN_FROM_HOLDOUT)
        text_row("mean of z given y", "fitted on %" PRId64 " holdout rows in %s", info.rows, time);
    else
        text_row("mean of z given y", "fitted in %s on %" PRId64 " rows set aside: %s by --seed %" PRId64, time,
                 info.rows, r->in_blocks ? "chosen" : "the data were split into two halves", r->seed);
    text_row("method", "%s, ranks %" PRId64 " and %" PRId64, circe_method_name(info.method), info.rank_y, info.rank_z);
}

static bool by_least_squares(const circe_measure_job_result *r) {
    return r->meaning != NULL && (r->uses & CIRCE_USES_GCM) && strcmp(r->regression, "linear") == 0;
}

/* How the measured rows are regressed on themselves. */
static void text_batch(const circe_measure_job_result *r) {
    const char *method = by_least_squares(r) ? "by least squares" : r->method;
    const char *label = by_least_squares(r) ? "" : "method ";
    if (!(r->uses & CIRCE_USES_Y))
        text_row("y", "not used");
    else if (!(r->uses & CIRCE_USES_BATCH))
        return;
    else if (r->meaning == NULL)
        text_row("regression on y", "for all but circe and hsic: the measured rows on themselves, method %s%s", method,
                 r->hold_out ? "; for z in hscic and gcm: the mean above" : "");
    else if (r->hold_out)
        text_row("regression on y", "for x: the measured rows on themselves, %s%s; for z: the mean above", label,
                 method);
    else
        text_row("regression on y", "the measured rows on themselves, %s%s", label, method);
}

static void text_choice(const circe_measure_job_result *r) {
    circe_cme_info info;
    circe_loo_table loo;
    char time[32];
    if (r->choice == NULL) return;
    circe_cme_get_info(r->choice, &info);
    circe_cme_get_loo(r->choice, &loo);
    text_seconds(info.seconds, time, sizeof time);
    if (loo.sigma2_y != NULL)
        text_row("leave-one-out",
                 "chose the width of y and the ridge on the measured rows, among %" PRId64 " x %" PRId64 ", in %s",
                 loo.n_sigma2_y, loo.n_ridge, time);
    else
        text_row("leave-one-out", "chose the ridge on the measured rows, among %" PRId64 ", in %s", loo.n_ridge, time);
}

/* Rows, regression and kernels: what a run says beside the values. */
static void text_run(const circe_measure_job_result *r) {
    char kernel[512];
    text_columns(&r->columns);
    if (strcmp(r->transform, "none") != 0) text_row("transform", "%s", r->transform);
    if (r->mean != NULL) text_mean(r);
    text_batch(r);
    if (r->kernels.x != NULL) text_row("kernel of x", "%s", text_kernel(r->kernels.x, kernel, sizeof kernel));
    if (r->kernels.y != NULL) text_row("kernel of y", "%s", text_kernel(r->kernels.y, kernel, sizeof kernel));
    if (r->kernels.z != NULL) text_row("kernel of z", "%s", text_kernel(r->kernels.z, kernel, sizeof kernel));
    if (r->uses & CIRCE_USES_RIDGE) text_row("ridge", "%g", r->ridge);
    text_choice(r);
    if (r->uses & CIRCE_USES_EPSILON)
        text_row("epsilon", "%g, a ridge of %g", r->epsilon, r->epsilon * (double)r->batch);
    if (r->uses & CIRCE_USES_GCM) text_row("gcm", "regression %s, combined by %s", r->regression, r->combine);
}

static void text_blocks(const circe_measure_job_result *r) {
    const circe_block_result *b = NULL;
    for (size_t i = r->n; i-- > 0;)
        if (r->values[i].blocks.blocks > 0 && r->values[i].error == NULL) b = &r->values[i].blocks;
    if (b != NULL) {
        text_row("standard error", "%.3g", b->standard_error);
        text_row("blocks",
                 "the value is the mean over %" PRId64 " random blocks of %" PRId64 " rows (--seed %" PRId64
                 "), each measured separately",
                 b->blocks, b->block_rows, r->seed);
    }
    if (b != NULL || r->read < r->given)
        text_row("rows given", "%" PRId64 "%s", r->given,
                 r->read < r->given ? "; --rows took a random sample of them" : "");
}

static void text_one(const circe_measure_job_result *r, bool quiet) {
    const circe_measured *v = &r->values[0];
    char time[32];
    printf("%s = %.10g\n", v->measure, v->value);
    if (quiet) return;
    putchar('\n');
    if (v->estimator != NULL) text_row("estimator", "%s", v->estimator);
    text_row("rows measured", "%" PRId64 ", in %s", r->rows, text_seconds(v->seconds, time, sizeof time));
    text_blocks(r);
    text_run(r);
    if (r->gradient != NULL)
        text_row("gradient", "%s, %" PRId64 " x %" PRId64 "%s", r->gradient, r->grad.rows, r->grad.cols,
                 r->source == CIRCE_MEAN_FROM_SPLIT ? ", for the measured rows only" : "");
    putchar('\n');
    text_wrap(stdout, r->meaning, 0, 0, text_width());
}

static void text_value(const circe_measured *v) {
    printf("  %-14s  %-9s  ", v->measure, v->estimator != NULL ? v->estimator : "");
    if (v->error != NULL)
        printf("%13s  %9s  failed: %s\n", "-", "-", v->error);
    else if (v->skipped)
        printf("%13s  %9s  skipped: too many rows\n", "-", "-");
    else
        printf("%13.8g  %9.6f  %s\n", v->value, v->seconds, v->reading);
}

static void text_all(const circe_measure_job_result *r, bool quiet) {
    printf("  %-14s  %-9s  %13s  %9s  %s\n", "measure", "estimator", "value", "seconds", "reading");
    for (size_t i = 0; i < r->n; i++) text_value(&r->values[i]);
    if (quiet) return;
    putchar('\n');
    text_row("rows measured", "%" PRId64, r->rows);
    text_blocks(r);
    text_run(r);
    putchar('\n');
    text_wrap(stdout,
              "The scales differ: compare each measure only with itself, on another x or after training. `circe "
              "measure --help` says what each measure cannot see.",
              0, 0, text_width());
}

void measure_result_text(const circe_measure_job_result *r, bool quiet) {
    if (r->meaning != NULL)
        text_one(r, quiet);
    else
        text_all(r, quiet);
}
