/* circe measure: from x, y, z and a conditional mean to a value and its gradient. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "fitting.h"
#include "kernels.h"
#include "measures.h"
#include "model_file.h"
#include "output.h"
#include "paths.h"
#include "progress.h"
#include "suggest.h"

typedef enum mean_source { MEAN_FROM_MODEL, MEAN_FROM_HOLDOUT, MEAN_FROM_SPLIT } mean_source;

/* Everything of one run, freed as one. */
typedef struct job {
    const args *arguments;
    const measure *what;
    circe_estimator estimator;
    mean_source source;
    session s;
    input x, y, z;                /* the rows that are measured */
    input holdout_y, holdout_z;   /* the rows that are fitted on; unused with a model */
    input read_x, read_y, read_z; /* all rows, where they are split */
    int64_t dropped, dropped_holdout;
    circe_cme *cme;
    circe_kernel *kernel_x;
    circe_mat grad; /* data = NULL: not wanted */
    double value, seconds;
    notes warnings;
} job;

static int find_measure(job *j) {
    const char *name = j->arguments->argument;
    j->what = name != NULL ? measure_find(name) : NULL;
    if (j->what != NULL) return EXIT_DONE;
    const char *names[32];
    size_t n = 0;
    for (; n < n_measures && n < 32; n++) names[n] = measures[n].name;
    const char *nearest = name != NULL ? suggest_nearest(name, names, n) : NULL;
    if (name != NULL)
        message_note("there is no measure '%s'", name);
    else
        message_note("which measure? circe measure NAME --x X --y Y --z Z");
    fputs("measures: ", stderr);
    for (size_t i = 0; i < n; i++) fprintf(stderr, "%s%s", i > 0 ? ", " : "", names[i]);
    fputc('\n', stderr);
    if (nearest != NULL) message_hint("did you mean '%s'?", nearest);
    return EXIT_INPUT;
}

/* --model, --holdout-* or neither; refuses contradictions. */
static int choose_source(job *j) {
    const args *a = j->arguments;
    bool y = args_given(a, OPT_HOLDOUT_Y), z = args_given(a, OPT_HOLDOUT_Z), data = args_given(a, OPT_HOLDOUT_DATA);
    if (args_given(a, OPT_MODEL)) {
        if (y || z || data)
            return message_fail(EXIT_INPUT, "--model and --holdout-%s exclude each other: a model is already fitted",
                                y   ? "y"
                                : z ? "z"
                                    : "data");
        spec_option_id extra = fitting_option_given(a);
        if (extra != OPT_COUNT)
            return message_fail(EXIT_INPUT,
                                "--%s cannot be used with --model: it was settled when the model was fitted",
                                spec_options[extra].name);
        j->source = MEAN_FROM_MODEL;
        return EXIT_DONE;
    }
    if (y != z)
        return message_fail(EXIT_INPUT, "--holdout-%s needs --holdout-%s beside it", y ? "y" : "z", y ? "z" : "y");
    if (data && y) return message_fail(EXIT_INPUT, "--holdout-data and --holdout-y exclude each other");
    if (data && !args_given(a, OPT_DATA))
        return message_fail(EXIT_INPUT, "--holdout-data needs --data, whose columns it shares");
    j->source = y || data ? MEAN_FROM_HOLDOUT : MEAN_FROM_SPLIT;
    return EXIT_DONE;
}

static int64_t least_rows(const job *j) {
    int64_t least = j->what->has_estimators && j->estimator == CIRCE_USTAT ? 4 : 2;
    return j->source == MEAN_FROM_SPLIT ? 2 * least : least;
}

/* Reads x, y and z, to be measured or (split) to be divided. */
static int read_batch(job *j) {
    bool split = j->source == MEAN_FROM_SPLIT;
    input *x = split ? &j->read_x : &j->x, *y = split ? &j->read_y : &j->y, *z = split ? &j->read_z : &j->z;
    input *const group[] = {x, y, z};
    int status = input_read(j->arguments, &variable_x, false, x);
    if (status == EXIT_DONE) status = input_read(j->arguments, &variable_y, false, y);
    if (status == EXIT_DONE) status = input_read(j->arguments, &variable_z, false, z);
    if (status == EXIT_DONE) status = inputs_check(j->arguments, group, 3, least_rows(j), &j->dropped);
    return status;
}

static int read_holdout(job *j) {
    input *const group[] = {&j->holdout_y, &j->holdout_z};
    int status = input_read(j->arguments, &variable_y, true, &j->holdout_y);
    if (status == EXIT_DONE) status = input_read(j->arguments, &variable_z, true, &j->holdout_z);
    if (status == EXIT_DONE) status = inputs_check(j->arguments, group, 2, 2, &j->dropped_holdout);
    if (status == EXIT_DONE) status = input_align(&j->holdout_y, &j->y);
    if (status == EXIT_DONE) status = input_align(&j->holdout_z, &j->z);
    return status;
}

static int ascending(const void *a, const void *b) {
    int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    return (i > k) - (i < k);
}

/* One random half of the rows to fit on, the other to measure; both keep the order of the file. */
static int split_rows(job *j) {
    int64_t n = j->read_x.values.rows, half = n / 2;
    int64_t *order = malloc((size_t)n * sizeof *order);
    if (order == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", n);
    circe_random_permutation((circe_random){.seed = (uint64_t)args_integer(j->arguments, OPT_SEED)}, n, order);
    qsort(order, (size_t)half, sizeof *order, ascending);
    qsort(order + half, (size_t)(n - half), sizeof *order, ascending);
    int status = input_take_rows(&j->read_y, order, half, &j->holdout_y);
    if (status == EXIT_DONE) status = input_take_rows(&j->read_z, order, half, &j->holdout_z);
    if (status == EXIT_DONE) status = input_take_rows(&j->read_x, order + half, n - half, &j->x);
    if (status == EXIT_DONE) status = input_take_rows(&j->read_y, order + half, n - half, &j->y);
    if (status == EXIT_DONE) status = input_take_rows(&j->read_z, order + half, n - half, &j->z);
    free(order);
    return status;
}

static int obtain_mean(job *j) {
    int status = EXIT_DONE;
    if (j->source == MEAN_FROM_MODEL)
        return model_load(j->s.context, args_text(j->arguments, OPT_MODEL), &j->y, &j->z, &j->cme);
    status = j->source == MEAN_FROM_HOLDOUT ? read_holdout(j) : split_rows(j);
    if (status == EXIT_DONE)
        status = fitting_run(&j->s, j->arguments, &j->holdout_y, &j->holdout_z, &j->warnings, &j->cme);
    return status;
}

static int allocate_grad(job *j) {
    const circe_mat *x = &j->x.values;
    if (!args_given(j->arguments, OPT_GRAD)) return EXIT_DONE;
    j->grad = (circe_mat){malloc((size_t)(x->rows * x->cols) * circe_dtype_size(x->dtype)), x->rows, x->cols, x->cols,
                          x->dtype};
    return j->grad.data != NULL ? EXIT_DONE : message_fail(EXIT_WORK, "out of memory for the gradient");
}

static int evaluate(job *j) {
    circe_dtype dtype = args_choice(j->arguments, OPT_DTYPE) == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
    int status = kernel_from_options(j->s.context, j->arguments, &j->x, &j->warnings, &j->kernel_x);
    if (status == EXIT_DONE) status = input_convert(&j->x, dtype);
    if (status == EXIT_DONE) status = allocate_grad(j);
    if (status != EXIT_DONE) return status;
    fitting_note_constant(&j->x, &j->warnings);
    measure_problem problem = {j->s.workspace, j->cme,       j->kernel_x, &j->x.values,
                               &j->y.values,   &j->z.values, j->estimator};
    double start = session_clock();
    circe_status measured = j->what->evaluate(&problem, &j->value, j->grad.data != NULL ? &j->grad : NULL);
    j->seconds = session_clock() - start;
    progress_clear();
    if (measured != CIRCE_OK) return message_library(measured, NULL);
    return progress_interrupted() ? message_fail(EXIT_WORK, "interrupted; nothing was written") : EXIT_DONE;
}

static int write_grad(const job *j) {
    const char *path = args_text(j->arguments, OPT_GRAD);
    io_error error = {""};
    if (path == NULL || io_write_npy(path, &j->grad, &error) == CIRCE_OK) return EXIT_DONE;
    return message_write(path, error.text);
}

static int print_json(const job *j) {
    circe_cme_info info;
    circe_cme_get_info(j->cme, &info);
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "measure", j->what->name);
    if (j->what->has_estimators)
        cJSON_AddStringToObject(out, "estimator", circe_estimator_name(j->estimator));
    else
        cJSON_AddNullToObject(out, "estimator");
    json_number(out, "value", j->value);
    json_integer(out, "n", j->x.values.rows);
    json_integer(out, "dropped", j->dropped);
    if (j->source == MEAN_FROM_SPLIT) {
        cJSON *split = cJSON_AddObjectToObject(out, "split");
        json_integer(split, "seed", args_integer(j->arguments, OPT_SEED));
        json_integer(split, "holdout", j->holdout_y.values.rows);
        json_integer(split, "batch", j->x.values.rows);
    }
    if (j->source == MEAN_FROM_MODEL) cJSON_AddStringToObject(out, "model", args_text(j->arguments, OPT_MODEL));
    if (j->source == MEAN_FROM_HOLDOUT) json_integer(out, "dropped_holdout", j->dropped_holdout);
    cJSON_AddStringToObject(out, "dtype", j->x.values.dtype == CIRCE_FLOAT32 ? "float32" : "float64");
    json_kernel(out, "x", j->kernel_x);
    json_kernel(out, "y", circe_cme_kernel_y(j->cme));
    json_kernel(out, "z", circe_cme_kernel_z(j->cme));
    json_number(out, "ridge", info.ridge);
    cJSON_AddStringToObject(out, "method", circe_method_name(info.method));
    json_integer(out, "rank_y", info.rank_y);
    json_integer(out, "rank_z", info.rank_z);
    if (j->grad.data != NULL) {
        cJSON_AddStringToObject(out, "grad", args_text(j->arguments, OPT_GRAD));
        json_integer(out, "rows", j->grad.rows);
    }
    json_notes(out, &j->warnings);
    if (j->source != MEAN_FROM_MODEL) json_number(out, "fit_seconds", info.seconds);
    json_number(out, "seconds", j->seconds);
    return json_print(out);
}

static void print_mean_source(const job *j, const circe_cme_info *info) {
    char time[32];
    text_seconds(info->seconds, time, sizeof time);
    if (j->source == MEAN_FROM_MODEL)
        text_row("mean of z given y", "from %s (%" PRId64 " rows)", args_text(j->arguments, OPT_MODEL), info->rows);
    else if (j->source == MEAN_FROM_HOLDOUT)
        text_row("mean of z given y", "fitted on %" PRId64 " holdout rows in %s", info->rows, time);
    else
        text_row("mean of z given y",
                 "fitted in %s on %" PRId64 " rows that were set aside: the data were split in two by --seed %" PRId64,
                 time, info->rows, args_integer(j->arguments, OPT_SEED));
}

static void print_text(const job *j) {
    circe_cme_info info;
    char time[32], kernel[512];
    circe_cme_get_info(j->cme, &info);
    printf("%s = %.10g\n", j->what->name, j->value);
    if (args_given(j->arguments, OPT_QUIET)) return;
    putchar('\n');
    if (j->what->has_estimators) text_row("estimator", "%s", circe_estimator_name(j->estimator));
    text_row("rows measured", "%" PRId64 ", in %s", j->x.values.rows, text_seconds(j->seconds, time, sizeof time));
    print_mean_source(j, &info);
    text_row("method", "%s, ranks %" PRId64 " and %" PRId64, circe_method_name(info.method), info.rank_y, info.rank_z);
    text_row("kernel of x", "%s", text_kernel(j->kernel_x, kernel, sizeof kernel));
    text_row("kernel of y", "%s", text_kernel(circe_cme_kernel_y(j->cme), kernel, sizeof kernel));
    text_row("kernel of z", "%s", text_kernel(circe_cme_kernel_z(j->cme), kernel, sizeof kernel));
    text_row("ridge", "%g", info.ridge);
    if (j->grad.data != NULL)
        text_row("gradient", "%s, %" PRId64 " x %" PRId64 "%s", args_text(j->arguments, OPT_GRAD), j->grad.rows,
                 j->grad.cols, j->source == MEAN_FROM_SPLIT ? ", of the measured rows only" : "");
    printf("\n0 would mean that x tells nothing about z beyond y. Compare values of the same kernels and data.\n");
}

static int run(job *j) {
    int status = read_batch(j);
    if (status == EXIT_DONE) status = obtain_mean(j);
    if (status == EXIT_DONE && j->dropped + j->dropped_holdout > 0 && !args_given(j->arguments, OPT_QUIET))
        message_note("left out %" PRId64 " rows with missing cells", j->dropped + j->dropped_holdout);
    if (status == EXIT_DONE) status = evaluate(j);
    if (status == EXIT_DONE) status = write_grad(j);
    if (status != EXIT_DONE) return status;
    if (!args_given(j->arguments, OPT_QUIET)) notes_print(&j->warnings);
    if (args_given(j->arguments, OPT_JSON)) return print_json(j);
    print_text(j);
    return EXIT_DONE;
}

static void free_job(job *j) {
    input *const inputs[] = {&j->x, &j->y, &j->z, &j->holdout_y, &j->holdout_z, &j->read_x, &j->read_y, &j->read_z};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) input_free(inputs[i]);
    circe_kernel_destroy(j->kernel_x);
    circe_cme_destroy(j->cme);
    free(j->grad.data);
    notes_free(&j->warnings);
    session_close(&j->s);
}

int cmd_measure(const args *arguments) {
    job j = {.arguments = arguments,
             .estimator = (circe_estimator)(args_choice(arguments, OPT_ESTIMATOR) + CIRCE_BIASED)};
    int status = find_measure(&j);
    if (status == EXIT_DONE) status = choose_source(&j);
    if (status == EXIT_DONE && args_given(arguments, OPT_GRAD))
        status = path_check_writable("--grad", args_text(arguments, OPT_GRAD));
    if (status == EXIT_DONE && !j.what->has_estimators && args_given(arguments, OPT_ESTIMATOR))
        notes_add(&j.warnings, "--estimator was ignored: %s has only one form", j.what->name);
    if (status == EXIT_DONE) status = session_open(arguments, &j.s);
    if (status == EXIT_DONE) status = run(&j);
    free_job(&j);
    return status;
}
