/* Points on the GPU: what is stored (bits, bytes or floats, as they are), which rows are shown, and how far they are
 * moved, are copied there once. */
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/cuda/cuda_device.h"

struct train_source_handle {
    cuda_points points;
    void *values, *stored, *shift;
};

void train_cuda_source_close(train_device *device, train_source_handle *handle) {
    if (handle == NULL) return;
    device->ops->release(device, handle->values);
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

/* The last row may end before its stride. */
static size_t stored_bytes(const train_source *s) {
    const char *start = s->values, *last = train_source_row_start(s, s->n_stored - 1);
    return (size_t)(last - start) + (size_t)train_source_row_bytes(s);
}

static circe_status fill(train_device *device, const train_source *s, train_source_handle *handle) {
    size_t n = (size_t)s->n;
    if (train_source_cols(s) > INT32_MAX)
        return circe_fail(CIRCE_ERR_SHAPE, "points of %lld numbers; on a GPU there may be %d",
                          (long long)train_source_cols(s), INT32_MAX);
    circe_status status = s->n_stored > 0 ? bring(device, s->values, stored_bytes(s), &handle->values) : CIRCE_OK;
    if (status == CIRCE_OK) status = bring(device, s->stored, n * sizeof *s->stored, &handle->stored);
    if (status == CIRCE_OK) status = bring(device, s->shift, n * sizeof *s->shift, &handle->shift);
    handle->points = (cuda_points){.element = (int)s->element,
                                   .values = handle->values,
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

circe_status train_cuda_source_open(train_device *device, const train_source *source, train_source_handle **handle) {
    *handle = calloc(1, sizeof **handle);
    if (*handle == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for the description of points");
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
