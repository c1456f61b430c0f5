/* Points from what is stored to the floats of a batch, on the CPU, which borrows what is stored.
 *
 *     out (n, repeat, channels, height, width) := scale * v + offset, lines moved by the shift, else background
 *
 * Bits are looked up, 8 pixels at once (256 bytes by 8 floats, 8 KB, which stay in the first cache); bytes are
 * computed, which vectors do faster. Either way the cost is that of writing `out`: 16 MB in a millisecond; the n rows
 * are cut among the threads. This file is compiled without fused operations: the numbers are those of one
 * multiplication and one addition in float32, whatever the instruction set. */
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/cpu/cpu.h"
#include "train/parallel.h"

enum { LEAST = 32768, BITS = 8, LEVELS = 256 }; /* LEAST: numbers that are worth a thread */

struct train_source_handle {
    train_source source;
    float bits[LEVELS][BITS]; /* what the 8 pixels in a byte become */
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

circe_status train_cpu_source_open(train_device *device, const train_source *source, train_source_handle **handle) {
    (void)device;
    train_source_handle *made = malloc(sizeof *made);
    *handle = made;
    if (made == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the description of points");
    made->source = *source;
    for (int level = 0; level < LEVELS; level++)
        for (int bit = 0; bit < BITS; bit++)
            made->bits[level][bit] = source->scale * (float)(level >> (BITS - 1 - bit) & 1) + source->offset;
    return CIRCE_OK;
}

void train_cpu_source_close(train_device *device, train_source_handle *handle) {
    (void)device;
    free(handle);
}

/* ---- pixels ------------------------------------------------------------------------------------------------------ */

TRAIN_LOOP static void expand_bytes(float scale, float offset, const uint8_t *restrict from, int64_t n,
                                    float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = scale * (float)from[i] + offset;
}

/* Whole bytes. */
TRAIN_LOOP static void expand_octets(const float (*restrict table)[BITS], const uint8_t *restrict from, int64_t n,
                                     float *restrict out) {
    for (int64_t i = 0; i < n; i++) memcpy(out + i * BITS, table[from[i]], sizeof *table);
}

/* Pixels [first, first + n) of a row of bits. */
static void expand_bits(const float (*table)[BITS], const uint8_t *row, int64_t first, int64_t n, float *out) {
    int64_t before = (BITS - first % BITS) % BITS; /* up to the next whole byte */
    if (before > n) before = n;
    if (before > 0) memcpy(out, &table[row[first / BITS]][first % BITS], (size_t)before * sizeof *out);
    int64_t at = (first + before) / BITS, whole = (n - before) / BITS, after = (n - before) % BITS;
    expand_octets(table, row + at, whole, out + before);
    if (after > 0) memcpy(out + n - after, table[row[at + whole]], (size_t)after * sizeof *out);
}

static void fill(float value, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) out[i] = value;
}

/* Pixels [first, first + n) of a stored row. */
static void expand(const train_source_handle *handle, const uint8_t *row, int64_t first, int64_t n, float *out) {
    if (handle->source.element == TRAIN_BITS)
        expand_bits(handle->bits, row, first, n, out);
    else
        expand_bytes(handle->source.scale, handle->source.offset, row + first, n, out);
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

/* One channel, moved down by `shift` lines. */
static void show_channel(const train_source_handle *handle, const uint8_t *row, int64_t channel, int64_t shift,
                         float *out) {
    const train_source *s = &handle->source;
    int64_t height = s->height, plane = height * s->width;
    int64_t above = shift < 0 ? 0 : shift > height ? height : shift;   /* lines that came into view */
    int64_t below = shift > 0 ? 0 : shift < -height ? height : -shift; /* the same at the lower end */
    int64_t kept = (height - above - below) * s->width, first = below * s->width;
    fill(s->background, above * s->width, out);
    expand(handle, row, channel * plane + first, kept, out + above * s->width);
    fill(s->background, first, out + above * s->width + kept);
}

static void show_point(const train_source_handle *handle, int64_t point, float *out) {
    const train_source *s = &handle->source;
    const void *row = train_source_row_start(s, train_source_row(s, point));
    int64_t plane = s->height * s->width, once = s->channels * plane;
    int64_t shift = s->shift != NULL ? s->shift[point] : 0;
    if (s->element == TRAIN_FLOATS) {
        memcpy(out, row, (size_t)once * sizeof *out);
        return;
    }
    if (shift == 0) /* the channels as one */
        expand(handle, row, 0, once, out);
    else
        for (int64_t c = 0; c < s->channels; c++) show_channel(handle, row, c, shift, out + c * plane);
    for (int64_t r = 1; r < s->repeat; r++) memcpy(out + r * once, out, (size_t)once * sizeof *out);
}

typedef struct gathering {
    const train_source_handle *handle;
    const int64_t *index;
    int64_t first, cols;
    float *out;
} gathering;

static void gather_part(void *user, int64_t first, int64_t n) {
    const gathering *g = user;
    for (int64_t i = first; i < first + n; i++)
        show_point(g->handle, g->index != NULL ? g->index[i] : g->first + i, g->out + i * g->cols);
}

void train_cpu_source_gather(train_device *device, const train_source_handle *handle, const int64_t *index,
                             int64_t first, int64_t n, float *out) {
    gathering g = {handle, index, first, train_source_cols(&handle->source), out};
    train_ranges(device->context, n, LEAST / g.cols + 1, gather_part, &g);
}
