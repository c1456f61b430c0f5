/* What can be learnt: the models that a file may name. */
#ifndef CLI_EXPERIMENT_MODEL_H
#define CLI_EXPERIMENT_MODEL_H

#include "cli/experiment/experiment_config.h"
#include "train/synthetic.h"

#define EXPERIMENT_MODEL_WORDS "univariate1|univariate2|multivariate1|multivariate2|dsprites|yaleb"
#define EXPERIMENT_DEPENDENCE_WORDS "linear|nonlinear|ycone"

enum experiment_model_word {
    MODEL_UNIVARIATE1,
    MODEL_UNIVARIATE2,
    MODEL_MULTIVARIATE1,
    MODEL_MULTIVARIATE2,
    MODEL_DSPRITES,
    MODEL_YALEB,
    N_MODELS
};

const char *experiment_model_name(int word);

/* Of pictures, not of the synthetic equations. */
bool experiment_model_has_pictures(int word);

/* The synthetic model, in d dimensions. */
synthetic_model experiment_model_synthetic(const experiment_model *model, int64_t d);

/* "multivariate1-d5", "dsprites-nonlinear": for names of files. "multivariate1, d = 5", "dsprites, nonlinear": for
 * people. */
const char *experiment_model_id(const experiment_model *model, int64_t d, char *text, size_t size);
const char *experiment_model_text(const experiment_model *model, int64_t d, char *text, size_t size);

#endif
