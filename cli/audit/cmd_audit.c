/* circe audit: what the job finds, as text or JSON, and its report. */

#include "base/small.h"
#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "cli/results.h"
#include "io/paths.h"
#include "jobs/audit_parts.h"

enum { EXIT_LIMIT = 3 }; /* a limit of --fail-if was not kept */

/* ---- the command ------------------------------------------------------------------------------------------------- */

typedef struct state {
    const char *folder;
    bool asked; /* whether the folder can be written to */
    int refused;
} state;

static int make_folder(const char *folder) {
    OWNED char *path = small_format("%s/report.html", folder);
    int status = message_refused(path_make_folder(folder));
    if (status == EXIT_DONE) status = message_refused(path_check_writable("-o", path));
    return status;
}

/* The folder is made once the table is read, so that a slip in a name leaves nothing behind, and before the work. */
static int show_progress(void *user, double done, const char *text) {
    state *s = user;
    if (!s->asked) s->refused = make_folder(s->folder);
    s->asked = true;
    if (s->refused != EXIT_DONE) return 1;
    progress_show(done, text);
    return progress_interrupted();
}

/* The limits that were not kept, one line each. */
static int print_checks(const circe_audit_result *r) {
    for (int64_t i = 0; i < r->n_checks; i++)
        if (r->checks[i].failed) message_note("--fail-if %s: %s", r->checks[i].condition, r->checks[i].text);
    return circe_audit_failed(r) > 0 ? EXIT_LIMIT : EXIT_DONE;
}

static int print_result(const args *arguments, const circe_audit_result *r, const char *folder) {
    bool quiet = arguments->own.quiet;
    int status = EXIT_DONE;
    for (size_t i = 0; !quiet && i < r->warnings.n; i++) message_note("warning: %s", r->warnings.text[i]);
    if (arguments->own.json)
        status = json_print(audit_json(r, folder));
    else
        audit_text(r, folder, quiet);
    return status == EXIT_DONE ? print_checks(r) : status;
}

static int run(const args *arguments, circe_context *context, const circe_audit_options *options) {
    state s = {.folder = arguments->own.output};
    circe_watch watch = {.user = &s, .progress = show_progress};
    circe_audit_result *result = NULL;
    progress_overall();
    circe_status status = circe_audit(context, NULL, options, &watch, &result);
    progress_clear();
    if (s.refused != EXIT_DONE) return s.refused;
    if (progress_interrupted()) status = circe_fail(CIRCE_ERR_CANCELLED, "interrupted; nothing was written");
    if (status == CIRCE_OK) status = circe_audit_report(result, s.folder);
    int done = status == CIRCE_OK ? print_result(arguments, result, s.folder) : message_refused(status);
    circe_audit_result_free(result);
    return done;
}

int cmd_audit(const args *arguments) {
    circe_audit_options options = *(const circe_audit_options *)arguments->options;
    session s = {0};
    if (arguments->argument != NULL && options.data != NULL) {
        message_note("the table is given twice: %s, and --data %s", arguments->argument, options.data);
        return EXIT_INPUT;
    }
    if (arguments->argument != NULL) options.data = arguments->argument;
    if (options.data == NULL) {
        message_note(
            "no table is given: name a .csv with predictions, outcomes and attributes, or - for standard input");
        message_hint("usage: circe audit %s", arguments->command->synopsis);
        return EXIT_INPUT;
    }
    int status = session_open(&arguments->own, &s);
    if (status == EXIT_DONE) status = run(arguments, s.context, &options);
    session_close(&s);
    return status;
}
