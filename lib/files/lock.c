/* One writer at a time, by flock on a file beside the target. The kernel releases the lock when the process ends,
 * however it ends, so a lock is never stale. The holder removes the file. A process that locked it in the meantime
 * finds that the name belongs to another file, or to none, and tries again. */
#include "files/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ATTEMPTS = 100 };

/* ".NAME.lock" beside NAME, whose links are resolved where it is there. 0 or an errno. */
static int name_lock(const char *path, char *out) {
    char target[PATH_MAX];
    if (realpath(path, target) == NULL) {
        if (errno != ENOENT) return errno;
        if (strlen(path) >= sizeof target) return ENAMETOOLONG;
        strcpy(target, path);
    }
    char *slash = strrchr(target, '/'), *name = slash != NULL ? slash + 1 : target;
    int length = snprintf(out, PATH_MAX, "%.*s.%s.lock", (int)(name - target), target, name);
    return length > 0 && length < PATH_MAX ? 0 : ENAMETOOLONG;
}

/* The file that is locked is the one that has the name. */
static bool has_name(int descriptor, const char *path) {
    struct stat held, named;
    return fstat(descriptor, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

static void read_holder(int descriptor, pid_t *holder) {
    char text[32] = "";
    ssize_t bytes = pread(descriptor, text, sizeof text - 1, 0);
    *holder = bytes > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

static void write_holder(int descriptor) {
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(descriptor, 0) == 0 && pwrite(descriptor, text, (size_t)length, 0) == length) return;
    (void)ftruncate(descriptor, 0); /* a full disk: the lock holds without its holder's number */
}

/* 0, an errno, or EAGAIN where the name has gone to another file meanwhile. */
static int try_lock(circe__lock *lock, pid_t *holder) {
    lock->descriptor = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (lock->descriptor < 0) return errno;
    int problem = flock(lock->descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (problem == EWOULDBLOCK) {
        read_holder(lock->descriptor, holder);
        problem = EBUSY;
    } else if (problem == 0 && !has_name(lock->descriptor, lock->path)) {
        problem = EAGAIN;
    }
    if (problem == 0) {
        write_holder(lock->descriptor);
        return 0;
    }
    close(lock->descriptor);
    lock->descriptor = -1;
    return problem;
}

int circe__lock_take(circe__lock *lock, const char *path, pid_t *holder) {
    struct stat info;
    *lock = (circe__lock){.descriptor = -1};
    *holder = 0;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return 0; /* a pipe, a device */
    int problem = name_lock(path, lock->path);
    if (problem != 0) return problem;
    problem = EAGAIN;
    for (int attempt = 0; attempt < MAX_ATTEMPTS && problem == EAGAIN; attempt++) problem = try_lock(lock, holder);
    bool none = problem == ENOLCK || problem == ENOTSUP || problem == EINVAL; /* a file system without locks */
    if (none) unlink(lock->path);
    return none ? 0 : problem;
}

void circe__lock_release(circe__lock *lock) {
    if (lock->descriptor < 0) return;
    unlink(lock->path); /* before it is let go: nobody else holds it yet */
    close(lock->descriptor);
    lock->descriptor = -1;
}
