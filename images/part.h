/* A part of an image task (training, holdout, validation, test): which stored picture every point shows, and its
 * numbers. The pictures themselves stay where they are stored, once, as bits or bytes. */
#pragma once

#include <stdbool.h>

#include "circe/circe.h"
#include "train/source.h"

/* The parts of a task. */
typedef enum image_part_kind {
    IMAGE_TRAIN = 0,
    IMAGE_VALIDATION = 1,
    IMAGE_TEST = 2,
    IMAGE_HOLDOUT = 3, /* in domain: what the conditional mean is learnt on */
    IMAGE_OOD_TRAIN = 4,
    IMAGE_OOD_VALIDATION = 5,
    IMAGE_OOD_TEST = 6,
} image_part_kind;
enum { IMAGE_PARTS = 7 };

typedef struct image_part {
    int64_t n;
    int32_t *stored; /* (n) the stored picture that is shown */
    int8_t *shift;   /* (n) lines that it is moved down by; NULL: none */
    float *target;   /* (n) what is predicted */
    double *y, *z;   /* (n) what is conditioned on, and the distractor */
} image_part;

/* Room for n points, zeroed; `shifts`: with shift. On failure it holds nothing. */
circe_status image_part_make(int64_t n, bool shifts, image_part *part);
void image_part_free(image_part *part);

/* `pictures` (its element, values, n_stored, stride, sizes and scale) with the points of the part. Borrows both. */
train_source image_part_source(const image_part *part, const train_source *pictures);
