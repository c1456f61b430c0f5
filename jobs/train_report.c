/* The folder that a run leaves behind: report.html for people, figures with their scripts and data, results.json,
 * results.csv (a row an epoch), predictions.csv (a row a validation point), and run.yaml, which runs it again. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "io/small.h"
#include "jobs/machine.h"
#include "jobs/training.h"
#include "report/cells.h"

enum { MOST_CONFUSED = 20 };

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The first column of `list` is text where `words`, else all are; the cells are freed. */
static void write_table(training_page *p, const char *name, const char *const *columns, int64_t n_columns, bool words,
                        cells *list) {
    char *path = small_format("%s/%s", p->folder, name);
    report_table table = cells_table(list, "", columns, n_columns);
    if (words) table.numeric = NULL;
    if (p->status == CIRCE_OK && !report_write_csv(path, &table)) p->status = CIRCE_ERR_WRITE;
    cells_free(list);
    free(path);
}

static void write_history(training_page *p) {
    static const char *const columns[] = {"epoch", "loss",  "regularizer", "validation_loss", "validation_regularizer",
                                          "lr",    "gamma", "seconds"};
    cells list = {0};
    for (int64_t e = 0; e < p->t->result.epochs; e++) {
        const circe_training_epoch *h = &p->t->result.history[e];
        const double values[] = {h->loss, h->regularizer, h->validation_loss, h->validation_regularizer,
                                 h->rate, h->gamma};
        cells_add(&list, "%" PRId64, e + 1);
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) cells_add(&list, "%.17g", values[i]);
        cells_add(&list, "%.3f", h->seconds);
    }
    write_table(p, "results.csv", columns, 8, false, &list);
}

/* Rows are those of the table, from 0, less those that were dropped. */
static void write_predictions(training_page *p) {
    const trained *t = p->t;
    const training_set *set = &t->set;
    const char *const *classes = t->result.classes;
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
        if (classes != NULL) {
            cells_add(&list, "%s", classes[training_true_class(t, i)]);
            cells_add(&list, "%s", classes[training_found_class(t, i)]);
        }
        for (int64_t c = 0; classes == NULL && c < t->result.outputs; c++) {
            cells_add(&list, "%.9g", training_target_in_units(t, i, c));
            cells_add(&list, "%.9g", training_prediction_in_units(t, i, c));
        }
    }
    write_table(p, "predictions.csv", (const char *const *)columns.names, columns.n, true, &list);
    name_list_free(&columns);
}

static void write_text(training_page *p, const char *name, const char *text) {
    char *path = small_format("%s/%s", p->folder, name);
    if (p->status == CIRCE_OK) p->status = io_write_text(path, text, strlen(text));
    free(path);
}

static void write_json(training_page *p) {
    char *text = circe_training_json(&p->t->result, p->folder);
    if (text != NULL) write_text(p, "results.json", text);
    circe_text_free(text);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* The cells are freed. */
static void show_table(training_page *p, const char *caption, const char *const *columns, int64_t n_columns,
                       cells *list) {
    report_table table = cells_table(list, caption, columns, n_columns);
    report_add_table(p->page, &table);
    cells_free(list);
}

static void show_errors(training_page *p) {
    const circe_training *r = &p->t->result;
    cells list = {0};
    if (r->classes != NULL) {
        static const char *const columns[] = {"", "accuracy", "cross-entropy"};
        cells_add(&list, "%s", "the network");
        cells_add_number(&list, r->accuracy);
        cells_add_number(&list, r->loss);
        cells_add(&list, "%s", "always the most frequent class");
        cells_add_number(&list, r->majority);
        cells_add(&list, "%s", "");
        show_table(p, "Error on the validation rows.", columns, 3, &list);
        return;
    }
    static const char *const columns[] = {"target", "MSE", "share of the variance", "R²"};
    for (int64_t c = 0; c < r->outputs; c++) {
        cells_add(&list, "%s", r->errors[c].name);
        cells_add_number(&list, r->errors[c].mse);
        cells_add_number(&list, r->errors[c].standardised);
        cells_add_number(&list, r->errors[c].r2);
    }
    if (isfinite(r->floor)) {
        cells_add(&list, "floor: from %s alone (estimate)", r->given);
        cells_add(&list, "%s", "");
        cells_add_number(&list, r->floor);
        cells_add(&list, "%s", "");
    }
    show_table(p, "Error on the validation rows.", columns, 4, &list);
}

static void explain_measures(training_page *p) {
    const circe_training *r = &p->t->result;
    report_text(
        p->page,
        "CIRCE and HSIC are unbiased and scatter around 0 where there is no dependence; GCM is a score that "
        "chance takes to about 3 at most; HSIC asks for independence whatever is given. “Before” is the "
        "network before its first step%s",
        r->given_is_target ? "." : "; the target itself is what a perfect predictor without a regulariser would show.");
    if (isfinite(r->floor))
        report_note(p->page,
                    "The floor is an estimate of E[Var(target | %s)], the error of predicting from %s alone, by kernel "
                    "regression on %" PRId64
                    " training rows. A prediction that is invariant can go below it only by "
                    "what other features tell of the target independently of %s.",
                    r->given, r->given, r->floor_rows, r->invariant_to);
}

static void show_measures(training_page *p) {
    static const char *const columns[] = {"", "CIRCE", "HSCIC", "GCM", "HSIC"};
    static const char *const names[CIRCE_TRAINING_STATES] = {"the target itself", "before training", "after training"};
    const circe_training *r = &p->t->result;
    cells list = {0};
    if (r->invariant_to == NULL) return;
    char *caption = small_format("Dependence on %s given %s, on %" PRId64 " validation rows. 0: independent.",
                                 r->invariant_to, r->given, r->measured_rows);
    int first = r->given_is_target ? CIRCE_TRAINING_BEFORE : CIRCE_TRAINING_TARGET;
    for (int state = first; state < CIRCE_TRAINING_STATES; state++) {
        cells_add(&list, "%s", names[state]);
        for (int m = 0; m < CIRCE_TRAINING_MEASURES; m++) cells_add_number(&list, r->dependence[state][m]);
    }
    show_table(p, caption, columns, 5, &list);
    free(caption);
    explain_measures(p);
}

static void show_confusion(training_page *p) {
    const trained *t = p->t;
    int64_t k = t->result.outputs;
    const char *columns[MOST_CONFUSED + 1] = {"class"};
    int64_t count[MOST_CONFUSED][MOST_CONFUSED] = {0};
    cells list = {0};
    if (k > MOST_CONFUSED) return;
    for (int64_t i = 0; i < t->set.validation.n; i++) count[training_true_class(t, i)][training_found_class(t, i)]++;
    for (int64_t c = 0; c < k; c++) {
        columns[c + 1] = t->result.classes[c];
        cells_add(&list, "%s", t->result.classes[c]);
        for (int64_t found = 0; found < k; found++) cells_add(&list, "%" PRId64, count[c][found]);
    }
    show_table(p, "Rows: the class; columns: what was predicted.", columns, k + 1, &list);
}

static void show_facts(training_page *p) {
    const circe_training *r = &p->t->result;
    char text[192];
    report_details(p->page, "The run as a configuration (run.yaml)", p->t->yaml);
    report_fact(p->page, "model", "%s", r->path != NULL ? r->path : "in memory");
    report_fact(p->page, "data", "%s, %" PRId64 " rows (hash %016" PRIx64 ")", r->data, r->rows, p->t->set.hash);
    report_fact(p->page, "split by seed",
                "%" PRId64 ": %" PRId64 " training, %" PRId64 " validation, %" PRId64 " holdout", r->seed,
                r->training_rows, r->validation_rows, r->holdout_rows);
    if (r->images != NULL) report_fact(p->page, "images", "%s", r->images);
    report_fact(p->page, "network", "%s", r->network);
    report_fact(p->page, "regulariser", "%s", r->regularizer);
    report_fact(p->page, "time", "%.1f s for %" PRId64 " steps, %.0f %% of it in the regulariser", r->seconds, r->steps,
                r->seconds > 0 ? 100 * r->regularizer_seconds / r->seconds : 0);
    report_fact(p->page, "circe", "%s", machine_text(p->context, text, sizeof text));
}

static char *subtitle_of(const trained *t) {
    const circe_training *r = &t->result;
    if (t->kind == CIRCE_MEASURE_NONE) return small_format("without a regulariser");
    if (t->kind == CIRCE_MEASURE_HSIC)
        return small_format("independent of %s: HSIC, gamma %g", r->invariant_to, r->gamma);
    return small_format("invariant to %s given %s: %s, gamma %g", r->invariant_to, r->given,
                        circe_measure_name(t->kind), r->gamma);
}

static void write_page(training_page *p) {
    const circe_training *r = &p->t->result;
    char *title = small_format("Prediction of %s", r->target), *subtitle = subtitle_of(p->t);
    char *path = small_format("%s/report.html", p->folder);
    p->page = report_begin(title, subtitle);
    report_heading(p->page, "Result");
    for (size_t i = 0; i < r->warnings.n; i++) report_note(p->page, "%s", r->warnings.text[i]);
    show_errors(p);
    show_measures(p);
    report_heading(p->page, "Training");
    training_show_history(p);
    report_heading(p->page, "Predictions");
    if (r->classes == NULL)
        training_show_predictions(p);
    else
        show_confusion(p);
    training_show_residuals(p);
    report_heading(p->page, "Settings");
    show_facts(p);
    write_text(p, "run.yaml", p->t->yaml);
    if (!report_end(p->page, path) && p->status == CIRCE_OK) p->status = CIRCE_ERR_WRITE;
    free(path);
    free(subtitle);
    free(title);
}

circe_status circe_training_report(circe_context *context, const circe_training *result, const char *folder) {
    training_page p = {.context = context, .t = trained_of(result), .folder = folder};
    write_history(&p);
    write_predictions(&p);
    write_json(&p);
    if (p.status == CIRCE_OK) write_page(&p);
    return p.status;
}
