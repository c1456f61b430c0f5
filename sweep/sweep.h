/* Many runs of one function, side by side, here and on other ranks, restartable.
 *
 * A run has a name, settings (a JSON object) and a fingerprint of them. A thread of this process does it, with its own
 * context, or, if the caller names a program, a process: that program with the words of `command`, which calls
 * sweep_work and reads its settings from standard input. The result goes to FOLDER/runs/NAME.json. A result with the
 * fingerprint of the settings is not computed again. A run may wait for others and get its settings when they have
 * ended. Nothing here prints, and only the caller knows what the runs are about. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "circe/job.h"
#include "io/json_values.h"

enum { SWEEP_FINGERPRINT_BYTES = 17 }; /* 16 digits and the end of the text */

typedef enum sweep_state {
    SWEEP_WAITING = 1, /* for its settings */
    SWEEP_READY,
    SWEEP_RUNNING,
    SWEEP_DONE,
    SWEEP_FAILED,
} sweep_state;

typedef struct sweep_run {
    sweep_state state;
    bool awaited;  /* others wait for it: it goes first */
    double weight; /* time it takes, in units of no meaning: the longest goes first */
    /* the rest is not there while it waits; texts belong to the sweep */
    const char *name, *path, *settings;
    char fingerprint[SWEEP_FINGERPRINT_BYTES];
    const char *error; /* where failed */
} sweep_run;

typedef struct sweep {
    const struct sweep_options *options;
    sweep_run *runs;
    int64_t n_runs;
    int64_t side_by_side; /* how many could be */
    double seconds;       /* that it took */
    arena owner;
    struct io_lock *lock; /* on the folder, until sweep_free */
} sweep;

/* One run: what it is to do, and what it makes. */
typedef struct sweep_task {
    circe_context *context; /* of this run alone */
    const cJSON *settings;
    const char *checkpoint;                      /* that a long run may keep, until it is done; NULL: none */
    int (*progress)(void *teller, double share); /* of the run that is done; not 0: stop */
    void *teller;
    cJSON *understood, *result; /* to be made: the settings as they were read, and what came out */
} sweep_task;

typedef circe_status (*sweep_function)(void *user, sweep_task *task);

typedef struct sweep_options {
    const char *folder; /* NULL: the results are kept in memory alone */
    int64_t jobs;       /* runs side by side, of each rank */
    int64_t threads;    /* of each run */
    /* Runs in this process: the function is called on a thread for each, with a context like this one. */
    sweep_function function;
    void *function_user;
    const circe_context *context;
    /* Runs as processes: a program, and words that make it do a run, before the path of its result; NULL ends them. */
    const char *program;
    const char *const *command;
    const char *same_file; /* must be the same for every rank; NULL: none */
    const char *left_out;  /* member of the settings that changes no result; NULL: none */
    void *user;
    /* Called once the folder is held: adds the runs. */
    circe_status (*plan)(void *user, sweep *s);
    /* Receives the result of a run; false: it is damaged. */
    bool (*accept)(void *user, int64_t run, const cJSON *result);
    /* A run is done or failed: those that waited for it may get their settings. */
    void (*ended)(void *user, sweep *s, int64_t run);
} sweep_options;

/* Runs everything that is not done yet. A run that fails is reported, and the others continue. If it is asked to stop,
 * it ends the runs and returns CIRCE_ERR_CANCELLED; finished results stay. With several ranks, the others call
 * sweep_serve. */
circe_status sweep_go(const sweep_options *options, const circe_watch *watch, sweep *result);
void sweep_free(sweep *s);

/* On every rank but the first: does the runs that rank 0 hands out, with the jobs, threads and command of the options.
 * `status` is this rank's status so far. */
circe_status sweep_serve(circe_status status, const sweep_options *options, const circe_watch *watch);
/* Called on rank 0 instead of sweep_go if something failed before it. Returns the status. */
circe_status sweep_call_off(circe_status status);

/* How many runs to do side by side on this machine: as asked, or (CIRCE_UNSET) as many as the cores of this process
 * have room for, and 8 at most on a GPU. */
int64_t sweep_side_by_side(int64_t asked, int64_t threads, const char *device);

int64_t sweep_count(const sweep *s, sweep_state state);

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Adds a run that waits; its number. */
int64_t sweep_add(sweep *s, double weight, bool awaited);

/* Gives a run its settings, which this takes: it is ready then, or done where its result is there. */
void sweep_release(sweep *s, int64_t run, const char *name, double weight, cJSON *settings);
/* It cannot be done. */
void sweep_fail(sweep *s, int64_t run, const char *error);

/* The fingerprint of settings and of the version of this program. */
void sweep_fingerprint(const cJSON *settings, const char *left_out, char fingerprint[SWEEP_FINGERPRINT_BYTES]);

/* ---- in the process of a run ------------------------------------------------------------------------------------- */

/* One run: settings from standard input, progress to standard output ("0.35\n"), the result to `path`, whole or not at
 * all. Ends where the process that started this one does, or where `stop` says so. */
circe_status sweep_work(const char *path, const char *left_out, sweep_function function, void *user,
                        bool (*stop)(void));

/* Seconds that a run has to end after it was asked to. */
enum { SWEEP_PATIENCE_S = 5 };
