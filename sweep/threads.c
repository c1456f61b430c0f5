/* A run in a thread of this process: what runs share, a GPU and the data on it, is there once. It speaks to the pool by
 * the same pipes as a process of its own would. A thread cannot be ended from outside: asked to stop, it does so where
 * the run next tells of its progress. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "circe/circe.h"
#include "io/small.h"
#include "sweep/sweep_parts.h"

struct sweep__thread {
    pthread_t id;
    const sweep_options *options;
    char *path, *settings;
    int out, err; /* its ends of the pipes */
    atomic_bool stop;
    circe_status status;
};

static bool is_stopped(void *user) { return atomic_load(&((sweep__thread *)user)->stop); }

static void say(int descriptor, const char *text) {
    for (size_t at = 0, bytes = strlen(text); at < bytes;) {
        ssize_t written = write(descriptor, text + at, bytes - at);
        if (written < 0 && errno != EINTR) return;
        if (written > 0) at += (size_t)written;
    }
}

static void *work(void *user) {
    sweep__thread *t = user;
    sweep__teller teller = {.out = t->out, .stop = is_stopped, .user = t};
    t->status = sweep__do(t->options, t->path, t->settings, &teller);
    if (t->status != CIRCE_OK) say(t->err, circe_last_error());
    close(t->out); /* the last word: the pool then waits for this thread */
    close(t->err);
    return NULL;
}

static void release(sweep__thread *t) {
    free(t->path);
    free(t->settings);
    free(t);
}

/* Signals stay with the threads that were there before. */
static int start(sweep__thread *t) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = pthread_create(&t->id, NULL, work, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return problem;
}

int sweep__thread_start(const sweep_options *options, const char *path, const char *settings, int out, int err,
                        sweep__thread **thread) {
    sweep__thread *t = small_alloc(sizeof *t);
    *t =
        (sweep__thread){.options = options, .path = small_format("%s", path), .settings = small_format("%s", settings)};
    atomic_init(&t->stop, false);
    t->out = out;
    t->err = err;
    int problem = start(t);
    if (problem == 0)
        *thread = t;
    else
        release(t);
    return problem;
}

void sweep__thread_stop(sweep__thread *thread) { atomic_store(&thread->stop, true); }

circe_status sweep__thread_end(sweep__thread *thread) {
    pthread_join(thread->id, NULL);
    circe_status status = thread->status;
    release(thread);
    return status;
}
