/* A conditional model of x given y to draw from: x*_i = mean(y_i) + residual of another row whose y is near.
 *
 * The mean is the kernel ridge regression of x's columns with the ridge of leave-one-out; residuals are divided by
 * sqrt(1 - leverage). The neighbour j of i is drawn with a chance proportional to k(y_i, y_j), where k has a tenth of
 * the regression's sigma2: rows are proposed at random and accepted with that chance; after 64 proposals, the nearest
 * of them is taken. So the spread and shape of the noise may change along y. The draw depends only on y and on x of
 * other rows, hence x* and z are independent given y by construction. Categories, whose residuals mean nothing, are
 * copied from the neighbour. O(n) kernel values per draw. */
#include "inference/resample.h"

#include <math.h>
#include <string.h>

#include "inference/faces.h"

enum { PROPOSALS = 64 };

void circe__resampler_free(const circe_context *context, circe__resampler *r) {
    circe__free(context, r->fitted);
    circe__free(context, r->residual);
    circe__free(context, r->factors);
    circe__free(context, r->near.points);
    circe__free(context, r->near.free);
    circe_kernel_destroy(r->near.kernel);
    *r = (circe__resampler){0};
}

/* Makes columns a target: centred and of unit size, so that one ridge suits all; categories become 0. */
static circe_status scaled_columns(const circe__data *part, circe__table *target, double *scale) {
    int64_t n = part->n, dim = part->x.dim;
    circe_status status = circe__table_new(part->context, n, dim, target);
    if (status != CIRCE_OK) return status;
    memcpy(target->data, part->x.points, (size_t)(n * dim) * sizeof(double));
    circe__weigh(part, target);
    for (int64_t c = 0; c < dim; c++) {
        double square = 0.0;
        for (int64_t i = 0; i < n; i++) square += target->data[i * dim + c] * target->data[i * dim + c];
        scale[c] = circe__is_category(part->x.kernel, dim, c) || !(square > 0.0) ? 0.0 : sqrt(square / (double)n);
        for (int64_t i = 0; i < n; i++)
            target->data[i * dim + c] = scale[c] > 0.0 ? target->data[i * dim + c] / scale[c] : 0.0;
    }
    return CIRCE_OK;
}

/* r->near: y as the regression saw it, at a tenth of its sigma2. */
static circe_status set_near(circe__resampler *r, const circe__data *part, const circe__regressor *regressor,
                             const int64_t *index) {
    const circe__sight *sight = &regressor->spectrum->sight;
    const circe__variable *face = circe__face_of(part, sight);
    if (face->dim == 0) return CIRCE_OK;
    double multiple = part->by_value ? 1e-3 : 0.1 * sight->multiple;
    circe_status status = circe__variable_subset(part, face, index, part->n, &r->near);
    for (int64_t f = 0; status == CIRCE_OK && f < r->near.kernel->n_factors; f++)
        if (r->near.free[f]) r->near.kernel->factors[f].sigma2 *= multiple;
    return status == CIRCE_OK ? circe__resolve(part->context, r->near.kernel, face->dim, "y", &r->factors) : status;
}

static circe_status fit_columns(circe__resampler *r, circe__data *part, const int64_t *index) {
    int64_t n = part->n, dim = part->x.dim;
    CIRCE__OWNED_BY(circe__table_drop) circe__table target = {0};
    circe__regressions made = {0};
    CIRCE__OWNED double *scale = circe__alloc(part->context, dim, sizeof *scale);
    part->options.undersmoothing = 1.0;
    circe_status status = scale == NULL ? CIRCE_ERR_MEMORY : scaled_columns(part, &target, scale);
    const circe__table *targets[2] = {&target, NULL};
    if (status == CIRCE_OK) status = circe__regress(part, targets, &made);
    if (status == CIRCE_OK) status = circe__residual(&made.side[0], &target);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++)
        for (int64_t c = 0; c < dim; c++) {
            double x = part->x.points[i * dim + c], e = scale[c] * target.data[i * dim + c] / part->root[i];
            double rest = circe__rest(&made.side[0], i);
            r->fitted[i * dim + c] = scale[c] > 0.0 ? x - e : 0.0;
            r->residual[i * dim + c] = scale[c] > 0.0 ? e / sqrt(rest) : x;
        }
    if (status == CIRCE_OK) status = set_near(r, part, &made.side[0], index);
    circe__regressions_free(part->context, &made);
    return status;
}

circe_status circe__resampler_make(const circe__data *data, circe__resampler *r) {
    int64_t n = data->n, dim = data->x.dim;
    circe__data part = {0};
    *r = (circe__resampler){.data = data};
    int64_t *index = circe__alloc(data->context, n, sizeof *index);
    r->fitted = circe__alloc(data->context, n * dim, sizeof *r->fitted);
    r->residual = circe__alloc(data->context, n * dim, sizeof *r->residual);
    circe_status status = CIRCE_ERR_MEMORY;
    if (index != NULL && r->fitted != NULL && r->residual != NULL) {
        for (int64_t i = 0; i < n; i++) index[i] = i;
        status = circe__data_subset(data, index, n, &part);
    }
    if (status == CIRCE_OK) status = fit_columns(r, &part, index);
    circe__free(data->context, index);
    circe__data_free(&part);
    if (status != CIRCE_OK) circe__resampler_free(data->context, r);
    return status;
}

/* Draws another row by its nearness in y; `uniform` has two numbers per proposal. */
static int64_t neighbour(const circe__resampler *r, int64_t i, const double *uniform) {
    const circe__data *d = r->data;
    int64_t best = (i + 1) % d->n;
    double highest = -1.0;
    for (int64_t t = 0; t < PROPOSALS; t++) {
        int64_t j = (int64_t)(uniform[2 * t] * (double)(d->n - 1));
        if (j >= i) j++; /* never the row itself */
        if (r->near.dim == 0) return j;
        circe__factors kernel = {r->factors, r->near.kernel->n_factors};
        double k = circe__kernel_value(kernel, r->near.points + i * r->near.dim, r->near.points + j * r->near.dim);
        if (uniform[2 * t + 1] < k) return j;
        if (k > highest) {
            highest = k;
            best = j;
        }
    }
    return best;
}

void circe__resample(const circe__resampler *r, uint64_t draw, double *x) {
    int64_t n = r->data->n, dim = r->data->x.dim;
    circe_random generator = {r->data->options.seed, CIRCE__STREAM_RESAMPLE + draw};
    for (int64_t i = 0; i < n; i++) {
        double uniform[2 * PROPOSALS];
        circe_random_uniform(generator, (uint64_t)(i * 2 * PROPOSALS), 2 * PROPOSALS, uniform);
        int64_t j = neighbour(r, i, uniform);
        for (int64_t c = 0; c < dim; c++) x[i * dim + c] = r->fitted[i * dim + c] + r->residual[j * dim + c];
    }
}
