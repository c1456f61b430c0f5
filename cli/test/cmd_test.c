/* circe test METHOD: a p-value with what it rests on, the calibration of the test on data like these, effect sizes; or
 * every test in one table. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/common/text.h"
#include "cli/test/test_calibration.h"
#include "cli/test/test_job.h"
#include "cli/test/test_output.h"
#include "io/paths.h"
#include "io/reading.h"

enum { EFFECT_DRAWS = 200, ALONG_POINTS = 9 };
static const double long_calibration = 120; /* seconds that are worth a word beforehand */

/* What one run found. */
typedef struct findings {
    circe_test_result test;
    bool calibrated, with_effects;
    calibration calibration;
    circe_effects effects;
    test_along along;
} findings;

static int library(circe_status status) {
    progress_clear();
    if (status != CIRCE_OK) return message_library(status, NULL);
    return progress_interrupted() ? message_fail(EXIT_WORK, "interrupted; nothing was written") : EXIT_DONE;
}

/* ---- calibration ------------------------------------------------------------------------------------------------- */

static int draw_calibration(const test_job *j, const findings *f) {
    const char *folder = args_text(j->arguments, OPT_OUTPUT_FIGURES);
    calibration_panel panel;
    bool drawn = false;
    if (folder == NULL) return EXIT_DONE;
    calibration_panel_make(&f->calibration, &j->what->name, 1, "x drawn again given y, independently of z", &panel);
    report_figure figure = {.name = "calibration", .panels = &panel.panel, .n_panels = 1, .columns = 1};
    if (!report_draw(&figure, folder, &drawn)) return message_write(folder, circe_last_error());
    if (!drawn && !args_given(j->arguments, OPT_QUIET))
        message_note(
            "warning: calibration.svg was not drawn, since gnuplot is not here or failed; gnuplot "
            "calibration.gp draws it");
    return EXIT_DONE;
}

static int calibrate(const test_job *j, const test_problem *p, findings *f) {
    if (!args_given(j->arguments, OPT_CALIBRATE)) return EXIT_DONE;
    int64_t repetitions = args_integer(j->arguments, OPT_CALIBRATE);
    double expected = (double)repetitions * f->test.seconds;
    if (expected > long_calibration && !args_given(j->arguments, OPT_QUIET))
        message_note("calibrating takes about %.0f minutes; --calibrate N with a smaller N is quicker",
                     ceil(expected / 60));
    f->calibrated = true;
    int status = library(calibration_run(j->s.context, p->x, p->y, p->z, &p->options, repetitions, &f->calibration));
    return status == EXIT_DONE ? draw_calibration(j, f) : status;
}

/* ---- effects ----------------------------------------------------------------------------------------------------- */

static int find_along(const test_job *j, const circe_test_options *options, findings *f) {
    if (!j->has_y || input_n_categories(&j->y, 0) > 0) return EXIT_DONE;
    const char *name = j->y.described->names != NULL ? j->y.described->names[0] : "y";
    f->along = test_along_make(name, ALONG_POINTS);
    test_along *a = &f->along;
    return library(circe_test_along(j->s.context, &j->x.values, &j->y.values, &j->z.values, options, 0, a->points,
                                    a->place, a->value, a->lower, a->upper, a->null_upper));
}

static int measure_effects(const test_job *j, const test_problem *p, findings *f) {
    if (!args_given(j->arguments, OPT_EFFECTS)) return EXIT_DONE;
    f->with_effects = true;
    int status = library(
        circe_test_effects(j->s.context, &j->x.values, p->y, &j->z.values, &p->options, EFFECT_DRAWS, &f->effects));
    return status == EXIT_DONE ? find_along(j, &p->options, f) : status;
}

/* ---- what was read -----------------------------------------------------------------------------------------------
 */

static int inputs_of(const test_job *j, const input *group[3]) {
    int n = 0;
    group[n++] = &j->x;
    if (j->has_y) group[n++] = &j->y;
    group[n++] = &j->z;
    return n;
}

static void json_read(cJSON *out, const test_job *j) {
    const input *group[3];
    int n = inputs_of(j, group);
    json_inputs(out, group, n);
}

static void text_read(const test_job *j) {
    const input *group[3];
    int n = inputs_of(j, group);
    text_inputs(group, n);
    if (args_given(j->arguments, OPT_TRANSFORM)) text_row("transform", "%s", args_text(j->arguments, OPT_TRANSFORM));
}

/* ---- one test ---------------------------------------------------------------------------------------------------- */

static int print_json(const test_job *j, const findings *f) {
    cJSON *out = cJSON_CreateObject();
    test_json(out, &f->test);
    json_number(out, "alpha", args_number(j->arguments, OPT_ALPHA));
    json_integer(out, "seed", args_integer(j->arguments, OPT_SEED));
    json_integer(out, "dropped", j->dropped);
    if (j->x.values.rows < j->given) json_integer(out, "rows_given", j->given);
    cJSON_AddStringToObject(out, "transform", args_text(j->arguments, OPT_TRANSFORM));
    json_read(out, j);
    if (f->calibrated) calibration_json(out, &f->calibration, args_number(j->arguments, OPT_ALPHA));
    if (f->with_effects) test_json_effects(out, &f->effects);
    test_json_along(out, &f->along);
    json_notes(out, &(circe_notes){j->warnings.text, j->warnings.n});
    return json_print(out);
}

static void print_text(const test_job *j, const findings *f) {
    char p[32];
    printf("p %s    %s test of x independent of z%s\n", test_p_equals(f->test.p_value, p, sizeof p), j->what->name,
           j->has_y ? " given y" : "");
    if (args_given(j->arguments, OPT_QUIET)) return;
    putchar('\n');
    text_wrap(stdout, f->test.verdict, 0, 0, text_width());
    printf("Trust: %s.\n\n", circe_trust_name(f->test.trust));
    test_text(&f->test);
    if (j->x.values.rows < j->given)
        text_row("rows given", "%" PRId64 ", of which a random sample was tested", j->given);
    text_read(j);
    if (f->with_effects) test_text_effects(&f->effects);
    test_text_along(&f->along);
    if (f->calibrated) calibration_text(&f->calibration, args_number(j->arguments, OPT_ALPHA));
    if (f->calibrated && args_given(j->arguments, OPT_OUTPUT_FIGURES))
        printf("\nThe figure: %s/calibration.svg\n", args_text(j->arguments, OPT_OUTPUT_FIGURES));
}

static int run_one(test_job *j, findings *f) {
    test_problem p = test_job_problem(j, j->what);
    int status = EXIT_DONE;
    if (args_given(j->arguments, OPT_OUTPUT_FIGURES))
        status = message_refused(path_make_folder(args_text(j->arguments, OPT_OUTPUT_FIGURES)));
    if (status == EXIT_DONE) status = library(circe_test(j->s.context, p.x, p.y, p.z, &p.options, &f->test));
    if (status == EXIT_DONE) status = calibrate(j, &p, f);
    if (status == EXIT_DONE) status = measure_effects(j, &p, f);
    if (status != EXIT_DONE) return status;
    if (!args_given(j->arguments, OPT_QUIET)) notes_print(&j->warnings);
    if (args_given(j->arguments, OPT_JSON)) return print_json(j, f);
    print_text(j, f);
    return EXIT_DONE;
}

/* ---- all of them -------------------------------------------------------------------------------------------------
 */

typedef struct row {
    circe_test_result result;
    char *error; /* NULL: there is a result */
} row;

static cJSON *json_row(size_t i, const row *r) {
    cJSON *out = cJSON_CreateObject();
    if (r->error == NULL) {
        test_json(out, &r->result);
        return out;
    }
    cJSON_AddStringToObject(out, "method", tests[i].name);
    cJSON_AddNullToObject(out, "p_value");
    cJSON_AddStringToObject(out, "error", r->error);
    return out;
}

static int print_all_json(const test_job *j, const row *rows, const findings *f) {
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "method", test_all_name);
    json_integer(out, "n", j->x.values.rows);
    json_integer(out, "dropped", j->dropped);
    if (j->x.values.rows < j->given) json_integer(out, "rows_given", j->given);
    cJSON_AddStringToObject(out, "transform", args_text(j->arguments, OPT_TRANSFORM));
    json_read(out, j);
    json_number(out, "alpha", args_number(j->arguments, OPT_ALPHA));
    json_integer(out, "seed", args_integer(j->arguments, OPT_SEED));
    cJSON *list = cJSON_AddArrayToObject(out, "tests");
    for (size_t i = 0; i < n_tests; i++) cJSON_AddItemToArray(list, json_row(i, &rows[i]));
    if (f->with_effects) test_json_effects(out, &f->effects);
    test_json_along(out, &f->along);
    json_notes(out, &(circe_notes){j->warnings.text, j->warnings.n});
    return json_print(out);
}

static void print_all_text(const test_job *j, const row *rows, const findings *f) {
    printf("  %-9s  %10s  %-11s  %13s  %8s  %9s  %s\n", "test", "p-value", "null", "statistic", "tested", "seconds",
           "trust");
    for (size_t i = 0; i < n_tests; i++) {
        const circe_test_result *r = &rows[i].result;
        char p[32];
        if (rows[i].error != NULL)
            printf("  %-9s  %10s  failed: %s\n", tests[i].name, "-", rows[i].error);
        else
            printf("  %-9s  %10s  %-11s  %13.6g  %8" PRId64 "  %9.4f  %s%s\n", tests[i].name,
                   test_p_text(r->p_value, p, sizeof p), circe_test_null_name(r->null), r->statistic, r->n_tested,
                   r->seconds, circe_trust_name(r->trust),
                   r->method == CIRCE_TEST_HSIC ? " (marginal: y is not used)" : "");
    }
    if (args_given(j->arguments, OPT_QUIET)) return;
    text_read(j);
    if (f->with_effects) test_text_effects(&f->effects);
    test_text_along(&f->along);
    putchar('\n');
    text_wrap(stdout,
              "Taking the smallest of these p-values would find dependence where there is none: decide on one test "
              "beforehand. circe test METHOD shows what its p-value rests on.",
              0, 0, text_width());
}

static int test_row(test_job *j, size_t i, row *r) {
    test_problem p = test_job_problem(j, &tests[i]);
    circe_status status = circe_test(j->s.context, p.x, p.y, p.z, &p.options, &r->result);
    progress_clear();
    if (status == CIRCE_ERR_CANCELLED || progress_interrupted()) return message_fail(EXIT_WORK, "interrupted");
    if (status == CIRCE_OK) return EXIT_DONE;
    const char *text = circe_last_error();
    r->error = small_format("%s", text[0] != '\0' ? text : circe_status_text(status));
    return EXIT_DONE;
}

static int run_all(test_job *j, findings *f) {
    row *rows = small_alloc(n_tests * sizeof *rows);
    int status = EXIT_DONE;
    size_t failed = 0;
    for (size_t i = 0; i < n_tests && status == EXIT_DONE; i++) {
        status = test_row(j, i, &rows[i]);
        failed += rows[i].error != NULL;
    }
    test_problem p = test_job_problem(j, &tests[0]);
    if (status == EXIT_DONE) status = measure_effects(j, &p, f);
    if (status == EXIT_DONE) {
        if (!args_given(j->arguments, OPT_QUIET)) notes_print(&j->warnings);
        if (args_given(j->arguments, OPT_JSON))
            status = print_all_json(j, rows, f);
        else
            print_all_text(j, rows, f);
    }
    if (status == EXIT_DONE && failed > 0)
        status = message_fail(EXIT_WORK, "%zu of %zu tests could not be made; their rows say why", failed, n_tests);
    for (size_t i = 0; i < n_tests; i++) free(rows[i].error);
    free(rows);
    return status;
}

int cmd_test(const args *arguments) {
    test_job job;
    findings found = {0};
    int status = test_job_open(arguments, &job);
    if (status == EXIT_DONE) status = job.what != NULL ? run_one(&job, &found) : run_all(&job, &found);
    calibration_free(&found.calibration);
    test_along_free(&found.along);
    test_job_free(&job);
    return status;
}
