/* circe train by several processes: the team that the loop trains with, and the share of the data that each keeps. */
#ifndef CLI_TRAIN_TEAM_H
#define CLI_TRAIN_TEAM_H

#include "cli/train/train_set.h"

/* The processes that mpirun or srun started; NULL: this one alone. */
const train_team *training_team(void);

/* All: refused where a process has read other data than process 0. Prints what is wrong and returns an exit status. */
int training_team_same(uint64_t hash, const char *file);

/* Keeps, of the training rows, this process's slice. */
void training_team_divide(training_set *set);

#endif
