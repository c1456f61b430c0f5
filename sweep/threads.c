/* Runs as threads of this process, each with its own context. A thread writes its result to its entry of the list,
 * under one lock; the listener sleeps until a thread has ended. A thread cannot be killed, so a run that is asked to
 * stop does so at its next report of progress. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/small.h"
#include "core/core.h"
#include "sweep/sweep_parts.h"

typedef struct runner {
    struct crew *crew;
    pthread_t thread;
    bool there, ended; /* started and not yet taken leave of; it has said its last word */
    double share;
    char *path, *settings; /* path NULL: no file */
    circe_status status;
    char *result; /* its text, where it succeeded */
    char why[SWEEP__WHY_BYTES];
} runner;

typedef struct crew {
    const sweep_options *options;
    pthread_mutex_t lock;
    pthread_cond_t news;
    bool stopping;
    runner list[];
} crew;

/* ---- in a thread ------------------------------------------------------------------------------------------------- */

static int tell(void *user, double share) {
    runner *r = user;
    pthread_mutex_lock(&r->crew->lock);
    r->share = share;
    int stop = r->crew->stopping;
    pthread_mutex_unlock(&r->crew->lock);
    return stop;
}

static int is_stopping(void *user, const char *stage, int64_t done, int64_t total) {
    runner *r = user;
    (void)stage, (void)done, (void)total;
    pthread_mutex_lock(&r->crew->lock);
    int stop = r->crew->stopping;
    pthread_mutex_unlock(&r->crew->lock);
    return stop;
}

/* The text of this thread's error, its hints in the same line. */
static void take_error(char why[SWEEP__WHY_BYTES]) {
    size_t used = 0;
    for (const char *c = circe_last_error(); *c != '\0' && used + 3 < SWEEP__WHY_BYTES; c++) {
        if (*c == '\n') why[used++] = ';';
        why[used++] = *c == '\n' ? ' ' : *c;
    }
    why[used] = '\0';
}

static void *run(void *user) {
    CIRCE_OWN_SETTINGS;
    runner *r = user;
    const sweep_options *o = r->crew->options;
    sweep_task task = {.progress = tell, .teller = r};
    char *result = NULL;
    circe_status status = circe__context_like(o->context, (int)o->threads, o->jobs, is_stopping, r, &task.context);
    if (status == CIRCE_OK)
        status = sweep__perform(r->path, r->settings, o->left_out, o->function, o->function_user, &task, &result);
    circe_context_destroy(task.context);
    pthread_mutex_lock(&r->crew->lock);
    r->status = status;
    r->result = result;
    if (status != CIRCE_OK) take_error(r->why);
    r->ended = true;
    pthread_cond_signal(&r->crew->news);
    pthread_mutex_unlock(&r->crew->lock);
    return NULL;
}

/* ---- in the thread of the sweep ---------------------------------------------------------------------------------- */

static void open_crew(sweep__runners *runners) {
    pthread_condattr_t clock;
    crew *c = small_alloc(sizeof *c + (size_t)runners->options->jobs * sizeof *c->list);
    c->options = runners->options;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->news, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&c->lock, NULL);
    runners->inside = c;
}

static void close_crew(sweep__runners *runners) {
    crew *c = runners->inside;
    pthread_cond_destroy(&c->news);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void forget(runner *r) {
    free(r->path);
    free(r->settings);
    free(r->result);
    *r = (runner){0};
}

static bool start(sweep__runners *runners, int64_t i, const char *path, const char *settings,
                  char why[SWEEP__WHY_BYTES]) {
    crew *c = runners->inside;
    runner *r = &c->list[i];
    *r = (runner){
        .crew = c, .path = path != NULL ? small_format("%s", path) : NULL, .settings = small_format("%s", settings)};
    int problem = pthread_create(&r->thread, NULL, run, r);
    r->there = problem == 0;
    if (problem == 0) return true;
    forget(r);
    snprintf(why, SWEEP__WHY_BYTES, "it could not be started: %s", strerror(problem));
    return false;
}

static bool any_ended(const crew *c) {
    for (int64_t i = 0; i < c->options->jobs; i++)
        if (c->list[i].there && c->list[i].ended) return true;
    return false;
}

static void wait_for_news(crew *c, int milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += milliseconds * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&c->lock);
    while (!any_ended(c) && pthread_cond_timedwait(&c->news, &c->lock, &until) != ETIMEDOUT) continue;
    pthread_mutex_unlock(&c->lock);
}

static void end(runner *r, int64_t i, sweep__hear *hear, void *user) {
    bool good = r->status == CIRCE_OK;
    const sweep__news news = {
        .kind = good ? SWEEP__RESULT : SWEEP__FAILURE, .place = i, .text = good ? r->result : r->why};
    pthread_join(r->thread, NULL);
    hear(user, &news); /* starts nothing: that is the loop's */
    forget(r);
}

static void listen(sweep__runners *runners, int milliseconds, sweep__hear *hear, void *user) {
    crew *c = runners->inside;
    wait_for_news(c, milliseconds);
    for (int64_t i = 0; i < c->options->jobs; i++) {
        runner *r = &c->list[i];
        pthread_mutex_lock(&c->lock);
        const sweep__news share = {.kind = SWEEP__SHARE, .place = i, .share = r->share};
        bool there = r->there, ended = r->ended;
        pthread_mutex_unlock(&c->lock);
        if (there && ended)
            end(r, i, hear, user);
        else if (there)
            hear(user, &share);
    }
}

static void stop(sweep__runners *runners) {
    crew *c = runners->inside;
    pthread_mutex_lock(&c->lock);
    c->stopping = true;
    pthread_mutex_unlock(&c->lock);
}

const sweep__way sweep__by_threads = {open_crew, close_crew, start, listen, stop, NULL};
