/* The published file of dSprites: writing.
 *
 *     imgs             uint8    (images, 64, 64)   0 or 1
 *     latents_classes  int64    (images, 6)        colour (0), shape, scale, orientation, x, y
 *     latents_values   float64  (images, 6)        dsprites_values_of
 *
 * The members are made while libzip deflates them, one sprite in its 1,024 positions at a time, so that 4 MB are in
 * memory instead of 3 GB. Each member is a source of bytes that libzip reads from. The output goes through
 * files/atomic.h, by another source. The cost is that of deflating 3 GB. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "base/owned.h"
#include "circe/status.h"
#include "files/atomic.h"
#include "images/dsprites.h"
#include "train/parallel.h"

enum {
    BLOCK = DSPRITES_POSITIONS * DSPRITES_POSITIONS, /* pictures */
    PIXELS = DSPRITES_SIDE * DSPRITES_SIDE,
    HEADER = 128, /* of a member; NumPy wants a multiple of 64 */
    ROW_BYTES = DSPRITES_LATENTS * 8,
    LEVEL = 3, /* of deflate: 35 MB, in less than half the time that the usual 6 takes */
};

typedef struct writer {
    circe_context *context;
    int64_t images;
    circe_progress_fn progress;
    void *user;
    bool cancelled;
    uint8_t *bits; /* (BLOCK, 512) */
    circe__atomic file;
    int problem; /* errno of the file, where it failed */
    bool open;
} writer;

/* ---- members ----------------------------------------------------------------------------------------------------- */

typedef struct array {
    const char *name, *descr, *shape; /* shape: of a row, as it stands in the header */
    int64_t row_bytes;
    circe_status (*make)(writer *w, int64_t first, uint8_t *rows); /* BLOCK rows */
} array;

/* A member on its way into the archive. */
typedef struct member {
    const array *array;
    writer *writer;
    uint8_t *block; /* the header, then blocks of rows */
    int64_t first;  /* image of the next block */
    size_t size, used;
    zip_error_t error;
} member;

/* Eight pixels are the bits of a byte: it is repeated in the eight bytes of a number, each keeps a bit of its own, the
 * first the most significant, and becomes 1 if that is set. */
static void unpack(const uint8_t *bits, uint8_t *pixels) {
    for (int i = 0; i < DSPRITES_BYTES; i++) {
        uint64_t kept = bits[i] * UINT64_C(0x0101010101010101) & UINT64_C(0x0102040810204080);
        uint64_t eight = (kept + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101);
        memcpy(pixels + 8 * (size_t)i, &eight, sizeof eight);
    }
}

typedef struct unpacking {
    const uint8_t *bits;
    uint8_t *rows;
} unpacking;

static void unpack_part(void *user, int64_t first, int64_t n) {
    const unpacking *u = user;
    for (int64_t i = first; i < first + n; i++) unpack(u->bits + i * DSPRITES_BYTES, u->rows + i * PIXELS);
}

static circe_status make_images(writer *w, int64_t first, uint8_t *rows) {
    int32_t images[BLOCK];
    for (int i = 0; i < BLOCK; i++) images[i] = (int32_t)(first + i);
    circe_status status = dsprites_render_some(w->context, images, BLOCK, w->bits);
    if (status != CIRCE_OK) return status;
    unpacking u = {.bits = w->bits, .rows = rows};
    train_ranges(w->context, BLOCK, 1, unpack_part, &u);
    return CIRCE_OK;
}

static circe_status make_classes(writer *w, int64_t first, uint8_t *rows) {
    (void)w;
    for (int64_t i = 0; i < BLOCK; i++) {
        dsprites_latents l = dsprites_latents_of(first + i);
        const int64_t row[DSPRITES_LATENTS] = {0, l.shape, l.scale, l.orientation, l.x, l.y};
        memcpy(rows + i * ROW_BYTES, row, sizeof row);
    }
    return CIRCE_OK;
}

static circe_status make_values(writer *w, int64_t first, uint8_t *rows) {
    (void)w;
    for (int64_t i = 0; i < BLOCK; i++) {
        dsprites_latents latents = dsprites_latents_of(first + i);
        double row[DSPRITES_LATENTS];
        dsprites_values_of(&latents, row);
        memcpy(rows + i * ROW_BYTES, row, sizeof row);
    }
    return CIRCE_OK;
}

static const array arrays[] = {
    {"latents_classes.npy", "<i8", "6", ROW_BYTES, make_classes},
    {"latents_values.npy", "<f8", "6", ROW_BYTES, make_values},
    {"imgs.npy", "|u1", "64, 64", PIXELS, make_images},
};
enum { N_ARRAYS = sizeof arrays / sizeof *arrays };

/* .npy 1.0: magic, version, length of the rest, a dictionary, blanks up to a line's end. */
static void make_header(const array *a, int64_t images, uint8_t header[HEADER]) {
    enum { PREFIX = 10 };
    char text[HEADER];
    int length = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld, %s), }", a->descr,
                          (long long)images, a->shape);
    memset(header, ' ', HEADER);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = HEADER - PREFIX;
    header[9] = 0;
    memcpy(header + PREFIX, text, (size_t)length);
    header[HEADER - 1] = '\n';
}

/* -1: it failed, and the member's error says how. */
static zip_int64_t next_block(member *m) {
    writer *w = m->writer;
    if (m->array->make == make_images && w->progress != NULL &&
        w->progress(w->user, "writing", m->first, w->images) != 0)
        w->cancelled = true;
    if (w->cancelled || m->array->make(w, m->first, m->block) != CIRCE_OK) {
        zip_error_set(&m->error, w->cancelled ? ZIP_ER_CANCELLED : ZIP_ER_INTERNAL, 0);
        return -1;
    }
    m->first += BLOCK;
    m->size = (size_t)(BLOCK * m->array->row_bytes);
    m->used = 0;
    return 0;
}

static zip_int64_t read_member(member *m, uint8_t *to, zip_uint64_t bytes) {
    zip_uint64_t given = 0;
    while (given < bytes) {
        if (m->used == m->size && (m->first == m->writer->images || next_block(m) != 0)) break;
        size_t n = m->size - m->used < bytes - given ? m->size - m->used : (size_t)(bytes - given);
        memcpy(to + given, m->block + m->used, n);
        m->used += n;
        given += n;
    }
    return zip_error_code_zip(&m->error) != ZIP_ER_OK ? -1 : (zip_int64_t)given;
}

static zip_int64_t stat_member(const member *m, zip_stat_t *info) {
    zip_stat_init(info);
    info->size = (zip_uint64_t)(HEADER + m->writer->images * m->array->row_bytes);
    info->valid = ZIP_STAT_SIZE;
    return sizeof *info;
}

/* Opened once, and possibly more than once: each time from its beginning. */
static zip_int64_t open_member(member *m) {
    make_header(m->array, m->writer->images, m->block);
    m->first = 0;
    m->size = HEADER;
    m->used = 0;
    return 0;
}

/* Answers libzip's requests to a source that it reads from. */
static zip_int64_t member_call(void *user, void *data, zip_uint64_t bytes, zip_source_cmd_t command) {
    member *m = user;
    switch (command) {
        case ZIP_SOURCE_OPEN:
            return open_member(m);
        case ZIP_SOURCE_READ:
            return read_member(m, data, bytes);
        case ZIP_SOURCE_STAT:
            return stat_member(m, data);
        case ZIP_SOURCE_ERROR:
            return zip_error_to_data(&m->error, data, bytes);
        case ZIP_SOURCE_SUPPORTS:
            return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                                  ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, -1);
        case ZIP_SOURCE_CLOSE:
        case ZIP_SOURCE_FREE:
            return 0;
        default:
            zip_error_set(&m->error, ZIP_ER_OPNOTSUPP, 0);
            return -1;
    }
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static zip_int64_t fail_file(writer *w, int problem) {
    if (w->problem == 0) w->problem = problem;
    return -1;
}

static zip_int64_t write_file(writer *w, const void *data, zip_uint64_t bytes) {
    int problem = circe__atomic_write(&w->file, data, (size_t)bytes);
    return problem == 0 ? (zip_int64_t)bytes : fail_file(w, problem);
}

static zip_int64_t seek_file(writer *w, void *data, zip_uint64_t bytes) {
    zip_error_t ignored;
    zip_source_args_seek_t *to = ZIP_SOURCE_GET_ARGS(zip_source_args_seek_t, data, bytes, &ignored);
    if (to == NULL) return fail_file(w, EINVAL);
    return lseek(w->file.descriptor, (off_t)to->offset, to->whence) < 0 ? fail_file(w, errno) : 0;
}

static zip_int64_t tell_file(writer *w) {
    off_t at = lseek(w->file.descriptor, 0, SEEK_CUR);
    return at < 0 ? fail_file(w, errno) : (zip_int64_t)at;
}

static zip_int64_t commit_file(writer *w) {
    w->open = false;
    int problem = circe__atomic_commit(&w->file);
    return problem == 0 ? 0 : fail_file(w, problem);
}

static zip_int64_t file_error(const writer *w, void *data, zip_uint64_t bytes) {
    zip_error_t error;
    zip_error_init(&error);
    zip_error_set(&error, w->problem != 0 ? ZIP_ER_WRITE : ZIP_ER_OK, w->problem);
    return zip_error_to_data(&error, data, bytes);
}

/* What libzip asks of the archive itself. It is new: there is nothing in it to be read. */
static zip_int64_t file_call(void *user, void *data, zip_uint64_t bytes, zip_source_cmd_t command) {
    writer *w = user;
    switch (command) {
        case ZIP_SOURCE_SUPPORTS:
            return ZIP_SOURCE_SUPPORTS_WRITABLE;
        case ZIP_SOURCE_STAT:
            zip_stat_init(data);
            ((zip_stat_t *)data)->size = 0;
            ((zip_stat_t *)data)->valid = ZIP_STAT_SIZE;
            return sizeof(zip_stat_t);
        case ZIP_SOURCE_WRITE:
            return write_file(w, data, bytes);
        case ZIP_SOURCE_SEEK_WRITE:
            return seek_file(w, data, bytes);
        case ZIP_SOURCE_TELL_WRITE:
            return tell_file(w);
        case ZIP_SOURCE_COMMIT_WRITE:
            return commit_file(w);
        case ZIP_SOURCE_ERROR:
            return file_error(w, data, bytes);
        default: /* nothing is read; what opens, closes, begins, rolls back or frees, the writer does */
            return 0;
    }
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static circe_status add_member(zip_t *archive, member *m) {
    zip_source_t *source = zip_source_function(archive, member_call, m);
    zip_int64_t index = source != NULL ? zip_file_add(archive, m->array->name, source, ZIP_FL_ENC_UTF_8) : -1;
    if (source != NULL && index < 0) zip_source_free(source);
    if (index < 0) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the archive: %s", zip_strerror(archive));
    /* A fixed date, so that the same pictures make the same file. */
    zip_file_set_dostime(archive, (zip_uint64_t)index, 0, 33, 0);
    zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_DEFLATE, LEVEL);
    return CIRCE_OK;
}

static circe_status close_archive(writer *w, zip_t **archive, const char *path) {
    if (zip_close(*archive) == 0) {
        *archive = NULL;
        return CIRCE_OK;
    }
    if (w->cancelled) return circe_fail(CIRCE_ERR_CANCELLED, "%s: stopped; nothing was written", path);
    return circe_fail(CIRCE_ERR_WRITE, "%s: cannot be written: %s", path,
                      w->problem != 0 ? strerror(w->problem) : zip_strerror(*archive));
}

static circe_status write_archive(writer *w, member *members, const char *path) {
    zip_error_t problem;
    zip_t *archive = NULL;
    circe_status status = CIRCE_OK;
    zip_error_init(&problem);
    zip_source_t *sink = zip_source_function_create(file_call, w, &problem);
    archive = sink != NULL ? zip_open_from_source(sink, ZIP_CREATE | ZIP_TRUNCATE, &problem) : NULL;
    if (archive == NULL) {
        status = circe_fail(CIRCE_ERR_MEMORY, "%s: cannot be written: %s", path, zip_error_strerror(&problem));
        zip_source_free(sink);
    }
    for (int k = 0; k < N_ARRAYS && status == CIRCE_OK; k++) status = add_member(archive, &members[k]);
    if (status == CIRCE_OK) status = close_archive(w, &archive, path);
    if (archive != NULL) zip_discard(archive);
    zip_error_fini(&problem);
    return status;
}

circe_status dsprites_write_first(circe_context *context, const char *path, int64_t images, circe_progress_fn progress,
                                  void *user) {
    writer w = {.context = context, .images = images, .progress = progress, .user = user};
    member members[N_ARRAYS] = {0};
    if (images < BLOCK || images > DSPRITES_IMAGES || images % BLOCK != 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%lld pictures: dSprites is written in whole sprites, %d to %d in all",
                          (long long)images, BLOCK, DSPRITES_IMAGES);
    OWNED uint8_t *block = malloc((size_t)BLOCK * PIXELS), *bits = malloc((size_t)BLOCK * DSPRITES_BYTES);
    if (block == NULL || bits == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory; cannot write it", path);
    w.bits = bits;
    for (int k = 0; k < N_ARRAYS; k++) {
        members[k] = (member){.array = &arrays[k], .writer = &w, .block = block}; /* libzip reads one after another */
        zip_error_init(&members[k].error);
    }
    w.problem = circe__atomic_open(&w.file, path);
    w.open = w.problem == 0;
    circe_status status = w.open ? write_archive(&w, members, path)
                                 : circe_fail(CIRCE_ERR_WRITE, "%s: cannot be written: %s", path, strerror(w.problem));
    if (status == CIRCE_OK && progress != NULL) progress(user, "writing", images, images);
    if (w.open) circe__atomic_abandon(&w.file);
    return status;
}

circe_status dsprites_write(circe_context *context, const char *path, circe_progress_fn progress, void *user) {
    return dsprites_write_first(context, path, DSPRITES_IMAGES, progress, user);
}
