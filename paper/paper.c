/* An experiment from its file to its tables, and one run of it. */
#include "paper/paper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/small.h"
#include "jobs/clock.h"
#include "mpi/ranks.h"
#include "paper/paper_parts.h"
#include "train/device.h"

/* ---- the device -------------------------------------------------------------------------------------------------- */

static const char *device_of(const paper_options *options) { return options->device != NULL ? options->device : "cpu"; }

/* Before every run fails for want of it. *on_gpu: runs had better be threads of one process. */
static circe_status try_device(const paper_options *options, const char *precision, bool *on_gpu) {
    circe_context *context = NULL;
    train_device *device = NULL;
    circe_status status = circe_context_create(NULL, &context);
    if (status == CIRCE_OK)
        status = train_device_choose(context, device_of(options), precision != NULL ? precision : "float32", &device);
    *on_gpu = status == CIRCE_OK && device->ops->queues;
    train_device_destroy(device);
    circe_context_destroy(context);
    return status;
}

/* ---- all runs ---------------------------------------------------------------------------------------------------- */

/* Of this process; of several on a machine, each has its share of the cores. */
static int64_t number_of_jobs(const paper_options *options) {
    enum { MOST_ON_A_GPU = 8 }; /* more do not fill it any better */
    if (options->jobs > 0) return options->jobs;
    int64_t jobs = ranks_cores() / options->threads;
    if (strcmp(device_of(options), "cpu") != 0 && jobs > MOST_ON_A_GPU) jobs = MOST_ON_A_GPU;
    return jobs < 1 ? 1 : jobs;
}

/* Where a run is done. */
typedef struct workplace {
    const char *device;
    int threads;
    bool together; /* with others, in threads of one process */
} workplace;

static circe_status work(void *user, sweep_task *task);

/* Processes would take turns on a GPU, each with its own copy of the data there: threads do without either. */
static void put_together(const paper_options *options, workplace *here, sweep_options *how) {
    *here = (workplace){.device = device_of(options), .threads = (int)options->threads, .together = true};
    how->function = work;
    how->function_user = here;
}

/* The words of a run's command: "-o PATH" of its result is the last. */
enum { COMMAND_WORDS = 5 };

static sweep_options sweep_of(const paper_options *options, const char *command[COMMAND_WORDS]) {
    const char *const words[COMMAND_WORDS] = {"experiment-run", "--device", device_of(options), "-o", NULL};
    memcpy(command, words, sizeof words);
    return (sweep_options){
        .jobs = number_of_jobs(options), .threads = options->threads, .command = command, .left_out = PAPER_LEFT_OUT};
}

/* The command line again, for the report and for going on. */
static const char *command_of(const paper_options *options, paper_config *config) {
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

/* What is said under the table. */
static const char *footer_of(paper *p) {
    const paper_config *c = &p->config;
    if (c->methods.n > 0 && c->seeds == 0)
        return arena_format(&p->config.owner, "%s; medians over the tuning seeds.", c->kind->footer_choice);
    if (c->kind->footer == NULL) return "";
    return arena_format(&p->config.owner, "%s %s", c->kind->footer,
                        c->seeds > 1 ? "Medians over seeds [smallest–largest]." : "One seed.");
}

static void fill(paper *p, paper_result *result) {
    const paper_config *c = &p->config;
    result->title = arena_format(&p->config.owner, "%s%s", c->title, c->quick ? " (the quick version)" : "");
    result->footer = footer_of(p);
    result->table = cells_table(&p->front, "", NULL, 0);
    result->json = p->json;
    result->folder = p->folder;
    result->command = p->command;
    result->n_runs = p->sweep.n_runs;
    result->n_failed = sweep_count(&p->sweep, SWEEP_FAILED);
}

circe_status paper_run(const paper_options *options, const circe_watch *watch, paper_result *result) {
    const char *command[COMMAND_WORDS];
    sweep_options how = sweep_of(options, command);
    workplace here;
    bool on_gpu = false;
    paper *p = small_alloc(sizeof *p);
    *result = (paper_result){.inside = p};
    p->watch = watch;
    circe_status status = paper_config_read(options, &p->config);
    if (status == CIRCE_OK) status = try_device(options, p->config.training.precision, &on_gpu);
    if (status != CIRCE_OK) return sweep_call_off(status);
    if (on_gpu) put_together(options, &here, &how);
    p->folder = options->output != NULL
                    ? options->output
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
        return circe_fail_hint(status, "the same command goes on from there: %s", p->command);
    if (status == CIRCE_OK) status = conclude(p);
    if (status == CIRCE_OK) fill(p, result);
    return status;
}

void paper_result_free(paper_result *result) {
    paper *p = result->inside;
    for (int64_t i = 0; i < p->sweep.n_runs; i++) free(p->runs[i].numbers.choices);
    sweep_free(&p->sweep);
    free(p->rows.list);
    free(p->tuning.list);
    cells_free(&p->front);
    paper_config_free(&p->config);
    free(p);
    *result = (paper_result){0};
}

circe_status paper_serve(const paper_options *options, const circe_watch *watch) {
    const char *command[COMMAND_WORDS];
    sweep_options how = sweep_of(options, command);
    workplace here;
    bool on_gpu = false;
    circe_status status = try_device(options, options->precision, &on_gpu);
    if (on_gpu) put_together(options, &here, &how);
    return sweep_serve(status, &how, watch);
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

static circe_status work(void *user, sweep_task *task) {
    const workplace *here = user;
    paper_settings settings;
    paper_numbers numbers;
    arena owner = {0};
    char fingerprint[SWEEP_FINGERPRINT_BYTES];
    double start = job_clock();
    circe_status status = paper_settings_parse(task->settings, &owner, &settings);
    paper_numbers_init(&numbers);
    if (status == CIRCE_OK) {
        task->understood = paper_settings_json(&settings);
        sweep_fingerprint(task->understood, PAPER_LEFT_OUT, fingerprint);
        paper_job job = {.settings = &settings,
                         .device = here->device,
                         .threads = here->threads,
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
    arena_free(&owner);
    return status;
}

circe_status paper_work(const char *path, const char *device, bool (*stop)(void)) {
    workplace here = {.device = device};
    return sweep_work(path, PAPER_LEFT_OUT, work, &here, stop);
}
