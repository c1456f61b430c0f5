/* The faces of y (faces.h): their coordinates, and features of each. */
#include "inference/faces.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_ADDITIVE = 64,
    LEAST_COLUMN_RANK = 6,
    MOST_COLUMN_RANK = 24,
    MOST_POWERS = 6,
    MOST_PAIRED = 14,
    MOST_CODED = 12
};

void circe__faces_free(const circe_context *context, circe__faces *faces) {
    if (faces == NULL) return;
    circe__variable *all[] = {&faces->scores,    &faces->rough,     &faces->metric[0],
                              &faces->metric[1], &faces->leaves[0], &faces->leaves[1]};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) circe__variable_free(context, all[k]);
    for (int t = 0; t < 2; t++) circe__table_free(context, &faces->steps[t]);
    circe__free(context, faces);
}

/* Makes a face of points, which it takes over, under one kernel whose width is the median. */
circe_status circe__face_set(const circe__data *data, double *points, int64_t dim, circe_kernel_kind kind,
                             circe__variable *face) {
    circe_kernel *kernel = NULL;
    circe__variable_free(data->context, face);
    *face = (circe__variable){.dim = dim, .points = points};
    circe_status status = circe_kernel_create(data->context, kind, 0.0, &kernel);
    if (status == CIRCE_OK) status = circe__bind_kernel(data, face, kernel);
    circe_kernel_destroy(kernel);
    if (status != CIRCE_OK) circe__variable_free(data->context, face);
    return status;
}

/* Normal scores of every column, in the columns' units. */
static circe_status scores_of(const circe__data *data, double **scores) {
    const circe__variable *y = circe__columns(data);
    int64_t rows = data->total, dim = y->dim;
    *scores = circe__alloc(data->context, rows * dim, sizeof **scores);
    if (*scores == NULL) return CIRCE_ERR_MEMORY;
    circe_mat from = circe_mat_f64(y->points, rows, dim), to = circe_mat_f64(*scores, rows, dim);
    return circe_transform_columns(data->context, &from, CIRCE_TRANSFORM_NORMAL_SCORES, NULL, &to);
}

/* The views are free unless the caller chose a kernel; one of classes beside numbers, with free widths, says only which
 * columns are which. */
static bool may_choose(const circe__data *data) {
    bool numbers = false, free = true;
    if (data->options.kernel_y == NULL) return true;
    for (int64_t f = 0; f < data->y.kernel->n_factors; f++) {
        if (data->y.kernel->factors[f].kind == CIRCE_KERNEL_DELTA) continue;
        numbers = true;
        free = free && data->y.kernel->factors[f].kind == CIRCE_KERNEL_GAUSSIAN && data->y.free[f];
    }
    return data->coded.dim > 0 && data->coded.dim <= MOST_CODED && numbers && free;
}

circe_status circe__faces_make(const circe__data *data, circe__faces **faces) {
    CIRCE__OWNED double *scores = NULL, *again = NULL;
    *faces = NULL;
    if (data->y.dim == 0 || data->by_value || data->y.constant || !may_choose(data)) return CIRCE_OK;
    const int64_t dim = circe__columns(data)->dim;
    *faces = circe__calloc(data->context, 1, sizeof **faces);
    circe_status status = *faces == NULL ? CIRCE_ERR_MEMORY : scores_of(data, &scores);
    if (status == CIRCE_OK && dim == 1) { /* the rough face exists for one column only */
        again = circe__alloc(data->context, data->total, sizeof *again);
        status = again == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    }
    if (again != NULL) memcpy(again, scores, (size_t)data->total * sizeof *again);
    if (status == CIRCE_OK) {
        status = circe__face_set(data, scores, dim, CIRCE_KERNEL_GAUSSIAN, &(*faces)->scores);
        scores = NULL;
    }
    if (status == CIRCE_OK && again != NULL) {
        status = circe__face_set(data, again, 1, CIRCE_KERNEL_LAPLACE, &(*faces)->rough);
        again = NULL;
    }
    return status;
}

circe_status circe__faces_subset(const circe__data *data, const int64_t *index, int64_t n, circe__faces **subset) {
    circe__faces *from = data->faces;
    *subset = NULL;
    if (from == NULL) return CIRCE_OK;
    circe__faces *to = *subset = circe__calloc(data->context, 1, sizeof **subset);
    if (to == NULL) return CIRCE_ERR_MEMORY;
    memcpy(to->splits, from->splits, sizeof to->splits);
    memcpy(to->learned, from->learned, sizeof to->learned);
    const circe__variable *sources[] = {&from->scores,    &from->rough,     &from->metric[0],
                                        &from->metric[1], &from->leaves[0], &from->leaves[1]};
    circe__variable *targets[] = {&to->scores,    &to->rough,     &to->metric[0],
                                  &to->metric[1], &to->leaves[0], &to->leaves[1]};
    circe_status status = CIRCE_OK;
    for (size_t k = 0; status == CIRCE_OK && k < sizeof sources / sizeof *sources; k++)
        status = circe__variable_subset(data, sources[k], index, n, targets[k]);
    return status;
}

const circe__variable *circe__face_of(const circe__data *data, const circe__sight *sight) {
    const circe__faces *faces = data->faces;
    if (faces == NULL) return &data->y;
    if (sight->parts & CIRCE__METRIC) return &faces->metric[sight->side];
    if (sight->parts & CIRCE__KERNEL) return &data->y;
    return sight->parts & CIRCE__ROUGH ? &faces->rough : &faces->scores;
}

void circe__sight_text(const circe__sight *sight, char *text, size_t size) {
    static const char *const names[] = {"kernel", "scores", "rough",    "additive", "metric", "leaves",
                                        "values", "linear", "products", "forest",   "given"};
    size_t used = 0;
    text[0] = '\0';
    for (unsigned k = 0; k < sizeof names / sizeof *names && used < size; k++)
        if (sight->parts & (1u << k))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "+" : "", names[k]);
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

/* a := [a, b scaled]; b is consumed. */
static circe_status beside(const circe__data *data, circe__table *a, circe__table *b, double scale) {
    circe__table both = {0};
    circe_status status = circe__to_device(data, b);
    if (status == CIRCE_OK && a->cols == 0 && scale == 1.0) {
        circe__table_free(data->context, a);
        *a = *b;
        *b = (circe__table){0};
        return CIRCE_OK;
    }
    if (status == CIRCE_OK) status = circe__table_at(data->context, b->device, b->rows, a->cols + b->cols, &both);
    if (status == CIRCE_OK && b->device != NULL) status = circe__rows_beside(data, a, b, scale, &both);
    for (int64_t i = 0; status == CIRCE_OK && b->device == NULL && i < b->rows; i++) {
        if (a->cols > 0) memcpy(both.data + i * both.cols, a->data + i * a->cols, (size_t)a->cols * sizeof(double));
        for (int64_t k = 0; k < b->cols; k++) both.data[i * both.cols + a->cols + k] = scale * b->data[i * b->cols + k];
    }
    circe__table_free(data->context, b);
    circe__table_free(data->context, status == CIRCE_OK ? a : &both);
    if (status == CIRCE_OK) *a = both;
    return status;
}

static circe_status kernel_features(const circe__data *data, const circe__variable *face, double multiple,
                                    double tolerance, int64_t most, circe__table *features, double *left) {
    circe_kernel *kernel = NULL;
    circe_status status = circe__scaled_kernel(data, face, multiple, &kernel);
    if (status == CIRCE_OK)
        status = circe__features_of(data, kernel, face->points, data->total, face->dim, tolerance, most, "y", features,
                                    left);
    circe_kernel_destroy(kernel);
    return status;
}

/* Works column by column: the width of one column of scores is that of all divided by their number. */
static circe_status additive_features(const circe__data *data, double multiple, double tolerance, int64_t most,
                                      circe__table *features, double *left) {
    const circe__variable *face = &data->faces->scores;
    int64_t dim = circe__min(face->dim, MOST_ADDITIVE);
    int64_t each = circe__min(circe__max(most / dim, LEAST_COLUMN_RANK), MOST_COLUMN_RANK);
    double sum = 0.0, part = 0.0;
    circe_kernel *kernel = NULL;
    circe_status status = circe_kernel_create(data->context, CIRCE_KERNEL_GAUSSIAN,
                                              multiple * face->kernel->factors[0].sigma2 / (double)face->dim, &kernel);
    for (int64_t c = 0; status == CIRCE_OK && c < dim; c++) {
        circe__table column = {0};
        kernel->factors[0].first_col = c;
        kernel->factors[0].n_cols = 1;
        status = circe__features_of(data, kernel, face->points, data->total, face->dim, tolerance, each, "y", &column,
                                    &part);
        sum += part;
        if (status == CIRCE_OK) status = beside(data, features, &column, 1.0 / sqrt((double)dim));
    }
    *left = sum / (double)dim;
    circe_kernel_destroy(kernel);
    return status;
}

/* Adds y's own columns, so that the regression still uses directions that the metric missed, to first order. */
static circe_status linear_beside(const circe__data *data, circe__table *features) {
    circe__table linear = {0};
    const circe__variable *y = circe__columns(data);
    int64_t n = data->total, d = y->dim;
    circe_status status = circe__table_new(data->context, n, d, &linear);
    if (status != CIRCE_OK) return status;
    memcpy(linear.data, y->points, (size_t)(n * d) * sizeof(double));
    return beside(data, features, &linear, 1.0 / sqrt((double)d));
}

static circe_status leaves_beside(const circe__data *data, int side, circe__table *features) {
    circe__table leaves = {0};
    double left;
    circe_status status = kernel_features(data, &data->faces->leaves[side], 1.0, 1e-8, 256, &leaves, &left);
    return status == CIRCE_OK ? beside(data, features, &leaves, 1.0) : status;
}

/* Square-free monomials of order 2 and more of up to MOST_POWERS columns, pairs of up to MOST_PAIRED. */
circe_status circe__products(const circe__data *data, circe__table *out) {
    const circe__variable *y = circe__columns(data);
    int64_t d = y->dim, n = data->total, at = 0;
    int64_t columns = d < 2 || d > MOST_PAIRED ? 0 : d <= MOST_POWERS ? (1 << d) - 1 - d : d * (d - 1) / 2;
    circe_status status = circe__table_new(data->context, n, columns, out);
    for (unsigned set = 1; status == CIRCE_OK && columns > 0 && set < 1u << d; set++) {
        int order = __builtin_popcount(set);
        if (order < 2 || (d > MOST_POWERS && order > 2)) continue;
        for (int64_t i = 0; i < n; i++) {
            double product = 1.0;
            for (int64_t c = 0; c < d; c++) product *= set & (1u << c) ? y->points[i * d + c] : 1.0;
            out->data[i * columns + at] = product;
        }
        at++;
    }
    return status;
}

static circe_status products_beside(const circe__data *data, circe__table *features) {
    circe__table products = {0};
    circe_status status = circe__products(data, &products);
    double scale = 1.0 / sqrt((double)circe__max(products.cols, 1));
    return status == CIRCE_OK ? beside(data, features, &products, scale) : status;
}

/* Adds one part to the features so far. */
static circe_status add_part(const circe__data *data, const circe__sight *sight, unsigned part, double tolerance,
                             int64_t most, circe__table *features, double *left) {
    const circe__sight alone = {part, sight->side, sight->multiple, 0, 0.0};
    CIRCE__OWNED_BY(circe__table_drop) circe__table more = {0};
    circe_status status =
        kernel_features(data, circe__face_of(data, &alone), sight->multiple, tolerance, most, &more, left);
    if (status == CIRCE_OK && part == CIRCE__METRIC) status = linear_beside(data, &more);
    if (status == CIRCE_OK) status = beside(data, features, &more, 1.0);
    return status;
}

circe_status circe__face_features(const circe__data *data, const circe__sight *sight, double tolerance, int64_t most,
                                  circe__table *features, double *left) {
    const unsigned kernels[] = {CIRCE__KERNEL, CIRCE__SCORES, CIRCE__ROUGH, CIRCE__METRIC};
    const double beside_others = 0.3;
    double apart = 0.0;
    circe_status status = CIRCE_OK;
    *features = (circe__table){.rows = data->total};
    *left = 0.0;
    for (size_t k = 0; status == CIRCE_OK && k < sizeof kernels / sizeof *kernels; k++)
        if (sight->parts & kernels[k]) status = add_part(data, sight, kernels[k], tolerance, most, features, left);
    bool alone = features->cols == 0;
    if (status == CIRCE_OK && (sight->parts & CIRCE__ADDITIVE))
        status = additive_features(data, alone ? sight->multiple : beside_others, tolerance, most, features,
                                   alone ? left : &apart);
    if (status == CIRCE_OK && (sight->parts & CIRCE__PRODUCTS)) status = products_beside(data, features);
    if (status == CIRCE_OK && (sight->parts & CIRCE__LEAVES)) status = leaves_beside(data, sight->side, features);
    return status;
}
