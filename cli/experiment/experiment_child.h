/* A run as a process of its own: `circe experiment-run` of this very program. It gets its settings on standard input,
 * tells its progress on standard output ("0.35\n") and what is wrong on standard error, and writes its result itself.
 * Asked to stop by SIGTERM, which the end of this process sends as well, it leaves a checkpoint if it has one, and
 * ends. */
#ifndef CLI_EXPERIMENT_CHILD_H
#define CLI_EXPERIMENT_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    CHILD_TEXT_BYTES = 2048,
    EXPERIMENT_PATIENCE_S = 5, /* that a run has to end once it is asked to */
};

typedef struct experiment_child {
    pid_t pid;     /* 0: there is none */
    int out, err;  /* -1: closed */
    double share;  /* done, as it said last */
    char line[64]; /* a line of progress that is not whole yet */
    size_t line_length;
    char text[CHILD_TEXT_BYTES]; /* what it said of errors */
    size_t text_length;
} experiment_child;

/* What every run here is given. */
typedef struct experiment_means {
    int64_t threads;
    const char *device; /* that its network is on */
} experiment_means;

/* Starts a run with these settings (JSON), whose result goes to `path`. 0, or what errno says. */
int experiment_child_start(const char *path, const char *settings, const experiment_means *means,
                           experiment_child *child);

/* Waits so long for news of n children, and takes it. */
void experiment_child_listen(experiment_child *children, int64_t n, int milliseconds);

/* One that is there has said its last word. */
bool experiment_child_has_ended(const experiment_child *child);

/* Then takes leave of it: NULL where it succeeded, else why not, to be freed. */
char *experiment_child_end(experiment_child *child);

/* To all that are there. */
void experiment_child_signal(const experiment_child *children, int64_t n, int signal_number);

#endif
