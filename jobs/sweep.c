/* A sweep over options of a training.
 *
 * The axes (option, values) come from the text `over`; run i is one combination, and the last axis varies fastest. A
 * run is circe_train with its own context. Its result goes through the sweep's JSON, so that a new run and a result
 * found in the folder are read alike. Its settings are the options that differ from their defaults, the values of the
 * axes, and a mark of the data. */
#include "circe/sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/small.h"
#include "core/settings.h"
#include "io/list.h"
#include "io/memory_table.h"
#include "io/paths.h"
#include "jobs/json.h"
#include "mpi/ranks.h"
#include "sweep/sweep.h"

enum { MOST_AXES = 16, MOST_RUNS = 100000 };

/* Numbers of a run, by the names in files. */
#define NUMBERS(X)                                                        \
    X("loss", t->loss)                                                    \
    X("r2", t->r2)                                                        \
    X("spread", t->spread)                                                \
    X("accuracy", t->accuracy)                                            \
    X("majority", t->majority)                                            \
    X("floor", t->floor)                                                  \
    X("circe", t->dependence[CIRCE_TRAINING_AFTER][CIRCE_TRAINING_CIRCE]) \
    X("hscic", t->dependence[CIRCE_TRAINING_AFTER][CIRCE_TRAINING_HSCIC]) \
    X("gcm", t->dependence[CIRCE_TRAINING_AFTER][CIRCE_TRAINING_GCM])     \
    X("hsic", t->dependence[CIRCE_TRAINING_AFTER][CIRCE_TRAINING_HSIC])   \
    X("gamma", t->gamma)                                                  \
    X("epochs", (double)t->epochs)                                        \
    X("seconds", t->seconds)                                              \
    X("regularizer_seconds", t->regularizer_seconds)

#define NAME(name, value) name,
static const char *const number_names[] = {NUMBERS(NAME)};
#undef NAME
enum { N_NUMBERS = sizeof number_names / sizeof *number_names };

typedef struct axis {
    const circe_option *option;
    name_list values;
} axis;

typedef struct sweep_job {
    circe_sweep_result result; /* first: it is the caller's door to the rest */
    const circe_train_options *base;
    const circe_table *table;
    const char *folder, *mark; /* mark: of the data */
    axis axes[MOST_AXES];
    int64_t n_axes;
    circe_sweep_run *runs;
    sweep sweep;
    arena owner;
} sweep_job;

/* ---- axes -------------------------------------------------------------------------------------------------------- */

static circe_status refuse_option(const char *name) {
    const char *nearest = circe_schema_nearest(&circe_train_schema, name);
    circe_status status = circe_fail(CIRCE_ERR_ARGUMENT, "--over: a training has no option '%s'", name);
    return nearest != NULL ? circe_fail_hint(status, "did you mean %s?", nearest) : status;
}

/* The sweep decides where a run writes and whether it resumes, and a run cannot contain a sweep. So these options are
 * not axes. */
static bool is_sweeps_own(const char *name) {
    return strcmp(name, "output") == 0 || strcmp(name, "resume") == 0 || strcmp(name, "sweep") == 0;
}

/* Every value is checked now, so that a mistake shows before its run starts. */
static circe_status check_values(const axis *a) {
    circe_train_options tried;
    circe_status status = CIRCE_OK;
    circe_train_options_init(&tried);
    for (int64_t i = 0; i < a->values.n && status == CIRCE_OK; i++)
        status = circe_options_set(&circe_train_schema, &tried, a->option->name, a->values.names[i]);
    return status;
}

/* "gamma=0,10,100" */
static circe_status read_axis(sweep_job *job, const char *text) {
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals[1] == '\0')
        return circe_fail(CIRCE_ERR_ARGUMENT, "--over is '%s'; it must be an option and values, as in gamma=0,10,100",
                          text);
    if (job->n_axes == MOST_AXES) return circe_fail(CIRCE_ERR_ARGUMENT, "--over has more than %d options", MOST_AXES);
    const char *name = arena_format(&job->owner, "%.*s", (int)(equals - text), text);
    axis *a = &job->axes[job->n_axes];
    a->option = circe_schema_find(&circe_train_schema, name);
    if (a->option == NULL) return refuse_option(name);
    if (is_sweeps_own(name)) return circe_fail(CIRCE_ERR_ARGUMENT, "--over: --%s cannot vary", name);
    for (int64_t i = 0; i < job->n_axes; i++)
        if (job->axes[i].option == a->option)
            return circe_fail(CIRCE_ERR_ARGUMENT, "--over has %s twice; give it once, with all its values", name);
    circe_status status = name_list_split("--over", equals + 1, &a->values);
    job->n_axes++; /* which frees the values */
    return status == CIRCE_OK ? check_values(a) : status;
}

/* Axes are separated by semicolons outside quotes. */
static circe_status read_axes(sweep_job *job, const char *over) {
    circe_status status = CIRCE_OK;
    bool quoted = false;
    for (const char *start = over, *c = over; status == CIRCE_OK && start != NULL; c++) {
        quoted = quoted != (*c == '"');
        if (*c != '\0' && (*c != ';' || quoted)) continue;
        status = read_axis(job, arena_format(&job->owner, "%.*s", (int)(c - start), start));
        start = *c != '\0' ? c + 1 : NULL;
        if (start != NULL && *start == '\0') start = NULL; /* a semicolon at the end */
    }
    return status;
}

static circe_status count_runs(sweep_job *job) {
    int64_t n = 1;
    for (int64_t a = 0; a < job->n_axes; a++) {
        n *= job->axes[a].values.n;
        if (n > MOST_RUNS) return circe_fail(CIRCE_ERR_ARGUMENT, "--over makes more than %d runs", MOST_RUNS);
    }
    job->result.n_runs = n;
    return CIRCE_OK;
}

/* ---- a run's settings -------------------------------------------------------------------------------------------- */

static void take_values(sweep_job *job, int64_t i) {
    const char **values = arena_alloc(&job->owner, (size_t)job->n_axes * sizeof *values);
    job->runs[i].values = values;
    for (int64_t a = job->n_axes; a-- > 0; i /= job->axes[a].values.n)
        values[a] = job->axes[a].values.names[i % job->axes[a].values.n];
}

/* "gamma=10-seed=1". Characters that a file name should not have become _, and a number then keeps names apart. */
static const char *name_of(sweep_job *job, int64_t i) {
    enum { LONGEST = 120 };
    const char *text = "";
    bool changed = false;
    for (int64_t a = 0; a < job->n_axes; a++)
        text = arena_format(&job->owner, "%s%s%s=%s", text, a > 0 ? "-" : "", job->axes[a].option->name,
                            job->runs[i].values[a]);
    char *name = arena_format(&job->owner, "%.*s", LONGEST, text);
    for (char *c = name; *c != '\0'; c++)
        if (strchr("/\\ \"',;:*?<>|\t\n", *c) != NULL || (unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '_', changed = true;
    return changed || strlen(text) > LONGEST ? arena_format(&job->owner, "%s-%" PRId64, name, i + 1) : name;
}

static cJSON *settings_of(const sweep_job *job, int64_t i, const char *name) {
    cJSON *out = cJSON_CreateObject(), *base = cJSON_AddObjectToObject(out, "training");
    for (size_t k = 0; k < circe_train_schema.n; k++) {
        char number[40];
        const char *option = circe_train_schema.rows[k].name;
        if (is_sweeps_own(option) || !circe_options_given(&circe_train_schema, job->base, option)) continue;
        cJSON_AddStringToObject(base, option,
                                circe_options_text(&circe_train_schema, job->base, option, number, sizeof number));
    }
    cJSON *values = cJSON_AddObjectToObject(out, "values");
    for (int64_t a = 0; a < job->n_axes; a++)
        cJSON_AddStringToObject(values, job->axes[a].option->name, job->runs[i].values[a]);
    cJSON_AddStringToObject(out, "data", job->mark);
    cJSON_AddStringToObject(out, "run", name);
    return out;
}

/* Files are identified by size and time, a table by its contents. */
static const char *mark_of(sweep_job *job) {
    const char *const paths[] = {job->base->data, job->base->images};
    const char *mark = "";
    if (job->folder == NULL) return mark; /* nothing is found again */
    if (job->table != NULL) return arena_format(&job->owner, "%016" PRIx64, memory_table_hash(job->table));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct stat info = {0};
        if (paths[i] == NULL || stat(paths[i], &info) != 0) continue;
        mark = arena_format(&job->owner, "%s%" PRId64 " bytes of %" PRId64 ".%09ld ", mark, (int64_t)info.st_size,
                            (int64_t)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    }
    return mark;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static int tell(void *user, double done, const char *text) {
    const sweep_task *task = user;
    (void)text;
    return task->progress(task->teller, done);
}

static void put_result(cJSON *out, const circe_training *t) {
    const double values[N_NUMBERS] = {
#define VALUE(name, value) value,
        NUMBERS(VALUE)
#undef VALUE
    };
    for (int i = 0; i < N_NUMBERS; i++) json_number(out, number_names[i], values[i]);
    json_notes(out, &t->warnings);
}

/* Writes its model if there is a folder, and continues from a checkpoint there unless that belongs to other
 * settings. */
static circe_status train(const sweep_job *job, const char *name, const sweep_task *task, circe_train_options *options,
                          circe_training **training) {
    const circe_watch watch = {.user = (void *)(uintptr_t)task, .progress = tell};
    OWNED_BY(arena_free) arena owner = {0};
    const char *checkpoint = NULL;
    if (job->folder != NULL) {
        options->output = arena_format(&owner, "%s/models/%s.safetensors", job->folder, name);
        checkpoint = arena_format(&owner, "%s.checkpoint", options->output);
        options->resume = access(checkpoint, F_OK) == 0;
    }
    circe_status status = circe_train(task->context, job->table, options, &watch, training);
    if (status != CIRCE_OK && status != CIRCE_ERR_CANCELLED && checkpoint != NULL && options->resume &&
        unlink(checkpoint) == 0) {
        options->resume = 0;
        status = circe_train(task->context, job->table, options, &watch, training);
    }
    return status;
}

static circe_status work(void *user, sweep_task *task) {
    const sweep_job *job = user;
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task->settings, "run"));
    const cJSON *value = NULL, *values = cJSON_GetObjectItemCaseSensitive(task->settings, "values");
    circe_train_options options = *job->base;
    circe_training *training = NULL;
    circe_status status = CIRCE_OK;
    cJSON_ArrayForEach(value, values) {
        if (status == CIRCE_OK)
            status = circe_options_set(&circe_train_schema, &options, value->string, value->valuestring);
    }
    if (options.baseline == NULL) options.baseline = "none"; /* runs are compared with each other */
    if (status == CIRCE_OK) status = train(job, name, task, &options, &training);
    if (status == CIRCE_OK) {
        task->understood = cJSON_Duplicate(task->settings, true);
        task->result = cJSON_CreateObject();
        put_result(task->result, training);
    }
    circe_training_free(training);
    return status;
}

/* ---- what the sweep asks ----------------------------------------------------------------------------------------- */

static circe_status plan(void *user, sweep *s) {
    sweep_job *job = user;
    for (int64_t i = 0; i < job->result.n_runs; i++) {
        take_values(job, i);
        const char *name = name_of(job, i);
        job->runs[i].name = name;
        job->runs[i].found = 1;
        sweep_add(s, 1, false);
        sweep_release(s, i, name, 1, settings_of(job, i, name));
    }
    return job->folder != NULL ? path_make_folder(arena_format(&job->owner, "%s/models", job->folder)) : CIRCE_OK;
}

static bool accept(void *user, int64_t i, const cJSON *result) {
    sweep_job *job = user;
    double *numbers = arena_alloc(&job->owner, N_NUMBERS * sizeof *numbers);
    const cJSON *text = NULL, *warnings = cJSON_GetObjectItemCaseSensitive(result, "warnings");
    for (int k = 0; k < N_NUMBERS; k++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(result, number_names[k]);
        if (!cJSON_IsNumber(value) && !cJSON_IsNull(value)) return false;
        numbers[k] = cJSON_IsNumber(value) ? value->valuedouble : (double)NAN;
    }
    circe_notes *notes = &job->runs[i].warnings;
    notes->text = arena_alloc(&job->owner, (size_t)cJSON_GetArraySize(warnings) * sizeof *notes->text);
    notes->n = 0;
    cJSON_ArrayForEach(text, warnings) {
        notes->text[notes->n++] = arena_text(&job->owner, cJSON_GetStringValue(text));
    }
    job->runs[i].numbers = numbers;
    return true;
}

static void ended(void *user, sweep *s, int64_t i) {
    (void)s;
    ((sweep_job *)user)->runs[i].found = 0;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static circe_status open_job(sweep_job *job, const circe_sweep_options *options) {
    if (ranks_several())
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "a sweep runs in one process; start it without mpirun");
    if (job->base->output != NULL || job->base->resume || job->base->sweep != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "a sweep does not use --output, --resume and --sweep; --folder is where its models go, and "
                          "finished runs there are not repeated");
    circe_status status = circe_options_check(&circe_sweep_schema, options);
    if (status == CIRCE_OK) status = read_axes(job, options->over);
    if (status == CIRCE_OK) status = count_runs(job);
    if (status != CIRCE_OK) return status;
    if (options->folder != NULL) job->folder = arena_text(&job->owner, options->folder);
    job->mark = mark_of(job);
    job->runs = arena_alloc(&job->owner, (size_t)job->result.n_runs * sizeof *job->runs);
    return CIRCE_OK;
}

static void fill(sweep_job *job) {
    circe_sweep_result *r = &job->result;
    double *unknown = arena_alloc(&job->owner, N_NUMBERS * sizeof *unknown);
    const char **names = arena_alloc(&job->owner, (size_t)job->n_axes * sizeof *names);
    for (int k = 0; k < N_NUMBERS; k++) unknown[k] = (double)NAN;
    for (int64_t a = 0; a < job->n_axes; a++) names[a] = job->axes[a].option->name;
    for (int64_t i = 0; i < r->n_runs; i++) {
        circe_sweep_run *run = &job->runs[i];
        run->error = job->sweep.runs[i].error;
        if (run->numbers == NULL) run->numbers = unknown;
        if (job->folder != NULL && run->error == NULL)
            run->model = arena_format(&job->owner, "%s/models/%s.safetensors", job->folder, run->name);
    }
    r->options = names;
    r->n_options = job->n_axes;
    r->numbers = number_names;
    r->n_numbers = N_NUMBERS;
    r->runs = job->runs;
    r->n_failed = sweep_count(&job->sweep, SWEEP_FAILED);
    r->folder = job->folder;
    r->seconds = job->sweep.seconds;
}

static circe_status check_any(const sweep_job *job) {
    const circe_sweep_result *r = &job->result;
    if (r->n_failed < r->n_runs) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "all %" PRId64 " runs failed; the first, %s: %s", r->n_runs, r->runs[0].name,
                      r->runs[0].error);
}

static circe_status write_results(sweep_job *job) {
    char *json = circe_sweep_json(&job->result);
    if (json == NULL) return CIRCE_ERR_MEMORY;
    circe_status status =
        file_write_text(arena_format(&job->owner, "%s/results.json", job->folder), json, strlen(json));
    circe_text_free(json);
    return status;
}

circe_status circe_sweep(circe_context *context, const circe_table *table, const circe_train_options *training,
                         const circe_sweep_options *options, const circe_watch *watch, circe_sweep_result **result) {
    CIRCE_OWN_SETTINGS;
    unsigned mark;
    *result = NULL;
    circe_status status = small_begin(&mark);
    if (status != CIRCE_OK) return status;
    sweep_job *job = small_alloc(sizeof *job);
    job->base = training;
    job->table = table;
    status = open_job(job, options);
    if (status == CIRCE_OK) {
        const sweep_options how = {.folder = job->folder,
                                   .jobs = sweep_side_by_side(options->jobs, options->threads, training->device),
                                   .threads = options->threads,
                                   .function = work,
                                   .function_user = job,
                                   .context = context,
                                   .user = job,
                                   .plan = plan,
                                   .accept = accept,
                                   .ended = ended};
        status = sweep_go(&how, watch, &job->sweep);
        job->sweep.options = NULL;
    }
    if (status == CIRCE_OK) {
        fill(job);
        status = check_any(job);
        if (status == CIRCE_OK && job->folder != NULL) status = write_results(job);
    }
    status = small_end(mark, status);
    if (status == CIRCE_OK)
        *result = &job->result;
    else
        circe_sweep_result_free(&job->result);
    return status;
}

void circe_sweep_result_free(circe_sweep_result *result) {
    if (result == NULL) return;
    sweep_job *job = (sweep_job *)(void *)result;
    for (int64_t a = 0; a < job->n_axes; a++) name_list_free(&job->axes[a].values);
    sweep_free(&job->sweep);
    arena_free(&job->owner);
    free(job);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void run_json(cJSON *out, const circe_sweep_result *r, const circe_sweep_run *run) {
    cJSON_AddStringToObject(out, "run", run->name);
    cJSON *values = cJSON_AddObjectToObject(out, "options");
    for (int64_t a = 0; a < r->n_options; a++) cJSON_AddStringToObject(values, r->options[a], run->values[a]);
    for (int64_t k = 0; k < r->n_numbers && run->error == NULL; k++) json_number(out, r->numbers[k], run->numbers[k]);
    if (run->model != NULL) cJSON_AddStringToObject(out, "model", run->model);
    if (run->error != NULL) cJSON_AddStringToObject(out, "error", run->error);
    json_notes(out, &run->warnings);
}

char *circe_sweep_json(const circe_sweep_result *r) {
    CIRCE_OWN_SETTINGS;
    cJSON *out = cJSON_CreateObject();
    json_words(out, "options", r->options, r->n_options);
    json_integer(out, "failed", r->n_failed);
    json_number(out, "seconds", r->seconds);
    if (r->folder != NULL) cJSON_AddStringToObject(out, "folder", r->folder);
    cJSON *runs = cJSON_AddArrayToObject(out, "runs");
    for (int64_t i = 0; i < r->n_runs; i++) run_json(json_item(runs), r, &r->runs[i]);
    return json_text(out);
}
