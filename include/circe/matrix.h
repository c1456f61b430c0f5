/* Matrix views: borrowed, row-major, float32 or float64. */
#ifndef CIRCE_MATRIX_H
#define CIRCE_MATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "circe/export.h"

CIRCE_BEGIN_DECLS

typedef enum circe_dtype {
    CIRCE_FLOAT32 = 1,
    CIRCE_FLOAT64 = 2,
} circe_dtype;

/* Element (i, j) is data[i * ld + j]. A view owns nothing. */
typedef struct circe_mat {
    void *data;
    int64_t rows;
    int64_t cols;
    int64_t ld; /* distance between rows, in elements; at least cols */
    circe_dtype dtype;
} circe_mat;

/* Contiguous views. The library writes only through parameters documented as outputs, so a view of const data may
 * be passed as an input. */
CIRCE_API circe_mat circe_mat_f32(const float *data, int64_t rows, int64_t cols);
/* A contiguous view of float64 data. */
CIRCE_API circe_mat circe_mat_f64(const double *data, int64_t rows, int64_t cols);

/* 4 or 8. */
CIRCE_API size_t circe_dtype_size(circe_dtype dtype);

CIRCE_END_DECLS

#endif
