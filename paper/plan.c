/* Laying out the runs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "paper/paper_parts.h"

const char *paper_role_name(paper_role role) {
    static const char *const names[] = {
        [ROLE_TUNING] = "tuning", [ROLE_FINAL] = "final", [ROLE_SWEEP] = "sweep", [ROLE_LIMITS] = "limits"};
    return names[role];
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* "univariate1-circe-gamma1000-seed3" */
static void make_name(const paper *p, const paper_planned *run, char *name, size_t size) {
    const paper_settings *s = &run->settings;
    const paper_group *group = &p->groups[run->group];
    char model[PAPER_MODEL_BYTES], gamma[48] = "", rate[48] = "", decay[48] = "";
    paper_model_id(group->model, group->d, model);
    if (group->method < 0) {
        snprintf(name, size, "%s-%s", model, s->kind->name);
        return;
    }
    const paper_method *method = paper_method_at(&p->config, group->method);
    if (method->gamma.n > 0) snprintf(gamma, sizeof gamma, "-gamma%.10g", s->gamma);
    if (method->rate.n > 1) snprintf(rate, sizeof rate, "-rate%.10g", s->training.rate);
    if (method->decay.n > 1) snprintf(decay, sizeof decay, "-decay%.10g", s->training.decay);
    snprintf(name, size, "%s-%s%s%s%s-seed%" PRId64, model, method->name, gamma, rate, decay, s->seed);
}

/* Gives a waiting run its choice. It is then ready, or already done. */
static void release(paper *p, sweep *s, int64_t number, const paper_choice *choice) {
    paper_planned *run = &p->runs[number];
    paper_settings *settings = &run->settings;
    char name[512];
    settings->gamma = choice->gamma;
    settings->training.rate = choice->rate;
    settings->training.decay = choice->decay;
    make_name(p, run, name, sizeof name);
    sweep_release(s, number, name, settings->kind->weight(settings), paper_settings_json(settings));
}

paper_choice paper_choice_of(const paper_planned *run) {
    const paper_settings *s = &run->settings;
    return (paper_choice){s->gamma, s->training.rate, s->training.decay};
}

/* Without a choice, the run waits for one. */
static void add_run(paper *p, sweep *s, int64_t group, paper_role role, const paper_choice *choice, int64_t seed) {
    const paper_config *c = &p->config;
    const paper_group *g = &p->groups[group];
    paper_planned run = {.group = group,
                         .role = role,
                         .settings = {.kind = c->kind,
                                      .model = *g->model,
                                      .d = g->d,
                                      .limits = c->limits,
                                      .data = c->data,
                                      .training = c->training,
                                      .evaluation = c->evaluation,
                                      .yardstick = c->yardstick,
                                      .seed = seed}};
    if (g->method >= 0) run.settings.method = *paper_method_at(c, g->method);
    paper_numbers_init(&run.numbers);
    int64_t number = sweep_add(s, c->kind->weight(&run.settings), role == ROLE_TUNING);
    p->runs[number] = run;
    if (choice != NULL) release(p, s, number, choice);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static int64_t at_most(int64_t most, int64_t seeds) { return most > 0 && most < seeds ? most : seeds; }

static void add_choices(paper *p, sweep *s, int64_t group, paper_role role, int64_t first_seed, int64_t seeds) {
    const paper_method *method = paper_method_at(&p->config, p->groups[group].method);
    for (int64_t i = 0; i < paper_n_choices(method); i++) {
        paper_choice choice = paper_choice_at(&p->config, method, i);
        for (int64_t k = 0; k < seeds; k++) add_run(p, s, group, role, &choice, first_seed + k);
    }
}

static void add_group(paper *p, sweep *s, const paper_model *model, int64_t d, int64_t number) {
    const paper_config *c = &p->config;
    const paper_choice none = {0};
    int64_t group = p->n_groups++;
    p->groups[group] = (paper_group){.model = model, .d = d, .method = number, .settled = true};
    if (number < 0) {
        add_run(p, s, group, ROLE_LIMITS, &none, 1);
        return;
    }
    const paper_method *method = paper_method_at(c, number);
    int64_t seeds = at_most(method->seeds, c->seeds), tuning = at_most(method->tuning_seeds, c->tuning_seeds);
    if (c->sweep || paper_n_choices(method) == 1) {
        add_choices(p, s, group, c->sweep ? ROLE_SWEEP : ROLE_FINAL, 1, seeds);
        return;
    }
    add_choices(p, s, group, ROLE_TUNING, TUNING_SEEDS_AFTER + 1, tuning);
    p->groups[group].settled = false;
    for (int64_t k = 1; k <= seeds; k++) add_run(p, s, group, ROLE_FINAL, NULL, k);
}

/* ---- settling ---------------------------------------------------------------------------------------------------- */

static bool tuning_ended(const paper *p, const sweep *s, int64_t group) {
    for (int64_t i = 0; i < s->n_runs; i++)
        if (p->runs[i].group == group && p->runs[i].role == ROLE_TUNING && s->runs[i].state != SWEEP_DONE &&
            s->runs[i].state != SWEEP_FAILED)
            return false;
    return true;
}

/* The choice of the tuning runs; false: there is none. */
static bool find_choice(const paper *p, int64_t group, paper_choice *choice) {
    bool found = false;
    *choice = paper_choice_at(&p->config, paper_method_at(&p->config, p->groups[group].method), 0);
    paper_rows rows = paper_summarise(p, group, true);
    paper_choose(p->config.kind, &rows);
    for (int64_t i = 0; i < rows.n; i++)
        if (rows.list[i].chosen && rows.list[i].failed == 0) *choice = rows.list[i].choice, found = true;
    free(rows.list);
    return found;
}

/* Gives the final runs of a group their choice once all its tuning runs ended. */
static void settle(paper *p, sweep *s, int64_t group) {
    paper_choice choice;
    if (p->groups[group].settled || !tuning_ended(p, s, group)) return;
    bool found = find_choice(p, group, &choice);
    p->groups[group].settled = true;
    for (int64_t i = 0; i < s->n_runs; i++) {
        if (p->runs[i].group != group || p->runs[i].role != ROLE_FINAL) continue;
        release(p, s, i, &choice);
        if (!found) sweep_fail(s, i, "nothing could be chosen: all runs for the choice failed");
    }
}

void paper_ended(void *user, sweep *s, int64_t run) {
    paper *p = user;
    settle(p, s, p->runs[run].group);
}

bool paper_accept(void *user, int64_t run, const cJSON *result) {
    const paper *p = user;
    return paper_numbers_get(result, p->config.kind, &p->runs[run].numbers);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int64_t dimensions(const paper_model *model) { return model->d.n > 0 ? model->d.n : 1; }

static int64_t most_runs(const paper_config *config, int64_t n_models) {
    int64_t n = 1;
    for (int64_t m = 0; m < config->methods.n; m++) {
        int64_t choices = paper_n_choices(paper_method_at(config, m));
        n += choices * (config->seeds + config->tuning_seeds) + config->seeds;
    }
    return n * n_models;
}

circe_status paper_plan(void *user, sweep *s) {
    paper *p = user;
    const paper_config *c = &p->config;
    circe_status status = paper_pictures_prepare(p);
    if (status != CIRCE_OK) return status;
    int64_t n_methods = c->methods.n > 0 ? c->methods.n : 1, n_models = 0;
    for (int64_t i = 0; i < c->models.n; i++) n_models += dimensions(paper_model_at(c, i));
    p->runs = arena_alloc(&p->config.owner, (size_t)most_runs(c, n_models) * sizeof *p->runs);
    p->groups = arena_alloc(&p->config.owner, (size_t)(n_models * n_methods) * sizeof *p->groups);
    for (int64_t i = 0; i < c->models.n; i++) {
        const paper_model *model = paper_model_at(c, i);
        for (int64_t k = 0; k < dimensions(model); k++)
            for (int64_t m = 0; m < n_methods; m++)
                add_group(p, s, model, model->d.n > 0 ? (int64_t)model->d.values[k] : 1, c->methods.n > 0 ? m : -1);
    }
    for (int64_t g = 0; g < p->n_groups; g++) settle(p, s, g);
    return CIRCE_OK;
}
