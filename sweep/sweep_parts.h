/* What the files of the sweep share. */
#ifndef SWEEP_PARTS_H
#define SWEEP_PARTS_H

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include "sweep/sweep.h"

enum { SWEEP__TEXT_BYTES = 2048, SWEEP__WHY_BYTES = SWEEP__TEXT_BYTES + 128, SWEEP__MOST_BYTES = 1 << 20 };

/* The text of a result's file, to be freed; NULL: it cannot be read. */
char *sweep__read(const char *path);

/* Takes the result in the text of a file; false: there is none of this run. */
bool sweep__take(const sweep *s, int64_t run, const char *text);

int sweep__tell(const sweep_watch *watch, double done, const char *text); /* not 0: stop */

/* ---- children: runs of this process ------------------------------------------------------------------------------ */

typedef struct sweep__child {
    pid_t pid;     /* 0: there is none */
    int out, err;  /* -1: closed */
    double share;  /* done, as it said last */
    char line[64]; /* a line of progress that is not whole yet */
    size_t line_length;
    char text[SWEEP__TEXT_BYTES]; /* what it said of errors */
    size_t text_length;
} sweep__child;

typedef struct sweep__children {
    const sweep_options *options;
    sweep__child *list; /* as many as there are jobs */
    struct pollfd *watched;
    struct sigaction before; /* of SIGPIPE: a child that ended must not end this process */
    bool stopping, killed;
    double stopped_at;
} sweep__children;

circe_status sweep__children_open(const sweep_options *options, sweep__children *children);
void sweep__children_close(sweep__children *children);

/* Starts number i. false: `why` says what is wrong. */
bool sweep__children_start(sweep__children *children, int64_t i, const char *path, const char *settings,
                           char why[SWEEP__WHY_BYTES]);
/* Waits so long for news, and takes it. */
void sweep__children_listen(sweep__children *children, int milliseconds);
/* It was there, and has said its last word. */
bool sweep__child_ended(const sweep__child *child);
/* Then takes leave of it. true: it succeeded. */
bool sweep__child_end(const sweep__children *children, int64_t i, char why[SWEEP__WHY_BYTES]);

/* Asks them to end, once; and ends those that have not after SWEEP_PATIENCE_S. */
void sweep__children_stop(sweep__children *children);
void sweep__children_hurry(sweep__children *children);

/* ---- ranks: rank 0 hands out runs and hears what becomes of them. Does nothing where there is one process ----------
 */

/* Before the runs, once: tells the others how far this came and sees whether all of them see the folder, can write its
 * runs, and have the same file. */
circe_status sweep__meet(circe_status status, const char *folder, const char *same_file);

typedef enum sweep__news_kind {
    SWEEP__SHARE = 1, /* of a run that is done */
    SWEEP__RESULT,    /* text: as the file has it */
    SWEEP__FAILURE,   /* text: why */
    SWEEP__STOPPING,  /* the rank was asked to end */
} sweep__news_kind;

/* Letters to other ranks and from them, one at a time. */
typedef struct sweep__mail {
    char *room;
    int kind, rank;
    int64_t place;
    double share;
    const char *text; /* of the letter that was received last, until the next one, or one is sent */
} sweep__mail;

circe_status sweep__mail_open(sweep__mail *mail);
/* How many runs each rank has room for, given that of this one; to be freed. NULL: no memory. */
int64_t *sweep__gather_room(int64_t own);
void sweep__order_start(sweep__mail *mail, int rank, int64_t place, const char *path, const char *settings);
void sweep__order_stop(sweep__mail *mail);
void sweep__order_dismiss(sweep__mail *mail);
bool sweep__hear(sweep__mail *mail); /* false: there is nothing now */

/* ---- all of it --------------------------------------------------------------------------------------------------- */

circe_status sweep__pool(sweep *s, const sweep_watch *watch);

#endif
