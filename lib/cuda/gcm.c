/* GCM on the device: which regressions, in which order, and the products between the steps of backend/cuda/gcm.cu.
 * Symbols and formulas are those of lib/measures/gcm.c and residuals.c; x and z are held by columns, (cols, n).
 *
 *     on itself     r = ridge (K + ridge I)^-1 x, or twice x - Q'Q x with Q (rank, n), the basis of [1, y]
 *     on m others   r = x - K_{y,o} (K_oo + ridge I)^-1 x_o, or x - Q_y'Q_o x_o
 *     z_hat         r = z - z_hat
 *
 * O(n^3) for the Cholesky factor of a kernel regression and its inverse, O(n^2 (p + q)) for the solves, O(n p q) for
 * the rest; least squares needs no n by n matrix. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "cuda/lowrank.h"
#include "measures/residuals.h"

typedef struct call {
    circe_gcm_options options;
    circe__cuda_kernel kernel_y;
    circe__cuda_rows x, y, z, z_hat, previous_x, previous_y;
    bool held_out; /* z_hat is there */
    int64_t n, m;  /* points; of the batch before, or 0 */
    circe__cuda_gcm g;
    circe__cuda_regression batch, before; /* kernel regression: of the batch, of the one before */
    bool is_lowrank;                      /* in their place: */
    circe__cuda_lowrank low, low_before;
    double *y_points, *old_points;      /* kernel regression: (n, d), (m, d) */
    double *cross, *turned;             /* kernel regression: K_{y,o} (n, m); (max(p, q), max(n, m)) */
    double *C, *Q, *Q_before, *scratch; /* least squares: (d, m + n), (most, n), (most, m + n), 3 d + 1 */
    double *inner;                      /* (max(p, q), most) */
    double *old, *left;                 /* (p, m): x of the batch before, and what its regression leaves */
} call;

static bool is_linear(const call *c) { return c->options.regression == CIRCE_GCM_LINEAR; }
static bool x_on_batch(const call *c) { return c->m == 0; }
static bool on_batch(const call *c) { return x_on_batch(c) || !c->held_out; }
static int64_t most_functions(const call *c, int64_t points) { return circe__min(c->y.points.cols + 1, points); }

/* ---- scratch --------------------------------------------------------------------------------------------- */

static void take_side(circe__cuda_pieces *pieces, circe__cuda_side *s, int64_t n, int64_t cols) {
    *s = (circe__cuda_side){.n = n, .cols = cols, .points = circe__cuda_doubles(pieces, n * cols)};
    s->r = circe__cuda_doubles(pieces, n * cols);
    s->unit = circe__cuda_doubles(pieces, cols);
    s->gain = circe__cuda_doubles(pieces, cols);
    s->blur = circe__cuda_doubles(pieces, cols);
    s->rms = circe__cuda_doubles(pieces, cols);
}

static void take_table(circe__cuda_pieces *pieces, circe__cuda_gcm *g) {
    int64_t pairs = g->x.cols * g->z.cols, elements = g->x.n * g->x.cols;
    double **tables[] = {&g->mean, &g->variance, &g->T, &g->weight, &g->first, &g->last};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) *tables[k] = circe__cuda_doubles(pieces, pairs);
    g->winner = circe__cuda_piece(pieces, sizeof(int));
    g->gradient = circe__cuda_doubles(pieces, elements);
    g->inner = circe__cuda_doubles(pieces, elements);
}

static void take_linear(circe__cuda_pieces *pieces, call *c) {
    int64_t d = c->y.points.cols, N = c->n + c->m, most = d + 1;
    c->C = circe__cuda_doubles(pieces, d * N);
    c->Q = circe__cuda_doubles(pieces, most * c->n);
    c->Q_before = circe__cuda_doubles(pieces, most * N);
    c->scratch = circe__cuda_doubles(pieces, 3 * d + 1);
    c->inner = circe__cuda_doubles(pieces, most * circe__max(c->g.x.cols, c->g.z.cols));
}

static circe_status take_kernel(circe_cuda *cuda, circe__cuda_pieces *pieces, call *c) {
    int64_t d = c->y.points.cols;
    circe_status status = CIRCE_OK;
    c->batch.n = c->n;
    c->before.n = c->m;
    if (on_batch(c)) status = circe__cuda_regression_take(cuda, pieces, &c->batch);
    if (status == CIRCE_OK && c->m > 0) status = circe__cuda_regression_take(cuda, pieces, &c->before);
    c->low.n = c->n;
    c->low_before.n = c->m;
    circe__cuda_lowrank_take(pieces, &c->low);
    circe__cuda_lowrank_take(pieces, &c->low_before);
    c->inner = circe__cuda_doubles(pieces, CIRCE__CUDA_BATCH_RANK * circe__max(c->g.x.cols, c->g.z.cols));
    c->y_points = circe__cuda_doubles(pieces, c->n * d);
    c->old_points = circe__cuda_doubles(pieces, c->m * d);
    c->cross = circe__cuda_doubles(pieces, c->n * c->m);
    c->turned = circe__cuda_doubles(pieces, circe__max(c->g.x.cols, c->g.z.cols) * circe__max(c->n, c->m));
    return status;
}

static circe_status take_pieces(circe_cuda *cuda, circe__cuda_pieces *pieces, call *c) {
    int64_t n = c->n, p = c->x.points.cols, q = c->z.points.cols;
    take_side(pieces, &c->g.x, n, p);
    take_side(pieces, &c->g.z, n, q);
    take_table(pieces, &c->g);
    c->old = circe__cuda_doubles(pieces, p * c->m);
    c->left = circe__cuda_doubles(pieces, p * c->m);
    if (!is_linear(c)) return take_kernel(cuda, pieces, c);
    take_linear(pieces, c);
    return CIRCE_OK;
}

/* ---- regressions ----------------------------------------------------------------------------------------- */

/* As on the CPU: rounding of n numbers added up, or of data that was float32 once. */
static double noise_of(const circe__cuda_rows *rows) {
    return rows->double_precision ? (16.0 + sqrt((double)rows->n)) * DBL_EPSILON : 4.0 * (double)FLT_EPSILON;
}

static circe_status copy(circe_cuda *cuda, double *to, const double *from, int64_t count) {
    return circe__cuda_status(
        cudaMemcpyAsync(to, from, (size_t)count * sizeof *to, cudaMemcpyDeviceToDevice, cuda->stream),
        "copying on the GPU");
}

/* K + ridge I of points (n, d), factored. */
static circe_status factor_points(circe_cuda *cuda, const call *c, const circe__cuda_rows *rows, double *points,
                                  const circe__cuda_regression *regression) {
    int cols = rows->points.cols;
    circe_status status = circe__cuda_launched(circe__cuda_load(rows, cols, 1, points, cuda->stream));
    if (status == CIRCE_OK)
        status = circe__cuda_launched(
            circe__cuda_gram(&c->kernel_y, points, rows->n, points, rows->n, cols, regression->K, cuda->stream));
    return status == CIRCE_OK ? circe__cuda_regression_factor(cuda, regression) : status;
}

/* r (cols, n) := r (K + ridge I)^-1 = r X'X, times `scale`. */
static circe_status solve(circe_cuda *cuda, const call *c, const circe__cuda_regression *k, double *r, int64_t cols,
                          double scale) {
    int64_t n = k->n;
    circe_status status = circe__cuda_gemm(cuda, 0, 1, cols, n, n, 1.0, r, n, k->X, n, 0.0, c->turned, n);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 0, cols, n, n, 1.0, c->turned, n, k->X, n, 0.0, r, n);
    if (status != CIRCE_OK) return status;
    return circe__cuda_launched(circe__cuda_gcm_scale(r, cols * n, scale, k->info, k->sound, cuda->stream));
}

/* r (cols, n) := r - (r Q') Q. */
static circe_status project(circe_cuda *cuda, const call *c, double *r, int64_t cols, const double *Q, int64_t most,
                            int64_t n, int64_t ld) {
    circe_status status = circe__cuda_gemm(cuda, 0, 1, cols, most, n, 1.0, r, n, Q, ld, 0.0, c->inner, most);
    if (status != CIRCE_OK) return status;
    return circe__cuda_gemm(cuda, 0, 0, cols, n, most, -1.0, c->inner, most, Q, ld, 1.0, r, n);
}

/* Low-rank regressions of this batch and of the previous one, at the same time. */
static circe_status smooth_lowrank(circe_cuda *cuda, const call *c) {
    int cols = c->y.points.cols;
    circe_status status = circe__cuda_launched(circe__cuda_load(&c->y, cols, 1, c->y_points, cuda->stream));
    if (status == CIRCE_OK && c->m > 0)
        status = circe__cuda_launched(circe__cuda_load(&c->previous_y, cols, 1, c->old_points, cuda->stream));
    if (status != CIRCE_OK) return status;
    return circe__cuda_lowrank_make(cuda, &c->kernel_y, cols, c->y_points, on_batch(c) ? &c->low : NULL, c->old_points,
                                    c->m > 0 ? &c->low_before : NULL);
}

static circe_status smooth_batch(circe_cuda *cuda, const call *c) {
    if (!is_linear(c) && c->is_lowrank) return smooth_lowrank(cuda, c);
    if (!on_batch(c)) return CIRCE_OK;
    if (!is_linear(c)) return factor_points(cuda, c, &c->y, c->y_points, &c->batch);
    int64_t n = c->n, d = c->y.points.cols;
    circe_status status = circe__cuda_launched(circe__cuda_load(&c->y, 1, n, c->C, cuda->stream));
    if (status != CIRCE_OK) return status;
    return circe__cuda_launched(
        circe__cuda_gcm_basis(c->C, d, n, n, noise_of(&c->y), c->Q, most_functions(c, n), c->scratch, cuda->stream));
}

/* r := (I - S) r of some columns; twice where S is a projection: the second takes out what rounding left. */
static circe_status regress_on_batch(circe_cuda *cuda, const call *c, double *r, int64_t cols, int times) {
    if (!is_linear(c) && c->is_lowrank) return circe__cuda_lowrank_subtract(cuda, &c->low, r, cols, c->inner);
    if (!is_linear(c)) return solve(cuda, c, &c->batch, r, cols, c->options.batch.ridge);
    circe_status status = CIRCE_OK;
    for (int k = 0; status == CIRCE_OK && k < times; k++)
        status = project(cuda, c, r, cols, c->Q, most_functions(c, c->n), c->n, c->n);
    return status;
}

/* r -= K_{y,o} (K_oo + ridge I)^-1 x_o, of low rank (x_o - x_o P'P) / ridge. */
static circe_status subtract_kernel(circe_cuda *cuda, const call *c) {
    int64_t n = c->n, m = c->m, p = c->g.x.cols;
    int cols = c->y.points.cols;
    double share = c->is_lowrank ? 1.0 / c->options.batch.ridge : 1.0;
    circe_status status = CIRCE_OK;
    if (!c->is_lowrank) status = factor_points(cuda, c, &c->previous_y, c->old_points, &c->before);
    if (status == CIRCE_OK)
        status = c->is_lowrank ? circe__cuda_lowrank_subtract(cuda, &c->low_before, c->old, p, c->inner)
                               : solve(cuda, c, &c->before, c->old, p, 1.0);
    if (status == CIRCE_OK && !c->is_lowrank)
        status = circe__cuda_launched(circe__cuda_load(&c->y, cols, 1, c->y_points, cuda->stream));
    if (status == CIRCE_OK)
        status = circe__cuda_launched(
            circe__cuda_gram(&c->kernel_y, c->y_points, n, c->old_points, m, cols, c->cross, cuda->stream));
    if (status != CIRCE_OK) return status;
    return circe__cuda_gemm(cuda, 0, 1, p, n, m, -share, c->old, m, c->cross, m, 1.0, c->g.x.r, n);
}

/* r -= (x_o Q_o' + a Q_o') Q_y with a = x_o - x_o Q_o' Q_o, what rounding left in the span. */
static circe_status subtract_linear(circe_cuda *cuda, const call *c) {
    int64_t n = c->n, m = c->m, N = n + m, p = c->g.x.cols, d = c->y.points.cols, most = most_functions(c, m);
    double *Q = c->Q_before, *inner = c->inner;
    circe_status status = circe__cuda_launched(circe__cuda_load(&c->previous_y, 1, N, c->C, cuda->stream));
    if (status == CIRCE_OK) status = circe__cuda_launched(circe__cuda_load(&c->y, 1, N, c->C + m, cuda->stream));
    if (status == CIRCE_OK)
        status = circe__cuda_launched(
            circe__cuda_gcm_basis(c->C, d, m, N, noise_of(&c->previous_y), Q, most, c->scratch, cuda->stream));
    if (status == CIRCE_OK) status = copy(cuda, c->left, c->old, p * m);
    if (status == CIRCE_OK) status = project(cuda, c, c->left, p, Q, most, m, N);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 1, p, most, m, 1.0, c->left, m, Q, N, 1.0, inner, most);
    if (status != CIRCE_OK) return status;
    return circe__cuda_gemm(cuda, 0, 0, p, n, most, -1.0, inner, most, Q + m, N, 1.0, c->g.x.r, n);
}

/* ---- residuals ------------------------------------------------------------------------------------------- */

/* Points of a side by columns, in units that the others share. */
static circe_status load_side(circe_cuda *cuda, const circe__cuda_rows *rows, const circe__cuda_side *side,
                              double *others, int64_t m) {
    circe_status status = circe__cuda_launched(circe__cuda_load(rows, 1, rows->n, side->points, cuda->stream));
    if (status != CIRCE_OK) return status;
    return circe__cuda_launched(circe__cuda_gcm_load(side, others, m, noise_of(rows), cuda->stream));
}

static circe_status residual_x(circe_cuda *cuda, const call *c) {
    const circe__cuda_side *x = &c->g.x;
    circe_status status = CIRCE_OK;
    if (c->m > 0) status = circe__cuda_launched(circe__cuda_load(&c->previous_x, 1, c->m, c->old, cuda->stream));
    if (status == CIRCE_OK) status = load_side(cuda, &c->x, x, c->m > 0 ? c->old : NULL, c->m);
    if (status == CIRCE_OK) status = copy(cuda, x->r, x->points, x->n * x->cols);
    if (status != CIRCE_OK) return status;
    if (x_on_batch(c)) return regress_on_batch(cuda, c, x->r, x->cols, 2);
    return is_linear(c) ? subtract_linear(cuda, c) : subtract_kernel(cuda, c);
}

static circe_status residual_z(circe_cuda *cuda, const call *c) {
    const circe__cuda_side *z = &c->g.z;
    circe_status status = CIRCE_OK;
    if (c->held_out) status = circe__cuda_launched(circe__cuda_load(&c->z_hat, 1, c->n, z->r, cuda->stream));
    if (status == CIRCE_OK) status = load_side(cuda, &c->z, z, c->held_out ? z->r : NULL, c->n);
    if (status != CIRCE_OK) return status;
    if (c->held_out) return circe__cuda_launched(circe__cuda_gcm_subtract(z, cuda->stream));
    status = copy(cuda, z->r, z->points, z->n * z->cols);
    return status == CIRCE_OK ? regress_on_batch(cuda, c, z->r, z->cols, 2) : status;
}

static circe_status residuals(circe_cuda *cuda, const call *c) {
    circe_status status = smooth_batch(cuda, c);
    if (status == CIRCE_OK) status = residual_z(cuda, c);
    if (status == CIRCE_OK) status = residual_x(cuda, c);
    if (status == CIRCE_OK) status = circe__cuda_launched(circe__cuda_gcm_settle(&c->g.z, cuda->stream));
    if (status == CIRCE_OK) status = circe__cuda_launched(circe__cuda_gcm_settle(&c->g.x, cuda->stream));
    return status;
}

/* ---- the table, and back --------------------------------------------------------------------------------- */

static circe_status means(circe_cuda *cuda, const call *c) {
    enum { FEW_PAIRS = 1024 };
    const circe__cuda_side *x = &c->g.x, *z = &c->g.z;
    int64_t n = c->n, p = x->cols, q = z->cols;
    double share = 1.0 / (double)n;
    if (p * q <= FEW_PAIRS) return circe__cuda_launched(circe__cuda_gcm_means(&c->g, cuda->stream));
    circe_status status = circe__cuda_gemm(cuda, 0, 1, p, q, n, share, x->r, n, z->r, n, 0.0, c->g.mean, q);
    if (status != CIRCE_OK) return status;
    return circe__cuda_gemm(cuda, 0, 1, p, q, n, share, x->points, n, z->points, n, 0.0, c->g.variance, q);
}

static circe_status table(circe_cuda *cuda, const call *c) {
    circe_status status = means(cuda, c);
    return status == CIRCE_OK ? circe__cuda_launched(circe__cuda_gcm_table(&c->g, cuda->stream)) : status;
}

static circe_status gradient(circe_cuda *cuda, const call *c, const circe_mat *grad) {
    const circe__cuda_gcm *g = &c->g;
    int64_t n = c->n, p = g->x.cols, q = g->z.cols;
    circe_status status = CIRCE_OK;
    if (c->options.combine != CIRCE_GCM_MAX) {
        status = circe__cuda_launched(circe__cuda_gcm_pairs(g, cuda->stream));
        if (status == CIRCE_OK)
            status = circe__cuda_gemm(cuda, 0, 0, p, n, q, 1.0, g->first, q, g->z.r, n, 0.0, g->gradient, n);
        if (status == CIRCE_OK)
            status = circe__cuda_gemm(cuda, 0, 0, p, n, q, 1.0, g->last, q, g->z.points, n, 0.0, g->inner, n);
    }
    if (status == CIRCE_OK) status = circe__cuda_launched(circe__cuda_gcm_residual(g, cuda->stream));
    if (status == CIRCE_OK && x_on_batch(c)) status = regress_on_batch(cuda, c, g->gradient, p, 1);
    if (status != CIRCE_OK) return status;
    return circe__cuda_launched(
        circe__cuda_gcm_write(g, g->gradient, grad->dtype == CIRCE_FLOAT64, grad->data, grad->ld, cuda->stream));
}

/* ---- checks ---------------------------------------------------------------------------------------------- */

static circe_status check_options(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y, call *c) {
    const circe_gcm_options *o = &c->options;
    const circe_batch_options *batch = &o->batch;
    circe_batch_options own;
    if (o->holdout != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "options->holdout must be NULL on a GPU; give z_hat, which circe_cme_mean makes of it");
    if (o->previous_weights != NULL)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "a GPU takes no weights of rows; leave previous_weights NULL, or measure on the CPU");
    circe_status status = circe__gcm_check(o, kernel_y);
    if (status != CIRCE_OK || is_linear(c)) return status;
    status = circe__cuda_batch_options(&batch, &own);
    return status == CIRCE_OK ? circe__cuda_set_kernel(cuda, kernel_y, y->cols, "y", &c->kernel_y) : status;
}

static circe_status check_previous(circe_cuda *cuda, const circe_mat *x, const circe_mat *y, call *c) {
    const circe_mat *old_x = c->options.previous_x, *old_y = c->options.previous_y;
    if (old_x == NULL && old_y == NULL) return CIRCE_OK;
    if (old_x == NULL || old_y == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "previous_x and previous_y must be given together; %s is NULL",
                          old_x == NULL ? "previous_x" : "previous_y");
    circe_status status = circe__cuda_rows_of(cuda, old_x, NULL, old_x->rows, x->dtype, "previous_x", &c->previous_x);
    if (status == CIRCE_OK)
        status = circe__cuda_rows_of(cuda, old_y, NULL, old_y->rows, x->dtype, "previous_y", &c->previous_y);
    if (status != CIRCE_OK) return status;
    c->m = old_x->rows;
    if (old_x->rows == old_y->rows && old_x->cols == x->cols && old_y->cols == y->cols) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE,
                      "previous_x is %lld by %lld and previous_y %lld by %lld; they must have as many rows as each "
                      "other, and the %lld and %lld columns of x and y",
                      (long long)old_x->rows, (long long)old_x->cols, (long long)old_y->rows, (long long)old_y->cols,
                      (long long)x->cols, (long long)y->cols);
}

static circe_status check_z_hat(circe_cuda *cuda, const circe_mat *z, const circe_mat *z_hat, const int64_t *index,
                                circe_dtype dtype, call *c) {
    if (z_hat == NULL) return CIRCE_OK;
    circe_status status = circe__cuda_rows_of(cuda, z_hat, index, c->n, dtype, "z_hat", &c->z_hat);
    if (status != CIRCE_OK) return status;
    c->held_out = true;
    if (z_hat->rows == z->rows && z_hat->cols == z->cols) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "z_hat is %lld by %lld; z is %lld by %lld", (long long)z_hat->rows,
                      (long long)z_hat->cols, (long long)z->rows, (long long)z->cols);
}

static circe_status check(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *x, const circe_mat *y,
                          const circe_mat *z, const circe_mat *z_hat, const int64_t *index, double *value,
                          const circe_mat *grad, call *c) {
    circe__cuda_job job = {0};
    circe_status status = circe__cuda_set_contraction(cuda, x, value, grad, &job);
    if (status != CIRCE_OK) return status;
    c->n = x->rows;
    status = circe__cuda_rows_of(cuda, x, NULL, c->n, x->dtype, "x", &c->x);
    if (status == CIRCE_OK) status = circe__cuda_rows_of(cuda, y, index, c->n, x->dtype, "y", &c->y);
    if (status == CIRCE_OK) status = circe__cuda_rows_of(cuda, z, index, c->n, x->dtype, "z", &c->z);
    if (status == CIRCE_OK) status = check_options(cuda, kernel_y, y, c);
    if (status == CIRCE_OK) status = check_previous(cuda, x, y, c);
    if (status == CIRCE_OK) status = check_z_hat(cuda, z, z_hat, index, x->dtype, c);
    if (status == CIRCE_OK && x->cols * z->cols > INT32_MAX)
        status = circe_fail(CIRCE_ERR_SHAPE, "x and z have %lld and %lld columns, which make too many pairs",
                            (long long)x->cols, (long long)z->cols);
    return status;
}

/* ---- the measure ----------------------------------------------------------------------------------------- */

static circe_status run(circe_cuda *cuda, call *c, double *value, const circe_mat *grad) {
    circe__cuda_pieces pieces = {0};
    void *scratch = NULL;
    circe_status status = circe__cuda_algebra_begin(cuda);
    if (status == CIRCE_OK) status = take_pieces(cuda, &pieces, c);
    if (status == CIRCE_OK) status = circe__cuda_take(cuda, pieces.used, &scratch);
    pieces = (circe__cuda_pieces){scratch, 0};
    if (status == CIRCE_OK) status = take_pieces(cuda, &pieces, c);
    c->g.combine = (int)c->options.combine;
    c->g.sharpness = c->options.sharpness;
    c->g.value = value;
    c->batch.ridge = c->before.ridge = c->low.ridge = c->low_before.ridge = c->options.batch.ridge;
    c->low.tolerance = c->low_before.tolerance =
        circe__batch_tolerance(c->options.batch.tolerance, c->x.double_precision ? CIRCE_FLOAT64 : CIRCE_FLOAT32);
    c->is_lowrank = circe__cuda_lowrank_wanted(cuda, &c->options.batch, c->n) &&
                    (c->m == 0 || circe__cuda_lowrank_wanted(cuda, &c->options.batch, c->m));
    if (status == CIRCE_OK) status = residuals(cuda, c);
    if (status == CIRCE_OK) status = table(cuda, c);
    if (status == CIRCE_OK && grad != NULL) status = gradient(cuda, c, grad);
    return status;
}

circe_status circe_cuda_measure_gcm(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *x,
                                    const circe_mat *y, const circe_mat *z, const circe_mat *z_hat,
                                    const int64_t *index, const circe_gcm_options *options, double *value,
                                    circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    call c;
    int previous = 0;
    if (cuda == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda must not be NULL");
    memset(&c, 0, sizeof c);
    circe_gcm_options_init(&c.options);
    if (options != NULL) c.options = *options;
    circe_status status = check(cuda, kernel_y, x, y, z, z_hat, index, value, grad, &c);
    if (status == CIRCE_OK) status = circe__cuda_begin(cuda, &previous);
    if (status != CIRCE_OK) return status;
    status = run(cuda, &c, value, grad);
    circe__cuda_end(cuda, previous);
    return status;
}

circe_status circe__cuda_gcm_bytes(circe_cuda *cuda, int64_t n, int64_t cols_x, int64_t cols_y, int64_t cols_z,
                                   size_t *bytes) {
    call c;
    *bytes = 0;
    for (int regression = CIRCE_GCM_KERNEL; regression <= CIRCE_GCM_LINEAR; regression++) {
        circe__cuda_pieces pieces = {0};
        memset(&c, 0, sizeof c);
        c.options.regression = (circe_gcm_regression)regression;
        c.n = c.m = n;
        c.x.points.cols = (int)cols_x;
        c.y.points.cols = (int)cols_y;
        c.z.points.cols = (int)cols_z;
        circe_status status = take_pieces(cuda, &pieces, &c);
        if (status != CIRCE_OK) return status;
        if (pieces.used > *bytes) *bytes = pieces.used;
    }
    return CIRCE_OK;
}
