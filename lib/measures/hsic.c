/* HSIC (Gretton et al. 2005; unbiased: Song et al. 2012): the marginal dependence of x and z, as a witness.
 *
 *     biased     H K_zz H / B^2
 *     ustat      the ustat weights of K_zz (estimator.c)
 *
 * K_zz is Q with a residual feature that is 1 everywhere, so the loops are CIRCE's. O(B^2 d_z). Both kernels are
 * centred, so the columns of a linear one can be centred first. */
#include "measures/measure_parts.h"

#include "core/settings.h"

const char *circe_hsic_estimator_name(circe_hsic_estimator estimator) {
    return CIRCE__NAME(estimator, [CIRCE_HSIC_BIASED] = "biased", [CIRCE_HSIC_UNBIASED] = "ustat");
}

circe_status circe__check_hsic(circe_hsic_estimator estimator, int64_t rows) {
    if (estimator != CIRCE_HSIC_BIASED && estimator != CIRCE_HSIC_UNBIASED)
        return circe_fail(CIRCE_ERR_ARGUMENT, "HSIC estimator %d is neither biased nor ustat", (int)estimator);
    int64_t least = estimator == CIRCE_HSIC_UNBIASED ? 4 : 2;
    if (rows >= least) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "%s HSIC needs at least %lld rows; there %s %lld",
                      circe_hsic_estimator_name(estimator), (long long)least, rows == 1 ? "is" : "are",
                      (long long)rows);
}

static circe_status check_hsic(const circe_workspace *workspace, circe_hsic_estimator estimator,
                               const circe_kernel *kernel_z, const circe_mat *z) {
    circe_status status = circe__check_data(z, "z", 1);
    if (status == CIRCE_OK) status = circe__check_weights(workspace, z->rows);
    if (status != CIRCE_OK) return status;
    if (kernel_z == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "the kernel of z must not be NULL");
    return circe__check_hsic(estimator, circe__counted(workspace, z->rows));
}

static circe_status hsic_weights(circe_workspace *workspace, const circe_kernel *kernel_z, const circe_mat *z,
                                 circe_hsic_estimator estimator, circe__weights *w) {
    int64_t n = z->rows;
    double *ones = circe__take(workspace, CIRCE__SLOT_ZETA, n, sizeof *ones);
    double *sums = circe__take(workspace, CIRCE__SLOT_ROW_SUMS, n, sizeof *sums);
    if (ones == NULL || sums == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) ones[i] = 1.0;
    circe_mat constant = circe_mat_f64(ones, n, 1), from_mean;
    bool biased = estimator == CIRCE_HSIC_BIASED;
    circe_status status = circe__from_mean(workspace, CIRCE__SLOT_Z, kernel_z, z, &from_mean);
    if (status == CIRCE_OK) status = circe__product(workspace, kernel_z, &from_mean, "z", &constant, 1.0, &w->Q, sums);
    if (status != CIRCE_OK) return status;
    w->shifted =
        circe__estimator_shift(workspace, biased ? CIRCE__CENTERED_SQUARE : CIRCE_USTAT, sums, NULL, &w->Q, &w->shift);
    return CIRCE_OK;
}

circe_status circe_witness_hsic(circe_workspace *workspace, const circe_kernel *kernel_z, const circe_mat *z,
                                circe_hsic_estimator estimator, circe_mat *witness) {
    CIRCE_OWN_SETTINGS;
    if (workspace == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "workspace must not be NULL");
    circe_status status = check_hsic(workspace, estimator, kernel_z, z);
    if (status == CIRCE_OK) status = circe__check_mat(witness, "witness", 1);
    if (status == CIRCE_OK) status = circe__check_output(witness, z->rows, z->rows, witness->dtype, "witness");
    if (status != CIRCE_OK) return status;
    circe__weights w = {.Q = *witness};
    status = hsic_weights(workspace, kernel_z, z, estimator, &w);
    if (status == CIRCE_OK) circe__settle(workspace->context, &w);
    return status;
}

circe_status circe_measure_hsic(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                const circe_mat *z, circe_hsic_estimator estimator, double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    circe__weights w = {0};
    circe_mat from_mean;
    if (workspace == NULL || kernels == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "workspace and kernels must not be NULL");
    circe_status status = check_hsic(workspace, estimator, kernels->z, z);
    if (status == CIRCE_OK) status = circe__begin_measure(workspace, x, z->rows, &w.Q);
    if (status == CIRCE_OK) status = hsic_weights(workspace, kernels->z, z, estimator, &w);
    if (status == CIRCE_OK) status = circe__from_mean(workspace, CIRCE__SLOT_X, kernels->x, x, &from_mean);
    if (status == CIRCE_OK)
        status = circe__contract(workspace, kernels->x, &from_mean, &w.Q, circe__shift_of(&w), value, grad);
    return status;
}
