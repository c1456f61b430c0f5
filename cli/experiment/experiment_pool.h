/* Runs side by side, each a process of its own, here and on other ranks. */
#ifndef CLI_EXPERIMENT_POOL_H
#define CLI_EXPERIMENT_POOL_H

#include "cli/experiment/experiment_child.h"
#include "cli/experiment/experiment_plan.h"

/* Runs everything that is not done yet, `jobs` at a time in this process and as many elsewhere as the other ranks have
 * room for. A run that fails is told of, and the others go on. SIGINT, SIGTERM and SIGHUP stop the runs: then
 * *interrupted is true, and what is finished stays. Returns how many could be side by side. */
int64_t experiment_pool_run(experiment_plan *plan, int64_t jobs, const experiment_means *means, bool quiet,
                            bool *interrupted);

#endif
