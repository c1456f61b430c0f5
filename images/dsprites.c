/* The sprites of dSprites, to the pixel.
 *
 * The published pictures are polygons that a graphics card filled, and these follow the same rules. A sprite of scale
 * s, orientation o and centre (c_x, c_y), in pixels with y down, has the corners
 *
 *     x = c_x + s (cos o u + sin o v)     c_x = 16 + 32 k/31, k = 0..31
 *     y = c_y + s (cos o v - sin o u)     c_y likewise
 *
 * for (u, v) of the upright sprite, h = 9.6 = 0.15 * 64:
 *
 *     square     (+-h, +-h)
 *     ellipse    100 corners at equal steps of t:  u = 1.33 h cos t,  v = h/1.33 sin t
 *     heart      150 corners at equal steps of t:  u = h sin^3 t,
 *                v = -h ((13 cos t - 5 cos 2t - 2 cos 3t - cos 4t) / 14.5 + 0.15)
 *
 * Cards hold corners to 1/256 of a pixel. So each is rounded to that grid, and a pixel is white where its centre lies
 * inside the polygon of the rounded corners: all that follows is in whole numbers and exact. A centre that lies on the
 * outline counts on a left or upper edge and not on a right or lower one, as on cards: the real frames at hand do not
 * decide this.
 *
 * Where the numbers come from: the real frames at hand, of 138 latents, are exact with
 *
 *     h of the square in 9.5974..9.6006;  1.33 in 1.32968..1.33002;  100 corners or 112, no other number of 80..219;
 *     h of the heart in 9.5994..9.6001;  14.5 in 14.4905..14.5005;  0.15 in 0.14983..0.15002;  150 corners, no other
 *     number of 100..239;  the grid of 1/256, no other power of two of 1/16..1/4096;  rounding to the nearest, neither
 *     down nor up
 *
 * (one changed at a time). The round numbers are taken, not the middles of these intervals: they hold for all shapes.
 *
 * Cost: a row of pixels is a 64-bit word. Where an edge crosses the row, it flips every pixel from there to the right;
 * what was flipped an odd number of times is inside. An edge costs one division for each row that it crosses, an image
 * 4 to 150 edges and some 100 crossings: less than a microsecond. The corners of a sprite are turned once for its 1,024
 * positions, and rounded once for each of the 32 places along either axis. */
#include "images/dsprites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/parallel.h"

enum { SUBPIXELS = 256, MOST_CORNERS = 150, ELLIPSE_CORNERS = 100, HEART_CORNERS = 150 };

#define HALF_SIDE 9.6
#define STRETCH 1.33 /* of the ellipse, which has the area of a circle of radius HALF_SIDE */
#define HEART_HEIGHT 14.5
#define HEART_LIFT 0.15
#define TWO_PI 6.283185307179586476925

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

dsprites_latents dsprites_latents_of(int64_t image) {
    dsprites_latents latents;
    latents.y = (int)(image % DSPRITES_POSITIONS);
    image /= DSPRITES_POSITIONS;
    latents.x = (int)(image % DSPRITES_POSITIONS);
    image /= DSPRITES_POSITIONS;
    latents.orientation = (int)(image % DSPRITES_ORIENTATIONS);
    image /= DSPRITES_ORIENTATIONS;
    latents.scale = (int)(image % DSPRITES_SCALES);
    latents.shape = (int)(image / DSPRITES_SCALES);
    return latents;
}

int64_t dsprites_number_of(const dsprites_latents *latents) {
    int64_t image = latents->shape;
    image = image * DSPRITES_SCALES + latents->scale;
    image = image * DSPRITES_ORIENTATIONS + latents->orientation;
    image = image * DSPRITES_POSITIONS + latents->x;
    return image * DSPRITES_POSITIONS + latents->y;
}

/* Number k of n at equal distances from `first` to `last`, as numpy.linspace rounds them. */
static double spaced(double first, double last, int k, int n) { return first + k * ((last - first) / (n - 1)); }

void dsprites_values_of(const dsprites_latents *latents, double values[DSPRITES_LATENTS]) {
    values[0] = 1.0;
    values[1] = latents->shape + 1;
    values[2] = spaced(0.5, 1.0, latents->scale, DSPRITES_SCALES);
    values[3] = spaced(0.0, TWO_PI, latents->orientation, DSPRITES_ORIENTATIONS);
    values[4] = spaced(0.0, 1.0, latents->x, DSPRITES_POSITIONS);
    values[5] = spaced(0.0, 1.0, latents->y, DSPRITES_POSITIONS);
}

/* ---- corners ----------------------------------------------------------------------------------------------------- */

/* Corners around a sprite's centre, in pixels. */
typedef struct polygon {
    int n;
    double x[MOST_CORNERS], y[MOST_CORNERS];
} polygon;

static void make_square(polygon *sprite) {
    static const double signs[4][2] = {{-1.0, -1.0}, {1.0, -1.0}, {1.0, 1.0}, {-1.0, 1.0}};
    sprite->n = 4;
    for (int k = 0; k < 4; k++) {
        sprite->x[k] = HALF_SIDE * signs[k][0];
        sprite->y[k] = HALF_SIDE * signs[k][1];
    }
}

static void make_ellipse(polygon *sprite) {
    sprite->n = ELLIPSE_CORNERS;
    for (int k = 0; k < ELLIPSE_CORNERS; k++) {
        double t = TWO_PI * k / ELLIPSE_CORNERS;
        sprite->x[k] = HALF_SIDE * STRETCH * cos(t);
        sprite->y[k] = HALF_SIDE / STRETCH * sin(t);
    }
}

static void make_heart(polygon *sprite) {
    sprite->n = HEART_CORNERS;
    for (int k = 0; k < HEART_CORNERS; k++) {
        double t = TWO_PI * k / HEART_CORNERS, s = sin(t);
        double height = 13.0 * cos(t) - 5.0 * cos(2.0 * t) - 2.0 * cos(3.0 * t) - cos(4.0 * t);
        sprite->x[k] = HALF_SIDE * s * s * s;
        sprite->y[k] = -HALF_SIDE * (height / HEART_HEIGHT + HEART_LIFT);
    }
}

/* Upright and of scale 1. */
static void make_sprite(int shape, polygon *sprite) {
    switch ((dsprites_shape)shape) {
        case DSPRITES_SQUARE:
            make_square(sprite);
            break;
        case DSPRITES_ELLIPSE:
            make_ellipse(sprite);
            break;
        case DSPRITES_HEART:
            make_heart(sprite);
            break;
    }
}

static void make_sprites(polygon sprites[DSPRITES_SHAPES]) {
    for (int shape = 0; shape < DSPRITES_SHAPES; shape++) make_sprite(shape, &sprites[shape]);
}

/* Scaled and turned. */
static void turn(const polygon *sprite, int scale, int orientation, polygon *turned) {
    double angle = TWO_PI * orientation / (DSPRITES_ORIENTATIONS - 1), size = 0.5 + 0.1 * scale;
    double c = size * cos(angle), s = size * sin(angle);
    turned->n = sprite->n;
    for (int k = 0; k < sprite->n; k++) {
        turned->x[k] = c * sprite->x[k] + s * sprite->y[k];
        turned->y[k] = c * sprite->y[k] - s * sprite->x[k];
    }
}

/* One coordinate of all corners with the centre at `place` (0..31), in 1/256 of a pixel. The sprites never leave the
 * picture: the largest, the corner of a square, reaches 13.6 pixels from a centre that is 16 from the border. */
static void put(int n, const double *coordinates, int place, int32_t *grid) {
    double centre = DSPRITES_SIDE / 4.0 + DSPRITES_SIDE / 2.0 * place / (DSPRITES_POSITIONS - 1);
    for (int k = 0; k < n; k++) grid[k] = (int32_t)floor(SUBPIXELS * (centre + coordinates[k]) + 0.5);
}

/* ---- pixels ------------------------------------------------------------------------------------------------------ */

/* The first row or column whose centre is at or behind this coordinate, which is at least half a pixel. */
static int32_t first_centre(int32_t coordinate) { return (coordinate + SUBPIXELS / 2 - 1) / SUBPIXELS; }

/* Flips, in every row that the edge from (x, y) down to (x_end, y_end) crosses, what lies right of it. Numerators stay
 * below 2^14 * 2^13. */
static void flip(int32_t x, int32_t y, int32_t x_end, int32_t y_end, uint64_t *rows) {
    int32_t height = y_end - y, end = first_centre(y_end);
    for (int32_t row = first_centre(y); row < end; row++) {
        int32_t below = row * SUBPIXELS + SUBPIXELS / 2 - y;
        /* First column with  256 column + 128 >= x + below * width / height. */
        int32_t over = (x - SUBPIXELS / 2) * height + below * (x_end - x), step = SUBPIXELS * height;
        rows[row] ^= ~UINT64_C(0) >> ((over + step - 1) / step);
    }
}

static void fill(int n, const int32_t *x, const int32_t *y, uint8_t *bits) {
    uint64_t rows[DSPRITES_SIDE] = {0};
    for (int k = 0, before = n - 1; k < n; before = k++) {
        if (y[before] < y[k])
            flip(x[before], y[before], x[k], y[k], rows);
        else
            flip(x[k], y[k], x[before], y[before], rows);
    }
    for (int row = 0; row < DSPRITES_SIDE; row++) {
        uint64_t leftmost_first = __builtin_bswap64(rows[row]);
        memcpy(bits + 8 * row, &leftmost_first, sizeof leftmost_first);
    }
}

static void render(const polygon sprites[DSPRITES_SHAPES], const dsprites_latents *latents, uint8_t *bits) {
    polygon turned;
    int32_t x[MOST_CORNERS], y[MOST_CORNERS];
    turn(&sprites[latents->shape], latents->scale, latents->orientation, &turned);
    put(turned.n, turned.x, latents->x, x);
    put(turned.n, turned.y, latents->y, y);
    fill(turned.n, x, y, bits);
}

void dsprites_render(const dsprites_latents *latents, uint8_t bits[DSPRITES_BYTES]) {
    polygon sprites[DSPRITES_SHAPES];
    make_sprite(latents->shape, &sprites[latents->shape]);
    render(sprites, latents, bits);
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

typedef struct rendering {
    const polygon *sprites; /* (DSPRITES_SHAPES) */
    const int32_t *images;
    uint8_t *bits;
} rendering;

static void render_part(void *user, int64_t first, int64_t n) {
    const rendering *r = user;
    for (int64_t i = first; i < first + n; i++) {
        dsprites_latents latents = dsprites_latents_of(r->images[i]);
        render(r->sprites, &latents, r->bits + i * DSPRITES_BYTES);
    }
}

circe_status dsprites_render_some(circe_context *context, const int32_t *images, int64_t n, uint8_t *bits) {
    polygon sprites[DSPRITES_SHAPES];
    rendering r = {.sprites = sprites, .images = images, .bits = bits};
    for (int64_t i = 0; i < n; i++)
        if (images[i] < 0 || images[i] >= DSPRITES_IMAGES)
            return circe_fail(CIRCE_ERR_ARGUMENT, "there is no picture %d in dSprites; its pictures are 0 to %d",
                              (int)images[i], DSPRITES_IMAGES - 1);
    make_sprites(sprites);
    train_ranges(context, n, 1, render_part, &r);
    return CIRCE_OK;
}

/* The 1,024 positions of one sprite. */
static void render_positions(const polygon *turned, uint8_t *bits) {
    int32_t x[DSPRITES_POSITIONS][MOST_CORNERS], y[DSPRITES_POSITIONS][MOST_CORNERS];
    for (int place = 0; place < DSPRITES_POSITIONS; place++) {
        put(turned->n, turned->x, place, x[place]);
        put(turned->n, turned->y, place, y[place]);
    }
    for (int i = 0; i < DSPRITES_POSITIONS * DSPRITES_POSITIONS; i++)
        fill(turned->n, x[i / DSPRITES_POSITIONS], y[i % DSPRITES_POSITIONS], bits + (size_t)i * DSPRITES_BYTES);
}

enum {
    A_SPRITE = DSPRITES_POSITIONS * DSPRITES_POSITIONS * DSPRITES_BYTES,
    SPRITES = DSPRITES_SHAPES * DSPRITES_SCALES * DSPRITES_ORIENTATIONS,
};

static void render_sprite(void *user, int64_t i) {
    const rendering *r = user;
    polygon turned;
    int scale = (int)(i / DSPRITES_ORIENTATIONS % DSPRITES_SCALES), orientation = (int)(i % DSPRITES_ORIENTATIONS);
    turn(&r->sprites[i / (SPRITES / DSPRITES_SHAPES)], scale, orientation, &turned);
    render_positions(&turned, r->bits + (size_t)i * A_SPRITE);
}

circe_status dsprites_make(circe_context *context, uint8_t **bits) {
    polygon sprites[DSPRITES_SHAPES];
    rendering r = {.sprites = sprites, .bits = malloc((size_t)SPRITES * A_SPRITE)};
    *bits = r.bits;
    if (r.bits == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the 377 MB of dSprites");
    make_sprites(sprites);
    circe_context_run(context, SPRITES, render_sprite, &r);
    return CIRCE_OK;
}
