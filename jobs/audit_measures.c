/* The measures of dependence, to place an audit beside other work; and what the outcome leaves of a prediction.
 *
 * CIRCE takes the mean of the attribute given the outcome from one half of the rows and is measured on the other; the
 * others are of all rows, with the width and the ridge that leave-one-out chose there. Where there are many rows, they
 * are of a random part: these measures describe, nothing is decided by them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "circe/circe.h"
#include "io/small.h"
#include "jobs/audit_parts.h"

enum { MOST_MEASURED = 2000, MOST_FITTED = 4000 };

const char *circe_audit_measure_name(int measure) {
    static const char *const names[CIRCE_AUDIT_MEASURES] = {"CIRCE", "HSCIC", "GCM", "HSIC"};
    return names[measure];
}

/* ---- measures ---------------------------------------------------------------------------------------------------- */

/* Everything one pair needs, freed as one. */
typedef struct problem {
    double *x, *y, *z;
    int64_t *code; /* of z, where it has categories */
    circe_mat mat_x, mat_y, mat_z;
    circe_kernel *kernel_x, *kernel_y, *kernel_z;
    circe_measure *circe;
} problem;

static void problem_free(problem *p) {
    circe_measure_destroy(p->circe);
    circe_kernel_destroy(p->kernel_x);
    circe_kernel_destroy(p->kernel_y);
    circe_kernel_destroy(p->kernel_z);
    free(p->x);
    free(p->y);
    free(p->z);
    free(p->code);
}

static circe_mat rows_of(const circe_mat *m, int64_t first, int64_t n) {
    circe_mat part = *m;
    part.data = (double *)m->data + first * m->ld;
    part.rows = n;
    return part;
}

static circe_status make_kernel(circe_context *context, const circe_audit_column *column, const circe_mat *values,
                                circe_kernel **kernel) {
    circe_kernel_kind kind = column->categories != NULL ? CIRCE_KERNEL_DELTA : CIRCE_KERNEL_GAUSSIAN;
    circe_status status = circe_kernel_create(context, kind, 0, kernel);
    return status == CIRCE_OK && kind == CIRCE_KERNEL_GAUSSIAN ? circe_kernel_bind_median(*kernel, values) : status;
}

/* A random order, so that the halves are alike whatever the order of the table. */
static void take_rows(const audit_run *run, const circe_audit_finding *f, problem *p) {
    const circe_audit_result *r = run->r;
    int64_t n = 0, *rows = audit_sample(r->n, MOST_MEASURED, run->options->seed, 3, &n);
    int64_t *order = small_alloc((size_t)n * sizeof *order), *drawn = small_alloc((size_t)n * sizeof *drawn);
    circe_random_permutation((circe_random){.seed = (uint64_t)run->options->seed, .stream = 4}, n, order);
    for (int64_t i = 0; i < n; i++) drawn[i] = rows[order[i]];
    p->x = audit_take(audit_prediction(r, f)->values, drawn, n);
    p->y = audit_take(r->target.values, drawn, n);
    p->z = audit_take(audit_attribute(r, f)->values, drawn, n);
    p->code = small_alloc((size_t)n * sizeof *p->code);
    for (int64_t i = 0; audit_attribute(r, f)->code != NULL && i < n; i++)
        p->code[i] = audit_attribute(r, f)->code[drawn[i]];
    p->mat_x = circe_mat_f64(p->x, n, 1);
    p->mat_y = circe_mat_f64(p->y, n, 1);
    p->mat_z = circe_mat_f64(p->z, n, 1);
    free(order);
    free(drawn);
    free(rows);
}

static circe_status make_kernels(const audit_run *run, const circe_audit_finding *f, problem *p) {
    const circe_audit_result *r = run->r;
    circe_status status = make_kernel(run->context, audit_prediction(r, f), &p->mat_x, &p->kernel_x);
    if (status == CIRCE_OK) status = make_kernel(run->context, &r->target, &p->mat_y, &p->kernel_y);
    if (status == CIRCE_OK) status = make_kernel(run->context, audit_attribute(r, f), &p->mat_z, &p->kernel_z);
    return status;
}

/* The mean from one half, the value from the other. Width of the outcome's kernel: multiples of the median. */
static circe_status measure_circe(const audit_run *run, problem *p, double *value) {
    static const double multiples[] = {0.01, 0.03, 0.1, 0.3, 1};
    circe_kernel_factor factor;
    circe_kernel *free_y = NULL;
    circe_measure_options options;
    double widths[5];
    circe_measure_options_init(&options, CIRCE_MEASURE_CIRCE);
    circe_status status = circe_kernel_get_factor(p->kernel_y, 0, &factor);
    if (status != CIRCE_OK) return status;
    for (int i = 0; i < 5; i++) widths[i] = multiples[i] * factor.sigma2;
    status = circe_kernel_create(run->context, factor.kind, 0, &free_y);
    options.kernels = (circe_kernels){p->kernel_x, free_y, p->kernel_z};
    options.per_dimension = 0;
    if (factor.kind == CIRCE_KERNEL_GAUSSIAN) options.sigma2_y = widths, options.n_sigma2_y = 5;
    int64_t n = p->mat_x.rows, half = n / 2;
    circe_mat y = rows_of(&p->mat_y, 0, half), z = rows_of(&p->mat_z, 0, half);
    if (status == CIRCE_OK) status = circe_measure_create(run->context, &options, &p->circe);
    if (status == CIRCE_OK) status = circe_measure_fit(p->circe, &y, &z);
    circe_mat x = rows_of(&p->mat_x, half, n - half);
    y = rows_of(&p->mat_y, half, n - half), z = rows_of(&p->mat_z, half, n - half);
    if (status == CIRCE_OK) status = circe_measure_points(p->circe, &x, &y, &z, value, NULL);
    circe_kernel_destroy(free_y);
    return status;
}

/* Of all rows, with the width and the ridge that were chosen for CIRCE. */
static circe_status measure_rows(const audit_run *run, const problem *p, circe_measure_kind kind, const circe_mat *z,
                                 double *value) {
    const circe_cme *mean = circe_measure_mean(p->circe);
    circe_measure *measure = NULL;
    circe_measure_options options;
    circe_cme_info info;
    circe_cme_get_info(mean, &info);
    circe_measure_options_init(&options, kind);
    options.kernels = (circe_kernels){p->kernel_x, circe_cme_kernel_y(mean), p->kernel_z};
    options.ridge = &info.ridge;
    options.n_ridge = 1;
    circe_status status = circe_measure_create(run->context, &options, &measure);
    if (status == CIRCE_OK) status = circe_measure_points(measure, &p->mat_x, &p->mat_y, z, value, NULL);
    circe_measure_destroy(measure);
    return status;
}

/* Columns of 0 and 1 of an attribute of three categories or more. */
static circe_status measure_gcm(const audit_run *run, const circe_audit_finding *f, const problem *p, double *value) {
    int64_t n = p->mat_z.rows, cols = audit_attribute(run->r, f)->n_categories;
    if (cols <= 2) return measure_rows(run, p, CIRCE_MEASURE_GCM, &p->mat_z, value);
    double *coded = small_alloc((size_t)(n * cols) * sizeof *coded);
    for (int64_t i = 0; i < n; i++) coded[i * cols + p->code[i]] = 1;
    circe_mat mat = circe_mat_f64(coded, n, cols);
    circe_status status = measure_rows(run, p, CIRCE_MEASURE_GCM, &mat, value);
    free(coded);
    return status;
}

static circe_status measure_all(const audit_run *run, const circe_audit_finding *f, problem *p, double *value) {
    circe_status status = measure_circe(run, p, &value[0]);
    if (status == CIRCE_OK) status = measure_rows(run, p, CIRCE_MEASURE_HSCIC, &p->mat_z, &value[1]);
    if (status == CIRCE_OK) status = measure_gcm(run, f, p, &value[2]);
    if (status == CIRCE_OK) status = measure_rows(run, p, CIRCE_MEASURE_HSIC, &p->mat_z, &value[3]);
    return status;
}

circe_status audit_measure(audit_run *run, circe_audit_finding *f) {
    problem p = {0};
    take_rows(run, f, &p);
    circe_status status = make_kernels(run, f, &p);
    if (status == CIRCE_OK) status = measure_all(run, f, &p, f->measures);
    f->measured_rows = p.mat_x.rows;
    problem_free(&p);
    return status;
}

/* ---- residuals --------------------------------------------------------------------------------------------------- */

/* The mean in every class, where the outcome is one. */
static void class_means(const circe_audit_result *r, const circe_audit_column *c, double *mean) {
    int64_t k = r->strata.n_groups;
    double *sum = small_alloc((size_t)k * sizeof *sum);
    for (int64_t i = 0; i < r->n; i++) sum[r->strata.of[i]] += c->values[i];
    for (int64_t i = 0; i < r->n; i++) mean[i] = sum[r->strata.of[i]] / (double)r->strata.rows[r->strata.of[i]];
    free(sum);
}

static void standardise(const circe_audit_column *c, const double *from, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++) to[i] = (from[i] - c->mean) / c->deviation;
}

static circe_status fit_regression(const audit_run *run, const circe_mat *y, const circe_mat *x, circe_cme **cme) {
    circe_kernel *gaussian = NULL, *linear = NULL;
    circe_status status = circe_kernel_create(run->context, CIRCE_KERNEL_GAUSSIAN, 0, &gaussian);
    if (status == CIRCE_OK) status = circe_kernel_create(run->context, CIRCE_KERNEL_LINEAR, 0, &linear);
    if (status == CIRCE_OK) status = circe_cme_fit(run->context, y, x, gaussian, linear, NULL, cme);
    circe_kernel_destroy(gaussian);
    circe_kernel_destroy(linear);
    return status;
}

/* Kernel regression on the outcome, fitted on a part of the rows where there are many. */
static circe_status regress(const audit_run *run, const circe_audit_column *c, double *mean) {
    const circe_audit_column *target = &run->r->target;
    int64_t m = 0, n = run->r->n, *rows = audit_sample(n, MOST_FITTED, run->options->seed, 5, &m);
    double *y = audit_take(target->values, rows, m), *x = audit_take(c->values, rows, m);
    double *all = small_alloc((size_t)n * sizeof *all);
    circe_cme *cme = NULL;
    standardise(target, y, m, y);
    standardise(c, x, m, x);
    standardise(target, target->values, n, all);
    circe_mat mat_y = circe_mat_f64(y, m, 1), mat_x = circe_mat_f64(x, m, 1), at = circe_mat_f64(all, n, 1),
              out = circe_mat_f64(mean, n, 1);
    circe_status status = fit_regression(run, &mat_y, &mat_x, &cme);
    if (status == CIRCE_OK) status = circe_cme_mean(run->workspace, cme, &at, &out);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) mean[i] = mean[i] * c->deviation + c->mean;
    circe_cme_destroy(cme);
    free(rows);
    free(all);
    free(x);
    free(y);
    return status;
}

circe_status audit_find_residuals(audit_run *run) {
    circe_audit_result *r = run->r;
    circe_status status = CIRCE_OK;
    r->residuals = small_alloc((size_t)r->n_predictions * sizeof *r->residuals);
    for (int64_t p = 0; p < r->n_predictions && status == CIRCE_OK; p++) {
        const circe_audit_column *c = &r->predictions[p];
        double *residual = r->residuals[p] = calloc((size_t)r->n, sizeof *residual);
        if (residual == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld rows", (long long)r->n);
        if (r->outcome == CIRCE_OUTCOME_NUMBERS)
            status = regress(run, c, residual);
        else
            class_means(r, c, residual);
        for (int64_t i = 0; status == CIRCE_OK && i < r->n; i++) residual[i] = c->values[i] - residual[i];
    }
    return status;
}
