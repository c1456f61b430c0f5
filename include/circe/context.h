/* A context carries threads, memory, log and progress. Use one per thread of the caller: calls on the same context,
 * or on objects made from it, must not overlap. Objects must be destroyed before the context they came from. */
#ifndef CIRCE_CONTEXT_H
#define CIRCE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "circe/status.h"

CIRCE_BEGIN_DECLS

typedef struct circe_context circe_context;

typedef enum circe_log_level {
    CIRCE_LOG_INFO = 0,
    CIRCE_LOG_WARNING = 1,
} circe_log_level;

typedef void (*circe_log_fn)(void *user, circe_log_level level, const char *text);

/* Called now and then during long work, from the calling thread. Return non-zero to cancel it. A total of 0: nothing is
 * to be shown, the question is only whether to go on. */
typedef int (*circe_progress_fn)(void *user, const char *stage, int64_t done, int64_t total);

/* malloc and free in the caller's hands. Blocks need the alignment of malloc only. */
typedef struct circe_allocator {
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
} circe_allocator;

typedef struct circe_context_options {
    int threads;               /* 0: as many as OpenMP says (OMP_NUM_THREADS), or as there are processors */
    size_t memory_limit;       /* bytes this context may plan with; 0: what the machine has free at each call */
    circe_allocator allocator; /* allocate = NULL: malloc */
    circe_log_fn log;          /* NULL: silent */
    void *log_user;
    circe_progress_fn progress; /* NULL: none */
    void *progress_user;
} circe_context_options;

CIRCE_API void circe_context_options_init(circe_context_options *options);

/* options may be NULL: the defaults. */
CIRCE_API circe_status circe_context_create(const circe_context_options *options, circe_context **context);
CIRCE_API void circe_context_destroy(circe_context *context);

/* Into how many parts this context's work is cut. Results depend on it by rounding alone. How many threads run the
 * parts is decided at each call: no more than there are processors, than OMP_THREAD_LIMIT allows, or than OpenMP's
 * number of threads where somebody (threadpoolctl, torch.set_num_threads) has lowered it; and the caller's alone inside
 * an OpenMP region, unless nested regions are allowed. The library's threads are shared by all contexts of the process,
 * sleep when there is nothing to do, and are started anew in a child of fork. */
CIRCE_API int circe_context_threads(const circe_context *context);

/* How many parts of `total` items are worth while: 1 to the number of threads. `least` is how many items take a thread
 * about five microseconds; 1 says that each of them takes that or longer. More parts than these would only make a call
 * slower, whatever the number of threads; the threads without one stay asleep. Fewer where a part has more to begin or
 * to hand over than a few cache lines. */
CIRCE_API int64_t circe_context_parts(const circe_context *context, int64_t total, int64_t least);

/* Calls run(user, part) for every part in [0, parts), each on one of those threads, and returns when all are done. BLAS
 * runs on the thread that calls it alone meanwhile. A call from inside a part runs its parts one after the other. */
typedef void (*circe_part_fn)(void *user, int64_t part);
CIRCE_API void circe_context_run(const circe_context *context, int64_t parts, circe_part_fn run, void *user);

/* The instruction set of the CPU loops: "avx512", "avx2" or "baseline". The best that the processor has, or what the
 * environment variable CIRCE_ISA names when the context is created: another word is refused there
 * (CIRCE_ERR_ARGUMENT), and so is a set that the processor lacks (CIRCE_ERR_UNSUPPORTED). */
CIRCE_API const char *circe_context_isa(const circe_context *context);

/* Scratch memory that grows to what the calls through it need and is then reused: after the first call of a given
 * size, a training step allocates nothing. One workspace serves one call at a time. */
typedef struct circe_workspace circe_workspace;

CIRCE_API circe_status circe_workspace_create(circe_context *context, circe_workspace **workspace);
CIRCE_API void circe_workspace_destroy(circe_workspace *workspace);

/* Bytes held now. */
CIRCE_API size_t circe_workspace_bytes(const circe_workspace *workspace);

/* Processes that have the same points and measure them together (training over MPI): each does its part of the work,
 * and `sum` adds up, in every process, arrays of the same length, in float64 (`floats` 0) or float32. It does not
 * fail. Called from the thread that called the measure. */
typedef struct circe_ranks {
    int rank, size;
    void (*sum)(void *user, void *values, int64_t n, int floats);
    void *user;
} circe_ranks;

/* From now on circe_measure_circe_cached divides its work so, and must be called by all of them alike, on the same
 * rows and an x of the same bits; all get the whole value and gradient. Copied; NULL, or a size of 1: alone again. */
CIRCE_API void circe_workspace_set_ranks(circe_workspace *workspace, const circe_ranks *ranks);

CIRCE_END_DECLS

#endif
