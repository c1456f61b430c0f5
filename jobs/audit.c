/* Runs an audit, from a table of predictions to its findings. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/small.h"
#include "circe/circe.h"
#include "core/settings.h"
#include "io/place.h"
#include "jobs/audit_parts.h"
#include "jobs/columns.h"
#include "jobs/machine.h"

/* ---- the work ---------------------------------------------------------------------------------------------------- */

static circe_status find_one(audit_run *run, circe_audit_finding *f) {
    circe_status status = audit_judge(run, f);
    if (status == CIRCE_OK) status = audit_step(run, f, "measures");
    if (status == CIRCE_OK) status = audit_measure(run, f);
    if (status == CIRCE_OK) status = audit_step(run, f, "gaps");
    if (status != CIRCE_OK) return status;
    audit_find_gaps(run, f);
    audit_find_profiles(run->r, f);
    return status;
}

static void make_findings(audit_run *run) {
    circe_audit_result *r = run->r;
    r->n_findings = r->n_notions * r->n_predictions * r->n_attributes;
    r->findings = arena_alloc(audit_owner(r), (size_t)r->n_findings * sizeof *r->findings);
    int64_t gaps = 0;
    for (int64_t i = 0; i < r->n_findings; i++) {
        circe_audit_finding *f = &r->findings[i];
        f->attribute = i % r->n_attributes;
        f->prediction = i / r->n_attributes % r->n_predictions;
        f->notion = r->notions[i / r->n_attributes / r->n_predictions];
    }
    audit_questions_make(r);
    for (int64_t i = 0; i < r->n_findings; i++) {
        circe_audit_finding *f = &r->findings[i];
        const audit_question *q = audit_question_of(r, f);
        f->n_parts = q->x_is_words ? q->x->n_categories : 1;
        int64_t most = (AUDIT_COARSE + 1) * (f->n_parts + AUDIT_RATES);
        f->gaps = arena_alloc(audit_owner(r), (size_t)most * sizeof *f->gaps);
        gaps += most;
    }
    run->contrasts = arena_alloc(&run->owner, (size_t)gaps * sizeof *run->contrasts);
}

/* If the classes are two words, the last in the alphabet need not be the predicted one. */
static void note_reversed(audit_run *run) {
    const circe_audit_result *r = run->r;
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const circe_audit_estimate *auc = &r->quality[p].of[CIRCE_METRIC_AUC];
        if (auc->upper < 0.5)
            notes_add(&run->warnings,
                      "the prediction '%s' is higher where '%s' is %s than where it is %s, the positive value (AUC "
                      "%.2g); is --positive right?",
                      r->predictions[p].name, r->target.name, r->negative, r->positive, auc->value);
    }
}

static circe_status work(audit_run *run) {
    circe_audit_result *r = run->r;
    make_findings(run);
    audit_progress_begin(run);
    audit_make_groups(run);
    circe_status status = audit_find_residuals(run);
    for (int64_t i = 0; i < r->n_findings && status == CIRCE_OK; i++) status = find_one(run, &r->findings[i]);
    if (status == CIRCE_OK) status = audit_resample(run);
    if (status == CIRCE_OK) note_reversed(run);
    if (status == CIRCE_OK) audit_conclude(r);
    if (status == CIRCE_OK) audit_checks_make(run->options, r);
    return status;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static circe_status check_options(const circe_table *table, const circe_audit_options *o) {
    circe_status status = circe_options_check(&circe_audit_schema, o);
    if (status == CIRCE_OK && table == NULL && o->data == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "no table is given: name a .csv with predictions, outcomes and attributes");
    if (status == CIRCE_OK && o->model == NULL && o->prediction == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--prediction LIST is required, or a --model that predicts");
    if (status == CIRCE_OK && o->model == NULL && o->target == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--target COLUMN is required");
    return status == CIRCE_OK ? audit_checks_parse(o) : status;
}

static void take_notions(const circe_audit_options *o, circe_audit_result *r) {
    for (int k = 0; k < CIRCE_NOTIONS; k++) {
        const char *name = circe_audit_notion_name((circe_audit_notion)k);
        if (strcmp(o->notion, name) == 0 || strcmp(o->notion, "all") == 0)
            r->notions[r->n_notions++] = (circe_audit_notion)k;
    }
}

static void describe(audit_run *run, const circe_table *table) {
    const circe_audit_options *o = run->options;
    circe_audit_result *r = run->r;
    char text[192];
    arena *owner = audit_owner(r);
    r->source = arena_text(owner, table != NULL                   ? "a table in memory"
                                  : io_is_standard_input(o->data) ? "standard input"
                                                                  : o->data);
    if (o->model != NULL) r->model = arena_text(owner, o->model);
    r->test = arena_text(owner, o->test);
    r->transform = arena_text(owner, o->transform);
    r->machine = arena_text(owner, machine_text(run->context, text, sizeof text));
    r->threshold = o->threshold;
    r->alpha = o->alpha;
    r->smallest_group = o->smallest_group;
    r->draws = o->draws;
    r->seed = o->seed;
    take_notions(o, r);
}

circe_status circe_audit(circe_context *context, const circe_table *table, const circe_audit_options *options,
                         const circe_watch *watch, circe_audit_result **result) {
    CIRCE_OWN_SETTINGS;
    double start = job_clock();
    unsigned mark;
    *result = NULL;
    circe_status status = small_begin(&mark);
    if (status == CIRCE_OK) status = check_options(table, options);
    if (status != CIRCE_OK) return status;
    audit_run run = {.options = options,
                     .context = context,
                     .watch = watch,
                     .warnings = {.watch = watch},
                     .r = small_alloc(sizeof(audited))};
    describe(&run, table);
    status = circe_workspace_create(context, &run.workspace);
    if (status == CIRCE_OK) status = audit_data_read(&run, table);
    if (status == CIRCE_OK) status = work(&run);
    run.r->warnings = notes_hand_over(&run.warnings);
    run.r->seconds = job_clock() - start;
    arena_free(&run.owner);
    notes_free(&run.warnings);
    circe_workspace_destroy(run.workspace);
    status = small_end(mark, status);
    if (status == CIRCE_OK)
        *result = run.r;
    else
        circe_audit_result_free(run.r);
    return status;
}

void circe_audit_result_free(circe_audit_result *r) {
    if (r == NULL) return;
    circe_notes_clear(&r->warnings);
    columns_clear(&r->columns);
    arena_free(audit_owner(r));
    free(r);
}
