/* Matrix views: construction, checks, conversion. */
#include "circe/matrix.h"

#include <math.h>
#include <string.h>

#include "core/core.h"

circe_mat circe__mat(void *data, int64_t rows, int64_t cols, circe_dtype dtype) {
    return (circe_mat){.data = data, .rows = rows, .cols = cols, .ld = cols, .dtype = dtype};
}

/* The views are for input and output alike, so constness ends here; see matrix.h for who writes. */
circe_mat circe_mat_f32(const float *data, int64_t rows, int64_t cols) {
    return circe__mat((void *)(uintptr_t)data, rows, cols, CIRCE_FLOAT32);
}

circe_mat circe_mat_f64(const double *data, int64_t rows, int64_t cols) {
    return circe__mat((void *)(uintptr_t)data, rows, cols, CIRCE_FLOAT64);
}

size_t circe_dtype_size(circe_dtype dtype) { return dtype == CIRCE_FLOAT32 ? sizeof(float) : sizeof(double); }

circe_mat circe__rows(const circe_mat *mat, int64_t first, int64_t n) {
    circe_mat part = *mat;
    part.data = (char *)mat->data + (size_t)(first * mat->ld) * circe_dtype_size(mat->dtype);
    part.rows = n;
    return part;
}

circe_status circe__check_mat(const circe_mat *mat, const char *name, int64_t min_rows) {
    int64_t elements;
    if (mat == NULL || mat->data == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "%s must not be NULL", name);
    if (mat->dtype != CIRCE_FLOAT32 && mat->dtype != CIRCE_FLOAT64)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s has dtype %d; it must be CIRCE_FLOAT32 or CIRCE_FLOAT64", name,
                          (int)mat->dtype);
    if (mat->rows < min_rows || mat->cols < 1)
        return circe_fail(CIRCE_ERR_SHAPE, "%s is %lld by %lld; it needs at least %lld row%s and one column", name,
                          (long long)mat->rows, (long long)mat->cols, (long long)min_rows, min_rows == 1 ? "" : "s");
    if (mat->ld < mat->cols)
        return circe_fail(CIRCE_ERR_SHAPE, "%s has a row distance (ld) of %lld, below its %lld columns", name,
                          (long long)mat->ld, (long long)mat->cols);
    if (__builtin_mul_overflow(mat->rows, mat->ld, &elements) || elements > INT64_MAX / 8)
        return circe_fail(CIRCE_ERR_SHAPE, "%s is too large: %lld rows of %lld elements", name, (long long)mat->rows,
                          (long long)mat->ld);
    return CIRCE_OK;
}

/* 0 times a number is 0 unless the number is NaN or infinite: one branch a row. */
static bool row_is_finite(const circe_mat *mat, int64_t i) {
    if (mat->dtype == CIRCE_FLOAT32) {
        const float *row = (const float *)mat->data + i * mat->ld;
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < mat->cols; j++) sum += 0.0f * row[j];
        return sum == 0.0f;
    }
    const double *row = (const double *)mat->data + i * mat->ld;
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < mat->cols; j++) sum += 0.0 * row[j];
    return sum == 0.0;
}

circe_status circe__check_data(const circe_mat *mat, const char *name, int64_t min_rows) {
    circe_status status = circe__check_mat(mat, name, min_rows);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < mat->rows; i++) {
        if (row_is_finite(mat, i)) continue;
        for (int64_t j = 0; j < mat->cols; j++)
            if (!isfinite(circe__at(mat, i, j)))
                return circe_fail(CIRCE_ERR_VALUE, "%s contains %s at row %lld, column %lld (counted from 0)", name,
                                  isnan(circe__at(mat, i, j)) ? "a NaN" : "an infinity", (long long)i, (long long)j);
    }
    return CIRCE_OK;
}

void circe__copy_mat(const circe_mat *src, circe_mat *dst) {
    for (int64_t i = 0; i < src->rows; i++) {
        if (src->dtype == dst->dtype) {
            size_t size = circe_dtype_size(src->dtype);
            memcpy((char *)dst->data + (size_t)(i * dst->ld) * size,
                   (const char *)src->data + (size_t)(i * src->ld) * size, (size_t)src->cols * size);
        } else if (src->dtype == CIRCE_FLOAT32) {
            const float *from = (const float *)src->data + i * src->ld;
            double *to = (double *)dst->data + i * dst->ld;
            for (int64_t j = 0; j < src->cols; j++) to[j] = (double)from[j];
        } else {
            const double *from = (const double *)src->data + i * src->ld;
            float *to = (float *)dst->data + i * dst->ld;
            for (int64_t j = 0; j < src->cols; j++) to[j] = (float)from[j];
        }
    }
}
