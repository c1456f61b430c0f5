/* Columns of y as numbers where some are classes: what lines, products, directions and splits work on. The code of a
 * class is a name and has no order, so a class column becomes one indicator for each value, the most frequent first;
 * one is enough for two values. Rarer values share a row of zeros; y's own kernel still tells them apart. Columns are
 * about their means and over their standard deviations. */
#include <stdlib.h>

#include "inference/inference_parts.h"

enum { MOST_VALUES = 24 };

typedef struct value {
    double number;
    int64_t count, first; /* rows that have it, the first of them */
} value;

static int by_first(const void *a, const void *b) {
    int64_t x = ((const value *)a)->first, y = ((const value *)b)->first;
    return (x > y) - (x < y);
}

static int by_number(const void *a, const void *b) {
    double x = ((const value *)a)->number, y = ((const value *)b)->number;
    return x != y ? (x > y) - (x < y) : by_first(a, b);
}

static int by_count(const void *a, const void *b) {
    int64_t x = ((const value *)a)->count, y = ((const value *)b)->count;
    return x != y ? (x < y) - (x > y) : by_first(a, b);
}

/* The values of column c that get an indicator, the most frequent first and otherwise as they appear, so that names do
 * not matter. values (total): scratch. */
static int64_t values_of(const circe__data *data, int64_t c, value *values) {
    int64_t n = data->total, k = 0;
    for (int64_t i = 0; i < n; i++) values[i] = (value){data->y.points[i * data->y.dim + c], 1, i};
    qsort(values, (size_t)n, sizeof *values, by_number);
    for (int64_t i = 1; i < n; i++) {
        if (values[i].number == values[k].number)
            values[k].count++;
        else
            values[++k] = values[i];
    }
    qsort(values, (size_t)(k + 1), sizeof *values, by_count);
    return k < 2 ? k : circe__min(k + 1, MOST_VALUES);
}

/* points: NULL to count the columns, otherwise (total, dim). */
static int64_t fill(const circe__data *data, const bool *is_class, value *values, int64_t dim, double *points) {
    int64_t n = data->total, at = 0;
    for (int64_t c = 0; c < data->y.dim; c++) {
        int64_t columns = is_class[c] ? values_of(data, c, values) : 1;
        for (int64_t k = 0; points != NULL && k < columns; k++)
            for (int64_t i = 0; i < n; i++) {
                double number = data->y.points[i * data->y.dim + c];
                points[i * dim + at + k] = is_class[c] ? (double)(number == values[k].number) : number;
            }
        at += columns;
    }
    return at;
}

circe_status circe__code_classes(circe__data *data) {
    const circe_context *context = data->context;
    const circe__variable *y = &data->y;
    bool any = false;
    if (y->dim == 0 || data->options.kernel_y == NULL) return CIRCE_OK;
    CIRCE__OWNED bool *is_class = circe__calloc(context, y->dim, sizeof *is_class);
    CIRCE__OWNED value *values = circe__alloc(context, data->total, sizeof *values);
    circe_status status = is_class == NULL || values == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t f = 0; status == CIRCE_OK && f < y->kernel->n_factors; f++) {
        const circe_kernel_factor *factor = &y->kernel->factors[f];
        int64_t end = factor->n_cols == -1 ? y->dim : factor->first_col + factor->n_cols;
        for (int64_t c = factor->first_col; factor->kind == CIRCE_KERNEL_DELTA && c < end; c++)
            is_class[c] = any = true;
    }
    int64_t dim = any ? fill(data, is_class, values, 0, NULL) : 0;
    double *points = dim > 0 ? circe__alloc(context, data->total * dim, sizeof *points) : NULL;
    if (dim > 0 && points == NULL) status = CIRCE_ERR_MEMORY;
    if (points != NULL) {
        fill(data, is_class, values, dim, points);
        circe__standardize(points, data->n, data->total, dim);
        status = circe__face_set(data, points, dim, CIRCE_KERNEL_GAUSSIAN, &data->coded);
    }
    return status;
}
