/* Memory for names, lists and messages. They are small, and code that needs a few bytes cannot continue without them.
 * So there is a reserve: if the machine has no more memory, the reserve is released, the allocation succeeds, and the
 * job ends with CIRCE_ERR_MEMORY. Without a reserve, or once that is used up too, the program aborts. Arrays of data
 * are allocated in places that can report the failure.
 */
#pragma once

#include <stddef.h>

#include "base/owned.h"
#include "circe/status.h"

/* Zeros. */
void *small_alloc(size_t bytes);
void *small_grow(void *block, size_t bytes);
char *small_format(const char *format, ...) CIRCE_PRINTF(1, 2);

/* At the beginning of a job: makes sure of the reserve. `mark` is for the end, which returns CIRCE_ERR_MEMORY, with its
 * text, if a job that otherwise succeeded ran out of memory. Any number of jobs may run at a time. */
circe_status small_begin(unsigned *mark);
circe_status small_end(unsigned mark, circe_status status);
