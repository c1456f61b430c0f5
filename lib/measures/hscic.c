/* HSCIC (Park and Muandet 2020; Quinzan et al. 2022) as a witness, without a loop over the points y_k:
 *
 *     (1/B) sum_k [w'(K_xx o K_zz)w - 2 sum w o (K_xx w) o (K_zz w) + (w'K_xx w)(w'K_zz w)],  w = column k of W
 *     W = (K_yy + ridge I)^-1 K_yy (B, B),  U = W o (K_zz W),  s = column sums of U,  V = U - W diag(s) / 2
 *     G = [(W W') o K_zz - V W' - W V'] / B
 *
 * Three products of B by B matrices. If y has low rank, W = P P' with P (B, r), P'P = diag(t) (smoother.h):
 *
 *     W W' = A A',  A = P t^1/2,   V W' = (V P) P',   V P = U P - P (P' diag(s) P) / 2
 *
 * and the rest is one pass over the tiles of G, O(B^2 r). U P comes in one of two ways:
 *
 *   z of low rank too, K_zz = E'E, E (q, B): with m = W E' (B, q), s_k = |m_k|^2 and
 *     (U P)_ic = sum_a E_ai (P B_a)_ic,  B_a = P' diag(m_a) P (r, r)      two products of O(B q r^2), see khatri_rao
 *   z of high rank: by blocks of rows of U, O(B^2 r), U never stored (hscic_blocks.c).
 *
 * With weights (D = diag(w), of mean 1), S is the smoother of D^1/2 K_yy D^1/2 (smoother.h), W = D^1/2 S D^-1/2, and
 * the points y_k count w_k times:  G = [(W D W') o K_zz - V D W' - W D V'] / B. In low rank W = L P' D^-1/2 with L =
 * D^1/2 P:
 *
 *     W D W' = L diag(t) L',   V D W' = (V D^1/2 P) L',   V D^1/2 P = [(L P') o (K_zz L P')] D^-1/2 P - L (P' diag(s)
 * P) / 2
 *
 * with s the column sums of (L P') o (K_zz L P') over w, by the way for z of high rank.
 *
 * With the conditional mean of z from a holdout, the residual replaces z, and K^c (lib/cme) replaces K_zz. The
 * residuals' conditional mean is zero except for the holdout's error, and the weights remove what that leaves. */
#include "measures/hscic.h"

#include "core/settings.h"

#include <math.h>
#include <string.h>

/* ---- y and z of low rank ----------------------------------------------------------------------------------------- */

typedef struct khatri_rao_work {
    const double *a;
    int64_t stride_k, stride_i, q;
    const circe__smoother *smoother;
    circe_dtype dtype;
    void *out;
} khatri_rao_work;

static void khatri_rao_rows(void *user, int64_t first, int64_t end) {
    const khatri_rao_work *w = user;
    int64_t q = w->q, r = w->smoother->rank;
    for (int64_t row = first * q; row < end * q; row++) {
        const double *restrict p = w->smoother->P + row / q * r;
        double weight = w->a[row % q * w->stride_k + row / q * w->stride_i];
        float *restrict narrow = (float *)w->out + row * r;
        double *restrict wide = (double *)w->out + row * r;
        if (w->dtype == CIRCE_FLOAT32)
            for (int64_t c = 0; c < r; c++) narrow[c] = (float)(weight * p[c]);
        else
            for (int64_t c = 0; c < r; c++) wide[c] = weight * p[c];
    }
}

/* out (n, q r): row i holds the products a_ki p_ic of `a` (column i of (q, n), or row i of (n, q)) and P's row, rounded
 * to the dtype: sums over such rows are sums over two indices. */
static void khatri_rao(const double *a, int64_t stride_k, int64_t stride_i, int64_t q, const circe__smoother *smoother,
                       circe_dtype dtype, int threads, void *out) {
    enum { LEAST = 20000 }; /* products to a thread */
    khatri_rao_work w = {a, stride_k, stride_i, q, smoother, dtype, out};
    circe__run_ranges(threads, smoother->n, LEAST / circe__max(q * smoother->rank, 1) + 1, khatri_rao_rows, &w);
}

static void multiply(const circe__algebra *algebra, circe_dtype dtype, int transpose, int64_t m, int64_t n, int64_t k,
                     const void *a, int64_t lda, const void *b, void *c) {
    if (dtype == CIRCE_FLOAT32)
        algebra->gemm_f32(transpose, 0, m, n, k, 1.0f, a, lda, b, n, 0.0f, c, n);
    else
        algebra->gemm(transpose, 0, m, n, k, 1.0, a, lda, b, n, 0.0, c, n);
}

/* z_i - sum_l W_lk z_l = (z_i - c) - m_k,  m_k = sum_l W_lk (z_l - c) - (1 - sum_l W_lk) c:  with c the means of a
 * linear kernel's columns, their squares are not in the sums that cancel each other. E (q, n) holds the columns and
 * loses c, as z does; `means` (q). */
static void leave_means(const circe__points *z, int64_t q, double *E, double *means) {
    circe_mat own = z->mat;
    int64_t n = own.rows, first = z->kernel.items->first_col;
    for (int64_t k = 0; k < q; k++) means[k] = E[k * n];
    circe__less_means(&own, &own);
    for (int64_t k = 0; k < q; k++) {
        for (int64_t i = 0; i < n; i++) E[k * n + i] = circe__at(&own, i, first + k);
        means[k] -= E[k * n];
    }
}

/* m (n, q) -= (1 - W 1) means'; inner (r). */
static void shift_means(const circe__smoother *smoother, const double *means, int64_t q, double *inner, double *m) {
    int64_t n = smoother->n, r = smoother->rank;
    memset(inner, 0, (size_t)r * sizeof *inner);
    for (int64_t e = 0; e < n * r; e++) inner[e % r] += smoother->P[e];
    for (int64_t i = 0; i < n; i++) {
        double left = 1.0;
        for (int64_t c = 0; c < r; c++) left -= smoother->P[i * r + c] * inner[c];
        for (int64_t k = 0; k < q; k++) m[i * q + k] -= left * means[k];
    }
}

/* U P (n, r) and s (n) from E (q, n). The two large products are in the dtype of the witness. */
static circe_status up_from_factor(circe_workspace *workspace, const circe__smoother *smoother, const double *E,
                                   const double *means, int64_t q, circe_dtype dtype, double *s, double *UP) {
    const circe_context *context = workspace->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t n = smoother->n, r = smoother->rank, room = circe__roomy(r), room_q = circe__roomy(q);
    size_t size = circe_dtype_size(dtype);
    char *wide = circe__take(workspace, CIRCE__SLOT_GRAM_X, (n * q * r + 2 * n * r + q * r * r) + 64 * room, size);
    double *m = circe__take(workspace, CIRCE__SLOT_SMOOTHER_WORK, (n + room) * room_q + room, sizeof *m);
    if (wide == NULL || m == NULL) return CIRCE_ERR_MEMORY;
    char *own_p = wide + (size_t)(n * q * r) * size, *result = own_p + (size_t)(n * r) * size;
    char *B = result + (size_t)(n * r) * size;
    double *inner = m + n * q;
    algebra->gemm(1, 1, r, q, n, 1.0, smoother->P, r, E, n, 0.0, inner, q);
    algebra->gemm(0, 0, n, q, r, 1.0, smoother->P, r, inner, q, 0.0, m, q);
    if (means != NULL) shift_means(smoother, means, q, inner, m);
    for (int64_t i = 0; i < n; i++) {
        s[i] = 0.0;
        for (int64_t k = 0; k < q; k++) s[i] += m[i * q + k] * m[i * q + k];
    }
    circe_mat from = circe_mat_f64(smoother->P, n, r), p = circe__mat(own_p, n, r, dtype);
    circe_mat product = circe__mat(result, n, r, dtype), to = circe__mat(UP, n, r, CIRCE_FLOAT64);
    circe__copy_mat(&from, &p);
    khatri_rao(m, 1, q, q, smoother, dtype, context->threads, wide);
    multiply(algebra, dtype, 1, q * r, r, n, wide, q * r, own_p, B);
    khatri_rao(E, n, 1, q, smoother, dtype, context->threads, wide);
    multiply(algebra, dtype, 0, n, r, q * r, wide, q * r, B, result);
    circe__copy_mat(&product, &to);
    return CIRCE_OK;
}

/* UP := V P = U P - P (P' diag(s) P) / 2. */
static circe_status subtract_means(circe_workspace *workspace, const circe__smoother *smoother, const double *s,
                                   double *UP) {
    const circe__algebra *algebra = workspace->context->backend->algebra;
    int64_t n = smoother->n, r = smoother->rank, room = circe__roomy(r);
    double *inner = circe__take(workspace, CIRCE__SLOT_SMOOTHER_WORK, (n + room) * room, sizeof *inner);
    if (inner == NULL) return CIRCE_ERR_MEMORY;
    double *scaled = inner + r * r;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < r; k++) scaled[i * r + k] = s[i] * smoother->P[i * r + k];
    algebra->gemm(1, 0, r, r, n, 1.0, smoother->P, r, scaled, r, 0.0, inner, r);
    algebra->gemm(0, 0, n, r, r, -0.5, smoother->left, r, inner, r, 1.0, UP, r);
    return CIRCE_OK;
}

typedef struct sides {
    const circe__smoother *smoother;
    const double *VP;
    circe_mat *A;
    circe__update *update;
} sides;

static void run_sides(void *user, int64_t first, int64_t end) {
    const sides *w = user;
    int64_t r = w->smoother->rank;
    for (int64_t i = first; i < end; i++)
        for (int64_t k = 0; k < r; k++) {
            double p = w->smoother->left[i * r + k], v = w->VP[i * r + k];
            circe__set(w->A, i, k, p * sqrt(w->smoother->t[k]));
            circe__set(&w->update->left, i, k, v);
            circe__set(&w->update->left, i, r + k, p);
            circe__set(&w->update->right, i, k, p);
            circe__set(&w->update->right, i, r + k, v);
        }
}

/* A = P t^1/2, and the two sides of V W' + W V' = [VP, P] [P, VP]'. */
void circe__hscic_sides(const circe__smoother *smoother, const double *VP, circe_mat *A, circe__update *update) {
    sides w = {smoother, VP, A, update};
    circe__run_ranges(circe__threads_bracketed(), smoother->n, 2048 / circe__max(smoother->rank, 1) + 1, run_sides, &w);
}

/* Views of A (n, r) and of the sides (n, 2r) in the slot FEATURES_Y. */
circe_status circe__hscic_take_sides(circe_workspace *workspace, const circe__smoother *smoother, circe_dtype dtype,
                                     circe_mat *A, circe__update *update) {
    int64_t n = smoother->n, r = smoother->rank;
    size_t size = circe_dtype_size(dtype);
    char *data = circe__take(workspace, CIRCE__SLOT_FEATURES_Y, 5 * n * circe__roomy(r), size);
    if (data == NULL) return CIRCE_ERR_MEMORY;
    *A = circe__mat(data, n, r, dtype);
    update->left = circe__mat(data + (size_t)(n * r) * size, n, 2 * r, dtype);
    update->right = circe__mat(data + (size_t)(3 * n * r) * size, n, 2 * r, dtype);
    return CIRCE_OK;
}

static circe_status hscic_factored(circe_workspace *workspace, const circe_kernel *kernel_z, const circe__points *z,
                                   const circe__smoother *smoother, double *E, int64_t q, circe_mat *witness) {
    int64_t n = smoother->n, r = smoother->rank;
    bool linear = circe__is_linear(z->kernel.items, z->kernel.n) && q == z->kernel.items->n_cols;
    circe_mat A;
    circe__update update;
    double *UP = circe__take(workspace, CIRCE__SLOT_VECTORS, n * (circe__roomy(r) + 1), sizeof *UP);
    double *means = circe__take(workspace, CIRCE__SLOT_DIAGONAL, circe__roomy(q), sizeof *means);
    if (UP == NULL || means == NULL) return CIRCE_ERR_MEMORY;
    double *s = UP + n * r;
    if (linear) leave_means(z, q, E, means);
    circe_status status = up_from_factor(workspace, smoother, E, linear ? means : NULL, q, witness->dtype, s, UP);
    if (status == CIRCE_OK) status = subtract_means(workspace, smoother, s, UP);
    if (status == CIRCE_OK) status = circe__hscic_take_sides(workspace, smoother, witness->dtype, &A, &update);
    if (status != CIRCE_OK) return status;
    circe__hscic_sides(smoother, UP, &A, &update);
    return circe__product_update(workspace, kernel_z, &z->mat, "z", &A, &update, 1.0 / (double)n, witness, NULL);
}

/* ---- the kernel matrix of z as such ------------------------------------------------------------------------------ */

/* Room for K_zz or K^c. The estimate counts the matrices of the dense way beside it. */
static circe_status take_gram(circe_workspace *workspace, int64_t n, double **K) {
    double matrix = 8.0 * (double)n * (double)n;
    circe_status status = CIRCE_OK;
    if (matrix > (double)workspace->bytes[CIRCE__SLOT_GRAM_Z])
        status =
            circe__memory_check(workspace->context, 4.0 * matrix, "HSCIC of all these rows at once", "use fewer rows");
    if (status != CIRCE_OK) return status;
    *K = circe__take(workspace, CIRCE__SLOT_GRAM_Z, n * n, sizeof **K);
    return *K == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
}

static circe_status hscic_from_gram(circe_workspace *workspace, const circe__smoother *smoother, const double *K,
                                    circe_mat *witness) {
    int64_t n = smoother->n, r = smoother->rank;
    if (smoother->dense) return circe__hscic_dense(workspace, smoother, K, witness);
    double *UP = circe__take(workspace, CIRCE__SLOT_VECTORS, n * (circe__roomy(r) + 1), sizeof *UP);
    if (UP == NULL) return CIRCE_ERR_MEMORY;
    double *s = UP + n * r;
    circe_status status = circe__hscic_blocks(workspace, smoother, K, s, UP);
    if (status == CIRCE_OK) status = subtract_means(workspace, smoother, s, UP);
    return status == CIRCE_OK ? circe__hscic_assemble(workspace, smoother, UP, K, witness) : status;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

/* With weights: D^1/2 S where it is dense, and the two sides of W where it is not. */
static circe_status weigh_sides(circe_workspace *workspace, const double *root, circe__smoother *smoother) {
    int64_t n = smoother->n, r = smoother->rank;
    for (int64_t e = 0; smoother->dense && e < n * n; e++) smoother->P[e] *= root[e / n];
    if (smoother->dense) return CIRCE_OK;
    double *left = circe__take(workspace, CIRCE__SLOT_SMOOTHER_Z, 2 * n * circe__roomy(r), sizeof *left);
    if (left == NULL) return CIRCE_ERR_MEMORY;
    double *right = left + n * r;
    for (int64_t e = 0; e < n * r; e++) {
        double of = root[e / r];
        left[e] = of * smoother->P[e];
        right[e] = of > 0.0 ? smoother->P[e] / of : 0.0;
    }
    smoother->left = left;
    smoother->right = right;
    return CIRCE_OK;
}

static circe_status smooth_y(circe_workspace *workspace, const circe_kernel *kernel_y, const circe_mat *y,
                             const circe_batch_options *options, circe_dtype dtype, circe__smoother *smoother) {
    circe__points points;
    circe__smoother_options how = {options->ridge, false, options->method,
                                   circe__batch_tolerance(options->tolerance, dtype), false};
    circe_status status = circe__points_take(workspace, CIRCE__SLOT_Y, kernel_y, y, 0, "y", &points);
    if (status != CIRCE_OK) return status;
    status = circe__smoother_make(workspace, CIRCE__SLOT_SMOOTHER_Y, &points, &how, "y", smoother);
    return status == CIRCE_OK && points.root != NULL ? weigh_sides(workspace, points.root, smoother) : status;
}

static circe_status hscic_work(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                               const circe_mat *z, const circe_batch_options *options, circe_mat *witness) {
    circe__points points;
    circe__smoother smoother;
    double *K_zz = NULL, *E = NULL;
    int64_t q = -1, n = y->rows;
    circe_status status = smooth_y(workspace, kernels->y, y, options, witness->dtype, &smoother);
    if (status == CIRCE_OK) status = circe__points_take(workspace, CIRCE__SLOT_Z, kernels->z, z, 0, "z", &points);
    if (status != CIRCE_OK) return status;
    points.root = NULL; /* K_zz itself */
    if (!smoother.dense &&
        workspace->n_weights ==
            0) { /* 4 n q r^2 operations against 8 n^2 r in float64, which take twice as long as in float32 */
        int64_t worth = witness->dtype == CIRCE_FLOAT32 ? 4 * n : 2 * n;
        int64_t most = circe__min(n, worth / circe__max(smoother.rank, 1));
        double tolerance = circe__batch_tolerance(options->tolerance, witness->dtype);
        status = circe__points_try(workspace, &points, tolerance, circe__max(most, 1), false, "z", &E, &q);
        if (status != CIRCE_OK) return status;
        if (q >= 0) return hscic_factored(workspace, kernels->z, &points, &smoother, E, q, witness);
    }
    status = take_gram(workspace, n, &K_zz);
    if (status == CIRCE_OK) status = circe__points_gram(workspace, &points, false, K_zz);
    return status == CIRCE_OK ? hscic_from_gram(workspace, &smoother, K_zz, witness) : status;
}

static circe_status hscic_witness(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                                  const circe_mat *z, const circe_batch_options *options, circe_mat *witness) {
    int previous = circe__threads_begin(workspace->context);
    circe_status status = hscic_work(workspace, kernels, y, z, options, witness);
    return circe__threads_finish(previous, status);
}

static circe_status holdout_witness(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                    const circe_mat *z, const circe_batch_options *options, circe_mat *witness) {
    double *K = NULL;
    circe__smoother smoother;
    circe_status status = take_gram(workspace, z->rows, &K);
    if (status != CIRCE_OK) return status;
    circe_mat gram = circe__mat(K, z->rows, z->rows, CIRCE_FLOAT64);
    status = circe_residual_gram(workspace, cme, y, z, &gram);
    if (status != CIRCE_OK) return status;
    int previous = circe__threads_begin(workspace->context);
    status = smooth_y(workspace, cme->kernel_y, y, options, witness->dtype, &smoother);
    if (status == CIRCE_OK) status = hscic_from_gram(workspace, &smoother, K, witness);
    return circe__threads_finish(previous, status);
}

circe_status circe_witness_hscic(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *y,
                                 const circe_mat *z, const circe_batch_options *options, circe_mat *witness) {
    CIRCE_OWN_SETTINGS;
    return circe__batch_witness(hscic_witness, workspace, kernels, y, z, options, witness);
}

circe_status circe_measure_hscic(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                 const circe_mat *y, const circe_mat *z, const circe_batch_options *options,
                                 double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    return circe__batch_measure(hscic_witness, workspace, kernels, x, y, z, options, value, grad);
}

circe_status circe_witness_hscic_holdout(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                         const circe_mat *z, const circe_batch_options *options, circe_mat *witness) {
    CIRCE_OWN_SETTINGS;
    circe_batch_options own;
    if (cme == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cme must not be NULL");
    circe_kernels kernels = {NULL, cme->kernel_y, cme->kernel_z};
    circe_status status = circe__begin_batch(workspace, &kernels, y, z, &options, &own, witness);
    return status == CIRCE_OK ? holdout_witness(workspace, cme, y, z, options, witness) : status;
}

circe_status circe_measure_hscic_holdout(circe_workspace *workspace, const circe_cme *cme, const circe_kernel *kernel_x,
                                         const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                         const circe_batch_options *options, double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    circe_batch_options own;
    circe_mat witness;
    if (cme == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cme must not be NULL");
    circe_kernels kernels = {kernel_x, cme->kernel_y, cme->kernel_z};
    circe_status status = circe__begin_batch(workspace, &kernels, y, z, &options, &own, NULL);
    if (status == CIRCE_OK) status = circe__begin_measure(workspace, x, y->rows, &witness);
    if (status == CIRCE_OK) status = holdout_witness(workspace, cme, y, z, options, &witness);
    if (status == CIRCE_OK) status = circe__contract(workspace, kernel_x, x, &witness, NULL, value, grad);
    return status;
}
