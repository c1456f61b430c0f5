/* How many threads oneDNN may be given.
 *
 * oneDNN is built on OpenMP. Its primitives are made for a number of threads and wait, when they run, until all of
 * these have come: where OpenMP grants fewer (OMP_THREAD_LIMIT, OMP_DYNAMIC, OMP_MAX_ACTIVE_LEVELS, a region around the
 * call, a child of fork, whose OpenMP has lost its threads), they wait for ever, and where there are fewer processors,
 * they spin for most of the time. This is the one place in the project that opens an OpenMP region. */
#ifndef TRAIN_CPU_ONEDNN_THREADS_H
#define TRAIN_CPU_ONEDNN_THREADS_H

#include "train/device.h"

/* Between the two, OpenMP's number of threads is what it will grant to oneDNN, no more than `most`; returns it. What
 * the caller had is kept in *before and given back. */
int onednn_threads_enter(int most, train_threads *before);
void onednn_threads_leave(const train_threads *before);

#endif
