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

/* p-values of data sets that were drawn again under independence, with their histogram. */
enum { CIRCE_CALIBRATION_BINS = 20 };

typedef struct circe_test_calibration {
    double *p_values; /* (repetitions) */
    int64_t repetitions, rows;
    int64_t counts[CIRCE_CALIBRATION_BINS];
    double seconds;
    circe_calibration summary;
} circe_test_calibration;

/* Where the dependence sits along one column of y: see circe_test_along. */
typedef struct circe_test_profile {
    char *column; /* its name; NULL: there is none */
    int64_t points;
    double *place, *value, *lower, *upper, *null_upper; /* (points) */
} circe_test_profile;

CIRCE_END_DECLS

#endif
