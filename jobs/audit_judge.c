/* Tests, effect sizes and calibration of one pair.
 *
 * One test decides, or two together (the smaller p-value, times 2: Bonferroni), chosen before the data are seen; the
 * others stand beside them. What costs more than a few seconds on many rows is done on a random part of them, and the
 * report says on how many. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circe/circe.h"
#include "io/small.h"
#include "jobs/audit_parts.h"
#include "jobs/calibration.h"
#include "jobs/test_json.h"

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
    circe_test_method method;
    int64_t most_rows;
} companions[] = {
    {CIRCE_TEST_KCI, 20000}, {CIRCE_TEST_CIRCE, 10000}, {CIRCE_TEST_GCM, 20000}, {CIRCE_TEST_SPLITKCI, 5000}};

/* ---- rows for the library ---------------------------------------------------------------------------------------- */

typedef struct rows {
    int64_t *index;
    double *x, *y, *z;
    circe_mat mat_x, mat_y, mat_z;
} rows;

static rows take_rows(const audit_run *run, const circe_audit_finding *f, int64_t most, uint64_t stream) {
    const circe_audit_result *r = run->r;
    rows out = {0};
    int64_t n = 0;
    out.index = audit_sample(r->n, most, run->options->seed, stream, &n);
    out.x = audit_take(audit_prediction(r, f)->values, out.index, n);
    out.y = audit_take(r->target.values, out.index, n);
    out.z = audit_take(audit_attribute(r, f)->values, out.index, n);
    out.mat_x = circe_mat_f64(out.x, n, 1);
    out.mat_y = circe_mat_f64(out.y, n, 1);
    out.mat_z = circe_mat_f64(out.z, n, 1);
    return out;
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

static circe_status make_delta(const audit_run *run, const circe_audit_column *c, circe_kernel **kernel) {
    return c->categories != NULL ? circe_kernel_create(run->context, CIRCE_KERNEL_DELTA, 0, kernel) : CIRCE_OK;
}

static circe_status make_kernels(const audit_run *run, const circe_audit_finding *f, kernels *k) {
    circe_status status = make_delta(run, &run->r->target, &k->y);
    return status == CIRCE_OK ? make_delta(run, audit_attribute(run->r, f), &k->z) : status;
}

static circe_test_options options_of(const audit_run *run, const kernels *k, circe_test_method method) {
    circe_test_options o;
    circe_test_options_init(&o);
    o.method = method;
    o.draws = run->options->draws;
    o.seed = (uint64_t)run->options->seed;
    o.alpha = run->options->alpha;
    o.transform = (circe_transform)circe_word_index("none|ranks|normal-scores", run->options->transform);
    o.kernel_y = k->y;
    o.kernel_z = k->z;
    return o;
}

/* ---- one pair ---------------------------------------------------------------------------------------------------- */

static circe_status run_test(audit_run *run, circe_audit_finding *f, const kernels *k, circe_test_method method,
                             int64_t most) {
    circe_audit_test *t = &f->tests[f->n_tests++];
    t->name = circe_test_method_name(method);
    circe_status status = audit_step(run, f, t->name);
    if (status != CIRCE_OK) return status;
    rows r = take_rows(run, f, most, 11);
    circe_test_options o = options_of(run, k, method);
    t->rows = r.mat_x.rows;
    status = circe_test(run->context, &r.mat_x, &r.mat_y, &r.mat_z, &o, &t->result);
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

static int64_t n_pairs(const audit_run *run) { return run->r->n_predictions * run->r->n_attributes; }

static int64_t deciding_rows(const audit_run *run) {
    int64_t share = DECIDING_ROWS / n_pairs(run);
    return share > LEAST_DECIDING ? share : LEAST_DECIDING;
}

/* Which must succeed. */
static circe_status run_deciding(audit_run *run, circe_audit_finding *f, const kernels *k) {
    for (int m = CIRCE_TEST_KCI; m <= CIRCE_TEST_RCOT; m++) {
        circe_test_method method = (circe_test_method)m;
        if (!is_asked(run->options->test, circe_test_method_name(method))) continue;
        circe_status status = run_test(run, f, k, method, deciding_rows(run));
        if (status != CIRCE_OK) return status;
    }
    f->n_deciding = f->n_tests;
    for (int i = 1; i < f->n_deciding; i++) {
        if (f->tests[i].result.p_value < f->tests[f->smallest].result.p_value) f->smallest = i;
    }
    f->p_value = fmin(1, f->n_deciding * f->tests[f->smallest].result.p_value);
    return CIRCE_OK;
}

/* What failed says why. */
static circe_status run_companions(audit_run *run, circe_audit_finding *f, const kernels *k) {
    for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++) {
        if (is_asked(run->options->test, circe_test_method_name(companions[i].method))) continue;
        if (run_test(run, f, k, companions[i].method, companions[i].most_rows) == CIRCE_ERR_CANCELLED)
            return CIRCE_ERR_CANCELLED;
    }
    return CIRCE_OK;
}

static circe_status find_effects(audit_run *run, circe_audit_finding *f, const kernels *k) {
    circe_status status = audit_step(run, f, "effects");
    if (status != CIRCE_OK) return status;
    rows r = take_rows(run, f, MOST_ALONG, 12);
    circe_test_options o = options_of(run, k, f->tests[0].result.method);
    status = circe_test_effects(run->context, &r.mat_x, &r.mat_y, &r.mat_z, &o, EFFECT_DRAWS, &f->effects);
    f->has_effects = status == CIRCE_OK;
    if (status == CIRCE_OK && run->r->outcome == CIRCE_OUTCOME_NUMBERS) {
        f->along = test_along_make(run->r->target.name, ALONG_POINTS);
        circe_effects_along *l = &f->along;
        status = circe_test_along(run->context, &r.mat_x, &r.mat_y, &r.mat_z, &o, 0, l->points, l->place, l->value,
                                  l->lower, l->upper, l->null_upper);
    }
    rows_free(&r);
    return status;
}

static circe_status calibrate(audit_run *run, circe_audit_finding *f, const kernels *k) {
    int64_t repetitions = run->options->calibrate;
    if (repetitions == 0) return CIRCE_OK;
    circe_status status = audit_step(run, f, "calibration");
    rows r = take_rows(run, f, n_pairs(run) > 2 ? MOST_CALIBRATED / 2 : MOST_CALIBRATED, 13);
    for (int i = 0; i < f->n_deciding && status == CIRCE_OK; i++) {
        circe_test_options o = options_of(run, k, f->tests[i].result.method);
        status = calibration_run(run->context, &r.mat_x, &r.mat_y, &r.mat_z, &o, repetitions, &f->calibration[i]);
    }
    f->has_calibration = status == CIRCE_OK;
    rows_free(&r);
    return status;
}

circe_status audit_judge(audit_run *run, circe_audit_finding *f) {
    kernels k = {0};
    circe_status status = make_kernels(run, f, &k);
    if (status == CIRCE_OK) status = run_deciding(run, f, &k);
    if (status == CIRCE_OK) status = run_companions(run, f, &k);
    if (status == CIRCE_OK) status = find_effects(run, f, &k);
    if (status == CIRCE_OK) status = calibrate(run, f, &k);
    circe_kernel_destroy(k.y);
    circe_kernel_destroy(k.z);
    return status;
}
