/* Tables of the keys, and checks of what no single key can tell. */
#include "cli/experiment/experiment_keys.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "cli/common/message.h"
#include "cli/experiment/experiment_kind.h"
#include "cli/experiment/experiment_model.h"
#include "images/dsprites_task.h"
#include "train/network.h"

/* ---- words ------------------------------------------------------------------------------------------------------- */

static const char *const regularizers[] = {"none", "circe", "hscic", "gcm", "hsic"};

enum { BIASED, DEBIASED, CENTERED, USTAT }; /* of the estimators */
enum { AUTO, LOWRANK, DENSE, RFF };         /* of the methods */

const char *experiment_regularizer_name(int word) { return regularizers[word]; }

/* ---- a model ----------------------------------------------------------------------------------------------------- */

static int check_dimensions(const yaml_file *file, int64_t line, const experiment_model *model) {
    const char *name = experiment_model_name(model->word);
    bool many = model->word == MODEL_MULTIVARIATE1 || model->word == MODEL_MULTIVARIATE2;
    if (!many && model->d.n > 0) return yaml_refuse(file, line, "%s has no d; only the multivariate models have", name);
    if (many && model->d.n == 0) return yaml_refuse(file, line, "%s needs dimensions, as in d: [2, 5, 10, 20]", name);
    for (int64_t i = 0; i < model->d.n; i++) {
        synthetic_model one = experiment_model_synthetic(model, (int64_t)model->d.values[i]);
        if (synthetic_check(&one) != CIRCE_OK) return yaml_refuse(file, line, "%s", circe_last_error());
    }
    return EXIT_DONE;
}

static int check_model(const yaml_file *file, int64_t line, const void *part) {
    const experiment_model *model = part;
    const char *name = experiment_model_name(model->word);
    bool sprites = model->word == MODEL_DSPRITES, faces = model->word == MODEL_YALEB;
    const struct {
        bool said, allowed;
        const char *key, *owner;
    } keys[] = {
        {model->dependence >= 0, sprites, "dependence", "dsprites"},
        {model->holdout_in_training, sprites, "holdout_in_training", "dsprites"},
        {model->file != NULL, sprites, "file", "dsprites"},
        {model->folder != NULL, faces, "folder", "yaleb"},
        {model->size > 0, faces, "size", "yaleb"},
        {model->identities > 0, faces, "identities", "yaleb"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].said && !keys[i].allowed)
            return yaml_refuse(file, line, "%s has no %s; only %s has", name, keys[i].key, keys[i].owner);
    if (sprites && model->dependence < 0)
        return yaml_refuse(file, line, "dsprites needs the key 'dependence', as in dependence: nonlinear");
    if (model->folder != NULL && model->identities > 0)
        return yaml_refuse(file, line, "'identities' says how many heads are rendered, and 'folder' that none are");
    return check_dimensions(file, line, model);
}

/* ---- a method, the training -------------------------------------------------------------------------------------- */

static int check_method(const yaml_file *file, int64_t line, const void *part) {
    const experiment_method *m = part;
    if (m->regularizer != REGULARIZER_NONE && m->gamma.n == 0)
        return yaml_refuse(file, line, "the method '%s' needs the key 'gamma', as in gamma: [100, 1000]", m->name);
    if (m->regularizer == REGULARIZER_NONE && m->gamma.n > 0)
        return yaml_refuse(file, line, "the method '%s' has no regularizer, so gamma has nothing to weigh", m->name);
    if (m->method == RFF && m->regularizer != REGULARIZER_CIRCE)
        return yaml_refuse(file, line, "the method '%s': method rff is for the regularizer circe", m->name);
    if (m->regularizer == REGULARIZER_HSIC && m->estimator != BIASED && m->estimator != USTAT)
        return yaml_refuse(file, line, "the method '%s': hsic has the estimators biased and ustat", m->name);
    if (m->trained_on == ON_OOD && m->regularizer != REGULARIZER_NONE)
        return yaml_refuse(file, line,
                           "the method '%s': what is trained out of domain has nothing to be made invariant to; its "
                           "regularizer is none",
                           m->name);
    return EXIT_DONE;
}

static int check_training(const yaml_file *file, int64_t line, const void *part) {
    const experiment_training *t = part;
    train_layer_spec *layers = NULL;
    int64_t n = 0;
    if (t->precision != NULL && train_precision_find(t->precision) < 0)
        return yaml_refuse(file, line, "precision: '%s' is none of float32, tf32, bf16", t->precision);
    circe_status status = train_network_parse(t->net, TRAIN_RELU, 1, &layers, &n);
    free(layers);
    return status == CIRCE_OK ? EXIT_DONE : yaml_refuse(file, line, "net: %s", circe_last_error());
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int check_models(const yaml_file *file, int64_t line, const experiment_config *c) {
    for (int64_t i = 1; i < c->models.n; i++) {
        const experiment_model *one = experiment_model_at(c, i);
        if (experiment_model_has_pictures(one->word) != experiment_model_has_pictures(experiment_model_at(c, 0)->word))
            return yaml_refuse(file, line, "models of pictures and synthetic ones are two experiments");
        for (int64_t k = 0; k < i; k++) {
            char first[96], second[96];
            experiment_model_id(experiment_model_at(c, k), 1, first, sizeof first);
            experiment_model_id(one, 1, second, sizeof second);
            if (strcmp(first, second) == 0) return yaml_refuse(file, line, "the model %s is there twice", second);
        }
    }
    return EXIT_DONE;
}

static int check_methods(const yaml_file *file, int64_t line, const experiment_config *c) {
    for (int64_t m = 0; m < c->methods.n; m++) {
        const experiment_method *method = experiment_method_at(c, m);
        if (c->sweep && (method->rate.n > 1 || method->decay.n > 1))
            return yaml_refuse(file, line, "the method '%s' has several rates or decays; in a sweep nothing is chosen",
                               method->name);
        if (method->trained_on == ON_OOD && !experiment_kind_of(c)->pictures)
            return yaml_refuse(file, line, "the method '%s': only models of pictures have data out of domain",
                               method->name);
    }
    for (int64_t i = 0; i < c->paper.n; i++) {
        bool found = false;
        for (int64_t m = 0; m < c->methods.n; m++)
            found = found || strcmp(experiment_method_at(c, m)->name, experiment_paper_at(c, i)->method) == 0;
        if (!found && !c->quick)
            return yaml_refuse(file, line, "'paper' names the method '%s', which is none of 'methods'",
                               experiment_paper_at(c, i)->method);
    }
    return EXIT_DONE;
}

/* Rows of synthetic models; of pictures there are only so many. */
static int check_rows(const yaml_file *file, int64_t line, const experiment_config *c) {
    enum { LEAST = 10 };
    const struct {
        const char *name;
        int64_t rows, most;
    } parts[] = {{"train", c->data.train, DSPRITES_MOST_TRAIN},
                 {"validation", c->data.validation, DSPRITES_MOST_VALIDATION},
                 {"test", c->data.test, DSPRITES_MOST_TEST},
                 {"holdout", c->data.holdout, DSPRITES_MOST_HOLDOUT}};
    bool sprites = c->models.n > 0 && experiment_model_at(c, 0)->word == MODEL_DSPRITES;
    for (int p = 0; p < 4; p++) {
        if (parts[p].rows != 0 && parts[p].rows < LEAST)
            return yaml_refuse(file, line, "%s: %lld rows are too few; at least %d are needed", parts[p].name,
                               (long long)parts[p].rows, LEAST);
        if (sprites && parts[p].rows > parts[p].most)
            return yaml_refuse(file, line, "%s: %lld rows, but dsprites has %lld; 0 takes all of them", parts[p].name,
                               (long long)parts[p].rows, (long long)parts[p].most);
    }
    int64_t train = c->data.train > 0 ? c->data.train : experiment_kind_of(c)->data.train;
    if (train > 0 && train < c->training.batch)
        return yaml_refuse(file, line, "train (%lld rows) must be at least a batch (%lld)", (long long)train,
                           (long long)c->training.batch);
    return EXIT_DONE;
}

static int check_whole(const yaml_file *file, int64_t line, const void *part) {
    const experiment_config *c = part;
    bool limits = c->limits.samples > 0;
    if (!limits && c->methods.n == 0)
        return yaml_refuse(file, line, "the experiment lacks the key 'methods' (or 'limits', to compute limits only)");
    if (limits && c->methods.n > 0)
        return yaml_refuse(file, line, "'limits' trains nothing, so there must be no 'methods' beside it");
    if (limits && c->models.n > 0 && experiment_model_has_pictures(experiment_model_at(c, 0)->word))
        return yaml_refuse(file, line, "'limits' are computed of synthetic models only");
    int status = check_models(file, line, c);
    if (status == EXIT_DONE) status = check_methods(file, line, c);
    if (status == EXIT_DONE) status = check_rows(file, line, c);
    return status;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

#define AT(type, member) .offset = offsetof(type, member)
#define TABLE(words, type, list, ...) \
    { .what = words, .keys = list, .n_keys = sizeof(list) / sizeof *(list), .bytes = sizeof(type), __VA_ARGS__ }

static void init_model(void *part) { *(experiment_model *)part = (experiment_model){.dependence = -1}; }

static const yaml_key model_keys[] = {
    {"model", KEY_WORD, AT(experiment_model, word), .example = "univariate1", .required = true,
     .words = EXPERIMENT_MODEL_WORDS, .plan = true},
    {"d", KEY_WHOLES, AT(experiment_model, d), .example = "[2, 5, 10, 20]", .low = 1, .high = 4096, .plan = true},
    {"dependence", KEY_WORD, AT(experiment_model, dependence), .example = "nonlinear",
     .words = EXPERIMENT_DEPENDENCE_WORDS},
    {"holdout_in_training", KEY_TRUTH, AT(experiment_model, holdout_in_training), .example = "true"},
    {"file", KEY_TEXT, AT(experiment_model, file), .example = "dsprites.npz", .plan = true},
    {"folder", KEY_TEXT, AT(experiment_model, folder), .example = "ExtendedYaleB", .plan = true},
    {"size", KEY_WHOLE, AT(experiment_model, size), .example = "224", .low = 16, .high = 1024},
    {"identities", KEY_WHOLE, AT(experiment_model, identities), .example = "28", .low = 3, .high = 28},
};
const yaml_table experiment_model_table =
    TABLE("a model", experiment_model, model_keys, .init = init_model, .check = check_model);

static void init_method(void *part) {
    *(experiment_method *)part = (experiment_method){.estimator = USTAT,
                                                     .sigma2_x = 0.1,
                                                     .sigma2_z = 1.0,
                                                     .per_dimension = true,
                                                     .previous_batch = true,
                                                     .rff_features = 512};
}

static const yaml_key method_keys[] = {
    {"name", KEY_NAME, AT(experiment_method, name), .example = "circe", .required = true, .plan = true},
    {"regularizer", KEY_WORD, AT(experiment_method, regularizer), .example = "circe", .required = true,
     .words = "none|circe|hscic|gcm|hsic"},
    {"init", KEY_WORD, AT(experiment_method, init), .example = "he", .words = "training|he|uniform"},
    {"trained_on", KEY_WORD, AT(experiment_method, trained_on), .example = "ood", .words = "domain|ood"},
    {"gamma", KEY_NUMBERS, AT(experiment_method, gamma), .example = "[100, 1000]", .low = 0, .high = INFINITY,
     .plan = true},
    {"estimator", KEY_WORD, AT(experiment_method, estimator), .example = "ustat",
     .words = "biased|debiased|centered|ustat"},
    {"sigma2_x", KEY_NUMBER, AT(experiment_method, sigma2_x), .example = "0.1", .low = DBL_MIN, .high = INFINITY},
    {"sigma2_y", KEY_NUMBERS, AT(experiment_method, sigma2_y), .example = "[1, 0.1]", .low = DBL_MIN, .high = INFINITY},
    {"sigma2_z", KEY_NUMBER, AT(experiment_method, sigma2_z), .example = "1", .low = 0, .high = INFINITY},
    {"per_dimension", KEY_TRUTH, AT(experiment_method, per_dimension), .example = "true"},
    {"ridge", KEY_NUMBERS, AT(experiment_method, ridge), .example = "[0.01, 0.1]", .low = DBL_MIN, .high = INFINITY},
    {"method", KEY_WORD, AT(experiment_method, method), .example = "lowrank", .words = "auto|lowrank|dense|rff"},
    {"rff_features", KEY_WHOLE, AT(experiment_method, rff_features), .example = "512", .low = 1, .high = 1e6},
    {"regress_z", KEY_WORD, AT(experiment_method, regress_z), .example = "batch", .words = "batch|holdout"},
    {"regression", KEY_WORD, AT(experiment_method, regression), .example = "kernel", .words = "kernel|linear"},
    {"combine", KEY_WORD, AT(experiment_method, combine), .example = "max", .words = "max|logsumexp|squares"},
    {"previous_batch", KEY_TRUTH, AT(experiment_method, previous_batch), .example = "true"},
    {"rate", KEY_NUMBERS, AT(experiment_method, rate), .example = "[1e-4, 1e-3]", .low = DBL_MIN, .high = INFINITY,
     .plan = true},
    {"decay", KEY_NUMBERS, AT(experiment_method, decay), .example = "[0.3, 3]", .low = 0, .high = INFINITY,
     .plan = true},
    {"seeds", KEY_WHOLE, AT(experiment_method, seeds), .example = "1", .low = 1, .high = 1000, .plan = true},
    {"tuning_seeds", KEY_WHOLE, AT(experiment_method, tuning_seeds), .example = "1", .low = 1, .high = 1000,
     .plan = true},
};
const yaml_table experiment_method_table =
    TABLE("a method", experiment_method, method_keys, .init = init_method, .check = check_method, .name = 1);

static const yaml_key paper_keys[] = {
    {"model", KEY_WORD, AT(experiment_paper, model), .example = "univariate1", .required = true,
     .words = EXPERIMENT_MODEL_WORDS},
    {"d", KEY_WHOLE, AT(experiment_paper, d), .example = "2", .low = 1, .high = 4096},
    {"method", KEY_NAME, AT(experiment_paper, method), .example = "circe", .required = true},
    {"mse", KEY_NUMBER, AT(experiment_paper, mse), .example = "0.197", .required = true},
    {"vcf", KEY_NUMBER, AT(experiment_paper, vcf), .example = "0.18", .required = true},
};
static void init_paper(void *part) { *(experiment_paper *)part = (experiment_paper){.d = 1}; }
static const yaml_table paper_table = TABLE("a number of the paper", experiment_paper, paper_keys, .init = init_paper);

static const yaml_key data_keys[] = {
    {"train", KEY_WHOLE, AT(experiment_data, train), .example = "8000", .low = 0, .high = 1e8},
    {"validation", KEY_WHOLE, AT(experiment_data, validation), .example = "1000", .low = 0, .high = 1e8},
    {"test", KEY_WHOLE, AT(experiment_data, test), .example = "2000", .low = 0, .high = 1e8},
    {"holdout", KEY_WHOLE, AT(experiment_data, holdout), .example = "1000", .low = 0, .high = 1e8},
};
const yaml_table experiment_data_table = TABLE("data", experiment_data, data_keys, .init = NULL);

static const yaml_key training_keys[] = {
    {"net", KEY_TEXT, AT(experiment_training, net), .example = "9x64"},
    {"activation", KEY_WORD, AT(experiment_training, activation), .example = "relu", .words = "relu|leaky_relu|tanh"},
    {"init", KEY_WORD, AT(experiment_training, init), .example = "he", .words = "he|uniform"},
    {"dtype", KEY_WORD, AT(experiment_training, dtype), .example = "float64", .words = "float32|float64"},
    {"precision", KEY_TEXT, AT(experiment_training, precision), .example = "tf32"},
    {"epochs", KEY_WHOLE, AT(experiment_training, epochs), .example = "100", .low = 1, .high = 1e6},
    {"steps", KEY_WHOLE, AT(experiment_training, steps), .example = "8000", .low = 0, .high = 1e9},
    {"weights", KEY_TEXT, AT(experiment_training, weights), .example = "resnet18.safetensors"},
    {"batch", KEY_WHOLE, AT(experiment_training, batch), .example = "256", .low = 4, .high = 1e6},
    {"rate", KEY_NUMBER, AT(experiment_training, rate), .example = "1e-4", .low = DBL_MIN, .high = INFINITY},
    {"decay", KEY_NUMBER, AT(experiment_training, decay), .example = "0.3", .low = 0, .high = INFINITY},
    {"schedule", KEY_WORD, AT(experiment_training, schedule), .example = "cosine", .words = "constant|cosine"},
    {"warmup", KEY_NUMBER, AT(experiment_training, warmup), .example = "0", .low = 0, .high = INFINITY},
};
const yaml_table experiment_training_table =
    TABLE("training", experiment_training, training_keys, .check = check_training);

static const yaml_key evaluation_keys[] = {
    {"points", KEY_WHOLE, AT(experiment_evaluation, points), .example = "2000", .low = 10, .high = 1e8},
    {"draws", KEY_WHOLE, AT(experiment_evaluation, draws), .example = "100", .low = 2, .high = 1e6},
};
const yaml_table experiment_evaluation_table =
    TABLE("evaluation", experiment_evaluation, evaluation_keys, .init = NULL);

static const yaml_key yardstick_keys[] = {
    {"sigma2_x", KEY_NUMBER, AT(experiment_yardstick, sigma2_x), .example = "0.05", .low = DBL_MIN, .high = INFINITY},
    {"sigma2_y", KEY_NUMBERS, AT(experiment_yardstick, sigma2_y), .example = "[1, 0.1]", .low = DBL_MIN,
     .high = INFINITY},
    {"sigma2_z", KEY_NUMBER, AT(experiment_yardstick, sigma2_z), .example = "0.5", .low = 0, .high = INFINITY},
    {"ridge", KEY_NUMBERS, AT(experiment_yardstick, ridge), .example = "[0.01, 0.1]", .low = DBL_MIN, .high = INFINITY},
    {"chunk", KEY_WHOLE, AT(experiment_yardstick, chunk), .example = "1024", .low = 16, .high = 1e6},
};
const yaml_table experiment_yardstick_table = TABLE("a yardstick", experiment_yardstick, yardstick_keys, .init = NULL);

static const yaml_key limits_keys[] = {
    {"samples", KEY_WHOLE, AT(experiment_limits, samples), .example = "500000", .required = true, .low = 1024,
     .high = 1e10},
};
const yaml_table experiment_limits_table = TABLE("limits", experiment_limits, limits_keys, .init = NULL);

/* What `quick` may change. */
#define CHANGEABLE                                                                                                     \
    {"models", KEY_PARTS, AT(experiment_config, models), .example = "", .part = &experiment_model_table},              \
        {"methods", KEY_PARTS, AT(experiment_config, methods), .example = "", .part = &experiment_method_table},       \
        {"data", KEY_PART, AT(experiment_config, data), .example = "", .part = &experiment_data_table},                \
        {"training", KEY_PART, AT(experiment_config, training), .example = "", .part = &experiment_training_table},    \
        {"evaluation", KEY_PART, AT(experiment_config, evaluation), .example = "",                                     \
         .part = &experiment_evaluation_table},                                                                        \
        {"yardstick", KEY_PART, AT(experiment_config, yardstick), .example = "", .part = &experiment_yardstick_table}, \
        {"limits", KEY_PART, AT(experiment_config, limits), .example = "", .part = &experiment_limits_table},          \
        {"seeds", KEY_WHOLE, AT(experiment_config, seeds), .example = "5", .low = 0, .high = 1000}, {                  \
        "tuning_seeds", KEY_WHOLE, AT(experiment_config, tuning_seeds), .example = "1", .low = 1, .high = 1000         \
    }

static const yaml_key config_keys[] = {
    {"title", KEY_TEXT, AT(experiment_config, title), .example = "My experiment", .required = true},
    {"explanation", KEY_TEXT, AT(experiment_config, explanation), .example = "What is asked."},
    {"remark", KEY_TEXT, AT(experiment_config, remark), .example = "What to bear in mind."},
    CHANGEABLE,
    {"sweep", KEY_TRUTH, AT(experiment_config, sweep), .example = "true"},
    {"pareto", KEY_TRUTH, AT(experiment_config, sweep), .example = "true"}, /* what it was called */
    {"paper", KEY_PARTS, AT(experiment_config, paper), .example = "", .part = &paper_table},
    {"quick", KEY_LATER, .example = ""},
};
const yaml_table experiment_config_table = TABLE("an experiment", experiment_config, config_keys, .check = check_whole);

static const yaml_key quick_keys[] = {CHANGEABLE};
const yaml_table experiment_quick_table = TABLE("quick", experiment_config, quick_keys, .check = check_whole);

/* The paper's protocol. */
void experiment_config_init(experiment_config *config) {
    *config = (experiment_config){
        .training = {.net = "9x64", .epochs = 100, .batch = 256, .rate = 1e-4, .decay = 0.3, .schedule = 1},
        .evaluation = {.points = 2000, .draws = 100},
        .yardstick = {.sigma2_x = 0.05, .chunk = 1024},
        .seeds = 5,
        .tuning_seeds = 1,
    };
}
