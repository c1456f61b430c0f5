/* One run: data drawn, a network trained, the prediction judged. */
#ifndef CLI_EXPERIMENT_RUN_H
#define CLI_EXPERIMENT_RUN_H

#include "cli/experiment/experiment_result.h"

/* Called now and then with the share that is done; non-zero stops the run. */
typedef int (*experiment_progress)(void *user, double share);

typedef struct experiment_work {
    const experiment_settings *settings;
    const char *device;     /* by its name: device.h */
    const char *checkpoint; /* file that a long run may keep, and goes on from */
    experiment_progress progress;
    void *user;
    bool stopped;
    double seconds_before; /* of earlier attempts that a checkpoint kept */
} experiment_work;

/* Runs in this process, on as many threads as a context has by default. A checkpoint is removed once the run is
 * finished. Prints what is wrong and returns an exit status. */
int experiment_run(experiment_work *work, experiment_result *result);

/* The kinds of runs. */
circe_status experiment_run_synthetic(experiment_work *work, experiment_result *result);
circe_status experiment_run_limits(experiment_work *work, experiment_result *result);
circe_status experiment_run_images(experiment_work *work, experiment_result *result);

#endif
