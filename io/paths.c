/* Early checks of places to write to. */
#include "io/paths.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/small.h"

circe_status path_check_writable(const char *option, const char *path) {
    struct stat info;
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return circe_fail(CIRCE_ERR_WRITE, "%s %s: is a folder, not a file to write to", option, path);
        if (access(path, W_OK) != 0) return circe_fail(CIRCE_ERR_WRITE, "%s %s: %s", option, path, strerror(errno));
        return CIRCE_OK;
    }
    const char *slash = strrchr(path, '/');
    OWNED char *folder =
        slash == NULL ? small_format(".") : small_format("%.*s", (int)(slash - path + (slash == path)), path);
    circe_status status = CIRCE_OK;
    if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))
        status = circe_fail(CIRCE_ERR_WRITE, "%s %s: there is no folder %s", option, path, folder);
    else if (access(folder, W_OK | X_OK) != 0)
        status = circe_fail(CIRCE_ERR_WRITE, "%s %s: cannot write in %s: %s", option, path, folder, strerror(errno));
    return status;
}

/* `part` of the path, unless it is there. */
static circe_status make_folder(const char *path, const char *part) {
    struct stat info;
    if (mkdir(part, 0777) == 0) return CIRCE_OK;
    int error = errno;
    bool there = stat(part, &info) == 0;
    if (there && S_ISDIR(info.st_mode)) return CIRCE_OK;
    if (there) return circe_fail(CIRCE_ERR_WRITE, "cannot write to %s: %s is not a folder", path, part);
    return circe_fail(CIRCE_ERR_WRITE, "cannot create the folder %s: %s", path, strerror(error));
}

circe_status path_make_folder(const char *path) { return make_folder(path, path); }

circe_status path_make_folders(const char *path) {
    circe_status status = CIRCE_OK;
    for (size_t at = 1; status == CIRCE_OK && at <= strlen(path); at++) {
        if (path[at] != '/' && path[at] != '\0') continue;
        OWNED char *part = small_format("%.*s", (int)at, path);
        status = make_folder(path, part);
    }
    return status;
}

bool path_ends_with(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcasecmp(path + n - m, ending) == 0;
}
