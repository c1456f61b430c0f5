/* The pool: runs go to places, each of which is a child of this process or one of another rank. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/small.h"
#include "mpi/ranks.h"
#include "sweep/sweep_parts.h"

enum { LOOK_MS = 200, LOOK_AT_RANKS_MS = 4 };

/* Where a run can be. */
typedef struct place {
    int rank;       /* 0: here */
    int64_t number; /* among those of the rank; here, its child */
    int64_t run;    /* -1: it is free */
    double share;   /* of the run that is done */
    double start;
} place;

typedef struct pool {
    sweep *s;
    const circe_watch *watch;
    sweep__runners runners;
    char *mail; /* letters */
    place *places;
    int64_t n_places, running;
    double finished_seconds, finished_weight; /* of runs that ended: what a unit of weight takes */
} pool;

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* The first of every rank, then the second, ...: few runs are spread over many machines. No more than there are runs.
 */
static void make_places(pool *p) {
    int64_t most = 0, all = 0, *room = sweep__gather_room(p->s->options->jobs);
    for (int rank = 0; rank < ranks_size(); rank++) {
        all += room[rank];
        if (room[rank] > most) most = room[rank];
    }
    p->places = small_alloc((size_t)all * sizeof *p->places);
    for (int64_t number = 0; number < most; number++)
        for (int rank = 0; rank < ranks_size() && p->n_places < p->s->n_runs; rank++)
            if (number < room[rank]) p->places[p->n_places++] = (place){.rank = rank, .number = number, .run = -1};
    free(room);
}

static place *find_place(pool *p, int rank, int64_t number) {
    for (int64_t i = 0; i < p->n_places; i++)
        if (p->places[i].rank == rank && p->places[i].number == number) return &p->places[i];
    return NULL;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* The run that should start next, the longest first and those that others wait for before all; -1: none can. */
static int64_t next_run(const sweep *s) {
    int64_t next = -1;
    for (int64_t i = 0; i < s->n_runs; i++) {
        const sweep_run *run = &s->runs[i], *best = next >= 0 ? &s->runs[next] : NULL;
        if (run->state != SWEEP_READY) continue;
        if (best == NULL || run->awaited > best->awaited ||
            (run->awaited == best->awaited && run->weight > best->weight))
            next = i;
    }
    return next;
}

static void fail_run(pool *p, int64_t run, const char *why) {
    const sweep_options *o = p->s->options;
    char text[SWEEP__WHY_BYTES + 256];
    sweep_fail(p->s, run, why);
    snprintf(text, sizeof text, "the run %s failed: %s", p->s->runs[run].name, why);
    if (p->watch != NULL && p->watch->warning != NULL) p->watch->warning(p->watch->user, text);
    o->ended(o->user, p->s, run);
}

static void start(pool *p, place *at, int64_t number) {
    sweep_run *run = &p->s->runs[number];
    char why[SWEEP__WHY_BYTES];
    if (at->rank > 0) {
        sweep__order_start(p->mail, at->rank, at->number, run->path, run->settings);
    } else if (!sweep__runners_start(&p->runners, at->number, run->path, run->settings, why)) {
        fail_run(p, number, why);
        return;
    }
    at->run = number;
    at->share = 0;
    at->start = job_clock();
    run->state = SWEEP_RUNNING;
    p->running++;
}

static void start_what_can(pool *p) {
    for (int64_t i = 0; i < p->n_places && !p->runners.stopping;) {
        int64_t run = p->places[i].run >= 0 ? -1 : next_run(p->s);
        if (p->places[i].run >= 0)
            i++;
        else if (run < 0)
            return;
        else
            start(p, &p->places[i], run); /* a run that could not start leaves the place free */
    }
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

/* `result` is the text of the file, or `why` says what went wrong. */
static void end(pool *p, place *at, const char *result, const char *why) {
    const sweep_options *o = p->s->options;
    int64_t number = at->run;
    sweep_run *run = &p->s->runs[number];
    char unread[SWEEP__WHY_BYTES];
    at->run = -1;
    p->running--;
    if (sweep__take(p->s, number, result)) {
        run->state = SWEEP_DONE;
        p->finished_seconds += job_clock() - at->start;
        p->finished_weight += run->weight;
        o->ended(o->user, p->s, number);
    } else if (p->runners.stopping) {
        run->state = SWEEP_READY; /* stopped on purpose: it did not fail */
    } else {
        snprintf(unread, sizeof unread, "its result %.2000s cannot be read", run->path != NULL ? run->path : run->name);
        fail_run(p, number, why != NULL ? why : unread);
    }
}

static void stop(pool *p) {
    if (!p->runners.stopping) sweep__order_stop(p->mail);
    sweep__runners_stop(&p->runners);
}

/* ---- showing ----------------------------------------------------------------------------------------------------- */

/* Seconds until all is done, or -1 if nothing is known yet. */
static double time_left(const pool *p) {
    double weight = 0, done_weight = p->finished_weight, done_seconds = p->finished_seconds;
    for (int64_t i = 0; i < p->s->n_runs; i++) {
        const sweep_run *run = &p->s->runs[i];
        if (run->state != SWEEP_DONE && run->state != SWEEP_FAILED) weight += run->weight;
    }
    for (int64_t i = 0; i < p->n_places; i++) {
        const place *at = &p->places[i];
        if (at->run < 0 || at->share < 0.02) continue;
        weight -= at->share * p->s->runs[at->run].weight;
        done_weight += at->share * p->s->runs[at->run].weight;
        done_seconds += job_clock() - at->start;
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

/* Not 0: it is to stop. */
static int show(const pool *p) {
    char text[160], left[48] = "", fails[48] = "", time[32];
    int64_t n = p->s->n_runs, done = sweep_count(p->s, SWEEP_DONE), failed = sweep_count(p->s, SWEEP_FAILED);
    double seconds = time_left(p), share = (double)(done + failed);
    for (int64_t i = 0; i < p->n_places; i++)
        if (p->places[i].run >= 0) share += p->places[i].share;
    if (seconds >= 0) snprintf(left, sizeof left, ", %s left", duration(seconds, time, sizeof time));
    if (failed > 0) snprintf(fails, sizeof fails, ", %" PRId64 " failed", failed);
    snprintf(text, sizeof text, "%" PRId64 " of %" PRId64 " runs, %" PRId64 " running%s%s", done, n, p->running, fails,
             left);
    return sweep__tell(p->watch, share / (double)n, text);
}

static void announce(const pool *p) {
    char text[512];
    const char *folder = p->s->options->folder;
    if (p->watch == NULL || p->watch->note == NULL) return;
    snprintf(text, sizeof text,
             "%" PRId64 " runs, %" PRId64 " of them finished before; %" PRId64 " side by side%s%.300s", p->s->n_runs,
             sweep_count(p->s, SWEEP_DONE), p->n_places, folder != NULL ? "; results go to " : "",
             folder != NULL ? folder : "");
    p->watch->note(p->watch->user, text);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void hear(void *user, const sweep__news *news) {
    pool *p = user;
    place *at = find_place(p, news->rank, news->place);
    if (news->kind == SWEEP__STOPPING) stop(p);
    if (at == NULL || at->run < 0) return;
    if (news->kind == SWEEP__SHARE && news->share >= 0 && news->share <= 1) at->share = news->share;
    if (news->kind == SWEEP__RESULT) end(p, at, news->text, NULL);
    if (news->kind == SWEEP__FAILURE) end(p, at, NULL, news->text);
}

circe_status sweep__pool(sweep *s, const circe_watch *watch) {
    pool p = {.s = s, .watch = watch, .mail = sweep__mail_open()};
    sweep__runners_open(s->options, &p.runners);
    make_places(&p);
    s->side_by_side = p.n_places;
    announce(&p);
    do {
        start_what_can(&p);
        if (p.running > 0) sweep__runners_listen(&p.runners, ranks_size() > 1 ? LOOK_AT_RANKS_MS : LOOK_MS, hear, &p);
        sweep__mail_listen(p.mail, hear, &p);
        if (show(&p) != 0) stop(&p);
        sweep__runners_hurry(&p.runners);
    } while (p.running > 0 || (!p.runners.stopping && next_run(s) >= 0));
    sweep__order_dismiss(p.mail);
    bool stopped = p.runners.stopping;
    sweep__runners_close(&p.runners);
    free(p.mail);
    free(p.places);
    if (!stopped) return CIRCE_OK;
    const char *folder = s->options->folder;
    circe_fail(CIRCE_ERR_CANCELLED, "stopped: %" PRId64 " of %" PRId64 " runs are finished%s%s%s",
               sweep_count(s, SWEEP_DONE), s->n_runs, folder != NULL ? " and stay in " : "",
               folder != NULL ? folder : "", folder != NULL ? "/runs" : "");
    return CIRCE_ERR_CANCELLED;
}
