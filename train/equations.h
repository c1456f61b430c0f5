/* The four structural causal models of the paper's appendix, one point at a time, shared by what draws them, what
 * intervenes in them and what integrates over them.
 *
 *     Y, e_Z ~ N(0, 1);  e_A, e_B ~ N(0, 0.1), read as a variance. Read as a standard deviation it changes floors and
 *     VCFs by 0.1 % at most: the noises enter with small factors.
 *
 *     univariate 1      Z = Y^2 + e_Z      A = 0.5 Z e_A + 2Y
 *                                          B = 0.5 exp(-AY) sin(2AY) + 5Z + 0.2 e_B
 *     univariate 2      Z = Y^2 + e_Z      A = exp(-0.5 Z^2) sin(2Z) + 2Y + 0.2 e_A
 *                                          B = exp(-0.5 AY) sin(2AY) + 5Z + 0.2 e_B
 *     multivariate 1    Z_i = Y^2 + e_Zi   A = exp(-0.5 Z_1) + sin(Y) sum_i Z_i + 0.1 e_A
 *                                          B = exp(-0.5 Z_2) sum_i Z_i + AY + 0.1 e_B
 *     multivariate 2    Z = Y'Y + e_Z      A = exp(-0.5 Z) + sin(sum_i Y_i) Z + 0.1 e_A
 *                                          B = exp(-0.5 Z) Z + sum_i Y_i + Z + A Y_1 + 0.1 e_B
 *
 * A and B see y and z through three numbers each, whatever d. e_B only adds to B: without it B is E[B | A, Y, Z], the
 * best prediction there is. */
#pragma once

#include <math.h>

#include "train/synthetic.h"

#define EQUATION_NOISE_VARIANCE 0.1
#define EQUATION_NOISE_DEVIATION 0.31622776601683794 /* its root */

/* Streams of random numbers under one seed; those that a row tells apart add it. */
enum { EQUATION_STREAM_BITS = 48 };
typedef enum equation_stream {
    EQUATION_Y = 1,
    EQUATION_Z = 2,
    EQUATION_A = 3,
    EQUATION_B = 4,
    EQUATION_Z_GIVEN_Y = 5,
    EQUATION_Z_OF_ROWS = 6,
    EQUATION_LIMITS_Y = 7,
    EQUATION_LIMITS = 8,
    EQUATION_FLOOR = 9,
} equation_stream;

static inline circe_random equation_random(uint64_t seed, equation_stream stream, int64_t row) {
    return (circe_random){.seed = seed, .stream = ((uint64_t)stream << EQUATION_STREAM_BITS) + (uint64_t)row};
}

typedef struct equation_y {
    double first, sum, square; /* y_1, sum_i y_i, y'y */
} equation_y;

typedef struct equation_z {
    double first, second, sum; /* z_1, z_2, sum_i z_i */
} equation_z;

/* Adds `cols` more columns of a row. */
static inline void equation_add_y(equation_y *y, const double *values, int64_t cols) {
    for (int64_t c = 0; c < cols; c++) {
        y->sum += values[c];
        y->square += values[c] * values[c];
    }
}

static inline equation_y equation_read_y(const double *values, int64_t cols) {
    equation_y y = {.first = values[0]};
    equation_add_y(&y, values, cols);
    return y;
}

static inline equation_z equation_read_z(const double *values, int64_t cols) {
    equation_z z = {.first = values[0], .second = cols > 1 ? values[1] : 0.0};
    for (int64_t c = 0; c < cols; c++) z.sum += values[c];
    return z;
}

/* The mean of every column of Z given y. */
static inline double equation_mean_z(const equation_y *y) { return y->square; }

static inline double equation_a(synthetic_kind kind, const equation_y *y, const equation_z *z, double noise) {
    switch (kind) {
        case SYNTHETIC_UNIVARIATE_1:
            return 0.5 * z->first * noise + 2.0 * y->first;
        case SYNTHETIC_UNIVARIATE_2:
            return exp(-0.5 * z->first * z->first) * sin(2.0 * z->first) + 2.0 * y->first + 0.2 * noise;
        case SYNTHETIC_MULTIVARIATE_1:
        case SYNTHETIC_MULTIVARIATE_2:
            break;
    }
    return exp(-0.5 * z->first) + sin(y->sum) * z->sum + 0.1 * noise; /* the two differ in what has d columns */
}

/* B without its noise. */
static inline double equation_b(synthetic_kind kind, const equation_y *y, const equation_z *z, double a) {
    double ay = a * y->first;
    switch (kind) {
        case SYNTHETIC_UNIVARIATE_1:
            return 0.5 * exp(-ay) * sin(2.0 * ay) + 5.0 * z->first;
        case SYNTHETIC_UNIVARIATE_2:
            return exp(-0.5 * ay) * sin(2.0 * ay) + 5.0 * z->first;
        case SYNTHETIC_MULTIVARIATE_1:
            return exp(-0.5 * z->second) * z->sum + ay;
        case SYNTHETIC_MULTIVARIATE_2:
            break;
    }
    return exp(-0.5 * z->first) * z->first + y->sum + z->first + ay;
}

/* What e_B is multiplied with. */
static inline double equation_noise_b(synthetic_kind kind) {
    return kind == SYNTHETIC_UNIVARIATE_1 || kind == SYNTHETIC_UNIVARIATE_2 ? 0.2 : 0.1;
}

/* Var(B | A, Y, Z). */
static inline double equation_variance_b(synthetic_kind kind) {
    return equation_noise_b(kind) * equation_noise_b(kind) * EQUATION_NOISE_VARIANCE;
}

/* Mean of the squared differences from the mean over n - 1: unbiased. */
static inline double equation_variance(const double *values, int64_t n) {
    double mean = 0.0, sum = 0.0;
    for (int64_t i = 0; i < n; i++) mean += values[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) sum += (values[i] - mean) * (values[i] - mean);
    return sum / (double)(n - 1);
}
