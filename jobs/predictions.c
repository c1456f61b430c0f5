/* Reports predictions: their error, files and JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/small.h"
#include "core/settings.h"
#include "io/io.h"
#include "io/paths.h"
#include "jobs/columns.h"
#include "jobs/json.h"
#include "jobs/notes.h"
#include "jobs/predictor.h"
#include "report/report.h"

/* ---- the error, where the table has the target ------------------------------------------------------------------- */

static circe_prediction_error squared_error(const predicted *p, const column_table *truth, int64_t col) {
    double sum = 0, mean = 0, square = 0, count = 0;
    for (int64_t i = 0; i < p->result.rows; i++) {
        double value = column_value(truth, i, col), error = p->out[i * p->result.outputs + col] - value;
        if (p->empty[i] || !isfinite(value)) continue;
        count++;
        sum += error * error;
        square += (value - mean) * (value - mean) * (count - 1) / count; /* Welford */
        mean += (value - mean) / count;
    }
    return (circe_prediction_error){p->target.names[col], sum / count, 1 - sum / square, NAN,
                                    square > 0 ? (int64_t)count : 0};
}

static circe_prediction_error class_error(const predicted *p, const column_table *truth) {
    char *const *texts = column_categories(truth, 0);
    int64_t right = 0, count = 0;
    for (int64_t i = 0; i < p->result.rows; i++) {
        double value = column_value(truth, i, 0);
        char number[32];
        if (p->empty[i] || !isfinite(value)) continue;
        snprintf(number, sizeof number, "%.15g", value);
        const char *found = p->result.names[circe_predictions_class(&p->result, i)];
        right += strcmp(found, texts != NULL ? texts[(int64_t)value] : number) == 0;
        count++;
    }
    return (circe_prediction_error){p->target.names[0], NAN, NAN, (double)right / (double)count, count};
}

/* Asks for the target to find out whether the table has it. Only a target that cannot be read is worth a message. */
static bool read_target(const predicted *p, const circe_table *table, const circe_predict_options *options,
                        notes *warnings, column_table *truth) {
    const char *path = p->labels != NULL ? p->labels : options->data;
    reading_options reading_of = READING_OF(options);
    OWNED_BY(reading_free) reading how = {0};
    if (table == NULL && path == NULL) return false;
    circe_status status = reading_open(&reading_of, &how);
    for (int64_t c = 0; p->words && c < p->target.n; c++) reading_add_category(&how, p->target.names[c]);
    if (status == CIRCE_OK) status = column_table_read(table, path, &p->target, &how, false, truth);
    if (status == CIRCE_ERR_VALUE) notes_add(warnings, "the error was not computed: %s", circe_last_error());
    return status == CIRCE_OK && truth->in.values.rows == p->result.rows;
}

static void add_error(predicted *p, circe_prediction_error error, notes *warnings) {
    if (error.rows == 0) return;
    if (p->result.target == NULL && !(isfinite(error.mse) && isfinite(error.r2)))
        notes_add(warnings, "the error of %s is too large for a double", error.name);
    p->errors[p->result.n_errors++] = error;
}

circe_status circe_predictions_compare(circe_predictions *result, const circe_table *table,
                                       const circe_predict_options *options, const circe_watch *watch) {
    CIRCE_OWN_SETTINGS;
    predicted *p = predicted_of(result);
    column_table truth = {0};
    notes warnings = {.text = result->warnings.text, .n = result->warnings.n, .watch = watch};
    free(p->errors);
    result->errors = p->errors = small_alloc((size_t)p->target.n * sizeof *p->errors);
    result->n_errors = 0;
    if (read_target(p, table, options, &warnings, &truth)) {
        for (int64_t c = 0; result->target == NULL && c < p->target.n; c++) {
            if (column_categories(&truth, c) == NULL) add_error(p, squared_error(p, &truth, c), &warnings);
        }
        if (result->target != NULL) add_error(p, class_error(p, &truth), &warnings);
    }
    result->warnings = notes_hand_over(&warnings);
    column_table_free(&truth);
    return CIRCE_OK;
}

/* ---- the predictions alone --------------------------------------------------------------------------------------- */

void predictions_put_csv(const circe_predictions *r, FILE *out) {
    const predicted *p = predicted_of(r);
    bool classes = r->target != NULL;
    if (classes) report_put_cell(out, ',', "", r->target);
    for (int64_t c = 0; c < r->outputs; c++) {
        if (classes || c > 0) fputc(',', out);
        report_put_cell(out, ',', classes ? "probability of " : "", r->names[c]);
    }
    fputc('\n', out);
    for (int64_t i = 0; i < r->rows; i++) {
        if (classes && !p->empty[i]) report_put_cell(out, ',', "", r->names[circe_predictions_class(r, i)]);
        for (int64_t c = 0; c < r->outputs; c++) {
            if (classes || c > 0) fputc(',', out);
            if (!p->empty[i]) fprintf(out, "%.9g", r->values[i * r->outputs + c]);
        }
        fputc('\n', out);
    }
}

/* ---- the table with further columns ------------------------------------------------------------------------------ */

/* For numbers, one name per output; for classes, one for the predicted class, then one per class. */
static name_list new_names(const circe_predictions *r, const char *name) {
    const predicted *p = predicted_of(r);
    bool classes = r->target != NULL;
    name_list names = {0};
    for (int64_t c = 0; c < (classes ? r->outputs + 1 : r->outputs); c++) {
        char *one;
        if (classes && c > 0)
            one = small_format("%s_%s", name != NULL ? name : r->target, r->names[c - 1]);
        else if (name == NULL)
            one = small_format("%s_predicted", p->target.names[c]);
        else
            one =
                classes || r->outputs == 1 ? small_format("%s", name) : small_format("%s_%s", name, p->target.names[c]);
        name_list_add(&names, one);
        free(one);
    }
    return names;
}

/* A name that the table has already would leave open which one is meant. */
static circe_status check_new_names(const io_lines *lines, const char *source, const name_list *names) {
    for (char **name = lines->header; *name != NULL; name++) {
        if (name_list_find(names, *name) < 0) continue;
        circe_fail(CIRCE_ERR_ARGUMENT, "%s already has a column '%s'", source, *name);
        return circe_fail_hint(CIRCE_ERR_ARGUMENT, "--name gives the new column another name");
    }
    return CIRCE_OK;
}

/* A number with the decimal sign of the table. */
static void put_number(FILE *out, const circe_predict_options *o, double value) {
    char text[40];
    snprintf(text, sizeof text, "%.9g", value);
    char *point = strchr(text, '.');
    if (point != NULL && strcmp(o->decimal, ",") == 0) *point = ',';
    fputs(text, out);
}

static void put_new_cells(const circe_predictions *r, int64_t row, char delimiter, const circe_predict_options *o,
                          FILE *out) {
    bool empty = predicted_of(r)->empty[row];
    if (r->target != NULL) {
        fputc(delimiter, out);
        if (!empty) report_put_cell(out, delimiter, "", r->names[circe_predictions_class(r, row)]);
    }
    for (int64_t c = 0; c < r->outputs; c++) {
        fputc(delimiter, out);
        if (!empty) put_number(out, o, r->values[row * r->outputs + c]);
    }
}

static circe_status check_table(const io_lines *lines, const circe_predictions *r, const char *source) {
    if (lines->header == NULL)
        return circe_fail(CIRCE_ERR_FORMAT, "%s has no header, but new columns need names; add a header", source);
    if (lines->n_rows == r->rows + 1) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "%s has %" PRId64 " rows, and there are %" PRId64 " predictions", source,
                      lines->n_rows - 1, r->rows);
}

circe_status predictions_put_table(const circe_predictions *r, const circe_predict_options *o, FILE *out) {
    reading_options options = READING_OF(o);
    OWNED_BY(reading_free) reading how = {0};
    OWNED_BY(io_lines_free) io_lines lines = {0};
    if (o->data == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "--append adds columns to a table, so it needs --data");
    OWNED_BY(name_list_free) name_list names = new_names(r, o->name);
    circe_status status = reading_open(&options, &how);
    if (status == CIRCE_OK) status = io_read_lines(o->data, &how.how, &lines);
    if (status == CIRCE_OK) status = check_table(&lines, r, o->data);
    if (status == CIRCE_OK) status = check_new_names(&lines, o->data, &names);
    for (int64_t i = 0; i < lines.n_rows && status == CIRCE_OK; i++) {
        fputs(lines.rows[i], out);
        if (i > 0) put_new_cells(r, i - 1, lines.delimiter, o, out);
        for (int64_t c = 0; i == 0 && c < names.n; c++) {
            fputc(lines.delimiter, out);
            report_put_cell(out, lines.delimiter, "", names.names[c]);
        }
        fputc('\n', out);
    }
    return status;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* What `put` writes, as a file that is replaced whole or not at all. */
static circe_status write_text(const char *path, const circe_predictions *r, const circe_predict_options *o) {
    OWNED char *text = NULL;
    size_t bytes = 0;
    circe_status status = CIRCE_OK;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory");
    if (o != NULL)
        status = predictions_put_table(r, o, out);
    else
        predictions_put_csv(r, out);
    if (fclose(out) != 0 && status == CIRCE_OK) status = circe_fail(CIRCE_ERR_MEMORY, "out of memory");
    return status == CIRCE_OK ? file_write_text(path, text, bytes) : status;
}

circe_status circe_predictions_append(const circe_predictions *r, const circe_predict_options *options,
                                      const char *path) {
    CIRCE_OWN_SETTINGS;
    return write_text(path, r, options);
}

circe_status circe_predictions_write(const circe_predictions *r, const char *path) {
    CIRCE_OWN_SETTINGS;
    circe_mat out = circe_mat_f64(r->values, r->rows, r->outputs);
    return path_ends_with(path, ".npy") ? io_write_npy(path, &out) : write_text(path, r, NULL);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* null where no column can be compared. */
static cJSON *errors_json(const circe_predictions *p) {
    cJSON *out = p->n_errors > 0 ? cJSON_CreateObject() : cJSON_CreateNull();
    cJSON *columns = p->n_errors > 0 && p->target == NULL ? cJSON_AddArrayToObject(out, "columns") : NULL;
    for (int64_t c = 0; c < p->n_errors; c++) {
        cJSON *column = columns != NULL ? json_item(columns) : out;
        if (columns != NULL) {
            cJSON_AddStringToObject(column, "name", p->errors[c].name);
            json_number(column, "mse", p->errors[c].mse);
            json_number(column, "r2", p->errors[c].r2);
        } else {
            json_number(column, "accuracy", p->errors[c].accuracy);
        }
        json_integer(column, "rows", p->errors[c].rows);
    }
    return out;
}

/* With the predictions where they go to no file: nothing else is printed. */
char *circe_predictions_json(const circe_predictions *p, const circe_predict_options *o) {
    CIRCE_OWN_SETTINGS;
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "model", o->model);
    cJSON_AddStringToObject(out, o->images != NULL ? "images" : "data", o->images != NULL ? o->images : o->data);
    json_integer(out, "rows", p->rows);
    json_integer(out, "rows_without_prediction", p->rows_without);
    json_columns(out, &p->columns);
    json_words(out, "outputs", p->names, p->outputs);
    cJSON_AddItemToObject(out, "error", errors_json(p));
    bool shown = strcmp(o->output, "-") == 0;
    json_word(out, "file", shown ? NULL : o->output);
    if (shown) json_table(out, "predictions", p->values, p->rows, p->outputs);
    json_number(out, "seconds", p->seconds);
    return json_text(out);
}
