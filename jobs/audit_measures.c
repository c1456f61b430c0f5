/* The measures of dependence, to place an audit beside other work.
 *
 * CIRCE takes the mean of the attribute given y from one half of the rows and is measured on the other; the others use
 * all rows, with the width and the ridge that leave-one-out chose there. If nothing is given, only HSIC is left. If
 * there are many rows, the measures use a random part: they describe, and decide nothing. */
#include <math.h>
#include <stdlib.h>

#include "base/small.h"
#include "circe/circe.h"
#include "io/io.h"
#include "jobs/audit_parts.h"

enum { MOST_MEASURED = 2000 };

const char *circe_audit_measure_name(int measure) {
    static const char *const names[CIRCE_AUDIT_MEASURES] = {"CIRCE", "HSCIC", "GCM", "HSIC"};
    return names[measure];
}

/* ---- measures ---------------------------------------------------------------------------------------------------- */

/* Everything one finding needs, freed as one. */
typedef struct problem {
    const audit_question *question;
    audit_rows rows;
    int64_t *code; /* of z, if it has categories; of the rows */
    circe_kernel *kernel_x, *kernel_y, *kernel_z;
    circe_measure *circe;
} problem;

static void problem_free(problem *p) {
    circe_measure_destroy(p->circe);
    circe_kernel_destroy(p->kernel_x);
    circe_kernel_destroy(p->kernel_y);
    circe_kernel_destroy(p->kernel_z);
    audit_rows_free(&p->rows);
}

/* Of `n` rows from `first` on, for the next call of the measure. */
static circe_status weigh(const problem *p, int64_t first, int64_t n, circe_measure *measure) {
    return p->rows.weights != NULL ? circe_measure_set_weights(measure, p->rows.weights + first, n) : CIRCE_OK;
}

static circe_status make_kernel(circe_context *context, bool categories, const circe_mat *values,
                                circe_kernel **kernel) {
    circe_kernel_kind kind = categories ? CIRCE_KERNEL_DELTA : CIRCE_KERNEL_GAUSSIAN;
    circe_status status = circe_kernel_create(context, kind, 0, kernel);
    return status == CIRCE_OK && !categories ? circe_kernel_bind_median(*kernel, values) : status;
}

/* A random order, so that the halves are alike whatever the order of the table. */
static void take_rows(const audit_run *run, problem *p) {
    OWNED_BY(arena_free) arena scratch = {0};
    int64_t n = 0, *rows = audit_sample(&scratch, run->r->n, MOST_MEASURED, run->options->seed, 3, &n);
    int64_t *order = arena_alloc(&scratch, (size_t)n * sizeof *order);
    int64_t *drawn = arena_alloc(&scratch, (size_t)n * sizeof *drawn);
    circe_random_permutation((circe_random){.seed = (uint64_t)run->options->seed, .stream = 4}, n, order);
    for (int64_t i = 0; i < n; i++) drawn[i] = rows[order[i]];
    p->rows = audit_rows_take(run->r, p->question, drawn, n);
    p->code = arena_alloc(&p->rows.owner, (size_t)n * sizeof *p->code);
    for (int64_t i = 0; p->question->z->code != NULL && i < n; i++) p->code[i] = p->question->z->code[drawn[i]];
}

static circe_status make_kernels(const audit_run *run, problem *p) {
    const audit_question *q = p->question;
    circe_status status = make_kernel(run->context, q->x_is_classes, &p->rows.mat_x, &p->kernel_x);
    if (status == CIRCE_OK && q->n_y > 0) status = audit_kernel_y(run, q, &p->kernel_y);
    if (status == CIRCE_OK && q->n_numbers > 0) status = circe_kernel_bind_median(p->kernel_y, &p->rows.mat_y);
    if (status == CIRCE_OK) status = make_kernel(run->context, q->z->categories != NULL, &p->rows.mat_z, &p->kernel_z);
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
    status = audit_kernel_y(run, p->question, &free_y);
    options.kernels = (circe_kernels){p->kernel_x, free_y, p->kernel_z};
    options.per_dimension = 0;
    if (p->question->n_numbers > 0) options.sigma2_y = widths, options.n_sigma2_y = 5;
    int64_t n = p->rows.mat_x.rows, half = n / 2;
    circe_mat y = io_rows(&p->rows.mat_y, 0, half), z = io_rows(&p->rows.mat_z, 0, half);
    if (status == CIRCE_OK) status = circe_measure_create(run->context, &options, &p->circe);
    if (status == CIRCE_OK) status = weigh(p, 0, half, p->circe);
    if (status == CIRCE_OK) status = circe_measure_fit(p->circe, &y, &z);
    circe_mat x = io_rows(&p->rows.mat_x, half, n - half);
    y = io_rows(&p->rows.mat_y, half, n - half), z = io_rows(&p->rows.mat_z, half, n - half);
    if (status == CIRCE_OK) status = weigh(p, half, n - half, p->circe);
    if (status == CIRCE_OK) status = circe_measure_points(p->circe, &x, &y, &z, value, NULL);
    circe_kernel_destroy(free_y);
    return status;
}

/* Uses all rows and, if something is given, the width and the ridge that were chosen for CIRCE. */
static circe_status measure_rows(const audit_run *run, const problem *p, circe_measure_kind kind, const circe_mat *z,
                                 double *value) {
    const circe_cme *mean = p->circe != NULL ? circe_measure_mean(p->circe) : NULL;
    circe_measure *measure = NULL;
    circe_measure_options options;
    circe_cme_info info;
    circe_measure_options_init(&options, kind);
    options.kernels = (circe_kernels){p->kernel_x, NULL, p->kernel_z};
    if (mean != NULL) {
        circe_cme_get_info(mean, &info);
        options.kernels.y = circe_cme_kernel_y(mean);
        options.ridge = &info.ridge;
        options.n_ridge = 1;
    }
    circe_status status = circe_measure_create(run->context, &options, &measure);
    if (status == CIRCE_OK) status = weigh(p, 0, p->rows.mat_x.rows, measure);
    if (status == CIRCE_OK) status = circe_measure_points(measure, &p->rows.mat_x, &p->rows.mat_y, z, value, NULL);
    circe_measure_destroy(measure);
    return status;
}

/* Makes columns of 0 and 1 for an attribute with three categories or more. */
static circe_status measure_gcm(const audit_run *run, const problem *p, double *value) {
    int64_t n = p->rows.mat_z.rows, cols = p->question->z->n_categories;
    if (cols <= 2) return measure_rows(run, p, CIRCE_MEASURE_GCM, &p->rows.mat_z, value);
    OWNED double *coded = small_alloc((size_t)(n * cols) * sizeof *coded);
    for (int64_t i = 0; i < n; i++) coded[i * cols + p->code[i]] = 1;
    circe_mat mat = circe_mat_f64(coded, n, cols);
    return measure_rows(run, p, CIRCE_MEASURE_GCM, &mat, value);
}

static circe_status measure_all(const audit_run *run, problem *p, double *value) {
    circe_status status = CIRCE_OK;
    if (p->question->n_y > 0) {
        status = measure_circe(run, p, &value[0]);
        if (status == CIRCE_OK) status = measure_rows(run, p, CIRCE_MEASURE_HSCIC, &p->rows.mat_z, &value[1]);
        if (status == CIRCE_OK) status = measure_gcm(run, p, &value[2]);
    }
    if (status == CIRCE_OK) status = measure_rows(run, p, CIRCE_MEASURE_HSIC, &p->rows.mat_z, &value[3]);
    return status;
}

circe_status audit_measure(audit_run *run, circe_audit_finding *f) {
    problem p = {.question = audit_question_of(run->r, f)};
    circe_status status = CIRCE_OK;
    for (int i = 0; i < CIRCE_AUDIT_MEASURES; i++) f->measures[i] = (double)NAN;
    if (!p.question->x->is_constant) {
        take_rows(run, &p);
        status = make_kernels(run, &p);
        if (status == CIRCE_OK) status = measure_all(run, &p, f->measures);
        f->measured_rows = p.rows.mat_x.rows;
    }
    problem_free(&p);
    return status;
}
