/* Text files, written whole or not at all. */
#pragma once

#include <stddef.h>

#include "circe/status.h"

circe_status file_write_text(const char *path, const char *text, size_t bytes);

struct circe__atomic;
/* Ends the writing of a file (files/atomic.h). If there was a problem before (an errno), CIRCE_ERR_WRITE names it. */
circe_status file_finish(struct circe__atomic *file, const char *path, int problem);
circe_status file_refuse(const char *path, int problem);
