/* What the files of the sweep share. */
#ifndef SWEEP_PARTS_H
#define SWEEP_PARTS_H

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include "sweep/sweep.h"

enum { SWEEP__TEXT_BYTES = 2048, SWEEP__WHY_BYTES = SWEEP__TEXT_BYTES + 128, SWEEP__MOST_BYTES = 1 << 20 };

/* The text of a result's file, to be freed; NULL: it cannot be read. */
char *sweep__read(const char *path);

/* Takes the result in the text of a file; false: there is none of this run. */
bool sweep__take(const sweep *s, int64_t run, const char *text);

int sweep__tell(const circe_watch *watch, double done, const char *text); /* not 0: stop */

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* Tells of progress ("0.35\n") at `out`, and asks whether to stop. */
typedef struct sweep__teller {
    int out;
    bool (*stop)(void *user);
    void *user;
    double last; /* when it told */
} sweep__teller;

/* Does the run by the options' function, and writes its result. */
circe_status sweep__do(const sweep_options *options, const char *path, const char *settings, sweep__teller *teller);

/* In a thread of its own, which closes both descriptors when it has ended. Returns an error number. */
typedef struct sweep__thread sweep__thread;
int sweep__thread_start(const sweep_options *options, const char *path, const char *settings, int out, int err,
                        sweep__thread **thread);
void sweep__thread_stop(sweep__thread *thread);
/* Waits for it, and frees it. */
circe_status sweep__thread_end(sweep__thread *thread);

/* ---- children: runs of this process ------------------------------------------------------------------------------ */

typedef struct sweep__child {
    pid_t pid; /* 0: it is a thread, or there is none */
    sweep__thread *thread;
    int out, err;  /* -1: closed */
    double share;  /* done, as it said last */
    char line[64]; /* a line of progress that is not whole yet */
    size_t line_length;
    char text[SWEEP__TEXT_BYTES]; /* what it said of errors */
    size_t text_length;
    char path[PATH_MAX]; /* of its result */
} sweep__child;

/* What becomes of a run. */
enum {
    SWEEP__SHARE = 1, /* of it is done */
    SWEEP__RESULT,    /* text: as the file has it */
    SWEEP__FAILURE,   /* text: why */
    SWEEP__STOPPING,  /* the rank was asked to end */
};

typedef struct sweep__news {
    int32_t kind;
    int rank;
    int64_t place; /* among those of the rank */
    double share;
    const char *text; /* valid while it is heard */
} sweep__news;

typedef void sweep__hear(void *user, const sweep__news *news);

typedef struct sweep__children {
    const sweep_options *options;
    sweep__child *list; /* as many as there are jobs */
    struct pollfd *watched;
    struct sigaction before; /* of SIGPIPE: a child that ended must not end this process */
    bool stopping, killed;
    double stopped_at;
} sweep__children;

void sweep__children_open(const sweep_options *options, sweep__children *children);
void sweep__children_close(sweep__children *children);

/* Starts number i. false: `why` says what is wrong. */
bool sweep__children_start(sweep__children *children, int64_t i, const char *path, const char *settings,
                           char why[SWEEP__WHY_BYTES]);
/* Waits so long for news, and tells all of it. */
void sweep__children_listen(sweep__children *children, int milliseconds, sweep__hear *hear, void *user);

/* Asks them to end, once; and ends the processes that have not after SWEEP_PATIENCE_S. */
void sweep__children_stop(sweep__children *children);
void sweep__children_hurry(sweep__children *children);

/* ---- ranks: rank 0 hands out runs and hears what becomes of them. Does nothing where there is one process ----------
 */

/* Before the runs, once: tells the others how far this came and sees whether all of them see the folder, can write its
 * runs, and have the same file. */
circe_status sweep__meet(circe_status status, const char *folder, const char *same_file);

/* Room for letters to other ranks and from them, one at a time, to be freed; NULL: there is one process. */
char *sweep__mail_open(void);
/* How many runs each rank has room for, given that of this one; to be freed. */
int64_t *sweep__gather_room(int64_t own);
void sweep__order_start(char *mail, int rank, int64_t place, const char *path, const char *settings);
void sweep__order_stop(char *mail);
void sweep__order_dismiss(char *mail);
/* All the news there is now. */
void sweep__mail_listen(char *mail, sweep__hear *hear, void *user);

/* ---- all of it --------------------------------------------------------------------------------------------------- */

circe_status sweep__pool(sweep *s, const circe_watch *watch);

#endif
