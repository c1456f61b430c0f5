/* The conditional mean by low-rank features: O(M r^2) time, O(r^2) memory beside the data.
 *
 *     F_y (M, r_y), F_z (M, r_z)    features of the holdout by pivoted Cholesky, made in blocks of rows, never stored
 *     S = F_y'F_y = V' diag(s) V    the non-zero spectrum of K_YY ~ F_y F_y'; v_k are the rows of V
 *     G = V F_y'F_z                 (r_y, r_z)
 *     C = V' diag(1/(s+ridge)) G    mu(y) = C' f_y(y), exact for the low-rank kernel by Woodbury's identity
 *
 * Leave-one-out (the paper's theorem) for every ridge at once: with q_i = V f_y(y_i),
 *
 *     A_ii = sum_k q_ik^2 / (s_k + ridge),    residual_i = f_z(z_i) - G' diag(1/(s+ridge)) q_i,
 *     error = mean_i (|residual_i|^2 + left-out part of z_i) / (1 - A_ii)^2.
 *
 * Two passes over the rows: one for S and G, one for the errors. */
#include <math.h>
#include <string.h>

#include "cme/internal.h"

enum {
    BLOCK = 2048, /* rows of features at a time */
};

/* Scratch of a pass. */
typedef struct pass {
    double *features_y, *features_z; /* (BLOCK, r_y), (BLOCK, r_z) */
    double *diagonal, *residual;     /* (BLOCK) */
    void *scratch;
} pass;

static void pass_free(const circe_context *context, pass *p) {
    circe__free(context, p->features_y);
    circe__free(context, p->features_z);
    circe__free(context, p->diagonal);
    circe__free(context, p->residual);
    circe__free(context, p->scratch);
}

static circe_status pass_init(const circe__holdout *holdout, const circe__basis *y_basis, pass *p) {
    const circe_context *context = holdout->context;
    int64_t block = circe__min(BLOCK, holdout->rows);
    size_t bytes_y = circe__basis_bytes(y_basis), bytes_z = circe__basis_bytes(holdout->z_basis);
    *p = (pass){0};
    p->features_y = circe__alloc(context, block * y_basis->rank, sizeof(double));
    p->features_z = circe__alloc(context, block * holdout->z_basis->rank, sizeof(double));
    p->diagonal = circe__alloc(context, block, sizeof(double));
    p->residual = circe__alloc(context, block, sizeof(double));
    p->scratch = circe__alloc(context, (int64_t)(bytes_y > bytes_z ? bytes_y : bytes_z), 1);
    if (p->features_y != NULL && p->features_z != NULL && p->diagonal != NULL && p->residual != NULL &&
        p->scratch != NULL)
        return CIRCE_OK;
    return CIRCE_ERR_MEMORY;
}

/* First pass: S into regression->vectors, F_y'F_z into cross, and the share of the trace that is left out. */
static circe_status accumulate(circe__holdout *holdout, circe__regression *regression, double *cross) {
    const circe__algebra *algebra = holdout->context->backend->algebra;
    const circe__basis *yb = &regression->y_basis, *zb = holdout->z_basis;
    int64_t ry = yb->rank, rz = zb->rank;
    double trace = 0.0, left = 0.0;
    pass p;
    circe_status status = pass_init(holdout, yb, &p);
    memset(regression->vectors, 0, (size_t)(ry * ry) * sizeof(double));
    memset(cross, 0, (size_t)(ry * rz) * sizeof(double));
    for (int64_t i = 0; status == CIRCE_OK && i < holdout->rows; i += BLOCK) {
        int64_t n = circe__min(BLOCK, holdout->rows - i);
        circe__basis_features(yb, ry, holdout->y + i * holdout->dim_y, n, p.features_y, ry, p.diagonal, p.residual,
                              p.scratch);
        circe__basis_features(zb, rz, holdout->z + i * holdout->dim_z, n, p.features_z, rz, NULL, NULL, p.scratch);
        for (int64_t k = 0; k < n; k++) {
            trace += p.diagonal[k];
            left += p.residual[k];
        }
        algebra->gram_update(ry, n, p.features_y, ry, 1.0, regression->vectors, ry);
        algebra->gemm(1, 0, ry, rz, n, 1.0, p.features_y, ry, p.features_z, rz, 1.0, cross, rz);
        holdout->steps_done++;
        status = circe__progress(holdout->context, "fitting", holdout->steps_done, holdout->steps_total);
    }
    regression->trace_residual = trace > 0.0 ? left / trace : 0.0;
    pass_free(holdout->context, &p);
    return status;
}

circe_status circe__lowrank_prepare(circe__holdout *holdout, const circe_kernel *kernel_y, int64_t max_rank,
                                    circe__regression *regression) {
    circe_context *context = holdout->context;
    double *cross = NULL;
    int64_t rz = holdout->z_basis->rank, ry = 0;
    *regression = (circe__regression){.solver = CIRCE_METHOD_LOWRANK};
    circe_status status = circe__basis_init(context, kernel_y, holdout->dim_y, "y", &regression->y_basis);
    if (status == CIRCE_OK)
        status = circe__basis_cover(&regression->y_basis, holdout->y, holdout->rows, holdout->options->tolerance,
                                    max_rank, holdout->options->seed, "y");
    if (status != CIRCE_OK) goto done;
    ry = regression->n = regression->y_basis.rank;
    regression->s = circe__alloc(context, ry, sizeof(double));
    regression->vectors = circe__alloc(context, ry * ry, sizeof(double));
    regression->G = circe__alloc(context, ry * rz, sizeof(double));
    cross = circe__alloc(context, ry * rz, sizeof(double));
    if (regression->s == NULL || regression->vectors == NULL || regression->G == NULL || cross == NULL)
        status = CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK) status = accumulate(holdout, regression, cross);
    if (status == CIRCE_OK) status = circe__regression_decompose(context, regression);
    if (status == CIRCE_OK)
        context->backend->algebra->gemm(0, 0, ry, rz, ry, 1.0, regression->vectors, ry, cross, rz, 0.0, regression->G,
                                        rz);

done:
    circe__free(context, cross);
    if (status != CIRCE_OK) circe__regression_free(context, regression);
    return status;
}

/* ---- leave-one-out ---------------------------------------------------------------------------------------------- */

/* (r_y, n_ridge * r_z): diag(1/(s+ridge)) G for every ridge, side by side, so that one product serves them all. */
static double *stack_scaled(const circe_context *context, const circe__regression *regression, int64_t rz,
                            const double *ridge, int64_t n_ridge) {
    double *stacked = circe__alloc(context, regression->n * rz * n_ridge, sizeof *stacked);
    if (stacked == NULL) return NULL;
    for (int64_t k = 0; k < regression->n; k++)
        for (int64_t l = 0; l < n_ridge; l++)
            for (int64_t c = 0; c < rz; c++)
                stacked[(k * n_ridge + l) * rz + c] = regression->G[k * rz + c] / (regression->s[k] + ridge[l]);
    return stacked;
}

/* Adds the errors of one block's rows. Q (n, r_y), means (n, n_ridge * r_z). */
static void add_errors(const circe__regression *regression, const pass *p, int64_t n, int64_t rz, const double *Q,
                       const double *means, const double *ridge, int64_t n_ridge, double *error) {
    int64_t ry = regression->n;
    for (int64_t l = 0; l < n_ridge; l++) {
        double total = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : total)
        for (int64_t i = 0; i < n; i++) {
            double leverage = 0.0, square = p->residual[i];
            const double *mean = means + (i * n_ridge + l) * rz;
            for (int64_t k = 0; k < ry; k++) leverage += Q[i * ry + k] * Q[i * ry + k] / (regression->s[k] + ridge[l]);
            for (int64_t c = 0; c < rz; c++) {
                double difference = p->features_z[i * rz + c] - mean[c];
                square += difference * difference;
            }
            total += square / ((1.0 - leverage) * (1.0 - leverage));
        }
        error[l] += total;
    }
}

circe_status circe__lowrank_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                                int64_t n_ridge, double *error) {
    const circe_context *context = holdout->context;
    const circe__algebra *algebra = context->backend->algebra;
    const circe__basis *yb = &regression->y_basis, *zb = holdout->z_basis;
    int64_t ry = yb->rank, rz = zb->rank, block = circe__min(BLOCK, holdout->rows);
    double *stacked = stack_scaled(context, regression, rz, ridge, n_ridge);
    double *Q = circe__alloc(context, block * ry, sizeof *Q);
    double *means = circe__calloc(context, block * rz * n_ridge, sizeof *means);
    pass p;
    circe_status status = pass_init(holdout, yb, &p);
    if (stacked == NULL || Q == NULL || means == NULL) status = CIRCE_ERR_MEMORY;
    for (int64_t l = 0; l < n_ridge; l++) error[l] = 0.0;
    for (int64_t i = 0; status == CIRCE_OK && i < holdout->rows; i += BLOCK) {
        int64_t n = circe__min(BLOCK, holdout->rows - i);
        circe__basis_features(yb, ry, holdout->y + i * holdout->dim_y, n, p.features_y, ry, NULL, NULL, p.scratch);
        circe__basis_features(zb, rz, holdout->z + i * holdout->dim_z, n, p.features_z, rz, NULL, p.residual,
                              p.scratch);
        algebra->gemm(0, 1, n, ry, ry, 1.0, p.features_y, ry, regression->vectors, ry, 0.0, Q, ry);
        algebra->gemm(0, 0, n, n_ridge * rz, ry, 1.0, Q, ry, stacked, n_ridge * rz, 0.0, means, n_ridge * rz);
        add_errors(regression, &p, n, rz, Q, means, ridge, n_ridge, error);
        holdout->steps_done++;
        status = circe__progress(context, "fitting", holdout->steps_done, holdout->steps_total);
    }
    for (int64_t l = 0; l < n_ridge; l++) error[l] /= (double)holdout->rows;
    pass_free(context, &p);
    circe__free(context, stacked);
    circe__free(context, Q);
    circe__free(context, means);
    return status;
}
