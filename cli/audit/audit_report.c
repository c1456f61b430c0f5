/* The folder of an audit: report.html, figures with their scripts and data, results.json, results.csv. The report
 * answers first, and then shows what the answer rests on, attribute by attribute. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/audit/audit.h"
#include "cli/common/output.h"
#include "io/io.h"
#include "report/cells.h"

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* The cells are freed. `text_columns`: the first so many are words, the others numbers. */
static void show_table(audit_writer *w, const char *caption, const char *const *columns, int64_t n_columns,
                       int text_columns, int64_t marked, cells *list) {
    bool numeric[CELLS_MOST_COLUMNS];
    for (int c = 0; c < CELLS_MOST_COLUMNS; c++) numeric[c] = c >= text_columns;
    report_table table = cells_table(list, caption, columns, n_columns);
    table.numeric = numeric;
    table.marked = marked;
    report_add_table(w->page, &table);
    cells_free(list);
}

static void add_p(cells *list, double p) {
    char text[32];
    cells_add(list, "%s", test_p_text(p, text, sizeof text));
}

static void add_effect(cells *list, bool there, const circe_effect *e) {
    if (there)
        cells_add(list, "%.3f (%.3f to %.3f)", e->value, e->lower, e->upper);
    else
        cells_add(list, "–");
}

static const char *decision_text(audit_decision decision) {
    return decision == DECISION_DEPENDS     ? "depends"
           : decision == DECISION_NOT_FOUND ? "no dependence found"
                                            : "cannot be said";
}

/* A number stays on a line with its percent sign. */
static void show_verdict(audit_writer *w, const char *text) {
    char *tied = small_alloc(2 * strlen(text) + 1), *to = tied;
    for (const char *c = text; *c != '\0'; c++) {
        bool percent = *c == ' ' && c[1] == '%';
        if (percent) *to++ = '\xc2';
        *to++ = percent ? '\xa0' : *c;
    }
    report_text(w->page, "%s", tied);
    free(tied);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* "the kci test", or "the kci and gcm tests together (the smaller p-value, times 2)". */
static char *deciding_rule(const audit_finding *f) {
    if (f->n_deciding == 1) return small_format("the %s test", f->tests[0].name);
    return small_format("the %s and %s tests together (the smaller p-value, times 2)", f->tests[0].name,
                        f->tests[1].name);
}

static void show_answer(audit_writer *w) {
    static const char *const columns[] = {"attribute", "prediction",         "verdict", "trust", "p-value",
                                          "adjusted",  "KPC (95 % interval)"};
    const audit *a = w->a;
    cells list = {0};
    report_heading(w->page, "Verdict");
    for (int64_t i = 0; i < a->data.n_attributes; i++) {
        for (int64_t p = 0; p < a->data.n_predictions; p++) {
            const audit_finding *f = audit_at(a, p, i);
            cells_add(&list, "%s", f->attribute->name);
            cells_add(&list, "%s", f->prediction->name);
            cells_add(&list, "%s", decision_text(f->decision));
            cells_add(&list, "%s", circe_trust_name(audit_trust(a, f)));
            add_p(&list, f->p_value);
            add_p(&list, f->p_adjusted);
            add_effect(&list, f->has_effects, &f->effects.kpc);
        }
    }
    char *rule = deciding_rule(audit_at(a, 0, 0));
    char *caption = small_format(
        "The question: once %s is known, does the prediction still depend on the attribute? Decided by %s at level %g; "
        "`adjusted` is corrected by Holm across the %" PRId64
        " attribute%s of a prediction. KPC is the share "
        "of what the outcome leaves of the prediction that the attribute explains.",
        a->data.target.name, rule, a->alpha, a->data.n_attributes, a->data.n_attributes == 1 ? "" : "s");
    show_table(w, caption, columns, 7, 4, -1, &list);
    free(caption);
    free(rule);
    for (int64_t i = 0; i < a->data.n_attributes; i++) {
        for (int64_t p = 0; p < a->data.n_predictions; p++) show_verdict(w, audit_at(a, p, i)->verdict);
    }
}

/* ---- one attribute ----------------------------------------------------------------------------------------------- */

static void show_tests(audit_writer *w, int64_t attribute) {
    static const char *const columns[] = {"prediction", "test", "null", "trust", "p-value", "statistic", "rows tested"};
    const audit *a = w->a;
    cells list = {0};
    for (int64_t p = 0; p < a->data.n_predictions; p++) {
        const audit_finding *f = audit_at(a, p, attribute);
        for (int i = 0; i < f->n_tests; i++) {
            const circe_test_result *r = &f->tests[i].result;
            cells_add(&list, "%s", f->prediction->name);
            cells_add(&list, "%s%s", f->tests[i].name, i < f->n_deciding ? " (decides)" : "");
            if (f->tests[i].failed) {
                cells_add(&list, "%s", f->tests[i].error);
                for (int c = 0; c < 4; c++) cells_add(&list, "–");
                continue;
            }
            cells_add(&list, "%s", circe_test_null_name(r->null));
            cells_add(&list, "%s", circe_trust_name(r->trust));
            add_p(&list, r->p_value);
            cells_add_number(&list, r->statistic);
            cells_add(&list, "%" PRId64, r->n_tested);
        }
    }
    show_table(
        w,
        "Tests. Those that decide were named before the data were seen; the others are here to compare. `gcm` sees "
        "correlation only, and that well; `kci` and `circe` see any dependence; `splitkci` regresses on other "
        "rows than it tests, and finds less for it. x is the prediction, y the outcome, z the attribute.",
        columns, 7, 4, -1, &list);
}

static void show_effects(audit_writer *w, int64_t attribute) {
    static const char *const columns[] = {"prediction", "KPC (95 % interval)", "by chance",
                                          "CIRCE, normalised (95 % interval)", "by chance"};
    const audit *a = w->a;
    cells list = {0};
    for (int64_t p = 0; p < a->data.n_predictions; p++) {
        const audit_finding *f = audit_at(a, p, attribute);
        cells_add(&list, "%s", f->prediction->name);
        add_effect(&list, f->has_effects, &f->effects.kpc);
        cells_add(&list, "%.3f", f->effects.kpc.chance);
        add_effect(&list, f->has_effects, &f->effects.circe);
        cells_add(&list, "%.3f", f->effects.circe.chance);
    }
    char *caption = small_format("How much, on %" PRId64
                                 " rows. Both lie in [0, 1]: 0 is none, 1 the most there could be. `by chance` is what "
                                 "they show on average where there is no dependence: compare with that.",
                                 audit_at(a, 0, attribute)->effects.rows);
    show_table(w, caption, columns, 5, 1, -1, &list);
    free(caption);
}

static void show_measures(audit_writer *w, int64_t attribute) {
    static const char *const columns[] = {"prediction", "CIRCE", "HSCIC", "GCM", "HSIC (marginal)"};
    const audit *a = w->a;
    cells list = {0};
    for (int64_t p = 0; p < a->data.n_predictions; p++) {
        const audit_finding *f = audit_at(a, p, attribute);
        cells_add(&list, "%s", f->prediction->name);
        for (int m = 0; m < AUDIT_MEASURES; m++) cells_add_number(&list, f->measures[m]);
    }
    char *caption = small_format(
        "Measures of dependence, as `circe measure` and `circe train` have them, on %" PRId64
        " rows. The first three "
        "are given %s; GCM is about a standard normal score where there is no dependence. HSIC counts also what the "
        "prediction shares with the attribute through the outcome.",
        audit_at(a, 0, attribute)->measured_rows, a->data.target.name);
    show_table(w, caption, columns, 5, 1, -1, &list);
    free(caption);
}

static void add_gap(cells *list, const audit_finding *f, const audit_gap *g) {
    cells_add(list, "%s", f->prediction->name);
    cells_add(list, "%s", g->what);
    cells_add(list, "%" PRId64, g->n_groups);
    cells_add_number(list, g->value);
    cells_add_number(list, g->chance);
    cells_add_number(list, g->chance_upper);
    if (g->what == audit_gap_names[0])
        cells_add_number(list, g->value / f->prediction->deviation);
    else
        cells_add(list, "–");
}

static void show_gaps(audit_writer *w, int64_t attribute) {
    static const char *const columns[] = {
        "prediction", "gap in", "groups", "gap", "by chance", "95 % of chance below", "gap / spread of the prediction"};
    const audit *a = w->a;
    cells list = {0};
    for (int64_t p = 0; p < a->data.n_predictions; p++) {
        const audit_finding *f = audit_at(a, p, attribute);
        for (int kind = 0; kind < AUDIT_GAP_KINDS; kind++) {
            for (int i = 0; i < f->n_gaps; i++) {
                if (f->gaps[i].what == audit_gap_names[kind]) add_gap(&list, f, &f->gaps[i]);
            }
        }
    }
    const char *strata = a->data.outcome == OUTCOME_NUMBERS
                             ? "in five groups of the outcome, after subtracting the mean prediction at each outcome"
                             : "at equal outcome";
    char *caption = small_format(
        "Equalised-odds gaps: between the groups of %s that differ most, %s. Groups are %s. The more groups, the "
        "larger the gap by chance alone: that is what shuffling the groups among rows of equal outcome shows.",
        a->data.attributes[attribute].name, strata,
        a->data.attributes[attribute].categories != NULL ? "its categories" : "quantiles of it");
    show_table(w, caption, columns, 7, 2, -1, &list);
    free(caption);
}

static void show_groups(audit_writer *w, int64_t attribute) {
    const audit *a = w->a;
    const audit_groups *groups = &a->finest[attribute];
    const char *columns[CELLS_MOST_COLUMNS] = {a->data.attributes[attribute].name, "rows"};
    char *names[CELLS_MOST_COLUMNS] = {0};
    int n = 2, text = 0;
    cells list = {0};
    if (!audit_has_errors(a)) return;
    for (int64_t p = 0; p < a->data.n_predictions && n + 2 < CELLS_MOST_COLUMNS; p++) {
        names[text] = small_format("%s: mean error", a->data.predictions[p].name);
        columns[n++] = names[text++];
        names[text] = small_format("%s: RMS error", a->data.predictions[p].name);
        columns[n++] = names[text++];
    }
    for (int64_t g = 0; g < groups->n_groups; g++) {
        int64_t rows = 0;
        for (int64_t i = 0; i < a->data.n; i++) rows += groups->of[i] == g;
        cells_add(&list, "%s", groups->labels[g]);
        cells_add(&list, "%" PRId64, rows);
        for (int64_t p = 0; 2 * p + 3 < n; p++) {
            const audit_finding *f = audit_at(a, p, attribute);
            cells_add_number(&list, f->error.value[g]);
            cells_add_number(&list, f->squared.value[g]);
        }
    }
    show_table(w, "The error, group by group.", columns, n, 1, -1, &list);
    for (int i = 0; i < text; i++) free(names[i]);
}

static void show_trust(audit_writer *w, const audit_finding *f) {
    for (int i = 0; i < f->n_deciding; i++)
        report_text(w->page, "`%s`, %s: %s", f->prediction->name, f->tests[i].name, f->tests[i].result.verdict);
}

static void show_calibrations(audit_writer *w, const audit_finding *f) {
    for (int i = 0; f->has_calibration && i < f->n_deciding; i++)
        report_text(w->page, "`%s`, %s: %s", f->prediction->name, f->tests[i].name, f->calibration[i].summary.verdict);
}

static void show_attribute(audit_writer *w, int64_t attribute) {
    const audit *a = w->a;
    report_heading(w->page, a->data.attributes[attribute].name);
    audit_show_residuals(w, attribute);
    show_effects(w, attribute);
    audit_show_place(w, attribute);
    show_gaps(w, attribute);
    audit_show_errors(w, attribute);
    show_groups(w, attribute);
    show_tests(w, attribute);
    for (int64_t p = 0; p < a->data.n_predictions; p++) show_trust(w, audit_at(a, p, attribute));
    audit_show_calibration(w, attribute);
    for (int64_t p = 0; p < a->data.n_predictions; p++) show_calibrations(w, audit_at(a, p, attribute));
    show_measures(w, attribute);
}

/* ---- caveats and facts ------------------------------------------------------------------------------------------- */

static void show_caveats(audit_writer *w) {
    const audit *a = w->a;
    report_heading(w->page, "What this does and does not say");
    report_text(w->page,
                "The question is that of equalised odds (separation): at equal %s, is the prediction the same for all? "
                "It is not the only notion of fairness, and others can contradict it. Dependence found here is no "
                "statement on its cause; that none was found is no proof that there is none.",
                a->data.target.name);
    report_text(
        w->page,
        "It takes the outcome in the table as the truth. Where that was itself recorded unequally, a prediction "
        "that follows it passes. The rows should be ones that the predictor has not been trained on, and like "
        "those it will be used on.");
    report_text(w->page,
                "A p-value says whether there is dependence, not how much: with many rows it is small for effects that "
                "do not matter, with few rows large for effects that do. Read it with the effect sizes and their "
                "intervals.");
    for (size_t i = 0; i < a->warnings.n; i++) report_note(w->page, "%s.", a->warnings.text[i]);
}

static void show_facts(audit_writer *w) {
    const audit *a = w->a;
    const audit_data *d = &a->data;
    const audit_finding *f = audit_at(a, 0, 0);
    char text[192];
    report_fact(w->page, "data", "%s, %" PRId64 " rows, %" PRId64 " left out for missing cells", a->arguments->argument,
                d->n, d->dropped);
    if (d->outcome == OUTCOME_BINARY)
        report_fact(w->page, "outcome", "%s: positive is %s; a prediction of at least %g counts as positive",
                    d->target.name, d->positive, d->threshold);
    else
        report_fact(w->page, "outcome", "%s, %s", d->target.name,
                    d->outcome == OUTCOME_NUMBERS ? "a number" : "classes");
    report_fact(w->page, "decided by", "%s, level %g, Holm across the attributes of a prediction",
                args_text(a->arguments, OPT_AUDIT_TEST), a->alpha);
    for (int i = 0; i < f->n_tests; i++) {
        if (f->tests[i].rows < d->n)
            report_fact(w->page, "part of the rows", "%s: %" PRId64 " at random", f->tests[i].name, f->tests[i].rows);
    }
    if (f->has_effects && f->effects.rows < d->n)
        report_fact(w->page, "part of the rows", "effect sizes: %" PRId64 " at random", f->effects.rows);
    if (f->has_calibration && f->calibration[0].rows < d->n)
        report_fact(w->page, "part of the rows", "calibration: %" PRId64 " at random", f->calibration[0].rows);
    if (f->measured_rows < d->n)
        report_fact(w->page, "part of the rows", "measures: %" PRId64 " at random", f->measured_rows);
    report_fact(w->page, "draws", "%s", args_text(a->arguments, OPT_DRAWS));
    report_fact(w->page, "seed", "%" PRId64, args_integer(a->arguments, OPT_SEED));
    report_fact(w->page, "time", "%.1f s", a->seconds);
    report_fact(w->page, "circe", "%s", session_text(&a->s, text, sizeof text));
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void add_line(cells *list, const audit_finding *f, const char *kind, const char *name, double value,
                     double lower, double upper) {
    const double numbers[] = {value, lower, upper};
    cells_add(list, "%s", f->prediction->name);
    cells_add(list, "%s", f->attribute->name);
    cells_add(list, "%s", kind);
    cells_add(list, "%s", name);
    for (int i = 0; i < 3; i++) {
        if (isfinite(numbers[i]))
            cells_add(list, "%.17g", numbers[i]);
        else
            cells_add(list, "%s", "");
    }
}

static void add_finding(cells *list, const audit_finding *f) {
    const double none = (double)NAN;
    for (int i = 0; i < f->n_tests; i++) {
        if (!f->tests[i].failed)
            add_line(list, f, i < f->n_deciding ? "p_value of a deciding test" : "p_value", f->tests[i].name,
                     f->tests[i].result.p_value, none, none);
    }
    add_line(list, f, "p_value", "decision", f->p_value, none, none);
    add_line(list, f, "p_adjusted", "decision", f->p_adjusted, none, none);
    if (f->has_effects) {
        add_line(list, f, "effect", "kpc", f->effects.kpc.value, f->effects.kpc.lower, f->effects.kpc.upper);
        add_line(list, f, "effect", "circe", f->effects.circe.value, f->effects.circe.lower, f->effects.circe.upper);
    }
    for (int m = 0; m < AUDIT_MEASURES; m++)
        add_line(list, f, "measure", audit_measure_names[m], f->measures[m], none, none);
    for (int i = 0; i < f->n_gaps; i++) {
        char *name = small_format("%s, %" PRId64 " groups", f->gaps[i].what, f->gaps[i].n_groups);
        add_line(list, f, "gap", name, f->gaps[i].value, none, none);
        free(name);
    }
    for (int i = 0; f->has_calibration && i < f->n_deciding; i++) {
        const circe_calibration *c = &f->calibration[i].summary;
        add_line(list, f, "calibration: share of p-values at most alpha", f->tests[i].name, c->level, c->level_lower,
                 c->level_upper);
    }
}

static int write_csv(const audit *a) {
    static const char *const columns[] = {"prediction", "attribute", "kind", "name", "value", "lower", "upper"};
    cells list = {0};
    for (int64_t i = 0; i < a->data.n_predictions * a->data.n_attributes; i++) add_finding(&list, &a->findings[i]);
    char *path = small_format("%s/results.csv", a->folder);
    report_table table = cells_table(&list, "", columns, 7);
    int status = report_write_csv(path, &table) ? EXIT_DONE : message_write(path, circe_last_error());
    cells_free(&list);
    free(path);
    return status;
}

static int write_json(const audit *a) {
    cJSON *json = audit_json(a);
    char *text = json_utf8(json, true), *path = small_format("%s/results.json", a->folder);
    int status = EXIT_DONE;
    cJSON_Delete(json);
    if (text == NULL)
        status = message_fail(EXIT_WORK, "out of memory for %s", path);
    else if (io_write_text(path, text, strlen(text)) != CIRCE_OK)
        status = message_write(path, circe_last_error());
    free(text);
    free(path);
    return status;
}

/* "before and after" */
static char *names_of(const audit_column *columns, int64_t n) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("%s", "");
    for (int64_t i = 0; i < n; i++) fprintf(out, "%s%s", i == 0 ? "" : i + 1 == n ? " and " : ", ", columns[i].name);
    fclose(out);
    return text;
}

static int write_page(const audit *a) {
    const audit_data *d = &a->data;
    char *predictions = names_of(d->predictions, d->n_predictions),
         *attributes = names_of(d->attributes, d->n_attributes);
    char *title = small_format("Audit of %s", predictions);
    char *subtitle = small_format("dependence on %s, given %s; %" PRId64 " rows of %s", attributes, d->target.name,
                                  d->n, a->arguments->argument);
    char *path = small_format("%s/report.html", a->folder);
    audit_writer w = {.a = a, .page = report_begin(title, subtitle)};
    show_answer(&w);
    for (int64_t i = 0; i < d->n_attributes; i++) show_attribute(&w, i);
    show_caveats(&w);
    show_facts(&w);
    if (!report_end(w.page, path) && w.status == EXIT_DONE) w.status = message_write(path, circe_last_error());
    free(path);
    free(subtitle);
    free(title);
    free(attributes);
    free(predictions);
    return w.status;
}

int audit_report_write(const audit *a) {
    int status = write_csv(a);
    if (status == EXIT_DONE) status = write_json(a);
    return status == EXIT_DONE ? write_page(a) : status;
}
