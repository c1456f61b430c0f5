/* The operations that the processes of one job do together: a table that the loadable part (circe_mpi.so: engine_*.c)
 * fills. Only that part is linked with MPI and ScaLAPACK, so a program that was not started by a launcher loads
 * neither, and runs where neither is installed. It knows nothing about libcirce.
 *
 * Functions without a result cannot fail: MPI ends the job if it cannot continue. Every process calls the functions
 * marked "all", in the same order. Waiting yields the core after a moment, since a process may wait for minutes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANKS_ENGINE_VERSION = 4, RANKS_HOST_BYTES = 64 };

typedef struct ranks_place {
    int rank, size;
    int neighbours; /* processes on this machine, with this one */
    char host[RANKS_HOST_BYTES];
} ranks_place;

/* Processes in rows and columns, numbered row by row; this one's place in it. */
typedef struct ranks_grid {
    int context; /* of BLACS */
    int rows, cols, row, col;
} ranks_grid;

/* A matrix over a grid in blocks of `block` by `block`, dealt out cyclically; the local part lies column by column. */
typedef struct ranks_matrix {
    double *data; /* (local_rows, local_cols), ld = max(local_rows, 1) */
    int64_t rows, cols, block, local_rows, local_cols;
} ranks_matrix;

/* Threads of this process: run calls part(argument, k) for every k in [0, parts), each on one of them. */
typedef struct ranks_workers {
    int threads;
    void (*run)(const void *user, int64_t parts, void (*part)(void *argument, int64_t k), void *argument);
    const void *user;
} ranks_workers;

typedef struct ranks_engine {
    int version;
    const char *(*name)(void);

    bool (*open)(ranks_place *place);
    void (*close)(void);       /* all */
    void (*abort)(int status); /* ends every process */

    void (*broadcast)(int from, void *data, size_t bytes);               /* all */
    void (*gather)(const void *own, size_t bytes, void *everyones);      /* all: into every process, by rank */
    void (*sum)(double *values, int64_t n);                              /* all: into every process */
    void (*sum_to_first)(const double *values, int64_t n, double *sums); /* all: into process 0 */
    /* All: bytes[k] of process k, one after the other, into every process; out_bytes[k] to process k and in_bytes[k]
     * from it. Each below 2^31 in all. */
    void (*gather_parts)(const void *own, const size_t *bytes, void *everyones);
    void (*exchange)(const void *out, const size_t *out_bytes, void *in, const size_t *in_bytes);
    /* All: sums in place, into every process, of float64 or float32, whose bits may depend on the number of processes.
     */
    void (*sum_quickly)(void *values, int64_t n, bool floats);
    /* All: the same of each process's weight times its values, under way until sums_end; sums_move sees to it that they
     * go on. */
    void (*sum_begin)(void *values, int64_t n, bool floats, double weight);
    void (*sums_move)(void);
    void (*sums_end)(void);

    /* Messages. Sending copies and never waits; `waiting` tells of one that has come, whose length it gives. */
    void (*send)(int to, const void *data, size_t bytes);
    bool (*waiting)(int *from, size_t *bytes);
    void (*receive)(int from, void *data, size_t bytes);

    /* Dense algebra over a grid; all. Results other than 0 are ScaLAPACK's info. */
    void (*grid_open)(int rows, int cols, ranks_grid *grid);
    void (*grid_close)(ranks_grid *grid);
    /* Numbers that `eigen` needs as work: of doubles, of ints. */
    int (*eigen_work)(const ranks_grid *grid, const ranks_workers *workers, const ranks_matrix *a,
                      const ranks_matrix *vectors, int64_t *doubles, int64_t *ints);
    /* a, of which the lower triangle is read, = vectors diag(s) vectors', s ascending; a is lost. */
    int (*eigen)(const ranks_grid *grid, const ranks_workers *workers, ranks_matrix *a, double *s,
                 ranks_matrix *vectors, double *work, int64_t doubles, int *iwork, int64_t ints);
    /* a = L L', its lower triangle := L. */
    int (*factor)(const ranks_grid *grid, ranks_matrix *a);
    /* b := a^-1 b, a factored. */
    int (*solve)(const ranks_grid *grid, const ranks_matrix *a, ranks_matrix *b);
    /* a, factored, := the lower triangle of its inverse. */
    int (*invert)(const ranks_grid *grid, ranks_matrix *a);
    /* c := op(a) b */
    void (*multiply)(const ranks_grid *grid, bool transposed, const ranks_matrix *a, const ranks_matrix *b,
                     ranks_matrix *c);
} ranks_engine;

/* The symbol of the loadable part. */
typedef const ranks_engine *ranks_engine_fn(void);
#define RANKS_ENGINE_SYMBOL "circe_ranks_engine"
