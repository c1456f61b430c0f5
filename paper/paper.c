/* An experiment from its file to its tables, and one run of it. */
#include "paper/paper.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/small.h"
#include "core/settings.h"
#include "jobs/notes.h"
#include "mpi/ranks.h"
#include "paper/paper_parts.h"
#include "train/device.h"

/* ---- the device -------------------------------------------------------------------------------------------------- */

static const char *device_of(const circe_experiment_options *options) {
    return options->device != NULL ? options->device : "cpu";
}

/* Checks the device before every run fails without it. Processes would take turns on a GPU, each with its own copy of
 * the data, so runs on a GPU are threads of this process. */
static circe_status try_device(circe_context *context, const char *name, const char *precision, sweep_options *how) {
    train_device *device = NULL;
    circe_status status = train_device_choose(context, name, precision != NULL ? precision : "float32", &device);
    if (status == CIRCE_OK && device->ops->queues) how->program = NULL;
    train_device_destroy(device);
    return status;
}

/* ---- all runs ---------------------------------------------------------------------------------------------------- */

/* Where a run is done. */
typedef struct workplace {
    const char *device;
    bool together; /* with others, in threads of one process */
} workplace;

static circe_status work(void *here, sweep_task *task);

/* The words of a run's command: "-o PATH" of its result is the last. */
enum { COMMAND_WORDS = 5 };

static sweep_options sweep_of(const circe_context *context, const circe_experiment_options *options,
                              const char *command[COMMAND_WORDS], workplace *here) {
    const char *const words[COMMAND_WORDS] = {"experiment-run", "--device", device_of(options), "-o", NULL};
    int64_t jobs = sweep_side_by_side(options->jobs, options->threads, options->device);
    memcpy(command, words, sizeof words);
    *here = (workplace){.device = device_of(options), .together = jobs > 1};
    return (sweep_options){.jobs = jobs,
                           .threads = options->threads,
                           .function = work,
                           .function_user = here,
                           .context = context,
                           .program = options->program,
                           .command = command,
                           .left_out = PAPER_LEFT_OUT};
}

/* The command line again, for the report and for going on. */
static const char *command_of(const circe_experiment_options *options, paper_config *config) {
    const struct {
        const char *option, *value;
    } texts[] = {{"--dtype", options->dtype},
                 {"--device", options->device},
                 {"--precision", options->precision},
                 {"--config", options->config},
                 {"-o", options->output}};
    arena *owner = &config->owner;
    const char *text = arena_format(owner, "circe experiment %s%s", config->name, config->quick ? " --quick" : "");
    if (options->seeds >= 0) text = arena_format(owner, "%s --seeds %" PRId64, text, options->seeds);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].value != NULL) text = arena_format(owner, "%s %s %s", text, texts[i].option, texts[i].value);
    return text;
}

static circe_status conclude(paper *p) {
    const paper_config *c = &p->config;
    p->rows = paper_summarise(p, -1, false);
    p->tuning = paper_summarise(p, -1, true);
    paper_choose(c->kind, &p->rows);
    paper_choose(c->kind, &p->tuning);
    paper_table(p, c->methods.n > 0 && c->seeds == 0 ? SHOW_TUNING_CHOSEN : SHOW_CHOSEN, &p->front);
    return paper_write(p);
}

static circe_status run(circe_context *context, const char *name, const circe_experiment_options *options,
                        const circe_watch *watch, paper *p) {
    const char *command[COMMAND_WORDS];
    workplace here;
    sweep_options how = sweep_of(context, options, command, &here);
    p->watch = watch;
    circe_status status = circe_options_check(&circe_experiment_schema, options);
    if (status == CIRCE_OK) status = paper_config_read(name, options, &p->config);
    if (status == CIRCE_OK) status = try_device(context, device_of(options), p->config.training.precision, &how);
    if (status != CIRCE_OK) return sweep_call_off(status);
    p->folder = options->output != NULL
                    ? arena_text(&p->config.owner, options->output)
                    : arena_format(&p->config.owner, "results/%s%s", p->config.name, p->config.quick ? "-quick" : "");
    p->command = command_of(options, &p->config);
    how.folder = p->folder;
    how.same_file = p->config.training.weights;
    how.user = p;
    how.plan = paper_plan;
    how.accept = paper_accept;
    how.ended = paper_ended;
    status = sweep_go(&how, watch, &p->sweep);
    if (status == CIRCE_ERR_CANCELLED && p->sweep.side_by_side > 0)
        return circe_fail_hint(status, "the same command continues from there: %s", p->command);
    if (status == CIRCE_OK) status = conclude(p);
    if (status == CIRCE_OK) paper_fill(p);
    return status;
}

/* A rank that is not the first. */
static circe_status serve(circe_context *context, const circe_experiment_options *options, const circe_watch *watch) {
    const char *command[COMMAND_WORDS];
    workplace here;
    sweep_options how = sweep_of(context, options, command, &here);
    circe_status status = try_device(context, device_of(options), options->precision, &how);
    return sweep_serve(status, &how, watch);
}

/* The watch with warnings that are kept too. */
typedef struct keeper {
    const circe_watch *watch;
    notes warnings;
} keeper;

static int tell_progress(void *user, double done, const char *text) {
    const circe_watch *w = ((const keeper *)user)->watch;
    return w != NULL && w->progress != NULL ? w->progress(w->user, done, text) : 0;
}

static void tell_note(void *user, const char *text) { job_note(((const keeper *)user)->watch, "%s", text); }

static void keep_warning(void *user, const char *text) { notes_add(&((keeper *)user)->warnings, "%s", text); }

circe_status circe_experiment(circe_context *context, const char *name, const circe_experiment_options *options,
                              const circe_watch *watch, circe_experiment_result **result) {
    CIRCE_OWN_SETTINGS;
    *result = NULL;
    if (!ranks_first()) return serve(context, options, watch);
    unsigned mark;
    circe_status status = small_begin(&mark);
    if (status != CIRCE_OK) return sweep_call_off(status);
    keeper k = {.watch = watch, .warnings = {.watch = watch}};
    const circe_watch kept = {&k, tell_progress, keep_warning, tell_note};
    paper *p = small_alloc(sizeof *p);
    status = small_end(mark, run(context, name, options, &kept, p));
    p->result.warnings = notes_hand_over(&k.warnings);
    p->watch = NULL;
    if (status == CIRCE_OK)
        *result = &p->result;
    else
        circe_experiment_result_free(&p->result);
    return status;
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

static circe_status work(void *user, sweep_task *task) {
    const workplace *here = user;
    paper_settings settings;
    paper_numbers numbers;
    OWNED_BY(arena_free) arena owner = {0};
    char fingerprint[SWEEP_FINGERPRINT_BYTES];
    double start = job_clock();
    circe_status status = paper_settings_parse(task->settings, &owner, &settings);
    paper_numbers_init(&numbers);
    if (status == CIRCE_OK) {
        task->understood = paper_settings_json(&settings);
        sweep_fingerprint(task->understood, PAPER_LEFT_OUT, fingerprint);
        paper_job job = {.settings = &settings,
                         .device = here->device,
                         .together = here->together,
                         .task = task,
                         .fingerprint = fingerprint};
        status = settings.kind->run(&job, &numbers);
        numbers.at[NUMBER_SECONDS] = job_clock() - start + job.seconds_before;
        if (status == CIRCE_OK && job.stopped)
            status = circe_fail(CIRCE_ERR_CANCELLED, "stopped before the end; nothing was written");
    }
    if (status == CIRCE_OK) {
        task->result = cJSON_CreateObject();
        paper_numbers_put(task->result, settings.kind, &numbers);
    }
    free(numbers.choices);
    return status;
}

circe_status paper_work(const char *path, const char *device, bool (*stop)(void)) {
    workplace here = {.device = device};
    return sweep_work(path, PAPER_LEFT_OUT, work, &here, stop);
}
