/* The spectral norm of the CIRCE operator: the largest singular value of (1/B) sum_i phi(x_i) (x) psi(y_i) (x) zeta_i.
 *
 *     value = sqrt(lambda) / B,   lambda = the largest eigenvalue of K_xx Q,   Q = K_yy o K^c
 *
 * K_xx Q is not symmetric, R Q R' is: with K_xx = R'R (pivoted Cholesky, R of the numerical rank, so that a singular
 * K_xx does no harm) it has the same non-zero spectrum. For its top eigenvector u, w = Q R'u:
 *
 *     d lambda = <w w', d K_xx> / lambda     (lambda simple; |u| = 1, u'R Q R'u = lambda)
 *
 * so the gradient is the contraction with the witness G = w w' / (2 B lambda^(3/2)). O(B^3), float64. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "measures/measure_parts.h"

#include "core/settings.h"

/* Scratch of one evaluation; n x n unless said. */
typedef struct scratch {
    double *K, *Q, *R, *QR, *S; /* R (rank, n), QR = R Q (rank, n), S (rank, rank) */
    double *eigenvalues, *w, *work;
    int *integers; /* pivots (n), LAPACK's (3 + 5 n) */
} scratch;

static circe_status take_scratch(circe_workspace *workspace, int64_t n, scratch *s) {
    double *block = circe__take(workspace, CIRCE__SLOT_VECTORS, 7 * n * n + 10 * n + 1, sizeof *block);
    s->integers = circe__take(workspace, CIRCE__SLOT_ROW_SUMS, 6 * n + 3, sizeof(int));
    if (block == NULL || s->integers == NULL) return CIRCE_ERR_MEMORY;
    s->K = block;
    s->Q = s->K + n * n;
    s->R = s->Q + n * n;
    s->QR = s->R + n * n;
    s->S = s->QR + n * n;
    s->eigenvalues = s->S + n * n;
    s->w = s->eigenvalues + n;
    s->work = s->w + n; /* 2 n^2 + 6 n + 1 */
    return CIRCE_OK;
}

/* K_xx in float64, its factor R in the order of the points. */
static circe_status factor_gram(circe_workspace *workspace, const circe_kernel *kernel_x, const circe_mat *x,
                                scratch *s, int64_t *rank) {
    circe_context *context = workspace->context;
    int64_t n = x->rows;
    circe_kernel_factor *factors = NULL;
    double *points = circe__take(workspace, CIRCE__SLOT_POINTS_A, n * x->cols, sizeof *points);
    void *tiles =
        circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)circe__gram_bytes(context, CIRCE_FLOAT64, n, x->cols), 1);
    if (points == NULL || tiles == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__resolve_into(workspace, kernel_x, x->cols, "x", &factors);
    if (status != CIRCE_OK) return status;
    circe_mat x64 = circe__mat(points, n, x->cols, CIRCE_FLOAT64), K = circe__mat(s->K, n, n, CIRCE_FLOAT64);
    circe__copy_mat(x, &x64);
    circe__gram(context, (circe__factors){factors, circe_kernel_n_factors(kernel_x)}, &x64, &x64, &K, tiles);
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, s->K[i * n + i]);
    *rank =
        context->backend->algebra->pivoted_cholesky(n, s->K, (double)n * DBL_EPSILON * largest, s->integers, s->work);
    memset(s->R, 0, (size_t)(*rank * n) * sizeof(double));
    for (int64_t k = 0; k < *rank; k++)
        for (int64_t j = k; j < n; j++) s->R[k * n + s->integers[j]] = s->K[k * n + j];
    return CIRCE_OK;
}

/* lambda and w = Q R'u; lambda = 0 if K_xx is zero. */
static circe_status top_pair(const circe_context *context, int64_t n, int64_t rank, scratch *s, double *lambda) {
    const circe__algebra *algebra = context->backend->algebra;
    *lambda = 0.0;
    if (rank == 0) return CIRCE_OK;
    algebra->gemm(0, 0, rank, n, n, 1.0, s->R, n, s->Q, n, 0.0, s->QR, n);
    algebra->gemm(0, 1, rank, rank, n, 1.0, s->QR, n, s->R, n, 0.0, s->S, rank);
    if (algebra->eigen(rank, s->S, s->eigenvalues, s->work, s->integers + n) != 0)
        return circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of the CIRCE operator did not converge");
    *lambda = fmax(s->eigenvalues[rank - 1], 0.0);
    algebra->gemm(0, 0, 1, n, rank, 1.0, s->S + (rank - 1) * rank, rank, s->QR, n, 0.0, s->w, n);
    return CIRCE_OK;
}

static void rank_one_witness(const double *w, double scale, circe_mat *witness) {
    for (int64_t i = 0; i < witness->rows; i++)
        for (int64_t j = 0; j <= i; j++) circe__set(witness, i, j, scale * w[i] * w[j]);
}

static circe_status spectral_gradient(circe_workspace *workspace, const circe_kernel *kernel_x, const circe_mat *x,
                                      const double *w, double lambda, circe_mat *grad) {
    int64_t n = x->rows;
    double unused;
    void *data = circe__take(workspace, CIRCE__SLOT_WITNESS, n * n, circe_dtype_size(x->dtype));
    if (data == NULL) return CIRCE_ERR_MEMORY;
    circe_mat witness = circe__mat(data, n, n, x->dtype);
    double rows = (double)circe__counted(workspace, n);
    double scale = lambda > 0.0 ? 1.0 / (2.0 * rows * lambda * sqrt(lambda)) : 0.0;
    rank_one_witness(w, scale, &witness);
    return circe__contract(workspace, kernel_x, x, &witness, NULL, &unused, grad);
}

static void weigh(const circe_workspace *workspace, int64_t n, double *Q) {
    const double *w = circe__weights_of(workspace);
    for (int64_t e = 0; w != NULL && e < n * n; e++) Q[e] *= w[e / n] * w[e % n];
}

circe_status circe_measure_circe_spectral(circe_workspace *workspace, const circe_cme *cme,
                                          const circe_kernel *kernel_x, const circe_mat *x, const circe_mat *y,
                                          const circe_mat *z, double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    scratch s;
    int64_t rank = 0;
    double lambda = 0.0;
    if (workspace == NULL || cme == NULL || value == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "workspace, cme and value must not be NULL");
    circe_status status = circe__check_data(x, "x", 2);
    if (status == CIRCE_OK) status = circe__check_mat(y, "y", 2);
    if (status != CIRCE_OK) return status;
    int64_t n = x->rows;
    if (y->rows != n)
        return circe_fail(CIRCE_ERR_SHAPE, "x has %lld rows and y has %lld; they must be the same points", (long long)n,
                          (long long)y->rows);
    status = circe__check_weights(workspace, n);
    if (status == CIRCE_OK && grad != NULL) status = circe__check_output(grad, n, x->cols, x->dtype, "grad");
    if (status == CIRCE_OK)
        status = circe__memory_check(workspace->context, 8.0 * 10.0 * (double)n * (double)n,
                                     "the spectral norm, which is dense in the batch,", "use a smaller batch");
    if (status == CIRCE_OK) status = take_scratch(workspace, n, &s);
    if (status != CIRCE_OK) return status;
    circe_mat Q = circe__mat(s.Q, n, n, CIRCE_FLOAT64);
    int previous = circe__threads_begin(workspace->context);
    status = circe__quadratic(workspace, cme, y, z, &Q);
    weigh(workspace, n, s.Q);
    if (status == CIRCE_OK) status = factor_gram(workspace, kernel_x, x, &s, &rank);
    if (status == CIRCE_OK) status = top_pair(workspace->context, n, rank, &s, &lambda);
    if (status == CIRCE_OK) {
        *value = sqrt(lambda) / (double)circe__counted(workspace, n);
        if (rank == 0) memset(s.w, 0, (size_t)n * sizeof *s.w);
        if (grad != NULL) status = spectral_gradient(workspace, kernel_x, x, s.w, lambda, grad);
    }
    return circe__threads_finish(previous, status);
}
