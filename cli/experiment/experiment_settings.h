/* Everything that decides the outcome of one run: what a child process gets, what a result is filed under, and what
 * makes a run be repeated when it changes. */
#ifndef CLI_EXPERIMENT_SETTINGS_H
#define CLI_EXPERIMENT_SETTINGS_H

#include <cjson/cJSON.h>

#include "cli/experiment/experiment_config.h"
#include "train/network.h"
#include "train/regularizer.h"

typedef struct experiment_settings {
    const experiment_kind *kind; /* which says what of the rest matters */
    experiment_model model;
    int64_t d;
    experiment_limits limits;
    experiment_data data;
    experiment_training training;
    experiment_evaluation evaluation;
    experiment_yardstick yardstick;
    experiment_method method; /* its name, seeds and lists of choices are not settings of a run */
    double gamma;
    int64_t seed;
} experiment_settings;

/* A member of the settings that a kind of run has, with the keys it is made of. */
typedef struct experiment_settings_part {
    const char *name;
    const io_fields *table;
    size_t offset; /* in experiment_settings */
} experiment_settings_part;

cJSON *experiment_settings_json(const experiment_settings *settings);

/* Texts and lists go into the arena. Prints what is wrong and returns an exit status. */
int experiment_settings_parse(const cJSON *json, arena *owner, experiment_settings *settings);

/* 16 digits and the end of the text: of the settings and of the version of this program. */
enum { FINGERPRINT_BYTES = 17 };
void experiment_settings_fingerprint(const experiment_settings *settings, char fingerprint[FINGERPRINT_BYTES]);

/* The library's options; point into the settings. The second is the yardstick's: CIRCE, ustat. */
void experiment_settings_regularizer(const experiment_settings *settings, train_regularizer_options *options);
void experiment_settings_yardstick(const experiment_settings *settings, train_regularizer_options *options);
train_layer_kind experiment_settings_activation(const experiment_settings *settings);

#endif
