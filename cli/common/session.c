/* Making the context from --threads, --memory and --quiet. */
#include "cli/common/session.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "cli/common/message.h"
#include "cli/common/progress.h"
#include "cli/common/ranks.h"
#include "io/io.h"

int session_open(const own_options *own, session *out) {
    *out = (session){0};
    progress_start(!own->quiet && ranks_first());
    if (ranks_several()) progress_catch_termination(); /* how a scheduler ends a job */
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = own->threads != CIRCE_UNSET ? (int)own->threads : 0;
    if (ranks_several() && own->threads == CIRCE_UNSET) options.threads = (int)cluster_cores();
    options.memory_limit = own->memory != CIRCE_UNSET ? (size_t)own->memory : 0;
    options.progress = progress_step;
    circe_status status = circe_context_create(&options, &out->context);
    io_use_threads(options.threads);
    if (status == CIRCE_OK) status = circe_workspace_create(out->context, &out->workspace);
    if (status != CIRCE_OK) return message_library(status, NULL);
    if (!own->quiet) session_warn_of_blas();
    return EXIT_DONE;
}

void session_warn_of_blas(void) {
    static bool said;
    if (!said && circe_blas_note() != NULL && ranks_first()) message_note("%s", circe_blas_note());
    said = true;
}

const char *session_text(const session *s, char *text, size_t size) {
    int threads = circe_context_threads(s->context);
    const char *core = circe_blas_core();
    snprintf(text, size, "%s, %s instructions, %s%s%s%s, %d thread%s", circe_version(), circe_context_isa(s->context),
             circe_blas_name(), core[0] != '\0' ? " (" : "", core, core[0] != '\0' ? ")" : "", threads,
             threads == 1 ? "" : "s");
    return text;
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
