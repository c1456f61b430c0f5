/* PCM, the projected covariance measure (Lundborg, Kim, Shah and Samworth 2024), as a test: does z help to predict the
 * columns of x beyond y?
 *
 *     half A     g(y, z) ~ E[x | y, z], kernel ridge regression on (y, z)
 *     half B     f_i = g(y_i, z_i): a function of (y, z) that knows nothing of B's x
 *                T = GCM of x against f given y: covariance of what y leaves of both over its standard error
 *
 * Under independence E[x | y, z] = E[x | y], and T is standard normal, whatever g is: one of the two regressions on y
 * may be poor (doubly robust, as GCM). With dependence, f points to it: the covariance is E[(E[x|y,z] - E[x|y])^2],
 * positive, so the test is one-sided and sees interactions and squares, whereas GCM sees only covariances with z. It
 * does not see dependence in the spread of x: test squares of x, or use kci.
 *
 * A and B change places, and T is the mean of both. The two are correlated, so the mean is compared with the standard
 * normal distribution of one of them, which never makes the p-value too small. If x has several columns, the largest T
 * counts, with its p-value times their number (Bonferroni). */
#include <math.h>
#include <string.h>

#include "inference/faces.h"

enum { MOST_COLUMNS = 16, LEAST_HALF = 20 };

/* Columns of y and z side by side, as the y of a data set without x and z. */
static circe_status joint_data(const circe__data *data, circe__data *joint) {
    const circe__variable *y = circe__columns(data);
    int64_t n = data->n, dim = y->dim + data->z.dim, *all = circe__alloc(data->context, n, sizeof *all);
    CIRCE__OWNED double *points = circe__alloc(data->context, n * dim, sizeof *points);
    circe_status status = all == NULL || points == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) {
        all[i] = i;
        if (y->dim > 0) memcpy(points + i * dim, y->points + i * y->dim, (size_t)y->dim * sizeof *points);
        memcpy(points + i * dim + y->dim, data->z.points + i * data->z.dim, (size_t)data->z.dim * sizeof *points);
    }
    if (status == CIRCE_OK) status = circe__data_rows_of_y(data, all, n, joint);
    if (status == CIRCE_OK) {
        circe__faces_free(data->context, joint->faces);
        joint->faces = NULL;
        joint->by_value = false;
        circe__variable_free(data->context, &joint->coded);
        circe__standardize(points, n, n, dim);
        status = circe__face_set(data, points, dim, CIRCE_KERNEL_GAUSSIAN, &joint->y);
        points = NULL;
    }
    circe__free(data->context, all);
    return status;
}

/* f (rows of the fold's test half, q): predictions of x's columns from (y, z) by the training half. */
static circe_status predict(const circe__data *joint, const circe__table *x, const circe__fold *fold, circe__table *f) {
    const circe_context *context = joint->context;
    circe__data train = {0};
    circe__table target = {0}, features = {0}, residual = {0};
    circe__regressions made = {0};
    circe__outside fit = {0};
    double left;
    circe_status status = circe__data_rows_of_y(joint, fold->train, fold->n_train, &train);
    if (status == CIRCE_OK) status = circe__table_rows(context, x, fold->train, fold->n_train, &target);
    if (status == CIRCE_OK) circe__weigh(&train, &target);
    const circe__table *targets[2] = {NULL, &target};
    if (status == CIRCE_OK) status = circe__regress(&train, targets, &made);
    if (status == CIRCE_OK) status = circe__features_y(joint, &made.side[1].spectrum->sight, &features, &left);
    if (status == CIRCE_OK) status = circe__outside_fit(joint, &features, x, fold, &fit);
    if (status == CIRCE_OK) status = circe__outside_residual(joint, &fit, x, fold, &residual);
    if (status == CIRCE_OK) status = circe__table_rows(context, x, fold->test, fold->n_test, f);
    for (int64_t e = 0; status == CIRCE_OK && e < f->rows * f->cols; e++) f->data[e] -= residual.data[e];
    circe__table *tables[] = {&target, &features, &residual};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) circe__table_free(context, tables[k]);
    circe__regressions_free(context, &made);
    circe__outside_free(context, &fit);
    circe__data_free(&train);
    return status;
}

/* Per column of x: the means over the halves of T and of what rows of equal y show in its place (strata.c), NaN if that
 * is not compared. */
typedef struct scores {
    double T[MOST_COLUMNS], within[MOST_COLUMNS];
} scores;

/* T of every column of x on the test half: GCM against its own prediction. */
static circe_status half_scores(const circe__data *data, const circe__table *f, const circe__fold *fold, scores *found,
                                circe_test_result *result) {
    circe__data part = {0};
    circe_kernel *linear = NULL; /* columns as they are */
    circe_status status = circe_kernel_create(data->context, CIRCE_KERNEL_LINEAR, 0.0, &linear);
    if (status == CIRCE_OK) status = circe__data_subset(data, fold->test, fold->n_test, &part);
    for (int64_t c = 0; status == CIRCE_OK && c < f->cols; c++) {
        circe__data one = part; /* borrows all but x and z */
        circe_test_result own = *result;
        double *points = circe__alloc(data->context, 2 * fold->n_test, sizeof *points);
        if (points == NULL) {
            status = CIRCE_ERR_MEMORY;
            break;
        }
        for (int64_t i = 0; i < fold->n_test; i++) {
            points[i] = part.x.points[i * part.x.dim + c];
            points[fold->n_test + i] = f->data[i * f->cols + c];
        }
        one.x = (circe__variable){.dim = 1, .points = points, .kernel = linear};
        one.z = (circe__variable){.dim = 1, .points = points + fold->n_test, .kernel = linear};
        one.options.null = CIRCE_NULL_NORMAL;
        one.options.alpha = 0.5; /* a half need not reject for both to */
        status = circe__test_gcm(&one, &own);
        found->T[c] += own.rank_x > 0 ? 0.5 * own.statistic : 0.0;
        found->within[c] += isnan(own.within_p) ? NAN : 0.5 * circe__normal_quantile(own.within_p);
        if (status == CIRCE_OK) result->within_share = own.within_share;
        if (status == CIRCE_OK && !(own.misfit <= result->misfit)) { /* neither may be known */
            result->x = own.x;
            result->z = own.z;
            result->misfit = own.misfit;
            result->effective_rows = own.effective_rows;
        }
        circe__free(data->context, points);
    }
    circe_kernel_destroy(linear);
    circe__data_free(&part);
    return status;
}

static circe_status both_halves(const circe__data *data, const circe__data *joint, const circe__table *x,
                                const int64_t *order, scores *found, circe_test_result *result) {
    int64_t half = data->n / 2, rest = data->n - half;
    const circe__fold folds[2] = {{order, order + half, half, rest}, {order + half, order, rest, half}};
    circe_status status = CIRCE_OK;
    for (int k = 0; status == CIRCE_OK && k < 2; k++) {
        CIRCE__OWNED_BY(circe__table_drop) circe__table f = {0};
        status = predict(joint, x, &folds[k], &f);
        if (status == CIRCE_OK) status = half_scores(data, &f, &folds[k], found, result);
        if (status == CIRCE_OK) status = circe__progress(data->context, "halves", k + 1, 2);
    }
    return status;
}

/* What a regression on y misses of x it misses of f, which is made to be like x: so one side is looked at, in all rows,
 * since half of them show less. */
static circe_status check_missed(const circe__data *data, const circe__table *x, circe_test_result *result) {
    circe__regressions made = {0};
    circe__table target = {0}, noise = {0};
    if (data->options.skip_checks || result->p_value > data->options.alpha || data->y.dim == 0) return CIRCE_OK;
    circe_status status = circe__table_copy(data->context, x, &target);
    if (status == CIRCE_OK) circe__standardize(target.data, target.rows, target.rows, target.cols);
    if (status == CIRCE_OK) status = circe__weigh(data, &target);
    const circe__table *targets[2] = {NULL, &target}, *noises[2] = {NULL, &noise};
    if (status == CIRCE_OK) status = circe__regress(data, targets, &made);
    if (status == CIRCE_OK) status = circe__noise(data, &made.side[1], &target, &noise);
    if (status == CIRCE_OK) status = circe__check_missed(data, made.side, noises, NULL, result);
    circe__regressions_free(data->context, &made);
    circe__table_free(data->context, &target);
    circe__table_free(data->context, &noise);
    return status;
}

circe_status circe__test_pcm(const circe__data *data, circe_test_result *result) {
    circe__data joint = {0};
    int64_t q = data->x.dim, n = data->n, *order = NULL;
    int64_t best = 0;
    scores found = {{0.0}, {0.0}};
    result->null = CIRCE_NULL_NORMAL;
    result->null_sd = 1.0;
    if (data->x.constant || data->z.constant) return CIRCE_OK; /* statistic 0, p-value 1 */
    if (q > MOST_COLUMNS)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "pcm takes at most %d columns of x; there are %lld: use kci or rcot",
                          MOST_COLUMNS, (long long)q);
    if (n < 2 * LEAST_HALF)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "pcm needs at least %d rows, since each half tests what the other found; "
                          "there are %lld",
                          2 * LEAST_HALF, (long long)n);
    circe__table x = {n, q, data->x.points, NULL}; /* borrowed */
    circe_status status = circe__split_rows(data, 0, &order);
    if (status == CIRCE_OK) status = joint_data(data, &joint);
    if (status == CIRCE_OK) status = both_halves(data, &joint, &x, order, &found, result);
    for (int64_t c = 1; c < q; c++)
        if (found.T[c] > found.T[best]) best = c;
    if (status == CIRCE_OK) {
        result->statistic = found.T[best];
        result->p_value = circe__clip_p(fmin(1.0, (double)q * circe__normal_tail(found.T[best])));
        if (result->p_value <= data->options.alpha && !isnan(found.within[best]))
            result->within_p = fmin(1.0, (double)q * circe__normal_tail(found.within[best]));
        else
            result->within_share = 0.0;
        result->rank_x = result->rank_z = q;
        result->n_tested = n;
        status = check_missed(data, &x, result);
    }
    circe__free(data->context, order);
    circe__data_free(&joint);
    return status;
}
