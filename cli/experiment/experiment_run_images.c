/* A run of the paper's image experiments.
 *
 * A network sees pictures and predicts Y; its prediction is to be independent of the distractor Z given Y. It is
 * trained in domain, where Z goes with Y, or, for comparison, out of domain (OOD), where it does not. The run's seed
 * decides the split, the draws of the task, the initial weights and the order of batches.
 *
 * Judged: the mean squared error on test pictures in domain and OOD. To choose by, in domain only: the error on
 * validation pictures, and how far the prediction there still depends on Z (experiment_yardstick.c). Chunks are of
 * yardstick.chunk rows, smaller ones where there would be fewer than eight. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "circe/status.h"
#include "cli/experiment/experiment_images.h"
#include "cli/experiment/experiment_learner.h"
#include "cli/experiment/experiment_yardstick.h"

enum { LEAST_CHUNK = 8 };

typedef struct job {
    const experiment_settings *settings;
    experiment_learner learner;
    experiment_images images;
    float *prediction; /* (rows of the largest part that is judged) */
} job;

static image_part_kind trained_part(const job *j) {
    return j->settings->method.trained_on == ON_OOD ? IMAGE_OOD_TRAIN : IMAGE_TRAIN;
}

static circe_mat column(double *data, int64_t rows) { return (circe_mat){data, rows, 1, 1, CIRCE_FLOAT64}; }

static void columns(const job *j, image_part_kind p, circe_mat *y, circe_mat *z) {
    const image_part *part = j->images.part[p];
    *y = column(part->y, part->n);
    *z = column(part->z, part->n);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static circe_status check_rows(const job *j) {
    static const struct {
        image_part_kind part;
        const char *name;
    } needed[] = {{IMAGE_VALIDATION, "validation"}, {IMAGE_TEST, "test"}, {IMAGE_HOLDOUT, "holdout"}};
    int64_t batch = j->settings->training.batch, n = j->images.part[trained_part(j)]->n;
    if (n < batch)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "there are %" PRId64 " pictures to train on, less than a batch of %" PRId64, n, batch);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        int64_t rows = j->images.part[needed[i].part]->n;
        if (rows < YARDSTICK_CHUNKS * LEAST_CHUNK)
            return circe_fail(CIRCE_ERR_ARGUMENT, "there are %" PRId64 " %s pictures; at least %d are needed", rows,
                              needed[i].name, YARDSTICK_CHUNKS * LEAST_CHUNK);
    }
    return CIRCE_OK;
}

static circe_status prepare(job *j) {
    circe_mat y, z, holdout_y, holdout_z;
    image_part_kind p = trained_part(j);
    const train_source *source = &j->images.source[p];
    unsigned parts = 1u << p | 1u << IMAGE_VALIDATION | 1u << IMAGE_TEST | 1u << IMAGE_OOD_TEST;
    circe_status status = experiment_images_open(j->learner.context, j->settings, parts, &j->images);
    if (status == CIRCE_OK) status = check_rows(j);
    if (status != CIRCE_OK) return status;
    train_shape input = {.n_dims = 3, .size = {source->channels * source->repeat, source->height, source->width}};
    columns(j, p, &y, &z);
    columns(j, IMAGE_HOLDOUT, &holdout_y, &holdout_z);
    status = experiment_learner_build(&j->learner, input);
    if (status == CIRCE_OK) status = experiment_learner_regularize(&j->learner, &y, &z, &holdout_y, &holdout_z);
    return status;
}

static circe_status train(job *j, experiment_result *result) {
    image_part_kind p = trained_part(j);
    const image_part *part = j->images.part[p];
    train_data data = {.features = j->images.source[p], .target = {part->target, part->n, 1, 1, CIRCE_FLOAT32}};
    if (j->learner.regularizer != NULL) columns(j, p, &data.y, &data.z);
    return experiment_learner_train(&j->learner, &data, result);
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static circe_status judge(job *j, image_part_kind p, double *mse, double *variance) {
    return experiment_learner_judge(&j->learner, &j->images.source[p], j->images.part[p]->target, j->prediction, mse,
                                    variance);
}

/* Of the validation rows' target. */
static double target_variance(const image_part *part) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < part->n; i++) mean += (double)part->target[i] / (double)part->n;
    for (int64_t i = 0; i < part->n; i++) squares += pow((double)part->target[i] - mean, 2);
    return squares / (double)part->n;
}

static circe_status evaluate(job *j, experiment_result *result) {
    double unused, *r = result->number;
    int64_t most = 1;
    for (int p = 0; p < IMAGE_PARTS; p++)
        if (j->images.part[p]->n > most) most = j->images.part[p]->n;
    j->prediction = malloc((size_t)most * sizeof *j->prediction);
    if (j->prediction == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for %" PRId64 " predictions", most);
    circe_status status = judge(j, IMAGE_TEST, &r[NUMBER_MSE], &r[NUMBER_VARIANCE]);
    if (status == CIRCE_OK) status = judge(j, IMAGE_OOD_TEST, &r[NUMBER_OOD_MSE], &unused);
    if (status == CIRCE_OK) status = judge(j, IMAGE_VALIDATION, &r[NUMBER_VALIDATION_MSE], &unused);
    if (status != CIRCE_OK) return status;
    if (!isfinite(r[NUMBER_MSE]) || !isfinite(r[NUMBER_OOD_MSE]) || !isfinite(r[NUMBER_VALIDATION_MSE]))
        return circe_fail(CIRCE_ERR_NUMERIC, "the prediction is no longer finite; a smaller gamma or rate may help");
    r[NUMBER_VALIDATION_VARIANCE] = target_variance(j->images.part[IMAGE_VALIDATION]);
    return experiment_yardstick_apply(j->learner.context, j->settings, j->images.part[IMAGE_VALIDATION],
                                      j->images.part[IMAGE_HOLDOUT], j->prediction, result);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

circe_status experiment_run_images(experiment_work *work, experiment_result *result) {
    job j = {.settings = work->settings};
    circe_status status = experiment_learner_open(work, &j.learner);
    j.learner.checkpoint = work->checkpoint;
    if (status == CIRCE_OK) status = prepare(&j);
    if (status == CIRCE_OK) status = train(&j, result);
    if (status == CIRCE_OK && !work->stopped) status = evaluate(&j, result);
    experiment_images_close(&j.images);
    experiment_learner_close(&j.learner); /* with the context, which the pictures need until they are closed */
    free(j.prediction);
    return status;
}
