/* How many threads oneDNN may be given.
 *
 * oneDNN is built on OpenMP. Its primitives are created for a number of threads and wait, when they run, until all of
 * them have come. If OpenMP grants fewer (OMP_THREAD_LIMIT, OMP_DYNAMIC, OMP_MAX_ACTIVE_LEVELS, a region around the
 * call, or a child of fork, whose OpenMP has lost its threads), they wait forever. If OpenMP cannot create a thread
 * (OMP_STACKSIZE=64k), it ends the process. If there are fewer processors than threads, they spend most of their time
 * spinning. This is the only place in the project that opens an OpenMP region. */
#pragma once

#include "train/device.h"

/* Between these two calls, OpenMP's number of threads is the number that it will grant to oneDNN, at most `most`; begin
 * returns it. *before keeps the caller's setting, which the end restores. */
int onednn_threads_enter(int most, train_threads *before);
void onednn_threads_leave(const train_threads *before);
