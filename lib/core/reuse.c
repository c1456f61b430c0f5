/* The default allocator: malloc, with a store of large blocks for the length of a test.
 *
 * A test makes and frees hundreds of tables of similar sizes. malloc gives large ones back to the system at once, so
 * each begins with a page fault for every 4 KB, a fifth of the time of a test of 20,000 rows, which threads that share
 * the address space wait for each other in. While a test runs anywhere in the process, freed blocks go to the store,
 * and the next table takes one that is not much larger. After the last test the store shrinks to AT_REST.
 *
 * A thread that finds the store in use by another does without it, so nobody waits. A child of fork begins with an
 * empty one: blocks of the copy are lost to it, as their list may have been copied in the middle of a change. */
#define _GNU_SOURCE /* madvise */
#include "core/reuse.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MOST_BLOCKS = 64,
    LEAST_BYTES = 1 << 15,
    MOST_BYTES = 1 << 28, /* in the store while tests run */
    AT_REST = 1 << 25,
    HUGE_BYTES = 1 << 25,
};

typedef struct stored {
    void *block;
    size_t bytes;
} stored;

static struct {
    atomic_flag used;
    atomic_int tests; /* that run at the moment */
    int n;
    size_t bytes;
    stored at[MOST_BLOCKS]; /* the oldest first */
} store = {.used = ATOMIC_FLAG_INIT};

static bool enter(void) { return !atomic_flag_test_and_set_explicit(&store.used, memory_order_acquire); }

static void leave(void) { atomic_flag_clear_explicit(&store.used, memory_order_release); }

static void *take_out(int k) {
    void *block = store.at[k].block;
    store.bytes -= store.at[k].bytes;
    memmove(store.at + k, store.at + k + 1, (size_t)(--store.n - k) * sizeof *store.at);
    return block;
}

/* Frees the oldest blocks until there are at most this many, of at most so many bytes. */
static void shrink(int most, size_t bytes) {
    while (store.n > most || store.bytes > bytes) free(take_out(0));
}

/* The smallest that is large enough, and not much larger. */
static void *find(size_t bytes) {
    int best = -1;
    for (int k = 0; k < store.n; k++) {
        size_t own = store.at[k].bytes;
        if (own >= bytes && own <= 2 * bytes && (best < 0 || own < store.at[best].bytes)) best = k;
    }
    return best < 0 ? NULL : take_out(best);
}

/* Asks for pages of 2 MB where they may be had: one fault in place of 512. Where memory is short, what the store keeps
 * is given back first. */
static void *fresh(size_t bytes) {
    void *block = malloc(bytes);
    if (block == NULL && enter()) {
        shrink(0, 0);
        leave();
        block = malloc(bytes);
    }
#if defined(MADV_HUGEPAGE)
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = ((uintptr_t)block + page - 1) / page * page;
    if (block != NULL && bytes >= HUGE_BYTES)
        madvise((void *)start, ((uintptr_t)block + bytes - start) / page * page, MADV_HUGEPAGE);
#endif
    return block;
}

void *circe__allocate_default(void *user, size_t bytes) {
    void *block = NULL;
    (void)user;
    if (bytes >= LEAST_BYTES && atomic_load_explicit(&store.tests, memory_order_relaxed) > 0 && enter()) {
        block = find(bytes);
        leave();
    }
    return block != NULL ? block : fresh(bytes);
}

void circe__release_default(void *user, void *block) {
    (void)user;
#if !defined(__SANITIZE_ADDRESS__)
    size_t bytes = atomic_load_explicit(&store.tests, memory_order_relaxed) > 0 ? malloc_usable_size(block) : 0;
    if (bytes >= LEAST_BYTES && bytes <= MOST_BYTES && enter()) {
        shrink(MOST_BLOCKS - 1, MOST_BYTES - bytes);
        store.at[store.n++] = (stored){block, bytes};
        store.bytes += bytes;
        leave();
        return;
    }
#endif
    free(block);
}

void circe__reuse_begin(void) { atomic_fetch_add(&store.tests, 1); }

void circe__reuse_end(void) {
    if (atomic_load(&store.tests) == 0) return; /* begun before a fork */
    if (atomic_fetch_sub(&store.tests, 1) > 1 || !enter()) return;
    shrink(MOST_BLOCKS, AT_REST);
    leave();
}

void circe__reuse_after_fork(void) {
    store.n = 0;
    store.bytes = 0;
    atomic_store(&store.tests, 0);
    leave();
}
