/* Making the context from --threads, --memory and --quiet. */
#include "session.h"

#include <time.h>

#include "io.h"
#include "message.h"
#include "progress.h"
#include "ranks.h"

int session_open(const args *arguments, session *out) {
    *out = (session){0};
    progress_start(!args_given(arguments, OPT_QUIET) && ranks_first());
    if (ranks_several()) progress_catch_termination(); /* how a scheduler ends a job */
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = (int)args_integer(arguments, OPT_THREADS);
    if (ranks_several() && !args_given(arguments, OPT_THREADS)) options.threads = (int)cluster_cores();
    options.memory_limit = (size_t)args_integer(arguments, OPT_MEMORY);
    options.progress = progress_step;
    circe_status status = circe_context_create(&options, &out->context);
    io_use_threads(options.threads);
    if (status == CIRCE_OK) status = circe_workspace_create(out->context, &out->workspace);
    return status == CIRCE_OK ? EXIT_DONE : message_library(status, NULL);
}

void session_close(session *s) {
    progress_clear();
    circe_workspace_destroy(s->workspace);
    circe_context_destroy(s->context);
    *s = (session){0};
}

double session_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
