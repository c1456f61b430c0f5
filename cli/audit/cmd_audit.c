/* circe audit: from a table of predictions to a report. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/audit/audit.h"
#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "io/paths.h"
#include "jobs/sentinels.h"

enum { OUTCOME_GROUPS = 5 };

/* ---- the work ---------------------------------------------------------------------------------------------------- */

/* Two values are groups as they are. */
static void make_groups(audit *a) {
    const audit_data *d = &a->data;
    audit_groups_make(&d->target, d->n, OUTCOME_GROUPS, &a->outcome);
    a->finest = small_alloc((size_t)d->n_attributes * sizeof *a->finest);
    for (int64_t i = 0; i < d->n_attributes; i++)
        audit_groups_make(&d->attributes[i], d->n, AUDIT_FINEST, &a->finest[i]);
}

static int find_one(audit *a, int64_t prediction, int64_t attribute) {
    audit_finding *f = audit_at(a, prediction, attribute);
    int64_t done = prediction * a->data.n_attributes + attribute, all = a->data.n_predictions * a->data.n_attributes;
    f->prediction = &a->data.predictions[prediction];
    f->attribute = &a->data.attributes[attribute];
    char *text = small_format("%s, %s", f->prediction->name, f->attribute->name);
    progress_show((double)done / (double)all, text);
    free(text);
    int status = audit_judge(a, f);
    if (status == EXIT_DONE) status = audit_measure(a, f);
    if (status == EXIT_DONE) audit_compare_groups(a, f);
    if (status == EXIT_DONE && progress_interrupted())
        status = message_fail(EXIT_WORK, "interrupted; nothing was written");
    return status;
}

static int work(audit *a) {
    const audit_data *d = &a->data;
    a->findings = small_alloc((size_t)(d->n_predictions * d->n_attributes) * sizeof *a->findings);
    make_groups(a);
    int status = audit_find_residuals(a);
    for (int64_t p = 0; p < d->n_predictions && status == EXIT_DONE; p++) {
        for (int64_t i = 0; i < d->n_attributes && status == EXIT_DONE; i++) status = find_one(a, p, i);
    }
    if (status == EXIT_DONE) audit_conclude(a);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static void note_rows(audit *a) {
    if (a->data.dropped > 0)
        notes_add(&a->warnings,
                  "left out %" PRId64
                  " rows with missing cells: if they are missing for a reason that has "
                  "to do with the attribute, so is what is found here",
                  a->data.dropped);
    const input *const group[] = {&a->data.table.in};
    sentinels_note(group, 1, &a->warnings);
    if (a->data.n < 200)
        notes_add(&a->warnings, "%" PRId64 " rows are few: only strong dependence can be found", a->data.n);
}

static int run(audit *a) {
    double start = session_clock();
    int status = session_open(a->arguments, &a->s);
    if (status == EXIT_DONE) status = audit_data_read(a->arguments, &a->data);
    if (status == EXIT_DONE) status = message_refused(path_make_folder(a->folder));
    if (status == EXIT_DONE) {
        char *path = small_format("%s/report.html", a->folder);
        status = message_refused(path_check_writable("-o", path));
        free(path);
    }
    if (status != EXIT_DONE) return status;
    note_rows(a);
    status = work(a);
    progress_clear();
    a->seconds = session_clock() - start;
    if (status == EXIT_DONE) status = audit_report_write(a);
    if (status != EXIT_DONE) return status;
    if (!args_given(a->arguments, OPT_QUIET)) notes_print(&a->warnings);
    if (args_given(a->arguments, OPT_JSON)) return json_print(audit_json(a));
    audit_text(a);
    return EXIT_DONE;
}

static void profile_free(audit_profile *p) {
    free(p->value);
    free(p->half);
}

static void finding_free(audit_finding *f) {
    free(f->verdict);
    for (int i = 0; i < AUDIT_DECIDING; i++) calibration_free(&f->calibration[i]);
    test_along_free(&f->along);
    profile_free(&f->error);
    profile_free(&f->squared);
    profile_free(&f->residual);
    for (int s = 0; s < AUDIT_MOST_STRATA; s++) profile_free(&f->strata[s]);
}

static void audit_free(audit *a) {
    const audit_data *d = &a->data;
    for (int64_t i = 0; a->findings != NULL && i < d->n_predictions * d->n_attributes; i++)
        finding_free(&a->findings[i]);
    for (int64_t p = 0; a->residuals != NULL && p < d->n_predictions; p++) free(a->residuals[p]);
    for (int64_t i = 0; a->finest != NULL && i < d->n_attributes; i++) audit_groups_free(&a->finest[i]);
    audit_groups_free(&a->outcome);
    free(a->findings);
    free(a->residuals);
    free(a->finest);
    notes_free(&a->warnings);
    audit_data_free(&a->data);
    session_close(&a->s);
}

int cmd_audit(const args *arguments) {
    audit a = {.arguments = arguments,
               .folder = args_text(arguments, OPT_OUTPUT_AUDIT),
               .alpha = args_number(arguments, OPT_ALPHA)};
    int status = run(&a);
    audit_free(&a);
    return status;
}
