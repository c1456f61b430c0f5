/* The models that a file may name: what can be learnt. */
#include <inttypes.h>
#include <stdio.h>

#include "images/dsprites_task.h"
#include "paper/paper_config.h"

static const struct {
    const char *name;
    enum { ONE, MANY, DSPRITES, FACES } of; /* one dimension, several, or pictures */
    synthetic_kind kind;
} models[N_MODELS] = {
    [MODEL_UNIVARIATE1] = {"univariate1", ONE, SYNTHETIC_UNIVARIATE_1},
    [MODEL_UNIVARIATE2] = {"univariate2", ONE, SYNTHETIC_UNIVARIATE_2},
    [MODEL_MULTIVARIATE1] = {"multivariate1", MANY, SYNTHETIC_MULTIVARIATE_1},
    [MODEL_MULTIVARIATE2] = {"multivariate2", MANY, SYNTHETIC_MULTIVARIATE_2},
    [MODEL_DSPRITES] = {"dsprites", DSPRITES, 0},
    [MODEL_YALEB] = {"yaleb", FACES, 0},
};

const char *paper_model_name(int word) { return models[word].name; }

bool paper_model_has_pictures(int word) { return models[word].of == DSPRITES || models[word].of == FACES; }

synthetic_model paper_model_synthetic(const paper_model *model, int64_t d) {
    return (synthetic_model){models[model->word].kind, d};
}

/* The name, and what tells models of that name apart, between these words. */
static const char *describe(const paper_model *model, int64_t d, const char *before_d, const char *comma,
                            const char *holdout, char text[PAPER_MODEL_BYTES]) {
    const char *name = models[model->word].name;
    if (models[model->word].of == MANY)
        snprintf(text, PAPER_MODEL_BYTES, "%s%s%" PRId64, name, before_d, d);
    else if (models[model->word].of == DSPRITES)
        snprintf(text, PAPER_MODEL_BYTES, "%s%s%s%s", name, comma,
                 dsprites_name((dsprites_dependence)(model->dependence + (int)DSPRITES_LINEAR)),
                 model->holdout_in_training ? holdout : "");
    else
        snprintf(text, PAPER_MODEL_BYTES, "%s", name);
    return text;
}

const char *paper_model_id(const paper_model *model, int64_t d, char text[PAPER_MODEL_BYTES]) {
    return describe(model, d, "-d", "-", "-holdout", text);
}

const char *paper_model_text(const paper_model *model, int64_t d, char text[PAPER_MODEL_BYTES]) {
    return describe(model, d, ", d = ", ", ", ", holdout also trained on", text);
}
