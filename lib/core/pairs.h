/* The pairs of n rows whose median distance is the width of a batch (circe/scaling.h). With few rows, all pairs are
 * used. With many, pair p consists of row i = p % n and the row that follows it, modulo n, by offset number (i + p / n)
 * % 16. The offsets are evenly spaced from 1 to n / 2, so that near and distant rows are both paired if the rows are
 * sorted. */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define CIRCE__BOTH __host__ __device__
#else
#define CIRCE__BOTH
#endif

enum { CIRCE__ALL_PAIRS_ROWS = 64, CIRCE__LEAST_PAIRS = 1024, CIRCE__OFFSETS = 16 };

CIRCE__BOTH static inline int64_t circe__n_pairs(int64_t n) {
    if (n <= CIRCE__ALL_PAIRS_ROWS) return n * (n - 1) / 2;
    return n >= CIRCE__LEAST_PAIRS ? n : n * ((CIRCE__LEAST_PAIRS + n - 1) / n);
}

/* With many rows, every fourth pair is enough to describe the kernel: an exponential costs more than a distance. */
CIRCE__BOTH static inline int64_t circe__figure_step(int64_t n) { return n <= CIRCE__ALL_PAIRS_ROWS ? 1 : 4; }

/* The partner of row i = p % n in pair p. */
CIRCE__BOTH static inline int64_t circe__pair_partner(int64_t n, int64_t p) {
    int64_t i = p % n, round = p / n, k = (i + round) % CIRCE__OFFSETS;
    int64_t offset = n <= CIRCE__ALL_PAIRS_ROWS ? round + 1 : 1 + (2 * k + 1) * ((n - 1) / 2) / (2 * CIRCE__OFFSETS);
    return i + offset < n ? i + offset : i + offset - n;
}
