/* dSprites (Matthey, Higgins, Hassabis and Lerchner, 2017): 737,280 pictures of 64 by 64 pixels, black or white, of one
 * sprite each: every combination of shape, scale, orientation and position. Drawn from their geometry, equal to the
 * published ones to the pixel, or read from the published file.
 *
 * A picture is 512 bytes: one bit per pixel, row by row from the top, the leftmost pixel in the most significant bit.
 * The whole set is 377 MB in the order of the published array: shape, scale, orientation, x, y, the last fastest. */
#pragma once

#include "circe/circe.h"

enum {
    DSPRITES_SHAPES = 3,
    DSPRITES_SCALES = 6,
    DSPRITES_ORIENTATIONS = 40,
    DSPRITES_POSITIONS = 32, /* of each axis */
    DSPRITES_IMAGES = 737280,
    DSPRITES_SIDE = 64,   /* pixels */
    DSPRITES_BYTES = 512, /* of a picture */
};

typedef enum dsprites_shape { DSPRITES_SQUARE = 0, DSPRITES_ELLIPSE = 1, DSPRITES_HEART = 2 } dsprites_shape;

/* Classes, each from 0: the scale is 0.5 + scale / 10, the orientation 2 pi orientation / 39 (39 shows what 0 shows),
 * x and y go from left to right and from top to bottom. */
typedef struct dsprites_latents {
    int shape, scale, orientation, x, y;
} dsprites_latents;

/* image: 0 .. DSPRITES_IMAGES - 1. */
dsprites_latents dsprites_latents_of(int64_t image);
int64_t dsprites_number_of(const dsprites_latents *latents);

/* The latents as the published file gives them: 1 (the colour, white), shape 1 to 3, scale 0.5 to 1, orientation 0 to
 * 2 pi, x and y 0 to 1. */
enum { DSPRITES_LATENTS = 6 };
void dsprites_values_of(const dsprites_latents *latents, double values[DSPRITES_LATENTS]);

/* ---- drawn ------------------------------------------------------------------------------------------------------- */

void dsprites_render(const dsprites_latents *latents, uint8_t bits[DSPRITES_BYTES]);

/* bits (n, 512) := the pictures of these numbers, in any order, with the context's threads. */
circe_status dsprites_render_some(circe_context *context, const int32_t *images, int64_t n, uint8_t *bits);

/* All, into new memory that free releases. */
circe_status dsprites_make(circe_context *context, uint8_t **bits);

/* ---- the published file ------------------------------------------------------------------------------------------ */

/* dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz, or another .npz with such an array `imgs`: uint8 of 0 and 1,
 * (737280, 64, 64). It is unpacked as it is read: 377 MB of new memory, which free releases, not the file's 3 GB. */
circe_status dsprites_read(circe_context *context, const char *path, uint8_t **bits);

/* The same of an archive in memory that must hold `images` pictures, into bits (images, 512). `name` is for the texts
 * of errors. */
circe_status dsprites_parse(const void *data, size_t bytes, const char *name, int64_t images, uint8_t *bits);

/* Draws and writes such a file with the arrays imgs, latents_classes and latents_values; whole or not at all. progress
 * may be NULL. */
circe_status dsprites_write(circe_context *context, const char *path, circe_progress_fn progress, void *user);

/* The same of the first `images` pictures, a whole number of 1,024. */
circe_status dsprites_write_first(circe_context *context, const char *path, int64_t images, circe_progress_fn progress,
                                  void *user);
