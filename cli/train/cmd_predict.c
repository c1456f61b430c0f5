/* circe predict: a table, or images, through a predictor that `circe train` wrote. */
#include <inttypes.h>
#include <string.h>

#include "circe/predict.h"
#include "cli/commands.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "cli/common/terminal.h"
#include "jobs/outputs.h"
#include "jobs/predictor.h"

static void print_text(const circe_predictions *p, const char *path) {
    printf("%s: %" PRId64 " prediction%s\n", path, p->rows, p->rows == 1 ? "" : "s");
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
static int write_out(const circe_predictions *p, const circe_predict_options *o, bool json) {
    const char *path = o->output;
    if (strcmp(path, "-") != 0)
        return message_refused(o->append ? circe_predictions_append(p, o, path) : circe_predictions_write(p, path));
    if (json) return EXIT_DONE;
    terminal_data();
    if (o->append) return message_refused(predictions_put_table(p, o, stdout));
    predictions_put_csv(p, stdout);
    return EXIT_DONE;
}

static int finish(const args *arguments, const circe_predict_options *o, circe_predictions *p) {
    bool json = arguments->own.json, quiet = arguments->own.quiet;
    int status = write_out(p, o, json);
    if (status != EXIT_DONE) return status;
    if (p->rows_without > 0 && !quiet)
        message_note("warning: %" PRId64 " of %" PRId64 " rows have missing cells and no prediction", p->rows_without,
                     p->rows);
    bool compared = json || (strcmp(o->output, "-") != 0 && !quiet);
    if (compared) status = message_refused(circe_predictions_compare(p, NULL, o, NULL));
    message_data(quiet, 0, &p->warnings);
    if (status == EXIT_DONE && json) return output_json(circe_predictions_json(p, o));
    if (status == EXIT_DONE && compared) print_text(p, o->output);
    return status;
}

int cmd_predict(const args *arguments) {
    session s = {0};
    circe_predict_options options = *(const circe_predict_options *)arguments->options;
    circe_predictions *predictions = NULL;
    const circe_watch watch = session_watch(&arguments->own);
    int status = session_open(&arguments->own, &s);
    if (status == EXIT_DONE && strcmp(options.output, "-") != 0)
        status = message_refused(output_check(circe_schema_of("predict"), &options, "output"));
    if (status == EXIT_DONE)
        status = message_refused(circe_predict(s.context, NULL, NULL, &options, &watch, &predictions));
    progress_clear();
    if (status == EXIT_DONE) status = finish(arguments, &options, predictions);
    circe_predictions_free(predictions);
    session_close(&s);
    return status;
}
