/* From options to a regulariser: widths bound, conditional mean fitted, rows kept.
 *
 * Widths of y and the ridge come from leave-one-out on the holdout where either is a grid, for hscic and gcm as for
 * circe; z is seen through its kernel, for gcm as itself. One value of each is taken as it is. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/regularizer.h"
#include "train/regularizer_parts.h"

/* libcirce's own, which per_dimension may have to scale. */
static const double default_sigma2_y[] = {1.0, 0.1, 0.01, 0.001};

void train_regularizer_options_init(train_regularizer_options *options) {
    *options = (train_regularizer_options){.estimator = CIRCE_USTAT,
                                           .sigma2_x = 0.1,
                                           .sigma2_z = 1.0,
                                           .per_dimension = true,
                                           .method = CIRCE_METHOD_AUTO,
                                           .dtype = CIRCE_FLOAT32,
                                           .rff_features = 512,
                                           .gcm_regression = CIRCE_GCM_KERNEL,
                                           .gcm_combine = CIRCE_GCM_MAX,
                                           .gcm_previous_batch = true};
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

static circe_status check_options(const train_regularizer_options *o) {
    const char *name = train_regularizer_name(o->kind);
    if ((int)o->kind < 0 || (int)o->kind >= train_regularizer_n_rows)
        return circe_fail(CIRCE_ERR_ARGUMENT, "regulariser %d is none of none, circe, hscic, gcm, hsic", (int)o->kind);
    if (o->dtype != CIRCE_FLOAT32 && o->dtype != CIRCE_FLOAT64)
        return circe_fail(CIRCE_ERR_ARGUMENT, "dtype %d is neither float32 nor float64", (int)o->dtype);
    if (!(o->sigma2_x > 0.0) || !isfinite(o->sigma2_x))
        return circe_fail(CIRCE_ERR_ARGUMENT, "sigma2 of x is %g; it must be positive", o->sigma2_x);
    if (!(o->sigma2_z >= 0.0) || !isfinite(o->sigma2_z))
        return circe_fail(CIRCE_ERR_ARGUMENT, "sigma2 of z is %g; it must be positive, or 0 for the median heuristic",
                          o->sigma2_z);
    if (o->kind == TRAIN_REG_HSIC && o->estimator != CIRCE_BIASED && o->estimator != CIRCE_USTAT)
        return circe_fail(CIRCE_ERR_ARGUMENT, "hsic has the estimators biased and ustat; not %s",
                          circe_estimator_name(o->estimator));
    if (o->kind != TRAIN_REG_CIRCE && o->method == CIRCE_METHOD_RFF)
        return circe_fail(CIRCE_ERR_ARGUMENT, "method rff is for circe; %s takes auto, lowrank or dense", name);
    if (o->method == CIRCE_METHOD_RFF && o->rff_features < 1)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the number of random features is %lld; it must be positive",
                          (long long)o->rff_features);
    return CIRCE_OK;
}

static double element(const circe_mat *m, int64_t i, int64_t j) {
    if (m->dtype == CIRCE_FLOAT32) return (double)((const float *)m->data)[i * m->ld + j];
    return ((const double *)m->data)[i * m->ld + j];
}

static circe_status check_points(const circe_mat *m, const char *name) {
    if (m->cols < 1) return circe_fail(CIRCE_ERR_SHAPE, "the regulariser needs %s, and it has no columns", name);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->cols; j++)
            if (!isfinite(element(m, i, j)))
                return circe_fail(CIRCE_ERR_VALUE, "%s holds %g in row %lld, column %lld (from 0)", name,
                                  element(m, i, j), (long long)i, (long long)j);
    return CIRCE_OK;
}

static circe_status check_rows(const circe_mat *y, const circe_mat *z, const char *of) {
    if (y->rows == z->rows) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "y of the %s has %lld rows and z has %lld; they must be the same points", of,
                      (long long)y->rows, (long long)z->rows);
}

static circe_status check_training(const train_regularizer *r, const circe_mat *y, const circe_mat *z) {
    circe_status status = check_points(z, "z");
    if (status == CIRCE_OK && (r->row->needs & TRAIN_USES_Y)) {
        status = check_points(y, "y");
        if (status == CIRCE_OK) status = check_rows(y, z, "training rows");
    }
    return status;
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

static double width(const train_regularizer *r, double sigma2, int64_t cols) {
    return r->options.per_dimension ? sigma2 * (double)cols : sigma2;
}

static circe_status make_kernel(train_regularizer *r, const char *text, circe_kernel **kernel) {
    return circe_kernel_parse(r->context, text != NULL ? text : "gaussian", kernel);
}

static circe_status make_kernel_z(train_regularizer *r, const circe_mat *z) {
    circe_status status = make_kernel(r, r->options.kernel_z, &r->kernel_z);
    if (status != CIRCE_OK || circe_kernel_n_free(r->kernel_z) == 0) return status;
    if (r->options.sigma2_z > 0.0) return circe_kernel_bind(r->kernel_z, width(r, r->options.sigma2_z, z->cols));
    status = circe_kernel_bind_median(r->kernel_z, z);
    if (status == CIRCE_OK) return CIRCE_OK;
    return circe_fail(status, "the width of z's kernel by the median heuristic: %s", circe_last_error());
}

/* One width and one ridge: nothing is left to choose. */
static bool is_settled(const train_regularizer *r) {
    const train_regularizer_options *o = &r->options;
    return o->n_ridge == 1 && (circe_kernel_n_free(r->kernel_y) == 0 || o->n_sigma2_y == 1);
}

static bool needs_fit(const train_regularizer *r) {
    if ((r->row->needs & TRAIN_USES_FIT) || train_regularizer_holds_out(r)) return true;
    return train_regularizer_smooths(r) && !is_settled(r);
}

static circe_status settle(train_regularizer *r) {
    r->ridge = r->options.ridge[0];
    if (!(r->ridge > 0.0) || !isfinite(r->ridge))
        return circe_fail(CIRCE_ERR_ARGUMENT, "the ridge is %g; it must be positive", r->ridge);
    if (circe_kernel_n_free(r->kernel_y) == 0) return CIRCE_OK;
    return circe_kernel_bind(r->kernel_y, width(r, r->options.sigma2_y[0], r->cols_y));
}

/* ---- the conditional mean --------------------------------------------------------------------------------------- */

static circe_status refuse_no_holdout(const train_regularizer *r) {
    if (r->row->needs & TRAIN_USES_FIT)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "%s needs a holdout: rows, not trained on, from which the mean of z given y is learned; "
                          "there is none",
                          r->row->name);
    if (train_regularizer_holds_out(r))
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s is to regress z on a holdout, and there is none", r->row->name);
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "%s chooses the width of y and the ridge by leave-one-out on a holdout, and there is none; give "
                      "one sigma2 of y and one ridge, or a holdout",
                      r->row->name);
}

/* The grid of widths, scaled; the caller frees it. */
static double *width_grid(const train_regularizer *r, int64_t *n) {
    bool given = r->options.n_sigma2_y > 0;
    const double *from = given ? r->options.sigma2_y : default_sigma2_y;
    *n = given ? r->options.n_sigma2_y : (int64_t)(sizeof default_sigma2_y / sizeof *default_sigma2_y);
    double *grid = malloc((size_t)*n * sizeof *grid);
    for (int64_t i = 0; grid != NULL && i < *n; i++) grid[i] = width(r, from[i], r->cols_y);
    return grid;
}

/* The same regression without random features. */
static circe_status fit_exact(train_regularizer *r, const circe_mat *y, const circe_mat *z) {
    circe_cme_options options;
    circe_cme_options_init(&options);
    options.ridge = &r->ridge;
    options.n_ridge = 1;
    options.seed = r->options.seed;
    return circe_cme_fit(r->context, y, z, r->kernel_y, r->kernel_z, &options, &r->exact);
}

/* Kernel and ridge of the fit are those of batches from now on. */
static circe_status adopt(train_regularizer *r) {
    circe_cme_info info;
    circe_kernel *chosen = NULL;
    circe_status status = circe_cme_get_info(r->cme, &info);
    if (status == CIRCE_OK) status = circe_kernel_copy(circe_cme_kernel_y(r->cme), &chosen);
    if (status != CIRCE_OK) return status;
    circe_kernel_destroy(r->kernel_y);
    r->kernel_y = chosen;
    r->ridge = info.ridge;
    return CIRCE_OK;
}

static circe_status fit(train_regularizer *r, const circe_mat *y, const circe_mat *z) {
    circe_cme_options options;
    circe_kernel *linear = NULL;
    const train_regularizer_options *o = &r->options;
    if (y->rows < 1) return refuse_no_holdout(r);
    circe_status status = check_rows(y, z, "holdout");
    if (status != CIRCE_OK) return status;
    if (y->cols != r->cols_y || z->cols != r->cols_z)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "y and z of the holdout have %lld and %lld columns; those of training have "
                          "%lld and %lld",
                          (long long)y->cols, (long long)z->cols, (long long)r->cols_y, (long long)r->cols_z);
    circe_cme_options_init(&options);
    double *grid = width_grid(r, &options.n_sigma2_y);
    if (grid == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for the widths of y");
    options.method = o->method;
    options.sigma2_y = grid;
    options.ridge = o->ridge;
    options.n_ridge = o->n_ridge;
    options.seed = o->seed;
    if (o->method == CIRCE_METHOD_RFF) {
        options.rff_batch = o->rff_features;
        options.rff_pool = 2 * o->rff_features;
    }
    if (r->kernel_z == NULL) status = circe_kernel_create(r->context, CIRCE_KERNEL_LINEAR, 0.0, &linear);
    if (status == CIRCE_OK)
        status = circe_cme_fit(r->context, y, z, r->kernel_y, linear != NULL ? linear : r->kernel_z, &options, &r->cme);
    circe_kernel_destroy(linear);
    free(grid);
    if (status != CIRCE_OK) return status;
    status = adopt(r);
    return status == CIRCE_OK && o->method == CIRCE_METHOD_RFF ? fit_exact(r, y, z) : status;
}

/* ---- rows of training ------------------------------------------------------------------------------------------- */

static double *copy_rows(const circe_mat *m, int64_t rows, int64_t cols) {
    double *copy = calloc((size_t)(rows * cols > 0 ? rows * cols : 1), sizeof *copy);
    for (int64_t i = 0; copy != NULL && i < rows; i++)
        for (int64_t j = 0; j < cols; j++) copy[i * cols + j] = element(m, i, j);
    return copy;
}

/* circe keeps residual features; where there are none (method rff), and for the others, y and z themselves. */
static circe_status keep_rows(train_regularizer *r, const circe_mat *y, const circe_mat *z) {
    if ((r->row->needs & TRAIN_USES_FIT) && r->options.method != CIRCE_METHOD_RFF)
        return circe_features_create(r->context, r->cme, y, z, r->options.dtype, &r->features);
    r->y = copy_rows(y, r->n_rows, r->cols_y);
    r->z = copy_rows(z, r->n_rows, r->cols_z);
    if (r->y != NULL && r->z != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY, "no memory for y and z of %lld training rows", (long long)r->n_rows);
}

/* ---- in words --------------------------------------------------------------------------------------------------- */

static void say(train_regularizer *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(train_regularizer *r, const char *format, ...) {
    size_t used = strlen(r->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->text + used, sizeof r->text - used, format, arguments);
    va_end(arguments);
}

static void describe(train_regularizer *r) {
    const train_regularizer_options *o = &r->options;
    bool gcm = o->kind == TRAIN_REG_GCM;
    say(r, "%s", r->row->name);
    if (o->kind == TRAIN_REG_CIRCE || o->kind == TRAIN_REG_HSIC) say(r, ", %s", circe_estimator_name(o->estimator));
    if (gcm)
        say(r, ", %s of T, %s regression", circe_gcm_combine_name(o->gcm_combine),
            circe_gcm_regression_name(o->gcm_regression));
    if (gcm && o->gcm_previous_batch) say(r, " on the previous batch");
    if (o->dtype == CIRCE_FLOAT64) say(r, ", in float64");
    if (!gcm) say(r, "; kernel of x gaussian(%g)%s", o->sigma2_x, o->per_dimension ? " times its columns" : "");
    if (r->kernel_y != NULL) say(r, "; kernel of y %s", circe_kernel_text(r->kernel_y));
    if (r->kernel_z != NULL) say(r, "; kernel of z %s", circe_kernel_text(r->kernel_z));
    if (r->ridge > 0.0) say(r, "; ridge %g", r->ridge);
    if (train_regularizer_holds_out(r)) say(r, "; z regressed on the holdout");
    if (r->cme == NULL) return;
    circe_cme_info info;
    circe_cme_get_info(r->cme, &info);
    say(r, "; leave-one-out error %.4g on %lld holdout rows, method %s", info.loo_error, (long long)info.rows,
        circe_method_name(info.method));
    if (o->method == CIRCE_METHOD_RFF) say(r, " with %lld features", (long long)o->rff_features);
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static circe_status build(train_regularizer *r, const circe_mat *y, const circe_mat *z, const circe_mat *holdout_y,
                          const circe_mat *holdout_z) {
    circe_status status = check_training(r, y, z);
    if (status == CIRCE_OK) status = circe_workspace_create(r->context, &r->workspace);
    if (status == CIRCE_OK && (r->row->needs & TRAIN_USES_KERNEL_Z)) status = make_kernel_z(r, z);
    bool regresses = (r->row->needs & TRAIN_USES_FIT) || train_regularizer_smooths(r) || train_regularizer_holds_out(r);
    if (status == CIRCE_OK && regresses) {
        status = make_kernel(r, r->options.kernel_y, &r->kernel_y);
        if (status == CIRCE_OK) status = needs_fit(r) ? fit(r, holdout_y, holdout_z) : settle(r);
    }
    return status == CIRCE_OK ? keep_rows(r, y, z) : status;
}

circe_status train_regularizer_create(circe_context *context, const train_regularizer_options *options,
                                      const circe_mat *y, const circe_mat *z, const circe_mat *holdout_y,
                                      const circe_mat *holdout_z, train_regularizer **regularizer) {
    static const circe_mat none = {.dtype = CIRCE_FLOAT64};
    if (context == NULL || options == NULL || y == NULL || z == NULL || regularizer == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, options, y, z and regularizer must not be NULL");
    *regularizer = NULL;
    circe_status status = check_options(options);
    if (status != CIRCE_OK || options->kind == TRAIN_REG_NONE) return status;
    train_regularizer *r = calloc(1, sizeof *r);
    if (r == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for a regulariser");
    r->context = context;
    r->options = *options;
    r->row = &train_regularizer_rows[options->kind];
    r->n_rows = z->rows;
    r->cols_y = (r->row->needs & TRAIN_USES_Y) ? y->cols : 0;
    r->cols_z = z->cols;
    status = build(r, y, z, holdout_y != NULL ? holdout_y : &none, holdout_z != NULL ? holdout_z : &none);
    if (status != CIRCE_OK) {
        train_regularizer_destroy(r);
        return status;
    }
    describe(r);
    /* The caller's arrays and texts may go now. */
    r->options.sigma2_y = r->options.ridge = NULL;
    r->options.kernel_y = r->options.kernel_z = NULL;
    *regularizer = r;
    return CIRCE_OK;
}
