/* Reading experiments/NAME.yaml, and where the files are looked for. */
#include "cli/experiment/experiment_config.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/message.h"
#include "cli/experiment/experiment_keys.h"
#include "cli/experiment/experiment_kind.h"
#include "io/suggest.h"

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
    if (status == EXIT_DONE) status = yaml_read(file, &experiment_config_table, config);
    if (status == EXIT_DONE) {
        experiment_config changed = *config;
        changed.quick = true;
        status = yaml_read_over(file, "quick", &experiment_quick_table, &changed);
        changed.owner = config->owner; /* which has grown */
        if (quick) *config = changed;
    }
    yaml_close(file);
    return status;
}

static void take_default(int64_t *rows, int64_t usual) {
    if (*rows == 0) *rows = usual;
}

/* What depends on the models. */
static void settle_kind(experiment_config *config) {
    experiment_data *data = &config->data;
    config->kind = experiment_kind_of(config);
    take_default(&data->train, config->kind->data.train);
    take_default(&data->validation, config->kind->data.validation);
    take_default(&data->test, config->kind->data.test);
    take_default(&data->holdout, config->kind->data.holdout);
    if (data->test > 0 && config->evaluation.points > data->test) config->evaluation.points = data->test;
}

int experiment_config_read(const args *arguments, experiment_config *config) {
    experiment_config_init(config);
    int status = find(arguments, config);
    if (status == EXIT_DONE) status = read_file(args_given(arguments, OPT_EXPERIMENT_QUICK), config);
    if (status == EXIT_DONE && config->models.n == 0)
        status = message_fail(EXIT_INPUT, "%s: the experiment lacks the key 'models'", config->path);
    if (status == EXIT_DONE && args_given(arguments, OPT_SEEDS)) config->seeds = args_integer(arguments, OPT_SEEDS);
    if (status == EXIT_DONE && args_given(arguments, OPT_TRAIN_DTYPE))
        config->training.dtype = args_choice(arguments, OPT_TRAIN_DTYPE);
    if (status == EXIT_DONE && args_given(arguments, OPT_PRECISION))
        config->training.precision = args_text(arguments, OPT_PRECISION);
    if (status == EXIT_DONE) settle_kind(config);
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
        experiment_config config;
        experiment_config_init(&config);
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
