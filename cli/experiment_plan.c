/* Laying out the runs, and choosing among what a method leaves open. */
#include "experiment_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

const char *experiment_role_name(run_role role) {
    switch (role) {
        case ROLE_TUNING:
            return "tuning";
        case ROLE_FINAL:
            return "final";
        case ROLE_SWEEP:
            return "sweep";
        case ROLE_LIMITS:
            break;
    }
    return "limits";
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* Relative times, roughly: a training step with each regulariser, by the dimensions it sees. */
static double weight_of(const experiment_settings *s) {
    static const double alone[] = {1.0, 1.5, 3.5, 1.7, 1.5};  /* none, circe, hscic, gcm, hsic */
    static const double dense[] = {1.0, 1.5, 14.0, 7.0, 1.5}; /* where kernel matrices of y have no low rank */
    if (s->limits_samples > 0) return (double)s->limits_samples * (double)s->model.d;
    double weight = (synthetic_dim_y(&s->model) > 3 ? dense : alone)[s->method.regularizer];
    if (s->method.method == CIRCE_METHOD_RFF) weight += 3e-4 * pow((double)s->method.rff_features, 2);
    return weight * (double)s->training.epochs * (double)s->data.train;
}

static char *make_id(const experiment_plan *plan, const planned_run *run) {
    const experiment_settings *s = &run->settings;
    const run_group *group = &plan->groups[run->group];
    const char *model = synthetic_name(s->model.kind);
    char d[32] = "", gamma[48] = "", rate[48] = "", decay[48] = "";
    if (s->model.kind == SYNTHETIC_MULTIVARIATE_1 || s->model.kind == SYNTHETIC_MULTIVARIATE_2)
        snprintf(d, sizeof d, "-d%" PRId64, s->model.d);
    if (group->method < 0) return small_format("%s%s-limits", model, d);
    const experiment_method *method = experiment_method_at(plan->config, group->method);
    if (method->gamma.n > 0) snprintf(gamma, sizeof gamma, "-gamma%.10g", s->gamma);
    if (method->rate.n > 1) snprintf(rate, sizeof rate, "-rate%.10g", s->training.rate);
    if (method->decay.n > 1) snprintf(decay, sizeof decay, "-decay%.10g", s->training.decay);
    return small_format("%s%s-%s%s%s%s-seed%" PRId64, model, d, method->name, gamma, rate, decay, s->seed);
}

/* The settings are complete: gives the run its name, and looks whether it is done. */
static void make_ready(const experiment_plan *plan, planned_run *run) {
    run->id = make_id(plan, run);
    run->path = small_format("%s/runs/%s.json", plan->folder, run->id);
    experiment_settings_fingerprint(&run->settings, run->fingerprint);
    run->weight = weight_of(&run->settings);
    run->reused = experiment_result_read(run->path, run->fingerprint, &run->result);
    run->state = run->reused ? RUN_DONE : RUN_READY;
}

static void take(planned_run *run, const experiment_choice *choice) {
    run->settings.gamma = choice->gamma;
    run->settings.training.rate = choice->rate;
    run->settings.training.decay = choice->decay;
}

/* Without a choice, the run waits for one. */
static void add_run(experiment_plan *plan, int64_t group, run_role role, const experiment_choice *choice,
                    int64_t seed) {
    const experiment_config *c = plan->config;
    const run_group *g = &plan->groups[group];
    planned_run *run = &plan->runs[plan->n_runs++];
    *run = (planned_run){.group = group, .role = role, .state = RUN_WAITING};
    run->settings = (experiment_settings){.model = g->model,
                                          .limits_samples = c->limits.samples,
                                          .data = c->data,
                                          .training = c->training,
                                          .evaluation = c->evaluation,
                                          .seed = seed};
    if (g->method >= 0) run->settings.method = *experiment_method_at(c, g->method);
    run->weight = weight_of(&run->settings);
    if (choice == NULL) return;
    take(run, choice);
    make_ready(plan, run);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static int64_t at_most(int64_t most, int64_t seeds) { return most > 0 && most < seeds ? most : seeds; }

static void add_limits(experiment_plan *plan, int64_t group) {
    const experiment_choice none = {0};
    add_run(plan, group, ROLE_LIMITS, &none, 1);
}

static void add_choices(experiment_plan *plan, int64_t group, run_role role, int64_t first_seed, int64_t seeds) {
    const experiment_method *method = experiment_method_at(plan->config, plan->groups[group].method);
    for (int64_t i = 0; i < experiment_n_choices(method); i++) {
        experiment_choice choice = experiment_choice_at(plan->config, method, i);
        for (int64_t s = 0; s < seeds; s++) add_run(plan, group, role, &choice, first_seed + s);
    }
}

static void add_group(experiment_plan *plan, synthetic_model model, int64_t number) {
    const experiment_config *c = plan->config;
    int64_t group = plan->n_groups++;
    plan->groups[group] = (run_group){.model = model, .method = number, .settled = true};
    if (number < 0) {
        add_limits(plan, group);
        return;
    }
    const experiment_method *method = experiment_method_at(c, number);
    int64_t seeds = at_most(method->seeds, c->seeds), tuning = at_most(method->tuning_seeds, c->tuning_seeds);
    if (c->pareto || experiment_n_choices(method) == 1) {
        add_choices(plan, group, c->pareto ? ROLE_SWEEP : ROLE_FINAL, 1, seeds);
        return;
    }
    add_choices(plan, group, ROLE_TUNING, TUNING_SEEDS_AFTER + 1, tuning);
    plan->groups[group].settled = false;
    for (int64_t s = 1; s <= seeds; s++) add_run(plan, group, ROLE_FINAL, NULL, s);
}

bool experiment_same_choice(const experiment_settings *a, const experiment_settings *b) {
    return a->gamma == b->gamma && a->training.rate == b->training.rate && a->training.decay == b->training.decay;
}

double experiment_score(const planned_run *run) {
    const experiment_result *r = &run->result;
    if (train_regularizer_find(experiment_regularizer_name(run->settings.method.regularizer)) == TRAIN_REG_NONE)
        return r->validation_mse;
    return fmax(r->validation_mse, r->validation_floor) + r->validation_vcf;
}

/* Mean score of the tuning runs with this choice; infinite where one of them failed. */
static double score_of(const experiment_plan *plan, int64_t group, const experiment_choice *choice) {
    planned_run sought = {0};
    double sum = 0;
    int64_t n = 0;
    take(&sought, choice);
    for (int64_t i = 0; i < plan->n_runs; i++) {
        const planned_run *run = &plan->runs[i];
        if (run->group != group || run->role != ROLE_TUNING ||
            !experiment_same_choice(&run->settings, &sought.settings))
            continue;
        sum += run->state == RUN_DONE ? experiment_score(run) : INFINITY;
        n++;
    }
    return n > 0 && isfinite(sum) ? sum / (double)n : INFINITY;
}

static bool tuning_ended(const experiment_plan *plan, int64_t group) {
    for (int64_t i = 0; i < plan->n_runs; i++) {
        const planned_run *run = &plan->runs[i];
        if (run->group == group && run->role == ROLE_TUNING && run->state != RUN_DONE && run->state != RUN_FAILED)
            return false;
    }
    return true;
}

/* Gives the final runs their choice once all tuning runs of the group ended. */
static void settle(experiment_plan *plan, int64_t group) {
    if (plan->groups[group].settled || !tuning_ended(plan, group)) return;
    const experiment_method *method = experiment_method_at(plan->config, plan->groups[group].method);
    double best = INFINITY;
    experiment_choice chosen = experiment_choice_at(plan->config, method, 0);
    for (int64_t i = 0; i < experiment_n_choices(method); i++) {
        experiment_choice choice = experiment_choice_at(plan->config, method, i);
        double score = score_of(plan, group, &choice);
        if (score < best) best = score, chosen = choice;
    }
    plan->groups[group].settled = true;
    for (int64_t i = 0; i < plan->n_runs; i++) {
        planned_run *run = &plan->runs[i];
        if (run->group != group || run->role != ROLE_FINAL) continue;
        take(run, &chosen);
        make_ready(plan, run);
        if (isfinite(best)) continue;
        run->state = RUN_FAILED;
        run->error = small_format("nothing could be chosen: every run to choose by failed");
    }
}

void experiment_plan_ended(experiment_plan *plan, const planned_run *run) { settle(plan, run->group); }

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int64_t count_models(const experiment_config *config) {
    int64_t n = 0;
    for (int64_t i = 0; i < config->models.n; i++) {
        const experiment_model *model = experiment_model_at(config, i);
        n += model->d.n > 0 ? model->d.n : 1;
    }
    return n;
}

static int64_t most_runs(const experiment_config *config) {
    int64_t n = 1;
    for (int64_t m = 0; m < config->methods.n; m++) {
        int64_t choices = experiment_n_choices(experiment_method_at(config, m));
        n += choices * (config->seeds + config->tuning_seeds) + config->seeds;
    }
    return n * count_models(config);
}

void experiment_plan_make(const experiment_config *config, const char *folder, experiment_plan *plan) {
    int64_t n_methods = config->methods.n > 0 ? config->methods.n : 1;
    *plan = (experiment_plan){.config = config, .folder = folder};
    plan->runs = small_alloc((size_t)most_runs(config) * sizeof *plan->runs);
    plan->groups = small_alloc((size_t)(count_models(config) * n_methods) * sizeof *plan->groups);
    for (int64_t i = 0; i < config->models.n; i++) {
        const experiment_model *model = experiment_model_at(config, i);
        for (int64_t k = 0; k < (model->d.n > 0 ? model->d.n : 1); k++)
            for (int64_t m = 0; m < n_methods; m++) {
                synthetic_model one = {experiment_kind(model->word), model->d.n > 0 ? (int64_t)model->d.values[k] : 1};
                add_group(plan, one, config->methods.n > 0 ? m : -1);
            }
    }
    for (int64_t g = 0; g < plan->n_groups; g++) settle(plan, g);
}

void experiment_plan_free(experiment_plan *plan) {
    for (int64_t i = 0; i < plan->n_runs; i++) {
        experiment_result_free(&plan->runs[i].result);
        free(plan->runs[i].id);
        free(plan->runs[i].path);
        free(plan->runs[i].error);
    }
    free(plan->runs);
    free(plan->groups);
    *plan = (experiment_plan){0};
}

planned_run *experiment_plan_next(experiment_plan *plan) {
    planned_run *next = NULL;
    for (int64_t i = 0; i < plan->n_runs; i++) {
        planned_run *run = &plan->runs[i];
        if (run->state != RUN_READY) continue;
        bool awaited = run->role == ROLE_TUNING, before = next != NULL && next->role == ROLE_TUNING;
        if (next == NULL || (awaited && !before) || (awaited == before && run->weight > next->weight)) next = run;
    }
    return next;
}

int64_t experiment_plan_count(const experiment_plan *plan, run_state state) {
    int64_t n = 0;
    for (int64_t i = 0; i < plan->n_runs; i++) n += plan->runs[i].state == state;
    return n;
}
