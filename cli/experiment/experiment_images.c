/* From settings to points: dSprites drawn or mapped, faces mapped. */
#include "cli/experiment/experiment_images.h"

#include <inttypes.h>
#include <stdlib.h>

#include "circe/status.h"
#include "cli/experiment/experiment_model.h"
#include "cli/experiment/experiment_pictures.h"

/* ---- dSprites ---------------------------------------------------------------------------------------------------- */

static int64_t rows_or(int64_t rows, int64_t all) { return rows > 0 ? rows : all; }

static circe_status show_sprites(circe_context *context, const experiment_settings *s, unsigned parts,
                                 experiment_images *images) {
    circe_tensor pixels;
    if (s->model.pictures == NULL) return dsprites_task_render(context, parts, &images->dsprites);
    circe_status status = experiment_pictures_open(context, &s->model, &images->file, &pixels);
    if (status != CIRCE_OK) return status;
    if (pixels.shape[0] != DSPRITES_IMAGES || pixels.shape[1] != DSPRITES_BYTES)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: these are not the pictures of dSprites", s->model.pictures);
    dsprites_task_use(&images->dsprites, pixels.data);
    return CIRCE_OK;
}

static circe_status open_sprites(circe_context *context, const experiment_settings *s, unsigned parts,
                                 experiment_images *images) {
    dsprites_task_options options;
    dsprites_task_options_init(&options);
    options.dependence = (dsprites_dependence)(s->model.dependence + (int)DSPRITES_LINEAR);
    options.seed = (uint64_t)s->seed;
    options.n_train = rows_or(s->data.train, DSPRITES_MOST_TRAIN);
    options.n_validation = rows_or(s->data.validation, DSPRITES_MOST_VALIDATION);
    options.n_test = rows_or(s->data.test, DSPRITES_MOST_TEST);
    options.n_holdout = rows_or(s->data.holdout, DSPRITES_MOST_HOLDOUT);
    options.holdout_in_training = s->model.holdout_in_training;
    circe_status status = dsprites_task_make(context, &options, &images->dsprites);
    if (status == CIRCE_OK) status = show_sprites(context, s, parts, images);
    for (int p = 0; p < IMAGE_PARTS && status == CIRCE_OK; p++) {
        images->part[p] = &images->dsprites.parts[p].points;
        images->source[p] = dsprites_task_source(&images->dsprites, (image_part_kind)p);
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

static circe_status open_faces(circe_context *context, const experiment_settings *s, unsigned parts,
                               experiment_images *images) {
    (void)parts; /* all are there anyway */
    const experiment_data *d = &s->data;
    const int64_t rows[IMAGE_PARTS] = {d->train, d->validation, d->test, d->holdout, d->train, d->validation, d->test};
    yaleb_task_options options;
    yaleb_task_options_init(&options);
    options.seed = (uint64_t)s->seed;
    circe_status status = experiment_pictures_faces(context, &s->model, &images->file, &images->store);
    if (status == CIRCE_OK) status = yaleb_task_make(&images->store, &options, &images->yaleb);
    for (int p = 0; p < IMAGE_PARTS && status == CIRCE_OK; p++) {
        status = shuffle(&images->yaleb.parts[p], options.seed, p, rows[p]);
        images->part[p] = &images->yaleb.parts[p];
        images->source[p] = yaleb_task_source(&images->yaleb, &images->store, (image_part_kind)p);
    }
    return status;
}

/* ---- either ------------------------------------------------------------------------------------------------------ */

circe_status experiment_images_open(circe_context *context, const experiment_settings *settings, unsigned parts,
                                    experiment_images *images) {
    *images = (experiment_images){0};
    return settings->model.word == MODEL_DSPRITES ? open_sprites(context, settings, parts, images)
                                                  : open_faces(context, settings, parts, images);
}

void experiment_images_close(experiment_images *images) {
    dsprites_task_free(&images->dsprites);
    yaleb_task_free(&images->yaleb);
    free(images->store.names); /* its pixels belong to the file */
    circe_tensor_file_close(images->file);
}
