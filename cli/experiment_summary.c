/* Medians and ranges over seeds. */
#include "experiment_summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The runs of one row. */
typedef struct members {
    const planned_run **runs;
    int64_t n;
} members;

#define MEMBER(name) \
    static double name##_of(const experiment_result *r) { return r->name; }
MEMBER(mse)
MEMBER(vcf)
MEMBER(vcf_support)
MEMBER(variance)
MEMBER(floor)
MEMBER(validation_mse)
MEMBER(validation_vcf)
MEMBER(seconds)

static summary_number summarise(const members *m, double (*value)(const experiment_result *)) {
    summary_number out = {NAN, NAN, NAN};
    double *values = small_alloc((size_t)m->n * sizeof *values);
    int64_t n = 0;
    for (int64_t i = 0; i < m->n; i++) {
        double v = value(&m->runs[i]->result);
        if (isfinite(v)) values[n++] = v;
    }
    if (n > 0) {
        qsort(values, (size_t)n, sizeof *values, ascending);
        out = (summary_number){0.5 * (values[(n - 1) / 2] + values[n / 2]), values[0], values[n - 1]};
    }
    free(values);
    return out;
}

static void fill(summary_row *row, const members *m) {
    row->n = m->n;
    row->first = m->n > 0 ? &m->runs[0]->result : NULL;
    for (int64_t i = 0; i < m->n; i++) row->collapsed += m->runs[i]->result.collapsed;
    row->mse = summarise(m, mse_of);
    row->vcf = summarise(m, vcf_of);
    row->vcf_support = summarise(m, vcf_support_of);
    row->variance = summarise(m, variance_of);
    row->floor = summarise(m, floor_of);
    row->validation_mse = summarise(m, validation_mse_of);
    row->validation_vcf = summarise(m, validation_vcf_of);
    row->seconds = summarise(m, seconds_of);
    for (int64_t i = 0; i < m->n; i++) row->score += experiment_score(m->runs[i]) / (double)m->n;
    if (m->n == 0) row->score = NAN;
}

static bool belongs(const planned_run *run, const planned_run *first, bool tuning) {
    return run->group == first->group && (run->role == ROLE_TUNING) == tuning &&
           experiment_same_choice(&run->settings, &first->settings);
}

/* The rows of tuning runs, or of all others, in the order of the plan. */
static summary_row *make_rows(const experiment_plan *plan, bool tuning, int64_t *n_rows) {
    summary_row *rows = small_alloc((size_t)plan->n_runs * sizeof *rows);
    bool *taken = small_alloc((size_t)plan->n_runs * sizeof *taken);
    members m = {.runs = small_alloc((size_t)plan->n_runs * sizeof *m.runs)};
    *n_rows = 0;
    for (int64_t i = 0; i < plan->n_runs; i++) {
        const planned_run *first = &plan->runs[i];
        if (taken[i] || (first->role == ROLE_TUNING) != tuning) continue;
        const run_group *group = &plan->groups[first->group];
        summary_row *row = &rows[(*n_rows)++];
        *row = (summary_row){.group = first->group,
                             .model = group->model,
                             .method = group->method,
                             .gamma = first->settings.gamma,
                             .rate = first->settings.training.rate,
                             .decay = first->settings.training.decay};
        m.n = 0;
        for (int64_t k = i; k < plan->n_runs; k++) {
            const planned_run *run = &plan->runs[k];
            if (!belongs(run, first, tuning)) continue;
            taken[k] = true;
            row->failed += run->state == RUN_FAILED;
            if (run->state == RUN_DONE) m.runs[m.n++] = run;
        }
        fill(row, &m);
    }
    free(m.runs);
    free(taken);
    return rows;
}

/* The first of a group's rows with the smallest mean score. */
static void choose(summary_row *rows, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        bool best = rows[i].n > 0;
        for (int64_t k = 0; k < n && best; k++) {
            if (k == i || rows[k].group != rows[i].group) continue;
            double theirs = rows[k].score, ours = rows[i].score;
            best = !(theirs < ours || (theirs == ours && k < i) || (isnan(ours) && (!isnan(theirs) || k < i)));
        }
        rows[i].chosen = best;
    }
}

void experiment_summary_make(const experiment_plan *plan, experiment_summary *summary) {
    *summary = (experiment_summary){0};
    summary->rows = make_rows(plan, false, &summary->n_rows);
    summary->tuning = make_rows(plan, true, &summary->n_tuning);
    choose(summary->rows, summary->n_rows);
    choose(summary->tuning, summary->n_tuning);
}

void experiment_summary_free(experiment_summary *summary) {
    free(summary->rows);
    free(summary->tuning);
    *summary = (experiment_summary){0};
}

const experiment_paper *experiment_summary_paper(const experiment_config *config, const summary_row *row) {
    for (int64_t i = 0; row->method >= 0 && i < config->paper.n; i++) {
        const experiment_paper *paper = experiment_paper_at(config, i);
        if (experiment_kind(paper->model) == row->model.kind && paper->d == row->model.d &&
            strcmp(paper->method, experiment_method_at(config, row->method)->name) == 0)
            return paper;
    }
    return NULL;
}
