/* Making the context from --threads, --memory and --quiet. */
#include "cli/common/session.h"

#include <stdbool.h>

#include "cli/common/message.h"
#include "cli/common/progress.h"
#include "io/io.h"
#include "jobs/machine.h"
#include "mpi/ranks.h"

static void tell_machine(const session *s) {
    char text[192];
    message_note("%s", session_text(s, text, sizeof text));
    progress_tell_stages();
}

int session_open(const own_options *own, session *out) {
    *out = (session){0};
    progress_start(!own->quiet && ranks_first());
    if (ranks_several()) progress_catch_termination(); /* how a scheduler ends a job */
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = own->threads != CIRCE_UNSET ? (int)own->threads : 0;
    if (ranks_several() && own->threads == CIRCE_UNSET) options.threads = (int)ranks_cores();
    options.memory_limit = own->memory != CIRCE_UNSET ? (size_t)own->memory : 0;
    options.progress = progress_step;
    circe_status status = circe_context_create(&options, &out->context);
    io_use_threads(options.threads);
    if (status == CIRCE_OK) status = circe_workspace_create(out->context, &out->workspace);
    if (status != CIRCE_OK) return message_refused(status);
    if (!own->quiet) session_warn_of_blas();
    if (own->verbose && ranks_first()) tell_machine(out);
    return EXIT_DONE;
}

void session_warn_of_blas(void) {
    static bool said;
    if (!said && circe_blas_note() != NULL && ranks_first()) message_note("%s", circe_blas_note());
    said = true;
}

const char *session_text(const session *s, char *text, size_t size) { return machine_text(s->context, text, size); }

static void say(void *user, const char *text) {
    (void)user;
    message_note("%s", text);
}

circe_watch session_watch(const own_options *own) {
    return (circe_watch){.progress = progress_watch, .note = own->quiet ? NULL : say};
}

void session_close(session *s) {
    progress_end_stage();
    progress_clear();
    circe_workspace_destroy(s->workspace);
    circe_context_destroy(s->context);
    *s = (session){0};
}
