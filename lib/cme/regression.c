/* What the low-rank and the dense regression share: a spectrum that serves every ridge.
 *
 *     K_YY = sum_k s_k u_k u_k',   (K_YY + ridge I)^-1 psi(Z)  through  V' diag(1 / (s + ridge)) G
 *
 * One eigendecomposition per sigma2 makes each ridge a diagonal scaling. Nothing is divided by s_k alone, so the small
 * eigenvalues, known only to eps * s_max, do no harm as long as the ridge is well above that. */
#include <float.h>
#include <math.h>

#include "cme/cme_parts.h"

void circe__regression_free(const circe_context *context, circe__regression *regression) {
    circe__basis_free(&regression->y_basis);
    circe__free(context, regression->s);
    circe__free(context, regression->vectors);
    circe__free(context, regression->G);
    if (regression->parts != NULL) regression->by->ops->dense_free(context, regression->parts);
    *regression = (circe__regression){0};
}

static circe_status decompose(const circe_context *context, circe__regression *regression) {
    int64_t n = regression->n;
    if (n > CIRCE__MAX_EIGEN)
        return circe_fail(CIRCE_ERR_MEMORY,
                          "an eigendecomposition of %lld points is beyond LAPACK's 32-bit workspace (%d points); "
                          "use method lowrank, or fewer holdout points",
                          (long long)n, CIRCE__MAX_EIGEN);
    CIRCE__OWNED double *work = circe__alloc(context, 1 + 6 * n + 2 * n * n, sizeof *work);
    CIRCE__OWNED int *iwork = circe__alloc(context, 3 + 5 * n, sizeof *iwork);
    circe_status status = CIRCE_OK;
    if (work == NULL || iwork == NULL)
        status = CIRCE_ERR_MEMORY;
    else if (n > 0 && context->backend->algebra->eigen(n, regression->vectors, regression->s, work, iwork) != 0)
        status = circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of the kernel matrix of y did not converge");
    for (int64_t k = 0; status == CIRCE_OK && k < n; k++) regression->s[k] = fmax(regression->s[k], 0.0);
    return status;
}

/* With several ranks, rank 0 does it for all: a matrix of this size is not worth splitting, and all ranks get the same
 * bits.
 */
circe_status circe__regression_decompose(const circe_context *context, circe__regression *regression) {
    const circe__fit_by *by = regression->by;
    const circe__fit_ranks *ranks = circe__ranks_of(by);
    if (by != NULL && by->ops->decompose != NULL) return by->ops->decompose(context, regression);
    if (ranks == NULL) return decompose(context, regression);
    size_t n = (size_t)regression->n;
    circe_status status = ranks->agree(ranks->rank == 0 ? decompose(context, regression) : CIRCE_OK);
    if (status != CIRCE_OK) return status;
    ranks->share(regression->s, n * sizeof(double));
    ranks->share(regression->vectors, n * n * sizeof(double));
    return CIRCE_OK;
}

/* Eigenvalues carry an error of a few eps * s_max, and a low-rank factorisation leaves out a matrix whose norm is at
 * most its trace: a ridge below either regularises noise. The factor 1000 keeps three digits. */
double circe__regression_safe_ridge(const circe__regression *regression, int64_t rows) {
    double largest = regression->n > 0 ? regression->s[regression->n - 1] : 0.0;
    double left_out = regression->solver == CIRCE_METHOD_LOWRANK ? regression->trace_residual * (double)rows : 0.0;
    return fmax(fmax(1000.0 * DBL_EPSILON * largest, left_out), DBL_MIN);
}

/* Rows k of out := those of in, divided by s_k + ridge. */
typedef struct scaling {
    const circe__regression *regression;
    double ridge;
    int64_t cols;
    const double *in;
    double *out;
} scaling;

static void run_scaling(void *user, int64_t first, int64_t end) {
    const scaling *w = user;
    for (int64_t k = first; k < end; k++) {
        double divisor = w->regression->s[k] + w->ridge;
        for (int64_t c = 0; c < w->cols; c++) w->out[k * w->cols + c] = w->in[k * w->cols + c] / divisor;
    }
}

static void scale_rows(const circe_context *context, const circe__regression *regression, double ridge, int64_t cols,
                       const double *in, double *out) {
    enum { LEAST = 8192 }; /* divisions to a thread */
    scaling w = {regression, ridge, cols, in, out};
    circe__run_ranges(context->threads, regression->n, LEAST / circe__max(cols, 1) + 1, run_scaling, &w);
}

/* V' diag(1 / (s + ridge)) X, X (n, cols). */
static circe_status solve(const circe_context *context, const circe__regression *regression, double ridge, int64_t cols,
                          const double *X, double **solved) {
    int64_t n = regression->n;
    CIRCE__OWNED double *scaled = circe__alloc(context, n * cols, sizeof *scaled);
    *solved = scaled != NULL ? circe__alloc(context, n * cols, sizeof **solved) : NULL;
    if (*solved != NULL) {
        scale_rows(context, regression, ridge, cols, X, scaled);
        context->backend->algebra->gemm(1, 0, n, cols, n, 1.0, regression->vectors, n, scaled, cols, 0.0, *solved,
                                        cols);
    }
    return *solved != NULL ? CIRCE_OK : CIRCE_ERR_MEMORY;
}

circe_status circe__regression_weights(const circe_context *context, const circe__regression *regression,
                                       int64_t rank_z, double ridge, double **weights) {
    if (regression->parts != NULL) return regression->by->ops->dense_weights(regression, ridge, weights);
    return solve(context, regression, ridge, rank_z, regression->G, weights);
}

circe_status circe__regression_inverse(const circe_context *context, const circe__regression *regression, double ridge,
                                       double **inverse) {
    return solve(context, regression, ridge, regression->n, regression->vectors, inverse);
}
