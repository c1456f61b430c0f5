/* Text files, written whole or not at all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "circe/status.h"

/* The text of a file, up to its first zero byte; to be freed. NULL: it cannot be read. */
char *file_read_text(const char *path);

/* Every byte, whatever signals come; false: errno says why. */
bool file_write_all(int descriptor, const void *bytes, size_t n);

circe_status file_write_text(const char *path, const char *text, size_t bytes);

struct circe__atomic;
/* Ends the writing of a file (files/atomic.h). If there was a problem before (an errno), CIRCE_ERR_WRITE names it. */
circe_status file_finish(struct circe__atomic *file, const char *path, int problem);
circe_status file_refuse(const char *path, int problem);
