/* One picture: Lambert's cosine times albedo, a weak sheen, shadows that the head casts on itself, a little light from
 * the room, the blur of a lens, the curve of a camera, and its noise.
 *
 *   I = albedo (ambient open + gain max(n.l, 0) visible) + sheen (n.h)^s visible
 *
 * n, l: normal, direction to the lamp; h: between l and the camera; visible: 0 in a cast shadow, 1 in light, between
 * them where a ray passes close (the lamp has a size). Attached shadows are where n.l < 0. The cost per lit pixel is
 * about 10 steps through the grid of distances. */
#include <stdlib.h>

#include "circe/random.h"
#include "circe/status.h"
#include "images/faces_view.h"

static const float ambient = 0.035f, gain = 1.45f, softness = 22.0f, gamma_of_camera = 1.45f;

/* How much of the lamp a point sees past the rest of the head. */
static float visible(const faces_model *model, faces_vector from, faces_vector to_lamp) {
    enum { STEPS = 40 };
    static const float farthest = 2.6f;
    float seen = 1.0f, t = 0.02f;
    for (int i = 0; i < STEPS && t < farthest; i++) {
        float d = grid_distance(model, plus(from, t, to_lamp));
        if (d >= 1.0f) break; /* out of the box */
        seen = fminf(seen, softness * d / t);
        if (seen <= 0.0f) return 0.0f;
        t += clamp(0.9f * d, 0.02f, 0.3f);
    }
    return seen * seen * (3.0f - 2.0f * seen);
}

static float brightness(const faces_view *view, const seen_point *p, faces_vector to_lamp, faces_vector between) {
    float cosine = dot(p->normal, to_lamp), light = ambient * p->open;
    if (cosine <= 0.0f) return p->albedo * light;
    float v = visible(view->model, plus(p->at, 0.035f, p->normal), to_lamp);
    float glance = fmaxf(dot(p->normal, between), 0.0f), g4 = glance * glance * glance * glance;
    float g12 = g4 * g4 * g4, sharp = p->sheen > 0.3f ? g12 * g12 * g12 * g12 * g12 : g12; /* wet eyes, dry skin */
    return p->albedo * (light + gain * cosine * v) + p->sheen * sharp * v * smooth_step(0.0f, 0.2f, cosine);
}

/* (1 2 1)/4 along each axis, as a lens does. */
static void blur(float *image, int64_t width, int64_t height, float *line) {
    for (int64_t r = 0; r < height; r++) {
        float *row = image + r * width, left = row[0];
        for (int64_t c = 0; c < width; c++) {
            float here = row[c], right = row[c + 1 < width ? c + 1 : c];
            row[c] = 0.2f * left + 0.6f * here + 0.2f * right;
            left = here;
        }
    }
    for (int64_t c = 0; c < width; c++) line[c] = image[c];
    for (int64_t r = 0; r < height; r++) {
        float *row = image + r * width, *below = r + 1 < height ? row + width : row;
        for (int64_t c = 0; c < width; c++) {
            float here = row[c];
            row[c] = 0.2f * line[c] + 0.6f * here + 0.2f * below[c];
            line[c] = here;
        }
    }
}

static uint8_t grey_level(float light, double noise) {
    float level = 255.0f * powf(fmaxf(light, 0.0f), 1.0f / gamma_of_camera);
    if (level > 200.0f) level = 255.0f - 55.0f * 55.0f / (level - 145.0f); /* a shoulder in place of a hard white */
    return (uint8_t)clamp(level + (float)noise + 0.5f, 0.0f, 255.0f);
}

circe_status faces_shade(const faces_view *view, faces_light light, float sigma, uint64_t seed, uint64_t stream,
                         uint8_t *out) {
    int64_t width = view->width, height = view->height;
    float direction[3], *image = calloc((size_t)(width * (height + 1)), sizeof *image);
    double noise[1024] = {0};
    if (image == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a picture");
    faces_light_direction(light, direction);
    faces_vector to_lamp = faces_into_head(view, vector(direction[0], direction[1], direction[2]));
    faces_vector to_camera = faces_into_head(view, vector(0, 0, 1));
    faces_vector between = unit(plus(to_lamp, 1.0f, to_camera));
    float wall = 0.006f + 0.022f * fmaxf(direction[2], 0.0f); /* far behind, out of the lamp's best light */
    for (int64_t i = 0; i < width * height; i++) {
        const seen_point *p = &view->points[i];
        image[i] =
            p->covers > 0.0f ? p->covers * brightness(view, p, to_lamp, between) + (1.0f - p->covers) * wall : wall;
    }
    blur(image, width, height, image + width * height);
    for (int64_t r = 0; r < height; r++) {
        if (sigma > 0.0f) circe_random_normal((circe_random){seed, stream}, (uint64_t)(r * width), width, noise);
        for (int64_t c = 0; c < width; c++)
            out[r * width + c] = grey_level(image[r * width + c], sigma > 0.0f ? (double)sigma * noise[c] : 0.0);
    }
    free(image);
    return CIRCE_OK;
}
