/* A context for the fuzzers: memory, and one thread. The library's own brings in OpenMP and BLAS, which the readers of
 * files do not need and which would be compiled without the fuzzer's instrumentation. */
#include "circe/context.h"

#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/threads.h"

static void *allocate(void *user, size_t bytes) {
    (void)user;
    return malloc(bytes);
}

static void release(void *user, void *block) {
    (void)user;
    free(block);
}

circe_status circe_context_create(const circe_context_options *options, circe_context **context) {
    (void)options;
    *context = calloc(1, sizeof **context);
    if (*context == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for a context");
    (*context)->options.allocator = (circe_allocator){allocate, release, NULL};
    return CIRCE_OK;
}

void circe_context_destroy(circe_context *context) { free(context); }

int circe__default_threads(void) { return 1; }

void circe__run_on(int threads, int64_t parts, circe_part_fn run, void *user) {
    (void)threads;
    for (int64_t part = 0; part < parts; part++) run(user, part);
}
