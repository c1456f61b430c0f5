/* Reading experiments/NAME.yaml: what its keys may hold, and where the files are looked for. */
#include "experiment_config.h"

#include <dirent.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "circe/circe.h"
#include "error.h"
#include "message.h"
#include "network.h"
#include "suggest.h"

/* ---- words ------------------------------------------------------------------------------------------------------- */

#define MODEL_WORDS "univariate1|univariate2|multivariate1|multivariate2"

static const char *const regularizers[] = {"none", "circe", "hscic", "gcm", "hsic"};
static const char *const estimators[] = {"biased", "debiased", "centered", "ustat"};
static const char *const methods[] = {"auto", "lowrank", "dense", "rff"};
static const char *const activations[] = {"relu", "leaky_relu", "tanh"};

enum { NONE, CIRCE, HSCIC, GCM, HSIC };     /* of the regularizers */
enum { BIASED, DEBIASED, CENTERED, USTAT }; /* of the estimators */
enum { AUTO, LOWRANK, DENSE, RFF };         /* of the methods */

const char *experiment_regularizer_name(int word) { return regularizers[word]; }
const char *experiment_estimator_name(int word) { return estimators[word]; }
const char *experiment_method_name(int word) { return methods[word]; }
const char *experiment_activation_name(int word) { return activations[word]; }
synthetic_kind experiment_kind(int word) { return (synthetic_kind)(word + 1); }

/* ---- choices ----------------------------------------------------------------------------------------------------- */

static int64_t at_least_one(const yaml_numbers *list) { return list->n > 0 ? list->n : 1; }

int64_t experiment_n_choices(const experiment_method *method) {
    return at_least_one(&method->gamma) * at_least_one(&method->rate) * at_least_one(&method->decay);
}

/* Number i of a list, or what stands for an empty one; i goes on to the next list. */
static double pick(const yaml_numbers *list, double otherwise, int64_t *i) {
    int64_t n = at_least_one(list), k = *i % n;
    *i /= n;
    return list->n > 0 ? list->values[k] : otherwise;
}

experiment_choice experiment_choice_at(const experiment_config *config, const experiment_method *method, int64_t i) {
    experiment_choice choice;
    choice.gamma = pick(&method->gamma, 0.0, &i);
    choice.decay = pick(&method->decay, config->training.decay, &i);
    choice.rate = pick(&method->rate, config->training.rate, &i);
    return choice;
}

/* ---- checks of what no single key can tell ----------------------------------------------------------------------- */

static int check_model(const yaml_file *file, int64_t line, const void *part) {
    const experiment_model *model = part;
    synthetic_kind kind = experiment_kind(model->word);
    bool univariate = kind == SYNTHETIC_UNIVARIATE_1 || kind == SYNTHETIC_UNIVARIATE_2;
    if (univariate && model->d.n > 0)
        return yaml_refuse(file, line, "%s has no d; only the multivariate models have", synthetic_name(kind));
    if (!univariate && model->d.n == 0)
        return yaml_refuse(file, line, "%s needs dimensions, as in d: [2, 5, 10, 20]", synthetic_name(kind));
    for (int64_t i = 0; i < model->d.n; i++) {
        synthetic_model one = {kind, (int64_t)model->d.values[i]};
        if (synthetic_check(&one) != CIRCE_OK) return yaml_refuse(file, line, "%s", train_last_error());
    }
    return EXIT_DONE;
}

static int check_method(const yaml_file *file, int64_t line, const void *part) {
    const experiment_method *m = part;
    if (m->regularizer != NONE && m->gamma.n == 0)
        return yaml_refuse(file, line, "the method '%s' needs the key 'gamma', as in gamma: [100, 1000]", m->name);
    if (m->regularizer == NONE && m->gamma.n > 0)
        return yaml_refuse(file, line, "the method '%s' has no regularizer, so gamma has nothing to weigh", m->name);
    if (m->method == RFF && m->regularizer != CIRCE)
        return yaml_refuse(file, line, "the method '%s': method rff is for the regularizer circe", m->name);
    if (m->regularizer == HSIC && m->estimator != BIASED && m->estimator != USTAT)
        return yaml_refuse(file, line, "the method '%s': hsic has the estimators biased and ustat", m->name);
    return EXIT_DONE;
}

static int check_training(const yaml_file *file, int64_t line, const void *part) {
    const experiment_training *t = part;
    train_layer_spec *layers = NULL;
    int64_t n = 0;
    circe_status status = train_network_parse(t->net, TRAIN_RELU, 1, &layers, &n);
    free(layers);
    return status == CIRCE_OK ? EXIT_DONE : yaml_refuse(file, line, "net: %s", train_last_error());
}

static int check_whole(const yaml_file *file, int64_t line, const void *part) {
    const experiment_config *c = part;
    if (c->limits.samples == 0 && c->methods.n == 0)
        return yaml_refuse(file, line, "the experiment lacks the key 'methods' (or 'limits', to compute limits only)");
    if (c->limits.samples > 0 && c->methods.n > 0)
        return yaml_refuse(file, line, "'limits' trains nothing, so there must be no 'methods' beside it");
    if (c->data.train < c->training.batch)
        return yaml_refuse(file, line, "train (%lld rows) must be at least a batch (%lld)", (long long)c->data.train,
                           (long long)c->training.batch);
    for (int64_t m = 0; c->pareto && m < c->methods.n; m++)
        if (experiment_method_at(c, m)->rate.n > 1 || experiment_method_at(c, m)->decay.n > 1)
            return yaml_refuse(file, line,
                               "the method '%s' has several rates or decays; with 'pareto' nothing is chosen",
                               experiment_method_at(c, m)->name);
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

/* ---- tables ------------------------------------------------------------------------------------------------------ */

#define AT(type, member) .offset = offsetof(type, member)
#define TABLE(words, type, list, ...) \
    { .what = words, .keys = list, .n_keys = sizeof(list) / sizeof *(list), .bytes = sizeof(type), __VA_ARGS__ }

static const yaml_key model_keys[] = {
    {"model", KEY_WORD, AT(experiment_model, word), .example = "univariate1", .required = true, .words = MODEL_WORDS},
    {"d", KEY_WHOLES, AT(experiment_model, d), .example = "[2, 5, 10, 20]", .low = 1, .high = 4096},
};
static const yaml_table model_table = TABLE("a model", experiment_model, model_keys, .check = check_model);

static void init_method(void *part) {
    *(experiment_method *)part = (experiment_method){.estimator = USTAT,
                                                     .sigma2_x = 0.1,
                                                     .sigma2_z = 1.0,
                                                     .per_dimension = true,
                                                     .previous_batch = true,
                                                     .rff_features = 512};
}

static const yaml_key method_keys[] = {
    {"name", KEY_NAME, AT(experiment_method, name), .example = "circe", .required = true},
    {"regularizer", KEY_WORD, AT(experiment_method, regularizer), .example = "circe", .required = true,
     .words = "none|circe|hscic|gcm|hsic"},
    {"gamma", KEY_NUMBERS, AT(experiment_method, gamma), .example = "[100, 1000]", .low = 0, .high = INFINITY},
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
    {"rate", KEY_NUMBERS, AT(experiment_method, rate), .example = "[1e-4, 1e-3]", .low = DBL_MIN, .high = INFINITY},
    {"decay", KEY_NUMBERS, AT(experiment_method, decay), .example = "[0.3, 3]", .low = 0, .high = INFINITY},
    {"seeds", KEY_WHOLE, AT(experiment_method, seeds), .example = "1", .low = 1, .high = 1000},
    {"tuning_seeds", KEY_WHOLE, AT(experiment_method, tuning_seeds), .example = "1", .low = 1, .high = 1000},
};
static const yaml_table method_table =
    TABLE("a method", experiment_method, method_keys, .init = init_method, .check = check_method, .name = 1);

static const yaml_key paper_keys[] = {
    {"model", KEY_WORD, AT(experiment_paper, model), .example = "univariate1", .required = true, .words = MODEL_WORDS},
    {"d", KEY_WHOLE, AT(experiment_paper, d), .example = "2", .low = 1, .high = 4096},
    {"method", KEY_NAME, AT(experiment_paper, method), .example = "circe", .required = true},
    {"mse", KEY_NUMBER, AT(experiment_paper, mse), .example = "0.197", .required = true},
    {"vcf", KEY_NUMBER, AT(experiment_paper, vcf), .example = "0.18", .required = true},
};
static void init_paper(void *part) { *(experiment_paper *)part = (experiment_paper){.d = 1}; }
static const yaml_table paper_table = TABLE("a number of the paper", experiment_paper, paper_keys, .init = init_paper);

static const yaml_key data_keys[] = {
    {"train", KEY_WHOLE, AT(experiment_data, train), .example = "8000", .low = 10, .high = 1e8},
    {"validation", KEY_WHOLE, AT(experiment_data, validation), .example = "1000", .low = 10, .high = 1e8},
    {"test", KEY_WHOLE, AT(experiment_data, test), .example = "2000", .low = 10, .high = 1e8},
    {"holdout", KEY_WHOLE, AT(experiment_data, holdout), .example = "1000", .low = 10, .high = 1e8},
};
static const yaml_table data_table = TABLE("data", experiment_data, data_keys, .init = NULL);

static const yaml_key training_keys[] = {
    {"net", KEY_TEXT, AT(experiment_training, net), .example = "9x64"},
    {"activation", KEY_WORD, AT(experiment_training, activation), .example = "relu", .words = "relu|leaky_relu|tanh"},
    {"epochs", KEY_WHOLE, AT(experiment_training, epochs), .example = "100", .low = 1, .high = 1e6},
    {"batch", KEY_WHOLE, AT(experiment_training, batch), .example = "256", .low = 4, .high = 1e6},
    {"rate", KEY_NUMBER, AT(experiment_training, rate), .example = "1e-4", .low = DBL_MIN, .high = INFINITY},
    {"decay", KEY_NUMBER, AT(experiment_training, decay), .example = "0.3", .low = 0, .high = INFINITY},
    {"schedule", KEY_WORD, AT(experiment_training, schedule), .example = "cosine", .words = "constant|cosine"},
    {"warmup", KEY_NUMBER, AT(experiment_training, warmup), .example = "0", .low = 0, .high = INFINITY},
};
static const yaml_table training_table = TABLE("training", experiment_training, training_keys, .check = check_training);

static const yaml_key evaluation_keys[] = {
    {"points", KEY_WHOLE, AT(experiment_evaluation, points), .example = "2000", .low = 10, .high = 1e8},
    {"draws", KEY_WHOLE, AT(experiment_evaluation, draws), .example = "100", .low = 2, .high = 1e6},
};
static const yaml_table evaluation_table = TABLE("evaluation", experiment_evaluation, evaluation_keys, .init = NULL);

static const yaml_key limits_keys[] = {
    {"samples", KEY_WHOLE, AT(experiment_limits, samples), .example = "500000", .required = true, .low = 1024,
     .high = 1e10},
};
static const yaml_table limits_table = TABLE("limits", experiment_limits, limits_keys, .init = NULL);

/* What `quick` may change. */
#define CHANGEABLE                                                                                             \
    {"models", KEY_PARTS, AT(experiment_config, models), .example = "", .part = &model_table},                 \
        {"methods", KEY_PARTS, AT(experiment_config, methods), .example = "", .part = &method_table},          \
        {"data", KEY_PART, AT(experiment_config, data), .example = "", .part = &data_table},                   \
        {"training", KEY_PART, AT(experiment_config, training), .example = "", .part = &training_table},       \
        {"evaluation", KEY_PART, AT(experiment_config, evaluation), .example = "", .part = &evaluation_table}, \
        {"limits", KEY_PART, AT(experiment_config, limits), .example = "", .part = &limits_table},             \
        {"seeds", KEY_WHOLE, AT(experiment_config, seeds), .example = "5", .low = 0, .high = 1000}, {          \
        "tuning_seeds", KEY_WHOLE, AT(experiment_config, tuning_seeds), .example = "1", .low = 1, .high = 1000 \
    }

static const yaml_key config_keys[] = {
    {"title", KEY_TEXT, AT(experiment_config, title), .example = "My experiment", .required = true},
    {"explanation", KEY_TEXT, AT(experiment_config, explanation), .example = "What is asked."},
    {"remark", KEY_TEXT, AT(experiment_config, remark), .example = "What to bear in mind."},
    CHANGEABLE,
    {"pareto", KEY_TRUTH, AT(experiment_config, pareto), .example = "true"},
    {"paper", KEY_PARTS, AT(experiment_config, paper), .example = "", .part = &paper_table},
    {"quick", KEY_LATER, .example = ""},
};
static const yaml_table config_table = TABLE("an experiment", experiment_config, config_keys, .check = check_whole);

static const yaml_key quick_keys[] = {CHANGEABLE};
static const yaml_table quick_table = TABLE("quick", experiment_config, quick_keys, .check = check_whole);

/* The paper's protocol, where a file says nothing. */
static const experiment_config defaults = {
    .data = {.train = 8000, .validation = 1000, .test = 2000, .holdout = 1000},
    .training = {.net = "9x64", .epochs = 100, .batch = 256, .rate = 1e-4, .decay = 0.3, .schedule = 1},
    .evaluation = {.points = 2000, .draws = 100},
    .seeds = 5,
    .tuning_seeds = 1,
};

/* ---- where the files are ----------------------------------------------------------------------------------------- */

enum { PLACES = 4 };

/* The folders that are searched, in order; NULL: there is none of this kind. */
static void find_places(arena *owner, const char *places[PLACES]) {
    char exe[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    places[0] = getenv("CIRCE_EXPERIMENTS");
    places[1] = "experiments";
    places[2] = NULL;
    places[3] = CIRCE_SOURCE_EXPERIMENTS;
    if (length <= 0) return;
    exe[length] = '\0';
    char *slash = strrchr(exe, '/');
    if (slash == NULL) return;
    *slash = '\0';
    char *text = small_format("%s/../share/circe/experiments", exe);
    places[2] = arena_text(owner, text);
    free(text);
}

typedef struct known {
    const char *name, *path;
} known;

enum { MOST_KNOWN = 200 };

static int by_name(const void *a, const void *b) { return strcmp(((const known *)a)->name, ((const known *)b)->name); }

/* Every experiment that a name can mean: the first place that has it wins. */
static size_t find_known(arena *owner, known *list) {
    const char *places[PLACES];
    size_t n = 0;
    find_places(owner, places);
    for (int p = 0; p < PLACES; p++) {
        DIR *folder = places[p] != NULL && places[p][0] != '\0' ? opendir(places[p]) : NULL;
        if (folder == NULL) continue;
        for (const struct dirent *entry = readdir(folder); entry != NULL && n < MOST_KNOWN; entry = readdir(folder)) {
            const char *ending = strrchr(entry->d_name, '.');
            if (ending == NULL || ending == entry->d_name || strcmp(ending, ".yaml") != 0) continue;
            char *name = arena_text(owner, entry->d_name), *path = small_format("%s/%s", places[p], entry->d_name);
            name[ending - entry->d_name] = '\0';
            bool met = false;
            for (size_t i = 0; i < n; i++) met = met || strcmp(list[i].name, name) == 0;
            if (!met) list[n++] = (known){name, arena_text(owner, path)};
            free(path);
        }
        closedir(folder);
    }
    qsort(list, n, sizeof *list, by_name);
    return n;
}

static int refuse_name(arena *owner, const char *name, const known *list, size_t n) {
    const char *names[MOST_KNOWN], *places[PLACES];
    find_places(owner, places);
    for (size_t i = 0; i < n; i++) names[i] = list[i].name;
    const char *nearest = suggest_nearest(name, names, n);
    message_note("there is no experiment '%s'", name);
    if (nearest != NULL)
        message_hint("did you mean %s?", nearest);
    else
        message_hint("circe experiment lists what there is; --config FILE takes a file of your own");
    return EXIT_INPUT;
}

static int find(const args *arguments, experiment_config *config) {
    known list[MOST_KNOWN];
    const char *file = args_text(arguments, OPT_EXPERIMENT_CONFIG), *name = arguments->argument;
    if (file != NULL) {
        const char *slash = strrchr(file, '/'), *base = slash != NULL ? slash + 1 : file;
        size_t length = strlen(base);
        if (length > 5 && strcmp(base + length - 5, ".yaml") == 0) length -= 5;
        char *stem = small_format("%.*s", (int)length, base);
        config->path = file;
        config->name = arena_text(&config->owner, name != NULL ? name : stem);
        free(stem);
        return EXIT_DONE;
    }
    size_t n = find_known(&config->owner, list);
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) {
            config->name = list[i].name;
            config->path = list[i].path;
            return EXIT_DONE;
        }
    return refuse_name(&config->owner, name, list, n);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* `quick` is read even where it is not asked for: a mistake in it should not wait for somebody in a hurry. */
static int read_file(bool quick, experiment_config *config) {
    yaml_file *file = NULL;
    int status = yaml_open(config->path, &config->owner, &file, &config->text);
    if (status == EXIT_DONE) status = yaml_read(file, &config_table, config);
    if (status == EXIT_DONE) {
        experiment_config changed = *config;
        changed.quick = true;
        status = yaml_read_over(file, "quick", &quick_table, &changed);
        changed.owner = config->owner; /* which has grown */
        if (quick) *config = changed;
    }
    yaml_close(file);
    return status;
}

int experiment_config_read(const args *arguments, experiment_config *config) {
    *config = defaults;
    int status = find(arguments, config);
    if (status == EXIT_DONE) status = read_file(args_given(arguments, OPT_EXPERIMENT_QUICK), config);
    if (status == EXIT_DONE && config->models.n == 0)
        status = message_fail(EXIT_INPUT, "%s: the experiment lacks the key 'models'", config->path);
    if (status == EXIT_DONE && args_given(arguments, OPT_SEEDS)) config->seeds = args_integer(arguments, OPT_SEEDS);
    if (config->evaluation.points > config->data.test) config->evaluation.points = config->data.test;
    return status;
}

void experiment_config_free(experiment_config *config) {
    arena owner = config->owner;
    *config = (experiment_config){0};
    arena_free(&owner);
}

int experiment_config_list(void) {
    known list[MOST_KNOWN];
    arena owner = {0};
    int status = EXIT_DONE;
    size_t n = find_known(&owner, list);
    int width = 0;
    for (size_t i = 0; i < n; i++)
        if ((int)strlen(list[i].name) > width) width = (int)strlen(list[i].name);
    for (size_t i = 0; i < n; i++) {
        experiment_config config = defaults;
        config.path = list[i].path;
        int read = read_file(false, &config);
        if (read == EXIT_DONE) printf("%-*s  %s\n", width, list[i].name, config.title);
        if (read != EXIT_DONE) status = read;
        arena_free(&config.owner);
    }
    if (n == 0) status = message_fail(EXIT_INPUT, "no experiments were found; --config FILE takes a file");
    arena_free(&owner);
    return status;
}
