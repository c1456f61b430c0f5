/* A context holds threads, memory, log and progress. Use one per calling thread: calls on the same context, or on
 * objects created from it, must not overlap. Objects must be destroyed before the context they came from. */
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

/* Called now and then during long work, from the calling thread. Return non-zero to cancel it. A total of 0 means that
 * there is nothing to show: the library only asks whether to go on. */
typedef int (*circe_progress_fn)(void *user, const char *stage, int64_t done, int64_t total);

/* Replaces malloc and free. Blocks need only the alignment of malloc. */
typedef struct circe_allocator {
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
} circe_allocator;

typedef struct circe_context_options {
    int threads;               /* 0: OpenMP's number (OMP_NUM_THREADS), or the number of processors */
    size_t memory_limit;       /* bytes that this context may use; 0: the machine's free memory at each call */
    circe_allocator allocator; /* allocate = NULL: malloc */
    circe_log_fn log;          /* NULL: silent */
    void *log_user;
    circe_progress_fn progress; /* NULL: none */
    void *progress_user;
} circe_context_options;

/* Sets every field to its default. */
CIRCE_API void circe_context_options_init(circe_context_options *options);

/* options may be NULL: the defaults. */
CIRCE_API circe_status circe_context_create(const circe_context_options *options, circe_context **context);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_context_destroy(circe_context *context);

/* The number of parts into which this context divides its work. Results depend on it only by rounding. Each call
 * decides how many threads run the parts: at most the number of processors, OMP_THREAD_LIMIT, and OpenMP's number of
 * threads if someone (threadpoolctl, torch.set_num_threads) lowered it. Inside an OpenMP region, only the calling
 * thread runs them, unless nested regions are allowed. All contexts of the process share the library's threads, which
 * sleep when idle and are started again in a child of fork. A calling thread needs 256 KiB of stack. It cannot be
 * cancelled inside a call; the progress function stops one. */
CIRCE_API int circe_context_threads(const circe_context *context);

/* From now on, each call in this process runs on at most `most` threads, whatever the contexts have; 0: on as many as
 * there are processors. Results do not change. circe_thread_limit returns the limit, at most the number of
 * processors. */
CIRCE_API void circe_set_thread_limit(int most);
CIRCE_API int circe_thread_limit(void);

/* The number of parts into which `total` items should be divided: 1 to the number of threads. `least` is the number of
 * items that take a thread about five microseconds; 1 means that each item takes at least that long. More parts would
 * only make the call slower. Use fewer if starting or finishing a part moves more than a few cache lines. */
CIRCE_API int64_t circe_context_parts(const circe_context *context, int64_t total, int64_t least);

/* Calls run(user, part) for every part in [0, parts), each on one of these threads, and returns when all are done.
 * Meanwhile BLAS uses only the thread that calls it. A call from inside a part runs its parts one after the other. */
typedef void (*circe_part_fn)(void *user, int64_t part);
/* Calls run(user, part) for every part in [0, parts), and returns when all are done. */
CIRCE_API void circe_context_run(const circe_context *context, int64_t parts, circe_part_fn run, void *user);

/* The instruction set of the CPU loops: "avx512", "avx2" or "baseline". The best that the processor has, or the one
 * that the environment variable CIRCE_ISA names when the context is created. Creating a context fails if CIRCE_ISA is
 * another word (CIRCE_ERR_ARGUMENT) or a set that the processor lacks (CIRCE_ERR_UNSUPPORTED). */
CIRCE_API const char *circe_context_isa(const circe_context *context);

/* Scratch memory that grows to what the calls through it need and is then reused: after the first call of a given
 * size, a training step allocates nothing. One workspace serves one call at a time. */
typedef struct circe_workspace circe_workspace;

/* Creates an empty workspace. The context must outlive it. */
CIRCE_API circe_status circe_workspace_create(circe_context *context, circe_workspace **workspace);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_workspace_destroy(circe_workspace *workspace);

/* Bytes held now. */
CIRCE_API size_t circe_workspace_bytes(const circe_workspace *workspace);

/* Ranks: processes that have the same points and measure them together, as in training over MPI. Each rank does its
 * part of the work. `sum` replaces an array by its sum over the ranks, in float64 (`floats` 0) or float32. It must not
 * fail. The thread that called the measure calls it. */
typedef struct circe_ranks {
    int rank, size;
    void (*sum)(void *user, void *values, int64_t n, int floats);
    void *user;
} circe_ranks;

/* From now on, circe_measure_circe_cached divides its work among the ranks. All ranks must call it with the same rows
 * and bitwise equal x, and all get the whole value and gradient. The struct is copied. NULL, or a size of 1: this
 * process works alone again. */
CIRCE_API void circe_workspace_set_ranks(circe_workspace *workspace, const circe_ranks *ranks);

/* From now on, the measures and witnesses computed in this workspace count row i of their batch weights[i] times: a
 * number, at least 0, of which only the ratios count (docs/math.md). Batches must have n rows. The weights are copied.
 * NULL: every row counts once again. Not for gcm, nor for ranks. */
CIRCE_API circe_status circe_workspace_set_weights(circe_workspace *workspace, const double *weights, int64_t n);

CIRCE_END_DECLS

#endif
