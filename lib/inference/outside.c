/* Regressions out of sample: fitted on some rows, used for others.
 *
 *     F (n, r)     features of y, made once for all rows, folds and ridges
 *     train        F_train'F_train about its mean = V' diag(s) V (r, r): all that a fold costs beside two products
 *     residual     t_i - mean - Q_i diag(1/(s + ridge)) Q_train' t_train,   Q = (F - mean) V'
 *
 * One factorisation of the kernel serves every fold; each has an r by r eigendecomposition, which serves every ridge.
 */
#include <math.h>
#include <string.h>

#include "inference/inference_parts.h"

circe_status circe__table_rows(const circe_context *context, const circe__table *from, const int64_t *index, int64_t n,
                               circe__table *to) {
    circe_status status = circe__table_new(context, n, from->cols, to);
    return status == CIRCE_OK && from->cols > 0 ? circe__rows_of(from, index, n, to->data) : status;
}

void circe__outside_free(const circe_context *context, circe__outside *fit) {
    circe__data_free(&fit->part);
    circe__spectrum_free(context, &fit->spectrum);
    circe__table_free(context, &fit->Q_test);
    circe__free(context, fit->regressor.leverage);
    *fit = (circe__outside){0};
}

/* Rows of a table, each times its root, minus root times the training rows' weighted mean. */
static circe_status centered_rows(const circe__data *data, const circe__table *from, const circe__fold *fold,
                                  circe__table *train, circe__table *test) {
    int64_t q = from->cols;
    double length = 0.0, *mean = circe__calloc(data->context, q + 1, sizeof *mean);
    circe_status status =
        mean == NULL ? CIRCE_ERR_MEMORY : circe__table_rows(data->context, from, fold->train, fold->n_train, train);
    if (status == CIRCE_OK && test != NULL)
        status = circe__table_rows(data->context, from, fold->test, fold->n_test, test);
    for (int64_t i = 0; status == CIRCE_OK && i < fold->n_train; i++) {
        double weight = data->root[fold->train[i]] * data->root[fold->train[i]];
        length += weight;
        for (int64_t k = 0; k < q; k++) mean[k] += weight * train->data[i * q + k];
    }
    for (int64_t i = 0; status == CIRCE_OK && i < fold->n_train; i++)
        for (int64_t k = 0; k < q; k++)
            train->data[i * q + k] = data->root[fold->train[i]] * (train->data[i * q + k] - mean[k] / length);
    for (int64_t i = 0; status == CIRCE_OK && test != NULL && i < fold->n_test; i++)
        for (int64_t k = 0; k < q; k++)
            test->data[i * q + k] = data->root[fold->test[i]] * (test->data[i * q + k] - mean[k] / length);
    circe__free(data->context, mean);
    return status;
}

/* As much of a data set as regressions need. */
static circe_status training_part(const circe__data *data, const circe__fold *fold, circe__data *part) {
    int64_t n = fold->n_train;
    double length = 0.0;
    *part = (circe__data){.context = data->context, .options = data->options, .given = n, .n = n, .total = n};
    part->by_value = data->by_value;
    part->root = circe__alloc(data->context, n, sizeof *part->root);
    part->unit = circe__alloc(data->context, n, sizeof *part->unit);
    if (part->root == NULL || part->unit == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        part->root[i] = data->root[fold->train[i]];
        length += part->root[i] * part->root[i];
    }
    for (int64_t i = 0; i < n; i++) part->unit[i] = part->root[i] / sqrt(length);
    return CIRCE_OK;
}

static circe_status choose_ridge(circe__outside *fit, const circe__table *target) {
    const circe_test_options *o = &fit->part.options;
    CIRCE__OWNED double *errors = circe__alloc(fit->part.context, o->n_ridge, sizeof *errors);
    double alone = 0.0;
    int64_t best = 0;
    if (errors == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__loo(&fit->part, &fit->spectrum, target, o->ridge, o->n_ridge, errors, &alone);
    for (int64_t l = 1; status == CIRCE_OK && l < o->n_ridge; l++)
        if (errors[l] < errors[best]) best = l;
    double chosen = fit->part.by_value ? CIRCE__NO_RIDGE : o->ridge[best];
    double ridge = fit->part.by_value ? chosen : circe__undersmoothed(&fit->spectrum, chosen, o->undersmoothing);
    if (status == CIRCE_OK) status = circe__regressor_set(&fit->part, &fit->spectrum, ridge, &fit->regressor);
    fit->regressor.info.ridge_chosen = chosen;
    fit->regressor.info.loo_error = alone > 0.0 ? errors[best] / alone : 1.0;
    return status;
}

circe_status circe__outside_fit(const circe__data *data, const circe__table *features, const circe__table *target,
                                const circe__fold *fold, circe__outside *fit) {
    circe__table train = {0}, about = {0};
    *fit = (circe__outside){0};
    circe_status status = training_part(data, fold, &fit->part);
    if (status == CIRCE_OK) status = centered_rows(data, features, fold, &train, &fit->Q_test);
    if (status == CIRCE_OK) status = circe__decompose(&fit->part, &train, &fit->Q_test, &fit->spectrum);
    if (status == CIRCE_OK) status = centered_rows(data, target, fold, &about, NULL);
    if (status == CIRCE_OK) status = choose_ridge(fit, &about);
    circe__table_free(data->context, &train);
    circe__table_free(data->context, &about);
    if (status != CIRCE_OK) circe__outside_free(data->context, fit);
    return status;
}

circe_status circe__outside_residual(const circe__data *data, const circe__outside *fit, const circe__table *target,
                                     const circe__fold *fold, circe__table *residual) {
    const circe__algebra *algebra = data->context->backend->algebra;
    CIRCE__OWNED_BY(circe__table_drop) circe__table train = {0};
    int64_t q = target->cols, r = fit->spectrum.rank, ld = circe__max(r, 1);
    CIRCE__OWNED double *inner = circe__alloc(data->context, r * q + 1, sizeof *inner);
    circe_status status = inner == NULL ? CIRCE_ERR_MEMORY : centered_rows(data, target, fold, &train, residual);
    if (status == CIRCE_OK && q > 0) {
        algebra->gemm(1, 0, r, q, fold->n_train, 1.0, fit->spectrum.Q, ld, train.data, q, 0.0, inner, q);
        for (int64_t k = 0; k < r; k++)
            for (int64_t c = 0; c < q; c++) inner[k * q + c] /= fit->spectrum.s[k] + fit->regressor.ridge;
        algebra->gemm(0, 0, fold->n_test, q, r, -1.0, fit->Q_test.data, ld, inner, q, 1.0, residual->data, q);
    }
    return status;
}

/* ---- on some rows, with a ridge that is given -------------------------------------------------------------------- */

circe_status circe__local_make(const circe__data *data, const int64_t *index, int64_t n, const circe__sight *sight,
                               double ridge, circe__local *local) {
    *local = (circe__local){0};
    circe_status status = circe__data_subset(data, index, n, &local->part);
    if (status == CIRCE_OK) status = circe__spectrum_make(&local->part, sight, &local->spectrum);
    if (status == CIRCE_OK) status = circe__regressor_set(&local->part, &local->spectrum, ridge, &local->regressor);
    if (status != CIRCE_OK) circe__local_free(data->context, local);
    return status;
}

void circe__local_free(const circe_context *context, circe__local *local) {
    circe__free(context, local->regressor.leverage);
    circe__spectrum_free(context, &local->spectrum);
    circe__data_free(&local->part);
    *local = (circe__local){0};
}
