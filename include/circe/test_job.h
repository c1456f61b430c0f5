/* A test of conditional independence, from files or a table to a p-value. */
#ifndef CIRCE_TEST_JOB_H
#define CIRCE_TEST_JOB_H

#include "circe/job.h"
#include "circe/test.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_test_job_options {
#include "circe/options/test.def"
} circe_test_job_options;
#undef CIRCE_OPTION

/* The schema of the options, and the function that sets every field to its default. */
CIRCE_API extern const circe_schema circe_test_job_schema;
/* Sets every field to its default. */
CIRCE_API void circe_test_job_options_init(circe_test_job_options *options);

/* p-values of data sets drawn again under independence, and their histogram. */
#define CIRCE_CALIBRATION_BINS 20

typedef struct circe_calibration_draws {
    double *p_values; /* (repetitions) */
    int64_t repetitions, rows;
    int64_t counts[CIRCE_CALIBRATION_BINS];
    double seconds;
    circe_calibration summary;
} circe_calibration_draws;

/* Where along one column of y the dependence occurs: arrays of `points` elements (circe_test_along). */
typedef struct circe_effects_along {
    char *column; /* its name; NULL: not computed */
    int64_t points;
    double *place, *value, *lower, *upper, *null_upper;
} circe_effects_along;

typedef struct circe_tested {
    const char *method;
    char *error; /* why there is no result; NULL: there is one */
    circe_test_result result;
} circe_tested;

typedef struct circe_test_job_result {
    const char *method;  /* "kci", ...; "all" */
    circe_tested *tests; /* one, or one per method */
    size_t n, n_failed;
    int conditional;              /* 0: without y */
    int64_t rows, given, dropped; /* rows tested; complete rows; rows left out because cells are missing */
    int64_t seed;
    double alpha;
    const char *transform;
    circe_columns columns;
    circe_calibration_draws *calibration; /* calibration and effects are NULL unless asked for */
    circe_effects *effects;
    circe_effects_along along;
    circe_notes warnings;
} circe_test_job_result;

/* Tests x, y and z: columns of `table` or, if it is NULL, of the files that the options name. `method` is the name of a
 * method, such as "kci", or "all". With "all", a test that fails says why, and the others still have results. watch may
 * be NULL. */
CIRCE_API circe_status circe_test_run(circe_context *context, const circe_table *table, const char *method,
                                      const circe_test_job_options *options, const circe_watch *watch,
                                      circe_test_job_result **result);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_test_job_result_free(circe_test_job_result *result);

/* The result as `circe test --json` prints it, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_test_json(const circe_test_job_result *result);

/* ---- many tests -------------------------------------------------------------------------------------------------- */

/* Columns of the table, written as in the options x, y and z. y NULL or empty: the test is marginal. */
typedef struct circe_question {
    const char *x, *y, *z;
} circe_question;

typedef struct circe_answer {
    char *x, *y, *z; /* y NULL: the test is marginal */
    char *error;     /* why there is no result; NULL: there is one */
    int cached;      /* it came from the folder `cache` */
    int64_t dropped; /* rows with a missing cell in one of its columns */
    double p_holm;   /* adjusted for the number of tests: bounds the chance of any false rejection (Holm) */
    double p_bh;     /* bounds the expected share of false rejections (Benjamini and Hochberg) */
    circe_test_result result;
} circe_answer;

typedef struct circe_tests_result {
    const char *method;
    circe_answer *answers; /* (n), in the order of the questions */
    size_t n, n_failed, n_cached;
    int64_t rows, seed;
    double alpha;
    circe_notes warnings;
} circe_tests_result;

/* Runs n tests on `table` or, if it is NULL, on the file `data` of the options. questions NULL: the tests that the file
 * `pairs` lists. Tests on the same y share their regressions, and the context's threads run tests side by side. With
 * missing = drop, each test leaves out the rows with missing cells in its own columns. A test that fails says why, and
 * the others still have results. */
CIRCE_API circe_status circe_tests_run(circe_context *context, const circe_table *table, const char *method,
                                       const circe_question *questions, int64_t n,
                                       const circe_test_job_options *options, const circe_watch *watch,
                                       circe_tests_result **result);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_tests_result_free(circe_tests_result *result);

/* As `circe test --pairs --json` and `--csv` print it, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_tests_json(const circe_tests_result *result);
/* The results as `circe test --pairs --csv` prints them. */
CIRCE_API char *circe_tests_csv(const circe_tests_result *result);

CIRCE_END_DECLS

#endif
