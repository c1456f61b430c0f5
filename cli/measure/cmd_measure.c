/* circe measure NAME: one measure, its value and its gradient. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/common/text.h"
#include "cli/measure/measure_blocks.h"
#include "cli/measure/measure_job.h"
#include "cli/measure/measure_output.h"
#include "io/paths.h"

typedef struct result {
    double value, seconds;
    circe_mat grad;            /* data = NULL: not wanted */
    circe_block_result blocks; /* blocks = 0: all rows at once */
} result;

static int allocate_grad(const measure_job *j, result *r) {
    const circe_mat *x = &j->x.values;
    if (!args_given(j->arguments, OPT_GRAD)) return EXIT_DONE;
    r->grad = (circe_mat){malloc((size_t)(x->rows * x->cols) * circe_dtype_size(x->dtype)), x->rows, x->cols, x->cols,
                          x->dtype};
    return r->grad.data != NULL ? EXIT_DONE : message_fail(EXIT_WORK, "out of memory for the gradient");
}

static int evaluate(const measure_job *j, result *r) {
    int status = allocate_grad(j, r);
    if (status != EXIT_DONE) return status;
    measure_problem problem = measure_job_problem(j);
    double start = session_clock();
    circe_status measured = measure_evaluate(j, j->what, &problem, args_number(j->arguments, OPT_SECONDS), &r->value,
                                             r->grad.data != NULL ? &r->grad : NULL, &r->blocks);
    r->seconds = session_clock() - start;
    progress_clear();
    if (measured != CIRCE_OK) return message_library(measured, NULL);
    if (!isfinite(r->value)) return message_fail(EXIT_WORK, "%s", measure_no_number);
    return progress_interrupted() ? message_fail(EXIT_WORK, "interrupted; nothing was written") : EXIT_DONE;
}

static int write_grad(const measure_job *j, const result *r) {
    const char *path = args_text(j->arguments, OPT_GRAD);
    if (path == NULL || io_write_npy(path, &r->grad) == CIRCE_OK) return EXIT_DONE;
    return message_write(path, circe_last_error());
}

static int print_json(const measure_job *j, const result *r) {
    const char *form = measure_form_name(j->what, j->form);
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "measure", j->what->name);
    if (form != NULL)
        cJSON_AddStringToObject(out, "estimator", form);
    else
        cJSON_AddNullToObject(out, "estimator");
    json_number(out, "value", r->value);
    measure_blocks_json(out, j, &r->blocks);
    measure_json(out, j, measure_rows(j, &r->blocks));
    if (r->grad.data != NULL) {
        cJSON_AddStringToObject(out, "grad", args_text(j->arguments, OPT_GRAD));
        json_integer(out, "rows", r->grad.rows);
    }
    measure_json_end(out, j);
    json_number(out, "seconds", r->seconds);
    return json_print(out);
}

static void print_text(const measure_job *j, const result *r) {
    char time[32];
    const char *form = measure_form_name(j->what, j->form);
    printf("%s = %.10g\n", j->what->name, r->value);
    if (args_given(j->arguments, OPT_QUIET)) return;
    putchar('\n');
    if (form != NULL) text_row("estimator", "%s", form);
    text_row("rows measured", "%" PRId64 ", in %s", measure_rows(j, &r->blocks),
             text_seconds(r->seconds, time, sizeof time));
    measure_blocks_text(j, &r->blocks);
    measure_text(j);
    if (r->grad.data != NULL)
        text_row("gradient", "%s, %" PRId64 " x %" PRId64 "%s", args_text(j->arguments, OPT_GRAD), r->grad.rows,
                 r->grad.cols, j->source == MEAN_FROM_SPLIT ? ", of the measured rows only" : "");
    putchar('\n');
    text_wrap(stdout, j->what->meaning, 0, 0, text_width());
}

int measure_one(measure_job *job) {
    result r = {0};
    int status = EXIT_DONE;
    if (args_given(job->arguments, OPT_GRAD))
        status = message_refused(path_check_writable("--grad", args_text(job->arguments, OPT_GRAD)));
    if (status == EXIT_DONE) status = measure_job_prepare(job);
    if (status == EXIT_DONE) status = evaluate(job, &r);
    if (status == EXIT_DONE) status = write_grad(job, &r);
    if (status == EXIT_DONE && !args_given(job->arguments, OPT_QUIET)) notes_print(&job->warnings);
    if (status == EXIT_DONE && args_given(job->arguments, OPT_JSON))
        status = print_json(job, &r);
    else if (status == EXIT_DONE)
        print_text(job, &r);
    free(r.grad.data);
    return status;
}

int cmd_measure(const args *arguments) {
    measure_job job;
    int status = measure_job_choose(arguments, &job);
    if (status == EXIT_DONE) status = job.what != NULL ? measure_one(&job) : measure_all(&job);
    measure_job_free(&job);
    return status;
}
