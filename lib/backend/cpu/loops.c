/* The hot loops of the CPU, compiled once for every instruction set and precision (see lib/CMakeLists.txt).
 *
 * All three operations walk square tiles of TILE points by TILE points, so that the tile buffers stay in the first
 * cache, symmetric matrices are visited once (J <= I), and no matrix other than the caller's is ever written.
 *
 *     a, b, x, y      points (n, d), row-major          bt, xt, yt   the same transposed, (d, n_pad)
 *     K, W, D         tiles (TILE, TILE)
 *
 * Sums over points are taken in REAL inside a tile and in double across tiles. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/algebra.h"
#include "backend/cpu/loops.h"
#include "core/core.h"

#ifdef CIRCE_REAL_f32
#define REAL float
#define SQRT sqrtf
#define SUFFIX f32
#define EXP_LOWEST (-87.0f)
#define EXP_TINY 1.7e-38f /* a little above exp(EXP_LOWEST) */
#else
#define REAL double
#define SQRT sqrt
#define SUFFIX f64
#define EXP_LOWEST (-345.0)
#define EXP_TINY 1.5e-150
#endif
#define PASTE_(a, b, c) a##_##b##_##c
#define PASTE(a, b, c) PASTE_(a, b, c)
#define FN(name) PASTE(circe__##name, CIRCE_ISA, SUFFIX)

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(REAL)))

enum {
    TILE = 256 / sizeof(REAL), /* 64 or 32: a tile is 16 or 8 kB */
    AREA = TILE * TILE,
    NARROW = 4, /* up to this many columns the gradient runs over points, beyond over columns */
};

typedef REAL vec __attribute__((vector_size(VECTOR_BYTES)));
typedef REAL vec_any __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const REAL *p) { return *(const vec_any *)p; }
INLINE void store(REAL *p, vec v) { *(vec_any *)p = v; }
INLINE vec splat(REAL a) { return a - (vec){0}; }

/* By halves: the sum of a tile's row, in the precision of the tile. */
INLINE double sum_lanes(vec v) {
    REAL sums[LANES];
    store(sums, v);
    for (int64_t half = LANES / 2; half > 0; half /= 2)
        for (int64_t l = 0; l < half; l++) sums[l] += sums[l + half];
    return (double)sums[0];
}

INLINE int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Each part uses those above it. */
/* clang-format off */
#include "backend/cpu/exp.inc"
#include "backend/cpu/tiles.inc"
#include "backend/cpu/gram.inc"
#include "backend/cpu/product.inc"
#include "backend/cpu/contract.inc"
#include "backend/cpu/curves.inc"
#include "backend/cpu/measure.inc"
#include "backend/cpu/factor.inc"
#include "backend/cpu/reduce.inc"
#include "backend/cpu/cosine.inc"
/* clang-format on */

const circe__loops FN(loops) = {
    .gram_bytes = gram_bytes,
    .gram = gram,
    .product_bytes = product_bytes,
    .product = product,
    .shift = shift_rows,
    .contract_bytes = contract_bytes,
    .contract = contract,
    .measure_bytes = measure_bytes,
    .measure = measure,
    .factor_bytes = factor_bytes,
    .factor = factor,
    .reduce = reduce,
    .reflect = reflect,
    .cosines = cosines,
};
