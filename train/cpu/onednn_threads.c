#include "train/cpu/onednn_threads.h"

#include <omp.h>
#include <pthread.h>

static bool forked; /* this process is a child */

static void note_fork(void) { forked = true; }

static void watch_forks(void) { pthread_atfork(NULL, NULL, note_fork); }

/* A region that does nothing tells what the next ones get: the threads of a team stay with the thread that had it. */
static int count_granted(int most) {
    int granted = 1;
#pragma omp parallel num_threads(most)
    {
#pragma omp master
        granted = omp_get_num_threads();
    }
    return granted;
}

static int find_number(int most) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int processors = omp_get_num_procs();
    pthread_once(&once, watch_forks);
    if (most > processors) most = processors;
    if (most <= 1 || forked || omp_in_parallel()) return 1;
    return count_granted(most);
}

int onednn_threads_enter(int most, train_threads *before) {
    *before = (train_threads){.number = omp_get_max_threads(), .dynamic = omp_get_dynamic()};
    omp_set_dynamic(0);
    int number = find_number(most);
    omp_set_num_threads(number);
    return number;
}

void onednn_threads_leave(const train_threads *before) {
    omp_set_num_threads(before->number);
    omp_set_dynamic(before->dynamic);
}
