/* Which pairs of n rows the width of a batch is the median of (circe/scaling.h): pair p is rows i = p % n and
 * i + offset(p / n) modulo n. Evenly spaced offsets meet neighbours and strangers alike, should the rows be sorted. */
#ifndef CIRCE_MEASURES_PAIRS_H
#define CIRCE_MEASURES_PAIRS_H

#include <stdint.h>

#ifdef __CUDACC__
#define CIRCE__BOTH __host__ __device__
#else
#define CIRCE__BOTH
#endif

enum { CIRCE__LEAST_PAIRS = 2048, CIRCE__LEAST_OFFSETS = 4 };

/* Offsets in use; n / 2: every pair is. */
CIRCE__BOTH static inline int64_t circe__pair_offsets(int64_t n) {
    int64_t half = n / 2, wanted = (CIRCE__LEAST_PAIRS + n - 1) / n;
    if (wanted < CIRCE__LEAST_OFFSETS) wanted = CIRCE__LEAST_OFFSETS;
    return wanted < (n - 1) / 2 ? wanted : half;
}

CIRCE__BOTH static inline int64_t circe__n_pairs(int64_t n) {
    int64_t offsets = circe__pair_offsets(n);
    return offsets == n / 2 ? n * (n - 1) / 2 : n * offsets;
}

CIRCE__BOTH static inline int64_t circe__pair_offset(int64_t n, int64_t k) {
    int64_t offsets = circe__pair_offsets(n), most = (n - 1) / 2;
    return offsets == n / 2 ? k + 1 : 1 + (2 * k + 1) * most / (2 * offsets);
}

#endif
