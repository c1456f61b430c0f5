/* circe predict: a table, or images, through a predictor that `circe train` wrote. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "circe/predict.h"
#include "cli/commands.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "cli/common/terminal.h"
#include "io/paths.h"
#include "jobs/predictor.h"

/* null where no column can be compared. */
static cJSON *errors_json(const circe_predictions *p) {
    cJSON *out = p->n_errors > 0 ? cJSON_CreateObject() : cJSON_CreateNull();
    cJSON *columns = p->n_errors > 0 && p->target == NULL ? cJSON_AddArrayToObject(out, "columns") : NULL;
    for (int64_t c = 0; c < p->n_errors; c++) {
        cJSON *column = columns != NULL ? cJSON_CreateObject() : out;
        if (columns != NULL) {
            cJSON_AddStringToObject(column, "name", p->errors[c].name);
            json_number(column, "mse", p->errors[c].mse);
            json_number(column, "r2", p->errors[c].r2);
            cJSON_AddItemToArray(columns, column);
        } else {
            json_number(column, "accuracy", p->errors[c].accuracy);
        }
        json_integer(column, "rows", p->errors[c].rows);
    }
    return out;
}

/* With the predictions where they go to no file: nothing else is printed. */
static cJSON *predictions_json(const circe_predictions *p, const circe_predict_options *o, double seconds) {
    cJSON *out = cJSON_CreateObject(), *outputs;
    cJSON_AddStringToObject(out, "model", o->model);
    cJSON_AddStringToObject(out, o->images != NULL ? "images" : "data", o->images != NULL ? o->images : o->data);
    json_integer(out, "rows", p->rows);
    json_integer(out, "rows_without_prediction", p->rows_without);
    json_columns(out, &p->columns);
    outputs = cJSON_AddArrayToObject(out, "outputs");
    for (int64_t c = 0; c < p->outputs; c++) cJSON_AddItemToArray(outputs, cJSON_CreateString(p->names[c]));
    cJSON_AddItemToObject(out, "error", errors_json(p));
    if (strcmp(o->output, "-") == 0) {
        cJSON_AddNullToObject(out, "file");
        json_table(out, "predictions", p->values, p->rows, p->outputs);
    } else {
        cJSON_AddStringToObject(out, "file", o->output);
    }
    json_number(out, "seconds", seconds);
    return out;
}

static void print_text(const circe_predictions *p, const char *path) {
    printf("%s: %" PRId64 " predictions\n", path, p->rows);
    text_columns(&p->columns);
    for (int64_t c = 0; c < p->n_errors; c++) {
        const circe_prediction_error *e = &p->errors[c];
        if (p->target != NULL)
            printf("  accuracy: %.4g, on %" PRId64 " rows\n", e->accuracy, e->rows);
        else
            printf("  error of %s: MSE %.6g, R2 %.4g, on %" PRId64 " rows\n", e->name, e->mse, e->r2, e->rows);
    }
}

/* To a file, or on standard output. */
static int write_out(const circe_predictions *p, const char *path, bool json) {
    if (strcmp(path, "-") != 0) return message_refused(circe_predictions_write(p, path));
    if (json) return EXIT_DONE;
    terminal_data();
    predictions_put_csv(p, stdout);
    return EXIT_DONE;
}

static int finish(const session *s, const args *arguments, const circe_predict_options *o, circe_predictions *p,
                  double began) {
    bool json = args_given(arguments, OPT_JSON), quiet = args_given(arguments, OPT_QUIET);
    int status = write_out(p, o->output, json);
    if (status != EXIT_DONE) return status;
    if (p->rows_without > 0 && !quiet)
        message_note("warning: %" PRId64 " of %" PRId64 " rows have missing cells and no prediction", p->rows_without,
                     p->rows);
    if (!json && (strcmp(o->output, "-") == 0 || quiet)) return EXIT_DONE;
    status = message_refused(circe_predictions_compare(p, NULL, o, &s->watch));
    if (status == EXIT_DONE && json) return json_print(predictions_json(p, o, session_clock() - began));
    if (status == EXIT_DONE) print_text(p, o->output);
    return status;
}

int cmd_predict(const args *arguments) {
    double began = session_clock();
    session s = {0};
    circe_predict_options options;
    circe_predictions *predictions = NULL;
    int status = message_refused(args_options(arguments, &circe_predict_schema, &options));
    if (status == EXIT_DONE) status = session_open(arguments, &s);
    if (status == EXIT_DONE && strcmp(options.output, "-") != 0)
        status = message_refused(path_check_writable("-o", options.output));
    if (status == EXIT_DONE)
        status = message_refused(circe_predict(s.context, NULL, NULL, &options, &s.watch, &predictions));
    progress_clear();
    if (status == EXIT_DONE) status = finish(&s, arguments, &options, predictions, began);
    circe_predictions_free(predictions);
    session_close(&s);
    return status;
}
