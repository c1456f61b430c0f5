/* A run of the paper's synthetic experiments, and of their limits.
 *
 * Features (a, y, z), target b, all standardised by the training sample; the prediction is to be independent of z given
 * y. Training, validation, test and holdout rows are consecutive rows of one endless sample under the run's seed, which
 * also decides the initial weights and the order of batches. Judged on the test sample: mean squared error, VCF with z'
 * from P(Z) and from P(Z | Y), and the variance of the prediction, beside the floor of that sample. Validation numbers
 * are there to choose by. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "paper/paper_parts.h"

/* VCF draws interventions of its own under these, apart from the sample's seed. */
enum { SEED_OF_TEST = 1000003, SEED_OF_VALIDATION = 2000003 };

static const double collapsed_share = 0.4;

typedef enum part { TRAINING, VALIDATION, TEST, HOLDOUT, N_PARTS } part;

typedef struct job {
    const paper_settings *settings;
    synthetic_model model;
    paper_learner learner;
    synthetic_sample sample[N_PARTS];
    synthetic_points points[N_PARTS];
    synthetic_scales scales;
    float *features, *predictions; /* scratch of predict, `capacity` rows */
    int64_t capacity;
} job;

/* ---- before training --------------------------------------------------------------------------------------------- */

static circe_status draw(job *j) {
    const paper_data *d = &j->settings->data;
    const int64_t rows[N_PARTS] = {d->train, d->validation, d->test, d->holdout};
    circe_status status = CIRCE_OK;
    int64_t first = 0;
    for (int p = 0; p < N_PARTS && status == CIRCE_OK; p++) {
        status = synthetic_draw_rows(j->learner.context, &j->model, (uint64_t)j->settings->seed, first, rows[p],
                                     &j->sample[p]);
        first += rows[p];
    }
    if (status == CIRCE_OK) status = synthetic_scales_fit(&j->sample[TRAINING], &j->scales);
    for (int p = 0; p < N_PARTS && status == CIRCE_OK; p++)
        status = synthetic_points_make(&j->scales, &j->sample[p], &j->points[p]);
    return status;
}

static train_data data_of(const synthetic_points *points) {
    return (train_data){
        .features = train_source_floats(&points->features), .target = points->target, .y = points->y, .z = points->z};
}

static circe_status train(job *j, paper_numbers *numbers) {
    const synthetic_points *training = &j->points[TRAINING], *holdout = &j->points[HOLDOUT];
    train_shape input = {.n_dims = 1, .size = {training->features.cols}};
    train_data data = data_of(training);
    circe_status status = paper_learner_build(&j->learner, input, &training->y, &training->z, &holdout->y, &holdout->z);
    if (status == CIRCE_OK) status = paper_learner_train(&j->learner, &data, numbers);
    return status;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static circe_status reserve(job *j, int64_t rows) {
    if (rows <= j->capacity) return CIRCE_OK;
    free(j->features);
    free(j->predictions);
    j->features = malloc((size_t)(rows * j->scales.features.cols) * sizeof *j->features);
    j->predictions = malloc((size_t)rows * sizeof *j->predictions);
    j->capacity = j->features != NULL && j->predictions != NULL ? rows : 0;
    return j->capacity > 0 ? CIRCE_OK : circe_fail(CIRCE_ERR_MEMORY, "no memory for %" PRId64 " predictions", rows);
}

/* synthetic_predict: of the standardised b. */
static circe_status predict(void *user, int64_t rows, const double *a, const double *y, const double *z,
                            double *prediction) {
    job *j = user;
    circe_status status = reserve(j, rows);
    if (status == CIRCE_OK)
        status = synthetic_standardise(j->learner.context, &j->model, &j->scales, rows, a, y, z, j->features);
    if (status == CIRCE_OK) status = train_network_predict(j->learner.network, rows, j->features, j->predictions);
    for (int64_t i = 0; status == CIRCE_OK && i < rows; i++) prediction[i] = (double)j->predictions[i];
    return status;
}

static circe_status judge(job *j, part p, double *mse, double *variance) {
    train_source points = train_source_floats(&j->points[p].features);
    circe_status status = reserve(j, points.n);
    if (status != CIRCE_OK) return status;
    return paper_learner_judge(&j->learner, &points, j->points[p].target.data, j->predictions, mse, variance);
}

static circe_status invariance(job *j, part p, bool support, int64_t offset, double *vcf) {
    const paper_settings *s = j->settings;
    int64_t points = s->evaluation.points < j->sample[p].n ? s->evaluation.points : j->sample[p].n;
    return synthetic_vcf(j->learner.context, &j->model, &j->sample[p], points, s->evaluation.draws, support,
                         (uint64_t)(s->seed + offset), predict, j, vcf);
}

/* E[Var(B | Y)] of one part, in units of Var(B). */
static circe_status find_floor(job *j, part p, int64_t offset, double *floor) {
    double variance, deviation = j->scales.target.deviation[0];
    circe_status status = synthetic_conditional_variance(j->learner.context, &j->model, &j->sample[p],
                                                         (uint64_t)(j->settings->seed + offset), &variance);
    if (status == CIRCE_OK) *floor = variance / (deviation * deviation);
    return status;
}

static circe_status evaluate(job *j, paper_numbers *numbers) {
    double unused, *r = numbers->at;
    circe_status status = judge(j, TEST, &r[NUMBER_MSE], &r[NUMBER_VARIANCE]);
    if (status == CIRCE_OK) status = judge(j, VALIDATION, &r[NUMBER_VALIDATION_MSE], &unused);
    if (status == CIRCE_OK) status = invariance(j, TEST, false, SEED_OF_TEST, &r[NUMBER_VCF]);
    if (status == CIRCE_OK) status = invariance(j, TEST, true, SEED_OF_TEST, &r[NUMBER_VCF_SUPPORT]);
    if (status == CIRCE_OK) status = invariance(j, VALIDATION, false, SEED_OF_VALIDATION, &r[NUMBER_VALIDATION_VCF]);
    if (status == CIRCE_OK) status = find_floor(j, TEST, SEED_OF_TEST, &r[NUMBER_FLOOR]);
    if (status == CIRCE_OK) status = find_floor(j, VALIDATION, SEED_OF_VALIDATION, &r[NUMBER_VALIDATION_FLOOR]);
    if (status != CIRCE_OK) return status;
    r[NUMBER_COLLAPSED] = r[NUMBER_VARIANCE] < collapsed_share * (1 - r[NUMBER_FLOOR]);
    if (!isfinite(r[NUMBER_MSE]) || !isfinite(r[NUMBER_VCF]) || !isfinite(r[NUMBER_VCF_SUPPORT]))
        return circe_fail(CIRCE_ERR_NUMERIC, "the prediction is no longer finite; a smaller gamma or rate may help");
    return CIRCE_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void job_free(job *j) {
    paper_learner_close(&j->learner);
    for (int p = 0; p < N_PARTS; p++) {
        synthetic_points_free(&j->points[p]);
        synthetic_free(&j->sample[p]);
    }
    synthetic_scales_free(&j->scales);
    free(j->features);
    free(j->predictions);
}

circe_status paper_run_synthetic(paper_job *work, paper_numbers *numbers) {
    const paper_settings *s = work->settings;
    job j = {.settings = s,
             .model = paper_model_synthetic(&s->model, s->d),
             .learner = {.job = work, .context = work->task->context}};
    circe_status status = draw(&j);
    if (status == CIRCE_OK) status = train(&j, numbers);
    if (status == CIRCE_OK && !work->stopped) status = evaluate(&j, numbers);
    job_free(&j);
    return status;
}

circe_status paper_run_limits(paper_job *work, paper_numbers *numbers) {
    const paper_settings *s = work->settings;
    synthetic_model model = paper_model_synthetic(&s->model, s->d);
    synthetic_limits limits;
    circe_status status =
        synthetic_compute_limits(work->task->context, &model, (uint64_t)s->seed, s->limits.samples, &limits);
    if (status != CIRCE_OK) return status;
    numbers->at[NUMBER_FLOOR] = limits.floor;
    numbers->at[NUMBER_VCF] = limits.vcf;
    numbers->at[NUMBER_VCF_SUPPORT] = limits.vcf_support;
    numbers->at[NUMBER_FLOOR_ERROR] = limits.floor_error;
    numbers->at[NUMBER_VCF_ERROR] = limits.vcf_error;
    numbers->at[NUMBER_VCF_SUPPORT_ERROR] = limits.vcf_support_error;
    return CIRCE_OK;
}
