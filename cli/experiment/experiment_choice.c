/* The rules of choosing. */
#include "cli/experiment/experiment_choice.h"

#include <math.h>
#include <stdlib.h>

#include "cli/common/message.h"
#include "cli/experiment/experiment_kind.h"

static const double detectable = 2; /* standard errors */

/* ---- synthetic models -------------------------------------------------------------------------------------------- */

double experiment_score_synthetic(const experiment_result *r, bool regularized) {
    double error = r->number[NUMBER_VALIDATION_MSE], floor = r->number[NUMBER_VALIDATION_FLOOR];
    return regularized ? floor + fabs(error - floor) + r->number[NUMBER_VALIDATION_VCF] : error;
}

/* Something is better than nothing. */
static bool smaller(double a, double b) { return a < b || (isnan(b) && !isnan(a)); }

bool experiment_better_synthetic(const summary_row *a, const summary_row *b) {
    return smaller(a->score.mean, b->score.mean);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

/* A prediction that collapsed or went astray depends on nothing, or on noise: that is no invariance to be chosen. */
double experiment_score_images(const experiment_result *r, bool regularized) {
    double value = r->number[NUMBER_DEPENDENCE], error = r->number[NUMBER_DEPENDENCE_ERROR];
    if (!regularized) return r->number[NUMBER_VALIDATION_MSE];
    if (!(r->number[NUMBER_VALIDATION_MSE] < r->number[NUMBER_VALIDATION_VARIANCE])) return EXPERIMENT_USELESS;
    return value == 0 && error == 0 ? 0 : value / error;
}

double experiment_evidence(const summary_row *row) {
    return row->signal.high >= EXPERIMENT_USELESS ? EXPERIMENT_USELESS : row->signal.mean * sqrt((double)row->n);
}

bool experiment_better_images(const summary_row *a, const summary_row *b) {
    double ours = experiment_evidence(a), theirs = experiment_evidence(b);
    bool hidden = ours < detectable;
    if (!a->regularized) return smaller(a->score.mean, b->score.mean);
    if (hidden != (theirs < detectable)) return hidden;
    if (hidden && a->choice.gamma != b->choice.gamma) return a->choice.gamma < b->choice.gamma;
    if (!hidden && ours != theirs) return smaller(ours, theirs);
    return smaller(a->number[NUMBER_VALIDATION_MSE].mean, b->number[NUMBER_VALIDATION_MSE].mean);
}

/* ---- any --------------------------------------------------------------------------------------------------------- */

static bool preferred(const experiment_kind *kind, const summary_row *a, const summary_row *b) {
    if ((a->n > 0) != (b->n > 0)) return a->n > 0;
    if ((a->failed > 0) != (b->failed > 0)) return a->failed == 0;
    return a->n > 0 && kind->better(a, b);
}

void experiment_choose(const experiment_kind *kind, summary_row *rows, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        bool best = rows[i].n > 0;
        for (int64_t k = 0; k < n && best; k++)
            if (k != i && rows[k].group == rows[i].group)
                best = !preferred(kind, &rows[k], &rows[i]) && (i < k || preferred(kind, &rows[i], &rows[k]));
        rows[i].chosen = best;
    }
}

static bool tuning_ended(const experiment_plan *plan, int64_t group) {
    for (int64_t i = 0; i < plan->n_runs; i++) {
        const planned_run *run = &plan->runs[i];
        if (run->group == group && run->role == ROLE_TUNING && run->state != RUN_DONE && run->state != RUN_FAILED)
            return false;
    }
    return true;
}

void experiment_settle(experiment_plan *plan, int64_t group) {
    if (plan->groups[group].settled || !tuning_ended(plan, group)) return;
    const experiment_method *method = experiment_method_at(plan->config, plan->groups[group].method);
    experiment_choice choice = experiment_choice_at(plan->config, method, 0);
    bool found = false;
    int64_t n = 0;
    summary_row *rows = experiment_summary_rows(plan, group, true, &n);
    experiment_choose(plan->config->kind, rows, n);
    for (int64_t i = 0; i < n; i++)
        if (rows[i].chosen && rows[i].failed == 0) choice = rows[i].choice, found = true;
    free(rows);
    plan->groups[group].settled = true;
    for (int64_t i = 0; i < plan->n_runs; i++) {
        planned_run *run = &plan->runs[i];
        if (run->group != group || run->role != ROLE_FINAL) continue;
        experiment_plan_release(plan, run, &choice);
        if (found) continue;
        run->state = RUN_FAILED;
        run->error = small_format("nothing could be chosen: every run to choose by failed");
    }
}
