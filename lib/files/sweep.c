/* Temporary files that a killed process left behind.
 *
 * Their names contain the process number, .circe-PID-..., and the writer holds a lock on its file (flock), which the
 * kernel releases when the process ends, however it ends. So a file is removed only if no local process has this number
 * and the lock is free. The lock protects writers on other machines and in containers, whose process numbers mean
 * nothing here. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/atomic.h"

/* The process of ".circe-PID-LETTERS-DIGITS.tmp", or 0: another kind of name. */
static pid_t writer_of(const char *name) {
    static const char begin[] = ".circe-", ending[] = ".tmp";
    size_t length = strlen(name), letters = sizeof begin - 1;
    if (length < letters + sizeof ending || strncmp(name, begin, letters) != 0 ||
        !isdigit((unsigned char)name[letters]))
        return 0;
    char *end = NULL;
    errno = 0;
    long number = strtol(name + letters, &end, 10);
    if (errno != 0 || *end != '-' || number < 1 || (pid_t)number != number) return 0;
    return strcmp(name + length - (sizeof ending - 1), ending) == 0 ? (pid_t)number : 0;
}

static bool is_alive(pid_t process) { return kill(process, 0) == 0 || errno != ESRCH; }

static void remove_stale(int folder, const char *name) {
    struct stat info;
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        flock(file, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
    close(file);
}

static void sweep(DIR *folder) {
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        pid_t writer = writer_of(entry->d_name);
        if (writer > 0 && !is_alive(writer)) remove_stale(dirfd(folder), entry->d_name);
    }
}

void circe__sweep(const char *directory) {
    static _Atomic uint64_t last; /* the folder that was swept last: a large folder is searched only once */
    struct stat info;
    if (stat(directory, &info) != 0) return;
    uint64_t mark = ((uint64_t)info.st_dev << 48) ^ (uint64_t)info.st_ino;
    if (atomic_exchange(&last, mark) == mark) return;
    DIR *folder = opendir(directory);
    if (folder == NULL) return;
    sweep(folder);
    closedir(folder);
}
