/* What the tests share: objects that clean up after themselves, random data, comparisons with a stated tolerance, an
 * allocator that counts and fails, and the golden files.
 *
 * Everything made by a test_* function belongs to the running test and is destroyed, last first, by test_clean, which
 * every test file registers as its teardown. */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "circe/circe.h"

#define TEST(function) cmocka_unit_test_teardown(function, test_clean)
/* main: all tests, or those that match the pattern given as an argument. */
#define TEST_MAIN(name, ...)                             \
    int main(int argc, char **argv) {                    \
        const struct CMUnitTest tests[] = {__VA_ARGS__}; \
        if (argc > 1) cmocka_set_test_filter(argv[1]);   \
        return test_run(name, tests, NULL, NULL);        \
    }
/* Runs the group; main returns what it gives: 0, 1 where one failed, or TEST_SKIPPED where not one of them ran. */
#define test_run(name, tests, setup, teardown) \
    test_end(cmocka_run_group_tests_name(name, tests, setup, teardown), COUNT(tests))
enum { TEST_SKIPPED = 77 }; /* SKIP_RETURN_CODE of every test */
/* Leaves the running test, and says why: what did not run is listed with its reason after `make check`. */
#define test_skip(...) test_skip_at(__FILE__, __LINE__, __VA_ARGS__)
#undef skip /* cmocka's gives no reason */
#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

/* ---- objects ---------------------------------------------------------------------------------------------------- */

int test_clean(void **state);
void test_skip_at(const char *file, int line, const char *reason, ...) __attribute__((format(printf, 3, 4)));
int test_end(int failed, int64_t n_tests);

/* How many rows or repetitions: `few` with CIRCE_TEST_SLOW_MACHINE in the environment, as under an emulator, else
 * `all`. */
int64_t test_few(int64_t all, int64_t few);

void *test_memory(size_t bytes); /* zeroed */
circe_context *test_context(int threads);
circe_context *test_context_with(const circe_context_options *options);
circe_workspace *test_workspace(circe_context *context);
circe_kernel *test_kernel(circe_context *context, const char *text);
/* options may be NULL: the defaults. */
circe_cme *test_fit(circe_context *context, const circe_mat *y, const circe_mat *z, const char *kernel_y,
                    const char *kernel_z, const circe_cme_options *options);
circe_cme *test_load(circe_context *context, const char *path);
circe_features *test_features(circe_context *context, const circe_cme *cme, const circe_mat *y, const circe_mat *z,
                              circe_dtype dtype);
/* A directory of its own under /tmp, removed with what is in it. */
const char *test_directory(void);
/* "directory/name" of the above; valid until the test ends. */
const char *test_path(const char *name);

/* Options with one method and one ridge. */
circe_cme_options test_options(circe_method method, const double *ridge);

/* ---- matrices --------------------------------------------------------------------------------------------------- */

circe_mat test_zeros(int64_t rows, int64_t cols, circe_dtype dtype);
/* Independent standard normal, or uniform on (0, 1), float64; `stream` tells the draws of a test apart. */
circe_mat test_normal(uint64_t stream, int64_t rows, int64_t cols);
circe_mat test_uniform(uint64_t stream, int64_t rows, int64_t cols);
/* Whole numbers 0 .. categories-1, float64. */
circe_mat test_categories(uint64_t stream, int64_t rows, int64_t cols, int64_t categories);
circe_mat test_copy(const circe_mat *from, circe_dtype dtype);
/* The rows index[0..n). */
circe_mat test_rows(const circe_mat *from, const int64_t *index, int64_t n);
double test_at(const circe_mat *m, int64_t i, int64_t j);
void test_set(circe_mat *m, int64_t i, int64_t j, double value);
double test_max(const circe_mat *m); /* max |m_ij| */
/* Element (i, j) of a symmetric matrix of which only the lower triangle is written. */
double test_lower(const circe_mat *m, int64_t i, int64_t j);
/* Fills the upper triangle from the lower. */
void test_symmetrise(circe_mat *m);
/* The smallest eigenvalue of a symmetric float64 matrix is above -slack: m + slack I has a Cholesky factor. */
bool test_is_psd(const circe_mat *m, double slack);

/* k(a, b) of a factor, from its definition. */
double test_factor(const circe_kernel_factor *factor, const double *a, const double *b, int64_t cols);
/* The whole kernel, over float64 rows. */
double test_kernel_value(const circe_kernel *kernel, const double *a, const double *b, int64_t cols);

/* ---- comparisons ------------------------------------------------------------------------------------------------ */

/* The call succeeds; else its error text is shown. */
#define assert_ok(call) test_assert_status(call, CIRCE_OK, #call, __FILE__, __LINE__)
/* The call fails with this status, and the last error holds `part`. */
#define assert_refused(call, status, part) test_assert_refused(call, status, part, #call, __FILE__, __LINE__)
/* |a - b| <= tolerance * scale. */
#define assert_near(a, b, tolerance, scale) test_assert_near(a, b, tolerance, scale, #a, __FILE__, __LINE__)
/* max |a_ij - b_ij| <= tolerance * max |b_ij|. */
#define assert_mat_near(a, b, tolerance) test_assert_mat_near(a, b, tolerance, #a, __FILE__, __LINE__)
/* The same bits. */
#define assert_mat_equal(a, b) test_assert_mat_equal(a, b, #a, __FILE__, __LINE__)

void test_assert_status(circe_status status, circe_status expected, const char *call, const char *file, int line);
void test_assert_refused(circe_status status, circe_status expected, const char *part, const char *call,
                         const char *file, int line);
void test_assert_near(double a, double b, double tolerance, double scale, const char *what, const char *file, int line);
void test_assert_mat_near(const circe_mat *a, const circe_mat *b, double tolerance, const char *what, const char *file,
                          int line);
void test_assert_mat_equal(const circe_mat *a, const circe_mat *b, const char *what, const char *file, int line);

/* max |a_ij - b_ij| / max |b_ij|. */
double test_difference(const circe_mat *a, const circe_mat *b);

/* ---- an allocator that counts, and fails when told --------------------------------------------------------------- */

typedef struct test_allocator {
    int64_t calls;   /* of allocate, since the last reset by the test */
    int64_t live;    /* blocks not yet released */
    int64_t fail_at; /* the call (from 0) that returns NULL; -1: none */
    bool failed;
} test_allocator;

circe_allocator test_counting(test_allocator *counter);

/* ---- golden files (CIRCE_TEST_GOLDEN) -----------------------------------------------------------------------------
 */

circe_mat test_golden_matrix(const char *folder, const char *name);
char *test_golden_text(const char *folder, const char *name);
