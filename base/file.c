#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/atomic.h"

char *file_read_text(const char *path) {
    FILE *in = fopen(path, "rb");
    char *text = NULL;
    size_t room = 0;
    if (in == NULL) return NULL;
    ssize_t length = getdelim(&text, &room, '\0', in);
    fclose(in);
    if (length >= 0) return text;
    free(text);
    return NULL;
}

bool file_write_all(int descriptor, const void *bytes, size_t n) {
    for (const char *at = bytes; n > 0;) {
        ssize_t written = write(descriptor, at, n);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        at += written;
        n -= (size_t)written;
    }
    return true;
}

circe_status file_refuse(const char *path, int problem) {
    return circe_fail(CIRCE_ERR_WRITE, "%s: cannot be written: %s", path, strerror(problem));
}

circe_status file_finish(circe__atomic *file, const char *path, int problem) {
    if (problem == 0)
        problem = circe__atomic_commit(file);
    else
        circe__atomic_abandon(file);
    return problem == 0 ? CIRCE_OK : file_refuse(path, problem);
}

circe_status file_write_text(const char *path, const char *text, size_t bytes) {
    circe__atomic file;
    int problem = circe__atomic_open(&file, path);
    if (problem != 0) return file_refuse(path, problem);
    return file_finish(&file, path, circe__atomic_write(&file, text, bytes));
}
