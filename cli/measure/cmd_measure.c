/* circe measure NAME: one measure, its value and its gradient; or every measure in one table. */
#include <string.h>

#include "circe/measure_job.h"
#include "cli/commands.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "cli/results.h"

static int print(const args *arguments, const circe_measure_job_result *r) {
    bool quiet = arguments->own.quiet;
    int status = EXIT_DONE;
    message_data(quiet, r->dropped + r->dropped_holdout, &r->warnings);
    if (arguments->own.json)
        status = output_json(circe_measure_json(r));
    else
        measure_result_text(r, quiet);
    if (status == EXIT_DONE && r->n_failed > 0)
        status =
            message_fail(EXIT_WORK, "%zu of %zu values could not be computed; their rows say why", r->n_failed, r->n);
    return status;
}

int cmd_measure(const args *arguments) {
    const circe_measure_job_options *options = arguments->options;
    circe_watch watch = session_watch(&arguments->own);
    circe_measure_job_result *result = NULL;
    session s = {0};
    int status = session_open(&arguments->own, &s);
    const progress_part parts[] = {{"fitting", 1, .rounds = 1}, {"blocks", 1, .rounds = 1}};
    if (arguments->argument != NULL && strcmp(arguments->argument, "all") != 0)
        progress_plan(parts, sizeof parts / sizeof parts[0]);
    else
        progress_overall();
    if (status == EXIT_DONE)
        status = message_refused(circe_measure_run(s.context, NULL, arguments->argument, options, &watch, &result));
    progress_clear();
    if (status == EXIT_DONE) status = print(arguments, result);
    circe_measure_job_result_free(result);
    session_close(&s);
    return status;
}
