/* Tables of the keys, and checks of what no single key can tell. */

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
        return io_yaml_refuse(file, line, NULL, "%s has no d; only the multivariate models have", name);
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
            return io_yaml_refuse(file, line, NULL, "%s has no %s; only %s has", name, keys[i].key, keys[i].owner);
    if (sprites && model->dependence < 0)
        return io_yaml_refuse(file, line, NULL, "dsprites needs the key 'dependence', as in dependence: nonlinear");
    if (model->folder != NULL && model->identities > 0)
        return io_yaml_refuse(file, line, NULL,
                              "'identities' says how many heads are rendered, and 'folder' that none are");
    return check_dimensions(file, line, model);
}

/* ---- a method, the training -------------------------------------------------------------------------------------- */

static circe_status check_method(const io_yaml *file, int64_t line, const void *part) {
    const paper_method *m = part;
    if (m->regularizer != REGULARIZER_NONE && m->gamma.n == 0)
        return io_yaml_refuse(file, line, NULL, "the method '%s' needs the key 'gamma', as in gamma: [100, 1000]",
                              m->name);
    if (m->regularizer == REGULARIZER_NONE && m->gamma.n > 0)
        return io_yaml_refuse(file, line, NULL, "the method '%s' has no regularizer, so gamma has nothing to weigh",
                              m->name);
    if (m->method == RFF && m->regularizer != REGULARIZER_CIRCE)
        return io_yaml_refuse(file, line, NULL, "the method '%s': method rff is for the regularizer circe", m->name);
    if (m->regularizer == REGULARIZER_HSIC && m->estimator != BIASED && m->estimator != USTAT)
        return io_yaml_refuse(file, line, NULL, "the method '%s': hsic has the estimators biased and ustat", m->name);
    if (m->trained_on == ON_OOD && m->regularizer != REGULARIZER_NONE)
        return io_yaml_refuse(file, line, NULL,
                              "the method '%s': what is trained out of domain has nothing to be made invariant to; its "
                              "regularizer is none",
                              m->name);
    return CIRCE_OK;
}

static circe_status check_training(const io_yaml *file, int64_t line, const void *part) {
    const paper_training *t = part;
    train_layer_spec *layers = NULL;
    int64_t n = 0;
    if (t->precision != NULL && train_precision_find(t->precision) < 0)
        return io_yaml_refuse(file, line, NULL, "precision: '%s' is none of float32, tf32", t->precision);
    circe_status status = train_network_parse(t->net, TRAIN_RELU, 1, &layers, &n);
    free(layers);
    return status == CIRCE_OK ? CIRCE_OK : io_yaml_refuse(file, line, NULL, "net: %s", circe_last_error());
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static circe_status check_models(const io_yaml *file, int64_t line, const paper_config *c) {
    for (int64_t i = 1; i < c->models.n; i++) {
        const paper_model *one = paper_model_at(c, i);
        if (paper_model_has_pictures(one->word) != paper_model_has_pictures(paper_model_at(c, 0)->word))
            return io_yaml_refuse(file, line, NULL, "models of pictures and synthetic ones are two experiments");
        for (int64_t k = 0; k < i; k++) {
            char first[PAPER_MODEL_BYTES], second[PAPER_MODEL_BYTES];
            paper_model_id(paper_model_at(c, k), 1, first);
            paper_model_id(one, 1, second);
            if (strcmp(first, second) == 0)
                return io_yaml_refuse(file, line, NULL, "the model %s is there twice", second);
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
            return io_yaml_refuse(file, line, NULL, "'paper' names the method '%s', which is none of 'methods'",
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
        return io_yaml_refuse(file, line, NULL, "'limits' trains nothing, so there must be no 'methods' beside it");
    if (limits && c->models.n > 0 && paper_model_has_pictures(paper_model_at(c, 0)->word))
        return io_yaml_refuse(file, line, NULL, "'limits' are computed of synthetic models only");
    circe_status status = check_models(file, line, c);
    if (status == CIRCE_OK) status = check_methods(file, line, c);
    if (status == CIRCE_OK) status = check_rows(file, line, c);
    return status;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

#define AT(type, member) .offset = offsetof(type, member)
#define TABLE(words, type, rows, ...) \
    { .what = words, .list = rows, .n = sizeof(rows) / sizeof *(rows), .bytes = sizeof(type), __VA_ARGS__ }

static void init_model(void *part) { *(paper_model *)part = (paper_model){.dependence = -1}; }

static const io_field model_keys[] = {
    {"model", FIELD_WORD, AT(paper_model, word), .example = "univariate1", .required = true, .words = PAPER_MODEL_WORDS,
     .not_in_json = true},
    {"d", FIELD_WHOLES, AT(paper_model, d), .example = "[2, 5, 10, 20]", .low = 1, .high = 4096, .not_in_json = true},
    {"dependence", FIELD_WORD, AT(paper_model, dependence), .example = "nonlinear", .words = "linear|nonlinear|ycone"},
    {"holdout_in_training", FIELD_TRUTH, AT(paper_model, holdout_in_training), .example = "true"},
    {"file", FIELD_TEXT, AT(paper_model, file), .example = "dsprites.npz", .not_in_json = true},
    {"folder", FIELD_TEXT, AT(paper_model, folder), .example = "ExtendedYaleB", .not_in_json = true},
    {"size", FIELD_WHOLE, AT(paper_model, size), .example = "224", .low = 16, .high = 1024},
    {"identities", FIELD_WHOLE, AT(paper_model, identities), .example = "28", .low = 3, .high = 28},
};
const io_fields paper_model_fields =
    TABLE("a model", paper_model, model_keys, .init = init_model, .check = check_model);

static void init_method(void *part) {
    *(paper_method *)part = (paper_method){.estimator = USTAT,
                                           .sigma2_x = 0.1,
                                           .sigma2_z = 1.0,
                                           .per_dimension = true,
                                           .previous_batch = true,
                                           .rff_features = 512};
}

static const io_field method_keys[] = {
    {"name", FIELD_NAME, AT(paper_method, name), .example = "circe", .required = true, .not_in_json = true},
    {"regularizer", FIELD_WORD, AT(paper_method, regularizer), .example = "circe", .required = true,
     .words = "none|circe|hscic|gcm|hsic"},
    {"init", FIELD_WORD, AT(paper_method, init), .example = "he", .words = "training|he|uniform"},
    {"trained_on", FIELD_WORD, AT(paper_method, trained_on), .example = "ood", .words = "domain|ood"},
    {"gamma", FIELD_NUMBERS, AT(paper_method, gamma), .example = "[100, 1000]", .low = 0, .high = INFINITY,
     .not_in_json = true},
    {"estimator", FIELD_WORD, AT(paper_method, estimator), .example = "ustat",
     .words = "biased|debiased|centered|ustat"},
    {"sigma2_x", FIELD_NUMBER, AT(paper_method, sigma2_x), .example = "0.1", .low = DBL_MIN, .high = INFINITY},
    {"sigma2_y", FIELD_NUMBERS, AT(paper_method, sigma2_y), .example = "[1, 0.1]", .low = DBL_MIN, .high = INFINITY},
    {"sigma2_z", FIELD_NUMBER, AT(paper_method, sigma2_z), .example = "1", .low = 0, .high = INFINITY},
    {"per_dimension", FIELD_TRUTH, AT(paper_method, per_dimension), .example = "true"},
    {"ridge", FIELD_NUMBERS, AT(paper_method, ridge), .example = "[0.01, 0.1]", .low = DBL_MIN, .high = INFINITY},
    {"method", FIELD_WORD, AT(paper_method, method), .example = "lowrank", .words = "auto|lowrank|dense|rff"},
    {"rff_features", FIELD_WHOLE, AT(paper_method, rff_features), .example = "512", .low = 1, .high = 1e6},
    {"regress_z", FIELD_WORD, AT(paper_method, regress_z), .example = "batch", .words = "batch|holdout"},
    {"regression", FIELD_WORD, AT(paper_method, regression), .example = "kernel", .words = "kernel|linear"},
    {"combine", FIELD_WORD, AT(paper_method, combine), .example = "max", .words = "max|logsumexp|squares"},
    {"previous_batch", FIELD_TRUTH, AT(paper_method, previous_batch), .example = "true"},
    {"rate", FIELD_NUMBERS, AT(paper_method, rate), .example = "[1e-4, 1e-3]", .low = DBL_MIN, .high = INFINITY,
     .not_in_json = true},
    {"decay", FIELD_NUMBERS, AT(paper_method, decay), .example = "[0.3, 3]", .low = 0, .high = INFINITY,
     .not_in_json = true},
    {"seeds", FIELD_WHOLE, AT(paper_method, seeds), .example = "1", .low = 1, .high = 1000, .not_in_json = true},
    {"tuning_seeds", FIELD_WHOLE, AT(paper_method, tuning_seeds), .example = "1", .low = 1, .high = 1000,
     .not_in_json = true},
};
const io_fields paper_method_fields =
    TABLE("a method", paper_method, method_keys, .init = init_method, .check = check_method, .name = 1);

static const io_field published_keys[] = {
    {"model", FIELD_WORD, AT(paper_published, model), .example = "univariate1", .required = true,
     .words = PAPER_MODEL_WORDS},
    {"d", FIELD_WHOLE, AT(paper_published, d), .example = "2", .low = 1, .high = 4096},
    {"method", FIELD_NAME, AT(paper_published, method), .example = "circe", .required = true},
    {"mse", FIELD_NUMBER, AT(paper_published, mse), .example = "0.197", .required = true},
    {"vcf", FIELD_NUMBER, AT(paper_published, vcf), .example = "0.18", .required = true},
};
static void init_published(void *part) { *(paper_published *)part = (paper_published){.d = 1}; }
static const io_fields published_fields =
    TABLE("a number of the paper", paper_published, published_keys, .init = init_published);

static const io_field data_keys[] = {
    {"train", FIELD_WHOLE, AT(paper_data, train), .example = "8000", .low = 0, .high = 1e8},
    {"validation", FIELD_WHOLE, AT(paper_data, validation), .example = "1000", .low = 0, .high = 1e8},
    {"test", FIELD_WHOLE, AT(paper_data, test), .example = "2000", .low = 0, .high = 1e8},
    {"holdout", FIELD_WHOLE, AT(paper_data, holdout), .example = "1000", .low = 0, .high = 1e8},
};
const io_fields paper_data_fields = TABLE("data", paper_data, data_keys, .init = NULL);

static const io_field training_keys[] = {
    {"net", FIELD_TEXT, AT(paper_training, net), .example = "9x64"},
    {"activation", FIELD_WORD, AT(paper_training, activation), .example = "relu", .words = "relu|leaky_relu|tanh"},
    {"init", FIELD_WORD, AT(paper_training, init), .example = "he", .words = "he|uniform"},
    {"dtype", FIELD_WORD, AT(paper_training, dtype), .example = "float64", .words = "float32|float64"},
    {"precision", FIELD_TEXT, AT(paper_training, precision), .example = "tf32"},
    {"epochs", FIELD_WHOLE, AT(paper_training, epochs), .example = "100", .low = 1, .high = 1e6},
    {"steps", FIELD_WHOLE, AT(paper_training, steps), .example = "8000", .low = 0, .high = 1e9},
    {"weights", FIELD_TEXT, AT(paper_training, weights), .example = "resnet18.safetensors"},
    {"batch", FIELD_WHOLE, AT(paper_training, batch), .example = "256", .low = 4, .high = 1e6},
    {"rate", FIELD_NUMBER, AT(paper_training, rate), .example = "1e-4", .low = DBL_MIN, .high = INFINITY},
    {"decay", FIELD_NUMBER, AT(paper_training, decay), .example = "0.3", .low = 0, .high = INFINITY},
    {"schedule", FIELD_WORD, AT(paper_training, schedule), .example = "cosine", .words = "constant|cosine"},
    {"warmup", FIELD_NUMBER, AT(paper_training, warmup), .example = "0", .low = 0, .high = INFINITY},
};
const io_fields paper_training_fields = TABLE("training", paper_training, training_keys, .check = check_training);

static const io_field evaluation_keys[] = {
    {"points", FIELD_WHOLE, AT(paper_evaluation, points), .example = "2000", .low = 10, .high = 1e8},
    {"draws", FIELD_WHOLE, AT(paper_evaluation, draws), .example = "100", .low = 2, .high = 1e6},
};
const io_fields paper_evaluation_fields = TABLE("evaluation", paper_evaluation, evaluation_keys, .init = NULL);

static const io_field yardstick_keys[] = {
    {"sigma2_x", FIELD_NUMBER, AT(paper_yardstick, sigma2_x), .example = "0.05", .low = DBL_MIN, .high = INFINITY},
    {"sigma2_y", FIELD_NUMBERS, AT(paper_yardstick, sigma2_y), .example = "[1, 0.1]", .low = DBL_MIN, .high = INFINITY},
    {"sigma2_z", FIELD_NUMBER, AT(paper_yardstick, sigma2_z), .example = "0.5", .low = 0, .high = INFINITY},
    {"ridge", FIELD_NUMBERS, AT(paper_yardstick, ridge), .example = "[0.01, 0.1]", .low = DBL_MIN, .high = INFINITY},
    {"chunk", FIELD_WHOLE, AT(paper_yardstick, chunk), .example = "1024", .low = 16, .high = 1e6},
};
const io_fields paper_yardstick_fields = TABLE("a yardstick", paper_yardstick, yardstick_keys, .init = NULL);

static const io_field limits_keys[] = {
    {"samples", FIELD_WHOLE, AT(paper_limits, samples), .example = "500000", .required = true, .low = 1024,
     .high = 1e10},
};
const io_fields paper_limits_fields = TABLE("limits", paper_limits, limits_keys, .init = NULL);

/* What `quick` may change. */
#define CHANGEABLE                                                                                                 \
    {"models", FIELD_PARTS, AT(paper_config, models), .example = "", .part = &paper_model_fields},                 \
        {"methods", FIELD_PARTS, AT(paper_config, methods), .example = "", .part = &paper_method_fields},          \
        {"data", FIELD_PART, AT(paper_config, data), .example = "", .part = &paper_data_fields},                   \
        {"training", FIELD_PART, AT(paper_config, training), .example = "", .part = &paper_training_fields},       \
        {"evaluation", FIELD_PART, AT(paper_config, evaluation), .example = "", .part = &paper_evaluation_fields}, \
        {"yardstick", FIELD_PART, AT(paper_config, yardstick), .example = "", .part = &paper_yardstick_fields},    \
        {"limits", FIELD_PART, AT(paper_config, limits), .example = "", .part = &paper_limits_fields},             \
        {"seeds", FIELD_WHOLE, AT(paper_config, seeds), .example = "5", .low = 0, .high = 1000}, {                 \
        "tuning_seeds", FIELD_WHOLE, AT(paper_config, tuning_seeds), .example = "1", .low = 1, .high = 1000        \
    }

static const io_field config_keys[] = {
    {"title", FIELD_TEXT, AT(paper_config, title), .example = "My experiment", .required = true},
    {"explanation", FIELD_TEXT, AT(paper_config, explanation), .example = "What is asked."},
    {"remark", FIELD_TEXT, AT(paper_config, remark), .example = "What to bear in mind."},
    CHANGEABLE,
    {"sweep", FIELD_TRUTH, AT(paper_config, sweep), .example = "true"},
    {"pareto", FIELD_TRUTH, AT(paper_config, sweep), .example = "true"}, /* what it was called */
    {"paper", FIELD_PARTS, AT(paper_config, published), .example = "", .part = &published_fields},
    {"quick", FIELD_LATER, .example = ""},
};
const io_fields paper_config_fields = TABLE("an experiment", paper_config, config_keys, .check = check_whole);

static const io_field quick_keys[] = {CHANGEABLE};
const io_fields paper_quick_fields = TABLE("quick", paper_config, quick_keys, .check = check_whole);

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
