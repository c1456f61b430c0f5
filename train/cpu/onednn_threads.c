#include "train/cpu/onednn_threads.h"

#include <ctype.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool forked; /* this process is a child */
static bool alone;  /* OpenMP could not create a thread */

static void note_fork(void) { forked = true; }

/* Of the threads that OpenMP creates, as it reads it: kilobytes, or a number with its unit. 0 where nothing is set. */
static size_t stack_bytes(void) {
    static const char units[] = "bkmg";
    const char *text = getenv("OMP_STACKSIZE"), *unit = "k";
    char *end = NULL;
    if (text == NULL) text = getenv("GOMP_STACKSIZE");
    if (text == NULL) return 0;
    unsigned long long number = strtoull(text, &end, 10);
    while (isspace((unsigned char)*end)) end++;
    if (*end != '\0') unit = strchr(units, tolower((unsigned char)*end));
    return unit == NULL ? 0 : (size_t)(number << 10 * (strchr(units, *unit) - units));
}

static void *nothing(void *unused) { return unused; }

/* OpenMP ends the process if it cannot create a thread, for want of stack (the library's thread-local data are there
 * too) or by a limit, so one like its own is tried. */
static bool can_create(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    size_t bytes = stack_bytes();
    pthread_attr_init(&attributes);
    if (bytes > 0) pthread_attr_setstacksize(&attributes, bytes); /* if refused, both keep the default */
    bool created = pthread_create(&thread, &attributes, nothing, NULL) == 0;
    pthread_attr_destroy(&attributes);
    if (created) pthread_join(thread, NULL);
    return created;
}

static void look_around(void) {
    pthread_atfork(NULL, NULL, note_fork);
    alone = !can_create();
}

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
    pthread_once(&once, look_around);
    if (most > processors) most = processors;
    if (most <= 1 || forked || alone || omp_in_parallel()) return 1;
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
