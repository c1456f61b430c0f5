/* A witness in the making: Q = K o (zeta zeta') by the backend's loops, and what an estimator turns it into. */
#include <math.h>

#include "measures/measure_parts.h"

enum { MEANS_AT_ONCE = 64 };

circe_status circe__as_dtype(circe_workspace *workspace, circe__slot slot, const circe_kernel *kernel,
                             const circe_mat *mat, circe_dtype dtype, circe_mat *out) {
    *out = *mat;
    if (mat->dtype == dtype) return CIRCE_OK;
    void *data = circe__take(workspace, slot, mat->rows * mat->cols, circe_dtype_size(dtype));
    if (data == NULL) return CIRCE_ERR_MEMORY;
    *out = circe__mat(data, mat->rows, mat->cols, dtype);
    if (kernel != NULL)
        circe__copy_points(kernel, mat, out);
    else
        circe__copy_mat(mat, out);
    return CIRCE_OK;
}

/* Copies `width` columns from `first` on, less their means. Means so large that they overflow are left alone. */
static void copy_from_mean(const circe_mat *mat, int64_t first, int64_t width, circe_mat *out) {
    double means[MEANS_AT_ONCE] = {0.0};
    for (int64_t i = 0; i < mat->rows; i++)
        for (int64_t c = 0; c < width; c++) means[c] += circe__at(mat, i, first + c);
    for (int64_t c = 0; c < width; c++) means[c] = isfinite(means[c]) ? means[c] / (double)mat->rows : 0.0;
    for (int64_t i = 0; i < mat->rows; i++)
        for (int64_t c = 0; c < width; c++) circe__set(out, i, first + c, circe__at(mat, i, first + c) - means[c]);
}

void circe__less_means(const circe_mat *mat, circe_mat *out) {
    for (int64_t first = 0; first < mat->cols; first += MEANS_AT_ONCE)
        copy_from_mean(mat, first, circe__min(MEANS_AT_ONCE, mat->cols - first), out);
}

circe_status circe__from_mean(circe_workspace *workspace, circe__slot slot, const circe_kernel *kernel,
                              const circe_mat *mat, circe_mat *out) {
    *out = *mat;
    if (kernel == NULL || !circe__is_linear(kernel->factors, kernel->n_factors)) return CIRCE_OK;
    void *data = circe__take(workspace, slot, mat->rows * mat->cols, circe_dtype_size(mat->dtype));
    if (data == NULL) return CIRCE_ERR_MEMORY;
    *out = circe__mat(data, mat->rows, mat->cols, mat->dtype);
    circe__less_means(mat, out);
    return CIRCE_OK;
}

circe_status circe__product_update(circe_workspace *workspace, const circe_kernel *kernel, const circe_mat *points,
                                   const char *name, const circe_mat *zeta, const circe__update *update, double scale,
                                   circe_mat *Q, double *sums) {
    circe_context *context = workspace->context;
    const circe__loops *loops = circe__loops_for(context->backend, Q->dtype);
    circe_kernel_factor *factors = NULL;
    circe_mat own_points, own_zeta;
    circe_status status = circe__resolve_into(workspace, kernel, points->cols, name, &factors);
    if (status == CIRCE_OK) status = circe__check_widths(kernel, Q->dtype, name);
    if (status == CIRCE_OK)
        status = circe__as_dtype(workspace, CIRCE__SLOT_POINTS_A, kernel, points, Q->dtype, &own_points);
    if (status == CIRCE_OK) status = circe__as_dtype(workspace, CIRCE__SLOT_POINTS_B, NULL, zeta, Q->dtype, &own_zeta);
    if (status != CIRCE_OK) return status;
    int64_t cols_update = update == NULL ? 0 : update->left.cols;
    size_t bytes = loops->product_bytes(points->rows, points->cols, zeta->cols, cols_update, context->threads);
    void *scratch = circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)bytes, 1);
    if (scratch == NULL) return CIRCE_ERR_MEMORY;
    int previous = circe__loops_begin(workspace);
    loops->product((circe__factors){factors, circe_kernel_n_factors(kernel)}, &own_points, &own_zeta, update, scale, Q,
                   sums, context->threads, scratch);
    return circe__loops_finish(workspace, previous);
}

circe_status circe__product(circe_workspace *workspace, const circe_kernel *kernel, const circe_mat *points,
                            const char *name, const circe_mat *zeta, double scale, circe_mat *Q, double *sums) {
    return circe__product_update(workspace, kernel, points, name, zeta, NULL, scale, Q, sums);
}

circe_status circe__weights_from(circe_workspace *workspace, const circe_kernel *kernel, const circe_mat *points,
                                 const circe_mat *zeta, circe_estimator estimator, circe__weights *w) {
    int64_t n = points->rows;
    double *sums = circe__take(workspace, CIRCE__SLOT_ROW_SUMS, n, sizeof *sums);
    if (sums == NULL) return CIRCE_ERR_MEMORY;
    circe_status status =
        circe__product(workspace, kernel, points, "y", zeta, circe__product_scale(workspace, estimator, n), &w->Q,
                       circe__needs_sums(estimator) ? sums : NULL);
    if (status == CIRCE_OK) w->shifted = circe__estimator_shift(workspace, estimator, sums, NULL, &w->Q, &w->shift);
    return status;
}

void circe__settle(const circe_context *context, circe__weights *w) {
    if (w->shifted) circe__loops_for(context->backend, w->Q.dtype)->shift(&w->Q, &w->shift, context->threads);
    w->shifted = false;
}
