/* circe train: from a table, or from images, to an invariant predictor; by one process or several. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/owned.h"
#include "circe/audit.h"
#include "cli/commands.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "cli/common/text.h"
#include "cli/common/together.h"
#include "cli/results.h"
#include "io/paths.h"

/* ---- on the way -------------------------------------------------------------------------------------------------- */

typedef struct telling {
    bool quiet;
    int tenths; /* of the run that a line was printed for */
} telling;

/* Shows a bar on a terminal; otherwise prints a line for every tenth of the epochs. */
static int tell(void *user, double done, const char *text) {
    telling *t = user;
    int tenths = (int)(10 * done + 1e-9);
    if (ranks_first()) progress_show(done, text);
    if (ranks_first() && !t->quiet && !progress_is_shown() && tenths > t->tenths && strstr(text, "epoch ") != NULL) {
        fprintf(stderr, "%s\n", text);
        t->tenths = tenths;
    }
    return progress_interrupted();
}

static void warn(void *user, const char *text) {
    (void)user;
    message_note("warning: %s", text);
}

/* ---- the closing table ------------------------------------------------------------------------------------------- */

static void print_gamma(const circe_training *t) {
    if (!t->gamma_chosen)
        text_row("gamma", "%g", t->gamma);
    else if (!t->gamma_reached)
        text_row("gamma", "%g, with which left-out rows may still show dependence", t->gamma);
    else if (isfinite(t->tolerance))
        text_row("gamma", "%g, with which KPC is at most %g above chance on left-out rows", t->gamma, t->tolerance);
    else
        text_row("gamma", "%g, with which no dependence is found on left-out rows", t->gamma);
}

static void print_run(const circe_training *t) {
    char time[32];
    text_row("network", "%s", t->network);
    if (t->images != NULL) text_row("images", "%s", t->images);
    text_row("rows", "%" PRId64 " training, %" PRId64 " validation, %" PRId64 " test", t->training_rows,
             t->validation_rows, t->test_rows);
    if (t->invariant_to != NULL) text_row("conditional mean", "learned from %" PRId64 " rows", t->holdout_rows);
    text_columns(&t->columns);
    printf("  %-18s  ", "regulariser");
    text_wrap(stdout, t->regularizer, 22, 22, text_width());
    if (t->regularised) print_gamma(t);
    text_row("epochs", "%" PRId64 "%s%s, %" PRId64 " steps in %s", t->epochs,
             t->stopped_early ? " (stopped early)" : "", t->resumed ? " (resumed)" : "", t->steps,
             text_seconds(t->seconds, time, sizeof time));
}

static void print_errors(const circe_training *t) {
    printf("\nOn the %" PRId64 " %s rows\n\n", t->score.rows, t->test_rows > 0 ? "test" : "validation");
    if (t->classes != NULL) {
        text_row("accuracy", "%.4g (always the most frequent class: %.4g)", t->accuracy, t->majority);
        if (isfinite(t->score.auc)) text_row("AUC", "%.4g", t->score.auc);
        text_row("cross-entropy", "%.4g", t->loss);
        return;
    }
    for (int64_t c = 0; c < t->outputs; c++) {
        OWNED char *name = small_format("error of %s", t->errors[c].name);
        text_row(name, "MSE %.4g, or %.4g of the variance; R2 %.4g", t->errors[c].mse, t->errors[c].standardised,
                 t->errors[c].r2);
    }
    if (isfinite(t->floor))
        text_row("floor", "about %.4g of the variance: the error of predicting from %s alone", t->floor, t->given);
}

static void print_score(const char *name, const circe_training_score *s) {
    printf("  %-24s  %8.4g (%.3g to %.3g)  p %.2g (kci), %.2g (gcm)  KPC %.3g (%.2g to %.2g; by chance %.2g)\n", name,
           s->error.value, s->error.lower, s->error.upper, s->p_kci, s->p_gcm, s->kpc.value, s->kpc.lower, s->kpc.upper,
           s->kpc_chance);
}

/* What invariance bought and cost. other: the name of the network that it is compared with. */
static void print_comparison(const circe_training *t, const char *other) {
    bool compared = t->baseline != NULL;
    printf(
        "\n"
        "%s, and dependence on %s given %s (p-values and KPC), with 95 %% intervals\n\n",
        t->classes != NULL ? "Cross-entropy" : "Error over the variance", t->invariant_to, t->given);
    print_score(t->regularised ? "with the regulariser" : "the network", &t->score);
    if (compared) print_score(other, &t->baseline_score);
    if (compared)
        text_row("cost", "%+.3g in error (%.3g to %.3g)", t->difference.value, t->difference.lower,
                 t->difference.upper);
}

/* With --tolerance, KPC as it is compared: less what chance gives. */
static void print_trials(const circe_training *t) {
    bool tolerant = isfinite(t->tolerance);
    printf(
        "\n"
        "Search over gamma, on %" PRId64 " rows left out of training\n\n  %10s  %8s  %9s  %9s  %8s\n",
        t->trial_rows, "gamma", "error", "p (kci)", "p (gcm)", tolerant ? "KPC above chance" : "KPC");
    for (int64_t i = 0; i < t->n_trials; i++) {
        const circe_training_score *s = &t->trials[i].score;
        printf("  %10g  %8.4g  %9.2g  %9.2g  %8.3g%s\n", t->trials[i].gamma, s->error.value, s->p_kci, s->p_gcm,
               s->kpc.value - (tolerant ? s->kpc_chance : 0.0), t->trials[i].chosen ? "  <- chosen" : "");
    }
}

static void print_state(const double *value, const char *name) {
    bool any = false;
    for (int m = 0; m < CIRCE_TRAINING_MEASURES; m++) any = any || isfinite(value[m]);
    if (!any) return;
    printf("  %-18s", name);
    for (int m = 0; m < CIRCE_TRAINING_MEASURES; m++) {
        if (isfinite(value[m]))
            printf("  %10.3g", value[m]);
        else
            printf("  %10s", "-");
    }
    putchar('\n');
}

static void print_measures(const circe_training *t, const char *other) {
    OWNED char *itself = small_format("%s itself", t->target);
    printf("\nDependence on %s given %s", t->invariant_to, t->given);
    if (t->measured_rows < t->score.rows) printf(", on %" PRId64 " of these rows", t->measured_rows);
    printf("\n\n  %-18s  %10s  %10s  %10s  %10s\n", "", "CIRCE", "HSCIC", "GCM", "HSIC");
    print_state(t->dependence[CIRCE_TRAINING_TARGET], itself);
    print_state(t->dependence[CIRCE_TRAINING_BASELINE], other);
    print_state(t->dependence[CIRCE_TRAINING_AFTER], t->regularised ? "with regulariser" : "the network");
    putchar('\n');
}

static void explain_measures(const circe_training *t) {
    double chance = t->score.kpc_chance;
    OWNED char *by_chance = isfinite(chance) ? small_format("; chance alone gives about %.2g", chance) : NULL;
    OWNED char *text = small_format(
        "0 means independent. CIRCE and HSIC are unbiased and scatter around 0. By chance, GCM rarely exceeds 3. HSIC "
        "ignores --given: it measures marginal dependence. KPC is the share of the prediction's residual, once --given "
        "is known, that the --invariant-to columns explain%s.%s%s",
        by_chance != NULL ? by_chance : "",
        t->given_is_target ? ""
                           : " The row of the target shows what a perfect predictor without a regulariser would show.",
        isfinite(t->floor)
            ? " The floor is an estimate by kernel regression. An invariant prediction can go below it only if other "
              "features tell something about the target independently of the --invariant-to columns."
            : "");
    text_wrap(stdout, text, 0, 0, text_width());
    putchar('\n');
}

static void print_training(const circe_training *t, const circe_train_options *options, const char *report,
                           bool quiet) {
    const char *other = options->baseline != NULL ? options->baseline : "without";
    printf("%s\n\n", t->path);
    print_run(t);
    if (t->n_trials > 0) print_trials(t);
    print_errors(t);
    if (t->invariant_to != NULL) print_comparison(t, other);
    if (t->invariant_to != NULL) print_measures(t, other);
    if (t->invariant_to != NULL && !quiet) explain_measures(t);
    if (report != NULL) printf("%sreport: %s/report.html\n", t->invariant_to != NULL ? "" : "\n", report);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* --report, or the model's path with "-report" instead of its ending; NULL: none is wanted. To be freed. */
static char *report_folder(const args *arguments) {
    const char *model = ((const circe_train_options *)arguments->options)->output, *asked = arguments->own.report;
    if (arguments->own.no_report) return NULL;
    if (asked != NULL) return small_format("%s", asked);
    const char *slash = strrchr(model, '/'), *dot = strrchr(model, '.');
    bool ending = dot != NULL && dot > model && (slash == NULL || dot > slash + 1);
    return small_format("%.*s-report", ending ? (int)(dot - model) : (int)strlen(model), model);
}

/* The folder of the report is created before the training, which may take long, and is removed if the training
 * fails. */
static int train(const session *s, const circe_train_options *options, const circe_watch *watch, const char *report,
                 circe_training **training) {
    bool makes = report != NULL && ranks_first(), made = makes && access(report, F_OK) != 0;
    circe_status place = makes ? path_check_writable("-o", options->output) : CIRCE_OK;
    if (place == CIRCE_OK && makes) place = path_make_folder(report);
    int status = together_agree(message_refused(place));
    if (status != EXIT_DONE) return status;
    status = message_failed(circe_train(s->context, NULL, options, watch, training));
    progress_clear();
    if (status == EXIT_DONE && makes) status = message_refused(circe_training_report(s->context, *training, report));
    if (status != EXIT_DONE && made) rmdir(report);
    return status;
}

/* Says why an audit's numbers are not those of the training, where their questions differ. */
static void print_audited(const circe_training *t, const circe_audit_result *r, bool marginal) {
    printf("\nAudit of the %" PRId64 " %s rows\n\n", t->score.rows, t->test_rows > 0 ? "test" : "validation");
    if (r->n_attributes == 1 && r->n_predictions == 1 && t->given_is_target && !marginal) return;
    OWNED char *text = small_format(
        "The audit asks about every column of --invariant-to%s by itself, given %s. The p-values and KPC of the "
        "training above are for all of them together, %s%s.",
        r->n_predictions > 1 ? " and every class" : "", t->target, marginal ? "with nothing given" : "given ",
        marginal ? "" : t->given);
    text_wrap(stdout, text, 0, 0, text_width());
    putchar('\n');
}

/* Into REPORT/audit, or MODEL-audit if there is no report. */
static int audit(const session *s, const args *arguments, const circe_training *training, const char *report) {
    circe_audit_options options;
    circe_audit_result *result = NULL;
    const circe_watch watch = session_watch(&arguments->own);
    OWNED char *folder = report != NULL ? small_format("%s/audit", report) : small_format("%s-audit", training->path);
    circe_audit_options_init(&options);
    options.seed = training->seed;
    circe_status status = circe_training_audit(s->context, training, &options, &watch, &result);
    progress_clear();
    if (status == CIRCE_OK) status = circe_audit_report(result, folder);
    if (status == CIRCE_OK && !arguments->own.json) {
        const circe_train_options *asked = arguments->options;
        print_audited(training, result, asked->regularizer != NULL && strcmp(asked->regularizer, "hsic") == 0);
        audit_text(result, folder, arguments->own.quiet);
    }
    circe_audit_result_free(result);
    return message_refused(status);
}

int cmd_train(const args *arguments) {
    session s = {0};
    circe_train_options options = *(const circe_train_options *)arguments->options;
    circe_training *training = NULL;
    telling t = {.quiet = arguments->own.quiet};
    OWNED char *report = report_folder(arguments);
    int status = session_open(&arguments->own, &s);
    if (status == EXIT_DONE && arguments->own.audit && options.invariant_to == NULL)
        status = message_refused(
            circe_fail(CIRCE_ERR_ARGUMENT, "--audit needs --invariant-to: what should the prediction not depend on?"));
    progress_catch_termination();
    progress_overall();
    const circe_watch watch = {.user = &t, .progress = tell, .warning = t.quiet ? NULL : warn};
    if (status == EXIT_DONE) status = train(&s, &options, &watch, report, &training);
    if (status == EXIT_DONE && ranks_first() && arguments->own.json)
        status = output_json(circe_training_json(training, report));
    else if (status == EXIT_DONE && ranks_first())
        print_training(training, &options, report, t.quiet);
    if (status == EXIT_DONE && ranks_first() && arguments->own.audit) status = audit(&s, arguments, training, report);
    circe_training_free(training);
    session_close(&s);
    return status;
}
