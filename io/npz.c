/* NumPy's .npz: a zip archive whose members are .npy files.
 *
 * A small archive must not be able to claim a huge array. Only stored and deflated members are read (NumPy writes no
 * others), and deflate shrinks at most 1032-fold, so the size of the archive bounds the memory. The header of a member
 * is read first, and must need exactly the size that the archive claims. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "base/owned.h"
#include "io/io_parts.h"

enum { MAX_DEFLATE_RATIO = 1032 };

struct io_member {
    zip_t *archive;
    zip_file_t *file;
    char name[512]; /* "PATH:MEMBER", for error texts */
    uint64_t bytes; /* claimed, uncompressed */
};

static circe_status open_archive(const void *data, size_t bytes, const char *name, zip_t **archive) {
    zip_error_t problem;
    zip_error_init(&problem);
    zip_source_t *source = zip_source_buffer_create(data, bytes, 0, &problem);
    *archive = source != NULL ? zip_open_from_source(source, ZIP_RDONLY, &problem) : NULL;
    circe_status status = CIRCE_OK;
    if (*archive == NULL) {
        bool memory = zip_error_code_zip(&problem) == ZIP_ER_MEMORY;
        status = circe_fail(memory ? CIRCE_ERR_MEMORY : CIRCE_ERR_FORMAT, "%s: it cannot be read as .npz: %s", name,
                            zip_error_strerror(&problem));
        zip_source_free(source);
    }
    zip_error_fini(&problem);
    return status;
}

/* The length of a member's name without ".npy"; 0 if it is not an array. */
static size_t array_name_length(const char *name) {
    size_t length = name != NULL ? strlen(name) : 0;
    return length > 4 && strcmp(name + length - 4, ".npy") == 0 ? length - 4 : 0;
}

static bool is_selected(const char *name, const char *selection) {
    size_t length = array_name_length(name);
    if (length == 0) return false;
    return selection == NULL || strcmp(name, selection) == 0 ||
           (strlen(selection) == length && strncmp(name, selection, length) == 0);
}

static circe_status refuse_selection(zip_t *archive, const char *name, const char *selection) {
    io__choices choices;
    io__choices_init(&choices, selection);
    for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); i++) {
        const char *entry = zip_get_name(archive, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        char shortened[256];
        size_t length = array_name_length(entry);
        if (length == 0) continue;
        snprintf(shortened, sizeof shortened, "%.*s", (int)(length < sizeof shortened ? length : 255), entry);
        io__choices_add(&choices, shortened);
    }
    if (choices.count == 0) return circe_fail(CIRCE_ERR_FORMAT, "%s: it contains no array (.npy)", name);
    if (selection == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: it contains several arrays; choose with %s:NAME, one of %s", name,
                          name, io__choices_text(&choices));
    return circe_fail(CIRCE_ERR_ARGUMENT, "%s: it contains no array '%.100s'; it has %s", name, selection,
                      io__choices_text(&choices));
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* If two arrays have one name, nobody can tell which is meant: programs differ in which they take. */
static circe_status refuse_duplicates(zip_t *archive, const char *name) {
    zip_int64_t n = zip_get_num_entries(archive, 0), kept = 0;
    OWNED const char **names = malloc((size_t)(n > 0 ? n : 1) * sizeof *names);
    circe_status status = CIRCE_OK;
    if (names == NULL) return io__no_memory(name);
    for (zip_int64_t i = 0; i < n; i++) {
        const char *entry = zip_get_name(archive, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        if (entry != NULL) names[kept++] = entry;
    }
    qsort(names, (size_t)kept, sizeof *names, by_text);
    for (zip_int64_t i = 1; i < kept && status == CIRCE_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = circe_fail(CIRCE_ERR_FORMAT, "%s: it contains '%.100s' twice; write it again with different names",
                                name, names[i]);
    return status;
}

static circe_status find_member(zip_t *archive, const char *name, const char *selection, zip_uint64_t *index) {
    int64_t n_found = 0;
    circe_status status = refuse_duplicates(archive, name);
    if (status != CIRCE_OK) return status;
    for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); i++) {
        const char *entry = zip_get_name(archive, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        if (!is_selected(entry, selection)) continue;
        bool exact = selection != NULL && strcmp(entry, selection) == 0; /* before x.npy.npy, for x.npy */
        if (n_found++ == 0 || exact) *index = (zip_uint64_t)i;
    }
    if (n_found == 1 || (n_found > 1 && selection != NULL)) return CIRCE_OK;
    return refuse_selection(archive, name, selection);
}

static circe_status open_member(zip_t *archive, zip_uint64_t index, size_t archive_bytes, io_member *m) {
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    zip_stat_t info;
    if (zip_stat_index(archive, index, 0, &info) != 0 || (info.valid & needed) != needed)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: its entry in the archive is damaged", m->name);
    if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE)
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: it is compressed by method %d; only stored and deflated arrays can be read", m->name,
                          (int)info.comp_method);
    if (info.comp_size > archive_bytes || info.size / MAX_DEFLATE_RATIO > info.comp_size)
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: the archive claims %llu bytes from %llu compressed ones, which is impossible", m->name,
                          (unsigned long long)info.size, (unsigned long long)info.comp_size);
    m->bytes = info.size;
    m->file = zip_fopen_index(archive, index, 0);
    if (m->file != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_FORMAT, "%s: it cannot be read: %s", m->name, zip_strerror(archive));
}

circe_status io_member_read(io_member *m, void *to, uint64_t bytes) {
    uint64_t got = 0;
    while (got < bytes) {
        zip_int64_t n = zip_fread(m->file, (char *)to + got, bytes - got);
        if (n < 0) return circe_fail(CIRCE_ERR_FORMAT, "%s: it is damaged: %s", m->name, zip_file_strerror(m->file));
        if (n == 0)
            return circe_fail(CIRCE_ERR_FORMAT, "%s: it is cut off: %llu bytes are missing", m->name,
                              (unsigned long long)(bytes - got));
        got += (uint64_t)n;
    }
    return CIRCE_OK;
}

/* Reading past the end is what makes libzip compare the checksum. */
circe_status io_member_end(io_member *m) {
    char extra;
    zip_int64_t n = zip_fread(m->file, &extra, 1);
    if (n == 0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_FORMAT, "%s: it is damaged: %s", m->name,
                      n < 0 ? zip_file_strerror(m->file) : "it is longer than the archive claims");
}

static circe_status read_header(io_member *m, io_array *array) {
    unsigned char prefix[IO_NPY_PREFIX];
    size_t header_bytes = 0, available = m->bytes < sizeof prefix ? (size_t)m->bytes : sizeof prefix;
    circe_status status = io_member_read(m, prefix, available);
    if (status == CIRCE_OK) status = io_npy_measure(prefix, available, m->name, &header_bytes);
    if (status != CIRCE_OK) return status;
    if (header_bytes < available || header_bytes > m->bytes)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: its header of %zu bytes is impossible in %llu", m->name, header_bytes,
                          (unsigned long long)m->bytes);
    OWNED unsigned char *header = malloc(header_bytes);
    if (header == NULL) return io__no_memory(m->name);
    memcpy(header, prefix, available);
    status = io_member_read(m, header + available, header_bytes - available);
    return status == CIRCE_OK ? io_npy_header(header, header_bytes, m->bytes - header_bytes, m->name, array) : status;
}

circe_status io_member_open(const void *data, size_t bytes, const char *name, const char *selection, io_member **member,
                            io_array *array) {
    zip_uint64_t index = 0;
    io_member *m = *member = calloc(1, sizeof *m);
    if (m == NULL) return io__no_memory(name);
    circe_status status = open_archive(data, bytes, name, &m->archive);
    if (status == CIRCE_OK) status = find_member(m->archive, name, selection, &index);
    if (status == CIRCE_OK) {
        snprintf(m->name, sizeof m->name, "%s:%s", name, zip_get_name(m->archive, index, ZIP_FL_ENC_RAW));
        status = open_member(m->archive, index, bytes, m);
    }
    if (status == CIRCE_OK) status = read_header(m, array);
    if (status == CIRCE_OK) return CIRCE_OK;
    io_member_close(m);
    *member = NULL;
    return status;
}

const char *io_member_name(const io_member *m) { return m->name; }

void io_member_close(io_member *m) {
    if (m == NULL) return;
    if (m->file != NULL) zip_fclose(m->file);
    if (m->archive != NULL) zip_discard(m->archive);
    free(m);
}

circe_status io_parse_npz(const void *data, size_t bytes, const char *name, const char *selection, io_table *table) {
    io_member *m = NULL;
    io_array array = {0};
    OWNED void *values = NULL;
    memset(table, 0, sizeof *table);
    circe_status status = io_member_open(data, bytes, name, selection, &m, &array);
    if (status != CIRCE_OK) return status;
    values = malloc(array.bytes);
    if (values == NULL) status = io__no_memory(m->name);
    if (status == CIRCE_OK) status = io_member_read(m, values, array.bytes);
    if (status == CIRCE_OK) status = io_member_end(m);
    if (status == CIRCE_OK) status = io_array_adopt(&array, &values, m->name, table);
    io_member_close(m);
    return status;
}
