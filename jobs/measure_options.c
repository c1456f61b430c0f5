/* Interprets the options of a measure: what they ask for, which of them contradict each other, and which have no
 * effect. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/suggest.h"
#include "jobs/measuring_job.h"

enum { MAX_NAMES = 32 };

static circe_status refuse_name(const char *name) {
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (; n < n_measures && n + 1 < MAX_NAMES; n++) names[n] = measure_name(&measures[n]);
    names[n++] = measure_all_name;
    return suggest_refuse("measure", name, "circe measure NAME --x X --y Y --z Z", names, n);
}

bool measure_job_given(const measure_job *job, const char *name) {
    return circe_options_given(&circe_measure_job_schema, job->options, name);
}

static unsigned uses_of_all(void) {
    unsigned uses = 0;
    for (size_t i = 0; i < n_measures; i++) uses |= measure_uses(&measures[i]);
    return uses;
}

static bool takes_holdout(const measure_job *j) {
    return j->options->regress_z != NULL && strcmp(j->options->regress_z, "holdout") == 0;
}

/* The measure, and what it uses as --regression and --regress-z have it. */
static circe_status choose_measure(measure_job *j, const char *name) {
    bool all = name != NULL && strcmp(name, measure_all_name) == 0;
    j->what = name != NULL ? measure_find(name) : NULL;
    if (!all && j->what == NULL) return refuse_name(name);
    j->uses = all ? uses_of_all() : measure_uses(j->what);
    if (!all && (j->uses & CIRCE_USES_GCM) && strcmp(j->options->regression, "linear") == 0)
        j->uses &= ~(unsigned)(CIRCE_USES_REGRESSION | CIRCE_USES_RIDGE);
    j->hold_out = (j->uses & CIRCE_MAY_USE_MEAN) && takes_holdout(j);
    if (j->hold_out) j->uses |= CIRCE_USES_MEAN | USES_FIT | CIRCE_USES_REGRESSION | CIRCE_USES_RIDGE;
    return CIRCE_OK;
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
                               measure_row(what)->forms[form - 1].name);
}

static circe_status choose_form(measure_job *j) {
    const measure *what = j->what != NULL ? j->what : measure_find("circe");
    const char *asked = j->options->estimator;
    if (asked != NULL && strcmp(asked, "unbiased") == 0) asked = "ustat"; /* an older word for it */
    int usual = measure_row(what)->usual_form;
    j->form = usual > 0 ? &measure_row(what)->forms[usual - 1] : NULL;
    if (asked == NULL || measure_n_forms(what) == 0) return CIRCE_OK;
    j->form = measure_find_form(what, asked);
    if (j->form != NULL) return CIRCE_OK;
    char forms[128];
    list_forms(what, forms, sizeof forms);
    if (j->what == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--estimator of `measure all` applies to circe: %s, not %s; hsic is shown in both forms",
                          forms, asked);
    return circe_fail(CIRCE_ERR_ARGUMENT, "--estimator for %s must be %s, not %s", measure_name(what), forms, asked);
}

/* --model, --holdout-* or neither; refuses contradictions. */
static circe_status choose_source(measure_job *j) {
    const circe_measure_job_options *o = j->options;
    bool y = o->holdout_y != NULL, z = o->holdout_z != NULL, data = o->holdout_data != NULL;
    if (!(j->uses & CIRCE_USES_MEAN)) return CIRCE_OK;
    if (o->model != NULL) {
        if (y || z || data)
            return circe_fail(CIRCE_ERR_ARGUMENT,
                              "--model and --holdout-%s exclude each other: a model is already fitted",
                              y   ? "y"
                              : z ? "z"
                                  : "data");
        const char *extra = fitting_option_given(&circe_measure_job_schema, o);
        if (extra != NULL)
            return circe_fail(CIRCE_ERR_ARGUMENT,
                              "--%s cannot be used with --model: it was chosen when the model was fitted", extra);
        j->source = CIRCE_MEAN_FROM_MODEL;
        return CIRCE_OK;
    }
    if (y != z)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--holdout-%s needs --holdout-%s too", y ? "y" : "z", y ? "z" : "y");
    if (data && y) return circe_fail(CIRCE_ERR_ARGUMENT, "--holdout-data and --holdout-y exclude each other");
    if (data && o->data == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--holdout-data needs --data, whose columns it shares");
    j->source = y || data ? CIRCE_MEAN_FROM_HOLDOUT : CIRCE_MEAN_FROM_SPLIT;
    return CIRCE_OK;
}

/* Options that are fine for another measure. */
static circe_status check_options(const measure_job *j) {
    const circe_measure_job_options *o = j->options;
    const char *name = j->what != NULL ? measure_name(j->what) : "measure all";
    if ((j->uses & CIRCE_USES_Y) && o->y == NULL) {
        circe_fail(CIRCE_ERR_ARGUMENT, "--y FILE is required: %s conditions on it", name);
        return circe_fail_hint(CIRCE_ERR_ARGUMENT,
                               "usage: circe measure NAME --x FILE --y FILE --z FILE [--model MODEL] [options]");
    }
    if (j->what == NULL && o->grad != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--grad works with one measure only: circe measure NAME --grad %s",
                          o->grad);
    if ((j->uses & CIRCE_USES_BATCH) && (j->uses & CIRCE_USES_REGRESSION) && strcmp(o->method, "rff") == 0)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "%s regresses the measured rows on themselves: --method must be auto, lowrank or dense; rff "
                          "is for circe and circe-spectral",
                          name);
    if (j->what != NULL && (j->uses & CIRCE_USES_EPSILON) && j->fitting.y.given && j->fitting.y.n_sigma2 > 1)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--sigma2-y for %s must be one number or median, not the list %s: nothing chooses among them",
                          name, o->sigma2_y);
    return CIRCE_OK;
}

/* Fields of options as what they stand for. */
static circe_status take_options(measure_job *j) {
    const circe_measure_job_options *o = j->options;
    j->dtype = strcmp(o->dtype, "float32") == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
    j->choice_x = (kernel_choice){o->kernel_x, &o->sigma2_x, o->sigma2_x > 0, measure_job_given(j, "sigma2-x"), false};
    circe_status status = circe_transform_parse(o->transform, &j->transform);
    if (status == CIRCE_OK) status = rows_wanted(o->rows, &j->wanted);
    return status == CIRCE_OK ? fitting_open(&circe_measure_job_schema, o, &j->fitting) : status;
}

circe_status measure_job_choose(measure_job *job, const char *name) {
    circe_status status = circe_options_check(&circe_measure_job_schema, job->options);
    if (status == CIRCE_OK) status = take_options(job);
    if (status == CIRCE_OK) status = choose_measure(job, name);
    if (status == CIRCE_OK) status = choose_form(job);
    if (status == CIRCE_OK) status = check_options(job);
    return status == CIRCE_OK ? choose_source(job) : status;
}

/* ---- options that had nothing to act on -------------------------------------------------------------------------- */

/* Which use an option serves. */
static const struct {
    const char *name;
    unsigned use;
} served[] = {
    {"kernel-x", CIRCE_USES_KERNEL_X},
    {"sigma2-x", CIRCE_USES_KERNEL_X},
    {"kernel-z", CIRCE_USES_KERNEL_Z},
    {"sigma2-z", CIRCE_USES_KERNEL_Z},
    {"kernel-y", CIRCE_USES_REGRESSION},
    {"sigma2-y", CIRCE_USES_REGRESSION},
    {"method", CIRCE_USES_REGRESSION},
    {"tolerance", CIRCE_USES_REGRESSION},
    {"ridge", CIRCE_USES_RIDGE},
    {"epsilon", CIRCE_USES_EPSILON},
    {"force-ridge", USES_FIT},
    {"max-rank", USES_FIT},
    {"rff-features", USES_FIT},
    {"rff-batch", USES_FIT},
    {"rff-every", USES_FIT},
    {"model", CIRCE_USES_MEAN},
    {"holdout-y", CIRCE_USES_MEAN},
    {"holdout-z", CIRCE_USES_MEAN},
    {"holdout-data", CIRCE_USES_MEAN},
    {"regression", CIRCE_USES_GCM},
    {"combine", CIRCE_USES_GCM},
};

/* "--kernel-y, --ridge and --method": those given that serve one of these uses; returns how many. */
static size_t list_given(const measure_job *j, unsigned uses, char *out, size_t size) {
    const char *given[sizeof served / sizeof served[0]] = {0};
    size_t n = 0, at = 0;
    for (size_t i = 0; i < sizeof served / sizeof served[0]; i++) {
        if ((served[i].use & uses) && measure_job_given(j, served[i].name)) given[n++] = served[i].name;
    }
    for (size_t i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s--%s", i == 0 ? "" : i + 1 == n ? " and " : ", ", given[i]);
    return n;
}

/* One note on all options that serve a use of `group` which the job does not have. `reason` may name the measure. */
CIRCE_PRINTF(4, 5)
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
    const char *name = measure_name(j->what);
    const unsigned every = CIRCE_USES_REGRESSION | CIRCE_USES_RIDGE | CIRCE_USES_EPSILON | USES_FIT;
    if (!(j->uses & CIRCE_USES_Y)) {
        note_group(j, every, "ignored", "%s does not use y", name);
    } else if (!(j->uses & CIRCE_USES_REGRESSION)) {
        note_group(j, every, "ignored", "least squares has no kernel and no ridge");
    } else {
        note_group(j, CIRCE_USES_RIDGE, "ignored", "the ridge of %s is --epsilon times the rows", name);
        note_group(j, CIRCE_USES_EPSILON, "ignored", "%s is regularised by --ridge", name);
        note_group(j, USES_FIT, "ignored", "%s had nothing to choose by leave-one-out here", name);
    }
}

static void note_mean(measure_job *j) {
    const char *name = measure_name(j->what);
    if (j->uses & CIRCE_MAY_USE_MEAN)
        note_group(j, CIRCE_USES_MEAN, "not used",
                   "%s regresses the measured rows on themselves; with --regress-z holdout it takes the mean of z from "
                   "there",
                   name);
    else
        note_group(j, CIRCE_USES_MEAN, "not used", "%s does not use a conditional mean from other rows", name);
    if (!measure_job_given(j, "regress-z") || (j->uses & CIRCE_MAY_USE_MEAN)) return;
    bool holdout = takes_holdout(j);
    if (!(j->uses & CIRCE_USES_Y))
        notes_add(&j->warnings, "--regress-z was ignored: %s does not use y", name);
    else if (holdout != ((j->uses & CIRCE_USES_MEAN) != 0))
        notes_add(&j->warnings, "--regress-z was ignored: %s %s", name,
                  holdout ? "only regresses the measured rows on themselves"
                          : "always takes the mean of z from rows that are not measured");
}

void measure_job_note_unused(measure_job *job) {
    if (job->uses & CIRCE_USES_REGRESSION) fitting_note_unused(&circe_measure_job_schema, job->options, &job->warnings);
    if (job->what == NULL) return; /* somebody uses it */
    const char *name = measure_name(job->what);
    if (measure_n_forms(job->what) == 0 && job->options->estimator != NULL)
        notes_add(&job->warnings, "--estimator was ignored: %s has only one form", name);
    note_group(job, CIRCE_USES_KERNEL_X | CIRCE_USES_KERNEL_Z, "ignored", "%s has no kernels of x and z", name);
    note_regression(job);
    note_mean(job);
    note_group(job, CIRCE_USES_GCM, "ignored", "only gcm has such a choice");
}
