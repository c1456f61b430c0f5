/* Parts in threads. A thread that the system refuses is no failure: its part is done by the caller. */
#include "parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "circe/context.h"
#include "io.h"

enum { MAX_PARTS = 64 };

static atomic_int chosen_threads;

void io_use_threads(int threads) { atomic_store(&chosen_threads, threads > 0 ? threads : 0); }

int io__threads(void) {
    int threads = atomic_load(&chosen_threads);
    circe_context *context = NULL;
    if (threads == 0 && circe_context_create(NULL, &context) == CIRCE_OK) threads = circe_context_threads(context);
    circe_context_destroy(context);
    return threads < 1 ? 1 : threads > MAX_PARTS ? MAX_PARTS : threads;
}

typedef struct one_part {
    void (*part)(void *user, int k);
    void *user;
    int k;
    bool started;
    pthread_t thread;
} one_part;

static void *run_one(void *argument) {
    one_part *one = argument;
    one->part(one->user, one->k);
    return NULL;
}

void io__run_parts(int n, void (*part)(void *user, int k), void *user) {
    one_part parts[MAX_PARTS];
    for (int first = 0; first < n; first += MAX_PARTS) {
        int count = n - first < MAX_PARTS ? n - first : MAX_PARTS;
        for (int i = 1; i < count; i++) {
            parts[i] = (one_part){part, user, first + i, false, 0};
            parts[i].started = pthread_create(&parts[i].thread, NULL, run_one, &parts[i]) == 0;
        }
        part(user, first);
        for (int i = 1; i < count; i++) {
            if (parts[i].started)
                pthread_join(parts[i].thread, NULL);
            else
                part(user, first + i);
        }
    }
}
