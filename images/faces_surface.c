/* What a point of the head reflects: skin with its patches, lips, brows, beard, hair, and the eye. Colours are grey:
 * the pictures are. */
#include "images/faces_solids.h"

static float mix(float a, float b, float t) { return a + t * (b - a); }

/* How much of a brow is at a point, 0 to 1: an arc over the eye, thick inside and thin outside. */
static float brow_at(const faces_head *h, faces_vector q) {
    float u = clamp((q.x - 0.09f) / 0.42f, 0.0f, 1.0f);
    float line = h->brow_height + h->brow_arch * (1.0f - 2.6f * (u - 0.6f) * (u - 0.6f)) - 0.045f * u * u;
    float ends = smooth_step(0.06f, 0.14f, q.x) * (1.0f - smooth_step(0.44f, 0.54f, q.x));
    float half = h->brow_thickness * (1.0f - 0.55f * u);
    float hairs = 0.25f * texture(h, 7, 70.0f * q.x, 25.0f * q.y, 0);
    return q.z < 0.4f ? 0.0f
                      : ends * (1.0f - smooth_step(0.55f * half, 1.35f * half, fabsf(q.y - line) * (1.0f + hairs)));
}

static float lips_at(const faces_head *h, faces_vector q) {
    float w = 0.96f * h->mouth_width, x = q.x / w, m = h->mouth_height + 0.016f * x * x;
    if (x >= 1.0f || q.z < 0.6f) return 0.0f;
    float arc = sqrtf(1.0f - x * x), bow = 0.014f * (1.0f - smooth_step(0.0f, 0.05f, q.x));
    float top = m + 1.75f * h->upper_lip * arc - bow, bottom = m - 1.85f * h->lower_lip * arc;
    return smooth_step(-0.012f, 0.012f, fminf(top - q.y, q.y - bottom));
}

/* Jaw, chin and upper lip; or, by the style, only around the mouth. */
static float beard_at(const faces_head *h, faces_vector at, faces_vector q) {
    float m = h->mouth_height;
    float jaw = smooth_step(0.30f, 0.62f, -at.y + 0.25f * q.x) * smooth_step(-0.25f, 0.05f, at.z) *
                (1.0f - smooth_step(1.12f, 1.30f, -at.y));
    float moustache = (1.0f - smooth_step(0.24f, 0.34f, q.x)) * smooth_step(m + 0.03f, m + 0.07f, q.y) *
                      (1.0f - smooth_step(m + 0.13f, m + 0.20f, q.y)) * smooth_step(0.5f, 0.6f, at.z);
    float cheek = 1.0f - smooth_step(0.15f, 0.42f, (at.z - 0.35f) - (-0.55f - at.y) * 1.2f);
    float chin = (1.0f - smooth_step(0.20f, 0.30f, q.x)) * smooth_step(-m + 0.08f, -m + 0.16f, -at.y) *
                 (1.0f - smooth_step(1.10f, 1.22f, -at.y)) * smooth_step(0.3f, 0.5f, at.z);
    float amount = h->beard_style > 0.5f ? fmaxf(moustache, chin) : fmaxf(moustache, jaw * fmaxf(cheek, chin));
    float grain = 0.8f + 0.3f * texture(h, 3, 40.0f * at.x, 40.0f * at.y, 40.0f * at.z);
    return clamp(h->beard * amount * grain, 0.0f, 1.0f) * (1.0f - lips_at(h, q));
}

static faces_surface eye_at(const faces_head *h, faces_vector q) {
    faces_vector centre = faces_eye_centre(h);
    float r = hypotf(q.x - centre.x, q.y - centre.y - 0.1f * h->eye_opening) / h->eye_size;
    float iris = 1.0f - smooth_step(0.47f, 0.56f, r), pupil = 1.0f - smooth_step(0.18f, 0.26f, r);
    float white = 0.50f - 0.16f * smooth_step(0.6f, 1.0f, r);
    float albedo = mix(mix(white, h->iris_albedo, iris), 0.015f, pupil);
    return (faces_surface){albedo, 0.60f};
}

static faces_surface skin_at(const faces_head *h, faces_vector at) {
    faces_vector q = {fabsf(at.x - h->nose_lean * smooth_step(0.5f, 1.0f, at.z)), at.y, at.z};
    float patches = texture(h, 4, 4.0f * at.x, 4.0f * at.y, 4.0f * at.z),
          pores = texture(h, 5, 30.0f * at.x, 30.0f * at.y, 30.0f * at.z);
    float spots = smooth_step(0.55f, 0.8f, texture(h, 6, 17.0f * at.x, 17.0f * at.y, 17.0f * at.z));
    float albedo = h->skin * (1.0f + 0.05f * patches + 0.04f * pores - h->freckles * spots);
    /* darker round the eyes, redder (darker in grey) cheeks */
    faces_vector eye = faces_eye_centre(h);
    float around = hypotf((q.x - eye.x) / 0.24f, (q.y - eye.y + 0.015f) / 0.13f);
    if (at.z > 0.4f) albedo *= 1.0f - 0.16f * (1.0f - smooth_step(0.5f, 1.1f, around));
    float lip = lips_at(h, q), beard = beard_at(h, at, q), brow = brow_at(h, q);
    albedo = mix(albedo, h->lip_albedo, lip);
    albedo = mix(albedo, fminf(h->hair_albedo, 0.8f * albedo), 0.85f * beard);
    albedo = mix(albedo, fminf(h->hair_albedo, 0.55f * albedo), 0.9f * brow);
    /* lashes: a dark rim where lid meets eye */
    float lash = 1.0f - smooth_step(0.006f, 0.024f, faces_eye_distance(h, at));
    if (at.z > 0.5f && fabsf(q.y - eye.y) < 0.10f) albedo *= 1.0f - 0.6f * lash;
    if (at.y < -1.52f) albedo = 0.10f; /* clothes */
    return (faces_surface){albedo, (0.10f + 0.05f * lip) * (1.0f - beard) * (1.0f - brow)};
}

faces_surface faces_surface_at(const faces_head *h, faces_vector at) {
    faces_vector q = {fabsf(at.x - h->nose_lean * smooth_step(0.5f, 1.0f, at.z)), at.y, at.z};
    float skin = faces_skin_distance(h, at), hair = faces_hair_distance(h, at);
    if (at.z > 0.4f && sphere(q, faces_eye_centre(h), h->eye_size) < 0.004f && skin < hair) return eye_at(h, q);
    faces_surface s = skin_at(h, at);
    float covered = smooth_step(-0.012f, 0.012f, skin - hair);
    float strands = texture(h, 2, 45.0f * at.x, 7.0f * at.y, 45.0f * at.z);
    s.albedo = mix(s.albedo, h->hair_albedo * (1.0f + 0.35f * strands), covered);
    s.sheen = mix(s.sheen, 0.05f + 0.1f * h->hair_albedo, covered);
    return s;
}
