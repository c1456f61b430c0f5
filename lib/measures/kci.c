/* KCI (Zhang, Peters, Janzing, Schoelkopf 2011), the statistic (1/B) tr(R ~K_(x,y) R  R ~K_z R) as a witness.
 *
 *     ~K = HKH,  R = ridge (~K_y + ridge I)^-1 = I - S  (smoother.h),  K_(x,y) = K_xx o K_yy
 *     ~K_z = E'E, E (q, B) centred
 *     zeta = R^2 E' (B, q),   G = K_yy o (zeta zeta') / B
 *
 * R leaves constants alone, so zeta is centred like E. With this zeta the rest is CIRCE's biased form. Cost O(B r^2)
 * for R, O(B r q) for zeta, O(B^2 q) for G; y of high rank: O(B^3 + B^2 q). */
#include <math.h>

#include "measures/measure_parts.h"

#include "core/settings.h"

/* zeta in the slot ZETA. */
static circe_status kci_zeta(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                             const circe_mat *z, const circe_batch_options *options, circe_dtype dtype,
                             circe_mat *zeta) {
    int64_t n = y->rows, q = 0;
    double tolerance = circe__batch_tolerance(options->tolerance, dtype), *E = NULL;
    circe__points points;
    circe__smoother smoother;
    circe__smoother_options how = {options->ridge, true, options->method, tolerance, true};
    circe_status status = circe__points_take(workspace, CIRCE__SLOT_Y, kernels->y, y, n, "y", &points);
    if (status == CIRCE_OK)
        status = circe__smoother_make(workspace, CIRCE__SLOT_SMOOTHER_Y, &points, &how, "y", &smoother);
    if (status == CIRCE_OK) status = circe__points_take(workspace, CIRCE__SLOT_Z, kernels->z, z, n, "z", &points);
    if (status == CIRCE_OK) status = circe__points_factor(workspace, &points, tolerance, HUGE_VAL, true, "z", &E, &q);
    if (status != CIRCE_OK) return status;
    int64_t cols = circe__max(q, 1); /* constant z: one column of zeros */
    double *once = circe__take(workspace, CIRCE__SLOT_FEATURES_Z, n * circe__roomy(cols), sizeof *once);
    double *twice = circe__take(workspace, CIRCE__SLOT_ZETA, n * circe__roomy(cols), sizeof *twice);
    if (once == NULL || twice == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < cols; k++) twice[i * cols + k] = k < q ? E[k * n + i] : 0.0;
    status = circe__smoother_apply(workspace, &smoother, cols, twice, true, once);
    if (status == CIRCE_OK) status = circe__smoother_apply(workspace, &smoother, cols, once, true, twice);
    *zeta = circe_mat_f64(twice, n, cols);
    return status;
}

static circe_status kci_witness(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                                const circe_mat *z, const circe_batch_options *options, circe_mat *witness) {
    circe_mat zeta;
    int previous = circe__threads_begin(workspace->context);
    circe_status status = kci_zeta(workspace, kernels, y, z, options, witness->dtype, &zeta);
    status = circe__threads_finish(previous, status);
    if (status != CIRCE_OK) return status;
    status = circe__product(workspace, kernels->y, y, "y", &zeta, 1.0 / (double)circe__counted(workspace, y->rows),
                            witness, NULL);
    if (status == CIRCE_OK) circe__weigh_by_roots(workspace, witness);
    return status;
}

circe_status circe_witness_kci(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                               const circe_mat *z, const circe_batch_options *options, circe_mat *witness) {
    CIRCE_OWN_SETTINGS;
    return circe__batch_witness(kci_witness, workspace, kernels, y, z, options, witness);
}

circe_status circe_measure_kci(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                               const circe_mat *y, const circe_mat *z, const circe_batch_options *options,
                               double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    return circe__batch_measure(kci_witness, workspace, kernels, x, y, z, options, value, grad);
}
