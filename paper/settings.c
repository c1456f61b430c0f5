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
    int word = circe_word_index(PAPER_MODEL_WORDS, io_json_text(&r, json, "model"));
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
    if (r.missing == NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "the settings lack '%s', or its value has the wrong type", r.missing);
}

/* ---- for the library --------------------------------------------------------------------------------------------- */

static double width_of(const paper_method *m) {
    const double widths[] = {m->sigma2_x, CIRCE_SIGMA2_MEDIAN, CIRCE_SIGMA2_RUNNING};
    return widths[m->width_x];
}

/* The paper's own where the file has none: its data are of one scale. */
static void take_widths_y(const double *values, int64_t n, circe_measure_options *options) {
    static const double usual[] = {1.0, 0.1, 0.01, 0.001};
    options->sigma2_y = n > 0 ? values : usual;
    options->n_sigma2_y = n > 0 ? n : (int64_t)(sizeof usual / sizeof *usual);
}

void paper_settings_regularizer(const paper_settings *settings, circe_measure_options *options) {
    const paper_method *m = &settings->method;
    circe_measure_options_init(options, CIRCE_MEASURE_NONE);
    options->kind = (circe_measure_kind)circe_measure_find(paper_regularizer_name(m->regularizer));
    options->estimator = (circe_estimator)(m->estimator + (int)CIRCE_BIASED);
    options->method = (circe_method)m->method;
    options->dtype = settings->training.dtype == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
    options->sigma2_x = width_of(m);
    options->normalize_x = (circe_normalize)m->normalize_x;
    take_widths_y(m->sigma2_y.values, m->sigma2_y.n, options);
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

void paper_settings_yardstick(const paper_settings *settings, circe_measure_options *options) {
    const paper_yardstick *y = &settings->yardstick;
    circe_measure_options_init(options, CIRCE_MEASURE_NONE);
    options->kind = CIRCE_MEASURE_CIRCE;
    options->estimator = CIRCE_USTAT;
    options->sigma2_x = y->sigma2_x;
    take_widths_y(y->sigma2_y.values, y->sigma2_y.n, options);
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

const char *const paper_number_names[N_NUMBERS] = {
#define NAME(number, name) [NUMBER_##number] = name,
    PAPER_NUMBERS(NAME)
#undef NAME
};

void paper_numbers_init(paper_numbers *numbers) {
    numbers->choices = NULL;
    for (int i = 0; i < N_NUMBERS; i++) numbers->at[i] = (double)NAN;
}

void paper_numbers_put(cJSON *object, const paper_kind *kind, const paper_numbers *numbers) {
    for (int64_t i = 0; i < kind->n_numbers; i++) {
        const char *name = paper_number_names[kind->numbers[i]];
        double value = numbers->at[kind->numbers[i]];
        if (kind->numbers[i] == NUMBER_COLLAPSED) /* the one that is true or false */
            cJSON_AddBoolToObject(object, name, value == 1);
        else
            json_number(object, name, value);
    }
    if (numbers->choices != NULL) cJSON_AddStringToObject(object, "choices", numbers->choices);
}

/* A number, a truth, or null for what was not finite. */
static bool take(const cJSON *value, double *number) {
    if (cJSON_IsBool(value)) *number = cJSON_IsTrue(value) ? 1 : 0;
    if (cJSON_IsNumber(value)) *number = value->valuedouble;
    return cJSON_IsBool(value) || cJSON_IsNumber(value) || cJSON_IsNull(value);
}

bool paper_numbers_get(const cJSON *object, const paper_kind *kind, paper_numbers *numbers) {
    const char *choices = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "choices"));
    free(numbers->choices);
    paper_numbers_init(numbers);
    for (int64_t i = 0; i < kind->n_numbers; i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, paper_number_names[kind->numbers[i]]);
        if (!take(value, &numbers->at[kind->numbers[i]])) return false;
    }
    numbers->choices = choices != NULL ? strdup(choices) : NULL;
    return true;
}
