/* What the camera sees of a head in one pose, before any lamp is lit. */
#pragma once

#include "images/faces_grid.h"

typedef struct seen_point {
    faces_vector at, normal; /* in the head's frame */
    float albedo, sheen;
    float open;   /* how much of the surroundings the point sees, 0 to 1 */
    float covers; /* share of the pixel that the head covers; 0: background */
} seen_point;

struct faces_view {
    const faces_model *model; /* borrowed */
    int64_t width, height;
    float rotation[3][3]; /* of the head: columns are its axes as the camera sees them */
    seen_point *points;   /* (height, width) */
};

/* A direction of the camera in the head's frame. */
faces_vector faces_into_head(const faces_view *view, faces_vector d);
