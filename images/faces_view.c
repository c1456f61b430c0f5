/* The geometry of one head in one pose: one ray per pixel, parallel to the camera's axis (the camera stands far away).
 *
 * A ray steps by the distance to the surface, taken from the grid while it is far and computed exactly when it is near.
 * A ray that passes the head within a pixel covers a share of the pixel, so silhouettes are smooth with one ray per
 * pixel. */
#include "images/faces_view.h"

#include <stdlib.h>

#include "circe/status.h"

static const float frame_height = 2.72f, frame_middle = -0.06f; /* of what is in the picture, in head units */
static const faces_vector pivot = {0.0f, -0.45f, -0.15f};       /* heads turn around the neck's top */

/* Looks up or down first, then to the side. */
static void make_rotation(int pose, float r[3][3]) {
    float g[3];
    faces_pose_direction(pose, g);
    float pitch = asinf(g[1]), yaw = atan2f(g[0], g[2]);
    float cp = cosf(pitch), sp = sinf(pitch), cy = cosf(yaw), sy = sinf(yaw);
    const float made[3][3] = {{cy, -sy * sp, sy * cp}, {0.0f, cp, sp}, {-sy, -cy * sp, cy * cp}};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) r[i][j] = made[i][j];
    }
}

faces_vector faces_into_head(const faces_view *view, faces_vector d) {
    const float(*r)[3] = view->rotation;
    return vector(r[0][0] * d.x + r[1][0] * d.y + r[2][0] * d.z, r[0][1] * d.x + r[1][1] * d.y + r[2][1] * d.z,
                  r[0][2] * d.x + r[1][2] * d.y + r[2][2] * d.z);
}

/* By differences to both sides along each axis, so that a head that is the same on both sides has such normals. */
static faces_vector normal_at(const faces_head *head, faces_vector at, float reach) {
    faces_vector x = {reach, 0, 0}, y = {0, reach, 0}, z = {0, 0, reach};
    return unit(vector(faces_distance(head, plus(at, 1.0f, x)) - faces_distance(head, plus(at, -1.0f, x)),
                       faces_distance(head, plus(at, 1.0f, y)) - faces_distance(head, plus(at, -1.0f, y)),
                       faces_distance(head, plus(at, 1.0f, z)) - faces_distance(head, plus(at, -1.0f, z))));
}

/* The share of directions about the normal in which nothing is near: distances that stay behind the way out. */
static float openness(const faces_model *model, faces_vector at, faces_vector normal) {
    float closed = 0.0f, weight = 1.0f;
    for (int i = 1; i <= 5; i++) {
        float t = 0.06f * (float)i;
        closed += weight * fmaxf(t - grid_distance(model, plus(at, t, normal)), 0.0f);
        weight *= 0.7f;
    }
    return clamp(1.0f - 1.3f * closed, 0.0f, 1.0f);
}

/* Follows a ray; true: it meets the head. *nearest is its smallest distance, at *at. */
static bool follow(const faces_model *model, faces_vector from, faces_vector along, faces_vector *at, float *nearest) {
    enum { STEPS = 160 };
    static const float near_surface = 0.08f, touching = 0.0008f, farthest = 4.2f;
    float t = 0.0f;
    *nearest = 1.0f;
    for (int i = 0; i < STEPS && t < farthest; i++) {
        faces_vector p = plus(from, t, along);
        float d = grid_distance(model, p);
        if (d >= 1.0f) d = 0.15f; /* outside the box */
        if (d < near_surface) {
            d = faces_distance(&model->head, p);
            if (d < *nearest) *nearest = d, *at = p;
            if (d < touching) return true;
            t += fmaxf(0.8f * d, 0.5f * touching);
        } else {
            t += 0.7f * (d - 0.5f * near_surface);
        }
    }
    return false;
}

static void see(const faces_view *view, int64_t row, int64_t col, seen_point *out) {
    float pixel = frame_height / (float)view->height;
    faces_vector camera = {((float)col + 0.5f - 0.5f * (float)view->width) * pixel - pivot.x,
                           (0.5f * (float)view->height - (float)row - 0.5f) * pixel + frame_middle - pivot.y,
                           2.0f - pivot.z};
    faces_vector from = plus(pivot, 1.0f, faces_into_head(view, camera)),
                 along = faces_into_head(view, vector(0, 0, -1));
    float nearest = 1.0f;
    *out = (seen_point){0};
    bool met = follow(view->model, from, along, &out->at, &nearest);
    out->covers = met ? 1.0f : clamp(1.0f - nearest / pixel, 0.0f, 1.0f);
    if (out->covers <= 0.0f) return;
    faces_surface surface = faces_surface_at(&view->model->head, out->at);
    out->normal = normal_at(&view->model->head, out->at, fmaxf(0.003f, 0.25f * pixel));
    out->albedo = surface.albedo;
    out->sheen = surface.sheen;
    out->open = openness(view->model, out->at, out->normal);
}

static void see_line(void *user, int64_t row) {
    faces_view *v = user;
    for (int64_t col = 0; col < v->width; col++) see(v, row, col, &v->points[row * v->width + col]);
}

circe_status faces_view_make(const faces_model *model, int pose, int64_t height, faces_view **view) {
    *view = NULL;
    if (pose < 0 || pose >= FACES_POSES || height < 16 || height > 1024)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "the pose of a view must be 0 to 8 and its height 16 to 1024, not %d and %lld", pose,
                          (long long)height);
    faces_view *v = calloc(1, sizeof *v);
    int64_t width = faces_width(height);
    if (v != NULL) v->points = calloc((size_t)(width * height), sizeof *v->points);
    if (v == NULL || v->points == NULL) {
        faces_view_free(v);
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a view of %lld by %lld pixels", (long long)width,
                          (long long)height);
    }
    v->model = model;
    v->width = width;
    v->height = height;
    make_rotation(pose, v->rotation);
    circe_context_run(model->context, height, see_line, v);
    *view = v;
    return CIRCE_OK;
}

void faces_view_free(faces_view *view) {
    if (view == NULL) return;
    free(view->points);
    free(view);
}
