/* Medians and ranges over seeds, and the rules of choosing among what a method leaves open, on validation data alone.
 */
#include <math.h>
#include <string.h>

#include "base/small.h"
#include "core/sort.h"
#include "paper/paper_parts.h"

static const double detectable = 2; /* standard errors */

/* ---- synthetic models -------------------------------------------------------------------------------------------- */

/* Prefers the smaller mean over runs of floor + |error - floor| + VCF. An error below the floor comes from following z,
 * and counts like one above it. A constant predictor scores 1, so collapsing does not pay. Without a regulariser the
 * score is the error, since there is no invariance to gain. */
double paper_score_synthetic(const paper_numbers *r, bool regularized) {
    double error = r->at[NUMBER_VALIDATION_MSE], floor = r->at[NUMBER_VALIDATION_FLOOR];
    return regularized ? floor + fabs(error - floor) + r->at[NUMBER_VALIDATION_VCF] : error;
}

/* Something is better than nothing. */
static bool smaller(double a, double b) { return a < b || (isnan(b) && !isnan(a)); }

bool paper_better_synthetic(const paper_row *a, const paper_row *b) { return smaller(a->score.mean, b->score.mean); }

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

/* The score of a run is its dependence on validation rows in standard errors (without a regulariser, the validation
 * error). The smallest gamma, that is the weakest regularisation, whose dependence cannot be detected any more, that of
 * all runs together being below 2 standard errors; if there is none, the one with the fewest. Between equals the
 * smaller validation error. Nothing out of domain is looked at.
 *
 * A prediction that collapsed or went astray depends on nothing, or on noise: that is no invariance to be chosen. */
double paper_score_images(const paper_numbers *r, bool regularized) {
    double value = r->at[NUMBER_DEPENDENCE], error = r->at[NUMBER_DEPENDENCE_ERROR];
    if (!regularized) return r->at[NUMBER_VALIDATION_MSE];
    if (!(r->at[NUMBER_VALIDATION_MSE] < r->at[NUMBER_VALIDATION_VARIANCE])) return PAPER_USELESS;
    return value == 0 && error == 0 ? 0 : value / error;
}

double paper_evidence(const paper_row *row) {
    return row->signal.high >= PAPER_USELESS ? PAPER_USELESS : row->signal.mean * sqrt((double)row->n);
}

bool paper_better_images(const paper_row *a, const paper_row *b) {
    double ours = paper_evidence(a), theirs = paper_evidence(b);
    bool hidden = ours < detectable;
    if (!a->regularized) return smaller(a->score.mean, b->score.mean);
    if (hidden != (theirs < detectable)) return hidden;
    if (hidden && a->choice.gamma != b->choice.gamma) return a->choice.gamma < b->choice.gamma;
    if (!hidden && ours != theirs) return smaller(ours, theirs);
    return smaller(a->number[NUMBER_VALIDATION_MSE].mean, b->number[NUMBER_VALIDATION_MSE].mean);
}

/* ---- any --------------------------------------------------------------------------------------------------------- */

static bool preferred(const paper_kind *kind, const paper_row *a, const paper_row *b) {
    if ((a->n > 0) != (b->n > 0)) return a->n > 0;
    if ((a->failed > 0) != (b->failed > 0)) return a->failed == 0;
    return a->n > 0 && kind->better(a, b);
}

void paper_choose(const paper_kind *kind, paper_rows *rows) {
    for (int64_t i = 0; i < rows->n; i++) {
        paper_row *row = &rows->list[i];
        double ours = row->number[NUMBER_OOD_MSE].median;
        row->alone = true;
        row->chosen = row->n > 0;
        row->best_ood = !row->tuning && isfinite(ours);
        for (int64_t k = 0; k < rows->n; k++) {
            const paper_row *other = &rows->list[k];
            double theirs = other->number[NUMBER_OOD_MSE].median;
            if (k == i || other->group != row->group) continue;
            row->alone = false;
            row->chosen = row->chosen && !preferred(kind, other, row) && (i < k || preferred(kind, row, other));
            if (theirs < ours || (theirs == ours && k < i)) row->best_ood = false;
        }
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Of the finite ones; sorts them. */
static paper_spread spread_of(double *values, int64_t n) {
    double sum = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(values[i])) values[finite++] = values[i];
    if (finite == 0) return (paper_spread){NAN, NAN, NAN, NAN};
    circe__sort(values, finite);
    for (int64_t i = 0; i < finite; i++) sum += values[i];
    double median = 0.5 * (values[(finite - 1) / 2] + values[finite / 2]);
    return (paper_spread){median, values[0], values[finite - 1], sum / (double)finite};
}

/* `members` are the runs of the row that are done, `values` as many numbers of scratch. */
static void fill(const paper_kind *kind, const paper_numbers **members, double *values, paper_row *row) {
    int64_t n = row->n;
    row->first = n > 0 ? members[0] : NULL;
    for (int number = 0; number < N_NUMBERS; number++) {
        for (int64_t i = 0; i < n; i++) values[i] = members[i]->at[number];
        row->number[number] = spread_of(values, n);
    }
    for (int64_t i = 0; i < n; i++) row->collapsed += members[i]->at[NUMBER_COLLAPSED] == 1;
    for (int64_t i = 0; i < n; i++) values[i] = kind->score != NULL ? kind->score(members[i], row->regularized) : NAN;
    row->score = spread_of(values, n);
    for (int64_t i = 0; i < n; i++) values[i] = kind->score != NULL ? kind->score(members[i], true) : NAN;
    row->signal = spread_of(values, n);
}

static const paper_published *published(const paper_config *config, const paper_group *group) {
    for (int64_t i = 0; group->method >= 0 && i < config->published.n; i++) {
        const paper_published *found = paper_published_at(config, i);
        if (found->model == group->model->word && found->d == group->d &&
            strcmp(found->method, paper_method_at(config, group->method)->name) == 0)
            return found;
    }
    return NULL;
}

static paper_row start_row(const paper *p, const paper_planned *first) {
    const paper_group *group = &p->groups[first->group];
    return (paper_row){.group = first->group,
                       .tuning = first->role == ROLE_TUNING,
                       .model = group->model,
                       .d = group->d,
                       .method = group->method,
                       .regularized = first->settings.method.regularizer != REGULARIZER_NONE,
                       .choice = paper_choice_of(first),
                       .published = published(&p->config, group)};
}

static bool same_row(const paper_planned *run, const paper_row *row) {
    paper_choice its = paper_choice_of(run);
    return run->group == row->group && (run->role == ROLE_TUNING) == row->tuning && its.gamma == row->choice.gamma &&
           its.rate == row->choice.rate && its.decay == row->choice.decay;
}

paper_rows paper_summarise(const paper *p, int64_t group, bool tuning) {
    int64_t n = p->sweep.n_runs;
    OWNED_BY(arena_free) arena scratch = {0};
    bool *taken = arena_alloc(&scratch, (size_t)n * sizeof *taken);
    const paper_numbers **members = arena_alloc(&scratch, (size_t)n * sizeof *members);
    double *values = arena_alloc(&scratch, (size_t)n * sizeof *values);
    paper_rows rows = {.list = small_alloc((size_t)n * sizeof *rows.list)};
    for (int64_t i = 0; i < n; i++) {
        const paper_planned *first = &p->runs[i];
        if (taken[i] || (group >= 0 && first->group != group) || (first->role == ROLE_TUNING) != tuning) continue;
        paper_row *row = &rows.list[rows.n++];
        *row = start_row(p, first);
        for (int64_t k = i; k < n; k++) {
            if (!same_row(&p->runs[k], row)) continue;
            taken[k] = true;
            row->failed += p->sweep.runs[k].state == SWEEP_FAILED;
            if (p->sweep.runs[k].state == SWEEP_DONE) members[row->n++] = &p->runs[k].numbers;
        }
        fill(p->config.kind, members, values, row);
    }
    return rows;
}
