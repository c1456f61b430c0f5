/* From y and z to a model file. */
#include "circe/fit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "core/settings.h"
#include "jobs/columns.h"
#include "jobs/fitting.h"
#include "jobs/json.h"
#include "jobs/model_file.h"
#include "jobs/outputs.h"
#include "jobs/sentinels.h"
#include "mpi/mpi_fit.h"
#include "mpi/ranks.h"

/* One run. */
typedef struct fit_job {
    circe_context *context;
    const circe_fit_options *options;
    const circe_watch *watch;
    input_options inputs;
    input y, z, weights;
    fitting_options fitting;
    int64_t rows; /* of --rows */
    notes warnings;
    circe_fit_result *result;
} fit_job;

static input_options inputs_of(const circe_fit_options *o, const circe_table *table) {
    return (input_options){.table = table,
                           .data = o->data,
                           .of = {[VARIABLE_Y] = {o->y, o->columns_y, NULL},
                                  [VARIABLE_Z] = {o->z, o->columns_z, NULL},
                                  [VARIABLE_WEIGHTS] = {o->weights, NULL, NULL}},
                           .reading = READING_OF(o)};
}

static circe_status begin(fit_job *j) {
    const circe_fit_options *o = j->options;
    circe_status status = circe_options_check(&circe_fit_schema, o);
    if (status == CIRCE_OK) status = rows_wanted(o->rows, &j->rows);
    if (status == CIRCE_OK) status = fitting_open(&circe_fit_schema, o, &j->fitting);
    if (status == CIRCE_OK && ranks_rank() == 0) status = output_check(&circe_fit_schema, o, "output");
    return status;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Refuses what cannot fit into memory before anything is read. */
static circe_status foresee(const fit_job *j) {
    static const variable variables[] = {VARIABLE_Y, VARIABLE_Z};
    int64_t foreseen = -1;
    circe_status status = inputs_foresee(&j->inputs, j->context, variables, 2, &foreseen);
    if (status != CIRCE_OK || foreseen < 0 || ranks_size() > 1) return status;
    if (j->rows > 0 && j->rows < foreseen) foreseen = j->rows;
    double n = (double)foreseen, bytes = 8.0 * 2.0 * n * n, available = circe_context_memory(j->context);
    if (strcmp(j->options->method, "dense") != 0 || bytes <= available) return CIRCE_OK;
    status = circe_fail(CIRCE_ERR_MEMORY, "a dense fit of %.0f rows needs about %.1f GB, but %.1f GB are available", n,
                        bytes / 1e9, available / 1e9);
    return circe_fail_hint(status,
                           "--rows %" PRId64
                           " uses as many as fit into memory; --method lowrank uses all rows if y is smooth enough",
                           circe_rows_at_once(j->context, 16.0, 0.0));
}

static circe_status read_rows(fit_job *j) {
    input *const group[] = {&j->y, &j->z, &j->weights};
    const char *weights = j->options->weights;
    const reading_options *how = &j->inputs.reading;
    int n = weights != NULL ? 3 : 2;
    circe_status status = input_read(&j->inputs, VARIABLE_Y, false, &j->y);
    if (status == CIRCE_OK) status = input_read(&j->inputs, VARIABLE_Z, false, &j->z);
    if (status == CIRCE_OK && weights != NULL) status = input_read(&j->inputs, VARIABLE_WEIGHTS, false, &j->weights);
    if (status == CIRCE_OK) status = inputs_check_categories(how, group, n);
    if (status == CIRCE_OK) status = inputs_check(how, group, n, 2, &j->result->dropped);
    if (status == CIRCE_OK && weights != NULL) status = inputs_weigh(&j->weights, weights, group, n, 2);
    if (status == CIRCE_OK && j->rows > 0) status = inputs_sample(j->options->seed, group, n, j->rows, 2);
    if (status == CIRCE_OK && weights != NULL) status = input_convert(&j->weights, CIRCE_FLOAT64);
    j->fitting.cme.weights = input_weights(&j->weights);
    return status;
}

/* Every rank has read the files itself. The rest relies on all ranks having the same data. */
static circe_status compare_ranks(const fit_job *j) {
    const input *const group[] = {&j->y, &j->z};
    circe_status same = CIRCE_OK;
    for (int i = 0; i < 2 && same == CIRCE_OK; i++) {
        OWNED char *what = small_format("%s (%s)", variable_label(group[i]->of), input_source(group[i]));
        same = ranks_same_data(&group[i]->values, what);
    }
    return same;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static circe_status fit_and_save(fit_job *j) {
    const input *const group[] = {&j->y, &j->z};
    circe_fit_result *r = j->result;
    sentinels_note(group, 2, &j->warnings);
    fitting_note_unused(&circe_fit_schema, j->options, &j->warnings);
    circe_status status = fitting_run(j->context, &j->fitting, &j->y, &j->z, false, &j->warnings, &r->cme);
    if (status == CIRCE_OK) status = job_progress(j->watch, 1, "fitted");
    status = ranks_agree(status);
    if (status == CIRCE_OK && ranks_rank() == 0) status = model_save(r->cme, &j->y, &j->z, j->options->output);
    if (status != CIRCE_OK) return status;
    r->model = small_format("%s", j->options->output);
    if (j->options->weights != NULL) r->weights = small_format("%s", j->options->weights);
    r->columns = columns_described(group, 2);
    r->warnings = notes_hand_over(&j->warnings);
    return CIRCE_OK;
}

circe_status circe_fit(circe_context *context, const circe_table *table, const circe_fit_options *options,
                       const circe_watch *watch, circe_fit_result **result) {
    CIRCE_OWN_SETTINGS;
    unsigned mark;
    circe_status status = small_begin(&mark);
    fit_job j = {.context = context,
                 .options = options,
                 .watch = watch,
                 .inputs = inputs_of(options, table),
                 .warnings = {.watch = watch},
                 .result = small_alloc(sizeof *j.result)};
    if (status == CIRCE_OK) status = begin(&j);
    if (status == CIRCE_OK) status = foresee(&j);
    if (status == CIRCE_OK) status = read_rows(&j);
    status = ranks_agree(status);
    if (status == CIRCE_OK) status = compare_ranks(&j);
    if (status == CIRCE_OK) status = fit_and_save(&j);
    input_free(&j.y);
    input_free(&j.z);
    input_free(&j.weights);
    fitting_close(&j.fitting);
    notes_free(&j.warnings);
    status = small_end(mark, status);
    if (status != CIRCE_OK) circe_fit_result_free(j.result);
    *result = status == CIRCE_OK ? j.result : NULL;
    return status;
}

void circe_fit_result_free(circe_fit_result *result) {
    if (result == NULL) return;
    circe_cme_destroy(result->cme);
    columns_clear(&result->columns);
    circe_notes_clear(&result->warnings);
    free(result->model);
    free(result->weights);
    free(result);
}

char *circe_fit_json(const circe_fit_result *result) {
    CIRCE_OWN_SETTINGS;
    const circe_cme *cme = result->cme;
    circe_cme_info info;
    circe_cme_get_info(cme, &info);
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "model", result->model);
    json_integer(out, "n", info.rows);
    json_integer(out, "dropped", result->dropped);
    if (result->weights != NULL) cJSON_AddStringToObject(out, "weights", result->weights);
    json_columns(out, &result->columns);
    cJSON_AddStringToObject(out, "method", circe_method_name(info.method));
    cJSON_AddStringToObject(out, "solver", circe_method_name(info.solver));
    json_kernel(out, "y", circe_cme_kernel_y(cme));
    json_kernel(out, "z", circe_cme_kernel_z(cme));
    json_integer(out, "rank_y", info.rank_y);
    json_integer(out, "rank_z", info.rank_z);
    json_number(out, "trace_residual_y", info.trace_residual_y);
    json_number(out, "trace_residual_z", info.trace_residual_z);
    json_number(out, "ridge", info.ridge);
    json_number(out, "ridge_safe", info.ridge_safe);
    cJSON_AddBoolToObject(out, "ridge_raised", info.ridge_raised != 0);
    json_loo(out, cme);
    json_notes(out, &result->warnings);
    json_number(out, "seconds", info.seconds);
    return json_text(out);
}
