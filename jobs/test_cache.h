/* Results of tests on disk, by the content of what was tested. */
#ifndef JOBS_TEST_CACHE_H
#define JOBS_TEST_CACHE_H

#include <stdbool.h>

#include "circe/test.h"

typedef struct test_key {
    uint64_t word[2];
} test_key;

/* The key covers the data, the kernels, all options that matter, and the version. */
test_key test_key_of(const circe_mat *x, const circe_mat *y, const circe_mat *z, const circe_test_options *options);

/* The result in the folder; false: there is none, or none that can be used. */
bool test_cache_read(const char *folder, test_key key, circe_test_result *result);
circe_status test_cache_write(const char *folder, test_key key, const circe_test_result *result);

#endif
