/* Counter-based random numbers (Philox 4x32-10): the number at (seed, stream, position) is a pure function, so any
 * thread, machine or language draws the same numbers, in any order. */
#ifndef CIRCE_RANDOM_H
#define CIRCE_RANDOM_H

#include <stdint.h>

#include "circe/context.h"

CIRCE_BEGIN_DECLS

typedef struct circe_random {
    uint64_t seed;
    uint64_t stream; /* independent sequences under one seed */
} circe_random;

/* out[i] = the number at position `first + i`. Uniform on (0, 1); standard normal. */
CIRCE_API void circe_random_uniform(circe_random generator, uint64_t first, int64_t n, double *out);
/* Standard normal numbers. */
CIRCE_API void circe_random_normal(circe_random generator, uint64_t first, int64_t n, double *out);

/* A random order of 0..n-1. */
CIRCE_API void circe_random_permutation(circe_random generator, int64_t n, int64_t *out);

/* k distinct numbers out of 0..n-1, ascending. */
CIRCE_API void circe_random_subset(circe_random generator, int64_t n, int64_t k, int64_t *out);

CIRCE_END_DECLS

#endif
