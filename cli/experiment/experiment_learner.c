/* Training a network as the settings of a run say. */
#include "cli/experiment/experiment_learner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "circe/status.h"
#include "cli/common/session.h"

static const double checkpoint_minutes = 3;

/* ---- before training --------------------------------------------------------------------------------------------- */

circe_status experiment_learner_open(experiment_work *work, experiment_learner *learner) {
    *learner = (experiment_learner){.work = work, .share = 0.95};
    return circe_context_create(NULL, &learner->context);
}

void experiment_learner_close(experiment_learner *learner) {
    circe_measure_destroy(learner->regularizer);
    train_network_destroy(learner->network);
    train_device_destroy(learner->device);
    circe_context_destroy(learner->context);
}

/* The method's own, or that of all. */
static train_start start_of(const experiment_settings *s) {
    return (train_start)(s->method.init > 0 ? s->method.init - 1 : s->training.init);
}

circe_status experiment_learner_build(experiment_learner *learner, train_shape input) {
    const experiment_settings *s = learner->work->settings;
    train_layer_spec *layers = NULL;
    int64_t n = 0;
    circe_status status = train_device_open(learner->context, learner->work->device, &learner->device);
    if (status == CIRCE_OK && s->training.precision != NULL)
        status =
            train_device_set_precision(learner->device, (train_precision)train_precision_find(s->training.precision));
    if (status == CIRCE_OK)
        status = train_network_parse(s->training.net, experiment_settings_activation(s), 1, &layers, &n);
    if (status == CIRCE_OK)
        status = train_network_create(learner->device, input, layers, n, s->training.batch, &learner->network);
    if (status == CIRCE_OK) status = train_network_initialise(learner->network, start_of(s), (uint64_t)s->seed);
    if (status == CIRCE_OK && s->training.weights != NULL)
        status = train_network_load_body(learner->network, s->training.weights);
    free(layers);
    return status;
}

circe_status experiment_learner_regularize(experiment_learner *learner, const circe_mat *y, const circe_mat *z,
                                           const circe_mat *holdout_y, const circe_mat *holdout_z) {
    circe_measure_options options;
    experiment_settings_regularizer(learner->work->settings, &options);
    return train_regularizer_create(learner->context, &options, y, z, holdout_y, holdout_z, &learner->regularizer);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static int on_step(void *user, const train_progress *at) {
    const experiment_learner *learner = user;
    const experiment_work *work = learner->work;
    double share = at->steps > 0 ? (double)at->step / (double)at->steps : 0;
    return work->progress != NULL ? work->progress(work->user, learner->share * share) : 0;
}

static void fill_options(experiment_learner *learner, const char *fingerprint, train_options *options) {
    const experiment_settings *s = learner->work->settings;
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
    options->fingerprint = fingerprint;
    options->resume = 1;
}

static bool exists(const char *path) {
    struct stat info;
    return path != NULL && (stat(path, &info) == 0 || errno != ENOENT);
}

/* A checkpoint that is refused, before any step, is of no use to anybody: without it the run starts anew. */
static circe_status train(experiment_learner *learner, const train_data *data, const train_options *options,
                          train_result *trained) {
    bool there = exists(options->checkpoint);
    circe_status status = train_run(learner->network, learner->regularizer, data, NULL, options, trained);
    if (status == CIRCE_OK || !there || trained->resumed || trained->steps_done > 0 || unlink(options->checkpoint) != 0)
        return status;
    train_result_free(trained);
    return train_run(learner->network, learner->regularizer, data, NULL, options, trained);
}

circe_status experiment_learner_train(experiment_learner *learner, const train_data *data, experiment_result *result) {
    char fingerprint[FINGERPRINT_BYTES];
    train_options options;
    train_result trained = {0};
    double start = session_clock();
    experiment_settings_fingerprint(learner->work->settings, fingerprint);
    fill_options(learner, fingerprint, &options);
    circe_status status = train(learner, data, &options, &trained);
    double here = session_clock() - start;
    learner->work->stopped = trained.interrupted;
    if (trained.resumed && trained.seconds > here) learner->work->seconds_before = trained.seconds - here;
    result->number[NUMBER_REGULARIZER_SECONDS] = trained.regularizer_seconds;
    result->number[NUMBER_STEPS] = (double)trained.steps_done;
    train_result_free(&trained);
    const char *choices = learner->regularizer != NULL ? circe_measure_text(learner->regularizer) : NULL;
    if (choices != NULL && choices[0] != '\0') result->choices = strdup(choices);
    return status;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

circe_status experiment_learner_judge(experiment_learner *learner, const train_source *points, const float *target,
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
