/* Several processes of one command, started by mpirun or srun (mpi/): rank 0 speaks for all, and tells what is wrong at
 * the others. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "mpi/ranks.h"

/* Before anything is said: makes a process that is not the first of several quiet. */
void together_quieten(void);

/* Starts MPI where a launcher started several processes. Prints what is wrong and returns an exit status. */
int together_open(void);
/* Waits for the others. Called by all; rank 0 alone returns a failure: a launcher ends all processes when one fails,
 * and the others must not be sooner than its last words. */
int together_close(int status);

/* Called by all with the exit status of what each has done: that of the first which failed, whose message rank 0 prints
 * (its own it has printed already). */
int together_agree(int status);

#endif
