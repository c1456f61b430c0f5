/* From options to rows, kernels and the library's options. */
#include "cli/test/test_job.h"
#include "cli/common/from_args.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/fitting.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "io/reading.h"
#include "io/suggest.h"
#include "jobs/kernels.h"
#include "jobs/sentinels.h"

enum { LEAST_ROWS = 8, MAX_NAMES = 16 };

/* Weights have neither columns nor a kernel of their own: the ids are of options that `test` does not take. */

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

static int refuse_name(const char *name) {
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (; n < n_tests && n + 1 < MAX_NAMES; n++) names[n] = tests[n].name;
    names[n++] = test_all_name;
    return message_refused(suggest_refuse("test", name, "circe test METHOD --x X --y Y --z Z", names, n));
}

static int check_all(const args *a) {
    static const spec_option_id of_one[] = {OPT_NULL, OPT_CALIBRATE, OPT_OUTPUT_FIGURES};
    for (size_t i = 0; i < sizeof of_one / sizeof of_one[0]; i++) {
        if (args_given(a, of_one[i]))
            return message_fail(EXIT_INPUT, "--%s is of one test: circe test METHOD --%s ...",
                                spec_options[of_one[i]].name, spec_options[of_one[i]].name);
    }
    return EXIT_DONE;
}

static int choose(test_job *j) {
    const args *a = j->arguments;
    const char *name = a->argument;
    bool all = name != NULL && strcmp(name, test_all_name) == 0;
    j->what = name != NULL ? test_find(name) : NULL;
    if (!all && j->what == NULL) return refuse_name(name);
    if (all && check_all(a) != EXIT_DONE) return EXIT_INPUT;
    bool y = args_given(a, OPT_AUXILIARY_Y), z = args_given(a, OPT_AUXILIARY_Z);
    if (y != z)
        return message_fail(EXIT_INPUT, "--auxiliary-%s needs --auxiliary-%s beside it", y ? "y" : "z", y ? "z" : "y");
    if (y && !args_given(a, OPT_Y))
        return message_fail(EXIT_INPUT, "--auxiliary-y needs --y: without it there is no mean of z given y to learn");
    if (args_given(a, OPT_OUTPUT_FIGURES) && !args_given(a, OPT_CALIBRATE))
        return message_fail(EXIT_INPUT, "-o is for the figure of --calibrate, which is not asked for");
    return EXIT_DONE;
}

/* Options that had nothing to act on. */
static void note_unused(test_job *j) {
    static const struct {
        spec_option_id id;
        unsigned use;
        const char *why;
    } served[] = {
        {OPT_KERNEL_X, TEST_KERNELS, "has no kernels of x and z"},
        {OPT_KERNEL_Z, TEST_KERNELS, "has no kernels of x and z"},
        {OPT_KERNEL_Y, TEST_CONDITIONS, "does not look at y"},
        {OPT_AUXILIARY_Y, TEST_AUXILIARY, "regresses x too, which auxiliary rows do not have"},
        {OPT_TEST_SHARE, TEST_SPLIT, "tests all rows"},
        {OPT_TEST_MEAN, TEST_MEAN, "has no such choice"},
        {OPT_TEST_REGRESSION, TEST_REGRESSION, "has no such choice"},
    };
    for (size_t i = 0; j->what != NULL && i < sizeof served / sizeof served[0]; i++) {
        if (args_given(j->arguments, served[i].id) && !(j->what->uses & served[i].use))
            notes_add(&j->warnings, "--%s was ignored: %s %s", spec_options[served[i].id].name, j->what->name,
                      served[i].why);
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static int read_auxiliary(test_job *j) {
    const spec_option_id option[2] = {OPT_AUXILIARY_Y, OPT_AUXILIARY_Z};
    const input *like[2] = {&j->y, &j->z};
    input *in[2] = {&j->auxiliary_y, &j->auxiliary_z};
    if (!args_given(j->arguments, OPT_AUXILIARY_Y)) return EXIT_DONE;
    for (int k = 0; k < 2; k++) {
        const char *path = args_text(j->arguments, option[k]);
        *in[k] = (input){.of = like[k]->of, .described = &in[k]->table};
        int status = args_input_read_from(j->arguments, like[k]->of, path, NULL, in[k]);
        if (status != EXIT_DONE) return status;
    }
    int status = args_inputs_check(j->arguments, in, 2, 2, &j->dropped_auxiliary);
    for (int k = 0; k < 2 && status == EXIT_DONE; k++) status = message_refused(input_align(like[k], in[k]));
    return status;
}

/* What belongs together row by row; returns how many. */
static int group_rows(test_job *j, variable *variables, input **group) {
    int n = 0;
    variables[n] = VARIABLE_X, group[n++] = &j->x;
    if (j->has_y) variables[n] = VARIABLE_Y, group[n++] = &j->y;
    variables[n] = VARIABLE_Z, group[n++] = &j->z;
    if (args_given(j->arguments, OPT_ROW_WEIGHTS)) variables[n] = VARIABLE_WEIGHTS, group[n++] = &j->weights;
    return n;
}

static int read_rows(test_job *j) {
    input *group[4];
    variable variables[4];
    int64_t rows = 0, foreseen = -1;
    int n = group_rows(j, variables, group);
    int status = args_rows_wanted(j->arguments, &rows);
    if (status == EXIT_DONE) status = args_inputs_foresee(j->arguments, j->s.context, variables, n, &foreseen);
    for (int k = 0; k < n && status == EXIT_DONE; k++)
        status = args_input_read(j->arguments, variables[k], false, group[k]);
    if (status == EXIT_DONE) status = args_check_categories(j->arguments, group, n);
    if (status == EXIT_DONE) status = args_inputs_check(j->arguments, group, n, LEAST_ROWS, &j->dropped);
    j->given = j->x.values.rows;
    if (status == EXIT_DONE && rows > 0) status = args_inputs_sample(j->arguments, group, n, rows, LEAST_ROWS);
    return status == EXIT_DONE ? read_auxiliary(j) : status;
}

static double cell(const circe_mat *m, int64_t i, int64_t k) {
    int64_t at = i * m->ld + k;
    return m->dtype == CIRCE_FLOAT32 ? (double)((const float *)m->data)[at] : ((const double *)m->data)[at];
}

static int take_weights(test_job *j) {
    const circe_mat *m = &j->weights.values;
    double sum = 0;
    if (!args_given(j->arguments, OPT_ROW_WEIGHTS)) return EXIT_DONE;
    if (m->cols != 1 || input_has_text(&j->weights))
        return message_fail(EXIT_INPUT, "--weights must be one column of numbers, not %s",
                            args_text(j->arguments, OPT_ROW_WEIGHTS));
    free(j->weight_values);
    j->weight_values = malloc((size_t)m->rows * sizeof *j->weight_values);
    if (j->weight_values == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " weights", m->rows);
    for (int64_t i = 0; i < m->rows; i++) {
        j->weight_values[i] = cell(m, i, 0);
        sum += j->weight_values[i];
        if (j->weight_values[i] < 0)
            return message_fail(EXIT_INPUT, "--weights %s: row %" PRId64 " is %g; a weight is at least 0",
                                args_text(j->arguments, OPT_ROW_WEIGHTS), i, j->weight_values[i]);
    }
    if (!(sum > 0)) return message_fail(EXIT_INPUT, "--weights: all of them are 0, which leaves no rows");
    return EXIT_DONE;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Gaussian of a width of its own for every column of numbers, delta for every one of text; NULL where there is no text:
 * the library's own choice. */
static int kernel_of_text(circe_context *context, const input *in, circe_kernel **kernel) {
    char *text = NULL;
    size_t bytes = 0;
    *kernel = NULL;
    if (!input_has_text(in)) return EXIT_DONE;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return message_fail(EXIT_WORK, "out of memory");
    for (int64_t k = 0; k < in->values.cols; k++)
        fprintf(out, "%s%" PRId64 ":%s", k > 0 ? "*" : "", k, in->described->categorical[k] ? "delta" : "gaussian");
    fclose(out);
    circe_status status = circe_kernel_parse(context, text, kernel);
    free(text);
    return status == CIRCE_OK ? EXIT_DONE : message_library(status, NULL);
}

static int make_kernel(test_job *j, const input *in, circe_kernel **kernel) {
    if (args_kernel_given(j->arguments, in->of))
        return args_kernel(j->s.context, j->arguments, in, WIDTH_FREE, &j->warnings, kernel);
    return kernel_of_text(j->s.context, in, kernel);
}

static int make_kernels(test_job *j) {
    int status = make_kernel(j, &j->x, &j->kernel_x);
    if (status == EXIT_DONE && j->has_y) status = make_kernel(j, &j->y, &j->kernel_y);
    return status == EXIT_DONE ? make_kernel(j, &j->z, &j->kernel_z) : status;
}

/* ---- more rows than can be tested ------------------------------------------------------------------------------- */

/* "12 minutes" */
static const char *long_time(double seconds, char *out, size_t size) {
    if (seconds < 90)
        snprintf(out, size, "%.0f seconds", ceil(seconds));
    else if (seconds < 5400)
        snprintf(out, size, "%.0f minutes", ceil(seconds / 60));
    else
        snprintf(out, size, "%.1f hours", seconds / 3600);
    return out;
}

/* Of all tests the one that takes longest speaks for them. */
static int foresee(test_job *j, circe_test_plan *plan) {
    double seconds = args_number(j->arguments, OPT_SECONDS);
    test_problem p = test_job_problem(j, j->what != NULL ? j->what : test_find("splitkci"));
    if (j->what == NULL) seconds /= 3;
    circe_status status = circe_test_foresee(j->s.context, p.x, p.y, p.z, &p.options, seconds, plan);
    progress_clear();
    if (status == CIRCE_ERR_CANCELLED || progress_interrupted())
        return message_fail(EXIT_WORK, "interrupted; nothing was written");
    if (status != CIRCE_OK) *plan = (circe_test_plan){.rows = j->x.values.rows, .seconds = NAN}; /* the test will say */
    return EXIT_DONE;
}

static int refuse_size(const test_job *j, const circe_test_plan *plan) {
    message_note("a test of all %" PRId64 " rows needs about %.1f GB, and %.1f GB are available", j->given,
                 plan->bytes / 1e9, circe_context_memory(j->s.context) / 1e9);
    message_hint("--rows %" PRId64 " takes a random sample; circe test rcot takes millions of rows", plan->rows);
    return EXIT_WORK;
}

/* Tests all rows and says beforehand how long that takes; or, where that is longer than --seconds, a sample. */
static int limit_rows(test_job *j) {
    circe_test_plan plan = {0};
    input *group[4];
    variable variables[4];
    char time[32];
    int64_t wanted = 0;
    int status = args_rows_wanted(j->arguments, &wanted);
    if (status == EXIT_DONE && wanted <= 0) status = foresee(j, &plan);
    if (status != EXIT_DONE || wanted > 0 || plan.rows == j->given) return status;
    bool rcot = j->what != NULL && j->what->method == CIRCE_TEST_RCOT;
    long_time(plan.seconds, time, sizeof time);
    if (wanted == ALL_ROWS) {
        if (plan.bytes > circe_context_memory(j->s.context)) return refuse_size(j, &plan);
        if (!args_given(j->arguments, OPT_QUIET))
            message_note("testing all %" PRId64 " rows takes about %s", j->given, time);
        return EXIT_DONE;
    }
    notes_add(&j->warnings,
              "a random sample of %" PRId64 " of the %" PRId64 " rows was tested (--rows %" PRId64 " --seed %" PRId64
              " repeats it): all of them would take about %s; --rows all tests all%s",
              plan.rows, j->given, plan.rows, args_integer(j->arguments, OPT_SEED), time,
              rcot ? "" : ", and the test rcot takes millions of rows in seconds");
    status = args_inputs_sample(j->arguments, group, group_rows(j, variables, group), plan.rows, LEAST_ROWS);
    return status == EXIT_DONE ? take_weights(j) : status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

int test_job_open(const args *arguments, test_job *job) {
    *job = (test_job){.arguments = arguments};
    int status = choose(job);
    job->has_y = args_given(arguments, OPT_Y) && (job->what == NULL || (job->what->uses & TEST_CONDITIONS));
    if (status == EXIT_DONE) status = session_open(arguments, &job->s);
    if (status == EXIT_DONE) status = read_rows(job);
    if (status == EXIT_DONE) status = take_weights(job);
    if (status == EXIT_DONE) status = make_kernels(job);
    if (status == EXIT_DONE) status = limit_rows(job);
    if (status != EXIT_DONE) return status;
    if (job->dropped + job->dropped_auxiliary > 0)
        notes_add(&job->warnings, "left out %" PRId64 " rows with missing cells",
                  job->dropped + job->dropped_auxiliary);
    const input *const group[] = {&job->x, &job->z, &job->y};
    sentinels_note(group, job->has_y ? 3 : 2, &job->warnings);
    fitting_note_constant(&job->x, &job->warnings);
    if (job->has_y) fitting_note_constant(&job->y, &job->warnings);
    fitting_note_constant(&job->z, &job->warnings);
    if (!args_given(arguments, OPT_Y) && (job->what == NULL || (job->what->uses & TEST_CONDITIONS)))
        notes_add(&job->warnings, "there is no --y: this is the marginal test, of x independent of z");
    note_unused(job);
    return EXIT_DONE;
}

void test_job_free(test_job *job) {
    input *const inputs[] = {&job->x, &job->y, &job->z, &job->weights, &job->auxiliary_y, &job->auxiliary_z};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) input_free(inputs[i]);
    circe_kernel_destroy(job->kernel_x);
    circe_kernel_destroy(job->kernel_y);
    circe_kernel_destroy(job->kernel_z);
    free(job->weight_values);
    notes_free(&job->warnings);
    session_close(&job->s);
}

test_problem test_job_problem(const test_job *job, const test_kind *what) {
    const args *a = job->arguments;
    test_problem p = {.x = &job->x.values,
                      .y = job->has_y && (what->uses & TEST_CONDITIONS) ? &job->y.values : NULL,
                      .z = &job->z.values};
    circe_test_options *o = &p.options;
    circe_test_options_init(o);
    o->method = what->method;
    o->null = (circe_test_null)args_choice(a, OPT_NULL);
    o->draws = args_integer(a, OPT_DRAWS);
    o->seed = (uint64_t)args_integer(a, OPT_SEED);
    o->alpha = args_number(a, OPT_ALPHA);
    o->kernel_x = job->kernel_x;
    o->kernel_y = job->kernel_y;
    o->kernel_z = job->kernel_z;
    o->weights = job->weight_values;
    o->transform = (circe_transform)args_choice(a, OPT_TRANSFORM);
    if (what->uses & TEST_REGRESSION)
        o->regression = (circe_gcm_regression)(args_choice(a, OPT_TEST_REGRESSION) + CIRCE_GCM_KERNEL);
    if (what->uses & TEST_MEAN) o->mean = (circe_test_mean)args_choice(a, OPT_TEST_MEAN);
    if ((what->uses & TEST_SPLIT) && args_given(a, OPT_TEST_SHARE)) o->test_share = args_number(a, OPT_TEST_SHARE);
    if ((what->uses & TEST_AUXILIARY) && args_given(a, OPT_AUXILIARY_Y)) {
        o->auxiliary_y = &job->auxiliary_y.values;
        o->auxiliary_z = &job->auxiliary_z.values;
    }
    return p;
}
