/* Pictures from an array of an .npz or .npy.
 *
 *     (n, height, width), (n, height, width, c) or (n, c, height, width), c = 1 or 3 -> (n, c, height, width)
 *
 * The array may be much larger than what is kept of it (3 GB of dSprites become 377 MB of bits), so it is read, and
 * inflated from an .npz, in blocks. Whole numbers are packed as bits as long as only 0 and 1 occur. At the first larger
 * one, everything becomes bytes. Resizing and making grey come last, when it is known which number is white. Floats
 * stay floats, as the network sees them: 2 v - 1. The cost is that of inflating. */
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "circe/status.h"
#include "files/mapped.h"
#include "images/stack_parts.h"
#include "io/arrays.h"

enum { BLOCK_BYTES = 1 << 18 }; /* read at a time: what a cache holds */

typedef struct array_reader {
    const char *name; /* "PATH:MEMBER", for the texts of errors */
    io_array array;
    io_member *member; /* of an .npz; NULL: an .npy */
    const char *at;    /* of an .npy: the next bytes */
    bool channels_last;
    int64_t done, numbers; /* pictures so far; numbers of one */
    const image_stack_options *options;
    image_stack *stack;
    uint8_t *planes; /* (numbers): a picture on its way */
} array_reader;

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static circe_status open_npy(const circe__mapped *file, array_reader *r) {
    size_t header = 0;
    circe_status status = io_npy_measure(file->data, file->bytes, r->name, &header);
    if (status == CIRCE_OK && header > file->bytes)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: it ends inside its header", r->name);
    if (status == CIRCE_OK) status = io_npy_header(file->data, header, file->bytes - header, r->name, &r->array);
    r->at = (const char *)file->data + header;
    return status;
}

static circe_status open_array(const circe__mapped *file, const char *path, const char *array, array_reader *r) {
    r->name = path;
    if (file->bytes < 2 || memcmp(file->data, "PK", 2) != 0) return open_npy(file, r);
    circe_status status = io_member_open(file->data, file->bytes, path, array, &r->member, &r->array);
    if (r->member != NULL) r->name = io_member_name(r->member);
    return status;
}

static circe_status next_bytes(array_reader *r, void *to, size_t bytes) {
    if (r->member != NULL) return io_member_read(r->member, to, bytes);
    memcpy(to, r->at, bytes);
    r->at += bytes;
    return CIRCE_OK;
}

/* ---- what it holds ----------------------------------------------------------------------------------------------- */

static bool is_float(io_element element) {
    return element == IO_F2 || element == IO_BF16 || element == IO_F4 || element == IO_F8;
}

static bool is_channels(int64_t n) { return n == 1 || n == 3; }

static circe_status find_shape(array_reader *r) {
    const io_array *a = &r->array;
    char shape[256];
    image_stack *s = r->stack;
    if (a->n_dims == 3) {
        *s = (image_stack){.channels = 1, .height = a->shape[1], .width = a->shape[2]};
    } else if (a->n_dims == 4 && is_channels(a->shape[3])) {
        r->channels_last = true;
        *s = (image_stack){.channels = a->shape[3], .height = a->shape[1], .width = a->shape[2]};
    } else if (a->n_dims == 4 && is_channels(a->shape[1])) {
        *s = (image_stack){.channels = a->shape[1], .height = a->shape[2], .width = a->shape[3]};
    } else {
        return circe_fail(CIRCE_ERR_SHAPE,
                          "%s: an array of shape %s; pictures are (n, height, width), (n, height, width, channels) or "
                          "(n, channels, height, width), with 1 or 3 channels",
                          r->name, io_shape_text(a, shape, sizeof shape));
    }
    s->n = a->shape[0];
    s->coloured = -1;
    s->repeat = 1;
    if (s->n > INT32_MAX || a->cols > IMAGE_MOST_PIXELS)
        return circe_fail(CIRCE_ERR_SHAPE, "%s: an array of shape %s has more or larger pictures than memory can hold",
                          r->name, io_shape_text(a, shape, sizeof shape));
    return CIRCE_OK;
}

static bool changes_size(const array_reader *r) {
    const image_stack_options *o = r->options;
    return o->width > 0 && (o->width != r->stack->width || o->height != r->stack->height);
}

static bool becomes_grey(const array_reader *r) { return r->options->channels == 1 && r->stack->channels == 3; }

static circe_status refuse_rows(const array_reader *r) {
    circe_fail(CIRCE_ERR_SHAPE, "%s: it contains %lld pictures, but there are %lld rows of labels", r->name,
               (long long)r->stack->n, (long long)r->options->rows);
    if (r->options->rows_of == NULL) return CIRCE_ERR_SHAPE;
    return circe_fail_hint(CIRCE_ERR_SHAPE, "row i of %s must belong to image i", r->options->rows_of);
}

static circe_status check_array(array_reader *r) {
    const image_stack *s = r->stack;
    if (r->array.fortran)
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: it is in Fortran order; save it with numpy.ascontiguousarray around it", r->name);
    if (r->options->rows > 0 && s->n != r->options->rows) return refuse_rows(r);
    if (!is_float(r->array.element)) return CIRCE_OK;
    if (changes_size(r))
        return circe_fail(
            CIRCE_ERR_ARGUMENT,
            "%s: pictures of floats, here %lld by %lld, are not resized; save them as uint8, or in the wanted size",
            r->name, (long long)s->width, (long long)s->height);
    if (becomes_grey(r))
        return circe_fail(
            CIRCE_ERR_ARGUMENT,
            "%s: pictures of floats with 3 channels are not converted to grey; save them as uint8, or as grey pictures",
            r->name);
    return CIRCE_OK;
}

/* ---- whole numbers ----------------------------------------------------------------------------------------------- */

/* Eight pixels are one number, byte i of which must become bit 7 - i: multiplied by the sum of 2^(63 - 9 i), they meet
 * in its highest byte, and no two products fall on the same bit. */
void image_pack(const uint8_t *pixels, int64_t n, uint8_t *bits) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t eight;
        memcpy(&eight, pixels + i, sizeof eight);
        bits[i / 8] = (uint8_t)(eight * UINT64_C(0x8040201008040201) >> 56);
    }
    if (i < n) bits[i / 8] = 0;
    for (; i < n; i++) bits[i / 8] = (uint8_t)(bits[i / 8] | pixels[i] << (7 - i % 8));
}

bool image_is_binary(const uint8_t *pixels, int64_t n) {
    uint8_t seen = 0;
    for (int64_t i = 0; i < n; i++) seen |= pixels[i];
    return seen <= 1;
}

static uint8_t bit_of(const uint8_t *bits, int64_t i) { return bits[i / 8] >> (7 - i % 8) & 1; }

/* The numbers were no bits after all. */
static circe_status become_bytes(circe_context *context, array_reader *r) {
    image_stack bits = *r->stack;
    r->stack->element = TRAIN_BYTES;
    circe_status status = image_stack_allocate(context, r->stack);
    for (int64_t i = 0; i < r->done && status == CIRCE_OK; i++) {
        const uint8_t *from = (const uint8_t *)bits.pixels + i * bits.stride;
        uint8_t *to = (uint8_t *)r->stack->pixels + i * r->stack->stride;
        for (int64_t k = 0; k < r->numbers; k++) to[k] = bit_of(from, k);
    }
    free(bits.pixels);
    if (status != CIRCE_OK) r->stack->pixels = NULL;
    return status;
}

static circe_status refuse_number(const array_reader *r, int64_t picture, double value, const char *right) {
    return circe_fail(CIRCE_ERR_VALUE, "%s: picture %lld (counted from 0) contains %g; %s", r->name, (long long)picture,
                      value, right);
}

/* planes (channels, height, width) := a picture as the array has it. */
static void to_planes(const array_reader *r, const uint8_t *pixels, uint8_t *planes) {
    int64_t channels = r->stack->channels, each = r->numbers / channels;
    if (!r->channels_last || channels == 1) {
        memcpy(planes, pixels, (size_t)r->numbers);
        return;
    }
    for (int64_t c = 0; c < channels; c++)
        for (int64_t p = 0; p < each; p++) planes[c * each + p] = pixels[channels * p + c];
}

static circe_status put_bytes(circe_context *context, array_reader *r, const uint8_t *pixels) {
    image_stack *s = r->stack;
    circe_status status = CIRCE_OK;
    to_planes(r, pixels, r->planes);
    if (s->element == TRAIN_BITS && !image_is_binary(r->planes, r->numbers)) {
        uint8_t most = 0;
        for (int64_t k = 0; k < r->numbers; k++) most = r->planes[k] > most ? r->planes[k] : most;
        if (r->options->white == 1)
            return refuse_number(r, r->done, most,
                                 "its pixels must be 0 or 1, as in the pictures that the model was trained on");
        status = become_bytes(context, r);
    }
    if (status != CIRCE_OK) return status;
    uint8_t *row = (uint8_t *)s->pixels + r->done * s->stride;
    if (s->element == TRAIN_BITS)
        image_pack(r->planes, r->numbers, row);
    else
        memcpy(row, r->planes, (size_t)r->numbers);
    return CIRCE_OK;
}

/* Whole numbers of other types. */
static circe_status put_numbers(circe_context *context, array_reader *r, const double *values, uint8_t *pixels) {
    for (int64_t k = 0; k < r->numbers; k++) {
        if (!(values[k] >= 0.0 && values[k] <= 255.0))
            return refuse_number(r, r->done, values[k], "whole numbers must be 0 to 255");
        pixels[k] = (uint8_t)values[k];
    }
    return put_bytes(context, r, pixels);
}

/* ---- floats ------------------------------------------------------------------------------------------------------ */

/* Every plane, as often as it is stored. */
static circe_status put_floats(array_reader *r, const circe_mat *values, int64_t row) {
    const image_stack *s = r->stack;
    int64_t channels = r->channels_last ? r->numbers / (s->height * s->width) : 1, each = r->numbers / channels;
    float *out = (float *)s->pixels + r->done * s->stride;
    for (int64_t k = 0; k < r->numbers; k++) {
        int64_t at = row * r->numbers + k;
        double v = values->dtype == CIRCE_FLOAT32 ? (double)((const float *)values->data)[at]
                                                  : ((const double *)values->data)[at];
        if (!(v >= 0.0 && v <= 1.0))
            return refuse_number(r, r->done, v, "floats must be 0 to 1 (or save them as uint8, 0 to 255)");
        out[k % channels * each + k / channels] = (float)(2.0 * v - 1.0);
    }
    for (int64_t k = r->numbers; k < s->stride; k++) out[k] = out[k - r->numbers]; /* grey as three */
    return CIRCE_OK;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static circe_status put_converted(circe_context *context, array_reader *r, const void *block, int64_t n,
                                  uint8_t *pixels) {
    io_array part = r->array;
    io_table table = {0};
    part.shape[0] = part.rows = n;
    part.bytes = (size_t)(n * r->numbers) * io_element_size(part.element);
    circe_status status = io_array_convert(&part, block, r->name, &table);
    for (int64_t i = 0; i < n && status == CIRCE_OK; i++, r->done++)
        status = is_float(part.element)
                     ? put_floats(r, &table.values, i)
                     : put_numbers(context, r, (const double *)table.values.data + i * r->numbers, pixels);
    io_table_free(&table);
    return status;
}

static circe_status put_block(circe_context *context, array_reader *r, uint8_t *block, int64_t n, uint8_t *pixels) {
    circe_status status = CIRCE_OK;
    if (r->array.element == IO_BOOL)
        for (int64_t k = 0; k < n * r->numbers; k++) block[k] = block[k] != 0;
    if (r->array.element != IO_U1 && r->array.element != IO_BOOL) return put_converted(context, r, block, n, pixels);
    for (int64_t i = 0; i < n && status == CIRCE_OK; i++, r->done++)
        status = put_bytes(context, r, block + i * r->numbers);
    return status;
}

static circe_status read_blocks(circe_context *context, array_reader *r) {
    int64_t bytes = r->numbers * (int64_t)io_element_size(r->array.element);
    int64_t at_once = bytes < BLOCK_BYTES ? BLOCK_BYTES / bytes : 1, total = r->array.shape[0];
    OWNED uint8_t *block = malloc((size_t)(at_once * bytes)), *pixels = malloc((size_t)r->numbers);
    OWNED uint8_t *planes = r->planes = malloc((size_t)r->numbers);
    circe_status status = CIRCE_OK;
    if (block == NULL || pixels == NULL || planes == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory; cannot read it", r->name);
    while (r->done < total && status == CIRCE_OK) {
        int64_t n = total - r->done < at_once ? total - r->done : at_once;
        status = next_bytes(r, block, (size_t)(n * bytes));
        if (status == CIRCE_OK) status = put_block(context, r, block, n, pixels);
        if (status == CIRCE_OK && r->options->progress != NULL &&
            r->options->progress(r->options->user, "reading images", r->done, total))
            status = circe_fail(CIRCE_ERR_CANCELLED, "interrupted");
    }
    return status == CIRCE_OK && r->member != NULL ? io_member_end(r->member) : status;
}

/* ---- resized and made grey --------------------------------------------------------------------------------------- */

typedef struct change {
    const image_stack *from;
    image_stack *to;
} change;

/* A stored picture as a picture, white 255. */
static void unpack(const image_stack *s, int64_t i, uint8_t *out) {
    const uint8_t *row = (const uint8_t *)s->pixels + i * s->stride;
    int64_t each = s->height * s->width;
    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t p = 0; p < each; p++)
            out[s->channels * p + c] =
                s->element == TRAIN_BITS ? (uint8_t)(255 * bit_of(row, c * each + p)) : row[c * each + p];
}

static circe_status change_one(void *user, int64_t i) {
    const change *c = user;
    image_picture picture;
    circe_status status = image_picture_make(c->from->width, c->from->height, c->from->channels, "a picture", &picture);
    if (status != CIRCE_OK) return status;
    unpack(c->from, i, picture.pixels);
    if (c->to->channels == 1) image_picture_grey(&picture);
    status = image_stack_place(c->to, i, &picture);
    image_picture_free(&picture);
    return status;
}

static circe_status change_all(circe_context *context, const array_reader *r) {
    image_stack old = *r->stack, made = old;
    change c = {&old, &made};
    int64_t wrong;
    made.element = TRAIN_BYTES;
    made.pixels = NULL;
    made.width = r->options->width > 0 ? r->options->width : old.width;
    made.height = r->options->width > 0 ? r->options->height : old.height;
    made.channels = r->options->channels == 1 ? 1 : old.channels;
    circe_status status = image_stack_allocate(context, &made);
    if (status == CIRCE_OK) status = image_stack_each(context, made.n, r->options, change_one, &c, &wrong);
    if (status != CIRCE_OK) {
        free(made.pixels);
        return status;
    }
    free(old.pixels);
    *r->stack = made;
    return CIRCE_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static circe_status read_array(circe_context *context, array_reader *r) {
    image_stack *s = r->stack;
    bool floats = is_float(r->array.element);
    circe_status status = find_shape(r);
    if (status == CIRCE_OK) status = check_array(r);
    if (status != CIRCE_OK) return status;
    r->numbers = s->channels * s->height * s->width;
    bool bits = r->array.element == IO_BOOL || r->options->white != 255, shown = r->options->channels == 3;
    s->element = floats ? TRAIN_FLOATS : bits ? TRAIN_BITS : TRAIN_BYTES;
    if (shown && s->channels == 1 && floats) s->channels = 3;
    if (shown && s->channels == 1) s->repeat = 3;
    status = image_stack_allocate(context, s);
    if (status == CIRCE_OK) status = read_blocks(context, r);
    s->white = floats ? 0 : s->element == TRAIN_BITS ? 1 : 255;
    if (status == CIRCE_OK && !floats && (changes_size(r) || becomes_grey(r))) status = change_all(context, r);
    return status;
}

circe_status image_stack_read_array(circe_context *context, const char *path, const char *array,
                                    const image_stack_options *options, image_stack *stack) {
    circe__mapped file;
    array_reader r = {.options = options, .stack = stack};
    *stack = (image_stack){0};
    int problem = circe__map_file(path, &file);
    if (problem != 0) return circe_fail(CIRCE_ERR_IO, "%s: cannot be read: %s", path, circe__map_problem(problem));
    circe_status status =
        file.bytes == 0 ? circe_fail(CIRCE_ERR_FORMAT, "%s: it is empty", path) : open_array(&file, path, array, &r);
    if (status == CIRCE_OK) status = read_array(context, &r);
    io_member_close(r.member);
    circe__unmap(&file);
    if (status != CIRCE_OK) image_stack_free(stack);
    return status;
}
