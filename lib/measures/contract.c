/* The contraction <G, K_xx> and its gradient, for every measure that is linear in K_xx. The loops are the backend's;
 * docs/math.md derives the gradients of each kernel. */
#include "measures/measure_parts.h"

#include "core/settings.h"

circe_status circe__check_output(const circe_mat *mat, int64_t rows, int64_t cols, circe_dtype dtype,
                                 const char *name) {
    circe_status status = circe__check_mat(mat, name, 1);
    if (status != CIRCE_OK) return status;
    if (mat->rows != rows || mat->cols != cols)
        return circe_fail(CIRCE_ERR_SHAPE, "%s is %lld by %lld; it must be %lld by %lld", name, (long long)mat->rows,
                          (long long)mat->cols, (long long)rows, (long long)cols);
    if (mat->dtype != dtype)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s must have the dtype of x (%s)", name,
                          dtype == CIRCE_FLOAT32 ? "float32" : "float64");
    return CIRCE_OK;
}

circe_status circe__widen(circe_workspace *workspace, const circe_mat *x, const circe_mat *grad, circe_mat *wide_x,
                          circe_mat *wide_grad) {
    circe_status status = circe__check_mat(x, "x", 1);
    if (status == CIRCE_OK && grad != NULL) status = circe__check_output(grad, x->rows, x->cols, x->dtype, "grad");
    if (status != CIRCE_OK) return status;
    int64_t numbers = circe__max(x->rows * x->cols, 1);
    void *room = circe__take(workspace, CIRCE__SLOT_WIDE_X, numbers, sizeof(double));
    void *room_grad = circe__take(workspace, CIRCE__SLOT_WIDE_GRAD, numbers, sizeof(double));
    if (room == NULL || room_grad == NULL) return CIRCE_ERR_MEMORY;
    *wide_x = circe__mat(room, x->rows, x->cols, CIRCE_FLOAT64);
    *wide_grad = circe__mat(room_grad, x->rows, x->cols, CIRCE_FLOAT64);
    circe__copy_mat(x, wide_x);
    return CIRCE_OK;
}

circe_status circe__begin_measure(circe_workspace *workspace, const circe_mat *x, int64_t rows, circe_mat *witness) {
    if (workspace == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "workspace must not be NULL");
    circe_status status = circe__check_data(x, "x", 1);
    if (status != CIRCE_OK) return status;
    if (x->rows != rows)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "x has %lld rows and the other variables have %lld; they must be the same "
                          "points",
                          (long long)x->rows, (long long)rows);
    status = circe__check_weights(workspace, rows);
    if (status != CIRCE_OK) return status;
    double bytes = (double)circe_dtype_size(x->dtype) * (double)rows * (double)rows;
    if (bytes > (double)workspace->bytes[CIRCE__SLOT_WITNESS])
        status = circe__memory_check(workspace->context, bytes,
                                     "a measure of all these rows at once, which compares them in pairs,",
                                     "measure fewer rows, or in float32");
    if (status != CIRCE_OK) return status;
    void *data = circe__take(workspace, CIRCE__SLOT_WITNESS, rows * rows, circe_dtype_size(x->dtype));
    if (data == NULL) return CIRCE_ERR_MEMORY;
    *witness = circe__mat(data, rows, rows, x->dtype);
    return CIRCE_OK;
}

void circe__weigh_by_roots(const circe_workspace *workspace, circe_mat *witness) {
    const double *root = circe__roots_of(workspace);
    for (int64_t i = 0; root != NULL && i < witness->rows; i++)
        for (int64_t j = 0; j <= i; j++) circe__set(witness, i, j, root[i] * root[j] * circe__at(witness, i, j));
}

void circe_batch_options_init(circe_batch_options *options) {
    if (options != NULL) *options = (circe_batch_options){.ridge = 0.01, .method = CIRCE_METHOD_AUTO};
}

circe_status circe__check_tolerance(double tolerance) {
    if (tolerance >= 0.0 && tolerance < 1.0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "the tolerance must be 0 (what the dtype needs) or between 0 and 1; it is %g",
                      tolerance);
}

circe_status circe__begin_batch(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                                const circe_mat *z, const circe_batch_options **options, circe_batch_options *own,
                                const circe_mat *witness) {
    if (workspace == NULL || kernels == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "workspace and kernels must not be NULL");
    if (kernels->y == NULL || kernels->z == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the kernels of y and z must not be NULL");
    circe_batch_options_init(own);
    if (*options == NULL) *options = own;
    circe_status status = circe__check_data(y, "y", 2);
    if (status == CIRCE_OK) status = circe__check_data(z, "z", 2);
    if (status != CIRCE_OK) return status;
    if (y->rows != z->rows)
        return circe_fail(CIRCE_ERR_SHAPE, "y has %lld rows and z has %lld; they must be the same points",
                          (long long)y->rows, (long long)z->rows);
    status = circe__check_tolerance((*options)->tolerance);
    if (status == CIRCE_OK) status = circe__check_weights(workspace, y->rows);
    if (status != CIRCE_OK || witness == NULL) return status;
    status = circe__check_mat(witness, "witness", 1);
    if (status == CIRCE_OK) status = circe__check_output(witness, y->rows, y->rows, witness->dtype, "witness");
    return status;
}

circe_status circe__contract(circe_workspace *workspace, const circe_kernel *kernel_x, const circe_mat *x,
                             const circe_mat *witness, const circe__shift *shift, double *value, circe_mat *grad) {
    circe_context *context = workspace->context;
    const circe__loops *loops = circe__loops_for(context->backend, x->dtype);
    circe_kernel_factor *factors = NULL;
    if (value == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "value must not be NULL");
    circe_status status = grad == NULL ? CIRCE_OK : circe__check_output(grad, x->rows, x->cols, x->dtype, "grad");
    if (status == CIRCE_OK) status = circe__resolve_into(workspace, kernel_x, x->cols, "x", &factors);
    if (status == CIRCE_OK) status = circe__check_widths(kernel_x, x->dtype, "x");
    if (status != CIRCE_OK) return status;
    circe__factors kernel = {factors, circe_kernel_n_factors(kernel_x)};
    size_t bytes = loops->contract_bytes(kernel, x->rows, x->cols, grad != NULL, context->threads);
    void *scratch = circe__take(workspace, CIRCE__SLOT_GRADIENT, (int64_t)bytes, 1);
    if (scratch == NULL) return CIRCE_ERR_MEMORY;
    int previous = circe__loops_begin(workspace);
    loops->contract(kernel, x, witness, shift, value, grad, context->threads, scratch);
    return circe__loops_finish(workspace, previous);
}

circe_status circe_contract(circe_workspace *workspace, const circe_kernel *kernel_x, const circe_mat *x,
                            const circe_mat *witness, double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    if (workspace == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "workspace must not be NULL");
    circe_status status = circe__check_data(x, "x", 1);
    if (status == CIRCE_OK) status = circe__check_output(witness, x->rows, x->rows, x->dtype, "witness");
    if (status != CIRCE_OK) return status;
    return circe__contract(workspace, kernel_x, x, witness, NULL, value, grad);
}

circe_status circe__batch_witness(circe__witness_fn *make, circe_workspace *workspace, const circe_kernels *kernels,
                                  const circe_mat *y, const circe_mat *z, const circe_batch_options *options,
                                  circe_mat *witness) {
    circe_batch_options own;
    circe_status status = circe__begin_batch(workspace, kernels, y, z, &options, &own, witness);
    return status == CIRCE_OK ? make(workspace, kernels, y, z, options, witness) : status;
}

circe_status circe__batch_measure(circe__witness_fn *make, circe_workspace *workspace, const circe_kernels *kernels,
                                  const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                  const circe_batch_options *options, double *value, circe_mat *grad) {
    circe_batch_options own;
    circe_mat witness;
    circe_status status = circe__begin_batch(workspace, kernels, y, z, &options, &own, NULL);
    if (status == CIRCE_OK) status = circe__begin_measure(workspace, x, y->rows, &witness);
    if (status == CIRCE_OK) status = make(workspace, kernels, y, z, options, &witness);
    if (status == CIRCE_OK) status = circe__contract(workspace, kernels->x, x, &witness, NULL, value, grad);
    return status;
}
