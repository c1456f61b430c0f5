/* Recognises launchers by the variables that they set in the environment: Open MPI's mpirun, launchers with PMI (MPICH,
 * Intel MPI, srun --mpi=pmi2) or PMIx (srun --mpi=pmix, prterun), and srun without any of them. */
#include "mpi/launch.h"

#include <stdlib.h>
#include <string.h>

static int number(const char *name) {
    const char *text = getenv(name);
    char *end = NULL;
    long value = text == NULL ? -1 : strtol(text, &end, 10);
    return text == NULL || end == text || *end != '\0' || value < 0 || value > 1 << 24 ? -1 : (int)value;
}

ranks_launch ranks_launched(void) {
    const char *wanted = getenv("CIRCE_CLUSTER");
    int tasks = number("SLURM_STEP_NUM_TASKS"), task = number("SLURM_PROCID");
    bool slurm = tasks > 0 && task >= 0;
    if (wanted != NULL && strcmp(wanted, "off") == 0) return (ranks_launch){0};
    if (number("OMPI_COMM_WORLD_SIZE") > 0 && number("OMPI_COMM_WORLD_RANK") >= 0)
        return (ranks_launch){"mpirun", number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE"), false};
    if (number("PMI_SIZE") > 0 && number("PMI_RANK") >= 0)
        return (ranks_launch){slurm ? "srun" : "mpiexec", number("PMI_RANK"), number("PMI_SIZE"), false};
    if (number("PMIX_RANK") >= 0)
        return (ranks_launch){slurm ? "srun" : "mpirun", number("PMIX_RANK"), slurm ? tasks : 0, false};
    if (slurm && tasks > 1) return (ranks_launch){"srun", task, tasks, true};
    return (ranks_launch){0};
}
