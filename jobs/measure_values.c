/* Values of one measure, or of every one on the same rows with the same kernels: one that fails says why in its row,
 * and the others still come. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/small.h"
#include "core/settings.h"
#include "jobs/columns.h"
#include "jobs/measuring_job.h"
#include "jobs/outputs.h"

/* A result with what it borrows its kernels from. */
typedef struct measure_result {
    circe_measure_job_result shown;
    circe_kernel *own_x, *own_y, *own_z;
} measure_result;

/* ---- one --------------------------------------------------------------------------------------------------------- */

static void name_value(circe_measured *v, const measure *what, const circe_measure_form *form) {
    v->measure = measure_name(what);
    v->estimator = form != NULL ? form->name : NULL;
    v->reading = what->reading;
}

/* With scratch of its own: that of other measures does not count against its memory. */
static circe_status evaluate(const measure_job *j, const measure *what, const circe_measure_form *form,
                             const circe_cme *mean, double seconds, circe_mat *grad, circe_measured *v) {
    circe_measure *made = NULL;
    double start = job_clock();
    name_value(v, what, form);
    circe_status status = measure_job_open(j, what, form, mean, &made);
    if (status == CIRCE_OK) status = measure_evaluate(j, made, seconds, &v->value, grad, &v->blocks);
    v->seconds = job_clock() - start;
    circe_measure_destroy(made);
    if (status == CIRCE_OK && !isfinite(v->value)) return circe_fail(CIRCE_ERR_NUMERIC, "%s", measure_no_number);
    return fitting_hint(status);
}

static circe_status allocate_grad(const measure_job *j, circe_mat *grad) {
    const circe_mat *x = &j->x.values;
    *grad = (circe_mat){malloc((size_t)(x->rows * x->cols) * circe_dtype_size(x->dtype)), x->rows, x->cols, x->cols,
                        x->dtype};
    return grad->data != NULL ? CIRCE_OK : circe_fail(CIRCE_ERR_MEMORY, "out of memory for the gradient");
}

static circe_status measure_one(measure_job *j, circe_measure_job_result *r) {
    const char *path = j->options->grad;
    circe_status status = path != NULL ? allocate_grad(j, &r->grad) : CIRCE_OK;
    if (status == CIRCE_OK)
        status = evaluate(j, j->what, j->form, j->mean, j->options->seconds, path != NULL ? &r->grad : NULL, r->values);
    if (status == CIRCE_OK) status = job_progress(j->watch, 1, "measured");
    if (status == CIRCE_OK && path != NULL) status = io_write_npy(path, &r->grad);
    r->seconds = r->values[0].seconds;
    return status;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static int rows_of(const measure *what) { return what->all_forms ? measure_n_forms(what) : 1; }

/* Fails with a text if there is no value. */
static circe_status evaluate_row(measure_job *j, const measure *what, const circe_measure_form *form, double limit,
                                 circe_measured *v) {
    const circe_cme *mean = j->mean;
    circe_cme *own = NULL;
    circe_status status = CIRCE_OK;
    unsigned uses = measure_uses(what);
    if (j->hold_out && (uses & CIRCE_MAY_USE_MEAN) && !(uses & CIRCE_USES_KERNEL_Z))
        status = measure_job_linear_mean(j, &mean, &own);
    if (status == CIRCE_OK) status = evaluate(j, what, form, mean, limit, NULL, v);
    circe_cme_destroy(own);
    return status;
}

/* The first line of what went wrong. */
static char *reason(circe_status status) {
    const char *text = circe_last_error();
    return text[0] == '\0' ? small_format("%s", circe_status_text(status))
                           : small_format("%.*s", (int)strcspn(text, "\n"), text);
}

static circe_status add_value(measure_job *j, const measure *what, const circe_measure_form *form, double limit,
                              circe_measure_job_result *r) {
    circe_measured *v = &r->values[r->n++];
    int64_t most = measure_row(what)->most_rows;
    name_value(v, what, form);
    v->skipped = most > 0 && j->x.values.rows > most; /* rows of a block, where there are any */
    if (v->skipped) {
        notes_add(&j->warnings,
                  "%s was skipped: its time grows with the cube of the rows, and there are more than %" PRId64
                  "; circe measure %s computes it",
                  v->measure, most, v->measure);
        return CIRCE_OK;
    }
    circe_status status = evaluate_row(j, what, form, limit, v);
    if (status == CIRCE_ERR_CANCELLED) return status;
    if (status != CIRCE_OK) v->error = reason(status);
    r->n_failed += status != CIRCE_OK;
    return job_progress(j->watch, (double)r->n / (double)n_measures, "%s", v->measure);
}

static circe_status measure_all(measure_job *j, size_t n, circe_measure_job_result *r) {
    double start = job_clock(), limit = j->options->seconds / (double)n;
    circe_status status = CIRCE_OK;
    for (size_t i = 0; i < n_measures; i++) {
        const measure *what = &measures[i];
        const circe_measure_form *asked = measure_n_forms(what) > 0 ? j->form : NULL;
        for (int k = 0; k < rows_of(what) && status == CIRCE_OK; k++)
            status = add_value(j, what, what->all_forms ? &measure_row(what)->forms[k] : asked, limit, r);
    }
    r->seconds = job_clock() - start;
    return status;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static input_options inputs_of(const circe_measure_job_options *o, const circe_table *table) {
    return (input_options){.table = table,
                           .data = o->data,
                           .holdout_data = o->holdout_data,
                           .of = {[VARIABLE_X] = {o->x, o->columns_x, NULL},
                                  [VARIABLE_Y] = {o->y, o->columns_y, o->holdout_y},
                                  [VARIABLE_Z] = {o->z, o->columns_z, o->holdout_z},
                                  [VARIABLE_WEIGHTS] = {o->weights, NULL, NULL}},
                           .reading = READING_OF(o)};
}

static circe_status evaluate_job(measure_job *j, circe_measure_job_result *r) {
    size_t n = 0;
    for (size_t i = 0; i < n_measures; i++) n += (size_t)rows_of(&measures[i]);
    r->values = small_alloc((j->what != NULL ? 1 : n) * sizeof *r->values);
    r->n = j->what != NULL;
    return j->what != NULL ? measure_one(j, r) : measure_all(j, n, r);
}

/* Blocks of the first value that has any speak for all. */
static int64_t rows_measured(const measure_job *j, const circe_measure_job_result *r) {
    for (size_t i = 0; i < r->n; i++) {
        const circe_block_result *b = &r->values[i].blocks;
        if (r->values[i].error == NULL && b->blocks > 0) return b->blocks * b->block_rows;
    }
    return j->x.values.rows;
}

static void describe_rows(const measure_job *j, circe_measure_job_result *r) {
    const input *const group[] = {&j->x, &j->y, &j->z};
    r->columns = columns_described(group, 3);
    r->rows = rows_measured(j, r);
    r->batch = j->x.values.rows;
    r->read = j->read_x.values.rows;
    r->given = j->given;
    r->dropped = j->dropped;
    r->holdout = j->holdout_y.values.rows;
    r->dropped_holdout = j->dropped_holdout;
    r->in_blocks = j->in_blocks;
    r->dtype = j->x.values.dtype;
}

/* What the result says beside the values; it takes over kernels and fits. */
static void describe(measure_job *j, measure_result *to) {
    const circe_measure_job_options *o = j->options;
    circe_measure_job_result *r = &to->shown;
    describe_rows(j, r);
    r->name = j->what != NULL ? measure_name(j->what) : measure_all_name;
    r->meaning = j->what != NULL ? j->what->meaning : NULL;
    r->uses = j->uses;
    r->hold_out = j->hold_out;
    r->source = j->source;
    r->seed = o->seed;
    r->ridge = j->ridge;
    r->epsilon = o->epsilon;
    r->transform = circe_transform_name(j->transform);
    r->method = circe_method_name(j->fitting.cme.method);
    r->regression = circe_word_index("kernel|linear", o->regression) == 0 ? "kernel" : "linear";
    r->combine = circe_gcm_combine_name(
        (circe_gcm_combine)(circe_word_index("max|logsumexp|squares", o->combine) + CIRCE_GCM_MAX));
    if (j->source == CIRCE_MEAN_FROM_MODEL) r->model = small_format("%s", o->model);
    if (o->weights != NULL) r->weights = small_format("%s", o->weights);
    if (o->grad != NULL) r->gradient = small_format("%s", o->grad);
    r->warnings = notes_hand_over(&j->warnings);
    r->kernels = j->kernels;
    r->mean = j->mean, j->mean = NULL;
    r->choice = j->choice, j->choice = NULL;
    to->own_x = j->own_x, j->own_x = NULL;
    to->own_y = j->own_y, j->own_y = NULL;
    to->own_z = j->own_z, j->own_z = NULL;
}

circe_status circe_measure_run(circe_context *context, const circe_table *table, const char *name,
                               const circe_measure_job_options *options, const circe_watch *watch,
                               circe_measure_job_result **result) {
    CIRCE_OWN_SETTINGS;
    unsigned mark;
    circe_status status = small_begin(&mark);
    measure_job j = {.context = context,
                     .options = options,
                     .watch = watch,
                     .inputs = inputs_of(options, table),
                     .warnings = {.watch = watch}};
    measure_result *made = small_alloc(sizeof *made);
    if (status == CIRCE_OK) status = measure_job_choose(&j, name);
    if (status == CIRCE_OK && options->grad != NULL) status = output_check(&circe_measure_job_schema, options, "grad");
    if (status == CIRCE_OK) status = measure_job_prepare(&j);
    if (status == CIRCE_OK) status = evaluate_job(&j, &made->shown);
    if (status == CIRCE_OK) describe(&j, made);
    status = small_end(mark, status);
    if (status != CIRCE_OK) circe_measure_job_result_free(&made->shown);
    measure_job_free(&j);
    *result = status == CIRCE_OK ? &made->shown : NULL;
    return status;
}

void circe_measure_job_result_free(circe_measure_job_result *result) {
    measure_result *made = (measure_result *)result; /* its first member */
    if (result == NULL) return;
    for (size_t i = 0; i < result->n; i++) free(result->values[i].error);
    free(result->values);
    free(result->grad.data);
    free(result->model);
    free(result->weights);
    free(result->gradient);
    circe_cme_destroy(result->mean);
    circe_cme_destroy(result->choice);
    circe_kernel_destroy(made->own_x);
    circe_kernel_destroy(made->own_y);
    circe_kernel_destroy(made->own_z);
    columns_clear(&result->columns);
    circe_notes_clear(&result->warnings);
    free(made);
}
