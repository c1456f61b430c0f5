/* `circe experiment`: a grid of runs described by a file, side by side, restartable; and the hidden command that is one
 * run of it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "circe/experiment.h"
#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "cli/common/table.h"
#include "mpi/ranks.h"
#include "paper/paper.h"

/* The first line of an error, and its hint. */
static void say(const char *text) {
    int length = (int)strcspn(text, "\n");
    message_note("%.*s", length, text);
    if (text[length] != '\0') message_hint("%s", text + length + 1);
}

/* A stopped run explains itself what it leaves behind. */
static int fail(circe_status status) {
    if (status != CIRCE_ERR_CANCELLED) return message_refused(status);
    say(circe_last_error());
    return EXIT_WORK;
}

int cmd_experiment_run(const args *arguments) {
    progress_start(false); /* a signal to stop leaves only the time to write a checkpoint */
    progress_catch_termination();
    progress_end_within(SWEEP_PATIENCE_S);
    circe_status status = paper_work(arguments->own.output, arguments->own.device, progress_interrupted);
    return status == CIRCE_OK ? EXIT_DONE : fail(status);
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

typedef struct teller {
    bool quiet;
    double last_line; /* when one was written, where no bar is shown */
} teller;

static int on_progress(void *user, double done, const char *text) {
    enum { LINES_EVERY_S = 15 };
    teller *t = user;
    double now = job_clock();
    progress_show(done, text);
    if (t->quiet || progress_is_shown() || now - t->last_line < LINES_EVERY_S) return progress_interrupted();
    message_note("%s", text);
    t->last_line = now;
    return progress_interrupted();
}

static void on_note(void *user, const char *text) {
    if (!((const teller *)user)->quiet) message_note("%s", text);
}

static void on_warning(void *user, const char *text) {
    (void)user;
    message_note("%s", text);
}

/* ---- results on standard output ---------------------------------------------------------------------------------- */

static void print_text(const circe_experiment_result *result) {
    bool *numeric = small_alloc((size_t)result->n_columns * sizeof *numeric);
    for (int64_t c = 0; c < result->n_columns; c++) numeric[c] = result->numeric[c] != 0;
    const report_table table = {.columns = result->columns,
                                .n_columns = result->n_columns,
                                .n_rows = result->n_lines,
                                .cells = result->cells,
                                .numeric = numeric};
    printf("%s\n\n", result->title);
    text_table(&table, 0);
    free(numeric);
    if (result->footer[0] != '\0') printf("\n%s\n", result->footer);
    printf(
        "\n"
        "%s/report.html has everything, with figures; results.csv has every run.\n",
        result->folder);
}

static int show(const circe_experiment_result *result, bool json) {
    int status = EXIT_DONE;
    if (json)
        status = output_json(circe_experiment_json(result));
    else
        print_text(result);
    if (result->n_failed == 0) return status;
    message_note("%" PRId64 " of %" PRId64 " runs failed; the results contain the others", result->n_failed,
                 result->n_runs);
    message_hint("the same command repeats the failed runs: %s", result->command);
    return EXIT_WORK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int list(void) {
    circe_experiment_entry *entries = NULL;
    int status = EXIT_DONE, width = 0;
    int64_t n = 0;
    if (circe_experiment_list(&entries, &n) != CIRCE_OK) return message_refused(CIRCE_ERR_MEMORY);
    for (int64_t i = 0; i < n; i++)
        if ((int)strlen(entries[i].name) > width) width = (int)strlen(entries[i].name);
    for (int64_t i = 0; i < n; i++) {
        if (entries[i].title != NULL)
            printf("%-*s  %s\n", width, entries[i].name, entries[i].title);
        else
            say(entries[i].error), status = EXIT_INPUT;
    }
    circe_experiment_list_free(entries);
    return n > 0 ? status : message_fail(EXIT_INPUT, "no experiments were found; give a file with --config FILE");
}

/* Without a name it lists what there is, and does nothing with any option. */
static int list_alone(const void *options, bool json) {
    if (json) return message_fail(EXIT_INPUT, "which experiment is --json for? circe experiment NAME");
    const circe_schema *schema = circe_schema_of("experiment");
    for (size_t i = 0; i < schema->n; i++)
        if (circe_options_given(schema, options, schema->rows[i].name))
            return message_fail(EXIT_INPUT,
                                "which experiment is --%s for? circe experiment NAME, or --config FILE.yaml",
                                schema->rows[i].name);
    return list();
}

int cmd_experiment(const args *arguments) {
    circe_experiment_options options = *(const circe_experiment_options *)arguments->options;
    if (arguments->argument == NULL && options.config == NULL) return list_alone(&options, arguments->own.json);
    options.program = "/proc/self/exe"; /* if a run crashes, only that run fails */
    teller t = {.quiet = arguments->own.quiet, .last_line = job_clock()};
    circe_watch watch = {.user = &t, .progress = on_progress, .note = on_note, .warning = on_warning};
    circe_experiment_result *result = NULL;
    circe_context *context = NULL;
    progress_start(!t.quiet && ranks_first());
    progress_catch_termination();
    if (!t.quiet) session_warn_of_blas();
    circe_status status = circe_context_create(NULL, &context);
    if (status == CIRCE_OK) status = circe_experiment(context, arguments->argument, &options, &watch, &result);
    progress_clear();
    int code = status == CIRCE_OK ? EXIT_DONE : EXIT_WORK;
    if (ranks_first()) code = status == CIRCE_OK ? show(result, arguments->own.json) : fail(status);
    circe_experiment_result_free(result);
    circe_context_destroy(context);
    return code;
}
