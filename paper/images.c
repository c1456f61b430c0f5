/* A run of the paper's image experiments.
 *
 * A network sees pictures and predicts Y; its prediction is to be independent of the distractor Z given Y. It is
 * trained in domain, where Z goes with Y, or, for comparison, out of domain (OOD), where it does not. The run's seed
 * decides the split, the draws of the task, the initial weights and the order of batches.
 *
 * Judged: the mean squared error on test pictures in domain and OOD. To choose by, in domain only: the error on
 * validation pictures, and how far the prediction there still depends on Z (yardstick.c). Chunks are of
 * yardstick.chunk rows, smaller ones where there would be fewer than eight. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "images/dsprites_task.h"
#include "images/yaleb_task.h"
#include "paper/paper_parts.h"

enum { LEAST_CHUNK = 8 };

/* The parts of an image task, whichever set of pictures they are of. */
typedef struct picture_task {
    const image_part *part[IMAGE_PARTS]; /* points in random order */
    train_source source[IMAGE_PARTS];    /* the same as a network is fed them */
    /* what they are made of */
    paper_album *album;
    dsprites_task dsprites;
    yaleb_store store;
    yaleb_task yaleb;
} picture_task;

/* ---- dSprites ---------------------------------------------------------------------------------------------------- */

static int64_t rows_or(int64_t rows, int64_t all) { return rows > 0 ? rows : all; }

/* A run alone draws what it shows. Runs together draw all pictures, once, unless each shows but few of them. */
static circe_status draw_sprites(circe_context *context, bool together, unsigned parts, picture_task *task) {
    enum { MANY = DSPRITES_IMAGES / 4 };
    int64_t shown = 0;
    for (int p = 0; p < IMAGE_PARTS; p++) shown += (parts >> p & 1u) != 0 ? task->dsprites.parts[p].points.n : 0;
    if (!together || shown < MANY) return dsprites_task_render(context, parts, &task->dsprites);
    circe_status status = paper_album_open(NULL, &task->album);
    if (status == CIRCE_OK) dsprites_task_use(&task->dsprites, paper_album_drawn(task->album));
    return status;
}

static circe_status show_sprites(circe_context *context, const paper_job *work, unsigned parts, picture_task *task) {
    const paper_settings *s = work->settings;
    circe_tensor pixels;
    if (s->model.pictures == NULL) return draw_sprites(context, work->together, parts, task);
    circe_status status = paper_pictures_open(&s->model, &task->album, &pixels);
    if (status != CIRCE_OK) return status;
    if (pixels.shape[0] != DSPRITES_IMAGES || pixels.shape[1] != DSPRITES_BYTES)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: these are not the pictures of dSprites", s->model.pictures);
    dsprites_task_use(&task->dsprites, pixels.data);
    return CIRCE_OK;
}

static circe_status open_sprites(circe_context *context, const paper_job *work, unsigned parts, picture_task *task) {
    const paper_settings *s = work->settings;
    dsprites_task_options options;
    dsprites_task_options_init(&options);
    options.dependence = (dsprites_dependence)(s->model.dependence + (int)DSPRITES_LINEAR);
    options.seed = (uint64_t)s->seed;
    options.n_train = rows_or(s->data.train, DSPRITES_MOST_TRAIN);
    options.n_validation = rows_or(s->data.validation, DSPRITES_MOST_VALIDATION);
    options.n_test = rows_or(s->data.test, DSPRITES_MOST_TEST);
    options.n_holdout = rows_or(s->data.holdout, DSPRITES_MOST_HOLDOUT);
    options.holdout_in_training = s->model.holdout_in_training;
    circe_status status = dsprites_task_make(context, &options, &task->dsprites);
    if (status == CIRCE_OK) status = show_sprites(context, work, parts, task);
    for (int p = 0; p < IMAGE_PARTS && status == CIRCE_OK; p++) {
        task->part[p] = &task->dsprites.parts[p].points;
        task->source[p] = dsprites_task_source(&task->dsprites, (image_part_kind)p);
    }
    return status;
}

/* ---- faces ------------------------------------------------------------------------------------------------------- */

enum { STREAM_ORDER = 0x6f726472 }; /* "ordr" */

/* The points in a random order, and only the first `rows` of them (0: all): the task has them sorted by person and
 * pose, and what is left out, or measured together, should not be. */
static circe_status shuffle(image_part *part, uint64_t seed, int p, int64_t rows) {
    image_part mixed;
    int64_t n = part->n, *order = malloc((size_t)(n > 0 ? n : 1) * sizeof *order);
    if (order == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for the order of %" PRId64 " pictures", n);
    circe_random_permutation((circe_random){seed, (uint64_t)STREAM_ORDER + (uint64_t)p}, n, order);
    int64_t kept = rows > 0 && rows < n ? rows : n;
    circe_status status = image_part_make(kept, false, &mixed);
    if (status == CIRCE_OK) {
        for (int64_t i = 0; i < kept; i++) {
            mixed.stored[i] = part->stored[order[i]];
            mixed.target[i] = part->target[order[i]];
            mixed.y[i] = part->y[order[i]];
            mixed.z[i] = part->z[order[i]];
        }
        image_part_free(part);
        *part = mixed;
    }
    free(order);
    return status;
}

static circe_status open_faces(const paper_settings *s, picture_task *task) {
    const paper_data *d = &s->data;
    const int64_t rows[IMAGE_PARTS] = {d->train, d->validation, d->test, d->holdout, d->train, d->validation, d->test};
    yaleb_task_options options;
    yaleb_task_options_init(&options);
    options.seed = (uint64_t)s->seed;
    circe_status status = paper_pictures_faces(&s->model, &task->album, &task->store);
    if (status == CIRCE_OK) status = yaleb_task_make(&task->store, &options, &task->yaleb);
    for (int p = 0; p < IMAGE_PARTS && status == CIRCE_OK; p++) {
        status = shuffle(&task->yaleb.parts[p], options.seed, p, rows[p]);
        task->part[p] = &task->yaleb.parts[p];
        task->source[p] = yaleb_task_source(&task->yaleb, &task->store, (image_part_kind)p);
    }
    return status;
}

static void close_task(picture_task *task) {
    dsprites_task_free(&task->dsprites);
    yaleb_task_free(&task->yaleb);
    free(task->store.names); /* its pixels belong to the album */
    paper_album_close(task->album);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

typedef struct job {
    const paper_settings *settings;
    paper_learner learner;
    picture_task images;
    float *prediction; /* (rows of the largest part that is judged) */
} job;

static image_part_kind trained_part(const job *j) {
    return j->settings->method.trained_on == ON_OOD ? IMAGE_OOD_TRAIN : IMAGE_TRAIN;
}

static void columns(const job *j, image_part_kind p, circe_mat *y, circe_mat *z) {
    const image_part *part = j->images.part[p];
    *y = circe_mat_f64(part->y, part->n, 1);
    *z = circe_mat_f64(part->z, part->n, 1);
}

static circe_status check_rows(const job *j) {
    static const struct {
        image_part_kind part;
        const char *name;
    } needed[] = {{IMAGE_VALIDATION, "validation"}, {IMAGE_TEST, "test"}, {IMAGE_HOLDOUT, "holdout"}};
    int64_t batch = j->settings->training.batch, n = j->images.part[trained_part(j)]->n;
    if (n < batch)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "there are %" PRId64 " pictures to train on, fewer than a batch of %" PRId64, n, batch);
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
    circe_status status = j->settings->model.word == MODEL_DSPRITES
                              ? open_sprites(j->learner.context, j->learner.job, parts, &j->images)
                              : open_faces(j->settings, &j->images);
    if (status == CIRCE_OK) status = check_rows(j);
    if (status != CIRCE_OK) return status;
    train_shape input = {.n_dims = 3, .size = {source->channels * source->repeat, source->height, source->width}};
    columns(j, p, &y, &z);
    columns(j, IMAGE_HOLDOUT, &holdout_y, &holdout_z);
    return paper_learner_build(&j->learner, input, &y, &z, &holdout_y, &holdout_z);
}

static circe_status train(job *j, paper_numbers *numbers) {
    image_part_kind p = trained_part(j);
    const image_part *part = j->images.part[p];
    train_data data = {.features = j->images.source[p], .target = {part->target, part->n, 1, 1, CIRCE_FLOAT32}};
    if (j->learner.regularizer != NULL) columns(j, p, &data.y, &data.z);
    return paper_learner_train(&j->learner, &data, numbers);
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static circe_status judge(job *j, image_part_kind p, double *mse, double *variance) {
    return paper_learner_judge(&j->learner, &j->images.source[p], j->images.part[p]->target, j->prediction, mse,
                               variance);
}

/* Of the validation rows' target. */
static double target_variance(const image_part *part) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < part->n; i++) mean += (double)part->target[i] / (double)part->n;
    for (int64_t i = 0; i < part->n; i++) squares += pow((double)part->target[i] - mean, 2);
    return squares / (double)part->n;
}

static circe_status evaluate(job *j, paper_numbers *numbers) {
    double unused, *r = numbers->at;
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
    return paper_yardstick_apply(j->learner.context, j->settings, j->images.part[IMAGE_VALIDATION],
                                 j->images.part[IMAGE_HOLDOUT], j->prediction, numbers);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

circe_status paper_run_images(paper_job *work, paper_numbers *numbers) {
    job j = {.settings = work->settings,
             .learner = {.job = work, .context = work->task->context, .checkpoint = work->task->checkpoint}};
    circe_status status = prepare(&j);
    if (status == CIRCE_OK) status = train(&j, numbers);
    if (status == CIRCE_OK && !work->stopped) status = evaluate(&j, numbers);
    close_task(&j.images);
    paper_learner_close(&j.learner);
    free(j.prediction);
    return status;
}
