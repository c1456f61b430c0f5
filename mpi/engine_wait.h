/* Waiting for other processes: first in a tight loop, since they are microseconds away if all have cores; then offering
 * the core to others; then with ever longer pauses, so that a process that waits for minutes leaves the core to
 * others. */
#pragma once

#include <stdbool.h>

typedef struct engine_patience {
    int tests;
    double start, pause;
} engine_patience;

/* So many processes share this machine. */
void engine_wait_among(int processes);

/* After a test that was in vain; starts as {0}. Returns false in the tight loop. */
bool engine_wait(engine_patience *patience);
