/* Settings of a run as JSON and back, and its numbers the same way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "paper/paper_parts.h"

cJSON *paper_settings_json(const paper_settings *settings) {
    const paper_kind *kind = settings->kind;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", paper_model_name(settings->model.word));
    json_integer(json, "d", settings->d);
    json_integer(json, "seed", settings->seed);
    cJSON_AddStringToObject(json, "kind", kind->name);
    for (const paper_settings_part *part = kind->parts; part->name != NULL; part++)
        io_fields_put(cJSON_AddObjectToObject(json, part->name), part->table, (const char *)settings + part->offset);
    json_number(json, "gamma", settings->gamma);
    if (settings->model.pictures != NULL) {
        cJSON_AddStringToObject(json, "pictures_mark", settings->model.mark);
        cJSON_AddStringToObject(json, PAPER_LEFT_OUT, settings->model.pictures);
    }
    return json;
}

circe_status paper_settings_parse(const cJSON *json, arena *owner, paper_settings *settings) {
    io_json_reader r = {.owner = owner};
    *settings = (paper_settings){0};
    int word = io_word_index(PAPER_MODEL_WORDS, io_json_text(&r, json, "model"));
    if (word < 0 && r.missing == NULL) r.missing = "model";
    settings->d = (int64_t)io_json_number(&r, json, "d");
    settings->seed = (int64_t)io_json_number(&r, json, "seed");
    const paper_kind *kind = paper_kind_find(io_json_text(&r, json, "kind"));
    for (const paper_settings_part *part = kind != NULL ? kind->parts : NULL; part != NULL && part->name != NULL;
         part++)
        io_fields_get(&r, io_json_item(&r, json, part->name, cJSON_IsObject), part->table,
                      (char *)settings + part->offset);
    settings->kind = kind;
    settings->model.word = word;
    settings->gamma = io_json_number(&r, json, "gamma");
    if (cJSON_HasObjectItem(json, PAPER_LEFT_OUT)) {
        settings->model.mark = io_json_text(&r, json, "pictures_mark");
        settings->model.pictures = io_json_text(&r, json, PAPER_LEFT_OUT);
    }
    if (r.missing == NULL && (kind == NULL || paper_model_has_pictures(word) != kind->pictures)) r.missing = "kind";
    if (owner->failed) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the settings");
    if (r.missing == NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "the settings lack '%s', or hold something else there", r.missing);
}

/* ---- for the library --------------------------------------------------------------------------------------------- */

void paper_settings_regularizer(const paper_settings *settings, train_regularizer_options *options) {
    const paper_method *m = &settings->method;
    train_regularizer_options_init(options);
    options->kind = (train_regularizer_kind)train_regularizer_find(paper_regularizer_name(m->regularizer));
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

void paper_settings_yardstick(const paper_settings *settings, train_regularizer_options *options) {
    const paper_yardstick *y = &settings->yardstick;
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

train_layer_kind paper_settings_activation(const paper_settings *settings) {
    static const train_layer_kind kinds[] = {TRAIN_RELU, TRAIN_LEAKY_RELU, TRAIN_TANH};
    return kinds[settings->training.activation];
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static const char *const names[N_NUMBERS] = {
    [NUMBER_MSE] = "mse",
    [NUMBER_OOD_MSE] = "ood_mse",
    [NUMBER_VCF] = "vcf",
    [NUMBER_VCF_SUPPORT] = "vcf_support",
    [NUMBER_VARIANCE] = "variance",
    [NUMBER_FLOOR] = "floor",
    [NUMBER_COLLAPSED] = "collapsed",
    [NUMBER_VALIDATION_MSE] = "validation_mse",
    [NUMBER_VALIDATION_VCF] = "validation_vcf",
    [NUMBER_VALIDATION_FLOOR] = "validation_floor",
    [NUMBER_DEPENDENCE] = "dependence",
    [NUMBER_DEPENDENCE_ERROR] = "dependence_error",
    [NUMBER_DEPENDENCE_EXCHANGED] = "dependence_exchanged",
    [NUMBER_VALIDATION_VARIANCE] = "validation_variance",
    [NUMBER_VCF_ERROR] = "vcf_error",
    [NUMBER_VCF_SUPPORT_ERROR] = "vcf_support_error",
    [NUMBER_FLOOR_ERROR] = "floor_error",
    [NUMBER_STEPS] = "steps",
    [NUMBER_SECONDS] = "seconds",
    [NUMBER_REGULARIZER_SECONDS] = "regularizer_seconds",
};

const char *paper_number_name(paper_number number) { return names[number]; }

bool paper_number_is_truth(paper_number number) { return number == NUMBER_COLLAPSED; }

void paper_numbers_init(paper_numbers *numbers) {
    numbers->choices = NULL;
    for (int i = 0; i < N_NUMBERS; i++) numbers->at[i] = (double)NAN;
}

void paper_numbers_put(cJSON *object, const paper_kind *kind, const paper_numbers *numbers) {
    for (int64_t i = 0; i < kind->n_numbers; i++) {
        paper_number number = kind->numbers[i];
        if (paper_number_is_truth(number))
            cJSON_AddBoolToObject(object, names[number], numbers->at[number] == 1);
        else
            json_number(object, names[number], numbers->at[number]);
    }
    if (numbers->choices != NULL) cJSON_AddStringToObject(object, "choices", numbers->choices);
}

/* A number, a truth, or null for what was not finite. */
static bool take(const cJSON *object, paper_number number, paper_numbers *numbers) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, names[number]);
    if (paper_number_is_truth(number)) {
        if (!cJSON_IsBool(value)) return false;
        numbers->at[number] = (double)cJSON_IsTrue(value);
        return true;
    }
    if (cJSON_IsNumber(value)) numbers->at[number] = value->valuedouble;
    return cJSON_IsNumber(value) || cJSON_IsNull(value);
}

bool paper_numbers_get(const cJSON *object, const paper_kind *kind, paper_numbers *numbers) {
    const char *choices = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "choices"));
    free(numbers->choices);
    paper_numbers_init(numbers);
    for (int64_t i = 0; i < kind->n_numbers; i++)
        if (!take(object, kind->numbers[i], numbers)) return false;
    numbers->choices = choices != NULL ? strdup(choices) : NULL;
    return true;
}
