/* Places to write to. */
#ifndef CLI_PATHS_H
#define CLI_PATHS_H

#include <stdbool.h>

/* Whether a file could be created at `path`, asked before long work rather than after it: prints what is wrong and
 * returns an exit status. Names the option it was given with. */
int path_check_writable(const char *option, const char *path);

/* Makes a folder unless it is there. */
int path_make_folder(const char *path);

/* Whether a path ends so, in any case. */
bool path_ends_with(const char *path, const char *ending);

#endif
