/* OpenBLAS's buffers, claimed before they are needed.
 *
 * A thread that calls OpenBLAS works in a buffer from OpenBLAS's pool, which takes at most 128 MB of address space and
 * stays in the pool. If there is no address space for a buffer (ulimit -v, the limit of a batch system), OpenBLAS's
 * allocator retries forever. So under such a limit every thread of a context claims its buffer when the context is
 * created, or the context is refused. Data allocated later cannot take that space. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "backend/backend.h"
#include "core/core.h"

#define WEAK __attribute__((weak)) /* another BLAS has none of these; an OpenBLAS may hide the latter two */

WEAK char *openblas_get_config(void);
WEAK char *scipy_openblas_get_config(void);
WEAK void *blas_memory_alloc(int place);
WEAK void blas_memory_free(void *buffer);

/* A thread beside the caller's also has a stack, and an arena of malloc's. */
enum { BUFFER_MB = 128, THREAD_MB = 8 + 64, MOST_CLAIMED = 64 };

static bool is_limited(void) {
    struct rlimit space, data;
    return (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) ||
           (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY);
}

static bool is_free(size_t bytes) {
    void *probe = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe == MAP_FAILED) return false;
    munmap(probe, bytes);
    return true;
}

/* All at once: a buffer that is given back would be given out again. */
static void claim(int n) {
    void *buffers[MOST_CLAIMED];
    if (blas_memory_alloc == NULL || blas_memory_free == NULL) return;
    for (int i = 0; i < n; i++) buffers[i] = blas_memory_alloc(0);
    for (int i = 0; i < n; i++) blas_memory_free(buffers[i]);
}

circe_status circe__claim_buffers(int threads) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int claimed; /* by this process */
    circe_status status = CIRCE_OK;
    if ((openblas_get_config == NULL && scipy_openblas_get_config == NULL) || !is_limited()) return CIRCE_OK;
    if (threads > MOST_CLAIMED) threads = MOST_CLAIMED;
    pthread_mutex_lock(&lock);
    if (threads > claimed) {
        int beside = threads - (claimed > 0 ? claimed : 1);
        int megabytes = (threads - claimed) * BUFFER_MB + beside * THREAD_MB;
        if (is_free((size_t)megabytes << 20)) {
            claim(threads);
            claimed = threads;
        } else {
            status = circe_fail(CIRCE_ERR_MEMORY,
                                "not enough memory: %d thread%s need%s %d MB of address space, but less is available",
                                threads, threads == 1 ? "" : "s", threads == 1 ? "s" : "", megabytes);
            circe_fail_hint(status, "raise the limit (ulimit -v shows it)%s",
                            threads == 1 ? "" : ", or use fewer threads");
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}
