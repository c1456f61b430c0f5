/* CIRCE (Pogodin et al., 2023): the witness G of Q = K_yy o K^c, and the measure <G, K_xx>.
 *
 *     y (B, d_y), z (B, d_z)  ->  zeta (B, q), K^c = zeta zeta'   (lib/cme/residual.c, float64)
 *     Q_ij = k_y(y_i, y_j) zeta_i . zeta_j                        in the dtype of the witness, tile by tile
 *     G from Q by the estimator (estimator.c)
 *
 * Cost: O(B r^2) for zeta, O(B^2 q) for Q. Some models give K^c as a matrix instead of zeta (circe__cme_prefers_gram).
 */
#include <string.h>

#include "cme/curves.h"
#include "core/settings.h"
#include "measures/measure_parts.h"

static circe_status check_estimator(const circe_workspace *workspace, circe_estimator estimator, int64_t n) {
    circe_status status = circe__check_weights(workspace, n);
    return status == CIRCE_OK ? circe__check_estimator(estimator, circe__counted(workspace, n)) : status;
}

/* Where K^c comes as a matrix: in float64 first, whatever the dtype. */
static circe_status weights_from_gram(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                      const circe_mat *z, circe_estimator estimator, circe__weights *w) {
    circe_context *context = workspace->context;
    int64_t n = y->rows;
    circe_status status = CIRCE_OK;
    double matrix = 8.0 * (double)n * (double)n;
    if (matrix > (double)workspace->bytes[CIRCE__SLOT_VECTORS])
        status = circe__memory_check(context, 4.0 * matrix, "a measure of all these rows at once, by matrices,",
                                     "measure fewer rows, or use another method than rff");
    if (status != CIRCE_OK) return status;
    double *Q = circe__take(workspace, CIRCE__SLOT_VECTORS, n * n + n, sizeof *Q);
    if (Q == NULL) return CIRCE_ERR_MEMORY;
    double *sums = Q + n * n, scale = circe__product_scale(workspace, estimator, n);
    circe__weights exact = {.Q = circe__mat(Q, n, n, CIRCE_FLOAT64)};
    status = circe__quadratic(workspace, cme, y, z, &exact.Q);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++) {
        sums[i] = 0.0;
        for (int64_t j = 0; j < n; j++) {
            if (j != i) sums[i] += Q[i * n + j];
            Q[i * n + j] *= scale;
        }
    }
    exact.shifted = circe__estimator_shift(workspace, estimator, sums, NULL, &exact.Q, &exact.shift);
    circe__settle(context, &exact);
    circe__copy_mat(&exact.Q, &w->Q);
    return CIRCE_OK;
}

/* Q = K_yy o K^c, both triangles, float64. */
circe_status circe__quadratic(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y, const circe_mat *z,
                              circe_mat *Q) {
    circe_context *context = workspace->context;
    int64_t n = y->rows;
    circe_status status = circe_residual_gram(workspace, cme, y, z, Q);
    if (status != CIRCE_OK) return status;
    const double *y64 = workspace->blocks[CIRCE__SLOT_Y]; /* where circe_residual_gram left it */
    double *K = circe__take(workspace, CIRCE__SLOT_GRAM_Q, n * n, sizeof *K);
    void *scratch = circe__take(workspace, CIRCE__SLOT_TILES,
                                (int64_t)circe__gram_bytes(context, CIRCE_FLOAT64, n, cme->info.dim_y), 1);
    circe_kernel_factor *factors = NULL;
    if (K == NULL || scratch == NULL) return CIRCE_ERR_MEMORY;
    status = circe__resolve_into(workspace, cme->kernel_y, cme->info.dim_y, "y", &factors);
    if (status != CIRCE_OK) return status;
    circe_mat points = circe_mat_f64(y64, n, cme->info.dim_y), gram = circe__mat(K, n, n, CIRCE_FLOAT64);
    circe__gram(context, (circe__factors){factors, circe_kernel_n_factors(cme->kernel_y)}, &points, &points, &gram,
                scratch);
    double *q = Q->data;
    for (int64_t e = 0; e < n * n; e++) q[e] *= K[e];
    return CIRCE_OK;
}

/* Raw points, checked, as float64; zeta in coordinates, unless the model gives K^c as a matrix for that dtype. */
typedef struct residuals {
    circe_mat y, zeta;
    bool as_gram;
    bool from_curves; /* zeta is still to be made, from these, in the dtype of the batch */
    circe__from_curves curves;
} residuals;

/* Room for a zeta that is made on the way. */
static circe_status take_curves(circe_workspace *workspace, const circe_cme *cme, const double *y, const double *z,
                                circe_dtype dtype, residuals *out) {
    const circe__curves *curves = cme->curves;
    int64_t n = out->y.rows, ld = curves->mean.outputs;
    void *zeta = circe__take(workspace, CIRCE__SLOT_ZETA, n * ld, circe_dtype_size(dtype));
    if (zeta == NULL) return CIRCE_ERR_MEMORY;
    out->from_curves = true;
    out->curves = (circe__from_curves){.mean = &curves->mean, .features = &curves->features, .y = y, .z = z};
    out->zeta = (circe_mat){zeta, n, curves->q, ld, dtype};
    return CIRCE_OK;
}

static circe_status residuals_of(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                 const circe_mat *z, circe_estimator estimator, const circe_mat *Q,
                                 bool may_interpolate, residuals *out) {
    double *y64 = NULL, *z64 = NULL, *zeta = NULL;
    int64_t q = 0;
    if (workspace == NULL || cme == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "workspace and cme must not be NULL");
    circe_status status = circe__cme_points(workspace, CIRCE__SLOT_Y, y, cme->info.dim_y, "y", &y64);
    if (status == CIRCE_OK) status = circe__cme_points(workspace, CIRCE__SLOT_Z, z, cme->info.dim_z, "z", &z64);
    if (status != CIRCE_OK) return status;
    int64_t n = y->rows;
    if (z->rows != n)
        return circe_fail(CIRCE_ERR_SHAPE, "y has %lld rows and z has %lld; they must be the same points", (long long)n,
                          (long long)z->rows);
    status = circe__check_output(Q, n, n, Q->dtype, "witness");
    if (status == CIRCE_OK) status = check_estimator(workspace, estimator, n);
    if (status != CIRCE_OK) return status;
    out->as_gram = circe__cme_prefers_gram(cme, Q->dtype, n);
    if (out->as_gram) return CIRCE_OK;
    out->y = circe_mat_f64(y64, n, cme->info.dim_y);
    if (may_interpolate && Q->dtype == CIRCE_FLOAT32 && circe__curves_hold(cme->curves, y64, z64, n))
        return take_curves(workspace, cme, y64, z64, Q->dtype, out);
    int previous = circe__threads_begin(workspace->context);
    status = circe__cme_zeta(workspace, cme, y64, z64, n, circe__accuracy(cme, Q->dtype), &zeta, &q);
    status = circe__threads_finish(previous, status);
    out->zeta = circe_mat_f64(zeta, n, q);
    return status;
}

circe_status circe_witness_circe(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                 const circe_mat *z, circe_estimator estimator, circe_mat *witness) {
    CIRCE_OWN_SETTINGS;
    circe_status status = circe__check_mat(witness, "witness", 1);
    if (status != CIRCE_OK) return status;
    circe__weights w = {.Q = *witness};
    residuals r = {0};
    status = residuals_of(workspace, cme, y, z, estimator, &w.Q, false, &r);
    if (status != CIRCE_OK) return status;
    status = r.as_gram ? weights_from_gram(workspace, cme, y, z, estimator, &w)
                       : circe__weights_from(workspace, cme->kernel_y, &r.y, &r.zeta, estimator, &w);
    if (status == CIRCE_OK) circe__settle(workspace->context, &w);
    return status;
}

circe_status circe_witness_features(circe_workspace *workspace, const circe_kernel *kernel_y, const circe_mat *y,
                                    const circe_mat *zeta, circe_estimator estimator, circe_mat *witness) {
    CIRCE_OWN_SETTINGS;
    if (workspace == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "workspace must not be NULL");
    circe_status status = circe__check_data(y, "y", 1);
    if (status == CIRCE_OK) status = circe__check_data(zeta, "zeta", 1);
    if (status == CIRCE_OK) status = circe__check_mat(witness, "witness", 1);
    if (status != CIRCE_OK) return status;
    if (y->rows != zeta->rows)
        return circe_fail(CIRCE_ERR_SHAPE, "y has %lld rows and zeta has %lld; they must be the same points",
                          (long long)y->rows, (long long)zeta->rows);
    status = circe__check_output(witness, y->rows, y->rows, witness->dtype, "witness");
    if (status == CIRCE_OK) status = check_estimator(workspace, estimator, y->rows);
    if (status != CIRCE_OK) return status;
    circe__weights w = {.Q = *witness};
    status = circe__weights_from(workspace, kernel_y, y, zeta, estimator, &w);
    if (status == CIRCE_OK) circe__settle(workspace->context, &w);
    return status;
}

/* circe__settle_fn: `user` is the weights and their estimator. */
typedef struct settling {
    circe_workspace *workspace;
    circe_estimator estimator;
    const circe_ranks *ranks;
    circe__shift shift;
} settling;

static const circe__shift *settle(void *user, double *row_sums, circe_mat *Q) {
    settling *s = user;
    if (s->ranks != NULL && s->workspace->n_weights > 0) {
        circe__estimator_weigh(s->workspace, s->estimator, s->ranks, Q);
        return NULL;
    }
    return circe__estimator_shift(s->workspace, s->estimator, row_sums, row_sums + Q->rows, Q, &s->shift) ? &s->shift
                                                                                                          : NULL;
}

static circe_status check_index(const int64_t *index, int64_t n, int64_t rows) {
    if (index == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "index must not be NULL");
    for (int64_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= rows)
            return circe_fail(CIRCE_ERR_ARGUMENT, "index[%lld] is %lld; the data set has %lld rows, counted from 0",
                              (long long)i, (long long)index[i], (long long)rows);
    return CIRCE_OK;
}

/* The parts of several processes. */
static void add_up(const circe_ranks *ranks, double *value, circe_mat *grad) {
    ranks->sum(ranks->user, value, 1, 0);
    if (grad == NULL) return;
    int64_t pieces = grad->ld == grad->cols ? 1 : grad->rows;
    size_t row = (size_t)grad->ld * circe_dtype_size(grad->dtype);
    for (int64_t i = 0; i < pieces; i++)
        ranks->sum(ranks->user, (char *)grad->data + (size_t)i * row, grad->rows / pieces * grad->cols,
                   grad->dtype == CIRCE_FLOAT32);
}

/* Features of the dtype of x: all in one go. */
static circe_status measure_rows(circe_workspace *workspace, const circe_kernel *kernel_y, const circe_mat *y,
                                 const circe_mat *zeta, const circe__from_curves *curves, const int64_t *index,
                                 const circe_kernel *kernel_x, const circe_mat *x, circe_estimator estimator,
                                 circe_mat *Q, const circe_ranks *ranks, double *value, circe_mat *grad) {
    circe_context *context = workspace->context;
    const circe__loops *loops = circe__loops_for(context->backend, x->dtype);
    circe__factors pair[2];
    int64_t n = x->rows;
    if (value == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "value must not be NULL");
    circe_status status = grad == NULL ? CIRCE_OK : circe__check_output(grad, n, x->cols, x->dtype, "grad");
    if (status == CIRCE_OK)
        status = circe__resolve_pair(workspace, kernel_y, y->cols, "y", kernel_x, x->cols, "x", pair);
    if (status == CIRCE_OK) status = circe__check_widths(kernel_y, x->dtype, "y");
    if (status == CIRCE_OK) status = circe__check_widths(kernel_x, x->dtype, "x");
    if (status != CIRCE_OK) return status;
    circe__measured measured = {.kernel_y = pair[0],
                                .kernel_x = pair[1],
                                .y = y,
                                .zeta = zeta,
                                .index = index,
                                .curves = curves,
                                .n = n,
                                .x = x,
                                .scale = circe__product_scale(workspace, estimator, n),
                                .Q = Q,
                                .row_sums = circe__take(workspace, CIRCE__SLOT_ROW_SUMS, 2 * n, sizeof(double)),
                                .ranks = ranks,
                                .value = value,
                                .grad = grad};
    void *scratch =
        circe__take(workspace, CIRCE__SLOT_TILES, (int64_t)loops->measure_bytes(&measured, context->threads), 1);
    if (measured.row_sums == NULL || scratch == NULL) return CIRCE_ERR_MEMORY;
    settling how = {.workspace = workspace, .estimator = estimator, .ranks = ranks};
    if (ranks != NULL && workspace->n_weights > 0) memset(Q->data, 0, (size_t)(n * Q->ld) * circe_dtype_size(Q->dtype));
    int previous = circe__loops_begin(workspace);
    loops->measure(&measured, settle, &how, context->threads, scratch);
    status = circe__loops_finish(workspace, previous);
    if (ranks != NULL) add_up(ranks, value, grad);
    return status;
}

/* Features of another dtype: as that of x first. */
static circe_status measure_converted(circe_workspace *workspace, const circe_cme *cme, const residuals *r,
                                      const circe_kernel *kernel_x, const circe_mat *x, circe_estimator estimator,
                                      circe_mat *Q, double *value, circe_mat *grad) {
    circe_mat own_y, own_zeta;
    circe_status status = circe__as_dtype(workspace, CIRCE__SLOT_POINTS_A, cme->kernel_y, &r->y, x->dtype, &own_y);
    if (status == CIRCE_OK)
        status = circe__as_dtype(workspace, CIRCE__SLOT_POINTS_B, NULL, &r->zeta, x->dtype, &own_zeta);
    if (status != CIRCE_OK) return status;
    return measure_rows(workspace, cme->kernel_y, &own_y, &own_zeta, r->from_curves ? &r->curves : NULL, NULL, kernel_x,
                        x, estimator, Q, NULL, value, grad);
}

/* Estimators that centre K_xx do not see the mean of a linear kernel's columns. */
static circe_status centre_x(circe_workspace *workspace, const circe_kernel *kernel_x, circe_estimator estimator,
                             const circe_mat **x, circe_mat *own) {
    if (!circe__needs_sums(estimator)) return CIRCE_OK;
    circe_status status = circe__from_mean(workspace, CIRCE__SLOT_X, kernel_x, *x, own);
    *x = own;
    return status;
}

circe_status circe_measure_circe(circe_workspace *workspace, const circe_cme *cme, const circe_kernel *kernel_x,
                                 const circe_mat *x, const circe_mat *y, const circe_mat *z, circe_estimator estimator,
                                 double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    circe__weights w = {0};
    residuals r = {0};
    circe_mat from_mean;
    if (y == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "y must not be NULL");
    circe_status status = circe__begin_measure(workspace, x, y->rows, &w.Q);
    if (status == CIRCE_OK) status = residuals_of(workspace, cme, y, z, estimator, &w.Q, true, &r);
    if (status == CIRCE_OK) status = centre_x(workspace, kernel_x, estimator, &x, &from_mean);
    if (status != CIRCE_OK) return status;
    if (!r.as_gram) return measure_converted(workspace, cme, &r, kernel_x, x, estimator, &w.Q, value, grad);
    status = weights_from_gram(workspace, cme, y, z, estimator, &w);
    return status == CIRCE_OK ? circe__contract(workspace, kernel_x, x, &w.Q, circe__shift_of(&w), value, grad)
                              : status;
}

/* Rows of features of the other dtype, gathered. */
static circe_status measure_gathered(circe_workspace *workspace, const circe_cme *cme, const circe_features *features,
                                     const int64_t *index, const circe_kernel *kernel_x, const circe_mat *x,
                                     circe_estimator estimator, circe_mat *Q, double *value, circe_mat *grad) {
    circe_mat all_y, all_zeta;
    circe_status status = circe_features_get(features, &all_y, &all_zeta);
    if (status != CIRCE_OK) return status;
    int64_t n = x->rows;
    size_t size = circe_dtype_size(all_y.dtype);
    void *y_data = circe__take(workspace, CIRCE__SLOT_Y, n * all_y.cols, size);
    void *zeta_data = circe__take(workspace, CIRCE__SLOT_ZETA, n * all_zeta.cols, size);
    if (y_data == NULL || zeta_data == NULL) return CIRCE_ERR_MEMORY;
    circe_mat y = circe__mat(y_data, n, all_y.cols, all_y.dtype);
    circe_mat zeta = circe__mat(zeta_data, n, all_zeta.cols, all_y.dtype);
    status = circe_features_gather(features, index, n, &y, &zeta);
    residuals r = {.y = y, .zeta = zeta};
    return status == CIRCE_OK ? measure_converted(workspace, cme, &r, kernel_x, x, estimator, Q, value, grad) : status;
}

circe_status circe_measure_circe_cached(circe_workspace *workspace, const circe_cme *cme,
                                        const circe_features *features, const int64_t *index, int64_t n,
                                        const circe_kernel *kernel_x, const circe_mat *x, circe_estimator estimator,
                                        double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    circe__weights w = {0};
    circe_mat y = {0}, zeta = {0}, from_mean;
    if (cme == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cme must not be NULL");
    circe_status status = circe_features_get(features, &y, NULL);
    if (status == CIRCE_OK) status = circe__begin_measure(workspace, x, n, &w.Q);
    if (status == CIRCE_OK) status = check_estimator(workspace, estimator, n);
    if (status == CIRCE_OK) status = check_index(index, n, y.rows);
    if (status == CIRCE_OK) status = centre_x(workspace, kernel_x, estimator, &x, &from_mean);
    if (status != CIRCE_OK) return status;
    const circe__implicit *implicit = circe__features_implicit(features);
    if (implicit != NULL) {
        status = circe__weights_implicit(workspace, cme, &y, implicit, index, estimator, &w);
        return status == CIRCE_OK ? circe__contract(workspace, kernel_x, x, &w.Q, circe__shift_of(&w), value, grad)
                                  : status;
    }
    status = circe_features_get(features, &y, &zeta);
    if (status != CIRCE_OK) return status;
    if (y.dtype != x->dtype)
        return measure_gathered(workspace, cme, features, index, kernel_x, x, estimator, &w.Q, value, grad);
    const circe_ranks *ranks = workspace->ranks.size > 1 ? &workspace->ranks : NULL;
    return measure_rows(workspace, cme->kernel_y, &y, &zeta, NULL, index, kernel_x, x, estimator, &w.Q, ranks, value,
                        grad);
}
