/* VCF: how much a prediction moves when z is set to z', and A follows.
 *
 *     VCF = mean_i Var_k f(A*(z'_ik, y_i, e_i), y_i, z'_ik)        i: points, k: draws; e_i the row's own noise of A
 *
 * z'_ik is a whole row of the sample, picked at random (P(Z)), or a fresh draw from P(Z | y_i). Both are functions of
 * (seed, i, k). The predictor is called on blocks of whole points, so that a network runs at its full width; cost
 * points * draws predictions, memory a block. */
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "circe/status.h"
#include "train/equations.h"
#include "train/parallel.h"

enum { ROWS_A_CALL = 65536 };

typedef struct job {
    const circe_context *context;
    const synthetic_model *model;
    const synthetic_sample *sample;
    int64_t draws, d_y, d_z;
    bool support;
    uint64_t seed;
} job;

/* The rows of a call, as the predictor gets them; (points of the block * draws) of each. */
typedef struct block {
    double *a, *y, *z, *prediction;
} block;

static void pick_z(const job *j, int64_t row, int64_t draw, const double *y, double *z) {
    double where;
    if (j->support) {
        synthetic_draw_z(j->model, y, j->seed, row, draw, z);
        return;
    }
    circe_random_uniform(equation_random(j->seed, EQUATION_Z_OF_ROWS, row), (uint64_t)draw, 1, &where);
    int64_t n = j->sample->n, other = (int64_t)(where * (double)n);
    if (other >= n) other = n - 1; /* where may round to 1 */
    memcpy(z, (const double *)j->sample->z.data + other * j->d_z, (size_t)j->d_z * sizeof *z);
}

static void intervene(const job *j, int64_t row, int64_t place, const block *to) {
    const double *y = (const double *)j->sample->y.data + row * j->d_y;
    double noise = ((const double *)j->sample->noise_a.data)[row];
    for (int64_t k = 0; k < j->draws; k++) {
        int64_t at = place * j->draws + k;
        double *z = to->z + at * j->d_z;
        pick_z(j, row, k, y, z);
        to->a[at] = synthetic_intervene(j->model, z, y, noise);
        memcpy(to->y + at * j->d_y, y, (size_t)j->d_y * sizeof *y);
    }
}

/* Points whose first is row `first` of the sample. */
typedef struct stretch {
    const job *job;
    int64_t first;
    const block *to;
} stretch;

static void intervene_part(void *user, int64_t first, int64_t n) {
    const stretch *s = user;
    for (int64_t i = first; i < first + n; i++) intervene(s->job, s->first + i, i, s->to);
}

/* Points first .. first + n - 1: the sum of their variances. */
static circe_status add_block(const job *j, int64_t first, int64_t n, synthetic_predict predict, void *user, block *b,
                              double *sum) {
    stretch s = {.job = j, .first = first, .to = b};
    train_ranges(j->context, n, 1, intervene_part, &s);
    circe_status status = predict(user, n * j->draws, b->a, b->y, b->z, b->prediction);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++) *sum += equation_variance(b->prediction + i * j->draws, j->draws);
    return CIRCE_OK;
}

static circe_status check(const synthetic_model *model, const synthetic_sample *sample, int64_t points, int64_t draws) {
    circe_status status = synthetic_check(model);
    if (status != CIRCE_OK) return status;
    if (sample->y.data == NULL || sample->y.cols != synthetic_dim_y(model) || sample->z.cols != synthetic_dim_z(model))
        return circe_fail(CIRCE_ERR_SHAPE, "the sample does not come from %s with d = %lld",
                          synthetic_name(model->kind), (long long)model->d);
    if (points < 1 || points > sample->n)
        return circe_fail(CIRCE_ERR_ARGUMENT, "VCF cannot use %lld points of a sample of %lld; choose 1 to all of them",
                          (long long)points, (long long)sample->n);
    if (draws < 2 || draws > (INT64_C(1) << 30))
        return circe_fail(CIRCE_ERR_ARGUMENT, "VCF needs at least 2 draws per point, not %lld", (long long)draws);
    return CIRCE_OK;
}

circe_status synthetic_vcf(const circe_context *context, const synthetic_model *model, const synthetic_sample *sample,
                           int64_t points, int64_t draws, bool support, uint64_t seed, synthetic_predict predict,
                           void *user, double *vcf) {
    circe_status status = check(model, sample, points, draws);
    if (status != CIRCE_OK) return status;
    job j = {.context = context,
             .model = model,
             .sample = sample,
             .draws = draws,
             .d_y = synthetic_dim_y(model),
             .d_z = synthetic_dim_z(model),
             .support = support,
             .seed = seed};
    int64_t at_once = ROWS_A_CALL / draws > 0 ? ROWS_A_CALL / draws : 1;
    if (at_once > points) at_once = points;
    size_t rows = (size_t)(at_once * draws);
    double sum = 0.0;
    size_t d_y = (size_t)j.d_y, d_z = (size_t)j.d_z;
    OWNED double *numbers = malloc(rows * (d_y + d_z + 2) * sizeof *numbers);
    if (numbers == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %zu interventions", rows);
    block b = {.a = numbers, .prediction = numbers + rows, .y = numbers + 2 * rows, .z = numbers + (2 + d_y) * rows};
    for (int64_t first = 0; status == CIRCE_OK && first < points; first += at_once)
        status = add_block(&j, first, points - first < at_once ? points - first : at_once, predict, user, &b, &sum);
    if (status == CIRCE_OK) *vcf = sum / (double)points;
    return status;
}
