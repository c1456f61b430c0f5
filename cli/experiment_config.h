/* An experiment as its file describes it: experiments/NAME.yaml. */
#ifndef CLI_EXPERIMENT_CONFIG_H
#define CLI_EXPERIMENT_CONFIG_H

#include "experiment_yaml.h"
#include "parse.h"
#include "synthetic.h"

typedef struct experiment_model {
    int word; /* among univariate1, univariate2, multivariate1, multivariate2 */
    yaml_numbers d;
} experiment_model;

/* Words are indices; experiment_options_of makes the library's options of them. */
typedef struct experiment_method {
    const char *name;
    int regularizer, estimator, method, regress_z, regression, combine;
    double sigma2_x, sigma2_z;    /* sigma2_z = 0: the median heuristic */
    yaml_numbers sigma2_y, ridge; /* n = 0: the library's grids, among which leave-one-out chooses */
    bool per_dimension, previous_batch;
    int64_t rff_features;
    yaml_numbers gamma;
    yaml_numbers rate, decay;    /* n = 0: those of the training */
    int64_t seeds, tuning_seeds; /* at most so many; 0: the experiment's */
} experiment_method;

/* What a method leaves to be chosen. */
typedef struct experiment_choice {
    double gamma, rate, decay;
} experiment_choice;

/* What the paper has for a cell of the table. */
typedef struct experiment_paper {
    int model;
    int64_t d;
    const char *method;
    double mse, vcf;
} experiment_paper;

typedef struct experiment_data {
    int64_t train, validation, test, holdout;
} experiment_data;

typedef struct experiment_training {
    const char *net;
    int activation, schedule;
    int64_t epochs, batch;
    double rate, decay, warmup;
} experiment_training;

typedef struct experiment_evaluation {
    int64_t points, draws; /* of VCF */
} experiment_evaluation;

typedef struct experiment_limits {
    int64_t samples; /* 0: the experiment trains */
} experiment_limits;

typedef struct experiment_config {
    const char *title, *explanation, *remark;
    yaml_parts models, methods, paper;
    experiment_data data;
    experiment_training training;
    experiment_evaluation evaluation;
    experiment_limits limits;
    int64_t seeds, tuning_seeds;
    bool pareto;
    /* where it came from */
    arena owner;
    const char *name, *path, *text;
    bool quick;
} experiment_config;

/* The names that the words of a file may be, by index. */
const char *experiment_regularizer_name(int word);
const char *experiment_estimator_name(int word);
const char *experiment_method_name(int word);
const char *experiment_activation_name(int word);
synthetic_kind experiment_kind(int word);

static inline const experiment_model *experiment_model_at(const experiment_config *config, int64_t i) {
    return (const experiment_model *)config->models.items + i;
}
static inline const experiment_method *experiment_method_at(const experiment_config *config, int64_t i) {
    return (const experiment_method *)config->methods.items + i;
}
static inline const experiment_paper *experiment_paper_at(const experiment_config *config, int64_t i) {
    return (const experiment_paper *)config->paper.items + i;
}

/* Every combination of the method's gammas, rates and decays. */
int64_t experiment_n_choices(const experiment_method *method);
experiment_choice experiment_choice_at(const experiment_config *config, const experiment_method *method, int64_t i);

/* Finds and reads the experiment that the arguments ask for, with --quick and --seeds in it. Prints what is wrong and
 * returns an exit status. */
int experiment_config_read(const args *arguments, experiment_config *config);
void experiment_config_free(experiment_config *config);

/* Prints every experiment there is, with its title. */
int experiment_config_list(void);

#endif
