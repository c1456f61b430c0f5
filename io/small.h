/* Memory for names, lists and messages, which are small: without some bytes there is no way on, so these end the
 * program (abort). Arrays of data are allocated where the failure can be reported. */
#ifndef IO_SMALL_H
#define IO_SMALL_H

#include <stddef.h>

#include "circe/export.h"

/* Zeros. */
void *small_alloc(size_t bytes);
void *small_grow(void *block, size_t bytes);
char *small_format(const char *format, ...) CIRCE_PRINTF(1, 2);

#endif
