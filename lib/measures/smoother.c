/* S = K (K + ridge I)^-1 of a batch of n points, K their kernel matrix, or HKH where centered.
 *
 *     low rank   K ~ F'F, F (r, n) by pivoted Cholesky; F F' = V' diag(s) V (rows of V)
 *                P = F' V' diag(s + ridge)^-1/2 (n, r):  S = P P',  P'P = diag(t),  t = s / (s + ridge)
 *                or, where S is only multiplied with, S = F' (F F' + ridge I)^-1 F by Cholesky: without the spectrum,
 *                which one thread computes, and without P
 *     dense      S = I - ridge (K + ridge I)^-1 by Cholesky
 *
 * O(n r^2), or O(n^3). Nothing is divided by s alone, so directions that hold only rounding do no harm. The error of
 * S is at most trace(K - F'F) / ridge, since all points of the batch took part in the factorisation: there is none
 * outside of the span. */
#include "measures/smoother.h"

#include "measures/measure_parts.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    DENSE_ROWS = 128,   /* up to here dense costs nothing and is exact */
    FIRST_RANK = 256,   /* rows of F to begin with in a large batch */
    WHOLE_RANK = 8192,  /* up to here F gets all the rows it may need at once: later batches then allocate nothing */
    SMALLEST_RATIO = 3, /* low rank pays up to n / 3 */
};

/* The largest trace K / ridge at which S may go without the spectrum. Solving K + ridge I loses as many digits as this
 * has; the eigenvectors of a matrix whose rows shrink, as of a linear kernel far from 0, lose fewer. */
static const double MOST_APPLIED = 1e7;

circe_status circe__points_take(circe_workspace *workspace, circe__slot slot, const circe_kernel *kernel,
                                const circe_mat *mat, int64_t n, const char *name, circe__points *points) {
    circe_status status = circe__check_data(mat, name, 1);
    if (status != CIRCE_OK) return status;
    if (n > 0 && mat->rows != n)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "%s has %lld rows and the other variables have %lld; they must be the same "
                          "points",
                          name, (long long)mat->rows, (long long)n);
    if (kernel == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "the kernel of %s must not be NULL", name);
    double *data = circe__take(workspace, slot, mat->rows * mat->cols, sizeof *data);
    if (data == NULL) return CIRCE_ERR_MEMORY;
    circe_kernel_factor *factors = NULL;
    status = circe__resolve_into(workspace, kernel, mat->cols, name, &factors);
    if (status != CIRCE_OK) return status;
    *points = (circe__points){circe__mat(data, mat->rows, mat->cols, CIRCE_FLOAT64),
                              {factors, circe_kernel_n_factors(kernel)},
                              circe__roots_of(workspace)};
    circe__copy_mat(mat, &points->mat);
    return CIRCE_OK;
}

circe_status circe__points_join(circe_workspace *workspace, circe__slot slot, const circe_kernel *kernel_a,
                                const circe_mat *a, const char *name_a, const circe_kernel *kernel_b,
                                const circe_mat *b, const char *name_b, circe__points *points) {
    int64_t n = a->rows, cols = a->cols + b->cols;
    double *data = circe__take(workspace, slot, n * cols, sizeof *data);
    if (data == NULL) return CIRCE_ERR_MEMORY;
    points->mat = circe__mat(data, n, cols, CIRCE_FLOAT64);
    points->root = circe__roots_of(workspace);
    circe_mat left = points->mat, right = points->mat;
    left.cols = a->cols;
    right.data = data + a->cols;
    right.cols = b->cols;
    circe__copy_mat(a, &left);
    circe__copy_mat(b, &right);
    return circe__resolve_joint(workspace, kernel_a, a->cols, name_a, kernel_b, b->cols, name_b, &points->kernel);
}

/* HKH does not see the mean of a linear kernel's columns, but its squares would take the digits of their spread. */
static void forget_means(const circe__points *points, bool centered) {
    circe_mat own = points->mat;
    if (centered && circe__is_linear(points->kernel.items, points->kernel.n)) circe__less_means(&own, &own);
}

/* ---- kernel matrices --------------------------------------------------------------------------------------------- */

/* K (n, n) and F (rows, n) with their columns, and the rows of K, times the roots of the weights. With these the mean
 * of a row is its part along the roots, sum_j root_j K_ij / sum of weights, times root_i. */
static void weigh_gram(const double *root, int64_t n, double *K) {
    for (int64_t e = 0; e < n * n; e++) K[e] *= root[e / n] * root[e % n];
}

static void center_weighted(const double *root, int64_t n, double *K, double *part) {
    double total = 0.0, squares = 0.0;
    for (int64_t i = 0; i < n; i++) {
        part[i] = 0.0;
        for (int64_t j = 0; j < n; j++) part[i] += root[j] * K[i * n + j];
        squares += root[i] * root[i];
        total += root[i] * part[i];
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            K[i * n + j] += (root[i] * root[j] * (total / squares) - root[i] * part[j] - part[i] * root[j]) / squares;
}

static void weigh_rows(const double *root, int64_t rows, int64_t n, bool centered, double *F) {
    double squares = 0.0;
    for (int64_t i = 0; i < n; i++) squares += root[i] * root[i];
    for (int64_t k = 0; k < rows; k++) {
        double part = 0.0, *row = F + k * n;
        for (int64_t i = 0; i < n; i++) part += root[i] * (row[i] *= root[i]);
        for (int64_t i = 0; centered && i < n; i++) row[i] -= root[i] * (part / squares);
    }
}

/* K of a batch about its means in feature space: rows, their means first, then the columns of each. */
typedef struct centring {
    double *K, *mean, total;
    int64_t n;
} centring;

static void run_means(void *user, int64_t first, int64_t end) {
    const centring *c = user;
    for (int64_t i = first; i < end; i++) {
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < c->n; j++) sum += c->K[i * c->n + j];
        c->mean[i] = sum / (double)c->n;
    }
}

static void run_subtract(void *user, int64_t first, int64_t end) {
    const centring *c = user;
    for (int64_t i = first; i < end; i++)
        for (int64_t j = 0; j < c->n; j++) c->K[i * c->n + j] += c->total - c->mean[i] - c->mean[j];
}

static void center_gram(double *K, int64_t n, double *mean) {
    enum { LEAST = 32768 };
    centring c = {K, mean, 0.0, n};
    int threads = circe__threads_bracketed();
    circe__run_ranges(threads, n, LEAST / n + 1, run_means, &c);
    for (int64_t i = 0; i < n; i++) c.total += mean[i] / (double)n;
    circe__run_ranges(threads, n, LEAST / n + 1, run_subtract, &c);
}

static void center(const circe__points *points, double *K, double *part) {
    if (points->root != NULL)
        center_weighted(points->root, points->mat.rows, K, part);
    else
        center_gram(K, points->mat.rows, part);
}

circe_status circe__points_gram(circe_workspace *workspace, const circe__points *points, bool centered, double *K) {
    const circe_context *context = workspace->context;
    int64_t n = points->mat.rows;
    size_t bytes = circe__gram_bytes(context, CIRCE_FLOAT64, n, points->mat.cols);
    void *scratch = circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)bytes + n * 8, 1);
    if (scratch == NULL) return CIRCE_ERR_MEMORY;
    circe_mat out = circe__mat(K, n, n, CIRCE_FLOAT64);
    forget_means(points, centered);
    circe__gram(context, points->kernel, &points->mat, &points->mat, &out, scratch);
    if (points->root != NULL) weigh_gram(points->root, n, K);
    if (centered) center(points, K, scratch);
    return CIRCE_OK;
}

typedef struct table {
    double *F; /* (rows, n) */
    int64_t n;
    double ridge;
} table;

/* Rows of I - ridge F, F (n, n). */
static void run_complement(void *user, int64_t first, int64_t end) {
    const table *t = user;
    for (int64_t i = first; i < end; i++) {
        for (int64_t j = 0; j < t->n; j++) t->F[i * t->n + j] *= -t->ridge;
        t->F[i * t->n + i] += 1.0;
    }
}

static void run_center(void *user, int64_t first, int64_t end) {
    const table *t = user;
    for (int64_t k = first; k < end; k++) {
        double mean = 0.0, *row = t->F + k * t->n;
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < t->n; i++) mean += row[i];
        mean /= (double)t->n;
        for (int64_t i = 0; i < t->n; i++) row[i] -= mean;
    }
}

static void center_rows(double *F, int64_t rows, int64_t n) {
    enum { LEAST = 32768 };
    table t = {F, n, 0.0};
    circe__run_ranges(circe__threads_bracketed(), rows, LEAST / n + 1, run_center, &t);
}

/* What becomes of a finished factor F (rows, n). */
static void finish_rows(const circe__points *points, double *F, int64_t rows, bool centered) {
    int64_t n = points->mat.rows;
    if (points->root != NULL)
        weigh_rows(points->root, rows, n, centered, F);
    else if (centered)
        center_rows(F, rows, n);
}

/* A linear kernel is the inner product of its columns: these are the factor, and hold what a factorisation by pivots
 * would lose of columns far from 0. */
static circe_status factor_of_columns(circe_workspace *workspace, const circe__points *points,
                                      circe__factored *result) {
    int64_t n = points->mat.rows, first = points->kernel.items->first_col, rank = points->kernel.items->n_cols;
    double *F = circe__take(workspace, CIRCE__SLOT_FACTOR, rank * n, sizeof *F);
    if (F == NULL) return CIRCE_ERR_MEMORY;
    *result = (circe__factored){.rank = rank, .complete = 1};
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < rank; k++) {
            double v = circe__at(&points->mat, i, first + k);
            F[k * n + i] = v;
            result->trace += v * v;
        }
    return CIRCE_OK;
}

static bool has_few_columns(const circe__points *points, int64_t most) {
    return circe__is_linear(points->kernel.items, points->kernel.n) && points->kernel.items->n_cols <= most;
}

/* One attempt with `capacity` rows. */
static circe_status factor_once(circe_workspace *workspace, const circe__points *points, double tolerance, double limit,
                                int64_t capacity, bool may_give_up, circe__factored *result) {
    const circe_context *context = workspace->context;
    const circe__loops *loops = circe__loops_for(context->backend, CIRCE_FLOAT64);
    int64_t n = points->mat.rows;
    double *F = circe__take(workspace, CIRCE__SLOT_FACTOR, capacity * n, sizeof *F);
    void *scratch = circe__take(workspace, CIRCE__SLOT_TILES,
                                (int64_t)loops->factor_bytes(n, points->mat.cols, context->threads), 1);
    if (F == NULL || scratch == NULL) return CIRCE_ERR_MEMORY;
    circe_mat out = circe__mat(F, capacity, n, CIRCE_FLOAT64);
    *result = loops->factor(points->kernel, &points->mat, tolerance, limit, may_give_up, &out, NULL, context->threads,
                            scratch);
    return CIRCE_OK;
}

/* Attempts with doubled capacity until the factor is complete or `most` rows were not enough: what the smaller attempts
 * cost is a third of the last one. */
static circe_status factor_upto(circe_workspace *workspace, const circe__points *points, double tolerance, double limit,
                                int64_t most, bool may_give_up, const char *name, circe__factored *result) {
    int64_t n = points->mat.rows, capacity = n <= WHOLE_RANK ? most : circe__min(FIRST_RANK, most);
    char what[128];
    if (has_few_columns(points, most)) return factor_of_columns(workspace, points, result);
    snprintf(what, sizeof what, "a factor of the kernel matrix of %s", name);
    for (;; capacity = circe__min(2 * capacity, most)) {
        double bytes = 8.0 * (double)capacity * (double)n;
        circe_status status = CIRCE_OK;
        if (bytes > (double)workspace->bytes[CIRCE__SLOT_FACTOR])
            status = circe__memory_check(workspace->context, bytes, what,
                                         "use fewer rows, a larger tolerance or wider kernels");
        if (status == CIRCE_OK)
            status = factor_once(workspace, points, tolerance, limit, capacity, may_give_up, result);
        if (status != CIRCE_OK || result->complete || capacity == most || result->rank < capacity) return status;
    }
}

circe_status circe__points_try(circe_workspace *workspace, const circe__points *points, double tolerance, int64_t most,
                               bool centered, const char *name, double **F, int64_t *rank) {
    circe__factored result = {0};
    forget_means(points, centered);
    circe_status status = factor_upto(workspace, points, tolerance, HUGE_VAL, most, true, name, &result);
    *F = workspace->blocks[CIRCE__SLOT_FACTOR];
    *rank = result.complete ? result.rank : -1;
    if (*rank > 0) finish_rows(points, *F, *rank, centered);
    return status;
}

circe_status circe__points_factor(circe_workspace *workspace, const circe__points *points, double tolerance,
                                  double limit, bool centered, const char *name, double **F, int64_t *rank) {
    int64_t n = points->mat.rows;
    circe__factored result = {0};
    forget_means(points, centered);
    circe_status status = factor_upto(workspace, points, tolerance, limit, n, false, name, &result);
    if (status != CIRCE_OK) return status;
    *F = workspace->blocks[CIRCE__SLOT_FACTOR];
    *rank = result.rank;
    finish_rows(points, *F, *rank, centered);
    return CIRCE_OK;
}

/* ---- the smoother ------------------------------------------------------------------------------------------------ */

static circe_status refuse_ridge(double ridge, double least, const char *name) {
    return circe_fail(CIRCE_ERR_NUMERIC,
                      "a ridge of %g is too small for the kernel matrix of %s: its rounding errors are larger; use "
                      "at least %.1e",
                      ridge, name, least);
}

/* Below it results would have errors of more than about 1e-4: they are eps trace / ridge. */
static double least_ridge(double trace) { return 1000.0 * DBL_EPSILON * trace; }

/* HKH has the eigenvalue 0 for the constant function. Its inverse there is 1/ridge, beside which all others would lose
 * the digits that K + ridge I is ill-conditioned by: with the mean eigenvalue there instead, it is out of their way. */
static void lift_constants(const circe__points *points, double trace, double *K) {
    int64_t n = points->mat.rows;
    double lift = trace / ((double)n * (double)n);
    for (int64_t i = 0; i < n; i++) {
        const double *root = points->root;
        double own = root == NULL ? lift : lift * root[i];
        for (int64_t j = 0; j < n; j++) K[i * n + j] += root == NULL ? own : own * root[j];
    }
}

static circe_status make_dense(circe_workspace *workspace, circe__slot slot, const circe__points *points,
                               const circe__smoother_options *options, const char *name, circe__smoother *smoother) {
    const circe_context *context = workspace->context;
    int64_t n = points->mat.rows;
    double bytes = 8.0 * (double)n * (double)n, trace = 0.0, ridge = options->ridge;
    circe_status status = CIRCE_OK;
    if (bytes > (double)workspace->bytes[slot])
        status = circe__memory_check(context, bytes, "a dense regression of all these rows on each other",
                                     "use fewer rows, or wider kernels, whose matrices have a low rank");
    if (status != CIRCE_OK) return status;
    double *K = circe__take(workspace, slot, n * n, sizeof *K);
    if (K == NULL) return CIRCE_ERR_MEMORY;
    status = circe__points_gram(workspace, points, options->centered, K);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++) {
        trace += K[i * n + i];
        K[i * n + i] += ridge;
    }
    if (ridge < least_ridge(trace)) return refuse_ridge(ridge, least_ridge(trace), name);
    if (options->centered) lift_constants(points, trace, K);
    if (context->backend->algebra->invert_spd(n, K) != 0) return refuse_ridge(ridge, 1e-12 * trace, name);
    table S = {K, n, ridge};
    circe__run_ranges(context->threads, n, 8192 / n + 1, run_complement, &S);
    if (options->centered) center(points, K, workspace->blocks[CIRCE__SLOT_TILES]);
    *smoother = (circe__smoother){.n = n, .rank = n, .dense = true, .P = K};
    return CIRCE_OK;
}

/* From F (r, n), centred before if requested. Directions in which S is below `negligible` are left out. */
static circe_status make_lowrank(circe_workspace *workspace, circe__slot slot, double *F, int64_t n, int64_t r,
                                 int64_t capacity, double ridge, double negligible, circe__smoother *smoother) {
    const circe_context *context = workspace->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t room = circe__roomy(r), first = 0;
    double *P = circe__take(workspace, slot, (n + 1) * capacity, sizeof *P);
    double *V = circe__take(workspace, CIRCE__SLOT_SMOOTHER_WORK, 3 * room * room + 12 * room + 8, sizeof *V);
    if (P == NULL || V == NULL) return CIRCE_ERR_MEMORY;
    double *t = P + n * capacity, *work = V + r * r;
    int *iwork = (void *)(work + 2 * r * r + 6 * r + 1);
    algebra->gemm(0, 1, r, r, n, 1.0, F, n, F, n, 0.0, V, r);
    if (r > 0 && algebra->eigen(r, V, t, work, iwork) != 0)
        return circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of a kernel matrix did not converge");
    while (first < r - 1 && t[first] <= negligible * ridge) first++; /* ascending */
    for (int64_t k = first; k < r; k++) {
        double s = fmax(t[k], 0.0), root = sqrt(s + ridge);
        for (int64_t j = 0; j < r; j++) V[k * r + j] /= root;
        t[k] = s / (s + ridge);
    }
    int64_t rank = r - first;
    algebra->gemm(1, 1, n, rank, r, 1.0, F, n, V + first * r, r, 0.0, P, circe__max(rank, 1));
    *smoother = (circe__smoother){.n = n, .rank = rank, .P = P, .left = P, .right = P, .t = t + first};
    return CIRCE_OK;
}

typedef struct copying {
    const double *in;
    double *out;
} copying;

static void run_copy(void *user, int64_t first, int64_t end) {
    const copying *c = user;
    memcpy(c->out + first, c->in + first, (size_t)(end - first) * sizeof *c->out);
}

static void copy_in_parts(const double *in, int64_t n, double *out) {
    enum { LEAST = 1 << 14 };
    copying c = {in, out};
    circe__run_ranges(circe__threads_bracketed(), n, LEAST, run_copy, &c);
}

/* From F (r, n) as above, which is copied: its slot is that of the next variable, too. */
static circe_status make_applied(circe_workspace *workspace, circe__slot slot, const double *F, int64_t n, int64_t r,
                                 int64_t capacity, double ridge, const char *name, circe__smoother *smoother) {
    const circe__algebra *algebra = workspace->context->backend->algebra;
    int64_t room = circe__roomy(r);
    double *own = circe__take(workspace, slot, n * capacity + room * room, sizeof *own);
    if (own == NULL) return CIRCE_ERR_MEMORY;
    double *inverse = own + n * capacity;
    copy_in_parts(F, r * n, own);
    algebra->gemm(0, 1, r, r, n, 1.0, F, n, F, n, 0.0, inverse, r);
    for (int64_t k = 0; k < r; k++) inverse[k * r + k] += ridge;
    if (algebra->invert_spd(r, inverse) != 0) return refuse_ridge(ridge, 10.0 * ridge, name);
    *smoother = (circe__smoother){.n = n, .rank = r, .P = own, .inverse = inverse};
    return CIRCE_OK;
}

circe_status circe__check_regression(double ridge, circe_method method) {
    if (!(ridge > 0.0) || !isfinite(ridge))
        return circe_fail(CIRCE_ERR_ARGUMENT, "the ridge must be a positive number; it is %g", ridge);
    if (method == CIRCE_METHOD_AUTO || method == CIRCE_METHOD_LOWRANK || method == CIRCE_METHOD_DENSE) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "a measure that regresses the batch on itself has the methods auto, lowrank and dense, not %s",
                      circe_method_name(method));
}

circe_status circe__smoother_make(circe_workspace *workspace, circe__slot slot, const circe__points *points,
                                  const circe__smoother_options *options, const char *name, circe__smoother *smoother) {
    int64_t n = points->mat.rows;
    circe_status status = circe__check_regression(options->ridge, options->method);
    if (status != CIRCE_OK) return status;
    bool automatic = options->method == CIRCE_METHOD_AUTO;
    int64_t most = automatic ? circe__max(n / SMALLEST_RATIO, 1) : n;
    bool small = automatic && n <= DENSE_ROWS && !has_few_columns(points, most);
    if (options->method == CIRCE_METHOD_DENSE || small)
        return make_dense(workspace, slot, points, options, name, smoother);
    forget_means(points, options->centered);
    circe__factored result = {0};
    status = factor_upto(workspace, points, options->tolerance, 1e-6 * options->ridge, most, automatic, name, &result);
    if (status != CIRCE_OK) return status;
    if (options->ridge < least_ridge(result.trace))
        return refuse_ridge(options->ridge, least_ridge(result.trace), name);
    if (automatic && !result.complete) return make_dense(workspace, slot, points, options, name, smoother);
    double *F = workspace->blocks[CIRCE__SLOT_FACTOR];
    finish_rows(points, F, result.rank, options->centered);
    int64_t capacity = n <= WHOLE_RANK ? most : result.rank;
    if (options->applied && result.trace <= MOST_APPLIED * options->ridge)
        return make_applied(workspace, slot, F, n, result.rank, capacity, options->ridge, name, smoother);
    return make_lowrank(workspace, slot, F, n, result.rank, capacity, options->ridge, options->tolerance, smoother);
}

circe_status circe__smoother_apply(circe_workspace *workspace, const circe__smoother *s, int64_t m, const double *in,
                                   bool residual, double *out) {
    const circe__algebra *algebra = workspace->context->backend->algebra;
    double sign = residual ? -1.0 : 1.0;
    if (residual) copy_in_parts(in, s->n * m, out);
    if (s->dense) {
        algebra->gemm(0, 0, s->n, m, s->n, sign, s->P, s->n, in, m, residual ? 1.0 : 0.0, out, m);
        return CIRCE_OK;
    }
    int64_t ld = circe__max(s->rank, 1), room = circe__roomy(s->rank) * m + 1;
    double *inner = circe__take(workspace, CIRCE__SLOT_SMOOTHER_WORK, 2 * room, sizeof *inner);
    if (inner == NULL) return CIRCE_ERR_MEMORY;
    if (s->inverse != NULL) {
        double *solved = inner + room;
        algebra->gemm(0, 0, s->rank, m, s->n, 1.0, s->P, s->n, in, m, 0.0, inner, m);
        algebra->gemm(0, 0, s->rank, m, s->rank, 1.0, s->inverse, ld, inner, m, 0.0, solved, m);
        algebra->gemm(1, 0, s->n, m, s->rank, sign, s->P, s->n, solved, m, residual ? 1.0 : 0.0, out, m);
        return CIRCE_OK;
    }
    algebra->gemm(1, 0, s->rank, m, s->n, 1.0, s->P, ld, in, m, 0.0, inner, m);
    algebra->gemm(0, 0, s->n, m, s->rank, sign, s->P, ld, inner, m, residual ? 1.0 : 0.0, out, m);
    return CIRCE_OK;
}
