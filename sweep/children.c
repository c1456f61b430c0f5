/* Runs as processes: starts children, listens to them, and collects their results. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/small.h"
#include "sweep/sweep_parts.h"

typedef struct child {
    pid_t pid;     /* 0: there is none */
    int out, err;  /* -1: closed */
    double share;  /* done, as it said last */
    char line[64]; /* a line of progress that is not whole yet */
    size_t line_length;
    char text[SWEEP__TEXT_BYTES]; /* what it said of errors */
    size_t text_length;
    char *path; /* of its result */
} child;

typedef struct family {
    const sweep_options *options;
    struct sigaction before; /* of SIGPIPE: a child that ended must not end this process */
    struct pollfd *watched;
    child list[];
} family;

static void open_family(sweep__runners *runners) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    size_t jobs = (size_t)runners->options->jobs;
    family *f = small_alloc(sizeof *f + jobs * sizeof *f->list);
    f->options = runners->options;
    f->watched = small_alloc(2 * jobs * sizeof *f->watched);
    sigaction(SIGPIPE, &ignore, &f->before);
    runners->inside = f;
}

static void close_family(sweep__runners *runners) {
    family *f = runners->inside;
    sigaction(SIGPIPE, &f->before, NULL);
    free(f->watched);
    free(f);
}

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

static void write_settings(int descriptor, const char *text) {
    for (size_t at = 0, bytes = strlen(text); at < bytes;) { /* less than a pipe holds */
        ssize_t written = write(descriptor, text + at, bytes - at);
        if (written < 0 && errno != EINTR) break; /* the child will say that its settings are not whole */
        if (written > 0) at += (size_t)written;
    }
}

/* The words of the command, then the path. */
static void fill_arguments(const char *const *command, const char *path, char *arguments[], size_t room) {
    size_t n = 0;
    arguments[n++] = "circe";
    for (size_t i = 0; command[i] != NULL && n + 2 < room; i++) arguments[n++] = (char *)(uintptr_t)command[i];
    arguments[n++] = (char *)(uintptr_t)path;
    arguments[n] = NULL;
}

/* In a process group of its own, so that a Ctrl-C reaches this process alone, which then ends its children. `ends` are
 * pipes to its standard input, and from its output and errors. */
static int spawn(const sweep_options *options, const char *path, int ends[3][2], pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t usual;
    char own[2][48], *arguments[16], **environment = environment_of(own, options->threads);
    fill_arguments(options->command, path, arguments, 16);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    posix_spawn_file_actions_init(&actions); /* neither allocates, nor can fail */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    for (int i = 0; i < 3; i++) posix_spawn_file_actions_adddup2(&actions, ends[i][i > 0], i);
    int problem = posix_spawn(pid, options->program, &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    return problem;
}

static bool start(sweep__runners *runners, int64_t i, const char *path, const char *settings,
                  char why[SWEEP__WHY_BYTES]) {
    family *f = runners->inside;
    int ends[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}}, problem = 0;
    child *c = &f->list[i];
    *c = (child){.out = -1, .err = -1, .path = small_format("%s", path)};
    for (int k = 0; k < 3 && problem == 0; k++) problem = pipe2(ends[k], O_CLOEXEC) == 0 ? 0 : errno;
    if (problem == 0) problem = spawn(f->options, path, ends, &c->pid);
    if (problem == 0) {
        write_settings(ends[0][1], settings);
        c->out = ends[1][0];
        c->err = ends[2][0];
        fcntl(c->out, F_SETFL, O_NONBLOCK);
        fcntl(c->err, F_SETFL, O_NONBLOCK);
    } else {
        c->pid = 0;
        free(c->path);
        snprintf(why, SWEEP__WHY_BYTES, "it could not be started: %s", strerror(problem));
    }
    for (int k = 0; k < 3; k++) /* all but what is listened to */
        for (int end = 0; end < 2; end++)
            if (ends[k][end] >= 0 && (problem != 0 || k == 0 || end == 1)) close(ends[k][end]);
    return problem == 0;
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

static void wait_for_news(const family *f, int milliseconds) {
    int64_t n = f->options->jobs;
    for (int64_t i = 0; i < n; i++) { /* negative descriptors are left out */
        const child *c = &f->list[i];
        f->watched[2 * i] = (struct pollfd){.fd = c->pid != 0 ? c->out : -1, .events = POLLIN};
        f->watched[2 * i + 1] = (struct pollfd){.fd = c->pid != 0 ? c->err : -1, .events = POLLIN};
    }
    poll(f->watched, (nfds_t)(2 * n), milliseconds);
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

/* "circe COMMAND: TEXT" without the beginning and the line end, in place. */
static const char *error_text(child *c, const char *command) {
    char prefix[64];
    int length = snprintf(prefix, sizeof prefix, "circe %s: ", command);
    while (c->text_length > 0 && c->text[c->text_length - 1] == '\n') c->text[--c->text_length] = '\0';
    return strncmp(c->text, prefix, (size_t)length) == 0 ? c->text + length : c->text;
}

/* Takes leave of it. true: it succeeded. */
static bool take_leave(const family *f, child *c, char why[SWEEP__WHY_BYTES]) {
    int result = 0;
    while (waitpid(c->pid, &result, 0) < 0 && errno == EINTR) continue;
    c->pid = 0;
    if (WIFEXITED(result) && WEXITSTATUS(result) == 0) return true;
    const char *said = error_text(c, f->options->command[0]);
    if (WIFSIGNALED(result))
        snprintf(why, SWEEP__WHY_BYTES, "killed by signal %d (%s)%s%s", WTERMSIG(result), strsignal(WTERMSIG(result)),
                 said[0] != '\0' ? "; it said: " : "", said);
    else if (said[0] != '\0')
        snprintf(why, SWEEP__WHY_BYTES, "%s", said);
    else
        snprintf(why, SWEEP__WHY_BYTES, "it ended with status %d and said nothing", WEXITSTATUS(result));
    return false;
}

/* It has said its last word. */
static void end(family *f, int64_t i, sweep__hear *hear, void *user) {
    child *c = &f->list[i];
    sweep__news news = {.kind = SWEEP__FAILURE, .place = i};
    char why[SWEEP__WHY_BYTES], *result = NULL;
    news.text = why;
    if (take_leave(f, c, why)) {
        result = file_read_text(c->path);
        snprintf(why, sizeof why, "its result %.2000s cannot be read", c->path);
    }
    if (result != NULL) news.kind = SWEEP__RESULT, news.text = result;
    hear(user, &news);
    free(result);
    free(c->path);
}

static void listen(sweep__runners *runners, int milliseconds, sweep__hear *hear, void *user) {
    family *f = runners->inside;
    wait_for_news(f, milliseconds);
    for (int64_t i = 0; i < f->options->jobs; i++) {
        child *c = &f->list[i];
        if (c->pid == 0) continue;
        listen_to(c, &c->out, take_progress);
        listen_to(c, &c->err, take_error);
        const sweep__news share = {.kind = SWEEP__SHARE, .place = i, .share = c->share};
        if (c->out < 0 && c->err < 0)
            end(f, i, hear, user);
        else
            hear(user, &share);
    }
}

static void signal_all(const sweep__runners *runners, int number) {
    const family *f = runners->inside;
    for (int64_t i = 0; i < f->options->jobs; i++)
        if (f->list[i].pid != 0) kill(f->list[i].pid, number);
}

static void ask_to_end(sweep__runners *runners) { signal_all(runners, SIGTERM); }

static void end_all(sweep__runners *runners) { signal_all(runners, SIGKILL); }

const sweep__way sweep__by_children = {open_family, close_family, start, listen, ask_to_end, end_all};
