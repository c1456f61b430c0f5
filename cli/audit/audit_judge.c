/* Tests, effect sizes and calibration of one pair; then, over all pairs, Holm's correction and what to say.
 *
 * One test decides, or two together (the smaller p-value, times 2: Bonferroni), chosen before the data are seen; the
 * others stand beside them. What costs more than a few seconds on many rows is done on a random part of them, and the
 * report says on how many. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/audit/audit.h"
#include "cli/common/progress.h"
#include "jobs/tests.h"

enum {
    EFFECT_DRAWS = 200,
    ALONG_POINTS = 15,
    MOST_ALONG = 4000,
    MOST_CALIBRATED = 1000, /* half of it where there are more than two pairs */
    DECIDING_ROWS = 100000, /* over all pairs: half a minute or so */
    LEAST_DECIDING = 20000,
};

/* Beside the deciding one. */
static const struct {
    const char *name;
    int64_t most_rows;
} companions[] = {{"kci", 20000}, {"circe", 10000}, {"gcm", 20000}, {"splitkci", 5000}};

/* ---- rows for the library ---------------------------------------------------------------------------------------- */

typedef struct rows {
    int64_t *index;
    double *x, *y, *z;
    circe_mat mat_x, mat_y, mat_z;
} rows;

static rows take_rows(const audit *a, const audit_finding *f, int64_t most, uint64_t stream) {
    rows r = {0};
    int64_t n = 0;
    r.index = audit_sample(a, most, stream, &n);
    r.x = audit_take(f->prediction, r.index, n);
    r.y = audit_take(&a->data.target, r.index, n);
    r.z = audit_take(f->attribute, r.index, n);
    r.mat_x = circe_mat_f64(r.x, n, 1);
    r.mat_y = circe_mat_f64(r.y, n, 1);
    r.mat_z = circe_mat_f64(r.z, n, 1);
    return r;
}

static void rows_free(rows *r) {
    free(r->index);
    free(r->x);
    free(r->y);
    free(r->z);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* Delta kernels for categories; numbers have the library's own choice. */
typedef struct kernels {
    circe_kernel *y, *z;
} kernels;

static circe_status make_delta(const audit *a, const audit_column *c, circe_kernel **kernel) {
    bool classes = c->categories != NULL || (c == &a->data.target && a->data.outcome == OUTCOME_BINARY);
    return classes ? circe_kernel_create(a->s.context, CIRCE_KERNEL_DELTA, 0, kernel) : CIRCE_OK;
}

static circe_status make_kernels(const audit *a, const audit_finding *f, kernels *k) {
    circe_status status = make_delta(a, &a->data.target, &k->y);
    return status == CIRCE_OK ? make_delta(a, f->attribute, &k->z) : status;
}

static circe_test_options options_of(const audit *a, const kernels *k, const char *method) {
    circe_test_options o;
    circe_test_options_init(&o);
    o.method = test_find(method)->method;
    o.draws = args_integer(a->arguments, OPT_DRAWS);
    o.seed = (uint64_t)args_integer(a->arguments, OPT_SEED);
    o.alpha = a->alpha;
    o.transform = (circe_transform)args_choice(a->arguments, OPT_TRANSFORM);
    o.kernel_y = k->y;
    o.kernel_z = k->z;
    return o;
}

/* ---- one pair ---------------------------------------------------------------------------------------------------- */

static circe_status run_test(const audit *a, audit_finding *f, const kernels *k, const char *name, int64_t most) {
    audit_test *t = &f->tests[f->n_tests++];
    rows r = take_rows(a, f, most, 11);
    circe_test_options o = options_of(a, k, name);
    t->name = name;
    t->rows = r.mat_x.rows;
    circe_status status = circe_test(a->s.context, &r.mat_x, &r.mat_y, &r.mat_z, &o, &t->result);
    progress_clear();
    t->failed = status != CIRCE_OK;
    if (t->failed) snprintf(t->error, sizeof t->error, "%s", circe_last_error());
    rows_free(&r);
    return status;
}

/* Whether a name is among those joined by +. */
static bool is_asked(const char *asked, const char *name) {
    size_t length = strlen(name);
    for (const char *at = asked; at != NULL; at = strchr(at, '+')) {
        at += *at == '+';
        if (strcspn(at, "+") == length && strncmp(at, name, length) == 0) return true;
    }
    return false;
}

static int64_t n_pairs(const audit *a) { return a->data.n_predictions * a->data.n_attributes; }

static int64_t deciding_rows(const audit *a) {
    int64_t share = DECIDING_ROWS / n_pairs(a);
    return share > LEAST_DECIDING ? share : LEAST_DECIDING;
}

/* The deciding ones must succeed; of the others, what failed says why. */
static circe_status run_tests(const audit *a, audit_finding *f, const kernels *k) {
    const char *asked = args_text(a->arguments, OPT_AUDIT_TEST);
    for (size_t i = 0; i < n_tests; i++) {
        if (!is_asked(asked, tests[i].name)) continue;
        circe_status status = run_test(a, f, k, tests[i].name, deciding_rows(a));
        if (status != CIRCE_OK) return status;
    }
    f->n_deciding = f->n_tests;
    for (int i = 1; i < f->n_deciding; i++) {
        if (f->tests[i].result.p_value < f->tests[f->smallest].result.p_value) f->smallest = i;
    }
    f->p_value = fmin(1, f->n_deciding * f->tests[f->smallest].result.p_value);
    for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++) {
        if (is_asked(asked, companions[i].name)) continue;
        if (run_test(a, f, k, companions[i].name, companions[i].most_rows) == CIRCE_ERR_CANCELLED)
            return CIRCE_ERR_CANCELLED;
    }
    return CIRCE_OK;
}

static circe_status find_effects(const audit *a, audit_finding *f, const kernels *k) {
    rows r = take_rows(a, f, MOST_ALONG, 12);
    circe_test_options o = options_of(a, k, f->tests[0].name);
    circe_status status = circe_test_effects(a->s.context, &r.mat_x, &r.mat_y, &r.mat_z, &o, EFFECT_DRAWS, &f->effects);
    f->has_effects = status == CIRCE_OK;
    if (status == CIRCE_OK && a->data.outcome == OUTCOME_NUMBERS) {
        f->along = test_along_make(a->data.target.name, ALONG_POINTS);
        test_along *l = &f->along;
        status = circe_test_along(a->s.context, &r.mat_x, &r.mat_y, &r.mat_z, &o, 0, l->points, l->place, l->value,
                                  l->lower, l->upper, l->null_upper);
    }
    rows_free(&r);
    return status;
}

static circe_status calibrate(const audit *a, audit_finding *f, const kernels *k) {
    int64_t repetitions = args_integer(a->arguments, OPT_AUDIT_CALIBRATE);
    circe_status status = CIRCE_OK;
    if (repetitions == 0) return CIRCE_OK;
    rows r = take_rows(a, f, n_pairs(a) > 2 ? MOST_CALIBRATED / 2 : MOST_CALIBRATED, 13);
    for (int i = 0; i < f->n_deciding && status == CIRCE_OK; i++) {
        circe_test_options o = options_of(a, k, f->tests[i].name);
        status = calibration_run(a->s.context, &r.mat_x, &r.mat_y, &r.mat_z, &o, repetitions, &f->calibration[i]);
    }
    f->has_calibration = status == CIRCE_OK;
    rows_free(&r);
    return status;
}

int audit_judge(audit *a, audit_finding *f) {
    kernels k = {0};
    circe_status status = make_kernels(a, f, &k);
    if (status == CIRCE_OK) status = run_tests(a, f, &k);
    if (status == CIRCE_OK) status = find_effects(a, f, &k);
    if (status == CIRCE_OK) status = calibrate(a, f, &k);
    progress_clear();
    circe_kernel_destroy(k.y);
    circe_kernel_destroy(k.z);
    return message_refused(status);
}

/* ---- all pairs --------------------------------------------------------------------------------------------------- */

static int by_p(const void *one, const void *other) {
    double p = (*(audit_finding *const *)one)->p_value, q = (*(audit_finding *const *)other)->p_value;
    return (p > q) - (p < q);
}

/* Holm: the k-th smallest of m counts m - k + 1 times, and none less than the one before it. */
static void adjust(audit *a, int64_t prediction) {
    int64_t m = a->data.n_attributes;
    audit_finding **order = small_alloc((size_t)m * sizeof *order);
    double least = 0;
    for (int64_t i = 0; i < m; i++) order[i] = audit_at(a, prediction, i);
    qsort(order, (size_t)m, sizeof *order, by_p);
    for (int64_t i = 0; i < m; i++) {
        double p = fmin(1, (double)(m - i) * order[i]->p_value);
        least = fmax(least, p);
        order[i]->p_adjusted = least;
    }
    free(order);
}

circe_trust audit_trust(const audit *a, const audit_finding *f) {
    circe_trust trust = f->tests[f->smallest].result.trust;
    for (int i = 0; f->p_adjusted > a->alpha && i < f->n_deciding; i++) {
        if (f->tests[i].result.trust > trust) trust = f->tests[i].result.trust;
    }
    return trust;
}

/* Where the test itself is off on data like these, a small p-value shows nothing; a large one then is all the more
 * credible. */
static audit_decision decide(const audit *a, const audit_finding *f) {
    bool small = f->p_adjusted <= a->alpha;
    bool off = f->has_calibration && f->calibration[f->smallest].summary.trust == CIRCE_TRUST_POOR;
    if (audit_trust(a, f) == CIRCE_TRUST_POOR || (small && off)) return DECISION_UNSURE;
    return small ? DECISION_DEPENDS : DECISION_NOT_FOUND;
}

/* The place where the dependence is strongest, among those above what chance allows. */
static int64_t strongest(const test_along *along) {
    int64_t best = -1;
    for (int64_t i = 0; i < along->points; i++) {
        if (along->value[i] > along->null_upper[i] && (best < 0 || along->value[i] > along->value[best])) best = i;
    }
    return best;
}

static void say_effect(FILE *out, const audit_finding *f) {
    const circe_effect *e = &f->effects.kpc;
    if (!f->has_effects) return;
    fprintf(out,
            " It explains about %.0f %% of what the outcome leaves of the prediction (KPC; 95 %% interval %.0f to %.0f "
            "%%; chance alone would show %.0f %%).",
            100 * e->value, 100 * e->lower, 100 * e->upper, 100 * e->chance);
}

static void say_depends(FILE *out, const audit *a, const audit_finding *f) {
    char p[40];
    fprintf(out, "Given %s, %s still depends on %s (p %s%s).", a->data.target.name, f->prediction->name,
            f->attribute->name, test_p_equals(f->p_adjusted, p, sizeof p),
            a->data.n_attributes > 1 ? ", adjusted" : "");
    say_effect(out, f);
    int64_t place = strongest(&f->along);
    if (place >= 0) fprintf(out, " It is strongest around %s = %.3g.", a->data.target.name, f->along.place[place]);
}

/* Tests that do not decide, but say otherwise, each held to its share of the level. */
static void say_otherwise(FILE *out, const audit *a, const audit_finding *f) {
    int others = f->n_tests - f->n_deciding;
    for (int i = f->n_deciding; i < f->n_tests; i++) {
        const circe_test_result *r = &f->tests[i].result;
        char p[40];
        if (f->tests[i].failed || r->trust == CIRCE_TRUST_POOR || others * r->p_value > a->alpha) continue;
        fprintf(out, " The %s test, which was not to decide, says otherwise (p %s): look again, on other rows.",
                f->tests[i].name, test_p_equals(r->p_value, p, sizeof p));
        return;
    }
}

static void say_not_found(FILE *out, const audit *a, const audit_finding *f) {
    char p[40];
    fprintf(out, "No dependence of %s on %s beyond %s was found (p %s%s). That is not a proof that there is none",
            f->prediction->name, f->attribute->name, a->data.target.name, test_p_equals(f->p_adjusted, p, sizeof p),
            a->data.n_attributes > 1 ? ", adjusted" : "");
    if (f->has_effects)
        fprintf(out,
                ": these rows would also go with an effect of %.0f %% (the upper end of KPC's interval; chance alone "
                "would show %.0f %%)",
                100 * f->effects.kpc.upper, 100 * f->effects.kpc.chance);
    fputc('.', out);
    say_otherwise(out, a, f);
}

/* Of a deciding test: a few rows outweigh all others, and its p-value is theirs. */
static bool rows_object(const audit_finding *f) {
    for (int i = 0; i < f->n_deciding; i++) {
        if (strstr(f->tests[i].result.verdict, "outweigh") != NULL) return true;
    }
    return false;
}

static void say_unsure(FILE *out, const audit *a, const audit_finding *f) {
    fprintf(out, "Whether %s depends on %s given %s cannot be said from the %s test: ", f->prediction->name,
            f->attribute->name, a->data.target.name, f->tests[f->smallest].name);
    fputs(audit_trust(a, f) == CIRCE_TRUST_POOR && rows_object(f)
              ? "a few rows outweigh all others (outliers, or numbers that stand for missing), and by ranks the answer "
                "is "
                "another; --transform normal-scores gives it."
          : audit_trust(a, f) == CIRCE_TRUST_POOR
              ? "its regressions on the outcome are not good enough for its p-value to be used."
              : "on data like these, where nothing depends, it finds dependence too often.",
          out);
}

static char *verdict_of(const audit *a, const audit_finding *f) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("%s", "");
    if (f->decision == DECISION_DEPENDS)
        say_depends(out, a, f);
    else if (f->decision == DECISION_NOT_FOUND)
        say_not_found(out, a, f);
    else
        say_unsure(out, a, f);
    if (f->decision != DECISION_UNSURE && audit_trust(a, f) == CIRCE_TRUST_DOUBTFUL)
        fputs(rows_object(f) ? " The p-value is to be taken with care: a few rows outweigh all others; compare with "
                               "--transform normal-scores."
                             : " The p-value is to be taken with care: one of the checks of its regressions failed.",
              out);
    fclose(out);
    return text;
}

void audit_conclude(audit *a) {
    for (int64_t p = 0; p < a->data.n_predictions; p++) {
        adjust(a, p);
        for (int64_t i = 0; i < a->data.n_attributes; i++) {
            audit_finding *f = audit_at(a, p, i);
            f->decision = decide(a, f);
            f->verdict = verdict_of(a, f);
        }
    }
}
