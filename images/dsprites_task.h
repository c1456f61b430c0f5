/* The paper's three tasks on dSprites: predict the vertical position Y of a sprite whose horizontal position depends on
 * it, and do so where it does not (out of domain, OOD).
 *
 * A point starts as one of the 737,280 pictures, its base, which the seed splits into 80 % training, 10 % validation
 * and 10 % test; 1 % of the training ones is the holdout. The base gives shape, scale, orientation and posY. In domain,
 * posX (a class, 0 to 31, as posY) is drawn anew:
 *
 *     linear        posX = round(posY + e), e ~ N(0, 1)                                            Z = posX / 31
 *     non-linear    posX = posY + xi^2, xi = +- sqrt(k), k uniform in {0, 1, 2, 3}                  Z = xi
 *     y-cone        posX = round(posY / 2 +- posY^2 / 64), either sign with probability 1/2         Z = posX / 31
 *
 * as a picture that there is: the linear one is clipped to 0..31, and of the non-linear k only those are drawn with
 * which posX stays below 32, since a clipped one would show another xi than the one observed. OOD, it stays the
 * base's, so that it is independent of posY, and Z = posX / 31; the non-linear task has no xi there, and Z is NaN: no
 * measure takes it for data. Y = target = posY / 31, before the picture is moved down by round(2 N(0, 2^2)) lines.
 *
 * Every draw is a function of (seed, base): a point is the same whatever the sizes, and a base has the same shift in
 * domain and OOD. */
#pragma once

#include <stdbool.h>

#include "images/dsprites.h"
#include "images/part.h"

typedef enum dsprites_dependence {
    DSPRITES_LINEAR = 1,
    DSPRITES_NONLINEAR = 2,
    DSPRITES_YCONE = 3,
} dsprites_dependence;

/* "linear", "nonlinear", "ycone"; false: none of them. */
bool dsprites_find(const char *name, dsprites_dependence *dependence);
const char *dsprites_name(dsprites_dependence dependence);

/* Pictures that the split gives to each. */
enum {
    DSPRITES_MOST_HOLDOUT = 5898,
    DSPRITES_MOST_TRAIN = 589824 - DSPRITES_MOST_HOLDOUT,
    DSPRITES_MOST_VALIDATION = 73728,
    DSPRITES_MOST_TEST = 73728,
};

typedef struct dsprites_task_options {
    dsprites_dependence dependence;
    uint64_t seed;
    /* The first so many of the random order of each; n_train and n_holdout are at least 1. */
    int64_t n_train, n_validation, n_test, n_holdout;
    bool holdout_in_training; /* the holdout's points are also the last of the training ones, n_train + n_holdout */
} dsprites_task_options;

/* Linear, seed 0, all pictures. */
void dsprites_task_options_init(dsprites_task_options *options);

typedef struct dsprites_part {
    image_part points; /* points.stored: rows of the task's pictures */
    int32_t *base;     /* (n) the picture that it started as */
    int32_t *image;    /* (n) the one that it shows, before the shift */
} dsprites_part;

typedef struct dsprites_task {
    dsprites_task_options options;
    dsprites_part parts[IMAGE_PARTS];
    const uint8_t *bits; /* (n_stored, 512); NULL until one of the two below gave it */
    int64_t n_stored;
    uint8_t *rendered; /* the same, where the task owns it */
} dsprites_task;

/* Draws the points of all parts. */
circe_status dsprites_task_make(const circe_context *context, const dsprites_task_options *options,
                                dsprites_task *task);
void dsprites_task_free(dsprites_task *task);

/* Where the pictures come from: either the whole set, all 737,280, borrowed; or those that occur in these parts (bits
 * 1 << kind; 0: all of them), drawn once each, owned by the task: small runs need little memory. Parts left out then
 * have no pictures: their source is not to be used. */
void dsprites_task_use(dsprites_task *task, const uint8_t *bits);
circe_status dsprites_task_render(circe_context *context, unsigned parts, dsprites_task *task);

/* The points of a part as a network is fed them: pixels -1 and 1, background -1. Borrows the task. */
train_source dsprites_task_source(const dsprites_task *task, image_part_kind kind);
