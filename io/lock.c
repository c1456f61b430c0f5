/* Holding an output while a long job is under way. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "files/atomic.h"
#include "files/lock.h"
#include "io/io_parts.h"

struct io_lock {
    circe__lock held;
};

static void sweep_beside(const char *path) {
    const char *slash = strrchr(path, '/');
    OWNED char *directory = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + (slash == path));
    if (directory != NULL) circe__sweep(directory);
}

circe_status io_lock_take(const char *path, io_lock **lock) {
    pid_t holder = 0;
    *lock = calloc(1, sizeof **lock);
    if (*lock == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: not enough memory to lock it", path);
    int problem = circe__lock_take(&(*lock)->held, path, &holder);
    if (problem == 0) {
        sweep_beside(path);
        return CIRCE_OK;
    }
    free(*lock);
    *lock = NULL;
    if (problem != EBUSY) return circe_fail(CIRCE_ERR_WRITE, "%s: cannot be locked: %s", path, strerror(problem));
    if (holder == 0)
        return circe_fail(CIRCE_ERR_WRITE,
                          "%s: another process is writing to it; wait until it ends, or write elsewhere", path);
    return circe_fail(CIRCE_ERR_WRITE,
                      "%s: another process, %ld, is writing to it; wait until it ends, or write elsewhere", path,
                      (long)holder);
}

void io_lock_release(io_lock *lock) {
    if (lock == NULL) return;
    circe__lock_release(&lock->held);
    free(lock);
}
