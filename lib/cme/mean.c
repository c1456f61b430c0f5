/* The conditional mean of z itself, E[z | y], out of a model whose kernel of z is linear.
 *
 * There psi(z) = z. With the pivots P (r, d) of the basis, P P' = L L', a point of their span has the coordinates
 * f_z(z) = L^-1 P z, and back z = P' L^-T f_z(z). So, with mu(y) in coordinates (residual.c) as the rows of m (n, r),
 *
 *     E[z | y] = m L^-1 P (n, d)
 *
 * O(n r_y r + n r d) beside the features of y. Since pivots are taken largest first, the coordinates fall with L's
 * diagonal and m L^-1 stays of the size of the regression's weights: nothing grows that would have to cancel. */
#include <string.h>

#include "cme/cme_parts.h"

#include "core/settings.h"

static circe_status check_linear(const circe_cme *cme) {
    const circe__basis *basis = &cme->z_basis;
    if (cme->rff != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "a model of method rff has no mean of z; fit with method auto, lowrank or dense");
    if (basis->n_factors == 1 && basis->factors[0].kind == CIRCE_KERNEL_LINEAR && basis->factors[0].first_col == 0 &&
        basis->factors[0].n_cols == basis->dim)
        return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "the mean of z itself needs a model with a linear kernel of z over all columns, but this model "
                      "has %s; fit with kernel_z linear",
                      circe_kernel_text(cme->kernel_z));
}

/* out (n, d), contiguous, from y (n, d_y); coordinates and weights are (n, r). */
static circe_status mean_into(circe_workspace *workspace, const circe_cme *cme, const double *y, int64_t n,
                              double *coordinates, double *weights, double *out) {
    const circe__basis *basis = &cme->z_basis;
    const circe__algebra *algebra = cme->context->backend->algebra;
    int64_t r = basis->rank, d = basis->dim;
    memset(out, 0, (size_t)(n * d) * sizeof *out);
    if (r == 0) return CIRCE_OK; /* every z of the holdout was zero */
    circe_status status = circe__cme_mean(workspace, cme, y, n, r, coordinates, r);
    if (status != CIRCE_OK) return status;
    algebra->gemm(0, 0, n, r, r, 1.0, coordinates, r, basis->inverse, r, 0.0, weights, r);
    algebra->gemm(0, 0, n, d, r, 1.0, weights, r, basis->points, d, 0.0, out, d);
    return CIRCE_OK;
}

circe_status circe_cme_mean(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y, circe_mat *out) {
    CIRCE_OWN_SETTINGS;
    double *y64 = NULL;
    if (workspace == NULL || cme == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "workspace and cme must not be NULL");
    circe_status status = check_linear(cme);
    if (status == CIRCE_OK) status = circe__check_mat(out, "out", 1);
    if (status == CIRCE_OK) status = circe__cme_points(workspace, CIRCE__SLOT_Y, y, cme->info.dim_y, "y", &y64);
    if (status != CIRCE_OK) return status;
    int64_t n = y->rows, r = cme->z_basis.rank, d = cme->z_basis.dim;
    if (out->rows != n || out->cols != d)
        return circe_fail(CIRCE_ERR_SHAPE, "out is %lld by %lld; the mean of z for these y is %lld by %lld",
                          (long long)out->rows, (long long)out->cols, (long long)n, (long long)d);
    double *block = circe__take(workspace, CIRCE__SLOT_ZETA, n * (2 * r + d), sizeof *block);
    if (block == NULL) return CIRCE_ERR_MEMORY;
    circe_mat mean = circe__mat(block + 2 * n * r, n, d, CIRCE_FLOAT64);
    int previous = circe__threads_begin(cme->context);
    status = mean_into(workspace, cme, y64, n, block, block + n * r, mean.data);
    status = circe__threads_finish(previous, status);
    if (status == CIRCE_OK) circe__copy_mat(&mean, out);
    return status;
}
