/* The frame of NOCCO and KPC: options, checks, the regressions R = ~G (~G + n epsilon I)^-1 of y and of pairs with y,
 * whose kernel is the product.
 *
 * Low rank leaves a part of ~G out. The error of R, summed over its spectrum, is at most the trace of that part over
 * the ridge n epsilon. With a tolerance of 1e-9 epsilon and a trace of n, this is 1e-9; the measured error is a
 * hundredth of that. In float32 the tolerance is 1e-7. */
#include "measures/normalized.h"

#include <math.h>
#include <string.h>

void circe_normalized_options_init(circe_normalized_options *options) {
    if (options != NULL) *options = (circe_normalized_options){.epsilon = 1e-3, .method = CIRCE_METHOD_AUTO};
}

/* One variable: its elements, its rows, its kernel's columns and widths. */
static circe_status check_variable(circe_workspace *workspace, const circe_kernel *kernel, const circe_mat *mat,
                                   int64_t n, const char *name) {
    circe_kernel_factor *unused = NULL;
    circe_status status = circe__check_data(mat, name, 2);
    if (status != CIRCE_OK) return status;
    if (mat->rows != n)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "%s has %lld rows and the other variables have %lld; they must be the same points", name,
                          (long long)mat->rows, (long long)n);
    return circe__resolve_into(workspace, kernel, mat->cols, name, &unused);
}

static circe_status check_options(const circe_normalized_options *options) {
    if (!(options->epsilon > 0.0) || !isfinite(options->epsilon))
        return circe_fail(CIRCE_ERR_ARGUMENT, "epsilon is %g; it must be a positive number", options->epsilon);
    return circe__check_tolerance(options->tolerance);
}

/* The tolerance of low rank. It does not grow with a large epsilon, because 1e-12 already costs little. */
static double tolerance_of(const circe_normalized_options *options, circe_dtype dtype) {
    if (options->tolerance > 0.0) return options->tolerance;
    return (dtype == CIRCE_FLOAT32 ? 1e-7 : 1e-9) * fmin(options->epsilon, 1e-3);
}

circe_status circe__normalized_begin(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                     const circe_mat *y, const circe_mat *z, const circe_normalized_options *options,
                                     double *value, circe_mat *grad, circe__normalized *m) {
    circe_normalized_options own;
    circe_normalized_options_init(&own);
    if (options != NULL) own = *options;
    if (workspace == NULL || kernels == NULL || value == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "workspace, kernels and value must not be NULL");
    circe_status status = circe__check_mat(y, "y", 2);
    if (status == CIRCE_OK) status = check_variable(workspace, kernels->y, y, y->rows, "y");
    if (status == CIRCE_OK) status = check_variable(workspace, kernels->x, x, y->rows, "x");
    if (status == CIRCE_OK) status = check_variable(workspace, kernels->z, z, y->rows, "z");
    if (status == CIRCE_OK && grad != NULL) status = circe__check_output(grad, x->rows, x->cols, x->dtype, "grad");
    if (status == CIRCE_OK) status = check_options(&own);
    if (status == CIRCE_OK) status = circe__check_weights(workspace, y->rows);
    if (status != CIRCE_OK) return status;
    circe__smoother_options how = {(double)circe__counted(workspace, y->rows) * own.epsilon, true, own.method,
                                   tolerance_of(&own, x->dtype), false};
    *m = (circe__normalized){workspace, kernels, x, y, z, y->rows, how, own.tolerance, value, grad};
    return CIRCE_OK;
}

circe_status circe__normalized_y(const circe__normalized *m, circe__smoother *smoother) {
    circe__points points;
    circe_status status = circe__points_take(m->workspace, CIRCE__SLOT_Y, m->kernels->y, m->y, m->n, "y", &points);
    if (status != CIRCE_OK) return status;
    return circe__smoother_make(m->workspace, CIRCE__SLOT_SMOOTHER_Y, &points, &m->how, "y", smoother);
}

circe_status circe__normalized_pair(const circe__normalized *m, bool of_x, circe__smoother *smoother) {
    circe__points points;
    circe_status status = circe__points_join(m->workspace, CIRCE__SLOT_POINTS_A, of_x ? m->kernels->x : m->kernels->z,
                                             of_x ? m->x : m->z, of_x ? "x" : "z", m->kernels->y, m->y, "y", &points);
    if (status != CIRCE_OK) return status;
    return circe__smoother_make(m->workspace, of_x ? CIRCE__SLOT_SMOOTHER_X : CIRCE__SLOT_SMOOTHER_Z, &points, &m->how,
                                of_x ? "(x, y)" : "(z, y)", smoother);
}

circe_status circe__normalized_nothing(const circe__normalized *m) {
    *m->value = 0.0;
    for (int64_t i = 0; m->grad != NULL && i < m->n; i++) {
        size_t size = circe_dtype_size(m->grad->dtype);
        memset((char *)m->grad->data + (size_t)(i * m->grad->ld) * size, 0, (size_t)m->grad->cols * size);
    }
    return CIRCE_OK;
}

circe_status circe__take_matrices(circe_workspace *workspace, circe__slot slot, int64_t n, int64_t count,
                                  double **matrices) {
    double bytes = 8.0 * (double)count * (double)n * (double)n;
    circe_status status = CIRCE_OK;
    if (bytes > (double)workspace->bytes[slot])
        status = circe__memory_check(workspace->context, bytes, "a measure by matrices of all these rows at once",
                                     "use fewer rows, or wider kernels, whose matrices have a low rank");
    if (status != CIRCE_OK) return status;
    *matrices = circe__take(workspace, slot, count * n * n, sizeof **matrices);
    return *matrices == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
}

double circe__dot(const double *a, const double *b, int64_t n) {
    enum { RUN = 1024 }; /* sums of runs: rounding grows with the length of the longest sum */
    double total = 0.0;
    for (int64_t first = 0; first < n; first += RUN) {
        double sum = 0.0;
        for (int64_t k = first; k < circe__min(first + RUN, n); k++) sum += a[k] * b[k];
        total += sum;
    }
    return total;
}

void circe__write_lower(const double *row, int64_t i, circe_mat *witness) {
    circe_mat from = circe_mat_f64(row, 1, i + 1), to = circe__rows(witness, i, 1);
    circe__copy_mat(&from, &to);
}
