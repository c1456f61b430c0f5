/* Distances to simple solids and how they are joined (negative inside). The smooth forms round the edge where two
 * surfaces meet, over a width k. */
#pragma once

#include <math.h>

#include "images/faces_head.h"

static inline faces_vector vector(float x, float y, float z) { return (faces_vector){x, y, z}; }

static inline faces_vector plus(faces_vector a, float t, faces_vector b) {
    return (faces_vector){a.x + t * b.x, a.y + t * b.y, a.z + t * b.z};
}

static inline float dot(faces_vector a, faces_vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

static inline float length(faces_vector a) { return sqrtf(dot(a, a)); }

static inline faces_vector unit(faces_vector a) {
    float l = length(a), s = l > 0.0f ? 1.0f / l : 0.0f;
    return (faces_vector){s * a.x, s * a.y, s * a.z};
}

/* Noise of a head's own, `kind` tells its uses apart; none where its texture is even. */
static inline float texture(const faces_head *head, uint32_t kind, float x, float y, float z) {
    return head->texture_seed != 0 ? faces_noise(head->texture_seed + kind, vector(x, y, z)) : 0.0f;
}

static inline float clamp(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

/* 0 below `low`, 1 above `high`, without a kink. */
static inline float smooth_step(float low, float high, float v) {
    float t = clamp((v - low) / (high - low), 0.0f, 1.0f);
    return t * t * (3.0f - 2.0f * t);
}

static inline float join(float a, float b, float k) {
    float h = fmaxf(k - fabsf(a - b), 0.0f);
    return fminf(a, b) - 0.25f * h * h / k;
}

/* What is in both; with -b: what of a is not in b. */
static inline float meet(float a, float b, float k) { return -join(-a, -b, k); }

static inline float sphere(faces_vector p, faces_vector centre, float radius) {
    return length(plus(p, -1.0f, centre)) - radius;
}

/* First-order: exact on the surface and to a few per cent within half a radius of it. */
static inline float ellipsoid(faces_vector p, faces_vector centre, faces_vector radii) {
    faces_vector d = plus(p, -1.0f, centre);
    faces_vector a = {d.x / radii.x, d.y / radii.y, d.z / radii.z};
    faces_vector b = {a.x / radii.x, a.y / radii.y, a.z / radii.z};
    float k0 = length(a), k1 = length(b);
    return k1 > 1e-6f ? k0 * (k0 - 1.0f) / k1 : -fminf(radii.x, fminf(radii.y, radii.z));
}

/* A rod from a to b whose radius changes from ra to rb. */
static inline float rod(faces_vector p, faces_vector a, faces_vector b, float ra, float rb) {
    faces_vector along = plus(b, -1.0f, a), from = plus(p, -1.0f, a);
    float t = clamp(dot(from, along) / dot(along, along), 0.0f, 1.0f);
    return length(plus(from, -t, along)) - (ra + t * (rb - ra));
}
