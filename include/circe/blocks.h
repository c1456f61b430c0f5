/* Measures of more rows than fit into memory at once, as the mean over random blocks of rows.
 *
 * Every measure compares rows in pairs, so its memory is quadratic in the rows. The mean over blocks is linear in the
 * rows and has a standard error: blocks have no rows in common, so their values are nearly independent. Each block is
 * measured separately, so everything that depends on the number of rows (the bias of an estimator, KCI's statistic, a
 * ridge) refers to `block_rows` rows. docs/performance.md says how blocks are chosen. */
#ifndef CIRCE_BLOCKS_H
#define CIRCE_BLOCKS_H

#include "circe/context.h"

CIRCE_BEGIN_DECLS

/* The bytes that this context may use: its limit, or the free memory of the machine. */
CIRCE_API double circe_context_memory(const circe_context *context);

/* The largest number of rows that needs at most half of that memory, at so many bytes per pair of rows and per row. */
CIRCE_API int64_t circe_rows_at_once(const circe_context *context, double bytes_per_pair, double bytes_per_row);

/* Measures the rows rows[0..n), in ascending order. */
typedef circe_status (*circe_block_fn)(void *user, const int64_t *rows, int64_t n, double *value);

typedef struct circe_block_options {
    int64_t block_rows; /* 0: the largest power of two from 512 to 8,192 that memory and `seconds` allow */
    int64_t blocks;     /* 0: as many as `seconds` and the rows allow */
    double seconds;     /* about how long to measure, at least two blocks; default 20 */
    uint64_t seed;      /* the same seed and sizes give the same blocks */
} circe_block_options;

/* Sets every field to its default. */
CIRCE_API void circe_block_options_init(circe_block_options *options);

typedef struct circe_block_result {
    double value;          /* the mean over the blocks */
    double standard_error; /* of that mean */
    int64_t blocks, block_rows;
    double seconds;
} circe_block_result;

/* Measures at least two blocks out of `rows` rows. options NULL: the defaults. */
CIRCE_API circe_status circe_measure_blocks(circe_context *context, int64_t rows, const circe_block_options *options,
                                            circe_block_fn measure, void *user, circe_block_result *result);

CIRCE_END_DECLS

#endif
