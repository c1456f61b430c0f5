/* Distances to a head, on a grid around it. */
#pragma once

#include "images/faces.h"
#include "images/faces_solids.h"

struct faces_model {
    faces_head head;
    const circe_context *context;
    faces_vector low;   /* corner of the box */
    float step;         /* of the grid */
    int32_t nx, ny, nz; /* points along each axis */
    float *distance;    /* (nz, ny, nx) */
};

/* Between the points of the grid, linearly. Outside the box: 1. */
static inline float grid_distance(const faces_model *model, faces_vector at) {
    float s = 1.0f / model->step, x = (at.x - model->low.x) * s, y = (at.y - model->low.y) * s,
          z = (at.z - model->low.z) * s;
    if (!(x >= 0.0f && y >= 0.0f && z >= 0.0f && x < (float)(model->nx - 1) && y < (float)(model->ny - 1) &&
          z < (float)(model->nz - 1)))
        return 1.0f;
    int32_t i = (int32_t)x, j = (int32_t)y, k = (int32_t)z;
    float u = x - (float)i, v = y - (float)j, w = z - (float)k;
    const float *p = model->distance + ((int64_t)k * model->ny + j) * model->nx + i,
                *q = p + (int64_t)model->ny * model->nx;
    float a = p[0] + u * (p[1] - p[0]), b = p[model->nx] + u * (p[model->nx + 1] - p[model->nx]);
    float c = q[0] + u * (q[1] - q[0]), d = q[model->nx] + u * (q[model->nx + 1] - q[model->nx]);
    float lower = a + v * (b - a), upper = c + v * (d - c);
    return lower + w * (upper - lower);
}
