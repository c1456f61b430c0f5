/* Finds out what started this process from the environment alone, which costs nothing. */
#pragma once

#include <stdbool.h>

typedef struct ranks_launch {
    const char *by; /* "mpirun", "srun", ...; NULL: nobody but a person */
    int rank, size; /* size 0: not told */
    bool without;   /* srun started several tasks and offers no MPI */
} ranks_launch;

/* With CIRCE_CLUSTER=off in the environment, there is no launcher. */
ranks_launch ranks_launched(void);
