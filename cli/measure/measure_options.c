/* What the options of `circe measure` ask for, what of them contradicts, and what had nothing to act on. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/measure/measure_job.h"
#include "io/suggest.h"

enum { MAX_NAMES = 32 };

static int refuse_name(const char *name) {
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (; n < n_measures && n + 1 < MAX_NAMES; n++) names[n] = measures[n].name;
    names[n++] = measure_all_name;
    return message_refused(suggest_refuse("measure", name, "circe measure NAME --x X --y Y --z Z", names, n));
}

static bool is_word(const args *arguments, spec_option_id id, const char *word) {
    return args_choice(arguments, id) == spec_word_index(spec_options[id].words, word);
}

static unsigned uses_of_all(void) {
    unsigned uses = 0;
    for (size_t i = 0; i < n_measures; i++) uses |= measures[i].uses;
    return uses;
}

/* The measure, and what it uses as --regression and --regress-z have it. */
static int choose_measure(measure_job *j) {
    const char *name = j->arguments->argument;
    bool all = name != NULL && strcmp(name, measure_all_name) == 0;
    j->what = name != NULL ? measure_find(name) : NULL;
    if (!all && j->what == NULL) return refuse_name(name);
    j->uses = all ? uses_of_all() : j->what->uses;
    if (!all && (j->uses & USES_GCM) && is_word(j->arguments, OPT_REGRESSION, "linear"))
        j->uses &= ~(unsigned)(USES_REGRESSION | USES_RIDGE);
    j->hold_out = (j->uses & MAY_USE_MEAN) && is_word(j->arguments, OPT_REGRESS_Z, "holdout");
    if (j->hold_out) j->uses |= USES_MEAN | USES_FIT | USES_REGRESSION | USES_RIDGE;
    return EXIT_DONE;
}

/* "biased, debiased, centered or ustat" */
static void list_forms(const measure *what, char *out, size_t size) {
    int n = measure_n_forms(what);
    size_t at = 0;
    for (int form = 1; form <= n && at < size; form++)
        at += (size_t)snprintf(out + at, size - at, "%s%s",
                               form == 1   ? ""
                               : form == n ? " or "
                                           : ", ",
                               measure_form_name(what, form));
}

static int choose_form(measure_job *j) {
    const measure *what = j->what != NULL ? j->what : measure_find("circe");
    const char *asked = args_given(j->arguments, OPT_ESTIMATOR) ? args_text(j->arguments, OPT_ESTIMATOR) : NULL;
    j->form = what->usual_form;
    if (asked == NULL || measure_n_forms(what) == 0) return EXIT_DONE;
    j->form = measure_find_form(what, asked);
    if (j->form > 0) return EXIT_DONE;
    char forms[128];
    list_forms(what, forms, sizeof forms);
    if (j->what == NULL)
        return message_fail(EXIT_INPUT, "--estimator of `measure all` is that of circe: %s, not %s; hsic comes in both",
                            forms, asked);
    return message_fail(EXIT_INPUT, "--estimator of %s is %s, not %s", what->name, forms, asked);
}

/* --model, --holdout-* or neither; refuses contradictions. */
static int choose_source(measure_job *j) {
    const args *a = j->arguments;
    bool y = args_given(a, OPT_HOLDOUT_Y), z = args_given(a, OPT_HOLDOUT_Z), data = args_given(a, OPT_HOLDOUT_DATA);
    if (!(j->uses & USES_MEAN)) return EXIT_DONE;
    if (args_given(a, OPT_MODEL)) {
        if (y || z || data)
            return message_fail(EXIT_INPUT, "--model and --holdout-%s exclude each other: a model is already fitted",
                                y   ? "y"
                                : z ? "z"
                                    : "data");
        spec_option_id extra = fitting_option_given(a);
        if (extra != OPT_COUNT)
            return message_fail(EXIT_INPUT,
                                "--%s cannot be used with --model: it was settled when the model was fitted",
                                spec_options[extra].name);
        j->source = MEAN_FROM_MODEL;
        return EXIT_DONE;
    }
    if (y != z)
        return message_fail(EXIT_INPUT, "--holdout-%s needs --holdout-%s beside it", y ? "y" : "z", y ? "z" : "y");
    if (data && y) return message_fail(EXIT_INPUT, "--holdout-data and --holdout-y exclude each other");
    if (data && !args_given(a, OPT_DATA))
        return message_fail(EXIT_INPUT, "--holdout-data needs --data, whose columns it shares");
    j->source = y || data ? MEAN_FROM_HOLDOUT : MEAN_FROM_SPLIT;
    return EXIT_DONE;
}

/* Options that are fine for another measure. */
static int check_options(const measure_job *j) {
    const args *a = j->arguments;
    const char *name = j->what != NULL ? j->what->name : "measure all";
    if ((j->uses & USES_Y) && !args_given(a, OPT_Y)) {
        message_note("--y %s is required: %s conditions on it", spec_options[OPT_Y].value, name);
        message_hint("usage: circe %s %s", a->command->name, a->command->synopsis);
        return EXIT_INPUT;
    }
    if (j->what == NULL && args_given(a, OPT_GRAD))
        return message_fail(EXIT_INPUT, "--grad is of one measure: circe measure NAME --grad %s",
                            args_text(a, OPT_GRAD));
    if ((j->uses & USES_BATCH) && (j->uses & USES_REGRESSION) && is_word(a, OPT_METHOD, "rff"))
        return message_fail(EXIT_INPUT,
                            "%s regresses the measured rows on themselves: --method is auto, lowrank or dense there; "
                            "rff is for circe and circe-spectral",
                            name);
    if (j->what != NULL && (j->uses & USES_EPSILON) && args_given(a, OPT_SIGMA2_Y) &&
        a->values[OPT_SIGMA2_Y].n_numbers > 1)
        return message_fail(EXIT_INPUT,
                            "--sigma2-y of %s is one number or median, not the list %s: nothing chooses among them",
                            name, args_text(a, OPT_SIGMA2_Y));
    return EXIT_DONE;
}

int measure_job_choose(const args *arguments, measure_job *job) {
    *job = (measure_job){.arguments = arguments};
    int status = choose_measure(job);
    if (status == EXIT_DONE) status = choose_form(job);
    if (status == EXIT_DONE) status = check_options(job);
    if (status == EXIT_DONE) status = choose_source(job);
    return status;
}

/* ---- options that had nothing to act on -------------------------------------------------------------------------- */

/* Which use an option serves. */
static const struct {
    spec_option_id id;
    unsigned use;
} served[] = {
    {OPT_KERNEL_X, USES_KERNEL_X}, {OPT_SIGMA2_X, USES_KERNEL_X},    {OPT_KERNEL_Z, USES_KERNEL_Z},
    {OPT_SIGMA2_Z, USES_KERNEL_Z}, {OPT_KERNEL_Y, USES_REGRESSION},  {OPT_SIGMA2_Y, USES_REGRESSION},
    {OPT_METHOD, USES_REGRESSION}, {OPT_TOLERANCE, USES_REGRESSION}, {OPT_RIDGE, USES_RIDGE},
    {OPT_EPSILON, USES_EPSILON},   {OPT_FORCE_RIDGE, USES_FIT},      {OPT_MAX_RANK, USES_FIT},
    {OPT_RFF_FEATURES, USES_FIT},  {OPT_RFF_BATCH, USES_FIT},        {OPT_RFF_EVERY, USES_FIT},
    {OPT_MODEL, USES_MEAN},        {OPT_HOLDOUT_Y, USES_MEAN},       {OPT_HOLDOUT_Z, USES_MEAN},
    {OPT_HOLDOUT_DATA, USES_MEAN}, {OPT_REGRESSION, USES_GCM},       {OPT_COMBINE, USES_GCM},
};

/* "--kernel-y, --ridge and --method": those given that serve one of these uses; returns how many. */
static size_t list_given(const measure_job *j, unsigned uses, char *out, size_t size) {
    spec_option_id given[OPT_COUNT] = {0};
    size_t n = 0, at = 0;
    for (size_t i = 0; i < sizeof served / sizeof served[0]; i++) {
        if ((served[i].use & uses) && args_given(j->arguments, served[i].id)) given[n++] = served[i].id;
    }
    for (size_t i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s--%s",
                               i == 0       ? ""
                               : i + 1 == n ? " and "
                                            : ", ",
                               spec_options[given[i]].name);
    return n;
}

/* One note on all options that serve a use of `group` which the job does not have. `reason` may name the measure. */
PRINTF_LIKE(4, 5)
static void note_group(measure_job *j, unsigned group, const char *what_happened, const char *reason, ...) {
    char list[512], why[256];
    size_t n = list_given(j, group & ~j->uses, list, sizeof list);
    if (n == 0) return;
    va_list arguments;
    va_start(arguments, reason);
    vsnprintf(why, sizeof why, reason, arguments);
    va_end(arguments);
    notes_add(&j->warnings, "%s %s %s: %s", list, n == 1 ? "was" : "were", what_happened, why);
}

static void note_regression(measure_job *j) {
    const char *name = j->what->name;
    const unsigned every = USES_REGRESSION | USES_RIDGE | USES_EPSILON | USES_FIT;
    if (!(j->uses & USES_Y)) {
        note_group(j, every, "ignored", "%s does not look at y", name);
    } else if (!(j->uses & USES_REGRESSION)) {
        note_group(j, every, "ignored", "least squares has no kernel and no ridge");
    } else {
        note_group(j, USES_RIDGE, "ignored", "the ridge of %s is --epsilon times the rows", name);
        note_group(j, USES_EPSILON, "ignored", "%s is regularised by --ridge", name);
        note_group(j, USES_FIT, "ignored", "%s had nothing to choose by leave-one-out here", name);
    }
}

static void note_mean(measure_job *j) {
    const char *name = j->what->name;
    if (j->uses & MAY_USE_MEAN)
        note_group(j, USES_MEAN, "not used",
                   "%s regresses the measured rows on themselves; with --regress-z holdout it takes the mean of z from "
                   "there",
                   name);
    else
        note_group(j, USES_MEAN, "not used", "%s has no use for a conditional mean from other rows", name);
    if (!args_given(j->arguments, OPT_REGRESS_Z) || (j->uses & MAY_USE_MEAN)) return;
    bool holdout = is_word(j->arguments, OPT_REGRESS_Z, "holdout");
    if (!(j->uses & USES_Y))
        notes_add(&j->warnings, "--regress-z was ignored: %s does not look at y", name);
    else if (holdout != ((j->uses & USES_MEAN) != 0))
        notes_add(&j->warnings, "--regress-z was ignored: %s %s", name,
                  holdout ? "only regresses the measured rows on themselves"
                          : "always takes the mean of z from rows that are not measured");
}

void measure_job_note_unused(measure_job *job) {
    if (job->what == NULL) return; /* somebody uses it */
    const char *name = job->what->name;
    if (measure_n_forms(job->what) == 0 && args_given(job->arguments, OPT_ESTIMATOR))
        notes_add(&job->warnings, "--estimator was ignored: %s has only one form", name);
    note_group(job, USES_KERNEL_X | USES_KERNEL_Z, "ignored", "%s has no kernels of x and z", name);
    note_regression(job);
    note_mean(job);
    note_group(job, USES_GCM, "ignored", "only gcm has such a choice");
}
