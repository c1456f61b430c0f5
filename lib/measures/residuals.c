/* Residuals of x and z given y, for GCM. Regressions: of the batch on itself by kernel ridge (smoother.c) or by least
 * squares, on the batch before, or out of a fitted model.
 *
 *     on itself     r = x - S x,  S = K (K + ridge I)^-1 or the projection on [1, y]
 *     on m others   r = x - K_{y,o} (K_oo + ridge I)^-1 x_o,  (K_oo + ridge I)^-1 x_o = (I - S_o) x_o / ridge
 *                   or r = x - P_y P_o' x_o,  P the functions that are orthonormal on the others and span [1, y]
 *     holdout       r = z - E[z | y]
 *
 * O(n r d) with S of rank r; O(n m) for kernels on others. Low rank leaves a share of K out, with the trace delta; then
 * r is wrong by at most (delta / ridge) |r|, relative to the residual and not to x, so that no noise comes from there:
 * noise is the rounding of the subtraction alone.
 *
 * With weights w (D = diag(w)) a regression is the weighted one, and everything is multiplied by the roots of its rows'
 * weights: D^1/2 r = (I - S) D^1/2 x, S of D^1/2 K D^1/2, or P orthonormal in the sums with these weights.
 *
 * Columns are scaled by powers of 2, once for what is subtracted and once for the residual, since what follows does not
 * depend on their units: nothing overflows, and what rounding put into a column is known beside its 1. */
#include "measures/residuals.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- units ------------------------------------------------------------------------------------------------------ */

/* Rounding of n numbers added up, or of data that was float32 once. */
static double noise_of(circe_dtype dtype, int64_t n) {
    return dtype == CIRCE_FLOAT32 ? 4.0 * (double)FLT_EPSILON : (16.0 + sqrt((double)n)) * DBL_EPSILON;
}

/* The power of 2 that takes `largest` to [1/2, 1), as far as it and its inverse are normal numbers. */
static double unit_of(double largest) {
    enum { RANGE = 1000 };
    int exponent = 0;
    if (!(largest > 0.0)) return 1.0;
    frexp(largest, &exponent);
    return ldexp(1.0, exponent > RANGE ? -RANGE : exponent < -RANGE ? RANGE : -exponent);
}

/* Work on columns goes by rows, in ROW_BLOCKS blocks that each find sums or maxima of their own. They are put together
 * in their order: the same bits on any number of threads. */
static void run_rows(int64_t elements, circe_part_fn run, void *user) {
    enum { LEAST = 8192 }; /* numbers: 5 microseconds */
    int threads = (int)circe__count_parts(circe__threads_bracketed(), elements, LEAST);
    circe__run_on(threads, CIRCE__ROW_BLOCKS, run, user);
}

/* Rows [first, end) of (n, cols). */
typedef struct span {
    int64_t first, end, cols;
} span;

static span block_of(int64_t n, int64_t cols, int64_t block) {
    return (span){circe__cut(n, CIRCE__ROW_BLOCKS, block), circe__cut(n, CIRCE__ROW_BLOCKS, block + 1), cols};
}

static double *found_by(const circe__side *s, int64_t block) { return s->found + block * s->cols; }

/* largest := max(largest, column maxima of |a|). */
static void column_maxima(span s, const double *a, double *restrict largest) {
    for (int64_t i = s.first; i < s.end; i++)
        for (int64_t c = 0; c < s.cols; c++) {
            double size = fabs(a[i * s.cols + c]);
            largest[c] = size > largest[c] ? size : largest[c]; /* fmax would be a call */
        }
}

static void scale(span s, double *restrict a, const double *by) {
    for (int64_t i = s.first; i < s.end; i++)
        for (int64_t c = 0; c < s.cols; c++) a[i * s.cols + c] *= by[c];
}

/* The largest that the blocks found in each column. */
static void largest_found(const circe__side *s, double *largest) {
    memset(largest, 0, (size_t)s->cols * sizeof *largest);
    for (int64_t block = 0; block < CIRCE__ROW_BLOCKS; block++)
        for (int64_t c = 0; c < s->cols; c++) largest[c] = fmax(largest[c], found_by(s, block)[c]);
}

typedef struct scaling {
    double *a, *others; /* (n, cols); (n_others, cols) or NULL */
    int64_t n, n_others, cols;
    const double *by;
} scaling;

static void run_scale(void *user, int64_t block) {
    const scaling *w = user;
    scale(block_of(w->n, w->cols, block), w->a, w->by);
    if (w->others != NULL) scale(block_of(w->n_others, w->cols, block), w->others, w->by);
}

void circe__scale_columns(double *a, int64_t n, int64_t cols, const double *by) {
    scaling w = {.a = a, .n = n, .cols = cols, .by = by};
    run_rows(n * cols, run_scale, &w);
}

/* Rows of (n, cols) times the roots of their weights; NULL: as they are. */
static void weigh_rows(const double *root, int64_t n, int64_t cols, double *a) {
    for (int64_t e = 0; root != NULL && e < n * cols; e++) a[e] *= root[e / cols];
}

typedef struct loading {
    circe__side *side;
    const circe_mat *from;
    const double *others;
    int64_t n_others;
} loading;

static void run_load(void *user, int64_t block) {
    const loading *w = user;
    const circe__side *s = w->side;
    span own = block_of(w->from->rows, s->cols, block);
    circe_mat from = circe__rows(w->from, own.first, own.end - own.first);
    circe_mat to = circe__mat(s->points + own.first * s->cols, from.rows, s->cols, CIRCE_FLOAT64);
    double *largest = found_by(s, block);
    circe__copy_mat(&from, &to);
    memset(largest, 0, (size_t)s->cols * sizeof *largest);
    column_maxima(own, s->points, largest);
    if (w->others != NULL) column_maxima(block_of(w->n_others, s->cols, block), w->others, largest);
}

/* Points of the side, and `others` (n_others, cols) that belong to the same units, or NULL; and the noise that comes
 * of subtracting numbers of this size. */
static void load(circe__side *s, const circe_mat *from, double *others, int64_t n_others) {
    loading w = {s, from, others, n_others};
    scaling by_unit = {s->points, others, from->rows, n_others, s->cols, s->unit};
    run_rows(from->rows * s->cols, run_load, &w);
    largest_found(s, s->blur);
    for (int64_t c = 0; c < s->cols; c++) {
        s->unit[c] = unit_of(s->blur[c]);
        s->blur[c] *= noise_of(from->dtype, from->rows) * s->unit[c];
    }
    run_rows(from->rows * s->cols, run_scale, &by_unit);
}

typedef struct settling {
    circe__side *side;
    int64_t n;
} settling;

static void run_maxima(void *user, int64_t block) {
    const settling *w = user;
    const circe__side *s = w->side;
    memset(found_by(s, block), 0, (size_t)s->cols * sizeof(double));
    column_maxima(block_of(w->n, s->cols, block), s->r, found_by(s, block));
}

/* Residuals times the gain, and the sums of their squares. */
static void run_settle(void *user, int64_t block) {
    const settling *w = user;
    const circe__side *s = w->side;
    span own = block_of(w->n, s->cols, block);
    double *restrict squares = found_by(s, block);
    scale(own, s->r, s->gain);
    memset(squares, 0, (size_t)s->cols * sizeof *squares);
    for (int64_t i = own.first; i < own.end; i++)
        for (int64_t c = 0; c < s->cols; c++) squares[c] += s->r[i * s->cols + c] * s->r[i * s->cols + c];
}

/* Residuals in units of their own; noise grows with them, to 1 or more where there is nothing else. The root of a mean
 * of squares of at most 1 is finite unless one of them was not. */
static circe_status settle(circe__side *s, int64_t n, int64_t counted, const char *name) {
    settling w = {s, n};
    run_rows(n * s->cols, run_maxima, &w);
    largest_found(s, s->gain);
    for (int64_t c = 0; c < s->cols; c++) {
        s->gain[c] = unit_of(s->gain[c]);
        s->blur[c] *= s->gain[c];
    }
    run_rows(n * s->cols, run_settle, &w);
    memset(s->rms, 0, (size_t)s->cols * sizeof *s->rms);
    for (int64_t block = 0; block < CIRCE__ROW_BLOCKS; block++)
        for (int64_t c = 0; c < s->cols; c++) s->rms[c] += found_by(s, block)[c];
    for (int64_t c = 0; c < s->cols; c++) {
        s->rms[c] = sqrt(s->rms[c] / (double)counted);
        if (!isfinite(s->rms[c]))
            return circe_fail(CIRCE_ERR_NUMERIC,
                              "the regression of %s gives numbers beyond the range of float64: the points lie far "
                              "outside those of the fit",
                              name);
    }
    return CIRCE_OK;
}

/* ---- least squares ---------------------------------------------------------------------------------------------- */

static double norm_of(const double *a, int64_t n) {
    double square = 0.0;
    for (int64_t i = 0; i < n; i++) square += a[i] * a[i];
    return sqrt(square);
}

/* C (d, N) := the columns of y, those of m points and then those of others, in units and about the mean of the m; with
 * the roots of weights of the m, times these. */
static void center_columns(const circe_mat *fit, const double *root, const circe_mat *others, double *C) {
    int64_t m = fit->rows, N = m + (others == NULL ? 0 : others->rows);
    for (int64_t j = 0; j < fit->cols; j++) {
        double *column = C + j * N, largest = 0.0;
        for (int64_t i = 0; i < m; i++) largest = fmax(largest, fabs(circe__at(fit, i, j)));
        double unit = unit_of(largest);
        for (int64_t i = 0; i < N; i++) column[i] = unit * (i < m ? circe__at(fit, i, j) : circe__at(others, i - m, j));
        for (int pass = 0; pass < 2; pass++) { /* the second for what rounding left of a mean far from 0 */
            double mean = 0.0, total = 0.0;
            for (int64_t i = 0; i < m; i++) {
                double weight = root != NULL ? root[i] * root[i] : 1.0;
                mean += weight * column[i];
                total += weight;
            }
            mean /= total;
            for (int64_t i = 0; i < N; i++) column[i] -= mean;
        }
        weigh_rows(root, m, 1, column);
    }
}

/* The column of which the largest share is not in the span yet; -1 if all that is left is rounding. */
static int64_t next_column(const double *C, int64_t d, int64_t m, int64_t N, double least, const double *own) {
    int64_t best = -1;
    double best_share = 0.0;
    for (int64_t j = 0; j < d; j++) {
        double left = own[j] > 0.0 ? norm_of(C + j * N, m) : 0.0;
        if (left <= least || left <= best_share * own[j]) continue;
        best = j;
        best_share = left / own[j];
    }
    return best;
}

/* Functions of y that are orthonormal on `fit` (m points) and span [1, y]: P (m + rows of others, rank), so that least
 * squares is S = P P' on the m points, and P_others P' elsewhere. Gram-Schmidt with the largest share first, each
 * vector orthogonalised once more when its turn comes: collinear and constant columns are left out. O(N d rank). */
static circe_status linear_basis(circe_workspace *workspace, circe__slot slot, const circe_mat *fit, const double *root,
                                 const circe_mat *others, circe__smoother *basis) {
    const circe__algebra *algebra = workspace->context->backend->algebra;
    int64_t d = fit->cols, m = fit->rows, N = m + (others == NULL ? 0 : others->rows);
    int64_t most = circe__min(d + 1, m), rank = 1, next;
    double *C = circe__take(workspace, CIRCE__SLOT_FACTOR, (d + most) * N + 2 * d + 1, sizeof *C);
    double *P = circe__take(workspace, slot, N * most, sizeof *P);
    if (C == NULL || P == NULL) return CIRCE_ERR_MEMORY;
    double *Q = C + d * N, *own = Q + most * N, *share = own + d; /* Q (most, N) */
    double least = noise_of(fit->dtype, m) * sqrt((double)m);
    center_columns(fit, root, others, C);
    for (int64_t i = 0; i < N; i++) Q[i] = 1.0;
    weigh_rows(root, m, 1, Q);
    double one = norm_of(Q, m);
    for (int64_t i = 0; i < N; i++) Q[i] /= one;
    for (int64_t j = 0; j < d; j++) own[j] = norm_of(C + j * N, m);
    for (; rank < most && (next = next_column(C, d, m, N, least, own)) >= 0; rank++) {
        double *q = Q + rank * N;
        memcpy(q, C + next * N, (size_t)N * sizeof *q);
        own[next] = 0.0;
        algebra->gemm(0, 1, 1, rank, m, 1.0, q, N, Q, N, 0.0, share, rank);
        algebra->gemm(0, 0, 1, N, rank, -1.0, share, rank, Q, N, 1.0, q, N);
        double norm = norm_of(q, m);
        for (int64_t i = 0; i < N; i++) q[i] /= norm;
        algebra->gemm(0, 1, d, 1, m, 1.0, C, N, q, N, 0.0, share, 1);
        algebra->gemm(0, 0, d, N, 1, -1.0, share, 1, q, N, 1.0, C, N);
    }
    for (int64_t i = 0; i < N; i++)
        for (int64_t k = 0; k < rank; k++) P[i * rank + k] = Q[k * N + i];
    *basis = (circe__smoother){.n = m, .rank = rank, .P = P};
    return CIRCE_OK;
}

/* ---- residuals -------------------------------------------------------------------------------------------------- */

static circe_status kernel_smoother(circe__residuals *g, circe__slot points_slot, circe__slot slot, const circe_mat *y,
                                    const double *root, const char *name, circe__points *points,
                                    circe__smoother *smoother) {
    const circe_batch_options *batch = &g->options->batch;
    circe__smoother_options options = {.ridge = batch->ridge,
                                       .method = batch->method,
                                       .tolerance = circe__batch_tolerance(batch->tolerance, g->mat_x->dtype),
                                       .applied = true};
    circe_status status = circe__points_take(g->workspace, points_slot, g->kernel_y, y, 0, name, points);
    if (status != CIRCE_OK) return status;
    points->root = root;
    return circe__smoother_make(g->workspace, slot, points, &options, name, smoother);
}

/* S of the batch itself. */
static circe_status smooth_batch(circe__residuals *g) {
    circe__points points;
    if (g->options->regression == CIRCE_GCM_LINEAR)
        return linear_basis(g->workspace, CIRCE__SLOT_SMOOTHER_Y, g->mat_y, g->root, NULL, &g->batch);
    return kernel_smoother(g, CIRCE__SLOT_Y, CIRCE__SLOT_SMOOTHER_Y, g->mat_y, g->root, "y", &points, &g->batch);
}

/* Columns of rows and of the batch before (or NULL), which they are regressed on, less the mean of the latter: a
 * constant is in the span of [1, y], and the digits of columns far from 0 are not lost in the sums of its projection.
 */
static void forget_constants(double *a, int64_t n, double *before, int64_t m, int64_t cols) {
    const double *of = before != NULL ? before : a;
    int64_t rows = before != NULL ? m : n;
    for (int64_t c = 0; c < cols; c++) {
        double mean = 0.0;
        for (int64_t i = 0; i < rows; i++) mean += of[i * cols + c] / (double)rows;
        for (int64_t i = 0; i < n; i++) a[i * cols + c] -= mean;
        for (int64_t i = 0; before != NULL && i < m; i++) before[i * cols + c] -= mean;
    }
}

/* r = points - S points. A projection is applied twice: sums over the batch leave some of what is in its span, n eps of
 * a constant, which the second takes out. */
static circe_status residual_on_batch(circe__residuals *g, circe__side *s) {
    if (g->options->regression == CIRCE_GCM_LINEAR) forget_constants(s->points, g->n, NULL, 0, s->cols);
    weigh_rows(g->root, g->n, s->cols, s->points);
    circe_status status = circe__smoother_apply(g->workspace, &g->batch, s->cols, s->points, true, s->r);
    if (status != CIRCE_OK || g->options->regression == CIRCE_GCM_KERNEL) return status;
    status = circe__smoother_apply(g->workspace, &g->batch, s->cols, s->r, true, s->points);
    if (status == CIRCE_OK) memcpy(s->r, s->points, (size_t)(g->n * s->cols) * sizeof *s->r);
    return status;
}

/* r -= K_{y, before} a / ridge with a = (I - S) x of the batch before, (K + ridge I)^-1 x being a / ridge. */
static circe_status subtract_kernel(circe__residuals *g, const double *before, const double *root, double *a) {
    enum { BLOCK = 256 };
    const circe_context *context = g->workspace->context;
    int64_t m = g->options->previous_y->rows, d = g->x.cols;
    circe__points old = {0}, now = {0};
    circe__smoother S = {0};
    circe_status status = kernel_smoother(g, CIRCE__SLOT_POINTS_B, CIRCE__SLOT_SMOOTHER_X, g->options->previous_y, root,
                                          "previous_y", &old, &S);
    if (status == CIRCE_OK) status = circe__smoother_apply(g->workspace, &S, d, before, true, a);
    if (status == CIRCE_OK) weigh_rows(root, m, d, a);
    if (status == CIRCE_OK)
        status = circe__points_take(g->workspace, CIRCE__SLOT_Y, g->kernel_y, g->mat_y, g->n, "y", &now);
    if (status != CIRCE_OK) return status;
    double *K = circe__take(g->workspace, CIRCE__SLOT_GRAM_X, circe__min(g->n, BLOCK) * m, sizeof *K);
    void *scratch = circe__take(g->workspace, CIRCE__SLOT_TILES,
                                (int64_t)circe__gram_bytes(context, CIRCE_FLOAT64, m, old.mat.cols), 1);
    if (K == NULL || scratch == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < g->n; i += BLOCK) {
        circe_mat rows = circe__rows(&now.mat, i, circe__min(BLOCK, g->n - i));
        circe_mat block = circe__mat(K, rows.rows, m, CIRCE_FLOAT64);
        circe__gram(context, now.kernel, &rows, &old.mat, &block, scratch);
        context->backend->algebra->gemm(0, 0, rows.rows, d, m, -1.0 / g->options->batch.ridge, K, m, a, d, 1.0,
                                        g->x.r + i * d, d);
    }
    return CIRCE_OK;
}

/* r -= P_now (P' x + P' a), P' x of the batch before and a = (I - P P') x what rounding left of it in the span. */
static circe_status subtract_linear(circe__residuals *g, const double *before, const double *root, double *a) {
    const circe__algebra *algebra = g->workspace->context->backend->algebra;
    int64_t d = g->x.cols, m = g->options->previous_y->rows;
    circe__smoother basis = {0};
    circe_status status =
        linear_basis(g->workspace, CIRCE__SLOT_SMOOTHER_X, g->options->previous_y, root, g->mat_y, &basis);
    if (status == CIRCE_OK) status = circe__smoother_apply(g->workspace, &basis, d, before, true, a);
    if (status != CIRCE_OK) return status;
    int64_t rank = basis.rank;
    double *inner = circe__take(g->workspace, CIRCE__SLOT_SMOOTHER_WORK, rank * d, sizeof *inner);
    if (inner == NULL) return CIRCE_ERR_MEMORY;
    algebra->gemm(1, 0, rank, d, m, 1.0, basis.P, rank, before, d, 0.0, inner, d);
    algebra->gemm(1, 0, rank, d, m, 1.0, basis.P, rank, a, d, 1.0, inner, d);
    algebra->gemm(0, 0, g->n, d, rank, -1.0, basis.P + m * rank, rank, inner, d, 1.0, g->x.r, d);
    return CIRCE_OK;
}

static circe_status residual_x(circe__residuals *g) {
    const circe_mat *previous = g->options->previous_x;
    if (previous == NULL) {
        load(&g->x, g->mat_x, NULL, 0);
        return residual_on_batch(g, &g->x);
    }
    const double *weights = g->options->previous_weights;
    int64_t m = previous->rows, elements = m * previous->cols, positive;
    double *before = circe__take(g->workspace, CIRCE__SLOT_POINTS_A, 2 * elements + m, sizeof *before);
    if (before == NULL) return CIRCE_ERR_MEMORY;
    double *after = before + elements, *root = weights != NULL ? after + elements : NULL;
    circe_status status = weights != NULL ? circe__weights_normalize(weights, m, root, &positive) : CIRCE_OK;
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; root != NULL && i < m; i++) root[i] = sqrt(root[i]);
    circe_mat copy = circe__mat(before, m, previous->cols, CIRCE_FLOAT64);
    circe__copy_mat(previous, &copy);
    load(&g->x, g->mat_x, before, m);
    if (g->options->regression == CIRCE_GCM_LINEAR) forget_constants(g->x.points, g->n, before, m, g->x.cols);
    weigh_rows(root, m, previous->cols, before);
    memcpy(g->x.r, g->x.points, (size_t)(g->n * g->x.cols) * sizeof *g->x.r);
    status = g->options->regression == CIRCE_GCM_LINEAR ? subtract_linear(g, before, root, after)
                                                        : subtract_kernel(g, before, root, after);
    if (status == CIRCE_OK) weigh_rows(g->root, g->n, g->x.cols, g->x.r);
    return status;
}

static circe_status residual_z(circe__residuals *g) {
    circe__side *z = &g->z;
    if (g->options->holdout == NULL) {
        load(z, g->mat_z, NULL, 0);
        return residual_on_batch(g, z);
    }
    circe_mat hat = circe__mat(z->r, g->n, z->cols, CIRCE_FLOAT64);
    circe_status status = circe_cme_mean(g->workspace, g->options->holdout, g->mat_y, &hat);
    if (status != CIRCE_OK) return status;
    load(z, g->mat_z, z->r, g->n);
    for (int64_t e = 0; e < g->n * z->cols; e++) z->r[e] = z->points[e] - z->r[e];
    weigh_rows(g->root, g->n, z->cols, z->r);
    return CIRCE_OK;
}

circe_status circe__residuals_make(circe__residuals *g) {
    bool on_batch = g->options->previous_x == NULL || g->options->holdout == NULL;
    circe_status status = on_batch ? smooth_batch(g) : CIRCE_OK;
    if (status == CIRCE_OK) status = residual_z(g);
    if (status == CIRCE_OK) status = residual_x(g);
    if (status == CIRCE_OK) status = settle(&g->z, g->n, g->counted, "z");
    if (status == CIRCE_OK) status = settle(&g->x, g->n, g->counted, "x");
    return status;
}
