#include "mpi/engine_wait.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int tight = 256; /* tests, some ten microseconds, before the core is offered to others */

void engine_wait_among(int processes) {
    if (processes > sysconf(_SC_NPROCESSORS_ONLN)) tight = 0; /* the other process may be waiting for this core */
}

bool engine_wait(engine_patience *p) {
    const double patience = 1e-3, first = 20e-6, longest = 1e-3;
    if (p->tests++ < tight) return false;
    if (p->tests == tight + 1) *p = (engine_patience){p->tests, now(), first};
    if (now() - p->start < patience) {
        sched_yield();
        return true;
    }
    struct timespec time = {0, (long)(p->pause * 1e9)};
    nanosleep(&time, NULL);
    if (p->pause < longest) p->pause *= 1.5;
    return true;
}
