/* Resizing with a triangle filter, one axis after the other.
 *
 * An output pixel is the weighted mean of the input pixels around its centre; the weights fall linearly to 0 at a
 * distance of one pixel, of the input where the picture grows (bilinear interpolation) and of the output where it
 * shrinks (so that every input pixel counts, and fine detail does not alias). At the border the weights that are left
 * are made to sum to 1. Cost: outputs times 2 max(1, input/output), per axis. */
#include "images/resize.h"

#include <math.h>
#include <stdlib.h>

#include "base/owned.h"
#include "circe/status.h"

/* The weights of one output pixel: inputs first .. first + n - 1. */
typedef struct taps {
    int64_t first, n;
    float *weight;
} taps;

/* (to) of them, with their weights in one block behind; to be freed as one. NULL: no memory. */
static taps *make_taps(int64_t from, int64_t to) {
    double ratio = (double)from / (double)to, reach = ratio > 1.0 ? ratio : 1.0;
    int64_t most = (int64_t)ceil(2.0 * reach) + 2;
    taps *list = malloc((size_t)to * (sizeof *list + (size_t)most * sizeof(float)));
    if (list == NULL) return NULL;
    float *weights = (float *)(list + to);
    for (int64_t o = 0; o < to; o++, weights += most) {
        double centre = ((double)o + 0.5) * ratio - 0.5, sum = 0.0;
        int64_t first = (int64_t)ceil(centre - reach), last = (int64_t)floor(centre + reach);
        if (first < 0) first = 0;
        if (last > from - 1) last = from - 1;
        for (int64_t i = first; i <= last; i++) sum += 1.0 - fabs((double)i - centre) / reach;
        for (int64_t i = first; i <= last; i++)
            weights[i - first] = (float)((1.0 - fabs((double)i - centre) / reach) / sum);
        list[o] = (taps){first, last - first + 1, weights};
    }
    return list;
}

static void resize_rows(const image_picture *in, const taps *columns, int64_t width, float *out) {
    for (int64_t r = 0; r < in->height; r++) {
        const uint8_t *row = in->pixels + r * in->width;
        for (int64_t c = 0; c < width; c++) {
            float sum = 0.0f;
            for (int64_t k = 0; k < columns[c].n; k++) sum += columns[c].weight[k] * (float)row[columns[c].first + k];
            out[r * width + c] = sum;
        }
    }
}

static void resize_columns(const float *in, const taps *rows, int64_t width, int64_t height, float *line,
                           uint8_t *out) {
    for (int64_t r = 0; r < height; r++) {
        for (int64_t c = 0; c < width; c++) line[c] = 0.5f;
        for (int64_t k = 0; k < rows[r].n; k++) {
            const float *row = in + (rows[r].first + k) * width;
            for (int64_t c = 0; c < width; c++) line[c] += rows[r].weight[k] * row[c];
        }
        for (int64_t c = 0; c < width; c++) out[r * width + c] = (uint8_t)(line[c] < 255.0f ? line[c] : 255.0f);
    }
}

circe_status image_resize(const image_picture *picture, int64_t width, int64_t height, uint8_t *out) {
    if (picture->channels != 1 || width < 1 || height < 1 || width > IMAGE_MOST_PIXELS / height)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "a picture cannot be resized to %lld by %lld pixels; 1 by 1 is the smallest size",
                          (long long)width, (long long)height);
    OWNED taps *columns = make_taps(picture->width, width), *rows = make_taps(picture->height, height);
    OWNED float *middle = malloc((size_t)(width * (picture->height + 1)) * sizeof *middle);
    circe_status status = CIRCE_OK;
    if (columns == NULL || rows == NULL || middle == NULL) {
        status = circe_fail(CIRCE_ERR_MEMORY, "out of memory; cannot resize a picture to %lld by %lld",
                            (long long)width, (long long)height);
    } else {
        resize_rows(picture, columns, width, middle);
        resize_columns(middle, rows, width, height, middle + width * picture->height, out);
    }
    return status;
}
