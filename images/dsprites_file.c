/* The published file of dSprites: reading.
 *
 * An .npz is a zip of .npy members; here only `imgs` counts, uint8 of 0 and 1, (images, 64, 64), deflated 115-fold in
 * the published file. Its 3 GB are never held: blocks of pictures are inflated, checked, and packed 8 pixels a byte.
 * libzip inflates and compares the checksum at the end of the member; the header goes through the parser of .npy files
 * that reads tables. Nothing the archive claims is believed before it was checked. Cost: that of inflating. */
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "dsprites.h"
#include "error.h"
#include "files/mapped.h"
#include "internal.h"

enum { PIXELS = DSPRITES_SIDE * DSPRITES_SIDE, BLOCK = 64 }; /* pictures at a time: 256 kB, which a cache holds */

typedef struct member {
    const char *name; /* of the archive */
    zip_file_t *file;
    uint64_t bytes; /* claimed, inflated */
} member;

/* ---- the archive ------------------------------------------------------------------------------------------------- */

static circe_status open_archive(const void *data, size_t bytes, const char *name, zip_t **archive) {
    zip_error_t problem;
    circe_status status = CIRCE_OK;
    zip_error_init(&problem);
    zip_source_t *source = zip_source_buffer_create(data, bytes, 0, &problem);
    *archive = source != NULL ? zip_open_from_source(source, ZIP_RDONLY, &problem) : NULL;
    if (*archive == NULL) {
        bool memory = zip_error_code_zip(&problem) == ZIP_ER_MEMORY;
        status = train_fail(memory ? CIRCE_ERR_MEMORY : CIRCE_ERR_FORMAT,
                            "%s: it cannot be read as .npz, or is cut off: %s", name, zip_error_strerror(&problem));
        zip_source_free(source);
    }
    zip_error_fini(&problem);
    return status;
}

static circe_status refuse_without_imgs(zip_t *archive, const char *name) {
    io__choices choices;
    io__choices_init(&choices, "imgs.npy");
    for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); i++) {
        const char *entry = zip_get_name(archive, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        if (entry != NULL) io__choices_add(&choices, entry);
    }
    return train_fail(CIRCE_ERR_FORMAT, "%s: it holds no array 'imgs', as dSprites does; it holds %s", name,
                      choices.count > 0 ? io__choices_text(&choices) : "nothing");
}

static circe_status open_member(zip_t *archive, member *m) {
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD;
    zip_stat_t info;
    zip_int64_t index = zip_name_locate(archive, "imgs.npy", ZIP_FL_ENC_RAW);
    if (index < 0) return refuse_without_imgs(archive, m->name);
    if (zip_stat_index(archive, (zip_uint64_t)index, 0, &info) != 0 || (info.valid & needed) != needed)
        return train_fail(CIRCE_ERR_FORMAT, "%s: the entry of 'imgs' in the archive is damaged", m->name);
    if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE)
        return train_fail(CIRCE_ERR_FORMAT,
                          "%s: 'imgs' is compressed by method %d; stored and deflated arrays can be read", m->name,
                          (int)info.comp_method);
    m->bytes = info.size;
    m->file = zip_fopen_index(archive, (zip_uint64_t)index, 0);
    if (m->file != NULL) return CIRCE_OK;
    return train_fail(CIRCE_ERR_FORMAT, "%s: 'imgs' cannot be read: %s", m->name, zip_strerror(archive));
}

static circe_status read_exactly(member *m, uint8_t *to, uint64_t bytes) {
    for (uint64_t got = 0; got < bytes;) {
        zip_int64_t n = zip_fread(m->file, to + got, bytes - got);
        if (n < 0)
            return train_fail(CIRCE_ERR_FORMAT, "%s: 'imgs' is damaged: %s", m->name, zip_file_strerror(m->file));
        if (n == 0) return train_fail(CIRCE_ERR_FORMAT, "%s: 'imgs' is cut off", m->name);
        got += (uint64_t)n;
    }
    return CIRCE_OK;
}

/* Reading past the end is what makes libzip compare the checksum. */
static circe_status check_end(member *m) {
    uint8_t extra;
    zip_int64_t n = zip_fread(m->file, &extra, 1);
    if (n == 0) return CIRCE_OK;
    return train_fail(CIRCE_ERR_FORMAT, "%s: 'imgs' is damaged: %s", m->name,
                      n < 0 ? zip_file_strerror(m->file) : "it is longer than the archive claims");
}

/* ---- the array --------------------------------------------------------------------------------------------------- */

static circe_status check_array(const member *m, const io__array *array, int64_t images) {
    char shape[256];
    if (array->n_dims != 3 || array->shape[0] != images || array->shape[1] != DSPRITES_SIDE ||
        array->shape[2] != DSPRITES_SIDE)
        return train_fail(CIRCE_ERR_SHAPE, "%s: 'imgs' is of shape %s; dSprites has (%lld, %d, %d)", m->name,
                          io__shape_text(array, shape, sizeof shape), (long long)images, DSPRITES_SIDE, DSPRITES_SIDE);
    if (array->element != IO__U1)
        return train_fail(CIRCE_ERR_FORMAT, "%s: 'imgs' must be of dtype uint8, 0 or 1; convert with astype('uint8')",
                          m->name);
    if (array->fortran)
        return train_fail(CIRCE_ERR_FORMAT,
                          "%s: 'imgs' is in Fortran order; save it with numpy.ascontiguousarray around it", m->name);
    return CIRCE_OK;
}

static circe_status read_header(member *m, int64_t images) {
    uint8_t prefix[IO__NPY_PREFIX] = {0}, *header = NULL;
    io__array array = {0};
    io_error error = {""};
    size_t bytes = 0, available = m->bytes < sizeof prefix ? (size_t)m->bytes : sizeof prefix;
    circe_status status = read_exactly(m, prefix, available);
    if (status != CIRCE_OK) return status;
    status = io__npy_measure(prefix, available, m->name, &bytes, &error);
    if (status != CIRCE_OK) return train_fail(status, "%s", error.text);
    if (bytes < available || bytes > m->bytes)
        return train_fail(CIRCE_ERR_FORMAT, "%s: the header of 'imgs' has %zu bytes, which is impossible in %llu",
                          m->name, bytes, (unsigned long long)m->bytes);
    header = malloc(bytes);
    if (header == NULL) return train_fail(CIRCE_ERR_MEMORY, "%s: no memory to read it", m->name);
    memcpy(header, prefix, available);
    status = read_exactly(m, header + available, bytes - available);
    if (status == CIRCE_OK) {
        status = io__npy_header(header, bytes, m->bytes - bytes, m->name, &array, &error);
        if (status != CIRCE_OK) train_fail(status, "%s", error.text);
    }
    if (status == CIRCE_OK) status = check_array(m, &array, images);
    free(header);
    return status;
}

/* ---- the pixels -------------------------------------------------------------------------------------------------- */

static circe_status refuse_pixel(const member *m, int64_t image, const uint8_t *pixels) {
    int at = 0;
    while (pixels[at] <= 1) at++;
    return train_fail(CIRCE_ERR_VALUE, "%s: 'imgs' holds %d in picture %lld, row %d, column %d; its pixels are 0 or 1",
                      m->name, pixels[at], (long long)image, at / DSPRITES_SIDE, at % DSPRITES_SIDE);
}

/* bits (512) := one picture; false: a pixel is neither 0 nor 1. Eight pixels are one number, byte i of which must
 * become bit 7 - i: multiplied by the sum of 2^(63 - 9 i), they meet in its highest byte, and no two products fall on
 * the same bit. */
static bool pack(const uint8_t *pixels, uint8_t *bits) {
    uint64_t seen = 0;
    for (int i = 0; i < DSPRITES_BYTES; i++) {
        uint64_t eight;
        memcpy(&eight, pixels + 8 * (size_t)i, sizeof eight);
        seen |= eight;
        bits[i] = (uint8_t)(eight * UINT64_C(0x8040201008040201) >> 56);
    }
    return (seen & ~UINT64_C(0x0101010101010101)) == 0;
}

static circe_status read_images(member *m, int64_t images, uint8_t *bits) {
    circe_status status = CIRCE_OK;
    uint8_t *pixels = malloc((size_t)BLOCK * PIXELS);
    if (pixels == NULL) return train_fail(CIRCE_ERR_MEMORY, "%s: no memory to read it", m->name);
    for (int64_t first = 0; first < images && status == CIRCE_OK; first += BLOCK) {
        int64_t n = images - first < BLOCK ? images - first : BLOCK;
        status = read_exactly(m, pixels, (uint64_t)(n * PIXELS));
        for (int64_t i = 0; i < n && status == CIRCE_OK; i++)
            if (!pack(pixels + i * PIXELS, bits + (first + i) * DSPRITES_BYTES))
                status = refuse_pixel(m, first + i, pixels + i * PIXELS);
    }
    free(pixels);
    return status == CIRCE_OK ? check_end(m) : status;
}

circe_status dsprites_parse(const void *data, size_t bytes, const char *name, int64_t images, uint8_t *bits) {
    zip_t *archive = NULL;
    member m = {.name = name};
    circe_status status = open_archive(data, bytes, name, &archive);
    if (status != CIRCE_OK) return status;
    status = open_member(archive, &m);
    if (status == CIRCE_OK) status = read_header(&m, images);
    if (status == CIRCE_OK) status = read_images(&m, images, bits);
    if (m.file != NULL) zip_fclose(m.file);
    zip_discard(archive);
    return status;
}

circe_status dsprites_read(circe_context *context, const char *path, uint8_t **bits) {
    circe__mapped file;
    (void)context; /* a member of a zip is inflated by one thread */
    *bits = NULL;
    int problem = circe__map_file(path, &file);
    if (problem != 0) return train_fail(CIRCE_ERR_IO, "%s: cannot be read: %s", path, strerror(problem));
    uint8_t *made = malloc((size_t)DSPRITES_IMAGES * DSPRITES_BYTES);
    circe_status status = made == NULL      ? train_fail(CIRCE_ERR_MEMORY, "no memory for the 377 MB of dSprites")
                          : file.bytes == 0 ? train_fail(CIRCE_ERR_FORMAT, "%s: it is empty, and no .npz", path)
                                            : dsprites_parse(file.data, file.bytes, path, DSPRITES_IMAGES, made);
    circe__unmap(&file);
    if (status == CIRCE_OK)
        *bits = made;
    else
        free(made);
    return status;
}
