/* The dense regression over ranks. K_YY (M, M) lies over a grid of P by Q ranks in blocks that are dealt out
 * cyclically, so that each holds about M^2 / N numbers whatever the algorithm is at:
 *
 *     grid of ridges    K_YY = U diag(s) U' (pdstedc), G = U'F_z, W = U diag(1/(s+ridge)) G       4 M^2 / N
 *     one ridge         K_YY + ridge I = L L' (pdpotrf), W by two solves, then the inverse        1 M^2 / N
 *                                                                              (numbers of a rank)
 *
 * Leave-one-out as in lib/cme/dense.c: the mean of |W_i|^2 / h_i^2, h_i = sum_k U_ik^2 / (s_k + ridge), which is the
 * inverse's diagonal if there is no spectrum. Each rank sums over the columns it has, and the sums of M numbers are
 * added. The safe ridge needs the largest eigenvalue: from the spectrum, or by Lanczos' method, some products with
 * K_YY.
 *
 * With weights of rows, K_YY and F_z are scaled by their roots, as in lib/cme/dense.c.
 *
 * Every rank holds all points y and z (M (d_y + d_z) numbers): it makes its blocks of K_YY of them and nothing is sent.
 * W (M, r_z) ends at rank 0 alone, in pieces. */
#include <math.h>
#include <string.h>

#include "mpi/mpi_parts.h"

enum {
    BLOCK = 64,
    LANCZOS = 60,           /* products with K_YY, at most */
    PIECE = 1 << 21,        /* numbers of W that are collected at a time */
    MOST_LOCAL = INT32_MAX, /* ScaLAPACK counts in 32 bits */
};

struct circe__parts {
    const circe_context *context;
    ranks_grid grid;
    ranks_matrix K, vectors; /* (M, M) */
    ranks_matrix F, G, W;    /* (M, r_z): features of z, in the basis of the eigenvectors, weights */
    double *s;               /* (M); with one ridge only the last, the largest, is right */
    double ridge;            /* that W belongs to; 0: none yet */
    bool one_ridge;
};

/* ---- the layout -------------------------------------------------------------------------------------------------- */

static void shape_of(int *rows, int *cols) {
    *rows = 1;
    for (int r = 1; r * r <= ranks_size(); r++)
        if (ranks_size() % r == 0) *rows = r;
    *cols = ranks_size() / *rows;
}

/* How many of n items, in blocks, are dealt to number `mine` of `all`. */
static int64_t dealt(int64_t n, int64_t block, int64_t mine, int64_t all) {
    int64_t whole = n / block, extra = whole % all;
    int64_t count = whole / all * block;
    if (mine < extra) return count + block;
    return mine == extra ? count + n % block : count;
}

/* Number i here is this one of all. */
static int64_t global(int64_t i, int64_t block, int64_t mine, int64_t all) {
    return (i / block * all + mine) * block + i % block;
}

static int64_t row_of(const circe__parts *p, const ranks_matrix *m, int64_t i) {
    return global(i, m->block, p->grid.row, p->grid.rows);
}

static int64_t col_of(const circe__parts *p, const ranks_matrix *m, int64_t j) {
    return global(j, m->block, p->grid.col, p->grid.cols);
}

/* Blocks small enough that every rank has some. */
static int64_t block_for(int64_t rows) {
    int grid_rows, grid_cols;
    shape_of(&grid_rows, &grid_cols);
    return circe__max(1, circe__min(BLOCK, rows / (2 * circe__max(grid_rows, grid_cols))));
}

static circe_status make(const circe_context *context, const circe__parts *p, int64_t rows, int64_t cols, int64_t block,
                         ranks_matrix *m) {
    *m = (ranks_matrix){.rows = rows,
                        .cols = cols,
                        .block = block,
                        .local_rows = dealt(rows, block, p->grid.row, p->grid.rows),
                        .local_cols = dealt(cols, block, p->grid.col, p->grid.cols)};
    m->data = circe__calloc(context, circe__max(1, m->local_rows * m->local_cols), sizeof *m->data);
    return m->data == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
}

static void drop(const circe_context *context, ranks_matrix *m) {
    circe__free(context, m->data);
    m->data = NULL;
}

void ranks_dense_free(const circe_context *context, circe__parts *parts) {
    ranks_matrix *const all[] = {&parts->K, &parts->vectors, &parts->F, &parts->G, &parts->W};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) drop(context, all[i]);
    ranks_engine_used()->grid_close(&parts->grid);
    circe__free(context, parts);
}

/* Matrices of the size of K_YY, over all ranks: itself, its vectors, and a workspace of twice that; or, with one ridge,
 * itself. */
static double matrices(int64_t n_ridge) { return n_ridge == 1 ? 1.0 : 4.0; }

/* On this machine: of each of its ranks. */
double ranks_dense_bytes(int64_t rows, int64_t rank_z, int64_t n_ridge) {
    int grid_rows, grid_cols;
    shape_of(&grid_rows, &grid_cols);
    double m = (double)rows, all = (double)ranks_size();
    double features = m * (double)rank_z * (3.0 / all + 1.0 / grid_rows);
    return 8.0 * (double)ranks_neighbours() * (matrices(n_ridge) * m * m / all + features);
}

/* The largest array of a rank: the workspace, or K_YY. */
static circe_status check_size(int64_t rows, int64_t n_ridge) {
    double most = 0.98 * MOST_LOCAL, numbers = (n_ridge == 1 ? 1.0 : 2.0) * (double)rows * (double)rows;
    if (rows < INT32_MAX && numbers / ranks_size() < most) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY,
                      "a dense fit of %lld points on %d ranks exceeds ScaLAPACK's 32-bit indices; use at least %.0f "
                      "ranks, method lowrank, or fewer holdout points",
                      (long long)rows, ranks_size(), ceil(numbers / most));
}

/* ---- filling ----------------------------------------------------------------------------------------------------- */

/* The points of this rank's rows (or columns), one after the other; the caller's to free. */
static double *points_here(const circe__holdout *holdout, const circe__parts *p, const double *points, int64_t dim,
                           bool of_rows) {
    const ranks_matrix *K = &p->K;
    int64_t n = of_rows ? K->local_rows : K->local_cols;
    double *out = circe__alloc(holdout->context, circe__max(n, 1) * dim, sizeof *out);
    for (int64_t i = 0; out != NULL && i < n; i++)
        memcpy(out + i * dim, points + (of_rows ? row_of(p, K, i) : col_of(p, K, i)) * dim, (size_t)dim * sizeof *out);
    return out;
}

/* Column by column, (rows, cols) is row by row (cols, rows). */
static circe_status fill_gram(const circe__holdout *holdout, const circe_kernel *kernel_y, circe__parts *p) {
    const circe_context *context = holdout->context;
    circe_kernel_factor *factors = NULL;
    int64_t d = holdout->dim_y, rows = p->K.local_rows, cols = p->K.local_cols;
    circe_status status = circe__resolve(context, kernel_y, d, "y", &factors);
    if (status != CIRCE_OK) return status;
    double *a = points_here(holdout, p, holdout->y, d, false), *b = points_here(holdout, p, holdout->y, d, true);
    void *scratch =
        circe__alloc(context, (int64_t)circe__gram_bytes(context, CIRCE_FLOAT64, circe__max(rows, 1), d), 1);
    if (a == NULL || b == NULL || scratch == NULL) {
        status = CIRCE_ERR_MEMORY;
    } else if (rows > 0 && cols > 0) {
        circe_mat from = circe_mat_f64(a, cols, d), to = circe_mat_f64(b, rows, d);
        circe_mat out = circe__mat(p->K.data, cols, rows, CIRCE_FLOAT64);
        circe__gram(context, (circe__factors){factors, circe_kernel_n_factors(kernel_y)}, &from, &to, &out, scratch);
        for (int64_t j = 0; holdout->root != NULL && j < cols; j++)
            for (int64_t i = 0; i < rows; i++)
                p->K.data[j * rows + i] *= holdout->root[row_of(p, &p->K, i)] * holdout->root[col_of(p, &p->K, j)];
    }
    circe__free(context, a);
    circe__free(context, b);
    circe__free(context, scratch);
    circe__free(context, factors);
    return status;
}

/* Features of z of this rank's rows, of which it keeps its columns. */
static circe_status fill_features(const circe__holdout *holdout, circe__parts *p) {
    const circe_context *context = holdout->context;
    const circe__basis *basis = holdout->z_basis;
    int64_t rows = p->F.local_rows, rz = basis->rank;
    double *points = points_here(holdout, p, holdout->z, holdout->dim_z, true);
    double *features = circe__alloc(context, circe__max(1, rows * rz), sizeof *features);
    void *scratch = circe__alloc(context, (int64_t)circe__basis_bytes(basis), 1);
    bool complete = points != NULL && features != NULL && scratch != NULL;
    if (complete && rows > 0) circe__basis_features(basis, rz, points, rows, features, rz, NULL, NULL, scratch);
    for (int64_t j = 0; complete && j < p->F.local_cols; j++)
        for (int64_t i = 0; i < rows; i++)
            p->F.data[j * rows + i] = features[i * rz + col_of(p, &p->F, j)] *
                                      (holdout->root != NULL ? holdout->root[row_of(p, &p->F, i)] : 1.0);
    circe__free(context, points);
    circe__free(context, features);
    circe__free(context, scratch);
    return complete ? CIRCE_OK : CIRCE_ERR_MEMORY;
}

/* ---- spectra ----------------------------------------------------------------------------------------------------- */

static void run_parts(const void *user, int64_t parts, circe_part_fn part, void *argument) {
    circe_context_run(user, parts, part, argument);
}

static circe_status decompose(const circe_context *context, circe__parts *p) {
    const ranks_engine *engine = ranks_engine_used();
    const ranks_workers workers = {.threads = context->threads, .run = run_parts, .user = context};
    int64_t doubles = 0, ints = 0;
    int problem = 0;
    circe_status status = make(context, p, p->K.rows, p->K.cols, p->K.block, &p->vectors);
    status = ranks_agree(status);
    if (status != CIRCE_OK) return status;
    problem = engine->eigen_work(&p->grid, &workers, &p->K, &p->vectors, &doubles, &ints);
    double *work = circe__alloc(context, doubles, sizeof *work);
    int *iwork = circe__alloc(context, ints, sizeof *iwork);
    status = ranks_agree(work == NULL || iwork == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK);
    circe__blas_together_begin(context);
    if (status == CIRCE_OK && problem == 0)
        problem = engine->eigen(&p->grid, &workers, &p->K, p->s, &p->vectors, work, doubles, iwork, ints);
    circe__blas_together_end();
    if (status == CIRCE_OK && problem != 0)
        status = circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of the kernel matrix of y failed (pdstedc: %d)",
                            problem);
    for (int64_t k = 0; k < p->K.rows; k++) p->s[k] = fmax(p->s[k], 0.0);
    circe__free(context, work);
    circe__free(context, iwork);
    drop(context, &p->K);
    return ranks_agree(status);
}

/* c := op(vectors) b */
static void multiply(const circe__parts *p, bool transposed, const ranks_matrix *b, ranks_matrix *c) {
    circe__blas_together_begin(p->context);
    ranks_engine_used()->multiply(&p->grid, transposed, &p->vectors, b, c);
    circe__blas_together_end();
}

/* out (M) := K x, the same in every rank. here: local_rows + local_cols numbers. */
static void apply(const circe_context *context, const circe__parts *p, const double *x, double *here, double *out) {
    const ranks_matrix *K = &p->K;
    double *x_here = here + K->local_rows;
    for (int64_t j = 0; j < K->local_cols; j++) x_here[j] = x[col_of(p, K, j)];
    memset(out, 0, (size_t)K->rows * sizeof *out);
    if (K->local_rows > 0 && K->local_cols > 0) {
        context->backend->algebra->gemm(0, 0, 1, K->local_rows, K->local_cols, 1.0, x_here, K->local_cols, K->data,
                                        K->local_rows, 0.0, here, K->local_rows);
        for (int64_t i = 0; i < K->local_rows; i++) out[row_of(p, K, i)] = here[i];
    }
    ranks_sum(out, K->rows);
}

static double dot(const double *a, const double *b, int64_t n) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) total += a[i] * b[i];
    return total;
}

/* Lanczos' steps from the vector of ones, which the first eigenvector of a matrix of positive kernel values is near to,
 * with full orthogonalisation: basis (LANCZOS + 1, M), T (LANCZOS, LANCZOS) its lower triangle. Returns the steps. */
static int64_t tridiagonal(const circe_context *context, const circe__parts *p, double *basis, double *T,
                           double *here) {
    int64_t M = p->K.rows, steps = circe__min(LANCZOS, M), k = 0;
    for (int64_t i = 0; i < M; i++) basis[i] = 1.0 / sqrt((double)M);
    memset(T, 0, LANCZOS * LANCZOS * sizeof *T);
    for (; k < steps;) {
        double *next = basis + (k + 1) * M, size = 0.0;
        apply(context, p, basis + k * M, here, next);
        T[k * LANCZOS + k] = dot(basis + k * M, next, M);
        for (int twice = 0; twice < 2; twice++)
            for (int64_t b = 0; b <= k; b++) {
                double share = dot(basis + b * M, next, M);
                for (int64_t i = 0; i < M; i++) next[i] -= share * basis[b * M + i];
            }
        size = sqrt(dot(next, next, M));
        k++;
        if (k == steps || size <= 1e-13 * T[0]) break;
        T[k * LANCZOS + k - 1] = size;
        for (int64_t i = 0; i < M; i++) next[i] /= size;
    }
    return k;
}

static circe_status largest_eigenvalue(const circe_context *context, circe__parts *p, double *largest) {
    int64_t M = p->K.rows;
    double *basis = circe__alloc(context, (LANCZOS + 1) * M, sizeof *basis);
    double *here = circe__alloc(context, p->K.local_rows + p->K.local_cols + 1, sizeof *here);
    double T[LANCZOS * LANCZOS], small[LANCZOS * LANCZOS], s[LANCZOS], work[1 + 6 * LANCZOS + 2 * LANCZOS * LANCZOS];
    int iwork[3 + 5 * LANCZOS];
    bool there = basis != NULL && here != NULL;
    circe_status status = ranks_agree(there ? CIRCE_OK : CIRCE_ERR_MEMORY);
    if (status == CIRCE_OK && there) {
        int64_t n = tridiagonal(context, p, basis, T, here);
        for (int64_t i = 0; i < n; i++) memcpy(small + i * n, T + i * LANCZOS, (size_t)n * sizeof *small);
        if (context->backend->algebra->eigen(n, small, s, work, iwork) != 0)
            status = circe_fail(CIRCE_ERR_NUMERIC, "the largest eigenvalue of the kernel matrix of y was not found");
        else
            *largest = s[n - 1];
    }
    circe__free(context, basis);
    circe__free(context, here);
    return ranks_agree(status);
}

circe_status ranks_dense_prepare(circe__holdout *holdout, const circe_kernel *kernel_y, circe__regression *regression) {
    circe_context *context = holdout->context;
    int64_t M = holdout->rows, rz = holdout->z_basis->rank, block = block_for(M), n_ridge = holdout->options->n_ridge;
    int grid_rows, grid_cols;
    *regression = (circe__regression){.solver = CIRCE_METHOD_DENSE, .n = M, .by = holdout->by};
    circe_status status =
        circe__memory_check(context, ranks_dense_bytes(M, rz, n_ridge), "a dense fit on this machine's ranks",
                            "use more machines, method lowrank with a larger tolerance, or fewer holdout points");
    if (status == CIRCE_OK) status = check_size(M, n_ridge);
    circe__parts *p = circe__calloc(context, 1, sizeof *p);
    regression->s = circe__calloc(context, M, sizeof(double));
    if (status == CIRCE_OK && (p == NULL || regression->s == NULL)) status = CIRCE_ERR_MEMORY;
    status = ranks_agree(status);
    if (status != CIRCE_OK || p == NULL) {
        circe__free(context, p);
        circe__regression_free(context, regression);
        return status;
    }
    shape_of(&grid_rows, &grid_cols);
    ranks_engine_used()->grid_open(grid_rows, grid_cols, &p->grid);
    regression->parts = p;
    p->context = context;
    p->s = regression->s;
    p->one_ridge = n_ridge == 1;
    status = make(context, p, M, M, block, &p->K);
    if (status == CIRCE_OK) status = make(context, p, M, rz, block, &p->F);
    if (status == CIRCE_OK && !p->one_ridge) status = make(context, p, M, rz, block, &p->G);
    if (status == CIRCE_OK) status = make(context, p, M, rz, block, &p->W);
    if (status == CIRCE_OK) status = fill_gram(holdout, kernel_y, p);
    if (status == CIRCE_OK) status = fill_features(holdout, p);
    status = ranks_agree(status);
    if (status == CIRCE_OK && p->one_ridge) {
        status = largest_eigenvalue(context, p, &regression->s[M - 1]);
    } else if (status == CIRCE_OK) {
        status = decompose(context, p);
        if (status == CIRCE_OK) multiply(p, true, &p->F, &p->G);
    }
    if (status == CIRCE_OK)
        status = ranks_agree(circe__progress(context, "fitting", ++holdout->steps_done, holdout->steps_total));
    if (status != CIRCE_OK) circe__regression_free(context, regression);
    return status;
}

/* ---- weights and errors ------------------------------------------------------------------------------------------ */

/* W := U diag(1/(s+ridge)) G, with F as scratch: it is not needed once G is there. */
static void weigh(circe__parts *p, double ridge) {
    int64_t rows = p->G.local_rows;
    for (int64_t i = 0; i < rows; i++) {
        double scale = 1.0 / (p->s[row_of(p, &p->G, i)] + ridge);
        for (int64_t j = 0; j < p->G.local_cols; j++) p->F.data[j * rows + i] = scale * p->G.data[j * rows + i];
    }
    multiply(p, false, &p->F, &p->W);
    p->ridge = ridge;
}

/* h_i from the spectrum, of the columns that are here. */
static void leverage(const circe__parts *p, double ridge, double *h) {
    const ranks_matrix *U = &p->vectors;
    for (int64_t j = 0; j < U->local_cols; j++) {
        const double *u = U->data + j * U->local_rows;
        double weight = 1.0 / (p->s[col_of(p, U, j)] + ridge);
        for (int64_t i = 0; i < U->local_rows; i++) h[row_of(p, U, i)] += weight * u[i] * u[i];
    }
}

/* W and h_i by Cholesky's factorisation; K is lost. */
static circe_status solve(circe__parts *p, double ridge, double *h) {
    const ranks_engine *engine = ranks_engine_used();
    ranks_matrix *K = &p->K;
    for (int64_t j = 0; j < K->local_cols; j++)
        for (int64_t i = 0; i < K->local_rows; i++)
            if (row_of(p, K, i) == col_of(p, K, j)) K->data[j * K->local_rows + i] += ridge;
    circe__blas_together_begin(p->context);
    int problem = engine->factor(&p->grid, K);
    if (problem == 0) {
        memcpy(p->W.data, p->F.data, (size_t)(p->F.local_rows * p->F.local_cols) * sizeof(double));
        problem = engine->solve(&p->grid, K, &p->W);
    }
    if (problem == 0) problem = engine->invert(&p->grid, K);
    circe__blas_together_end();
    if (problem != 0)
        return circe_fail(
            CIRCE_ERR_NUMERIC,
            "the kernel matrix of y with the ridge %.3g is not positive definite to rounding; use a larger "
            "ridge",
            ridge);
    for (int64_t j = 0; j < K->local_cols; j++)
        for (int64_t i = 0; i < K->local_rows; i++)
            if (row_of(p, K, i) == col_of(p, K, j)) h[row_of(p, K, i)] = K->data[j * K->local_rows + i];
    p->ridge = ridge;
    return CIRCE_OK;
}

/* sums (2, M): |W_i|^2 and h_i, first of this rank's share, then of all. */
static double error_of(const circe__parts *p, double *sums) {
    const ranks_matrix *W = &p->W;
    int64_t M = W->rows;
    for (int64_t j = 0; j < W->local_cols; j++)
        for (int64_t i = 0; i < W->local_rows; i++) {
            double w = W->data[j * W->local_rows + i];
            sums[row_of(p, W, i)] += w * w;
        }
    ranks_sum(sums, 2 * M);
    double total = 0.0;
    for (int64_t i = 0; i < M; i++) total += sums[i] / (sums[M + i] * sums[M + i]);
    return total / (double)M;
}

circe_status ranks_dense_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                             int64_t n_ridge, double *error) {
    circe_context *context = holdout->context;
    circe__parts *p = regression->parts;
    int64_t M = holdout->rows;
    double *sums = circe__alloc(context, 2 * M, sizeof *sums);
    circe_status status = ranks_agree(sums == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK);
    for (int64_t l = 0; status == CIRCE_OK && sums != NULL && l < n_ridge; l++) {
        memset(sums, 0, (size_t)(2 * M) * sizeof *sums);
        if (p->one_ridge) {
            status = ranks_agree(solve(p, ridge[l], sums + M));
        } else {
            weigh(p, ridge[l]);
            leverage(p, ridge[l], sums + M);
        }
        if (status == CIRCE_OK) error[l] = error_of(p, sums);
    }
    if (status == CIRCE_OK)
        status = ranks_agree(circe__progress(context, "fitting", ++holdout->steps_done, holdout->steps_total));
    circe__free(context, sums);
    return status;
}

/* ---- W at rank 0 ------------------------------------------------------------------------------------------------- */

/* Rows [first, first + n) of W, row by row, from every rank that has some of them: added to zeros. */
static void collect(const circe__parts *p, int64_t first, int64_t n, double *piece, double *to) {
    const ranks_matrix *W = &p->W;
    memset(piece, 0, (size_t)(n * W->cols) * sizeof *piece);
    for (int64_t i = 0; i < W->local_rows; i++) {
        int64_t row = row_of(p, W, i) - first;
        if (row < 0 || row >= n) continue;
        for (int64_t j = 0; j < W->local_cols; j++)
            piece[row * W->cols + col_of(p, W, j)] = W->data[j * W->local_rows + i];
    }
    ranks_engine_used()->sum_to_first(piece, n * W->cols, to);
}

circe_status ranks_dense_weights(const circe__regression *regression, double ridge, double **weights) {
    circe__parts *p = regression->parts;
    const circe_context *context = p->context;
    int64_t M = p->W.rows, rz = p->W.cols, rows = circe__max(1, circe__min(M, PIECE / circe__max(rz, 1)));
    bool first = ranks_rank() == 0;
    double *piece = circe__alloc(context, circe__max(1, rows * rz), sizeof *piece);
    *weights = first ? circe__alloc(context, circe__max(1, M * rz), sizeof **weights) : NULL;
    circe_status status = ranks_agree(piece == NULL || (first && *weights == NULL) ? CIRCE_ERR_MEMORY : CIRCE_OK);
    if (status == CIRCE_OK && p->ridge != ridge) weigh(p, ridge);
    for (int64_t i = 0; status == CIRCE_OK && i < M; i += rows)
        collect(p, i, circe__min(rows, M - i), piece, first ? *weights + i * rz : NULL);
    circe__free(context, piece);
    if (status != CIRCE_OK) {
        circe__free(context, *weights);
        *weights = NULL;
    }
    return status;
}
