/* The spectrum of a regression on y: features of y under a sight, decomposed (regression.c has the symbols). */
#include <math.h>
#include <string.h>

#include "inference/faces.h"

enum {
    LEAST_MAX_RANK = 128,
    MOST_MAX_RANK = 760, /* below the rank from which pivoting uses LAPACK */
};

void circe__spectrum_free(const circe_context *context, circe__spectrum *spectrum) {
    circe__table Q = {spectrum->n, spectrum->rank, spectrum->Q, spectrum->device};
    circe__table_free(context, &Q);
    circe__free(context, spectrum->s);
    *spectrum = (circe__spectrum){0};
}

static int64_t most_rank(const circe__data *data) {
    if (data->options.max_rank > 0) return circe__min(data->options.max_rank, MOST_MAX_RANK);
    int64_t share = circe__only_categories(&data->y) ? 2 : 4; /* no class resembles another that could stand for it */
    return circe__min(circe__max(data->total / share, LEAST_MAX_RANK), MOST_MAX_RANK);
}

/* table := table V', V (rank, columns of the table). */
static circe_status rotate(const circe_context *context, circe__table *table, const double *V, int64_t rank) {
    circe__table rotated;
    circe_status status = circe__turned(context, table, V, rank, &rotated);
    if (status != CIRCE_OK) return status;
    circe__table_free(context, table);
    *table = rotated;
    return CIRCE_OK;
}

/* Q and s from F, which is consumed; `also`, of the same columns, is rotated with it. Drops directions below
 * rounding. */
circe_status circe__decompose_needed(const circe__data *data, circe__table *F, circe__table *also,
                                     circe__needed_fn *count, void *user, circe__spectrum *spectrum) {
    const circe_context *context = data->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t r = F->cols, first = 0;
    CIRCE__OWNED double *V = circe__alloc(context, 3 * r * r + 6 * r + 8, sizeof *V);
    double *s = circe__alloc(context, r + 1, sizeof *s);
    CIRCE__OWNED int *iwork = circe__alloc(context, 3 + 5 * r, sizeof *iwork);
    circe__table Q = {0};
    circe_status status = V == NULL || s == NULL || iwork == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status != CIRCE_OK) goto done;
    status = circe__squared(context, F, V);
    if (status != CIRCE_OK) goto done;
    if (r > 0 && algebra->eigen(r, V, s, V + r * r, iwork) != 0) {
        status = circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of y's kernel did not converge");
        goto done;
    }
    while (first < r && s[first] <= 1e-13 * s[r - 1]) first++; /* ascending */
    int64_t rank = r - first;
    if (count != NULL) status = count(user, F, V + first * r, s + first, r - first, &rank);
    if (status != CIRCE_OK) goto done;
    first = r - rank;
    status = circe__turned(context, F, V + first * r, rank, &Q);
    if (status != CIRCE_OK) goto done;
    if (also != NULL) status = rotate(context, also, V + first * r, rank);
    memmove(s, s + first, (size_t)rank * sizeof *s);
    spectrum->n = F->rows;
    spectrum->rank = rank;
    spectrum->Q = Q.data;
    spectrum->device = Q.device;
    spectrum->s = s;
    s = NULL;

done:
    circe__free(context, s);
    circe__table_free(context, F);
    return status;
}

circe_status circe__decompose(const circe__data *data, circe__table *F, circe__table *also, circe__spectrum *spectrum) {
    return circe__decompose_needed(data, F, also, NULL, NULL, spectrum);
}

circe_status circe__features_y(const circe__data *data, const circe__sight *sight, circe__table *features,
                               double *left) {
    circe_kernel *kernel = NULL;
    *left = 0.0;
    if (data->y.dim == 0) return circe__table_at(data->context, data->device, data->total, 0, features);
    int64_t most = sight->rank > 0 ? circe__min(sight->rank, most_rank(data)) : most_rank(data);
    if (!data->by_value)
        return circe__face_features(data, sight, sight->left_out > 0.0 ? sight->left_out : 1e-8, most, features, left);
    circe_status status = circe_kernel_create(data->context, CIRCE_KERNEL_DELTA, 0.0, &kernel);
    if (status == CIRCE_OK)
        status = circe__features_of(data, kernel, data->y.points, data->total, data->y.dim, 1e-8, most_rank(data), "y",
                                    features, left);
    circe_kernel_destroy(kernel);
    return status;
}

circe_status circe__spectrum_make(const circe__data *data, const circe__sight *sight, circe__spectrum *spectrum) {
    CIRCE__OWNED_BY(circe__table_drop) circe__table F = {0};
    *spectrum = (circe__spectrum){.sight = *sight};
    circe_status status = circe__features_y(data, sight, &F, &spectrum->left_out);
    if (status == CIRCE_OK) status = circe__weigh(data, &F);
    if (status == CIRCE_OK) status = circe__decompose(data, &F, NULL, spectrum);
    if (status != CIRCE_OK) circe__spectrum_free(data->context, spectrum);
    return status;
}

/* Least squares on [1, y]: uses the scaled columns, without a ridge. */
circe_status circe__spectrum_linear(const circe__data *data, circe__spectrum *spectrum) {
    const circe__variable *y = circe__columns(data);
    int64_t n = data->total, d = y->dim, kept = 0;
    CIRCE__OWNED_BY(circe__table_drop) circe__table F = {0};
    *spectrum = (circe__spectrum){.sight.parts = CIRCE__LINEAR};
    circe_status status = circe__table_new(data->context, n, d, &F);
    if (status != CIRCE_OK) return status;
    if (d > 0) memcpy(F.data, y->points, (size_t)(n * d) * sizeof(double));
    for (int64_t c = 0; c < d; c++) { /* largest element 1: no overflow, and all columns count alike */
        double largest = 0.0;
        for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(F.data[i * d + c]));
        for (int64_t i = 0; largest > 0.0 && i < n; i++) F.data[i * d + c] /= largest;
    }
    status = circe__weigh(data, &F);
    if (status == CIRCE_OK) status = circe__to_device(data, &F);
    if (status == CIRCE_OK) status = circe__decompose(data, &F, NULL, spectrum);
    if (status != CIRCE_OK) return status;
    while (kept < spectrum->rank && spectrum->s[kept] <= 1e-10 * spectrum->s[spectrum->rank - 1]) kept++;
    for (int64_t k = 0; k < kept; k++) spectrum->s[k] = HUGE_VAL; /* collinear: 1 / s is 0 */
    return CIRCE_OK;
}
