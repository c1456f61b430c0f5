/* Loads predictors from files, and applies them to a table or images. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/small.h"
#include "core/settings.h"
#include "io/io.h"
#include "io/paths.h"
#include "jobs/columns.h"
#include "jobs/notes.h"
#include "jobs/pictures.h"
#include "jobs/predictor.h"

enum { ROWS_AT_ONCE = 512, ROWS_QUEUED = 4096, NUMBERS_AT_ONCE = 1 << 22 };

/* ---- the model --------------------------------------------------------------------------------------------------- */

circe_status predictor_open(circe_model *predictor, const char *name) {
    train_model *m = &predictor->model;
    predictor->settings = cJSON_Parse(m->settings != NULL ? m->settings : "{}");
    const cJSON *columns = cJSON_GetObjectItemCaseSensitive(predictor->settings, "columns");
    if (train_model_has_images(m)) return CIRCE_OK;
    if (encoding_parse(columns, &predictor->encode) && predictor->encode.n_inputs == m->n_features) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_FORMAT, "%s: it does not name the columns that it needs; models from `circe train` do",
                      name);
}

circe_status circe_model_load(circe_context *context, const char *path, circe_model **model) {
    CIRCE_OWN_SETTINGS;
    circe_model *loaded = small_alloc(sizeof *loaded);
    circe_status status = train_model_load(context, path, &loaded->model);
    if (status == CIRCE_OK) status = predictor_open(loaded, path);
    *model = status == CIRCE_OK ? loaded : NULL;
    if (status != CIRCE_OK) circe_model_free(loaded);
    return status;
}

circe_status circe_model_save(circe_context *context, const circe_model *model, const char *path) {
    CIRCE_OWN_SETTINGS;
    return train_model_save(context, &model->model, path);
}

void circe_model_free(circe_model *model) {
    if (model == NULL) return;
    encoding_free(&model->encode);
    cJSON_Delete(model->settings);
    train_model_free(&model->model);
    free(model);
}

/* ---- predictions on their way ------------------------------------------------------------------------------------ */

typedef struct prediction_job {
    circe_context *context;
    const circe_model *predictor;
    const char *path; /* of the model, for messages */
    const circe_predict_options *options;
    const circe_watch *watch;
    predicted *made;
    notes warnings;
    column_table table;
    pictures_request request;
    pictures images;
    int32_t *shown;
    double *raw; /* (rows, features); of a table */
    train_device *device;
    train_network *network;
} prediction_job;

static bool has_images(const prediction_job *job) { return train_model_has_images(&job->predictor->model); }

static bool are_words(const name_list *classes) {
    double value;
    for (int64_t c = 0; c < classes->n; c++) {
        if (!io_number(classes->names[c], &value)) return true;
    }
    return false;
}

static void describe(prediction_job *job) {
    predicted *p = job->made;
    const train_model *m = &job->predictor->model;
    char *const *names = m->classes != NULL ? m->classes : m->target;
    for (int64_t c = 0; c < m->outputs; c++) name_list_add(&p->names, names[c]);
    for (int64_t c = 0; c < m->n_target; c++) name_list_add(&p->target, m->target[c]);
    p->words = m->classes != NULL && are_words(&p->names);
    p->result.outputs = m->outputs;
    p->result.names = (const char *const *)p->names.names;
    p->result.target = m->classes != NULL ? p->target.names[0] : NULL;
}

static circe_status make_rows(prediction_job *job, int64_t n) {
    predicted *p = job->made;
    p->result.rows = n;
    p->empty = calloc((size_t)(n + 1), sizeof *p->empty);
    p->result.values = p->out = malloc((size_t)(n * p->result.outputs + 1) * sizeof *p->out);
    if (p->empty != NULL && p->out != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", n);
}

static void note_unused(prediction_job *job) {
    static const char *const of_images[] = {"path-column", "array", "labels"};
    for (size_t i = 0; i < sizeof of_images / sizeof of_images[0] && !has_images(job); i++)
        if (circe_options_given(&circe_predict_schema, job->options, of_images[i]))
            notes_add(&job->warnings, "--%s was ignored: it needs --images", of_images[i]);
}

/* A model of tables needs a table, and a model of images needs images. */
static circe_status check_input(const prediction_job *job, const circe_table *memory) {
    bool images = job->options->images != NULL, table = memory != NULL || job->options->data != NULL;
    const train_model *m = &job->predictor->model;
    if (images && table)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--data and --images are both given, but the model needs only one");
    if (has_images(job) ? images : table) return CIRCE_OK;
    if (has_images(job)) {
        circe_fail(CIRCE_ERR_ARGUMENT, "%s: it predicts from images of %" PRId64 " by %" PRId64 " pixels%s", job->path,
                   m->image.size[2], m->image.size[1], table ? ", not from a table" : "");
        return circe_fail_hint(CIRCE_ERR_ARGUMENT, "give them with --images FILE, as in training");
    }
    OWNED char *columns = name_list_join(&job->predictor->encode.names);
    circe_fail(CIRCE_ERR_ARGUMENT, "%s: it predicts from the columns %s of a table%s", job->path, columns,
               images ? ", not from images" : "");
    return circe_fail_hint(CIRCE_ERR_ARGUMENT, "give it with --data FILE");
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static circe_status check_counts(const prediction_job *job) {
    const encoding *e = &job->predictor->encode;
    for (int64_t i = 0; i < e->names.n; i++) {
        if (job->table.count[i] == e->count[i]) continue;
        return circe_fail(CIRCE_ERR_SHAPE, "%s: '%s' has %" PRId64 " columns, and the model was trained on %" PRId64,
                          input_source(&job->table.in), e->names.names[i], job->table.count[i], e->count[i]);
    }
    return CIRCE_OK;
}

static circe_status refuse_cell(const prediction_job *job, int64_t row, int64_t col) {
    const char *source = input_source(&job->table.in), *name = column_name(&job->table, col);
    const char *where = job->table.in.table.first_missing;
    if (isinf(column_value(&job->table, row, col)))
        return circe_fail(CIRCE_ERR_VALUE, "%s: row %" PRId64 ", column '%s' is infinite", source, row, name);
    if (where != NULL)
        circe_fail(CIRCE_ERR_VALUE, "%s: %s is missing", source, where);
    else
        circe_fail(CIRCE_ERR_VALUE, "%s: row %" PRId64 ", column '%s' is NaN", source, row, name);
    return circe_fail_hint(CIRCE_ERR_VALUE, "--missing empty leaves the predictions of such rows empty");
}

/* Which rows have a missing cell, and whether that is allowed. */
static circe_status scan(prediction_job *job) {
    predicted *p = job->made;
    bool allowed = strcmp(job->options->missing, "empty") == 0;
    for (int64_t i = 0; i < p->result.rows; i++) {
        for (int64_t c = 0; c < job->table.in.values.cols; c++) {
            double value = column_value(&job->table, i, c);
            if (isfinite(value)) continue;
            if (isinf(value) || !allowed) return refuse_cell(job, i, c);
            p->empty[i] = true;
        }
        p->result.rows_without += p->empty[i];
    }
    return CIRCE_OK;
}

/* A column that was categories in training is categories here, whatever its cells look like. */
static circe_status read_columns(prediction_job *job, const circe_table *memory, const char *path,
                                 const name_list *wanted, bool by_place) {
    const reading_options options = READING_OF(job->options);
    const encoding *e = &job->predictor->encode;
    input *group[] = {&job->table.in};
    OWNED_BY(reading_free) reading how = {0};
    circe_status status = reading_open(&options, &how);
    for (int64_t i = 0; i < e->names.n && status == CIRCE_OK; i++) {
        if (e->categories[i].n > 0) reading_add_category(&how, e->names.names[i]);
    }
    if (status == CIRCE_OK) status = column_table_read(memory, path, wanted, &how, by_place, &job->table);
    return status == CIRCE_OK ? inputs_check_categories(&options, group, 1) : status;
}

static circe_status read_table(prediction_job *job, const circe_table *memory) {
    const encoding *e = &job->predictor->encode;
    circe_status status = read_columns(job, memory, job->options->data, &e->names, true);
    if (status == CIRCE_OK) status = check_counts(job);
    if (status == CIRCE_OK) status = make_rows(job, job->table.in.values.rows);
    if (status != CIRCE_OK) return status;
    int64_t n = job->made->result.rows, n_cols = job->table.in.values.cols;
    job->raw = malloc((size_t)(n * e->n_inputs + 1) * sizeof *job->raw);
    if (job->raw == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", n);
    OWNED int64_t *cols = small_alloc((size_t)n_cols * sizeof *cols);
    for (int64_t c = 0; c < n_cols; c++) cols[c] = c;
    status = scan(job);
    return status == CIRCE_OK ? encoding_apply(e, &job->table, cols, job->raw) : status;
}

/* ---- the images -------------------------------------------------------------------------------------------------- */

/* Of the rows that name one. */
static circe_status read_paths(prediction_job *job) {
    const predicted *p = job->made;
    OWNED_BY(name_list_free) name_list column = {0};
    name_list_add(&column, job->request.column);
    circe_status status = read_columns(job, NULL, job->request.path, &column, false);
    if (status == CIRCE_OK) status = make_rows(job, job->table.in.values.rows);
    if (status == CIRCE_OK) status = scan(job);
    if (status != CIRCE_OK || p->result.rows == p->result.rows_without) return status;
    int64_t *at = small_alloc((size_t)p->result.rows * sizeof *at), n = 0;
    for (int64_t i = 0; i < p->result.rows; i++) {
        if (!p->empty[i]) at[n++] = i;
    }
    status = pictures_read_paths(job->context, job->watch, &job->request, &job->table, 0, at, NULL, n, &job->images);
    free(at);
    return status;
}

static circe_status read_images(prediction_job *job) {
    const train_model *m = &job->predictor->model;
    circe_status status = pictures_for_model(job->options, m, job->predictor->settings, &job->request);
    if (status != CIRCE_OK) return status;
    if (job->request.labels != NULL) job->made->labels = small_format("%s", job->request.labels);
    if (job->request.by_path) {
        status = read_paths(job);
    } else {
        status = pictures_read_array(job->context, job->watch, &job->request, 0, NULL, -1, &job->images);
        if (status == CIRCE_OK) status = make_rows(job, job->images.n);
    }
    if (status != CIRCE_OK || job->images.n == 0) return status;
    return pictures_check_model(&job->request, &job->images, m);
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

/* A row with a missing cell goes through the network with the means in its place, and its output is dropped. */
static circe_status predict_table(prediction_job *job) {
    const predicted *p = job->made;
    const train_model *m = &job->predictor->model;
    int64_t n = p->result.rows, cols = m->n_features;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; p->empty[i] && c < cols; c++) job->raw[i * cols + c] = m->feature_scale.mean[c];
    }
    circe_mat raw = circe_mat_f64(job->raw, n, cols), out = circe_mat_f64(p->out, n, m->outputs);
    return train_model_predict(job->network, m, &raw, &out);
}

/* Rows that have an image get their predictions at the front of `out`. These are then moved to their places, from the
 * last to the first, so that none is overwritten before it has moved. */
static circe_status predict_images(prediction_job *job) {
    const predicted *p = job->made;
    const train_model *m = &job->predictor->model;
    train_source source;
    circe_mat out = circe_mat_f64(p->out, job->images.n, m->outputs);
    if (job->images.n == 0) return CIRCE_OK;
    circe_status status = pictures_source(&job->images, NULL, job->images.n, &job->shown, &source);
    if (status == CIRCE_OK) status = train_model_predict_source(job->network, m, &source, &out);
    for (int64_t i = p->result.rows - 1, from = job->images.n; i >= 0; i--) {
        if (!p->empty[i])
            memmove(p->out + i * m->outputs, p->out + --from * m->outputs, (size_t)m->outputs * sizeof *p->out);
    }
    return status;
}

/* What a network keeps between its layers: of a table, it should fit into the caches of a CPU, which would also spend
 * more time on fresh pages of memory than on 1,000 rows. An image has many numbers. */
static int64_t rows_at_once(const prediction_job *job) {
    if (!has_images(job)) return job->device->ops->queues ? ROWS_QUEUED : ROWS_AT_ONCE;
    int64_t rows = NUMBERS_AT_ONCE / train_shape_count(job->predictor->model.image);
    return rows < 8 ? 8 : rows > 1024 ? 1024 : rows;
}

static circe_status predict(prediction_job *job) {
    const predicted *p = job->made;
    int64_t outputs = p->result.outputs;
    circe_status status = train_device_choose(job->context, job->options->device, "float32", &job->device);
    if (status != CIRCE_OK) return status;
    status = train_model_network(job->device, &job->predictor->model, rows_at_once(job), &job->network);
    if (status == CIRCE_OK) status = has_images(job) ? predict_images(job) : predict_table(job);
    if (status != CIRCE_OK)
        return job_about(status, "%s", has_images(job) ? job->request.path : input_source(&job->table.in));
    for (int64_t i = 0; i < p->result.rows; i++) {
        for (int64_t c = 0; p->empty[i] && c < outputs; c++) p->out[i * outputs + c] = NAN;
    }
    return CIRCE_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* The command requires a model's file, and a caller may have one in memory. */
static circe_status check_options(const prediction_job *job) {
    circe_predict_options checked = *job->options;
    if (job->predictor != NULL) checked.model = "memory";
    circe_status status = circe_options_check(&circe_predict_schema, &checked);
    if (status != CIRCE_OK) return status;
    if (checked.name != NULL && !checked.append)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--name needs --append: it names the column that --append adds");
    if (checked.append && checked.output != NULL && path_ends_with(checked.output, ".npy"))
        return circe_fail(CIRCE_ERR_ARGUMENT, "--append writes a .csv or .tsv, not %s", checked.output);
    return CIRCE_OK;
}

static circe_status run(prediction_job *job, const circe_table *table) {
    const input *const group[] = {&job->table.in};
    if (!job->predictor->model.has_checksum)
        notes_add(&job->warnings,
                  "%s has no checksum because an older circe wrote it, so damage to the file would not be noticed",
                  job->path);
    describe(job);
    note_unused(job);
    circe_status status = check_input(job, table);
    if (status == CIRCE_OK) status = has_images(job) ? read_images(job) : read_table(job, table);
    if (status == CIRCE_OK) status = predict(job);
    if (status != CIRCE_OK) return status;
    job->made->result.columns = columns_described(group, job->table.first != NULL ? 1 : 0);
    return CIRCE_OK;
}

static void close_job(prediction_job *job) {
    free(job->raw);
    free(job->shown);
    pictures_free(&job->images);
    pictures_request_free(&job->request);
    column_table_free(&job->table);
    train_network_destroy(job->network);
    train_device_destroy(job->device);
    notes_free(&job->warnings);
}

circe_status circe_predict(circe_context *context, const circe_model *model, const circe_table *table,
                           const circe_predict_options *options, const circe_watch *watch, circe_predictions **made) {
    CIRCE_OWN_SETTINGS;
    unsigned mark;
    circe_status status = small_begin(&mark);
    predicted *p = small_alloc(sizeof *p);
    circe_model *own = NULL;
    prediction_job job = {.context = context,
                          .predictor = model,
                          .path = model != NULL ? "the model" : options->model,
                          .options = options,
                          .watch = watch,
                          .made = p,
                          .warnings = {.watch = watch}};
    double began = job_clock();
    *made = NULL;
    if (status == CIRCE_OK) status = check_options(&job);
    if (status == CIRCE_OK && model == NULL) {
        status = circe_model_load(context, options->model, &own);
        job.predictor = own;
    }
    if (status == CIRCE_OK) status = run(&job, table);
    p->result.warnings = notes_hand_over(&job.warnings);
    p->result.seconds = job_clock() - began;
    status = small_end(mark, status);
    if (status == CIRCE_OK)
        *made = &p->result;
    else
        circe_predictions_free(&p->result);
    close_job(&job);
    circe_model_free(own);
    return status;
}

void circe_predictions_free(circe_predictions *result) {
    if (result == NULL) return;
    predicted *p = predicted_of(result);
    circe_notes_clear(&result->warnings);
    columns_clear(&result->columns);
    name_list_free(&p->names);
    name_list_free(&p->target);
    free(p->labels);
    free(p->out);
    free(p->empty);
    free(p->errors);
    free(p);
}

int64_t circe_predictions_class(const circe_predictions *result, int64_t row) {
    const predicted *p = predicted_of(result);
    const double *x = p->out + row * result->outputs;
    int64_t best = 0;
    if (result->target == NULL || p->empty[row]) return -1;
    for (int64_t c = 1; c < result->outputs; c++) {
        if (x[c] > x[best]) best = c;
    }
    return best;
}
