/* circe predict: a table, or images, through a predictor that `circe train` wrote. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "cli/commands.h"
#include "cli/common/devices.h"
#include "cli/common/from_args.h"
#include "cli/common/message.h"
#include "jobs/model_file.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/session.h"
#include "cli/common/terminal.h"
#include "cli/train/train_images.h"
#include "io/encoding.h"
#include "io/io.h"
#include "io/paths.h"
#include "train/model.h"

enum { ROWS_AT_ONCE = 4096, NUMBERS_AT_ONCE = 1 << 22 };

typedef struct prediction {
    const args *arguments;
    session s;
    train_model model;
    encoding encode; /* of its features; of a table */
    column_table table;
    bool has_images;
    images_request request;
    image_points images;
    int32_t *shown;
    train_device *device;
    train_network *network;
    double began;
    int64_t n, n_empty;
    bool *empty; /* (n): a cell of the row is missing */
    double *raw; /* (n, features); of a table */
    double *out; /* (n, outputs) */
} prediction;

static int refuse_library(circe_status status, const char *subject) {
    return message_read(status, subject, circe_last_error());
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* A table's model takes a table, that of images takes images. */
static int check_input(const prediction *p, const char *path) {
    const args *a = p->arguments;
    bool images = args_given(a, OPT_IMAGES), table = args_given(a, OPT_TABLE);
    if (images && table) return message_fail(EXIT_INPUT, "--data and --images are both given: the model needs one");
    if (p->has_images && images) return EXIT_DONE;
    if (!p->has_images && table) return EXIT_DONE;
    if (p->has_images) {
        message_note("%s: it predicts from images of %" PRId64 " by %" PRId64 " pixels%s", path, p->model.image.size[2],
                     p->model.image.size[1], table ? ", not from a table" : "");
        message_hint("give them by --images FILE, as in training");
    } else {
        char *columns = name_list_join(&p->encode.names);
        message_note("%s: it predicts from the columns %s of a table%s", path, columns,
                     images ? ", not from images" : "");
        message_hint("give it by --data FILE");
        free(columns);
    }
    return EXIT_INPUT;
}

static int load(prediction *p) {
    const char *path = args_text(p->arguments, OPT_PREDICTOR);
    circe_status status = train_model_load(p->s.context, path, &p->model);
    if (status != CIRCE_OK) return refuse_library(status, path);
    if (!p->model.has_checksum && !args_given(p->arguments, OPT_QUIET))
        message_note("warning: " MODEL_WITHOUT_CHECKSUM, path);
    p->has_images = train_model_has_images(&p->model);
    if (p->has_images) return check_input(p, path);
    cJSON *settings = cJSON_Parse(p->model.settings);
    bool sound = encoding_parse(cJSON_GetObjectItemCaseSensitive(settings, "columns"), &p->encode) &&
                 p->encode.n_inputs == p->model.n_features;
    cJSON_Delete(settings);
    if (sound) return check_input(p, path);
    return message_fail(EXIT_INPUT,
                        "%s: it does not say which columns of a table it needs; `circe train` writes such "
                        "models",
                        path);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static int check_counts(const prediction *p) {
    for (int64_t i = 0; i < p->encode.names.n; i++) {
        if (p->table.count[i] == p->encode.count[i]) continue;
        return message_fail(EXIT_INPUT, "%s: '%s' has %" PRId64 " columns, and the model was trained on %" PRId64,
                            input_source(&p->table.in), p->encode.names.names[i], p->table.count[i],
                            p->encode.count[i]);
    }
    return EXIT_DONE;
}

static int refuse_cell(const prediction *p, int64_t row, int64_t col) {
    double value = column_value(&p->table, row, col);
    if (isinf(value))
        return message_fail(EXIT_INPUT, "%s: row %" PRId64 ", column '%s' is infinite", input_source(&p->table.in), row,
                            column_name(&p->table, col));
    const char *where = p->table.in.table.first_missing;
    if (where != NULL)
        message_note("%s: %s is missing", input_source(&p->table.in), where);
    else
        message_note("%s: row %" PRId64 ", column '%s' is NaN", input_source(&p->table.in), row,
                     column_name(&p->table, col));
    message_hint("--missing empty leaves the predictions of such rows empty");
    return EXIT_INPUT;
}

/* Which rows have a missing cell, and whether that is allowed. */
static int scan(prediction *p) {
    bool allowed = args_choice(p->arguments, OPT_MISSING_ROWS) == 1;
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t c = 0; c < p->table.in.values.cols; c++) {
            double value = column_value(&p->table, i, c);
            if (isfinite(value)) continue;
            if (isinf(value) || !allowed) return refuse_cell(p, i, c);
            p->empty[i] = true;
        }
        p->n_empty += p->empty[i];
    }
    return EXIT_DONE;
}

static int make_rows(prediction *p, int64_t n) {
    p->n = n;
    p->empty = calloc((size_t)(n + 1), sizeof *p->empty);
    p->out = malloc((size_t)(n * p->model.outputs + 1) * sizeof *p->out);
    if (p->empty != NULL && p->out != NULL) return EXIT_DONE;
    return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", n);
}

/* What was categories in training is categories here, whatever its cells look like. */
static int open_reading(const prediction *p, reading *how) {
    int status = args_reading_open(p->arguments, how);
    for (int64_t i = 0; i < p->encode.names.n && status == EXIT_DONE; i++) {
        if (p->encode.categories[i].n > 0) reading_add_category(how, p->encode.names.names[i]);
    }
    return status;
}

static int read_table(prediction *p) {
    reading how = {0};
    int status = open_reading(p, &how);
    if (status == EXIT_DONE)
        status = args_column_table(p->arguments, args_text(p->arguments, OPT_TABLE), &p->encode.names, &how, true,
                                   &p->table);
    reading_free(&how);
    if (status == EXIT_DONE) status = check_counts(p);
    if (status == EXIT_DONE) status = make_rows(p, p->table.in.values.rows);
    if (status != EXIT_DONE) return status;
    p->raw = malloc((size_t)(p->n * p->encode.n_inputs + 1) * sizeof *p->raw);
    if (p->raw == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", p->n);
    int64_t *cols = small_alloc((size_t)p->table.in.values.cols * sizeof *cols);
    for (int64_t c = 0; c < p->table.in.values.cols; c++) cols[c] = c;
    status = scan(p);
    if (status == EXIT_DONE) status = message_refused(encoding_apply(&p->encode, &p->table, cols, p->raw));
    free(cols);
    return status;
}

/* ---- the images -------------------------------------------------------------------------------------------------- */

/* Of the rows that name one. */
static int read_paths(prediction *p) {
    name_list column = {0};
    reading how = {0};
    name_list_add(&column, p->request.column);
    int status = args_reading_open(p->arguments, &how);
    if (status == EXIT_DONE) status = args_column_table(p->arguments, p->request.path, &column, &how, false, &p->table);
    reading_free(&how);
    name_list_free(&column);
    if (status == EXIT_DONE) status = make_rows(p, p->table.in.values.rows);
    if (status == EXIT_DONE) status = scan(p);
    if (status != EXIT_DONE || p->n == p->n_empty) return status;
    int64_t *at = small_alloc((size_t)p->n * sizeof *at), n = 0;
    for (int64_t i = 0; i < p->n; i++) {
        if (!p->empty[i]) at[n++] = i;
    }
    status = images_read_paths(&p->s, &p->request, &p->table, 0, at, NULL, n, &p->images);
    free(at);
    return status;
}

static int read_images(prediction *p) {
    int status = images_request_predict(p->arguments, &p->model, &p->request);
    if (status != EXIT_DONE) return status;
    if (p->request.by_path) {
        status = read_paths(p);
    } else {
        status = images_read_array(&p->s, &p->request, 0, NULL, -1, &p->images);
        if (status == EXIT_DONE) status = make_rows(p, p->images.n);
    }
    if (status != EXIT_DONE || p->images.n == 0) return status;
    return images_check_model(&p->request, &p->images, &p->model);
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

/* A row with a missing cell goes through the network with the means in its place, and its output is dropped. */
static void fill_empty(prediction *p) {
    int64_t n = p->model.n_features;
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t c = 0; p->empty[i] && c < n; c++) p->raw[i * n + c] = p->model.feature_scale.mean[c];
    }
}

static circe_status predict_table(prediction *p) {
    circe_mat raw = circe_mat_f64(p->raw, p->n, p->model.n_features),
              out = circe_mat_f64(p->out, p->n, p->model.outputs);
    fill_empty(p);
    return train_model_predict(p->network, &p->model, &raw, &out);
}

/* The predictions of the rows that have an image are made at the front of `out` and moved to their places from the
 * last to the first: none is overwritten before it was moved. */
static circe_status predict_images(prediction *p) {
    train_source source;
    size_t bytes = (size_t)p->model.outputs * sizeof *p->out;
    circe_mat out = circe_mat_f64(p->out, p->images.n, p->model.outputs);
    if (p->images.n == 0) return CIRCE_OK;
    if (images_source(&p->images, NULL, p->images.n, &p->shown, &source) != EXIT_DONE) return CIRCE_ERR_MEMORY;
    circe_status status = train_model_predict_source(p->network, &p->model, &source, &out);
    for (int64_t i = p->n - 1, from = p->images.n; i >= 0; i--) {
        if (!p->empty[i]) memmove(p->out + i * p->model.outputs, p->out + --from * p->model.outputs, bytes);
    }
    return status;
}

/* Images are many numbers, and a network keeps several times as many on their way. */
static int64_t rows_at_once(const prediction *p) {
    int64_t rows = NUMBERS_AT_ONCE / train_shape_count(p->model.image);
    return !p->has_images ? ROWS_AT_ONCE : rows < 8 ? 8 : rows > 1024 ? 1024 : rows;
}

static int predict(prediction *p) {
    const char *source = p->has_images ? p->request.path : input_source(&p->table.in);
    int opened = device_open(p->arguments, p->s.context, &p->device);
    if (opened != EXIT_DONE) return opened;
    circe_status status = train_model_network(p->device, &p->model, rows_at_once(p), &p->network);
    if (status == CIRCE_OK) status = p->has_images ? predict_images(p) : predict_table(p);
    if (status != CIRCE_OK) return refuse_library(status, source);
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t c = 0; p->empty[i] && c < p->model.outputs; c++) p->out[i * p->model.outputs + c] = NAN;
    }
    return EXIT_DONE;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static int64_t likeliest(const double *row, int64_t n) {
    int64_t best = 0;
    for (int64_t c = 1; c < n; c++) {
        if (row[c] > row[best]) best = c;
    }
    return best;
}

/* RFC 4180. */
static void put_cell(FILE *out, const char *prefix, const char *text) {
    if (strpbrk(text, ",\"\r\n") == NULL && strpbrk(prefix, ",\"\r\n") == NULL) {
        fprintf(out, "%s%s", prefix, text);
        return;
    }
    fprintf(out, "\"%s", prefix);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"') fputc('"', out);
        fputc(*c, out);
    }
    fputc('"', out);
}

static void put_csv(const prediction *p, FILE *out) {
    const train_model *m = &p->model;
    bool classes = m->classes != NULL;
    if (classes) put_cell(out, "", m->target[0]);
    for (int64_t c = 0; c < m->outputs; c++) {
        if (classes || c > 0) fputc(',', out);
        put_cell(out, classes ? "probability of " : "", classes ? m->classes[c] : m->target[c]);
    }
    fputc('\n', out);
    for (int64_t i = 0; i < p->n; i++) {
        const double *row = p->out + i * m->outputs;
        if (classes && !p->empty[i]) put_cell(out, "", m->classes[likeliest(row, m->outputs)]);
        for (int64_t c = 0; c < m->outputs; c++) {
            if (classes || c > 0) fputc(',', out);
            if (!p->empty[i]) fprintf(out, "%.9g", row[c]);
        }
        fputc('\n', out);
    }
}

static int write_csv(const prediction *p, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return message_fail(EXIT_WORK, "out of memory");
    put_csv(p, out);
    int status = EXIT_DONE;
    if (fclose(out) != 0) status = message_fail(EXIT_WORK, "out of memory");
    if (status == EXIT_DONE && io_write_text(path, text, bytes) != CIRCE_OK)
        status = message_write(path, circe_last_error());
    free(text);
    return status;
}

static int write_out(const prediction *p) {
    const char *path = args_text(p->arguments, OPT_OUTPUT_PREDICTIONS);
    if (strcmp(path, "-") == 0) {
        if (args_given(p->arguments, OPT_JSON)) return EXIT_DONE;
        terminal_data();
        put_csv(p, stdout);
        return EXIT_DONE;
    }
    int status = EXIT_DONE;
    if (path_ends_with(path, ".npy")) {
        circe_mat out = circe_mat_f64(p->out, p->n, p->model.outputs);
        if (io_write_npy(path, &out) != CIRCE_OK) status = message_write(path, circe_last_error());
    } else {
        status = write_csv(p, path);
    }
    return status;
}

/* ---- the error, where the table has the target ------------------------------------------------------------------- */

/* Of one column: mse and r2; of classes: accuracy. */
typedef struct error_of {
    double mse, r2, accuracy, rows; /* rows 0: nothing to compare with */
} error_of;

static error_of squared_error(const prediction *p, const column_table *truth, int64_t col) {
    double sum = 0, mean = 0, square = 0, count = 0;
    for (int64_t i = 0; i < p->n; i++) {
        double value = column_value(truth, i, col), error = p->out[i * p->model.outputs + col] - value;
        if (p->empty[i] || !isfinite(value)) continue;
        count++;
        sum += error * error;
        square += (value - mean) * (value - mean) * (count - 1) / count; /* Welford */
        mean += (value - mean) / count;
    }
    return square > 0 ? (error_of){.mse = sum / count, .r2 = 1 - sum / square, .rows = count} : (error_of){0};
}

static error_of class_error(const prediction *p, const column_table *truth) {
    const train_model *m = &p->model;
    char *const *texts = column_categories(truth, 0);
    double right = 0, count = 0;
    for (int64_t i = 0; i < p->n; i++) {
        double value = column_value(truth, i, 0);
        char number[32];
        if (p->empty[i] || !isfinite(value)) continue;
        snprintf(number, sizeof number, "%.15g", value);
        const char *found = m->classes[likeliest(p->out + i * m->outputs, m->outputs)];
        right += strcmp(found, texts != NULL ? texts[(int64_t)value] : number) == 0;
        count++;
    }
    return count > 0 ? (error_of){.accuracy = right / count, .rows = count} : (error_of){0};
}

static bool are_words(const train_model *m) {
    double value;
    for (int64_t c = 0; m->classes != NULL && c < m->outputs; c++) {
        if (!io_number(m->classes[c], &value)) return true;
    }
    return false;
}

/* Whether the table has the target is found out by asking for it; only a target that cannot be read is worth a word. */
static bool read_target(const prediction *p, const char *path, const name_list *target, column_table *truth) {
    reading how = {0};
    circe_status status = CIRCE_ERR_ARGUMENT;
    if (path == NULL) return false;
    if (args_reading_open(p->arguments, &how) == EXIT_DONE) {
        for (int64_t c = 0; are_words(&p->model) && c < target->n; c++) reading_add_category(&how, target->names[c]);
        status = column_table_read(NULL, path, target, &how, false, truth);
    }
    reading_free(&how);
    if (status == CIRCE_ERR_VALUE && !args_given(p->arguments, OPT_QUIET))
        message_note("warning: the error was not computed: %s", circe_last_error());
    return status == CIRCE_OK;
}

/* A number that is there, and that no double can hold, is not passed over. */
static void note_overflow(const prediction *p, const error_of *errors) {
    for (int64_t c = 0; p->model.classes == NULL && c < p->model.n_target; c++) {
        if (errors[c].rows > 0 && !(isfinite(errors[c].mse) && isfinite(errors[c].r2)))
            message_note("warning: the error of %s is beyond what a double can hold", p->model.target[c]);
    }
}

/* One for each target column, or one for the classes; to be freed. */
static error_of *compare(const prediction *p) {
    name_list target = {0};
    column_table truth = {0};
    error_of *errors = small_alloc((size_t)p->model.n_target * sizeof *errors);
    const char *path = p->has_images ? p->request.labels : args_text(p->arguments, OPT_TABLE);
    for (int64_t c = 0; c < p->model.n_target; c++) {
        errors[c] = (error_of){0};
        name_list_add(&target, p->model.target[c]);
    }
    if (read_target(p, path, &target, &truth) && truth.in.values.rows == p->n) {
        for (int64_t c = 0; p->model.classes == NULL && c < p->model.n_target; c++) {
            if (column_categories(&truth, c) == NULL) errors[c] = squared_error(p, &truth, c);
        }
        if (p->model.classes != NULL) errors[0] = class_error(p, &truth);
    }
    note_overflow(p, errors);
    column_table_free(&truth);
    name_list_free(&target);
    return errors;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void say_errors(const prediction *p) {
    error_of *errors = compare(p);
    for (int64_t c = 0; c < p->model.n_target; c++) {
        const error_of *e = &errors[c];
        if (e->rows > 0 && p->model.classes != NULL)
            printf("  accuracy: %.4g, on %.0f rows\n", e->accuracy, e->rows);
        else if (e->rows > 0)
            printf("  error of %s: MSE %.6g, R2 %.4g, on %.0f rows\n", p->model.target[c], e->mse, e->r2, e->rows);
    }
    free(errors);
}

/* null where no column can be compared. */
static cJSON *errors_json(const prediction *p) {
    error_of *errors = compare(p);
    cJSON *out = cJSON_CreateObject(), *columns = NULL;
    bool any = false;
    if (p->model.classes == NULL) columns = cJSON_AddArrayToObject(out, "columns");
    for (int64_t c = 0; c < p->model.n_target; c++) {
        if (errors[c].rows == 0) continue;
        cJSON *column = columns != NULL ? cJSON_CreateObject() : out;
        any = true;
        if (columns != NULL) {
            cJSON_AddStringToObject(column, "name", p->model.target[c]);
            json_number(column, "mse", errors[c].mse);
            json_number(column, "r2", errors[c].r2);
            cJSON_AddItemToArray(columns, column);
        } else {
            json_number(column, "accuracy", errors[c].accuracy);
        }
        json_integer(column, "rows", (int64_t)errors[c].rows);
    }
    free(errors);
    if (any) return out;
    cJSON_Delete(out);
    return cJSON_CreateNull();
}

/* With the predictions where they go to no file: nothing else is printed. */
static cJSON *prediction_json(const prediction *p, const char *path) {
    const train_model *m = &p->model;
    cJSON *out = cJSON_CreateObject(), *outputs;
    cJSON_AddStringToObject(out, "model", args_text(p->arguments, OPT_PREDICTOR));
    cJSON_AddStringToObject(out, p->has_images ? "images" : "data",
                            args_text(p->arguments, p->has_images ? OPT_IMAGES : OPT_TABLE));
    json_integer(out, "rows", p->n);
    json_integer(out, "rows_without_prediction", p->n_empty);
    const input *const group[] = {&p->table.in};
    json_inputs(out, group, p->table.first != NULL ? 1 : 0);
    outputs = cJSON_AddArrayToObject(out, "outputs");
    for (int64_t c = 0; c < m->outputs; c++)
        cJSON_AddItemToArray(outputs, cJSON_CreateString(m->classes != NULL ? m->classes[c] : m->target[c]));
    cJSON_AddItemToObject(out, "error", errors_json(p));
    if (strcmp(path, "-") == 0) {
        cJSON_AddNullToObject(out, "file");
        json_table(out, "predictions", p->out, p->n, m->outputs);
    } else {
        cJSON_AddStringToObject(out, "file", path);
    }
    json_number(out, "seconds", session_clock() - p->began);
    return out;
}

static int finish(const prediction *p) {
    const char *path = args_text(p->arguments, OPT_OUTPUT_PREDICTIONS);
    if (p->n_empty > 0 && !args_given(p->arguments, OPT_QUIET))
        message_note("warning: %" PRId64 " of %" PRId64 " rows have missing cells and no prediction", p->n_empty, p->n);
    if (args_given(p->arguments, OPT_JSON)) return json_print(prediction_json(p, path));
    if (strcmp(path, "-") == 0 || args_given(p->arguments, OPT_QUIET)) return EXIT_DONE;
    const input *const group[] = {&p->table.in};
    printf("%s: %" PRId64 " predictions\n", path, p->n);
    text_inputs(group, p->table.first != NULL ? 1 : 0);
    say_errors(p);
    return EXIT_DONE;
}

static int run(prediction *p) {
    const char *path = args_text(p->arguments, OPT_OUTPUT_PREDICTIONS);
    int status = session_open(p->arguments, &p->s);
    if (status == EXIT_DONE && strcmp(path, "-") != 0) status = message_refused(path_check_writable("-o", path));
    if (status == EXIT_DONE) status = load(p);
    if (status == EXIT_DONE) status = p->has_images ? read_images(p) : read_table(p);
    if (status == EXIT_DONE) status = predict(p);
    if (status == EXIT_DONE) status = write_out(p);
    if (status == EXIT_DONE) status = finish(p);
    return status;
}

int cmd_predict(const args *arguments) {
    prediction p = {.arguments = arguments, .began = session_clock()};
    int status = run(&p);
    free(p.out);
    free(p.raw);
    free(p.empty);
    free(p.shown);
    images_free(&p.images);
    images_request_free(&p.request);
    column_table_free(&p.table);
    train_network_destroy(p.network);
    train_device_destroy(p.device);
    encoding_free(&p.encode);
    train_model_free(&p.model);
    session_close(&p.s);
    return status;
}
