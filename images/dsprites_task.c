/* Points of the dSprites tasks.
 *
 *     order (737280)   a random order of the pictures by the seed: training, holdout, validation, test follow each
 * other
 *
 * A random number of a point stands at position `base` of a stream of its own, so that points can be drawn in any order
 * and number. Cost: that of the order, some 50 ms, and 100 ns a point. */
#include "images/dsprites_task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "circe/status.h"
#include "train/parallel.h"

enum { HOLDOUT_AT = DSPRITES_MOST_TRAIN, VALIDATION_AT = HOLDOUT_AT + DSPRITES_MOST_HOLDOUT };
enum { TEST_AT = VALIDATION_AT + DSPRITES_MOST_VALIDATION, LAST = DSPRITES_POSITIONS - 1 };
enum { LEAST_POINTS = 1024 }; /* of a part: a tenth of a millisecond */
_Static_assert(TEST_AT + DSPRITES_MOST_TEST == DSPRITES_IMAGES, "the parts are all pictures");

typedef enum stream { STREAM_ORDER = 1, STREAM_SHIFT = 2, STREAM_NOISE = 3, STREAM_SIGN = 4 } stream;

static const struct {
    const char *name;
    dsprites_dependence dependence;
} names[] = {{"linear", DSPRITES_LINEAR}, {"nonlinear", DSPRITES_NONLINEAR}, {"ycone", DSPRITES_YCONE}};

bool dsprites_find(const char *name, dsprites_dependence *dependence) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0) {
            *dependence = names[i].dependence;
            return true;
        }
    return false;
}

const char *dsprites_name(dsprites_dependence dependence) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].dependence == dependence) return names[i].name;
    return "unknown";
}

void dsprites_task_options_init(dsprites_task_options *options) {
    *options = (dsprites_task_options){.dependence = DSPRITES_LINEAR,
                                       .n_train = DSPRITES_MOST_TRAIN,
                                       .n_validation = DSPRITES_MOST_VALIDATION,
                                       .n_test = DSPRITES_MOST_TEST,
                                       .n_holdout = DSPRITES_MOST_HOLDOUT};
}

static circe_status check_size(const char *what, int64_t n, int64_t least, int64_t most) {
    if (n >= least && n <= most) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "%lld %s points of dSprites: there must be %lld to %lld", (long long)n, what,
                      (long long)least, (long long)most);
}

static circe_status check_options(const dsprites_task_options *o) {
    if (o->dependence != DSPRITES_LINEAR && o->dependence != DSPRITES_NONLINEAR && o->dependence != DSPRITES_YCONE)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "there is no dependence number %d in dSprites; choose linear, nonlinear or ycone",
                          (int)o->dependence);
    circe_status status = check_size("training", o->n_train, 1, DSPRITES_MOST_TRAIN);
    if (status == CIRCE_OK) status = check_size("validation", o->n_validation, 0, DSPRITES_MOST_VALIDATION);
    if (status == CIRCE_OK) status = check_size("test", o->n_test, 0, DSPRITES_MOST_TEST);
    if (status == CIRCE_OK) status = check_size("holdout", o->n_holdout, 1, DSPRITES_MOST_HOLDOUT);
    return status;
}

/* ---- one point --------------------------------------------------------------------------------------------------- */

static double uniform(uint64_t seed, stream of, int64_t base) {
    double drawn;
    circe_random_uniform((circe_random){.seed = seed, .stream = of}, (uint64_t)base, 1, &drawn);
    return drawn;
}

static double normal(uint64_t seed, stream of, int64_t base) {
    double drawn;
    circe_random_normal((circe_random){.seed = seed, .stream = of}, (uint64_t)base, 1, &drawn);
    return drawn;
}

static int clip(long value, int least, int most) { return (int)(value < least ? least : value > most ? most : value); }

/* posX given posY; *z := the distractor that is observed. */
static int draw_x(const dsprites_task_options *o, int64_t base, int y, double *z) {
    int x = 0, k, sign = uniform(o->seed, STREAM_SIGN, base) < 0.5 ? -1 : 1;
    switch (o->dependence) {
        case DSPRITES_LINEAR:
            x = clip(lround(y + normal(o->seed, STREAM_NOISE, base)), 0, LAST);
            *z = x / (double)LAST;
            break;
        case DSPRITES_NONLINEAR:
            k = (int)((1 + (LAST - y < 3 ? LAST - y : 3)) * uniform(o->seed, STREAM_NOISE, base));
            x = y + k;
            *z = k == 0 ? 0.0 : sign * sqrt(k);
            break;
        case DSPRITES_YCONE: /* (32 y +- y^2) / 64, halves rounded up; within 0..31 for every y */
            x = (32 * y + sign * y * y + 32) / 64;
            *z = x / (double)LAST;
            break;
    }
    return x;
}

static void draw_point(const dsprites_task_options *o, int64_t base, bool ood, int64_t i, dsprites_part *part) {
    dsprites_latents latents = dsprites_latents_of(base);
    double z = o->dependence == DSPRITES_NONLINEAR ? (double)NAN : latents.x / (double)LAST;
    double y = latents.y / (double)LAST;
    if (!ood) latents.x = draw_x(o, base, latents.y, &z);
    part->base[i] = (int32_t)base;
    part->image[i] = part->points.stored[i] = (int32_t)dsprites_number_of(&latents);
    part->points.shift[i] = (int8_t)clip(lround(2.0 * 2.0 * normal(o->seed, STREAM_SHIFT, base)), INT8_MIN, INT8_MAX);
    part->points.target[i] = (float)y;
    part->points.y[i] = y;
    part->points.z[i] = z;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static circe_status make_part(int64_t n, dsprites_part *part) {
    size_t room = n > 0 ? (size_t)n : 1;
    circe_status status = image_part_make(n, true, &part->points);
    if (status != CIRCE_OK) return status;
    part->base = malloc(room * sizeof *part->base);
    part->image = malloc(room * sizeof *part->image);
    if (part->base != NULL && part->image != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld points of dSprites", (long long)n);
}

typedef struct drawing {
    const dsprites_task_options *options;
    const int64_t *order;
    bool ood;
    int64_t first;
    dsprites_part *part;
} drawing;

static void draw_some(void *user, int64_t first, int64_t n) {
    const drawing *d = user;
    for (int64_t i = first; i < first + n; i++) draw_point(d->options, d->order[i], d->ood, d->first + i, d->part);
}

/* Points first .. first + n - 1 := the bases order[0..n). */
static void draw_points(const circe_context *context, const dsprites_task_options *o, const int64_t *order, int64_t n,
                        bool ood, int64_t first, dsprites_part *part) {
    drawing d = {.options = o, .order = order, .ood = ood, .first = first, .part = part};
    train_ranges(context, n, LEAST_POINTS, draw_some, &d);
}

/* In domain and OOD from the same bases. */
static circe_status draw_pair(const circe_context *context, const dsprites_task_options *o, const int64_t *order,
                              int64_t n, int64_t holdout, dsprites_part *in_domain, dsprites_part *ood) {
    dsprites_part *parts[2] = {in_domain, ood};
    for (int k = 0; k < 2; k++) {
        circe_status status = make_part(n + holdout, parts[k]);
        if (status != CIRCE_OK) return status;
    }
    for (int k = 0; k < 2; k++) draw_points(context, o, order, n, k == 1, 0, parts[k]);
    return CIRCE_OK;
}

static circe_status draw_parts(const circe_context *context, const int64_t *order, dsprites_task *task) {
    const dsprites_task_options *o = &task->options;
    dsprites_part *parts = task->parts;
    int64_t also = o->holdout_in_training ? o->n_holdout : 0;
    circe_status status = draw_pair(context, o, order, o->n_train, also, &parts[IMAGE_TRAIN], &parts[IMAGE_OOD_TRAIN]);
    if (status == CIRCE_OK)
        status = draw_pair(context, o, order + VALIDATION_AT, o->n_validation, 0, &parts[IMAGE_VALIDATION],
                           &parts[IMAGE_OOD_VALIDATION]);
    if (status == CIRCE_OK)
        status = draw_pair(context, o, order + TEST_AT, o->n_test, 0, &parts[IMAGE_TEST], &parts[IMAGE_OOD_TEST]);
    if (status == CIRCE_OK) status = make_part(o->n_holdout, &parts[IMAGE_HOLDOUT]);
    if (status != CIRCE_OK) return status;
    draw_points(context, o, order + HOLDOUT_AT, o->n_holdout, false, 0, &parts[IMAGE_HOLDOUT]);
    draw_points(context, o, order + HOLDOUT_AT, also, false, o->n_train, &parts[IMAGE_TRAIN]);
    draw_points(context, o, order + HOLDOUT_AT, also, true, o->n_train, &parts[IMAGE_OOD_TRAIN]);
    return CIRCE_OK;
}

circe_status dsprites_task_make(const circe_context *context, const dsprites_task_options *options,
                                dsprites_task *task) {
    *task = (dsprites_task){.options = *options};
    circe_status status = check_options(options);
    if (status != CIRCE_OK) return status;
    OWNED int64_t *order = malloc(DSPRITES_IMAGES * sizeof *order);
    if (order == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the order of dSprites");
    circe_random_permutation((circe_random){.seed = options->seed, .stream = STREAM_ORDER}, DSPRITES_IMAGES, order);
    status = draw_parts(context, order, task);
    if (status != CIRCE_OK) dsprites_task_free(task);
    return status;
}

void dsprites_task_free(dsprites_task *task) {
    if (task == NULL) return;
    for (int k = 0; k < IMAGE_PARTS; k++) {
        image_part_free(&task->parts[k].points);
        free(task->parts[k].base);
        free(task->parts[k].image);
    }
    free(task->rendered);
    *task = (dsprites_task){0};
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

void dsprites_task_use(dsprites_task *task, const uint8_t *bits) {
    free(task->rendered);
    task->rendered = NULL;
    task->bits = bits;
    task->n_stored = DSPRITES_IMAGES;
    for (int k = 0; k < IMAGE_PARTS; k++) {
        dsprites_part *part = &task->parts[k];
        if (part->points.n > 0) memcpy(part->points.stored, part->image, (size_t)part->points.n * sizeof *part->image);
    }
}

static bool is_wanted(unsigned parts, int kind) { return parts == 0 || (parts >> kind & 1) != 0; }

/* row (737280) := where each picture will lie, -1 if it does not occur; images := theirs, ascending; how many. */
static int64_t collect(const dsprites_task *task, unsigned parts, int32_t *row, int32_t *images) {
    int32_t n = 0;
    for (int64_t image = 0; image < DSPRITES_IMAGES; image++) row[image] = -1;
    for (int k = 0; k < IMAGE_PARTS; k++)
        for (int64_t i = 0; is_wanted(parts, k) && i < task->parts[k].points.n; i++) row[task->parts[k].image[i]] = 0;
    for (int32_t image = 0; image < DSPRITES_IMAGES; image++) {
        if (row[image] < 0) continue;
        images[n] = image;
        row[image] = n++;
    }
    return n;
}

static void point_to_rows(unsigned parts, const int32_t *row, dsprites_task *task) {
    for (int k = 0; k < IMAGE_PARTS; k++) {
        const dsprites_part *part = &task->parts[k];
        for (int64_t i = 0; i < part->points.n; i++)
            part->points.stored[i] = is_wanted(parts, k) ? row[part->image[i]] : -1;
    }
}

circe_status dsprites_task_render(circe_context *context, unsigned parts, dsprites_task *task) {
    OWNED int32_t *row = malloc(DSPRITES_IMAGES * sizeof *row), *images = malloc(DSPRITES_IMAGES * sizeof *images);
    int64_t n = row != NULL && images != NULL ? collect(task, parts, row, images) : 0;
    uint8_t *bits = n > 0 ? malloc((size_t)n * DSPRITES_BYTES) : NULL;
    if (bits == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld pictures of dSprites", (long long)n);
    circe_status status = dsprites_render_some(context, images, n, bits);
    if (status != CIRCE_OK) {
        free(bits);
        return status;
    }
    point_to_rows(parts, row, task);
    free(task->rendered);
    task->bits = task->rendered = bits;
    task->n_stored = n;
    return CIRCE_OK;
}

train_source dsprites_task_source(const dsprites_task *task, image_part_kind kind) {
    train_source pictures = {.element = TRAIN_BITS,
                             .values = task->bits,
                             .n_stored = task->n_stored,
                             .stride = DSPRITES_BYTES,
                             .channels = 1,
                             .height = DSPRITES_SIDE,
                             .width = DSPRITES_SIDE,
                             .repeat = 1,
                             .scale = 2.0F,
                             .offset = -1.0F,
                             .background = -1.0F};
    return image_part_source(&task->parts[kind].points, &pictures);
}
