/* HSIC (Gretton et al. 2005, 2008) as a test: n times the biased estimate, |left' right|^2 / n with centred features.
 *
 * Permutation puts the rows of the right side in random order and is exact at any size, at O(n p q) per permutation.
 * Gamma uses two moments of the null, by the pairs of moments.c. Wild uses random signs. Weights need gamma or wild:
 * they would have to travel with the permuted rows, and then not every order is equally likely. */
#include <math.h>
#include <string.h>

#include "inference/dependence.h"

enum { MOST = 256, MANY_ROWS = 20000 };

static circe_status make_sides(const circe__data *data, circe__pair *pair, circe_test_result *result) {
    const circe__variable *x = &data->x, *z = &data->z;
    *pair = (circe__pair){.n = data->n, .scale = 1.0 / (double)data->n};
    circe_status status = circe__features_of(data, x->kernel, x->points, data->n, x->dim, 1e-4, MOST, "x", &pair->left,
                                             &result->left_out_x);
    if (status == CIRCE_OK)
        status = circe__features_of(data, z->kernel, z->points, data->n, z->dim, 1e-4, MOST, "z", &pair->right,
                                    &result->left_out_z);
    if (status == CIRCE_OK) circe__weigh(data, &pair->left);
    if (status == CIRCE_OK) circe__weigh(data, &pair->right);
    if (status == CIRCE_OK) status = circe__table_new(data->context, data->n, pair->right.cols, &pair->noise);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < data->n; i++) {
        double rest = 1.0 - data->unit[i] * data->unit[i];
        for (int64_t k = 0; k < pair->right.cols; k++)
            pair->noise.data[i * pair->right.cols + k] = pair->right.data[i * pair->right.cols + k] / rest;
    }
    bool nothing = x->constant || z->constant;
    result->rank_x = pair->p = nothing ? 0 : pair->left.cols;
    result->rank_z = pair->q = nothing ? 0 : pair->right.cols;
    result->n_tested = data->n;
    return CIRCE_OK;
}

static circe_status permute(const circe__data *data, const circe__pair *pair, double *null) {
    int64_t n = pair->n, p = pair->p, q = pair->q, draws = data->options.draws;
    const circe__algebra *algebra = data->context->backend->algebra;
    CIRCE__OWNED int64_t *order = circe__alloc(data->context, n, sizeof *order);
    CIRCE__OWNED double *shuffled = circe__alloc(data->context, n * q + 1, sizeof *shuffled);
    CIRCE__OWNED double *product = circe__alloc(data->context, p * q + 1, sizeof *product);
    circe_status status = order == NULL || shuffled == NULL || product == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t d = 0; status == CIRCE_OK && d < draws; d++) {
        if (data->dependence != NULL)
            status = circe__block_order(data, d, order);
        else
            circe_random_permutation((circe_random){data->options.seed, CIRCE__STREAM_PERMUTE + (uint64_t)d}, n, order);
        if (status != CIRCE_OK) break;
        for (int64_t i = 0; i < n; i++)
            memcpy(shuffled + i * q, pair->right.data + order[i] * q, (size_t)q * sizeof *shuffled);
        algebra->gemm(1, 0, p, q, n, 1.0, pair->left.data, circe__max(p, 1), shuffled, circe__max(q, 1), 0.0, product,
                      circe__max(q, 1));
        null[d] = circe__square_norm(product, p * q);
        if (d % 8 == 0) status = circe__progress(data->context, "permutations", d, draws);
    }
    return status;
}

static circe_status by_permutation(const circe__data *data, const circe__pair *pair, circe_test_result *result) {
    int64_t draws = data->options.draws;
    double value = 0.0, *null = circe__alloc(data->context, draws, sizeof *null);
    circe_status status = null == NULL ? CIRCE_ERR_MEMORY : circe__pair_statistic(data, pair, &value);
    if (status == CIRCE_OK) status = permute(data, pair, null);
    if (status == CIRCE_OK) circe__report_draws(value, null, draws, pair->scale, result);
    result->null = CIRCE_NULL_PERMUTATION;
    circe__free(data->context, null);
    return status;
}

circe_status circe__test_hsic(const circe__data *data, circe_test_result *result) {
    circe_test_null null = data->options.null;
    circe__pair pair = {0};
    if (null == CIRCE_NULL_AUTO && data->dependence != NULL) null = CIRCE_NULL_WILD;
    if (null == CIRCE_NULL_AUTO)
        null = data->n > MANY_ROWS || data->options.weights != NULL ? CIRCE_NULL_GAMMA : CIRCE_NULL_PERMUTATION;
    if (null == CIRCE_NULL_PERMUTATION && data->options.weights != NULL)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "permutations do not support weights; use the null gamma or wild");
    circe_status status = make_sides(data, &pair, result);
    if (status == CIRCE_OK) circe__check_rows(data, &pair, false, result);
    if (status == CIRCE_OK) status = circe__dependence_settle(data, &pair, result);
    if (status == CIRCE_OK)
        status = null == CIRCE_NULL_PERMUTATION ? by_permutation(data, &pair, result)
                                                : circe__pair_test(data, &pair, null, result);
    circe__pair_free(data->context, &pair);
    return status;
}
