/* The result of an experiment for callers. All of it lives in the arena of the configuration. */
#include <stdlib.h>
#include <string.h>

#include "core/settings.h"
#include "jobs/notes.h"
#include "paper/paper_parts.h"

/* ---- runs -------------------------------------------------------------------------------------------------------- */

const char *paper_model_key(const paper_config *config, const paper_model *model, int64_t d,
                            char text[PAPER_MODEL_BYTES]) {
    return config->kind->pictures ? paper_model_id(model, d, text) : paper_model_name(model->word);
}

static const char *model_of(paper *p, const paper_model *model, int64_t d) {
    char text[PAPER_MODEL_BYTES];
    return arena_text(&p->config.owner, paper_model_key(&p->config, model, d, text));
}

static const char *method_of(const paper *p, int64_t method) {
    return method >= 0 ? paper_method_at(&p->config, method)->name : NULL;
}

static circe_experiment_run run_of(paper *p, int64_t i) {
    const paper_planned *run = &p->runs[i];
    const paper_group *group = &p->groups[run->group];
    const paper_kind *kind = p->config.kind;
    paper_choice choice = paper_choice_of(run);
    double *numbers = arena_alloc(&p->config.owner, (size_t)kind->n_numbers * sizeof *numbers);
    for (int64_t k = 0; k < kind->n_numbers; k++) numbers[k] = run->numbers.at[kind->numbers[k]];
    return (circe_experiment_run){.name = p->sweep.runs[i].name,
                                  .model = model_of(p, group->model, group->d),
                                  .d = group->d,
                                  .method = method_of(p, group->method),
                                  .gamma = choice.gamma,
                                  .rate = choice.rate,
                                  .decay = choice.decay,
                                  .seed = run->settings.seed,
                                  .role = paper_role_name(run->role),
                                  .numbers = numbers,
                                  .error = p->sweep.runs[i].error};
}

static void fill_runs(paper *p, circe_experiment_result *result) {
    const paper_kind *kind = p->config.kind;
    int64_t n = p->sweep.n_runs;
    circe_experiment_run *runs = arena_alloc(&p->config.owner, (size_t)n * sizeof *runs);
    const char **names = arena_alloc(&p->config.owner, (size_t)kind->n_numbers * sizeof *names);
    for (int64_t i = 0; i < n; i++) runs[i] = run_of(p, i);
    for (int64_t k = 0; k < kind->n_numbers; k++) names[k] = paper_number_names[kind->numbers[k]];
    result->runs = runs;
    result->n_runs = n;
    result->n_failed = sweep_count(&p->sweep, SWEEP_FAILED);
    result->numbers = names;
    result->n_numbers = kind->n_numbers;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static circe_experiment_row row_of(paper *p, const paper_row *row) {
    const paper_kind *kind = p->config.kind;
    circe_experiment_spread *numbers = arena_alloc(&p->config.owner, (size_t)kind->n_numbers * sizeof *numbers);
    for (int64_t k = 0; k < kind->n_numbers; k++) {
        const paper_spread *s = &row->number[kind->numbers[k]];
        numbers[k] = (circe_experiment_spread){s->median, s->low, s->high};
    }
    return (circe_experiment_row){.model = model_of(p, row->model, row->d),
                                  .d = row->d,
                                  .method = method_of(p, row->method),
                                  .gamma = row->choice.gamma,
                                  .rate = row->choice.rate,
                                  .decay = row->choice.decay,
                                  .tuning = row->tuning,
                                  .chosen = row->chosen,
                                  .runs = row->n,
                                  .failed = row->failed,
                                  .numbers = numbers};
}

static void fill_rows(paper *p, circe_experiment_result *result) {
    int64_t n = p->rows.n + p->tuning.n;
    circe_experiment_row *rows = arena_alloc(&p->config.owner, (size_t)n * sizeof *rows);
    for (int64_t i = 0; i < n; i++)
        rows[i] = row_of(p, i < p->rows.n ? &p->rows.list[i] : &p->tuning.list[i - p->rows.n]);
    result->rows = rows;
    result->n_rows = n;
}

/* ---- the table for people ---------------------------------------------------------------------------------------- */

/* What is said under it. */
static const char *footer_of(paper *p) {
    const paper_config *c = &p->config;
    if (c->methods.n > 0 && c->seeds == 0)
        return arena_format(&p->config.owner, "%s; medians over the tuning seeds.", c->kind->footer_choice);
    if (c->kind->footer == NULL) return "";
    return arena_format(&p->config.owner, "%s %s", c->kind->footer,
                        c->seeds > 1 ? "Medians over seeds [smallest–largest]." : "One seed.");
}

static void fill_table(paper *p, circe_experiment_result *result) {
    report_table table = cells_table(&p->front, "", NULL, 0);
    int *numeric = arena_alloc(&p->config.owner, (size_t)table.n_columns * sizeof *numeric);
    for (int64_t c = 0; c < table.n_columns; c++) numeric[c] = table.numeric[c];
    result->columns = table.columns;
    result->cells = table.cells;
    result->numeric = numeric;
    result->n_columns = table.n_columns;
    result->n_lines = table.n_rows;
    result->footer = footer_of(p);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

void paper_fill(paper *p) {
    const paper_config *c = &p->config;
    circe_experiment_result *result = &p->result;
    result->name = c->name;
    result->title = arena_format(&p->config.owner, "%s%s", c->title, c->quick ? " (the quick version)" : "");
    result->folder = p->folder;
    result->command = p->command;
    result->seconds = p->sweep.seconds;
    fill_runs(p, result);
    fill_rows(p, result);
    fill_table(p, result);
}

char *circe_experiment_json(const circe_experiment_result *result) {
    CIRCE_OWN_SETTINGS;
    return strdup(((const paper *)(const void *)result)->json);
}

void circe_experiment_result_free(circe_experiment_result *result) {
    if (result == NULL) return;
    paper *p = (paper *)(void *)result;
    for (int64_t i = 0; i < p->sweep.n_runs; i++) free(p->runs[i].numbers.choices);
    sweep_free(&p->sweep);
    free(p->rows.list);
    free(p->tuning.list);
    cells_free(&p->front);
    circe_notes_clear(&result->warnings);
    paper_config_free(&p->config);
    free(p);
}
