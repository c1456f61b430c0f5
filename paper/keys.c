/* The tables of keys, and checks that involve several keys. */
#include <string.h>

#include "base/owned.h"
#include "images/dsprites_task.h"
#include "paper/paper_parts.h"
#include "train/network.h"

/* ---- words ------------------------------------------------------------------------------------------------------- */

static const char *const regularizers[] = {"none", "circe", "hscic", "gcm", "hsic"};

enum { BIASED, DEBIASED, CENTERED, USTAT }; /* of the estimators */
enum { AUTO, LOWRANK, DENSE, RFF };         /* of the methods */

const char *paper_regularizer_name(int word) { return regularizers[word]; }

/* ---- a model ----------------------------------------------------------------------------------------------------- */

static circe_status check_dimensions(const io_yaml *file, int64_t line, const paper_model *model) {
    const char *name = paper_model_name(model->word);
    bool many = model->word == MODEL_MULTIVARIATE1 || model->word == MODEL_MULTIVARIATE2;
    if (!many && model->d.n > 0)
        return io_yaml_refuse(file, line, NULL, "%s has no d; only the multivariate models have one", name);
    if (many && model->d.n == 0)
        return io_yaml_refuse(file, line, NULL, "%s needs dimensions, as in d: [2, 5, 10, 20]", name);
    for (int64_t i = 0; i < model->d.n; i++) {
        synthetic_model one = paper_model_synthetic(model, (int64_t)model->d.values[i]);
        if (synthetic_check(&one) != CIRCE_OK) return io_yaml_refuse(file, line, NULL, "%s", circe_last_error());
    }
    return CIRCE_OK;
}

static circe_status check_model(const io_yaml *file, int64_t line, const void *part) {
    const paper_model *model = part;
    const char *name = paper_model_name(model->word);
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
            return io_yaml_refuse(file, line, NULL, "%s has no %s; only %s has one", name, keys[i].key, keys[i].owner);
    if (sprites && model->dependence < 0)
        return io_yaml_refuse(file, line, NULL, "dsprites needs the key 'dependence', as in dependence: nonlinear");
    if (model->folder != NULL && model->identities > 0)
        return io_yaml_refuse(file, line, NULL,
                              "'identities' is the number of heads to render, but with 'folder' none are rendered");
    return check_dimensions(file, line, model);
}

/* ---- a method, the training -------------------------------------------------------------------------------------- */

static circe_status check_method(const io_yaml *file, int64_t line, const void *part) {
    const paper_method *m = part;
    if (m->regularizer != REGULARIZER_NONE && m->gamma.n == 0)
        return io_yaml_refuse(file, line, NULL, "the method '%s' needs the key 'gamma', as in gamma: [100, 1000]",
                              m->name);
    if (m->regularizer == REGULARIZER_NONE && m->gamma.n > 0)
        return io_yaml_refuse(file, line, NULL, "the method '%s' has no regularizer, so it needs no gamma", m->name);
    if (m->method == RFF && m->regularizer != REGULARIZER_CIRCE)
        return io_yaml_refuse(file, line, NULL, "the method '%s': method rff is for the regularizer circe", m->name);
    if (m->regularizer == REGULARIZER_HSIC && m->estimator != BIASED && m->estimator != USTAT)
        return io_yaml_refuse(file, line, NULL, "the method '%s': hsic has the estimators biased and ustat", m->name);
    if (m->trained_on == ON_OOD && m->regularizer != REGULARIZER_NONE)
        return io_yaml_refuse(
            file, line, NULL,
            "the method '%s': training out of domain needs no invariance, so its regularizer must be none", m->name);
    return CIRCE_OK;
}

static circe_status check_training(const io_yaml *file, int64_t line, const void *part) {
    const paper_training *t = part;
    OWNED train_layer_spec *layers = NULL;
    int64_t n = 0;
    if (t->precision != NULL && train_precision_find(t->precision) < 0)
        return io_yaml_refuse(file, line, NULL, "precision: '%s' is not one of float32, tf32, bf16", t->precision);
    circe_status status = train_network_parse(t->net, TRAIN_RELU, 1, &layers, &n);
    return status == CIRCE_OK ? CIRCE_OK : io_yaml_refuse(file, line, NULL, "net: %s", circe_last_error());
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static circe_status check_models(const io_yaml *file, int64_t line, const paper_config *c) {
    for (int64_t i = 1; i < c->models.n; i++) {
        const paper_model *one = paper_model_at(c, i);
        if (paper_model_has_pictures(one->word) != paper_model_has_pictures(paper_model_at(c, 0)->word))
            return io_yaml_refuse(file, line, NULL,
                                  "models of pictures and synthetic models cannot be in one experiment");
        for (int64_t k = 0; k < i; k++) {
            char first[PAPER_MODEL_BYTES], second[PAPER_MODEL_BYTES];
            paper_model_id(paper_model_at(c, k), 1, first);
            paper_model_id(one, 1, second);
            if (strcmp(first, second) == 0)
                return io_yaml_refuse(file, line, NULL, "the model %s is named twice", second);
        }
    }
    return CIRCE_OK;
}

static circe_status check_methods(const io_yaml *file, int64_t line, const paper_config *c) {
    for (int64_t m = 0; m < c->methods.n; m++) {
        const paper_method *method = paper_method_at(c, m);
        if (c->sweep && (method->rate.n > 1 || method->decay.n > 1))
            return io_yaml_refuse(file, line, NULL,
                                  "the method '%s' has several rates or decays; in a sweep nothing is chosen",
                                  method->name);
        if (method->trained_on == ON_OOD && !paper_kind_of(c)->pictures)
            return io_yaml_refuse(file, line, NULL, "the method '%s': only models of pictures have data out of domain",
                                  method->name);
    }
    for (int64_t i = 0; i < c->published.n; i++) {
        bool found = false;
        for (int64_t m = 0; m < c->methods.n; m++)
            found = found || strcmp(paper_method_at(c, m)->name, paper_published_at(c, i)->method) == 0;
        if (!found && !c->quick)
            return io_yaml_refuse(file, line, NULL, "'paper' names the method '%s', which is not one of 'methods'",
                                  paper_published_at(c, i)->method);
    }
    return CIRCE_OK;
}

/* Rows of synthetic models; of pictures there are only so many. */
static circe_status check_rows(const io_yaml *file, int64_t line, const paper_config *c) {
    enum { LEAST = 10 };
    const struct {
        const char *name;
        int64_t rows, most;
    } parts[] = {{"train", c->data.train, DSPRITES_MOST_TRAIN},
                 {"validation", c->data.validation, DSPRITES_MOST_VALIDATION},
                 {"test", c->data.test, DSPRITES_MOST_TEST},
                 {"holdout", c->data.holdout, DSPRITES_MOST_HOLDOUT}};
    bool sprites = c->models.n > 0 && paper_model_at(c, 0)->word == MODEL_DSPRITES;
    for (int p = 0; p < 4; p++) {
        if (parts[p].rows != 0 && parts[p].rows < LEAST)
            return io_yaml_refuse(file, line, NULL, "%s: %lld rows are too few; at least %d are needed", parts[p].name,
                                  (long long)parts[p].rows, LEAST);
        if (sprites && parts[p].rows > parts[p].most)
            return io_yaml_refuse(file, line, NULL, "%s: %lld rows, but dsprites has %lld; 0 takes all of them",
                                  parts[p].name, (long long)parts[p].rows, (long long)parts[p].most);
    }
    int64_t train = c->data.train > 0 ? c->data.train : paper_kind_of(c)->data.train;
    if (train > 0 && train < c->training.batch)
        return io_yaml_refuse(file, line, NULL, "train (%lld rows) must be at least a batch (%lld)", (long long)train,
                              (long long)c->training.batch);
    return CIRCE_OK;
}

static circe_status check_whole(const io_yaml *file, int64_t line, const void *part) {
    const paper_config *c = part;
    bool limits = c->limits.samples > 0;
    if (!limits && c->methods.n == 0)
        return io_yaml_refuse(file, line, NULL,
                              "the experiment lacks the key 'methods' (or 'limits', to compute limits only)");
    if (limits && c->methods.n > 0)
        return io_yaml_refuse(file, line, NULL, "'limits' trains nothing, so it cannot be combined with 'methods'");
    if (limits && c->models.n > 0 && paper_model_has_pictures(paper_model_at(c, 0)->word))
        return io_yaml_refuse(file, line, NULL, "'limits' can be computed only for synthetic models");
    circe_status status = check_models(file, line, c);
    if (status == CIRCE_OK) status = check_methods(file, line, c);
    if (status == CIRCE_OK) status = check_rows(file, line, c);
    return status;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

#define TABLE(words, rows, ...) \
    { .what = words, .list = rows, .n = sizeof(rows) / sizeof *(rows), .bytes = sizeof(OWNER), __VA_ARGS__ }

#define OWNER paper_model
static void init_model(void *part) { *(paper_model *)part = (paper_model){.dependence = -1}; }
static const io_field model_rows[] = {PAPER_MODEL(IO_ROW)};
const io_fields paper_model_fields = TABLE("a model", model_rows, .init = init_model, .check = check_model);
#undef OWNER

#define OWNER paper_method
static void init_method(void *part) {
    *(paper_method *)part = (paper_method){.estimator = USTAT,
                                           .sigma2_x = 0.1,
                                           .sigma2_z = 1.0,
                                           .per_dimension = true,
                                           .previous_batch = true,
                                           .rff_features = 512};
}
static const io_field method_rows[] = {PAPER_METHOD(IO_ROW)};
const io_fields paper_method_fields =
    TABLE("a method", method_rows, .init = init_method, .check = check_method, .name = 1);
#undef OWNER

#define OWNER paper_published
static void init_published(void *part) { *(paper_published *)part = (paper_published){.d = 1}; }
static const io_field published_rows[] = {PAPER_PUBLISHED(IO_ROW)};
static const io_fields published_fields = TABLE("a number of the paper", published_rows, .init = init_published);
#undef OWNER

#define OWNER paper_data
static const io_field data_rows[] = {PAPER_DATA(IO_ROW)};
const io_fields paper_data_fields = TABLE("data", data_rows, .init = NULL);
#undef OWNER

#define OWNER paper_training
static const io_field training_rows[] = {PAPER_TRAINING(IO_ROW)};
const io_fields paper_training_fields = TABLE("training", training_rows, .check = check_training);
#undef OWNER

#define OWNER paper_evaluation
static const io_field evaluation_rows[] = {PAPER_EVALUATION(IO_ROW)};
const io_fields paper_evaluation_fields = TABLE("evaluation", evaluation_rows, .init = NULL);
#undef OWNER

#define OWNER paper_yardstick
static const io_field yardstick_rows[] = {PAPER_YARDSTICK(IO_ROW)};
const io_fields paper_yardstick_fields = TABLE("a yardstick", yardstick_rows, .init = NULL);
#undef OWNER

#define OWNER paper_limits
static const io_field limits_rows[] = {PAPER_LIMITS(IO_ROW)};
const io_fields paper_limits_fields = TABLE("limits", limits_rows, .init = NULL);
#undef OWNER

#define OWNER paper_config
#define CHANGEABLE(X) /* what `quick` may change */                         \
    X(PARTS, models, "models", "", .part = &paper_model_fields)             \
    X(PARTS, methods, "methods", "", .part = &paper_method_fields)          \
    X(PART, data, "data", "", .part = &paper_data_fields)                   \
    X(PART, training, "training", "", .part = &paper_training_fields)       \
    X(PART, evaluation, "evaluation", "", .part = &paper_evaluation_fields) \
    X(PART, yardstick, "yardstick", "", .part = &paper_yardstick_fields)    \
    X(PART, limits, "limits", "", .part = &paper_limits_fields)             \
    X(WHOLE, seeds, "seeds", "5", .low = 0, .high = 1000)                   \
    X(WHOLE, tuning_seeds, "tuning_seeds", "1", .low = 1, .high = 1000)
#define WHOLE_FILE(X)                                           \
    X(TEXT, title, "title", "My experiment", .required = true)  \
    X(TEXT, explanation, "explanation", "What is asked.")       \
    X(TEXT, remark, "remark", "What to bear in mind.")          \
    CHANGEABLE(X)                                               \
    X(TRUTH, sweep, "sweep", "true")                            \
    X(TRUTH, sweep, "pareto", "true") /* what it was called */  \
    X(PARTS, published, "paper", "", .part = &published_fields) \
    X(LATER, title, "quick", "")
static const io_field config_rows[] = {WHOLE_FILE(IO_ROW)}, quick_rows[] = {CHANGEABLE(IO_ROW)};
const io_fields paper_config_fields = TABLE("an experiment", config_rows, .check = check_whole);
const io_fields paper_quick_fields = TABLE("quick", quick_rows, .check = check_whole);
#undef OWNER

/* The paper's protocol. */
void paper_config_init(paper_config *config) {
    *config = (paper_config){
        .training = {.net = "9x64", .epochs = 100, .batch = 256, .rate = 1e-4, .decay = 0.3, .schedule = 1},
        .evaluation = {.points = 2000, .draws = 100},
        .yardstick = {.sigma2_x = 0.05, .chunk = 1024},
        .seeds = 5,
        .tuning_seeds = 1,
    };
}
