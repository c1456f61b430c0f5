/* Sources: created from matrices, and checked before a device uses them. */
#include "train/source.h"

#include <math.h>

#include "circe/status.h"

train_source train_source_floats(const circe_mat *values) {
    return (train_source){.element = values->dtype == CIRCE_FLOAT32 ? TRAIN_FLOATS : (train_element)0,
                          .values = values->data,
                          .n_stored = values->rows,
                          .stride = values->ld,
                          .n = values->rows,
                          .channels = 1,
                          .height = 1,
                          .width = values->cols,
                          .repeat = 1,
                          .scale = 1.0F};
}

int64_t train_source_row_bytes(const train_source *source) {
    int64_t pixels = source->channels * source->height * source->width;
    if (source->element == TRAIN_FLOATS) return pixels * (int64_t)sizeof(float);
    return source->element == TRAIN_BITS ? (pixels + 7) / 8 : pixels;
}

const void *train_source_row_start(const train_source *source, int64_t row) {
    int64_t element = source->element == TRAIN_FLOATS ? (int64_t)sizeof(float) : 1;
    return (const char *)source->values + row * source->stride * element;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static circe_status check_element(const train_source *source, const char *what) {
    if (source->element != TRAIN_FLOATS && source->element != TRAIN_BYTES && source->element != TRAIN_BITS)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the %s features must be float32, bytes or bits", what);
    if (source->values == NULL && source->n > 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the %s features have %lld points and no values (NULL)", what,
                          (long long)source->n);
    if (source->element != TRAIN_FLOATS) return CIRCE_OK;
    if (source->shift != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "the %s features are floats with a shift; only bytes and bits can be shifted", what);
    if (source->repeat != 1)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "the %s features are floats shown %lld times; only the channels of bytes and bits are "
                          "repeated",
                          what, (long long)source->repeat);
    return CIRCE_OK;
}

/* A point has at most 2^31 - 1 numbers, as in a network; what is stored, at most what can be addressed. */
static circe_status check_sizes(const train_source *s, const char *what) {
    int64_t cols, end;
    if (s->channels < 1 || s->height < 1 || s->width < 1 || s->repeat < 1)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "the %s features are %lld by %lld by %lld, shown %lld times; all must be at least 1", what,
                          (long long)s->channels, (long long)s->height, (long long)s->width, (long long)s->repeat);
    if (__builtin_mul_overflow(s->channels, s->height, &cols) || __builtin_mul_overflow(cols, s->width, &cols) ||
        __builtin_mul_overflow(cols, s->repeat, &cols) || cols > INT32_MAX)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "the %s features are %lld by %lld by %lld, shown %lld times: more than 2^31 - 1 numbers per "
                          "point",
                          what, (long long)s->channels, (long long)s->height, (long long)s->width,
                          (long long)s->repeat);
    int64_t element = s->element == TRAIN_FLOATS ? (int64_t)sizeof(float) : 1;
    int64_t least = train_source_row_bytes(s) / element;
    if (s->stride < least)
        return circe_fail(CIRCE_ERR_SHAPE, "the %s features are stored %lld apart, but a row takes %lld", what,
                          (long long)s->stride, (long long)least);
    if (s->n < 0 || s->n_stored < 0)
        return circe_fail(CIRCE_ERR_SHAPE, "the %s features have %lld points but %lld stored rows", what,
                          (long long)s->n, (long long)s->n_stored);
    if (__builtin_mul_overflow(s->n_stored, s->stride, &end) || __builtin_mul_overflow(end, element, &end) ||
        end > PTRDIFF_MAX)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "the %s features have %lld stored rows, %lld apart: more than memory can hold", what,
                          (long long)s->n_stored, (long long)s->stride);
    return CIRCE_OK;
}

static circe_status check_indices(const train_source *s, const char *what) {
    if (s->stored == NULL && s->n > s->n_stored)
        return circe_fail(CIRCE_ERR_SHAPE, "the %s features have %lld points but %lld stored rows", what,
                          (long long)s->n, (long long)s->n_stored);
    for (int64_t i = 0; s->stored != NULL && i < s->n; i++)
        if (s->stored[i] < 0 || s->stored[i] >= s->n_stored)
            return circe_fail(CIRCE_ERR_VALUE, "%s point %lld refers to stored row %d; the rows are 0 to %lld", what,
                              (long long)i, (int)s->stored[i], (long long)s->n_stored - 1);
    return CIRCE_OK;
}

/* A device may turn a NaN into 0 on the way (ReLU does), and then no loss would show it. */
static circe_status check_floats(const train_source *s, const char *what) {
    int64_t cols = train_source_cols(s);
    for (int64_t i = 0; i < s->n; i++) {
        const float *row = train_source_row_start(s, train_source_row(s, i));
        for (int64_t j = 0; j < cols; j++)
            if (!isfinite(row[j]))
                return circe_fail(CIRCE_ERR_VALUE,
                                  "the %s features contain %g in row %lld, column %lld (counted from 0)", what,
                                  (double)row[j], (long long)i, (long long)j);
    }
    return CIRCE_OK;
}

circe_status train_source_check(const train_source *source, const char *what) {
    circe_status status = check_element(source, what);
    if (status == CIRCE_OK) status = check_sizes(source, what);
    if (status == CIRCE_OK) status = check_indices(source, what);
    if (status != CIRCE_OK) return status;
    if (source->element == TRAIN_FLOATS) return check_floats(source, what);
    if (isfinite(source->scale) && isfinite(source->offset) && isfinite(source->background)) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_VALUE,
                      "the %s features have scale %g, offset %g and background %g; they must be finite", what,
                      (double)source->scale, (double)source->offset, (double)source->background);
}
