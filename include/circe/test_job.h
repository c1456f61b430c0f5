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

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_test_job_schema;
CIRCE_API void circe_test_job_options_init(circe_test_job_options *options);

/* p-values of data sets that were drawn again under independence, and their histogram. */
#define CIRCE_CALIBRATION_BINS 20

typedef struct circe_calibration_draws {
    double *p_values; /* (repetitions) */
    int64_t repetitions, rows;
    int64_t counts[CIRCE_CALIBRATION_BINS];
    double seconds;
    circe_calibration summary;
} circe_calibration_draws;

/* Where the dependence sits along one column of y: arrays of `points`. */
typedef struct circe_effects_along {
    char *column; /* its name; NULL: there is none */
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
    circe_tested *tests; /* one, or all of them */
    size_t n, n_failed;
    int conditional;              /* 0: without y */
    int64_t rows, given, dropped; /* tested; without missing cells; with them */
    int64_t seed;
    double alpha;
    const char *transform;
    circe_columns columns;
    circe_calibration_draws *calibration; /* NULL: not asked for; so is the next */
    circe_effects *effects;
    circe_effects_along along;
    circe_notes warnings;
} circe_test_job_result;

/* Tests x, y and z: columns of `table`, or (NULL) of the files that the options name. `method` is "kci", "circe",
 * "splitkci", "gcm", "rcot", "hsic" or "all", where a test that fails says why and the others still come. watch may be
 * NULL. */
CIRCE_API circe_status circe_test_run(circe_context *context, const circe_table *table, const char *method,
                                      const circe_test_job_options *options, const circe_watch *watch,
                                      circe_test_job_result **result);
CIRCE_API void circe_test_job_result_free(circe_test_job_result *result);

/* The result as `circe test --json` prints it, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_test_json(const circe_test_job_result *result);

CIRCE_END_DECLS

#endif
