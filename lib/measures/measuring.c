/* Makes a measure from its options: parses kernels, settles widths, fits the conditional mean, and keeps a data set.
 *
 * If the width of y or the ridge is a grid, leave-one-out in the fit chooses both, for circe and for the measures that
 * regress the batch. z is seen through its kernel, or as it is for gcm. A single value of each is used as given. nocco
 * and kpc have no ridge, and use the median heuristic if there is not exactly one width. */
#include "measures/measuring_parts.h"

#include "core/settings.h"

#include <math.h>
#include <string.h>

void circe_measure_options_init(circe_measure_options *options, circe_measure_kind kind) {
    if (options == NULL) return;
    *options = (circe_measure_options){.kind = kind,
                                       .estimator = CIRCE_USTAT,
                                       .sigma2_x = CIRCE_SIGMA2_MEDIAN,
                                       .sigma2_z = 1.0,
                                       .per_dimension = 1,
                                       .epsilon = 1e-3,
                                       .method = CIRCE_METHOD_AUTO,
                                       .dtype = CIRCE_FLOAT32,
                                       .rff_features = 512,
                                       .gcm_regression = CIRCE_GCM_KERNEL,
                                       .gcm_combine = CIRCE_GCM_MAX,
                                       .gcm_sharpness = 1.0,
                                       .gcm_previous_batch = 1};
}

static void unbind(circe_measure *m);

/* ---- life -------------------------------------------------------------------------------------------------------- */

static circe_status check_width(double sigma2, const char *name) {
    if (sigma2 >= 0.0 && isfinite(sigma2)) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "sigma2 of %s is %g; it must be positive, or 0 for the median heuristic",
                      name, sigma2);
}

static circe_status check_options(const circe_measure_options *o) {
    const circe_measure_row *row = circe_measure_row_of(o->kind);
    if (row == NULL || o->kind == CIRCE_MEASURE_NONE)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "measure %d is not one of circe, circe-spectral, hsic, hscic, gcm, kci, nocco, kpc",
                          (int)o->kind);
    if (o->dtype != CIRCE_FLOAT32 && o->dtype != CIRCE_FLOAT64)
        return circe_fail(CIRCE_ERR_ARGUMENT, "dtype %d is neither float32 nor float64", (int)o->dtype);
    if (o->kind == CIRCE_MEASURE_HSIC && o->estimator != CIRCE_BIASED && o->estimator != CIRCE_USTAT)
        return circe_fail(CIRCE_ERR_ARGUMENT, "hsic has the estimators biased and ustat, not %s",
                          circe_estimator_name(o->estimator));
    if (!(row->uses & CIRCE_USES_MEAN) && o->method == CIRCE_METHOD_RFF)
        return circe_fail(CIRCE_ERR_ARGUMENT, "method rff is for circe; %s takes auto, lowrank or dense", row->name);
    if (o->method == CIRCE_METHOD_RFF && o->rff_features < 1)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the number of random features is %lld; it must be positive",
                          (long long)o->rff_features);
    if (o->normalize_x < CIRCE_NORMALIZE_NONE || o->normalize_x > CIRCE_NORMALIZE_BATCH)
        return circe_fail(CIRCE_ERR_ARGUMENT, "normalize_x %d is not one of none, rows, batch", (int)o->normalize_x);
    if (o->normalize_x != CIRCE_NORMALIZE_NONE && !(row->uses & CIRCE_USES_KERNEL_X))
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s has no kernel of x, so x cannot be normalised for it", row->name);
    bool word = o->sigma2_x == CIRCE_SIGMA2_MEDIAN || o->sigma2_x == CIRCE_SIGMA2_RUNNING;
    circe_status status = word ? CIRCE_OK : check_width(o->sigma2_x, "x");
    return status == CIRCE_OK ? check_width(o->sigma2_z, "z") : status;
}

/* Whether y is seen through its kernel. */
static bool regresses(const circe_measure *m) {
    return circe__uses(m, CIRCE_USES_MEAN) || circe__measure_smooths(m) || circe__measure_holds_out(m);
}

static circe_status make_kernel(circe_measure *m, const circe_kernel *given, const char *text, circe_kernel **kernel) {
    if (given != NULL) return circe__kernel_copy(m->context, given, kernel);
    return circe_kernel_parse(m->context, text != NULL ? text : "gaussian", kernel);
}

static circe_status copy_grid(const circe_measure *m, const double *from, int64_t n, double **to) {
    if (n < 1) return CIRCE_OK;
    *to = circe__alloc(m->context, n, sizeof **to);
    if (*to != NULL) memcpy(*to, from, (size_t)n * sizeof **to);
    return *to != NULL ? CIRCE_OK : CIRCE_ERR_MEMORY;
}

static circe_status build(circe_measure *m) {
    const circe_measure_options *o = &m->options;
    m->workspace = o->workspace;
    circe_status status = o->workspace == NULL ? circe_workspace_create(m->context, &m->workspace) : CIRCE_OK;
    if (status == CIRCE_OK && circe__uses(m, CIRCE_USES_KERNEL_X))
        status = make_kernel(m, o->kernels.x, o->kernel_x, &m->asked_x);
    if (status == CIRCE_OK && circe__uses(m, CIRCE_USES_KERNEL_Z))
        status = make_kernel(m, o->kernels.z, o->kernel_z, &m->kernel_z);
    if (status == CIRCE_OK && regresses(m)) status = make_kernel(m, o->kernels.y, o->kernel_y, &m->asked_y);
    if (status == CIRCE_OK) status = copy_grid(m, o->sigma2_y, o->n_sigma2_y, &m->sigma2_y);
    if (status == CIRCE_OK) status = copy_grid(m, o->ridge, o->n_ridge, &m->ridges);
    return status;
}

circe_status circe_measure_create(circe_context *context, const circe_measure_options *options,
                                  circe_measure **measure) {
    CIRCE_OWN_SETTINGS;
    if (context == NULL || options == NULL || measure == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, options and measure must not be NULL");
    *measure = NULL;
    circe_status status = check_options(options);
    if (status != CIRCE_OK) return status;
    circe_measure *m = circe__calloc(context, 1, sizeof *m);
    if (m == NULL) return CIRCE_ERR_MEMORY;
    m->context = context;
    m->options = *options;
    m->row = circe_measure_row_of(options->kind);
    m->measure = circe__measure_functions[options->kind];
    m->n_rows = -1;
    status = build(m);
    if (status != CIRCE_OK) {
        circe_measure_destroy(m);
        return status;
    }
    /* The caller may free its arrays, kernels and texts now. */
    m->options.kernels = (circe_kernels){0};
    m->options.kernel_x = m->options.kernel_y = m->options.kernel_z = NULL;
    m->options.sigma2_y = m->sigma2_y;
    m->options.ridge = m->ridges;
    *measure = m;
    return CIRCE_OK;
}

static void forget_mean(circe_measure *m) {
    circe_cme_destroy(m->own_mean);
    circe_cme_destroy(m->exact);
    circe_kernel_destroy(m->kernel_y);
    m->own_mean = m->exact = NULL;
    m->mean = NULL;
    m->kernel_y = NULL;
    m->ridge = 0.0;
}

static void forget_kernels_x(circe_measure *m) {
    while (m->n_x_kernels > 0) circe_kernel_destroy(m->x_kernels[--m->n_x_kernels].kernel);
}

void circe_measure_destroy(circe_measure *m) {
    if (m == NULL) return;
    unbind(m);
    forget_mean(m);
    if (m->options.workspace == NULL) circe_workspace_destroy(m->workspace);
    circe_kernel_destroy(m->asked_x);
    circe_kernel_destroy(m->asked_y);
    circe_kernel_destroy(m->kernel_z);
    forget_kernels_x(m);
    circe__measure_forget_widths(m);
    circe__free(m->context, m->x_kernels);
    circe__free(m->context, m->sigma2_y);
    circe__free(m->context, m->ridges);
    circe__free(m->context, m);
}

circe_status circe_measure_like(const circe_measure *other, circe_measure **measure) {
    CIRCE_OWN_SETTINGS;
    if (other == NULL || measure == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "other and measure must not be NULL");
    circe_measure_options options = other->options;
    options.kernels =
        (circe_kernels){other->asked_x, other->kernel_y != NULL ? other->kernel_y : other->asked_y, other->kernel_z};
    options.gcm_previous_batch = 0;
    options.workspace = NULL;
    circe_status status = circe_measure_create(other->context, &options, measure);
    if (status != CIRCE_OK) return status;
    circe_measure *m = *measure;
    m->mean = other->exact != NULL ? other->exact : other->mean;
    m->ridge = other->ridge;
    m->cols_y = other->cols_y;
    m->cols_z = other->cols_z;
    m->leader = other->leader != NULL ? other->leader : other;
    if (other->kernel_y != NULL) status = circe__kernel_copy(m->context, other->kernel_y, &m->kernel_y);
    if (status == CIRCE_OK) return CIRCE_OK;
    circe_measure_destroy(m);
    *measure = NULL;
    return status;
}

void circe_measure_set_ranks(circe_measure *m, const circe_ranks *ranks) {
    if (m != NULL) circe_workspace_set_ranks(m->workspace, ranks);
}

circe_status circe_measure_set_weights(circe_measure *m, const double *weights, int64_t n) {
    if (m == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "measure must not be NULL");
    return circe_workspace_set_weights(m->workspace, weights, n);
}

int circe_measure_has_weights(const circe_measure *m) { return m != NULL && m->weights != NULL; }

const circe_cme *circe_measure_mean(const circe_measure *m) { return m == NULL ? NULL : m->mean; }

/* ---- widths ------------------------------------------------------------------------------------------------------ */

static double width(const circe_measure *m, double sigma2, int64_t cols) {
    return m->options.per_dimension ? sigma2 * (double)cols : sigma2;
}

static circe_status bind_width(const circe_measure *m, double sigma2, const circe_mat *points, const char *name,
                               circe_kernel *kernel) {
    if (circe_kernel_n_free(kernel) == 0) return CIRCE_OK;
    if (sigma2 != 0.0) return circe_kernel_bind(kernel, width(m, sigma2, points->cols));
    circe_status status = circe_kernel_bind_median(kernel, points);
    if (status == CIRCE_OK) return CIRCE_OK;
    return circe_fail(status, "the width of %s's kernel by the median heuristic: %s", name, circe_last_error());
}

circe_status circe_measure_set_kernel_x(circe_measure *m, const circe_kernel *kernel) {
    CIRCE_OWN_SETTINGS;
    circe_kernel *copy = NULL;
    if (m == NULL || kernel == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "measure and kernel must not be NULL");
    if (m->asked_x == NULL) return CIRCE_OK;
    circe_status status = circe__kernel_copy(m->context, kernel, &copy);
    if (status != CIRCE_OK) return status;
    circe_kernel_destroy(m->asked_x);
    m->asked_x = copy;
    forget_kernels_x(m);
    circe__measure_describe(m);
    return CIRCE_OK;
}

/* With a median of the first x this x is what comes to the kernel. */
circe_status circe__measure_kernel_x(circe_measure *m, const circe_mat *x, const circe_kernel **kernel) {
    *kernel = m->asked_x;
    if (m->asked_x == NULL || circe_kernel_n_free(m->asked_x) == 0) return CIRCE_OK;
    for (int64_t k = 0; k < m->n_x_kernels; k++)
        if (m->x_kernels[k].cols == x->cols) {
            *kernel = m->x_kernels[k].kernel;
            return CIRCE_OK;
        }
    circe_kernel *made = NULL;
    circe__x_kernel *grown = circe__alloc(m->context, m->n_x_kernels + 1, sizeof *grown);
    circe_status status = grown == NULL ? CIRCE_ERR_MEMORY : circe__kernel_copy(m->context, m->asked_x, &made);
    if (status == CIRCE_OK)
        status =
            circe__measure_follows(m) ? circe_kernel_bind(made, 1.0) : bind_width(m, m->options.sigma2_x, x, "x", made);
    if (status != CIRCE_OK) {
        circe_kernel_destroy(made);
        circe__free(m->context, grown);
        return status;
    }
    if (m->n_x_kernels > 0) memcpy(grown, m->x_kernels, (size_t)m->n_x_kernels * sizeof *grown);
    grown[m->n_x_kernels++] = (circe__x_kernel){x->cols, made};
    circe__free(m->context, m->x_kernels);
    m->x_kernels = grown;
    *kernel = made;
    return CIRCE_OK;
}

circe_status circe_measure_settle_z(circe_measure *m, const circe_mat *z) {
    CIRCE_OWN_SETTINGS;
    if (m == NULL || z == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "measure and z must not be NULL");
    return m->kernel_z != NULL ? bind_width(m, m->options.sigma2_z, z, "z", m->kernel_z) : CIRCE_OK;
}

/* One width and one ridge: nothing is left to choose. */
static bool is_one_choice(const circe_measure *m) {
    return m->options.n_ridge == 1 && (circe_kernel_n_free(m->asked_y) == 0 || m->options.n_sigma2_y == 1);
}

static bool needs_fit(const circe_measure *m) {
    if (circe__uses(m, CIRCE_USES_MEAN) || circe__measure_holds_out(m)) return true;
    return circe__measure_smooths(m) && circe__uses(m, CIRCE_USES_RIDGE) && !is_one_choice(m);
}

static circe_status refuse_no_holdout(const circe_measure *m) {
    if (circe__uses(m, CIRCE_USES_MEAN))
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "%s needs a holdout, rows from which it learns the mean of z given y, but there is none",
                          m->row->name);
    if (circe__measure_holds_out(m))
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s regresses z on a holdout, but there is none", m->row->name);
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "%s chooses the width of y and the ridge by leave-one-out on a holdout, but there is none; give "
                      "one sigma2 of y and one ridge, or a holdout",
                      m->row->name);
}

static circe_status settle_y(circe_measure *m, const circe_mat *y) {
    const circe_measure_options *o = &m->options;
    if (circe__uses(m, CIRCE_USES_RIDGE)) m->ridge = o->ridge[0];
    if (circe__uses(m, CIRCE_USES_RIDGE) && (!(m->ridge > 0.0) || !isfinite(m->ridge)))
        return circe_fail(CIRCE_ERR_ARGUMENT, "the ridge is %g; it must be positive", m->ridge);
    circe_status status = circe__kernel_copy(m->context, m->asked_y, &m->kernel_y);
    if (status == CIRCE_OK) status = bind_width(m, o->n_sigma2_y == 1 ? o->sigma2_y[0] : 0.0, y, "y", m->kernel_y);
    if (status == CIRCE_OK) return CIRCE_OK;
    circe_kernel_destroy(m->kernel_y);
    m->kernel_y = NULL;
    return status;
}

circe_status circe__measure_settle(circe_measure *m, const circe_mat *y, const circe_mat *z) {
    circe_status status = circe_measure_settle_z(m, z);
    if (status != CIRCE_OK || !regresses(m) || m->kernel_y != NULL) return status;
    return needs_fit(m) ? refuse_no_holdout(m) : settle_y(m, y);
}

/* ---- the conditional mean ---------------------------------------------------------------------------------------- */

static circe_status check_rows(const circe_mat *y, const circe_mat *z, const char *of) {
    if (y->rows == z->rows) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "y of the %s has %lld rows and z has %lld; they must be the same points", of,
                      (long long)y->rows, (long long)z->rows);
}

/* Its kernel and ridge are those of batches from now on; of a model that the caller has, those that were left open. */
static circe_status adopt(circe_measure *m, const circe_cme *mean, bool is_given) {
    circe_cme_info info;
    bool keeps_kernel = is_given && circe_kernel_n_free(m->asked_y) == 0;
    circe_status status = circe_cme_get_info(mean, &info);
    if (status == CIRCE_OK)
        status = circe__kernel_copy(m->context, keeps_kernel ? m->asked_y : circe_cme_kernel_y(mean), &m->kernel_y);
    if (status != CIRCE_OK) return status;
    m->mean = mean;
    m->ridge = is_given && m->options.n_ridge == 1 ? m->ridges[0] : info.ridge;
    m->cols_y = info.dim_y;
    m->cols_z = info.dim_z;
    circe__measure_describe(m);
    return CIRCE_OK;
}

circe_status circe_measure_set_mean(circe_measure *m, const circe_cme *mean) {
    CIRCE_OWN_SETTINGS;
    circe_kernel *kernel_z = NULL;
    if (m == NULL || mean == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "measure and mean must not be NULL");
    if (!regresses(m)) return CIRCE_OK;
    if (circe__uses(m, CIRCE_USES_KERNEL_Z) && circe_kernel_n_free(m->kernel_z) > 0) {
        circe_status status = circe__kernel_copy(m->context, circe_cme_kernel_z(mean), &kernel_z);
        if (status != CIRCE_OK) return status;
        circe_kernel_destroy(m->kernel_z);
        m->kernel_z = kernel_z;
    }
    unbind(m);
    forget_mean(m);
    return adopt(m, mean, true);
}

/* The grid of widths, scaled; none: the library's own, which knows the rows. */
static circe_status width_grid(const circe_measure *m, const circe_mat *y, double **grid, int64_t *n) {
    *n = m->options.n_sigma2_y;
    if (*n == 0) return CIRCE_OK;
    *grid = circe__alloc(m->context, *n, sizeof **grid);
    for (int64_t i = 0; *grid != NULL && i < *n; i++) (*grid)[i] = width(m, m->sigma2_y[i], y->cols);
    return *grid != NULL ? CIRCE_OK : CIRCE_ERR_MEMORY;
}

static circe_status fit_mean(circe_measure *m, const circe_mat *y, const circe_mat *z, const circe_kernel *kernel_z) {
    const circe_measure_options *o = &m->options;
    circe_cme_options options;
    double *grid = NULL;
    circe_cme_options_init(&options);
    circe_status status = width_grid(m, y, &grid, &options.n_sigma2_y);
    options.method = o->method;
    options.sigma2_y = grid;
    options.ridge = o->ridge;
    options.n_ridge = o->n_ridge;
    options.seed = o->seed;
    options.weights = circe__weights_of(m->workspace);
    if (o->method == CIRCE_METHOD_RFF) {
        options.rff_batch = o->rff_features;
        options.rff_pool = 2 * o->rff_features;
    }
    if (status == CIRCE_OK) status = circe_cme_fit(m->context, y, z, m->asked_y, kernel_z, &options, &m->own_mean);
    circe__free(m->context, grid);
    return status == CIRCE_OK ? adopt(m, m->own_mean, false) : status;
}

/* The same regression without random features. */
static circe_status fit_exact(circe_measure *m, const circe_mat *y, const circe_mat *z) {
    circe_cme_options options;
    circe_cme_options_init(&options);
    options.ridge = &m->ridge;
    options.n_ridge = 1;
    options.seed = m->options.seed;
    options.weights = circe__weights_of(m->workspace);
    return circe_cme_fit(m->context, y, z, m->kernel_y, m->kernel_z, &options, &m->exact);
}

static circe_status fit(circe_measure *m, const circe_mat *y, const circe_mat *z) {
    circe_kernel *linear = NULL;
    if (!regresses(m) || !needs_fit(m)) return CIRCE_OK;
    if (y->rows < 1) return refuse_no_holdout(m);
    circe_status status = check_rows(y, z, "holdout");
    if (status == CIRCE_OK) status = circe__check_weights(m->workspace, y->rows);
    if (status == CIRCE_OK) status = circe_measure_settle_z(m, z);
    if (status != CIRCE_OK) return status;
    unbind(m);
    forget_mean(m);
    if (m->kernel_z == NULL) status = circe_kernel_create(m->context, CIRCE_KERNEL_LINEAR, 0.0, &linear);
    if (status == CIRCE_OK) status = fit_mean(m, y, z, linear != NULL ? linear : m->kernel_z);
    circe_kernel_destroy(linear);
    return status == CIRCE_OK && m->options.method == CIRCE_METHOD_RFF ? fit_exact(m, y, z) : status;
}

circe_status circe_measure_fit(circe_measure *m, const circe_mat *y, const circe_mat *z) {
    CIRCE_OWN_SETTINGS;
    if (m == NULL || y == NULL || z == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "measure, y and z must not be NULL");
    circe_status status = fit(m, y, z);
    circe__weights_used(m->workspace); /* used */
    return status;
}

/* ---- a data set -------------------------------------------------------------------------------------------------- */

static void unbind(circe_measure *m) {
    if (m->device != NULL) m->device->close(m);
    m->device = NULL;
    circe__measure_forget(m);
    circe__measure_forget_widths(m);
    circe_features_destroy(m->own_features);
    circe__free(m->context, m->y);
    circe__free(m->context, m->z);
    circe__free(m->context, m->weights);
    m->features = m->own_features = NULL;
    m->y = m->z = m->weights = NULL;
    m->n_rows = -1;
}

static circe_status check_data_set(const circe_measure *m, const circe_mat *y, const circe_mat *z) {
    bool uses_y = circe__uses(m, CIRCE_USES_Y);
    circe_status status = circe__check_data(z, "z", 1);
    if (status == CIRCE_OK && uses_y) status = circe__check_data(y, "y", 1);
    if (status == CIRCE_OK && uses_y) status = check_rows(y, z, "data set");
    if (status != CIRCE_OK || m->mean == NULL || (y->cols == m->cols_y && z->cols == m->cols_z)) return status;
    return circe_fail(CIRCE_ERR_SHAPE,
                      "y and z of the data set have %lld and %lld columns; those of the holdout have %lld and %lld",
                      (long long)y->cols, (long long)z->cols, (long long)m->cols_y, (long long)m->cols_z);
}

static circe_status copy_rows(circe_measure *m, const circe_mat *from, int64_t cols, double **copy) {
    *copy = circe__alloc(m->context, circe__max(from->rows * cols, 1), sizeof **copy);
    if (*copy == NULL) return CIRCE_ERR_MEMORY;
    circe_mat to = circe__mat(*copy, from->rows, cols, CIRCE_FLOAT64);
    if (cols > 0) circe__copy_mat(from, &to);
    return CIRCE_OK;
}

/* circe keeps residual features; if there are none (random features), and for the others, y and z themselves. */
static circe_status keep_rows(circe_measure *m, const circe_mat *y, const circe_mat *z) {
    circe_cme_info info = {0};
    if (m->mean != NULL) circe_cme_get_info(m->mean, &info);
    if (m->options.kind == CIRCE_MEASURE_CIRCE && info.method != CIRCE_METHOD_RFF) {
        circe_status made = circe_features_create(m->context, m->mean, y, z, m->options.dtype, &m->own_features);
        m->features = m->own_features;
        return made;
    }
    circe_status status = copy_rows(m, z, m->cols_z, &m->z);
    return status == CIRCE_OK ? copy_rows(m, m->cols_y > 0 ? y : z, m->cols_y, &m->y) : status;
}

/* The weights that were set become those of the data set; equal ones are none. */
static circe_status keep_weights(circe_measure *m, int64_t rows) {
    const double *weights = circe__weights_of(m->workspace);
    circe_status status = circe__check_weights(m->workspace, rows);
    if (status != CIRCE_OK || weights == NULL) return status;
    if (circe__all_equal(weights, rows)) return CIRCE_OK;
    m->weights = circe__alloc(m->context, rows, sizeof *m->weights);
    if (m->weights == NULL) return CIRCE_ERR_MEMORY;
    memcpy(m->weights, weights, (size_t)rows * sizeof *m->weights);
    return CIRCE_OK;
}

static circe_status bind_rows(circe_measure *m, const circe_mat *y, const circe_mat *z) {
    circe_status status = check_data_set(m, y, z);
    if (status == CIRCE_OK) status = circe__measure_settle(m, y, z);
    if (status != CIRCE_OK) return status;
    unbind(m);
    m->cols_y = circe__uses(m, CIRCE_USES_Y) ? y->cols : 0;
    m->cols_z = z->cols;
    status = keep_rows(m, y, z);
    if (status == CIRCE_OK) status = keep_weights(m, z->rows);
    if (status != CIRCE_OK) {
        unbind(m);
        return status;
    }
    m->n_rows = z->rows;
    circe__measure_describe(m);
    return CIRCE_OK;
}

circe_status circe_measure_bind(circe_measure *m, const circe_mat *y, const circe_mat *z) {
    CIRCE_OWN_SETTINGS;
    if (m == NULL || y == NULL || z == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "measure, y and z must not be NULL");
    circe_status status = bind_rows(m, y, z);
    circe__weights_used(m->workspace); /* used */
    return status;
}

circe_status circe_measure_bind_features(circe_measure *m, const circe_features *features) {
    CIRCE_OWN_SETTINGS;
    circe_mat y;
    if (m == NULL || features == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "measure and features must not be NULL");
    if (m->options.kind != CIRCE_MEASURE_CIRCE || m->mean == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "only circe with a mean can be bound to residual features; bind %s to y and z", m->row->name);
    circe_status status = circe_features_get(features, &y, NULL);
    if (status != CIRCE_OK) return status;
    unbind(m);
    status = keep_weights(m, y.rows);
    circe__weights_used(m->workspace); /* used */
    if (status != CIRCE_OK) return status;
    m->features = features;
    m->n_rows = y.rows;
    circe__measure_describe(m);
    return CIRCE_OK;
}
