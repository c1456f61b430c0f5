/* Settings of a run as JSON and back, and their fingerprint. */
#include "experiment_settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "output.h"

/* ---- to JSON ----------------------------------------------------------------------------------------------------- */

static void put_training(cJSON *json, const experiment_settings *s) {
    cJSON *data = cJSON_AddObjectToObject(json, "data");
    json_integer(data, "train", s->data.train);
    json_integer(data, "validation", s->data.validation);
    json_integer(data, "test", s->data.test);
    json_integer(data, "holdout", s->data.holdout);
    cJSON *training = cJSON_AddObjectToObject(json, "training");
    cJSON_AddStringToObject(training, "net", s->training.net);
    cJSON_AddStringToObject(training, "activation", experiment_activation_name(s->training.activation));
    json_integer(training, "epochs", s->training.epochs);
    json_integer(training, "batch", s->training.batch);
    json_number(training, "rate", s->training.rate);
    json_number(training, "decay", s->training.decay);
    cJSON_AddStringToObject(training, "schedule", s->training.schedule ? "cosine" : "constant");
    json_number(training, "warmup", s->training.warmup);
    cJSON *evaluation = cJSON_AddObjectToObject(json, "evaluation");
    json_integer(evaluation, "points", s->evaluation.points);
    json_integer(evaluation, "draws", s->evaluation.draws);
}

static void put_method(cJSON *json, const experiment_settings *s) {
    const experiment_method *m = &s->method;
    cJSON *method = cJSON_AddObjectToObject(json, "method");
    cJSON_AddStringToObject(method, "regularizer", experiment_regularizer_name(m->regularizer));
    cJSON_AddStringToObject(method, "estimator", experiment_estimator_name(m->estimator));
    json_number(method, "sigma2_x", m->sigma2_x);
    json_numbers(method, "sigma2_y", m->sigma2_y.values, m->sigma2_y.n);
    json_number(method, "sigma2_z", m->sigma2_z);
    cJSON_AddBoolToObject(method, "per_dimension", m->per_dimension);
    json_numbers(method, "ridge", m->ridge.values, m->ridge.n);
    cJSON_AddStringToObject(method, "method", experiment_method_name(m->method));
    json_integer(method, "rff_features", m->rff_features);
    json_integer(method, "regress_z", m->regress_z);
    json_integer(method, "regression", m->regression);
    json_integer(method, "combine", m->combine);
    cJSON_AddBoolToObject(method, "previous_batch", m->previous_batch);
    json_number(json, "gamma", s->gamma);
}

cJSON *experiment_settings_json(const experiment_settings *settings) {
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", synthetic_name(settings->model.kind));
    json_integer(json, "d", settings->model.d);
    json_integer(json, "seed", settings->seed);
    if (settings->limits_samples > 0) {
        json_integer(json, "limits_samples", settings->limits_samples);
    } else {
        put_training(json, settings);
        put_method(json, settings);
    }
    return json;
}

/* FNV-1a of 64 bits: nobody makes settings collide on purpose. */
void experiment_settings_fingerprint(const experiment_settings *settings, char fingerprint[FINGERPRINT_BYTES]) {
    uint64_t hash = UINT64_C(14695981039346656037);
    cJSON *json = experiment_settings_json(settings);
    cJSON_AddStringToObject(json, "version", circe_version());
    char *text = cJSON_PrintUnformatted(json);
    for (const char *c = text != NULL ? text : ""; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    cJSON_free(text);
    cJSON_Delete(json);
    snprintf(fingerprint, FINGERPRINT_BYTES, "%016" PRIx64, hash);
}

/* ---- from JSON --------------------------------------------------------------------------------------------------- */

/* Reads on until the first thing that is missing or of the wrong kind. */
typedef struct reader {
    arena *owner;
    const char *missing;
} reader;

static const cJSON *item(reader *r, const cJSON *object, const char *name, cJSON_bool (*is)(const cJSON *)) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    if (is(found)) return found;
    if (r->missing == NULL) r->missing = name;
    return NULL;
}

static double get_number(reader *r, const cJSON *object, const char *name) {
    const cJSON *found = item(r, object, name, cJSON_IsNumber);
    return found != NULL ? found->valuedouble : 0;
}

static int64_t get_integer(reader *r, const cJSON *object, const char *name) {
    return (int64_t)get_number(r, object, name);
}

static const char *get_text(reader *r, const cJSON *object, const char *name) {
    const cJSON *found = item(r, object, name, cJSON_IsString);
    return found != NULL ? arena_text(r->owner, found->valuestring) : "";
}

static bool get_truth(reader *r, const cJSON *object, const char *name) {
    return cJSON_IsTrue(item(r, object, name, cJSON_IsBool));
}

static yaml_numbers get_numbers(reader *r, const cJSON *object, const char *name) {
    const cJSON *list = item(r, object, name, cJSON_IsArray);
    yaml_numbers out = {.n = list != NULL ? cJSON_GetArraySize(list) : 0};
    if (out.n > 0) out.values = arena_alloc(r->owner, (size_t)out.n * sizeof *out.values);
    for (int i = 0; i < (int)out.n; i++) {
        const cJSON *value = cJSON_GetArrayItem(list, i);
        out.values[i] = cJSON_IsNumber(value) ? value->valuedouble : (double)NAN;
    }
    return out;
}

/* The index of a name that `name_of` gives to 0 .. n-1. */
static int get_word(reader *r, const cJSON *object, const char *name, const char *(*name_of)(int), int n) {
    const char *text = get_text(r, object, name);
    for (int i = 0; i < n; i++)
        if (strcmp(name_of(i), text) == 0) return i;
    if (r->missing == NULL) r->missing = name;
    return 0;
}

static void get_training(reader *r, const cJSON *json, experiment_settings *s) {
    const cJSON *data = item(r, json, "data", cJSON_IsObject);
    s->data.train = get_integer(r, data, "train");
    s->data.validation = get_integer(r, data, "validation");
    s->data.test = get_integer(r, data, "test");
    s->data.holdout = get_integer(r, data, "holdout");
    const cJSON *training = item(r, json, "training", cJSON_IsObject);
    s->training.net = get_text(r, training, "net");
    s->training.activation = get_word(r, training, "activation", experiment_activation_name, 3);
    s->training.epochs = get_integer(r, training, "epochs");
    s->training.batch = get_integer(r, training, "batch");
    s->training.rate = get_number(r, training, "rate");
    s->training.decay = get_number(r, training, "decay");
    s->training.schedule = strcmp(get_text(r, training, "schedule"), "cosine") == 0;
    s->training.warmup = get_number(r, training, "warmup");
    const cJSON *evaluation = item(r, json, "evaluation", cJSON_IsObject);
    s->evaluation.points = get_integer(r, evaluation, "points");
    s->evaluation.draws = get_integer(r, evaluation, "draws");
}

static void get_method(reader *r, const cJSON *json, experiment_settings *s) {
    const cJSON *method = item(r, json, "method", cJSON_IsObject);
    s->method = (experiment_method){
        .regularizer = get_word(r, method, "regularizer", experiment_regularizer_name, 5),
        .estimator = get_word(r, method, "estimator", experiment_estimator_name, 4),
        .method = get_word(r, method, "method", experiment_method_name, 4),
        .sigma2_x = get_number(r, method, "sigma2_x"),
        .sigma2_y = get_numbers(r, method, "sigma2_y"),
        .sigma2_z = get_number(r, method, "sigma2_z"),
        .per_dimension = get_truth(r, method, "per_dimension"),
        .ridge = get_numbers(r, method, "ridge"),
        .rff_features = get_integer(r, method, "rff_features"),
        .regress_z = (int)get_integer(r, method, "regress_z"),
        .regression = (int)get_integer(r, method, "regression"),
        .combine = (int)get_integer(r, method, "combine"),
        .previous_batch = get_truth(r, method, "previous_batch"),
    };
    s->gamma = get_number(r, json, "gamma");
}

int experiment_settings_parse(const cJSON *json, arena *owner, experiment_settings *settings) {
    reader r = {.owner = owner};
    *settings = (experiment_settings){0};
    if (!synthetic_find(get_text(&r, json, "model"), &settings->model.kind) && r.missing == NULL) r.missing = "model";
    settings->model.d = get_integer(&r, json, "d");
    settings->seed = get_integer(&r, json, "seed");
    if (cJSON_HasObjectItem(json, "limits_samples")) {
        settings->limits_samples = get_integer(&r, json, "limits_samples");
    } else {
        get_training(&r, json, settings);
        get_method(&r, json, settings);
    }
    if (r.missing == NULL) return EXIT_DONE;
    return message_fail(EXIT_INPUT, "the settings lack '%s', or hold something else there", r.missing);
}

/* ---- for the library --------------------------------------------------------------------------------------------- */

void experiment_settings_regularizer(const experiment_settings *settings, train_regularizer_options *options) {
    const experiment_method *m = &settings->method;
    train_regularizer_options_init(options);
    options->kind = (train_regularizer_kind)train_regularizer_find(experiment_regularizer_name(m->regularizer));
    options->estimator = (circe_estimator)(m->estimator + (int)CIRCE_BIASED);
    options->method = (circe_method)m->method;
    options->sigma2_x = m->sigma2_x;
    options->sigma2_y = m->sigma2_y.values;
    options->n_sigma2_y = m->sigma2_y.n;
    options->sigma2_z = m->sigma2_z;
    options->per_dimension = m->per_dimension;
    options->ridge = m->ridge.values;
    options->n_ridge = m->ridge.n;
    options->rff_features = m->rff_features;
    options->regress_z_on_holdout = m->regress_z == 1;
    options->gcm_regression = (circe_gcm_regression)(m->regression + (int)CIRCE_GCM_KERNEL);
    options->gcm_combine = (circe_gcm_combine)(m->combine + (int)CIRCE_GCM_MAX);
    options->gcm_previous_batch = m->previous_batch;
    options->seed = (uint64_t)settings->seed;
}

train_layer_kind experiment_settings_activation(const experiment_settings *settings) {
    static const train_layer_kind kinds[] = {TRAIN_RELU, TRAIN_LEAKY_RELU, TRAIN_TANH};
    return kinds[settings->training.activation];
}
