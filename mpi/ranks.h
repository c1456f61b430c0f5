/* Several processes as one: opened where a launcher (mpirun, srun) started more than one of this program, and otherwise
 * one process that is everything. There is one set of ranks, as MPI has it. Functions marked "all" are called by every
 * process in the same order. */
#ifndef RANKS_H
#define RANKS_H

#include <stdbool.h>

#include "circe/status.h"
#include "mpi/engine.h"
#include "mpi/launch.h"

/* Loads MPI and starts it where a launcher is seen that started several, else does nothing. All. A failure has a text
 * in circe_last_error; then the processes do not know of each other, and only the launch tells which may speak. */
circe_status ranks_open(void);
/* All: waits for the others. */
void ranks_close(void);
/* Ends every process at once, with status 1, for a failure that the others cannot know of, with its text, after the
 * process's name, to whoever speaks for the program. */
__attribute__((noreturn)) void ranks_give_up(const char *text);
void ranks_speak_last(void (*speak)(const char *text));

int ranks_rank(void);
int ranks_size(void);
static inline bool ranks_several(void) { return ranks_size() > 1; }
static inline bool ranks_first(void) { return ranks_rank() == 0; }
/* Processes on this machine, with this one. */
int ranks_neighbours(void);
const char *ranks_host(void);
/* Cores for this process: those it is bound to, or its share of the machine's. */
int64_t ranks_cores(void);

/* NULL: one process. */
const ranks_engine *ranks_engine_used(void);

void ranks_broadcast(int from, void *data, size_t bytes);
void ranks_sum(double *values, int64_t n);
void ranks_gather(const void *own, size_t bytes, void *everyones);

/* All: the first process that reports something other than 0 decides. Returns what it reported, with its number in *who
 * and its text in `text` of RANKS_TEXT_BYTES, everywhere; 0, with nothing changed, where none did. */
enum { RANKS_TEXT_BYTES = 2048 };
int ranks_first_report(int report, char *text, int *who);

/* The same for the status of a call of the library, whose text becomes circe_last_error. */
circe_status ranks_agree(circe_status status);

/* All: CIRCE_ERR_VALUE, with a text that names the first process that has other bytes than process 0, and `what` they
 * are. */
circe_status ranks_same(const void *data, size_t bytes, const char *what);

/* A hash of bytes, to be gone on with: starts at 0. */
uint64_t ranks_hash(uint64_t hash, const void *data, size_t bytes);

#endif
