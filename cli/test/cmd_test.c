/* circe test METHOD: a p-value with what it rests on, the calibration of the test on data like these, effect sizes; or
 * every test in one table. */
#include <stdio.h>
#include <string.h>

#include "circe/test_job.h"
#include "cli/commands.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "cli/results.h"
#include "io/paths.h"
#include "jobs/calibration.h"
#include "jobs/tests.h"

/* Creates the folder for the figure of the calibration, if one is requested. */
static int prepare_figure(const args *arguments, const char *folder) {
    const test_kind *what = arguments->argument != NULL ? test_find(arguments->argument) : NULL;
    if (folder == NULL) return EXIT_DONE;
    if (((const circe_test_job_options *)arguments->options)->calibrate == 0)
        return message_fail(EXIT_INPUT, "-o writes the figure of --calibrate, so it needs --calibrate");
    return what != NULL ? message_refused(path_make_folder(folder)) : EXIT_DONE; /* the job refuses the name */
}

static int draw_calibration(const circe_test_job_result *r, const char *folder, bool quiet) {
    bool drawn = false;
    if (folder == NULL) return EXIT_DONE;
    chart *c = chart_new();
    calibration_panel(c, r->calibration, &r->method, 1, "x drawn again given y, independently of z");
    circe_status status = chart_draw(c, "calibration", NULL, folder, NULL, &drawn);
    if (status != CIRCE_OK) return message_refused(status);
    if (!drawn && !quiet)
        message_note(
            "warning: calibration.svg was not drawn because gnuplot is not installed or failed; gnuplot calibration.gp "
            "draws it");
    return EXIT_DONE;
}

static int print(const args *arguments, const circe_test_job_result *r, const char *folder) {
    bool quiet = arguments->own.quiet;
    int status = draw_calibration(r, folder, quiet);
    if (status != EXIT_DONE) return status;
    message_data(quiet, 0, &r->warnings);
    if (arguments->own.json) {
        status = output_json(circe_test_json(r));
    } else {
        test_result_text(r, quiet);
        if (folder != NULL && !quiet) printf("\nThe figure: %s/calibration.svg\n", folder);
    }
    if (status == EXIT_DONE && r->n_failed > 0)
        status = message_fail(EXIT_WORK, "%zu of %zu tests failed; their rows say why", r->n_failed, r->n);
    return status;
}

static int print_csv(char *text) {
    if (text == NULL) return message_refused(CIRCE_ERR_MEMORY);
    fputs(text, stdout);
    circe_text_free(text);
    return EXIT_DONE;
}

static int print_many(const args *arguments, const circe_tests_result *r) {
    int status = EXIT_DONE;
    message_data(arguments->own.quiet, 0, &r->warnings);
    if (arguments->own.json)
        status = output_json(circe_tests_json(r));
    else if (arguments->own.csv)
        status = print_csv(circe_tests_csv(r));
    else
        tests_result_text(r, arguments->own.quiet);
    if (status == EXIT_DONE && r->n_failed > 0)
        status = message_fail(EXIT_WORK, "%zu of %zu tests failed; their rows say why", r->n_failed, r->n);
    return status;
}

static int test_pairs(const args *arguments) {
    circe_watch watch = session_watch(&arguments->own);
    circe_tests_result *result = NULL;
    session s = {0};
    int status = session_open(&arguments->own, &s);
    progress_overall();
    if (status == EXIT_DONE)
        status = message_refused(
            circe_tests_run(s.context, NULL, arguments->argument, NULL, 0, arguments->options, &watch, &result));
    progress_clear();
    if (status == EXIT_DONE) status = print_many(arguments, result);
    circe_tests_result_free(result);
    session_close(&s);
    return status;
}

/* The stage of the library in which a test spends its time. */
static const char *stage_of(const char *method) {
    static const char *const others[][2] = {{"hsic", "permutations"}, {"pcm", "halves"}, {"rcot", "rcot"}};
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        if (strcmp(method, others[k][0]) == 0) return others[k][1];
    }
    return "regressions on y";
}

int cmd_test(const args *arguments) {
    if (((const circe_test_job_options *)arguments->options)->pairs != NULL) return test_pairs(arguments);
    if (arguments->own.csv) return message_fail(EXIT_INPUT, "--csv needs --pairs: it is for many tests");
    const char *folder = arguments->own.output, *method = arguments->argument != NULL ? arguments->argument : "";
    const circe_test_job_options *options = arguments->options;
    circe_watch watch = session_watch(&arguments->own);
    circe_test_job_result *result = NULL;
    session s = {0};
    int status = prepare_figure(arguments, folder);
    if (status == EXIT_DONE) status = session_open(&arguments->own, &s);
    const progress_part parts[] = {
        {stage_of(method), 1, .rounds = 2}, /* about seconds, for some thousand rows */
        {"calibration", options->calibrate > 0 ? 0.3 * (double)options->calibrate : 0, .rounds = 1},
        {"effect sizes", options->effects ? 3 : 0, .rounds = 2},
        {"along y", options->effects ? 6 : 0, .rounds = 1}};
    if (strcmp(method, "all") != 0)
        progress_plan(parts, sizeof parts / sizeof parts[0]);
    else
        progress_overall();
    if (status == EXIT_DONE)
        status = message_refused(circe_test_run(s.context, NULL, arguments->argument, options, &watch, &result));
    progress_clear();
    if (status == EXIT_DONE) status = print(arguments, result, folder);
    circe_test_job_result_free(result);
    session_close(&s);
    return status;
}
