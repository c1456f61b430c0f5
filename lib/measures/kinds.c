/* The table of measures, and how each is computed:
 *
 *     circe           <G, K_xx> with the residual features of the data set, made once; by random features where the
 *                     method says so, redrawn by the step's number
 *     circe-spectral  the largest singular value of the same operator
 *     hsic            dependence on z whatever y
 *     hscic           the batch regressed on itself; z on the holdout if requested
 *     gcm             x regressed on the batch before if there is one, so that no gradient flows through the
 *                     regression
 *     kci             the statistic of the KCI test
 *     nocco, kpc      normalised by the spread of the variables */
#include <string.h>

#include "measures/measuring_parts.h"

enum {
    KERNELS = CIRCE_USES_KERNEL_X | CIRCE_USES_KERNEL_Z,
    HELD_OUT = CIRCE_USES_Y | CIRCE_USES_REGRESSION | CIRCE_USES_RIDGE | CIRCE_USES_MEAN,
    ON_ITSELF = CIRCE_USES_Y | CIRCE_USES_REGRESSION | CIRCE_USES_RIDGE | CIRCE_USES_BATCH,
    NORMALIZED = CIRCE_USES_Y | CIRCE_USES_REGRESSION | CIRCE_USES_EPSILON | CIRCE_USES_BATCH,
};

static const circe_measure_row rows[CIRCE_MEASURE_KINDS] = {
    [CIRCE_MEASURE_NONE] = {.name = "none"},
    [CIRCE_MEASURE_CIRCE] = {.name = "circe",
                             .uses = KERNELS | HELD_OUT | CIRCE_USES_ESTIMATOR,
                             .forms = {{"biased", CIRCE_BIASED, 2},
                                       {"debiased", CIRCE_DEBIASED, 2},
                                       {"centered", CIRCE_CENTERED, 2},
                                       {"ustat", CIRCE_USTAT, 4}},
                             .usual_form = 4,
                             .matrices = 1},
    [CIRCE_MEASURE_CIRCE_SPECTRAL] = {.name = "circe-spectral",
                                      .uses = KERNELS | HELD_OUT,
                                      .matrices = 10,
                                      .most_rows = 4000},
    [CIRCE_MEASURE_HSIC] = {.name = "hsic",
                            .uses = KERNELS | CIRCE_USES_ESTIMATOR,
                            .forms = {{"biased", CIRCE_BIASED, 2}, {"ustat", CIRCE_USTAT, 4}},
                            .usual_form = 2,
                            .matrices = 1},
    [CIRCE_MEASURE_HSCIC] = {.name = "hscic", .uses = KERNELS | ON_ITSELF | CIRCE_MAY_USE_MEAN, .matrices = 4},
    [CIRCE_MEASURE_GCM] = {.name = "gcm", .uses = ON_ITSELF | CIRCE_USES_GCM | CIRCE_MAY_USE_MEAN},
    [CIRCE_MEASURE_KCI] = {.name = "kci", .uses = KERNELS | ON_ITSELF, .matrices = 2},
    [CIRCE_MEASURE_NOCCO] = {.name = "nocco", .uses = KERNELS | NORMALIZED, .matrices = 4},
    [CIRCE_MEASURE_KPC] = {.name = "kpc", .uses = KERNELS | NORMALIZED, .matrices = 4},
};

const circe_measure_row *circe_measure_row_of(circe_measure_kind kind) {
    return (int)kind >= 0 && kind < CIRCE_MEASURE_KINDS ? &rows[kind] : NULL;
}

const char *circe_measure_name(circe_measure_kind kind) {
    const circe_measure_row *row = circe_measure_row_of(kind);
    return row != NULL ? row->name : "unknown";
}

int circe_measure_find(const char *name) {
    for (int k = 0; name != NULL && k < CIRCE_MEASURE_KINDS; k++)
        if (strcmp(rows[k].name, name) == 0) return k;
    return -1;
}

/* ---- what the options make of a kind ----------------------------------------------------------------------------- */

bool circe__measure_smooths(const circe_measure *m) {
    if (!circe__uses(m, CIRCE_USES_BATCH)) return false;
    return !circe__uses(m, CIRCE_USES_GCM) || m->options.gcm_regression == CIRCE_GCM_KERNEL;
}

bool circe__measure_holds_out(const circe_measure *m) {
    return circe__uses(m, CIRCE_MAY_USE_MEAN) && m->options.regress_z_on_holdout;
}

bool circe__measure_carries(const circe_measure *m) {
    return circe__uses(m, CIRCE_USES_GCM) && m->options.gcm_previous_batch && m->y != NULL;
}

circe_batch_options circe__measure_batch_options(const circe_measure *m) {
    circe_batch_options options;
    circe_batch_options_init(&options);
    options.method = m->options.method;
    options.tolerance = m->options.tolerance;
    if (m->ridge > 0.0) options.ridge = m->ridge;
    return options;
}

circe_gcm_options circe__measure_gcm_options(const circe_measure *m) {
    circe_gcm_options options;
    circe_gcm_options_init(&options);
    options.regression = m->options.gcm_regression;
    options.combine = m->options.gcm_combine;
    options.sharpness = m->options.gcm_sharpness;
    options.batch = circe__measure_batch_options(m);
    return options;
}

circe_hsic_estimator circe__measure_hsic_estimator(const circe_measure *m) {
    return m->options.estimator == CIRCE_BIASED ? CIRCE_HSIC_BIASED : CIRCE_HSIC_UNBIASED;
}

/* ---- the measures ------------------------------------------------------------------------------------------------ */

/* Points outside the data set are measured without random features, because a value must not depend on the draw. */
static circe_status mean_for(circe_measure *m, const circe__measured_points *p, const circe_cme **mean) {
    *mean = p->rows == NULL && m->exact != NULL ? m->exact : m->mean;
    bool random = p->rows != NULL && m->own_mean != NULL && m->options.method == CIRCE_METHOD_RFF;
    return random ? circe_cme_rff_step(m->own_mean, p->step) : CIRCE_OK;
}

static circe_status measure_circe(circe_measure *m, const circe__measured_points *p, double *value, circe_mat *grad) {
    const circe_cme *mean = NULL;
    if (p->rows != NULL && m->features != NULL)
        return circe_measure_circe_cached(m->workspace, m->mean, m->features, p->rows, p->x->rows, p->kernel_x, p->x,
                                          m->options.estimator, value, grad);
    circe_status status = mean_for(m, p, &mean);
    if (status != CIRCE_OK) return status;
    return circe_measure_circe(m->workspace, mean, p->kernel_x, p->x, p->y, p->z, m->options.estimator, value, grad);
}

static circe_status measure_spectral(circe_measure *m, const circe__measured_points *p, double *value,
                                     circe_mat *grad) {
    const circe_cme *mean = NULL;
    circe_status status = mean_for(m, p, &mean);
    if (status != CIRCE_OK) return status;
    return circe_measure_circe_spectral(m->workspace, mean, p->kernel_x, p->x, p->y, p->z, value, grad);
}

static circe_kernels kernels_of(const circe_measure *m, const circe__measured_points *p) {
    return (circe_kernels){.x = p->kernel_x, .y = m->kernel_y, .z = m->kernel_z};
}

static circe_status measure_hsic(circe_measure *m, const circe__measured_points *p, double *value, circe_mat *grad) {
    circe_kernels kernels = kernels_of(m, p);
    return circe_measure_hsic(m->workspace, &kernels, p->x, p->z, circe__measure_hsic_estimator(m), value, grad);
}

static circe_status measure_hscic(circe_measure *m, const circe__measured_points *p, double *value, circe_mat *grad) {
    circe_kernels kernels = kernels_of(m, p);
    circe_batch_options options = circe__measure_batch_options(m);
    if (circe__measure_holds_out(m))
        return circe_measure_hscic_holdout(m->workspace, m->mean, p->kernel_x, p->x, p->y, p->z, &options, value, grad);
    return circe_measure_hscic(m->workspace, &kernels, p->x, p->y, p->z, &options, value, grad);
}

static circe_status measure_gcm(circe_measure *m, const circe__measured_points *p, double *value, circe_mat *grad) {
    circe_gcm_options options = circe__measure_gcm_options(m);
    options.previous_x = p->previous_x;
    options.previous_y = p->previous_y;
    options.previous_weights = p->previous_weights;
    if (circe__measure_holds_out(m)) options.holdout = m->mean;
    return circe_measure_gcm(m->workspace, m->kernel_y, p->x, p->y, p->z, &options, value, grad);
}

static circe_status measure_kci(circe_measure *m, const circe__measured_points *p, double *value, circe_mat *grad) {
    circe_kernels kernels = kernels_of(m, p);
    circe_batch_options options = circe__measure_batch_options(m);
    return circe_measure_kci(m->workspace, &kernels, p->x, p->y, p->z, &options, value, grad);
}

static circe_status measure_normalized(circe_measure *m, const circe__measured_points *p, double *value,
                                       circe_mat *grad) {
    circe_kernels kernels = kernels_of(m, p);
    circe_normalized_options options = {m->options.epsilon, m->options.method, m->options.tolerance};
    if (m->options.kind == CIRCE_MEASURE_NOCCO)
        return circe_measure_nocco(m->workspace, &kernels, p->x, p->y, p->z, &options, value, grad);
    return circe_measure_kpc(m->workspace, &kernels, p->x, p->y, p->z, &options, value, grad);
}

circe__measure_fn *const circe__measure_functions[CIRCE_MEASURE_KINDS] = {
    [CIRCE_MEASURE_CIRCE] = measure_circe,      [CIRCE_MEASURE_CIRCE_SPECTRAL] = measure_spectral,
    [CIRCE_MEASURE_HSIC] = measure_hsic,        [CIRCE_MEASURE_HSCIC] = measure_hscic,
    [CIRCE_MEASURE_GCM] = measure_gcm,          [CIRCE_MEASURE_KCI] = measure_kci,
    [CIRCE_MEASURE_NOCCO] = measure_normalized, [CIRCE_MEASURE_KPC] = measure_normalized,
};
