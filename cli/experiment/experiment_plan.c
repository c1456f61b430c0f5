/* Laying out the runs. */
#include "cli/experiment/experiment_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/message.h"
#include "cli/experiment/experiment_choice.h"
#include "cli/experiment/experiment_kind.h"
#include "cli/experiment/experiment_model.h"

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

static char *make_id(const experiment_plan *plan, const planned_run *run) {
    const experiment_settings *s = &run->settings;
    const run_group *group = &plan->groups[run->group];
    char model[96], gamma[48] = "", rate[48] = "", decay[48] = "";
    experiment_model_id(group->model, group->d, model, sizeof model);
    if (group->method < 0) return small_format("%s-%s", model, s->kind->name);
    const experiment_method *method = experiment_method_at(plan->config, group->method);
    if (method->gamma.n > 0) snprintf(gamma, sizeof gamma, "-gamma%.10g", s->gamma);
    if (method->rate.n > 1) snprintf(rate, sizeof rate, "-rate%.10g", s->training.rate);
    if (method->decay.n > 1) snprintf(decay, sizeof decay, "-decay%.10g", s->training.decay);
    return small_format("%s-%s%s%s%s-seed%" PRId64, model, method->name, gamma, rate, decay, s->seed);
}

void experiment_plan_release(const experiment_plan *plan, planned_run *run, const experiment_choice *choice) {
    experiment_settings *s = &run->settings;
    s->gamma = choice->gamma;
    s->training.rate = choice->rate;
    s->training.decay = choice->decay;
    run->id = make_id(plan, run);
    run->path = small_format("%s/runs/%s.json", plan->folder, run->id);
    experiment_settings_fingerprint(s, run->fingerprint);
    run->weight = s->kind->weight(s);
    run->reused = experiment_result_read(run->path, s->kind, run->fingerprint, &run->result);
    run->state = run->reused ? RUN_DONE : RUN_READY;
}

experiment_choice experiment_choice_of(const planned_run *run) {
    const experiment_settings *s = &run->settings;
    return (experiment_choice){s->gamma, s->training.rate, s->training.decay};
}

bool experiment_has_choice(const planned_run *run, const experiment_choice *choice) {
    experiment_choice its = experiment_choice_of(run);
    return its.gamma == choice->gamma && its.rate == choice->rate && its.decay == choice->decay;
}

/* Without a choice, the run waits for one. */
static void add_run(experiment_plan *plan, int64_t group, run_role role, const experiment_choice *choice,
                    int64_t seed) {
    const experiment_config *c = plan->config;
    const run_group *g = &plan->groups[group];
    planned_run *run = &plan->runs[plan->n_runs++];
    *run = (planned_run){.group = group, .role = role, .state = RUN_WAITING};
    run->settings = (experiment_settings){.kind = c->kind,
                                          .model = *g->model,
                                          .d = g->d,
                                          .limits = c->limits,
                                          .data = c->data,
                                          .training = c->training,
                                          .evaluation = c->evaluation,
                                          .yardstick = c->yardstick,
                                          .seed = seed};
    if (g->method >= 0) run->settings.method = *experiment_method_at(c, g->method);
    run->weight = c->kind->weight(&run->settings);
    experiment_result_init(&run->result);
    if (choice != NULL) experiment_plan_release(plan, run, choice);
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

static void add_group(experiment_plan *plan, const experiment_model *model, int64_t d, int64_t number) {
    const experiment_config *c = plan->config;
    int64_t group = plan->n_groups++;
    plan->groups[group] = (run_group){.model = model, .d = d, .method = number, .settled = true};
    if (number < 0) {
        add_limits(plan, group);
        return;
    }
    const experiment_method *method = experiment_method_at(c, number);
    int64_t seeds = at_most(method->seeds, c->seeds), tuning = at_most(method->tuning_seeds, c->tuning_seeds);
    if (c->sweep || experiment_n_choices(method) == 1) {
        add_choices(plan, group, c->sweep ? ROLE_SWEEP : ROLE_FINAL, 1, seeds);
        return;
    }
    add_choices(plan, group, ROLE_TUNING, TUNING_SEEDS_AFTER + 1, tuning);
    plan->groups[group].settled = false;
    for (int64_t s = 1; s <= seeds; s++) add_run(plan, group, ROLE_FINAL, NULL, s);
}

void experiment_plan_ended(experiment_plan *plan, const planned_run *run) { experiment_settle(plan, run->group); }

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
            for (int64_t m = 0; m < n_methods; m++)
                add_group(plan, model, model->d.n > 0 ? (int64_t)model->d.values[k] : 1,
                          config->methods.n > 0 ? m : -1);
    }
    for (int64_t g = 0; g < plan->n_groups; g++) experiment_settle(plan, g);
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
