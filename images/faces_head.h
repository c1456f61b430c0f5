/* The measures of a head, and the solids that they make. Lengths in units of 10 cm; x to the right of the picture where
 * the head looks at the camera, y up (the eyes are at 0), z to the front. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct faces_vector {
    float x, y, z;
} faces_vector;

typedef enum faces_hair {
    FACES_BALD,
    FACES_CROPPED,
    FACES_SHORT,
    FACES_FULL,
    FACES_LONG,
} faces_hair;

typedef struct faces_head {
    /* skull, jaw, neck */
    float skull_width, skull_height, skull_length, face_width, face_fullness;
    float jaw_width, jaw_height, chin_height, chin_forward, chin_width, neck_width;
    float cheek_size, brow_size;
    /* eyes */
    float eye_distance, eye_size, eye_opening, eye_tilt, brow_height, brow_thickness, brow_arch;
    /* nose */
    float nose_length, nose_forward, nose_width, nose_bridge, nose_tip;
    /* mouth and ears */
    float mouth_width, mouth_height, upper_lip, lower_lip, ear_size, ear_angle;
    /* hair */
    faces_hair hair;
    float hair_thickness, hair_line, hair_recede, hair_part, hair_roughness, beard, beard_style;
    /* left and right differ a little; 0: they do not */
    float nose_lean, mouth_tilt; /* and hair_part */
    /* what is reflected, 0 to 1 */
    float skin, hair_albedo, lip_albedo, iris_albedo;
    float freckles;        /* 0: an even skin */
    uint32_t texture_seed; /* of skin and hair; 0: they are even */
} faces_head;

/* An average one, the same on both sides. */
void faces_head_init(faces_head *head);
/* That of an identity, 0 to 27. */
void faces_head_draw(uint64_t seed, int64_t identity, faces_head *head);

/* Distance to the surface, negative inside; exact near it, a lower bound farther off. */
float faces_distance(const faces_head *head, faces_vector at);

typedef struct faces_surface {
    float albedo, sheen; /* diffuse and specular reflection */
} faces_surface;

/* Of a point on the surface. */
faces_surface faces_surface_at(const faces_head *head, faces_vector at);

/* ---- between the files of the head ------------------------------------------------------------------------------- */

float faces_skin_distance(const faces_head *head, faces_vector at);
float faces_hair_distance(const faces_head *head, faces_vector at);
float faces_eye_distance(const faces_head *head, faces_vector at); /* to the nearer eyeball */
faces_vector faces_eye_centre(const faces_head *head);             /* of the one with x > 0 */
/* Smooth noise about 0, within -1 .. 1, that varies over distances of 1. */
float faces_noise(uint32_t seed, faces_vector at);
