/* Residual features of a batch: zeta(y, z) = psi(z) - mu(y), with K^c = zeta zeta'.
 *
 *     f_z (n, r_z)   psi(z) in the holdout's basis        mu(y) = weights' f_y(y)  (low rank)  or  weights' k(Y, y)
 *
 * mu(y) lies in the span of the holdout's psi(z_i), but psi(z) of a new point need not. Its part outside the span has
 * the squared norm |psi(z)|^2 - |f_z|^2: zero to rounding for smooth kernels inside the holdout's range, but not in its
 * tails, and not for rough kernels. Those points get coordinates of their own from the pivoted Cholesky factor of their
 * residual Gram matrix, so that zeta zeta' is the dense formula's K^c and not its projection.
 *
 * All of it is float64: the triangular solves amplify rounding by 1/sqrt(tolerance), which float32 could not carry. */
#include <math.h>
#include <string.h>

#include "cme/cme_parts.h"

#include "core/settings.h"

circe_status circe__cme_points(circe_workspace *workspace, circe__slot slot, const circe_mat *points, int64_t dim,
                               const char *name, double **out) {
    circe_status status = circe__check_data(points, name, 1);
    if (status != CIRCE_OK) return status;
    if (points->cols != dim)
        return circe_fail(CIRCE_ERR_SHAPE, "%s has %lld columns; the model was fitted on %lld", name,
                          (long long)points->cols, (long long)dim);
    *out = circe__take(workspace, slot, points->rows * dim, sizeof **out);
    if (*out == NULL) return CIRCE_ERR_MEMORY;
    circe_mat copy = circe__mat(*out, points->rows, dim, CIRCE_FLOAT64);
    circe__copy_mat(points, &copy);
    return CIRCE_OK;
}

/* Rows in parts: each makes their features and multiplies them. */
typedef struct mean_rows {
    const circe_cme *cme;
    const double *y;
    int64_t n, rank_z, ld, parts;
    double *features, *out;
    char *scratch;
} mean_rows;

static void run_mean(void *user, int64_t part) {
    const mean_rows *w = user;
    const circe_cme *cme = w->cme;
    const circe__basis *basis = &cme->y_basis;
    int64_t r = basis->rank, first = circe__cut(w->n, w->parts, part);
    int64_t rows = circe__cut(w->n, w->parts, part + 1) - first;
    circe__basis_part(basis, r, w->y + first * basis->dim, rows, w->features + first * r, r, NULL, NULL,
                      w->scratch + (size_t)part * circe__basis_part_bytes(basis));
    cme->context->backend->algebra->gemm(0, 0, rows, w->rank_z, r, 1.0, w->features + first * r, r, cme->weights,
                                         cme->z_basis.rank, 0.0, w->out + first * w->ld, w->ld);
}

static circe_status mean_lowrank(circe_workspace *workspace, const circe_cme *cme, const double *y, int64_t n,
                                 int64_t rank_z, double *out, int64_t ld) {
    const circe__basis *basis = &cme->y_basis;
    int64_t r = basis->rank;
    char *scratch = circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)circe__basis_bytes(basis), 1);
    double *features = circe__take(workspace, CIRCE__SLOT_FEATURES_Y, n * r, sizeof *features);
    if (scratch == NULL || features == NULL) return CIRCE_ERR_MEMORY;
    mean_rows w = {cme, y, n, rank_z, ld, circe__basis_ranks(basis, n), features, out, scratch};
    circe_context_run(cme->context, w.parts, run_mean, &w);
    return CIRCE_OK;
}

/* In blocks of rows, so that k(y, Y) stays small. */
static circe_status mean_dense(circe_workspace *workspace, const circe_cme *cme, const double *y, int64_t n,
                               int64_t rank_z, double *out, int64_t ld) {
    enum { BLOCK = 256 };
    const circe_context *context = cme->context;
    int64_t M = cme->info.rows, dim = cme->info.dim_y;
    void *scratch =
        circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)circe__gram_bytes(context, CIRCE_FLOAT64, M, dim), 1);
    double *K = circe__take(workspace, CIRCE__SLOT_FEATURES_Y, circe__min(n, BLOCK) * M, sizeof *K);
    if (scratch == NULL || K == NULL) return CIRCE_ERR_MEMORY;
    circe__factors kernel = {cme->y_factors, circe_kernel_n_factors(cme->kernel_y)};
    circe_mat Y = circe_mat_f64(cme->points_y, M, dim);
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t rows = circe__min(BLOCK, n - i);
        circe_mat a = circe_mat_f64(y + i * dim, rows, dim), k = circe__mat(K, rows, M, CIRCE_FLOAT64);
        circe__gram(context, kernel, &a, &Y, &k, scratch);
        context->backend->algebra->gemm(0, 0, rows, rank_z, M, 1.0, K, M, cme->weights, cme->z_basis.rank, 0.0,
                                        out + i * ld, ld);
    }
    return CIRCE_OK;
}

circe_status circe__cme_mean(circe_workspace *workspace, const circe_cme *cme, const double *y, int64_t n,
                             int64_t rank_z, double *out, int64_t ld) {
    if (cme->info.solver == CIRCE_METHOD_LOWRANK) return mean_lowrank(workspace, cme, y, n, rank_z, out, ld);
    return mean_dense(workspace, cme, y, n, rank_z, out, ld);
}

/* ---- points outside the span ------------------------------------------------------------------------------------- */

/* The points whose residual counts, and their own coordinates. */
typedef struct outside {
    int64_t *index; /* (n): rows of the batch */
    int64_t n;
    int64_t rank; /* columns they need */
    double *R;    /* (n, n): row k is coordinate k; column j belongs to row index[pivots[j]] */
    int *pivots;  /* (n) */
} outside;

enum { MANY = 4096 }; /* points of a batch of which all may count as outside */

static int64_t outside_doubles(const circe__basis *basis, int64_t n) {
    return n * n + n * basis->dim + n * basis->rank + 2 * n;
}

/* The memory for the points outside depends on the size of the batch alone. How many points are outside depends on
 * residuals as small as rounding, so the same rows in another order could need another amount. It is at most what the
 * witness takes, and is not touched if no point is outside. */
static circe_status reserve_outside(circe_workspace *workspace, const circe__basis *basis, int64_t n) {
    int64_t most = circe__min(n, MANY);
    size_t scratch = circe__gram_bytes(workspace->context, CIRCE_FLOAT64, most, basis->dim);
    bool there = circe__take(workspace, CIRCE__SLOT_GRAM_X, outside_doubles(basis, most), sizeof(double)) != NULL &&
                 circe__take(workspace, CIRCE__SLOT_POINTS_A, n, sizeof(int64_t)) != NULL &&
                 circe__take(workspace, CIRCE__SLOT_POINTS_B, most, sizeof(int)) != NULL &&
                 circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)scratch, 1) != NULL;
    return there ? CIRCE_OK : CIRCE_ERR_MEMORY;
}

static circe_status factor_outside(circe_workspace *workspace, const circe_cme *cme, const double *z,
                                   const double *features, int64_t rank, double accuracy, outside *out) {
    const circe__basis *basis = &cme->z_basis;
    const circe_context *context = cme->context;
    int64_t n = out->n, dim = basis->dim;
    int64_t doubles = outside_doubles(basis, n);
    circe_status status = CIRCE_OK;
    if ((double)doubles * 8.0 > (double)workspace->bytes[CIRCE__SLOT_GRAM_X])
        status = circe__memory_check(context, 8.0 * (double)doubles,
                                     "a batch with this many z outside the range of the holdout",
                                     "use a larger holdout, a smoother kernel of z, or fewer rows");
    if (status != CIRCE_OK) return status;
    double *block = circe__take(workspace, CIRCE__SLOT_GRAM_X, doubles, sizeof *block);
    out->pivots = circe__take(workspace, CIRCE__SLOT_POINTS_B, n, sizeof *out->pivots);
    void *scratch =
        circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)circe__gram_bytes(context, CIRCE_FLOAT64, n, dim), 1);
    if (block == NULL || out->pivots == NULL || scratch == NULL) return CIRCE_ERR_MEMORY;
    double *points = block + n * n, *own = points + n * dim, *work = own + n * rank;
    out->R = block;
    for (int64_t k = 0; k < n; k++) {
        memcpy(points + k * dim, z + out->index[k] * dim, (size_t)dim * sizeof(double));
        memcpy(own + k * rank, features + out->index[k] * rank, (size_t)rank * sizeof(double));
    }
    circe_mat p = circe_mat_f64(points, n, dim), K = circe__mat(out->R, n, n, CIRCE_FLOAT64);
    circe__gram(context, circe__basis_kernel(basis), &p, &p, &K, scratch);
    context->backend->algebra->gemm(0, 1, n, n, rank, -1.0, own, rank, own, rank, 1.0, out->R, n);
    out->rank =
        context->backend->algebra->pivoted_cholesky(n, out->R, 0.1 * accuracy * basis->scale, out->pivots, work);
    return CIRCE_OK;
}

static void collect_outside(const double *diagonal, const double *residual, int64_t n, double least, outside *out) {
    out->n = 0;
    for (int64_t i = 0; i < n; i++)
        if (residual[i] > least * diagonal[i]) out->index[out->n++] = i;
}

/* A point is outside if its residual d_i exceeds `accuracy`. Then other points matter too: the part that is left out of
 * their inner product with it can be as large as sqrt(d_i d_j). So every point for which this exceeds the accuracy of a
 * pair is included. In a large batch, where a matrix of all of them would be too large, only the points outside are
 * included. */
static circe_status find_outside(circe_workspace *workspace, const double *diagonal, const double *residual, int64_t n,
                                 double accuracy, outside *out) {
    double largest = 0.0;
    *out = (outside){0};
    for (int64_t i = 0; i < n; i++)
        if (residual[i] > largest * diagonal[i]) largest = residual[i] / diagonal[i];
    if (largest <= accuracy) return CIRCE_OK;
    out->index = circe__take(workspace, CIRCE__SLOT_POINTS_A, n, sizeof *out->index);
    if (out->index == NULL) return CIRCE_ERR_MEMORY;
    collect_outside(diagonal, residual, n, fmax(accuracy * accuracy / largest, 1e-15), out);
    if (out->n > MANY) collect_outside(diagonal, residual, n, accuracy, out);
    return CIRCE_OK;
}

/* ---- zeta -------------------------------------------------------------------------------------------------------- */

/* How many leading columns leave no row more than `accuracy` behind: K^c is then right to that. */
static int64_t columns_that_matter(const double *zeta, int64_t n, int64_t q, double accuracy) {
    int64_t needed = 1;
    for (int64_t i = 0; i < n; i++) {
        double tail = 0.0;
        for (int64_t k = q - 1; k >= needed; k--) {
            tail += zeta[i * q + k] * zeta[i * q + k];
            if (tail > accuracy) needed = k + 1;
        }
    }
    return needed;
}

/* Drops columns in place. */
static void narrow(double *zeta, int64_t n, int64_t q, int64_t kept) {
    for (int64_t i = 1; kept < q && i < n; i++) memmove(zeta + i * kept, zeta + i * q, (size_t)kept * sizeof *zeta);
}

circe_status circe__cme_zeta(circe_workspace *workspace, const circe_cme *cme, const double *y, const double *z,
                             int64_t n, double accuracy, double **zeta, int64_t *q) {
    const circe__basis *basis = &cme->z_basis;
    int64_t rank = basis->rank;
    outside out;
    if (reserve_outside(workspace, basis, n) != CIRCE_OK) return CIRCE_ERR_MEMORY;
    void *scratch = circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)circe__basis_bytes(basis), 1);
    double *features = circe__take(workspace, CIRCE__SLOT_FEATURES_Z, n * rank, sizeof *features);
    double *diagonal = circe__take(workspace, CIRCE__SLOT_DIAGONAL, 2 * n, sizeof *diagonal);
    if (scratch == NULL || features == NULL || diagonal == NULL) return CIRCE_ERR_MEMORY;
    double *residual = diagonal + n;
    circe__basis_features(basis, rank, z, n, features, rank, diagonal, residual, scratch);
    circe_status status = find_outside(workspace, diagonal, residual, n, accuracy, &out);
    if (status == CIRCE_OK && out.n > 0) status = factor_outside(workspace, cme, z, features, rank, accuracy, &out);
    if (status != CIRCE_OK) return status;

    int64_t all = circe__max(rank + out.rank, 1);
    *zeta = circe__take(workspace, CIRCE__SLOT_ZETA, n * all, sizeof **zeta);
    if (*zeta == NULL) return CIRCE_ERR_MEMORY;
    memset(*zeta, 0, (size_t)(n * all) * sizeof **zeta);
    status = circe__cme_mean(workspace, cme, y, n, rank, *zeta, all);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < rank; k++) (*zeta)[i * all + k] = features[i * rank + k] - (*zeta)[i * all + k];
    for (int64_t j = 0; j < out.n; j++)
        for (int64_t k = 0; k <= j && k < out.rank; k++)
            (*zeta)[out.index[out.pivots[j]] * all + rank + k] = out.R[k * out.n + j];
    *q = columns_that_matter(*zeta, n, all, 0.1 * accuracy * basis->scale);
    narrow(*zeta, n, all, *q);
    return CIRCE_OK;
}

/* ---- K^c as a matrix --------------------------------------------------------------------------------------------- */

/* Points of `rows` rows against each other or others; out (a rows, b rows). */
static circe_status gram_into(circe_workspace *workspace, circe__factors kernel, const double *a, int64_t rows_a,
                              const double *b, int64_t rows_b, int64_t dim, double *out) {
    const circe_context *context = workspace->context;
    void *scratch =
        circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)circe__gram_bytes(context, CIRCE_FLOAT64, rows_b, dim), 1);
    if (scratch == NULL) return CIRCE_ERR_MEMORY;
    circe_mat A = circe_mat_f64(a, rows_a, dim), B = circe_mat_f64(b, rows_b, dim);
    circe_mat to = circe__mat(out, rows_a, rows_b, CIRCE_FLOAT64);
    circe__gram(context, kernel, &A, &B, &to, scratch);
    return CIRCE_OK;
}

/* Algorithm 1 as it is printed: K := K_zz - A K_Zz - (A K_Zz)' + A K_ZZ A', A = K_yY (K_YY + ridge I)^-1. Features lose
 * half of the digits where a batch point sees what rounding left out of the basis; for a small holdout the matrices
 * themselves cost nothing and keep them all. */
static circe_status gram_exact(circe_workspace *workspace, const circe_cme *cme, const double *y, const double *z,
                               int64_t n, double *K) {
    const circe__algebra *algebra = cme->context->backend->algebra;
    circe__factors kernel_y = {cme->y_factors, circe_kernel_n_factors(cme->kernel_y)};
    circe__factors kernel_z = circe__basis_kernel(&cme->z_basis);
    int64_t M = cme->info.rows, dim_y = cme->info.dim_y, dim_z = cme->info.dim_z;
    double *block = circe__take(workspace, CIRCE__SLOT_GRAM_X, n * n + 2 * n * M + M * M, sizeof *block);
    if (block == NULL) return CIRCE_ERR_MEMORY;
    double *cross = block, *A = cross + n * n, *t = A + n * M, *K_ZZ = t + n * M;
    circe_status status = gram_into(workspace, kernel_y, y, n, cme->points_y, M, dim_y, t);
    if (status == CIRCE_OK) {
        algebra->gemm(0, 0, n, M, M, 1.0, t, M, cme->inverse, M, 0.0, A, M);
        status = gram_into(workspace, kernel_z, z, n, cme->points_z, M, dim_z, t);
    }
    if (status == CIRCE_OK) {
        algebra->gemm(0, 1, n, n, M, 1.0, A, M, t, M, 0.0, cross, n);
        status = gram_into(workspace, kernel_z, cme->points_z, M, cme->points_z, M, dim_z, K_ZZ);
    }
    if (status == CIRCE_OK) {
        algebra->gemm(0, 0, n, M, M, 1.0, A, M, K_ZZ, M, 0.0, t, M);
        status = gram_into(workspace, kernel_z, z, n, z, n, dim_z, K);
    }
    if (status != CIRCE_OK) return status;
    algebra->gemm(0, 1, n, n, M, 1.0, t, M, A, M, 1.0, K, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) K[i * n + j] -= cross[i * n + j] + cross[j * n + i];
    return CIRCE_OK;
}

static circe_status gram_rff(circe_workspace *workspace, const circe_cme *cme, const double *y, const double *z,
                             int64_t n, double *K) {
    double *correction = circe__take(workspace, CIRCE__SLOT_GRAM_X, n * n, sizeof *correction);
    if (correction == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__rff_correction(workspace, cme->rff, y, z, n, correction);
    if (status == CIRCE_OK)
        status = gram_into(workspace, circe__basis_kernel(&cme->z_basis), z, n, z, n, cme->info.dim_z, K);
    for (int64_t e = 0; status == CIRCE_OK && e < n * n; e++) K[e] += correction[e];
    return status;
}

static circe_status make_gram(circe_workspace *workspace, const circe_cme *cme, const double *y, const double *z,
                              int64_t n, double *K) {
    double *zeta = NULL;
    int64_t q = 0;
    if (cme->rff != NULL) return gram_rff(workspace, cme, y, z, n, K);
    if (cme->inverse != NULL) return gram_exact(workspace, cme, y, z, n, K);
    circe_status status = circe__cme_zeta(workspace, cme, y, z, n, circe__accuracy(cme, CIRCE_FLOAT64), &zeta, &q);
    if (status == CIRCE_OK) cme->context->backend->algebra->gemm(0, 1, n, n, q, 1.0, zeta, q, zeta, q, 0.0, K, n);
    return status;
}

circe_status circe_residual_gram(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                 const circe_mat *z, circe_mat *out) {
    CIRCE_OWN_SETTINGS;
    double *y64 = NULL, *z64 = NULL;
    if (workspace == NULL || cme == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "workspace and cme must not be NULL");
    circe_status status = circe__cme_points(workspace, CIRCE__SLOT_Y, y, cme->info.dim_y, "y", &y64);
    if (status == CIRCE_OK) status = circe__cme_points(workspace, CIRCE__SLOT_Z, z, cme->info.dim_z, "z", &z64);
    if (status == CIRCE_OK) status = circe__check_mat(out, "out", 1);
    if (status != CIRCE_OK) return status;
    int64_t n = y->rows;
    if (z->rows != n || out->rows != n || out->cols != n)
        return circe_fail(CIRCE_ERR_SHAPE, "y has %lld rows, z %lld, and out is %lld by %lld; all must be the same",
                          (long long)n, (long long)z->rows, (long long)out->rows, (long long)out->cols);
    double *K = circe__take(workspace, CIRCE__SLOT_GRAM_Q, n * n, sizeof *K);
    if (K == NULL) return CIRCE_ERR_MEMORY;
    int previous = circe__threads_begin(cme->context);
    status = make_gram(workspace, cme, y64, z64, n, K);
    status = circe__threads_finish(previous, status);
    if (status != CIRCE_OK) return status;
    circe_mat gram = circe__mat(K, n, n, CIRCE_FLOAT64);
    circe__copy_mat(&gram, out);
    return CIRCE_OK;
}
