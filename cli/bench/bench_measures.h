/* The speed of the measures beside CIRCE: part of `circe bench`. */
#ifndef CLI_BENCH_MEASURES_H
#define CLI_BENCH_MEASURES_H

#include "cli/common/output.h"
#include "cli/common/session.h"

typedef struct measure_time {
    const char *measure;
    int64_t n;
    bool gradient; /* loss and gradient in float32; otherwise the value in float64 */
    double value, median, q1, q3;
    int64_t repetitions;
} measure_time;

enum { MAX_MEASURE_TIMES = 16 };

typedef struct measure_times {
    measure_time rows[MAX_MEASURE_TIMES];
    int64_t n;
} measure_times;

/* Times them, each for `budget` seconds. Prints what is wrong and returns an exit status. */
int bench_measures(const session *s, uint64_t seed, double budget, bool quick, measure_times *out);

void bench_measures_print(const measure_times *times);
void bench_measures_json(cJSON *object, const measure_times *times);

#endif
