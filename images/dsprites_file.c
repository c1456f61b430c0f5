/* The published file of dSprites: reading.
 *
 * An .npz is a zip of .npy members; here only `imgs` counts, uint8 of 0 and 1, (images, 64, 64), deflated 115-fold in
 * the published file. Its 3 GB are never held: blocks of pictures are inflated (io/npz.c), checked, and packed, 8
 * pixels per byte. The cost is that of inflating. */
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "circe/status.h"
#include "files/mapped.h"
#include "images/dsprites.h"
#include "images/stack_parts.h"
#include "io/arrays.h"

enum { PIXELS = DSPRITES_SIDE * DSPRITES_SIDE, BLOCK = 64 }; /* pictures at a time: 256 kB, which a cache holds */

/* ---- the array --------------------------------------------------------------------------------------------------- */

static circe_status check_array(const char *name, const io_array *array, int64_t images) {
    char shape[256];
    if (array->n_dims != 3 || array->shape[0] != images || array->shape[1] != DSPRITES_SIDE ||
        array->shape[2] != DSPRITES_SIDE)
        return circe_fail(CIRCE_ERR_SHAPE, "%s: 'imgs' is of shape %s; dSprites has (%lld, %d, %d)", name,
                          io_shape_text(array, shape, sizeof shape), (long long)images, DSPRITES_SIDE, DSPRITES_SIDE);
    if (array->element != IO_U1)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: 'imgs' must be of dtype uint8, 0 or 1; convert with astype('uint8')",
                          name);
    if (array->fortran)
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: 'imgs' is in Fortran order; save it with numpy.ascontiguousarray around it", name);
    return CIRCE_OK;
}

/* ---- the pixels -------------------------------------------------------------------------------------------------- */

static circe_status refuse_pixel(const char *name, int64_t image, const uint8_t *pixels) {
    int at = 0;
    while (pixels[at] <= 1) at++;
    return circe_fail(CIRCE_ERR_VALUE,
                      "%s: 'imgs' contains %d in picture %lld, row %d, column %d; its pixels must be 0 or 1", name,
                      pixels[at], (long long)image, at / DSPRITES_SIDE, at % DSPRITES_SIDE);
}

static circe_status read_images(io_member *member, const char *name, int64_t images, uint8_t *bits) {
    circe_status status = CIRCE_OK;
    OWNED uint8_t *pixels = malloc((size_t)BLOCK * PIXELS);
    if (pixels == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory; cannot read it", name);
    for (int64_t first = 0; first < images && status == CIRCE_OK; first += BLOCK) {
        int64_t n = images - first < BLOCK ? images - first : BLOCK;
        status = io_member_read(member, pixels, (uint64_t)(n * PIXELS));
        for (int64_t i = 0; i < n && status == CIRCE_OK; i++)
            if (image_is_binary(pixels + i * PIXELS, PIXELS))
                image_pack(pixels + i * PIXELS, PIXELS, bits + (first + i) * DSPRITES_BYTES);
            else
                status = refuse_pixel(name, first + i, pixels + i * PIXELS);
    }
    return status == CIRCE_OK ? io_member_end(member) : status;
}

circe_status dsprites_parse(const void *data, size_t bytes, const char *name, int64_t images, uint8_t *bits) {
    io_member *member = NULL;
    io_array array = {0};
    circe_status status = io_member_open(data, bytes, name, "imgs", &member, &array);
    if (status == CIRCE_OK) status = check_array(name, &array, images);
    if (status == CIRCE_OK) status = read_images(member, name, images, bits);
    io_member_close(member);
    if (status == CIRCE_ERR_ARGUMENT) status = CIRCE_ERR_FORMAT; /* a file without `imgs`: nobody asked for another */
    return circe_last_error()[0] != '\0' ? circe_fail(status, "%s", circe_last_error()) : status;
}

circe_status dsprites_read(circe_context *context, const char *path, uint8_t **bits) {
    circe__mapped file;
    (void)context; /* a member of a zip is inflated by one thread */
    *bits = NULL;
    int problem = circe__map_file(path, &file);
    if (problem != 0) return circe_fail(CIRCE_ERR_IO, "%s: cannot be read: %s", path, circe__map_problem(problem));
    uint8_t *made = malloc((size_t)DSPRITES_IMAGES * DSPRITES_BYTES);
    circe_status status = made == NULL      ? circe_fail(CIRCE_ERR_MEMORY, "out of memory for the 377 MB of dSprites")
                          : file.bytes == 0 ? circe_fail(CIRCE_ERR_FORMAT, "%s: it is empty; an .npz is needed", path)
                                            : dsprites_parse(file.data, file.bytes, path, DSPRITES_IMAGES, made);
    circe__unmap(&file);
    if (status == CIRCE_OK)
        *bits = made;
    else
        free(made);
    return status;
}
