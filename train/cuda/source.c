/* Points on the GPU. The stored values (bits, bytes or floats, as they are), the numbers of the rows that are shown,
 * and their shifts are copied there once. Stored values are shared: sources that are open at the same time and borrow
 * the same array of the host, such as training and validation points or several runs of a sweep, have one copy of
 * it. */
#include <pthread.h>
#include <stdlib.h>

#include "circe/status.h"
#include "train/cuda/cuda_device.h"

/* An array of the host on a GPU. While a source is open its arrays stay as they are, so the address says what it is. */
typedef struct shared {
    const void *from;
    size_t bytes;
    int gpu;
    int64_t users;
    void *values;
    struct shared *next;
} shared;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and while one is copied */
static shared *all_shared;

struct train_source_handle {
    cuda_points points;
    shared *values;
    void *stored, *shift;
    const int8_t *from_shift; /* (n), the host's */
    size_t n;
};

static void give_back(train_device *device, shared *values) {
    if (values == NULL) return;
    pthread_mutex_lock(&lock);
    if (--values->users == 0) {
        shared **at = &all_shared;
        while (*at != values) at = &(*at)->next;
        *at = values->next;
        device->ops->release(device, values->values);
        free(values);
    }
    pthread_mutex_unlock(&lock);
}

void train_cuda_source_close(train_device *device, train_source_handle *handle) {
    if (handle == NULL) return;
    give_back(device, handle->values);
    device->ops->release(device, handle->stored);
    device->ops->release(device, handle->shift);
    free(handle);
}

static circe_status bring(train_device *device, const void *from, size_t bytes, void **to) {
    if (from == NULL) return CIRCE_OK;
    *to = device->ops->allocate(device, bytes);
    if (*to == NULL) return CIRCE_ERR_MEMORY;
    device->ops->upload(device, *to, from, bytes);
    return device->ops->check(device);
}

static circe_status bring_shared(train_device *device, const void *from, size_t bytes, shared **made) {
    shared *values = calloc(1, sizeof *values);
    if (values == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the description of points");
    *values = (shared){.from = from, .bytes = bytes, .gpu = train_cuda_of(device)->gpu, .next = all_shared};
    circe_status status = bring(device, from, bytes, &values->values);
    if (status == CIRCE_OK) {
        *made = all_shared = values;
    } else {
        device->ops->release(device, values->values);
        free(values);
    }
    return status;
}

static circe_status share(train_device *device, const void *from, size_t bytes, shared **values) {
    circe_status status = CIRCE_OK;
    int gpu = train_cuda_of(device)->gpu;
    pthread_mutex_lock(&lock);
    shared *found = all_shared;
    while (found != NULL && (found->from != from || found->bytes != bytes || found->gpu != gpu)) found = found->next;
    if (found == NULL) status = bring_shared(device, from, bytes, &found);
    if (status == CIRCE_OK) {
        found->users++;
        *values = found;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* The last row may end before its stride. */
static size_t stored_bytes(const train_source *s) {
    const char *start = s->values, *last = train_source_row_start(s, s->n_stored - 1);
    return (size_t)(last - start) + (size_t)train_source_row_bytes(s);
}

static circe_status fill(train_device *device, const train_source *s, train_source_handle *handle) {
    size_t n = handle->n = (size_t)s->n;
    handle->from_shift = s->shift;
    if (train_source_cols(s) > INT32_MAX)
        return circe_fail(CIRCE_ERR_SHAPE, "points have %lld numbers; a GPU supports at most %d",
                          (long long)train_source_cols(s), INT32_MAX);
    circe_status status = s->n_stored > 0 ? share(device, s->values, stored_bytes(s), &handle->values) : CIRCE_OK;
    if (status == CIRCE_OK) status = bring(device, s->stored, n * sizeof *s->stored, &handle->stored);
    if (status == CIRCE_OK) status = bring(device, s->shift, n * sizeof *s->shift, &handle->shift);
    handle->points = (cuda_points){.element = (int)s->element,
                                   .values = handle->values != NULL ? handle->values->values : NULL,
                                   .stride = s->stride,
                                   .stored = handle->stored,
                                   .shift = handle->shift,
                                   .plane = (int)(s->height * s->width),
                                   .once = (int)(s->channels * s->height * s->width),
                                   .cols = (int)train_source_cols(s),
                                   .height = (int)s->height,
                                   .width = (int)s->width,
                                   .scale = s->scale,
                                   .offset = s->offset,
                                   .background = s->background};
    return status;
}

void train_cuda_source_renew(train_device *device, train_source_handle *handle) {
    if (handle->values != NULL)
        device->ops->upload(device, handle->values->values, handle->values->from, handle->values->bytes);
    if (handle->shift != NULL) device->ops->upload(device, handle->shift, handle->from_shift, handle->n);
}

circe_status train_cuda_source_open(train_device *device, const train_source *source, train_source_handle **handle) {
    *handle = calloc(1, sizeof **handle);
    if (*handle == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the description of points");
    circe_status status = fill(device, source, *handle);
    if (status != CIRCE_OK) {
        train_cuda_source_close(device, *handle);
        *handle = NULL;
    }
    return status;
}

void train_cuda_source_gather(train_device *device, const train_source_handle *handle, const int64_t *index,
                              int64_t first, int64_t n, float *out) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_note(cuda, train_cuda_gather_points(&handle->points, index, first, n, out, cuda->stream),
                    "gathering points");
}
