/* Tests, effect sizes and calibration of one finding.
 *
 * One test decides, or two together (the smaller p-value, times 2: Bonferroni), chosen before the data are seen; the
 * report also shows the others. Work that takes more than a few seconds on many rows uses a random part of them, and
 * the report says how many. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/owned.h"
#include "circe/circe.h"
#include "jobs/audit_parts.h"
#include "jobs/calibration.h"
#include "jobs/tests.h"

enum {
    EFFECT_DRAWS = 200,
    ALONG_POINTS = 15,
    MOST_CALIBRATED = 1000, /* half of it if there are more than two findings */
    DECIDING_ROWS = 100000, /* over all findings: half a minute or so */
    LEAST_DECIDING = 20000,
};

/* Tests beside the deciding one. */
static const struct {
    circe_test_method method;
    int64_t most_rows;
} companions[] = {
    {CIRCE_TEST_KCI, 20000}, {CIRCE_TEST_CIRCE, 10000}, {CIRCE_TEST_GCM, 20000}, {CIRCE_TEST_SPLITKCI, 5000}};

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* What one finding needs throughout. */
typedef struct judging {
    audit_run *run;
    circe_audit_finding *f;
    const audit_question *question;
    audit_kernels kernels;
} judging;

static audit_rows take_rows(const judging *j, int64_t most, uint64_t stream) {
    OWNED_BY(arena_free) arena scratch = {0};
    int64_t n = 0, *index = audit_sample(&scratch, j->run->r->n, most, j->run->options->seed, stream, &n);
    return audit_rows_take(j->run->r, j->question, index, n);
}

static circe_test_options options_of(const judging *j, const audit_rows *rows, circe_test_method method) {
    const audit_run *run = j->run;
    circe_test_options o;
    circe_test_options_init(&o);
    o.method = method;
    o.draws = run->options->draws;
    o.seed = (uint64_t)run->options->seed;
    o.alpha = run->options->alpha;
    o.transform = (circe_transform)circe_word_index("none|ranks|normal-scores", run->options->transform);
    o.weights = rows->weights;
    o.kernel_x = j->kernels.x;
    o.kernel_y = j->kernels.y;
    o.kernel_z = j->kernels.z;
    return o;
}

/* ---- one finding ------------------------------------------------------------------------------------------------- */

static circe_status run_test(const judging *j, circe_test_method method, int64_t most) {
    circe_audit_test *t = &j->f->tests[j->f->n_tests++];
    t->name = circe_test_method_name(method);
    circe_status status = audit_step(j->run, j->f, t->name);
    if (status != CIRCE_OK) return status;
    OWNED_BY(audit_rows_free) audit_rows r = take_rows(j, most, 11);
    circe_test_options o = options_of(j, &r, method);
    t->rows = r.mat_x.rows;
    status = circe_test(j->run->context, &r.mat_x, &r.mat_y, &r.mat_z, &o, &t->result);
    t->failed = status != CIRCE_OK;
    if (t->failed) snprintf(t->error, sizeof t->error, "%s", circe_last_error());
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

static int64_t deciding_rows(const audit_run *run) {
    int64_t share = DECIDING_ROWS / run->r->n_findings;
    return share > LEAST_DECIDING ? share : LEAST_DECIDING;
}

/* Runs the deciding tests, which must succeed. */
static circe_status run_deciding(const judging *j) {
    circe_audit_finding *f = j->f;
    for (int m = CIRCE_TEST_KCI; m <= CIRCE_TEST_RCOT; m++) {
        circe_test_method method = (circe_test_method)m;
        if (!is_asked(j->run->options->test, circe_test_method_name(method))) continue;
        circe_status status = run_test(j, method, deciding_rows(j->run));
        if (status != CIRCE_OK) return status;
    }
    f->n_deciding = f->n_tests;
    for (int i = 1; i < f->n_deciding; i++) {
        if (f->tests[i].result.p_value < f->tests[f->smallest].result.p_value) f->smallest = i;
    }
    f->p_value = fmin(1, f->n_deciding * f->tests[f->smallest].result.p_value);
    return CIRCE_OK;
}

/* Runs the other tests. A test that failed says why. */
static circe_status run_companions(const judging *j) {
    for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++) {
        const test_kind *kind = test_find(circe_test_method_name(companions[i].method));
        bool refuses = j->run->r->weights != NULL && !(kind->uses & TEST_WEIGHTS);
        if (refuses || is_asked(j->run->options->test, kind->name)) continue;
        if (run_test(j, companions[i].method, companions[i].most_rows) == CIRCE_ERR_CANCELLED)
            return CIRCE_ERR_CANCELLED;
    }
    return CIRCE_OK;
}

/* Finds where along the outcome or the prediction the dependence occurs, if that is a number. */
static circe_status find_along(const judging *j, const audit_rows *r, const circe_test_options *o) {
    const circe_audit_column *level = j->question->level;
    if (level == NULL || level->categories != NULL) return CIRCE_OK;
    circe_effects_along *l = &j->f->along;
    int64_t column = 0;
    *l = test_along_make(audit_owner(j->run->r), level->name, ALONG_POINTS);
    while (j->question->y[column] != level) column++;
    circe_status status = circe_test_along(j->run->context, &r->mat_x, &r->mat_y, &r->mat_z, o, column, l->points,
                                           l->place, l->value, l->lower, l->upper, l->null_upper);
    for (int64_t i = 0; j->question->n_y > 1 && i < l->points; i++) /* undo standardising */
        l->place[i] = l->place[i] * level->deviation + level->mean;
    return status;
}

/* Many groups and few rows raise KPC although nothing depends on anything: only what exceeds that is an effect. */
static circe_audit_estimate above_chance(const circe_effect *e) {
    return (circe_audit_estimate){fmax(0, e->value - e->chance), fmax(0, e->lower - e->chance),
                                  fmax(0, e->upper - e->chance)};
}

static circe_status find_effects(const judging *j) {
    circe_audit_finding *f = j->f;
    circe_status status = audit_step(j->run, f, "effects");
    if (status != CIRCE_OK) return status;
    OWNED_BY(audit_rows_free)
    audit_rows r = take_rows(j, j->run->r->n, 12); /* the library takes what it needs of them */
    circe_test_options o = options_of(j, &r, f->tests[0].result.method);
    status = circe_test_effects(j->run->context, &r.mat_x, &r.mat_y, &r.mat_z, &o, EFFECT_DRAWS, &f->effects);
    f->has_effects = status == CIRCE_OK;
    f->kpc_above_chance = above_chance(&f->effects.kpc);
    return status == CIRCE_OK ? find_along(j, &r, &o) : status;
}

/* A p-value of few draws is as valid as one of many: it need only be fine enough for the level. */
static int64_t calibration_draws(const circe_audit_options *o) {
    enum { LEAST_DRAWS = 199 };
    double needed = fmax(LEAST_DRAWS, ceil(10 / o->alpha) - 1);
    return needed < (double)o->draws ? (int64_t)needed : o->draws;
}

static circe_status calibrate(const judging *j) {
    circe_audit_finding *f = j->f;
    int64_t repetitions = j->run->options->calibrate;
    if (repetitions == 0) return CIRCE_OK;
    circe_status status = audit_step(j->run, f, "calibration");
    OWNED_BY(audit_rows_free)
    audit_rows r = take_rows(j, j->run->r->n_findings > 2 ? MOST_CALIBRATED / 2 : MOST_CALIBRATED, 13);
    for (int i = 0; i < f->n_deciding && status == CIRCE_OK; i++) {
        circe_test_options o = options_of(j, &r, f->tests[i].result.method);
        o.draws = calibration_draws(j->run->options);
        status = calibration_run(audit_owner(j->run->r), j->run->context, &r.mat_x, &r.mat_y, &r.mat_z, &o, repetitions,
                                 &f->calibration[i]);
    }
    f->has_calibration = status == CIRCE_OK;
    return status;
}

/* A constant depends on nothing, and it takes no test to see that. */
static void settle_constant(circe_audit_finding *f) {
    f->p_value = 1;
    f->has_effects = 1; /* of size 0 */
}

circe_status audit_judge(audit_run *run, circe_audit_finding *f) {
    judging j = {.run = run, .f = f, .question = audit_question_of(run->r, f)};
    if (j.question->x->is_constant) {
        settle_constant(f);
        return CIRCE_OK;
    }
    circe_status status = audit_kernels_make(run, j.question, &j.kernels);
    if (status == CIRCE_OK) status = run_deciding(&j);
    if (status == CIRCE_OK) status = run_companions(&j);
    if (status == CIRCE_OK) status = find_effects(&j);
    if (status == CIRCE_OK) status = calibrate(&j);
    audit_kernels_free(&j.kernels);
    return status;
}
