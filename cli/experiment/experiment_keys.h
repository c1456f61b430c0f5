/* What the keys of an experiment's file may hold. The same tables put the settings of a run into JSON and read them
 * back: experiment_json.h. */
#ifndef CLI_EXPERIMENT_KEYS_H
#define CLI_EXPERIMENT_KEYS_H

#include "cli/experiment/experiment_config.h"

extern const io_fields experiment_model_table, experiment_method_table, experiment_data_table,
    experiment_training_table, experiment_evaluation_table, experiment_yardstick_table, experiment_limits_table;

/* A whole file, and what its key `quick` may change. */
extern const io_fields experiment_config_table, experiment_quick_table;

enum experiment_regularizer {
    REGULARIZER_NONE,
    REGULARIZER_CIRCE,
    REGULARIZER_HSCIC,
    REGULARIZER_GCM,
    REGULARIZER_HSIC
};
const char *experiment_regularizer_name(int word);

/* What a file that says nothing means. */
void experiment_config_init(experiment_config *config);

#endif
