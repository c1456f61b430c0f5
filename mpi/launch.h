/* Who started this process: seen in the environment alone, so that it costs nothing. */
#ifndef CLUSTER_LAUNCH_H
#define CLUSTER_LAUNCH_H

#include <stdbool.h>

typedef struct cluster_launch {
    const char *by; /* "mpirun", "srun", ...; NULL: nobody but a person */
    int rank, size; /* size 0: not told */
    bool without;   /* srun started several tasks and offers no MPI */
} cluster_launch;

/* CIRCE_CLUSTER=off in the environment: as if nobody had. */
cluster_launch cluster_launched(void);

#endif
