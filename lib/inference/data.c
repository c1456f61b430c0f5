/* Prepares the data of a test: checks and copies the variables, leaves out rows without weight, binds widths.
 *
 * A variable whose kernel is NULL gets its columns divided by their standard deviations and a gaussian of median width
 * over all of them. Medians use at most 256 random rows, whose pairs give a median to a few percent; otherwise the
 * quadratic heuristic would be the slowest part of a small test. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/reuse.h"
#include "core/threads.h"
#include "inference/dependence.h"
#include "inference/faces.h"
#include "inference/memory.h"

enum { MEDIAN_ROWS = 256, LEAST_ROWS = 8 };

static const double default_width[] = {0.01, 0.03, 0.1, 0.3, 1.0, 3.0};
static const double default_ridge[] = {1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0};

/* ---- options ----------------------------------------------------------------------------------------------------- */

void circe_test_options_init(circe_test_options *options) {
    *options = (circe_test_options){.method = CIRCE_TEST_KCI,
                                    .draws = 1000,
                                    .alpha = 0.05,
                                    .undersmoothing = 0.1,
                                    .regressor = CIRCE_REGRESSOR_KERNEL,
                                    .features_x = 10,
                                    .features_z = 10};
}

static circe_status check_grid(const double *grid, int64_t n, const char *name) {
    enum { MAX_GRID = 100 };
    if (n < 0 || n > MAX_GRID || grid == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the grid of %s has %lld values; it needs 1 to %d", name, (long long)n,
                          MAX_GRID);
    for (int64_t k = 0; k < n; k++)
        if (!isfinite(grid[k]) || grid[k] <= 0.0)
            return circe_fail(CIRCE_ERR_ARGUMENT, "a %s is %g; it must be positive", name, grid[k]);
    return CIRCE_OK;
}

static circe_status check_numbers(const circe_test_options *o) {
    enum { MAX_DRAWS = 10000000, MAX_FEATURES = 4096 };
    if (o->draws < 1 || o->draws > MAX_DRAWS)
        return circe_fail(CIRCE_ERR_ARGUMENT, "draws is %lld; it must be 1 to %d", (long long)o->draws, MAX_DRAWS);
    if (!(o->alpha > 0.0 && o->alpha < 1.0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "alpha is %g; it must lie between 0 and 1", o->alpha);
    if (!(o->undersmoothing > 0.0 && o->undersmoothing <= 1.0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "undersmoothing is %g; it must lie in (0, 1]", o->undersmoothing);
    if (!(o->test_share >= 0.0 && o->test_share < 1.0))
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "test_share is %g; it must be the share of rows to test, between 0 and 1, or 0 for automatic",
                          o->test_share);
    if (o->max_rank < 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "max_rank is %lld; it must be positive, or 0 for automatic",
                          (long long)o->max_rank);
    const int64_t features[] = {o->features_x, o->features_y, o->features_z};
    for (int k = 0; k < 3; k++)
        if (features[k] < (k == 1 ? 0 : 1) || features[k] > MAX_FEATURES)
            return circe_fail(CIRCE_ERR_ARGUMENT, "a variable has %lld random features; it must have 1 to %d",
                              (long long)features[k], MAX_FEATURES);
    if (o->regressor < CIRCE_REGRESSOR_KERNEL || o->regressor > CIRCE_REGRESSOR_FOREST)
        return circe_fail(CIRCE_ERR_ARGUMENT, "regressor %d is not one of kernel, linear, forest", (int)o->regressor);
    if (o->transform < CIRCE_TRANSFORM_NONE || o->transform > CIRCE_TRANSFORM_NORMAL_SCORES)
        return circe_fail(CIRCE_ERR_ARGUMENT, "transform %d is not one of none, ranks, normal-scores",
                          (int)o->transform);
    if (o->mean < CIRCE_MEAN_AUTO || o->mean > CIRCE_MEAN_SPLIT)
        return circe_fail(CIRCE_ERR_ARGUMENT, "mean %d is not one of auto, rows, split", (int)o->mean);
    return CIRCE_OK;
}

static circe_status check_null(const circe_test_options *o) {
    const circe_test_null *known = circe__kind_of(o)->nulls;
    for (const circe_test_null *null = known; *null != 0; null++)
        if (o->null == CIRCE_NULL_AUTO || o->null == *null) return CIRCE_OK;
    char names[64] = "";
    for (const circe_test_null *null = known; *null != 0; null++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", null == known ? "" : ", ", circe_test_null_name(*null));
    }
    return circe_fail(CIRCE_ERR_UNSUPPORTED, "%s has no null '%s'; it has %s", circe_test_method_name(o->method),
                      circe_test_null_name(o->null), names);
}

circe_status circe__test_fill(const circe_test_options *given, circe_test_options *options) {
    circe_test_options_init(options);
    if (given != NULL) *options = *given;
    if (options->method < CIRCE_TEST_KCI || options->method > CIRCE_TEST_PCM)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "method %d is not one of kci, circe, splitkci, gcm, rcot, hsic, wgcm, pcm",
                          (int)options->method);
    if (options->n_width == 0) {
        options->width = default_width;
        options->n_width = sizeof default_width / sizeof *default_width;
    }
    if (options->n_ridge == 0) {
        options->ridge = default_ridge;
        options->n_ridge = sizeof default_ridge / sizeof *default_ridge;
    }
    circe_status status = check_numbers(options);
    if (status == CIRCE_OK) status = check_null(options);
    if (status == CIRCE_OK) status = check_grid(options->width, options->n_width, "width");
    if (status == CIRCE_OK) status = check_grid(options->ridge, options->n_ridge, "ridge");
    const circe__kind *kind = circe__kind_of(options);
    bool auxiliary = options->auxiliary_y != NULL || options->auxiliary_z != NULL;
    if (status == CIRCE_OK && auxiliary && !kind->auxiliary)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "only the method circe takes auxiliary rows of (y, z), not %s",
                          circe_test_method_name(options->method));
    if (status == CIRCE_OK && auxiliary && (options->auxiliary_y == NULL || options->auxiliary_z == NULL))
        return circe_fail(CIRCE_ERR_ARGUMENT, "auxiliary rows need both y and z");
    if (status == CIRCE_OK && !kind->columns &&
        (options->fitted_x != NULL || options->fitted_z != NULL || options->regressor != CIRCE_REGRESSOR_KERNEL))
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "only gcm and wgcm have a choice of regressor, not %s",
                          circe_test_method_name(options->method));
    if (status == CIRCE_OK && (options->fitted_x == NULL) != (options->fitted_z == NULL))
        return circe_fail(CIRCE_ERR_ARGUMENT, "predictions are needed for both x and z");
    if (status == CIRCE_OK && options->fitted_x != NULL && options->transform != CIRCE_TRANSFORM_NONE)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "predictions cannot be combined with a transform: they predict the columns as they are");
    return status == CIRCE_OK ? circe__rows_check(options) : status;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static bool has_columns(const circe_mat *mat) { return mat != NULL && mat->cols > 0; }

static circe_status check_shapes(const circe_mat *x, const circe_mat *y, const circe_mat *z) {
    circe_status status = circe__check_data(x, "x", 1);
    if (status == CIRCE_OK) status = circe__check_data(z, "z", 1);
    if (status == CIRCE_OK && has_columns(y)) status = circe__check_data(y, "y", 1);
    if (status != CIRCE_OK) return status;
    int64_t rows_y = has_columns(y) ? y->rows : x->rows;
    if (x->rows != z->rows || x->rows != rows_y)
        return circe_fail(CIRCE_ERR_SHAPE, "x has %lld rows, y %lld and z %lld; they must be the same points",
                          (long long)x->rows, (long long)rows_y, (long long)z->rows);
    return CIRCE_OK;
}

static circe_status check_auxiliary(const circe_test_options *o, const circe_mat *y, const circe_mat *z) {
    const circe_mat *ay = o->auxiliary_y, *az = o->auxiliary_z;
    if (ay == NULL) return CIRCE_OK;
    if (!has_columns(y)) return circe_fail(CIRCE_ERR_ARGUMENT, "auxiliary rows of (y, z) need a y");
    circe_status status = circe__check_data(ay, "auxiliary y", 1);
    if (status == CIRCE_OK) status = circe__check_data(az, "auxiliary z", 1);
    if (status == CIRCE_OK && (ay->rows != az->rows || ay->cols != y->cols || az->cols != z->cols))
        return circe_fail(CIRCE_ERR_SHAPE,
                          "auxiliary y (%lld, %lld) and z (%lld, %lld) must have equal numbers of rows, and the %lld "
                          "and %lld columns of y and z",
                          (long long)ay->rows, (long long)ay->cols, (long long)az->rows, (long long)az->cols,
                          (long long)y->cols, (long long)z->cols);
    return status;
}

/* Which rows count, and the roots of their weights. */
static circe_status take_rows(circe__data *data, int64_t auxiliary) {
    const double *weights = data->options.weights;
    double sum = 0.0;
    if (weights != NULL && circe__kind_of(&data->options)->splits)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "%s does not support weights; kci, circe, gcm, wgcm, rcot and hsic do",
                          circe_test_method_name(data->options.method));
    for (int64_t i = 0; i < data->given; i++) {
        double w = weights == NULL ? 1.0 : weights[i];
        if (!isfinite(w) || w < 0.0)
            return circe_fail(CIRCE_ERR_VALUE, "the weight of row %lld is %g; weights must be finite and at least 0",
                              (long long)i, w);
        data->n += w > 0.0;
        sum += w;
    }
    if (data->n < LEAST_ROWS)
        return circe_fail(CIRCE_ERR_SHAPE, "a test needs at least %d rows%s; there are %lld", LEAST_ROWS,
                          weights == NULL ? "" : " of positive weight", (long long)data->n);
    data->total = data->n + auxiliary;
    data->row = circe__alloc(data->context, data->n, sizeof *data->row);
    data->root = circe__alloc(data->context, data->total, sizeof *data->root);
    data->unit = circe__alloc(data->context, data->total, sizeof *data->unit);
    if (data->row == NULL || data->root == NULL || data->unit == NULL) return CIRCE_ERR_MEMORY;
    double mean = sum / (double)data->n, length = 0.0;
    for (int64_t i = 0, at = 0; i < data->given; i++) {
        double w = weights == NULL ? 1.0 : weights[i];
        if (!(w > 0.0)) continue;
        data->row[at] = i;
        data->root[at++] = weights == NULL ? 1.0 : sqrt(w / mean);
    }
    for (int64_t i = data->n; i < data->total; i++) data->root[i] = 1.0;
    for (int64_t i = 0; i < data->total; i++) length += data->root[i] * data->root[i];
    for (int64_t i = 0; i < data->total; i++) data->unit[i] = data->root[i] / sqrt(length);
    return CIRCE_OK;
}

/* ---- variables --------------------------------------------------------------------------------------------------- */

static bool constant_columns(const double *points, int64_t n, int64_t dim, int64_t first, int64_t cols) {
    for (int64_t i = 1; i < n; i++)
        for (int64_t c = first; c < first + cols; c++)
            if (points[i * dim + c] != points[c]) return false;
    return true;
}

void circe__standardize(double *points, int64_t n, int64_t rows, int64_t dim) {
    for (int64_t c = 0; c < dim; c++) {
        double largest = 0.0, mean = 0.0, square = 0.0;
        for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(points[i * dim + c]));
        if (largest == 0.0 || constant_columns(points, n, dim, c, 1)) continue;
        for (int64_t i = 0; i < n; i++) mean += points[i * dim + c] / largest / (double)n;
        for (int64_t i = 0; i < n; i++) {
            double d = points[i * dim + c] / largest - mean;
            square += d * d / (double)n;
        }
        double sd = sqrt(square);
        if (!(sd > 0.0)) continue;
        for (int64_t i = 0; i < rows; i++) points[i * dim + c] = (points[i * dim + c] / largest - mean) / sd;
    }
}

/* The median heuristic of a factor's columns, on some rows; 1 if they are constant. */
static circe_status median_width(const circe__data *data, const circe__variable *v, const circe_kernel_factor *factor,
                                 double *sigma2) {
    int64_t n = data->n, m = circe__min(n, MEDIAN_ROWS), first = factor->first_col;
    int64_t cols = factor->n_cols == -1 ? v->dim - first : factor->n_cols;
    *sigma2 = 1.0;
    if (cols < 1 || first + cols > v->dim || constant_columns(v->points, n, v->dim, first, cols)) return CIRCE_OK;
    CIRCE__OWNED int64_t *index = circe__alloc(data->context, m, sizeof *index);
    CIRCE__OWNED double *rows = circe__alloc(data->context, m * cols, sizeof *rows);
    circe_status status = index == NULL || rows == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        circe_random_subset((circe_random){0, CIRCE__STREAM_ROWS}, n, m, index);
        for (int64_t i = 0; i < m; i++)
            memcpy(rows + i * cols, v->points + index[i] * v->dim + first, (size_t)cols * sizeof *rows);
        circe__key key = circe__key_begin((uint64_t)cols);
        if (data->options.memory != NULL) circe__key_add(&key, rows, (size_t)(m * cols) * sizeof *rows);
        if (!constant_columns(rows, m, cols, 0, cols) && !circe__recall_number(data, key, sigma2)) {
            circe_mat mat = circe_mat_f64(rows, m, cols);
            status = circe_median_sigma2(data->context, &mat, 0, cols, sigma2);
            if (status == CIRCE_OK) circe__remember_number(data, key, *sigma2);
        } /* else: the columns are nearly constant, and any width will do */
    }
    return status;
}

circe_status circe__bind_kernel(const circe__data *data, circe__variable *v, const circe_kernel *given) {
    circe_status status = given == NULL ? circe_kernel_create(data->context, CIRCE_KERNEL_GAUSSIAN, 0.0, &v->kernel)
                                        : circe__kernel_copy(data->context, given, &v->kernel);
    if (status != CIRCE_OK) return status;
    v->free = circe__calloc(data->context, v->kernel->n_factors, sizeof *v->free);
    if (v->free == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t f = 0; status == CIRCE_OK && f < v->kernel->n_factors; f++) {
        circe_kernel_factor *factor = &v->kernel->factors[f];
        v->free[f] = circe__has_width(factor->kind) && factor->sigma2 == 0.0;
        if (v->free[f]) status = median_width(data, v, factor, &factor->sigma2);
    }
    return status;
}

/* Replaces columns by ranks on request, except those of a delta kernel, which are names and not numbers. */
static circe_status transform(const circe__data *data, circe__variable *v, int64_t rows, const circe_kernel *kernel) {
    if (data->options.transform == CIRCE_TRANSFORM_NONE) return CIRCE_OK;
    unsigned char *keep = circe__calloc(data->context, v->dim, sizeof *keep);
    if (keep == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t f = 0; kernel != NULL && f < kernel->n_factors; f++) {
        const circe_kernel_factor *factor = &kernel->factors[f];
        int64_t end = factor->n_cols == -1 ? v->dim : factor->first_col + factor->n_cols;
        if (factor->kind != CIRCE_KERNEL_DELTA) continue;
        for (int64_t c = factor->first_col; c < end && c < v->dim; c++) keep[c] = 1;
    }
    circe_mat points = circe_mat_f64(v->points, rows, v->dim);
    circe_status status = circe_transform_columns(data->context, &points, data->options.transform, keep, &points);
    circe__free(data->context, keep);
    return status;
}

/* points := points - predictions. Also gives the share of the squares about the mean that remains. */
static circe_status subtract_fitted(const circe__data *data, const circe_mat *mat, const circe_mat *fitted,
                                    const char *name, circe__variable *v) {
    double mean[2] = {0.0, 0.0}, square[2] = {0.0, 0.0};
    circe_status status = circe__check_data(fitted, name, 1);
    if (status != CIRCE_OK) return status;
    if (fitted->rows != mat->rows || fitted->cols != mat->cols)
        return circe_fail(
            CIRCE_ERR_SHAPE, "the predictions of %s are (%lld, %lld); they must have the shape of %s, (%lld, %lld)",
            name, (long long)fitted->rows, (long long)fitted->cols, name, (long long)mat->rows, (long long)mat->cols);
    for (int64_t c = 0; c < v->dim; c++) {
        mean[0] = mean[1] = 0.0;
        for (int64_t i = 0; i < data->n; i++) {
            double *value = &v->points[i * v->dim + c], left = *value - circe__at(fitted, data->row[i], c);
            mean[0] += *value / (double)data->n;
            mean[1] += left / (double)data->n;
        }
        for (int64_t i = 0; i < data->n; i++) {
            double *value = &v->points[i * v->dim + c], left = *value - circe__at(fitted, data->row[i], c);
            square[0] += (*value - mean[0]) * (*value - mean[0]);
            square[1] += (left - mean[1]) * (left - mean[1]);
            *value = left;
        }
    }
    v->left = square[0] > 0.0 ? square[1] / square[0] : 1.0;
    return CIRCE_OK;
}

static circe_status take_variable(circe__data *data, const circe_mat *mat, const circe_mat *more,
                                  const circe_kernel *kernel, const circe_mat *fitted, const char *name,
                                  circe__variable *v) {
    if (!has_columns(mat)) return CIRCE_OK;
    int64_t rows = data->n + (more == NULL ? 0 : more->rows);
    v->dim = mat->cols;
    v->points = circe__alloc(data->context, rows * v->dim, sizeof *v->points);
    if (v->points == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < v->dim; c++)
            v->points[i * v->dim + c] = i < data->n ? circe__at(mat, data->row[i], c) : circe__at(more, i - data->n, c);
    circe_status status = transform(data, v, rows, kernel);
    if (status == CIRCE_OK && fitted != NULL) status = subtract_fitted(data, mat, fitted, name, v);
    if (status != CIRCE_OK) return status;
    v->constant = constant_columns(v->points, data->n, v->dim, 0, v->dim);
    if (kernel == NULL) circe__standardize(v->points, data->n, rows, v->dim);
    status = circe__bind_kernel(data, v, kernel);
    CIRCE__OWNED circe_kernel_factor *resolved = NULL;
    if (status == CIRCE_OK) status = circe__resolve(data->context, v->kernel, v->dim, name, &resolved);
    return status;
}

/* Requires at least 20 rows per value on average, and at most 256 values. */
static circe_status count_values(circe__data *data) {
    enum { MOST_VALUES = 256, LEAST_REPEATS = 20 };
    int64_t dim = data->y.dim, most = circe__min(MOST_VALUES, data->total / LEAST_REPEATS), count = 0;
    if (dim == 0 || most < 1) return CIRCE_OK;
    size_t bytes = (size_t)dim * sizeof(double);
    CIRCE__OWNED int64_t *first = circe__alloc(data->context, most, sizeof *first);
    if (first == NULL) return CIRCE_ERR_MEMORY;
    data->by_value = true;
    for (int64_t i = 0; data->by_value && i < data->total; i++) {
        const double *row = data->y.points + i * dim;
        int64_t k = 0;
        while (k < count && memcmp(row, data->y.points + first[k] * dim, bytes) != 0) k++;
        if (k < count) continue;
        if (count == most)
            data->by_value = false;
        else
            first[count++] = i;
    }
    return CIRCE_OK;
}

circe_status circe__data_begin(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                               const circe_test_options *options, circe__data *data) {
    *data = (circe__data){.context = context};
    if (context == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "context must not be NULL");
    circe_status status = circe__test_fill(options, &data->options);
    if (status == CIRCE_OK) status = circe__memory_begin(context, data->options.memory);
    if (status == CIRCE_OK) status = check_shapes(x, y, z);
    if (status == CIRCE_OK) status = check_auxiliary(&data->options, y, z);
    if (status != CIRCE_OK) return status;
    const circe_mat *more_y = data->options.auxiliary_y, *more_z = data->options.auxiliary_z;
    data->given = x->rows;
    status = take_rows(data, more_y == NULL ? 0 : more_y->rows);
    if (status == CIRCE_OK)
        status = take_variable(data, x, NULL, data->options.kernel_x, data->options.fitted_x, "x", &data->x);
    if (status == CIRCE_OK) status = take_variable(data, y, more_y, data->options.kernel_y, NULL, "y", &data->y);
    if (status == CIRCE_OK)
        status = take_variable(data, z, more_z, data->options.kernel_z, data->options.fitted_z, "z", &data->z);
    if (status == CIRCE_OK) status = count_values(data);
    if (status == CIRCE_OK) status = circe__code_classes(data);
    if (status == CIRCE_OK) status = circe__faces_make(data, &data->faces);
    if (status == CIRCE_OK) status = circe__dependence_make(data);
    if (status != CIRCE_OK) circe__data_free(data);
    return status;
}

void circe__variable_free(const circe_context *context, circe__variable *v) {
    circe__free(context, v->points);
    circe__free(context, v->free);
    circe_kernel_destroy(v->kernel);
    *v = (circe__variable){0};
}

void circe__data_free(circe__data *data) {
    if (data->context == NULL) return;
    circe__variable_free(data->context, &data->x);
    circe__variable_free(data->context, &data->y);
    circe__variable_free(data->context, &data->z);
    circe__variable_free(data->context, &data->coded);
    circe__free(data->context, data->root);
    circe__free(data->context, data->unit);
    circe__free(data->context, data->row);
    circe__faces_free(data->context, data->faces);
    circe__dependence_free(data->context, data->dependence);
    *data = (circe__data){0};
}

circe_status circe__scaled_kernel(const circe__data *data, const circe__variable *variable, double multiple,
                                  circe_kernel **kernel) {
    circe_status status = circe__kernel_copy(data->context, variable->kernel, kernel);
    for (int64_t f = 0; status == CIRCE_OK && f < (*kernel)->n_factors; f++)
        if (variable->free[f]) (*kernel)->factors[f].sigma2 *= multiple;
    return status;
}

/* ---- parts of a data set ----------------------------------------------------------------------------------------- */

circe_status circe__variable_subset(const circe__data *data, const circe__variable *from, const int64_t *index,
                                    int64_t n, circe__variable *to) {
    *to = (circe__variable){.dim = from->dim, .constant = from->constant};
    if (from->dim == 0) return CIRCE_OK;
    to->points = circe__alloc(data->context, n * from->dim, sizeof *to->points);
    to->free = circe__alloc(data->context, from->kernel->n_factors, sizeof *to->free);
    if (to->points == NULL || to->free == NULL) return CIRCE_ERR_MEMORY;
    memcpy(to->free, from->free, (size_t)from->kernel->n_factors * sizeof *to->free);
    for (int64_t i = 0; i < n; i++)
        memcpy(to->points + i * to->dim, from->points + index[i] * to->dim, (size_t)to->dim * sizeof *to->points);
    return circe__kernel_copy(data->context, from->kernel, &to->kernel);
}

circe_status circe__data_rows_of_y(const circe__data *data, const int64_t *index, int64_t n, circe__data *subset) {
    *subset = (circe__data){.context = data->context, .options = data->options, .given = n, .n = n, .total = n};
    subset->by_value = data->by_value;
    subset->row = circe__alloc(data->context, n, sizeof *subset->row);
    subset->root = circe__alloc(data->context, n, sizeof *subset->root);
    subset->unit = circe__alloc(data->context, n, sizeof *subset->unit);
    circe_status status = CIRCE_ERR_MEMORY;
    if (subset->row != NULL && subset->root != NULL && subset->unit != NULL)
        status = circe__variable_subset(data, &data->y, index, n, &subset->y);
    if (status == CIRCE_OK) status = circe__variable_subset(data, &data->coded, index, n, &subset->coded);
    if (status == CIRCE_OK) status = circe__faces_subset(data, index, n, &subset->faces);
    if (status == CIRCE_OK) status = circe__dependence_subset(data, index, n, &subset->dependence);
    double length = 0.0;
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) {
        subset->row[i] = i;
        subset->root[i] = data->root[index[i]];
        length += subset->root[i] * subset->root[i];
    }
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) subset->unit[i] = subset->root[i] / sqrt(length);
    if (status != CIRCE_OK) circe__data_free(subset);
    return status;
}

circe_status circe__data_subset(const circe__data *data, const int64_t *index, int64_t n, circe__data *subset) {
    circe_status status = circe__data_rows_of_y(data, index, n, subset);
    if (status != CIRCE_OK) return status;
    status = circe__variable_subset(data, &data->x, index, n, &subset->x);
    if (status == CIRCE_OK) status = circe__variable_subset(data, &data->z, index, n, &subset->z);
    if (status != CIRCE_OK) circe__data_free(subset);
    return status;
}

/* ---- parts beside each other ------------------------------------------------------------------------------------- */

enum { MOST_PARTS = 16, TEXT_BYTES = 512 };

typedef struct parts_beside {
    circe__part_fn *run;
    void *user;
    circe_status status[MOST_PARTS];
    char text[MOST_PARTS][TEXT_BYTES]; /* of a failure: each thread has its own */
} parts_beside;

static void run_part(void *user, int64_t part) {
    parts_beside *p = user;
    p->status[part] = p->run(p->user, part);
    if (p->status[part] != CIRCE_OK) snprintf(p->text[part], TEXT_BYTES, "%s", circe_last_error());
}

circe_status circe__beside(const circe__data *data, int64_t parts, circe__part_fn *run, void *user) {
    bool alone = data->options.memory != NULL || data->device != NULL || data->context->threads < 2 ||
                 parts > MOST_PARTS || data->context->options.allocator.allocate != circe__allocate_default;
    circe_status status = CIRCE_OK;
    if (alone) {
        for (int64_t part = 0; status == CIRCE_OK && part < parts; part++) status = run(user, part);
        return status;
    }
    parts_beside p = {.run = run, .user = user};
    circe__run_beside(data->context, parts, run_part, &p);
    for (int64_t part = 0; part < parts; part++)
        if (p.status[part] != CIRCE_OK) return circe_fail(p.status[part], "%s", p.text[part]);
    return CIRCE_OK;
}
