/* The network that a trained one is compared with: the same one, trained on the same rows without the regulariser, or a
 * model that the user names. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "jobs/training.h"
#include "mpi/ranks.h"

static const char own_baseline[] = "without the regulariser";

bool training_compares_itself(const circe_training *r) {
    return r->baseline != NULL && strcmp(r->baseline, own_baseline) == 0;
}

bool training_has_baseline(const training_job *job) {
    const char *asked = job->options->baseline;
    return job->kind != CIRCE_MEASURE_NONE && (asked == NULL || strcmp(asked, "none") != 0);
}

circe_status training_open_baseline(training_job *job) {
    if (!training_has_baseline(job) || job->options->baseline == NULL) return CIRCE_OK;
    circe_status status = circe_model_load(job->context, job->options->baseline, &job->compared);
    return status == CIRCE_OK ? status : job_about(status, "--baseline");
}

static circe_status train_baseline(training_job *job) {
    const training_trial trial = {.rows = &job->set->training,
                                  .watched = &job->set->validation,
                                  .seed = (uint64_t)job->options->seed,
                                  .epochs = job->options->epochs,
                                  .patience = job->options->patience};
    job->from = job->to;
    job->to = TRAINING_SHARE;
    snprintf(job->stage, sizeof job->stage, "without the regulariser: ");
    circe_status status = training_try(job, &trial);
    if (status != CIRCE_OK || ranks_rank() != 0) return status;
    job->made->result.baseline = arena_text(&job->made->owner, own_baseline);
    return training_ask(job, training_judged(job->set), &job->made->baseline);
}

/* ---- a model from a file ----------------------------------------------------------------------------------------- */

static circe_status check_outputs(const training_job *job, const circe_predictions *p, int64_t *column) {
    const training_set *set = job->set;
    bool classes = set->loss == TRAIN_CROSS_ENTROPY;
    for (int64_t c = 0; c < job->outputs; c++) {
        const char *name = classes ? set->classes.names[c] : training_column(set, &set->target, c);
        for (column[c] = 0; column[c] < p->outputs && strcmp(p->names[column[c]], name) != 0;) column[c]++;
        if (column[c] == p->outputs || classes != (p->target != NULL))
            return circe_fail(CIRCE_ERR_ARGUMENT, "--baseline %s: the model does not predict %s '%s'",
                              job->options->baseline, classes ? "the class" : "the column", name);
    }
    return CIRCE_OK;
}

/* In the form of this run's network output: standardised, or the logarithm of a probability. */
static float as_output(const training_set *set, double value, int64_t c) {
    if (set->loss == TRAIN_CROSS_ENTROPY) return (float)log(fmax(value, 1e-30));
    return (float)((value - set->target_scale.mean[c]) / set->target_scale.deviation[c]);
}

static circe_status take_predictions(training_job *job, const circe_predictions *p) {
    const training_set *set = job->set;
    const training_part *part = training_judged(set);
    int64_t k = job->outputs, *column = small_alloc((size_t)k * sizeof *column);
    circe_status status = check_outputs(job, p, column);
    float *baseline = job->made->baseline = malloc((size_t)(part->n * k + 1) * sizeof *baseline);
    if (status == CIRCE_OK && baseline == NULL)
        status = circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " predictions", part->n);
    for (int64_t i = 0; baseline != NULL && i < part->n && status == CIRCE_OK; i++) {
        int64_t row = io_table_row(&set->table.in.table, part->rows[i]);
        for (int64_t c = 0; c < k; c++) {
            double value = row < p->rows ? p->values[row * p->outputs + column[c]] : NAN;
            if (!isfinite(value))
                status = circe_fail(CIRCE_ERR_VALUE, "--baseline %s: row %" PRId64 " of the table has no prediction",
                                    job->options->baseline, row);
            baseline[i * k + c] = as_output(set, value, c);
        }
    }
    free(column);
    return status;
}

static circe_status load_baseline(training_job *job) {
    const circe_train_options *o = job->options;
    circe_predict_options options;
    circe_predictions *predictions = NULL;
    circe_predict_options_init(&options);
    options.model = o->baseline; /* for messages: it is loaded */
    options.output = "-";
    options.data = o->data;
    options.images = o->images;
    options.path_column = o->path_column;
    options.array = o->array;
    options.labels = o->labels;
    options.na = o->na;
    options.decimal = o->decimal;
    options.missing = "empty"; /* rows that were dropped are not judged */
    options.categories = o->categories;
    options.device = o->device;
    circe_status status = circe_predict(job->context, job->compared, job->table, &options, NULL, &predictions);
    if (status != CIRCE_OK) return job_about(status, "--baseline");
    status = take_predictions(job, predictions);
    circe_predictions_free(predictions);
    job->made->result.baseline = arena_text(&job->made->owner, o->baseline);
    return status;
}

circe_status training_make_baseline(training_job *job) {
    if (!training_has_baseline(job)) return CIRCE_OK;
    if (job->options->baseline == NULL) return train_baseline(job);
    return ranks_agree(ranks_rank() == 0 ? load_baseline(job) : CIRCE_OK);
}
