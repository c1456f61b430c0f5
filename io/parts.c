/* Parts of a large table on the library's threads. */
#include "parts.h"

#include <stdatomic.h>

#include "core/core.h"
#include "core/threads.h"
#include "io.h"

enum { MAX_PARTS = 64 };

static atomic_int chosen_threads;

void io_use_threads(int threads) { atomic_store(&chosen_threads, threads > 0 ? threads : 0); }

int io__threads(void) {
    int threads = atomic_load(&chosen_threads);
    if (threads == 0) threads = circe__default_threads();
    return (int)circe__max(1, circe__min(threads, MAX_PARTS));
}

typedef struct parts {
    void (*part)(void *user, int k);
    void *user;
} parts;

static void run_part(void *user, int64_t part) {
    const parts *p = user;
    p->part(p->user, (int)part);
}

void io__run_parts(int n, void (*part)(void *user, int k), void *user) {
    parts p = {part, user};
    circe__run_on(n, n, run_part, &p);
}
