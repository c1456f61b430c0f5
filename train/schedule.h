/* Learning rate and regularisation weight as functions of the step. Steps count from 0. */
#pragma once

#include <stdint.h>

/* Linear warm-up over `warmup` steps (the first is 1/warmup of the full value), then half a cosine from 1 to `last` at
 * the end, or constant where `cosine` is 0. */
typedef struct train_schedule {
    int64_t warmup, total;
    int cosine;
    double last;
} train_schedule;

double train_schedule_at(const train_schedule *schedule, int64_t step);
