/* Starting children, listening to them, and what became of them. */
#include "cli/experiment/experiment_child.h"

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

#include "cli/common/message.h"

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

/* In a process group of its own, so that a Ctrl-C reaches this process alone, which then ends its children. */
static int spawn(const char *path, const experiment_means *means, const int in[2], const int out[2], const int err[2],
                 pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t usual;
    char *arguments[] = {"circe", "experiment-run",        "--device", (char *)(uintptr_t)means->device,
                         "-o",    (char *)(uintptr_t)path, NULL};
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
    char own[2][48], **environment = environment_of(own, means->threads);
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

int experiment_child_start(const char *path, const char *settings, const experiment_means *means,
                           experiment_child *child) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    int problem = pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 ? 0 : errno;
    *child = (experiment_child){.out = -1, .err = -1};
    if (problem == 0) problem = spawn(path, means, in, out, err, &child->pid);
    if (problem != 0) {
        close_both(in);
        close_both(out);
        close_both(err);
        child->pid = 0;
        return problem;
    }
    write_settings(in[1], settings);
    close_both(in);
    close(out[1]);
    close(err[1]);
    child->out = out[0];
    child->err = err[0];
    fcntl(child->out, F_SETFL, O_NONBLOCK);
    fcntl(child->err, F_SETFL, O_NONBLOCK);
    return 0;
}

/* ---- listening --------------------------------------------------------------------------------------------------- */

static void take_progress(experiment_child *c, const char *data, size_t bytes) {
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

static void take_error(experiment_child *c, const char *data, size_t bytes) {
    size_t room = sizeof c->text - 1 - c->text_length, taken = bytes < room ? bytes : room;
    memcpy(c->text + c->text_length, data, taken);
    c->text_length += taken;
    c->text[c->text_length] = '\0';
}

/* Reads what is there; closes the descriptor at its end. */
static void listen_to(experiment_child *c, int *descriptor, void (*take)(experiment_child *, const char *, size_t)) {
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

void experiment_child_listen(experiment_child *children, int64_t n, int milliseconds) {
    struct pollfd *watched = small_alloc((size_t)(2 * n) * sizeof *watched);
    for (int64_t i = 0; i < n; i++) { /* negative descriptors are left out */
        const experiment_child *c = &children[i];
        watched[2 * i] = (struct pollfd){.fd = c->pid != 0 ? c->out : -1, .events = POLLIN};
        watched[2 * i + 1] = (struct pollfd){.fd = c->pid != 0 ? c->err : -1, .events = POLLIN};
    }
    poll(watched, (nfds_t)(2 * n), milliseconds);
    free(watched);
    for (int64_t i = 0; i < n; i++) {
        experiment_child *c = &children[i];
        if (c->pid == 0) continue;
        listen_to(c, &c->out, take_progress);
        listen_to(c, &c->err, take_error);
    }
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

bool experiment_child_has_ended(const experiment_child *child) {
    return child->pid != 0 && child->out < 0 && child->err < 0;
}

/* "circe experiment-run: TEXT" without the beginning and the line end. */
static char *error_text(const experiment_child *c) {
    static const char prefix[] = "circe experiment-run: ";
    const char *text = c->text;
    if (strncmp(text, prefix, sizeof prefix - 1) == 0) text += sizeof prefix - 1;
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n') length--;
    return length > 0 ? small_format("%.*s", (int)length, text) : NULL;
}

static char *describe_failure(const experiment_child *c, int result) {
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

char *experiment_child_end(experiment_child *child) {
    int result = 0;
    while (waitpid(child->pid, &result, 0) < 0 && errno == EINTR) continue;
    child->pid = 0;
    return WIFEXITED(result) && WEXITSTATUS(result) == 0 ? NULL : describe_failure(child, result);
}

void experiment_child_signal(const experiment_child *children, int64_t n, int signal_number) {
    for (int64_t i = 0; i < n; i++)
        if (children[i].pid != 0) kill(children[i].pid, signal_number);
}
