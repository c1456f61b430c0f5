/* More rows than can be measured at once: the mean over random blocks, which the library draws (circe/blocks.h). */
#ifndef CLI_MEASURE_BLOCKS_H
#define CLI_MEASURE_BLOCKS_H

#include <cjson/cJSON.h>

#include "circe/blocks.h"
#include "cli/measure/measure_job.h"

/* Before reading: refuses what must be measured at once (--rows all, --grad) and cannot. `wanted` is of --rows,
 * `foreseen` the rows of the files or -1. */
int measure_blocks_foresee(const measure_job *job, int64_t wanted, int64_t foreseen);

/* Sets in_blocks, where the rows are too many to be measured at once or the options ask for blocks. */
int measure_blocks_decide(measure_job *job);

/* x, y and z := some rows to settle kernels, width and ridge on. */
int measure_blocks_sample(measure_job *job);

/* Rows to fit the mean on, and the same sample of the others. Fits, since how many rows serve depends on y. */
int measure_blocks_split(measure_job *job);

/* The value of one measure, of all rows or as the mean over blocks within `seconds`; `blocks` then tells how many and
 * the standard error (blocks->blocks = 0: at once). Prints nothing. */
circe_status measure_evaluate(const measure_job *job, circe_measure *made, double seconds, double *value,
                              circe_mat *grad, circe_block_result *blocks);

/* Rows that a value stands for. */
int64_t measure_rows(const measure_job *job, const circe_block_result *blocks);

/* "standard_error", "blocks", "block_rows", "rows_given"; nothing where all rows were measured at once. */
void measure_blocks_json(cJSON *out, const measure_job *job, const circe_block_result *blocks);
void measure_blocks_text(const measure_job *job, const circe_block_result *blocks);

#endif
