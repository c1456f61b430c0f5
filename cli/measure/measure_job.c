/* From options to rows, a regression and kernels. */
#include "cli/measure/measure_job.h"
#include "cli/common/from_args.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli/common/message.h"
#include "cli/common/model_file.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/measure/measure_blocks.h"
#include "io/reading.h"
#include "jobs/kernels.h"
#include "jobs/sentinels.h"

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static int64_t least_rows(const measure_job *j) {
    int64_t least = j->what != NULL ? measure_least_rows(j->what, j->form) : 4;
    return j->source == MEAN_FROM_SPLIT ? 2 * least : least;
}

/* Reads x, y (where it is used) and z, or --rows of them. */
static int read_batch(measure_job *j) {
    input *group[3];
    variable variables[3];
    int64_t rows = 0, foreseen = -1;
    int n = 0;
    variables[n] = VARIABLE_X, group[n++] = &j->read_x;
    if (j->uses & USES_Y) variables[n] = VARIABLE_Y, group[n++] = &j->read_y;
    variables[n] = VARIABLE_Z, group[n++] = &j->read_z;
    int status = args_rows_wanted(j->arguments, &rows);
    if (status == EXIT_DONE) status = args_inputs_foresee(j->arguments, j->s.context, variables, n, &foreseen);
    if (status == EXIT_DONE) status = measure_blocks_foresee(j, rows, foreseen);
    for (int k = 0; k < n && status == EXIT_DONE; k++)
        status = args_input_read(j->arguments, variables[k], false, group[k]);
    if (status == EXIT_DONE) status = args_check_categories(j->arguments, group, n);
    if (status == EXIT_DONE) status = args_inputs_check(j->arguments, group, n, least_rows(j), &j->dropped);
    j->given = j->read_x.values.rows;
    if (status == EXIT_DONE && rows > 0) status = args_inputs_sample(j->arguments, group, n, rows, least_rows(j));
    return status;
}

/* What is measured, where it is not split: all rows, or a sample where blocks of them are measured. */
static int take_batch(measure_job *j) {
    if (j->in_blocks) return measure_blocks_sample(j);
    input_view(&j->read_x, &j->x);
    if (j->uses & USES_Y) input_view(&j->read_y, &j->y);
    input_view(&j->read_z, &j->z);
    return EXIT_DONE;
}

/* Numbers far from 1 are scaled first, where their widths are of the program's choice: not where a model or a file of
 * holdout rows sets the units, nor x where its gradient is asked for. */
static int scale_batch(measure_job *j) {
    const args *a = j->arguments;
    circe_dtype dtype = args_choice(a, OPT_DTYPE) == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
    input *const group[] = {&j->read_x, &j->read_y, &j->read_z};
    int status = EXIT_DONE;
    if (j->source == MEAN_FROM_MODEL || j->source == MEAN_FROM_HOLDOUT) return EXIT_DONE;
    for (int k = 0; k < 3 && status == EXIT_DONE; k++) {
        variable of = group[k]->of;
        bool fixed = of == VARIABLE_TABLE || args_sigma2_given(a, of) || args_kernel_given(a, of);
        double largest = 0;
        int exponent = 0;
        if (fixed || (k == 0 && args_given(a, OPT_GRAD))) continue;
        status = message_refused(input_scale(group[k], dtype, &largest, &exponent));
        if (exponent != 0)
            notes_add(&j->warnings,
                      "%s (%s) reaches %.3g, whose square is beyond %s: it was divided by 2^%d, and its width is in "
                      "that unit",
                      variable_label(of), input_source(group[k]), largest,
                      dtype == CIRCE_FLOAT32 ? "float32" : "any double", exponent);
    }
    return status;
}

static void note_sentinels(measure_job *j) {
    const input *const all[] = {&j->read_x, &j->read_y, &j->read_z};
    const input *group[3];
    int n = 0;
    for (int k = 0; k < 3; k++) {
        if (all[k]->of != VARIABLE_TABLE) group[n++] = all[k];
    }
    sentinels_note(group, n, &j->warnings);
}

/* Ranks are of all rows together: there is no way from the ranks of some rows to those of others, nor a gradient. */
static int transform_batch(measure_job *j) {
    const args *a = j->arguments;
    circe_transform transform = (circe_transform)args_choice(a, OPT_TRANSFORM);
    input *const group[] = {&j->read_x, &j->read_y, &j->read_z};
    int status = EXIT_DONE;
    if (transform == CIRCE_TRANSFORM_NONE) return EXIT_DONE;
    if (j->source == MEAN_FROM_MODEL || j->source == MEAN_FROM_HOLDOUT || args_given(a, OPT_GRAD))
        return message_fail(EXIT_INPUT,
                            "--transform takes the ranks of all rows together: leave out %s, or transform the files "
                            "beforehand",
                            args_given(a, OPT_GRAD) ? "--grad" : "--model and the holdout");
    for (int k = 0; k < 3 && status == EXIT_DONE; k++) {
        if (group[k]->of != VARIABLE_TABLE)
            status = message_refused(input_transform(j->s.context, group[k], transform));
    }
    return status;
}

static int read_holdout(measure_job *j) {
    input *const group[] = {&j->holdout_y, &j->holdout_z};
    int status = args_input_read(j->arguments, VARIABLE_Y, true, &j->holdout_y);
    if (status == EXIT_DONE) status = args_input_read(j->arguments, VARIABLE_Z, true, &j->holdout_z);
    if (status == EXIT_DONE) status = args_inputs_check(j->arguments, group, 2, 2, &j->dropped_holdout);
    if (status == EXIT_DONE) status = message_refused(input_align(&j->holdout_y, &j->read_y));
    if (status == EXIT_DONE) status = message_refused(input_align(&j->holdout_z, &j->read_z));
    return status;
}

static int ascending(const void *a, const void *b) {
    int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    return (i > k) - (i < k);
}

/* One random half of the rows to fit on, the other to measure; both keep the order of the file. */
static int split_rows(measure_job *j) {
    int64_t n = j->read_x.values.rows, half = n / 2;
    int64_t *order = malloc((size_t)n * sizeof *order);
    if (order == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", n);
    circe_random_permutation((circe_random){.seed = (uint64_t)args_integer(j->arguments, OPT_SEED)}, n, order);
    qsort(order, (size_t)half, sizeof *order, ascending);
    qsort(order + half, (size_t)(n - half), sizeof *order, ascending);
    int status = message_refused(input_take_rows(&j->read_y, order, half, &j->holdout_y));
    if (status == EXIT_DONE) status = message_refused(input_take_rows(&j->read_z, order, half, &j->holdout_z));
    if (status == EXIT_DONE) status = message_refused(input_take_rows(&j->read_x, order + half, n - half, &j->x));
    if (status == EXIT_DONE) status = message_refused(input_take_rows(&j->read_y, order + half, n - half, &j->y));
    if (status == EXIT_DONE) status = message_refused(input_take_rows(&j->read_z, order + half, n - half, &j->z));
    free(order);
    return status;
}

/* ---- the mean from rows that are not measured ----------------------------------------------------------------------
 */

/* Without a kernel of z the mean is that of z itself, which only a linear kernel gives. */
static bool wants_linear(const measure_job *j) { return !(j->uses & USES_KERNEL_Z); }

static int load_model(measure_job *j) {
    const char *path = args_text(j->arguments, OPT_MODEL);
    int status = model_load(j->s.context, path, &j->read_y, &j->read_z, &j->warnings, &j->mean);
    if (status != EXIT_DONE || !wants_linear(j)) return status;
    const circe_kernel *kernel = circe_cme_kernel_z(j->mean);
    char text[512];
    if (kernel_is_linear(kernel, j->z.values.cols)) return EXIT_DONE;
    message_note("%s: %s takes the mean of z itself, from a model with a linear kernel of z; this one's is %s", path,
                 j->what->name, text_kernel(kernel, text, sizeof text));
    message_hint("circe fit --y Y --z Z --kernel-z linear -o MODEL makes such a model");
    return EXIT_INPUT;
}

static int obtain_mean(measure_job *j) {
    int status = EXIT_DONE;
    if (j->source == MEAN_FROM_SPLIT) {
        status = j->in_blocks ? measure_blocks_split(j) : split_rows(j);
    } else {
        if (j->source == MEAN_FROM_MODEL) status = load_model(j);
        if (j->source == MEAN_FROM_HOLDOUT) status = read_holdout(j);
        if (status == EXIT_DONE) status = take_batch(j);
    }
    if (status != EXIT_DONE || j->source == MEAN_OF_BATCH) return status;
    if (j->mean == NULL)
        status =
            fitting_run(&j->s, j->arguments, &j->holdout_y, &j->holdout_z, wants_linear(j), &j->warnings, &j->mean);
    if (status != EXIT_DONE) return status;
    circe_cme_info info;
    circe_cme_get_info(j->mean, &info);
    j->kernels.y = circe_cme_kernel_y(j->mean);
    j->kernels.z = wants_linear(j) ? NULL : circe_cme_kernel_z(j->mean);
    j->ridge = info.ridge;
    return EXIT_DONE;
}

circe_status measure_job_linear_mean(measure_job *job, const circe_cme **mean, circe_cme **own, char **refusal) {
    *mean = job->mean;
    *own = NULL;
    *refusal = NULL;
    if (kernel_is_linear(circe_cme_kernel_z(job->mean), job->z.values.cols)) return CIRCE_OK;
    if (job->source == MEAN_FROM_MODEL) {
        char text[512];
        *refusal =
            small_format("needs a model with a linear kernel of z (circe fit --kernel-z linear); this one's is %s",
                         text_kernel(circe_cme_kernel_z(job->mean), text, sizeof text));
        return CIRCE_ERR_ARGUMENT;
    }
    circe_kernel *linear = NULL;
    circe_status status = circe_kernel_create(job->s.context, CIRCE_KERNEL_LINEAR, 0, &linear);
    if (status == CIRCE_OK)
        status = fitting_with(&job->s, job->arguments, &job->holdout_y, &job->holdout_z, job->kernels.y, linear,
                              job->ridge, &job->warnings, own);
    circe_kernel_destroy(linear);
    *mean = *own;
    return status;
}

/* ---- the measured rows on themselves ----------------------------------------------------------------------------- */

/* Width and ridge as they are given, where there is one of each. */
static bool settled(const measure_job *j) {
    const args_value *values = j->arguments->values;
    return values[OPT_RIDGE].n_numbers == 1 &&
           (circe_kernel_n_free(j->own_y) == 0 || values[OPT_SIGMA2_Y].n_numbers == 1);
}

/* Otherwise leave-one-out chooses, for the regression of z's kernel features (or of z itself). */
static int choose_by_leave_one_out(measure_job *j) {
    circe_kernel *linear = NULL;
    circe_cme_info info;
    if (wants_linear(j)) {
        int status = message_refused(kernel_linear(j->s.context, &linear));
        if (status != EXIT_DONE) return status;
    }
    circe_status fitted = fitting_with(&j->s, j->arguments, &j->y, &j->z, j->own_y, linear != NULL ? linear : j->own_z,
                                       0, &j->warnings, &j->choice);
    circe_kernel_destroy(linear);
    if (fitted != CIRCE_OK) return message_library(fitted, NULL);
    circe_cme_get_info(j->choice, &info);
    j->kernels.y = circe_cme_kernel_y(j->choice);
    j->ridge = info.ridge;
    j->uses |= USES_FIT;
    return EXIT_DONE;
}

static int settle_regression(measure_job *j) {
    bool ridge = j->uses & USES_RIDGE;
    int status =
        args_kernel(j->s.context, j->arguments, &j->y, ridge ? WIDTH_GRID : WIDTH_ONE, &j->warnings, &j->own_y);
    if (status != EXIT_DONE) return status;
    j->kernels.y = j->own_y;
    if (!ridge) return EXIT_DONE;
    if (!settled(j)) return choose_by_leave_one_out(j);
    j->ridge = j->arguments->values[OPT_RIDGE].numbers[0];
    circe_status bound = circe_kernel_n_free(j->own_y) > 0
                             ? circe_kernel_bind(j->own_y, j->arguments->values[OPT_SIGMA2_Y].numbers[0])
                             : CIRCE_OK;
    return bound == CIRCE_OK ? EXIT_DONE : message_library(bound, NULL);
}

/* Kernels of y and z, width and ridge, where no mean brings them. */
static int settle_batch(measure_job *j) {
    int status = EXIT_DONE;
    if (j->mean != NULL) return EXIT_DONE;
    if (j->uses & USES_Y) fitting_note_constant(&j->y, &j->warnings);
    fitting_note_constant(&j->z, &j->warnings);
    if (j->uses & USES_KERNEL_Z)
        status = args_kernel(j->s.context, j->arguments, &j->z, WIDTH_ONE, &j->warnings, &j->own_z);
    j->kernels.z = j->own_z;
    if (status == EXIT_DONE && (j->uses & USES_REGRESSION)) status = settle_regression(j);
    return status;
}

/* ---- the whole -----------------------------------------------------------------------------------------------------
 */

/* gcm has no kernel for texts: their codes are its numbers, in an order that means nothing. */
static void note_codes(measure_job *j, const input *in) {
    for (int64_t c = 0; c < in->values.cols; c++) {
        int64_t n = input_n_categories(in, c);
        if (n > 2)
            notes_add(&j->warnings,
                      "column %" PRId64 " of %s (%s) is text: %s takes its %" PRId64
                      " categories as the numbers 0, 1, 2, ...; give a column of 0 and 1 for each instead",
                      c, variable_label(in->of), input_source(in), j->what->name, n);
    }
}

static int settle_x(measure_job *j) {
    circe_dtype dtype = args_choice(j->arguments, OPT_DTYPE) == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
    int status = EXIT_DONE;
    if (j->uses & USES_KERNEL_X)
        status = args_kernel(j->s.context, j->arguments, &j->x, WIDTH_ONE, &j->warnings, &j->own_x);
    j->kernels.x = j->own_x;
    if (status == EXIT_DONE) status = message_refused(input_convert(&j->x, dtype));
    if (status != EXIT_DONE) return status;
    fitting_note_constant(&j->x, &j->warnings);
    if (!(j->uses & USES_KERNEL_X)) note_codes(j, &j->x);
    if (!(j->uses & USES_KERNEL_Z)) note_codes(j, &j->z);
    return EXIT_DONE;
}

int measure_job_prepare(measure_job *job) {
    int status = session_open(job->arguments, &job->s);
    if (status == EXIT_DONE) status = read_batch(job);
    if (status == EXIT_DONE) note_sentinels(job);
    if (status == EXIT_DONE) status = transform_batch(job);
    if (status == EXIT_DONE) status = scale_batch(job);
    if (status == EXIT_DONE) status = measure_blocks_decide(job);
    if (status == EXIT_DONE) status = obtain_mean(job);
    if (status == EXIT_DONE && job->dropped + job->dropped_holdout > 0 && !args_given(job->arguments, OPT_QUIET))
        message_note("left out %" PRId64 " rows with missing cells", job->dropped + job->dropped_holdout);
    if (status == EXIT_DONE) status = settle_batch(job);
    if (status == EXIT_DONE) status = settle_x(job);
    if (status == EXIT_DONE) measure_job_note_unused(job);
    return status;
}

measure_problem measure_job_problem(const measure_job *job) {
    const args *a = job->arguments;
    measure_problem p = {.workspace = job->s.workspace,
                         .x = &job->x.values,
                         .y = &job->y.values,
                         .z = &job->z.values,
                         .kernels = job->kernels,
                         .mean = job->mean,
                         .hold_out = job->hold_out,
                         .form = job->form};
    circe_method method = (circe_method)args_choice(a, OPT_METHOD);
    double tolerance = args_given(a, OPT_TOLERANCE) ? a->values[OPT_TOLERANCE].numbers[0] : 0;
    circe_batch_options_init(&p.batch);
    if (job->ridge > 0) p.batch.ridge = job->ridge;
    p.batch.method = method;
    p.batch.tolerance = tolerance;
    circe_normalized_options_init(&p.normalized);
    p.normalized.epsilon = a->values[OPT_EPSILON].numbers[0];
    p.normalized.method = method;
    p.normalized.tolerance = tolerance;
    circe_gcm_options_init(&p.gcm);
    p.gcm.regression = (circe_gcm_regression)(args_choice(a, OPT_REGRESSION) + CIRCE_GCM_KERNEL);
    p.gcm.combine = (circe_gcm_combine)(args_choice(a, OPT_COMBINE) + CIRCE_GCM_MAX);
    return p;
}

void measure_job_free(measure_job *job) {
    input *const inputs[] = {&job->x,         &job->y,      &job->z,      &job->holdout_y,
                             &job->holdout_z, &job->read_x, &job->read_y, &job->read_z};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) input_free(inputs[i]);
    circe_kernel_destroy(job->own_x);
    circe_kernel_destroy(job->own_y);
    circe_kernel_destroy(job->own_z);
    circe_cme_destroy(job->mean);
    circe_cme_destroy(job->choice);
    free(job->held);
    notes_free(&job->warnings);
    session_close(&job->s);
}
