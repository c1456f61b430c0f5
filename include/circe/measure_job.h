/* A measure of dependence, from files or a table to a value. */
#ifndef CIRCE_MEASURE_JOB_H
#define CIRCE_MEASURE_JOB_H

#include "circe/blocks.h"
#include "circe/job.h"
#include "circe/measuring.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_measure_job_options {
#include "circe/options/measure.def"
} circe_measure_job_options;
#undef CIRCE_OPTION

/* The schema of the options, and the function that sets every field to its default. */
CIRCE_API extern const circe_schema circe_measure_job_schema;
/* Sets every field to its default. */
CIRCE_API void circe_measure_job_options_init(circe_measure_job_options *options);

/* One value. */
typedef struct circe_measured {
    const char *measure;
    const char *estimator; /* NULL: the measure has one form */
    const char *reading;   /* a few words on how to read the value: what 0 means, on which scale */
    int skipped;           /* because it would take too long; a warning says so */
    char *error;           /* why it failed; NULL: it did not */
    double value, seconds;
    circe_block_result blocks; /* blocks.blocks = 0: all rows at once */
} circe_measured;

/* Where the regression of z on y came from. */
typedef enum circe_mean_source {
    CIRCE_MEAN_OF_BATCH = 0, /* the measured rows themselves, or no regression */
    CIRCE_MEAN_FROM_MODEL = 1,
    CIRCE_MEAN_FROM_HOLDOUT = 2,
    CIRCE_MEAN_FROM_SPLIT = 3, /* rows set aside at random */
} circe_mean_source;

typedef struct circe_measure_job_result {
    const char *name;       /* "circe", ...; "all" */
    circe_measured *values; /* one value, or one per measure */
    size_t n, n_failed;
    const char *meaning; /* a sentence on the measure; NULL for "all" */
    unsigned uses;       /* CIRCE_USES_... of the measure, or of all of them together */
    int hold_out;        /* hscic and gcm took the mean of z from `source` */
    circe_mean_source source;
    int64_t rows;                 /* that the value describes */
    int64_t batch;                /* rows measured at once, or the sample that chose kernels and ridge */
    int64_t read, given, dropped; /* rows after --rows; of these, complete ones; and those with missing cells */
    int64_t holdout, dropped_holdout;
    int in_blocks;
    circe_dtype dtype;
    int64_t seed;
    circe_kernels kernels; /* NULL: not used */
    double ridge;          /* 0: none */
    double epsilon;
    circe_cme *mean;   /* from `source`; NULL: not used */
    circe_cme *choice; /* leave-one-out on the measured rows; NULL: there was nothing to choose */
    const char *transform, *method, *regression, *combine;
    char *model;    /* the file of the mean; NULL: none */
    char *weights;  /* the column or file of the weights; NULL: rows count alike */
    char *gradient; /* the file of the gradient; NULL: none */
    circe_mat grad; /* data NULL: not asked for */
    double seconds;
    circe_columns columns;
    circe_notes warnings;
} circe_measure_job_result;

/* Measures the dependence of x, y and z: columns of `table` or, if it is NULL, of the files that the options name.
 * `measure` is a name or "all". With "all", a measure that fails says why, and the others still have values. watch may
 * be NULL. */
CIRCE_API circe_status circe_measure_run(circe_context *context, const circe_table *table, const char *measure,
                                         const circe_measure_job_options *options, const circe_watch *watch,
                                         circe_measure_job_result **result);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_measure_job_result_free(circe_measure_job_result *result);

/* The result as `circe measure --json` prints it, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_measure_json(const circe_measure_job_result *result);

CIRCE_END_DECLS

#endif
