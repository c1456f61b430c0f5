#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "io/arena.h"
#include "io/io.h"

/* `part` of the path, unless it is there. */
static circe_status make_folder(const char *path, const char *part) {
    struct stat info;
    if (mkdir(part, 0777) == 0) return CIRCE_OK;
    int problem = errno;
    bool there = stat(part, &info) == 0;
    if (there && S_ISDIR(info.st_mode)) return CIRCE_OK;
    if (there) return circe_fail(CIRCE_ERR_IO, "cannot write to %s: %s is no folder", path, part);
    return circe_fail(CIRCE_ERR_IO, "cannot make the folder %s: %s", path, strerror(problem));
}

circe_status io_make_folder(const char *path) { return make_folder(path, path); }

circe_status io_make_folders(const char *path) {
    arena owner = {0};
    circe_status status = CIRCE_OK;
    for (size_t at = 1; status == CIRCE_OK && at <= strlen(path); at++)
        if (path[at] == '/' || path[at] == '\0')
            status = make_folder(path, arena_format(&owner, "%.*s", (int)at, path));
    arena_free(&owner);
    return status;
}
