/* Several processes as one. The ranks are opened if a launcher (mpirun, srun) started more than one process of this
 * program; otherwise this process is the only rank. There is one set of ranks, as in MPI. Every process calls the
 * functions marked "all", in the same order. */
#pragma once

#include <stdbool.h>

#include "circe/status.h"
#include "mpi/engine.h"
#include "mpi/launch.h"

/* All: loads and starts MPI if a launcher started several processes, otherwise does nothing. A failure has a text in
 * circe_last_error. The processes then do not know each other, and only the launcher's variables say which one may
 * print. */
circe_status ranks_open(void);
/* All: waits for the others. */
void ranks_close(void);
/* Ends every process at once, with status 1, after a failure that the others cannot know about. The process that prints
 * for the program gets its text, after the name of the failed process. */
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

/* All: the first process that reports something other than 0 decides. Every process returns what it reported, with its
 * number in *who and its text in `text` of RANKS_TEXT_BYTES. If none did, returns 0 and changes nothing. */
enum { RANKS_TEXT_BYTES = 2048 };
int ranks_first_report(int report, char *text, int *who);

/* The same for the status of a call of the library, whose text becomes circe_last_error. */
circe_status ranks_agree(circe_status status);

/* All: CIRCE_ERR_VALUE, with a text that names the first process that has other bytes than process 0, and `what` they
 * are. */
circe_status ranks_same(const void *data, size_t bytes, const char *what);
