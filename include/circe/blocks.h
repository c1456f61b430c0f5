/* More rows than can be compared with each other at once: a measure as the mean over random blocks of them.
 *
 * Every measure here compares rows in pairs, so its memory grows with the square of the rows. The mean over blocks
 * grows with the rows alone, and its standard error comes with it: blocks have no row in common, so their values are as
 * good as independent. Each block is measured on its own: what depends on the number of rows (the bias of an estimator,
 * KCI's statistic, a ridge) is that of `block_rows` rows. docs/performance.md says how blocks are chosen. */
#ifndef CIRCE_BLOCKS_H
#define CIRCE_BLOCKS_H

#include "circe/context.h"

CIRCE_BEGIN_DECLS

/* Bytes that work with this context may plan with: its limit, or what the machine has free now. */
CIRCE_API double circe_context_memory(const circe_context *context);

/* The most rows whose work, of so many bytes for each pair of rows and for each row, takes half of that memory. */
CIRCE_API int64_t circe_rows_at_once(const circe_context *context, double bytes_per_pair, double bytes_per_row);

/* The measure of the rows rows[0..n), ascending numbers. */
typedef circe_status (*circe_block_fn)(void *user, const int64_t *rows, int64_t n, double *value);

typedef struct circe_block_options {
    int64_t block_rows; /* 0: the largest power of two from 512 to 8,192 that memory and `seconds` allow */
    int64_t blocks;     /* 0: as many as `seconds` allow, or as there are rows for */
    double seconds;     /* to spend, about; there are two blocks at least. 20 */
    uint64_t seed;      /* of the blocks: the same seed and sizes give the same blocks */
} circe_block_options;

CIRCE_API void circe_block_options_init(circe_block_options *options);

typedef struct circe_block_result {
    double value;          /* the mean over the blocks */
    double standard_error; /* of that mean */
    int64_t blocks, block_rows;
    double seconds;
} circe_block_result;

/* Of `rows` rows at least two blocks. options NULL: the defaults. */
CIRCE_API circe_status circe_measure_blocks(circe_context *context, int64_t rows, const circe_block_options *options,
                                            circe_block_fn measure, void *user, circe_block_result *result);

CIRCE_END_DECLS

#endif
