/* An experiment as its file describes it: experiments/NAME.yaml. */
#pragma once

#include <float.h>
#include <math.h>

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

/* The keys of a file, one per row: X(kind, member, "key", "an example of a correct value", ...). not_in_json: the key
 * determines which runs there are, not how a run is done, so it is not a setting of a run. */
#define POSITIVE .low = DBL_MIN, .high = INFINITY
#define NOT_NEGATIVE .low = 0, .high = INFINITY
#define WIDTH .low = DBL_MIN, .high = 1e30 /* as of the options of train */

/* d: of multivariate models, dimensions. The rest is of pictures. dependence: of dsprites; -1: not said. file, folder:
 * the published set; NULL: drawn. size, identities: of faces, pixels and people. */
#define PAPER_MODEL(X)                                                                                       \
    X(WORD, word, "model", "univariate1", .required = true, .words = PAPER_MODEL_WORDS, .not_in_json = true) \
    X(WHOLES, d, "d", "[2, 5, 10, 20]", .low = 1, .high = 4096, .not_in_json = true)                         \
    X(WORD, dependence, "dependence", "nonlinear", .words = "linear|nonlinear|ycone")                        \
    X(TRUTH, holdout_in_training, "holdout_in_training", "true")                                             \
    X(TEXT, file, "file", "dsprites.npz", .not_in_json = true)                                               \
    X(TEXT, folder, "folder", "ExtendedYaleB", .not_in_json = true)                                          \
    X(WHOLE, size, "size", "224", .low = 16, .high = 1024)                                                   \
    X(WHOLE, identities, "identities", "28", .low = 3, .high = 28)

typedef struct paper_model {
    PAPER_MODEL(IO_MEMBER)
    /* The file of pictures for the runs, and a mark of its content; NULL: every run draws them. */
    const char *pictures, *mark;
} paper_model;

enum paper_regularizer { REGULARIZER_NONE, REGULARIZER_CIRCE, REGULARIZER_HSCIC, REGULARIZER_GCM, REGULARIZER_HSIC };

enum paper_trained_on { ON_DOMAIN, ON_OOD };

/* Words are indices; paper_settings_regularizer makes the library's options of them. init: 0: the training's; else 1 +
 * what the training's would be. trained_on: of pictures. sigma2_y: without any 1, .1, .01 and .001; ridge: without any
 * the library's grid; leave-one-out chooses among them; width_x: given: sigma2_x, or a width that follows the features;
 * sigma2_z = 0: the median heuristic. rate, decay: without any, those of the training. seeds, tuning_seeds: at most so
 * many; 0: the experiment's. */
#define PAPER_METHOD(X)                                                                                  \
    X(NAME, name, "name", "circe", .required = true, .not_in_json = true)                                \
    X(WORD, regularizer, "regularizer", "circe", .required = true, .words = "none|circe|hscic|gcm|hsic") \
    X(WORD, init, "init", "he", .words = "training|he|uniform")                                          \
    X(WORD, trained_on, "trained_on", "ood", .words = "domain|ood")                                      \
    X(NUMBERS, gamma, "gamma", "[100, 1000]", NOT_NEGATIVE, .not_in_json = true)                         \
    X(WORD, estimator, "estimator", "ustat", .words = "biased|debiased|centered|ustat")                  \
    X(NUMBER, sigma2_x, "sigma2_x", "0.1", WIDTH)                                                        \
    X(WORD, width_x, "width_x", "median", .words = "given|median|running")                               \
    X(WORD, normalize_x, "normalize_x", "none", .words = "none|rows|batch")                              \
    X(NUMBERS, sigma2_y, "sigma2_y", "[1, 0.1]", WIDTH)                                                  \
    X(NUMBER, sigma2_z, "sigma2_z", "1", .low = 0, .high = 1e30)                                         \
    X(TRUTH, per_dimension, "per_dimension", "true")                                                     \
    X(NUMBERS, ridge, "ridge", "[0.01, 0.1]", WIDTH)                                                     \
    X(WORD, method, "method", "lowrank", .words = "auto|lowrank|dense|rff")                              \
    X(WHOLE, rff_features, "rff_features", "512", .low = 1, .high = 1e6)                                 \
    X(WORD, regress_z, "regress_z", "batch", .words = "batch|holdout")                                   \
    X(WORD, regression, "regression", "kernel", .words = "kernel|linear")                                \
    X(WORD, combine, "combine", "max", .words = "max|logsumexp|squares")                                 \
    X(TRUTH, previous_batch, "previous_batch", "true")                                                   \
    X(NUMBERS, rate, "rate", "[1e-4, 1e-3]", POSITIVE, .not_in_json = true)                              \
    X(NUMBERS, decay, "decay", "[0.3, 3]", NOT_NEGATIVE, .not_in_json = true)                            \
    X(WHOLE, seeds, "seeds", "1", .low = 1, .high = 1000, .not_in_json = true)                           \
    X(WHOLE, tuning_seeds, "tuning_seeds", "1", .low = 1, .high = 1000, .not_in_json = true)
IO_STRUCT(paper_method, PAPER_METHOD)

/* What a method leaves to be chosen. */
typedef struct paper_choice {
    double gamma, rate, decay;
} paper_choice;

/* What the paper has for a cell of the table. */
#define PAPER_PUBLISHED(X)                                                               \
    X(WORD, model, "model", "univariate1", .required = true, .words = PAPER_MODEL_WORDS) \
    X(WHOLE, d, "d", "2", .low = 1, .high = 4096)                                        \
    X(NAME, method, "method", "circe", .required = true)                                 \
    X(NUMBER, mse, "mse", "0.197", .required = true)                                     \
    X(NUMBER, vcf, "vcf", "0.18", .required = true)
IO_STRUCT(paper_published, PAPER_PUBLISHED)

/* Rows; 0: as many as the kind of experiment has without being asked. */
#define PAPER_DATA(X)                                                 \
    X(WHOLE, train, "train", "8000", .low = 0, .high = 1e8)           \
    X(WHOLE, validation, "validation", "1000", .low = 0, .high = 1e8) \
    X(WHOLE, test, "test", "2000", .low = 0, .high = 1e8)             \
    X(WHOLE, holdout, "holdout", "1000", .low = 0, .high = 1e8)
IO_STRUCT(paper_data, PAPER_DATA)

/* dtype: of the regulariser on a batch. precision: of the network; NULL: float32, as in results from before there was a
 * choice. steps: in place of the epochs; 0: those. weights: a file of pretrained ones; NULL: none. */
#define PAPER_TRAINING(X)                                                      \
    X(TEXT, net, "net", "9x64")                                                \
    X(WORD, activation, "activation", "relu", .words = "relu|leaky_relu|tanh") \
    X(WORD, init, "init", "he", .words = "he|uniform")                         \
    X(WORD, dtype, "dtype", "float64", .words = "float32|float64")             \
    X(TEXT, precision, "precision", "tf32")                                    \
    X(WHOLE, epochs, "epochs", "100", .low = 1, .high = 1e6)                   \
    X(WHOLE, steps, "steps", "8000", .low = 0, .high = 1e9)                    \
    X(TEXT, weights, "weights", "resnet18.safetensors")                        \
    X(WHOLE, batch, "batch", "256", .low = 4, .high = 1e6)                     \
    X(NUMBER, rate, "rate", "1e-4", POSITIVE)                                  \
    X(NUMBER, decay, "decay", "0.3", NOT_NEGATIVE)                             \
    X(WORD, schedule, "schedule", "cosine", .words = "constant|cosine")        \
    X(NUMBER, warmup, "warmup", "0", NOT_NEGATIVE)
IO_STRUCT(paper_training, PAPER_TRAINING)

/* Of VCF. */
#define PAPER_EVALUATION(X)                                    \
    X(WHOLE, points, "points", "2000", .low = 10, .high = 1e8) \
    X(WHOLE, draws, "draws", "100", .low = 2, .high = 1e6)
IO_STRUCT(paper_evaluation, PAPER_EVALUATION)

/* CIRCE as every method's prediction is measured by it, whatever it was trained with; as in a method. chunk: rows. */
#define PAPER_YARDSTICK(X)                                         \
    X(NUMBER, sigma2_x, "sigma2_x", "0.05", WIDTH)                 \
    X(NUMBERS, sigma2_y, "sigma2_y", "[1, 0.1]", WIDTH)            \
    X(NUMBER, sigma2_z, "sigma2_z", "0.5", .low = 0, .high = 1e30) \
    X(NUMBERS, ridge, "ridge", "[0.01, 0.1]", WIDTH)               \
    X(WHOLE, chunk, "chunk", "1024", .low = 16, .high = 1e6)
IO_STRUCT(paper_yardstick, PAPER_YARDSTICK)

/* 0: the experiment trains. */
#define PAPER_LIMITS(X) X(WHOLE, samples, "samples", "500000", .required = true, .low = 1024, .high = 1e10)
IO_STRUCT(paper_limits, PAPER_LIMITS)

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
circe_status paper_config_read(const char *name, const circe_experiment_options *options, paper_config *config);
void paper_config_free(paper_config *config);

/* ---- its keys: the same tables put the settings of a run into JSON and read them back ---------------------------- */

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
