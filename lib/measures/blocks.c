/* The mean of a measure over random blocks of rows, with its standard error.
 *
 *     n rows -> K disjoint blocks of B rows at random,  value = mean of m_k,  standard error = sd(m_k) / sqrt(K)
 *
 * How B is chosen: a measure of B rows costs B^2 or more, and under dependence its variance falls with 1 / B, so small
 * blocks use the time best. But estimators from few rows have a bias of about 1 / B, and the mean over blocks keeps it.
 * So B is as large as possible while LEAST_BLOCKS blocks, enough for a standard error, fit into the time. Sizes are
 * tried from the smallest on, and doubled as long as eight times the time of the last one (a doubled block of a measure
 * of cubic cost) leaves room. Then blocks follow until the time is spent.
 *
 * The number of blocks may depend on the machine; the rows of block k do not. */
#include <math.h>
#include <stdlib.h>

#include "circe/blocks.h"
#include "core/core.h"

enum { FIRST_ROWS = 512, MOST_ROWS = 8192, LEAST_BLOCKS = 16, MOST_BLOCKS = 10000, PAIR_BYTES = 80 };

static const uint64_t stream = 0x626c6f636b73u; /* "blocks" */

double circe_context_memory(const circe_context *context) { return circe__memory_available(context); }

int64_t circe_rows_at_once(const circe_context *context, double bytes_per_pair, double bytes_per_row) {
    double half = 0.5 * circe__memory_available(context), most = 9e15;
    if (bytes_per_pair > 0.0) /* the root of pair n^2 + row n = half */
        most = 2.0 * half / (bytes_per_row + sqrt(bytes_per_row * bytes_per_row + 4.0 * bytes_per_pair * half));
    else if (bytes_per_row > 0.0)
        most = half / bytes_per_row;
    return most < 9e15 ? (int64_t)most : INT64_MAX;
}

void circe_block_options_init(circe_block_options *options) {
    if (options != NULL) *options = (circe_block_options){.seconds = 20.0};
}

typedef struct drawing {
    circe_context *context;
    circe_block_fn measure;
    void *user;
    int64_t n; /* rows there are */
    uint64_t key;
    int half_bits;
    int64_t *rows; /* of the block at hand */
    double start;
} drawing;

static int ascending(const void *a, const void *b) {
    int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    return (i > k) - (i < k);
}

static uint64_t mix(uint64_t bits) { /* splitmix64's */
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
}

static int half_bits(int64_t n) {
    int bits = 1;
    while (bits < 31 && 1ll << 2 * bits < n) bits++;
    return bits;
}

/* Place i of a random order of all rows, without making that order: a Feistel network permutes the numbers of an even
 * number of bits, and is repeated until it ends at a row. */
static int64_t row_at(const drawing *d, int64_t i) {
    enum { ROUNDS = 6 };
    uint64_t mask = (1ull << d->half_bits) - 1, at = (uint64_t)i;
    do {
        uint64_t left = at >> d->half_bits, right = at & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t next = left ^ (mix(d->key + round * 0x9e3779b97f4a7c15u + right) & mask);
            left = right;
            right = next;
        }
        at = left << d->half_bits | right;
    } while (at >= (uint64_t)d->n);
    return (int64_t)at;
}

/* Block k, of n rows, in ascending order: files are read forward. */
static circe_status measure_block(const drawing *d, int64_t k, int64_t n, double *value) {
    for (int64_t i = 0; i < n; i++) d->rows[i] = row_at(d, k * n + i);
    qsort(d->rows, (size_t)n, sizeof *d->rows, ascending);
    circe_status status = d->measure(d->user, d->rows, n, value);
    if (status == CIRCE_OK && !isfinite(*value))
        status =
            circe_fail(CIRCE_ERR_NUMERIC, "the measure of a block of %lld rows is not a finite number", (long long)n);
    return status;
}

/* Seconds that a block of n rows takes. */
static circe_status probe(const drawing *d, int64_t n, double *seconds) {
    double value, start = 0.0;
    circe_status status = CIRCE_OK;
    for (int turn = 0; status == CIRCE_OK && turn < 2; turn++) { /* the first one makes room */
        start = circe__seconds();
        status = measure_block(d, 0, n, &value);
        if (circe__seconds() - start > 0.5) break;
    }
    *seconds = circe__seconds() - start;
    return status;
}

/* The size of a block and the time that one takes. */
static circe_status choose_rows(const drawing *d, const circe_block_options *options, int64_t *block, double *seconds) {
    int64_t most = circe__min(d->n / 2, circe__min(MOST_ROWS, circe_rows_at_once(d->context, PAIR_BYTES, 0.0)));
    *block = circe__min(options->block_rows > 0 ? options->block_rows : FIRST_ROWS, circe__max(d->n / 2, 1));
    circe_status status = probe(d, *block, seconds);
    if (options->block_rows > 0) return status;
    while (status == CIRCE_OK && 2 * *block <= most && 8.0 * *seconds * LEAST_BLOCKS <= options->seconds) {
        *block *= 2;
        status = probe(d, *block, seconds);
    }
    return status;
}

/* How many blocks at most: what is asked for, or what the time seems to allow. */
static int64_t choose_blocks(const drawing *d, const circe_block_options *options, int64_t block, double seconds) {
    double left = options->seconds - (circe__seconds() - d->start);
    double worth = ceil(1.5 * fmax(left, 0.0) / fmax(seconds, 1e-9));
    int64_t most = circe__min(d->n / block, MOST_BLOCKS);
    if (options->blocks > 0) return circe__min(options->blocks, d->n / block);
    return circe__max(2, worth < (double)most ? (int64_t)worth : most);
}

/* Welford's mean and sum of squares, until all blocks are done or the time is spent. */
static circe_status run(const drawing *d, const circe_block_options *options, int64_t most,
                        circe_block_result *result) {
    double mean = 0.0, squares = 0.0;
    int64_t k = 0, n = result->block_rows;
    for (; k < most; k++) {
        bool spent = circe__seconds() - d->start > options->seconds;
        if (options->blocks == 0 && k >= 2 && spent) break;
        double value;
        circe_status status = measure_block(d, k, n, &value);
        if (status == CIRCE_OK) status = circe__progress(d->context, "blocks", k + 1, most);
        if (status != CIRCE_OK) return status;
        double step = value - mean;
        mean += step / (double)(k + 1);
        squares += step * (value - mean);
    }
    result->value = mean;
    result->standard_error = sqrt(squares / (double)(k - 1) / (double)k);
    result->blocks = k;
    return CIRCE_OK;
}

static circe_status check(int64_t rows, const circe_block_options *o) {
    if (o->block_rows < 0 || o->blocks < 0 || o->blocks == 1)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "%lld blocks of %lld rows; there must be at least 2 blocks, or 0 for automatic",
                          (long long)o->blocks, (long long)o->block_rows);
    if (!(o->seconds > 0.0)) return circe_fail(CIRCE_ERR_ARGUMENT, "seconds is %g; it must be positive", o->seconds);
    int64_t least = o->block_rows > 0 ? o->block_rows : FIRST_ROWS, blocks = circe__max(o->blocks, 2);
    if (rows / blocks < least)
        return circe_fail(CIRCE_ERR_SHAPE, "there are %lld rows; %lld blocks of %lld rows need more", (long long)rows,
                          (long long)blocks, (long long)least);
    return CIRCE_OK;
}

circe_status circe_measure_blocks(circe_context *context, int64_t rows, const circe_block_options *given,
                                  circe_block_fn measure, void *user, circe_block_result *result) {
    CIRCE_OWN_SETTINGS;
    circe_block_options options;
    double seconds = 0.0;
    circe_block_options_init(&options);
    if (given != NULL) options = *given;
    if (context == NULL || measure == NULL || result == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, measure and result must not be NULL");
    circe_status status = check(rows, &options);
    if (status != CIRCE_OK) return status;
    *result = (circe_block_result){0};
    drawing d = {context, measure, user, rows, mix(options.seed ^ stream), half_bits(rows), NULL, circe__seconds()};
    d.rows = circe__alloc(context, circe__max(options.block_rows, MOST_ROWS), sizeof *d.rows);
    if (d.rows == NULL) return CIRCE_ERR_MEMORY;
    status = choose_rows(&d, &options, &result->block_rows, &seconds);
    if (status == CIRCE_OK)
        status = run(&d, &options, choose_blocks(&d, &options, result->block_rows, seconds), result);
    circe__free(context, d.rows);
    result->seconds = circe__seconds() - d.start;
    return status;
}
