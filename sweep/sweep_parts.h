/* What the files of the sweep share. */
#pragma once

#include "sweep/sweep.h"

enum { SWEEP__TEXT_BYTES = 2048, SWEEP__WHY_BYTES = SWEEP__TEXT_BYTES + 128, SWEEP__MOST_BYTES = 1 << 20 };

/* Takes the result in the text of a file; false: there is none of this run. */
bool sweep__take(const sweep *s, int64_t run, const char *text);

int sweep__tell(const circe_watch *watch, double done, const char *text); /* not 0: stop */

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* Does the run of these settings. Its result goes to the file (NULL: none) and is returned as its text, to be freed.
 * The task has its context, its progress and who is told. */
circe_status sweep__perform(const char *path, const char *settings, const char *left_out, sweep_function function,
                            void *user, sweep_task *task, char **result);

/* ---- runs of this process ---------------------------------------------------------------------------------------- */

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

/* Places for as many runs as there are jobs. A way to do them: threads.c, children.c. */
typedef struct sweep__runners {
    const sweep_options *options;
    const struct sweep__way *way;
    void *inside; /* the way's */
    bool stopping, hurried;
    double stopped_at;
} sweep__runners;

typedef struct sweep__way {
    void (*open)(sweep__runners *runners);
    void (*close)(sweep__runners *runners); /* once none is left */
    bool (*start)(sweep__runners *runners, int64_t i, const char *path, const char *settings,
                  char why[SWEEP__WHY_BYTES]);
    void (*listen)(sweep__runners *runners, int milliseconds, sweep__hear *hear, void *user);
    void (*stop)(sweep__runners *runners); /* asks all to end */
    void (*kill)(sweep__runners *runners); /* ends all; NULL: this cannot be done */
} sweep__way;

extern const sweep__way sweep__by_threads, sweep__by_children;

void sweep__runners_open(const sweep_options *options, sweep__runners *runners);
void sweep__runners_close(sweep__runners *runners);

/* Starts run number i. false: `why` says what is wrong. */
bool sweep__runners_start(sweep__runners *runners, int64_t i, const char *path, const char *settings,
                          char why[SWEEP__WHY_BYTES]);
/* Waits so long for news, and tells all of it. */
void sweep__runners_listen(sweep__runners *runners, int milliseconds, sweep__hear *hear, void *user);

/* Asks them to end, once; and ends those that have not after SWEEP_PATIENCE_S, where that can be done. */
void sweep__runners_stop(sweep__runners *runners);
void sweep__runners_hurry(sweep__runners *runners);

/* ---- ranks: rank 0 hands out runs and hears what becomes of them. Does nothing if there is one process -------- */

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
