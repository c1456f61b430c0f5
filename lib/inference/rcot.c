/* RCoT: a few random Fourier features of x against a few of z (Strobl, Zhang and Visweswaran 2019), both regressed on
 * y.
 *
 * Up to ADAPTIVE_ROWS rows, the regressions are those of kci (screen.c), and the rest is pair.c. Most functions of y
 * are smooth, so a short search comes first, and the whole search only if the residuals of both sides may still depend
 * on y. Beyond ADAPTIVE_ROWS, and if y's kernel of numbers or its number of features is given, y has random features as
 * well, and memory does not grow with n (rcot_rows.c). A hundred random features do not tell a hundred classes apart,
 * so classes go the first way if they can. */
#include <math.h>

#include "inference/dependence.h"
#include "inference/faces.h"
#include "inference/fourier.h"
#include "inference/memory.h"

/* Stores the features of all rows: memory grows with n here, so these limits fit any machine. */
enum { PAIR_ROWS = 200000, ADAPTIVE_ROWS = 20000, MIXED_ROWS = 5000 };

/* table (n, features): a variable's features, about their means. */
static circe_status fourier_table(const circe__data *data, const circe__variable *v, int64_t features, uint64_t stream,
                                  const char *name, circe__table *table) {
    circe__fourier fourier = {0};
    double *one = circe__alloc(data->context, data->n, sizeof *one); /* weights come with circe__weigh */
    circe_status status =
        one == NULL ? CIRCE_ERR_MEMORY : circe__fourier_draw(data, v, 1.0, features, stream, name, &fourier);
    for (int64_t i = 0; status == CIRCE_OK && i < data->n; i++) one[i] = 1.0;
    if (status == CIRCE_OK) status = circe__table_new(data->context, data->n, fourier.n, table);
    if (status == CIRCE_OK) circe__fourier_features(&fourier, v->points, one, data->n, table->data, table->cols);
    if (status == CIRCE_OK) status = circe__weigh(data, table);
    if (status == CIRCE_OK) status = circe__to_device(data, table);
    circe__fourier_free(data->context, &fourier);
    circe__free(data->context, one);
    return status;
}

/* The short search is for smooth functions of numbers. */
static bool may_be_quick(const circe__data *data) {
    return data->faces != NULL && data->coded.dim == 0 && data->dependence == NULL;
}

/* Whether what the short search found may leave the same of y in x and in z: one good fit of the two is enough. */
static bool is_doubtful(const circe__data *data, const circe__regressions *made, const circe_test_result *result) {
    const double unlikely = 0.2;
    return circe__may_be_misfit(data, result) &&
           (fmax(made->side[0].info.check_p, made->side[1].info.check_p) < unlikely || result->misfit > CIRCE__MOVES);
}

/* Tests what regressions like those of kci, or the means per value of y, leave of x and z. Sets *again if a longer
 * search for these regressions may find better ones. */
static circe_status test_residuals(const circe__data *data, circe_test_result *result, bool *again) {
    const circe_context *context = data->context;
    const circe_test_options *o = &data->options;
    circe__pair pair = {.n = data->n, .scale = 1.0};
    circe__regressions made = {0};
    circe__table x = {0}, noise = {0}; /* noise: of x */
    circe_status status = fourier_table(data, &data->x, o->features_x, CIRCE__STREAM_FOURIER + 100, "x", &x);
    if (status == CIRCE_OK) status = circe__table_copy(context, &x, &pair.left);
    if (status == CIRCE_OK)
        status = fourier_table(data, &data->z, o->features_z, CIRCE__STREAM_FOURIER + 200, "z", &pair.right);
    const circe__table *targets[2] = {&x, &pair.right};
    if (status == CIRCE_OK) status = circe__recall_regress(data, targets, &made);
    if (status == CIRCE_OK) status = circe__residual(&made.side[0], &pair.left);
    double size = 0.0, left = 0.0, remaining = 0.0;
    if (status == CIRCE_OK) status = circe__size_of(data, &x, &size);
    if (status == CIRCE_OK) status = circe__size_of(data, &pair.left, &left);
    if (status == CIRCE_OK) status = circe__table_copy(context, &pair.left, &noise);
    if (status == CIRCE_OK) status = circe__residual(&made.side[1], &pair.left);
    if (status == CIRCE_OK) status = circe__noise(data, &made.side[1], &pair.right, &pair.noise);
    if (status == CIRCE_OK) status = circe__remaining(data, &made.side[1], &pair.right, &pair.noise, &remaining);
    const bool quick = made.side[0].quick || made.side[1].quick;
    result->rank_x = pair.p = pair.left.cols;
    result->rank_z = pair.q = pair.right.cols;
    pair.scale = data->by_value ? 1.0 : 1.0 / (double)data->n;
    if (status == CIRCE_OK)
        status = circe__pair_test(data, &pair, o->null == CIRCE_NULL_AUTO ? CIRCE_NULL_SPECTRAL : o->null, result);
    const bool checked =
        data->y.dim > 0 && (!o->skip_checks || (quick && circe__may_be_misfit(data, result))); /* for is_doubtful */
    if (status == CIRCE_OK && checked) status = circe__noise_of(data, &made.side[0], &noise);
    if (status == CIRCE_OK && checked) status = circe__check_sides(data, &x, &noise, &made, &pair, result);
    const circe__table *noises[2] = {&noise, &pair.noise};
    *again = status == CIRCE_OK && quick && is_doubtful(data, &made, result);
    if (status == CIRCE_OK && checked && !*again)
        status = circe__check_missed(data, made.side, noises, quick ? again : NULL, result);
    if (status == CIRCE_OK) {
        result->x = made.side[0].info;
        result->z = made.side[1].info;
        result->x.remaining = size > 0.0 ? left / size : 0.0;
        result->z.remaining = remaining;
    }
    if (quick && o->skip_checks) result->misfit = result->x.check_p = result->z.check_p = NAN;
    circe__table_free(context, &x);
    circe__table_free(context, &noise);
    circe__pair_free(context, &pair);
    circe__regressions_free(context, &made);
    return status;
}

static circe_status test_pair(const circe__data *data, circe_test_result *result) {
    const circe_test_result before = *result;
    circe__data own = *data;
    bool again = false;
    own.quick = may_be_quick(data);
    circe_status status = test_residuals(&own, result, &again);
    if (status != CIRCE_OK || !again) return status;
    own.quick = false;
    *result = before;
    return test_residuals(&own, result, &again);
}

static bool is_adaptive(const circe__data *data) {
    if (data->options.features_y > 0 || data->n > ADAPTIVE_ROWS) return false;
    if (data->faces != NULL || data->by_value) return true;
    return data->coded.dim > 0 && (data->n <= MIXED_ROWS || circe__only_categories(&data->y)); /* widths take time */
}

circe_status circe__test_rcot(const circe__data *data, circe_test_result *result) {
    const circe_test_options *o = &data->options;
    if (data->x.constant || data->z.constant) {
        result->null = o->null == CIRCE_NULL_GAMMA ? CIRCE_NULL_GAMMA : CIRCE_NULL_SPECTRAL;
        return CIRCE_OK; /* statistic 0, p-value 1 */
    }
    if (data->dependence != NULL && data->n > PAIR_ROWS)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "rcot with groups or time takes at most %d rows", PAIR_ROWS);
    if (is_adaptive(data) || data->dependence != NULL || (circe__may_permute(data) && data->n <= PAIR_ROWS))
        return test_pair(data, result);
    if (o->null == CIRCE_NULL_PERMUTATION)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "the null permutation of rcot needs a y of few values, rows without "
                          "weights, and at most %d of them",
                          PAIR_ROWS);
    return circe__rcot_rows(data, result);
}
