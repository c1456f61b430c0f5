/* Sums, gathers and broadcasts among processes of one machine, in memory that they share (engine_shared.c). Calls are
 * made by all of them in the same order, from one thread each, and do not fail. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether there is such memory: asked for at the first call. It is there where all processes are on one machine, and
 * CIRCE_CLUSTER=messages does not forbid it. The same answer everywhere. */
bool shared_open(void);
/* Without asking. */
bool shared_there(void);
void shared_close(void);

/* As engine.h has them. */
void shared_sum_begin(void *values, int64_t n, bool floats, double weight);
void shared_sums_move(void);
void shared_sums_end(void);
void shared_gather_parts(const void *own, const size_t *bytes, void *everyones);
void shared_broadcast(int from, void *data, size_t bytes);
