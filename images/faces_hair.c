/* Hair: a cap round the skull, cut along the hair line and roughened by noise; long hair hangs behind the face. */
#include "images/faces_solids.h"

/* A well-mixed number of three whole ones, in -1 .. 1. */
static float lattice(uint32_t seed, int32_t x, int32_t y, int32_t z) {
    uint32_t v = seed ^ ((uint32_t)x * 0x8da6b343u) ^ ((uint32_t)y * 0xd8163841u) ^ ((uint32_t)z * 0xcb1ab31fu);
    v = (v ^ (v >> 16)) * 0x7feb352du;
    v = (v ^ (v >> 15)) * 0x846ca68bu;
    v ^= v >> 16;
    return (float)(v & 0xffffff) / 8388607.5f - 1.0f;
}

static float mix(float a, float b, float t) { return a + t * (b - a); }

float faces_noise(uint32_t seed, faces_vector at) {
    float fx = floorf(at.x), fy = floorf(at.y), fz = floorf(at.z);
    int32_t x = (int32_t)fx, y = (int32_t)fy, z = (int32_t)fz;
    float u = smooth_step(0, 1, at.x - fx), v = smooth_step(0, 1, at.y - fy), w = smooth_step(0, 1, at.z - fz);
    float corner[2][2];
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++)
            corner[i][j] = mix(lattice(seed, x, y + i, z + j), lattice(seed, x + 1, y + i, z + j), u);
    }
    return mix(mix(corner[0][0], corner[1][0], v), mix(corner[0][1], corner[1][1], v), w);
}

/* How low hair grows at an angle round the head, 0 in front, pi at the back. */
static float hair_line(const faces_head *h, float x, float angle) {
    float temple = smooth_step(0.55f, 1.15f, angle), side = smooth_step(1.05f, 1.35f, angle);
    float behind = smooth_step(1.72f, 2.1f, angle);
    float y = h->hair_line + h->hair_part * x + h->hair_recede * (smooth_step(0.1f, 0.5f, angle) - 0.4f);
    y = mix(y, 0.42f, temple);
    y = mix(y, -0.02f, side);
    return mix(y, -0.72f, behind);
}

static float cap(const faces_head *h, faces_vector at) {
    float t = h->hair_thickness, crown = t * (0.75f + 0.5f * smooth_step(0.4f, 1.0f, at.y));
    faces_vector radii = {h->skull_width + 0.9f * t, h->skull_height + crown, h->skull_length + t};
    float d = ellipsoid(at, vector(0, 0.33f, -0.10f), radii);
    if (d > 0.3f) return d; /* what the cut leaves is no nearer */
    float angle = atan2f(fabsf(at.x), at.z + 0.05f);
    return meet(d, 0.75f * (hair_line(h, at.x, angle) - at.y), 0.05f + 0.5f * t);
}

/* Falls behind the ears to the shoulders, and leaves the face free. */
static float curtain(const faces_head *h, faces_vector at) {
    float t = h->hair_thickness, x = fabsf(at.x);
    float d = ellipsoid(at, vector(0, -0.25f, -0.26f), vector(h->skull_width + 0.14f + t, 1.32f, 0.92f));
    float face = at.z - 0.12f + 0.30f * smooth_step(0.0f, 1.2f, -at.y) - 0.35f * (1.0f - smooth_step(0.35f, 0.75f, x));
    return meet(d, face, 0.12f);
}

float faces_hair_distance(const faces_head *h, faces_vector at) {
    if (h->hair == FACES_BALD) return 1e3f;
    float d = cap(h, at);
    if (h->hair == FACES_LONG) d = join(d, curtain(h, at), 0.10f);
    if (d > 0.15f) return d - 0.04f; /* the noise is near the surface only; a lower bound will do */
    /* strands run downwards: the noise is stretched along y */
    return d + h->hair_roughness * (0.5f * texture(h, 0, 22.0f * at.x, 5.0f * at.y, 22.0f * at.z) +
                                    texture(h, 1, 6.0f * at.x, 3.0f * at.y, 6.0f * at.z));
}
