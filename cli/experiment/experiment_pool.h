/* Runs side by side, each a process of its own. */
#ifndef CLI_EXPERIMENT_POOL_H
#define CLI_EXPERIMENT_POOL_H

#include "experiment_plan.h"

/* Runs everything that is not done yet, `jobs` at a time on `threads` threads each. A run that fails is told of, and
 * the others go on. SIGINT and SIGTERM stop the runs: then *interrupted is true, and what is finished stays. */
void experiment_pool_run(experiment_plan *plan, int64_t jobs, int64_t threads, bool quiet, bool *interrupted);

#endif
