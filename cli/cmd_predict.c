/* circe predict: a table through a predictor that `circe train` wrote. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "commands.h"
#include "error.h"
#include "io.h"
#include "model.h"
#include "output.h"
#include "paths.h"
#include "session.h"
#include "train_encode.h"

enum { ROWS_AT_ONCE = 4096 };

typedef struct prediction {
    const args *arguments;
    session s;
    train_model model;
    encoding encode; /* of its features */
    column_table table;
    train_device *device;
    train_network *network;
    double began;
    int64_t n, n_empty;
    bool *empty; /* (n): a cell of the row is missing */
    double *raw; /* (n, features) */
    double *out; /* (n, outputs) */
} prediction;

static int refuse_library(circe_status status, const char *subject) {
    return message_read(status, subject, train_last_error());
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static int load(prediction *p) {
    const char *path = args_text(p->arguments, OPT_PREDICTOR);
    circe_status status = train_model_load(p->s.context, path, &p->model);
    if (status != CIRCE_OK) return refuse_library(status, path);
    if (train_model_has_images(&p->model))
        return message_fail(EXIT_INPUT, "%s: it predicts from images of %" PRId64 " by %" PRId64 ", not from a table",
                            path, p->model.image.size[1], p->model.image.size[2]);
    cJSON *settings = cJSON_Parse(p->model.settings);
    bool sound = encoding_parse(cJSON_GetObjectItemCaseSensitive(settings, "columns"), &p->encode) &&
                 p->encode.n_inputs == p->model.n_features;
    cJSON_Delete(settings);
    if (sound) return EXIT_DONE;
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

static int read_table(prediction *p) {
    int status = column_table_read(args_text(p->arguments, OPT_TABLE), &p->encode.names, true, &p->table);
    if (status == EXIT_DONE) status = check_counts(p);
    if (status != EXIT_DONE) return status;
    p->n = p->table.in.values.rows;
    p->empty = calloc((size_t)(p->n + 1), sizeof *p->empty);
    p->raw = malloc((size_t)(p->n * p->encode.n_inputs + 1) * sizeof *p->raw);
    p->out = malloc((size_t)(p->n * p->model.outputs + 1) * sizeof *p->out);
    if (p->empty == NULL || p->raw == NULL || p->out == NULL)
        return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", p->n);
    int64_t *cols = small_alloc((size_t)p->table.in.values.cols * sizeof *cols);
    for (int64_t c = 0; c < p->table.in.values.cols; c++) cols[c] = c;
    status = scan(p);
    if (status == EXIT_DONE) status = encoding_apply(&p->encode, &p->table, cols, p->raw);
    free(cols);
    return status;
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

/* A row with a missing cell goes through the network with the means in its place, and its output is dropped. */
static void fill_empty(prediction *p) {
    int64_t n = p->model.n_features;
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t c = 0; p->empty[i] && c < n; c++) p->raw[i * n + c] = p->model.feature_scale.mean[c];
    }
}

static int predict(prediction *p) {
    circe_mat raw = circe_mat_f64(p->raw, p->n, p->model.n_features),
              out = circe_mat_f64(p->out, p->n, p->model.outputs);
    fill_empty(p);
    circe_status status = train_device_cpu(p->s.context, &p->device);
    if (status == CIRCE_OK) status = train_model_network(p->device, &p->model, ROWS_AT_ONCE, &p->network);
    if (status == CIRCE_OK) status = train_model_predict(p->network, &p->model, &raw, &out);
    if (status != CIRCE_OK) return refuse_library(status, input_source(&p->table.in));
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

static bool ends_with(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcasecmp(text + n - m, ending) == 0;
}

static int write_csv(const prediction *p, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    io_error error = {""};
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return message_fail(EXIT_WORK, "out of memory");
    put_csv(p, out);
    int status = EXIT_DONE;
    if (fclose(out) != 0) status = message_fail(EXIT_WORK, "out of memory");
    if (status == EXIT_DONE && io_write_text(path, text, bytes, &error) != CIRCE_OK)
        status = message_write(path, error.text);
    free(text);
    return status;
}

static int write_out(const prediction *p) {
    const char *path = args_text(p->arguments, OPT_OUTPUT_PREDICTIONS);
    if (strcmp(path, "-") == 0) {
        if (!args_given(p->arguments, OPT_JSON)) put_csv(p, stdout);
        return EXIT_DONE;
    }
    int status = EXIT_DONE;
    if (ends_with(path, ".npy")) {
        io_error error = {""};
        circe_mat out = circe_mat_f64(p->out, p->n, p->model.outputs);
        if (io_write_npy(path, &out, &error) != CIRCE_OK) status = message_write(path, error.text);
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

/* One for each target column, or one for the classes; to be freed. Whether the table has the target is found out by
 * asking for it, quietly. */
static error_of *compare(const prediction *p) {
    name_list target = {0};
    column_table truth = {0};
    error_of *errors = small_alloc((size_t)p->model.n_target * sizeof *errors);
    for (int64_t c = 0; c < p->model.n_target; c++) {
        errors[c] = (error_of){0};
        name_list_add(&target, p->model.target[c]);
    }
    if (column_table_probe(args_text(p->arguments, OPT_TABLE), &target, &truth) && truth.in.values.rows == p->n) {
        for (int64_t c = 0; p->model.classes == NULL && c < p->model.n_target; c++) {
            if (column_categories(&truth, c) == NULL) errors[c] = squared_error(p, &truth, c);
        }
        if (p->model.classes != NULL) errors[0] = class_error(p, &truth);
    }
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
    cJSON_AddStringToObject(out, "data", args_text(p->arguments, OPT_TABLE));
    json_integer(out, "rows", p->n);
    json_integer(out, "rows_without_prediction", p->n_empty);
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
    printf("%s: %" PRId64 " predictions\n", path, p->n);
    say_errors(p);
    return EXIT_DONE;
}

static int run(prediction *p) {
    const char *path = args_text(p->arguments, OPT_OUTPUT_PREDICTIONS);
    int status = session_open(p->arguments, &p->s);
    if (status == EXIT_DONE && strcmp(path, "-") != 0) status = path_check_writable("-o", path);
    if (status == EXIT_DONE) status = load(p);
    if (status == EXIT_DONE) status = read_table(p);
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
    column_table_free(&p.table);
    train_network_destroy(p.network);
    train_device_destroy(p.device);
    encoding_free(&p.encode);
    train_model_free(&p.model);
    session_close(&p.s);
    return status;
}
