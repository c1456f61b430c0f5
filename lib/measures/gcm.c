/* GCM (Shah and Peters, 2020): a normalised covariance of the residuals of x and z given y.
 *
 *     r_x (n, p), r_z (n, q)  residuals (residuals.c)        R_i,ab = r_x,ia r_z,ib
 *     m_ab = mean R = (r_x' r_z / n)_ab                      v_ab = mean R^2 - m^2 = ((r_x^2)'(r_z^2) / n)_ab - m_ab^2
 *     T_ab = sqrt(n) m_ab / sqrt(v_ab)                       value = max |T|, or a smooth function of T
 *
 * Gradient, with w_ab = d value / d T_ab:
 *
 *     d T_ab / d R_i = [1 - m (R_i - m) / v] / sqrt(n v)
 *     d / d r_x = r_z A' - r_x o (r_z^2 D'),   A = w (v + m^2) / (v sqrt(n v)),   D = w m / (v sqrt(n v))
 *     d / d x = (I - S) d / d r_x where x was smoothed by S = S', d / d r_x where x_hat came from other points
 *
 * With weights w of the rows, 1 on average, the means are weighted, and sqrt(n) is that of the rows that count as much,
 * n^2 / sum w^2: T stays about standard normal under independence. Residuals are kept times the roots of w
 * (residuals.c), so that their products are w R; where R^2 is needed, the squares of r_z are divided by w.
 *
 * O(n p q), by products of matrices; the gradient of the maximum needs one pair only, O(n). Where a pair is so
 * dependent that mean R^2 - m^2 would cancel, its own n products are summed in two passes: v, of the relative size s^2,
 * then has an error of eps / s and not eps / s^2. (In the gradient, 1 + m^2/v against m R/v cancels no more than R - m
 * itself.) */
#include <float.h>
#include <math.h>
#include <string.h>

#include "measures/residuals.h"

#include "core/settings.h"

static const double CLOSE = 1e-3; /* below this v / m^2 the difference of means has lost three digits */
static const double TIE = 1e-12;  /* what the products of equal columns can differ by, relatively */

/* One call. */
typedef struct gcm {
    circe__residuals res;
    circe_gcm_options options;     /* the caller's, or the defaults */
    double effective;              /* how many rows of equal weight count as much */
    double *mean, *variance, *T;   /* (p, q); variance 0: no spread */
    double *weight, *first, *last; /* (p, q): d value / d T, A and D */
    double *gradient;              /* (n, p) */
} gcm;

const char *circe_gcm_regression_name(circe_gcm_regression regression) {
    return CIRCE__NAME(regression, [CIRCE_GCM_KERNEL] = "kernel", [CIRCE_GCM_LINEAR] = "linear");
}

const char *circe_gcm_combine_name(circe_gcm_combine combine) {
    return CIRCE__NAME(
        combine, [CIRCE_GCM_MAX] = "max", [CIRCE_GCM_LOGSUMEXP] = "logsumexp", [CIRCE_GCM_SUM_OF_SQUARES] = "squares");
}

void circe_gcm_options_init(circe_gcm_options *options) {
    if (options == NULL) return;
    *options = (circe_gcm_options){.regression = CIRCE_GCM_KERNEL, .combine = CIRCE_GCM_MAX, .sharpness = 1.0};
    circe_batch_options_init(&options->batch);
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

static circe_status check_rows(const circe_mat *mat, const char *name, int64_t n) {
    circe_status status = circe__check_data(mat, name, 1);
    if (status != CIRCE_OK || mat->rows == n) return status;
    return circe_fail(CIRCE_ERR_SHAPE, "x has %lld rows and %s has %lld; they must be the same points", (long long)n,
                      name, (long long)mat->rows);
}

circe_status circe__gcm_check(const circe_gcm_options *o, const circe_kernel *kernel_y) {
    if (o->regression != CIRCE_GCM_KERNEL && o->regression != CIRCE_GCM_LINEAR)
        return circe_fail(CIRCE_ERR_ARGUMENT, "regression %d is neither kernel nor linear", (int)o->regression);
    if (o->combine < CIRCE_GCM_MAX || o->combine > CIRCE_GCM_SUM_OF_SQUARES)
        return circe_fail(CIRCE_ERR_ARGUMENT, "combine %d is not one of max, logsumexp, squares", (int)o->combine);
    if (o->combine == CIRCE_GCM_LOGSUMEXP && (!(o->sharpness > 0.0) || !isfinite(o->sharpness)))
        return circe_fail(CIRCE_ERR_ARGUMENT, "the sharpness must be a positive number; it is %g", o->sharpness);
    if (o->regression == CIRCE_GCM_LINEAR) return CIRCE_OK;
    if (kernel_y == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "the kernel of y must not be NULL for kernel regression; linear regression needs none");
    return circe__check_tolerance(o->batch.tolerance);
}

static circe_status check_previous(const circe_gcm_options *o, int64_t cols_x, int64_t cols_y) {
    const circe_mat *x = o->previous_x, *y = o->previous_y;
    if (x == NULL && y == NULL) return CIRCE_OK;
    if (x == NULL || y == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "previous_x and previous_y must be given together; %s is NULL",
                          x == NULL ? "previous_x" : "previous_y");
    circe_status status = circe__check_data(x, "previous_x", 1);
    if (status == CIRCE_OK) status = circe__check_data(y, "previous_y", 1);
    if (status != CIRCE_OK) return status;
    if (x->rows != y->rows)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "previous_x has %lld rows and previous_y has %lld; they must be the same points",
                          (long long)x->rows, (long long)y->rows);
    if (x->cols == cols_x && y->cols == cols_y) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE,
                      "previous_x and previous_y have %lld and %lld columns; x and y have %lld and %lld",
                      (long long)x->cols, (long long)y->cols, (long long)cols_x, (long long)cols_y);
}

static circe_status check_inputs(const gcm *g) {
    const circe__residuals *res = &g->res;
    if (res->workspace == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "workspace must not be NULL");
    circe_status status = circe__check_data(res->mat_x, "x", 1);
    if (status == CIRCE_OK) status = circe__check_weights(res->workspace, res->mat_x->rows);
    if (status == CIRCE_OK) status = check_rows(res->mat_y, "y", res->mat_x->rows);
    if (status == CIRCE_OK) status = check_rows(res->mat_z, "z", res->mat_x->rows);
    if (status == CIRCE_OK) status = circe__gcm_check(&g->options, res->kernel_y);
    if (status == CIRCE_OK) status = check_previous(&g->options, res->mat_x->cols, res->mat_y->cols);
    if (status != CIRCE_OK || g->options.holdout == NULL) return status;
    int64_t cols = g->options.holdout->info.dim_z;
    if (cols == res->mat_z->cols) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "z has %lld columns; the holdout's has %lld", (long long)res->mat_z->cols,
                      (long long)cols);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static int64_t pairs_of(const gcm *g) { return g->res.x.cols * g->res.z.cols; }

enum { LEAST = 8192 }; /* elements, in loops over them: 5 microseconds */

static void run_square(void *user, int64_t first, int64_t end) {
    circe__side *s = user;
    for (int64_t e = first; e < end; e++) s->points[e] = s->r[e] * s->r[e];
}

/* A row of weight 0 has residuals 0. */
static void square(circe__side *s, int64_t n, const double *weight) {
    circe__run_ranges(circe__threads_bracketed(), n * s->cols, LEAST, run_square, s);
    for (int64_t e = 0; weight != NULL && e < n * s->cols; e++)
        if (weight[e / s->cols] > 0.0) s->points[e] /= weight[e / s->cols];
}

static double weight_at(const gcm *g, int64_t i) { return g->res.weight != NULL ? g->res.weight[i] : 1.0; }

/* R_i of a pair. */
static double product_at(const gcm *g, int64_t i, int64_t a, int64_t b) {
    double weighted = g->res.x.r[i * g->res.x.cols + a] * g->res.z.r[i * g->res.z.cols + b], w = weight_at(g, i);
    return w > 0.0 ? weighted / w : 0.0;
}

static bool is_close(double mean, double variance) { return variance < CLOSE * mean * mean; }

/* Mean and variance of one pair's products, in two passes. */
static void pair_moments(const gcm *g, int64_t a, int64_t b, double *mean, double *variance) {
    int64_t n = g->res.n;
    double m = 0.0, v = 0.0, total = (double)g->res.counted;
    for (int64_t i = 0; i < n; i++) m += weight_at(g, i) * product_at(g, i, a, b);
    m /= total;
    for (int64_t i = 0; i < n; i++) {
        double off = product_at(g, i, a, b) - m;
        v += weight_at(g, i) * off * off;
    }
    *mean = m;
    *variance = v / total;
}

/* T of a pair. A spread is one where it exceeds what the noise of the residuals puts into their products; less is 0. */
static double statistic(const gcm *g, int64_t a, int64_t b, double mean, double *variance) {
    const circe__side *x = &g->res.x, *z = &g->res.z;
    double spread = sqrt(*variance), noise = x->blur[a] * z->rms[b] + z->blur[b] * x->rms[a];
    if (spread > noise) return sqrt(g->effective) * mean / spread;
    *variance = 0.0;
    return 0.0;
}

static void make_table(gcm *g) {
    const circe__algebra *algebra = g->res.workspace->context->backend->algebra;
    circe__side *x = &g->res.x, *z = &g->res.z;
    int64_t n = g->res.n, p = x->cols, q = z->cols;
    double share = 1.0 / (double)g->res.counted;
    square(x, n, NULL);
    square(z, n, g->res.weight);
    algebra->gemm(1, 0, p, q, n, share, x->r, p, z->r, q, 0.0, g->mean, q);
    algebra->gemm(1, 0, p, q, n, share, x->points, p, z->points, q, 0.0, g->variance, q);
    for (int64_t e = 0; e < p * q; e++) {
        double *m = g->mean + e, *v = g->variance + e;
        *v = fmax(*v - *m * *m, 0.0);
        if (is_close(*m, *v)) pair_moments(g, e / q, e % q, m, v);
        g->T[e] = statistic(g, e / q, e % q, *m, v);
    }
}

/* ---- one number out of it: the value, and weight = d value / d T ------------------------------------------------- */

static double largest_of(const gcm *g) {
    double largest = 0.0;
    for (int64_t e = 0; e < pairs_of(g); e++) largest = fmax(largest, fabs(g->T[e]));
    return largest;
}

static double combine_max(gcm *g) {
    int64_t winner = 0;
    double largest = largest_of(g);
    while (fabs(g->T[winner]) < (1.0 - TIE) * largest) winner++;
    for (int64_t e = 0; e < pairs_of(g); e++) g->weight[e] = 0.0;
    if (largest > 0.0) g->weight[winner] = copysign(1.0, g->T[winner]);
    return largest;
}

/* log(mean cosh(beta T)) / beta. The sum is taken relative to its largest term, exp(beta max |T|) / 2, so that nothing
 * overflows, and for small beta T as cosh t = 1 + 2 sinh^2(t / 2), so that nothing cancels. */
static double combine_logsumexp(gcm *g) {
    double beta = g->options.sharpness, largest = largest_of(g), sum = 0.0, excess = 0.0;
    bool small = beta * largest < 1.0;
    for (int64_t e = 0; e < pairs_of(g); e++) {
        double t = fabs(g->T[e]), top = exp(beta * (t - largest)), half = small ? sinh(0.5 * beta * t) : 0.0;
        g->weight[e] = copysign(-top * expm1(-2.0 * beta * t), g->T[e]);
        sum += top + exp(-beta * (t + largest));
        excess += 2.0 * half * half;
    }
    for (int64_t e = 0; e < pairs_of(g); e++) g->weight[e] /= sum;
    if (small) return log1p(excess / (double)pairs_of(g)) / beta;
    return largest + log(0.5 * sum / (double)pairs_of(g)) / beta;
}

static double combine_squares(gcm *g) {
    double sum = 0.0;
    for (int64_t e = 0; e < pairs_of(g); e++) {
        sum += g->T[e] * g->T[e];
        g->weight[e] = 2.0 * g->T[e];
    }
    return sum;
}

static double combine(gcm *g) {
    if (g->options.combine == CIRCE_GCM_MAX) return combine_max(g);
    return g->options.combine == CIRCE_GCM_LOGSUMEXP ? combine_logsumexp(g) : combine_squares(g);
}

/* ---- gradient --------------------------------------------------------------------------------------------------- */

/* d T / d R_i is the weight of the row times this, times 1 - m (R_i - m) / v. */
static double slope(const gcm *g, double variance) {
    return sqrt(g->effective) / (double)g->res.counted / sqrt(variance);
}

/* gradient_ia += w d T_ab / d R_i r_z,ib. */
static void add_pair(gcm *g, int64_t e) {
    const circe__side *x = &g->res.x, *z = &g->res.z;
    int64_t a = e / z->cols, b = e % z->cols;
    double m = g->mean[e], v = g->variance[e], c = g->weight[e] * slope(g, v);
    for (int64_t i = 0; i < g->res.n; i++)
        g->gradient[i * x->cols + a] += c * (1.0 - m * (product_at(g, i, a, b) - m) / v) * z->r[i * z->cols + b];
}

/* A and D of every pair. */
static void pair_factors(gcm *g) {
    for (int64_t e = 0; e < pairs_of(g); e++) {
        double m = g->mean[e], v = g->variance[e];
        double c = g->weight[e] == 0.0 ? 0.0 : g->weight[e] * slope(g, v) / v;
        g->first[e] = c * (v + m * m);
        g->last[e] = c * m;
    }
}

static void run_subtract(void *user, int64_t first, int64_t end) {
    const gcm *g = user;
    const circe__side *x = &g->res.x;
    for (int64_t e = first; e < end; e++) g->gradient[e] -= x->r[e] * x->points[e];
}

/* d value / d r_x, of the scaled residuals. The squares of r_z are where make_table left them. */
static void residual_gradient(gcm *g) {
    const circe__algebra *algebra = g->res.workspace->context->backend->algebra;
    circe__side *x = &g->res.x, *z = &g->res.z;
    int64_t n = g->res.n, p = x->cols, q = z->cols;
    if (g->options.combine == CIRCE_GCM_MAX) {
        memset(g->gradient, 0, (size_t)(n * p) * sizeof *g->gradient);
        for (int64_t e = 0; e < p * q; e++)
            if (g->weight[e] != 0.0) add_pair(g, e);
        return;
    }
    pair_factors(g);
    algebra->gemm(0, 1, n, p, q, 1.0, z->r, q, g->first, q, 0.0, g->gradient, p);
    algebra->gemm(0, 1, n, p, q, 1.0, z->points, q, g->last, q, 0.0, x->points, p);
    circe__run_ranges(circe__threads_bracketed(), n * p, LEAST, run_subtract, g);
}

typedef struct writing {
    const circe__side *x;
    const double *gradient, *root;
    circe_mat *grad;
} writing;

static void run_write(void *user, int64_t first, int64_t end) {
    const writing *w = user;
    const circe__side *x = w->x;
    circe_mat *grad = w->grad;
    double most = grad->dtype == CIRCE_FLOAT32 ? (double)FLT_MAX : DBL_MAX;
    for (int64_t i = first; i < end; i++)
        for (int64_t c = 0; c < x->cols; c++) {
            double value = w->gradient[i * x->cols + c] * x->unit[c] * (w->root != NULL ? w->root[i] : 1.0);
            circe__set(grad, i, c, value > most ? most : value < -most ? -most : value);
        }
}

static void write_gradient(const circe__side *x, const double *gradient, const double *root, circe_mat *grad) {
    writing w = {x, gradient, root, grad};
    circe__run_ranges(circe__threads_bracketed(), grad->rows, LEAST / x->cols + 1, run_write, &w);
}

static circe_status backward(gcm *g, circe_mat *grad) {
    circe__side *x = &g->res.x;
    const double *gradient = g->gradient;
    residual_gradient(g);
    circe__scale_columns(g->gradient, g->res.n, x->cols, x->gain);
    if (g->options.previous_x == NULL) {
        circe_status status =
            circe__smoother_apply(g->res.workspace, &g->res.batch, x->cols, g->gradient, true, x->points);
        if (status != CIRCE_OK) return status;
        gradient = x->points;
    }
    write_gradient(x, gradient, g->res.root, grad);
    return CIRCE_OK;
}

/* ---- the measure ------------------------------------------------------------------------------------------------ */

static double *place_side(circe__side *s, int64_t n, int64_t cols, double *block) {
    s->cols = cols;
    s->points = block;
    s->r = s->points + n * cols;
    s->unit = s->r + n * cols;
    s->gain = s->unit + cols;
    s->blur = s->gain + cols;
    s->rms = s->blur + cols;
    s->found = s->rms + cols;
    return s->found + CIRCE__ROW_BLOCKS * cols;
}

static circe_status take_scratch(gcm *g) {
    int64_t n = g->res.n, p = g->res.mat_x->cols, q = g->res.mat_z->cols;
    int64_t doubles = n * (3 * p + 2 * q) + (4 + CIRCE__ROW_BLOCKS) * (p + q) + 6 * p * q;
    double *block = circe__take(g->res.workspace, CIRCE__SLOT_VECTORS, doubles, sizeof *block);
    if (block == NULL) return CIRCE_ERR_MEMORY;
    block = place_side(&g->res.x, n, p, block);
    block = place_side(&g->res.z, n, q, block);
    g->mean = block;
    g->variance = g->mean + p * q;
    g->T = g->variance + p * q;
    g->weight = g->T + p * q;
    g->first = g->weight + p * q;
    g->last = g->first + p * q;
    g->gradient = g->last + p * q;
    return CIRCE_OK;
}

/* Everything up to T. */
static circe_status forward(gcm *g) {
    circe_status status = take_scratch(g);
    if (status == CIRCE_OK) status = circe__residuals_make(&g->res);
    if (status == CIRCE_OK) make_table(g);
    return status;
}

/* What the caller gave, checked. */
static circe_status begin(circe_workspace *workspace, const circe_kernel *kernel_y, const circe_mat *x,
                          const circe_mat *y, const circe_mat *z, const circe_gcm_options *options, gcm *g) {
    *g = (gcm){.res = {.workspace = workspace, .kernel_y = kernel_y, .mat_x = x, .mat_y = y, .mat_z = z}};
    circe_gcm_options_init(&g->options);
    if (options != NULL) g->options = *options;
    g->res.options = &g->options;
    circe_status status = check_inputs(g);
    if (status != CIRCE_OK) return status;
    g->res.n = x->rows;
    g->res.counted = circe__counted(workspace, x->rows);
    g->res.weight = circe__weights_of(workspace);
    g->res.root = circe__roots_of(workspace);
    double squares = 0.0;
    for (int64_t i = 0; i < g->res.n; i++) squares += weight_at(g, i) * weight_at(g, i);
    g->effective = (double)g->res.counted * (double)g->res.counted / squares;
    return CIRCE_OK;
}

circe_status circe_measure_gcm(circe_workspace *workspace, const circe_kernel *kernel_y, const circe_mat *x,
                               const circe_mat *y, const circe_mat *z, const circe_gcm_options *options, double *value,
                               circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    gcm g;
    if (value == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "value must not be NULL");
    circe_status status = begin(workspace, kernel_y, x, y, z, options, &g);
    if (status == CIRCE_OK && grad != NULL) status = circe__check_output(grad, x->rows, x->cols, x->dtype, "grad");
    if (status != CIRCE_OK) return status;
    int previous = circe__threads_begin(workspace->context);
    status = forward(&g);
    if (status == CIRCE_OK) {
        *value = combine(&g);
        if (grad != NULL) status = backward(&g, grad);
    }
    return circe__threads_finish(previous, status);
}

circe_status circe_gcm_table(circe_workspace *workspace, const circe_kernel *kernel_y, const circe_mat *x,
                             const circe_mat *y, const circe_mat *z, const circe_gcm_options *options,
                             circe_mat *table) {
    CIRCE_OWN_SETTINGS;
    gcm g;
    circe_status status = begin(workspace, kernel_y, x, y, z, options, &g);
    if (status == CIRCE_OK) status = circe__check_mat(table, "table", 1);
    if (status == CIRCE_OK) status = circe__check_output(table, x->cols, z->cols, table->dtype, "table");
    if (status != CIRCE_OK) return status;
    int previous = circe__threads_begin(workspace->context);
    status = forward(&g);
    status = circe__threads_finish(previous, status);
    if (status != CIRCE_OK) return status;
    circe_mat T = circe__mat(g.T, x->cols, z->cols, CIRCE_FLOAT64);
    circe__copy_mat(&T, table);
    return CIRCE_OK;
}
