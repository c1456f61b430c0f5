/* Weak symbols: each is NULL if no library of the process defines it.
 *
 * OpenBLAS built on OpenMP, and MKL, follow a setting of the calling thread. OpenBLAS built on pthreads, and BLIS, have
 * one setting for the process: it is 1 while any thread is inside, and the first to enter remembers what it was. */
#include "core/runtimes.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define WEAK __attribute__((weak))

WEAK int omp_get_max_threads(void);
WEAK void omp_set_num_threads(int n);
WEAK int omp_get_dynamic(void);
WEAK void omp_set_dynamic(int on);
WEAK int omp_get_thread_limit(void);
WEAK int omp_get_active_level(void);
WEAK int omp_get_max_active_levels(void);
WEAK int openblas_get_parallel(void);
WEAK int openblas_get_num_threads(void);
WEAK void openblas_set_num_threads(int n);
WEAK long bli_thread_get_num_threads(void);
WEAK void bli_thread_set_num_threads(long n);
WEAK int MKL_Set_Num_Threads_Local(int n);

enum { PTHREADS = 1 }; /* what openblas_get_parallel says of such a build */

static _Thread_local int depth, openmp_before, dynamic_before, mkl_before, cancel_before;

/* Libraries with one number for the process. A program may have both: a BLAS, and another below its LAPACK. */
enum { OPENBLAS, BLIS, LIBRARIES };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users, process_before[LIBRARIES];

static int openmp_at_first, blas_at_first; /* written once */

static bool is_there(int library) {
    if (library == OPENBLAS) return openblas_get_parallel != NULL && openblas_get_parallel() == PTHREADS;
    return bli_thread_get_num_threads != NULL && bli_thread_set_num_threads != NULL;
}

static int get_process_threads(int library) {
    return library == OPENBLAS ? openblas_get_num_threads() : (int)bli_thread_get_num_threads();
}

static void set_process_threads(int library, int n) {
    if (library == OPENBLAS)
        openblas_set_num_threads(n);
    else
        bli_thread_set_num_threads(n);
}

static void enter_process(void) {
    pthread_mutex_lock(&lock);
    for (int library = 0; users == 0 && library < LIBRARIES; library++) {
        if (!is_there(library)) continue;
        process_before[library] = get_process_threads(library);
        if (process_before[library] != 1) set_process_threads(library, 1);
    }
    users++;
    pthread_mutex_unlock(&lock);
}

static void give_back(void) {
    for (int library = 0; library < LIBRARIES; library++)
        if (is_there(library) && process_before[library] > 1) set_process_threads(library, process_before[library]);
}

static void leave_process(void) {
    pthread_mutex_lock(&lock);
    if (--users == 0) give_back();
    pthread_mutex_unlock(&lock);
}

int circe__openmp_threads(void) {
    if (omp_get_max_threads == NULL) return 0;
    return depth > 0 ? openmp_before : omp_get_max_threads();
}

/* The process's setting from before the first thread entered, the least of the libraries'; 0: there is none. */
static int blas_threads(void) {
    int least_of = 0;
    pthread_mutex_lock(&lock);
    for (int library = 0; library < LIBRARIES; library++) {
        if (!is_there(library)) continue;
        int now = users > 0 ? process_before[library] : get_process_threads(library);
        if (least_of == 0 || now < least_of) least_of = now;
    }
    pthread_mutex_unlock(&lock);
    return least_of;
}

void circe__runtimes_begin(void) {
    openmp_at_first = circe__openmp_threads();
    blas_at_first = blas_threads();
}

static int least(int a, int b) { return a < b ? a : b; }

int circe__runtimes_limit(void) {
    int limit = INT_MAX, openmp = circe__openmp_threads(), blas = blas_threads();
    if (openmp < openmp_at_first) limit = openmp;
    if (blas < blas_at_first) limit = least(limit, blas);
    if (omp_get_thread_limit == NULL) return limit;
    if (omp_get_active_level() >= omp_get_max_active_levels()) return 1;
    return least(limit, omp_get_thread_limit());
}

static void enter_thread(void) {
    if (omp_get_max_threads != NULL) {
        openmp_before = omp_get_max_threads();
        if (openmp_before != 1) omp_set_num_threads(1);
    }
    if (MKL_Set_Num_Threads_Local != NULL) mkl_before = MKL_Set_Num_Threads_Local(1);
}

static void leave_thread(void) {
    if (omp_get_max_threads != NULL && openmp_before != 1) omp_set_num_threads(openmp_before);
    if (MKL_Set_Num_Threads_Local != NULL) MKL_Set_Num_Threads_Local(mkl_before);
}

/* The thread cannot be cancelled in between: it would leave these settings behind, and helpers with its work. */
void circe__blas_alone_begin(void) {
    if (depth++ > 0) return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_before);
    enter_thread();
    enter_process();
}

void circe__blas_alone_end(void) {
    if (--depth > 0) return;
    leave_thread();
    leave_process();
    pthread_setcancelstate(cancel_before, &cancel_before);
}

/* BLAS waits for every thread that it asks for: OpenMP must not give it fewer. */
void circe__blas_threads(int n) {
    if (omp_get_max_threads != NULL) {
        if (n > 1) {
            dynamic_before = omp_get_dynamic();
            omp_set_dynamic(0);
        } else {
            omp_set_dynamic(dynamic_before);
        }
        omp_set_num_threads(n);
    }
    if (MKL_Set_Num_Threads_Local != NULL) MKL_Set_Num_Threads_Local(n);
    for (int library = 0; library < LIBRARIES; library++)
        if (is_there(library)) set_process_threads(library, n);
}

void circe__blas_alone_helper(void) {
    depth = 1;
    enter_thread();
}

void circe__runtimes_after_fork(void) {
    pthread_mutex_init(&lock, NULL);
    if (users > 0 && depth == 0) give_back();
    users = depth > 0;
}
