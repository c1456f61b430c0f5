/* Makes rows, kernels and the library's options from the job's options; then runs the tests, their calibration and
 * effects. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "circe/test_job.h"
#include "core/settings.h"
#include "io/inputs.h"
#include "io/suggest.h"
#include "jobs/calibration.h"
#include "jobs/columns.h"
#include "jobs/fitting.h"
#include "jobs/sentinels.h"
#include "jobs/test_gpu.h"
#include "jobs/test_json.h"
#include "jobs/test_parts.h"
#include "jobs/tests.h"

enum { MAX_NAMES = 16, MOST_INPUTS = 4 + N_ROW_COLUMNS, EFFECT_DRAWS = 200, ALONG_POINTS = 9 };

static const double long_calibration = 120; /* seconds that are worth a word beforehand */

/* The result, with all that it points to. */
typedef struct tested {
    circe_test_job_result result; /* first: what the caller holds */
    arena owner;
} tested;

/* Everything of one run, freed as one. */
typedef struct test_job {
    circe_context *context;
    const circe_test_job_options *options;
    const circe_watch *watch;
    input_options inputs;
    const test_kind *what; /* NULL: all of them */
    bool has_y;
    input x, y, z, auxiliary_y, auxiliary_z, fitted;
    circe_mat fitted_x, fitted_z; /* columns of `fitted` */
    test_gpu gpu;
    row_column of_rows[N_ROW_COLUMNS];
    int64_t dropped_auxiliary;
    int64_t rows_wanted;                          /* of --rows */
    circe_kernel *kernel_x, *kernel_y, *kernel_z; /* NULL: the library's own choice */
    notes warnings;
    circe_test_job_result *result;
    arena *owner; /* of what the result points to */
} test_job;

/* The library's options for one of the tests. They point into the job. */
typedef struct test_problem {
    const circe_mat *x, *y, *z; /* y = NULL: there is none */
    circe_test_options options;
} test_problem;

static bool given(const test_job *j, const char *name) {
    return circe_options_given(&circe_test_job_schema, j->options, name);
}

static bool has_predictions(const test_job *j) { return circe_word_index(test_regressors, j->options->regressor) < 0; }

static test_problem problem_of(const test_job *j, const test_kind *what) {
    test_problem p = {.x = &j->x.values,
                      .y = j->has_y && (what->uses & TEST_CONDITIONS) ? &j->y.values : NULL,
                      .z = &j->z.values,
                      .options = test_options_of(j->options, what)};
    circe_test_options *o = &p.options;
    o->kernel_x = j->kernel_x;
    o->kernel_y = j->kernel_y;
    o->kernel_z = j->kernel_z;
    o->weights = j->of_rows[ROW_WEIGHTS].values;
    o->groups = j->of_rows[ROW_GROUPS].values;
    o->time = j->of_rows[ROW_TIME].values;
    o->device = j->gpu.device;
    if ((what->uses & TEST_REGRESSION) && has_predictions(j)) {
        o->fitted_x = &j->fitted_x;
        o->fitted_z = &j->fitted_z;
    }
    if ((what->uses & TEST_AUXILIARY) && j->options->auxiliary_y != NULL) {
        o->auxiliary_y = &j->auxiliary_y.values;
        o->auxiliary_z = &j->auxiliary_z.values;
    }
    return p;
}

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

static circe_status refuse_name(const char *name) {
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (; n < n_tests && n + 1 < MAX_NAMES; n++) names[n] = tests[n].name;
    names[n++] = test_all_name;
    return suggest_refuse("test", name, "circe test METHOD --x X --y Y --z Z", names, n);
}

static circe_status check_all(const test_job *j) {
    static const char *const of_one[] = {"null", "calibrate", "device"};
    for (size_t i = 0; i < sizeof of_one / sizeof of_one[0]; i++)
        if (given(j, of_one[i]))
            return circe_fail(CIRCE_ERR_ARGUMENT, "--%s works with one test only: circe test METHOD --%s ...",
                              of_one[i], of_one[i]);
    return CIRCE_OK;
}

static circe_status choose(test_job *j, const char *name) {
    const circe_test_job_options *o = j->options;
    bool all = name != NULL && strcmp(name, test_all_name) == 0, y = o->auxiliary_y != NULL, z = o->auxiliary_z != NULL;
    circe_status status = circe_options_check(&circe_test_job_schema, o);
    if (status == CIRCE_OK && (o->x == NULL || o->z == NULL))
        status = circe_fail_hint(circe_fail(CIRCE_ERR_ARGUMENT, "--%s FILE is required", o->x == NULL ? "x" : "z"),
                                 "usage: circe test METHOD --x X --z Z [--y Y], or --data DATA --pairs FILE");
    if (status == CIRCE_OK && (o->cache != NULL || o->no_checks))
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--%s needs --pairs: it is for many tests",
                            o->cache != NULL ? "cache" : "no-checks");
    if (status == CIRCE_OK && given(j, "block") && o->time == NULL)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--block needs --time: it is a number of consecutive times");
    if (status != CIRCE_OK) return status;
    j->what = name != NULL ? test_find(name) : NULL;
    if (!all && j->what == NULL) return refuse_name(name);
    if (all && check_all(j) != CIRCE_OK) return CIRCE_ERR_ARGUMENT;
    if (y != z)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--auxiliary-%s needs --auxiliary-%s too", y ? "y" : "z", y ? "z" : "y");
    if (y && o->y == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--auxiliary-y needs --y: without it there is no mean of z given y to learn");
    j->has_y = o->y != NULL && (all || (j->what->uses & TEST_CONDITIONS));
    if (strcmp(o->missing, "impute") == 0 && (given(j, "calibrate") || given(j, "effects") || y))
        return circe_fail(CIRCE_ERR_ARGUMENT, "--missing impute gives only a p-value: leave out --%s",
                          given(j, "calibrate") ? "calibrate"
                          : given(j, "effects") ? "effects"
                                                : "auxiliary-y");
    return rows_wanted(o->rows, &j->rows_wanted);
}

/* Options that had nothing to act on. */
static void note_unused(test_job *j) {
    static const struct {
        const char *name;
        unsigned use;
        const char *why;
    } served[] = {
        {"kernel-x", TEST_KERNELS, "has no kernels of x and z"},
        {"kernel-z", TEST_KERNELS, "has no kernels of x and z"},
        {"y", TEST_CONDITIONS, "does not look at y"},
        {"kernel-y", TEST_CONDITIONS, "does not look at y"},
        {"auxiliary-y", TEST_AUXILIARY, "also regresses x, which auxiliary rows do not have"},
        {"test-share", TEST_SPLIT, "tests all rows"},
        {"mean", TEST_MEAN, "has no such choice"},
        {"regressor", TEST_REGRESSION, "has no such choice"},
    };
    for (size_t i = 0; j->what != NULL && i < sizeof served / sizeof served[0]; i++)
        if (given(j, served[i].name) && !(j->what->uses & served[i].use))
            notes_add(&j->warnings, "--%s was ignored: %s %s", served[i].name, j->what->name, served[i].why);
    if (given(j, "imputations") && strcmp(j->options->missing, "impute") != 0)
        notes_add(&j->warnings, "--imputations was ignored: it is for --missing impute");
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static input_options inputs_of(const circe_test_job_options *o, const circe_table *table) {
    return (input_options){.table = table,
                           .data = o->data,
                           .of = {[VARIABLE_X] = {o->x, o->columns_x, NULL},
                                  [VARIABLE_Y] = {o->y, o->columns_y, NULL},
                                  [VARIABLE_Z] = {o->z, o->columns_z, NULL},
                                  [VARIABLE_WEIGHTS] = {o->weights, NULL, NULL},
                                  [VARIABLE_GROUPS] = {o->groups, NULL, NULL},
                                  [VARIABLE_TIME] = {o->time, NULL, NULL}},
                           .reading = READING_OF(o)};
}

static circe_status read_auxiliary(test_job *j) {
    const char *const paths[2] = {j->options->auxiliary_y, j->options->auxiliary_z};
    const input *like[2] = {&j->y, &j->z};
    input *in[2] = {&j->auxiliary_y, &j->auxiliary_z};
    circe_status status = CIRCE_OK;
    if (paths[0] == NULL) return CIRCE_OK;
    for (int k = 0; k < 2 && status == CIRCE_OK; k++)
        status = input_read_from(&j->inputs, k == 0 ? VARIABLE_Y : VARIABLE_Z, paths[k], NULL, in[k]);
    if (status == CIRCE_OK) status = inputs_check(&j->inputs.reading, in, 2, 2, &j->dropped_auxiliary);
    for (int k = 0; k < 2 && status == CIRCE_OK; k++) status = input_align(like[k], in[k]);
    return status;
}

/* What belongs together row by row; returns how many. */
static int group_rows(test_job *j, variable *variables, input **group) {
    int n = 0;
    variables[n] = VARIABLE_X, group[n++] = &j->x;
    if (j->has_y) variables[n] = VARIABLE_Y, group[n++] = &j->y;
    variables[n] = VARIABLE_Z, group[n++] = &j->z;
    return row_columns_join(j->of_rows, variables, group, n);
}

/* group[0, n) and the predictions, whose rows are theirs as well. */
static int group_all(test_job *j, variable *variables, input **group) {
    int n = group_rows(j, variables, group);
    if (has_predictions(j)) group[n++] = &j->fitted;
    return n;
}

/* The columns of the predictions that are of x, and of z. */
static circe_status split_predictions(test_job *j) {
    const circe_mat *all = &j->fitted.values;
    int64_t x = j->x.values.cols, z = j->z.values.cols;
    if (!has_predictions(j)) return CIRCE_OK;
    if (all->cols != x + z || input_has_text(&j->fitted))
        return circe_fail(CIRCE_ERR_SHAPE,
                          "--regressor %s has %" PRId64 " columns; predictions need %" PRId64
                          " of numbers: those of x, then those of z",
                          j->options->regressor, all->cols, x + z);
    j->fitted_x = j->fitted_z = *all;
    j->fitted_x.cols = x;
    j->fitted_z.cols = z;
    j->fitted_z.data = (char *)all->data + (size_t)x * circe_dtype_size(all->dtype);
    return CIRCE_OK;
}

/* A word that is misspelt is taken for a file. */
static circe_status read_predictions(test_job *j) {
    circe_status status = input_read_from(&j->inputs, VARIABLE_TABLE, j->options->regressor, NULL, &j->fitted);
    return status != CIRCE_ERR_IO ? status
                                  : circe_fail(status, "--regressor must be one of %s, or a file of predictions: %s",
                                               test_regressors, circe_last_error());
}

static circe_status read_rows(test_job *j) {
    const reading_options *how = &j->inputs.reading;
    input *group[MOST_INPUTS];
    variable variables[MOST_INPUTS];
    int64_t foreseen = -1;
    int n = group_rows(j, variables, group);
    circe_status status = inputs_foresee(&j->inputs, j->context, variables, n, &foreseen);
    for (int k = 0; k < n && status == CIRCE_OK; k++) status = input_read(&j->inputs, variables[k], false, group[k]);
    if (status == CIRCE_OK && has_predictions(j)) status = read_predictions(j);
    n = group_all(j, variables, group);
    if (status == CIRCE_OK) status = inputs_check_categories(how, group, n);
    if (status == CIRCE_OK) status = inputs_check(how, group, n, TEST_LEAST_ROWS, &j->result->dropped);
    j->result->given = j->x.values.rows;
    if (status == CIRCE_OK && j->rows_wanted > 0)
        status = inputs_sample(j->options->seed, group, n, j->rows_wanted, TEST_LEAST_ROWS);
    if (status == CIRCE_OK) status = split_predictions(j);
    return status == CIRCE_OK ? read_auxiliary(j) : status;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* A gaussian with its own width for every column of numbers, and delta for every column of text. NULL if there is no
 * text: the library chooses. */
static circe_status kernel_of_text(circe_context *context, const input *in, circe_kernel **kernel) {
    *kernel = NULL;
    if (!input_has_text(in)) return CIRCE_OK;
    OWNED char *text = kernel_of_columns(in->described->categorical, in->values.cols, false);
    return circe_kernel_parse(context, text, kernel);
}

static circe_status make_kernel(test_job *j, const input *in, const char *asked, circe_kernel **kernel) {
    if (asked == NULL) return kernel_of_text(j->context, in, kernel);
    return kernel_make(j->context, &(kernel_choice){.kernel = asked}, in, WIDTH_FREE, &j->warnings, kernel);
}

static circe_status make_kernels(test_job *j) {
    circe_status status = make_kernel(j, &j->x, j->options->kernel_x, &j->kernel_x);
    if (status == CIRCE_OK && j->has_y) status = make_kernel(j, &j->y, j->options->kernel_y, &j->kernel_y);
    return status == CIRCE_OK ? make_kernel(j, &j->z, j->options->kernel_z, &j->kernel_z) : status;
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

/* With several tests, the slowest one decides. */
static circe_status foresee(test_job *j, circe_test_plan *plan) {
    double seconds = j->options->seconds;
    test_problem p = problem_of(j, j->what != NULL ? j->what : test_find("splitkci"));
    if (j->what == NULL) seconds /= 3;
    circe_status status = circe_test_foresee(j->context, p.x, p.y, p.z, &p.options, seconds, plan);
    if (status == CIRCE_ERR_CANCELLED) return status;
    if (status != CIRCE_OK) *plan = (circe_test_plan){.rows = j->x.values.rows, .seconds = NAN}; /* the test will say */
    return job_progress(j->watch, 0, "testing");
}

static circe_status refuse_size(const test_job *j, const circe_test_plan *plan) {
    circe_status status =
        circe_fail(CIRCE_ERR_MEMORY, "a test of all %" PRId64 " rows needs about %.1f GB, and %.1f GB are available",
                   j->result->given, plan->bytes / 1e9, circe_context_memory(j->context) / 1e9);
    return circe_fail_hint(status, "--rows %" PRId64 " takes a random sample; circe test rcot takes millions of rows",
                           plan->rows);
}

static circe_status take_sample(test_job *j, int64_t rows, const char *time) {
    bool millions = j->what != NULL && (j->what->uses & TEST_MILLIONS);
    input *group[MOST_INPUTS];
    variable variables[MOST_INPUTS];
    notes_add(&j->warnings,
              "a random sample of %" PRId64 " of the %" PRId64 " rows was tested (--rows %" PRId64 " --seed %" PRId64
              " repeats it); testing all of them would take about %s; --rows all does that%s",
              rows, j->result->given, rows, j->options->seed, time,
              millions ? "" : ", and the test rcot takes millions of rows in seconds");
    circe_status status = inputs_sample(j->options->seed, group, group_all(j, variables, group), rows, TEST_LEAST_ROWS);
    if (status == CIRCE_OK) status = split_predictions(j);
    return status == CIRCE_OK ? row_columns_take(j->of_rows) : status;
}

/* Tests all rows, and says beforehand how long that takes; or tests a sample if all rows would take longer than
 * --seconds. */
static circe_status limit_rows(test_job *j) {
    circe_test_plan plan = {0};
    char time[32];
    if (j->rows_wanted > 0) return CIRCE_OK;
    circe_status status = foresee(j, &plan);
    if (status != CIRCE_OK || plan.rows == j->result->given) return status;
    long_time(plan.seconds, time, sizeof time);
    if (j->rows_wanted != ALL_ROWS) return take_sample(j, plan.rows, time);
    if (plan.bytes > circe_context_memory(j->context)) return refuse_size(j, &plan);
    job_note(j->watch, "testing all %" PRId64 " rows takes about %s", j->result->given, time);
    return CIRCE_OK;
}

static void note_data(test_job *j) {
    int64_t dropped = j->result->dropped + j->dropped_auxiliary;
    const input *const group[] = {&j->x, &j->z, &j->y};
    if (dropped > 0)
        notes_add(&j->warnings, "left out %" PRId64 " row%s with missing cells", dropped, dropped == 1 ? "" : "s");
    sentinels_note(group, j->has_y ? 3 : 2, &j->warnings);
    fitting_note_constant(&j->x, &j->warnings);
    if (j->has_y) fitting_note_constant(&j->y, &j->warnings);
    fitting_note_constant(&j->z, &j->warnings);
    if (j->options->y == NULL && (j->what == NULL || (j->what->uses & TEST_CONDITIONS)))
        notes_add(&j->warnings, "without --y, this is the marginal test of x against z");
    note_unused(j);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static circe_status ask(const test_job *j, const test_problem *p, circe_test_result *result) {
    if (strcmp(j->options->missing, "impute") == 0)
        return circe_test_impute(j->context, p->x, p->y, p->z, &p->options, j->options->imputations, result);
    return circe_test(j->context, p->x, p->y, p->z, &p->options, result);
}

static circe_status calibrate(const test_job *j, const test_problem *p, circe_test_job_result *r) {
    int64_t repetitions = j->options->calibrate;
    if (repetitions == 0) return CIRCE_OK;
    double expected = (double)repetitions * r->tests[0].result.seconds;
    if (expected > long_calibration)
        job_note(j->watch, "calibrating takes about %.0f minutes; --calibrate N with a smaller N is quicker",
                 ceil(expected / 60));
    r->calibration = arena_alloc(j->owner, sizeof *r->calibration);
    circe_status status =
        calibration_run(j->owner, j->context, p->x, p->y, p->z, &p->options, repetitions, r->calibration);
    return status == CIRCE_OK ? job_progress(j->watch, 1, "calibrated") : status;
}

static circe_status find_along(const test_job *j, const circe_test_options *options, circe_effects_along *a) {
    if (!j->has_y || input_n_categories(&j->y, 0) > 0) return CIRCE_OK;
    *a = test_along_make(j->owner, j->y.described->names != NULL ? j->y.described->names[0] : "y", ALONG_POINTS);
    return circe_test_along(j->context, &j->x.values, &j->y.values, &j->z.values, options, 0, a->points, a->place,
                            a->value, a->lower, a->upper, a->null_upper);
}

static circe_status find_effects(const test_job *j, const test_problem *p, circe_test_job_result *r) {
    if (!j->options->effects) return CIRCE_OK;
    r->effects = arena_alloc(j->owner, sizeof *r->effects);
    circe_status status =
        circe_test_effects(j->context, &j->x.values, p->y, &j->z.values, &p->options, EFFECT_DRAWS, r->effects);
    if (status == CIRCE_OK) status = find_along(j, &p->options, &r->along);
    return status == CIRCE_OK ? job_progress(j->watch, 1, "effects") : status;
}

static circe_status run_one(const test_job *j, circe_test_job_result *r) {
    test_problem p = problem_of(j, j->what);
    r->tests[0].method = j->what->name;
    circe_status status = ask(j, &p, &r->tests[0].result);
    if (status == CIRCE_OK) status = job_progress(j->watch, 1, "tested");
    if (status == CIRCE_OK) status = calibrate(j, &p, r);
    return status == CIRCE_OK ? find_effects(j, &p, r) : status;
}

static circe_status run_all(const test_job *j, circe_test_job_result *r) {
    for (size_t i = 0; i < n_tests; i++) {
        test_problem p = problem_of(j, &tests[i]);
        circe_tested *t = &r->tests[i];
        t->method = tests[i].name;
        circe_status status = ask(j, &p, &t->result);
        if (status == CIRCE_ERR_CANCELLED) return status;
        if (status != CIRCE_OK) {
            const char *text = circe_last_error();
            t->error = arena_text(j->owner, text[0] != '\0' ? text : circe_status_text(status));
            r->n_failed++;
        }
        status = job_progress(j->watch, (double)(i + 1) / (double)(n_tests + (j->options->effects ? 4 : 0)), "%s",
                              t->method);
        if (status != CIRCE_OK) return status;
    }
    test_problem p = problem_of(j, &tests[0]);
    return find_effects(j, &p, r);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static circe_status prepare(test_job *j, const char *method) {
    circe_status status = choose(j, method);
    if (status == CIRCE_OK) status = test_gpu_open(j->context, j->options->device, false, &j->gpu);
    if (status == CIRCE_OK) status = read_rows(j);
    if (status == CIRCE_OK) status = row_columns_take(j->of_rows);
    if (status == CIRCE_OK) status = make_kernels(j);
    if (status == CIRCE_OK) status = limit_rows(j);
    if (status == CIRCE_OK) note_data(j);
    return status;
}

static circe_status run(test_job *j) {
    circe_test_job_result *r = j->result;
    const input *group[3] = {&j->x};
    int n = 1;
    if (j->has_y) group[n++] = &j->y;
    group[n++] = &j->z;
    r->method = j->what != NULL ? j->what->name : test_all_name;
    r->n = j->what != NULL ? 1 : n_tests;
    r->tests = arena_alloc(j->owner, r->n * sizeof *r->tests);
    r->conditional = j->has_y;
    r->rows = j->x.values.rows;
    r->seed = j->options->seed;
    r->alpha = j->options->alpha;
    r->transform = circe_transform_name(problem_of(j, &tests[0]).options.transform);
    r->columns = columns_described(group, n);
    return j->what != NULL ? run_one(j, r) : run_all(j, r);
}

static void free_job(test_job *j) {
    test_gpu_close(&j->gpu);
    input *const inputs[] = {&j->x, &j->y, &j->z, &j->auxiliary_y, &j->auxiliary_z, &j->fitted};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) input_free(inputs[i]);
    circe_kernel_destroy(j->kernel_x);
    circe_kernel_destroy(j->kernel_y);
    circe_kernel_destroy(j->kernel_z);
    row_columns_free(j->of_rows);
    notes_free(&j->warnings);
}

circe_status circe_test_run(circe_context *context, const circe_table *table, const char *method,
                            const circe_test_job_options *options, const circe_watch *watch,
                            circe_test_job_result **result) {
    CIRCE_OWN_SETTINGS;
    unsigned mark;
    circe_status status = small_begin(&mark);
    tested *made = small_alloc(sizeof *made);
    test_job j = {.context = context,
                  .options = options,
                  .watch = watch,
                  .inputs = inputs_of(options, table),
                  .warnings = {.watch = watch},
                  .result = &made->result,
                  .owner = &made->owner};
    row_columns_of(options, j.of_rows);
    if (status == CIRCE_OK) status = prepare(&j, method);
    if (status == CIRCE_OK) status = run(&j);
    j.result->warnings = notes_hand_over(&j.warnings);
    free_job(&j);
    status = small_end(mark, status);
    if (status != CIRCE_OK) circe_test_job_result_free(j.result);
    *result = status == CIRCE_OK ? j.result : NULL;
    return status;
}

void circe_test_job_result_free(circe_test_job_result *result) {
    if (result == NULL) return;
    tested *made = (tested *)(void *)result;
    columns_clear(&result->columns);
    circe_notes_clear(&result->warnings);
    arena_free(&made->owner);
    free(made);
}
