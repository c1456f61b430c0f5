/* The parts of an image task as a run needs them, whichever set of pictures they are of. */
#ifndef CLI_EXPERIMENT_IMAGES_H
#define CLI_EXPERIMENT_IMAGES_H

#include "cli/experiment/experiment_settings.h"
#include "images/dsprites_task.h"
#include "images/yaleb_task.h"

typedef struct experiment_images {
    const image_part *part[IMAGE_PARTS]; /* points in random order */
    train_source source[IMAGE_PARTS];    /* the same as a network is fed them */
    /* what they are made of */
    circe_tensor_file *file;
    dsprites_task dsprites;
    yaleb_store store;
    yaleb_task yaleb;
} experiment_images;

/* The task of the settings under their seed, so many rows of each part as they say; `parts`, bits 1 << part, are those
 * that will be used. */
circe_status experiment_images_open(circe_context *context, const experiment_settings *settings, unsigned parts,
                                    experiment_images *images);
void experiment_images_close(experiment_images *images);

#endif
