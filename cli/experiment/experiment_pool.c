/* The pool: runs go to places, each of which is a child of this process or one of another rank. */
#include "cli/experiment/experiment_pool.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/message.h"
#include "cli/common/progress.h"
#include "cli/common/ranks.h"
#include "cli/common/session.h"
#include "cli/experiment/experiment_ranks.h"

enum { LOOK_MS = 200, LOOK_AT_RANKS_MS = 4, LINES_EVERY_S = 15 };

/* Where a run can be. */
typedef struct place {
    int rank;         /* 0: here */
    int64_t number;   /* among those of the rank; here, its child */
    planned_run *run; /* NULL: it is free */
    double share;     /* of the run that is done */
    double start;
} place;

typedef struct pool {
    experiment_plan *plan;
    const experiment_means *means;
    experiment_child *children; /* of this process */
    int64_t n_children;
    place *places;
    int64_t n_places, running;
    bool quiet, stopping, killed;
    double start, stopped_at, last_line;
    double finished_seconds, finished_weight; /* of runs that ended: what a unit of weight takes */
} pool;

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* The first of every rank, then the second, ...: few runs are spread over many machines. No more than there are runs.
 */
static void make_places(pool *p, const int64_t *room) {
    int64_t most = 0, all = 0;
    for (int rank = 0; rank < cluster_size(); rank++) {
        all += room[rank];
        if (room[rank] > most) most = room[rank];
    }
    p->places = small_alloc((size_t)all * sizeof *p->places);
    for (int64_t number = 0; number < most; number++)
        for (int rank = 0; rank < cluster_size() && p->n_places < p->plan->n_runs; rank++)
            if (number < room[rank]) p->places[p->n_places++] = (place){.rank = rank, .number = number};
}

static place *find_place(pool *p, int rank, int64_t number) {
    for (int64_t i = 0; i < p->n_places; i++)
        if (p->places[i].rank == rank && p->places[i].number == number) return &p->places[i];
    return NULL;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

static void fail_run(pool *p, planned_run *run, char *text) {
    run->state = RUN_FAILED;
    run->error = text;
    message_note("the run %s failed: %s", run->id, text);
    experiment_plan_ended(p->plan, run);
}

static void start(pool *p, place *at, planned_run *run) {
    cJSON *json = experiment_settings_json(&run->settings);
    char *settings = cJSON_PrintUnformatted(json);
    const char *text = settings != NULL ? settings : "";
    int problem = 0;
    cJSON_Delete(json);
    if (at->rank == 0)
        problem = experiment_child_start(run->path, text, p->means, &p->children[at->number]);
    else
        experiment_ranks_start(at->rank, at->number, run->path, text);
    cJSON_free(settings);
    if (problem != 0) {
        fail_run(p, run, small_format("it could not be started: %s", strerror(problem)));
        return;
    }
    at->run = run;
    at->share = 0;
    at->start = session_clock();
    run->state = RUN_RUNNING;
    p->running++;
}

static void start_what_can(pool *p) {
    for (int64_t i = 0; i < p->n_places && !p->stopping;) {
        if (p->places[i].run != NULL) {
            i++;
            continue;
        }
        planned_run *run = experiment_plan_next(p->plan);
        if (run == NULL) return;
        start(p, &p->places[i], run); /* a run that could not start leaves the place free */
    }
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

/* `result` is the text of the file, `why` what went wrong; one of them is NULL, and this takes both. */
static void end(pool *p, place *at, char *result, char *why) {
    planned_run *run = at->run;
    at->run = NULL;
    p->running--;
    if (result != NULL && experiment_result_parse(result, run->settings.kind, run->fingerprint, &run->result)) {
        run->state = RUN_DONE;
        p->finished_seconds += session_clock() - at->start;
        p->finished_weight += run->weight;
        experiment_plan_ended(p->plan, run);
    } else if (p->stopping) {
        run->state = RUN_READY; /* stopped on purpose: it did not fail */
    } else if (why == NULL) {
        fail_run(p, run, small_format("its result %s cannot be read", run->path));
    } else {
        fail_run(p, run, why);
        why = NULL;
    }
    free(result);
    free(why);
}

static void stop(pool *p) {
    if (p->stopping) return;
    p->stopping = true;
    p->stopped_at = session_clock();
    experiment_child_signal(p->children, p->n_children, SIGTERM);
    experiment_ranks_stop();
}

static void stop_where_asked(pool *p) {
    if (progress_interrupted()) stop(p);
    if (!p->stopping || p->killed || session_clock() - p->stopped_at < EXPERIMENT_PATIENCE_S) return;
    experiment_child_signal(p->children, p->n_children, SIGKILL);
    p->killed = true;
}

/* ---- showing ----------------------------------------------------------------------------------------------------- */

/* Seconds until all is done, or -1 where nothing is known yet. */
static double time_left(const pool *p) {
    double weight = 0, done_weight = p->finished_weight, done_seconds = p->finished_seconds;
    for (int64_t i = 0; i < p->plan->n_runs; i++) {
        const planned_run *run = &p->plan->runs[i];
        if (run->state == RUN_READY || run->state == RUN_WAITING || run->state == RUN_RUNNING) weight += run->weight;
    }
    for (int64_t i = 0; i < p->n_places; i++) {
        const place *at = &p->places[i];
        if (at->run == NULL || at->share < 0.02) continue;
        weight -= at->share * at->run->weight;
        done_weight += at->share * at->run->weight;
        done_seconds += session_clock() - at->start;
    }
    return done_weight > 0 ? weight * done_seconds / done_weight / (double)p->n_places : -1;
}

static const char *duration(double seconds, char *text, size_t size) {
    int64_t s = (int64_t)(seconds + 0.5);
    if (s < 90)
        snprintf(text, size, "%" PRId64 " s", s);
    else if (s < 5400)
        snprintf(text, size, "%" PRId64 " min", (s + 30) / 60);
    else
        snprintf(text, size, "%" PRId64 " h %" PRId64 " min", s / 3600, s % 3600 / 60);
    return text;
}

static void show(pool *p) {
    char text[160], left[48] = "", time[32];
    int64_t n = p->plan->n_runs, done = experiment_plan_count(p->plan, RUN_DONE);
    int64_t failed = experiment_plan_count(p->plan, RUN_FAILED);
    double seconds = time_left(p), share = (double)(done + failed);
    for (int64_t i = 0; i < p->n_places; i++)
        if (p->places[i].run != NULL) share += p->places[i].share;
    if (seconds >= 0) snprintf(left, sizeof left, ", %s left", duration(seconds, time, sizeof time));
    int used = snprintf(text, sizeof text, "%" PRId64 " of %" PRId64 " runs, %" PRId64 " running", done, n, p->running);
    if (failed > 0) used += snprintf(text + used, sizeof text - (size_t)used, ", %" PRId64 " failed", failed);
    snprintf(text + used, sizeof text - (size_t)used, "%s", left);
    progress_show(share / (double)n, text);
    double now = session_clock();
    if (p->quiet || progress_is_shown() || now - p->last_line < LINES_EVERY_S) return;
    message_note("%s", text);
    p->last_line = now;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void hear_ranks(pool *p) {
    for (experiment_news news; experiment_ranks_hear(&news);) {
        place *at = find_place(p, news.rank, news.place);
        bool known = at != NULL && at->run != NULL;
        if (known && news.kind == NEWS_SHARE && news.share >= 0 && news.share <= 1) at->share = news.share;
        if (news.kind == NEWS_STOPPING) stop(p);
        if (known && (news.kind == NEWS_DONE || news.kind == NEWS_FAILED)) {
            bool done = news.kind == NEWS_DONE;
            end(p, at, done ? news.text : NULL, done ? NULL : news.text);
            continue;
        }
        free(news.text);
    }
}

static void hear_children(pool *p) {
    experiment_child_listen(p->children, p->n_children, ranks_several() ? LOOK_AT_RANKS_MS : LOOK_MS);
    for (int64_t i = 0; i < p->n_places; i++) {
        place *at = &p->places[i];
        if (at->rank != 0 || at->run == NULL) continue;
        at->share = p->children[at->number].share;
        if (!experiment_child_has_ended(&p->children[at->number])) continue;
        char *why = experiment_child_end(&p->children[at->number]);
        end(p, at, why == NULL ? experiment_result_text(at->run->path) : NULL, why);
    }
}

int64_t experiment_pool_run(experiment_plan *plan, int64_t jobs, const experiment_means *means, bool quiet,
                            bool *interrupted) {
    pool p = {.plan = plan, .means = means, .n_children = jobs, .quiet = quiet};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    int64_t *room = experiment_ranks_room(jobs);
    make_places(&p, room);
    free(room);
    p.start = p.last_line = session_clock();
    p.children = small_alloc((size_t)jobs * sizeof *p.children);
    if (!quiet)
        message_note("%" PRId64 " runs, %" PRId64 " of them finished before; %" PRId64
                     " side by side; results go to %s",
                     plan->n_runs, experiment_plan_count(plan, RUN_DONE), p.n_places, plan->folder);
    progress_start(!quiet);
    progress_catch_termination();
    sigaction(SIGPIPE, &ignore, &before); /* a child that ended must not end this process */
    do {
        start_what_can(&p);
        if (p.running > 0) hear_children(&p);
        hear_ranks(&p);
        stop_where_asked(&p);
        show(&p);
    } while (p.running > 0 || (!p.stopping && experiment_plan_next(plan) != NULL));
    experiment_ranks_dismiss();
    progress_clear();
    sigaction(SIGPIPE, &before, NULL);
    free(p.children);
    free(p.places);
    *interrupted = p.stopping;
    return p.n_places;
}
