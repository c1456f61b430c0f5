/* Several processes of one command, started by mpirun or srun (mpi/). Rank 0 prints for all of them, including the
 * errors of the others. */
#pragma once

#include "mpi/ranks.h"

/* Call it before anything is printed: silences every process but the first. */
void together_quieten(void);

/* Starts MPI where a launcher started several processes. Prints what is wrong and returns an exit status. */
int together_open(void);
/* Waits for the others. Every process calls it. Only rank 0 returns a failure: a launcher ends all processes when one
 * fails, and the others must not fail before rank 0 has printed its message. */
int together_close(int status);

/* Called by all with the exit status of what each has done: that of the first which failed, whose message rank 0 prints
 * (its own it has printed already). */
int together_agree(int status);
