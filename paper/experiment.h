/* An experiment as its file describes it: experiments/NAME.yaml. */
#ifndef PAPER_EXPERIMENT_H
#define PAPER_EXPERIMENT_H

#include "io/fields.h"
#include "paper/paper.h"
#include "train/synthetic.h"

#define PAPER_MODEL_WORDS "univariate1|univariate2|multivariate1|multivariate2|dsprites|yaleb"

enum paper_model_word {
    MODEL_UNIVARIATE1,
    MODEL_UNIVARIATE2,
    MODEL_MULTIVARIATE1,
    MODEL_MULTIVARIATE2,
    MODEL_DSPRITES,
    MODEL_YALEB,
    N_MODELS
};

typedef struct paper_model {
    int word;
    io_numbers d; /* of multivariate models: dimensions */
    /* Of pictures. */
    int dependence; /* of dsprites: linear, nonlinear, ycone; -1: not said */
    bool holdout_in_training;
    const char *file, *folder; /* the published set; NULL: drawn */
    int64_t size, identities;  /* of faces: pixels, people */
    /* Where they lie for the runs, and what stands for their content; NULL: drawn for every run. */
    const char *pictures, *mark;
} paper_model;

enum paper_regularizer { REGULARIZER_NONE, REGULARIZER_CIRCE, REGULARIZER_HSCIC, REGULARIZER_GCM, REGULARIZER_HSIC };

enum paper_trained_on { ON_DOMAIN, ON_OOD };

/* Words are indices; paper_settings_regularizer makes the library's options of them. */
typedef struct paper_method {
    const char *name;
    int regularizer, estimator, method, regress_z, regression, combine;
    int trained_on;             /* of pictures: paper_trained_on */
    int init;                   /* 0: the training's; else 1 + what the training's would be */
    double sigma2_x, sigma2_z;  /* sigma2_z = 0: the median heuristic */
    io_numbers sigma2_y, ridge; /* n = 0: the library's grids, among which leave-one-out chooses */
    bool per_dimension, previous_batch;
    int64_t rff_features;
    io_numbers gamma;
    io_numbers rate, decay;      /* n = 0: those of the training */
    int64_t seeds, tuning_seeds; /* at most so many; 0: the experiment's */
} paper_method;

/* What a method leaves to be chosen. */
typedef struct paper_choice {
    double gamma, rate, decay;
} paper_choice;

/* What the paper has for a cell of the table. */
typedef struct paper_published {
    int model;
    int64_t d;
    const char *method;
    double mse, vcf;
} paper_published;

/* Rows; 0: as many as the kind of experiment has without being asked. */
typedef struct paper_data {
    int64_t train, validation, test, holdout;
} paper_data;

typedef struct paper_training {
    const char *net, *weights; /* weights: a file of pretrained ones; NULL: none */
    int activation, init, schedule;
    int dtype;             /* of the regulariser on a batch */
    const char *precision; /* of the network: device.h; NULL: float32, as in results from before there was a choice */
    int64_t epochs, batch;
    int64_t steps; /* in place of the epochs; 0: those */
    double rate, decay, warmup;
} paper_training;

typedef struct paper_evaluation {
    int64_t points, draws; /* of VCF */
} paper_evaluation;

/* CIRCE as every method's prediction is measured by it, whatever it was trained with. */
typedef struct paper_yardstick {
    double sigma2_x, sigma2_z;
    io_numbers sigma2_y, ridge; /* as in a method */
    int64_t chunk;              /* rows */
} paper_yardstick;

typedef struct paper_limits {
    int64_t samples; /* 0: the experiment trains */
} paper_limits;

typedef struct paper_config {
    const char *title, *explanation, *remark;
    io_parts models, methods, published;
    paper_data data;
    paper_training training;
    paper_evaluation evaluation;
    paper_yardstick yardstick;
    paper_limits limits;
    int64_t seeds, tuning_seeds;
    bool sweep;
    const struct paper_kind *kind; /* once it is read */
    /* where it came from */
    arena owner;
    const char *name, *path, *text;
    bool quick;
} paper_config;

static inline paper_model *paper_model_at(const paper_config *config, int64_t i) {
    return (paper_model *)config->models.items + i;
}
static inline const paper_method *paper_method_at(const paper_config *config, int64_t i) {
    return (const paper_method *)config->methods.items + i;
}
static inline const paper_published *paper_published_at(const paper_config *config, int64_t i) {
    return (const paper_published *)config->published.items + i;
}

/* Finds and reads the experiment that the options ask for; their quick, seeds, dtype and precision are in it. */
circe_status paper_config_read(const paper_options *options, paper_config *config);
void paper_config_free(paper_config *config);

/* ---- its keys: the same tables put the settings of a run into JSON and read them back -----------------------------
 */

extern const io_fields paper_model_fields, paper_method_fields, paper_data_fields, paper_training_fields,
    paper_evaluation_fields, paper_yardstick_fields, paper_limits_fields;

/* A whole file, and what its key `quick` may change. */
extern const io_fields paper_config_fields, paper_quick_fields;

/* What a file that says nothing means. */
void paper_config_init(paper_config *config);

const char *paper_regularizer_name(int word);

/* ---- models ------------------------------------------------------------------------------------------------------ */

const char *paper_model_name(int word);

/* Of pictures, not of the synthetic equations. */
bool paper_model_has_pictures(int word);

/* The synthetic model, in d dimensions. */
synthetic_model paper_model_synthetic(const paper_model *model, int64_t d);

/* "multivariate1-d5", "dsprites-nonlinear": for names of files. "multivariate1, d = 5", "dsprites, nonlinear": for
 * people. */
enum { PAPER_MODEL_BYTES = 96 };
const char *paper_model_id(const paper_model *model, int64_t d, char text[PAPER_MODEL_BYTES]);
const char *paper_model_text(const paper_model *model, int64_t d, char text[PAPER_MODEL_BYTES]);

/* ---- choices ----------------------------------------------------------------------------------------------------- */

/* Every combination of the method's gammas, rates and decays. */
int64_t paper_n_choices(const paper_method *method);
paper_choice paper_choice_at(const paper_config *config, const paper_method *method, int64_t i);

#endif
