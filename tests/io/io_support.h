/* What the tests of files of numbers share: a directory for the files of a run, .npy files built from their header, a
 * look into a table, and the words of an error. */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "circe/circe.h"
#include "io/io.h"

/* ---- a directory for the files of this run ----------------------------------------------------------------------- */

static char directory[64];

static inline int make_directory(void **state) {
    (void)state;
    strcpy(directory, "/tmp/circe-io-XXXXXX");
    return mkdtemp(directory) == NULL;
}

static inline int remove_directory(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* A path in the directory; four may be in use at a time. */
static inline const char *in_directory(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static inline void put_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline size_t get_file(const char *path, char *data, size_t capacity) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(data, 1, capacity, file);
    fclose(file);
    return bytes;
}

/* ---- files and tables ---------------------------------------------------------------------------------------------
 */

typedef struct bytes {
    unsigned char data[2048];
    size_t n;
} bytes;

static inline bytes npy(int version, const char *header, const void *data, size_t n) {
    bytes made = {.n = 0};
    size_t length = strlen(header), length_bytes = version == 1 ? 2 : 4;
    memcpy(made.data, "\x93NUMPY", 6);
    made.data[6] = (unsigned char)version;
    for (size_t i = 0; i < length_bytes; i++) made.data[8 + i] = (unsigned char)(length >> (8 * i));
    memcpy(made.data + 8 + length_bytes, header, length);
    made.n = 8 + length_bytes + length;
    if (n > 0) memcpy(made.data + made.n, data, n);
    made.n += n;
    return made;
}

static inline bytes simple_npy(const char *descr, const char *order, const char *shape, const void *data, size_t n) {
    char header[256];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }   \n", descr, order, shape);
    return npy(1, header, data, n);
}

static inline double at(const io_table *table, int64_t i, int64_t j) {
    const circe_mat *m = &table->values;
    assert_true(i < m->rows && j < m->cols);
    return m->dtype == CIRCE_FLOAT32 ? (double)((const float *)m->data)[i * m->ld + j]
                                     : ((const double *)m->data)[i * m->ld + j];
}

static inline void assert_says(const char *part) {
    if (strstr(circe_last_error(), part) == NULL) fail_msg("'%s' does not say '%s'", circe_last_error(), part);
}
