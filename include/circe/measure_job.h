/* A measure of dependence, from files or a table to a value. */
#ifndef CIRCE_MEASURE_JOB_H
#define CIRCE_MEASURE_JOB_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_measure_job_options {
#include "circe/options/measure.def"
} circe_measure_job_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_measure_job_schema;
CIRCE_API void circe_measure_job_options_init(circe_measure_job_options *options);

CIRCE_END_DECLS

#endif
