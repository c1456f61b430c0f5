/* The speed of a training step: part of `circe bench`. */
#ifndef CLI_BENCH_TRAIN_H
#define CLI_BENCH_TRAIN_H

#include "cli/common/output.h"
#include "cli/common/session.h"

typedef struct train_time {
    const char *regularizer;
    double median, fastest, slowest; /* seconds of a step */
    double share;                    /* of them that the regulariser took */
} train_time;

enum { MAX_TRAIN_TIMES = 5 };

typedef struct train_times {
    train_time rows[MAX_TRAIN_TIMES];
    int64_t n, batch, holdout, repetitions, steps;
} train_times;

/* Prints what is wrong and returns an exit status. */
int bench_train(const session *s, const own_options *own, uint64_t seed, bool quick, train_times *out);

void bench_train_print(const train_times *times);
void bench_train_json(cJSON *object, const train_times *times);

#endif
