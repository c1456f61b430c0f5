/* CIRCE as a test: |sum_i phi(x_i) (x) psi(y_i) (x) zeta_i|^2 / (n (n - 1)). Only z is regressed on y.
 *
 * So the bias of that one fit would go straight into the statistic, whereas kci has the product of two such biases; and
 * the null would leave out the noise of a mean from other rows. With both, a test of level .05 rejects a quarter of the
 * time (N = 200, arXiv 2402.13196). Three things help: a tenth of the ridge that leave-one-out prefers; signs on the
 * noise of every row that the mean was fitted on (pair.c); and a left side that is centred on the tested rows by
 * functions of y, rather than by a constant as in the centred estimator. The remaining bias is then its product with
 * what that centring leaves. If y's kernel is not given, these functions are the ones that suit x, since those of z may
 * not follow x at all; otherwise, and with auxiliary rows, they are z's.
 *
 *   rows    the mean is fitted on the tested rows themselves (and auxiliary ones)
 *   split   on others: with Q and s of outside.c the rows of the fit have the left features
 *           -Q_train diag(1/(s + ridge)) Q_test' left, the tested rows left itself */
#include <string.h>

#include "inference/inference_parts.h"

enum { MOST_LEFT = 512, MOST_RIGHT = 256 };

/* Tested rows first, then those of the fit. */
static circe_status split_order(const circe__data *data, int64_t **order, circe__fold *fold) {
    double share = data->options.test_share > 0.0 ? data->options.test_share : 0.5;
    int64_t tested = (int64_t)(share * (double)data->n), *rows = NULL;
    *order = circe__alloc(data->context, data->total, sizeof **order);
    if (*order == NULL) return CIRCE_ERR_MEMORY;
    if (tested < 4 || data->total - tested < 4)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "test_share %g of %lld rows leaves fewer than 4 rows to test or to train on", share,
                          (long long)data->n);
    circe_status status = circe__split_rows(data, 0, &rows);
    for (int64_t i = 0; status == CIRCE_OK && i < data->total; i++) (*order)[i] = i < data->n ? rows[i] : i;
    circe__free(data->context, rows);
    *fold = (circe__fold){*order + tested, *order, data->total - tested, tested};
    return status;
}

/* The rows of the fit: left as above, right and noise about the fit's own mean. */
static circe_status append_training(const circe__data *data, const circe__outside *fit, const circe__table *target,
                                    const circe__fold *fold, circe__pair *pair) {
    const circe__algebra *algebra = data->context->backend->algebra;
    int64_t p = pair->left.cols, q = target->cols, r = fit->spectrum.rank, t = fold->n_test, m = fold->n_train;
    circe__table left = {0}, right = {0}, noise = {0}, rows = {0};
    CIRCE__OWNED double *inner = circe__alloc(data->context, r * p + 1, sizeof *inner);
    circe_status status = inner == NULL ? CIRCE_ERR_MEMORY : circe__table_new(data->context, t + m, p, &left);
    if (status == CIRCE_OK) status = circe__table_new(data->context, t + m, q, &right);
    if (status == CIRCE_OK) status = circe__table_rows(data->context, target, fold->train, m, &rows);
    if (status == CIRCE_OK) circe__weigh(&fit->part, &rows);
    if (status == CIRCE_OK) status = circe__noise(&fit->part, &fit->regressor, &rows, &noise);
    if (status == CIRCE_OK) {
        int64_t ld = circe__max(r, 1);
        memcpy(left.data, pair->left.data, (size_t)(t * p) * sizeof(double));
        algebra->gemm(1, 0, r, p, t, 1.0, fit->Q_test.data, ld, pair->left.data, p, 0.0, inner, p);
        for (int64_t k = 0; k < r; k++)
            for (int64_t c = 0; c < p; c++) inner[k * p + c] /= fit->spectrum.s[k] + fit->regressor.ridge;
        algebra->gemm(0, 0, m, p, r, -1.0, fit->spectrum.Q, ld, inner, p, 0.0, left.data + t * p, p);
        memcpy(right.data, pair->noise.data,
               (size_t)(t * q) * sizeof(double)); /* out of sample: residuals as they are */
        memcpy(right.data + t * q, noise.data, (size_t)(m * q) * sizeof(double));
        circe__pair_free(data->context, pair);
        pair->left = left;
        pair->noise = right;
        left = right = (circe__table){0};
    }
    circe__table *tables[] = {&left, &right, &noise, &rows};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) circe__table_free(data->context, tables[k]);
    return status;
}

/* The statistic's own right side: residuals on the tested rows, 0 on those of the fit, whose part is inside them. */
static circe_status settle_right(const circe__data *data, const circe__fold *fold, circe__pair *pair) {
    int64_t q = pair->noise.cols;
    circe_status status = circe__table_new(data->context, pair->noise.rows, q, &pair->right);
    if (status != CIRCE_OK) return status;
    memset(pair->right.data, 0, (size_t)(pair->right.rows * q) * sizeof(double));
    memcpy(pair->right.data, pair->noise.data, (size_t)(fold->n_test * q) * sizeof(double));
    pair->n = pair->noise.rows;
    pair->p = pair->left.cols;
    pair->q = q;
    return CIRCE_OK;
}

/* left: the features of (x, y) of the tested rows, centred by functions of y. */
static circe_status split_left(const circe__data *data, const circe__fold *fold, const circe__regressor *regressor,
                               const circe__sight *sight, circe__table *left, circe_test_result *result) {
    circe__local local = {0};
    circe_status status = circe__local_make(data, fold->test, fold->n_test, sight, regressor->ridge, &local);
    if (status == CIRCE_OK) status = circe__joint_features(&local.part, 1e-5, MOST_LEFT, left, &result->left_out_x);
    if (status == CIRCE_OK) circe__weigh(&local.part, left);
    if (status == CIRCE_OK) status = circe__residual(&local.regressor, left);
    circe__local_free(data->context, &local);
    return status;
}

/* z's features, and y's at the width that suits them. */
static circe_status split_features(const circe__data *data, circe__table *target, circe__table *features,
                                   circe__sight *sight, circe_test_result *result) {
    const circe__variable *z = &data->z;
    circe__regressions regressions = {0};
    CIRCE__OWNED_BY(circe__table_drop) circe__table centered = {0};
    circe_status status = circe__features_of(data, z->kernel, z->points, data->total, z->dim, 1e-5, MOST_RIGHT, "z",
                                             target, &result->left_out_z);
    if (status == CIRCE_OK) status = circe__table_copy(data->context, target, &centered);
    if (status == CIRCE_OK) circe__weigh(data, &centered);
    const circe__table *targets[2] = {NULL, &centered};
    if (status == CIRCE_OK) status = circe__regress(data, targets, &regressions);
    if (status == CIRCE_OK) {
        result->z = regressions.side[1].info;
        *sight = regressions.side[1].spectrum->sight;
        status = circe__features_y(data, sight, features, &result->z.left_out);
    }
    circe__regressions_free(data->context, &regressions);
    return status;
}

static void report_split(const circe__data *data, const circe__outside *fit, const circe__fold *fold, circe__pair *pair,
                         circe_test_result *result) {
    circe_test_regression before = result->z;
    result->z = fit->regressor.info;
    memcpy(result->z.basis, before.basis, sizeof before.basis);
    result->z.sigma2_multiple = before.sigma2_multiple;
    result->z.left_out = before.left_out;
    result->n_tested = fold->n_test;
    result->n_train = fold->n_train;
    if (data->x.constant || data->z.constant) pair->p = pair->q = 0;
    result->rank_x = pair->p;
    result->rank_z = pair->q;
}

static circe_status split_pair(const circe__data *data, circe__pair *pair, circe_test_result *result) {
    circe__table target = {0}, features = {0};
    circe__outside fit = {0};
    circe__fold fold = {0};
    circe__sight sight = {0};
    int64_t *order = NULL;
    *pair = (circe__pair){0};
    circe_status status = split_order(data, &order, &fold);
    if (status == CIRCE_OK) status = split_features(data, &target, &features, &sight, result);
    if (status == CIRCE_OK) status = circe__outside_fit(data, &features, &target, &fold, &fit);
    if (status == CIRCE_OK) status = split_left(data, &fold, &fit.regressor, &sight, &pair->left, result);
    if (status == CIRCE_OK) status = circe__outside_residual(data, &fit, &target, &fold, &pair->noise);
    if (status == CIRCE_OK) status = append_training(data, &fit, &target, &fold, pair);
    if (status == CIRCE_OK) status = settle_right(data, &fold, pair);
    if (status == CIRCE_OK) report_split(data, &fit, &fold, pair, result);
    circe__table_free(data->context, &target);
    circe__table_free(data->context, &features);
    circe__outside_free(data->context, &fit);
    circe__free(data->context, order);
    if (status != CIRCE_OK) circe__pair_free(data->context, pair);
    return status;
}

circe_status circe__test_circe(const circe__data *data, circe_test_result *result) {
    const bool own =
        data->faces != NULL && data->total == data->n; /* functions of y that suit x, if they can be chosen */
    const circe__pair_plan plan = {.center_y = !own, .regress_x = own};
    circe__regressions regressions = {0};
    circe__pair pair;
    circe_status status = data->options.mean == CIRCE_MEAN_SPLIT
                              ? split_pair(data, &pair, result)
                              : circe__pair_make(data, &plan, &pair, &regressions, result);
    if (status != CIRCE_OK) return status;
    double n = (double)result->n_tested;
    pair.scale = 1.0 / (n * (n - 1.0));
    circe_test_null null = data->options.null == CIRCE_NULL_AUTO ? CIRCE_NULL_WILD : data->options.null;
    status = circe__pair_test(data, &pair, null, result);
    if (status == CIRCE_OK && data->options.mean != CIRCE_MEAN_SPLIT)
        status = circe__check_missed_pair(data, &regressions, &pair, result);
    circe__pair_free(data->context, &pair);
    circe__regressions_free(data->context, &regressions);
    return status;
}
