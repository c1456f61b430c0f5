/* Who the heads are: measures around the average of adults, with the spread of a population, hair, beard and skin. */
#include "circe/random.h"
#include "images/faces_solids.h"

void faces_head_init(faces_head *head) {
    *head = (faces_head){.skull_width = 0.73f,
                         .skull_height = 0.80f,
                         .skull_length = 0.95f,
                         .face_width = 0.60f,
                         .face_fullness = 0.0f,
                         .jaw_width = 0.43f,
                         .jaw_height = -0.62f,
                         .chin_height = -1.00f,
                         .chin_forward = 0.62f,
                         .chin_width = 0.19f,
                         .neck_width = 0.50f,
                         .cheek_size = 0.20f,
                         .brow_size = 0.075f,
                         .eye_distance = 0.315f,
                         .eye_size = 0.118f,
                         .eye_opening = 0.058f,
                         .eye_tilt = 0.010f,
                         .brow_height = 0.185f,
                         .brow_thickness = 0.034f,
                         .brow_arch = 0.03f,
                         .nose_length = 0.44f,
                         .nose_forward = 1.06f,
                         .nose_width = 0.125f,
                         .nose_bridge = 0.0f,
                         .nose_tip = 0.095f,
                         .mouth_width = 0.25f,
                         .mouth_height = -0.70f,
                         .upper_lip = 0.042f,
                         .lower_lip = 0.050f,
                         .ear_size = 0.30f,
                         .ear_angle = 0.35f,
                         .hair = FACES_SHORT,
                         .hair_thickness = 0.09f,
                         .hair_line = 0.62f,
                         .hair_recede = 0.03f,
                         .hair_part = 0.0f,
                         .hair_roughness = 0.018f,
                         .beard = 0.0f,
                         .beard_style = 0.0f,
                         .nose_lean = 0.0f,
                         .mouth_tilt = 0.0f,
                         .skin = 0.55f,
                         .hair_albedo = 0.07f,
                         .lip_albedo = 0.36f,
                         .iris_albedo = 0.12f,
                         .freckles = 0.0f,
                         .texture_seed = 0};
}

/* Draws of an identity, one after another. */
typedef struct draws {
    circe_random generator;
    uint64_t used;
} draws;

/* Between two bounds, more often in the middle (the sum of two uniform numbers). */
static float between(draws *d, float low, float high) {
    double u[2];
    circe_random_uniform(d->generator, d->used, 2, u);
    d->used += 2;
    return low + (high - low) * (float)(0.5 * (u[0] + u[1]));
}

static float even(draws *d, float low, float high) {
    double u;
    circe_random_uniform(d->generator, d->used++, 1, &u);
    return low + (high - low) * (float)u;
}

static void draw_bones(draws *d, faces_head *h) {
    h->skull_width += between(d, -0.05f, 0.05f);
    h->skull_height += between(d, -0.05f, 0.06f);
    h->skull_length += between(d, -0.04f, 0.05f);
    h->face_width += between(d, -0.06f, 0.06f);
    h->face_fullness = between(d, -0.05f, 0.07f);
    h->jaw_width += between(d, -0.09f, 0.10f);
    h->jaw_height += between(d, -0.08f, 0.08f);
    h->chin_height += between(d, -0.08f, 0.07f);
    h->chin_forward += between(d, -0.06f, 0.07f);
    h->chin_width += between(d, -0.06f, 0.07f);
    h->neck_width += between(d, -0.09f, 0.07f);
    h->cheek_size += between(d, -0.04f, 0.05f);
    h->brow_size += between(d, -0.025f, 0.03f);
}

static void draw_features(draws *d, faces_head *h) {
    h->eye_distance += between(d, -0.03f, 0.03f);
    h->eye_size += between(d, -0.008f, 0.010f);
    h->eye_opening += between(d, -0.020f, 0.016f);
    h->eye_tilt += between(d, -0.025f, 0.025f);
    h->brow_height += between(d, -0.025f, 0.04f);
    h->brow_thickness += between(d, -0.016f, 0.018f);
    h->brow_arch += between(d, -0.02f, 0.035f);
    h->nose_length += between(d, -0.06f, 0.07f);
    h->nose_forward += between(d, -0.07f, 0.08f);
    h->nose_width += between(d, -0.025f, 0.04f);
    h->nose_bridge = between(d, -0.04f, 0.05f);
    h->nose_tip += between(d, -0.018f, 0.022f);
    h->mouth_width += between(d, -0.04f, 0.05f);
    h->mouth_height += between(d, -0.03f, 0.03f);
    h->upper_lip += between(d, -0.016f, 0.016f);
    h->lower_lip += between(d, -0.016f, 0.020f);
    h->ear_size += between(d, -0.04f, 0.04f);
    h->ear_angle += between(d, -0.15f, 0.35f);
    h->nose_lean = between(d, -0.02f, 0.02f);
    h->mouth_tilt = between(d, -0.05f, 0.05f);
}

static void draw_hair(draws *d, faces_head *h) {
    float style = even(d, 0.0f, 1.0f);
    h->hair = style < 0.08f   ? FACES_BALD
              : style < 0.26f ? FACES_CROPPED
              : style < 0.56f ? FACES_SHORT
              : style < 0.76f ? FACES_FULL
                              : FACES_LONG;
    static const float thickness[] = {0.0f, 0.035f, 0.08f, 0.15f, 0.09f},
                       rough[] = {0.0f, 0.006f, 0.016f, 0.030f, 0.014f};
    h->hair_thickness = thickness[h->hair] * even(d, 0.8f, 1.25f);
    h->hair_roughness = rough[h->hair] * even(d, 0.7f, 1.3f);
    h->hair_line = even(d, 0.48f, 0.72f);
    h->hair_recede = even(d, -0.10f, 0.16f);
    h->hair_part = even(d, -0.22f, 0.22f);
    h->hair_albedo = 0.03f + 0.22f * even(d, 0.0f, 1.0f) * even(d, 0.0f, 1.0f);
    bool bearded = even(d, 0.0f, 1.0f) < 0.45f && h->hair != FACES_LONG;
    h->beard = bearded ? even(d, 0.25f, 0.95f) : 0.0f;
    h->beard_style = even(d, 0.0f, 1.0f);
}

void faces_head_draw(uint64_t seed, int64_t identity, faces_head *head) {
    draws d = {{seed, 0x6661636573000000u + (uint64_t)identity}, 0}; /* "faces" */
    faces_head_init(head);
    draw_bones(&d, head);
    draw_features(&d, head);
    /* noses end well above the mouth, mouths above the chin */
    head->mouth_height = fminf(head->mouth_height, -head->nose_length - 0.245f);
    head->chin_height = fminf(head->chin_height, head->mouth_height - 0.27f);
    draw_hair(&d, head);
    head->skin = even(&d, 0.24f, 0.56f);
    head->hair_albedo = fminf(head->hair_albedo, 0.45f * head->skin);
    head->lip_albedo = head->skin * even(&d, 0.58f, 0.80f);
    head->iris_albedo = even(&d, 0.03f, 0.16f);
    head->freckles = even(&d, 0.0f, 1.0f) < 0.3f ? even(&d, 0.03f, 0.12f) : 0.0f;
    head->texture_seed = 16u * (uint32_t)identity + 1u;
}
