/* circe measure all: every measure on the same rows, with the same kernels, in one table. One that fails says why in
 * its row, and the others still come. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/text.h"
#include "cli/measure/measure_blocks.h"
#include "cli/measure/measure_job.h"
#include "cli/measure/measure_output.h"

typedef struct row {
    const measure *what;
    int form;
    bool skipped; /* for its cost; a note says so */
    double value, seconds;
    circe_block_result blocks;
    char *error; /* NULL: there is a value, or it was skipped */
} row;

typedef struct table {
    row *rows;
    size_t n, n_failed;
    double seconds;
    circe_block_result blocks; /* of the first that has a value */
} table;

static size_t rows_of(const measure *what) { return what->all_forms ? (size_t)measure_n_forms(what) : 1; }

static void make_rows(const measure_job *j, table *t) {
    for (size_t i = 0; i < n_measures; i++) t->n += rows_of(&measures[i]);
    t->rows = small_alloc(t->n * sizeof *t->rows);
    row *at = t->rows;
    for (size_t i = 0; i < n_measures; i++) {
        const measure *what = &measures[i];
        int asked = measure_n_forms(what) > 0 ? j->form : 0;
        for (size_t k = 0; k < rows_of(what); k++)
            *at++ = (row){.what = what, .form = what->all_forms ? (int)k + 1 : asked};
    }
}

/* One measure, with scratch of its own: that of the others does not count against its memory. */
static circe_status evaluate_with(const measure_job *j, const circe_cme *mean, double limit, row *r) {
    circe_measure *made = NULL;
    double start = session_clock();
    circe_status status = measure_job_open(j, r->what, r->form, mean, &made);
    if (status == CIRCE_OK) status = measure_evaluate(j, made, limit, &r->value, NULL, &r->blocks);
    r->seconds = session_clock() - start;
    circe_measure_destroy(made);
    return status;
}

static circe_status evaluate_row(measure_job *j, double limit, row *r) {
    const circe_cme *mean = j->mean;
    circe_cme *own = NULL;
    circe_status status = CIRCE_OK;
    if (j->hold_out && (measure_uses(r->what) & CIRCE_MAY_USE_MEAN) && !(measure_uses(r->what) & CIRCE_USES_KERNEL_Z))
        status = measure_job_linear_mean(j, &mean, &own, &r->error);
    if (status == CIRCE_OK) status = evaluate_with(j, mean, limit, r);
    if (status == CIRCE_OK && !isfinite(r->value)) {
        r->error = small_format("%s", measure_no_number);
        status = CIRCE_ERR_NUMERIC;
    }
    progress_clear();
    if (status != CIRCE_OK && r->error == NULL) {
        const char *text = circe_last_error();
        r->error = small_format("%s", text[0] != '\0' ? text : circe_status_text(status));
    }
    circe_cme_destroy(own);
    return status;
}

static int evaluate(measure_job *j, table *t) {
    int64_t n = j->x.values.rows; /* of a block, where there are any */
    double start = session_clock(), limit = args_number(j->arguments, OPT_SECONDS) / (double)t->n;
    for (row *r = t->rows; r < t->rows + t->n; r++) {
        r->skipped = measure_row(r->what)->most_rows > 0 && n > measure_row(r->what)->most_rows;
        if (r->skipped)
            notes_add(&j->warnings,
                      "%s was skipped: its time grows with the cube of the rows, and there are more than "
                      "%" PRId64 "; circe measure %s computes it",
                      measure_name(r->what), measure_row(r->what)->most_rows, measure_name(r->what));
        circe_status status = r->skipped ? CIRCE_OK : evaluate_row(j, limit, r);
        if (status == CIRCE_ERR_CANCELLED || progress_interrupted()) return message_fail(EXIT_WORK, "interrupted");
        t->n_failed += status != CIRCE_OK;
        if (status == CIRCE_OK && t->blocks.blocks == 0) t->blocks = r->blocks;
    }
    t->seconds = session_clock() - start;
    return EXIT_DONE;
}

static cJSON *json_row(const row *r) {
    const char *form = measure_form_name(r->what, r->form);
    cJSON *out = cJSON_CreateObject();
    bool valid = r->error == NULL && !r->skipped;
    cJSON_AddStringToObject(out, "measure", measure_name(r->what));
    if (form != NULL)
        cJSON_AddStringToObject(out, "estimator", form);
    else
        cJSON_AddNullToObject(out, "estimator");
    if (valid)
        json_number(out, "value", r->value);
    else
        cJSON_AddNullToObject(out, "value");
    if (valid && r->blocks.blocks > 0) {
        json_number(out, "standard_error", r->blocks.standard_error);
        json_integer(out, "blocks", r->blocks.blocks);
        json_integer(out, "block_rows", r->blocks.block_rows);
    }
    json_number(out, "seconds", r->seconds);
    if (r->skipped) cJSON_AddBoolToObject(out, "skipped", true);
    if (r->error != NULL) cJSON_AddStringToObject(out, "error", r->error);
    return out;
}

static int print_json(const measure_job *j, const table *t) {
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "measure", measure_all_name);
    if (j->in_blocks || j->read_x.values.rows < j->given) json_integer(out, "rows_given", j->given);
    measure_json(out, j, measure_rows(j, &t->blocks));
    cJSON *list = cJSON_AddArrayToObject(out, "measures");
    for (size_t i = 0; i < t->n; i++) cJSON_AddItemToArray(list, json_row(&t->rows[i]));
    measure_json_end(out, j);
    json_number(out, "seconds", t->seconds);
    return json_print(out);
}

static void print_row(const row *r) {
    const char *form = measure_form_name(r->what, r->form);
    printf("  %-14s  %-9s  ", measure_name(r->what), form != NULL ? form : "");
    if (r->error != NULL)
        printf("%13s  %9s  failed: %s\n", "-", "-", r->error);
    else if (r->skipped)
        printf("%13s  %9s  skipped: too many rows\n", "-", "-");
    else
        printf("%13.8g  %9.6f  %s\n", r->value, r->seconds, r->what->reading);
}

static void print_text(const measure_job *j, const table *t) {
    printf("  %-14s  %-9s  %13s  %9s  %s\n", "measure", "estimator", "value", "seconds", "reading");
    for (size_t i = 0; i < t->n; i++) print_row(&t->rows[i]);
    if (args_given(j->arguments, OPT_QUIET)) return;
    putchar('\n');
    text_row("rows measured", "%" PRId64, measure_rows(j, &t->blocks));
    measure_blocks_text(j, &t->blocks);
    measure_text(j);
    putchar('\n');
    text_wrap(stdout,
              "Scales differ: compare a measure with itself, on another x or after training. circe measure --help says "
              "what each is blind to.",
              0, 0, text_width());
}

static int run(measure_job *j, table *t) {
    int status = measure_job_prepare(j);
    if (status != EXIT_DONE) return status;
    make_rows(j, t);
    status = evaluate(j, t);
    if (status != EXIT_DONE) return status;
    if (!args_given(j->arguments, OPT_QUIET)) notes_print(&j->warnings);
    if (!args_given(j->arguments, OPT_JSON))
        print_text(j, t);
    else
        status = print_json(j, t);
    if (t->n_failed > 0 && status == EXIT_DONE)
        status =
            message_fail(EXIT_WORK, "%zu of %zu values could not be computed; their rows say why", t->n_failed, t->n);
    return status;
}

int measure_all(measure_job *job) {
    table t = {0};
    int status = run(job, &t);
    for (size_t i = 0; i < t.n; i++) free(t.rows[i].error);
    free(t.rows);
    return status;
}
