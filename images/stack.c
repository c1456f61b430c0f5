/* Pictures from files, as planes of bytes.
 *
 *     n pictures (height, width, 1 or 3) -> (n, channels, height, width), channels 1 if all are grey
 *
 * Whether any picture has colour is known only after the last one is read. So all pictures are read like the first one,
 * and again from the start if a coloured one follows grey ones. Several threads decode files in chunks, and progress is
 * shown between chunks. Each file has its own row. */
#include "images/stack.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "core/core.h"
#include "images/resize.h"
#include "images/stack_parts.h"

enum { CHUNK = 256 }; /* pictures between two signs of progress */

/* ---- memory ------------------------------------------------------------------------------------------------------ */

circe_status image_stack_allocate(const circe_context *context, image_stack *stack) {
    char what[128];
    int64_t numbers = stack->channels * stack->height * stack->width;
    size_t size = stack->element == TRAIN_FLOATS ? sizeof(float) : 1;
    stack->stride = stack->element == TRAIN_BITS ? (numbers + 7) / 8 : numbers;
    snprintf(what, sizeof what, "keeping %lld pictures of %lld by %lld pixels", (long long)stack->n,
             (long long)stack->width, (long long)stack->height);
    double bytes = (double)stack->n * (double)stack->stride * (double)size;
    circe_status status = circe__memory_check(context, bytes, what, "use smaller or fewer pictures");
    if (status != CIRCE_OK) return status;
    stack->pixels = malloc((size_t)(stack->n * stack->stride) * size);
    if (stack->pixels != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory: %s takes %.0f MB", what, bytes / 1e6);
}

void image_stack_free(image_stack *stack) {
    free(stack->pixels);
    *stack = (image_stack){0};
}

void image_stack_keep(image_stack *stack, const char *keep, int32_t *place) {
    size_t row = (size_t)stack->stride * (stack->element == TRAIN_FLOATS ? sizeof(float) : 1);
    int64_t kept = 0;
    for (int64_t i = 0; i < stack->n; i++) {
        place[i] = keep[i] ? (int32_t)kept : -1;
        if (!keep[i]) continue;
        if (kept < i) memcpy((char *)stack->pixels + (size_t)kept * row, (char *)stack->pixels + (size_t)i * row, row);
        kept++;
    }
    void *less = realloc(stack->pixels, (size_t)kept * row + 1);
    if (less != NULL) stack->pixels = less;
    stack->n = kept;
}

train_source image_stack_source(const image_stack *stack) {
    bool floats = stack->element == TRAIN_FLOATS;
    return (train_source){.element = stack->element,
                          .values = stack->pixels,
                          .n_stored = stack->n,
                          .stride = stack->stride,
                          .n = stack->n,
                          .channels = stack->channels,
                          .height = stack->height,
                          .width = stack->width,
                          .repeat = stack->repeat,
                          .scale = floats                          ? 1.0F
                                   : stack->element == TRAIN_BYTES ? 2.0F / 255.0F
                                                                   : 2.0F,
                          .offset = floats ? 0.0F : -1.0F,
                          .background = -1.0F};
}

/* ---- several threads --------------------------------------------------------------------------------------------- */

/* Items `first` and on, one a part. */
typedef struct items {
    image_item_fn run;
    void *user;
    int64_t first;
    pthread_mutex_t lock; /* of what follows */
    int64_t wrong;        /* the first that failed; -1: none */
    circe_status status;
    char text[1024];
} items;

/* Texts of errors are a thread's own: that of the first item is kept, and said again by the caller's thread. */
static void run_item(void *user, int64_t part) {
    items *all = user;
    int64_t i = all->first + part;
    circe_status status = all->run(all->user, i);
    if (status == CIRCE_OK) return;
    pthread_mutex_lock(&all->lock);
    if (all->wrong < 0 || i < all->wrong) {
        all->wrong = i;
        all->status = status;
        snprintf(all->text, sizeof all->text, "%s", circe_last_error());
    }
    pthread_mutex_unlock(&all->lock);
}

circe_status image_stack_each(const circe_context *context, int64_t n, const image_stack_options *options,
                              image_item_fn item, void *user, int64_t *wrong) {
    items all = {.run = item, .user = user, .lock = PTHREAD_MUTEX_INITIALIZER, .wrong = -1};
    *wrong = -1;
    for (; all.first < n; all.first += CHUNK) {
        int64_t end = all.first + CHUNK < n ? all.first + CHUNK : n;
        circe_context_run(context, end - all.first, run_item, &all);
        *wrong = all.wrong;
        if (all.wrong >= 0) return circe_fail(all.status, "%s", all.text);
        if (options->progress != NULL && options->progress(options->user, "reading images", end, n))
            return circe_fail(CIRCE_ERR_CANCELLED, "interrupted");
    }
    return CIRCE_OK;
}

/* ---- one picture ------------------------------------------------------------------------------------------------- */

static circe_status put_plane(const image_stack *stack, const image_picture *grey, uint8_t *out) {
    if (grey->width != stack->width || grey->height != stack->height)
        return image_resize(grey, stack->width, stack->height, out);
    memcpy(out, grey->pixels, (size_t)(stack->width * stack->height));
    return CIRCE_OK;
}

static circe_status put_colour(const image_stack *stack, const image_picture *picture, uint8_t *out) {
    image_picture plane;
    circe_status status = image_picture_make(picture->width, picture->height, 1, "a picture", &plane);
    for (int64_t c = 0; c < 3 && status == CIRCE_OK; c++) {
        for (int64_t p = 0; p < picture->width * picture->height; p++) plane.pixels[p] = picture->pixels[3 * p + c];
        status = put_plane(stack, &plane, out + c * stack->height * stack->width);
    }
    image_picture_free(&plane);
    return status;
}

circe_status image_stack_place(image_stack *stack, int64_t i, const image_picture *picture) {
    uint8_t *out = (uint8_t *)stack->pixels + i * stack->stride;
    size_t plane = (size_t)(stack->height * stack->width);
    if (picture->channels == 3) return put_colour(stack, picture, out);
    circe_status status = put_plane(stack, picture, out);
    for (int64_t c = 1; c < stack->channels && status == CIRCE_OK; c++) memcpy(out + (size_t)c * plane, out, plane);
    return status;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

typedef struct reading {
    char *const *paths;
    const image_stack_options *options;
    image_stack *stack;
    bool resized;
} reading;

static circe_status check_size(const reading *r, int64_t i, const image_picture *picture) {
    const image_stack *s = r->stack;
    if (r->resized || (picture->width == s->width && picture->height == s->height)) return CIRCE_OK;
    return circe_fail(
        CIRCE_ERR_SHAPE,
        "%s is %lld by %lld pixels, and the first picture, %s, is %lld by %lld: they must have the same size",
        r->paths[i], (long long)picture->width, (long long)picture->height, r->paths[0], (long long)s->width,
        (long long)s->height);
}

static void note_colour(image_stack *stack, int64_t i) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (stack->coloured < 0 || i < stack->coloured) stack->coloured = i;
    pthread_mutex_unlock(&lock);
}

static circe_status read_one(void *user, int64_t i) {
    const reading *r = user;
    image_picture picture;
    circe_status status = image_picture_read(r->paths[i], &picture);
    if (status != CIRCE_OK) return status;
    if (r->options->channels == 1) image_picture_grey(&picture);
    if (picture.channels == 3) note_colour(r->stack, i);
    status = check_size(r, i, &picture);
    if (status == CIRCE_OK && picture.channels == 3 && r->stack->channels == 1)
        image_picture_grey(&picture); /* all are read again */
    if (status == CIRCE_OK) status = image_stack_place(r->stack, i, &picture);
    image_picture_free(&picture);
    return status;
}

/* What the first picture says of the set. */
static circe_status read_first(const reading *r, int64_t *wrong) {
    image_picture picture;
    image_stack *s = r->stack;
    *wrong = 0;
    circe_status status = image_picture_read(r->paths[0], &picture);
    if (status != CIRCE_OK) return status;
    *wrong = -1;
    s->width = r->resized ? r->options->width : picture.width;
    s->height = r->resized ? r->options->height : picture.height;
    s->channels = r->options->channels == 1 ? 1 : picture.channels;
    image_picture_free(&picture);
    return CIRCE_OK;
}

static circe_status read_all(const circe_context *context, reading *r, int64_t *wrong) {
    image_stack *s = r->stack;
    circe_status status = image_stack_allocate(context, s);
    if (status == CIRCE_OK) status = image_stack_each(context, s->n, r->options, read_one, r, wrong);
    return status;
}

/* Grey ones were followed by one with colour. */
static bool must_begin_again(image_stack *stack) {
    if (stack->coloured < 0 || stack->channels == 3) return false;
    stack->channels = 3;
    free(stack->pixels);
    stack->pixels = NULL;
    return true;
}

circe_status image_stack_read_files(const circe_context *context, char *const *paths, int64_t n,
                                    const image_stack_options *options, image_stack *stack, int64_t *wrong) {
    reading r = {paths, options, stack, options->width > 0};
    *stack = (image_stack){.element = TRAIN_BYTES, .n = n, .coloured = -1, .white = 255};
    *wrong = -1;
    if (n < 1 || n > INT32_MAX)
        return circe_fail(CIRCE_ERR_SHAPE, "%lld pictures; there must be 1 to 2^31 - 1", (long long)n);
    circe_status status = read_first(&r, wrong);
    if (status == CIRCE_OK) status = read_all(context, &r, wrong);
    if (status == CIRCE_OK && must_begin_again(stack)) status = read_all(context, &r, wrong);
    stack->repeat = options->channels == 3 && stack->channels == 1 ? 3 : 1;
    if (status != CIRCE_OK) image_stack_free(stack);
    return status;
}
