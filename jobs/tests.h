/* The tests and what each of them uses. To add one, add a row to the table in tests.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "circe/test_job.h"

/* What a test uses beyond x, y and z. Options for something that it does not use are ignored, with a note. */
enum {
    TEST_KERNELS = 1 << 0,    /* of x and z */
    TEST_CONDITIONS = 1 << 1, /* on y */
    TEST_AUXILIARY = 1 << 2,  /* more pairs (y, z) */
    TEST_SPLIT = 1 << 3,      /* --test-share */
    TEST_MEAN = 1 << 4,       /* --mean */
    TEST_REGRESSION = 1 << 5, /* --regressor */
    TEST_MILLIONS = 1 << 6,   /* of rows, in seconds */
    TEST_WEIGHTS = 1 << 7,    /* --weights */
};

typedef struct test_kind {
    const char *name;
    circe_test_method method;
    unsigned uses;
    const char *summary; /* for help: what it is, what it is blind to */
} test_kind;

extern const test_kind tests[];
extern const size_t n_tests;

/* The word for all of them, and what it does. */
extern const char test_all_name[];
extern const char test_all_summary[];

/* The words of --regressor; else it is a file of predictions. */
extern const char test_regressors[];

/* NULL if there is none. */
const test_kind *test_find(const char *name);

/* The library's options for one of the tests as the job's options have them, without what belongs to its rows. A
 * --regressor that is a file is left out. */
circe_test_options test_options_of(const circe_test_job_options *from, const test_kind *what);

/* Memory for `points` places along a column of y. */
circe_effects_along test_along_make(arena *owner, const char *column, int64_t points);

/* How the distribution under independence was obtained, in words: "random signs on the residuals". */
const char *test_null_words(circe_test_null null);
