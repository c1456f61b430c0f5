/* Fitting: the grid over sigma2 of y and the ridge, the choice between low rank and dense, the best model kept.
 *
 * If the kernel of y has no free width, the grid has one row. Each row needs one regression (a spectrum), which serves
 * every ridge. If a row has the best error so far, its weights are computed at once, so that only one spectrum exists
 * at a time. */
#include <math.h>
#include <string.h>

#include "cme/curves.h"

#include "core/settings.h"

enum {
    DENSE_ROWS = 512, /* up to here a dense fit takes a tenth of a second and is exact everywhere */
    DEFAULT_MAX_RANK = 4096,
};

/* Times the median heuristic of the rows: the units of y do not count. */
static const double default_widths[] = {10.0, 1.0, 0.1, 0.01, 0.001}, default_ridge[] = {0.01, 0.1, 1.0, 10.0, 100.0};

void circe_cme_options_init(circe_cme_options *options) {
    *options = (circe_cme_options){
        .method = CIRCE_METHOD_AUTO, .tolerance = 1e-12, .rff_pool = 1024, .rff_batch = 512, .rff_every = 100};
}

/* ---- the caller's options ---------------------------------------------------------------------------------------- */

static circe_status check_grid(const double *grid, int64_t n, const char *name) {
    enum { MAX_GRID = 1000 };
    if (n < 1 || n > MAX_GRID || grid == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the grid of %s has %lld values; it needs 1 to %d", name, (long long)n,
                          MAX_GRID);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(grid[i]) || grid[i] <= 0.0)
            return circe_fail(CIRCE_ERR_ARGUMENT, "%s is %g; it must be positive", name, grid[i]);
    return CIRCE_OK;
}

static circe_status fill_options(const circe_cme_options *given, circe_cme_options *options) {
    circe_cme_options_init(options);
    if (given != NULL) *options = *given;
    if (options->n_sigma2_y == 0) {
        options->sigma2_y = default_widths;
        options->n_sigma2_y = sizeof default_widths / sizeof *default_widths;
    }
    if (options->n_ridge == 0) {
        options->ridge = default_ridge;
        options->n_ridge = sizeof default_ridge / sizeof *default_ridge;
    }
    if (options->method < CIRCE_METHOD_AUTO || options->method > CIRCE_METHOD_RFF)
        return circe_fail(CIRCE_ERR_ARGUMENT, "method %d is not one of auto, lowrank, dense, rff",
                          (int)options->method);
    if (!(options->tolerance > 0.0 && options->tolerance < 1.0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "tolerance is %g; it must lie between 0 and 1", options->tolerance);
    if (options->max_rank < 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "max_rank is %lld; it must be positive, or 0 for the default",
                          (long long)options->max_rank);
    if (options->method == CIRCE_METHOD_RFF && (options->rff_pool < 1 || options->rff_batch < 0 ||
                                                options->rff_batch > options->rff_pool || options->rff_every < 1))
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "random features: %lld drawn, %lld used, every %lld batches; needed: drawn >= 1, used <= "
                          "drawn, every >= 1",
                          (long long)options->rff_pool, (long long)options->rff_batch, (long long)options->rff_every);
    circe_status status = check_grid(options->sigma2_y, options->n_sigma2_y, "sigma2 of y");
    return status == CIRCE_OK ? check_grid(options->ridge, options->n_ridge, "ridge") : status;
}

static bool is_constant(const double *points, int64_t rows, int64_t dim) {
    for (int64_t i = 1; i < rows; i++)
        if (memcmp(points, points + i * dim, (size_t)dim * sizeof *points) != 0) return false;
    return true;
}

/* ---- widths of y ------------------------------------------------------------------------------------------------- */

static bool is_relative(const circe_cme_options *options) { return options->sigma2_y == default_widths; }

/* Rounded to 24 bits, because ranks must agree with each other and with a single process in every bit of a width. */
static double rounded(double value) {
    int exponent = 0;
    double mantissa = frexp(value, &exponent);
    return ldexp(rint(mantissa * 0x1p24), exponent - 24);
}

/* The widths that a multiple of 1 means: for each free factor the median heuristic of its columns, or 1 if these are
 * constant.
 */
static circe_status find_units(const circe__holdout *holdout, const circe_kernel *kernel_y, double *units) {
    circe_mat y = circe_mat_f64(holdout->y, holdout->rows, holdout->dim_y);
    for (int64_t f = 0; f < kernel_y->n_factors; f++) {
        const circe_kernel_factor *factor = &kernel_y->factors[f];
        units[f] = 1.0;
        if (!circe__has_width(factor->kind) || factor->sigma2 != 0.0 || !is_relative(holdout->options)) continue;
        circe_status status = circe_median_sigma2(holdout->context, &y, factor->first_col, factor->n_cols, &units[f]);
        if (status == CIRCE_ERR_VALUE) units[f] = 1.0;
        if (status != CIRCE_OK && status != CIRCE_ERR_VALUE) return status;
        units[f] = rounded(units[f]);
    }
    return CIRCE_OK;
}

static double unit_of(const circe__holdout *holdout, const circe_kernel *kernel_y) {
    for (int64_t f = 0; f < kernel_y->n_factors; f++)
        if (circe__has_width(kernel_y->factors[f].kind) && kernel_y->factors[f].sigma2 == 0.0) return holdout->units[f];
    return 1.0;
}

/* The kernel with the widths of a row of the grid. */
static circe_status bind_row(const circe__holdout *holdout, const circe_kernel *kernel_y, int64_t row,
                             circe_kernel **bound) {
    circe_status status = circe__kernel_copy(holdout->context, kernel_y, bound);
    for (int64_t f = 0; status == CIRCE_OK && f < kernel_y->n_factors; f++) {
        circe_kernel_factor *factor = &(*bound)->factors[f];
        if (circe__has_width(factor->kind) && factor->sigma2 == 0.0)
            factor->sigma2 = holdout->options->sigma2_y[row] * holdout->units[f];
    }
    return status;
}

/* -1 or 1: the best width is the smallest or the largest of several, and one beyond might be better. In the library's
 * own grid, the largest width makes nearly a straight line, so it counts only if it lowers the error by a tenth. */
static int edge_of(const circe_cme *cme, const circe__holdout *holdout) {
    int64_t n = cme->n_sigma2_y, n_ridge = cme->n_ridge, best = 0, low = 0, high = 0, next = -1;
    if (cme->sigma2_y == NULL || n < 2) return 0;
    for (int64_t r = 0; r < n; r++) {
        if (cme->sigma2_y[r] == cme->info.sigma2_y) best = r;
        if (cme->sigma2_y[r] < cme->sigma2_y[low]) low = r;
        if (cme->sigma2_y[r] > cme->sigma2_y[high]) high = r;
    }
    if (cme->sigma2_y[low] == cme->sigma2_y[high]) return 0;
    if (best == low) return -1;
    if (best != high || !is_relative(holdout->options)) return best == high ? 1 : 0;
    double error = INFINITY;
    for (int64_t r = 0; r < n; r++)
        if (r != high && (next < 0 || cme->sigma2_y[r] > cme->sigma2_y[next])) next = r;
    for (int64_t l = 0; l < n_ridge; l++) error = fmin(error, cme->error[next * n_ridge + l]);
    return cme->info.loo_error < 0.9 * error ? 1 : 0;
}

static circe_status warn_of_edge(circe_cme *cme, const circe__holdout *holdout) {
    circe_mat y = circe_mat_f64(holdout->y, holdout->rows, holdout->dim_y);
    double median = 0.0;
    cme->info.width_at_edge = is_constant(holdout->y, holdout->rows, holdout->dim_y) ? 0 : edge_of(cme, holdout);
    if (cme->info.width_at_edge == 0) return CIRCE_OK;
    circe_status status = circe_median_sigma2(holdout->context, &y, 0, -1, &median);
    if (status != CIRCE_OK) return status == CIRCE_ERR_VALUE ? CIRCE_OK : status;
    const char *which = cme->info.width_at_edge < 0 ? "smallest" : "largest";
    return circe__cme_warn(cme,
                           "leave-one-out chose the %s width tried for y, sigma2 %.4g; a %s one may fit better (the "
                           "squared distances in y have the median %.4g)",
                           which, cme->info.sigma2_y, cme->info.width_at_edge < 0 ? "smaller" : "larger", median);
}

/* ---- one row of the grid ----------------------------------------------------------------------------------------- */

static int64_t max_rank_y(const circe__holdout *holdout) {
    int64_t asked = holdout->options->max_rank;
    return circe__min(asked > 0 ? asked : DEFAULT_MAX_RANK, holdout->rows);
}

/* Bytes that a dense fit takes on this machine. */
static double dense_bytes(const circe__fit_by *by, const circe_cme_options *options, int64_t rows, int64_t rank_z) {
    return by == NULL ? circe__dense_fit_bytes(rows, rank_z) : by->ops->dense_bytes(rows, rank_z, options->n_ridge);
}

static circe_status prepare_dense(circe__holdout *holdout, const circe_kernel *kernel_y,
                                  circe__regression *regression) {
    return (holdout->by == NULL ? circe__dense_prepare : holdout->by->ops->dense_prepare)(holdout, kernel_y,
                                                                                          regression);
}

/* Whether the matrix of all rows fits, as every rank sees it. */
static bool dense_is_possible(circe__holdout *holdout) {
    int64_t rank_z = holdout->z_basis != NULL ? holdout->z_basis->rank : 1;
    double bytes = dense_bytes(holdout->by, holdout->options, holdout->rows, rank_z);
    double tight = bytes > circe__memory_available(holdout->context);
    circe__sum(holdout->by, &tight, 1);
    return tight == 0.0 && (holdout->by != NULL || holdout->rows <= CIRCE__MAX_EIGEN);
}

/* auto: low rank where a third of the rows or fewer are pivots, else dense where memory allows. A linear kernel of y
 * has low rank in few rows too, and its dense matrix would lose what tells rows far from 0 apart. */
static circe_status prepare(circe__holdout *holdout, const circe_kernel *kernel_y, circe__regression *regression) {
    circe_method method = holdout->options->method;
    if (method == CIRCE_METHOD_LOWRANK)
        return circe__lowrank_prepare(holdout, kernel_y, max_rank_y(holdout), regression);
    bool small = holdout->rows <= DENSE_ROWS && !circe__is_linear(kernel_y->factors, kernel_y->n_factors);
    if (method == CIRCE_METHOD_DENSE || small) return prepare_dense(holdout, kernel_y, regression);
    int64_t worth = circe__min(max_rank_y(holdout), holdout->rows / 3);
    circe_status status = circe__lowrank_prepare(holdout, kernel_y, worth, regression);
    if (status != CIRCE_ERR_RANK) return status;
    if (!dense_is_possible(holdout)) return status; /* whose text says what would help */
    circe__log(holdout->context, CIRCE_LOG_INFO, "%s: dense instead", circe_last_error());
    return prepare_dense(holdout, kernel_y, regression);
}

/* Refuses, from a sample, what the fit would refuse only after its longest part: a y or z whose kernel matrix does not
 * have low rank, if a dense fit does not fit into memory either. */
static circe_status judge(circe__holdout *holdout, const circe_kernel *kernel_y, const circe_kernel *kernel_z) {
    const circe_cme_options *options = holdout->options;
    if (holdout->rows <= CIRCE__ALL_ROWS || options->method == CIRCE_METHOD_DENSE) return CIRCE_OK;
    circe_status status = circe__judge_rank(holdout->context, kernel_z, holdout->z, holdout->rows, holdout->dim_z,
                                            options->tolerance, CIRCE__ALL_ROWS, options->seed, 0.0, "z");
    bool free_width = circe_kernel_n_free(kernel_y) > 0;
    if (options->method != CIRCE_METHOD_LOWRANK && dense_is_possible(holdout)) return status;
    for (int64_t row = 0; status == CIRCE_OK && row < (free_width ? options->n_sigma2_y : 1); row++) {
        circe_kernel *bound = NULL;
        double sigma2 = free_width ? options->sigma2_y[row] * unit_of(holdout, kernel_y) : 0.0;
        status = bind_row(holdout, kernel_y, row, &bound);
        if (status == CIRCE_OK)
            status = circe__judge_rank(holdout->context, bound, holdout->y, holdout->rows, holdout->dim_y,
                                       options->tolerance, max_rank_y(holdout), options->seed, sigma2, "y");
        circe_kernel_destroy(bound);
    }
    return circe__agree(holdout->by, status);
}

/* Errors of every ridge; ridges below what is safe are raised to it, unless forced. */
static circe_status fill_row(circe__holdout *holdout, const circe__regression *regression, double *ridge_used,
                             double *error) {
    const circe_cme_options *options = holdout->options;
    double safe = circe__regression_safe_ridge(regression, holdout->rows);
    for (int64_t l = 0; l < options->n_ridge; l++)
        ridge_used[l] = options->force_ridge ? options->ridge[l] : fmax(options->ridge[l], safe);
    if (regression->solver == CIRCE_METHOD_LOWRANK)
        return circe__lowrank_loo(holdout, regression, ridge_used, options->n_ridge, error);
    return (holdout->by == NULL ? circe__dense_loo : holdout->by->ops->dense_loo)(holdout, regression, ridge_used,
                                                                                  options->n_ridge, error);
}

/* The best cell of a row, if it beats the best so far, becomes the model. */
static circe_status keep_if_better(circe_cme *cme, circe__holdout *holdout, circe__regression *regression,
                                   const circe_kernel *kernel_y, int64_t row) {
    const circe_cme_options *options = holdout->options;
    const double *error = cme->error + row * options->n_ridge, *used = cme->ridge_used + row * options->n_ridge;
    int64_t best = 0;
    for (int64_t l = 1; l < options->n_ridge; l++)
        if (error[l] < error[best]) best = l;
    if (row > 0 && !(error[best] < cme->info.loo_error)) return CIRCE_OK;

    double *weights = NULL, *inverse = NULL;
    circe_kernel *kernel = NULL;
    circe_status status = circe__regression_weights(cme->context, regression, cme->z_basis.rank, used[best], &weights);
    bool exact = holdout->rows <= DENSE_ROWS && !circe__basis_is_columns(&cme->z_basis);
    if (status == CIRCE_OK && regression->solver == CIRCE_METHOD_DENSE && exact)
        status = circe__regression_inverse(cme->context, regression, used[best], &inverse);
    if (status == CIRCE_OK && regression->solver == CIRCE_METHOD_DENSE && holdout->root != NULL && weights != NULL) {
        circe__scale_by_roots(holdout->root, holdout->rows, cme->z_basis.rank, false, weights);
        if (inverse != NULL) circe__scale_by_roots(holdout->root, holdout->rows, holdout->rows, true, inverse);
    }
    if (status == CIRCE_OK) status = circe__kernel_copy(cme->context, kernel_y, &kernel);
    if (status != CIRCE_OK) {
        circe__free(cme->context, weights);
        circe__free(cme->context, inverse);
        return status;
    }
    circe__free(cme->context, cme->weights);
    circe__free(cme->context, cme->inverse);
    circe_kernel_destroy(cme->kernel_y);
    circe__basis_free(&cme->y_basis);
    cme->weights = weights;
    cme->inverse = inverse;
    cme->kernel_y = kernel;
    cme->y_basis = regression->y_basis; /* moved */
    cme->y_basis.by = NULL;
    regression->y_basis = (circe__basis){0};
    cme->info.solver = regression->solver;
    cme->info.rank_y = regression->n;
    cme->info.trace_residual_y = regression->trace_residual;
    cme->info.sigma2_y = cme->sigma2_y == NULL ? 0.0 : cme->sigma2_y[row];
    cme->info.ridge = used[best];
    cme->info.ridge_safe = circe__regression_safe_ridge(regression, holdout->rows);
    cme->info.ridge_raised = used[best] > options->ridge[best];
    cme->info.loo_error = error[best];
    return CIRCE_OK;
}

static circe_status fit_row(circe_cme *cme, circe__holdout *holdout, const circe_kernel *kernel_y, int64_t row) {
    const circe_cme_options *options = holdout->options;
    circe__regression regression = {0};
    circe_kernel *bound = NULL;
    circe_status status = bind_row(holdout, kernel_y, row, &bound);
    if (status == CIRCE_OK) status = prepare(holdout, bound, &regression);
    if (status == CIRCE_OK)
        status = fill_row(holdout, &regression, cme->ridge_used + row * options->n_ridge,
                          cme->error + row * options->n_ridge);
    if (status == CIRCE_OK) status = keep_if_better(cme, holdout, &regression, bound, row);
    circe__regression_free(holdout->context, &regression);
    circe_kernel_destroy(bound);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* The basis of z: of full rank where it must be and the rows are few enough for that. */
static circe_status fit_z(circe_cme *cme, const circe__holdout *holdout, const circe_kernel *kernel_z) {
    int64_t limit = circe__max(circe__min(holdout->rows, CIRCE__ALL_ROWS), DEFAULT_MAX_RANK);
    circe_status status = circe__basis_init(holdout->context, kernel_z, holdout->dim_z, "z", &cme->z_basis);
    cme->z_basis.by = holdout->by;
    if (status == CIRCE_OK)
        status = circe__basis_cover(&cme->z_basis, holdout->z, holdout->rows, holdout->options->tolerance, limit,
                                    holdout->options->seed, "z");
    if (status == CIRCE_OK)
        status =
            circe__basis_outliers(&cme->z_basis, holdout->z, holdout->rows, 1.0, NULL, &cme->info.trace_residual_z);
    cme->z_basis.by = NULL;
    return status;
}

static circe_status init_table(circe_cme *cme, const circe__holdout *holdout, const circe_kernel *kernel_y) {
    circe_context *context = cme->context;
    const circe_cme_options *options = holdout->options;
    bool free_width = circe_kernel_n_free(kernel_y) > 0;
    int64_t rows = free_width ? options->n_sigma2_y : 1, cells = rows * options->n_ridge;
    if (free_width) cme->sigma2_y = circe__alloc(context, rows, sizeof(double));
    cme->ridge = circe__alloc(context, options->n_ridge, sizeof(double));
    cme->error = circe__calloc(context, cells, sizeof(double));
    cme->ridge_used = circe__calloc(context, cells, sizeof(double));
    if ((free_width && cme->sigma2_y == NULL) || cme->ridge == NULL || cme->error == NULL || cme->ridge_used == NULL)
        return CIRCE_ERR_MEMORY;
    for (int64_t r = 0; free_width && r < rows; r++)
        cme->sigma2_y[r] = options->sigma2_y[r] * unit_of(holdout, kernel_y);
    memcpy(cme->ridge, options->ridge, (size_t)options->n_ridge * sizeof(double));
    cme->n_sigma2_y = rows;
    cme->n_ridge = options->n_ridge;
    return CIRCE_OK;
}

/* If the squared differences of y overflow or vanish, no sigma2 that a double can represent makes two rows of y look
 * similar or different. */
static circe_status check_scale(const circe_mat *y, const circe_kernel *kernel_y) {
    const double large = 1e155, small = 1e-163;
    double largest = 0.0;
    if (circe_kernel_n_free(kernel_y) == 0) return CIRCE_OK;
    for (int64_t i = 1; i < y->rows; i++)
        for (int64_t c = 0; c < y->cols; c++)
            largest = fmax(largest, fabs(0.5 * circe__at(y, i, c) - 0.5 * circe__at(y, 0, c)));
    if (largest == 0.0 || (largest < large && largest > small)) return CIRCE_OK;
    return circe_fail(
        CIRCE_ERR_VALUE,
        "the numbers of y differ by %.3g, whose square no double can hold, so no width can work; %s y by %.0e", largest,
        largest > 1.0 ? "divide" : "multiply", largest > 1.0 ? largest : 1.0 / largest);
}

static circe_status collect_warnings(circe_cme *cme, const circe__holdout *holdout) {
    const circe_cme_options *options = holdout->options;
    const circe_cme_info *info = &cme->info;
    circe_status status = CIRCE_OK;
    if (is_constant(holdout->y, holdout->rows, holdout->dim_y))
        status = circe__cme_warn(cme, "y is constant: conditioning on it changes nothing");
    if (status == CIRCE_OK && is_constant(holdout->z, holdout->rows, holdout->dim_z))
        status = circe__cme_warn(cme, "z is constant: nothing can depend on it");
    if (status == CIRCE_OK && info->ridge_raised)
        status = circe__cme_warn(cme,
                                 "a ridge below %.3g is lost in the rounding of this kernel matrix and gives wrong "
                                 "results; %.3g was used instead (force_ridge keeps yours)",
                                 info->ridge_safe, info->ridge);
    if (status == CIRCE_OK && options->force_ridge && info->ridge < info->ridge_safe)
        status = circe__cme_warn(cme,
                                 "the ridge %.3g is below %.3g, the smallest that the conditioning of the kernel "
                                 "matrix supports: rounding dominates the result",
                                 info->ridge, info->ridge_safe);
    if (status == CIRCE_OK && info->trace_residual_y > 100.0 * options->tolerance)
        status = circe__cme_warn(
            cme, "the low-rank features of y leave out a share of %.1e of the trace, above the tolerance %.1e",
            info->trace_residual_y, options->tolerance);
    if (status == CIRCE_OK && info->trace_residual_z > 100.0 * options->tolerance)
        status = circe__cme_warn(
            cme, "the low-rank features of z leave out a share of %.1e of the trace, above the tolerance %.1e",
            info->trace_residual_z, options->tolerance);
    return status;
}

/* Dense models keep the holdout's y; RFF models and small dense ones y and z. */
static circe_status keep_points(circe_cme *cme, const circe__holdout *holdout) {
    circe_context *context = cme->context;
    bool rff = holdout->options->method == CIRCE_METHOD_RFF;
    if (cme->info.solver == CIRCE_METHOD_DENSE || rff) {
        circe_status status = circe__resolve(cme->context, cme->kernel_y, holdout->dim_y, "y", &cme->y_factors);
        if (status != CIRCE_OK) return status;
        cme->points_y = circe__alloc(context, holdout->rows * holdout->dim_y, sizeof(double));
        if (cme->points_y == NULL) return CIRCE_ERR_MEMORY;
        memcpy(cme->points_y, holdout->y, (size_t)(holdout->rows * holdout->dim_y) * sizeof(double));
    }
    if (!rff && cme->inverse == NULL) return CIRCE_OK;
    cme->points_z = circe__alloc(context, holdout->rows * holdout->dim_z, sizeof(double));
    if (cme->points_z == NULL) return CIRCE_ERR_MEMORY;
    memcpy(cme->points_z, holdout->z, (size_t)(holdout->rows * holdout->dim_z) * sizeof(double));
    if (rff && holdout->root != NULL) {
        cme->root = circe__alloc(context, holdout->rows, sizeof *cme->root);
        if (cme->root == NULL) return CIRCE_ERR_MEMORY;
        memcpy(cme->root, holdout->root, (size_t)holdout->rows * sizeof *cme->root);
    }
    return rff ? circe__cme_attach_rff(cme) : CIRCE_OK;
}

static circe_status fit_all(circe_cme *cme, circe__holdout *holdout, const circe_kernel *kernel_y,
                            const circe_kernel *kernel_z) {
    const circe_cme_options *options = holdout->options;
    holdout->units = circe__alloc(cme->context, kernel_y->n_factors, sizeof(double));
    if (holdout->units == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = find_units(holdout, kernel_y, holdout->units);
    if (status == CIRCE_OK) status = init_table(cme, holdout, kernel_y);
    if (status == CIRCE_OK) status = circe__kernel_copy(cme->context, kernel_z, &cme->kernel_z);
    if (status == CIRCE_OK) status = judge(holdout, kernel_y, kernel_z);
    if (status == CIRCE_OK) status = fit_z(cme, holdout, kernel_z);
    if (status != CIRCE_OK) return status;
    holdout->z_basis = &cme->z_basis;
    holdout->steps_total =
        2 * cme->n_sigma2_y *
        (holdout->rows <= DENSE_ROWS ? 1 : (holdout->rows + CIRCE__BLOCK_ROWS - 1) / CIRCE__BLOCK_ROWS);
    for (int64_t row = 0; status == CIRCE_OK && row < cme->n_sigma2_y; row++)
        status = fit_row(cme, holdout, kernel_y, row);
    if (status != CIRCE_OK) return status;
    cme->info.rank_z = cme->z_basis.rank;
    cme->info.method = options->method == CIRCE_METHOD_RFF ? CIRCE_METHOD_RFF : cme->info.solver;
    if (!isfinite(cme->info.loo_error))
        return circe_fail(CIRCE_ERR_NUMERIC,
                          "the leave-one-out error is not a finite number: the numbers of y or z are too large for the "
                          "kernel; scale them");
    status = keep_points(cme, holdout);
    if (status == CIRCE_OK) status = collect_warnings(cme, holdout);
    return status == CIRCE_OK ? warn_of_edge(cme, holdout) : status;
}

/* The data, a handful of blocks, and the spectrum of r_y; dense fits check for themselves when they are chosen. */
static circe_status check_memory(circe_context *context, const circe__fit_by *by, const circe_mat *y,
                                 const circe_mat *z, const circe_cme_options *options) {
    double data = 8.0 * (double)y->rows * (double)(y->cols + z->cols);
    double bytes = data + 32e6;
    if (options->method == CIRCE_METHOD_DENSE) bytes += dense_bytes(by, options, y->rows, 1);
    return circe__memory_check(context, bytes, options->method == CIRCE_METHOD_DENSE ? "this dense fit" : "this fit",
                               options->method == CIRCE_METHOD_DENSE
                                   ? "use method lowrank, or fewer holdout points"
                                   : "use fewer holdout points, or allow more memory");
}

/* The rows of positive weight, in place, and the roots of these weights. */
static circe_status drop_weightless(circe__holdout *holdout, double *y, double *z, double *root) {
    int64_t rows = 0, positive = 0;
    circe_status status = circe__weights_normalize(holdout->options->weights, holdout->rows, root, &positive);
    if (status == CIRCE_OK && positive < 2)
        status = circe_fail(CIRCE_ERR_SHAPE, "only one row has a positive weight; a fit needs at least 2");
    for (int64_t i = 0; status == CIRCE_OK && i < holdout->rows; i++) {
        if (!(root[i] > 0.0)) continue;
        memmove(y + rows * holdout->dim_y, y + i * holdout->dim_y, (size_t)holdout->dim_y * sizeof *y);
        memmove(z + rows * holdout->dim_z, z + i * holdout->dim_z, (size_t)holdout->dim_z * sizeof *z);
        root[rows++] = sqrt(root[i]);
    }
    holdout->rows = rows;
    if (!circe__all_equal(root, rows)) holdout->root = root;
    return status;
}

static circe_status check_weights(const circe__fit_by *by, const circe_cme_options *options) {
    if (options->weights == NULL) return CIRCE_OK;
    if (by != NULL && by->ranks == NULL)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "a fit on a GPU takes no weights of rows; fit on the CPU, or over ranks");
    return CIRCE_OK;
}

circe_status circe_cme_fit(circe_context *context, const circe_mat *y, const circe_mat *z, const circe_kernel *kernel_y,
                           const circe_kernel *kernel_z, const circe_cme_options *options, circe_cme **cme) {
    CIRCE_OWN_SETTINGS;
    return circe__cme_fit(context, NULL, y, z, kernel_y, kernel_z, options, cme);
}

circe_status circe__cme_fit(circe_context *context, const circe__fit_by *by, const circe_mat *y, const circe_mat *z,
                            const circe_kernel *kernel_y, const circe_kernel *kernel_z, const circe_cme_options *given,
                            circe_cme **cme) {
    circe_cme_options options;
    circe_cme *made = NULL;
    double *copy_y = NULL, *copy_z = NULL, *root = NULL, start = circe__seconds();
    if (context == NULL || cme == NULL || kernel_y == NULL || kernel_z == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, kernels and cme must not be NULL");
    *cme = NULL;
    circe_status status = fill_options(given, &options);
    if (status == CIRCE_OK) status = circe__check_data(y, "y", 2);
    if (status == CIRCE_OK) status = circe__check_data(z, "z", 2);
    if (status == CIRCE_OK) status = check_scale(y, kernel_y);
    if (status == CIRCE_OK && y->rows != z->rows)
        status = circe_fail(CIRCE_ERR_SHAPE, "y has %lld rows and z has %lld; they must be the same points",
                            (long long)y->rows, (long long)z->rows);
    if (status == CIRCE_OK) status = check_weights(by, &options);
    if (status == CIRCE_OK) status = check_memory(context, by, y, z, &options);
    status = circe__agree(by, status);
    if (status != CIRCE_OK) return status;

    int previous = circe__threads_begin(context);
    unsigned rounding = circe__flush_begin();
    copy_y = circe__alloc(context, y->rows * y->cols, sizeof *copy_y);
    copy_z = circe__alloc(context, z->rows * z->cols, sizeof *copy_z);
    if (copy_y == NULL || copy_z == NULL) {
        status = CIRCE_ERR_MEMORY;
        goto done;
    }
    circe_mat y64 = circe__mat(copy_y, y->rows, y->cols, CIRCE_FLOAT64);
    circe_mat z64 = circe__mat(copy_z, z->rows, z->cols, CIRCE_FLOAT64);
    circe__copy_mat(y, &y64);
    circe__copy_mat(z, &z64);
    status = circe__cme_new(context, &made);
    if (status != CIRCE_OK) goto done;
    made->tolerance = options.tolerance;
    made->seed = options.seed;
    made->rff_pool = options.rff_pool;
    made->rff_batch = options.rff_batch > 0 ? options.rff_batch : options.rff_pool;
    made->rff_every = options.rff_every;
    circe__holdout holdout = {.context = context,
                              .options = &options,
                              .by = by,
                              .y = copy_y,
                              .z = copy_z,
                              .rows = y->rows,
                              .dim_y = y->cols,
                              .dim_z = z->cols};
    if (options.weights != NULL) {
        root = circe__alloc(context, y->rows, sizeof *root);
        status = root != NULL ? drop_weightless(&holdout, copy_y, copy_z, root) : CIRCE_ERR_MEMORY;
    }
    made->info = (circe_cme_info){.rows = holdout.rows, .dim_y = y->cols, .dim_z = z->cols};
    if (status == CIRCE_OK) status = fit_all(made, &holdout, kernel_y, kernel_z);
    circe__free(context, holdout.units);
    if (status == CIRCE_OK) status = circe__curves_make(made);
    made->info.seconds = circe__seconds() - start;

done:
    circe__flush_end(rounding);
    status = circe__threads_finish(previous, status);
    circe__free(context, copy_y);
    circe__free(context, copy_z);
    circe__free(context, root);
    if (status != CIRCE_OK)
        circe_cme_destroy(made);
    else
        *cme = made;
    return status;
}
