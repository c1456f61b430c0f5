/* Threads that wait for work, shared by all contexts of the process.
 *
 * Why not OpenMP: a region of it needs every thread of its team, so a machine that is busy, a limit, or a region around
 * the call makes it slow, wrong or hang; its threads spin as the environment said before the process began; and a child
 * of fork cannot use it. Here the caller takes parts itself until none is left, and then waits only for helpers that
 * are in the middle of one.
 *
 *     job      a call of circe__run, in one of N_JOBS places, where helpers may enter until it is closed
 *     helper   a thread of the pool. Its mail is a set of jobs to look at, a futex on which it sleeps
 *
 * A helper that finds no mail spins for a little while, because the next call of a training step comes within
 * microseconds and waking takes longer. It stops spinning on a machine that is busy, which it sees from its own clock:
 * it was not running although it was ready to. */
#define _GNU_SOURCE /* affinity */
#include "core/threads.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/core.h"
#include "core/runtimes.h"

enum {
    N_JOBS = 31,
    MAX_HELPERS = 1023,
    STACK_BYTES = 4 << 20, /* OpenBLAS keeps small buffers there */
    MASKED_PARTS = 64,     /* up to so many, a helper prefers the part of its own number */
    HELPER_SPIN = 100000,  /* nanoseconds without mail before a helper sleeps */
    CALLER_SPIN = 20000,   /* nanoseconds a caller spins for helpers that finish */
    PREEMPTED = 100000,    /* nanoseconds between two looks at the clock: another process had the processor */
    BUSY_REST = 50000000,  /* nanoseconds without spinning after that */
    PAUSES = 32,           /* between two looks at the clock */
};

#define ASLEEP (1u << 31) /* of mail */

/* A job's state: the number of helpers inside, how many may be, whether the caller sleeps until they are done. */
#define INSIDE 0xffffu
#define MOST_SHIFT 16
#define WAITED (1u << 31)

typedef struct job {
    _Alignas(64) atomic_uint state;
    circe_part_fn run;
    void *user;
    int64_t parts;
    int pool, first, n; /* helpers that there are, and those that are told of it: n from the first on, in a circle */
    unsigned modes;     /* the caller's rounding */
    _Alignas(64) _Atomic int64_t taken; /* parts: a set of up to MASKED_PARTS, else their number */
    atomic_int looked;                  /* of the n helpers, those that somebody has seen to be awake, or woken */
} job;

typedef struct helper {
    _Alignas(64) atomic_uint mail;
} helper;

static struct {
    pthread_mutex_t grow;
    atomic_int n_helpers; /* started */
    atomic_int may_grow;  /* 0 once a thread could not be started */
    atomic_uint taken;    /* set of jobs in use */
    atomic_llong busy_until;
    job jobs[N_JOBS];
    helper helpers[MAX_HELPERS];
} pool = {.grow = PTHREAD_MUTEX_INITIALIZER, .may_grow = 1};

static int processors;                    /* that this process may use; written once */
static _Thread_local bool inside = false; /* this thread is running a part */
static _Thread_local int bracketed = 1;   /* threads of the call that this thread is in */

/* ---- waiting ------------------------------------------------------------------------------------------------------
 */

static void relax(void) {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void futex_wait(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

/* Spins until *word is no longer `value` or `limit` nanoseconds have passed. Returns whether it has changed. */
static bool spin(atomic_uint *word, unsigned value, int64_t limit) {
    int64_t start = nanoseconds(), last = start;
    if (start < atomic_load_explicit(&pool.busy_until, memory_order_relaxed)) return atomic_load(word) != value;
    for (;;) {
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
            relax();
        }
        int64_t now = nanoseconds();
        if (now - last > PREEMPTED) atomic_store_explicit(&pool.busy_until, now + BUSY_REST, memory_order_relaxed);
        if (now - last > PREEMPTED || now - start > limit) return false;
        last = now;
    }
}

/* ---- rounding -----------------------------------------------------------------------------------------------------
 */

/* How this thread rounds and whether it flushes denormal numbers; flags that say what has happened stay its own. */
#if defined(__x86_64__)
enum { FLAGS = 0x3f };

static unsigned get_modes(void) { return _mm_getcsr() & ~(unsigned)FLAGS; }
static void set_modes(unsigned modes) { _mm_setcsr((_mm_getcsr() & FLAGS) | modes); }
#else
static unsigned get_modes(void) { return 0; }
static void set_modes(unsigned modes) { (void)modes; }
#endif

/* ---- parts --------------------------------------------------------------------------------------------------------
 */

/* The next part for the thread of this rank in the job, or -1: its own number first, so that what a thread wrote in one
 * call is in its cache in the next. */
static int64_t take(job *j, int64_t rank) {
    if (j->parts > MASKED_PARTS) {
        int64_t next = atomic_fetch_add(&j->taken, 1);
        return next < j->parts ? next : -1;
    }
    for (int64_t k = 0; k < j->parts; k++) {
        int64_t part = (rank + k) % j->parts, bit = (int64_t)(1ull << part);
        if ((atomic_load_explicit(&j->taken, memory_order_relaxed) & bit) != 0) continue;
        if ((atomic_fetch_or(&j->taken, bit) & bit) == 0) return part;
    }
    return -1;
}

static void run_parts(job *j, int64_t rank) {
    inside = true;
    for (int64_t part = take(j, rank); part >= 0; part = take(j, rank)) j->run(j->user, part);
    inside = false;
}

/* ---- helpers ------------------------------------------------------------------------------------------------------
 */

static helper *helper_of(const job *j, int number) { return &pool.helpers[(j->first + number) % j->pool]; }

static void tell_helpers(job *j) {
    for (int number = 0; number < j->n; number++) atomic_fetch_or(&helper_of(j, number)->mail, 1u << (j - pool.jobs));
}

/* Wakes the next of the job's helpers that sleeps. Waking takes microseconds: the caller wakes two, and who has been
 * woken wakes two more. */
static void wake_two(job *j) {
    for (int woken = 0; woken < 2;) {
        int number = atomic_fetch_add(&j->looked, 1);
        if (number >= j->n) return;
        helper *h = helper_of(j, number);
        if ((atomic_load(&h->mail) & ASLEEP) == 0) continue;
        futex_wake(&h->mail);
        woken++;
    }
}

static void help(job *j, int64_t own) {
    unsigned state = atomic_load(&j->state);
    do {
        if ((state & INSIDE) >= (state & ~WAITED) >> MOST_SHIFT) return; /* closed, or full */
    } while (!atomic_compare_exchange_weak(&j->state, &state, state + 1));
    wake_two(j);
    set_modes(j->modes);
    run_parts(j, 1 + (own - j->first + j->pool) % j->pool);
    if (atomic_fetch_sub(&j->state, 1) - 1 == WAITED) futex_wake(&j->state);
}

static void *helper_main(void *user) {
    helper *own = user;
    circe__blas_alone_helper();
    for (;;) {
        unsigned mail = atomic_exchange(&own->mail, 0);
        for (int i = 0; i < N_JOBS; i++)
            if (mail & (1u << i)) help(&pool.jobs[i], own - pool.helpers);
        if (spin(&own->mail, 0, HELPER_SPIN)) continue;
        unsigned none = 0;
        if (atomic_compare_exchange_strong(&own->mail, &none, ASLEEP))
            while (atomic_load(&own->mail) == ASLEEP) futex_wait(&own->mail, ASLEEP);
    }
    return NULL;
}

/* Signals are the business of the program's own threads. */
static bool start_helper(int number) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&pool.helpers[number].mail, 0);
    bool started = pthread_create(&thread, &attributes, helper_main, &pool.helpers[number]) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* Where a thread cannot be had, those that are there do the work. */
static int helpers_for(int wanted) {
    int there = atomic_load(&pool.n_helpers);
    if (wanted <= there || !atomic_load(&pool.may_grow)) return wanted < there ? wanted : there;
    pthread_mutex_lock(&pool.grow);
    for (there = atomic_load(&pool.n_helpers); there < wanted; atomic_store(&pool.n_helpers, ++there))
        if (!start_helper(there)) {
            atomic_store(&pool.may_grow, 0);
            break;
        }
    pthread_mutex_unlock(&pool.grow);
    return wanted < there ? wanted : there;
}

/* A child has the thread that forked, and none of the helpers: it begins with an empty pool. */
static void forget_helpers(void) {
    pthread_mutex_init(&pool.grow, NULL);
    atomic_store(&pool.n_helpers, 0);
    atomic_store(&pool.may_grow, 1);
    atomic_store(&pool.taken, 0);
    atomic_store(&pool.busy_until, 0);
    for (int i = 0; i < N_JOBS; i++) atomic_store(&pool.jobs[i].state, 0);
    inside = false;
    circe__runtimes_after_fork();
}

/* ---- how many -----------------------------------------------------------------------------------------------------
 */

/* "QUOTA PERIOD" or "max PERIOD" of one group, in processors; 0 where there is no limit or no such file. */
static double quota_in(const char *path) {
    double quota = 0.0, period = 0.0;
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0.0;
    int found = fscanf(file, "%lf %lf", &quota, &period);
    fclose(file);
    return found == 2 && quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

/* The tightest limit of this process's control group and those above it (version 2; the root of a container is what it
 * sees as /). */
static double cgroup_processors(void) {
    char line[1024], path[1200];
    double least = 0.0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) return 0.0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "0::", 3) != 0) continue;
        line[strcspn(line, "\n")] = '\0';
        for (char *end = line + strlen(line); end != NULL; end = strrchr(line + 3, '/')) {
            *end = '\0';
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", line + 3);
            double here = quota_in(path);
            if (here > 0.0 && (least == 0.0 || here < least)) least = here;
            if (line[3] == '\0') break;
        }
    }
    fclose(file);
    return least;
}

static void count_processors(void) {
    cpu_set_t *set = CPU_ALLOC(8192);
    size_t bytes = CPU_ALLOC_SIZE(8192);
    int count = 0;
    if (set != NULL && sched_getaffinity(0, bytes, set) == 0) count = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (count < 1) count = (int)circe__max(1, sysconf(_SC_NPROCESSORS_ONLN));
    double quota = cgroup_processors();
    if (quota > 0.0 && quota < (double)count) count = quota < 1.0 ? 1 : (int)(quota + 0.999);
    processors = count;
    circe__runtimes_begin();
    pthread_atfork(NULL, NULL, forget_helpers);
}

static int available_processors(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_processors);
    return processors;
}

int circe__default_threads(void) {
    int all = available_processors(), openmp = circe__openmp_threads();
    if (openmp == 0) return all;
    return openmp < all || getenv("OMP_NUM_THREADS") != NULL ? openmp : all;
}

/* Helpers for so many threads, as things are now. */
static int helpers_allowed(int threads) {
    int64_t most = circe__min(circe__min(threads, MAX_HELPERS), available_processors());
    return (int)circe__min(most, circe__runtimes_limit()) - 1;
}

/* ---- calls --------------------------------------------------------------------------------------------------------
 */

static void run_alone(int64_t parts, circe_part_fn run, void *user) {
    for (int64_t part = 0; part < parts; part++) run(user, part);
}

/* A place for a job, or -1. */
static int take_job(void) {
    unsigned taken = atomic_load(&pool.taken);
    for (;;) {
        int at = taken == (1u << N_JOBS) - 1 ? -1 : __builtin_ctz(~taken);
        if (at < 0 || atomic_compare_exchange_weak(&pool.taken, &taken, taken | (1u << at))) return at;
    }
}

static void wait_for_helpers(job *j) {
    unsigned state = atomic_fetch_and(&j->state, INSIDE) & INSIDE; /* closed */
    for (; (state & INSIDE) != 0; state = atomic_load(&j->state)) {
        if (spin(&j->state, state, CALLER_SPIN)) continue;
        if (atomic_compare_exchange_strong(&j->state, &state, state | WAITED)) futex_wait(&j->state, state | WAITED);
    }
}

static void run_together(job *j, int helpers, int64_t parts, circe_part_fn run, void *user) {
    j->run = run;
    j->user = user;
    j->parts = parts;
    j->pool = atomic_load(&pool.n_helpers);
    j->first = (int)((j - pool.jobs) * helpers % j->pool); /* callers at the same time have helpers of their own */
    j->n = helpers;
    j->modes = get_modes();
    atomic_store(&j->taken, 0);
    atomic_store(&j->looked, 0);
    atomic_store(&j->state, (unsigned)helpers << MOST_SHIFT);
    tell_helpers(j);
    wake_two(j);
    run_parts(j, 0);
    wait_for_helpers(j);
    atomic_fetch_and(&pool.taken, ~(1u << (j - pool.jobs)));
}

void circe__run_on(int threads, int64_t parts, circe_part_fn run, void *user) {
    circe__blas_alone_begin();
    int helpers = inside || parts <= 1 ? 0 : helpers_allowed((int)circe__min(threads, parts));
    if (helpers > 0) helpers = helpers_for(helpers);
    int place = helpers > 0 ? take_job() : -1;
    if (place < 0)
        run_alone(parts, run, user);
    else
        run_together(&pool.jobs[place], helpers, parts, run, user);
    circe__blas_alone_end();
}

int circe__threads_begin(const circe_context *context) {
    int previous = bracketed;
    bracketed = context->threads;
    circe__blas_alone_begin();
    return previous;
}

void circe__threads_end(int previous) {
    circe__blas_alone_end();
    bracketed = previous;
}

void circe__blas_together_begin(const circe_context *context) {
    circe__blas_alone_begin();
    circe__blas_threads(helpers_allowed(context->threads) + 1);
}

void circe__blas_together_end(void) {
    circe__blas_threads(1);
    circe__blas_alone_end();
}

int circe__threads_bracketed(void) { return inside ? 1 : bracketed; }

void circe_context_run(const circe_context *context, int64_t parts, circe_part_fn run, void *user) {
    circe__run_on(context->threads, parts, run, user);
}
