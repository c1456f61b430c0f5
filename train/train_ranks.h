/* Processes that train one network together: the operations that the loop needs. The program that started them fills
 * this table (the command does, over MPI); the loop knows nothing about messages. All processes call the functions in
 * the same order. Functions without a result cannot fail. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "circe/status.h"

enum { TRAIN_RANKS_TEXT = 1024 };

typedef struct train_ranks {
    int rank, size;
    /* The first process with a failure decides: every process gets its status, and its text in `text` of
     * TRAIN_RANKS_TEXT bytes. */
    circe_status (*agree)(circe_status status, char *text);
    /* Ends all processes with this text, after a failure of one process that the others cannot know about. */
    void (*give_up)(circe_status status, const char *text);
    void (*broadcast)(void *data, size_t bytes); /* that of process 0 */
    void (*sum)(double *values, int64_t n);
    void (*sum_of)(void *unused, void *values, int64_t n, int floats); /* as a circe_ranks has it */
    void (*sum_integers)(uint64_t *values, int64_t n);
    /* Blocks of bytes[rank] one after the other. */
    void (*gather)(const void *own, const size_t *bytes, void *everyones);
    /* Blocks out_bytes[rank] to each, in_bytes[rank] from each. */
    void (*exchange)(const void *out, const size_t *out_bytes, void *in, const size_t *in_bytes);
    /* Sums of float64 or float32 in place, each process's times its weight, under way until sum_end: any number at
     * once. sum_begin also moves those on that are under way, as does sum_move. */
    void (*sum_begin)(void *values, int64_t n, int floats, double weight);
    void (*sum_move)(void);
    void (*sum_end)(void);
} train_ranks;

/* Divides `total` items among `size` processes in near-equal parts, in order. Process `rank` has n items from the
 * returned one on. */
static inline int64_t train_ranks_slice(int64_t total, int rank, int size, int64_t *n) {
    int64_t first = total / size * rank + total % size * rank / size;
    int64_t end = total / size * (rank + 1) + total % size * (rank + 1) / size;
    *n = end - first;
    return first;
}
