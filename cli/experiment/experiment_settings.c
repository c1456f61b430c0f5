/* Settings of a run as JSON and back, and their fingerprint. */
#include "cli/experiment/experiment_settings.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/experiment/experiment_keys.h"
#include "cli/experiment/experiment_kind.h"
#include "cli/experiment/experiment_model.h"
#include "cli/spec.h"
#include "io/fields.h"

/* Where the pictures lie is no setting: the fingerprint has what stands for their content. */
static const char pictures_member[] = "pictures_file";

cJSON *experiment_settings_json(const experiment_settings *settings) {
    const experiment_kind *kind = settings->kind;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", experiment_model_name(settings->model.word));
    json_integer(json, "d", settings->d);
    json_integer(json, "seed", settings->seed);
    cJSON_AddStringToObject(json, "kind", kind->name);
    for (int64_t i = 0; i < kind->n_parts; i++)
        io_fields_put(cJSON_AddObjectToObject(json, kind->parts[i].name), kind->parts[i].table,
                      (const char *)settings + kind->parts[i].offset);
    json_number(json, "gamma", settings->gamma);
    if (settings->model.pictures != NULL) {
        cJSON_AddStringToObject(json, "pictures_mark", settings->model.mark);
        cJSON_AddStringToObject(json, pictures_member, settings->model.pictures);
    }
    return json;
}

int experiment_settings_parse(const cJSON *json, arena *owner, experiment_settings *settings) {
    io_json_reader r = {.owner = owner};
    *settings = (experiment_settings){0};
    int word = io_word_index(EXPERIMENT_MODEL_WORDS, io_json_text(&r, json, "model"));
    if (word < 0 && r.missing == NULL) r.missing = "model";
    settings->d = (int64_t)io_json_number(&r, json, "d");
    settings->seed = (int64_t)io_json_number(&r, json, "seed");
    const experiment_kind *kind = experiment_kind_find(io_json_text(&r, json, "kind"));
    for (int64_t i = 0; kind != NULL && i < kind->n_parts; i++) {
        const cJSON *part = io_json_item(&r, json, kind->parts[i].name, cJSON_IsObject);
        io_fields_get(&r, part, kind->parts[i].table, (char *)settings + kind->parts[i].offset);
    }
    settings->kind = kind;
    settings->model.word = word;
    settings->gamma = io_json_number(&r, json, "gamma");
    if (cJSON_HasObjectItem(json, pictures_member)) {
        settings->model.mark = io_json_text(&r, json, "pictures_mark");
        settings->model.pictures = io_json_text(&r, json, pictures_member);
    }
    if (r.missing == NULL && (kind == NULL || experiment_model_has_pictures(word) != kind->pictures))
        r.missing = "kind";
    if (r.missing == NULL) return EXIT_DONE;
    return message_fail(EXIT_INPUT, "the settings lack '%s', or hold something else there", r.missing);
}

/* FNV-1a of 64 bits: nobody makes settings collide on purpose. */
void experiment_settings_fingerprint(const experiment_settings *settings, char fingerprint[FINGERPRINT_BYTES]) {
    uint64_t hash = UINT64_C(14695981039346656037);
    cJSON *json = experiment_settings_json(settings);
    cJSON_DeleteItemFromObjectCaseSensitive(json, pictures_member);
    cJSON_AddStringToObject(json, "version", circe_version());
    char *text = cJSON_PrintUnformatted(json);
    for (const char *c = text != NULL ? text : ""; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    cJSON_free(text);
    cJSON_Delete(json);
    snprintf(fingerprint, FINGERPRINT_BYTES, "%016" PRIx64, hash);
}

/* ---- for the library --------------------------------------------------------------------------------------------- */

void experiment_settings_regularizer(const experiment_settings *settings, train_regularizer_options *options) {
    const experiment_method *m = &settings->method;
    train_regularizer_options_init(options);
    options->kind = (train_regularizer_kind)train_regularizer_find(experiment_regularizer_name(m->regularizer));
    options->estimator = (circe_estimator)(m->estimator + (int)CIRCE_BIASED);
    options->method = (circe_method)m->method;
    options->dtype = settings->training.dtype == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
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

void experiment_settings_yardstick(const experiment_settings *settings, train_regularizer_options *options) {
    const experiment_yardstick *y = &settings->yardstick;
    train_regularizer_options_init(options);
    options->kind = TRAIN_REG_CIRCE;
    options->estimator = CIRCE_USTAT;
    options->sigma2_x = y->sigma2_x;
    options->sigma2_y = y->sigma2_y.values;
    options->n_sigma2_y = y->sigma2_y.n;
    options->sigma2_z = y->sigma2_z;
    options->ridge = y->ridge.values;
    options->n_ridge = y->ridge.n;
    options->seed = (uint64_t)settings->seed;
}

train_layer_kind experiment_settings_activation(const experiment_settings *settings) {
    static const train_layer_kind kinds[] = {TRAIN_RELU, TRAIN_LEAKY_RELU, TRAIN_TANH};
    return kinds[settings->training.activation];
}
