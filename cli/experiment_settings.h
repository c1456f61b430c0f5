/* Everything that decides the outcome of one run: what a child process gets, what a result is filed under, and what
 * makes a run be repeated when it changes. */
#ifndef CLI_EXPERIMENT_SETTINGS_H
#define CLI_EXPERIMENT_SETTINGS_H

#include <cjson/cJSON.h>

#include "experiment_config.h"
#include "network.h"
#include "regularizer.h"

typedef struct experiment_settings {
    synthetic_model model;
    int64_t limits_samples; /* above 0: limits are computed, and only the model, this and the seed matter */
    experiment_data data;
    experiment_training training;
    experiment_evaluation evaluation;
    experiment_method method; /* its name, seeds and list of gamma are not settings of a run */
    double gamma;
    int64_t seed;
} experiment_settings;

cJSON *experiment_settings_json(const experiment_settings *settings);

/* Texts and lists go into the arena. Prints what is wrong and returns an exit status. */
int experiment_settings_parse(const cJSON *json, arena *owner, experiment_settings *settings);

/* 16 digits and the end of the text: of the settings and of the version of this program. */
enum { FINGERPRINT_BYTES = 17 };
void experiment_settings_fingerprint(const experiment_settings *settings, char fingerprint[FINGERPRINT_BYTES]);

/* The library's options; point into the settings. */
void experiment_settings_regularizer(const experiment_settings *settings, train_regularizer_options *options);
train_layer_kind experiment_settings_activation(const experiment_settings *settings);

#endif
