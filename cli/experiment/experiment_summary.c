/* Medians and ranges over seeds. */
#include "cli/experiment/experiment_summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/message.h"
#include "cli/experiment/experiment_choice.h"
#include "cli/experiment/experiment_keys.h"
#include "cli/experiment/experiment_kind.h"

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The runs of one row that are done. */
typedef struct members {
    const planned_run **runs;
    int64_t n;
} members;

/* Sorts the values. */
static summary_number summarise(double *values, int64_t n) {
    summary_number out = {NAN, NAN, NAN, NAN};
    double sum = 0;
    if (n == 0) return out;
    qsort(values, (size_t)n, sizeof *values, ascending);
    for (int64_t i = 0; i < n; i++) sum += values[i];
    return (summary_number){0.5 * (values[(n - 1) / 2] + values[n / 2]), values[0], values[n - 1], sum / (double)n};
}

static summary_number summarise_number(const members *m, experiment_number number, double *values) {
    int64_t n = 0;
    for (int64_t i = 0; i < m->n; i++) {
        double value = m->runs[i]->result.number[number];
        if (isfinite(value)) values[n++] = value;
    }
    return summarise(values, n);
}

static summary_number summarise_score(const experiment_kind *kind, const members *m, bool regularized, double *values) {
    int64_t n = 0;
    for (int64_t i = 0; i < m->n && kind->score != NULL; i++) {
        double score = kind->score(&m->runs[i]->result, regularized);
        if (isfinite(score)) values[n++] = score;
    }
    return summarise(values, n);
}

static void fill(const experiment_kind *kind, summary_row *row, const members *m) {
    double *values = small_alloc((size_t)(m->n > 0 ? m->n : 1) * sizeof *values);
    row->n = m->n;
    row->first = m->n > 0 ? &m->runs[0]->result : NULL;
    for (int number = 0; number < N_NUMBERS; number++)
        row->number[number] = summarise_number(m, (experiment_number)number, values);
    for (int64_t i = 0; i < m->n; i++) row->collapsed += m->runs[i]->result.number[NUMBER_COLLAPSED] == 1;
    row->score = summarise_score(kind, m, row->regularized, values);
    row->signal = summarise_score(kind, m, true, values);
    free(values);
}

static summary_row start_row(const experiment_plan *plan, const planned_run *first) {
    const run_group *group = &plan->groups[first->group];
    return (summary_row){.group = first->group,
                         .model = group->model,
                         .d = group->d,
                         .method = group->method,
                         .regularized = first->settings.method.regularizer != REGULARIZER_NONE,
                         .choice = experiment_choice_of(first)};
}

summary_row *experiment_summary_rows(const experiment_plan *plan, int64_t group, bool tuning, int64_t *n_rows) {
    summary_row *rows = small_alloc((size_t)plan->n_runs * sizeof *rows);
    bool *taken = small_alloc((size_t)plan->n_runs * sizeof *taken);
    members m = {.runs = small_alloc((size_t)plan->n_runs * sizeof *m.runs)};
    *n_rows = 0;
    for (int64_t i = 0; i < plan->n_runs; i++) {
        const planned_run *first = &plan->runs[i];
        if (taken[i] || (group >= 0 && first->group != group) || (first->role == ROLE_TUNING) != tuning) continue;
        summary_row *row = &rows[(*n_rows)++];
        *row = start_row(plan, first);
        m.n = 0;
        for (int64_t k = i; k < plan->n_runs; k++) {
            const planned_run *run = &plan->runs[k];
            if (run->group != first->group || (run->role == ROLE_TUNING) != tuning ||
                !experiment_has_choice(run, &row->choice))
                continue;
            taken[k] = true;
            row->failed += run->state == RUN_FAILED;
            if (run->state == RUN_DONE) m.runs[m.n++] = run;
        }
        fill(plan->config->kind, row, &m);
    }
    free(m.runs);
    free(taken);
    return rows;
}

static void mark_best_ood(summary_row *rows, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double ours = rows[i].number[NUMBER_OOD_MSE].median;
        rows[i].best_ood = isfinite(ours);
        for (int64_t k = 0; k < n && rows[i].best_ood; k++) {
            double theirs = rows[k].number[NUMBER_OOD_MSE].median;
            if (rows[k].group == rows[i].group && (theirs < ours || (theirs == ours && k < i)))
                rows[i].best_ood = false;
        }
    }
}

void experiment_summary_make(const experiment_plan *plan, experiment_summary *summary) {
    *summary = (experiment_summary){0};
    summary->rows = experiment_summary_rows(plan, -1, false, &summary->n_rows);
    summary->tuning = experiment_summary_rows(plan, -1, true, &summary->n_tuning);
    experiment_choose(plan->config->kind, summary->rows, summary->n_rows);
    experiment_choose(plan->config->kind, summary->tuning, summary->n_tuning);
    mark_best_ood(summary->rows, summary->n_rows);
}

void experiment_summary_free(experiment_summary *summary) {
    free(summary->rows);
    free(summary->tuning);
    *summary = (experiment_summary){0};
}

const experiment_paper *experiment_summary_paper(const experiment_config *config, const summary_row *row) {
    for (int64_t i = 0; row->method >= 0 && i < config->paper.n; i++) {
        const experiment_paper *paper = experiment_paper_at(config, i);
        if (paper->model == row->model->word && paper->d == row->d &&
            strcmp(paper->method, experiment_method_at(config, row->method)->name) == 0)
            return paper;
    }
    return NULL;
}
