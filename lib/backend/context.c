/* Creates a context: checks its options, counts its threads, and chooses the loops that this processor can run. */
#include "circe/context.h"

#include "backend/backend.h"
#include "circe/version.h"
#include "core/core.h"
#include "core/reuse.h"
#include "core/threads.h"

enum { MAX_THREADS = 4096 };

circe_status circe_context_create(const circe_context_options *options, circe_context **context) {
    circe_context_options chosen;
    if (context == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "context must not be NULL");
    *context = NULL;
    circe_context_options_init(&chosen);
    if (options != NULL) chosen = *options;
    if (chosen.threads < 0 || chosen.threads > MAX_THREADS)
        return circe_fail(CIRCE_ERR_ARGUMENT, "threads is %d; it must be 0 (all) to %d", chosen.threads, MAX_THREADS);
    if ((chosen.allocator.allocate == NULL) != (chosen.allocator.release == NULL))
        return circe_fail(CIRCE_ERR_ARGUMENT, "an allocator needs both allocate and release");
    if (chosen.allocator.allocate == NULL)
        chosen.allocator = (circe_allocator){circe__allocate_default, circe__release_default, NULL};

    const circe__backend *backend = NULL;
    circe_status status = circe__backend_cpu(&backend);
    if (status != CIRCE_OK) return status;

    circe_context *made = chosen.allocator.allocate(chosen.allocator.user, sizeof *made);
    if (made == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for a context");
    made->options = chosen;
    made->threads = chosen.threads > 0 ? chosen.threads : circe__default_threads();
    made->backend = backend;
    status = circe__claim_buffers(circe__usable_threads(made->threads));
    if (status != CIRCE_OK) {
        circe_context_destroy(made);
        return status;
    }
    if (circe_blas_note() != NULL) circe__log(made, CIRCE_LOG_WARNING, "%s", circe_blas_note());
    *context = made;
    return CIRCE_OK;
}

circe_status circe__context_like(const circe_context *context, int threads, int64_t side_by_side,
                                 circe_progress_fn stop, void *user, circe_context **made) {
    circe_context_options options = context->options;
    options.threads = threads > 0 ? threads : context->threads;
    options.memory_limit /= (size_t)(side_by_side > 0 ? side_by_side : 1);
    options.log = NULL;
    options.progress = stop;
    options.progress_user = user;
    return circe_context_create(&options, made);
}

const char *circe_context_isa(const circe_context *context) { return context->backend->isa; }
