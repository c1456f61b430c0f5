/* The folder of an audit: report.html, figures with their scripts and data, results.json, results.csv. The report gives
 * the answer first, and then its basis, attribute by attribute. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/small.h"
#include "core/settings.h"
#include "io/paths.h"
#include "jobs/audit_page.h"
#include "jobs/json.h"

/* ---- caveats and facts ------------------------------------------------------------------------------------------- */

static void show_notions(audit_page *w) {
    static const char *const texts[] = {
        "Separation (equalised odds) asks: at equal %s, is the prediction the same for all groups? It allows "
        "dependence through the outcome.",
        "Independence (demographic parity) asks: is the prediction the same for all groups, regardless of %s? It "
        "rejects a prediction that follows a difference in outcomes.",
        "Sufficiency (predictive parity, calibration within groups) asks: at equal prediction, is %s the same for all "
        "groups? If so, a prediction means the same for everyone."};
    for (int64_t k = 0; k < w->r->n_notions; k++) {
        char *text = small_format("%s", texts[w->r->notions[k]]), *at = strstr(text, "%s");
        *at = '\0';
        report_text(w->page, "%s%s%s", text, w->r->target.name, at + 2);
        free(text);
    }
}

static void show_caveats(audit_page *w) {
    const circe_audit_result *r = w->r;
    report_heading(w->page, "What this audit does and does not say");
    show_notions(w);
    report_text(w->page,
                "These notions of fairness can contradict each other: if the outcome itself depends on the attribute, "
                "no useful prediction satisfies all three. Dependence says nothing about its cause. If no dependence "
                "was found, this does not prove that there is none.");
    report_text(w->page,
                "The audit takes the outcome in the table as the truth. If the outcome itself was recorded unfairly, a "
                "prediction that follows it passes. Use rows that the predictor was not trained on, and that resemble "
                "those it will be used on.");
    report_text(w->page,
                "A p-value says whether there is dependence, not how much. With many rows it is small even for effects "
                "that do not matter; with few rows it can be large for effects that do. Read it together with the "
                "effect sizes and their intervals.");
    for (size_t i = 0; i < r->warnings.n; i++) report_note(w->page, "%s.", r->warnings.text[i]);
}

static void fact_part(audit_page *w, const char *what, int64_t rows) {
    if (rows < w->r->n) report_fact(w->page, "part of the rows", "%s: %" PRId64 " at random", what, rows);
}

static void show_facts(audit_page *w) {
    const circe_audit_result *r = w->r;
    const circe_audit_finding *f = audit_at(r, 0, 0, 0);
    report_fact(w->page, "data", "%s, %" PRId64 " rows, %" PRId64 " left out for missing cells", r->source, r->n,
                r->dropped);
    if (r->weights_name != NULL)
        report_fact(w->page, "weights", "%s, whose sum is %.6g; %" PRId64 " rows of weight 0 were left out",
                    r->weights_name, r->weights_sum, r->weightless);
    if (r->model != NULL) report_fact(w->page, "model", "%s", r->model);
    OWNED char *rule = r->outcome == CIRCE_OUTCOME_BINARY ? audit_positive_rule(r) : NULL;
    if (rule != NULL)
        report_fact(w->page, "outcome", "%s: positive is %s; a prediction of %s counts as positive", r->target.name,
                    r->positive, rule);
    else
        report_fact(w->page, "outcome", "%s, %s", r->target.name,
                    r->outcome == CIRCE_OUTCOME_NUMBERS ? "a number" : "classes");
    for (int64_t g = 0; g < r->n_given; g++)
        report_fact(w->page, "given", "%s, %s", r->given[g].name,
                    r->given[g].categories != NULL ? "categories" : "a number, in five groups for the gaps");
    report_fact(w->page, "decided by", "%s, level %g, with Holm's correction across the attributes of a prediction",
                r->test, r->alpha);
    for (int i = 0; i < f->n_tests; i++) fact_part(w, f->tests[i].name, f->tests[i].rows);
    if (f->has_effects) fact_part(w, "effect sizes", f->effects.rows);
    if (f->has_calibration) fact_part(w, "calibration", f->calibration[0].rows);
    fact_part(w, "measures", f->measured_rows);
    report_fact(w->page, "draws", "%" PRId64, r->draws);
    report_fact(w->page, "seed", "%" PRId64, r->seed);
    report_fact(w->page, "time", "%.1f s", r->seconds);
    report_fact(w->page, "circe", "%s", r->machine);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static circe_status write_json(const circe_audit_result *r, const char *folder) {
    OWNED char *text = json_text(audit_json(r, folder)), *path = small_format("%s/results.json", folder);
    return text != NULL ? file_write_text(path, text, strlen(text)) : CIRCE_ERR_MEMORY;
}

/* "before and after" */
static char *names_of(const circe_audit_column *columns, int64_t n) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("%s", "");
    for (int64_t i = 0; i < n; i++) fprintf(out, "%s%s", i == 0 ? "" : i + 1 == n ? " and " : ", ", columns[i].name);
    fclose(out);
    return text;
}

static report *begin_page(const circe_audit_result *r) {
    OWNED char *predictions = names_of(r->predictions, r->n_predictions),
               *attributes = names_of(r->attributes, r->n_attributes);
    OWNED char *title = small_format("Audit of %s", predictions);
    const char *given = audit_question_of(r, audit_at(r, 0, 0, 0))->given;
    bool one = r->n_notions == 1 && r->notions[0] == CIRCE_NOTION_SEPARATION;
    OWNED char *subtitle =
        small_format("dependence on %s%s%s; %" PRId64 " rows of %s", attributes, one ? ", given " : ", by ",
                     one                 ? given
                     : r->n_notions == 1 ? circe_audit_notion_name(r->notions[0])
                                         : "three notions",
                     r->n, r->source);
    return report_begin(title, subtitle);
}

static circe_status write_page(const circe_audit_result *r, const char *folder) {
    OWNED char *path = small_format("%s/report.html", folder);
    audit_page w = {.r = r, .folder = folder, .page = begin_page(r)};
    audit_show_quality(&w);
    audit_show_answer(&w);
    audit_show_differences(&w);
    audit_show_checks(&w);
    for (int64_t i = 0; i < r->n_attributes; i++) audit_show_attribute(&w, i);
    show_caveats(&w);
    show_facts(&w);
    circe_status ended = report_end(w.page, path);
    return w.status == CIRCE_OK ? ended : w.status;
}

circe_status circe_audit_report(const circe_audit_result *r, const char *folder) {
    CIRCE_OWN_SETTINGS;
    circe_status status = path_make_folder(folder);
    if (status == CIRCE_OK) status = audit_write_csv(r, folder);
    if (status == CIRCE_OK) status = write_json(r, folder);
    return status == CIRCE_OK ? write_page(r, folder) : status;
}
