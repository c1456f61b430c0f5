/* NOCCO (Fukumizu, Gretton, Sun, Schoelkopf 2008): the squared Hilbert-Schmidt norm of the normalised conditional
 * cross-covariance operator of (x, y) and (z, y) given y.
 *
 *     R = ~G (~G + n epsilon I)^-1,  ~G = HGH    of (x, y) and (z, y) with product kernels, and of y  (smoother.h)
 *     C = I - R                                   (n, n)
 *     N = C_y R_z C_y                             (n, n), without x
 *     value = tr(R_x N)                           = tr[R_x R_z - 2 R_x R_z R_y + R_x R_y R_z R_y]
 *
 * Gradient: C_x = n epsilon (~G_x + n epsilon I)^-1, so dR_x = C_x d~G_x C_x / (n epsilon), and
 *
 *     d value = <K_yy o (C_x N C_x) / (n epsilon), dK_xx>
 *
 * a contraction; N 1 = 0, so the H of ~G_x changes nothing. Where R_z = P_z P_z' is of low rank, zeta = C_y P_z (n, r)
 * gives N = zeta zeta', the value is |P_x' zeta|^2, and the witness CIRCE's product with C_x zeta. Cost O(n r^2), with
 * the gradient O(n^2 r), or O(n^3) where (z, y) is of high rank; R_x and R_y may be of either kind in both.
 *
 * float32: with a linear kernel of x or y, C_x takes almost all from the products of features that the witness meets in
 * the contraction. What is left is of the size of the witness's rounding, so both are float64 there. */
#include "measures/normalized.h"

#include "core/settings.h"

typedef struct regressions {
    circe__smoother x, y, z;
} regressions;

static circe_status make_regressions(const circe__normalized *m, regressions *R) {
    circe_status status = circe__normalized_pair(m, true, &R->x);
    if (status == CIRCE_OK) status = circe__normalized_pair(m, false, &R->z);
    if (status == CIRCE_OK) status = circe__normalized_y(m, &R->y);
    return status;
}

/* ---- (z, y) of low rank ------------------------------------------------------------------------------------------ */

/* tr(A' S A), A (n, cols); `work` as large as A. */
static circe_status quadratic_form(circe_workspace *workspace, const circe__smoother *S, int64_t cols, const double *A,
                                   double *work, double *form) {
    if (S->dense) {
        circe_status status = circe__smoother_apply(workspace, S, cols, A, false, work);
        if (status == CIRCE_OK) *form = circe__dot(A, work, S->n * cols);
        return status;
    }
    double *inner = circe__take(workspace, CIRCE__SLOT_SMOOTHER_WORK, circe__roomy(S->rank) * circe__roomy(cols), 8);
    if (inner == NULL) return CIRCE_ERR_MEMORY;
    workspace->context->backend->algebra->gemm(1, 0, S->rank, cols, S->n, 1.0, S->P, S->rank, A, cols, 0.0, inner,
                                               cols);
    *form = circe__dot(inner, inner, S->rank * cols);
    return CIRCE_OK;
}

static circe_status nocco_lowrank(const circe__normalized *m, const regressions *R) {
    circe_workspace *workspace = m->workspace;
    int64_t n = m->n, r = R->z.rank;
    if (r == 0) return circe__normalized_nothing(m); /* a kernel that is zero everywhere */
    double *zeta = circe__take(workspace, CIRCE__SLOT_ZETA, n * circe__roomy(r), sizeof *zeta);
    double *work = circe__take(workspace, CIRCE__SLOT_FEATURES_Z, n * circe__roomy(r), sizeof *work);
    if (zeta == NULL || work == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__smoother_apply(workspace, &R->y, r, R->z.P, true, zeta);
    if (status == CIRCE_OK) status = quadratic_form(workspace, &R->x, r, zeta, work, m->value);
    if (status != CIRCE_OK || m->grad == NULL) return status;
    circe_mat witness, features = circe_mat_f64(work, n, r);
    double unused;
    status = circe__smoother_apply(workspace, &R->x, r, zeta, true, work);
    if (status == CIRCE_OK) status = circe__begin_measure(workspace, m->x, n, &witness);
    if (status == CIRCE_OK)
        status = circe__product(workspace, m->kernels->y, m->y, "y", &features, 1.0 / m->how.ridge, &witness, NULL);
    if (status == CIRCE_OK) circe__weigh_by_roots(workspace, &witness);
    if (status == CIRCE_OK) status = circe__contract(workspace, m->kernels->x, m->x, &witness, NULL, &unused, m->grad);
    return status;
}

/* ---- (z, y) of high rank ----------------------------------------------------------------------------------------- */

/* Block by block: whole columns would miss the cache at every step. */
static void transpose(double *A, int64_t n) {
    enum { BLOCK = 32 };
    for (int64_t i0 = 0; i0 < n; i0 += BLOCK)
        for (int64_t j0 = 0; j0 <= i0; j0 += BLOCK)
            for (int64_t i = i0; i < circe__min(i0 + BLOCK, n); i++)
                for (int64_t j = j0; j < circe__min(j0 + BLOCK, i); j++) {
                    double kept = A[i * n + j];
                    A[i * n + j] = A[j * n + i];
                    A[j * n + i] = kept;
                }
}

/* out := (I - S) A (I - S), A symmetric; `half` (n, n) is scratch, and out may be A. */
static circe_status residual_twice(circe_workspace *workspace, const circe__smoother *S, const double *A, double *half,
                                   double *out) {
    circe_status status = circe__smoother_apply(workspace, S, S->n, A, true, half);
    if (status != CIRCE_OK) return status;
    transpose(half, S->n);
    return circe__smoother_apply(workspace, S, S->n, half, true, out);
}

/* tr(S N); `work` (n, n). */
static double trace_of_product(const circe_context *context, const circe__smoother *S, const double *N, double *work) {
    if (S->dense) return circe__dot(S->P, N, S->n * S->n);
    context->backend->algebra->gemm(0, 0, S->n, S->rank, S->n, 1.0, N, S->n, S->P, S->rank, 0.0, work, S->rank);
    return circe__dot(S->P, work, S->n * S->rank);
}

static circe_status nocco_dense(const circe__normalized *m, const regressions *R) {
    circe_workspace *workspace = m->workspace;
    int64_t n = m->n;
    double *work = NULL, unused;
    circe_mat witness;
    circe__points y;
    circe_status status = circe__take_matrices(workspace, CIRCE__SLOT_VECTORS, n, 2, &work);
    if (status != CIRCE_OK) return status;
    double *N = work + n * n;
    status = residual_twice(workspace, &R->y, R->z.P, work, N);
    if (status != CIRCE_OK) return status;
    *m->value = trace_of_product(workspace->context, &R->x, N, work);
    if (m->grad == NULL) return CIRCE_OK;
    status = residual_twice(workspace, &R->x, N, work, N);
    if (status == CIRCE_OK) status = circe__points_take(workspace, CIRCE__SLOT_Y, m->kernels->y, m->y, n, "y", &y);
    if (status == CIRCE_OK) status = circe__points_gram(workspace, &y, false, work);
    if (status == CIRCE_OK) status = circe__begin_measure(workspace, m->x, n, &witness);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) N[i * n + j] *= work[i * n + j] / m->how.ridge;
        circe__write_lower(N + i * n, i, &witness);
    }
    return circe__contract(workspace, m->kernels->x, m->x, &witness, NULL, &unused, m->grad);
}

static circe_status measure(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                            const circe_mat *y, const circe_mat *z, const circe_normalized_options *options,
                            double *value, circe_mat *grad) {
    circe__normalized m;
    regressions R;
    circe_status status = circe__normalized_begin(workspace, kernels, x, y, z, options, value, grad, &m);
    if (status != CIRCE_OK) return status;
    int previous = circe__threads_begin(m.workspace->context);
    status = make_regressions(&m, &R);
    if (status == CIRCE_OK) status = R.z.dense ? nocco_dense(&m, &R) : nocco_lowrank(&m, &R);
    return circe__threads_finish(previous, status);
}

static bool has_linear(const circe_kernel *kernel) {
    for (int64_t f = 0; kernel != NULL && f < kernel->n_factors; f++)
        if (kernel->factors[f].kind == CIRCE_KERNEL_LINEAR) return true;
    return false;
}

circe_status circe_measure_nocco(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                 const circe_mat *y, const circe_mat *z, const circe_normalized_options *options,
                                 double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    bool widens = workspace != NULL && kernels != NULL && x != NULL && x->dtype == CIRCE_FLOAT32 && grad != NULL &&
                  (has_linear(kernels->x) || has_linear(kernels->y));
    if (!widens) return measure(workspace, kernels, x, y, z, options, value, grad);
    circe_mat wide_x, wide_grad;
    circe_status status = circe__widen(workspace, x, grad, &wide_x, &wide_grad);
    if (status == CIRCE_OK) status = measure(workspace, kernels, &wide_x, y, z, options, value, &wide_grad);
    if (status == CIRCE_OK) circe__copy_mat(&wide_grad, grad);
    return status;
}
