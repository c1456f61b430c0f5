/* All pictures in memory, as bytes of one size: 16,128 of 224 by 224 are 809 MB. Read, or rendered, by several threads;
 * each writes its own places. */
#include <stdlib.h>
#include <string.h>

#include "images/first_error.h"
#include "images/picture.h"
#include "images/resize.h"
#include "images/yaleb.h"

enum { CHUNK = 256, LARGEST_SIZE = 1024 }; /* pictures between two signs of progress */

static circe_status make_store(int64_t n, int64_t size, yaleb_store *store) {
    *store = (yaleb_store){0};
    if (size < 8 || size > LARGEST_SIZE)
        return circe_fail(CIRCE_ERR_ARGUMENT, "pictures are made 8 to %d pixels wide and high, not %lld", LARGEST_SIZE,
                          (long long)size);
    store->pixels = malloc((size_t)n * (size_t)(size * size));
    store->names = calloc((size_t)n, sizeof *store->names);
    store->n = n;
    store->size = size;
    if (store->pixels != NULL && store->names != NULL) return CIRCE_OK;
    yaleb_store_free(store);
    return circe_fail(CIRCE_ERR_MEMORY, "no memory for %lld pictures of %lld by %lld pixels (%lld MB)", (long long)n,
                      (long long)size, (long long)size, (long long)(n * size * size / 1000000));
}

void yaleb_store_free(yaleb_store *store) {
    free(store->pixels);
    free(store->names);
    *store = (yaleb_store){0};
}

/* ---- from files ----------------------------------------------------------------------------------------------------
 */

static circe_status read_one(const char *path, int64_t size, uint8_t *out) {
    image_picture picture;
    circe_status status = image_picture_read(path, &picture);
    if (status != CIRCE_OK) return status;
    image_picture_grey(&picture);
    status = image_resize(&picture, size, size, out);
    image_picture_free(&picture);
    return status;
}

/* Pictures `first` and on of the list. */
typedef struct reading {
    const yaleb_list *list;
    const yaleb_store *store;
    int64_t first;
    first_error error;
} reading;

static void read_part(void *user, int64_t part) {
    reading *r = user;
    int64_t i = r->first + part, size = r->store->size;
    if (!first_error_happened(&r->error))
        first_error_note(&r->error, read_one(r->list->paths[i], size, r->store->pixels + i * size * size));
}

static circe_status read_all(const circe_context *context, const yaleb_list *list, circe_progress_fn progress,
                             void *user, yaleb_store *store) {
    reading r = {.list = list, .store = store};
    for (; r.first < list->n; r.first += CHUNK) {
        int64_t end = r.first + CHUNK < list->n ? r.first + CHUNK : list->n;
        circe_context_run(context, end - r.first, read_part, &r);
        if (first_error_happened(&r.error)) return first_error_status(&r.error);
        if (progress != NULL && progress(user, "reading pictures", end, list->n))
            return circe_fail(CIRCE_ERR_CANCELLED, "interrupted");
    }
    return CIRCE_OK;
}

circe_status yaleb_read(const circe_context *context, const char *folder, int64_t size, circe_progress_fn progress,
                        void *user, yaleb_store *store) {
    yaleb_list list;
    *store = (yaleb_store){0};
    circe_status status = yaleb_list_make(folder, &list);
    if (status != CIRCE_OK) return status;
    status = make_store(list.n, size, store);
    if (status == CIRCE_OK) {
        memcpy(store->names, list.names, (size_t)list.n * sizeof *list.names);
        store->bad = list.bad;
        store->ambient = list.ambient;
        status = read_all(context, &list, progress, user, store);
    }
    yaleb_list_free(&list);
    if (status != CIRCE_OK) yaleb_store_free(store);
    return status;
}

/* ---- from rendered heads -------------------------------------------------------------------------------------------
 */

typedef struct taker {
    yaleb_store *store;
    int64_t width, height;
    int place[FACES_LIGHTS]; /* of a lamp among the names of its pose, which ascend */
} taker;

static yaleb_name name_of(int64_t identity, int pose, int light) {
    return (yaleb_name){faces_numbers[identity], pose, faces_lights[light].azimuth, faces_lights[light].elevation};
}

static circe_status take(void *user, int64_t identity, int pose, int light, const uint8_t *pixels) {
    const taker *t = user;
    int64_t i = (identity * FACES_POSES + pose) * FACES_LIGHTS + t->place[light], size = t->store->size;
    const image_picture picture = {t->width, t->height, 1, (uint8_t *)(uintptr_t)pixels};
    t->store->names[i] = name_of(identity, pose, light);
    return image_resize(&picture, size, size, t->store->pixels + i * size * size);
}

circe_status yaleb_render(const circe_context *context, const faces_options *options, int64_t size,
                          circe_progress_fn progress, void *user, yaleb_store *store) {
    taker t = {store, faces_width(options->height), options->height, {0}};
    *store = (yaleb_store){0};
    circe_status status = faces_options_check(options);
    if (status == CIRCE_OK) status = make_store(options->identities * FACES_POSES * FACES_LIGHTS, size, store);
    if (status != CIRCE_OK) return status;
    for (int a = 0; a < FACES_LIGHTS; a++) {
        yaleb_name one = name_of(0, 0, a);
        for (int b = 0; b < FACES_LIGHTS; b++) {
            yaleb_name two = name_of(0, 0, b);
            t.place[a] += yaleb_compare(&two, &one) < 0;
        }
    }
    status = faces_render(context, options, take, &t, progress, user);
    if (status != CIRCE_OK) yaleb_store_free(store);
    return status;
}

train_source yaleb_pictures(const yaleb_store *store) {
    return (train_source){.element = TRAIN_BYTES,
                          .values = store->pixels,
                          .n_stored = store->n,
                          .stride = store->size * store->size,
                          .channels = 1,
                          .height = store->size,
                          .width = store->size,
                          .repeat = 3,
                          .scale = 2.0f / 255.0f,
                          .offset = -1.0f,
                          .background = -1.0f};
}
