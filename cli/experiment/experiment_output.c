/* Writing it all: results.csv, results.json, report.html, and the table on standard output. */
#include "cli/experiment/experiment_output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/experiment/experiment_kind.h"
#include "cli/experiment/experiment_model.h"
#include "io/io.h"
#include "io/paths.h"

/* ---- the machine ------------------------------------------------------------------------------------------------- */

/* "Intel Xeon ..., 2 cores, Linux 6.1 x86_64, OpenBLAS 0.3.21 for SkylakeX"; in the arena. */
static const char *machine(arena *owner) {
    char line[256], model[200] = "";
    struct utsname system = {0};
    FILE *in = fopen("/proc/cpuinfo", "r");
    while (in != NULL && model[0] == '\0' && fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, "model name", 10) == 0) sscanf(line, "model name : %199[^\n]", model);
    if (in != NULL) fclose(in);
    uname(&system);
    const char *core = circe_blas_core();
    char *text = small_format("%s%s%ld cores, %s %s %s, %s%s%s", model, model[0] != '\0' ? ", " : "",
                              sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release, system.machine,
                              circe_blas_name(), core[0] != '\0' ? " for " : "", core);
    char *kept = arena_text(owner, text);
    free(text);
    return kept;
}

static const char *build(arena *owner) {
    const char *lines = circe_build_info();
    char *text = arena_alloc(owner, 2 * strlen(lines) + 1), *to = text;
    for (const char *c = lines; *c != '\0'; c++) {
        if (*c != '\n')
            *to++ = *c;
        else if (c[1] != '\0')
            *to++ = ',', *to++ = ' ';
    }
    return text;
}

static const char *today(arena *owner) {
    char text[64] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL) strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
    return arena_text(owner, text);
}

/* ---- results.json ------------------------------------------------------------------------------------------------ */

static void put_number(cJSON *object, const char *name, const summary_number *number) {
    cJSON *part = cJSON_AddObjectToObject(object, name);
    json_number(part, "median", number->median);
    json_number(part, "min", number->low);
    json_number(part, "max", number->high);
}

static void put_method(cJSON *object, const experiment_config *config, const experiment_model *model, int64_t d,
                       int64_t method, const experiment_choice *choice) {
    char text[96];
    cJSON_AddStringToObject(
        object, "model",
        config->kind->pictures ? experiment_model_id(model, d, text, sizeof text) : experiment_model_name(model->word));
    json_integer(object, "d", d);
    if (method < 0) return;
    cJSON_AddStringToObject(object, "method", experiment_method_at(config, method)->name);
    json_number(object, "gamma", choice->gamma);
    json_number(object, "rate", choice->rate);
    json_number(object, "decay", choice->decay);
}

static void put_numbers(cJSON *object, const experiment_kind *kind, const summary_row *row) {
    for (int64_t i = 0; i < kind->n_numbers; i++) {
        const char *name = experiment_number_name(kind->numbers[i]);
        const summary_number *number = &row->number[kind->numbers[i]];
        if (experiment_number_is_truth(kind->numbers[i])) /* how many of the runs */
            json_integer(object, name, row->n > 0 ? (int64_t)(number->mean * (double)row->n + 0.5) : 0);
        else
            put_number(object, name, number);
    }
}

static cJSON *row_json(const experiment_config *config, const summary_row *row) {
    cJSON *out = cJSON_CreateObject();
    put_method(out, config, row->model, row->d, row->method, &row->choice);
    if (row->method >= 0) cJSON_AddBoolToObject(out, "chosen", row->chosen);
    if (config->kind->pictures) cJSON_AddBoolToObject(out, "best_ood", row->best_ood);
    json_integer(out, "runs", row->n);
    json_integer(out, "failed", row->failed);
    if (row->method >= 0) put_number(out, "score", &row->score);
    put_numbers(out, config->kind, row);
    const experiment_paper *paper = experiment_summary_paper(config, row);
    if (paper != NULL) {
        cJSON *theirs = cJSON_AddObjectToObject(out, "paper");
        json_number(theirs, "mse", paper->mse);
        json_number(theirs, "vcf", paper->vcf);
    }
    return out;
}

static cJSON *run_json(const experiment_plan *plan, const planned_run *run) {
    const run_group *group = &plan->groups[run->group];
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "run", run->id != NULL ? run->id : "");
    experiment_choice choice = experiment_choice_of(run);
    put_method(out, plan->config, group->model, group->d, group->method, &choice);
    json_integer(out, "seed", run->settings.seed);
    cJSON_AddStringToObject(out, "role", experiment_role_name(run->role));
    cJSON_AddStringToObject(out, "fingerprint", run->fingerprint);
    if (run->state == RUN_DONE) experiment_result_json(out, run->settings.kind, &run->result);
    if (run->error != NULL) cJSON_AddStringToObject(out, "error", run->error);
    return out;
}

static cJSON *outcome_json(const experiment_outcome *o, arena *owner) {
    const experiment_config *config = o->plan->config;
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "experiment", config->name);
    cJSON_AddStringToObject(out, "title", config->title);
    cJSON_AddBoolToObject(out, "quick", config->quick);
    json_integer(out, "seeds", config->seeds);
    json_integer(out, "tuning_seeds", config->tuning_seeds);
    cJSON_AddStringToObject(out, "folder", o->plan->folder);
    cJSON_AddStringToObject(out, "version", circe_version());
    cJSON_AddStringToObject(out, "machine", machine(owner));
    json_integer(out, "failed", experiment_plan_count(o->plan, RUN_FAILED));
    cJSON *summary = cJSON_AddArrayToObject(out, "summary");
    for (int64_t i = 0; i < o->summary->n_rows; i++)
        cJSON_AddItemToArray(summary, row_json(config, &o->summary->rows[i]));
    cJSON *tuning = cJSON_AddArrayToObject(out, "tuning");
    for (int64_t i = 0; i < o->summary->n_tuning; i++)
        cJSON_AddItemToArray(tuning, row_json(config, &o->summary->tuning[i]));
    cJSON *runs = cJSON_AddArrayToObject(out, "runs");
    for (int64_t i = 0; i < o->plan->n_runs; i++) cJSON_AddItemToArray(runs, run_json(o->plan, &o->plan->runs[i]));
    cJSON_AddStringToObject(out, "configuration", config->text);
    return out;
}

static int write_json(const experiment_outcome *o, arena *owner, bool print) {
    char *path = small_format("%s/results.json", o->plan->folder);
    int status = EXIT_DONE;
    cJSON *json = outcome_json(o, owner);
    char *text = json_utf8(json, true);
    cJSON_Delete(json);
    if (text == NULL)
        status = message_fail(EXIT_WORK, "out of memory for the results");
    else if (io_write_text(path, text, strlen(text)) != CIRCE_OK)
        status = message_write(path, circe_last_error());
    else if (print)
        puts(text);
    free(text);
    free(path);
    return status;
}

/* ---- report.html ------------------------------------------------------------------------------------------------- */

/* Paragraphs that blank lines tell apart. */
static void add_paragraphs(report *page, const char *text, bool note) {
    char *copy = small_format("%s", text != NULL ? text : "");
    for (char *at = copy, *next = NULL; at != NULL && *at != '\0'; at = next) {
        next = strstr(at, "\n\n");
        if (next != NULL) *next = '\0', next += 2;
        if (note)
            report_note(page, "%s", at);
        else
            report_text(page, "%s", at);
    }
    free(copy);
}

static void add_failures(report *page, const experiment_plan *plan) {
    for (int64_t i = 0; i < plan->n_runs; i++)
        if (plan->runs[i].error != NULL)
            report_note(page, "The run `%s` failed: %s", plan->runs[i].id, plan->runs[i].error);
}

/* What is shown first: the results, or, where nothing but a choice is made, what was chosen. */
static bool only_choice(const experiment_config *config) { return config->methods.n > 0 && config->seeds == 0; }

static void front_table(const experiment_outcome *o, arena *owner, report_table *table) {
    const experiment_config *config = o->plan->config;
    config->kind->table(o, only_choice(config) ? ROWS_TUNING_CHOSEN : ROWS_CHOSEN, owner, table);
}

static void add_results(report *page, const experiment_outcome *o, arena *owner) {
    const experiment_config *config = o->plan->config;
    report_table table;
    front_table(o, owner, &table);
    report_heading(page, "Results");
    table.caption = only_choice(config) ? config->kind->caption_choice
                    : config->seeds > 1 ? config->kind->caption_seeds
                                        : config->kind->caption_seed;
    report_add_table(page, &table);
    add_paragraphs(page, config->remark, true);
}

static void add_choices(report *page, const experiment_outcome *o, arena *owner) {
    const experiment_kind *kind = o->plan->config->kind;
    bool sweep = o->plan->config->sweep;
    report_table table;
    if (!sweep && o->summary->n_tuning == 0) return;
    kind->table(o, sweep ? ROWS_ALL : ROWS_TUNING, owner, &table);
    report_heading(page, sweep ? "Every weight" : "What was chosen, and how");
    report_text(page, "%s", sweep ? kind->text_sweep : kind->text_tuning);
    report_add_table(page, &table);
}

/* What the regularisers settled on, from the first run of each row. */
static void add_details(report *page, const experiment_outcome *o) {
    char *text = NULL, model[96];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    for (int64_t i = 0; out != NULL && i < o->summary->n_rows; i++) {
        const summary_row *row = &o->summary->rows[i];
        if (!row->chosen || row->first == NULL || row->first->choices == NULL) continue;
        fprintf(out, "%s, %s, gamma %.4g: %s\n", experiment_model_text(row->model, row->d, model, sizeof model),
                experiment_method_at(o->plan->config, row->method)->name, row->choice.gamma, row->first->choices);
    }
    if (out != NULL) fclose(out);
    report_heading(page, "Settings");
    report_details(page, "The file that describes this experiment", o->plan->config->text);
    if (text != NULL && bytes > 0) report_details(page, "What the regularisers chose (first seed)", text);
    free(text);
}

static void add_facts(report *page, const experiment_outcome *o, arena *owner) {
    const experiment_config *c = o->plan->config;
    double seconds = 0;
    for (int64_t i = 0; i < o->plan->n_runs; i++)
        if (o->plan->runs[i].state == RUN_DONE) seconds += o->plan->runs[i].result.number[NUMBER_SECONDS];
    report_fact(page, "Command", "`%s`", o->command);
    report_fact(page, "Version", "circe %s (%s)", circe_version(), build(owner));
    if (c->limits.samples > 0)
        report_fact(page, "Samples", "%" PRId64 " a model, seed 1", c->limits.samples);
    else if (c->seeds == 0)
        report_fact(page, "Seeds", "%" PRId64 " from %d on, to choose by", c->tuning_seeds, TUNING_SEEDS_AFTER + 1);
    else if (o->summary->n_tuning > 0)
        report_fact(page, "Seeds", "1 to %" PRId64 "; to choose by, %" PRId64 " from %d on", c->seeds, c->tuning_seeds,
                    TUNING_SEEDS_AFTER + 1);
    else
        report_fact(page, "Seeds", "1 to %" PRId64, c->seeds);
    report_fact(page, "Machine", "%s", machine(owner));
    report_fact(page, "Time", "%.0f s of one core in %" PRId64 " runs, %" PRId64 " side by side", seconds,
                experiment_plan_count(o->plan, RUN_DONE), o->jobs);
    report_fact(page, "Written", "%s", today(owner));
    report_fact(page, "Beside this page",
                "`results.csv` (every run), `results.json`, `figures/` (SVG, with gnuplot "
                "scripts and data), `runs/` (one file a run)");
}

static int write_page(const experiment_outcome *o, arena *owner) {
    const experiment_config *c = o->plan->config;
    char *subtitle = small_format("circe experiment %s%s", c->name, c->quick ? ", the quick version" : "");
    char *figures = small_format("%s/figures", o->plan->folder),
         *path = small_format("%s/report.html", o->plan->folder);
    int status = message_refused(path_make_folder(figures));
    report *page = report_begin(c->title, subtitle);
    add_paragraphs(page, c->explanation, false);
    if (c->quick)
        report_note(page,
                    "This is the quick version, made to see that everything works: fewer rows, epochs, weights or "
                    "seeds. Its numbers are not those of the experiment.");
    add_failures(page, o->plan);
    add_results(page, o, owner);
    if (status == EXIT_DONE) {
        report_heading(page, "Figures");
        if (!c->kind->figures(o, figures, page)) status = message_fail(EXIT_WORK, "%s", circe_last_error());
    }
    add_choices(page, o, owner);
    add_details(page, o);
    add_facts(page, o, owner);
    if (!report_end(page, path) && status == EXIT_DONE) status = message_fail(EXIT_WORK, "%s", circe_last_error());
    free(subtitle);
    free(figures);
    free(path);
    return status;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static int write_csv(const experiment_outcome *o, arena *owner) {
    report_table table;
    char *path = small_format("%s/results.csv", o->plan->folder);
    experiment_run_table(o->plan, owner, &table);
    bool written = report_write_csv(path, &table);
    free(path);
    return written ? EXIT_DONE : message_fail(EXIT_WORK, "%s", circe_last_error());
}

static void print_text(const experiment_outcome *o, arena *owner) {
    const experiment_config *c = o->plan->config;
    report_table table;
    front_table(o, owner, &table);
    printf("%s%s\n\n", c->title, c->quick ? " (the quick version)" : "");
    experiment_print_table(&table);
    if (only_choice(c))
        printf("\n%s; medians over the tuning seeds.\n", c->kind->footer_choice);
    else if (c->kind->footer != NULL)
        printf("\n%s %s\n", c->kind->footer, c->seeds > 1 ? "Medians over seeds [smallest–largest]." : "One seed.");
    printf("\n%s/report.html has the whole, with figures; results.csv every run.\n", o->plan->folder);
}

int experiment_output(const experiment_outcome *outcome, bool json) {
    arena owner = {0};
    int status = write_csv(outcome, &owner);
    if (status == EXIT_DONE) status = write_page(outcome, &owner);
    if (status == EXIT_DONE) status = write_json(outcome, &owner, json);
    if (status == EXIT_DONE && !json) print_text(outcome, &owner);
    arena_free(&owner);
    return status;
}
