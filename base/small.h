/* Memory for names, lists and messages, which are small: what asks for some bytes has no way on without them. So there
 * is a reserve. Where the machine has no more memory, the reserve is given up, the bytes are had, and the job that
 * asked ends with CIRCE_ERR_MEMORY. Without a reserve, or once that is gone too, the program is ended (abort). Arrays
 * of data are allocated where the failure can be reported.
 */
#ifndef BASE_SMALL_H
#define BASE_SMALL_H

#include <stddef.h>

#include "circe/status.h"

/* Zeros. */
void *small_alloc(size_t bytes);
void *small_grow(void *block, size_t bytes);
char *small_format(const char *format, ...) CIRCE_PRINTF(1, 2);

/* At the beginning of a job: sees to the reserve. `mark` is for the end: CIRCE_ERR_MEMORY, with its text, where a job
 * that succeeded otherwise ran out of memory meanwhile. Any number of jobs at a time. */
circe_status small_begin(unsigned *mark);
circe_status small_end(unsigned mark, circe_status status);

#endif
