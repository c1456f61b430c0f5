/* Threads of other libraries: what the process's OpenMP says about their number, and how to keep its BLAS on one
 * thread.
 *
 * libcirce divides work itself (core/threads.h) and calls BLAS from each of its threads. A BLAS with threads of its own
 * would start one team per caller. Nothing here needs OpenMP or a certain BLAS: circe uses only the functions that the
 * process has. */
#pragma once

/* OpenMP's number of threads for the calling thread, whatever circe__blas_alone_begin says meanwhile; 0: no OpenMP. */
int circe__openmp_threads(void);

/* To be called once, before the limit is asked. */
void circe__runtimes_begin(void);

/* How many threads the calling thread may have now, INT_MAX for no limit: OMP_THREAD_LIMIT; 1 inside an OpenMP region
 * of the caller's or under OMP_MAX_ACTIVE_LEVELS=0; and the number of threads of OpenMP or BLAS where somebody has
 * lowered it since the beginning, as threadpoolctl and torch.set_num_threads do. */
int circe__runtimes_limit(void);

/* Between the two, BLAS runs on the calling thread alone; they may be nested. What the caller had is given back. */
void circe__blas_alone_begin(void);
void circe__blas_alone_end(void);

/* Inside of that, BLAS has n threads from now on; 1: alone again. */
void circe__blas_threads(int n);

/* The same begin for one of the library's own threads, which work only while a caller is between the two. */
void circe__blas_alone_helper(void);

/* In a child, where only the thread that forked is left. */
void circe__runtimes_after_fork(void);
