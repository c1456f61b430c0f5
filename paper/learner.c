/* Trains a network according to the settings of a run. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "paper/paper_parts.h"

static const double checkpoint_minutes = 3;

/* ---- before training --------------------------------------------------------------------------------------------- */

void paper_learner_close(paper_learner *learner) {
    circe_measure_destroy(learner->regularizer);
    train_network_destroy(learner->network);
    train_device_destroy(learner->device);
}

/* The method's own, or that of all. */
static train_start start_of(const paper_settings *s) {
    return (train_start)(s->method.init > 0 ? s->method.init - 1 : s->training.init);
}

static circe_status build_network(paper_learner *learner, train_shape input) {
    const paper_settings *s = learner->job->settings;
    circe_status status = train_device_open(learner->context, learner->job->device, &learner->device);
    if (status == CIRCE_OK && s->training.precision != NULL)
        status =
            train_device_set_precision(learner->device, (train_precision)train_precision_find(s->training.precision));
    if (status == CIRCE_OK)
        status = train_network_build(learner->device, input, s->training.net, paper_settings_activation(s), 1,
                                     s->training.batch, &learner->network);
    if (status == CIRCE_OK) status = train_network_initialise(learner->network, start_of(s), (uint64_t)s->seed);
    if (status == CIRCE_OK && s->training.weights != NULL)
        status = train_network_load_body(learner->network, s->training.weights);
    return status;
}

circe_status paper_learner_build(paper_learner *learner, train_shape input, const circe_mat *y, const circe_mat *z,
                                 const circe_mat *holdout_y, const circe_mat *holdout_z) {
    circe_measure_options options;
    circe_status status = build_network(learner, input);
    if (status != CIRCE_OK) return status;
    paper_settings_regularizer(learner->job->settings, &options);
    return train_regularizer_create(learner->context, &options, y, z, holdout_y, holdout_z, &learner->regularizer);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* What follows training takes the last twentieth. */
static int on_step(void *user, const train_progress *at) {
    const sweep_task *task = ((const paper_learner *)user)->job->task;
    double share = at->steps > 0 ? (double)at->step / (double)at->steps : 0;
    return task->progress(task->teller, 0.95 * share);
}

static void fill_options(paper_learner *learner, train_options *options) {
    const paper_settings *s = learner->job->settings;
    train_options_init(options);
    options->epochs = s->training.epochs;
    options->steps = s->training.steps;
    options->batch = s->training.batch;
    options->rate = s->training.rate;
    options->decay = s->training.decay;
    options->cosine = s->training.schedule;
    options->warmup_epochs = s->training.warmup;
    options->gamma = s->gamma;
    options->seed = (uint64_t)s->seed;
    options->progress = on_step;
    options->user = learner;
    if (learner->checkpoint == NULL) return;
    options->checkpoint = learner->checkpoint;
    options->checkpoint_minutes = checkpoint_minutes;
    options->fingerprint = learner->job->fingerprint;
    options->resume = 1;
}

static bool exists(const char *path) {
    struct stat info;
    return path != NULL && (stat(path, &info) == 0 || errno != ENOENT);
}

/* A checkpoint that is refused before the first step is useless. It is removed, and the run starts anew. */
static circe_status train(paper_learner *learner, const train_data *data, const train_options *options,
                          train_result *trained) {
    bool there = exists(options->checkpoint);
    circe_status status = train_run(learner->network, learner->regularizer, data, NULL, options, trained);
    if (status == CIRCE_OK || !there || trained->resumed || trained->steps_done > 0 || unlink(options->checkpoint) != 0)
        return status;
    train_result_free(trained);
    return train_run(learner->network, learner->regularizer, data, NULL, options, trained);
}

circe_status paper_learner_train(paper_learner *learner, const train_data *data, paper_numbers *numbers) {
    train_options options;
    train_result trained = {0};
    double start = job_clock();
    fill_options(learner, &options);
    circe_status status = train(learner, data, &options, &trained);
    double here = job_clock() - start;
    learner->job->stopped = trained.interrupted;
    if (trained.resumed && trained.seconds > here) learner->job->seconds_before = trained.seconds - here;
    numbers->at[NUMBER_REGULARIZER_SECONDS] = trained.regularizer_seconds;
    numbers->at[NUMBER_STEPS] = (double)trained.steps_done;
    train_result_free(&trained);
    const char *choices = learner->regularizer != NULL ? circe_measure_text(learner->regularizer) : NULL;
    if (choices != NULL && choices[0] != '\0') numbers->choices = strdup(choices);
    return status;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

circe_status paper_learner_judge(paper_learner *learner, const train_source *points, const float *target,
                                 float *prediction, double *mse, double *variance) {
    int64_t n = points->n;
    double squares = 0, mean = 0, deviations = 0;
    circe_status status = train_predict(learner->network, points, prediction);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++) mean += (double)prediction[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double value = (double)prediction[i], error = value - (double)target[i];
        squares += error * error;
        deviations += (value - mean) * (value - mean);
    }
    *mse = squares / (double)n;
    *variance = deviations / (double)n;
    return CIRCE_OK;
}
