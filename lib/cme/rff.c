/* CIRCE with random Fourier features: the paper's algorithm 2, with its erratum (features of Y on both sides of W_2).
 *
 *     R(p) (2D)     cos and sin of D random frequencies, over sqrt(D): k(p, q) ~ R(p) R(q)'
 *     W_1           (K_YY + ridge I)^-1, from the fitted regression
 *     W_1^r         R(Y)' W_1 R(Z)              (2 D_0, 2 D_0)
 *     N             F_z' W_1 R(Y)               (r_z, 2 D_0);  W_2^r = R(Y)' W_1 K_ZZ W_1 R(Y) = N'N
 *     K^c           K_zz - R(y) W_1^r R(z)' - (...)' + R(y) N'N R(y)'
 *
 * With weights of mean 1 and D = diag(weights), W_1 is D^1/2 (D^1/2 K_YY D^1/2 + ridge I)^-1 D^1/2 instead.
 *
 * D_0 frequencies are drawn every L batches, D of them are used in each batch; both draws are pure functions of the
 * seed and the step. */
#include <math.h>
#include <string.h>

#include "cme/cme_parts.h"

struct circe__rff {
    int64_t rows, dim_y, dim_z, rank_z;
    int64_t pool, batch, every; /* D_0, D, L */
    uint64_t seed;
    const double *y, *z; /* the model's points, borrowed */
    const double *root;  /* (M): roots of their weights, borrowed; NULL: rows count alike */
    circe_kernel_factor *factors_y, *factors_z;
    int64_t n_factors_y, n_factors_z;
    circe__regression regression; /* W_1 as a spectrum */
    double ridge;
    double *features_y;        /* (M, r_y), low rank only; times the roots of the weights */
    double *solved_z;          /* W_1 F_z (M, r_z) */
    int64_t draw;              /* what is current; -1: nothing */
    double *omega_y, *omega_z; /* (D_0, dim) */
    double *W1;                /* (2 D_0, 2 D_0) */
    double *N;                 /* (r_z, 2 D_0) */
    int64_t *chosen;           /* (D) out of D_0, ascending */
    double *Ry, *Rz;           /* (M, 2 D_0): of a redraw, kept so that a training step allocates nothing */
    double *solve[2];          /* (n, max(2 D_0, r_z)) each: of apply_inverse */
};

void circe__rff_free(const circe_context *context, circe__rff *rff) {
    if (rff == NULL) return;
    circe__regression_free(context, &rff->regression);
    circe__free(context, rff->factors_y);
    circe__free(context, rff->factors_z);
    circe__free(context, rff->features_y);
    circe__free(context, rff->solved_z);
    circe__free(context, rff->omega_y);
    circe__free(context, rff->omega_z);
    circe__free(context, rff->W1);
    circe__free(context, rff->N);
    circe__free(context, rff->chosen);
    circe__free(context, rff->Ry);
    circe__free(context, rff->Rz);
    circe__free(context, rff->solve[0]);
    circe__free(context, rff->solve[1]);
    circe__free(context, rff);
}

static circe_status check_factors(const circe_kernel_factor *factors, int64_t n, const char *name) {
    for (int64_t f = 0; f < n; f++)
        if (!circe__has_width(factors[f].kind))
            return circe_fail(CIRCE_ERR_UNSUPPORTED,
                              "method rff needs a gaussian or laplace kernel, or a product of them; the kernel of %s "
                              "has a %s factor: use method lowrank or dense",
                              name, circe__kernel_name(factors[f].kind));
    return CIRCE_OK;
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

/* Frequencies of a product of shift-invariant kernels add up. Gaussian: N(0, I/sigma2). Laplace exp(-|a-b|/sigma): the
 * multivariate Cauchy, a normal vector over the absolute value of a normal number. */
static void draw_frequencies(circe_random generator, const circe_kernel_factor *factors, int64_t n_factors, int64_t dim,
                             int64_t count, double *omega) {
    uint64_t at = 0;
    memset(omega, 0, (size_t)(count * dim) * sizeof *omega);
    for (int64_t d = 0; d < count; d++)
        for (int64_t f = 0; f < n_factors; f++) {
            double divisor = 1.0, root = sqrt(factors[f].sigma2);
            if (factors[f].kind == CIRCE_KERNEL_LAPLACE) {
                circe_random_normal(generator, at++, 1, &divisor);
                divisor = fabs(divisor);
            }
            for (int64_t c = 0; c < factors[f].n_cols; c++) {
                double normal;
                circe_random_normal(generator, at++, 1, &normal);
                omega[d * dim + factors[f].first_col + c] += normal / (root * divisor);
            }
        }
}

typedef struct fourier_rows {
    const double *points, *omega;
    int64_t dim, count;
    const int64_t *chosen;
    double scale, *R;
} fourier_rows;

static void run_fourier(void *user, int64_t first, int64_t end) {
    const fourier_rows *f = user;
    for (int64_t i = first; i < end; i++)
        for (int64_t d = 0; d < f->count; d++) {
            const double *w = f->omega + (f->chosen == NULL ? d : f->chosen[d]) * f->dim;
            double angle = 0.0;
            for (int64_t c = 0; c < f->dim; c++) angle += w[c] * f->points[i * f->dim + c];
            f->R[(2 * i) * f->count + 2 * d] = f->scale * cos(angle);
            f->R[(2 * i) * f->count + 2 * d + 1] = f->scale * sin(angle);
        }
}

/* R (n, 2 count): cos and sin of the chosen frequencies (NULL: all), times scale. */
static void fourier(const circe_context *context, const double *points, int64_t n, int64_t dim, const double *omega,
                    const int64_t *chosen, int64_t count, double scale, double *R) {
    enum { LEAST = 1000 }; /* frequencies to a thread, 40 nanoseconds each */
    fourier_rows f = {points, omega, dim, count, chosen, scale, R};
    circe__run_ranges(context->threads, n, LEAST / circe__max(count, 1) + 1, run_fourier, &f);
}

/* X (M, k) := W_1 X. Low rank, by Woodbury: (X - F V' diag(1/(s+ridge)) V F'X) / ridge. */
static void apply_inverse(const circe_context *context, const circe__rff *rff, double *X, int64_t k) {
    const circe__algebra *algebra = context->backend->algebra;
    const circe__regression *reg = &rff->regression;
    int64_t M = rff->rows, n = reg->n;
    bool lowrank = reg->solver == CIRCE_METHOD_LOWRANK;
    double *t = rff->solve[0], *u = rff->solve[1];
    if (rff->root != NULL) circe__scale_by_roots(rff->root, M, k, false, X);
    if (lowrank) algebra->gemm(1, 0, n, k, M, 1.0, rff->features_y, n, X, k, 0.0, u, k);
    algebra->gemm(0, 0, n, k, n, 1.0, reg->vectors, n, lowrank ? u : X, k, 0.0, t, k);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < k; c++) t[i * k + c] /= reg->s[i] + rff->ridge;
    if (lowrank) {
        algebra->gemm(1, 0, n, k, n, 1.0, reg->vectors, n, t, k, 0.0, u, k);
        algebra->gemm(0, 0, M, k, n, -1.0, rff->features_y, n, u, k, 1.0, X, k);
        for (int64_t e = 0; e < M * k; e++) X[e] /= rff->ridge;
    } else {
        algebra->gemm(1, 0, n, k, n, 1.0, reg->vectors, n, t, k, 0.0, X, k);
    }
    if (rff->root != NULL) circe__scale_by_roots(rff->root, M, k, false, X);
}

static void redraw(const circe_context *context, circe__rff *rff, int64_t draw) {
    const circe__algebra *algebra = context->backend->algebra;
    int64_t M = rff->rows, k = 2 * rff->pool;
    double scale = 1.0 / sqrt((double)rff->pool);
    uint64_t stream = 2 * (uint64_t)draw;
    draw_frequencies((circe_random){rff->seed, stream}, rff->factors_y, rff->n_factors_y, rff->dim_y, rff->pool,
                     rff->omega_y);
    draw_frequencies((circe_random){rff->seed, stream + 1}, rff->factors_z, rff->n_factors_z, rff->dim_z, rff->pool,
                     rff->omega_z);
    fourier(context, rff->y, M, rff->dim_y, rff->omega_y, NULL, rff->pool, scale, rff->Ry);
    fourier(context, rff->z, M, rff->dim_z, rff->omega_z, NULL, rff->pool, scale, rff->Rz);
    algebra->gemm(1, 0, rff->rank_z, k, M, 1.0, rff->solved_z, rff->rank_z, rff->Ry, k, 0.0, rff->N, k);
    apply_inverse(context, rff, rff->Ry, k);
    algebra->gemm(1, 0, k, k, M, 1.0, rff->Ry, k, rff->Rz, k, 0.0, rff->W1, k);
    rff->draw = circe__stopped() ? -1 : draw; /* products that were stopped are not there */
}

void circe__rff_step(const circe_context *context, circe__rff *rff, int64_t step) {
    int64_t draw = step / rff->every;
    if (draw != rff->draw) redraw(context, rff, draw);
    circe_random_subset((circe_random){rff->seed, (1ull << 63) + (uint64_t)step}, rff->pool, rff->batch, rff->chosen);
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static circe_status solve_z(circe__holdout *holdout, circe__rff *rff) {
    const circe_context *context = holdout->context;
    const circe__basis *zb = holdout->z_basis, *yb = &rff->regression.y_basis;
    size_t bytes_y = yb->context == NULL ? 0 : circe__basis_bytes(yb), bytes_z = circe__basis_bytes(zb);
    void *scratch = circe__alloc(context, (int64_t)(bytes_y > bytes_z ? bytes_y : bytes_z), 1);
    rff->solved_z = circe__alloc(context, rff->rows * zb->rank, sizeof(double));
    circe_status status = scratch == NULL || rff->solved_z == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK && rff->regression.solver == CIRCE_METHOD_LOWRANK) {
        rff->features_y = circe__alloc(context, rff->rows * yb->rank, sizeof(double));
        if (rff->features_y == NULL)
            status = CIRCE_ERR_MEMORY;
        else
            circe__basis_features(yb, yb->rank, rff->y, rff->rows, rff->features_y, yb->rank, NULL, NULL, scratch);
        if (status == CIRCE_OK && rff->root != NULL)
            circe__scale_by_roots(rff->root, rff->rows, yb->rank, false, rff->features_y);
    }
    if (status == CIRCE_OK) {
        circe__basis_features(zb, zb->rank, rff->z, rff->rows, rff->solved_z, zb->rank, NULL, NULL, scratch);
        apply_inverse(context, rff, rff->solved_z, zb->rank);
    }
    circe__free(context, scratch);
    return status;
}

static circe_status create(circe__holdout *holdout, const circe_kernel *kernel_y, const circe_kernel *kernel_z,
                           circe__regression *regression, double ridge, circe__rff **out) {
    const circe_context *context = holdout->context;
    const circe_cme_options *options = holdout->options;
    int64_t k = 2 * options->rff_pool, M = holdout->rows;
    double bytes = 8.0 * (double)M * (2.0 * (double)k + 2.0 * (double)regression->n + (double)holdout->z_basis->rank) +
                   16.0 * (double)k * (double)k;
    *out = NULL;
    circe_status status = circe__memory_check(context, bytes, "random Fourier features of this holdout",
                                              "draw fewer features, or use method lowrank");
    if (status != CIRCE_OK) return status;
    circe__rff *rff = circe__calloc(context, 1, sizeof *rff);
    if (rff == NULL) return CIRCE_ERR_MEMORY;
    *rff = (circe__rff){.rows = M,
                        .dim_y = holdout->dim_y,
                        .dim_z = holdout->dim_z,
                        .rank_z = holdout->z_basis->rank,
                        .pool = options->rff_pool,
                        .batch = options->rff_batch,
                        .every = options->rff_every,
                        .seed = options->seed,
                        .y = holdout->y,
                        .z = holdout->z,
                        .root = holdout->root,
                        .regression = *regression,
                        .ridge = ridge,
                        .draw = -1};
    *regression = (circe__regression){0}; /* moved */
    rff->n_factors_y = circe_kernel_n_factors(kernel_y);
    rff->n_factors_z = circe_kernel_n_factors(kernel_z);
    status = circe__resolve(context, kernel_y, holdout->dim_y, "y", &rff->factors_y);
    if (status == CIRCE_OK) status = circe__resolve(context, kernel_z, holdout->dim_z, "z", &rff->factors_z);
    if (status == CIRCE_OK) status = check_factors(rff->factors_y, rff->n_factors_y, "y");
    if (status == CIRCE_OK) status = check_factors(rff->factors_z, rff->n_factors_z, "z");
    if (status == CIRCE_OK) {
        rff->omega_y = circe__alloc(context, rff->pool * rff->dim_y, sizeof(double));
        rff->omega_z = circe__alloc(context, rff->pool * rff->dim_z, sizeof(double));
        rff->W1 = circe__alloc(context, k * k, sizeof(double));
        rff->N = circe__alloc(context, rff->rank_z * k, sizeof(double));
        rff->chosen = circe__alloc(context, rff->batch, sizeof(int64_t));
        rff->Ry = circe__alloc(context, M * k, sizeof(double));
        rff->Rz = circe__alloc(context, M * k, sizeof(double));
        for (int t = 0; t < 2; t++)
            rff->solve[t] = circe__alloc(context, rff->regression.n * circe__max(k, rff->rank_z), sizeof(double));
        if (rff->omega_y == NULL || rff->omega_z == NULL || rff->W1 == NULL || rff->N == NULL || rff->chosen == NULL ||
            rff->Ry == NULL || rff->Rz == NULL || rff->solve[0] == NULL || rff->solve[1] == NULL)
            status = CIRCE_ERR_MEMORY;
    }
    if (status == CIRCE_OK) status = solve_z(holdout, rff);
    if (status == CIRCE_OK) {
        circe__rff_step(context, rff, 0);
        *out = rff;
    } else {
        circe__rff_free(context, rff);
    }
    return status;
}

circe_status circe__cme_attach_rff(circe_cme *cme) {
    circe_cme_options options;
    circe__regression regression = {0};
    circe_cme_options_init(&options);
    options.tolerance = cme->tolerance;
    options.seed = cme->seed;
    options.rff_pool = cme->rff_pool;
    options.rff_batch = cme->rff_batch;
    options.rff_every = cme->rff_every;
    circe__holdout holdout = {.context = cme->context,
                              .options = &options,
                              .y = cme->points_y,
                              .z = cme->points_z,
                              .rows = cme->info.rows,
                              .dim_y = cme->info.dim_y,
                              .dim_z = cme->info.dim_z,
                              .root = cme->root,
                              .z_basis = &cme->z_basis,
                              .steps_total = (cme->info.rows + 2047) / 2048};
    circe_status status = cme->info.solver == CIRCE_METHOD_LOWRANK
                              ? circe__lowrank_prepare(&holdout, cme->kernel_y, cme->info.rows, &regression)
                              : circe__dense_prepare(&holdout, cme->kernel_y, &regression);
    if (status == CIRCE_OK)
        status = create(&holdout, cme->kernel_y, cme->kernel_z, &regression, cme->info.ridge, &cme->rff);
    circe__regression_free(cme->context, &regression);
    return status;
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

/* The chosen columns of the pool's matrices: W1 (2D, 2D) and N (r_z, 2D). */
static void gather_chosen(const circe__rff *rff, double *W1, double *N) {
    int64_t k = 2 * rff->batch, wide = 2 * rff->pool;
    for (int64_t j = 0; j < k; j++) {
        int64_t from = 2 * rff->chosen[j / 2] + j % 2;
        for (int64_t i = 0; i < k; i++) W1[i * k + j] = rff->W1[(2 * rff->chosen[i / 2] + i % 2) * wide + from];
        for (int64_t i = 0; i < rff->rank_z; i++) N[i * k + j] = rff->N[i * wide + from];
    }
}

circe_status circe__rff_correction(circe_workspace *workspace, const circe__rff *rff, const double *y, const double *z,
                                   int64_t n, double *out) {
    const circe__algebra *algebra = workspace->context->backend->algebra;
    int64_t k = 2 * rff->batch, rz = rff->rank_z;
    double *W1 = circe__take(workspace, CIRCE__SLOT_ZETA, k * k + rz * k + 3 * n * k + n * rz, sizeof *W1);
    if (W1 == NULL) return CIRCE_ERR_MEMORY;
    double *N = W1 + k * k, *Ry = N + rz * k, *Rz = Ry + n * k, *RyW = Rz + n * k, *T = RyW + n * k;
    /* Each side brings (D_0 / D) of the pool's 1 / sqrt(D_0): see the sums over D_0 inside W1 and N. */
    double scale = sqrt((double)rff->pool) / (double)rff->batch;
    gather_chosen(rff, W1, N);
    fourier(workspace->context, y, n, rff->dim_y, rff->omega_y, rff->chosen, rff->batch, scale, Ry);
    fourier(workspace->context, z, n, rff->dim_z, rff->omega_z, rff->chosen, rff->batch, scale, Rz);
    algebra->gemm(0, 0, n, k, k, 1.0, Ry, k, W1, k, 0.0, RyW, k);
    algebra->gemm(0, 1, n, n, k, -1.0, RyW, k, Rz, k, 0.0, out, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) out[i * n + j] = out[j * n + i] = out[i * n + j] + out[j * n + i];
    algebra->gemm(0, 1, n, rz, k, 1.0, Ry, k, N, k, 0.0, T, rz);
    algebra->gemm(0, 1, n, n, rz, 1.0, T, rz, T, rz, 1.0, out, n);
    return CIRCE_OK;
}
