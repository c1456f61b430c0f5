/* Threads that wait for work, shared by all contexts of the process.
 *
 * Why not OpenMP: an OpenMP region needs every thread of its team, so on a busy machine, under a thread limit or inside
 * another region it becomes slow, wrong, or hangs. Its threads spin as the environment said before the process began,
 * and a child of fork cannot use it. Here the caller itself takes parts until none is left, and then waits only for
 * helpers that are in the middle of one.
 *
 *     job      a call of circe__run_on, in one of N_JOBS slots. Each call in a slot has a serial number
 *     piece    one part of a job, or several neighbours where there are very many
 *     place    the pieces that one thread is meant to do. Others take what is left of it when theirs are done
 *     helper   a thread of the pool. Its mail says which slot to look at
 *
 * Places and helpers have cache lines of their own. A thread takes the pieces of its own place first, so sixteen
 * threads begin and end without writing to each other's lines, and find in their caches what they wrote in the last
 * call. Processors are not equally fast, because other programs use them or share their cores; cutting work into more
 * parts than threads evens that out. A helper may look at a job after its caller has returned. By then all pieces have
 * been taken. As long as a piece is not taken, the caller waits, so whatever the job points to still exists.
 *
 * A helper that finds no mail spins for a short time, because the next call of a training step comes within
 * microseconds and waking takes longer. Nobody spins on a busy machine. Threads see from their own clocks that it is
 * busy: they were ready to run, but did not. A single thread that lost its processor once proves nothing, because
 * something always runs somewhere, on the host of a virtual machine too. */
#define _GNU_SOURCE /* syscall */
#include "core/threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/core.h"
#include "core/processors.h"
#include "core/reuse.h"
#include "core/runtimes.h"
#include "core/settings.h"

enum {
    N_JOBS = 31,
    N_PLACES = 128,
    COUNT_BITS = 16,    /* of a place's words: how many of its pieces */
    MOST_PIECES = 1024, /* of a place */
    MAX_HELPERS = 1023,
    STACK_BYTES = 4 << 20, /* OpenBLAS keeps small buffers there */
    HELPER_SPIN =
        200000, /* nanoseconds without mail before a helper sleeps: the serial stretches of a step are shorter */
    CALLER_SPIN = 20000,  /* nanoseconds a caller spins for helpers that finish */
    PREEMPTED = 500000,   /* nanoseconds between two looks at the clock: another process had the processor */
    BUSY_SHARE = 4,       /* the machine is busy if one of this many processors is lost within BUSY_REST */
    BUSY_REST = 50000000, /* nanoseconds without spinning after that */
    PAUSES = 32,          /* between two looks at the clock */
};

typedef _Atomic uint64_t word;

/* How many pieces have been taken, and how many are done: each word is the serial of the job that this was of, and the
 * number below it. A word of an earlier job stands for none of this one's, so that nobody need clear it. */
typedef struct place_words {
    _Alignas(64) word taken;
    word done;
} place_words;

/* All that a helper must know is in one line. */
typedef struct job {
    _Alignas(64) word serial; /* 0 while the rest of the line is written */
    _Atomic uint8_t places;
    atomic_bool drowsy;             /* some of the n helpers sleep */
    _Atomic int16_t pool, first, n; /* helpers that there are, and those that are told: n from the first, in a circle */
    _Atomic int64_t parts;
    circe_part_fn run;
    void *user;
    const atomic_bool *stop; /* the caller's, as the next two */
    locale_t locale;
    unsigned arithmetic;
    atomic_uint waiting;            /* a futex: the caller sleeps until a place is done */
    _Alignas(64) atomic_int looked; /* of the n helpers, those that somebody has seen to be awake, or woken */
    uint64_t last;                  /* serial, the caller's own */
    place_words at[N_PLACES];
} job;

_Static_assert(offsetof(job, looked) == 64 && N_PLACES <= UINT8_MAX, "one line");

typedef struct helper {
    _Alignas(64) word mail; /* 1 + the slot to look at; 0: none */
    atomic_uint asleep;     /* a futex */
} helper;

/* What is written in every call lies apart from what waiting threads look at. */
static struct {
    pthread_mutex_t grow;
    atomic_int n_helpers;           /* started */
    atomic_int may_grow;            /* 0 once a thread could not be started */
    _Alignas(64) atomic_uint taken; /* set of slots in use */
    _Alignas(64) atomic_int sleepers;
    _Alignas(64) word busy_until;
    word losses; /* the stretch of BUSY_REST that it is, and below it how often a thread lost its processor in it */
    job jobs[N_JOBS];
    helper helpers[MAX_HELPERS];
} pool = {.grow = PTHREAD_MUTEX_INITIALIZER, .may_grow = 1};

static int processors;                    /* that this process may use; written once */
static atomic_int thread_limit;           /* circe_set_thread_limit; 0: none */
static _Thread_local bool inside = false; /* this thread is running a part */
static _Thread_local int bracketed = 1;   /* threads of the innermost call or part that this thread is in */

/* Brackets that this thread has opened: how many, the context of the outermost, and whether its caller stopped it. */
static _Thread_local struct {
    int depth;
    const circe_context *context;
    double asked; /* when, in seconds */
    atomic_bool stop;
} brackets;
static _Thread_local const atomic_bool
    *stop_of_part; /* of the call whose part this thread runs, if it is not its own */

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void relax(void) {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void futex_wait(atomic_uint *at, unsigned value) {
    syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *at) { syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

static void note_loss(uint64_t now) {
    uint64_t stretch = now / BUSY_REST << COUNT_BITS, seen = atomic_load(&pool.losses), next;
    do next = (seen >> COUNT_BITS << COUNT_BITS == stretch ? seen : stretch) + 1;
    while (!atomic_compare_exchange_weak(&pool.losses, &seen, next));
    if ((next - stretch) * BUSY_SHARE >= (uint64_t)processors)
        atomic_store_explicit(&pool.busy_until, now + BUSY_REST, memory_order_relaxed);
}

/* Spins until *at is no longer `value` or `limit` nanoseconds have passed. Returns whether it has changed. */
static bool spin(word *at, uint64_t value, uint64_t limit) {
    uint64_t start = nanoseconds(), last = start;
    if (start < atomic_load_explicit(&pool.busy_until, memory_order_relaxed)) return atomic_load(at) != value;
    for (;;) {
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load_explicit(at, memory_order_acquire) != value) return true;
            relax();
        }
        uint64_t now = nanoseconds();
        if (now - last > PREEMPTED) note_loss(now);
        if (now - last > PREEMPTED || now - start > limit) return false;
        last = now;
    }
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* What a thread knows of a job that it works on. */
typedef struct work {
    job *job;
    uint64_t serial;
    int places;
    int64_t parts, pieces;
} work;

static int64_t count_pieces(int64_t parts, int places) { return circe__min(parts, (int64_t)places * MOST_PIECES); }

static int64_t pieces_before(const work *w, int place) { return circe__cut(w->pieces, w->places, place); }

/* The next piece of a place, now taken; -1: none. */
static int64_t take_piece(const work *w, int place) {
    word *taken = &w->job->at[place].taken;
    uint64_t n = (uint64_t)(pieces_before(w, place + 1) - pieces_before(w, place));
    uint64_t seen = atomic_load_explicit(taken, memory_order_relaxed);
    for (;;) {
        uint64_t serial = seen >> COUNT_BITS, next = serial == w->serial ? seen - (serial << COUNT_BITS) : 0;
        if (serial > w->serial || next >= n) return -1;
        if (atomic_compare_exchange_weak(taken, &seen, (w->serial << COUNT_BITS) + next + 1))
            return pieces_before(w, place) + (int64_t)next;
    }
}

/* The next piece from *place on, in a circle; *place: where it was found. */
static int64_t take(const work *w, int *place) {
    for (int k = 0; k < w->places; k++, *place = *place + 1 < w->places ? *place + 1 : 0) {
        int64_t piece = take_piece(w, *place);
        if (piece >= 0) return piece;
    }
    return -1;
}

static void mark_done(const work *w, int place) {
    word *done = &w->job->at[place].done;
    uint64_t seen = atomic_load_explicit(done, memory_order_relaxed), next;
    do next = seen >> COUNT_BITS == w->serial ? seen + 1 : (w->serial << COUNT_BITS) + 1;
    while (!atomic_compare_exchange_weak(done, &seen, next));
    if (atomic_load(&w->job->waiting) != 0 && atomic_exchange(&w->job->waiting, 0) != 0) futex_wake(&w->job->waiting);
}

/* Runs a piece that was taken, and the next ones until none is left. */
static void run_pieces(const work *w, int place, int64_t piece) {
    const job *j = w->job;
    int before = bracketed;
    const atomic_bool *stop_before = stop_of_part;
    inside = true;
    stop_of_part = j->stop;
    bracketed = 1;
    for (; piece >= 0; piece = take(w, &place)) {
        int64_t end = circe__cut(w->parts, w->pieces, piece + 1);
        for (int64_t part = circe__cut(w->parts, w->pieces, piece); part < end; part++) j->run(j->user, part);
        mark_done(w, place);
    }
    inside = false;
    bracketed = before;
    stop_of_part = stop_before;
}

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

/* Wakes the next two sleeping helpers of the job. Waking takes microseconds, so the caller wakes two, and each of them
 * wakes two more. */
static void wake_two(job *j, int first, int n, int all) {
    for (int woken = 0; woken < 2 && atomic_load_explicit(&j->looked, memory_order_relaxed) < n;) {
        int number = atomic_fetch_add(&j->looked, 1);
        if (number >= n) return;
        helper *h = &pool.helpers[(first + number) % all];
        if (atomic_load(&h->asleep) == 0 || atomic_exchange(&h->asleep, 0) == 0) continue;
        futex_wake(&h->asleep);
        woken++;
    }
}

static void help(job *j, int own) {
    uint64_t serial = atomic_load_explicit(&j->serial, memory_order_acquire);
    work w = {j, serial, atomic_load_explicit(&j->places, memory_order_relaxed),
              atomic_load_explicit(&j->parts, memory_order_relaxed), 0};
    w.pieces = count_pieces(w.parts, w.places);
    int all = atomic_load_explicit(&j->pool, memory_order_relaxed);
    int first = atomic_load_explicit(&j->first, memory_order_relaxed);
    int n = atomic_load_explicit(&j->n, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (serial == 0 || serial != atomic_load_explicit(&j->serial, memory_order_relaxed)) return; /* between two jobs */
    int rank = 1 + (own - first + all) % all;
    if (rank > n) return; /* mail of an earlier job */
    if (atomic_load_explicit(&j->drowsy, memory_order_relaxed)) wake_two(j, first, n, all);
    int place = (int)circe__cut(w.places, n + 1, rank);
    int64_t piece = take(&w, &place);
    if (piece < 0) return;
    circe__settings_end(&(circe__settings){j->locale, j->arithmetic});
    run_pieces(&w, place, piece);
}

static void go_to_sleep(helper *own) {
    atomic_fetch_add(&pool.sleepers, 1);
    atomic_store(&own->asleep, 1);
    if (atomic_load(&own->mail) != 0) atomic_store(&own->asleep, 0);
    while (atomic_load(&own->asleep) != 0) futex_wait(&own->asleep, 1);
    atomic_fetch_sub(&pool.sleepers, 1);
}

static void *helper_main(void *user) {
    helper *own = user;
    circe__blas_alone_helper();
    for (;;) {
        uint64_t mail = atomic_exchange(&own->mail, 0);
        if (mail != 0) help(&pool.jobs[mail - 1], (int)(own - pool.helpers));
        if (!spin(&own->mail, 0, HELPER_SPIN)) go_to_sleep(own);
    }
    return NULL;
}

/* Signals are left to the program's own threads. */
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
    atomic_store(&pool.helpers[number].asleep, 0);
    bool started = pthread_create(&thread, &attributes, helper_main, &pool.helpers[number]) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* If no thread can be created, the existing ones do the work. */
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

/* A child has the thread that forked, and none of the helpers: it begins with an empty pool. Its memory is no picture
 * of one moment: pages are copied one after another while other threads go on, so that words of a place may be of later
 * jobs than the serial of their slot. LATER is beyond all of these. */
static void forget_helpers(void) {
    static const uint64_t LATER = (uint64_t)1 << 32;
    for (int slot = 0; slot < N_JOBS; slot++) pool.jobs[slot].last += LATER;
    pthread_mutex_init(&pool.grow, NULL);
    atomic_store(&pool.n_helpers, 0);
    atomic_store(&pool.may_grow, 1);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.taken, 0);
    atomic_store(&pool.busy_until, 0);
    inside = false;
    circe__reuse_after_fork();
    circe__runtimes_after_fork();
}

/* ---- how many ---------------------------------------------------------------------------------------------------- */

static void count_processors(void) {
    processors = circe__count_processors();
    circe__runtimes_begin();
    pthread_atfork(NULL, NULL, forget_helpers);
}

static int available_processors(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_processors);
    return processors;
}

/* OMP_NUM_THREADS may be a list with one number per level of nesting: this takes the first. 0: it is not set, or is not
 * a number. */
static int number_in_environment(void) {
    const char *text = getenv("OMP_NUM_THREADS");
    long number = text != NULL ? strtol(text, NULL, 10) : 0;
    return number > 0 && number <= INT_MAX ? (int)number : 0;
}

/* The variable counts where no OpenMP reads it, too. */
int circe__default_threads(void) {
    int all = available_processors(), openmp = circe__openmp_threads();
    if (openmp == 0) return number_in_environment() > 0 ? number_in_environment() : all;
    return openmp < all || getenv("OMP_NUM_THREADS") != NULL ? openmp : all;
}

int circe__usable_threads(int threads) {
    return (int)circe__min(circe__min(threads, MAX_HELPERS), available_processors());
}

/* A call of p threads takes about p JOIN longer than its parts do: they are told, fetch what they work on, and are
 * waited for. With W the time of all parts, W / p + p JOIN is least at p = sqrt(W / JOIN); more would make it slower
 * and are left asleep. W is total / least * PART. Threads may have to be woken, which less than WORTH is not worth. */
int64_t circe__count_parts(int threads, int64_t total, int64_t least) {
    enum { PART = 5000, JOIN = 500, WORTH = 4000 }; /* nanoseconds */
    if (least <= 1) return circe__max(1, circe__min(threads, total));
    double all = (double)total / (double)least * PART, most = sqrt(all / JOIN);
    return all < WORTH ? 1 : most < (double)threads ? (int64_t)most : threads;
}

int64_t circe_context_parts(const circe_context *context, int64_t total, int64_t least) {
    return circe__count_parts(context->threads, total, least);
}

void circe_set_thread_limit(int most) { atomic_store(&thread_limit, most > 0 ? most : 0); }

int circe_thread_limit(void) {
    int most = atomic_load(&thread_limit), all = available_processors();
    return most > 0 && most < all ? most : all;
}

/* How many helpers this many threads need at the moment. */
static int helpers_allowed(int threads) {
    return (int)circe__min(circe__min(circe__usable_threads(threads), circe_thread_limit()), circe__runtimes_limit()) -
           1;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Calls inside a part are cut as if other parts ran beside it, so results do not depend on whether they do. */
static void run_alone(int64_t parts, circe_part_fn run, void *user) {
    bool inside_before = inside;
    int before = bracketed;
    if (parts > 1) {
        inside = true;
        bracketed = 1;
    }
    for (int64_t part = 0; part < parts; part++) run(user, part);
    inside = inside_before;
    bracketed = before;
}

/* A slot for a job, or -1. */
static int take_slot(void) {
    unsigned taken = atomic_load(&pool.taken);
    for (;;) {
        int at = taken == (1u << N_JOBS) - 1 ? -1 : __builtin_ctz(~taken);
        if (at < 0 || atomic_compare_exchange_weak(&pool.taken, &taken, taken | (1u << at))) return at;
    }
}

/* Whether one of these helpers has to be woken. Others that sleep, because calls are for fewer, are left alone. */
static bool any_asleep(int first, int n, int all) {
    if (atomic_load_explicit(&pool.sleepers, memory_order_relaxed) == 0) return false;
    for (int number = 0; number < n; number++)
        if (atomic_load_explicit(&pool.helpers[(first + number) % all].asleep, memory_order_relaxed) != 0) return true;
    return false;
}

static work publish(job *j, int helpers, int64_t parts, circe_part_fn run, void *user) {
    int all = atomic_load(&pool.n_helpers), slot = (int)(j - pool.jobs);
    int first = slot * helpers % all; /* callers at the same time differ */
    work w = {j, ++j->last, (int)circe__min(circe__min(parts, helpers + 1), N_PLACES), parts, 0};
    w.pieces = count_pieces(parts, w.places);
    atomic_store_explicit(&j->serial, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&j->places, (uint8_t)w.places, memory_order_relaxed);
    atomic_store_explicit(&j->parts, parts, memory_order_relaxed);
    atomic_store_explicit(&j->pool, (int16_t)all, memory_order_relaxed);
    atomic_store_explicit(&j->first, (int16_t)first, memory_order_relaxed);
    atomic_store_explicit(&j->n, (int16_t)helpers, memory_order_relaxed);
    atomic_store_explicit(&j->drowsy, any_asleep(first, helpers, all), memory_order_relaxed);
    atomic_store_explicit(&j->looked, 0, memory_order_relaxed);
    j->run = run;
    j->user = user;
    j->locale = uselocale((locale_t)0);
    j->arithmetic = circe__get_arithmetic();
    j->stop = stop_of_part != NULL ? stop_of_part : &brackets.stop;
    atomic_store_explicit(&j->serial, w.serial, memory_order_release);
    return w;
}

/* If another caller's mail overwrites this one, nothing is lost except some help. The same holds if a helper falls
 * asleep at this moment: the next call wakes it. To rule this out, every call would have to wait for all of its
 * stores. */
static void tell_helpers(job *j, int helpers) {
    int all = atomic_load(&j->pool), first = atomic_load(&j->first);
    for (int number = 0; number < helpers; number++)
        atomic_store_explicit(&pool.helpers[(first + number) % all].mail, (uint64_t)(j - pool.jobs) + 1,
                              memory_order_release);
    if (atomic_load_explicit(&j->drowsy, memory_order_relaxed)) wake_two(j, first, helpers, all);
}

static void wait_for_place(const work *w, int at) {
    word *done = &w->job->at[at].done;
    uint64_t all = (w->serial << COUNT_BITS) + (uint64_t)(pieces_before(w, at + 1) - pieces_before(w, at));
    for (uint64_t seen = atomic_load(done); seen != all; seen = atomic_load(done)) {
        if (spin(done, seen, CALLER_SPIN)) continue;
        atomic_store(&w->job->waiting, 1);
        if (atomic_load(done) != all) futex_wait(&w->job->waiting, 1);
    }
}

static void run_together(job *j, int helpers, int64_t parts, circe_part_fn run, void *user) {
    work w = publish(j, helpers, parts, run, user);
    int place = 0;
    tell_helpers(j, helpers);
    int64_t piece = take(&w, &place);
    run_pieces(&w, place, piece);
    for (int at = 1; at < w.places; at++) __builtin_prefetch(&j->at[at].done);
    for (int at = 0; at < w.places; at++) wait_for_place(&w, at);
    atomic_fetch_and(&pool.taken, ~(1u << (j - pool.jobs)));
}

void circe__run_on(int threads, int64_t parts, circe_part_fn run, void *user) {
    circe__blas_alone_begin();
    int helpers = inside || parts <= 1 ? 0 : helpers_allowed((int)circe__min(threads, parts));
    if (helpers > 0) helpers = helpers_for(helpers);
    int slot = helpers > 0 ? take_slot() : -1;
    if (slot < 0)
        run_alone(parts, run, user);
    else
        run_together(&pool.jobs[slot], helpers, parts, run, user);
    circe__blas_alone_end();
}

typedef struct beside {
    circe_part_fn run;
    void *user;
    int threads; /* bracketed, of the caller */
} beside;

static void run_wide(void *user, int64_t part) {
    const beside *b = user;
    bool inside_before = inside;
    int before = bracketed;
    inside = false;
    bracketed = b->threads;
    b->run(b->user, part);
    inside = inside_before;
    bracketed = before;
}

void circe__run_beside(const circe_context *context, int64_t parts, circe_part_fn run, void *user) {
    beside b = {run, user, bracketed};
    if (!inside) circe__run_on(context->threads, parts, run_wide, &b);
    for (int64_t part = 0; inside && part < parts; part++) run(user, part);
}

bool circe__helping(void) { return brackets.depth == 0 && stop_of_part != NULL; }

int circe__threads_begin(const circe_context *context) {
    int previous = bracketed;
    if (brackets.depth++ == 0) {
        brackets.context = context;
        brackets.asked = circe__seconds();
        atomic_store(&brackets.stop, false);
    }
    bracketed = context->threads;
    circe__blas_alone_begin();
    return previous;
}

circe_status circe__threads_finish(int previous, circe_status status) {
    circe__blas_alone_end();
    bracketed = previous;
    if (--brackets.depth > 0) return status;
    bool stop = atomic_exchange(&brackets.stop, false);
    return stop ? circe_fail(CIRCE_ERR_CANCELLED, "cancelled by the caller") : status;
}

bool circe__stopped(void) {
    static const double often = 0.05; /* seconds */
    if (brackets.depth == 0) return stop_of_part != NULL && atomic_load_explicit(stop_of_part, memory_order_relaxed);
    if (atomic_load_explicit(&brackets.stop, memory_order_relaxed)) return true;
    const circe_context_options *options = &brackets.context->options;
    double now = options->progress != NULL ? circe__seconds() : 0.0;
    if (options->progress == NULL || now - brackets.asked < often) return false;
    brackets.asked = now;
    if (options->progress(options->progress_user, "working", 0, 0) == 0) return false;
    atomic_store(&brackets.stop, true);
    return true;
}

void circe__blas_together_begin(const circe_context *context) {
    circe__blas_alone_begin();
    circe__blas_threads(helpers_allowed(context->threads) + 1);
}

void circe__blas_together_end(void) {
    circe__blas_threads(1);
    circe__blas_alone_end();
}

int circe__threads_bracketed(void) { return bracketed; }

void circe_context_run(const circe_context *context, int64_t parts, circe_part_fn run, void *user) {
    circe__run_on(context->threads, parts, run, user);
}
