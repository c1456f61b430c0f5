/* A circe_measure that is handed points in the GPU's memory, of either dtype: it needs no data set, and prepares them
 * (x over its width, residual features of y and z) in scratch of the handle. Nothing of them is kept. */
#include "cuda/measuring.h"

/* Widths of y and z would be chosen from points that the host cannot read. */
circe_status circe__on_cuda_open(circe_measure *m) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    const circe_kernel *kernel_y = m->kernel_y != NULL ? m->kernel_y : m->asked_y;
    bool has_y = kernel_y == NULL || circe_kernel_n_free(kernel_y) == 0;
    bool has_z = m->kernel_z == NULL || circe_kernel_n_free(m->kernel_z) == 0;
    s->method = m->options.method;
    if (circe__measure_runs(m))
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "on a GPU a running width is that of the rows of a data set");
    if (m->features != NULL) return circe__on_cuda_features(m, m->features);
    if (!has_y || !has_z)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "on a GPU the widths of the kernels of y and z must be given");
    if (circe__uses(m, CIRCE_USES_GCM) && circe__measure_holds_out(m))
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "gcm with a mean takes points in host memory only");
    bool needs_mean = circe__uses(m, CIRCE_USES_MEAN) || circe__measure_holds_out(m);
    circe_mat none = {0}; /* never looked at: every width is known */
    circe_status status = circe__measure_settle(m, &none, &none);
    return status == CIRCE_OK && needs_mean ? circe_cuda_model_create(s->cuda, m->mean, &s->model) : status;
}

/* What a call prepares: x over its width, residual features zeta. Counted first, and then taken. */
static void lay_out(const circe_measure *m, const circe_mat *x, circe_mat *zeta, circe__cuda_pieces *pieces) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    size_t size = circe_dtype_size(x->dtype);
    if (circe__measure_scales(m)) {
        s->widths = circe__cuda_doubles(pieces, s->n_widths + 1);
        s->scaling = circe__cuda_piece(pieces, circe_cuda_scale_bytes(x->rows, x->cols));
        s->scaled = circe__cuda_piece(pieces, (size_t)(x->rows * x->cols) * size);
    }
    *zeta = circe__mat(NULL, x->rows, circe_cuda_model_columns(s->model), x->dtype);
    zeta->data = circe__cuda_piece(pieces, (size_t)(zeta->rows * zeta->cols) * size);
}

static circe_status prepare(const circe_measure *m, const circe_mat *x, circe_mat *zeta) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    circe__cuda_pieces pieces = {0};
    void *base = NULL;
    int before = 0;
    circe_status status = circe__cuda_check_mat(s->cuda, x, "x", 1);
    if (status != CIRCE_OK) return status;
    lay_out(m, x, zeta, &pieces);
    if (pieces.used == 0) return CIRCE_OK;
    status = circe__cuda_begin(s->cuda, &before);
    if (status != CIRCE_OK) return status;
    status = circe__cuda_grow(s->cuda, &s->cuda->points, pieces.used, &base);
    pieces = (circe__cuda_pieces){.base = base};
    if (status == CIRCE_OK) lay_out(m, x, zeta, &pieces);
    if (status == CIRCE_OK && circe__measure_scales(m))
        status = circe__cuda_status(
            cudaMemsetAsync(s->widths, 0, (size_t)(s->n_widths + 1) * sizeof *s->widths, s->cuda->stream),
            "preparing points");
    circe__cuda_end(s->cuda, before);
    return status;
}

circe_status circe__on_cuda_rows(circe_measure *m, int64_t place, const int64_t *rows, int64_t n, const circe_mat *x,
                                 double *value, circe_mat *grad) {
    circe_mat zeta;
    (void)n;
    circe_status status = prepare(m, x, &zeta);
    return status == CIRCE_OK ? circe__on_cuda_measure(m, place, rows, x, NULL, value, grad) : status;
}

circe_status circe__on_cuda_points(circe_measure *m, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                   double *value, circe_mat *grad) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    circe_mat zeta;
    if (s->features != NULL)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "a measure on a GPU that is bound to residual features takes rows");
    if (circe__weights_of(m->workspace) != NULL)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "a measure on a GPU takes no weights of rows; measure on the CPU, or leave them out");
    circe_status status = prepare(m, x, &zeta);
    if (status == CIRCE_OK && circe__uses(m, CIRCE_USES_Y)) status = circe__cuda_check_rows(y->rows, x->rows, "y");
    if (status == CIRCE_OK) status = circe__cuda_check_rows(z->rows, x->rows, "z");
    if (status == CIRCE_OK && s->model != NULL)
        status = circe_cuda_residual_features(s->cuda, s->model, y, z, &zeta, NULL);
    if (status != CIRCE_OK) return status;
    s->y = *y;
    s->z = s->model != NULL ? zeta : *z;
    return circe__on_cuda_measure(m, 0, NULL, x, NULL, value, grad);
}
