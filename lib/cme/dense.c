/* The conditional mean by a dense eigendecomposition: O(M^3) time, O(M^2) memory. For kernels of y without low rank
 * (many dimensions, small widths, laplace), and for small holdouts, where it costs nothing and is exact.
 *
 *     K_YY = U diag(s) U',  G = U'F_z (M, r_z),  W(ridge) = (K_YY + ridge I)^-1 F_z = U diag(1/(s+ridge)) G
 *
 * mu(y) = W' k(Y, y). Leave-one-out: the residual of row i is ridge * W_i and 1 - A_ii = ridge * h_i with
 * h_i = sum_k U_ik^2 / (s_k + ridge), so the error is the mean of |W_i|^2 / h_i^2: no difference of close numbers.
 *
 * With weights w (of mean 1, D = diag(w)), K_YY and F_z become D^1/2 K_YY D^1/2 and D^1/2 F_z, and the weights of the
 * model D^1/2 W (fit.c). The errors are then weighted too: |W_i|^2 / h_i^2 has the factor w_i. */
#include <string.h>

#include "cme/cme_parts.h"

/* The kernel matrix, LAPACK's workspace of twice its size, and three matrices of the features of z. */
double circe__dense_fit_bytes(int64_t rows, int64_t rank_z) {
    double m = (double)rows;
    return 8.0 * (3.0 * m * m + 3.0 * m * (double)rank_z);
}

/* F_z (M, r_z), the caller's to free; NULL without memory. */
static double *holdout_features_z(const circe__holdout *holdout) {
    const circe_context *context = holdout->context;
    const circe__basis *basis = holdout->z_basis;
    double *features = circe__alloc(context, holdout->rows * basis->rank, sizeof *features);
    void *scratch = circe__alloc(context, (int64_t)circe__basis_bytes(basis), 1);
    if (features != NULL && scratch != NULL)
        circe__basis_features(basis, basis->rank, holdout->z, holdout->rows, features, basis->rank, NULL, NULL,
                              scratch);
    circe__free(context, scratch);
    if (scratch != NULL) return features;
    circe__free(context, features);
    return NULL;
}

static circe_status fill_gram(const circe__holdout *holdout, const circe_kernel *kernel_y, double *K) {
    const circe_context *context = holdout->context;
    CIRCE__OWNED circe_kernel_factor *factors = NULL;
    circe_status status = circe__resolve(context, kernel_y, holdout->dim_y, "y", &factors);
    if (status != CIRCE_OK) return status;
    CIRCE__OWNED void *scratch =
        circe__alloc(context, (int64_t)circe__gram_bytes(context, CIRCE_FLOAT64, holdout->rows, holdout->dim_y), 1);
    if (scratch == NULL) {
        status = CIRCE_ERR_MEMORY;
    } else {
        circe_mat y = circe_mat_f64(holdout->y, holdout->rows, holdout->dim_y);
        circe_mat out = circe__mat(K, holdout->rows, holdout->rows, CIRCE_FLOAT64);
        circe__gram(context, (circe__factors){factors, circe_kernel_n_factors(kernel_y)}, &y, &y, &out, scratch);
    }
    return status;
}

circe_status circe__dense_prepare(circe__holdout *holdout, const circe_kernel *kernel_y,
                                  circe__regression *regression) {
    const circe_context *context = holdout->context;
    int64_t M = holdout->rows, rz = holdout->z_basis->rank;
    double *features_z = NULL;
    *regression = (circe__regression){.solver = CIRCE_METHOD_DENSE, .n = M};
    circe_status status = circe__memory_check(context, circe__dense_fit_bytes(M, rz), "a dense fit",
                                              "use method lowrank with a larger tolerance, or fewer holdout points");
    if (status != CIRCE_OK) return status;
    regression->vectors = circe__alloc(context, M * M, sizeof(double));
    regression->s = circe__alloc(context, M, sizeof(double));
    regression->G = circe__alloc(context, M * rz, sizeof(double));
    features_z = holdout_features_z(holdout);
    if (regression->vectors == NULL || regression->s == NULL || regression->G == NULL || features_z == NULL)
        status = CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK) status = fill_gram(holdout, kernel_y, regression->vectors);
    if (status == CIRCE_OK && holdout->root != NULL) {
        circe__scale_by_roots(holdout->root, M, M, true, regression->vectors);
        circe__scale_by_roots(holdout->root, M, rz, false, features_z);
    }
    if (status == CIRCE_OK) status = circe__regression_decompose(context, regression);
    if (status == CIRCE_OK)
        context->backend->algebra->gemm(0, 0, M, rz, M, 1.0, regression->vectors, M, features_z, rz, 0.0, regression->G,
                                        rz);
    if (status == CIRCE_OK) status = circe__progress(context, "fitting", ++holdout->steps_done, holdout->steps_total);
    circe__free(context, features_z);
    if (status != CIRCE_OK) circe__regression_free(context, regression);
    return status;
}

/* Leave-one-out under one ridge, for some of the rows. */
typedef struct errors {
    const circe__regression *regression;
    int64_t rank_z;
    double ridge;
    const double *W;      /* (M, r_z) */
    double *h, *residual; /* (M): h_i = sum_k v_ki^2 / (s_k + ridge); |W_i|^2 / h_i^2 */
} errors;

static void run_errors(void *user, int64_t first, int64_t end) {
    const errors *e = user;
    const circe__regression *regression = e->regression;
    int64_t n = regression->n, rz = e->rank_z;
    memset(e->h + first, 0, (size_t)(end - first) * sizeof *e->h);
    for (int64_t k = 0; k < n; k++) {
        const double *v = regression->vectors + k * n;
        double weight = 1.0 / (regression->s[k] + e->ridge);
        for (int64_t i = first; i < end; i++) e->h[i] += weight * v[i] * v[i];
    }
    for (int64_t i = first; i < end; i++) {
        double square = 0.0;
        for (int64_t c = 0; c < rz; c++) square += e->W[i * rz + c] * e->W[i * rz + c];
        e->residual[i] = square / (e->h[i] * e->h[i]);
    }
}

circe_status circe__dense_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                              int64_t n_ridge, double *error) {
    enum { LEAST_ROWS = 64 }; /* of a part: it reads pieces of rows of the vectors */
    const circe_context *context = holdout->context;
    int64_t M = holdout->rows, rz = holdout->z_basis->rank;
    CIRCE__OWNED double *h = circe__alloc(context, 2 * M, sizeof *h);
    circe_status status = h == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t l = 0; status == CIRCE_OK && l < n_ridge; l++) {
        double *W = NULL, total = 0.0;
        status = circe__regression_weights(context, regression, rz, ridge[l], &W);
        if (status != CIRCE_OK) break;
        errors e = {regression, rz, ridge[l], W, h, h + M};
        circe__run_ranges(context->threads, M, circe__max(LEAST_ROWS, 16384 / M), run_errors, &e);
        for (int64_t i = 0; i < M; i++) total += e.residual[i];
        error[l] = total / (double)M;
        circe__free(context, W);
    }
    if (status == CIRCE_OK) status = circe__progress(context, "fitting", ++holdout->steps_done, holdout->steps_total);
    return status;
}
