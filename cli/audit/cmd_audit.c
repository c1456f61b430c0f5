/* circe audit: what the job finds, as text or JSON, and its report. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "cli/common/text.h"
#include "io/paths.h"
#include "io/small.h"
#include "jobs/audit_parts.h"
#include "jobs/test_json.h"

/* ---- text -------------------------------------------------------------------------------------------------------- */

static int widest(const circe_audit_column *columns, int64_t n, int least) {
    int width = least;
    for (int64_t i = 0; i < n; i++) {
        int length = (int)strlen(columns[i].name);
        width = length > width ? length : width;
    }
    return width;
}

static void print_finding(const circe_audit_result *r, const circe_audit_finding *f, int prediction, int attribute) {
    char p[32], adjusted[32], kpc[64] = "-";
    const circe_effect *e = &f->effects.kpc;
    if (f->has_effects) snprintf(kpc, sizeof kpc, "%.3f [%.3f, %.3f]", e->value, e->lower, e->upper);
    printf("  %-*s  %-*s  %9s  %9s  %-9s  %-22s  %s\n", prediction, audit_prediction(r, f)->name, attribute,
           audit_attribute(r, f)->name, test_p_text(f->p_value, p, sizeof p),
           test_p_text(f->p_adjusted, adjusted, sizeof adjusted), circe_trust_name(f->trust), kpc,
           circe_audit_decision_name(f->decision));
}

static void print_question(const circe_audit_result *r, const circe_audit_finding *f) {
    char *given = audit_given_text(r, f);
    bool outcome = f->notion == CIRCE_NOTION_SUFFICIENCY;
    if (r->n_notions > 1) printf("%s: ", circe_audit_notion_name(f->notion));
    if (given[0] == '\0')
        printf("Does the prediction depend on the attribute?");
    else
        printf("Given %s, does the %s still depend on the attribute?",
               outcome && r->n_predictions > 1 ? "the prediction" : given, outcome ? "outcome" : "prediction");
    printf(" %" PRId64 " rows, test %s.\n\n", r->n, r->test);
    free(given);
}

static void print_findings(const circe_audit_result *r, int64_t notion) {
    int prediction = widest(r->predictions, r->n_predictions, 10),
        attribute = widest(r->attributes, r->n_attributes, 9);
    print_question(r, audit_at(r, notion, 0, 0));
    printf("  %-*s  %-*s  %9s  %9s  %-9s  %-22s  %s\n", prediction, "prediction", attribute, "attribute", "p-value",
           "adjusted", "trust", "KPC, 95 % interval", "verdict");
    for (int64_t a = 0; a < r->n_attributes; a++) {
        for (int64_t p = 0; p < r->n_predictions; p++)
            print_finding(r, audit_at(r, notion, p, a), prediction, attribute);
    }
}

/* "  score      AUC 0.71 [0.70, 0.72], accuracy 0.65 [0.64, 0.66]" */
static void print_quality(const circe_audit_result *r) {
    static const circe_audit_metric shown[] = {CIRCE_METRIC_AUC, CIRCE_METRIC_ACCURACY, CIRCE_METRIC_R2,
                                               CIRCE_METRIC_MEAN_ERROR, CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR};
    int width = widest(r->predictions, r->n_predictions, 10);
    printf("How good the predictions are, with 95 %% intervals:\n\n");
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const char *between = "";
        printf("  %-*s  ", width, r->predictions[p].name);
        for (size_t m = 0; m < sizeof shown / sizeof shown[0]; m++) {
            const circe_audit_estimate *e = &r->quality[p].of[shown[m]];
            if (!isfinite(e->value)) continue;
            printf("%s%s %.3g [%.3g, %.3g]", between, circe_audit_metric_name(shown[m]), e->value, e->lower, e->upper);
            between = ", ";
        }
        putchar('\n');
    }
    putchar('\n');
}

static void print_verdicts(const circe_audit_result *r, int64_t notion) {
    for (int64_t a = 0; a < r->n_attributes; a++) {
        for (int64_t p = 0; p < r->n_predictions; p++) {
            text_wrap(stdout, audit_at(r, notion, p, a)->verdict, 0, 0, text_width());
            putchar('\n');
        }
    }
}

static void print_text(const circe_audit_result *r, const char *folder, bool quiet) {
    if (!quiet) print_quality(r);
    for (int64_t k = 0; k < r->n_notions; k++) {
        if (k > 0) putchar('\n');
        print_findings(r, k);
    }
    if (quiet) return;
    putchar('\n');
    text_columns(&r->columns);
    for (int64_t k = 0; k < r->n_notions; k++) print_verdicts(r, k);
    printf("The report: %s/report.html\n", folder);
}

enum { EXIT_LIMIT = 3 }; /* a limit of --fail-if was not kept */

/* ---- the command ------------------------------------------------------------------------------------------------- */

typedef struct state {
    const char *folder;
    bool asked; /* whether the folder can be written to */
    int refused;
} state;

static int make_folder(const char *folder) {
    char *path = small_format("%s/report.html", folder);
    int status = message_refused(path_make_folder(folder));
    if (status == EXIT_DONE) status = message_refused(path_check_writable("-o", path));
    free(path);
    return status;
}

/* The folder is made once the table is read, so that a slip in a name leaves nothing behind, and before the work. */
static int show_progress(void *user, double done, const char *text) {
    state *s = user;
    if (!s->asked) s->refused = make_folder(s->folder);
    s->asked = true;
    if (s->refused != EXIT_DONE) return 1;
    progress_show(done, text);
    return progress_interrupted();
}

/* The limits that were not kept, one line each. */
static int print_checks(const circe_audit_result *r) {
    for (int64_t i = 0; i < r->n_checks; i++)
        if (r->checks[i].failed) message_note("--fail-if %s: %s", r->checks[i].condition, r->checks[i].text);
    return circe_audit_failed(r) > 0 ? EXIT_LIMIT : EXIT_DONE;
}

static int print_result(const args *arguments, const circe_audit_result *r, const char *folder) {
    bool quiet = arguments->own.quiet;
    int status = EXIT_DONE;
    for (size_t i = 0; !quiet && i < r->warnings.n; i++) message_note("warning: %s", r->warnings.text[i]);
    if (arguments->own.json)
        status = json_print(audit_json(r, folder));
    else
        print_text(r, folder, quiet);
    return status == EXIT_DONE ? print_checks(r) : status;
}

static int run(const args *arguments, circe_context *context, const circe_audit_options *options) {
    state s = {.folder = arguments->own.output};
    circe_watch watch = {.user = &s, .progress = show_progress};
    circe_audit_result *result = NULL;
    progress_overall();
    circe_status status = circe_audit(context, NULL, options, &watch, &result);
    progress_clear();
    if (s.refused != EXIT_DONE) return s.refused;
    if (progress_interrupted()) status = circe_fail(CIRCE_ERR_CANCELLED, "interrupted; nothing was written");
    if (status == CIRCE_OK) status = circe_audit_report(result, s.folder);
    int done = status == CIRCE_OK ? print_result(arguments, result, s.folder) : message_refused(status);
    circe_audit_result_free(result);
    return done;
}

int cmd_audit(const args *arguments) {
    circe_audit_options options = *(const circe_audit_options *)arguments->options;
    session s = {0};
    if (arguments->argument != NULL) options.data = arguments->argument;
    if (options.data == NULL) {
        message_note("which table? a .csv with predictions, outcomes and attributes; - is standard input");
        message_hint("usage: circe audit %s", arguments->command->synopsis);
        return EXIT_INPUT;
    }
    int status = session_open(&arguments->own, &s);
    if (status == EXIT_DONE) status = run(arguments, s.context, &options);
    session_close(&s);
    return status;
}
