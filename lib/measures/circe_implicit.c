/* CIRCE of rows of a data set whose residual features are implicit (lib/cme/implicit.c):
 *
 *     K^c_ij = k_z(z_i, z_j) - h_i . m_j - m_i . h_j        lower triangle, tile by tile in the loops
 *     Q = K_yy o K^c,  G from Q by the estimator,  value = <G, K_xx>
 *
 * Cost: O(B^2 (2 r + d)), and two matrices of B by B. */
#include "measures/measure_parts.h"

/* The rows meant in the given dtype, in the slot, as points of the kernel if one is given; by way of GRAM_X where they
 * are of another dtype. */
static circe_status rows_of(circe_workspace *workspace, const circe_kernel *kernel, const circe_mat *from,
                            const int64_t *index, int64_t n, circe_dtype dtype, circe__slot slot, circe_mat *out) {
    void *own = circe__take(workspace, slot, n * from->cols, circe_dtype_size(dtype));
    if (own == NULL) return CIRCE_ERR_MEMORY;
    *out = circe__mat(own, n, from->cols, dtype);
    if (from->dtype == dtype) {
        circe__gather_rows(from, index, n, out);
        return CIRCE_OK;
    }
    void *other = circe__take(workspace, CIRCE__SLOT_GRAM_X, n * from->cols, circe_dtype_size(from->dtype));
    if (other == NULL) return CIRCE_ERR_MEMORY;
    circe_mat gathered = circe__mat(other, n, from->cols, from->dtype);
    circe__gather_rows(from, index, n, &gathered);
    if (kernel != NULL)
        circe__copy_points(kernel, &gathered, out);
    else
        circe__copy_mat(&gathered, out);
    return CIRCE_OK;
}

/* left = (h, m) and right = (m, h), both (n, 2 r): their product is symmetric. */
static circe_status make_update(circe_workspace *workspace, const circe__implicit *all, const int64_t *index, int64_t n,
                                circe_dtype dtype, circe__update *update) {
    circe_mat m, h;
    int64_t r = all->m.cols;
    size_t size = circe_dtype_size(dtype);
    circe_status status = rows_of(workspace, NULL, &all->m, index, n, dtype, CIRCE__SLOT_FEATURES_Y, &m);
    if (status == CIRCE_OK) status = rows_of(workspace, NULL, &all->h, index, n, dtype, CIRCE__SLOT_FEATURES_Z, &h);
    char *both = circe__take(workspace, CIRCE__SLOT_ZETA, 4 * n * r, size);
    if (status != CIRCE_OK || both == NULL) return CIRCE_ERR_MEMORY;
    update->left = circe__mat(both, n, 2 * r, dtype);
    update->right = circe__mat(both + (size_t)(2 * n * r) * size, n, 2 * r, dtype);
    const circe_mat halves[2][2] = {{h, m}, {m, h}};
    for (int side = 0; side < 2; side++)
        for (int half = 0; half < 2; half++) {
            circe_mat to = side == 0 ? update->left : update->right;
            to.data = (char *)to.data + (size_t)(half * r) * size;
            to.cols = r;
            circe__copy_mat(&halves[side][half], &to);
        }
    return CIRCE_OK;
}

/* Lower triangle of Q := K_yy o Q, times scale; sums (n) its row sums, both triangles without the diagonal,
 * unscaled. */
#define MULTIPLY(NAME, REAL)                                                            \
    static void NAME(const circe_mat *gram, double scale, circe_mat *Q, double *sums) { \
        for (int64_t i = 0; i < Q->rows; i++) sums[i] = 0.0;                            \
        for (int64_t i = 0; i < Q->rows; i++) {                                         \
            const REAL *k = (const REAL *)gram->data + i * gram->ld;                    \
            REAL *q = (REAL *)Q->data + i * Q->ld;                                      \
            double sum = 0.0;                                                           \
            for (int64_t j = 0; j <= i; j++) {                                          \
                double product = (double)k[j] * (double)q[j];                           \
                if (j < i) sum += product, sums[j] += product;                          \
                q[j] = (REAL)(scale * product);                                         \
            }                                                                           \
            sums[i] += sum;                                                             \
        }                                                                               \
    }
MULTIPLY(multiply_f32, float)
MULTIPLY(multiply_f64, double)

static circe_status multiply_by_kernel(circe_workspace *workspace, const circe_kernel *kernel, const circe_mat *y,
                                       double scale, circe_mat *Q, double *sums) {
    const circe_context *context = workspace->context;
    circe_dtype dtype = Q->dtype;
    int64_t n = y->rows;
    circe_kernel_factor *factors = NULL;
    void *K = circe__take(workspace, CIRCE__SLOT_GRAM_Q, n * n, circe_dtype_size(dtype));
    void *scratch =
        circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)circe__gram_bytes(context, dtype, n, y->cols), 1);
    if (K == NULL || scratch == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__resolve_into(workspace, kernel, y->cols, "y", &factors);
    if (status == CIRCE_OK) status = circe__check_widths(kernel, dtype, "y");
    if (status != CIRCE_OK) return status;
    circe_mat gram = circe__mat(K, n, n, dtype);
    circe__gram(context, (circe__factors){factors, circe_kernel_n_factors(kernel)}, y, y, &gram, scratch);
    (dtype == CIRCE_FLOAT32 ? multiply_f32 : multiply_f64)(&gram, scale, Q, sums);
    return CIRCE_OK;
}

circe_status circe__weights_implicit(circe_workspace *workspace, const circe_cme *cme, const circe_mat *all_y,
                                     const circe__implicit *all, const int64_t *index, circe_estimator estimator,
                                     circe__weights *w) {
    int64_t n = w->Q.rows;
    circe_dtype dtype = w->Q.dtype;
    circe_mat y, z;
    circe__update update;
    circe_status status = rows_of(workspace, cme->kernel_y, all_y, index, n, dtype, CIRCE__SLOT_Y, &y);
    if (status == CIRCE_OK) status = rows_of(workspace, cme->kernel_z, &all->z, index, n, dtype, CIRCE__SLOT_Z, &z);
    if (status == CIRCE_OK) status = make_update(workspace, all, index, n, dtype, &update);
    if (status != CIRCE_OK) return status;
    double *sums = circe__take(workspace, CIRCE__SLOT_ROW_SUMS, n, sizeof *sums);
    double *ones = circe__take(workspace, CIRCE__SLOT_DIAGONAL, n, sizeof *ones);
    if (sums == NULL || ones == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) ones[i] = 1.0;
    circe_mat one = circe_mat_f64(ones, n, 1);
    status = circe__product_update(workspace, cme->kernel_z, &z, "z", &one, &update, 1.0, &w->Q, NULL);
    if (status == CIRCE_OK)
        status = multiply_by_kernel(workspace, cme->kernel_y, &y, circe__product_scale(workspace, estimator, n), &w->Q,
                                    sums);
    if (status == CIRCE_OK) w->shifted = circe__estimator_shift(workspace, estimator, sums, NULL, &w->Q, &w->shift);
    return status;
}
