/* Left against right: every kernel test here consists of this.
 *
 *     right (n, q)   features of z, centred
 *     left (n, p)    R_z R_x (features of (x, y), or of x's columns), R = I - S the residual makers of regression.c
 *     statistic      |left' right|^2 = |(R_x left_0)' (R_z right)|^2,   R being symmetric
 *
 * So regressing the right side is the same as regressing the left one once more, and for any other draw of z's noise
 * the statistic is |left' noise*|^2 with the same `left`: a draw repeats the regression at no cost. That makes the null
 * right although the regression was fitted on the tested rows: it includes the variance of the fit, which a bootstrap
 * of the residuals alone would leave out. The noise comes from leave-one-out residuals, (R_z right)_i / (1 - S_ii),
 * because in-sample residuals are too small by what the fit took from them.
 *
 * Auxiliary rows of (y, z) have right features and no x: their left features are 0 before R_z. */
#include <math.h>
#include <string.h>

#include "core/sort.h"
#include "inference/dependence.h"
#include "inference/faces.h"
#include "inference/memory.h"

enum {
    LEAST_LEFT = 96, /* features of (x, y): a quarter of the rows, between these */
    MOST_LEFT = 160,
    MOST_RIGHT = 256,
    TARGET_COLUMNS = 48, /* features of x that choose its regression */
    MANY_ROWS = 8192,    /* from here on the sides are compressed, so that the bootstrap stays affordable */
    MANY_LEFT = 64,
    MANY_RIGHT = 16,
    CHECKED_ROWS = 8192, /* of rcot; if its p-value is no rejection, and if it is large */
    SOME_CHECKED = 2048,
    FEW_CHECKED = 1024,
    MOST_CATEGORIES = 64,
};

void circe__pair_free(const circe_context *context, circe__pair *pair) {
    circe__table_free(context, &pair->left);
    circe__table_free(context, &pair->right);
    circe__table_free(context, &pair->noise);
    circe__table_free(context, &pair->noise_x);
}

circe_status circe__pair_statistic(const circe__data *data, const circe__pair *pair, double *value) {
    int64_t p = pair->p, q = pair->q;
    *value = 0.0;
    if (p == 0 || q == 0) return CIRCE_OK;
    CIRCE__OWNED double *product = circe__alloc(data->context, p * q, sizeof *product);
    if (product == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__cross(data->context, &pair->left, p, &pair->right, q, product);
    if (status == CIRCE_OK) *value = circe__square_norm(product, p * q);
    return status;
}

/* For gcm: indicators of the categories of a variable's delta columns, beside its other columns. */
static circe_status column_features(const circe__data *data, const circe__variable *v, int64_t rows,
                                    circe__table *out) {
    CIRCE__OWNED bool *category = circe__calloc(data->context, v->dim, sizeof *category);
    CIRCE__OWNED_BY(circe__table_drop) circe__table indicators = {0};
    circe_kernel *kernel = NULL;
    int64_t plain = 0, at = 0;
    double left;
    circe_status status = category == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t f = 0; status == CIRCE_OK && f < v->kernel->n_factors; f++) {
        circe_kernel_factor factor = v->kernel->factors[f];
        if (factor.kind != CIRCE_KERNEL_DELTA) continue;
        int64_t end = factor.n_cols == -1 ? v->dim : factor.first_col + factor.n_cols;
        for (int64_t c = factor.first_col; c < end; c++) category[c] = true;
        if (kernel == NULL) {
            status = circe_kernel_create(data->context, CIRCE_KERNEL_DELTA, 0.0, &kernel);
            if (status == CIRCE_OK) kernel->factors[0] = factor;
        } else {
            status = circe_kernel_multiply(kernel, &factor);
        }
    }
    if (status == CIRCE_OK && kernel != NULL)
        status = circe__features_of(data, kernel, v->points, rows, v->dim, 1e-6, MOST_CATEGORIES, "categories",
                                    &indicators, &left);
    for (int64_t c = 0; status == CIRCE_OK && c < v->dim; c++) plain += !category[c];
    if (status == CIRCE_OK) status = circe__table_new(data->context, rows, plain + indicators.cols, out);
    for (int64_t c = 0; status == CIRCE_OK && c < v->dim; c++) {
        if (category[c]) continue;
        for (int64_t i = 0; i < rows; i++) out->data[i * out->cols + at] = v->points[i * v->dim + c];
        at++;
    }
    for (int64_t i = 0; status == CIRCE_OK && indicators.cols > 0 && i < rows; i++)
        memcpy(out->data + i * out->cols + plain, indicators.data + i * indicators.cols,
               (size_t)indicators.cols * sizeof(double));
    circe_kernel_destroy(kernel);
    return status;
}

/* Scales columns to unit length, so that one width and ridge suit them all, and a column of mere rounding to zero. */
static void normalize_columns(circe__table *t, const circe__variable *v) {
    for (int64_t c = 0; c < t->cols; c++) {
        double largest = 0.0, square = 0.0;
        for (int64_t i = 0; i < t->rows; i++) largest = fmax(largest, fabs(t->data[i * t->cols + c]));
        for (int64_t i = 0; largest > 0.0 && i < t->rows; i++) {
            double value = t->data[i * t->cols + c] / largest;
            square += value * value;
        }
        double scale = v->constant || !(square > 0.0) ? 0.0 : 1.0 / (largest * sqrt(square / (double)t->rows));
        for (int64_t i = 0; i < t->rows; i++) t->data[i * t->cols + c] *= scale;
    }
}

/* Makes the right side, and the target that chooses the left side's regression. */
static circe_status right_side(const circe__data *data, const circe__pair_plan *plan, circe__pair *pair,
                               circe__table *target, circe_test_result *result) {
    const circe__variable *x = &data->x, *z = &data->z;
    const circe__data host = circe__on_host(data);
    double left;
    circe_status status;
    if (plan->columns) /* few: made on the host */
        status = column_features(&host, z, data->total, &pair->right);
    else
        status = circe__features_of(data, z->kernel, z->points, data->total, z->dim, 1e-5, MOST_RIGHT, "z",
                                    &pair->right, &result->left_out_z);
    if (status == CIRCE_OK) status = circe__weigh(data, &pair->right);
    if (status == CIRCE_OK && plan->columns) normalize_columns(&pair->right, z);
    if (status == CIRCE_OK) status = circe__to_device(data, &pair->right);
    if (status != CIRCE_OK || !plan->regress_x) return status;
    status = plan->columns ? column_features(&host, x, data->n, target)
                           : circe__features_of(data, x->kernel, x->points, data->n, x->dim, 1e-3, TARGET_COLUMNS, "x",
                                                target, &left);
    if (status == CIRCE_OK) status = circe__weigh(data, target);
    if (status == CIRCE_OK && plan->columns) normalize_columns(target, x);
    return status == CIRCE_OK ? circe__to_device(data, target) : status;
}

/* Rows of zeros for the auxiliary ones. */
static circe_status extend_rows(const circe__data *data, circe__table *table) {
    circe__table longer;
    if (table->rows == data->total) return CIRCE_OK;
    circe_status status = circe__table_new(data->context, data->total, table->cols, &longer);
    if (status != CIRCE_OK) return status;
    memset(longer.data, 0, (size_t)(longer.rows * longer.cols) * sizeof(double));
    memcpy(longer.data, table->data, (size_t)(table->rows * table->cols) * sizeof(double));
    circe__table_free(data->context, table);
    *table = longer;
    return CIRCE_OK;
}

/* left (n rows) minus its regression on the tested rows' y, with the regressor's width and ridge. */
static circe_status center_y(const circe__data *data, const circe__regressor *regressor, circe__table *left) {
    if (left->rows == data->total) return circe__residual(regressor, left);
    circe__local local = {0};
    CIRCE__OWNED int64_t *index = circe__alloc(data->context, data->n, sizeof *index);
    if (index == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < data->n; i++) index[i] = i;
    circe_status status =
        circe__local_make(data, index, data->n, &regressor->spectrum->sight, regressor->ridge, &local);
    if (status == CIRCE_OK) status = circe__residual(&local.regressor, left);
    circe__local_free(data->context, &local);
    return status;
}

/* Sets info.remaining of the left side: the share of the target that its regression leaves. */
static circe_status left_remaining(const circe__data *data, const circe__table *target, circe__regressor *regressor) {
    CIRCE__OWNED_BY(circe__table_drop) circe__table copy = {0};
    double before = 0.0, after = 0.0;
    circe_status status = circe__size_of(data, target, &before);
    if (status == CIRCE_OK) status = circe__table_copy(data->context, target, &copy);
    if (status == CIRCE_OK) status = circe__residual(regressor, &copy);
    if (status == CIRCE_OK) status = circe__size_of(data, &copy, &after);
    if (status == CIRCE_OK) regressor->info.remaining = before > 0.0 ? after / before : 0.0;
    return status;
}

/* The places where the signs of a weighted covariance change: quantiles of a column of y. */
static double quantile(const circe__data *data, int64_t column, double share, double *scratch) {
    const circe__variable *y = circe__columns(data);
    int64_t n = data->n, d = y->dim;
    for (int64_t i = 0; i < n; i++) scratch[i] = y->points[i * d + column];
    circe__sort(scratch, n);
    return scratch[circe__min((int64_t)(share * (double)n), n - 1)];
}

/* left (n, p) := [left, left times sign(y_c - q) for every column c and quantile q]. */
static circe_status weigh_along_y(const circe__data *data, circe__table *left) {
    enum { MOST_WEIGHTS = 64, MOST_PLACES = 7 };
    const circe__variable *y = circe__columns(data);
    int64_t d = circe__min(y->dim, MOST_WEIGHTS), n = left->rows, p = left->cols;
    int64_t places = d == 0 ? 0 : circe__max(1, circe__min(MOST_PLACES, MOST_WEIGHTS / d)), all = 1 + d * places;
    circe__table out = {0};
    CIRCE__OWNED double *scratch = circe__alloc(data->context, data->n, sizeof *scratch);
    circe_status status = scratch == NULL ? CIRCE_ERR_MEMORY : circe__table_new(data->context, n, p * all, &out);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++)
        memcpy(out.data + i * out.cols, left->data + i * p, (size_t)p * sizeof(double));
    for (int64_t w = 1; status == CIRCE_OK && w < all; w++) {
        int64_t c = (w - 1) / places, k = (w - 1) % places;
        double at = quantile(data, c, (double)(k + 1) / (double)(places + 1), scratch);
        for (int64_t i = 0; i < n; i++) {
            double sign = y->points[i * y->dim + c] > at ? 1.0 : -1.0;
            for (int64_t a = 0; a < p; a++) out.data[i * out.cols + w * p + a] = sign * left->data[i * p + a];
        }
    }
    if (status != CIRCE_OK) {
        circe__table_free(data->context, &out);
        return status;
    }
    circe__table_free(data->context, left);
    *left = out;
    return CIRCE_OK;
}

/* Whether tests share what is made of one variable and y. */
static bool is_shared(const circe__data *data, const circe__pair_plan *plan) {
    return data->options.memory != NULL && data->device == NULL && data->dependence == NULL && !plan->columns;
}

/* The left side as far as z does not count in it, unless it is centred by z's regression. */
static circe_status left_alone(const circe__data *data, const circe__pair_plan *plan, const circe__table *target,
                               circe__regressor sides[2], circe__table *left, double *left_out) {
    circe_status status =
        plan->columns ? circe__table_copy(data->context, target, left)
                      : circe__joint_features(data, 1e-5, circe__min(circe__max(data->n / 4, LEAST_LEFT), MOST_LEFT),
                                              left, left_out);
    if (status == CIRCE_OK && !plan->columns) status = circe__weigh(data, left);
    if (status == CIRCE_OK && plan->center_y) status = center_y(data, &sides[1], left);
    if (status == CIRCE_OK) status = extend_rows(data, left);
    if (status == CIRCE_OK && plan->regress_x) status = left_remaining(data, target, &sides[0]);
    return status == CIRCE_OK && plan->regress_x ? circe__residual(&sides[0], left) : status;
}

/* The same for tests that share a memory: once for each x and y. */
static circe_status recall_left(const circe__data *data, const circe__pair_plan *plan, const circe__table *target,
                                circe__regressor sides[2], circe__table *left, double *left_out) {
    if (!is_shared(data, plan) || !plan->regress_x || plan->center_y)
        return left_alone(data, plan, target, sides, left, left_out);
    double *remaining = &sides[0].info.remaining;
    const circe__key key = circe__key_of_side(data, &data->x, &sides[0], 'l');
    circe__key of_remaining = key;
    circe__key_add(&of_remaining, &of_remaining, sizeof of_remaining);
    if (circe__recall_number(data, of_remaining, remaining) && circe__recall_table(data, key, left, left_out))
        return CIRCE_OK;
    circe__data once = *data; /* joint features are needed for this alone */
    once.options.memory = NULL;
    circe_status status = left_alone(&once, plan, target, sides, left, left_out);
    if (status != CIRCE_OK) return status;
    circe__remember_number(data, of_remaining, *remaining);
    circe__remember_table(data, key, left, *left_out);
    return CIRCE_OK;
}

static circe_status left_side(const circe__data *data, const circe__pair_plan *plan, const circe__table *target,
                              circe__regressions *regressions, circe__pair *pair, circe_test_result *result) {
    circe__regressor *sides = regressions->side;
    circe_status status = recall_left(data, plan, target, sides, &pair->left, &result->left_out_x);
    if (status == CIRCE_OK && plan->weighted) status = weigh_along_y(data, &pair->left);
    if (status == CIRCE_OK) status = circe__residual(&sides[1], &pair->left);
    return status;
}

typedef struct dividing {
    const circe__regressor *regressor;
    circe__table *noise;
} dividing;

static void run_divide(void *user, int64_t first, int64_t end) {
    const dividing *w = user;
    int64_t cols = w->noise->cols;
    for (int64_t i = first; i < end; i++) {
        double rest = circe__rest(w->regressor, i), *row = w->noise->data + i * cols;
        for (int64_t k = 0; k < cols; k++) row[k] /= rest;
    }
}

circe_status circe__noise_of(const circe__data *data, const circe__regressor *regressor, circe__table *residual) {
    dividing w = {regressor, residual};
    if (residual->device != NULL) return circe__rows_divide(regressor, residual);
    if (circe__in_blocks(regressor->data, residual->rows)) return circe__leave_out(regressor, residual);
    circe__run_ranges(data->context->threads, residual->rows, 4096 / (residual->cols + 1) + 1, run_divide, &w);
    return CIRCE_OK;
}

circe_status circe__noise(const circe__data *data, const circe__regressor *regressor, const circe__table *right,
                          circe__table *noise) {
    circe_status status = circe__table_copy(data->context, right, noise);
    if (status == CIRCE_OK) status = circe__residual(regressor, noise);
    return status == CIRCE_OK ? circe__noise_of(data, regressor, noise) : status;
}

/* If only rounding is left on a side, the statistic is 0 and the p-value 1. */
static void silence(circe__pair *pair, const circe__data *data, double remaining_x, double remaining_z) {
    const double rounding = 1e-20;
    if (data->x.constant || data->z.constant || remaining_x < rounding || remaining_z < rounding) pair->p = pair->q = 0;
}

/* Regressions without a kernel: least squares, a forest or the caller's predictions. After the last two, only the mean
 * is left to regress on. */
static circe_status regress_columns(const circe__data *data, circe__table *const targets[2], circe__regressions *made) {
    const double shares[2] = {data->x.left, data->z.left};
    const bool forest = data->options.regressor == CIRCE_REGRESSOR_FOREST, given = data->options.fitted_x != NULL;
    circe__spectrum *none = &made->spectra[0];
    *none = (circe__spectrum){.n = data->total, .sight = {given ? CIRCE__GIVEN : CIRCE__FOREST, 0, 0.0, 0, 0.0}};
    if (forest && !given && data->dependence != NULL)
        return circe_fail(
            CIRCE_ERR_UNSUPPORTED,
            "a forest needs independent rows; with groups or time, use the regressor kernel, or predictions");
    circe_status status = given || forest ? CIRCE_OK : circe__spectrum_linear(data, none);
    for (int t = 0; status == CIRCE_OK && t < 2; t++) {
        circe__table *target = targets[t];
        double before = 0.0, after = 0.0;
        status = circe__size_of(data, target, &before);
        if (status == CIRCE_OK && forest && !given) status = circe__forest_residual(data, target);
        if (status == CIRCE_OK) status = circe__size_of(data, target, &after);
        if (status == CIRCE_OK) status = circe__regressor_set(data, none, given || forest ? 1.0 : 0.0, &made->side[t]);
        if (given || forest) made->side[t].info.loo_error = given ? shares[t] : before > 0.0 ? after / before : 1.0;
    }
    return status;
}

/* The regressions that the plan asks for. */
static circe_status regress_sides(const circe__data *data, const circe__pair_plan *plan, circe__table *target,
                                  circe__table *right, circe__regressions *made) {
    const circe__table *targets[2] = {plan->regress_x ? target : NULL, right};
    circe__table *const both[2] = {target, right};
    if (plan->columns && !circe__by_kernel(data)) return regress_columns(data, both, made);
    return circe__recall_regress(data, targets, made);
}

circe_status circe__remaining(const circe__data *data, const circe__regressor *side, const circe__table *right,
                              const circe__table *noise, double *share) {
    int64_t q = right->cols;
    double before = 0.0, after = 0.0;
    circe_status status = circe__size_of(data, right, &before);
    if (status == CIRCE_OK && noise->device != NULL)
        status = circe__rows_square(data, noise, q, side, &after);
    else
        for (int64_t i = 0; status == CIRCE_OK && i < right->rows; i++) {
            double rest = circe__rest(side, i);
            after += rest * rest * circe__square_norm(noise->data + i * q, q);
        }
    *share = before > 0.0 ? after / before : 0.0;
    return status;
}

/* The noise of the right side, and what its regression leaves. */
static circe_status right_noise(const circe__data *data, const circe__pair_plan *plan, circe__regressor *regressor,
                                circe__pair *pair) {
    bool shared = is_shared(data, plan);
    double *remaining = &regressor->info.remaining;
    circe__key key = {{0, 0}};
    if (shared) key = circe__key_of_side(data, &data->z, regressor, 'n');
    if (shared && circe__recall_table(data, key, &pair->noise, remaining)) return CIRCE_OK;
    circe_status status = circe__noise(data, regressor, &pair->right, &pair->noise);
    if (status == CIRCE_OK) status = circe__remaining(data, regressor, &pair->right, &pair->noise, remaining);
    if (status == CIRCE_OK && shared) circe__remember_table(data, key, &pair->noise, *remaining);
    return status;
}

/* Each side's residuals against functions of y. */
typedef struct checking {
    const circe__data *data;
    circe__regressions *regressions;
    const circe__table *targets[2]; /* NULL: not regressed */
    const circe__table *noises[2];
    circe__views views;
} checking;

static circe_status run_check(void *user, int64_t t) {
    checking *c = user;
    circe__regressor *side = &c->regressions->side[t];
    if (c->targets[t] == NULL) return CIRCE_OK;
    return circe__check_residual(c->data, side, c->targets[t], c->noises[t], &c->views);
}

circe_status circe__check_sides(const circe__data *data, const circe__table *target, const circe__table *noise,
                                circe__regressions *regressions, const circe__pair *pair, circe_test_result *result) {
    checking c = {data, regressions, {target, &pair->right}, {noise, &pair->noise}, {.index = NULL}};
    int64_t most = result->p_value <= data->options.alpha ? CHECKED_ROWS
                   : circe__may_be_misfit(data, result)   ? SOME_CHECKED
                                                          : FEW_CHECKED;
    circe_status status = circe__views_make(data, most, &c.views);
    if (status == CIRCE_OK) status = circe__beside(data, 2, run_check, &c);
    if (status == CIRCE_OK && target == NULL && data->faces != NULL) {
        /* the left side is centred by the same smoother */
        const circe__regressor same[2] = {regressions->side[1], regressions->side[1]};
        const circe__table *twice[2] = {&pair->right, &pair->right}, *noise_twice[2] = {&pair->noise, &pair->noise};
        status = circe__check_misfit(data, same, twice, noise_twice, result);
    }
    const bool alike = circe__kind_of(&data->options)->one_sided; /* pcm's f is made to be like x: so are the fits */
    if (status == CIRCE_OK && target != NULL && data->y.dim > 0 && !data->by_value && circe__by_kernel(data) && !alike)
        status = circe__check_misfit(data, regressions->side, c.targets, c.noises, result);
    circe__views_free(data->context, &c.views);
    return status;
}

/* With many rows, keeps few directions of either side. */
static circe_status compress_sides(const circe__data *data, circe__pair *pair, circe_test_result *result) {
    double lost = 0.0;
    circe_status status = circe__compress(data, &pair->left, NULL, MANY_LEFT, &lost);
    result->left_out_x += lost;
    if (status == CIRCE_OK) status = circe__compress(data, &pair->noise, &pair->right, MANY_RIGHT, &lost);
    result->left_out_z += lost;
    return status;
}

circe_status circe__pair_make(const circe__data *data, const circe__pair_plan *plan, circe__pair *pair,
                              circe__regressions *regressions, circe_test_result *result) {
    CIRCE__OWNED_BY(circe__table_drop) circe__table target = {0};
    circe__table noise = {0}; /* of the target */
    *pair = (circe__pair){.n = data->total, .scale = 1.0};
    *regressions = (circe__regressions){0};
    circe__regressor *sides = regressions->side;
    circe_status status = right_side(data, plan, pair, &target, result);
    if (status == CIRCE_OK) status = regress_sides(data, plan, &target, &pair->right, regressions);
    if (status == CIRCE_OK) status = left_side(data, plan, &target, regressions, pair, result);
    if (status == CIRCE_OK) status = right_noise(data, plan, &sides[1], pair);
    const bool checked = !data->options.skip_checks;
    if (status == CIRCE_OK && checked && plan->regress_x) status = circe__noise(data, &sides[0], &target, &noise);
    if (status == CIRCE_OK && checked)
        status = circe__check_sides(data, plan->regress_x ? &target : NULL, &noise, regressions, pair, result);
    if (status == CIRCE_OK && data->n > MANY_ROWS && !plan->columns) status = compress_sides(data, pair, result);
    pair->noise_x = noise;
    if (status != CIRCE_OK) {
        circe__pair_free(data->context, pair);
        circe__regressions_free(data->context, regressions);
        return status;
    }
    pair->p = pair->left.cols;
    pair->q = pair->right.cols;
    for (int t = 0; t < 2; t++) /* the mean leaves all of what was regressed before */
        if (sides[t].spectrum != NULL && (sides[t].spectrum->sight.parts & (CIRCE__FOREST | CIRCE__GIVEN)))
            sides[t].info.remaining = sides[t].info.loo_error;
    silence(pair, data, plan->regress_x ? sides[0].info.remaining : 1.0, sides[1].info.remaining);
    result->rank_x = pair->p;
    result->rank_z = pair->q;
    if (plan->regress_x) result->x = sides[0].info;
    result->z = sides[1].info;
    result->n_tested = data->n;
    result->n_train = data->total - data->n;
    return CIRCE_OK;
}

/* ---- the p-value ------------------------------------------------------------------------------------------------- */

static circe_status by_draws(const circe__data *data, const circe__pair *pair, double value,
                             circe_test_result *result) {
    int64_t draws = data->options.draws;
    CIRCE__OWNED double *null = circe__alloc(data->context, draws, sizeof *null);
    if (null == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__wild(data, pair, NULL, draws, CIRCE__STREAM_SIGNS, null);
    if (status == CIRCE_OK) circe__report_draws(value, null, draws, pair->scale, result);
    return status;
}

circe_status circe__pair_test(const circe__data *data, const circe__pair *pair, circe_test_null null,
                              circe_test_result *result) {
    enum { MOMENT_ROWS = 4096 };
    double value = 0.0, mean = 0.0, variance = 0.0, *weights = NULL;
    int64_t n = 0;
    circe_status settled = circe__pair_statistic(data, pair, &value);
    if (settled == CIRCE_OK) settled = circe__check_rows(data, pair, false, result);
    if (settled == CIRCE_OK) settled = circe__dependence_settle(data, pair, result);
    if (settled != CIRCE_OK) return settled;
    if (data->dependence != NULL) null = CIRCE_NULL_WILD;
    if (null == CIRCE_NULL_PERMUTATION || circe__should_permute(data, pair)) {
        circe_status permuted = circe__permute_within_y(data, pair, false, result);
        result->statistic *= pair->scale;
        result->null_mean *= pair->scale;
        result->null_sd *= pair->scale;
        return permuted;
    }
    result->null = null;
    result->statistic = pair->scale * value;
    if (null == CIRCE_NULL_WILD) {
        circe_status drawn = by_draws(data, pair, value, result);
        return drawn == CIRCE_OK ? circe__permute_residuals(data, pair, false, result) : drawn;
    }
    bool spectral = null == CIRCE_NULL_SPECTRAL;
    circe_status status = spectral ? circe__null_weights(data, pair, &weights, &n) : CIRCE_OK;
    bool whole = spectral && n == pair->p * pair->q; /* all weights, not those of a sample */
    if (status == CIRCE_OK && !whole) status = circe__moments(data, pair, MOMENT_ROWS, &mean, &variance);
    if (status != CIRCE_OK) {
        circe__free(data->context, weights);
        return status;
    }
    for (int64_t k = 0; whole && k < n; k++) {
        mean += weights[k];
        variance += 2.0 * weights[k] * weights[k];
    }
    result->null_mean = pair->scale * mean;
    result->null_sd = pair->scale * sqrt(variance);
    if (!(mean > 0.0))
        result->p_value = 1.0;
    else
        result->p_value = circe__clip_p(spectral ? circe__weighted_tail(weights, n, value)
                                                 : circe__moment_tail(mean, variance, value));
    circe__free(data->context, weights);
    return circe__permute_residuals(data, pair, false, result);
}
