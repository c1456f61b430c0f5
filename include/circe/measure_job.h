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

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_measure_job_schema;
CIRCE_API void circe_measure_job_options_init(circe_measure_job_options *options);

/* One value. */
typedef struct circe_measured {
    const char *measure;
    const char *estimator; /* NULL: the measure has one form */
    const char *reading;   /* a few words: what 0 means, which scale */
    int skipped;           /* for its cost; a warning says so */
    char *error;           /* why there is no value; NULL: there is one, or it was skipped */
    double value, seconds;
    circe_block_result blocks; /* blocks.blocks = 0: all rows at once */
} circe_measured;

/* Where the regression of z on y came from. */
typedef enum circe_mean_source {
    CIRCE_MEAN_OF_BATCH = 0, /* the measured rows themselves, or there is none */
    CIRCE_MEAN_FROM_MODEL = 1,
    CIRCE_MEAN_FROM_HOLDOUT = 2,
    CIRCE_MEAN_FROM_SPLIT = 3, /* rows set aside by the seed */
} circe_mean_source;

typedef struct circe_measure_job_result {
    const char *name;       /* "circe", ...; "all" */
    circe_measured *values; /* one, or those of all measures */
    size_t n, n_failed;
    const char *meaning; /* of the one, in a sentence; NULL: of all */
    unsigned uses;       /* CIRCE_USES_..., of it or of all together */
    int hold_out;        /* hscic and gcm took the mean of z from the source */
    circe_mean_source source;
    int64_t rows;                 /* that a value stands for */
    int64_t batch;                /* measured at once, or the sample that settled kernels and ridge */
    int64_t read, given, dropped; /* after --rows; without missing cells; with them */
    int64_t holdout, dropped_holdout;
    int in_blocks;
    circe_dtype dtype;
    int64_t seed;
    circe_kernels kernels; /* NULL: not used */
    double ridge;          /* 0: none */
    double epsilon;
    circe_cme *mean;   /* from the source; NULL: none is used */
    circe_cme *choice; /* leave-one-out on the measured rows; NULL: nothing was to choose */
    const char *transform, *method, *regression, *combine;
    char *model;    /* the file of the mean, and */
    char *gradient; /* that of the gradient; NULL: none */
    circe_mat grad; /* data NULL: not asked for */
    double seconds;
    circe_columns columns;
    circe_notes warnings;
} circe_measure_job_result;

/* Measures x, y and z: columns of `table`, or (NULL) of the files that the options name. `measure` is the name of one,
 * or "all", where one that fails says why and the others still come. watch may be NULL. */
CIRCE_API circe_status circe_measure_run(circe_context *context, const circe_table *table, const char *measure,
                                         const circe_measure_job_options *options, const circe_watch *watch,
                                         circe_measure_job_result **result);
CIRCE_API void circe_measure_job_result_free(circe_measure_job_result *result);

/* The result as `circe measure --json` prints it, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_measure_json(const circe_measure_job_result *result);

CIRCE_END_DECLS

#endif
