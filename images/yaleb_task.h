/* The task of Extended Yale-B: predict the pose, whichever way the light comes.
 *
 * Y = pose/9 and Z = azimuth/130. In-domain, the light goes with the pose along two branches of a cone: with
 * a = (Z + 1)/2 * 9, a picture is kept where |a - y/2 - s y^2/18| < 1, y the number of its pose, s = +1 or -1 with
 * probability one half. Out of domain (OOD) are all pictures. What is shown is a picture of the same person under the
 * same lamp in a pose moved by int(N(0, 2^2)), if there is one; Y stays, so that the pose cannot be read off
 * exactly. */
#pragma once

#include "images/part.h"
#include "images/yaleb.h"

typedef struct yaleb_task_options {
    uint64_t seed;
    double validation, test; /* shares of the identities, at least one each; the others are for training */
    double holdout;          /* share of the training pictures that the conditional mean is learnt on */
    double pose_noise;       /* standard deviation, in poses */
} yaleb_task_options;

/* 0.1, 0.1, 0.1, 2. */
void yaleb_task_options_init(yaleb_task_options *options);

/* People are in one of training, validation and test. */
typedef struct yaleb_task {
    yaleb_task_options options;
    image_part parts[IMAGE_PARTS];
} yaleb_task;

/* Needs three identities at least. A function of the names and the seed alone. */
circe_status yaleb_task_make(const yaleb_store *store, const yaleb_task_options *options, yaleb_task *task);
void yaleb_task_free(yaleb_task *task);

/* The points of a part as a network is fed them. Borrows both. */
train_source yaleb_task_source(const yaleb_task *task, const yaleb_store *store, image_part_kind kind);

/* Whether a picture is in-domain on the branch `sign`, +1 or -1. */
bool yaleb_in_domain(const yaleb_name *name, int sign);
