/* Seconds on a clock that only moves forward. */
#pragma once

#include <time.h>

static inline double job_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
