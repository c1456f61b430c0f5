/* Runs on other ranks. Rank 0 has the plan, hands out runs and hears what becomes of them; the others keep children of
 * their own at work and tell. Where there is one process, all of this does nothing. */
#ifndef CLI_EXPERIMENT_RANKS_H
#define CLI_EXPERIMENT_RANKS_H

#include "cli/experiment/experiment_child.h"

/* ---- rank 0 ------------------------------------------------------------------------------------------------------ */

/* Before the runs, once: tells the others how far this came (an exit status) and sees whether all of them see the
 * folder, can write its runs, and have the same file of pretrained weights (NULL: none). Prints what is wrong and
 * returns an exit status. */
int experiment_ranks_meet(int status, const char *folder, const char *weights);

/* How many runs each rank has room for, given that of this one; to be freed. After this the others serve. */
int64_t *experiment_ranks_room(int64_t own);

/* Number `place` of that rank's runs. */
void experiment_ranks_start(int rank, int64_t place, const char *path, const char *settings);

typedef enum experiment_news_kind {
    NEWS_SHARE = 1, /* of a run that is done */
    NEWS_DONE,      /* text: its result, as the file has it */
    NEWS_FAILED,    /* text: why */
    NEWS_STOPPING,  /* the rank was asked to end */
} experiment_news_kind;

typedef struct experiment_news {
    experiment_news_kind kind;
    int rank;
    int64_t place;
    double share;
    char *text; /* to be freed; NULL: none */
} experiment_news;

/* false: there is none now. */
bool experiment_ranks_hear(experiment_news *news);

/* The others end their runs, and then their service. */
void experiment_ranks_stop(void);
void experiment_ranks_dismiss(void);

/* ---- the others -------------------------------------------------------------------------------------------------- */

/* Meets rank 0 with the exit status that this one has come to, and serves with room for so many runs until dismissed.
 */
int experiment_ranks_serve(int status, int64_t room, const experiment_means *means);

#endif
