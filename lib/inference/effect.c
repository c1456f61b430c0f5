/* Effect sizes: how much, not only whether.
 *
 * Normalised CIRCE. With residuals l_i of (x, y) and r_i of z,
 *
 *     value = sum_{i != j} (l_i.l_j)(r_i.r_j) / sqrt(sum_{i != j} (l_i.l_j)^2  sum_{i != j} (r_i.r_j)^2)
 *
 * the squared norm of the covariance operator over the largest that operators with these two spectra can have (Cauchy
 * and Schwarz; the centred kernel alignment of the residuals). Without the diagonals it has mean 0 under independence,
 * about; what falls outside of [0, 1] by chance is cut.
 *
 * KPC is as the library measures it. Its value is positive under independence: `chance` is its mean in that case.
 *
 * Intervals come from half-samples: the value of a random half differs from that of all rows with the variance that the
 * latter has about the truth. Half-samples have no duplicates, which would make kernel statistics see dependence in a
 * bootstrap. The residuals are those of the whole sample. */
#include "inference/effect.h"
#include "core/settings.h"
#include "core/sort.h"
#include "inference/dependence.h"

#include <math.h>

#include "inference/resample.h"

enum { MOST_ROWS = 4000, KPC_ROWS = 1000, MOST_LEFT = 64, MOST_RIGHT = 32, CHANCE_DRAWS = 5, KPC_HALVES = 40 };

void circe__sides_free(const circe_context *context, circe__sides *sides) {
    circe__table_free(context, &sides->left);
    circe__table_free(context, &sides->right);
}

circe_status circe__sides_make(const circe__data *data, circe__sides *sides) {
    const circe__pair_plan plan = {.regress_x = true};
    circe__data quiet = *data; /* borrows everything */
    circe__regressions regressions;
    circe__pair pair;
    circe_test_result unused = {0};
    double lost;
    quiet.options.skip_checks = 1;
    *sides = (circe__sides){.n = data->n};
    circe_status status = circe__pair_make(&quiet, &plan, &pair, &regressions, &unused);
    if (status != CIRCE_OK) return status;
    if (pair.p == 0 || pair.q == 0) /* nothing to depend */
        pair.left.cols = pair.noise.cols = 0;
    for (int64_t i = 0; i < pair.n; i++) {
        double rest = circe__rest(&regressions.side[1], i);
        for (int64_t k = 0; k < pair.noise.cols; k++) pair.noise.data[i * pair.noise.cols + k] *= rest;
    }
    sides->left = pair.left;
    sides->right = pair.noise;
    pair.left = pair.noise = (circe__table){0};
    circe__pair_free(data->context, &pair);
    circe__regressions_free(data->context, &regressions);
    status = circe__compress(data, &sides->left, NULL, MOST_LEFT, &lost);
    if (status == CIRCE_OK) status = circe__compress(data, &sides->right, NULL, MOST_RIGHT, &lost);
    if (status != CIRCE_OK) circe__sides_free(data->context, sides);
    return status;
}

/* |A'A|^2 - sum |a_i|^4 of a table, scratch (cols, cols). */
static double spread(const circe__data *data, const circe__table *a, double *scratch) {
    double sum = 0.0;
    data->context->backend->algebra->gemm(1, 0, a->cols, a->cols, a->rows, 1.0, a->data, a->cols, a->data, a->cols, 0.0,
                                          scratch, a->cols);
    sum = circe__square_norm(scratch, a->cols * a->cols);
    for (int64_t i = 0; i < a->rows; i++) {
        double square = circe__square_norm(a->data + i * a->cols, a->cols);
        sum -= square * square;
    }
    return fmax(sum, 0.0);
}

circe_status circe__sides_sums(const circe__data *data, const circe__sides *sides, const int64_t *index, int64_t n,
                               double *M, double *value, double *norm) {
    int64_t p = sides->left.cols, q = sides->right.cols;
    circe__table left = sides->left, right = sides->right; /* of all rows: not owned */
    *value = 0.0;
    *norm = 0.0;
    if (p == 0 || q == 0) return CIRCE_OK;
    CIRCE__OWNED double *scratch = circe__alloc(data->context, circe__max(p, q) * circe__max(p, q), sizeof *scratch);
    double diagonal = 0.0;
    circe_status status = scratch == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (index != NULL) {
        left = right = (circe__table){0};
        if (status == CIRCE_OK) status = circe__table_rows(data->context, &sides->left, index, n, &left);
        if (status == CIRCE_OK) status = circe__table_rows(data->context, &sides->right, index, n, &right);
    }
    if (status == CIRCE_OK) {
        data->context->backend->algebra->gemm(1, 0, p, q, n, 1.0, left.data, p, right.data, q, 0.0, M, q);
        for (int64_t i = 0; i < n; i++)
            diagonal += circe__square_norm(left.data + i * p, p) * circe__square_norm(right.data + i * q, q);
        *norm = sqrt(spread(data, &left, scratch) * spread(data, &right, scratch));
        *value = *norm > 0.0 ? (circe__square_norm(M, p * q) - diagonal) / *norm : 0.0;
    }
    if (index != NULL) {
        circe__table_free(data->context, &left);
        circe__table_free(data->context, &right);
    }
    return status;
}

circe_status circe__some_rows(const circe__data *data, int64_t most, int64_t **index, circe__data *part) {
    int64_t n = circe__min(data->n, most);
    *index = circe__alloc(data->context, n, sizeof **index);
    if (*index == NULL) return CIRCE_ERR_MEMORY;
    circe_random_subset((circe_random){data->options.seed, CIRCE__STREAM_ROWS}, data->n, n, *index);
    circe_status status = circe__data_subset(data, *index, n, part);
    if (status == CIRCE_OK) return CIRCE_OK;
    circe__free(data->context, *index);
    *index = NULL;
    return status;
}

/* ---- intervals --------------------------------------------------------------------------------------------------- */

typedef circe_status value_fn(const circe__data *part, void *user, const int64_t *index, int64_t n, double *value);

/* The value of all rows, and of `halves` random halves about their mean. */
static circe_status with_interval(const circe__data *part, value_fn *of, void *user, int64_t halves,
                                  circe_effect *effect) {
    int64_t n = part->n, half = n / 2;
    CIRCE__OWNED int64_t *index = circe__alloc(part->context, n, sizeof *index);
    CIRCE__OWNED double *values = circe__alloc(part->context, halves, sizeof *values);
    double mean = 0.0;
    circe_status status = index == NULL || values == NULL ? CIRCE_ERR_MEMORY : of(part, user, NULL, n, &effect->value);
    for (int64_t h = 0; status == CIRCE_OK && h < halves; h++) {
        circe_random_subset((circe_random){part->options.seed, CIRCE__STREAM_HALVES + (uint64_t)h}, n, half, index);
        status = of(part, user, index, half, &values[h]);
        mean += values[h] / (double)halves;
        if (status == CIRCE_OK) status = circe__progress(part->context, "effect sizes", h + 1, halves);
    }
    if (status == CIRCE_OK) {
        circe__sort(values, halves);
        effect->lower = fmin(fmax(effect->value + circe__quantile(values, halves, 0.025) - mean, 0.0), 1.0);
        effect->upper = fmin(fmax(effect->value + circe__quantile(values, halves, 0.975) - mean, 0.0), 1.0);
        effect->value = fmin(fmax(effect->value, 0.0), 1.0);
    }
    return status;
}

/* ---- normalised CIRCE -------------------------------------------------------------------------------------------- */

static circe_status circe_value(const circe__data *part, void *user, const int64_t *index, int64_t n, double *value) {
    const circe__sides *sides = user;
    double norm, *M = circe__alloc(part->context, sides->left.cols * sides->right.cols + 1, sizeof *M);
    circe_status status = M == NULL ? CIRCE_ERR_MEMORY : circe__sides_sums(part, sides, index, n, M, value, &norm);
    circe__free(part->context, M);
    return status;
}

static circe_status circe_of(const circe__data *part, double *value) {
    circe__sides sides;
    circe_status status = circe__sides_make(part, &sides);
    if (status != CIRCE_OK) return status;
    status = circe_value(part, &sides, NULL, part->n, value);
    circe__sides_free(part->context, &sides);
    return status;
}

static circe_status circe_effect_of(const circe__data *part, int64_t halves, circe_effect *effect) {
    circe__sides sides;
    circe_status status = circe__sides_make(part, &sides);
    if (status != CIRCE_OK) return status;
    status = with_interval(part, circe_value, &sides, halves, effect);
    circe__sides_free(part->context, &sides);
    return status;
}

/* ---- KPC --------------------------------------------------------------------------------------------------------- */

/* If there is no y, one constant column replaces it, which explains nothing. */
static circe_status kpc_value(const circe__data *part, void *user, const int64_t *index, int64_t n, double *value) {
    circe_workspace *workspace = user;
    circe__data rows = {0};
    const circe__data *d = part;
    circe_kernel *constant = NULL;
    CIRCE__OWNED double *zeros = NULL;
    circe_status status = CIRCE_OK;
    *value = 0.0;
    if (part->x.constant || part->z.constant) return CIRCE_OK;
    if (index != NULL) {
        status = circe__data_subset(part, index, n, &rows);
        d = &rows;
    }
    if (status == CIRCE_OK && part->y.dim == 0) {
        zeros = circe__calloc(part->context, n, sizeof *zeros);
        status = zeros == NULL ? CIRCE_ERR_MEMORY
                               : circe_kernel_create(part->context, CIRCE_KERNEL_GAUSSIAN, 1.0, &constant);
    }
    if (status == CIRCE_OK) {
        circe_kernels kernels = {d->x.kernel, constant != NULL ? constant : d->y.kernel, d->z.kernel};
        circe_mat x = circe_mat_f64(d->x.points, n, d->x.dim), z = circe_mat_f64(d->z.points, n, d->z.dim);
        circe_mat y = constant != NULL ? circe_mat_f64(zeros, n, 1) : circe_mat_f64(d->y.points, n, d->y.dim);
        status = circe_measure_kpc(workspace, &kernels, &x, &y, &z, NULL, value, NULL);
    }
    circe_kernel_destroy(constant);
    circe__data_free(&rows);
    return status;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

/* The mean of both if x is drawn again. */
static circe_status by_chance(const circe__data *part, const circe__data *small, circe_workspace *workspace,
                              circe_effects *effects) {
    const circe__data *parts[2] = {part, small};
    circe_status status = CIRCE_OK;
    double sums[2] = {0.0, 0.0};
    for (int k = 0; status == CIRCE_OK && k < 2; k++) {
        circe__resampler resampler = {0};
        double *x = circe__alloc(part->context, parts[k]->n * part->x.dim, sizeof *x);
        status = x == NULL ? CIRCE_ERR_MEMORY : circe__resampler_make(parts[k], &resampler);
        for (uint64_t draw = 0; status == CIRCE_OK && draw < CHANCE_DRAWS; draw++) {
            circe__data null = *parts[k]; /* borrows everything but x */
            double value = 0.0;
            circe__resample(&resampler, draw, x);
            null.x.points = x;
            status = k == 0 ? circe_of(&null, &value) : kpc_value(&null, workspace, NULL, null.n, &value);
            sums[k] += fmin(fmax(value, 0.0), 1.0) / CHANCE_DRAWS;
        }
        circe__resampler_free(part->context, &resampler);
        circe__free(part->context, x);
    }
    effects->circe.chance = sums[0];
    effects->kpc.chance = sums[1];
    return status;
}

circe_status circe_test_effects(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                const circe_test_options *options, int64_t draws, circe_effects *effects) {
    CIRCE_OWN_SETTINGS;
    double start = circe__seconds();
    circe__data data = {0}, part = {0}, small = {0};
    circe_workspace *workspace = NULL;
    int64_t *index = NULL, *few = NULL;
    if (effects == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "effects must not be NULL");
    if (draws < 20)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%lld half-samples are too few; at least 20 are needed",
                          (long long)draws);
    *effects = (circe_effects){0};
    circe_status status = circe__refuse_dependent(options, "an effect size");
    if (status == CIRCE_OK) status = circe__data_begin(context, x, y, z, options, &data);
    if (status != CIRCE_OK) return status;
    int threads = circe__threads_begin(context);
    unsigned rounding = circe__flush_begin();
    status = circe__some_rows(&data, MOST_ROWS, &index, &part);
    if (status == CIRCE_OK) status = circe__some_rows(&data, KPC_ROWS, &few, &small);
    if (status == CIRCE_OK) status = circe_workspace_create(context, &workspace);
    if (status == CIRCE_OK) status = circe_effect_of(&part, draws, &effects->circe);
    if (status == CIRCE_OK)
        status = with_interval(&small, kpc_value, workspace, circe__min(draws, KPC_HALVES), &effects->kpc);
    if (status == CIRCE_OK) status = by_chance(&part, &small, workspace, effects);
    effects->rows = part.n;
    circe__flush_end(rounding);
    status = circe__threads_finish(threads, status);
    circe_workspace_destroy(workspace);
    circe__free(context, index);
    circe__free(context, few);
    circe__data_free(&part);
    circe__data_free(&small);
    circe__data_free(&data);
    effects->seconds = circe__seconds() - start;
    return status;
}
