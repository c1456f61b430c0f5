/* Writing a file whole or not at all.
 *
 * A plain file is written under another name in the same directory (rename is atomic only within a file system),
 * synced, renamed over the target, and the directory synced, so that after a crash there is the old file or the new
 * one. Pipes, terminals and devices have no such thing as a half-replaced state and are written directly. */
#include "files/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ATTEMPTS = 100 };

/* /dev/stdout and its like mean a descriptor that this process holds. Opened by name, a redirected one would be
 * truncated or replaced, and a socket refused. -1: the path is another. */
static int named_descriptor(const char *path) {
    int number = -1, length = 0;
    if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    if (sscanf(path, "/dev/fd/%9d%n", &number, &length) == 1 && path[length] == '\0') return number;
    return -1;
}

/* The directory of file->target, into `directory` of PATH_MAX bytes. */
static void directory_of(const circe__atomic *file, char *directory) {
    const char *slash = strrchr(file->target, '/');
    if (slash == NULL) {
        strcpy(directory, ".");
    } else {
        size_t length = slash == file->target ? 1 : (size_t)(slash - file->target);
        memcpy(directory, file->target, length);
        directory[length] = '\0';
    }
}

/* Not mkstemp: its files are private to the owner, and the mask that would widen them is shared by all threads. */
static int open_temporary(circe__atomic *file, mode_t mode) {
    char directory[PATH_MAX];
    int problem = EEXIST;
    directory_of(file, directory);
    circe__sweep(directory);
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        int length = snprintf(file->temporary, sizeof file->temporary, "%s/.circe-%ld-%lx%lx-%d.tmp", directory,
                              (long)getpid(), (long)now.tv_sec, (long)now.tv_nsec, attempt);
        if (length < 0 || (size_t)length >= sizeof file->temporary) {
            problem = ENAMETOOLONG;
            break;
        }
        file->descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file->descriptor >= 0) {
            flock(file->descriptor, LOCK_EX | LOCK_NB); /* it is being written: not to be swept away */
            return 0;
        }
        problem = errno;
        if (problem != EEXIST) break;
    }
    file->temporary[0] = '\0';
    return problem;
}

static int open_directly(circe__atomic *file, const char *path) {
    int held = named_descriptor(path);
    file->descriptor = held >= 0 ? fcntl(held, F_DUPFD_CLOEXEC, 0) : open(path, O_WRONLY | O_CLOEXEC);
    return file->descriptor >= 0 ? 0 : errno;
}

static int open_beside_existing(circe__atomic *file, const char *path, mode_t mode) {
    if (realpath(path, file->target) == NULL) return errno;
    if (access(file->target, W_OK) != 0) return errno; /* rename would replace even a file that refuses writing */
    int problem = open_temporary(file, 0600);
    if (problem != 0) return problem;
    if (fchmod(file->descriptor, mode & 0777) == 0) return 0;
    problem = errno;
    circe__atomic_abandon(file);
    return problem;
}

int circe__atomic_open(circe__atomic *file, const char *path) {
    struct stat info;
    file->descriptor = -1;
    file->target[0] = file->temporary[0] = '\0';
    if (named_descriptor(path) >= 0) return open_directly(file, path);
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return EISDIR;
        if (!S_ISREG(info.st_mode)) return open_directly(file, path);
        return open_beside_existing(file, path, info.st_mode);
    }
    if (errno != ENOENT) return errno;
    size_t length = strlen(path);
    if (length == 0) return ENOENT;
    if (length >= sizeof file->target) return ENAMETOOLONG;
    if (path[length - 1] == '/') return EISDIR;
    memcpy(file->target, path, length + 1);
    return open_temporary(file, 0666);
}

int circe__atomic_write(circe__atomic *file, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = write(file->descriptor, at, bytes);
        if (written < 0) {
            if (errno == EINTR) continue;
            return errno;
        }
        at += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* Some file systems have no sync. That does not make the write a failure. */
static int sync_descriptor(int descriptor) {
    if (fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS) return 0;
    return errno;
}

static int sync_directory(const circe__atomic *file) {
    char directory[PATH_MAX];
    directory_of(file, directory);
    int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return errno == EACCES ? 0 : errno; /* a directory may be writable and not readable */
    int problem = sync_descriptor(descriptor);
    close(descriptor);
    return problem;
}

int circe__atomic_commit(circe__atomic *file) {
    bool plain = file->temporary[0] != '\0';
    int problem = plain ? sync_descriptor(file->descriptor) : 0;
    if (close(file->descriptor) != 0 && problem == 0) problem = errno;
    file->descriptor = -1;
    if (plain && problem == 0 && rename(file->temporary, file->target) != 0) problem = errno;
    if (problem != 0) {
        circe__atomic_abandon(file);
        return problem;
    }
    return plain ? sync_directory(file) : 0;
}

void circe__atomic_abandon(circe__atomic *file) {
    if (file->descriptor >= 0) close(file->descriptor);
    if (file->temporary[0] != '\0') unlink(file->temporary);
    file->descriptor = -1;
    file->temporary[0] = '\0';
}
