/* Training by several processes: those that the loop trains with, and the share of the data that each keeps. */
#ifndef JOBS_TRAIN_RANKS_H
#define JOBS_TRAIN_RANKS_H

#include "jobs/train_set.h"

/* The processes that mpirun or srun started; NULL: this one alone. */
const train_team *training_ranks(void);

/* Keeps, of the training rows, this process's slice. */
void training_ranks_divide(training_set *set);

#endif
