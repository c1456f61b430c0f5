/* A run of the paper's synthetic experiments.
 *
 * Features (a, y, z), target b, all standardised by the training sample; the prediction is to be independent of z given
 * y. Training, validation, test and holdout rows are consecutive rows of one endless sample under the run's seed, which
 * also decides the initial weights and the order of batches. Judged on the test sample: mean squared error, VCF with z'
 * from P(Z) and from P(Z | Y), and the variance of the prediction, beside the floor of that sample. Validation numbers
 * are there to choose by. */
#include "experiment_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "io.h"
#include "message.h"
#include "output.h"
#include "session.h"
#include "trainer.h"

/* VCF draws interventions of its own under these, apart from the sample's seed. */
enum { SEED_OF_TEST = 1000003, SEED_OF_VALIDATION = 2000003 };

static const double collapsed_share = 0.4;

typedef enum part { TRAINING, VALIDATION, TEST, HOLDOUT, N_PARTS } part;

typedef struct job {
    const experiment_settings *settings;
    experiment_progress progress;
    void *user;
    circe_context *context;
    train_device *device;
    train_network *network;
    train_regularizer *regularizer;
    synthetic_sample sample[N_PARTS];
    synthetic_points points[N_PARTS];
    synthetic_scales scales;
    float *features, *predictions; /* scratch of predict, `capacity` rows */
    int64_t capacity;
} job;

static int fail(circe_status status) { /* also of allocations, which name themselves */
    const char *text = train_last_error();
    return message_fail(status == CIRCE_ERR_ARGUMENT || status == CIRCE_ERR_SHAPE ? EXIT_INPUT : EXIT_WORK, "%s",
                        text[0] != '\0' ? text : circe_status_text(status));
}

/* ---- before training --------------------------------------------------------------------------------------------- */

static circe_status draw(job *j) {
    const experiment_data *d = &j->settings->data;
    const int64_t rows[N_PARTS] = {d->train, d->validation, d->test, d->holdout};
    circe_status status = CIRCE_OK;
    int64_t first = 0;
    for (int p = 0; p < N_PARTS && status == CIRCE_OK; p++) {
        status = synthetic_draw_rows(&j->settings->model, (uint64_t)j->settings->seed, first, rows[p], &j->sample[p]);
        first += rows[p];
    }
    if (status == CIRCE_OK) status = synthetic_scales_fit(&j->sample[TRAINING], &j->scales);
    for (int p = 0; p < N_PARTS && status == CIRCE_OK; p++)
        status = synthetic_points_make(&j->scales, &j->sample[p], &j->points[p]);
    return status;
}

static circe_status build(job *j) {
    const experiment_training *t = &j->settings->training;
    train_layer_spec *layers = NULL;
    int64_t n = 0;
    train_shape input = {.n_dims = 1, .size = {j->points[TRAINING].features.cols}};
    train_regularizer_options options;
    experiment_settings_regularizer(j->settings, &options);
    circe_status status = train_device_cpu(j->context, &j->device);
    if (status == CIRCE_OK)
        status = train_network_parse(t->net, experiment_settings_activation(j->settings), 1, &layers, &n);
    if (status == CIRCE_OK) status = train_network_create(j->device, input, layers, n, t->batch, &j->network);
    if (status == CIRCE_OK) status = train_network_initialise(j->network, (uint64_t)j->settings->seed);
    if (status == CIRCE_OK)
        status = train_regularizer_create(j->context, &options, &j->points[TRAINING].y, &j->points[TRAINING].z,
                                          &j->points[HOLDOUT].y, &j->points[HOLDOUT].z, &j->regularizer);
    free(layers);
    return status;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static int on_step(void *user, const train_progress *at) {
    const job *j = user;
    double share = at->steps > 0 ? (double)at->step / (double)at->steps : 0;
    return j->progress != NULL ? j->progress(j->user, 0.95 * share) : 0; /* the rest is evaluation */
}

static train_data data_of(const synthetic_points *points) {
    return (train_data){.features = train_source_floats(&points->features), .target = points->target, .y = points->y, .z = points->z};
}

static circe_status train(job *j, experiment_result *result, bool *stopped) {
    const experiment_training *t = &j->settings->training;
    train_data data = data_of(&j->points[TRAINING]), none = {0};
    train_options options;
    train_result trained = {0};
    train_options_init(&options);
    options.epochs = t->epochs;
    options.batch = t->batch;
    options.rate = t->rate;
    options.decay = t->decay;
    options.cosine = t->schedule;
    options.warmup_epochs = t->warmup;
    options.gamma = j->settings->gamma;
    options.seed = (uint64_t)j->settings->seed;
    options.progress = on_step;
    options.user = j;
    circe_status status = train_run(j->network, j->regularizer, &data, &none, &options, &trained);
    *stopped = trained.interrupted;
    result->regularizer_seconds = trained.regularizer_seconds;
    train_result_free(&trained);
    const char *choices = j->regularizer != NULL ? train_regularizer_text(j->regularizer) : NULL;
    if (choices != NULL && choices[0] != '\0') result->choices = strdup(choices);
    return status;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static circe_status reserve(job *j, int64_t rows) {
    if (rows <= j->capacity) return CIRCE_OK;
    free(j->features);
    free(j->predictions);
    j->features = malloc((size_t)(rows * j->scales.features.cols) * sizeof *j->features);
    j->predictions = malloc((size_t)rows * sizeof *j->predictions);
    j->capacity = j->features != NULL && j->predictions != NULL ? rows : 0;
    return j->capacity > 0 ? CIRCE_OK : train_fail(CIRCE_ERR_MEMORY, "no memory for %" PRId64 " predictions", rows);
}

/* synthetic_predict: of the standardised b. */
static circe_status predict(void *user, int64_t rows, const double *a, const double *y, const double *z,
                            double *prediction) {
    job *j = user;
    circe_status status = reserve(j, rows);
    if (status == CIRCE_OK) status = synthetic_standardise(&j->settings->model, &j->scales, rows, a, y, z, j->features);
    if (status == CIRCE_OK) status = train_network_predict(j->network, rows, j->features, j->predictions);
    for (int64_t i = 0; status == CIRCE_OK && i < rows; i++) prediction[i] = (double)j->predictions[i];
    return status;
}

/* Mean squared error and the variance of the prediction on one part. */
static circe_status judge(job *j, part p, double *mse, double *variance) {
    const synthetic_points *points = &j->points[p];
    int64_t n = points->features.rows;
    const float *target = points->target.data;
    circe_status status = reserve(j, n);
    if (status == CIRCE_OK) status = train_network_predict(j->network, n, points->features.data, j->predictions);
    if (status != CIRCE_OK) return status;
    double squares = 0, mean = 0, deviations = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)j->predictions[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double prediction = (double)j->predictions[i], error = prediction - (double)target[i];
        squares += error * error;
        deviations += (prediction - mean) * (prediction - mean);
    }
    *mse = squares / (double)n;
    *variance = deviations / (double)n;
    return CIRCE_OK;
}

static circe_status invariance(job *j, part p, bool support, int64_t offset, double *vcf) {
    const experiment_settings *s = j->settings;
    int64_t points = s->evaluation.points < j->sample[p].n ? s->evaluation.points : j->sample[p].n;
    return synthetic_vcf(&s->model, &j->sample[p], points, s->evaluation.draws, support, (uint64_t)(s->seed + offset),
                         predict, j, vcf);
}

/* E[Var(B | Y)] of one part, in units of Var(B). */
static circe_status find_floor(job *j, part p, int64_t offset, double *floor) {
    double variance, deviation = j->scales.target.deviation[0];
    circe_status status = synthetic_conditional_variance(&j->settings->model, &j->sample[p],
                                                         (uint64_t)(j->settings->seed + offset), &variance);
    if (status == CIRCE_OK) *floor = variance / (deviation * deviation);
    return status;
}

static circe_status evaluate(job *j, experiment_result *r) {
    double unused;
    circe_status status = judge(j, TEST, &r->mse, &r->variance);
    if (status == CIRCE_OK) status = judge(j, VALIDATION, &r->validation_mse, &unused);
    if (status == CIRCE_OK) status = invariance(j, TEST, false, SEED_OF_TEST, &r->vcf);
    if (status == CIRCE_OK) status = invariance(j, TEST, true, SEED_OF_TEST, &r->vcf_support);
    if (status == CIRCE_OK) status = invariance(j, VALIDATION, false, SEED_OF_VALIDATION, &r->validation_vcf);
    if (status == CIRCE_OK) status = find_floor(j, TEST, SEED_OF_TEST, &r->floor);
    if (status == CIRCE_OK) status = find_floor(j, VALIDATION, SEED_OF_VALIDATION, &r->validation_floor);
    if (status != CIRCE_OK) return status;
    r->collapsed = r->variance < collapsed_share * (1 - r->floor);
    if (!isfinite(r->mse) || !isfinite(r->vcf) || !isfinite(r->vcf_support))
        return train_fail(CIRCE_ERR_NUMERIC, "the prediction is no longer finite; a smaller gamma or rate may help");
    return CIRCE_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void job_free(job *j) {
    train_regularizer_destroy(j->regularizer);
    train_network_destroy(j->network);
    train_device_destroy(j->device);
    for (int p = 0; p < N_PARTS; p++) {
        synthetic_points_free(&j->points[p]);
        synthetic_free(&j->sample[p]);
    }
    synthetic_scales_free(&j->scales);
    free(j->features);
    free(j->predictions);
    circe_context_destroy(j->context);
}

static circe_status run_training(job *j, experiment_result *result, bool *stopped) {
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = 1;
    circe_status status = train_pass(circe_context_create(&options, &j->context));
    if (status == CIRCE_OK) status = draw(j);
    if (status == CIRCE_OK) status = build(j);
    if (status == CIRCE_OK) status = train(j, result, stopped);
    if (status == CIRCE_OK && !*stopped) status = evaluate(j, result);
    return status;
}

static circe_status run_limits(const experiment_settings *settings, experiment_result *result) {
    synthetic_limits limits;
    circe_status status =
        synthetic_compute_limits(&settings->model, (uint64_t)settings->seed, settings->limits_samples, &limits);
    if (status != CIRCE_OK) return status;
    result->floor = limits.floor;
    result->vcf = limits.vcf;
    result->vcf_support = limits.vcf_support;
    result->floor_error = limits.floor_error;
    result->vcf_error = limits.vcf_error;
    result->vcf_support_error = limits.vcf_support_error;
    return CIRCE_OK;
}

static const experiment_result nothing = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, false, NULL};

int experiment_run(const experiment_settings *settings, experiment_progress progress, void *user,
                   experiment_result *result) {
    job j = {.settings = settings, .progress = progress, .user = user};
    bool stopped = false;
    double start = session_clock();
    *result = nothing;
    circe_status status =
        settings->limits_samples > 0 ? run_limits(settings, result) : run_training(&j, result, &stopped);
    result->seconds = session_clock() - start;
    job_free(&j);
    if (status != CIRCE_OK) return fail(status);
    return stopped ? message_fail(EXIT_WORK, "stopped before the end; nothing was written") : EXIT_DONE;
}

void experiment_result_free(experiment_result *result) {
    free(result->choices);
    *result = nothing;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The members that are numbers, by name. */
static const struct {
    const char *name;
    size_t offset;
    enum { ALWAYS, OF_TRAINING, OF_LIMITS } where;
} members[] = {
    {"mse", offsetof(experiment_result, mse), OF_TRAINING},
    {"vcf", offsetof(experiment_result, vcf), ALWAYS},
    {"vcf_support", offsetof(experiment_result, vcf_support), ALWAYS},
    {"variance", offsetof(experiment_result, variance), OF_TRAINING},
    {"floor", offsetof(experiment_result, floor), ALWAYS},
    {"validation_mse", offsetof(experiment_result, validation_mse), OF_TRAINING},
    {"validation_vcf", offsetof(experiment_result, validation_vcf), OF_TRAINING},
    {"validation_floor", offsetof(experiment_result, validation_floor), OF_TRAINING},
    {"vcf_error", offsetof(experiment_result, vcf_error), OF_LIMITS},
    {"vcf_support_error", offsetof(experiment_result, vcf_support_error), OF_LIMITS},
    {"floor_error", offsetof(experiment_result, floor_error), OF_LIMITS},
    {"seconds", offsetof(experiment_result, seconds), ALWAYS},
    {"regularizer_seconds", offsetof(experiment_result, regularizer_seconds), OF_TRAINING},
};

enum { N_MEMBERS = sizeof members / sizeof *members };

static bool has_member(size_t i, bool limits) {
    return members[i].where == ALWAYS || (members[i].where == OF_LIMITS) == limits;
}

void experiment_result_json(cJSON *object, const experiment_settings *settings, const experiment_result *result) {
    bool limits = settings->limits_samples > 0;
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (has_member(i, limits))
            json_number(object, members[i].name,
                        *(const double *)(const void *)((const char *)result + members[i].offset));
    if (!limits) cJSON_AddBoolToObject(object, "collapsed", result->collapsed);
    if (result->choices != NULL) cJSON_AddStringToObject(object, "choices", result->choices);
}

int experiment_result_write(const char *path, const experiment_settings *settings, const experiment_result *result) {
    char fingerprint[FINGERPRINT_BYTES];
    io_error error = {""};
    int status = EXIT_DONE;
    cJSON *json = cJSON_CreateObject();
    experiment_settings_fingerprint(settings, fingerprint);
    cJSON_AddStringToObject(json, "fingerprint", fingerprint);
    cJSON_AddStringToObject(json, "version", circe_version());
    experiment_result_json(cJSON_AddObjectToObject(json, "result"), settings, result);
    cJSON_AddItemToObject(json, "settings", experiment_settings_json(settings));
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    if (text == NULL) return message_fail(EXIT_WORK, "out of memory for the result");
    if (io_write_text(path, text, strlen(text), &error) != CIRCE_OK) status = message_write(path, error.text);
    cJSON_free(text);
    return status;
}

static char *read_small_file(const char *path) {
    enum { MOST = 1 << 20 };
    FILE *in = fopen(path, "rb");
    if (in == NULL) return NULL;
    char *text = small_alloc(MOST + 1);
    size_t bytes = fread(text, 1, MOST, in);
    text[bytes] = '\0';
    fclose(in);
    return text;
}

bool experiment_result_read(const char *path, const char *fingerprint, experiment_result *result) {
    *result = nothing;
    char *text = read_small_file(path);
    cJSON *json = text != NULL ? cJSON_Parse(text) : NULL;
    free(text);
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(json, "result");
    const char *mark = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "fingerprint"));
    bool limits = cJSON_HasObjectItem(cJSON_GetObjectItemCaseSensitive(json, "settings"), "limits_samples") != 0;
    bool good = mark != NULL && strcmp(mark, fingerprint) == 0 && cJSON_IsObject(found);
    for (size_t i = 0; good && i < N_MEMBERS; i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(found, members[i].name);
        if (!has_member(i, limits)) continue;
        good = cJSON_IsNumber(value) || cJSON_IsNull(value);
        if (cJSON_IsNumber(value)) *(double *)(void *)((char *)result + members[i].offset) = value->valuedouble;
    }
    if (good) {
        const char *choices = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(found, "choices"));
        result->collapsed = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(found, "collapsed"));
        result->choices = choices != NULL ? strdup(choices) : NULL;
    }
    cJSON_Delete(json);
    return good;
}
