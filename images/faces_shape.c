/* The solid of a head: skull, face, jaw, brow, cheeks, nose, lips, lids, ears and neck, joined smoothly.
 *
 * The measures are those of adults (head 22.5 cm high, 15 wide, 19.5 deep; eyes half-way up and 6.3 cm apart). Both
 * sides are one, by |x|, after a small bend that makes them differ. A distance costs some 25 primitives. */
#include "images/faces_solids.h"

static float skull_and_face(const faces_head *h, faces_vector q) {
    float full = h->face_fullness;
    float d = ellipsoid(q, vector(0, 0.33f, -0.10f), vector(h->skull_width, h->skull_height, h->skull_length));
    d = join(d, ellipsoid(q, vector(0, -0.28f, 0.18f), vector(h->face_width + full, 0.74f, 0.62f)), 0.22f);
    d = join(d,
             rod(q, vector(h->jaw_width + 0.5f * full, h->jaw_height, 0.02f),
                 vector(0.65f * h->chin_width, h->chin_height, h->chin_forward - 0.13f), 0.13f, 0.12f),
             0.30f);
    d = join(d, ellipsoid(q, vector(0, h->chin_height, h->chin_forward), vector(h->chin_width, 0.13f, 0.12f)), 0.16f);
    d = join(d, sphere(q, vector(0.42f, -0.20f, 0.52f), h->cheek_size), 0.20f);
    /* soft cheeks */
    d = join(d, sphere(q, vector(0.34f, -0.54f, 0.46f), 0.17f + full), 0.30f);
    return d;
}

static float brow_and_sockets(const faces_head *h, faces_vector q, float d) {
    float y = h->brow_height - 0.05f;
    d = join(
        d, rod(q, vector(0.10f, y - 0.01f, 0.78f), vector(0.38f, y + 0.02f, 0.68f), h->brow_size, 0.7f * h->brow_size),
        0.12f);
    return meet(d, -ellipsoid(q, vector(h->eye_distance - 0.015f, -0.005f, 0.86f), vector(0.20f, 0.125f, 0.19f)),
                0.13f);
}

static float muzzle(const faces_head *h, faces_vector q, float d) {
    float m = h->mouth_height;
    d = join(d, ellipsoid(q, vector(0, m + 0.02f, 0.62f), vector(0.32f, 0.27f, 0.23f)), 0.20f);
    /* the fold between chin and lower lip */
    return meet(d, -ellipsoid(q, vector(0, m - 0.165f, 0.95f), vector(0.22f, 0.05f, 0.11f)), 0.10f);
}

/* Bridge with its slopes, tip, wings and nostrils. */
static float nose(const faces_head *h, faces_vector q, float d) {
    float y = -h->nose_length, z = h->nose_forward;
    faces_vector root = {0, 0.04f, 0.735f + h->nose_bridge}, tip = {0, y, z - h->nose_tip};
    faces_vector slope = {0, y + 0.03f, z - 0.30f};
    d = join(d, rod(q, vector(0, -0.02f, 0.66f), slope, 0.045f, 0.78f * h->nose_width), 0.13f);
    float n = rod(q, root, tip, 0.050f, 0.78f * h->nose_tip);
    n = join(n, sphere(q, tip, h->nose_tip), 0.05f);
    n = join(n, ellipsoid(q, vector(h->nose_width, y - 0.005f, z - 0.200f), vector(0.055f, 0.066f, 0.095f)), 0.11f);
    d = join(d, n, 0.10f);
    return meet(d, -ellipsoid(q, vector(0.50f * h->nose_width, y - 0.074f, z - 0.170f), vector(0.026f, 0.028f, 0.045f)),
                0.03f);
}

/* Lips bend round the teeth: z falls with x^2, and the upper one has its bow. */
static float lips(const faces_head *h, faces_vector q, float d) {
    float front = 0.845f, m = h->mouth_height, corner = q.x / h->mouth_width;
    faces_vector p = {q.x, q.y - m - 0.016f * corner * corner, q.z + 1.25f * q.x * q.x};
    float bow = 0.012f * (1.0f - smooth_step(0.0f, 0.06f, q.x)) - 0.010f * corner * corner;
    float u = ellipsoid(vector(p.x, p.y + bow, p.z), vector(0, 0.80f * h->upper_lip, front),
                        vector(h->mouth_width, h->upper_lip, 0.060f));
    float l = ellipsoid(p, vector(0, -0.85f * h->lower_lip, front - 0.008f),
                        vector(0.88f * h->mouth_width, h->lower_lip, 0.072f));
    d = join(d, fminf(u, l), 0.035f);
    /* the line between them */
    float line = ellipsoid(p, vector(0, -0.004f, front + 0.075f), vector(1.05f * h->mouth_width, 0.013f, 0.060f));
    /* and the groove under the nose */
    float groove = rod(q, vector(0, m + 0.10f, 0.925f), vector(0, m + 0.16f, 0.925f), 0.035f, 0.03f);
    return meet(meet(d, -line, 0.022f), -groove, 0.06f);
}

faces_vector faces_eye_centre(const faces_head *h) { return vector(h->eye_distance, 0.0f, 0.75f - h->eye_size); }

float faces_eye_distance(const faces_head *h, faces_vector at) {
    faces_vector q = {fabsf(at.x), at.y, at.z};
    return sphere(q, faces_eye_centre(h), h->eye_size);
}

/* Lids: a shell round the eyeball with an opening between two arcs, the upper one with a fold. */
static float eyes(const faces_head *h, faces_vector q, float d) {
    faces_vector centre = faces_eye_centre(h);
    float half = 1.22f * h->eye_size, x = (q.x - centre.x) / half;
    float lift = h->eye_tilt * x, arc = fmaxf(1.0f - x * x, 0.0f);
    float top = lift + h->eye_opening * arc, bottom = lift - 0.62f * h->eye_opening * arc;
    float opening = fmaxf(q.y - centre.y - top, bottom - (q.y - centre.y));
    float lid = sphere(q, centre, h->eye_size + 0.020f);
    lid = meet(lid, -fmaxf(opening, centre.z - q.z), 0.012f);
    d = join(d, lid, 0.06f);
    d = meet(d, -fmaxf(fmaxf(opening, centre.z - q.z), -0.02f - h->eye_size + length(plus(q, -1.0f, centre)) - 0.06f),
             0.012f);
    return fminf(d, sphere(q, centre, h->eye_size));
}

static float ears(const faces_head *h, faces_vector q, float d) {
    float c = cosf(h->ear_angle), s = sinf(h->ear_angle), size = h->ear_size;
    faces_vector p = {q.x - 0.98f * h->skull_width, q.y + 0.10f, q.z + 0.10f};
    /* out from the skull by the angle, and a little backwards */
    faces_vector r = {c * p.x + s * p.z, p.y - 0.15f * p.z, -s * p.x + c * p.z};
    float e = ellipsoid(r, vector(0, 0, -0.07f), vector(0.055f, size, 0.60f * size));
    e = meet(e, -ellipsoid(r, vector(0.06f, 0.03f, -0.055f), vector(0.055f, 0.66f * size, 0.36f * size)), 0.03f);
    e = join(e, ellipsoid(r, vector(0.012f, -0.72f * size, -0.01f), vector(0.04f, 0.27f * size, 0.24f * size)), 0.05f);
    /* the tragus */
    e = join(e, ellipsoid(r, vector(0.0f, -0.01f, 0.06f), vector(0.05f, 0.08f, 0.05f)), 0.04f);
    return join(d, e, 0.05f);
}

static float neck(const faces_head *h, faces_vector q, float d) {
    float n = rod(q, vector(0, -0.55f, -0.22f), vector(0, -1.75f, -0.34f), h->neck_width, h->neck_width + 0.05f);
    /* the muscles from behind the ear to the collar bone */
    n = join(n, rod(q, vector(0.46f, -0.55f, -0.18f), vector(0.12f, -1.65f, 0.16f), 0.12f, 0.10f), 0.14f);
    n = join(n, ellipsoid(q, vector(0, -1.98f, -0.36f), vector(1.5f, 0.50f, 0.52f)), 0.30f);
    return join(d, n, 0.14f);
}

float faces_skin_distance(const faces_head *h, faces_vector at) {
    float front = smooth_step(0.5f, 1.0f, at.z);
    faces_vector q = {fabsf(at.x - h->nose_lean * front),
                      at.y - h->mouth_tilt * at.x * front * smooth_step(0.3f, 0.7f, -at.y), at.z};
    float d = skull_and_face(h, q);
    /* Farther off than the smooth joins reach, a part cannot matter. */
    if (q.z > 0.3f) {
        d = brow_and_sockets(h, q, d);
        d = muzzle(h, q, d);
        d = lips(h, q, d);
        d = nose(h, q, d);
        d = eyes(h, q, d);
    }
    if (q.x > 0.45f) d = ears(h, q, d);
    return q.y < 0.2f ? neck(h, q, d) : d;
}

float faces_distance(const faces_head *h, faces_vector at) {
    return join(faces_skin_distance(h, at), faces_hair_distance(h, at), 0.02f);
}
