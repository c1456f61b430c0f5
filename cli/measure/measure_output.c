/* A run in JSON and in aligned text. */
#include "cli/measure/measure_output.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "io/reading.h"

/* The word of a choice as the user writes it. */
static const char *word_of(const measure_job *j, spec_option_id id) { return args_text(j->arguments, id); }

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_source(cJSON *out, const measure_job *j, int64_t rows) {
    static const char *const names[] = {"batch", "model", "holdout", "split"};
    if (j->uses & USES_Y)
        cJSON_AddStringToObject(out, "mean_of_z", names[j->source]);
    else
        cJSON_AddNullToObject(out, "mean_of_z");
    if (j->source == MEAN_FROM_SPLIT) {
        cJSON *split = cJSON_AddObjectToObject(out, "split");
        json_integer(split, "seed", args_integer(j->arguments, OPT_SEED));
        json_integer(split, "holdout", j->holdout_y.values.rows);
        json_integer(split, "batch", rows);
    }
    if (j->source == MEAN_FROM_MODEL) cJSON_AddStringToObject(out, "model", args_text(j->arguments, OPT_MODEL));
    if (j->source == MEAN_FROM_HOLDOUT) json_integer(out, "dropped_holdout", j->dropped_holdout);
    if (j->uses & MAY_USE_MEAN) cJSON_AddStringToObject(out, "regress_z", word_of(j, OPT_REGRESS_Z));
}

static void json_method(cJSON *out, const measure_job *j) {
    circe_cme_info info;
    bool batch = (j->uses & USES_BATCH) && (j->uses & USES_REGRESSION);
    if (batch) cJSON_AddStringToObject(out, j->mean != NULL ? "batch_method" : "method", word_of(j, OPT_METHOD));
    if (j->mean != NULL) {
        circe_cme_get_info(j->mean, &info);
        cJSON_AddStringToObject(out, "method", circe_method_name(info.method));
        json_integer(out, "rank_y", info.rank_y);
        json_integer(out, "rank_z", info.rank_z);
    }
    if (j->choice != NULL) json_loo(out, j->choice);
}

void measure_json(cJSON *out, const measure_job *job, int64_t rows) {
    json_integer(out, "n", rows);
    json_integer(out, "dropped", job->dropped);
    cJSON_AddStringToObject(out, "transform", word_of(job, OPT_TRANSFORM));
    const input *const group[] = {&job->x, &job->y, &job->z};
    json_inputs(out, group, 3);
    json_source(out, job, rows);
    cJSON_AddStringToObject(out, "dtype", job->x.values.dtype == CIRCE_FLOAT32 ? "float32" : "float64");
    if (job->kernels.x != NULL) json_kernel(out, "x", job->kernels.x);
    if (job->kernels.y != NULL) json_kernel(out, "y", job->kernels.y);
    if (job->kernels.z != NULL) json_kernel(out, "z", job->kernels.z);
    if (job->uses & USES_RIDGE) json_number(out, "ridge", job->ridge);
    if (job->uses & USES_EPSILON) json_number(out, "epsilon", job->arguments->values[OPT_EPSILON].numbers[0]);
    if (job->uses & USES_GCM) {
        cJSON_AddStringToObject(out, "regression", word_of(job, OPT_REGRESSION));
        cJSON_AddStringToObject(out, "combine", word_of(job, OPT_COMBINE));
    }
    json_method(out, job);
}

void measure_json_end(cJSON *out, const measure_job *job) {
    const circe_cme *fitted = job->source == MEAN_OF_BATCH ? job->choice : job->mean;
    circe_cme_info info;
    json_notes(out, &(circe_notes){job->warnings.text, job->warnings.n});
    if (fitted == NULL || job->source == MEAN_FROM_MODEL) return;
    circe_cme_get_info(fitted, &info);
    json_number(out, "fit_seconds", info.seconds);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void text_mean(const measure_job *j) {
    circe_cme_info info;
    char time[32];
    circe_cme_get_info(j->mean, &info);
    text_seconds(info.seconds, time, sizeof time);
    if (j->source == MEAN_FROM_MODEL)
        text_row("mean of z given y", "from %s (%" PRId64 " rows)", args_text(j->arguments, OPT_MODEL), info.rows);
    else if (j->source == MEAN_FROM_HOLDOUT)
        text_row("mean of z given y", "fitted on %" PRId64 " holdout rows in %s", info.rows, time);
    else
        text_row("mean of z given y", "fitted in %s on %" PRId64 " rows that were set aside: %s by --seed %" PRId64,
                 time, info.rows, j->in_blocks ? "chosen" : "the data were split in two",
                 args_integer(j->arguments, OPT_SEED));
    text_row("method", "%s, ranks %" PRId64 " and %" PRId64, circe_method_name(info.method), info.rank_y, info.rank_z);
}

static bool by_least_squares(const measure_job *j) {
    return j->what != NULL && (j->uses & USES_GCM) && args_choice(j->arguments, OPT_REGRESSION) > 0;
}

/* How the measured rows are regressed on themselves. */
static void text_batch(const measure_job *j) {
    const char *method = by_least_squares(j) ? "by least squares" : word_of(j, OPT_METHOD);
    const char *label = by_least_squares(j) ? "" : "method ";
    if (!(j->uses & USES_Y))
        text_row("y", "not used");
    else if (!(j->uses & USES_BATCH))
        return;
    else if (j->what == NULL)
        text_row("regression on y", "of all but circe and hsic: the measured rows on themselves, method %s%s", method,
                 j->hold_out ? "; of z in hscic and gcm: the mean above" : "");
    else if (j->hold_out)
        text_row("regression on y", "of x: the measured rows on themselves, %s%s; of z: the mean above", label, method);
    else
        text_row("regression on y", "the measured rows on themselves, %s%s", label, method);
}

static void text_choice(const measure_job *j) {
    circe_cme_info info;
    circe_loo_table loo;
    char time[32];
    if (j->choice == NULL) return;
    circe_cme_get_info(j->choice, &info);
    circe_cme_get_loo(j->choice, &loo);
    text_seconds(info.seconds, time, sizeof time);
    if (loo.sigma2_y != NULL)
        text_row("leave-one-out",
                 "chose width of y and ridge on the measured rows, among %" PRId64 " x %" PRId64 ", in %s",
                 loo.n_sigma2_y, loo.n_ridge, time);
    else
        text_row("leave-one-out", "chose the ridge on the measured rows, among %" PRId64 ", in %s", loo.n_ridge, time);
}

void measure_text(const measure_job *job) {
    char kernel[512];
    const input *const group[] = {&job->x, &job->y, &job->z};
    text_inputs(group, 3);
    if (args_given(job->arguments, OPT_TRANSFORM)) text_row("transform", "%s", word_of(job, OPT_TRANSFORM));
    if (job->mean != NULL) text_mean(job);
    text_batch(job);
    if (job->kernels.x != NULL) text_row("kernel of x", "%s", text_kernel(job->kernels.x, kernel, sizeof kernel));
    if (job->kernels.y != NULL) text_row("kernel of y", "%s", text_kernel(job->kernels.y, kernel, sizeof kernel));
    if (job->kernels.z != NULL) text_row("kernel of z", "%s", text_kernel(job->kernels.z, kernel, sizeof kernel));
    if (job->uses & USES_RIDGE) text_row("ridge", "%g", job->ridge);
    text_choice(job);
    double epsilon = job->arguments->values[OPT_EPSILON].numbers[0];
    if (job->uses & USES_EPSILON)
        text_row("epsilon", "%g, a ridge of %g", epsilon, epsilon * (double)job->x.values.rows);
    if (job->uses & USES_GCM)
        text_row("gcm", "regression %s, combined by %s", word_of(job, OPT_REGRESSION), word_of(job, OPT_COMBINE));
}
