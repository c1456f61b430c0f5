/* Lit heads: procedural faces on the rig of the Extended Yale-B photographs, 28 identities by 9 poses by 64 lights.
 *
 * A head is a smooth union of simple solids whose measures depend on the identity. It is photographed from the front,
 * turned to one of nine poses, with one lamp; everything is a function of the seed alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "circe/context.h"
#include "images/faces_head.h"

enum { FACES_IDENTITIES = 28, FACES_POSES = 9, FACES_LIGHTS = 64, FACES_HEIGHT = 192 };

/* Degrees off the camera's axis: a positive azimuth is to the right of the subject, which is the left of the picture; a
 * positive elevation is above. */
typedef struct faces_light {
    int azimuth, elevation;
} faces_light;

/* The lamps of the rig in the order of their file names, and the numbers that the published identities have. */
extern const faces_light faces_lights[FACES_LIGHTS];
extern const int faces_numbers[FACES_IDENTITIES];

/* Pictures are 7 wide for 8 high: 168 by 192. */
int64_t faces_width(int64_t height);

/* Where lamps and heads look: unit vectors, x to the right of the picture, y up, z to the camera. */
void faces_light_direction(faces_light light, float direction[3]);
void faces_pose_direction(int pose, float direction[3]);

/* ---- rendering: head, then its distances (once per identity), then a view (once per pose), then pictures ---- */

typedef struct faces_model faces_model;
typedef struct faces_view faces_view;

/* `head` is copied. The context, for it and its views, is borrowed. */
circe_status faces_model_make(const circe_context *context, const faces_head *head, faces_model **model);
void faces_model_free(faces_model *model);

/* What the camera sees of it: position, normal and albedo of every pixel. */
circe_status faces_view_make(const faces_model *model, int pose, int64_t height, faces_view **view);
void faces_view_free(faces_view *view);

/* out (height, faces_width(height)) := the picture under one lamp. Noise of the sensor by (seed, stream); sigma is in
 * grey levels, 0: none. */
circe_status faces_shade(const faces_view *view, faces_light light, float sigma, uint64_t seed, uint64_t stream,
                         uint8_t *out);

/* ---- the whole set ----------------------------------------------------------------------------------------------- */

typedef struct faces_options {
    uint64_t seed;
    int64_t identities; /* the first of them, 1 to 28 */
    int64_t height;     /* of a picture: 16 to 1024 */
} faces_options;

void faces_options_init(faces_options *options);
circe_status faces_options_check(const faces_options *options);

/* Takes one picture (height, width); called from several threads at once. A failure ends the rendering. */
typedef circe_status (*faces_take_fn)(void *user, int64_t identity, int pose, int light, const uint8_t *pixels);

/* Renders every picture. progress may be NULL; CIRCE_ERR_CANCELLED if it asks to stop. */
circe_status faces_render(const circe_context *context, const faces_options *options, faces_take_fn take,
                          void *take_user, circe_progress_fn progress, void *progress_user);

/* The same as files, FOLDER/yaleB11/yaleB11_P00A+000E+00.pgm and so on. The folder is made, or must be empty; with
 * `replace`, pictures of the same name are replaced and all else stays. Nothing is there, or nothing has changed,
 * before every picture is rendered and written. */
circe_status faces_write(const circe_context *context, const char *folder, const faces_options *options, bool replace,
                         circe_progress_fn progress, void *progress_user);
