/* Places to write to. */
#pragma once

#include <stdbool.h>

#include "circe/status.h"

/* Whether a file could be created at `path`. Call it before long work rather than after it. The error names the
 * option. */
circe_status path_check_writable(const char *option, const char *path);

/* Creates a folder unless it exists; the second function also creates its parents. */
circe_status path_make_folder(const char *path);
circe_status path_make_folders(const char *path);

/* Whether a path ends so, in any case. */
bool path_ends_with(const char *path, const char *ending);
