/* What one finding asks: x independent of z given y.
 *
 *     notion        x           y (each with the columns of --given)
 *     separation    prediction  outcome
 *     independence  prediction  -
 *     sufficiency   outcome     prediction
 *
 * z is the attribute. If y has several columns, the numbers come first, standardised, under one gaussian; the
 * categories follow under delta, so that only rows with equal categories are compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "circe/circe.h"
#include "jobs/audit_parts.h"

const char *circe_audit_notion_name(circe_audit_notion notion) {
    static const char *const names[] = {"separation", "independence", "sufficiency"};
    return names[notion];
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static void add_given(audit_question *q, const circe_audit_column *c) {
    bool number = c->categories == NULL;
    if (number) memmove(q->y + q->n_numbers + 1, q->y + q->n_numbers, (size_t)(q->n_y - q->n_numbers) * sizeof *q->y);
    q->y[number ? q->n_numbers : q->n_y] = c;
    q->n_numbers += number;
    q->n_y++;
}

/* "repaid", "repaid, age and region"; "": nothing. */
static char *given_text(const circe_audit_result *r, const audit_question *q) {
    char *text = arena_text(audit_owner(r), q->level != NULL ? q->level->name : "");
    for (int64_t g = 0, n = q->level != NULL; g < r->n_given; g++, n++)
        text = arena_format(audit_owner(r), "%s%s%s", text,
                            n == 0            ? ""
                            : n + 1 == q->n_y ? " and "
                                              : ", ",
                            r->given[g].name);
    return text;
}

static audit_question question_of(const circe_audit_result *r, const circe_audit_finding *f) {
    bool sufficiency = f->notion == CIRCE_NOTION_SUFFICIENCY;
    const circe_audit_column *prediction = &r->predictions[f->prediction];
    audit_question q = {.x = sufficiency ? &r->target : prediction,
                        .z = &r->attributes[f->attribute],
                        .level = f->notion == CIRCE_NOTION_SEPARATION      ? &r->target
                                 : sufficiency && !prediction->is_constant ? prediction
                                                                           : NULL,
                        .y = arena_alloc(audit_owner(r), (size_t)(r->n_given + 1) * sizeof *q.y)};
    q.x_is_words = q.x->is_text && (!sufficiency || r->outcome != CIRCE_OUTCOME_BINARY);
    q.x_is_classes = q.x_is_words || (sufficiency && r->target.categories != NULL);
    if (q.level != NULL) add_given(&q, q.level);
    for (int64_t g = 0; g < r->n_given; g++) add_given(&q, &r->given[g]);
    q.given = given_text(r, &q);
    return q;
}

void audit_questions_make(circe_audit_result *r) {
    audited *whole = (audited *)(void *)r;
    whole->questions = arena_alloc(&whole->owner, (size_t)r->n_findings * sizeof *whole->questions);
    for (int64_t i = 0; i < r->n_findings; i++) whole->questions[i] = question_of(r, &r->findings[i]);
}

const audit_question *audit_question_of(const circe_audit_result *r, const circe_audit_finding *f) {
    return &((const audited *)(const void *)r)->questions[f - r->findings];
}

/* x as numbers: as it is, or 1 for its class `part`. */
static void x_part(const circe_audit_result *r, const circe_audit_finding *f, int64_t part, double *out) {
    const audit_question *q = audit_question_of(r, f);
    for (int64_t i = 0; i < r->n; i++) out[i] = q->x_is_words ? (double)(q->x->code[i] == part) : q->x->values[i];
}

const char *audit_part_name(const circe_audit_result *r, const circe_audit_finding *f, int64_t part) {
    const audit_question *q = audit_question_of(r, f);
    return q->x_is_words ? q->x->categories[part] : NULL;
}

const circe_audit_groups *audit_levels(const circe_audit_result *r, const circe_audit_finding *f) {
    if (f->notion == CIRCE_NOTION_INDEPENDENCE) return NULL;
    return f->notion == CIRCE_NOTION_SEPARATION ? &r->strata : &r->levels[f->prediction];
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* y of these rows (NULL: of all), (n, n_y). */
static double *y_rows(arena *owner, const audit_question *q, const int64_t *rows, int64_t n) {
    double *out = arena_alloc(owner, (size_t)(n * q->n_y + 1) * sizeof *out);
    for (int64_t k = 0; k < q->n_y; k++) {
        const circe_audit_column *c = q->y[k];
        bool standard = k < q->n_numbers && q->n_y > 1;
        for (int64_t i = 0; i < n; i++) {
            double value = c->values[rows != NULL ? rows[i] : i];
            out[i * q->n_y + k] = standard ? (value - c->mean) / c->deviation : value;
        }
    }
    return out;
}

audit_rows audit_rows_take(const circe_audit_result *r, const audit_question *q, const int64_t *index, int64_t n) {
    audit_rows out = {0};
    out.x = audit_take(&out.owner, q->x->values, index, n);
    out.y = y_rows(&out.owner, q, index, n);
    out.z = audit_take(&out.owner, q->z->values, index, n);
    if (r->weights != NULL) out.weights = audit_take(&out.owner, r->weights, index, n);
    out.mat_x = circe_mat_f64(out.x, n, 1);
    out.mat_y = circe_mat_f64(out.y, n, q->n_y);
    out.mat_z = circe_mat_f64(out.z, n, 1);
    return out;
}

void audit_rows_free(audit_rows *r) { arena_free(&r->owner); }

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

circe_status audit_kernel_y(const audit_run *run, const audit_question *q, circe_kernel **kernel) {
    char text[96];
    long long numbers = (long long)q->n_numbers, all = (long long)q->n_y;
    if (numbers == all) return circe_kernel_create(run->context, CIRCE_KERNEL_GAUSSIAN, 0, kernel);
    if (numbers == 0) return circe_kernel_create(run->context, CIRCE_KERNEL_DELTA, 0, kernel);
    snprintf(text, sizeof text, "0-%lld:gaussian*%lld-%lld:delta", numbers - 1, numbers, all - 1);
    return circe_kernel_parse(run->context, text, kernel);
}

static circe_status make_delta(const audit_run *run, bool categories, circe_kernel **kernel) {
    return categories ? circe_kernel_create(run->context, CIRCE_KERNEL_DELTA, 0, kernel) : CIRCE_OK;
}

circe_status audit_kernels_make(const audit_run *run, const audit_question *q, audit_kernels *k) {
    circe_status status = make_delta(run, q->x_is_classes, &k->x);
    if (status == CIRCE_OK && q->n_y > q->n_numbers) status = audit_kernel_y(run, q, &k->y);
    return status == CIRCE_OK ? make_delta(run, q->z->categories != NULL, &k->z) : status;
}

void audit_kernels_free(audit_kernels *k) {
    circe_kernel_destroy(k->x);
    circe_kernel_destroy(k->y);
    circe_kernel_destroy(k->z);
}

/* ---- residuals --------------------------------------------------------------------------------------------------- */

enum { MOST_FITTED = 4000 };

/* The mean in every cell, if all columns of y are categories; the mean of all rows if y has no columns. */
static void cell_means(const audit_run *run, const circe_audit_finding *f, const double *x, double *mean) {
    const circe_audit_groups *levels = audit_levels(run->r, f);
    int64_t n = run->r->n, cells = (levels != NULL ? levels->n_groups : 1) * run->n_cells;
    double *sum = small_alloc((size_t)(2 * cells) * sizeof *sum), *rows = sum + cells;
    for (int64_t i = 0; i < n; i++) {
        int64_t cell = (levels != NULL ? levels->of[i] : 0) * run->n_cells + run->cells[i];
        sum[cell] += audit_weight(run->r, i) * x[i];
        rows[cell] += audit_weight(run->r, i);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t cell = (levels != NULL ? levels->of[i] : 0) * run->n_cells + run->cells[i];
        mean[i] = sum[cell] / rows[cell];
    }
    free(sum);
}

static circe_status fit_regression(const audit_run *run, const audit_question *q, const circe_mat *y,
                                   const circe_mat *x, const double *weights, circe_cme **cme) {
    circe_kernel *given = NULL, *linear = NULL;
    circe_cme_options options;
    circe_cme_options_init(&options);
    options.weights = weights;
    circe_status status = audit_kernel_y(run, q, &given);
    if (status == CIRCE_OK) status = circe_kernel_create(run->context, CIRCE_KERNEL_LINEAR, 0, &linear);
    if (status == CIRCE_OK) status = circe_cme_fit(run->context, y, x, given, linear, &options, cme);
    circe_kernel_destroy(given);
    circe_kernel_destroy(linear);
    return status;
}

static void standardise(const circe_audit_column *c, double *values, int64_t n) {
    for (int64_t i = 0; i < n; i++) values[i] = (values[i] - c->mean) / c->deviation;
}

/* The ridge draws towards 0, so this is where the mean must be. */
static void weigh_mean(const circe_audit_result *r, circe_audit_column *c) {
    double sum = 0, all = 0;
    for (int64_t i = 0; i < r->n; i++) {
        sum += audit_weight(r, i) * c->values[i];
        all += audit_weight(r, i);
    }
    c->mean = sum / all;
}

/* Kernel regression on y, fitted on a part of the rows if there are many. */
static circe_status regress(const audit_run *run, const audit_question *q, const double *values, double *mean) {
    OWNED_BY(arena_free) arena scratch = {0};
    int64_t m = 0, n = run->r->n, *rows = audit_sample(&scratch, n, MOST_FITTED, run->options->seed, 5, &m);
    double *y = y_rows(&scratch, q, rows, m), *x = audit_take(&scratch, values, rows, m);
    double *all = y_rows(&scratch, q, NULL, n);
    double *weights = run->r->weights != NULL ? audit_take(&scratch, run->r->weights, rows, m) : NULL;
    circe_audit_column unit = {.values = (double *)values};
    circe_cme *cme = NULL;
    audit_column_describe(&unit, n);
    if (weights != NULL) weigh_mean(run->r, &unit);
    standardise(&unit, x, m);
    if (q->n_y == 1) standardise(q->y[0], y, m);
    if (q->n_y == 1) standardise(q->y[0], all, n);
    circe_mat mat_y = circe_mat_f64(y, m, q->n_y), mat_x = circe_mat_f64(x, m, 1), at = circe_mat_f64(all, n, q->n_y),
              out = circe_mat_f64(mean, n, 1);
    circe_status status = fit_regression(run, q, &mat_y, &mat_x, weights, &cme);
    if (status == CIRCE_OK) status = circe_cme_mean(run->workspace, cme, &at, &out);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) mean[i] = mean[i] * unit.deviation + unit.mean;
    circe_cme_destroy(cme);
    return status;
}

/* y leaves nothing of a constant. */
static circe_status find_residual(audit_run *run, const circe_audit_finding *f, double **out) {
    const circe_audit_result *r = run->r;
    double *residual = *out = arena_try(audit_owner(r), (size_t)(f->n_parts * r->n) * sizeof *residual);
    if (residual == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld rows", (long long)r->n);
    const audit_question *q = audit_question_of(r, f);
    circe_status status = CIRCE_OK;
    OWNED double *x = small_alloc((size_t)r->n * sizeof *x);
    for (int64_t k = 0; k < f->n_parts && status == CIRCE_OK && !q->x->is_constant; k++, residual += r->n) {
        x_part(r, f, k, x);
        if (q->n_numbers > 0)
            status = regress(run, q, x, residual);
        else
            cell_means(run, f, x, residual);
        for (int64_t i = 0; status == CIRCE_OK && i < r->n; i++) residual[i] = x[i] - residual[i];
    }
    return status;
}

circe_status audit_find_residuals(audit_run *run) {
    circe_audit_result *r = run->r;
    circe_status status = CIRCE_OK;
    r->residuals = arena_alloc(audit_owner(r), (size_t)(r->n_notions * r->n_predictions) * sizeof *r->residuals);
    for (int64_t k = 0; k < r->n_notions; k++) {
        for (int64_t p = 0; p < r->n_predictions && status == CIRCE_OK; p++)
            status = find_residual(run, audit_at(r, k, p, 0), &r->residuals[k * r->n_predictions + p]);
    }
    return status;
}
