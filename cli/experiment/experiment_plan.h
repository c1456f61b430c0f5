/* The runs of an experiment: which there are, which of them are finished, and what they depend on.
 *
 * A group is one model with one method. Where the method leaves a choice (several gammas, rates or decays), tuning
 * runs, with seeds of their own, try every combination; the one that is best on validation rows (experiment_choice.h)
 * is then run with the final seeds. In a sweep, every gamma runs with every seed and nothing is chosen beforehand. */
#ifndef CLI_EXPERIMENT_PLAN_H
#define CLI_EXPERIMENT_PLAN_H

#include "cli/experiment/experiment_run.h"

typedef enum run_role { ROLE_TUNING = 1, ROLE_FINAL, ROLE_SWEEP, ROLE_LIMITS } run_role;

typedef enum run_state {
    RUN_WAITING = 1, /* for its group's choice */
    RUN_READY,
    RUN_RUNNING,
    RUN_DONE,
    RUN_FAILED,
} run_state;

typedef struct planned_run {
    int64_t group;
    run_role role;
    run_state state;
    experiment_settings settings;
    double weight; /* time it takes, by its kind */
    /* the rest is not there while it waits */
    char *id;   /* "univariate1-circe-gamma1000-seed3" */
    char *path; /* of its result */
    char fingerprint[FINGERPRINT_BYTES];
    experiment_result result; /* where done */
    bool reused;              /* it was done before */
    char *error;              /* where failed */
} planned_run;

typedef struct run_group {
    const experiment_model *model;
    int64_t d;
    int64_t method; /* -1: nothing is trained */
    bool settled;   /* its final runs know their choice */
} run_group;

typedef struct experiment_plan {
    const experiment_config *config;
    const char *folder; /* with the folder `runs` in it */
    planned_run *runs;
    int64_t n_runs;
    run_group *groups;
    int64_t n_groups;
} experiment_plan;

/* Final seeds are 1, 2, ...; tuning seeds follow this. */
enum { TUNING_SEEDS_AFTER = 1000 };

/* Lays out all runs and finds those that are done. */
void experiment_plan_make(const experiment_config *config, const char *folder, experiment_plan *plan);
void experiment_plan_free(experiment_plan *plan);

/* The run that should start next, the longest first and those that others wait for before all; NULL: none can. */
planned_run *experiment_plan_next(experiment_plan *plan);

/* To be called when a run ended, after its state was set: what waited for it may become ready. */
void experiment_plan_ended(experiment_plan *plan, const planned_run *run);

/* The gamma, rate and decay of a run are those of the choice. */
bool experiment_has_choice(const planned_run *run, const experiment_choice *choice);
experiment_choice experiment_choice_of(const planned_run *run);

/* Gives a run that waits its choice: it is ready then, or done. */
void experiment_plan_release(const experiment_plan *plan, planned_run *run, const experiment_choice *choice);

int64_t experiment_plan_count(const experiment_plan *plan, run_state state);

const char *experiment_role_name(run_role role);

#endif
