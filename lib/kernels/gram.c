/* Gram blocks through the backend's loops. */
#include "kernels/kernels.h"

#include "core/settings.h"

size_t circe__gram_bytes(const circe_context *context, circe_dtype dtype, int64_t rows_b, int64_t cols) {
    return circe__loops_for(context->backend, dtype)->gram_bytes(rows_b, cols, context->threads);
}

enum { BLOCK_ROWS = 64, BLOCK_ELEMENTS = 1 << 23 }; /* a tenth of a second or so */

void circe__gram(const circe_context *context, circe__factors kernel, const circe_mat *a, const circe_mat *b,
                 circe_mat *out, void *scratch) {
    circe__loops_for(context->backend, out->dtype)->gram(kernel, a, b, out, context->threads, scratch);
}

circe_status circe_gram(circe_context *context, const circe_kernel *kernel, const circe_mat *a, const circe_mat *b,
                        circe_mat *out) {
    CIRCE_OWN_SETTINGS;
    CIRCE__OWNED circe_kernel_factor *factors = NULL;
    CIRCE__OWNED void *scratch = NULL;
    if (context == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "context must not be NULL");
    circe_status status = circe__check_data(a, "a", 1);
    if (status == CIRCE_OK) status = circe__check_data(b, "b", 1);
    if (status == CIRCE_OK) status = circe__check_mat(out, "out", 1);
    if (status != CIRCE_OK) return status;
    if (a->cols != b->cols || out->rows != a->rows || out->cols != b->rows)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "a is %lld by %lld, b %lld by %lld, out %lld by %lld; out must be rows of a by rows of b",
                          (long long)a->rows, (long long)a->cols, (long long)b->rows, (long long)b->cols,
                          (long long)out->rows, (long long)out->cols);
    if (a->dtype != b->dtype || a->dtype != out->dtype)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a, b and out must have the same dtype");
    status = circe__check_widths(kernel, out->dtype, "a and b");
    if (status == CIRCE_OK) status = circe__resolve(context, kernel, a->cols, "a and b", &factors);
    if (status != CIRCE_OK) return status;
    scratch = circe__alloc(context, (int64_t)circe__gram_bytes(context, out->dtype, b->rows, b->cols), 1);
    if (scratch == NULL) return CIRCE_ERR_MEMORY;
    /* In blocks of rows, so that the caller can stop a large one. Their size is a multiple of every tile's. */
    int64_t block = circe__max(BLOCK_ELEMENTS / out->cols / BLOCK_ROWS, 1) * BLOCK_ROWS;
    for (int64_t i = 0; status == CIRCE_OK && i < out->rows; i += block) {
        int64_t n = circe__min(block, out->rows - i);
        circe_mat rows = circe__rows(a, i, n), part = circe__rows(out, i, n);
        circe__gram(context, (circe__factors){factors, circe_kernel_n_factors(kernel)}, &rows, b, &part, scratch);
        if (n < out->rows) status = circe__progress(context, "gram", i + n, out->rows);
    }
    return status;
}
