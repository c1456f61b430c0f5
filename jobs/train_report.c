/* Writes the report folder of a run: report.html for people, figures with their scripts and data, results.json,
 * results.csv (one row per epoch), predictions.csv (one row per judged point), sweep.csv (one row per gamma), and
 * run.yaml, which reproduces the run. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/small.h"
#include "core/settings.h"
#include "jobs/machine.h"
#include "jobs/training.h"
#include "report/cells.h"

enum { MOST_CONFUSED = 20 };

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The first column of `list` is text where `words`, else all are; the cells are freed. */
static void write_table(training_page *p, const char *name, const char *const *columns, int64_t n_columns, bool words,
                        cells *list) {
    OWNED char *path = small_format("%s/%s", p->folder, name);
    report_table table = cells_table(list, "", columns, n_columns);
    if (words) table.numeric = NULL;
    if (p->status == CIRCE_OK) p->status = report_write_csv(path, &table);
    cells_free(list);
}

static void write_history(training_page *p) {
    static const char *const columns[] = {"epoch", "loss",  "regularizer", "validation_loss", "validation_regularizer",
                                          "lr",    "gamma", "mean_kernel", "spread",          "seconds"};
    cells list = {0};
    for (int64_t e = 0; e < p->t->result.epochs; e++) {
        const circe_training_epoch *h = &p->t->result.history[e];
        const double values[] = {h->loss, h->regularizer, h->validation_loss, h->validation_regularizer,
                                 h->rate, h->gamma,       h->mean_kernel,     h->spread};
        cells_add(&list, "%" PRId64, e + 1);
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) cells_add(&list, "%.17g", values[i]);
        cells_add(&list, "%.3f", h->seconds);
    }
    write_table(p, "results.csv", columns, 10, false, &list);
}

/* Rows are those of the table, from 0, less those that were dropped. */
static void write_predictions(training_page *p) {
    const trained *t = p->t;
    const training_set *set = &t->set;
    const char *const *classes = t->result.classes;
    OWNED_BY(name_list_free) name_list columns = {0};
    cells list = {0};
    name_list_add(&columns, "row");
    for (int64_t c = 0; c < set->target.n; c++) {
        OWNED char *name = small_format("prediction of %s", training_column(set, &set->target, c));
        name_list_add(&columns, training_column(set, &set->target, c));
        name_list_add(&columns, name);
    }
    for (int64_t i = 0; i < training_judged(set)->n; i++) {
        cells_add(&list, "%" PRId64, training_judged(set)->rows[i]);
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
}

static void write_trials(training_page *p) {
    static const char *const columns[] = {"gamma", "error",     "error_lower", "error_upper", "p_kci",     "p_gcm",
                                          "kpc",   "kpc_lower", "kpc_upper",   "kpc_chance",  "invariant", "chosen"};
    const circe_training *r = &p->t->result;
    cells list = {0};
    for (int64_t i = 0; i < r->n_trials; i++) {
        const circe_training_score *s = &r->trials[i].score;
        const double values[] = {r->trials[i].gamma, s->error.value, s->error.lower, s->error.upper, s->p_kci,
                                 s->p_gcm,           s->kpc.value,   s->kpc.lower,   s->kpc.upper,   s->kpc_chance};
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) cells_add(&list, "%.9g", values[v]);
        cells_add(&list, "%d", r->trials[i].invariant);
        cells_add(&list, "%d", r->trials[i].chosen);
    }
    if (r->n_trials > 0) write_table(p, "sweep.csv", columns, 12, false, &list);
}

static void write_text(training_page *p, const char *name, const char *text) {
    OWNED char *path = small_format("%s/%s", p->folder, name);
    if (p->status == CIRCE_OK) p->status = file_write_text(path, text, strlen(text));
}

static void write_json(training_page *p) {
    char *text = circe_training_json(&p->t->result, p->folder);
    if (text != NULL) write_text(p, "results.json", text);
    circe_text_free(text);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static const char *judged_name(const circe_training *r) { return r->test_rows > 0 ? "test" : "validation"; }

static void add_interval(cells *list, circe_training_estimate e) {
    if (isfinite(e.lower))
        cells_add(list, "%.4g (%.3g to %.3g)", e.value, e.lower, e.upper);
    else
        cells_add_number(list, e.value);
}

/* A p-value as text, with the smallest possible one as a bound: "0.31", "< 1e-11". `equals`: "= 0.31". */
static const char *p_text(double p, bool equals, char *out, size_t size) {
    if (isnan(p))
        snprintf(out, size, "%s–", equals ? "= " : "");
    else if (p < 1e-11)
        snprintf(out, size, "< 1e-11");
    else
        snprintf(out, size, p < 0.001 ? "%s%.1e" : "%s%.2g", equals ? "= " : "", p);
    return out;
}

static void add_p(cells *list, double p) {
    char text[32];
    cells_add(list, "%s", p_text(p, false, text, sizeof text));
}

static void add_score(cells *list, const char *name, const circe_training *r, const circe_training_score *s) {
    cells_add(list, "%s", name);
    add_interval(list, s->error);
    if (r->classes != NULL) cells_add_number(list, s->accuracy);
    if (r->classes != NULL && r->outputs == 2) cells_add_number(list, s->auc);
    if (r->classes == NULL) cells_add_number(list, 1 - s->error.value);
    if (r->invariant_to == NULL) return;
    add_p(list, s->p_kci);
    add_p(list, s->p_gcm);
    add_interval(list, s->kpc);
}

static int64_t score_columns(const circe_training *r, const char **columns) {
    int64_t n = 0;
    columns[n++] = "";
    columns[n++] = r->classes != NULL ? "cross-entropy" : "MSE over the variance";
    if (r->classes != NULL) columns[n++] = "accuracy";
    if (r->classes != NULL && r->outputs == 2) columns[n++] = "AUC";
    if (r->classes == NULL) columns[n++] = "R²";
    if (r->invariant_to == NULL) return n;
    columns[n++] = "p (kci)";
    columns[n++] = "p (gcm)";
    columns[n++] = "KPC";
    return n;
}

static void add_floor(cells *list, const circe_training *r, int64_t n_columns) {
    if (r->classes != NULL) {
        cells_add(list, "%s", "always the most frequent class");
        cells_add(list, "%s", "");
        cells_add_number(list, r->majority);
    } else {
        cells_add(list, "floor: from %s alone (estimate)", r->given);
        cells_add_number(list, r->floor);
        cells_add_number(list, 1 - r->floor);
    }
    for (int64_t c = 3; c < n_columns; c++) cells_add(list, "%s", "");
}

/* "depends on sex given y" in words, by the smaller of two p-values. */
static const char *found_words(const circe_training_score *s) {
    double p = fmin(s->p_kci, s->p_gcm);
    return p < 0.001  ? "dependence is found"
           : p < 0.05 ? "weak evidence of dependence is found"
                      : "no dependence is found";
}

static void say_comparison(training_page *p) {
    const circe_training *r = &p->t->result;
    const circe_training_estimate *d = &r->difference;
    if (r->baseline == NULL || r->invariant_to == NULL) return;
    char before[32], after[32];
    p_text(fmin(r->baseline_score.p_kci, r->baseline_score.p_gcm), true, before, sizeof before);
    p_text(fmin(r->score.p_kci, r->score.p_gcm), true, after, sizeof after);
    bool itself = training_compares_itself(r);
    OWNED char *other = itself ? small_format("The benefit of invariance: without the regulariser")
                               : small_format("Compared with the model %s: there", r->baseline);
    report_text(p->page,
                "%s, %s (p %s); %s, %s (p %s). KPC is the "
                "share of the variation in the prediction, unexplained by %s, that %s explains. It is %.3g instead of "
                "%.3g; chance alone gives about %.2g. The cost: the error is %.4g instead of %.4g, a difference of "
                "%.3g (95 %% interval %.3g to %.3g).",
                other, found_words(&r->baseline_score), before, itself ? "with it" : "here", found_words(&r->score),
                after, r->given, r->invariant_to, r->score.kpc.value, r->baseline_score.kpc.value, r->score.kpc_chance,
                r->score.error.value, r->baseline_score.error.value, d->value, d->lower, d->upper);
}

static void show_comparison(training_page *p) {
    const circe_training *r = &p->t->result;
    const char *columns[8];
    int64_t n = score_columns(r, columns);
    cells list = {0};
    OWNED char *caption =
        small_format("On the %" PRId64 " %s rows, which were not used for training%s. With 95 %% intervals.",
                     r->score.rows, judged_name(r), r->test_rows > 0 ? " or for any choice" : "");
    add_score(&list, r->regularised ? "with the regulariser" : "the network", r, &r->score);
    if (r->baseline != NULL) add_score(&list, r->baseline, r, &r->baseline_score);
    if (r->classes != NULL || isfinite(r->floor)) add_floor(&list, r, n);
    cells_show(&list, p->page, caption, columns, n, 1);
    say_comparison(p);
}

static void show_errors(training_page *p) {
    static const char *const columns[] = {"target", "MSE", "MSE over the variance", "R²"};
    const circe_training *r = &p->t->result;
    cells list = {0};
    if (r->classes != NULL) return;
    for (int64_t c = 0; c < r->outputs; c++) {
        cells_add(&list, "%s", r->errors[c].name);
        cells_add_number(&list, r->errors[c].mse);
        cells_add_number(&list, r->errors[c].standardised);
        cells_add_number(&list, r->errors[c].r2);
    }
    OWNED char *caption =
        small_format("Error on the %s rows, in squared units of the target and relative to its variance on these rows.",
                     judged_name(r));
    cells_show(&list, p->page, caption, columns, 4, 1);
}

/* "0.41", or "0.41 (0.52 without)". */
static void add_pair(cells *list, const double *pair) {
    if (isfinite(pair[1]))
        cells_add(list, "%.3g (%.3g)", pair[0], pair[1]);
    else
        cells_add_number(list, pair[0]);
}

static void show_groups(training_page *p) {
    const circe_training *r = &p->t->result;
    const char *columns[8] = {"column", "group", "rows"};
    bool two = r->classes != NULL && r->outputs == 2;
    int64_t n = 3;
    cells list = {0};
    if (r->n_groups == 0) return;
    if (two) columns[n++] = "selection rate", columns[n++] = "true positive rate", columns[n++] = "false positive rate";
    columns[n++] = r->classes != NULL ? "accuracy" : "RMS error";
    for (int64_t g = 0; g < r->n_groups; g++) {
        const circe_training_group *group = &r->groups[g];
        cells_add(&list, "%s", group->column);
        cells_add(&list, "%s", group->group);
        cells_add(&list, "%" PRId64, group->rows);
        if (two) {
            add_pair(&list, group->selected);
            add_pair(&list, group->true_positive);
            add_pair(&list, group->false_positive);
        }
        add_pair(&list, r->classes != NULL ? group->accuracy : group->error);
    }
    OWNED char *caption =
        small_format("Groups on the %s rows%s%s%s%s.", judged_name(r), two ? "; positive is the class " : "",
                     two ? r->classes[1] : "", r->baseline != NULL ? "; in parentheses " : "",
                     r->baseline != NULL ? r->baseline : "");
    cells_show(&list, p->page, caption, columns, n, 1);
}

static circe_training_estimate above(circe_training_estimate e, double chance) {
    return (circe_training_estimate){e.value - chance, e.lower - chance, e.upper - chance};
}

static void show_trials(training_page *p) {
    static const char *const columns[] = {"gamma", "error", "p (kci)", "p (gcm)", "KPC above chance", ""};
    const circe_training *r = &p->t->result;
    bool tolerant = isfinite(r->tolerance);
    const char *passed = tolerant ? "within the tolerance" : "not found";
    cells list = {0};
    if (r->n_trials == 0) return;
    report_heading(p->page, r->gamma_chosen ? "The choice of gamma" : "Along gamma");
    for (int64_t i = 0; i < r->n_trials; i++) {
        const circe_training_trial *t = &r->trials[i];
        cells_add(&list, "%g", t->gamma);
        add_interval(&list, t->score.error);
        add_p(&list, t->score.p_kci);
        add_p(&list, t->score.p_gcm);
        add_interval(&list, above(t->score.kpc, t->score.kpc_chance));
        cells_add(&list, "%s%s", t->invariant ? passed : "dependence", t->chosen ? ", chosen" : "");
    }
    OWNED char *caption = small_format("On %" PRId64
                                       " training and validation rows, each left out of the network that "
                                       "predicts it.",
                                       r->trial_rows);
    cells_show(&list, p->page, caption, columns, 6, 1);
    if (r->gamma_chosen && !r->gamma_reached)
        report_note(p->page,
                    "No gamma that leaves a useful prediction reliably removed the dependence. One that comes close "
                    "was chosen.");
    training_show_sweep(p);
}

static void explain_measures(training_page *p) {
    const circe_training *r = &p->t->result;
    report_text(p->page,
                "Without dependence, CIRCE and HSIC scatter around 0, because they are unbiased, and GCM rarely "
                "exceeds 3. HSIC ignores what is given: it measures marginal dependence.%s",
                r->given_is_target ? "" : " The row of the target shows what a perfect predictor would show.");
    if (isfinite(r->floor))
        report_note(p->page,
                    "The floor is an estimate of E[Var(target | %s)], the error of predicting from %s alone, by kernel "
                    "regression on %" PRId64
                    " training rows. An invariant prediction can go below it only if other features tell something "
                    "about the target independently of %s.",
                    r->given, r->given, r->floor_rows, r->invariant_to);
}

static void show_measures(training_page *p) {
    static const char *const columns[] = {"", "CIRCE", "HSCIC", "GCM", "HSIC"};
    const circe_training *r = &p->t->result;
    const char *names[CIRCE_TRAINING_STATES] = {"the target itself", r->baseline, "the network"};
    cells list = {0};
    if (r->invariant_to == NULL) return;
    OWNED char *caption = small_format("Dependence on %s given %s, on %" PRId64 " %s rows. 0: independent.",
                                       r->invariant_to, r->given, r->measured_rows, judged_name(r));
    for (int state = 0; state < CIRCE_TRAINING_STATES; state++) {
        if (names[state] == NULL || (state == CIRCE_TRAINING_TARGET && r->given_is_target)) continue;
        cells_add(&list, "%s", names[state]);
        for (int m = 0; m < CIRCE_TRAINING_MEASURES; m++) cells_add_number(&list, r->dependence[state][m]);
    }
    cells_show(&list, p->page, caption, columns, 5, 1);
    explain_measures(p);
}

static void show_confusion(training_page *p) {
    const trained *t = p->t;
    int64_t k = t->result.outputs;
    const char *columns[MOST_CONFUSED + 1] = {"class"};
    int64_t count[MOST_CONFUSED][MOST_CONFUSED] = {0};
    cells list = {0};
    if (k > MOST_CONFUSED) return;
    for (int64_t i = 0; i < training_judged(&t->set)->n; i++)
        count[training_true_class(t, i)][training_found_class(t, i)]++;
    for (int64_t c = 0; c < k; c++) {
        columns[c + 1] = t->result.classes[c];
        cells_add(&list, "%s", t->result.classes[c]);
        for (int64_t found = 0; found < k; found++) cells_add(&list, "%" PRId64, count[c][found]);
    }
    cells_show(&list, p->page, "Rows: the true class. Columns: the predicted class.", columns, k + 1, 1);
}

static void show_facts(training_page *p) {
    const circe_training *r = &p->t->result;
    char text[192];
    report_details(p->page, "The run as a configuration (run.yaml)", p->t->yaml);
    report_fact(p->page, "model", "%s", r->path != NULL ? r->path : "in memory");
    report_fact(p->page, "data", "%s, %" PRId64 " rows (hash %016" PRIx64 ")", r->data, r->rows, p->t->set.hash);
    report_fact(p->page, "split by seed",
                "%" PRId64 ": %" PRId64 " training, %" PRId64 " validation, %" PRId64 " test, %" PRId64 " holdout",
                r->seed, r->training_rows, r->validation_rows, r->test_rows,
                p->t->set.shares_rows ? 0 : r->holdout_rows);
    if (p->t->set.shares_rows)
        report_fact(p->page, "conditional mean", "learned from %" PRId64 " training rows", r->holdout_rows);
    if (p->t->set.weights.n > 0)
        report_fact(p->page, "row weights", "%s", training_column(&p->t->set, &p->t->set.weights, 0));
    if (r->images != NULL) report_fact(p->page, "images", "%s", r->images);
    report_fact(p->page, "network", "%s", r->network);
    report_fact(p->page, "regulariser", "%s", r->regularizer);
    report_fact(p->page, "time", "%.3g s for %" PRId64 " steps, %.2g s of it in the regulariser", r->seconds, r->steps,
                r->regularizer_seconds);
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
    OWNED char *title = small_format("Prediction of %s", r->target), *subtitle = subtitle_of(p->t);
    OWNED char *path = small_format("%s/report.html", p->folder);
    p->page = report_begin(title, subtitle);
    report_heading(p->page, "Result");
    for (size_t i = 0; i < r->warnings.n; i++) report_note(p->page, "%s", r->warnings.text[i]);
    show_comparison(p);
    show_errors(p);
    show_groups(p);
    show_measures(p);
    show_trials(p);
    report_heading(p->page, "Training");
    training_show_history(p);
    training_show_features(p);
    report_heading(p->page, "Predictions");
    if (r->classes == NULL)
        training_show_predictions(p);
    else
        show_confusion(p);
    training_show_residuals(p);
    report_heading(p->page, "Settings");
    show_facts(p);
    write_text(p, "run.yaml", p->t->yaml);
    circe_status ended = report_end(p->page, path);
    if (p->status == CIRCE_OK) p->status = ended;
}

circe_status circe_training_report(circe_context *context, const circe_training *result, const char *folder) {
    CIRCE_OWN_SETTINGS;
    training_page p = {.context = context, .t = trained_of(result), .folder = folder};
    write_history(&p);
    write_predictions(&p);
    write_trials(&p);
    write_json(&p);
    if (p.status == CIRCE_OK) write_page(&p);
    return p.status;
}
