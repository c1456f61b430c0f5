/* An experiment as its file describes it: experiments/NAME.yaml. */
#ifndef CLI_EXPERIMENT_CONFIG_H
#define CLI_EXPERIMENT_CONFIG_H

#include "cli/common/parse.h"
#include "io/fields.h"

typedef struct experiment_kind experiment_kind; /* experiment_kind.h */

typedef struct experiment_model {
    int word;     /* among the models: experiment_model.h */
    io_numbers d; /* of multivariate models: dimensions */
    /* Of pictures. */
    int dependence; /* of dsprites: linear, nonlinear, ycone; -1: not said */
    bool holdout_in_training;
    const char *file, *folder; /* the published set; NULL: drawn */
    int64_t size, identities;  /* of faces: pixels, people */
    /* Where they lie for the runs, and what stands for their content; NULL: drawn for every run. */
    const char *pictures, *mark;
} experiment_model;

/* Words are indices; experiment_settings_regularizer makes the library's options of them. */
typedef struct experiment_method {
    const char *name;
    int regularizer, estimator, method, regress_z, regression, combine;
    int trained_on;             /* of pictures: experiment_trained_on */
    int init;                   /* 0: the training's; else 1 + what the training's would be */
    double sigma2_x, sigma2_z;  /* sigma2_z = 0: the median heuristic */
    io_numbers sigma2_y, ridge; /* n = 0: the library's grids, among which leave-one-out chooses */
    bool per_dimension, previous_batch;
    int64_t rff_features;
    io_numbers gamma;
    io_numbers rate, decay;      /* n = 0: those of the training */
    int64_t seeds, tuning_seeds; /* at most so many; 0: the experiment's */
} experiment_method;

enum experiment_trained_on { ON_DOMAIN, ON_OOD };

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

/* Rows; 0: as many as the kind of experiment has without being asked. */
typedef struct experiment_data {
    int64_t train, validation, test, holdout;
} experiment_data;

typedef struct experiment_training {
    const char *net, *weights; /* weights: a file of pretrained ones; NULL: none */
    int activation, init, schedule;
    int dtype;             /* of the regulariser on a batch */
    const char *precision; /* of the network: device.h; NULL: float32, as in results from before there was a choice */
    int64_t epochs, batch;
    int64_t steps; /* in place of the epochs; 0: those */
    double rate, decay, warmup;
} experiment_training;

typedef struct experiment_evaluation {
    int64_t points, draws; /* of VCF */
} experiment_evaluation;

/* CIRCE as every method's prediction is measured by it, whatever it was trained with. */
typedef struct experiment_yardstick {
    double sigma2_x, sigma2_z;
    io_numbers sigma2_y, ridge; /* as in a method */
    int64_t chunk;              /* rows */
} experiment_yardstick;

typedef struct experiment_limits {
    int64_t samples; /* 0: the experiment trains */
} experiment_limits;

typedef struct experiment_config {
    const char *title, *explanation, *remark;
    io_parts models, methods, paper;
    experiment_data data;
    experiment_training training;
    experiment_evaluation evaluation;
    experiment_yardstick yardstick;
    experiment_limits limits;
    int64_t seeds, tuning_seeds;
    bool sweep;
    const experiment_kind *kind; /* once it is read */
    /* where it came from */
    arena owner;
    const char *name, *path, *text;
    bool quick;
} experiment_config;

static inline experiment_model *experiment_model_at(const experiment_config *config, int64_t i) {
    return (experiment_model *)config->models.items + i;
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
