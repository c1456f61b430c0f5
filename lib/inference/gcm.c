/* GCM (Shah and Peters 2020) as a test: the columns of x against those of z, both regressed on y.
 *
 *     T_ab = (left_a . right_b) / sqrt(sum_i left_ia^2 noise_ib^2)
 *
 * with the sides of pair.c: the covariance of residuals over its standard error, the noise being leave-one-out
 * residuals. For one pair of columns, T is standard normal. For more, the largest |T| is compared with the same under
 * random signs on the noise. Columns under a delta kernel are indicators of their categories.
 *
 * Weighted GCM (Scheidegger, Hoerrmann and Buehlmann 2022): a covariance that changes its sign along y cancels out. So
 * the left side also appears multiplied by the sign of y_c - q, for some quantiles q of every column c of y, and the
 * largest |T| of all counts. Under independence, weighted residuals of x are as uncorrelated with z's as plain ones, so
 * the test stays as robust as GCM. */
#include <math.h>

#include "inference/dependence.h"

/* T (p, q), and 1 / its standard errors; 0 if there is no spread. *found: the largest |T|. */
static circe_status table_of(const circe__data *data, const circe__pair *pair, double *T, double *inverse,
                             double *found) {
    int64_t p = pair->p, q = pair->q;
    double largest = 0.0;
    const bool there = pair->left.device != NULL, blocks = data->dependence != NULL;
    circe_status status = circe__cross(data->context, &pair->left, p, &pair->right, q, T);
    for (int64_t e = 0; e < p * q; e++) inverse[e] = 0.0;
    if (status == CIRCE_OK && blocks) status = circe__block_squares(data, pair, inverse);
    if (status == CIRCE_OK && there) status = circe__rows_pair_squares(pair, inverse, NULL);
    for (int64_t i = 0; !blocks && !there && i < pair->n; i++)
        for (int64_t a = 0; a < p; a++) {
            double l = pair->left.data[i * p + a];
            for (int64_t b = 0; b < q; b++) {
                double r = l * pair->noise.data[i * q + b];
                inverse[a * q + b] += r * r;
            }
        }
    for (int64_t e = 0; e < p * q; e++) {
        inverse[e] = inverse[e] > 1e-24 * (double)pair->n ? 1.0 / sqrt(inverse[e]) : 0.0; /* columns have unit size */
        T[e] *= inverse[e];
        largest = fmax(largest, fabs(T[e]));
    }
    *found = largest;
    return status;
}

circe_status circe__test_gcm(const circe__data *data, circe_test_result *result) {
    const bool weighted = circe__kind_of(&data->options)->signs;
    const circe__pair_plan plan = {.regress_x = true, .columns = true, .weighted = weighted};
    const circe_context *context = data->context;
    circe__regressions regressions;
    circe__pair pair;
    int64_t draws = data->options.draws;
    circe_status status = circe__pair_make(data, &plan, &pair, &regressions, result);
    if (status != CIRCE_OK) return status;
    int64_t pairs = pair.p * pair.q;
    CIRCE__OWNED double *T = circe__alloc(context, 2 * pairs + 1, sizeof *T),
                        *null = circe__alloc(context, draws, sizeof *null);
    if (T == NULL || null == NULL) {
        status = CIRCE_ERR_MEMORY;
        goto done;
    }
    if (data->options.null == CIRCE_NULL_NORMAL && pairs > 1) {
        status = circe_fail(
            CIRCE_ERR_UNSUPPORTED,
            "the null normal needs one column of x and one of z, but there are %lld pairs: use the null multiplier",
            (long long)pairs);
        goto done;
    }
    status = circe__check_rows(data, &pair, true, result);
    if (status == CIRCE_OK) status = circe__dependence_settle(data, &pair, result);
    if (status != CIRCE_OK) goto done;
    bool few = data->dependence != NULL && data->options.null == CIRCE_NULL_AUTO;
    bool normal = pairs <= 1 && !few && data->options.null != CIRCE_NULL_MULTIPLIER && !weighted;
    result->null = normal ? CIRCE_NULL_NORMAL : CIRCE_NULL_MULTIPLIER;
    if (pairs > 0) status = table_of(data, &pair, T, T + pairs, &result->statistic);
    if (status != CIRCE_OK) goto done;
    result->null_sd = 1.0;
    if (pairs == 1) result->statistic = T[0];
    if (data->options.null == CIRCE_NULL_PERMUTATION || circe__should_permute(data, &pair)) {
        double value = result->statistic;
        status = circe__permute_within_y(data, &pair, true, result);
        result->statistic = value;
        result->null_mean = 0.0;
        result->null_sd = 1.0;
    } else if (normal) {
        result->p_value = circe__clip_p(2.0 * circe__normal_tail(fabs(result->statistic)));
    } else {
        status = circe__wild(data, &pair, T + pairs, draws, CIRCE__STREAM_SIGNS, null);
        result->p_value = circe__rank_p(fabs(result->statistic), null, draws);
        result->draws = draws;
    }
    if (status == CIRCE_OK && result->null != CIRCE_NULL_PERMUTATION)
        status = circe__permute_residuals(data, &pair, true, result);
    if (status == CIRCE_OK && !circe__kind_of(&data->options)->one_sided) /* pcm looks at all rows, not at halves */
        status = circe__check_missed_pair(data, &regressions, &pair, result);

done:
    circe__pair_free(context, &pair);
    circe__regressions_free(context, &regressions);
    return status;
}
