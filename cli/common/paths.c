/* Early checks of places to write to. */
#include "cli/common/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/message.h"
#include "io/io.h"

int path_check_writable(const char *option, const char *path) {
    struct stat info;
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return message_fail(EXIT_WORK, "%s %s: is a folder, not a file to write to", option, path);
        if (access(path, W_OK) != 0) return message_fail(EXIT_WORK, "%s %s: %s", option, path, strerror(errno));
        return EXIT_DONE;
    }
    const char *slash = strrchr(path, '/');
    char *folder =
        slash == NULL ? small_format(".") : small_format("%.*s", (int)(slash - path + (slash == path)), path);
    int status = EXIT_DONE;
    if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))
        status = message_fail(EXIT_WORK, "%s %s: there is no folder %s", option, path, folder);
    else if (access(folder, W_OK | X_OK) != 0)
        status = message_fail(EXIT_WORK, "%s %s: cannot write in %s: %s", option, path, folder, strerror(errno));
    free(folder);
    return status;
}

int path_make_folder(const char *path) {
    return io_make_folder(path) == CIRCE_OK ? EXIT_DONE : message_fail(EXIT_WORK, "%s", circe_last_error());
}

bool path_ends_with(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcasecmp(path + n - m, ending) == 0;
}
