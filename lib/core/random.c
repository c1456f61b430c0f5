/* Philox 4x32-10 from Random123: counter (position, stream) under key (seed), four 32-bit words a block. */
#include "circe/random.h"

#include <Random123/philox.h>
#include <math.h>

#include "core/core.h"
#include "core/threads.h"

static philox4x32_ctr_t block(circe_random generator, uint64_t index) {
    philox4x32_ctr_t counter = {
        {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)generator.stream, (uint32_t)(generator.stream >> 32)}};
    philox4x32_key_t key = {{(uint32_t)generator.seed, (uint32_t)(generator.seed >> 32)}};
    return philox4x32(counter, key);
}

/* Compiled for wider vectors too, where the loader can choose. */
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define VECTORS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define VECTORS
#endif

/* 53 bits in the middle of their cell, so that neither 0 nor 1 occurs. */
static double unit(uint32_t high, uint32_t low) {
    int64_t bits = (int64_t)(((uint64_t)high << 32 | low) >> 11); /* signed numbers become doubles faster */
    return ((double)bits + 0.5) * 0x1p-53;
}

/* A block gives two doubles. */
static double uniform_at(circe_random generator, uint64_t position) {
    philox4x32_ctr_t words = block(generator, position / 2);
    return position % 2 == 0 ? unit(words.v[0], words.v[1]) : unit(words.v[2], words.v[3]);
}

/* LANES blocks from `index` on: word w of block k is words[w][k]. The rounds of Philox written as loops over the
 * blocks, which compilers make vector instructions of; the same numbers as those of block(). */
enum { LANES = 16 };

static inline __attribute__((always_inline)) void many_blocks(circe_random generator, uint64_t index,
                                                              uint32_t words[4][LANES]) {
    uint32_t key0 = (uint32_t)generator.seed, key1 = (uint32_t)(generator.seed >> 32);
    for (int k = 0; k < LANES; k++) {
        words[0][k] = (uint32_t)(index + (uint64_t)k);
        words[1][k] = (uint32_t)((index + (uint64_t)k) >> 32);
        words[2][k] = (uint32_t)generator.stream;
        words[3][k] = (uint32_t)(generator.stream >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int k = 0; k < LANES; k++) {
            uint64_t even = (uint64_t)PHILOX_M4x32_0 * words[0][k], odd = (uint64_t)PHILOX_M4x32_1 * words[2][k];
            words[0][k] = (uint32_t)(odd >> 32) ^ words[1][k] ^ key0;
            words[1][k] = (uint32_t)odd;
            words[2][k] = (uint32_t)(even >> 32) ^ words[3][k] ^ key1;
            words[3][k] = (uint32_t)even;
        }
        key0 += PHILOX_W32_0;
        key1 += PHILOX_W32_1;
    }
}

VECTORS static void fill_uniform(circe_random generator, uint64_t first, int64_t n, double *out) {
    int64_t i = 0;
    uint32_t words[4][LANES];
    if (n > 0 && first % 2 != 0) out[i++] = uniform_at(generator, first);
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        many_blocks(generator, (first + (uint64_t)i) / 2, words);
        for (int k = 0; k < LANES; k++) {
            out[i + 2 * k] = unit(words[0][k], words[1][k]);
            out[i + 2 * k + 1] = unit(words[2][k], words[3][k]);
        }
    }
    for (; i < n; i++) out[i] = uniform_at(generator, first + (uint64_t)i);
}

/* A function with clones that the loader chooses from has no symbol of its own in the library; this one has. */
void circe_random_uniform(circe_random generator, uint64_t first, int64_t n, double *out) {
    CIRCE_OWN_SETTINGS;
    fill_uniform(generator, first, n, out);
}

/* Box and Muller: positions 2k and 2k+1 are the cosine and the sine of the same block. */
static double normal_at(circe_random generator, uint64_t position) {
    philox4x32_ctr_t words = block(generator, position / 2);
    double radius = sqrt(-2.0 * log(unit(words.v[0], words.v[1])));
    double angle = 6.283185307179586476925 * unit(words.v[2], words.v[3]);
    return position % 2 == 0 ? radius * cos(angle) : radius * sin(angle);
}

void circe_random_normal(circe_random generator, uint64_t first, int64_t n, double *out) {
    CIRCE_OWN_SETTINGS;
    for (int64_t i = 0; i < n; i++) out[i] = normal_at(generator, first + (uint64_t)i);
}

/* Uniform on 0..n-1: n * u truncated has a bias below n * 2^-53. */
static int64_t below(double u, int64_t n) {
    int64_t k = (int64_t)(u * (double)n);
    return k < n ? k : n - 1;
}

/* Fisher and Yates: number i of the stream decides which of 0..i swaps places with i. */
void circe_random_permutation(circe_random generator, int64_t n, int64_t *out) {
    CIRCE_OWN_SETTINGS;
    enum { PIECE = 256 };
    double u[PIECE];
    for (int64_t i = 0; i < n; i++) out[i] = i;
    for (int64_t end = n; end > 1;) {
        int64_t first = (end - 1) / PIECE * PIECE;
        circe_random_uniform(generator, (uint64_t)first, end - first, u);
        for (int64_t i = end - 1; i >= circe__max(first, 1); i--) {
            int64_t j = below(u[i - first], i + 1), kept = out[i];
            out[i] = out[j];
            out[j] = kept;
        }
        end = first;
    }
}

/* A stretch of numbers, and which of them may be taken: a bit each. */
enum { WORD = 64, STRETCH = 1 << 18 };

typedef struct drawing {
    circe_random generator;
    int64_t n, first, end;
    double left; /* numbers to take from here on, at most */
    uint64_t *may;
} drawing;

/* Words [word, end) of the stretch. */
static void run_drawing(void *user, int64_t word, int64_t end) {
    const drawing *d = user;
    for (; word < end; word++) {
        int64_t i0 = d->first + word * WORD, here = circe__min(WORD, d->end - i0);
        double drawn[WORD];
        uint64_t bits = 0;
        circe_random_uniform(d->generator, (uint64_t)i0, here, drawn);
        for (int64_t b = 0; b < here; b++) bits |= (uint64_t)(drawn[b] * (double)(d->n - i0 - b) < d->left) << b;
        d->may[word] = bits;
    }
}

/* Knuth's selection sampling: one ascending pass that takes i with the probability (k - taken) / (n - i). The count
 * `taken` is inherently serial. But it can only grow, so few numbers can be taken at all, and threads find these
 * candidates in each stretch of numbers. */
void circe__random_subset(int threads, circe_random generator, int64_t n, int64_t k, int64_t *out) {
    enum { LEAST = 16 }; /* words: 5 microseconds */
    uint64_t may[STRETCH / WORD] = {0};
    int64_t taken = 0;
    for (int64_t first = 0; first < n && taken < k; first += STRETCH) {
        int64_t end = circe__min(n, first + STRETCH), words = (end - first + WORD - 1) / WORD;
        drawing d = {generator, n, first, end, (double)(k - taken), may};
        circe__run_ranges(threads, words, LEAST, run_drawing, &d);
        for (int64_t word = 0; word < words; word++)
            for (uint64_t bits = may[word]; bits != 0 && taken < k; bits &= bits - 1) {
                int64_t i = first + word * WORD + __builtin_ctzll(bits);
                if (uniform_at(generator, (uint64_t)i) * (double)(n - i) < (double)(k - taken)) out[taken++] = i;
            }
    }
}

void circe_random_subset(circe_random generator, int64_t n, int64_t k, int64_t *out) {
    CIRCE_OWN_SETTINGS;
    circe__random_subset(1, generator, n, k, out);
}
