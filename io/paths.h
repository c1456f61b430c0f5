/* Places to write to. */
#ifndef IO_PATHS_H
#define IO_PATHS_H

#include <stdbool.h>

#include "circe/status.h"

/* Whether a file could be created at `path`, asked before long work rather than after it. Names the
 * option it was given with. */
circe_status path_check_writable(const char *option, const char *path);

/* Makes a folder unless it is there; the second, those above it as well. */
circe_status path_make_folder(const char *path);
circe_status path_make_folders(const char *path);

/* Whether a path ends so, in any case. */
bool path_ends_with(const char *path, const char *ending);

#endif
