/* All pictures in memory, as bytes of one size: 16,128 of 224 by 224 are 809 MB. Read, or rendered, by several threads;
 * each writes its own places. */
#include <stdlib.h>

#include "circe/status.h"
#include "images/resize.h"
#include "images/stack.h"
#include "images/yaleb.h"

enum { LARGEST_SIZE = 1024 };

static circe_status check_size(int64_t size) {
    if (size >= 8 && size <= LARGEST_SIZE) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "pictures must be 8 to %d pixels wide and high, not %lld", LARGEST_SIZE,
                      (long long)size);
}

static circe_status make_store(int64_t n, int64_t size, yaleb_store *store) {
    circe_status status = check_size(size);
    if (status != CIRCE_OK) return status;
    store->pixels = malloc((size_t)n * (size_t)(size * size));
    store->names = calloc((size_t)n, sizeof *store->names);
    store->n = n;
    store->size = size;
    if (store->pixels != NULL && store->names != NULL) return CIRCE_OK;
    yaleb_store_free(store);
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld pictures of %lld by %lld pixels (%lld MB)",
                      (long long)n, (long long)size, (long long)size, (long long)(n * size * size / 1000000));
}

void yaleb_store_free(yaleb_store *store) {
    free(store->pixels);
    free(store->names);
    *store = (yaleb_store){0};
}

/* ---- from files -------------------------------------------------------------------------------------------------- */

circe_status yaleb_read(const circe_context *context, const char *folder, int64_t size, circe_progress_fn progress,
                        void *user, yaleb_store *store) {
    const image_stack_options options = {
        .width = size, .height = size, .channels = 1, .progress = progress, .user = user};
    yaleb_list list;
    image_stack stack;
    int64_t wrong;
    *store = (yaleb_store){0};
    circe_status status = yaleb_list_make(folder, &list);
    if (status != CIRCE_OK) return status;
    status = check_size(size);
    if (status == CIRCE_OK) status = image_stack_read_files(context, list.paths, list.n, &options, &stack, &wrong);
    if (status == CIRCE_OK) {
        *store = (yaleb_store){list.n, size, stack.pixels, list.names, list.bad, list.ambient};
        list.names = NULL;
    }
    yaleb_list_free(&list);
    return status;
}

/* ---- from rendered heads ----------------------------------------------------------------------------------------- */

typedef struct taker {
    yaleb_store *store;
    int64_t width, height;
    int place[FACES_LIGHTS]; /* of a lamp among the names of its pose, which ascend */
} taker;

static circe_status take(void *user, int64_t identity, int pose, int light, const uint8_t *pixels) {
    const taker *t = user;
    int64_t i = (identity * FACES_POSES + pose) * FACES_LIGHTS + t->place[light], size = t->store->size;
    const image_picture picture = {t->width, t->height, 1, (uint8_t *)(uintptr_t)pixels};
    t->store->names[i] = yaleb_name_of(identity, pose, light);
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
        yaleb_name one = yaleb_name_of(0, 0, a);
        for (int b = 0; b < FACES_LIGHTS; b++) {
            yaleb_name two = yaleb_name_of(0, 0, b);
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
