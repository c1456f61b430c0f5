/* Writes results.json, results.csv and report.html. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/owned.h"
#include "circe/circe.h"
#include "io/paths.h"
#include "jobs/machine.h"
#include "paper/paper_parts.h"

/* ---- the machine ------------------------------------------------------------------------------------------------- */

/* "Intel Xeon ..., 2 cores, Linux 6.1 x86_64, OpenBLAS 0.3.21 for SkylakeX" */
static const char *machine(arena *owner) {
    char processor[200];
    struct utsname system = {0};
    uname(&system);
    const char *core = circe_blas_core();
    return arena_format(owner, "%s, %ld cores, %s %s %s, %s%s%s", machine_processor(processor, sizeof processor),
                        sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release, system.machine,
                        circe_blas_name(), core[0] != '\0' ? " for " : "", core);
}

/* Its lines in one. */
static const char *build(arena *owner) {
    const char *text = "", *line = circe_build_info();
    while (line[0] != '\0') {
        int length = (int)strcspn(line, "\n");
        text = arena_format(owner, "%s%s%.*s", text, text[0] != '\0' ? ", " : "", length, line);
        line += length + (line[length] != '\0');
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

static void put_spread(cJSON *object, const char *name, const paper_spread *spread) {
    cJSON *part = cJSON_AddObjectToObject(object, name);
    json_number(part, "median", spread->median);
    json_number(part, "min", spread->low);
    json_number(part, "max", spread->high);
}

static void put_method(cJSON *object, const paper_config *config, const paper_model *model, int64_t d, int64_t method,
                       const paper_choice *choice) {
    char text[PAPER_MODEL_BYTES];
    cJSON_AddStringToObject(object, "model", paper_model_key(config, model, d, text));
    json_integer(object, "d", d);
    if (method < 0) return;
    cJSON_AddStringToObject(object, "method", paper_method_at(config, method)->name);
    json_number(object, "gamma", choice->gamma);
    json_number(object, "rate", choice->rate);
    json_number(object, "decay", choice->decay);
}

static void put_numbers(cJSON *object, const paper_kind *kind, const paper_row *row) {
    for (int64_t i = 0; i < kind->n_numbers; i++) {
        const char *name = paper_number_names[kind->numbers[i]];
        const paper_spread *spread = &row->number[kind->numbers[i]];
        if (kind->numbers[i] == NUMBER_COLLAPSED) /* how many of the runs */
            json_integer(object, name, row->n > 0 ? (int64_t)(spread->mean * (double)row->n + 0.5) : 0);
        else
            put_spread(object, name, spread);
    }
}

static void row_json(cJSON *out, const paper_config *config, const paper_row *row) {
    put_method(out, config, row->model, row->d, row->method, &row->choice);
    if (row->method >= 0) cJSON_AddBoolToObject(out, "chosen", row->chosen);
    if (config->kind->pictures) cJSON_AddBoolToObject(out, "best_ood", row->best_ood);
    json_integer(out, "runs", row->n);
    json_integer(out, "failed", row->failed);
    if (row->method >= 0) put_spread(out, "score", &row->score);
    put_numbers(out, config->kind, row);
    const paper_published *published = row->published;
    if (published != NULL) {
        cJSON *theirs = cJSON_AddObjectToObject(out, "paper");
        json_number(theirs, "mse", published->mse);
        json_number(theirs, "vcf", published->vcf);
    }
}

static void run_json(cJSON *out, const paper *p, int64_t i) {
    const paper_planned *run = &p->runs[i];
    const sweep_run *its = &p->sweep.runs[i];
    const paper_group *group = &p->groups[run->group];
    paper_choice choice = paper_choice_of(run);
    cJSON_AddStringToObject(out, "run", its->name != NULL ? its->name : "");
    put_method(out, &p->config, group->model, group->d, group->method, &choice);
    json_integer(out, "seed", run->settings.seed);
    cJSON_AddStringToObject(out, "role", paper_role_name(run->role));
    cJSON_AddStringToObject(out, "fingerprint", its->fingerprint);
    if (its->state == SWEEP_DONE) paper_numbers_put(out, p->config.kind, &run->numbers);
    if (its->error != NULL) cJSON_AddStringToObject(out, "error", its->error);
}

static void put_rows(cJSON *object, const char *name, const paper_config *config, const paper_rows *rows) {
    cJSON *list = cJSON_AddArrayToObject(object, name);
    for (int64_t i = 0; i < rows->n; i++) row_json(json_item(list), config, &rows->list[i]);
}

static cJSON *whole_json(paper *p) {
    const paper_config *config = &p->config;
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "experiment", config->name);
    cJSON_AddStringToObject(out, "title", config->title);
    cJSON_AddBoolToObject(out, "quick", config->quick);
    json_integer(out, "seeds", config->seeds);
    json_integer(out, "tuning_seeds", config->tuning_seeds);
    cJSON_AddStringToObject(out, "folder", p->folder);
    cJSON_AddStringToObject(out, "version", circe_version());
    cJSON_AddStringToObject(out, "machine", machine(&p->config.owner));
    json_integer(out, "failed", sweep_count(&p->sweep, SWEEP_FAILED));
    put_rows(out, "summary", config, &p->rows);
    put_rows(out, "tuning", config, &p->tuning);
    cJSON *runs = cJSON_AddArrayToObject(out, "runs");
    for (int64_t i = 0; i < p->sweep.n_runs; i++) run_json(json_item(runs), p, i);
    cJSON_AddStringToObject(out, "configuration", config->text);
    return out;
}

static circe_status write_json(paper *p, const cJSON *json) {
    OWNED char *text = json_utf8(json, true);
    if (text == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the results");
    p->json = arena_text(&p->config.owner, text);
    return file_write_text(arena_format(&p->config.owner, "%s/results.json", p->folder), p->json, strlen(p->json));
}

/* ---- results.csv ------------------------------------------------------------------------------------------------- */

static const char *cell_of(const cJSON *item) {
    if (cJSON_IsBool(item)) return cJSON_IsTrue(item) ? "1" : "0";
    return cJSON_IsString(item) || cJSON_IsRaw(item) ? item->valuestring : "";
}

/* One row a run, as the JSON has it. */
static circe_status write_csv(paper *p, const cJSON *runs) {
    static const char *const columns[] = {"run",  "model", "d",    "method", "gamma",
                                          "rate", "decay", "seed", "role",   "error"};
    const paper_kind *kind = p->config.kind;
    const cJSON *run = NULL;
    OWNED_BY(cells_free) cells list = {0};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) cells_column(&list, columns[i], false);
    for (int64_t i = 0; i < kind->n_numbers; i++) cells_column(&list, paper_number_names[kind->numbers[i]], true);
    cJSON_ArrayForEach(run, runs) {
        for (int64_t c = 0; c < list.n_columns; c++)
            cells_add(&list, "%s", cell_of(cJSON_GetObjectItemCaseSensitive(run, list.columns[c])));
    }
    report_table table = cells_table(&list, "", NULL, 0);
    return report_write_csv(arena_format(&p->config.owner, "%s/results.csv", p->folder), &table);
}

/* ---- report.html ------------------------------------------------------------------------------------------------- */

/* Paragraphs that blank lines tell apart. */
static void add_paragraphs(report *page, const char *text, bool note) {
    for (const char *at = text; at != NULL && *at != '\0';) {
        const char *next = strstr(at, "\n\n");
        int length = (int)(next != NULL ? (size_t)(next - at) : strlen(at));
        if (note)
            report_note(page, "%.*s", length, at);
        else
            report_text(page, "%.*s", length, at);
        at = next != NULL ? next + 2 : NULL;
    }
}

static void add_failures(report *page, const sweep *s) {
    for (int64_t i = 0; i < s->n_runs; i++)
        if (s->runs[i].error != NULL) report_note(page, "The run `%s` failed: %s", s->runs[i].name, s->runs[i].error);
}

static void add_results(report *page, const paper *p) {
    const paper_config *config = &p->config;
    bool only_choice = config->methods.n > 0 && config->seeds == 0;
    report_table table = cells_table(&p->front, "", NULL, 0);
    report_heading(page, "Results");
    table.caption = only_choice         ? config->kind->caption_choice
                    : config->seeds > 1 ? config->kind->caption_seeds
                                        : config->kind->caption_seed;
    report_add_table(page, &table);
    add_paragraphs(page, config->remark, true);
}

static void add_choices(report *page, const paper *p) {
    const paper_kind *kind = p->config.kind;
    bool all = p->config.sweep;
    OWNED_BY(cells_free) cells list = {0};
    if (!all && p->tuning.n == 0) return;
    report_table table = paper_table(p, all ? SHOW_ALL : SHOW_TUNING, &list);
    report_heading(page, all ? "All weights" : "The choices, and how they were made");
    report_text(page, "%s", all ? kind->text_sweep : kind->text_tuning);
    report_add_table(page, &table);
}

/* What the regularisers settled on, from the first run of each row. */
static void add_details(report *page, const paper *p) {
    char *text = NULL, model[PAPER_MODEL_BYTES];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    for (int64_t i = 0; out != NULL && i < p->rows.n; i++) {
        const paper_row *row = &p->rows.list[i];
        if (!row->chosen || row->first == NULL || row->first->choices == NULL) continue;
        fprintf(out, "%s, %s, gamma %.4g: %s\n", paper_model_text(row->model, row->d, model),
                paper_method_at(&p->config, row->method)->name, row->choice.gamma, row->first->choices);
    }
    if (out != NULL) fclose(out);
    report_heading(page, "Settings");
    report_details(page, "The file that describes this experiment", p->config.text);
    if (text != NULL && bytes > 0) report_details(page, "What the regularisers chose (first seed)", text);
    free(text);
}

static void add_seeds(report *page, const paper *p) {
    const paper_config *c = &p->config;
    if (c->limits.samples > 0)
        report_fact(page, "Samples", "%" PRId64 " a model, seed 1", c->limits.samples);
    else if (c->seeds == 0)
        report_fact(page, "Seeds", "%" PRId64 " from %d on, for the choice", c->tuning_seeds, TUNING_SEEDS_AFTER + 1);
    else if (p->tuning.n > 0)
        report_fact(page, "Seeds", "1 to %" PRId64 "; for the choice, %" PRId64 " from %d on", c->seeds,
                    c->tuning_seeds, TUNING_SEEDS_AFTER + 1);
    else
        report_fact(page, "Seeds", "1 to %" PRId64, c->seeds);
}

static void add_facts(report *page, paper *p) {
    arena *owner = &p->config.owner;
    double seconds = 0;
    for (int64_t i = 0; i < p->sweep.n_runs; i++)
        if (p->sweep.runs[i].state == SWEEP_DONE) seconds += p->runs[i].numbers.at[NUMBER_SECONDS];
    report_fact(page, "Command", "`%s`", p->command);
    report_fact(page, "Version", "circe %s (%s)", circe_version(), build(owner));
    add_seeds(page, p);
    report_fact(page, "Machine", "%s", machine(owner));
    report_fact(page, "Time", "%.0f s of one core in %" PRId64 " runs, %" PRId64 " at the same time", seconds,
                sweep_count(&p->sweep, SWEEP_DONE), p->sweep.side_by_side);
    report_fact(page, "Written", "%s", today(owner));
    report_fact(page, "Beside this page",
                "`results.csv` (every run), `results.json`, `figures/` (SVG, with gnuplot scripts and data), `runs/` "
                "(one file per run)");
}

static circe_status write_page(paper *p) {
    const paper_config *c = &p->config;
    const char *figures = arena_format(&p->config.owner, "%s/figures", p->folder);
    circe_status status = path_make_folder(figures);
    report *page = report_begin(c->title, arena_format(&p->config.owner, "circe experiment %s%s", c->name,
                                                       c->quick ? ", the quick version" : ""));
    add_paragraphs(page, c->explanation, false);
    if (c->quick)
        report_note(page,
                    "This is the quick version, with fewer rows, epochs, weights or seeds. It shows that everything "
                    "works; its numbers are not those of the experiment.");
    add_failures(page, &p->sweep);
    add_results(page, p);
    if (status == CIRCE_OK) {
        report_heading(page, "Figures");
        status = c->kind->figures(p, figures, page);
    }
    add_choices(page, p);
    add_details(page, p);
    add_facts(page, p);
    circe_status ended = report_end(page, arena_format(&p->config.owner, "%s/report.html", p->folder));
    return status == CIRCE_OK ? ended : status;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

circe_status paper_write(paper *p) {
    cJSON *json = whole_json(p);
    circe_status status = write_csv(p, cJSON_GetObjectItemCaseSensitive(json, "runs"));
    if (status == CIRCE_OK) status = write_page(p);
    if (status == CIRCE_OK) status = write_json(p, json);
    cJSON_Delete(json);
    return status;
}
