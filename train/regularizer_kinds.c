/* The table of regularisers, and how each is computed by libcirce:
 *
 *     circe   <G, K_xx> with the residual features of the training rows, made once; by random features where
 *             the method says so, redrawn by the step's number
 *     hscic   the batch regressed on itself; z on the holdout where asked
 *     gcm     x regressed on the previous batch where there is one, so that no gradient flows through the regression
 *     hsic    dependence on z whatever y */
#include "circe/status.h"
#include "train/regularizer_parts.h"

bool train_regularizer_smooths(const train_regularizer *r) {
    if (!(r->row->needs & TRAIN_USES_REGRESSION)) return false;
    return r->options.kind != TRAIN_REG_GCM || r->options.gcm_regression == CIRCE_GCM_KERNEL;
}

bool train_regularizer_holds_out(const train_regularizer *r) {
    return (r->row->needs & TRAIN_USES_REGRESSION) && r->options.regress_z_on_holdout;
}

circe_batch_options train_regularizer_batch_options(const train_regularizer *r) {
    circe_batch_options options;
    circe_batch_options_init(&options);
    options.method = r->options.method;
    if (r->ridge > 0.0) options.ridge = r->ridge;
    return options;
}

/* Other points than those of training are measured without random features: a value must not depend on the draw. */
static circe_status measure_circe(train_regularizer *r, const train_points *p, double *value, circe_mat *grad) {
    circe_estimator estimator = r->options.estimator;
    if (p->index != NULL && r->features != NULL)
        return circe_measure_circe_cached(r->workspace, r->cme, r->features, p->index, p->x->rows, p->kernel_x, p->x,
                                          estimator, value, grad);
    bool random = p->index != NULL && r->options.method == CIRCE_METHOD_RFF;
    circe_status status = random ? circe_cme_rff_step(r->cme, p->step) : CIRCE_OK;
    if (status != CIRCE_OK) return status;
    const circe_cme *cme = p->index == NULL && r->exact != NULL ? r->exact : r->cme;
    return circe_measure_circe(r->workspace, cme, p->kernel_x, p->x, p->y, p->z, estimator, value, grad);
}

static circe_status measure_hscic(train_regularizer *r, const train_points *p, double *value, circe_mat *grad) {
    circe_batch_options options = train_regularizer_batch_options(r);
    if (train_regularizer_holds_out(r))
        return circe_measure_hscic_holdout(r->workspace, r->cme, p->kernel_x, p->x, p->y, p->z, &options, value, grad);
    circe_kernels kernels = {.x = p->kernel_x, .y = r->kernel_y, .z = r->kernel_z};
    return circe_measure_hscic(r->workspace, &kernels, p->x, p->y, p->z, &options, value, grad);
}

circe_gcm_options train_regularizer_gcm_options(const train_regularizer *r) {
    circe_gcm_options options;
    circe_gcm_options_init(&options);
    options.regression = r->options.gcm_regression;
    options.combine = r->options.gcm_combine;
    options.batch = train_regularizer_batch_options(r);
    return options;
}

static circe_status measure_gcm(train_regularizer *r, const train_points *p, double *value, circe_mat *grad) {
    circe_gcm_options options = train_regularizer_gcm_options(r);
    options.previous_x = p->previous_x;
    options.previous_y = p->previous_y;
    if (train_regularizer_holds_out(r)) options.holdout = r->cme;
    return circe_measure_gcm(r->workspace, r->kernel_y, p->x, p->y, p->z, &options, value, grad);
}

static circe_status measure_hsic(train_regularizer *r, const train_points *p, double *value, circe_mat *grad) {
    circe_kernels kernels = {.x = p->kernel_x, .z = r->kernel_z};
    bool biased = r->options.estimator == CIRCE_BIASED;
    return circe_measure_hsic(r->workspace, &kernels, p->x, p->z, biased ? CIRCE_HSIC_BIASED : CIRCE_HSIC_UNBIASED,
                              value, grad);
}

const train_regularizer_row train_regularizer_rows[] = {
    [TRAIN_REG_NONE] = {"none", 0, NULL},
    [TRAIN_REG_CIRCE] = {"circe", TRAIN_USES_Y | TRAIN_USES_KERNEL_Z | TRAIN_USES_FIT, measure_circe},
    [TRAIN_REG_HSCIC] = {"hscic", TRAIN_USES_Y | TRAIN_USES_KERNEL_Z | TRAIN_USES_REGRESSION, measure_hscic},
    [TRAIN_REG_GCM] = {"gcm", TRAIN_USES_Y | TRAIN_USES_REGRESSION | TRAIN_USES_PREVIOUS, measure_gcm},
    [TRAIN_REG_HSIC] = {"hsic", TRAIN_USES_KERNEL_Z, measure_hsic},
};
const int train_regularizer_n_rows = sizeof train_regularizer_rows / sizeof *train_regularizer_rows;
