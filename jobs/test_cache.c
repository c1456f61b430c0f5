/* One file per result, named by its key. The key covers the sizes and the version, and the file contains a checksum. A
 * truncated or damaged file is ignored. */
#include "jobs/test_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/small.h"
#include "circe/version.h"
#include "files/checksum.h"

static void add(test_key *key, const void *data, size_t bytes) {
    for (int k = 0; k < 2; k++) key->word[k] = circe__hash_bytes(key->word[k], data, bytes);
}

static void add_text(test_key *key, const char *text) { add(key, text, strlen(text)); }

static void add_mat(test_key *key, const circe_mat *m) {
    int64_t shape[2] = {m != NULL ? m->rows : 0, m != NULL ? m->cols : 0};
    add(key, shape, sizeof shape);
    for (int64_t i = 0; i < shape[0]; i++)
        add(key, (const double *)m->data + i * m->ld, (size_t)m->cols * sizeof(double));
}

static void add_column(test_key *key, const double *values, int64_t n) {
    add(key, values, values != NULL ? (size_t)n * sizeof *values : 0);
}

test_key test_key_of(const circe_mat *x, const circe_mat *y, const circe_mat *z, const circe_test_options *o) {
    const circe_kernel *const kernels[] = {o->kernel_x, o->kernel_y, o->kernel_z};
    const double numbers[] = {(double)o->method,
                              (double)o->null,
                              (double)o->draws,
                              o->alpha,
                              (double)o->skip_checks,
                              o->undersmoothing,
                              (double)o->regressor,
                              (double)o->max_rank,
                              (double)o->mean,
                              o->test_share,
                              (double)o->transform,
                              o->block,
                              (double)(o->device != NULL),
                              (double)sizeof(circe_test_result)};
    test_key key = {{1, UINT64_C(0x9ddfea08eb382d69)}};
    add_text(&key, circe_version());
    add(&key, numbers, sizeof numbers);
    add(&key, &o->seed, sizeof o->seed);
    add_mat(&key, x);
    add_mat(&key, y);
    add_mat(&key, z);
    for (int k = 0; k < 3; k++) add_text(&key, kernels[k] != NULL ? circe_kernel_text(kernels[k]) : "");
    add_column(&key, o->weights, x->rows);
    add_column(&key, o->groups, x->rows);
    add_column(&key, o->time, x->rows);
    return key;
}

static char *path_of(const char *folder, test_key key) {
    return small_format("%s/%016" PRIx64 "%016" PRIx64 ".test", folder, key.word[0], key.word[1]);
}

typedef struct stored {
    circe_test_result result;
    uint64_t sum;
} stored;

bool test_cache_read(const char *folder, test_key key, circe_test_result *result) {
    OWNED char *path = path_of(folder, key);
    FILE *file = fopen(path, "rb");
    stored s;
    memset(&s, 0, sizeof s);
    bool whole = file != NULL && fread(&s, sizeof s, 1, file) == 1 &&
                 s.sum == circe__hash_bytes(key.word[0], &s.result, sizeof s.result);
    if (file != NULL) fclose(file);
    if (whole) *result = s.result;
    return whole;
}

circe_status test_cache_write(const char *folder, test_key key, const circe_test_result *result) {
    OWNED char *path = path_of(folder, key);
    stored s;
    memset(&s, 0, sizeof s); /* the bytes between fields are set, too */
    memcpy(&s.result, result, sizeof *result);
    s.sum = circe__hash_bytes(key.word[0], &s.result, sizeof s.result);
    return file_write_text(path, (const char *)&s, sizeof s);
}
