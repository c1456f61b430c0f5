/* Finds and reads experiments/NAME.yaml. */
#include "paper/paper_config.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/small.h"
#include "core/settings.h"
#include "io/suggest.h"
#include "paper/paper_parts.h"

/* ---- choices ----------------------------------------------------------------------------------------------------- */

static int64_t at_least_one(const io_numbers *list) { return list->n > 0 ? list->n : 1; }

int64_t paper_n_choices(const paper_method *method) {
    return at_least_one(&method->gamma) * at_least_one(&method->rate) * at_least_one(&method->decay);
}

/* Number i of a list, or what stands for an empty one; i goes on to the next list. */
static double pick(const io_numbers *list, double otherwise, int64_t *i) {
    int64_t n = at_least_one(list), k = *i % n;
    *i /= n;
    return list->n > 0 ? list->values[k] : otherwise;
}

paper_choice paper_choice_at(const paper_config *config, const paper_method *method, int64_t i) {
    paper_choice choice;
    choice.gamma = pick(&method->gamma, 0.0, &i);
    choice.decay = pick(&method->decay, config->training.decay, &i);
    choice.rate = pick(&method->rate, config->training.rate, &i);
    return choice;
}

/* ---- where the files are ----------------------------------------------------------------------------------------- */

enum { PLACES = 5, MOST_ENTRIES = 200 };

/* "../share/circe/experiments" beside the folder of a file; NULL: the file is not known. */
static const char *share_of(arena *owner, const char *file) {
    const char *slash = file != NULL ? strrchr(file, '/') : NULL;
    return slash != NULL ? arena_format(owner, "%.*s/../share/circe/experiments", (int)(slash - file), file) : NULL;
}

/* The folders that are searched, in order; NULL: there is none of this kind. */
static void find_places(arena *owner, const char *places[PLACES]) {
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    Dl_info library = {0};
    program[length > 0 ? length : 0] = '\0';
    dladdr(&circe_experiment_schema, &library);
    places[0] = getenv("CIRCE_EXPERIMENTS");
    places[1] = "experiments";
    places[2] = share_of(owner, program);
    places[3] = share_of(owner, library.dli_fname);
    places[4] = CIRCE_SOURCE_EXPERIMENTS;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const circe_experiment_entry *)a)->name, ((const circe_experiment_entry *)b)->name);
}

static const circe_experiment_entry *entry_of(const circe_experiment_entry *list, int64_t n, const char *name) {
    for (int64_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

/* Every experiment that can be named. If several folders have one, the first wins. */
static int64_t find_all(arena *owner, circe_experiment_entry list[MOST_ENTRIES]) {
    const char *places[PLACES];
    int64_t n = 0;
    find_places(owner, places);
    for (int p = 0; p < PLACES; p++) {
        DIR *folder = places[p] != NULL && places[p][0] != '\0' ? opendir(places[p]) : NULL;
        if (folder == NULL) continue;
        for (const struct dirent *file = readdir(folder); file != NULL && n < MOST_ENTRIES; file = readdir(folder)) {
            const char *ending = strrchr(file->d_name, '.');
            if (ending == NULL || ending == file->d_name || strcmp(ending, ".yaml") != 0) continue;
            const char *name = arena_format(owner, "%.*s", (int)(ending - file->d_name), file->d_name);
            if (entry_of(list, n, name) != NULL) continue;
            list[n++] =
                (circe_experiment_entry){.name = name, .path = arena_format(owner, "%s/%s", places[p], file->d_name)};
        }
        closedir(folder);
    }
    qsort(list, (size_t)n, sizeof *list, by_name);
    return n;
}

static circe_status refuse_name(const char *name, const circe_experiment_entry *list, int64_t n) {
    const char *names[MOST_ENTRIES];
    for (int64_t i = 0; i < n; i++) names[i] = list[i].name;
    const char *nearest = suggest_nearest(name, names, (size_t)n);
    circe_status status = circe_fail(CIRCE_ERR_ARGUMENT, "there is no experiment '%s'", name);
    if (nearest != NULL) return circe_fail_hint(status, "did you mean %s?", nearest);
    return circe_fail_hint(status, "circe experiment lists the experiments; --config FILE takes your own file");
}

/* "tiny" of "folder/tiny.yaml" */
static const char *stem(arena *owner, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    size_t length = strlen(base);
    if (length > 5 && strcmp(base + length - 5, ".yaml") == 0) length -= 5;
    return arena_format(owner, "%.*s", (int)length, base);
}

static circe_status find(const char *name, const char *path, paper_config *config) {
    circe_experiment_entry list[MOST_ENTRIES];
    config->path = path;
    config->name = name;
    if (path == NULL && name == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "no experiment is named; give its name, or --config FILE");
    if (path != NULL && name == NULL) config->name = stem(&config->owner, path);
    if (path != NULL) return CIRCE_OK;
    int64_t n = find_all(&config->owner, list);
    const circe_experiment_entry *entry = entry_of(list, n, name);
    if (entry == NULL) return refuse_name(name, list, n);
    config->path = entry->path;
    return CIRCE_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* `quick` is read even if it is not requested, so that a mistake in it shows early. */
static circe_status read_file(bool quick, paper_config *config) {
    io_yaml *file = NULL;
    circe_status status = io_yaml_read(config->path, &file);
    if (status == CIRCE_OK) status = io_fields_read(file, &paper_config_fields, &config->owner, config);
    const io_yaml_node *changes = status == CIRCE_OK ? io_yaml_find(file->root, "quick") : NULL;
    if (status == CIRCE_OK) config->text = arena_text(&config->owner, file->text);
    paper_config changed = *config;
    changed.quick = true;
    if (changes != NULL) status = io_fields_read_over(file, changes, &paper_quick_fields, &config->owner, &changed);
    changed.owner = config->owner; /* which has grown */
    if (quick && status == CIRCE_OK) *config = changed;
    io_yaml_free(file);
    return status;
}

static void take_default(int64_t *rows, int64_t usual) {
    if (*rows == 0) *rows = usual;
}

/* What depends on the models. */
static void settle_kind(paper_config *config) {
    paper_data *data = &config->data;
    config->kind = paper_kind_of(config);
    take_default(&data->train, config->kind->data.train);
    take_default(&data->validation, config->kind->data.validation);
    take_default(&data->test, config->kind->data.test);
    take_default(&data->holdout, config->kind->data.holdout);
    if (data->test > 0 && config->evaluation.points > data->test) config->evaluation.points = data->test;
}

circe_status paper_config_read(const char *name, const circe_experiment_options *options, paper_config *config) {
    paper_config_init(config);
    circe_status status = find(name, options->config, config);
    if (status == CIRCE_OK) status = read_file(options->quick, config);
    if (status == CIRCE_OK && config->models.n == 0)
        status = circe_fail(CIRCE_ERR_FORMAT, "%s: the experiment lacks the key 'models'", config->path);
    if (status != CIRCE_OK) return status;
    if (options->seeds >= 0) config->seeds = options->seeds;
    if (options->dtype != NULL) config->training.dtype = strcmp(options->dtype, "float64") == 0;
    if (options->precision != NULL) config->training.precision = options->precision;
    settle_kind(config);
    return CIRCE_OK;
}

void paper_config_free(paper_config *config) {
    arena owner = config->owner; /* where much of the rest lies */
    *config = (paper_config){0};
    arena_free(&owner);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

typedef struct listed {
    circe_experiment_entry entries[MOST_ENTRIES]; /* first: callers see these */
    arena owner;
} listed;

circe_status circe_experiment_list(circe_experiment_entry **entries, int64_t *n) {
    CIRCE_OWN_SETTINGS;
    listed *list = small_alloc(sizeof *list);
    *n = find_all(&list->owner, list->entries);
    for (int64_t i = 0; i < *n; i++) {
        circe_experiment_entry *entry = &list->entries[i];
        paper_config config;
        paper_config_init(&config);
        config.path = entry->path;
        if (read_file(false, &config) == CIRCE_OK)
            entry->title = arena_text(&list->owner, config.title);
        else
            entry->error = arena_text(&list->owner, circe_last_error());
        paper_config_free(&config);
    }
    *entries = list->entries;
    return CIRCE_OK;
}

void circe_experiment_list_free(circe_experiment_entry *entries) {
    if (entries == NULL) return;
    OWNED listed *list = (listed *)(void *)entries;
    arena_free(&list->owner);
}
