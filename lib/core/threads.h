/* The one way in which libcirce, and everything built on it, divides work among threads.
 *
 * Work is cut into parts before anybody runs it. How many parts there are, and where the cuts are, follows from the
 * amount of work and the context's number of threads alone. The parts then run on the threads that are available at
 * that moment, or all of them on the caller's. So a result depends on the number of threads that was requested, never
 * on how many came, and nobody waits for a thread that does not come. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "circe/context.h"
#include "circe/random.h"
#include "core/rooms.h"

/* What this process may use by default: OpenMP's number of threads where there is an OpenMP (OMP_NUM_THREADS,
 * omp_set_num_threads, threadpoolctl), else the processors of its affinity mask, and no more than its control group's
 * quota of time. */
CIRCE_ROOMS int circe__default_threads(void);

/* How many threads a context with this many can ever have at work: no more than there are processors. */
int circe__usable_threads(int threads);

/* circe_context_run on up to `threads` threads, for code that knows no context. The parts of one call see the caller's
 * arithmetic and locale (core/settings.h). */
CIRCE_ROOMS void circe__run_on(int threads, int64_t parts, circe_part_fn run, void *user);

/* A few long parts beside each other, such as both sides of a test. Calls that a part makes in turn are cut as if it
 * had all threads of the context to itself, and are shared with threads that have nothing to do. So the parts compute
 * the same bits as one after the other. Within a part of another call they run one after the other. */
void circe__run_beside(const circe_context *context, int64_t parts, circe_part_fn run, void *user);

/* Whether this thread works for another one, which alone asks and tells the caller of the library. */
bool circe__helping(void);

/* Brackets work that uses the algebra table of a backend, which divides itself among the context's threads; BLAS below
 * it runs on one. What begin returns is for finish; brackets may be nested. */
int circe__threads_begin(const circe_context *context);

/* The status of the work, or CIRCE_ERR_CANCELLED in its place where the caller stopped the outermost bracket, which
 * ends here. */
circe_status circe__threads_finish(int previous, circe_status status);

/* Did the caller stop the work of this thread's bracket, or of the call whose part it runs? The thread that opened the
 * bracket asks the context's progress function, at most about twenty times a second. Once stopped, the work only has to
 * end: nobody looks at the result. So it may leave numbers unset, but must leave every index valid. */
bool circe__stopped(void);

/* Brackets calls of a library that relies on BLAS for threads (ScaLAPACK): BLAS gets as many of the context's threads
 * as are available. */
CIRCE_ROOMS void circe__blas_together_begin(const circe_context *context);
CIRCE_ROOMS void circe__blas_together_end(void);

/* The number of threads of the innermost bracket that the calling thread is in; 1 outside of any, and in a part until
 * it opens one: a call is cut alike wherever it comes from. */
int circe__threads_bracketed(void);

/* circe_context_parts on up to `threads` threads, for code that knows no context: the one rule by which work is
 * divided. */
CIRCE_ROOMS int64_t circe__count_parts(int threads, int64_t total, int64_t least);

/* Where part `part` of `parts` begins; part = parts: where the last one ends. */
static inline int64_t circe__cut(int64_t total, int64_t parts, int64_t part) {
    return total / parts * part + (total % parts < part ? total % parts : part);
}

/* circe_random_subset with the numbers drawn by up to `threads` threads. */
void circe__random_subset(int threads, circe_random generator, int64_t n, int64_t k, int64_t *out);

/* A loop over `total` items, cut into ranges of at least `least`. */
typedef void (*circe__range_fn)(void *user, int64_t first, int64_t end);

typedef struct circe__ranges {
    int64_t total, parts;
    circe__range_fn run;
    void *user;
} circe__ranges;

static inline void circe__run_range(void *ranges, int64_t part) {
    const circe__ranges *r = (const circe__ranges *)ranges;
    r->run(r->user, circe__cut(r->total, r->parts, part), circe__cut(r->total, r->parts, part + 1));
}

/* Large work is cut into more ranges than threads, so that a slow thread does not keep the others waiting. */
static inline void circe__run_ranges(int threads, int64_t total, int64_t least, circe__range_fn run, void *user) {
    enum { RANGES_A_THREAD = 4 };
    int64_t worth = circe__count_parts(threads, total, least), most = RANGES_A_THREAD * worth;
    circe__ranges r = {total, total / least < most ? total / least : most, run, user};
    if (r.parts < worth) r.parts = worth;
    if (worth == 1)
        run(user, 0, total);
    else
        circe__run_on((int)worth, r.parts, circe__run_range, &r);
}
