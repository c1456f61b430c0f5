/* Makes rows, a regression and kernels from the options. */
#include "jobs/measuring_job.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "core/core.h"
#include "jobs/kernel_choice.h"
#include "jobs/model_file.h"
#include "jobs/sentinels.h"

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static int64_t least_rows(const measure_job *j) {
    int64_t least = j->what == NULL ? 4 : j->form != NULL ? j->form->least : 2;
    return j->source == CIRCE_MEAN_FROM_SPLIT ? 2 * least : least;
}

/* Reads x, y (where it is used) and z, or --rows of them. */
static circe_status read_batch(measure_job *j) {
    input *group[4];
    variable variables[4];
    const char *weights = j->options->weights;
    const reading_options *how = &j->inputs.reading;
    int64_t foreseen = -1;
    int n = 0;
    variables[n] = VARIABLE_X, group[n++] = &j->read_x;
    if (j->uses & CIRCE_USES_Y) variables[n] = VARIABLE_Y, group[n++] = &j->read_y;
    variables[n] = VARIABLE_Z, group[n++] = &j->read_z;
    if (weights != NULL) variables[n] = VARIABLE_WEIGHTS, group[n++] = &j->read_weights;
    circe_status status = inputs_foresee(&j->inputs, j->context, variables, n, &foreseen);
    if (status == CIRCE_OK) status = measure_blocks_foresee(j, foreseen);
    for (int k = 0; k < n && status == CIRCE_OK; k++) status = input_read(&j->inputs, variables[k], false, group[k]);
    if (status == CIRCE_OK) status = inputs_check_categories(how, group, n);
    if (status == CIRCE_OK) status = inputs_check(how, group, n, least_rows(j), &j->dropped);
    if (status == CIRCE_OK && weights != NULL)
        status = inputs_weigh(&j->read_weights, weights, group, n, least_rows(j));
    j->given = j->read_x.values.rows;
    if (status == CIRCE_OK && j->wanted > 0)
        status = inputs_sample(j->options->seed, group, n, j->wanted, least_rows(j));
    return status == CIRCE_OK && weights != NULL ? input_convert(&j->read_weights, CIRCE_FLOAT64) : status;
}

/* The rows to measure, if they are not split: all of them, or a sample if they are measured in blocks. */
static circe_status take_batch(measure_job *j) {
    if (j->in_blocks) return measure_blocks_sample(j);
    input_view(&j->read_x, &j->x);
    if (j->uses & CIRCE_USES_Y) input_view(&j->read_y, &j->y);
    input_view(&j->read_z, &j->z);
    if (j->options->weights != NULL) input_view(&j->read_weights, &j->weights);
    return CIRCE_OK;
}

/* The user set the width of this variable, so its numbers must stay as they are. */
static bool has_width(const measure_job *j, variable of) {
    static const char *const names[][2] = {[VARIABLE_X] = {"kernel-x", "sigma2-x"},
                                           [VARIABLE_Y] = {"kernel-y", "sigma2-y"},
                                           [VARIABLE_Z] = {"kernel-z", "sigma2-z"}};
    return measure_job_given(j, names[of][0]) || measure_job_given(j, names[of][1]);
}

static circe_status scale(measure_job *j, input *in) {
    double largest = 0;
    int exponent = 0;
    circe_status status = input_scale(in, j->dtype, &largest, &exponent);
    if (status == CIRCE_OK && exponent != 0)
        notes_add(
            &j->warnings,
            "%s (%s) reaches %.3g, whose square exceeds %s: it was divided by 2^%d, and its width is in the new units",
            variable_label(in->of), input_source(in), largest, j->dtype == CIRCE_FLOAT32 ? "float32" : "any double",
            exponent);
    return status;
}

/* Numbers far from 1 are scaled first if the program chooses their widths. They are not scaled if a model or a file of
 * holdout rows sets the units, and x is not scaled if its gradient is requested. */
static circe_status scale_batch(measure_job *j) {
    input *const group[] = {&j->read_x, &j->read_y, &j->read_z};
    circe_status status = CIRCE_OK;
    if (j->source == CIRCE_MEAN_FROM_MODEL || j->source == CIRCE_MEAN_FROM_HOLDOUT) return CIRCE_OK;
    for (int k = 0; k < 3 && status == CIRCE_OK; k++) {
        variable of = group[k]->of;
        bool fixed = of == VARIABLE_TABLE || has_width(j, of) || (of == VARIABLE_X && j->options->grad != NULL);
        if (!fixed) status = scale(j, group[k]);
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

/* Ranks are computed over all rows together. The ranks of some rows say nothing about those of others, and ranks have
 * no gradient. */
static circe_status transform_batch(measure_job *j) {
    const circe_measure_job_options *o = j->options;
    input *const group[] = {&j->read_x, &j->read_y, &j->read_z};
    circe_status status = CIRCE_OK;
    if (j->transform == CIRCE_TRANSFORM_NONE) return CIRCE_OK;
    if (j->source == CIRCE_MEAN_FROM_MODEL || j->source == CIRCE_MEAN_FROM_HOLDOUT || o->grad != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--transform needs the ranks of all rows together: leave out %s, or transform the files "
                          "beforehand",
                          o->grad != NULL ? "--grad" : "--model and the holdout");
    for (int k = 0; k < 3 && status == CIRCE_OK; k++) {
        if (group[k]->of != VARIABLE_TABLE) status = input_transform(j->context, group[k], j->transform);
    }
    return status;
}

/* The weights of a holdout are the same column of --holdout-data; rows of files of their own count alike. */
static circe_status read_holdout(measure_job *j) {
    input *const group[] = {&j->holdout_y, &j->holdout_z, &j->holdout_weights};
    const char *weights = j->options->holdout_data != NULL ? j->options->weights : NULL;
    int n = weights != NULL ? 3 : 2;
    circe_status status = input_read(&j->inputs, VARIABLE_Y, true, &j->holdout_y);
    if (status == CIRCE_OK) status = input_read(&j->inputs, VARIABLE_Z, true, &j->holdout_z);
    if (status == CIRCE_OK && weights != NULL)
        status = input_read(&j->inputs, VARIABLE_WEIGHTS, true, &j->holdout_weights);
    if (status == CIRCE_OK) status = inputs_check(&j->inputs.reading, group, n, 2, &j->dropped_holdout);
    if (status == CIRCE_OK && weights != NULL) status = inputs_weigh(&j->holdout_weights, weights, group, n, 2);
    if (status == CIRCE_OK && weights != NULL) status = input_convert(&j->holdout_weights, CIRCE_FLOAT64);
    if (status == CIRCE_OK) status = input_align_to_fit(&j->holdout_y, &j->read_y);
    if (status == CIRCE_OK) status = input_align_to_fit(&j->holdout_z, &j->read_z);
    return status;
}

static int ascending(const void *a, const void *b) {
    int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    return (i > k) - (i < k);
}

/* One random half of the rows to fit on, the other to measure; both keep the order of the file. */
static circe_status split_rows(measure_job *j) {
    int64_t n = j->read_x.values.rows, half = n / 2;
    OWNED int64_t *order = malloc((size_t)n * sizeof *order);
    if (order == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", n);
    circe_random_permutation((circe_random){.seed = (uint64_t)j->options->seed}, n, order);
    qsort(order, (size_t)half, sizeof *order, ascending);
    qsort(order + half, (size_t)(n - half), sizeof *order, ascending);
    input *const from[] = {&j->read_x, &j->read_y, &j->read_z, &j->read_weights};
    input *const fitted[] = {NULL, &j->holdout_y, &j->holdout_z, &j->holdout_weights};
    input *const measured[] = {&j->x, &j->y, &j->z, &j->weights};
    circe_status status = CIRCE_OK;
    for (int k = 0; k < (j->options->weights != NULL ? 4 : 3) && status == CIRCE_OK; k++) {
        if (fitted[k] != NULL) status = input_take_rows(from[k], order, half, fitted[k]);
        if (status == CIRCE_OK) status = input_take_rows(from[k], order + half, n - half, measured[k]);
    }
    return status;
}

/* ---- the mean from rows that are not measured -------------------------------------------------------------------- */

/* Without a kernel of z the mean is that of z itself, which only a linear kernel gives. */
static bool wants_linear(const measure_job *j) { return !(j->uses & CIRCE_USES_KERNEL_Z); }

static circe_status load_model(measure_job *j) {
    const char *path = j->options->model;
    circe_status status = model_load(j->context, path, &j->read_y, &j->read_z, &j->warnings, &j->mean);
    if (status != CIRCE_OK || !wants_linear(j)) return status;
    const circe_kernel *kernel = circe_cme_kernel_z(j->mean);
    char text[512];
    if (kernel_is_linear(kernel, j->z.values.cols)) return CIRCE_OK;
    status = circe_fail(
        CIRCE_ERR_ARGUMENT,
        "%s: %s uses the mean of z itself, so it needs a model with a linear kernel of z, but this model has %s", path,
        measure_name(j->what), kernel_short_text(circe_kernel_text(kernel), text, sizeof text));
    return circe_fail_hint(status, "circe fit --y Y --z Z --kernel-z linear -o MODEL makes such a model");
}

static circe_status obtain_mean(measure_job *j) {
    circe_status status = CIRCE_OK;
    if (j->source == CIRCE_MEAN_FROM_SPLIT) {
        status = j->in_blocks ? measure_blocks_split(j) : split_rows(j);
    } else {
        if (j->source == CIRCE_MEAN_FROM_MODEL) status = load_model(j);
        if (j->source == CIRCE_MEAN_FROM_HOLDOUT) status = read_holdout(j);
        if (status == CIRCE_OK) status = take_batch(j);
    }
    if (status != CIRCE_OK || j->source == CIRCE_MEAN_OF_BATCH) return status;
    j->fitting.cme.weights = input_weights(&j->holdout_weights);
    if (j->mean == NULL)
        status =
            fitting_run(j->context, &j->fitting, &j->holdout_y, &j->holdout_z, wants_linear(j), &j->warnings, &j->mean);
    if (status != CIRCE_OK) return status;
    circe_cme_info info;
    circe_cme_get_info(j->mean, &info);
    j->kernels.y = circe_cme_kernel_y(j->mean);
    j->kernels.z = wants_linear(j) ? NULL : circe_cme_kernel_z(j->mean);
    j->ridge = info.ridge;
    return CIRCE_OK;
}

circe_status measure_job_linear_mean(measure_job *job, const circe_cme **mean, circe_cme **own) {
    *mean = job->mean;
    *own = NULL;
    if (kernel_is_linear(circe_cme_kernel_z(job->mean), job->z.values.cols)) return CIRCE_OK;
    if (job->source == CIRCE_MEAN_FROM_MODEL) {
        char text[512];
        const char *kernel = circe_kernel_text(circe_cme_kernel_z(job->mean));
        return circe_fail(
            CIRCE_ERR_ARGUMENT,
            "needs a model with a linear kernel of z (circe fit --kernel-z linear), but this model has %s",
            kernel_short_text(kernel, text, sizeof text));
    }
    circe_kernel *linear = NULL;
    circe_status status = circe_kernel_create(job->context, CIRCE_KERNEL_LINEAR, 0, &linear);
    if (status == CIRCE_OK)
        status = fitting_with(job->context, &job->fitting, &job->holdout_y, &job->holdout_z, job->kernels.y, linear,
                              job->ridge, &job->warnings, own);
    circe_kernel_destroy(linear);
    *mean = *own;
    return status;
}

/* ---- the measured rows on themselves ----------------------------------------------------------------------------- */

/* Width and ridge as they are given, if there is one of each. */
static bool settled(const measure_job *j) {
    const circe_cme_options *grids = &j->fitting.cme;
    return grids->n_ridge == 1 && (circe_kernel_n_free(j->own_y) == 0 || grids->n_sigma2_y == 1);
}

/* Otherwise leave-one-out chooses, for the regression of z's kernel features (or of z itself). */
static circe_status choose_by_leave_one_out(measure_job *j) {
    circe_kernel *linear = NULL;
    circe_cme_info info;
    if (wants_linear(j)) {
        circe_status status = circe_kernel_create(j->context, CIRCE_KERNEL_LINEAR, 0, &linear);
        if (status != CIRCE_OK) return status;
    }
    circe_status fitted = fitting_with(j->context, &j->fitting, &j->y, &j->z, j->own_y,
                                       linear != NULL ? linear : j->own_z, 0, &j->warnings, &j->choice);
    circe_kernel_destroy(linear);
    if (fitted != CIRCE_OK) return fitted;
    circe_cme_get_info(j->choice, &info);
    j->kernels.y = circe_cme_kernel_y(j->choice);
    j->ridge = info.ridge;
    j->uses |= USES_FIT;
    return CIRCE_OK;
}

static circe_status settle_regression(measure_job *j) {
    bool ridge = j->uses & CIRCE_USES_RIDGE;
    circe_status status =
        kernel_make(j->context, &j->fitting.y, &j->y, ridge ? WIDTH_GRID : WIDTH_ONE, &j->warnings, &j->own_y);
    if (status != CIRCE_OK) return status;
    j->kernels.y = j->own_y;
    if (!ridge) return CIRCE_OK;
    if (!settled(j)) return choose_by_leave_one_out(j);
    j->ridge = j->fitting.cme.ridge[0];
    return circe_kernel_n_free(j->own_y) > 0 ? circe_kernel_bind(j->own_y, j->fitting.cme.sigma2_y[0]) : CIRCE_OK;
}

/* Kernels of y and z, width and ridge, where no mean brings them. */
static circe_status settle_batch(measure_job *j) {
    circe_status status = CIRCE_OK;
    if (j->mean != NULL) return CIRCE_OK;
    j->fitting.cme.weights = input_weights(&j->weights);
    if (j->uses & CIRCE_USES_Y) fitting_note_constant(&j->y, &j->warnings);
    fitting_note_constant(&j->z, &j->warnings);
    if (j->uses & CIRCE_USES_KERNEL_Z)
        status = kernel_make(j->context, &j->fitting.z, &j->z, WIDTH_ONE, &j->warnings, &j->own_z);
    j->kernels.z = j->own_z;
    if (status == CIRCE_OK && (j->uses & CIRCE_USES_REGRESSION)) status = settle_regression(j);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* gcm has no kernel for texts: their codes are its numbers, in an order that means nothing. */
static void note_codes(measure_job *j, const input *in) {
    for (int64_t c = 0; c < in->values.cols; c++) {
        int64_t n = input_n_categories(in, c);
        if (n > 2)
            notes_add(&j->warnings,
                      "column %" PRId64 " of %s (%s) is text: %s takes its %" PRId64
                      " categories as the numbers 0, 1, 2, ...; give a column of 0 and 1 for each instead",
                      c, variable_label(in->of), input_source(in), measure_name(j->what), n);
    }
}

/* gcm's kernel ridge has no intercept: it shrinks to 0, and a share of a large mean stays in the residuals. */
static void note_far(measure_job *j, const input *in) {
    enum { FAR = 10 };
    const circe_mat *m = &in->values;
    for (int64_t c = 0; c < m->cols; c++) {
        double mean = 0.0, square = 0.0;
        for (int64_t i = 0; i < m->rows; i++) mean += circe__at(m, i, c) / (double)m->rows;
        for (int64_t i = 0; i < m->rows; i++) square += pow(circe__at(m, i, c) - mean, 2.0) / (double)m->rows;
        if (square > 0.0 && fabs(mean) > FAR * sqrt(square))
            notes_add(&j->warnings,
                      "column %" PRId64
                      " of %s (%s) has the mean %.4g and the standard deviation %.3g: gcm's kernel "
                      "regression has no intercept and leaves a share of the mean in the residuals; subtract the mean "
                      "from the column, or use --regression linear",
                      c, variable_label(in->of), input_source(in), mean, sqrt(square));
    }
}

static circe_status settle_x(measure_job *j) {
    circe_status status = CIRCE_OK;
    if (j->uses & CIRCE_USES_KERNEL_X)
        status = kernel_make(j->context, &j->choice_x, &j->x, WIDTH_ONE, &j->warnings, &j->own_x);
    j->kernels.x = j->own_x;
    if (status == CIRCE_OK) status = input_convert(&j->x, j->dtype);
    if (status != CIRCE_OK) return status;
    fitting_note_constant(&j->x, &j->warnings);
    if (!(j->uses & CIRCE_USES_KERNEL_X)) note_codes(j, &j->x);
    if (!(j->uses & CIRCE_USES_KERNEL_Z)) note_codes(j, &j->z);
    if ((j->uses & CIRCE_USES_GCM) && strcmp(j->options->regression, "linear") != 0) {
        note_far(j, &j->x);
        note_far(j, &j->z);
    }
    return CIRCE_OK;
}

circe_status measure_job_prepare(measure_job *job) {
    circe_status status = read_batch(job);
    if (status == CIRCE_OK) note_sentinels(job);
    if (status == CIRCE_OK) status = transform_batch(job);
    if (status == CIRCE_OK) status = scale_batch(job);
    if (status == CIRCE_OK) measure_blocks_decide(job);
    if (status == CIRCE_OK) status = obtain_mean(job);
    if (status == CIRCE_OK) status = settle_batch(job);
    if (status == CIRCE_OK) status = settle_x(job);
    if (status == CIRCE_OK) measure_job_note_unused(job);
    return status;
}

circe_status measure_job_open(const measure_job *job, const measure *what, const circe_measure_form *form,
                              const circe_cme *mean, circe_measure **made) {
    const circe_measure_job_options *from = job->options;
    bool takes_mean = measure_uses(what) & CIRCE_USES_MEAN;
    bool holds_out = job->hold_out && (measure_uses(what) & CIRCE_MAY_USE_MEAN);
    circe_method method = job->fitting.cme.method;
    circe_measure_options o;
    circe_measure_options_init(&o, what->kind);
    o.estimator = form != NULL ? form->estimator : CIRCE_USTAT;
    o.kernels = job->kernels;
    o.ridge = &job->ridge;
    o.n_ridge = job->ridge > 0;
    o.epsilon = from->epsilon;
    o.method = method == CIRCE_METHOD_RFF && !takes_mean ? CIRCE_METHOD_AUTO : method; /* refused where it matters */
    o.tolerance = isnan(from->tolerance) ? 0 : from->tolerance;
    o.regress_z_on_holdout = holds_out;
    o.gcm_regression = strcmp(from->regression, "linear") == 0 ? CIRCE_GCM_LINEAR : CIRCE_GCM_KERNEL;
    o.gcm_combine = (circe_gcm_combine)(circe_word_index("max|logsumexp|squares", from->combine) + CIRCE_GCM_MAX);
    o.gcm_previous_batch = 0;
    circe_status status = circe_measure_create(job->context, &o, made);
    return status == CIRCE_OK && (takes_mean || holds_out) ? circe_measure_set_mean(*made, mean) : status;
}

void measure_job_free(measure_job *job) {
    input *const inputs[] = {&job->x,           &job->y,      &job->z,      &job->holdout_y, &job->holdout_z,
                             &job->read_x,      &job->read_y, &job->read_z, &job->weights,   &job->holdout_weights,
                             &job->read_weights};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) input_free(inputs[i]);
    circe_kernel_destroy(job->own_x);
    circe_kernel_destroy(job->own_y);
    circe_kernel_destroy(job->own_z);
    circe_cme_destroy(job->mean);
    circe_cme_destroy(job->choice);
    free(job->held);
    notes_free(&job->warnings);
    fitting_close(&job->fitting);
}
