/* The pool: children are `circe experiment-run` of this very program. A child gets its settings on
 * standard input, tells its progress on standard output ("0.35\n") and what is wrong on standard error, and writes its
 * result itself. Asked to stop by SIGTERM, or where this process dies and nobody reads its progress, it leaves a
 * checkpoint if it has one, and ends. */
#include "experiment_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "message.h"
#include "progress.h"
#include "session.h"

enum { LOOK_MS = 200, PATIENCE_S = 5, LINES_EVERY_S = 15, MOST_TEXT = 2048 };

typedef struct child {
    planned_run *run; /* NULL: the slot is free */
    pid_t pid;
    int out, err; /* -1: closed */
    double share; /* done, as it said last */
    double start;
    char line[64]; /* a line of progress that is not whole yet */
    size_t line_length;
    char text[MOST_TEXT]; /* what it said of errors */
    size_t text_length;
} child;

typedef struct pool {
    experiment_plan *plan;
    child *children;
    int64_t jobs, threads, running;
    bool quiet, stopping;
    double start, stopped_at, last_line;
    double finished_seconds, finished_weight; /* of runs that ended here: what a unit of weight takes */
} pool;

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* The environment with so many threads a child; to be freed, its texts are borrowed. The last two are `own`. */
static char **environment_of(char own[2][48], int64_t threads) {
    static const char *const names[] = {"OMP_NUM_THREADS=", "OPENBLAS_NUM_THREADS="};
    size_t n = 0, kept = 0;
    while (environ[n] != NULL) n++;
    char **list = small_alloc((n + 3) * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        bool ours = strncmp(environ[i], names[0], strlen(names[0])) == 0 ||
                    strncmp(environ[i], names[1], strlen(names[1])) == 0;
        if (!ours) list[kept++] = environ[i];
    }
    for (int i = 0; i < 2; i++) {
        snprintf(own[i], sizeof own[i], "%s%" PRId64, names[i], threads);
        list[kept++] = own[i];
    }
    return list;
}

static void write_settings(int descriptor, const planned_run *run) {
    cJSON *json = experiment_settings_json(&run->settings);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    for (size_t at = 0, bytes = text != NULL ? strlen(text) : 0; at < bytes;) { /* less than a pipe holds */
        ssize_t written = write(descriptor, text + at, bytes - at);
        if (written < 0 && errno != EINTR) break; /* the child will say that its settings are not whole */
        if (written > 0) at += (size_t)written;
    }
    cJSON_free(text);
}

/* In a process group of its own, so that a Ctrl-C reaches this process alone, which then ends its children. */
static int spawn(const planned_run *run, int64_t threads, const int in[2], const int out[2], const int err[2],
                 pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t usual;
    char *arguments[] = {"circe", "experiment-run", "-o", run->path, NULL};
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    int problem = posix_spawn_file_actions_init(&actions);
    if (problem != 0) return problem;
    problem = posix_spawnattr_init(&attributes);
    if (problem != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return problem;
    }
    char own[2][48], **environment = environment_of(own, threads);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    problem = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, arguments, environment);
    free(environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return problem;
}

static void close_both(const int ends[2]) {
    if (ends[0] >= 0) close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
}

static void fail_run(pool *p, planned_run *run, char *text) {
    run->state = RUN_FAILED;
    run->error = text;
    message_note("the run %s failed: %s", run->id, text);
    experiment_plan_ended(p->plan, run);
}

static void start(pool *p, child *slot, planned_run *run) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    int problem = pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 ? 0 : errno;
    *slot = (child){.out = -1, .err = -1};
    if (problem == 0) problem = spawn(run, p->threads, in, out, err, &slot->pid);
    if (problem != 0) {
        close_both(in);
        close_both(out);
        close_both(err);
        fail_run(p, run, small_format("it could not be started: %s", strerror(problem)));
        return;
    }
    write_settings(in[1], run);
    close_both(in);
    close(out[1]);
    close(err[1]);
    slot->run = run;
    slot->out = out[0];
    slot->err = err[0];
    slot->start = session_clock();
    fcntl(slot->out, F_SETFL, O_NONBLOCK);
    fcntl(slot->err, F_SETFL, O_NONBLOCK);
    run->state = RUN_RUNNING;
    p->running++;
}

static void start_what_can(pool *p) {
    for (int64_t i = 0; i < p->jobs && !p->stopping;) {
        if (p->children[i].run != NULL) {
            i++;
            continue;
        }
        planned_run *run = experiment_plan_next(p->plan);
        if (run == NULL) return;
        start(p, &p->children[i], run); /* a run that could not start leaves the slot free */
    }
}

/* ---- listening --------------------------------------------------------------------------------------------------- */

static void take_progress(child *c, const char *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] != '\n') {
            if (c->line_length + 1 < sizeof c->line) c->line[c->line_length++] = data[i];
            continue;
        }
        c->line[c->line_length] = '\0';
        double share = strtod(c->line, NULL);
        if (share >= 0 && share <= 1) c->share = share;
        c->line_length = 0;
    }
}

static void take_error(child *c, const char *data, size_t bytes) {
    size_t room = sizeof c->text - 1 - c->text_length, taken = bytes < room ? bytes : room;
    memcpy(c->text + c->text_length, data, taken);
    c->text_length += taken;
    c->text[c->text_length] = '\0';
}

/* Reads what is there; closes the descriptor at its end. */
static void listen_to(child *c, int *descriptor, void (*take)(child *, const char *, size_t)) {
    char data[4096];
    while (*descriptor >= 0) {
        ssize_t bytes = read(*descriptor, data, sizeof data);
        if (bytes > 0) {
            take(c, data, (size_t)bytes);
        } else if (bytes < 0 && errno == EINTR) {
            continue;
        } else if (bytes < 0 && errno == EAGAIN) {
            return;
        } else {
            close(*descriptor);
            *descriptor = -1;
        }
    }
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

/* "circe experiment-run: TEXT" without the beginning and the line end. */
static char *error_text(const child *c) {
    static const char prefix[] = "circe experiment-run: ";
    const char *text = c->text;
    if (strncmp(text, prefix, sizeof prefix - 1) == 0) text += sizeof prefix - 1;
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n') length--;
    return length > 0 ? small_format("%.*s", (int)length, text) : NULL;
}

static char *describe_failure(const child *c, int result) {
    char *said = error_text(c), *text = NULL;
    if (WIFSIGNALED(result))
        text = small_format("killed by signal %d (%s)%s%s", WTERMSIG(result), strsignal(WTERMSIG(result)),
                            said != NULL ? "; it said: " : "", said != NULL ? said : "");
    else if (said != NULL)
        text = small_format("%s", said);
    else
        text = small_format("it ended with status %d and said nothing", WEXITSTATUS(result));
    free(said);
    return text;
}

static void end(pool *p, child *c) {
    planned_run *run = c->run;
    int result = 0;
    while (waitpid(c->pid, &result, 0) < 0 && errno == EINTR) continue;
    c->run = NULL;
    p->running--;
    bool succeeded = WIFEXITED(result) && WEXITSTATUS(result) == 0;
    if (succeeded && experiment_result_read(run->path, run->settings.kind, run->fingerprint, &run->result)) {
        run->state = RUN_DONE;
        p->finished_seconds += session_clock() - c->start;
        p->finished_weight += run->weight;
        experiment_plan_ended(p->plan, run);
    } else if (p->stopping) {
        run->state = RUN_READY; /* stopped on purpose: it did not fail */
    } else if (succeeded) {
        fail_run(p, run, small_format("its result %s cannot be read", run->path));
    } else {
        fail_run(p, run, describe_failure(c, result));
    }
}

static void stop(pool *p, int signal_number) {
    for (int64_t i = 0; i < p->jobs; i++)
        if (p->children[i].run != NULL) kill(p->children[i].pid, signal_number);
}

static void stop_where_asked(pool *p) {
    if (!p->stopping && progress_interrupted()) {
        p->stopping = true;
        p->stopped_at = session_clock();
        stop(p, SIGTERM);
    } else if (p->stopping && session_clock() - p->stopped_at > PATIENCE_S) {
        stop(p, SIGKILL);
    }
}

/* ---- showing ----------------------------------------------------------------------------------------------------- */

/* Seconds until all is done, or -1 where nothing is known yet. */
static double time_left(const pool *p) {
    double weight = 0, done_weight = p->finished_weight, done_seconds = p->finished_seconds;
    for (int64_t i = 0; i < p->plan->n_runs; i++) {
        const planned_run *run = &p->plan->runs[i];
        if (run->state == RUN_READY || run->state == RUN_WAITING || run->state == RUN_RUNNING) weight += run->weight;
    }
    for (int64_t i = 0; i < p->jobs; i++) {
        const child *c = &p->children[i];
        if (c->run == NULL || c->share < 0.02) continue;
        weight -= c->share * c->run->weight;
        done_weight += c->share * c->run->weight;
        done_seconds += session_clock() - c->start;
    }
    return done_weight > 0 ? weight * done_seconds / done_weight / (double)p->jobs : -1;
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
    for (int64_t i = 0; i < p->jobs; i++)
        if (p->children[i].run != NULL) share += p->children[i].share;
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

static void wait_for_news(pool *p) {
    struct pollfd *watched = small_alloc((size_t)(2 * p->jobs) * sizeof *watched);
    for (int64_t i = 0; i < p->jobs; i++) { /* negative descriptors are left out */
        const child *c = &p->children[i];
        watched[2 * i] = (struct pollfd){.fd = c->run != NULL ? c->out : -1, .events = POLLIN};
        watched[2 * i + 1] = (struct pollfd){.fd = c->run != NULL ? c->err : -1, .events = POLLIN};
    }
    poll(watched, (nfds_t)(2 * p->jobs), LOOK_MS);
    free(watched);
    for (int64_t i = 0; i < p->jobs; i++) {
        child *c = &p->children[i];
        if (c->run == NULL) continue;
        listen_to(c, &c->out, take_progress);
        listen_to(c, &c->err, take_error);
        if (c->out < 0 && c->err < 0) end(p, c);
    }
}

void experiment_pool_run(experiment_plan *plan, int64_t jobs, int64_t threads, bool quiet, bool *interrupted) {
    pool p = {.plan = plan, .jobs = jobs, .threads = threads, .quiet = quiet};
    p.start = p.last_line = session_clock();
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    p.children = small_alloc((size_t)jobs * sizeof *p.children);
    progress_start(!quiet);
    progress_catch_termination();
    sigaction(SIGPIPE, &ignore, &before); /* a child that ended must not end this process */
    do {
        start_what_can(&p);
        if (p.running > 0) wait_for_news(&p);
        stop_where_asked(&p);
        show(&p);
    } while (p.running > 0 || (!p.stopping && experiment_plan_next(plan) != NULL));
    progress_clear();
    sigaction(SIGPIPE, &before, NULL);
    free(p.children);
    *interrupted = p.stopping;
}
