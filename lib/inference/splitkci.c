/* SplitKCI (Pogodin, Schrab, Li, Sutherland and Gretton, arXiv 2402.13196): KCI out of sample, with the bias decoupled.
 *
 *     test rows t; training rows in two halves A and B, on each of which both sides are regressed on y
 *     a, b (t, p)    residuals of the features of (x, y) on the test rows, by A and by B;   c, d (t, q)   of z's
 *     K^x_ij = (a_i.b_j + b_i.a_j)/2,   K^z_ij = (c_i.d_j + d_i.c_j)/2
 *     statistic      sum over i != j of K^x_ij K^z_ij / (t (t - 1))
 *
 * The errors of A and of B are independent, so the mean of K^x contains the product of two mean errors instead of the
 * square of one, whose mean never vanishes. The null is the wild bootstrap, T* = e'We, W = K^x o K^z off the diagonal.
 *
 * This differs from the publication in one point: a and b are centred on the test rows not by a constant but by
 * functions of y (circe__local), twice, as in circe. That removes what the two fits of z have in common, and their
 * variance, which are functions of y. With y in five dimensions it takes the level from .58 to .05 (docs/testing.md).
 *
 * The test uses the largest share of rows whose regressions pass their check, residuals against y, on held-out training
 * rows. One factorisation of y's kernel serves every share, fold and ridge (outside.c), so that 32 folds cost about as
 * much as the fit. */
#include <math.h>
#include <string.h>

#include "inference/inference_parts.h"

enum {
    MOST_LEFT = 384,
    MOST_RIGHT = 128,
    MOST_TESTED = 8192, /* the null takes n^2 per draw */
    FOLDS = 8,          /* of a share that is tried */
    CHECK_COLUMNS = 32,
    CHECK_RANK = 64,
    ROWS = 256,
};

/* What every fold shares. */
typedef struct material {
    circe__table x, z;   /* (n, .), (n, q): features of x and z */
    circe__table joint;  /* (n, p): features of (x, y) */
    circe__table Fx, Fz; /* features of y at the width that x's regression, and z's, chose */
    circe__table y;      /* features of y, narrower: for the checks */
    circe__regressions regressions;
} material;

static void material_free(const circe_context *context, material *m) {
    circe__table *tables[] = {&m->x, &m->z, &m->joint, &m->Fx, &m->Fz, &m->y};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) circe__table_free(context, tables[k]);
    circe__regressions_free(context, &m->regressions);
}

static circe_status gather(const circe__data *data, material *m, circe_test_result *result) {
    const circe__variable *x = &data->x, *z = &data->z;
    double left;
    circe_kernel *kernel = NULL;
    circe_status status =
        circe__features_of(data, x->kernel, x->points, data->n, x->dim, 1e-3, CHECK_COLUMNS, "x", &m->x, &left);
    if (status == CIRCE_OK) status = circe__joint_features(data, 1e-5, MOST_LEFT, &m->joint, &result->left_out_x);
    if (status == CIRCE_OK) circe__weigh(data, &m->joint);
    if (status == CIRCE_OK)
        status = circe__features_of(data, z->kernel, z->points, data->n, z->dim, 1e-5, MOST_RIGHT, "z", &m->z,
                                    &result->left_out_z);
    if (status == CIRCE_OK) circe__weigh(data, &m->x);
    if (status == CIRCE_OK) circe__weigh(data, &m->z);
    const circe__table *targets[2] = {&m->x, &m->z};
    if (status == CIRCE_OK) status = circe__regress(data, targets, &m->regressions);
    const circe__regressor *sides = m->regressions.side;
    if (status == CIRCE_OK) status = circe__features_y(data, &sides[0].spectrum->sight, &m->Fx, &left);
    if (status == CIRCE_OK) status = circe__features_y(data, &sides[1].spectrum->sight, &m->Fz, &left);
    if (status != CIRCE_OK || data->y.dim == 0) return status;
    double width = data->by_value ? 0.01 : 0.1 * fmin(sides[0].info.sigma2_multiple, sides[1].info.sigma2_multiple);
    status = circe__scaled_kernel(data, &data->y, width, &kernel);
    if (status == CIRCE_OK)
        status =
            circe__features_of(data, kernel, data->y.points, data->n, data->y.dim, 1e-3, CHECK_RANK, "y", &m->y, &left);
    circe_kernel_destroy(kernel);
    return status;
}

static void center(circe__table *t) {
    for (int64_t k = 0; k < t->cols; k++) {
        double mean = 0.0;
        for (int64_t i = 0; i < t->rows; i++) mean += t->data[i * t->cols + k] / (double)t->rows;
        for (int64_t i = 0; i < t->rows; i++) t->data[i * t->cols + k] -= mean;
    }
}

/* The p-value of residuals (rows index) against y. */
static circe_status check_residual(const circe__data *data, const material *m, const int64_t *index,
                                   circe__table *residual, double *p) {
    circe__pair pair = {.n = residual->rows};
    double mean = 0.0, variance = 0.0;
    *p = 1.0;
    if (data->y.dim == 0) return CIRCE_OK;
    circe_status status = circe__table_rows(data->context, &m->y, index, residual->rows, &pair.left);
    if (status != CIRCE_OK) return status;
    center(&pair.left);
    pair.right = pair.noise = *residual; /* not owned */
    pair.p = pair.left.cols;
    pair.q = residual->cols;
    status = circe__moments(data, &pair, 512, &mean, &variance);
    double value = 0.0;
    if (status == CIRCE_OK) status = circe__pair_statistic(data, &pair, &value);
    if (status == CIRCE_OK && mean > 0.0) *p = circe__clip_p(circe__moment_tail(mean, variance, value));
    circe__table_free(data->context, &pair.left);
    return status;
}

/* Residuals of `applied` on the fold's test rows, by the regression that suits `target`. */
static circe_status fold_residual(const circe__data *data, const circe__table *features, const circe__table *target,
                                  const circe__table *applied, const circe__fold *fold, circe__table *residual,
                                  circe_test_regression *info) {
    circe__outside fit;
    circe_status status = circe__outside_fit(data, features, target, fold, &fit);
    if (status != CIRCE_OK) return status;
    status = circe__outside_residual(data, &fit, applied, fold, residual);
    if (info != NULL) {
        double multiple = info->sigma2_multiple, left = info->left_out, remaining = info->remaining;
        char basis[CIRCE_TEST_BASIS_TEXT];
        memcpy(basis, info->basis, sizeof basis);
        *info = fit.regressor.info;
        memcpy(info->basis, basis, sizeof basis);
        info->sigma2_multiple = multiple;
        info->left_out = left;
        info->remaining = remaining;
    }
    circe__outside_free(data->context, &fit);
    return status;
}

circe_status circe__split_rows(const circe__data *data, uint64_t number, int64_t **order) {
    *order = circe__alloc(data->context, data->n, sizeof **order);
    if (*order == NULL) return CIRCE_ERR_MEMORY;
    circe_random_permutation((circe_random){data->options.seed, CIRCE__STREAM_SPLIT + number}, data->n, *order);
    return CIRCE_OK;
}

/* The share of folds in which both sides fail their check: only then do the errors multiply into a bias. A fold trains
 * on half as many rows as that share trains on, and checks on others. */
static circe_status failing(const circe__data *data, const material *m, int64_t tested, double *share) {
    circe_status status = CIRCE_OK;
    int64_t half = (data->n - tested) / 2, fails = 0;
    for (int fold_number = 0; status == CIRCE_OK && fold_number < FOLDS; fold_number++) {
        int64_t *order = NULL;
        circe__table residual = {0};
        double p[2] = {1.0, 1.0};
        status = circe__split_rows(data, 1000 + (uint64_t)fold_number, &order);
        circe__fold fold = {order, order == NULL ? NULL : order + half, half, circe__min(tested, data->n - half)};
        const circe__table *targets[2] = {&m->x, &m->z}, *features[2] = {&m->Fx, &m->Fz};
        for (int side = 0; status == CIRCE_OK && side < 2; side++) {
            status = fold_residual(data, features[side], targets[side], targets[side], &fold, &residual, NULL);
            if (status == CIRCE_OK) status = check_residual(data, m, fold.test, &residual, &p[side]);
            circe__table_free(data->context, &residual);
        }
        fails += p[0] <= 0.05 && p[1] <= 0.05;
        circe__free(data->context, order);
    }
    *share = (double)fails / (double)FOLDS;
    return status;
}

static circe_status choose_tested(const circe__data *data, const material *m, int64_t *tested) {
    const double shares[] = {0.5, 0.4, 0.3, 0.2};
    int64_t n = data->n;
    if (data->options.test_share > 0.0) {
        *tested = (int64_t)(data->options.test_share * (double)n);
        if (*tested < 4 || n - *tested < 4)
            return circe_fail(CIRCE_ERR_ARGUMENT,
                              "test_share %g of %lld rows leaves fewer than 4 rows to test or to train on",
                              data->options.test_share, (long long)n);
        return CIRCE_OK;
    }
    circe_status status = CIRCE_OK;
    for (size_t k = 0; k < sizeof shares / sizeof *shares && status == CIRCE_OK; k++) {
        double fails = 0.0;
        *tested = circe__min((int64_t)(shares[k] * (double)n), MOST_TESTED);
        status = failing(data, m, *tested, &fails);
        if (fails <= 1.0 / FOLDS) return status;
    }
    if (status == CIRCE_OK) *tested = circe__max(circe__min((int64_t)(0.1 * (double)n), MOST_TESTED), 4);
    return status;
}

/* ---- statistic and null ------------------------------------------------------------------------------------------ */

/* Residuals on the test rows: by halves A and B, of (x, y) and of z. */
typedef struct residuals {
    circe__table a, b, c, d;
} residuals;

static void residuals_free(const circe_context *context, residuals *r) {
    circe__table *tables[] = {&r->a, &r->b, &r->c, &r->d};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) circe__table_free(context, tables[k]);
}

/* K (rows, t) := (a_i.b_j + b_i.a_j)/2 for rows [first, first + rows). */
static void split_gram(const circe__data *data, const circe__table *a, const circe__table *b, int64_t first,
                       int64_t rows, double *K) {
    const circe__algebra *algebra = data->context->backend->algebra;
    int64_t t = a->rows, q = a->cols, ld = circe__max(q, 1);
    algebra->gemm(0, 1, rows, t, q, 0.5, a->data + first * q, ld, b->data, ld, 0.0, K, t);
    algebra->gemm(0, 1, rows, t, q, 0.5, b->data + first * q, ld, a->data, ld, 1.0, K, t);
}

/* null[0..draws) and the statistic (all signs +1) at null[draws]. */
static circe_status split_null(const circe__data *data, const residuals *r, int64_t draws, double *null) {
    const circe_context *context = data->context;
    int64_t t = r->a.rows;
    double *W = circe__alloc(context, 2 * ROWS * t, sizeof *W);
    double *signs = circe__alloc(context, (draws + 1) * t, sizeof *signs);
    double *products = circe__alloc(context, (draws + 1) * ROWS, sizeof *products);
    circe_status status = W == NULL || signs == NULL || products == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    memset(null, 0, (size_t)(draws + 1) * sizeof *null);
    if (status == CIRCE_OK) circe__signs(data->options.seed, CIRCE__STREAM_SIGNS, t, 0, draws, 0, t, signs, t);
    for (int64_t i = 0; status == CIRCE_OK && i < t; i++) signs[draws * t + i] = 1.0;
    for (int64_t first = 0; status == CIRCE_OK && first < t; first += ROWS) {
        int64_t rows = circe__min(ROWS, t - first);
        double *K = W + ROWS * t;
        split_gram(data, &r->a, &r->b, first, rows, W);
        split_gram(data, &r->c, &r->d, first, rows, K);
        for (int64_t e = 0; e < rows * t; e++) W[e] *= K[e];
        for (int64_t i = 0; i < rows; i++) W[i * t + first + i] = 0.0;
        context->backend->algebra->gemm(0, 1, draws + 1, rows, t, 1.0, signs, t, W, t, 0.0, products, rows);
        for (int64_t d = 0; d <= draws; d++)
            for (int64_t i = 0; i < rows; i++) null[d] += signs[d * t + first + i] * products[d * rows + i];
        status = circe__progress(context, "wild bootstrap", first + rows, t);
    }
    circe__free(context, W);
    circe__free(context, signs);
    circe__free(context, products);
    return status;
}

/* Centres a and b by functions of y on the test rows, twice so that its own bias is squared, and checks z's residuals
 * there. */
static circe_status center_tested(const circe__data *data, const circe__sight *sight, const int64_t *order,
                                  int64_t tested, residuals *r, circe_test_result *result) {
    circe__local local = {0};
    circe__table noise = {0};
    circe__views views = {.index = NULL};
    circe_status status = circe__local_make(data, order, tested, sight, result->z.ridge, &local);
    for (int times = 0; status == CIRCE_OK && times < 2; times++) {
        status = circe__residual(&local.regressor, &r->a);
        if (status == CIRCE_OK) status = circe__residual(&local.regressor, &r->b);
    }
    if (status == CIRCE_OK && !data->options.skip_checks) {
        status = circe__noise(&local.part, &local.regressor, &r->c, &noise);
        if (status == CIRCE_OK) status = circe__check_residual(&local.part, &local.regressor, &r->c, &noise, &views);
        result->z.check_p = local.regressor.info.check_p;
    }
    circe__views_free(data->context, &views);
    circe__table_free(data->context, &noise);
    circe__local_free(data->context, &local);
    return status;
}

/* |residual|^2 over that of the same rows before; tables are about their means. */
static double share_left(const circe__table *residual, const circe__table *before, const int64_t *rows) {
    double all = 0.0;
    for (int64_t i = 0; i < residual->rows; i++)
        all += circe__square_norm(before->data + rows[i] * before->cols, before->cols);
    return all > 0.0 ? circe__square_norm(residual->data, residual->rows * residual->cols) / all : 0.0;
}

static circe_status make_residuals(const circe__data *data, const material *m, const int64_t *order, int64_t tested,
                                   residuals *r, circe_test_result *result) {
    int64_t train = data->n - tested, half = train / 2;
    const int64_t *rows = order + tested;
    circe__fold folds[2] = {{rows, order, half, tested}, {rows + half, order, train - half, tested}};
    circe__table *sides[2][2] = {{&r->a, &r->c}, {&r->b, &r->d}};
    circe_status status = CIRCE_OK;
    result->x = m->regressions.side[0].info;
    result->z = m->regressions.side[1].info;
    for (int f = 0; status == CIRCE_OK && f < 2; f++) {
        status = fold_residual(data, &m->Fx, &m->x, &m->joint, &folds[f], sides[f][0], &result->x);
        if (status == CIRCE_OK) status = fold_residual(data, &m->Fz, &m->z, &m->z, &folds[f], sides[f][1], &result->z);
    }
    if (status == CIRCE_OK) {
        result->x.remaining = share_left(&r->a, &m->joint, order);
        result->z.remaining = share_left(&r->c, &m->z, order);
        status = center_tested(data, &m->regressions.side[1].spectrum->sight, order, tested, r, result);
    }
    return status;
}

/* How far could the errors of both fits move the statistic? Estimated on all rows: the fits on fewer are no better. */
static circe_status check_misfit(const circe__data *data, const material *m, circe_test_result *result) {
    const circe__regressor *sides = m->regressions.side;
    const circe__table *targets[2] = {&m->x, &m->z};
    circe__table noise[2] = {{0}};
    if (data->options.skip_checks || data->y.dim == 0 || data->by_value) return CIRCE_OK;
    circe_status status = circe__noise(data, &sides[0], &m->x, &noise[0]);
    if (status == CIRCE_OK) status = circe__noise(data, &sides[1], &m->z, &noise[1]);
    const circe__table *noises[2] = {&noise[0], &noise[1]};
    if (status == CIRCE_OK) status = circe__check_misfit(data, sides, targets, noises, result);
    if (status == CIRCE_OK) status = circe__check_missed(data, sides, noises, NULL, result);
    circe__table_free(data->context, &noise[0]);
    circe__table_free(data->context, &noise[1]);
    return status;
}

/* What rows of equal y show, in kci's statistic of all rows: the tested ones alone may be too few of the same y. */
static circe_status compare_within(const circe__data *data, const material *m, circe_test_result *result) {
    enum { WITHIN_LEFT = 96, WITHIN_RIGHT = 24 };
    const circe__regressor *sides = m->regressions.side;
    circe__pair pair = {
        .n = data->n, .p = circe__min(m->joint.cols, WITHIN_LEFT), .q = circe__min(m->z.cols, WITHIN_RIGHT)};
    if (!circe__looks_within(data, result)) return CIRCE_OK;
    circe_status status = circe__some_columns(data->context, &m->joint, 0, 1, pair.p, &pair.left);
    for (int side = 0; status == CIRCE_OK && side < 2; side++) status = circe__residual(&sides[side], &pair.left);
    if (status == CIRCE_OK) status = circe__some_columns(data->context, &m->z, 0, 1, pair.q, &pair.right);
    if (status == CIRCE_OK) status = circe__noise(data, &sides[1], &pair.right, &pair.noise);
    if (status == CIRCE_OK) status = circe__compare_within(data, &pair, false, result);
    circe__pair_free(data->context, &pair);
    return status;
}

/* Rows that outweigh all others, in what one half leaves of (x, y) and of z. */
static void check_rows(const circe__data *data, const residuals *r, circe_test_result *result) {
    const circe__pair pair = {.n = r->a.rows, .p = r->a.cols, .q = r->c.cols, .left = r->a, .noise = r->c};
    circe__check_rows(data, &pair, false, result);
}

static void report(const residuals *r, int64_t draws, const double *null, bool nothing, circe_test_result *result) {
    double n = (double)r->a.rows;
    result->null = CIRCE_NULL_WILD;
    result->draws = draws;
    result->rank_x = nothing ? 0 : r->a.cols;
    result->rank_z = nothing ? 0 : r->c.cols;
    if (!nothing) circe__report_draws(null[draws], null, draws, 1.0 / (n * (n - 1.0)), result);
}

circe_status circe__test_splitkci(const circe__data *data, circe_test_result *result) {
    const circe_context *context = data->context;
    int64_t draws = data->options.draws, tested = 0, *order = NULL;
    material m = {0};
    residuals r = {0};
    double *null = circe__alloc(context, draws + 1, sizeof *null);
    circe_status status = null == NULL ? CIRCE_ERR_MEMORY : gather(data, &m, result);
    if (status == CIRCE_OK) status = choose_tested(data, &m, &tested);
    if (status == CIRCE_OK) status = circe__split_rows(data, 0, &order);
    if (status == CIRCE_OK) status = make_residuals(data, &m, order, tested, &r, result);
    if (status == CIRCE_OK) status = split_null(data, &r, draws, null);
    if (status == CIRCE_OK) {
        check_rows(data, &r, result);
        result->n_tested = tested;
        result->n_train = data->n - tested;
        report(&r, draws, null, data->x.constant || data->z.constant, result);
        status = check_misfit(data, &m, result);
        if (status == CIRCE_OK) status = compare_within(data, &m, result);
    }
    circe__free(context, null);
    circe__free(context, order);
    residuals_free(context, &r);
    material_free(context, &m);
    return status;
}
