/* The folder that a run leaves behind: report.html for people, figures with their scripts and data, results.json,
 * results.csv (a row an epoch), predictions.csv (a row a validation point), and run.yaml, which runs it again. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train/train_report.h"
#include "io/io.h"

enum { MOST_CONFUSED = 20 };

/* ---- tables -------------------------------------------------------------------------------------------------------
 */

/* The cells are freed. */
static void show_table(report_writer *w, const char *caption, const char *const *columns, int64_t n_columns,
                       cells *list) {
    report_table table = cells_table(list, caption, columns, n_columns);
    report_add_table(w->page, &table);
    cells_free(list);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

void report_writer_fail(report_writer *w, const char *path, const char *text) { w->status = message_write(path, text); }

static void write_table(report_writer *w, const char *name, const char *const *columns, int64_t n_columns,
                        cells *list) {
    char *path = small_format("%s/%s", w->folder, name);
    report_table table = cells_table(list, "", columns, n_columns);
    if (w->status == EXIT_DONE && !report_write_csv(path, &table)) report_writer_fail(w, path, circe_last_error());
    cells_free(list);
    free(path);
}

static void write_history(report_writer *w) {
    static const char *const columns[] = {"epoch", "loss",  "regularizer", "validation_loss", "validation_regularizer",
                                          "lr",    "gamma", "seconds"};
    cells list = {0};
    for (int64_t e = 0; e < w->job->result.epochs_done; e++) {
        const train_epoch *h = &w->job->result.history[e];
        const double values[] = {h->loss, h->regularizer, h->validation_loss, h->validation_regularizer,
                                 h->rate, h->gamma};
        cells_add(&list, "%" PRId64, e + 1);
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) cells_add(&list, "%.17g", values[i]);
        cells_add(&list, "%.3f", h->seconds);
    }
    write_table(w, "results.csv", columns, 8, &list);
}

double training_target_in_units(const training_job *job, int64_t row, int64_t col) {
    const circe_mat *m = &job->set.validation.data.target;
    double value = (double)((const float *)m->data)[row * m->ld + col];
    return value * job->set.target_scale.deviation[col] + job->set.target_scale.mean[col];
}

double training_prediction_in_units(const training_job *job, int64_t row, int64_t col) {
    double value = (double)job->after[row * job->outputs + col];
    return value * job->set.target_scale.deviation[col] + job->set.target_scale.mean[col];
}

static int64_t likeliest(const float *row, int64_t n) {
    int64_t best = 0;
    for (int64_t c = 1; c < n; c++) {
        if (row[c] > row[best]) best = c;
    }
    return best;
}

static int64_t class_of(const training_job *job, int64_t row) {
    return (int64_t)((const float *)job->set.validation.data.target.data)[row];
}

/* Rows are those of the table, from 0, less those that were dropped. */
static void write_predictions(report_writer *w) {
    const training_job *job = w->job;
    const training_set *set = &job->set;
    bool classes = set->loss == TRAIN_CROSS_ENTROPY;
    name_list columns = {0};
    cells list = {0};
    name_list_add(&columns, "row");
    for (int64_t c = 0; c < set->target.n; c++) {
        char *name = small_format("prediction of %s", training_column(set, &set->target, c));
        name_list_add(&columns, training_column(set, &set->target, c));
        name_list_add(&columns, name);
        free(name);
    }
    for (int64_t i = 0; i < set->validation.n; i++) {
        cells_add(&list, "%" PRId64, set->validation.rows[i]);
        if (classes) {
            cells_add(&list, "%s", set->classes.names[class_of(job, i)]);
            cells_add(&list, "%s", set->classes.names[likeliest(job->after + i * job->outputs, job->outputs)]);
        }
        for (int64_t c = 0; !classes && c < job->outputs; c++) {
            cells_add(&list, "%.9g", training_target_in_units(job, i, c));
            cells_add(&list, "%.9g", training_prediction_in_units(job, i, c));
        }
    }
    char *path = small_format("%s/predictions.csv", w->folder);
    report_table table = cells_table(&list, "", (const char *const *)columns.names, columns.n);
    table.numeric = NULL;
    if (w->status == EXIT_DONE && !report_write_csv(path, &table)) report_writer_fail(w, path, circe_last_error());
    cells_free(&list);
    name_list_free(&columns);
    free(path);
}

static void write_text(report_writer *w, const char *name, const char *text) {
    char *path = small_format("%s/%s", w->folder, name);
    if (w->status == EXIT_DONE && io_write_text(path, text, strlen(text)) != CIRCE_OK)
        report_writer_fail(w, path, circe_last_error());
    free(path);
}

static void write_json(report_writer *w) {
    cJSON *json = training_json(w->job, w->folder);
    char *text = json_utf8(json, true);
    cJSON_Delete(json);
    if (text != NULL) write_text(w, "results.json", text);
    free(text);
}

/* ---- the run as a configuration ---------------------------------------------------------------------------------- */

/* What shapes the result; where to write it is for the next one to say. */
static bool is_of_the_run(spec_option_id id) {
    static const spec_option_id others[] = {OPT_OUTPUT_MODEL, OPT_REPORT, OPT_NO_REPORT, OPT_CONFIG, OPT_RESUME,
                                            OPT_JSON,         OPT_QUIET,  OPT_HELP,      OPT_MEMORY};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i] == id) return false;
    }
    return true;
}

static void put_yaml(FILE *out, const char *text) {
    bool plain = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-") == strlen(text);
    if (plain && text[0] != '-') {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (const char *c = text; *c != '\0'; c++) fprintf(out, *c == '\'' ? "''" : "%c", *c);
    fputc('\'', out);
}

static char *run_as_yaml(const training_job *job) {
    const args *a = job->arguments;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("%s", "");
    fputs("# This run. Again: circe train --config run.yaml -o MODEL\n", out);
    for (spec_option_id id = 0; id < OPT_COUNT; id++) {
        if (!spec_takes(a->command, id) || !is_of_the_run(id) || args_text(a, id) == NULL) continue;
        if (id == OPT_GAMMA && job->kind == CIRCE_MEASURE_NONE) continue;
        fprintf(out, "%s: ", spec_options[id].name);
        put_yaml(out, args_text(a, id));
        fputc('\n', out);
    }
    if (!args_given(a, OPT_NET)) fprintf(out, "net: %s\n", job->net);
    if (!args_given(a, OPT_THREADS)) fprintf(out, "threads: %d\n", circe_context_threads(job->s->context));
    fclose(out);
    return text;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static void show_errors(report_writer *w) {
    const training_job *job = w->job;
    const training_scores *s = &job->scores;
    cells list = {0};
    if (job->set.loss == TRAIN_CROSS_ENTROPY) {
        static const char *const columns[] = {"", "accuracy", "cross-entropy"};
        cells_add(&list, "%s", "the network");
        cells_add_number(&list, s->accuracy);
        cells_add_number(&list, s->loss);
        cells_add(&list, "%s", "always the most frequent class");
        cells_add_number(&list, s->majority);
        cells_add(&list, "%s", "");
        show_table(w, "Error on the validation rows.", columns, 3, &list);
        return;
    }
    static const char *const columns[] = {"target", "MSE", "share of the variance", "R²"};
    for (int64_t c = 0; c < job->outputs; c++) {
        cells_add(&list, "%s", training_column(&job->set, &job->set.target, c));
        cells_add_number(&list, s->columns[c].mse);
        cells_add_number(&list, s->columns[c].standardised);
        cells_add_number(&list, s->columns[c].r2);
    }
    if (isfinite(s->floor)) {
        char *given = training_role_text(&job->set, &job->set.given);
        cells_add(&list, "floor: from %s alone (estimate)", given);
        cells_add(&list, "%s", "");
        cells_add_number(&list, s->floor);
        cells_add(&list, "%s", "");
        free(given);
    }
    show_table(w, "Error on the validation rows.", columns, 4, &list);
}

static void show_measures(report_writer *w) {
    static const char *const columns[] = {"", "CIRCE", "HSCIC", "GCM", "HSIC"};
    static const char *const names[N_STATES] = {"the target itself", "before training", "after training"};
    const training_job *job = w->job;
    cells list = {0};
    if (!job->set.has_invariant) return;
    char *z = training_role_text(&job->set, &job->set.invariant), *y = training_role_text(&job->set, &job->set.given);
    char *caption = small_format("Dependence on %s given %s, on %" PRId64 " validation rows. 0: independent.", z, y,
                                 job->scores.measured_rows);
    for (int state = job->set.given_is_target ? STATE_BEFORE : STATE_TARGET; state < N_STATES; state++) {
        cells_add(&list, "%s", names[state]);
        for (int m = 0; m < N_MEASURED; m++) cells_add_number(&list, job->scores.value[state][m]);
    }
    show_table(w, caption, columns, 5, &list);
    report_text(w->page,
                "CIRCE and HSIC are unbiased and scatter around 0 where there is no dependence; GCM is a score that "
                "chance takes to about 3 at most; HSIC asks for independence whatever is given. “Before” is the "
                "network before its first step%s",
                job->set.given_is_target
                    ? "."
                    : "; the target itself is what a perfect predictor without a regulariser would show.");
    if (isfinite(job->scores.floor))
        report_note(w->page,
                    "The floor is an estimate of E[Var(target | %s)], the error of predicting from %s alone, by kernel "
                    "regression on %" PRId64
                    " training rows. A prediction that is invariant can go below it only by "
                    "what other features tell of the target independently of %s.",
                    y, y, job->scores.floor_rows, z);
    free(caption);
    free(y);
    free(z);
}

static void show_confusion(report_writer *w) {
    const training_job *job = w->job;
    int64_t k = job->outputs;
    const char *columns[MOST_CONFUSED + 1] = {"class"};
    int64_t count[MOST_CONFUSED][MOST_CONFUSED] = {0};
    cells list = {0};
    if (k > MOST_CONFUSED) return;
    for (int64_t i = 0; i < job->set.validation.n; i++) count[class_of(job, i)][likeliest(job->after + i * k, k)]++;
    for (int64_t c = 0; c < k; c++) {
        columns[c + 1] = job->set.classes.names[c];
        cells_add(&list, "%s", job->set.classes.names[c]);
        for (int64_t p = 0; p < k; p++) cells_add(&list, "%" PRId64, count[c][p]);
    }
    show_table(w, "Rows: the class; columns: what was predicted.", columns, k + 1, &list);
}

static void show_facts(report_writer *w, const char *yaml) {
    const training_job *job = w->job;
    const training_set *set = &job->set;
    const train_result *r = &job->result;
    char text[1024];
    report_details(w->page, "The run as a configuration (run.yaml)", yaml);
    report_fact(w->page, "model", "%s", job->output);
    report_fact(w->page, "data", "%s, %" PRId64 " rows (hash %016" PRIx64 ")", training_data(set),
                set->table.in.values.rows, set->hash);
    report_fact(w->page, "split by seed", "%s: %" PRId64 " training, %" PRId64 " validation, %" PRId64 " holdout",
                args_text(job->arguments, OPT_SEED), set->training.n, set->validation.n, set->holdout.n);
    if (set->has_images) report_fact(w->page, "images", "%s", images_text(&set->images, text, sizeof text));
    report_fact(w->page, "network", "%s", training_network_text(job, text, sizeof text));
    report_fact(w->page, "regulariser", "%s", training_regularizer_text(job, text, sizeof text));
    report_fact(w->page, "time", "%.1f s for %" PRId64 " steps, %.0f %% of it in the regulariser", r->seconds,
                r->steps_done, r->seconds > 0 ? 100 * r->regularizer_seconds / r->seconds : 0);
    report_fact(w->page, "circe", "%s", session_text(job->s, text, sizeof text));
}

static void write_page(report_writer *w) {
    const training_job *job = w->job;
    char *target = training_role_text(&job->set, &job->set.target);
    char *z = training_role_text(&job->set, &job->set.invariant), *y = training_role_text(&job->set, &job->set.given);
    char *title = small_format("Prediction of %s", target);
    char *subtitle =
        job->kind == CIRCE_MEASURE_NONE ? small_format("without a regulariser")
        : job->kind == CIRCE_MEASURE_HSIC
            ? small_format("independent of %s: HSIC, gamma %g", z, job->gamma)
            : small_format("invariant to %s given %s: %s, gamma %g", z, y, circe_measure_name(job->kind), job->gamma);
    char *yaml = run_as_yaml(job), *path = small_format("%s/report.html", w->folder);
    w->page = report_begin(title, subtitle);
    report_heading(w->page, "Result");
    for (size_t i = 0; i < job->warnings.n; i++) report_note(w->page, "%s", job->warnings.text[i]);
    show_errors(w);
    show_measures(w);
    report_heading(w->page, "Training");
    training_show_history(w);
    report_heading(w->page, "Predictions");
    if (job->set.loss == TRAIN_MSE)
        training_show_predictions(w);
    else
        show_confusion(w);
    training_show_residuals(w);
    report_heading(w->page, "Settings");
    show_facts(w, yaml);
    write_text(w, "run.yaml", yaml);
    if (!report_end(w->page, path) && w->status == EXIT_DONE) report_writer_fail(w, path, circe_last_error());
    free(path);
    free(yaml);
    free(subtitle);
    free(title);
    free(target);
    free(y);
    free(z);
}

int training_report_write(const training_job *job, const char *folder) {
    report_writer w = {.job = job, .folder = folder};
    write_history(&w);
    write_predictions(&w);
    write_json(&w);
    if (w.status == EXIT_DONE) write_page(&w);
    return w.status;
}
